//! Parser of wg-quick files without device settings. A setting that cannot be honoured is rejected by name.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use url::Host;
use zeroize::Zeroizing;

use crate::{ConfigError, Endpoint};

const LONGEST: usize = 16 << 10;

/// The stack limits them.
const ADDRESSES: usize = 8;

/// Ethernet's 1,500 bytes minus the overhead.
const MTU: usize = 1420;

/// Minimum MTU of IPv4 and of IPv6, and the maximum MTU.
const SMALLEST: [usize; 2] = [576, 1280];
const LARGEST: usize = 9000;

type Key = Zeroizing<[u8; 32]>;

/// A wg-quick file with one peer. Its keys are wiped on drop, and `Debug` does not print them.
#[derive(Clone)]
pub struct Config {
    pub(super) private_key: Key,
    pub(super) addresses: Vec<IpNet>,
    pub(super) name_servers: Vec<IpAddr>,
    pub(super) mtu: usize,
    pub(super) public_key: [u8; 32],
    pub(super) preshared_key: Option<Key>,
    pub(super) allowed: Vec<IpNet>,
    /// Interval in seconds.
    pub(super) keepalive: Option<u16>,
    endpoint: Endpoint,
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Config(…)")
    }
}

impl Config {
    /// Parses a wg-quick file: at most 16 KiB, exactly one `[Peer]`, and at least one name server.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > LONGEST {
            return Err(error("config", "is longer than 16 KiB"));
        }
        let mut draft = Draft::default();
        let mut section = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if line.starts_with('[') {
                section = Some(draft.begin(line, number)?);
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(error(format!("line {number}"), "has no '='"));
            };
            draft.take(section, name.trim(), value.trim(), number)?;
        }
        draft.finish()
    }

    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Interface,
    Peer,
}

#[derive(Default)]
struct Draft {
    peers: usize,
    private_key: Option<Key>,
    addresses: Vec<IpNet>,
    name_servers: Vec<IpAddr>,
    mtu: Option<usize>,
    public_key: Option<[u8; 32]>,
    preshared_key: Option<Key>,
    allowed: Vec<IpNet>,
    endpoint: Option<Endpoint>,
    /// Seconds; 0 disables keepalives.
    keepalive: Option<u16>,
}

impl Draft {
    fn begin(&mut self, line: &str, number: usize) -> Result<Section, ConfigError> {
        if line.eq_ignore_ascii_case("[interface]") {
            Ok(Section::Interface)
        } else if line.eq_ignore_ascii_case("[peer]") {
            self.peers += 1;
            Ok(Section::Peer)
        } else {
            Err(error(format!("line {number}"), "begins a section that is neither [Interface] nor [Peer]"))
        }
    }

    /// Names are case-insensitive, as in wg-quick.
    fn take(&mut self, section: Option<Section>, name: &str, value: &str, number: usize) -> Result<(), ConfigError> {
        let Some(section) = section else {
            return Err(error(spelled(name, number), "is outside any section"));
        };
        match (name.to_ascii_lowercase().as_str(), section) {
            ("privatekey", Section::Interface) => once(&mut self.private_key, "PrivateKey", key("PrivateKey", value)?),
            ("address", Section::Interface) => {
                self.addresses.extend(networks("Address", value)?);
                Ok(())
            }
            ("dns", Section::Interface) => {
                for item in items(value) {
                    let address =
                        item.parse().map_err(|_| error("DNS", "takes addresses only, and no search domains"))?;
                    self.name_servers.push(address);
                }
                Ok(())
            }
            ("mtu", Section::Interface) => {
                let mtu = value.parse().ok().filter(|mtu| (SMALLEST[0]..=LARGEST).contains(mtu));
                once(&mut self.mtu, "MTU", mtu.ok_or_else(|| error("MTU", "is not a number from 576 to 9000"))?)
            }
            ("preup" | "postup" | "predown" | "postdown", Section::Interface) => {
                Err(error(spelled(name, number), "commands are not run"))
            }
            ("table" | "saveconfig" | "fwmark" | "listenport", Section::Interface) => {
                Err(error(spelled(name, number), "configures a network device, which the tunnel does not have"))
            }
            ("publickey", Section::Peer) => once(&mut self.public_key, "PublicKey", *key("PublicKey", value)?),
            ("presharedkey", Section::Peer) => {
                once(&mut self.preshared_key, "PresharedKey", key("PresharedKey", value)?)
            }
            ("allowedips", Section::Peer) => {
                self.allowed.extend(networks("AllowedIPs", value)?);
                Ok(())
            }
            ("endpoint", Section::Peer) => once(&mut self.endpoint, "Endpoint", endpoint(value)?),
            ("persistentkeepalive", Section::Peer) => {
                let off = value.eq_ignore_ascii_case("off");
                let seconds = if off { Some(0) } else { value.parse::<u16>().ok() };
                let seconds =
                    seconds.ok_or_else(|| error("PersistentKeepalive", "is neither off nor at most 65535 seconds"))?;
                once(&mut self.keepalive, "PersistentKeepalive", seconds)
            }
            (_, Section::Interface) => Err(error(spelled(name, number), "is unknown in [Interface]")),
            (_, Section::Peer) => Err(error(spelled(name, number), "is unknown in [Peer]")),
        }
    }

