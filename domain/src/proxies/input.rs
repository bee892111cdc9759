//! Parses and validates the values of a proxy that a customer sends.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use kitfleet_types::addresses::Destinations;
use kitfleet_types::validation::{Invalid, Rules};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Host;
use zeroize::Zeroizing;

use super::Scheme;

/// Limit of SOCKS5.
const MAX_CREDENTIAL_BYTES: usize = 255;
const MAX_LABEL_CHARS: usize = 120;
/// Limit of DNS.
const MAX_HOST_BYTES: usize = 253;
const PRIVATE: &str = "must not be a private address";

/// A customer cannot read a stored secret, so a change of other fields must be possible without sending it again.
#[derive(Clone, Default)]
pub enum Change {
    /// The field was absent.
    #[default]
    Keep,
    /// The field was `null`.
    Remove,
    Set(Zeroizing<String>),
}

impl Change {
    #[must_use]
    pub fn sent(&self) -> Option<&str> {
        match self {
            Self::Set(secret) => Some(secret),
            Self::Keep | Self::Remove => None,
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep",
            Self::Remove => "Remove",
            Self::Set(_) => "Set(…)",
        })
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // An error message of serde would contain the value.
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Remove),
            Value::String(secret) => Ok(Self::Set(Zeroizing::new(secret))),
            _ => Err(D::Error::custom("must be a string or null")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: Host,
    pub port: u16,
}

/// Values of a proxy as a customer sent them, not yet validated.
#[derive(Debug)]
pub struct ProxyInput {
    pub label: String,
    pub scheme: Scheme,
    pub host: Option<String>,
    pub port: Option<u64>,
    pub username: Option<String>,
    pub password: Change,
    pub config: Change,
}

#[derive(Debug)]
pub struct Proxy {
    pub(super) label: String,
    pub(super) scheme: Scheme,
    /// `None` when the endpoint does not change.
    pub(super) at: Option<Endpoint>,
    pub(super) username: Option<String>,
    pub(super) password: Change,
    pub(super) config: Change,
}

#[derive(Clone, Copy)]
pub struct Checks<'a> {
    pub destinations: &'a Destinations,
    /// Returns the endpoint of the server, or an error message that contains none of the configuration's values.
    pub read_config: fn(Scheme, &str) -> Result<Endpoint, String>,
}

impl ProxyInput {
    /// An existing proxy has the scheme `before` (contract: proxies 2 to 6).
    ///
    /// No message contains a secret.
    pub fn check(self, before: Option<Scheme>, checks: Checks<'_>) -> Result<Proxy, Invalid> {
        let Self { label, scheme, host, port, username, password, config } = self;
        if let Some(before) = before.filter(|before| *before != scheme) {
            return Err(Invalid::field("scheme", format!("cannot change; it is {}", before.name())));
        }
        let mut rules = Rules::default();
        let label = label.trim();
        rules.length(label, 1, MAX_LABEL_CHARS, "label");
        rules.require(!label.contains(char::is_control), "label", "must not contain control characters");
        require_credential(&mut rules, "username", username.as_deref());
        require_credential(&mut rules, "password", password.sent());
        let has_colon = scheme == Scheme::Http && username.as_ref().is_some_and(|name| name.contains(':'));
        rules.require(
            !has_colon,
            "username",
            "must not contain a colon, which ends the user name in Basic credentials",
        );
        // An existing proxy may have a stored user name.
        let is_anonymous = username.is_none() && password.sent().is_some() && before.is_none();
        rules.require(!is_anonymous, "username", "is required with a password");
        let at = if scheme.is_tunnel() {
            rules.require(host.is_none(), "host", "must be absent: the configuration sets it");
            rules.require(port.is_none(), "port", "must be absent: the configuration sets it");
            require_config(&mut rules, scheme, &config, before.is_some(), checks)
        } else {
            rules.require(config.sent().is_none(), "config", "only tunnels have a configuration");
            require_endpoint(&mut rules, host.as_deref(), port, checks.destinations)
        };
        rules.check()?;
        Ok(Proxy { label: label.to_owned(), scheme, at, username, password, config })
    }
}

