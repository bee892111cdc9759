//! Options that a server pushes after the handshake: addresses, name servers, the cipher, keepalive times.
//!
//! Routes and other options that would change a machine have no effect. An option that would change the packet format
//! is either supported or ends the tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use zeroize::Zeroizing;

use super::data::{Cipher, Format};
use super::dns::{self, MAX_DNS, usable};
use super::filters::Action;
use super::profile::Profile;
use crate::OpenError;

pub(super) struct PushedOptions {
    pub(super) v4: Option<Ipv4Addr>,
    pub(super) v6: Option<Ipv6Addr>,
    pub(super) dns: Vec<IpAddr>,
    pub(super) format: Format,
    /// True when the data keys are exported from TLS.
    pub(super) exports_keys: bool,
    /// The server expects an exit notice on the control channel.
    pub(super) exit_by_control: bool,
    pub(super) ping: Option<Duration>,
    pub(super) ping_restart: Option<Duration>,
    pub(super) mtu: Option<usize>,
    /// Replaces the password in later key agreements.
    pub(super) token: Option<Zeroizing<String>>,
}

impl PushedOptions {
    /// Reads the comma-separated options of a `PUSH_REPLY`, or of several joined parts.
    pub(super) fn read(options: &str, profile: &Profile) -> Result<Self, OpenError> {
        let (mut cipher, mut peer) = (None, None);
        let mut pushed = Self {
            v4: None,
            v6: None,
            dns: Vec::new(),
            format: Format { cipher: Cipher::Aes256Gcm, peer: None },
            exports_keys: false,
            exit_by_control: false,
            ping: profile.ping,
            ping_restart: profile.ping_restart,
            mtu: None,
            token: None,
        };
        for option in options.split(',').map(str::trim) {
            match profile.filters.iter().find(|filter| option.starts_with(&filter.prefix)).map(|filter| filter.action) {
                Some(Action::Ignore) => continue,
                Some(Action::Reject) => return Err(OpenError::Protocol("it sets what the profile rejects")),
                Some(Action::Accept) | None => {}
            }
            let words: Vec<&str> = option.split_ascii_whitespace().collect();
            match words.as_slice() {
                ["ifconfig", own, ..] => pushed.v4 = Some(address(own)?),
                ["ifconfig-ipv6", own, ..] => pushed.v6 = Some(address(own.split('/').next().unwrap_or_default())?),
                ["dhcp-option", "DNS" | "DNS6", server] => pushed.dns.extend(usable(server)),
                ["dns", rest @ ..] => pushed.dns.extend(dns::servers(rest)),
                ["cipher", name] => {
                    let offered = Cipher::named(name).filter(|cipher| profile.ciphers.contains(cipher));
                    cipher = Some(offered.ok_or(OpenError::Protocol("it sets a cipher that was not offered"))?);
                }
                ["peer-id", number] => {
                    let number = number.parse().ok().filter(|number: &u32| *number < 1 << 24);
                    peer = Some(number.ok_or(OpenError::Protocol("it sets an invalid peer id"))?);
                }
                ["key-derivation", "tls-ekm"] => pushed.exports_keys = true,
                ["protocol-flags", flags @ ..] => {
                    for flag in flags {
                        match *flag {
                            "tls-ekm" => pushed.exports_keys = true,
                            "cc-exit" => pushed.exit_by_control = true,
                            _ => return Err(OpenError::Protocol("it sets a protocol flag that was not offered")),
                        }
                    }
                }
                ["ping", seconds] => pushed.ping = Some(duration(seconds)?),
                ["ping-restart" | "ping-exit", seconds] => pushed.ping_restart = Some(duration(seconds)?),
                ["tun-mtu", bytes, ..] => pushed.mtu = bytes.parse().ok(),
                ["auth-token", token] => pushed.token = Some(Zeroizing::new((*token).to_owned())),
                // Options that would change the packet format.
                ["comp-lzo" | "compress", ..] => return Err(OpenError::Protocol("it sets compression")),
                ["fragment", ..] => return Err(OpenError::Protocol("it sets fragmentation")),
                ["key-derivation", ..] => {
                    return Err(OpenError::Protocol("it sets an unknown key derivation"));
                }
                ["dev-type", "tap"] => return Err(OpenError::Protocol("it sets a tap device")),
                _ => {}
            }
        }
        let cipher = cipher
            .or(profile.cipher)
            .ok_or(OpenError::Protocol("it negotiates no cipher, and the profile has no supported one"))?;
        pushed.format = Format { cipher, peer };
        pushed.dns.extend(&profile.dns);
        pushed.dns.truncate(MAX_DNS);
        Ok(pushed)
    }
}

