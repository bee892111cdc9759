//! Where a browser wants to go: a name stays a name, and an address is one however it is written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use fast_socks5::util::target_addr::TargetAddr;
use url::Host;

use crate::refusal::Refusal;

/// Bytes of the longest name that there can be.
const NAME_BYTES: usize = 253;

/// Where a browser wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// As the URL standard reads it, so that nothing in it ends a line or begins a port, and `127.1` is an address.
    pub host: Host,
    /// Its port.
    pub port: u16,
}

impl Target {
    /// Reads what the browser said.
    pub(crate) fn read(said: TargetAddr) -> Result<Self, Refusal> {
        match said {
            TargetAddr::Ip(address) => Ok(address.into()),
            TargetAddr::Domain(name, port) => {
                // An address of IPv6 as a name has no brackets.
                if let Ok(ip) = name.parse::<IpAddr>() {
                    return Ok(SocketAddr::new(ip, port).into());
                }
                match Host::parse(&name) {
                    Ok(Host::Domain(name)) if name.len() > NAME_BYTES => Err(Refusal::NameNotFound),
                    Ok(host) => Ok(Self { host, port }),
                    Err(_) => Err(Refusal::NameNotFound),
                }
            }
        }
    }

    /// The address, if it is none but that.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = match &self.host {
            Host::Domain(_) => return None,
            Host::Ipv4(v4) => (*v4).into(),
            Host::Ipv6(v6) => (*v6).into(),
        };
        Some(SocketAddr::new(ip, self.port))
    }

    /// Whether it is a name for whoever is asked for it (RFC 6761, 6.3).
    pub(crate) fn is_localhost(&self) -> bool {
        matches!(&self.host, Host::Domain(name) if {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        })
    }

    /// As SOCKS 5 says it.
    pub(crate) fn wire(&self) -> TargetAddr {
        match (self.address(), &self.host) {
            (None, Host::Domain(name)) => TargetAddr::Domain(name.clone(), self.port),
            (address, _) => TargetAddr::Ip(address.unwrap_or_else(|| unreachable!("what is no name is an address"))),
        }
    }
}

/// A host and a port, as `example.com:443`, or `[2001:db8::1]:443`.
impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or("must be a host and a port, such as example.com:443")?;
        let host = Host::parse(host).map_err(|_| "has a host that is neither a name nor an address")?;
        let port = port.parse().map_err(|_| "has a port that is none")?;
        Ok(Self { host, port })
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        let host = match address.ip() {
            IpAddr::V4(v4) => Host::Ipv4(v4),
            IpAddr::V6(v6) => Host::Ipv6(v6),
        };
        Self { host, port: address.port() }
    }
}

/// As HTTP says it.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}