fn require_credential(rules: &mut Rules, field: &str, text: Option<&str>) {
    let Some(text) = text else { return };
    let is_bounded = (1..=MAX_CREDENTIAL_BYTES).contains(&text.len());
    rules.require(is_bounded, field, format!("must have 1 to {MAX_CREDENTIAL_BYTES} bytes"));
    rules.require(!text.contains(char::is_control), field, "must not contain control characters");
}

fn require_endpoint(
    rules: &mut Rules,
    host: Option<&str>,
    port: Option<u64>,
    destinations: &Destinations,
) -> Option<Endpoint> {
    let host = host.map_or(Err("is required"), parse_host);
    let port = port.map_or(Err("is required"), |port| {
        u16::try_from(port).ok().filter(|port| *port > 0).ok_or("must be 1 to 65535")
    });
    rules.require(port.is_ok(), "port", port.err().unwrap_or_default());
    match host {
        Err(message) => rules.require(false, "host", message),
        Ok(ref host) => rules.require(is_permitted(host, destinations), "host", PRIVATE),
    }
    Some(Endpoint { host: host.ok()?, port: port.ok()? })
}

fn require_config(
    rules: &mut Rules,
    scheme: Scheme,
    config: &Change,
    may_stay: bool,
    checks: Checks<'_>,
) -> Option<Endpoint> {
    let text = match config {
        Change::Keep if may_stay => return None,
        Change::Keep | Change::Remove => {
            rules.require(false, "config", "is required for a tunnel");
            return None;
        }
        Change::Set(text) => text,
    };
    let max = scheme.max_config_bytes();
    if text.len() > max {
        rules.require(false, "config", format!("must have at most {max} bytes"));
        return None;
    }
    match (checks.read_config)(scheme, text) {
        Ok(at) => {
            rules.require(is_permitted(&at.host, checks.destinations), "config", PRIVATE);
            Some(at)
        }
        Err(message) => {
            rules.require(false, "config", message);
            None
        }
    }
}

/// Parses a host in the form of a URL, or a plain IPv6 address.
fn parse_host(text: &str) -> Result<Host, &'static str> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(Host::Ipv6(address));
    }
    match Host::parse(text) {
        Ok(host) if host.to_string().len() <= MAX_HOST_BYTES => Ok(host),
        _ => Err("must be a host name or an IP address"),
    }
}