    fn finish(self) -> Result<Config, ConfigError> {
        if self.peers != 1 {
            return Err(error("[Peer]", "must occur exactly once"));
        }
        let Self { addresses, name_servers, .. } = self;
        if addresses.is_empty() || addresses.len() > ADDRESSES {
            return Err(error("Address", "must have one to eight addresses"));
        }
        let mtu = self.mtu.unwrap_or(MTU);
        if mtu < SMALLEST[1] && addresses.iter().any(|address| address.addr().is_ipv6()) {
            return Err(error("MTU", "is less than the 1280 bytes that IPv6 needs"));
        }
        let allowed = IpNet::aggregate(&self.allowed);
        if allowed.is_empty() {
            return Err(error("AllowedIPs", "is missing: the tunnel would have no routes"));
        }
        if name_servers.is_empty() {
            return Err(error("DNS", "is missing: names are resolved inside the tunnel only"));
        }
        let reached = |server: &IpAddr| {
            allowed.iter().any(|network| network.contains(server))
                && addresses.iter().any(|address| address.addr().is_ipv4() == server.is_ipv4())
        };
        let name_servers: Vec<_> = name_servers.into_iter().filter(reached).collect();
        if name_servers.is_empty() {
            return Err(error("DNS", "has no server that Address and AllowedIPs reach"));
        }
        Ok(Config {
            private_key: self.private_key.ok_or_else(|| error("PrivateKey", "is missing"))?,
            addresses,
            name_servers,
            mtu,
            public_key: self.public_key.ok_or_else(|| error("PublicKey", "is missing"))?,
            preshared_key: self.preshared_key,
            allowed,
            keepalive: self.keepalive.filter(|seconds| *seconds > 0),
            endpoint: self.endpoint.ok_or_else(|| error("Endpoint", "is missing"))?,
        })
    }
}

fn error(directive: impl Into<String>, reason: &str) -> ConfigError {
    ConfigError { directive: directive.into(), reason: reason.to_owned() }
}

/// The line's number if the text may be a secret: a key pasted on its own line ends with `=` and looks like a directive
/// without a value.
fn spelled(name: &str, number: usize) -> String {
    let is_directive = (1..=24).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_directive { name.to_owned() } else { format!("line {number}") }
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), ConfigError> {
    if place.replace(value).is_some() { Err(error(name, "occurs more than once")) } else { Ok(()) }
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn key(name: &str, value: &str) -> Result<Key, ConfigError> {
    // The size that the decoder requires.
    let mut decoded = Zeroizing::new([0; 36]);
    let length = if value.len() == 44 { STANDARD.decode_slice(value, decoded.as_mut_slice()).ok() } else { None };
    if length != Some(32) {
        return Err(error(name, "is not 32 bytes in base64"));
    }
    let mut key = Key::default();
    key.copy_from_slice(&decoded[..32]);
    Ok(key)
}

fn networks(name: &str, value: &str) -> Result<Vec<IpNet>, ConfigError> {
    let network = |item: &str| item.parse::<IpNet>().ok().or_else(|| item.parse::<IpAddr>().map(IpNet::from).ok());
    items(value)
        .map(|item| network(item).ok_or_else(|| error(name, "contains an invalid address or network")))
        .collect()
}

fn endpoint(value: &str) -> Result<Endpoint, ConfigError> {
    let wrong = || error("Endpoint", "is not a host and a port");
    let (host, port) = value.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
    Ok(Endpoint { host: Host::parse(host).map_err(|_| wrong())?, port })
}

#[cfg(test)]
mod tests;