fn address<T: std::str::FromStr + Copy + Into<IpAddr>>(text: &str) -> Result<T, OpenError> {
    let address = text.parse::<T>().ok().filter(|_| usable(text).is_some());
    address.ok_or(OpenError::Protocol("it sets an invalid address"))
}

fn duration(seconds: &str) -> Result<Duration, OpenError> {
    seconds
        .parse::<u32>()
        .map(|seconds| Duration::from_secs(seconds.into()))
        .map_err(|_| OpenError::Protocol("it sets an invalid time"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::data::Cipher;
    use super::super::profile::tests::{profile, with};
    use super::{OpenError, PushedOptions};

    fn read(options: &str, lines: &str) -> Result<PushedOptions, OpenError> {
        PushedOptions::read(options, &profile(&with(lines)))
    }

    #[test]
    fn supported_options_of_a_reply_are_read() {
        let reply = "redirect-gateway def1,dhcp-option DNS 10.8.0.1,dhcp-option DOMAIN x,dns server 0 address 10.8.0.2 fd00::2,route-gateway 10.8.0.1,topology subnet,\
                     ping 10,ping-restart 60,ifconfig-ipv6 fd00::5/64 fd00::1,ifconfig 10.8.0.5 255.255.255.0,peer-id 3,cipher AES-128-GCM,protocol-flags cc-exit tls-ekm,\
                     tun-mtu 1400,auth-token SESS_x,block-ipv6,explicit-exit-notify";
        let pushed = read(reply, "dhcp-option DNS 9.9.9.9\n").expect("read");
        assert_eq!(pushed.v4, Some([10, 8, 0, 5].into()));
        assert_eq!(pushed.v6, "fd00::5".parse().ok());
        let dns: Vec<String> = pushed.dns.iter().map(ToString::to_string).collect();
        assert_eq!(dns, ["10.8.0.1", "10.8.0.2", "fd00::2", "9.9.9.9"]);
        assert_eq!((pushed.format.cipher, pushed.format.peer), (Cipher::Aes128Gcm, Some(3)));
        assert!(pushed.exports_keys && pushed.exit_by_control);
        assert_eq!((pushed.ping, pushed.ping_restart), (Some(Duration::from_secs(10)), Some(Duration::from_mins(1))));
        assert_eq!((pushed.mtu, pushed.token.as_deref().map(String::as_str)), (Some(1400), Some("SESS_x")));
    }

    #[test]
    fn options_that_change_the_packet_format_are_refused() {
        for bad in [
            "cipher BF-CBC",
            "cipher AES-256-CBC",
            "cipher none",
            "cipher CHACHA20-POLY1305",
            "comp-lzo no",
            "compress lz4-v2",
            "compress",
            "fragment 1200",
            "key-derivation other",
            "protocol-flags aead-epoch",
            "protocol-flags dyn-tls-crypt",
            "peer-id 16777216",
            "peer-id x",
            "ifconfig 0.0.0.0 255.255.255.0",
            "ifconfig 224.0.0.1 255.255.255.0",
            "ifconfig 255.255.255.255 255.255.255.0",
            "ifconfig x y",
            "ifconfig-ipv6 ff02::1/64 ::",
            "ping x",
            "dev-type tap",
        ] {
            let options = format!("ifconfig 10.8.0.5 255.255.255.0,cipher AES-256-GCM,{bad}");
            assert!(read(&options, "data-ciphers AES-256-GCM\n").is_err(), "{bad}");
        }
        assert!(read("ifconfig 10.8.0.5 255.255.255.0", "cipher AES-256-CBC\n").is_err(), "no cipher at all");
        assert_eq!(read("", "cipher aes-128-gcm\n").expect("the profile's").format.cipher, Cipher::Aes128Gcm);
    }

    #[test]
    fn pull_filters_apply_in_order() {
        let lines = "pull-filter accept \"dhcp-option DNS 10.\"\npull-filter ignore \"dhcp-option \"\npull-filter reject ping\n";
        let pushed = read("dhcp-option DNS 10.8.0.1,dhcp-option DNS 8.8.8.8,cipher AES-256-GCM", lines).expect("read");
        assert_eq!(pushed.dns, [std::net::IpAddr::from([10, 8, 0, 1])]);
        assert!(read("ping 10,cipher AES-256-GCM", lines).is_err());
        let pushed = read(
            "dhcp-option DNS 10.8.0.1,dns server 0 address 10.8.0.2,cipher AES-256-GCM",
            "route-nopull\ndhcp-option DNS 1.1.1.1\n",
        )
        .expect("read");
        assert_eq!(pushed.dns, [std::net::IpAddr::from([1, 1, 1, 1])]);
    }
}