/// Returns true when a host can be dialled, as far as its text shows. The address of a name is checked when it is
/// dialled.
fn is_permitted(host: &Host, destinations: &Destinations) -> bool {
    let address = match host {
        Host::Ipv4(address) => IpAddr::from(*address),
        Host::Ipv6(address) => IpAddr::from(*address),
        Host::Domain(_) => return true,
    };
    destinations.permit_literal(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: fn(&Destinations) -> Checks<'_> = |destinations| Checks {
        destinations,
        read_config: |_, text| {
            let (host, port) = text.split_once(' ').ok_or("Endpoint: is missing")?;
            Ok(Endpoint { host: parse_host(host)?, port: port.parse().map_err(|_| "Endpoint: has no port")? })
        },
    };

    fn input(scheme: Scheme) -> ProxyInput {
        ProxyInput {
            label: "Office".to_owned(),
            scheme,
            host: Some("proxy.example".to_owned()),
            port: Some(1080),
            username: None,
            password: Change::Keep,
            config: Change::Keep,
        }
    }

    fn set(secret: &str) -> Change {
        Change::Set(Zeroizing::new(secret.to_owned()))
    }

    fn refused_fields(input: ProxyInput, before: Option<Scheme>) -> Vec<String> {
        let secrets = [&input.password, &input.config].map(|secret| secret.sent().unwrap_or_default().to_owned());
        let Invalid(errors) = input.check(before, CHECKS(&Destinations::default())).expect_err("the input is invalid");
        for error in &errors {
            assert!(secrets.iter().all(|secret| secret.len() < 6 || !error.message.contains(secret)), "{error:?}");
        }
        errors.into_iter().map(|error| error.field).collect()
    }

    /// Contract: proxies 2.
    #[test]
    fn host_is_a_name_or_a_public_address_in_any_spelling() {
        let at = |host: &str| ProxyInput { host: Some(host.to_owned()), ..input(Scheme::Socks5) };
        for (host, spelled) in [
            ("Proxy.Example", "proxy.example"),
            ("1.1.1.1", "1.1.1.1"),
            ("2606:4700::1111", "[2606:4700::1111]"),
            ("[2606:4700::1111]", "[2606:4700::1111]"),
            ("bücher.example", "xn--bcher-kva.example"),
        ] {
            let proxy = at(host).check(None, CHECKS(&Destinations::default())).expect(host);
            assert_eq!(proxy.at.map(|at| at.host.to_string()).as_deref(), Some(spelled));
        }
        let long = format!("{}example", "a.".repeat(124));
        for bad in
            ["", " ", "a b", "a/b", "u@proxy.example", "proxy.example:1080", "a\r\nb", "[::1", "1.2.3.4.5", &long]
        {
            assert_eq!(
                refused_fields(ProxyInput { host: Some(bad.to_owned()), ..input(Scheme::Http) }, None),
                ["host"],
                "{bad}"
            );
        }
        let private =
            ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "10.0.0.1", "169.254.169.254", "::1", "[::ffff:10.0.0.1]"];
        let open = Destinations { allow_private: true, ..Destinations::default() };
        for private in private {
            assert_eq!(refused_fields(at(private), None), ["host"], "{private}");
            assert!(at(private).check(None, CHECKS(&open)).is_ok(), "{private}");
        }
    }

    /// Contract: proxies 3.
    #[test]
    fn credentials_fit_both_protocols() {
        let long = "x".repeat(256);
        for (username, password, fields) in [
            (Some(""), Change::Keep, vec!["username"]),
            (Some(long.as_str()), Change::Keep, vec!["username"]),
            (Some("a\r\nb"), set("secret\nsecret"), vec!["username", "password"]),
            (Some("a\u{85}"), set(""), vec!["username", "password"]),
            (Some("a:b"), set("secret"), vec!["username"]),
            (None, set("secret"), vec!["username"]),
            (Some("a"), set(&long), vec!["password"]),
        ] {
            let username = username.map(str::to_owned);
            assert_eq!(refused_fields(ProxyInput { username, password, ..input(Scheme::Http) }, None), fields);
        }
        let max = "x".repeat(255);
        for (scheme, username) in [(Scheme::Socks5, "a:b"), (Scheme::Http, max.as_str()), (Scheme::Socks5, "zürich")] {
            let valid = ProxyInput { username: Some(username.to_owned()), password: set(&max), ..input(scheme) };
            assert!(valid.check(None, CHECKS(&Destinations::default())).is_ok(), "{username}");
        }
    }

    /// Contract: proxies 4.
    #[test]
    fn tunnel_endpoint_comes_from_its_configuration() {
        let tunnel = |config| ProxyInput { host: None, port: None, config, ..input(Scheme::Wireguard) };
        let proxy = tunnel(set("vpn.example 51820")).check(None, CHECKS(&Destinations::default())).expect("a tunnel");
        assert_eq!(proxy.at.map(|at| at.port), Some(51820));
        for config in [Change::Keep, Change::Remove, set("nonsense"), set("10.0.0.1 51820"), set(&" ".repeat(16_385))] {
            assert_eq!(refused_fields(tunnel(config), None), ["config"]);
        }
        let both = ProxyInput { config: set("vpn.example 51820"), ..input(Scheme::Openvpn) };
        assert_eq!(refused_fields(both, None), ["host", "port"]);
        assert_eq!(refused_fields(ProxyInput { config: set("x"), ..input(Scheme::Http) }, None), ["config"]);
        let kept = tunnel(Change::Keep).check(Some(Scheme::Wireguard), CHECKS(&Destinations::default()));
        assert_eq!(kept.expect("it is kept").at, None);
        assert_eq!(refused_fields(tunnel(Change::Remove), Some(Scheme::Wireguard)), ["config"]);
    }

    #[test]
    fn scheme_cannot_change_and_secrets_are_not_printed() {
        assert_eq!(refused_fields(input(Scheme::Http), Some(Scheme::Socks5)), ["scheme"]);
        assert!(!format!("{:?}", set("sesame")).contains("sesame"));
        for (json, sent) in [("null", None), ("\"x\"", Some("x"))] {
            let change: Change = serde_json::from_str(json).expect("a change");
            assert_eq!(change.sent(), sent);
        }
        let refused = serde_json::from_str::<Change>("31415926").expect_err("a number").to_string();
        assert!(!refused.contains("31415926"), "{refused}");
    }
}
