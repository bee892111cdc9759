use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const PRIVATE: &str = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
const PUBLIC: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";
const SHARED: &str = "FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE=";

const INTERFACE: &str =
    "[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nAddress = 10.0.0.2/32\nDNS = 10.0.0.1\n";
const PEER: &str = "[Peer]\nPublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\nAllowedIPs = 0.0.0.0/0\nEndpoint = vpn.example.com:51820\n";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text)
}

fn whole() -> String {
    format!("{INTERFACE}{PEER}")
}

fn without(text: &str, name: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(name)).collect()
}

fn refused(text: &str) -> String {
    parse(text).expect_err("a refusal").directive
}

#[test]
fn minimal_file_is_accepted() {
    let config = parse(&whole()).expect("a configuration");
    assert_eq!(*config.endpoint(), Endpoint { host: Host::Domain("vpn.example.com".into()), port: 51820 });
    assert_eq!(config.mtu, 1420);
    assert_eq!(config.keepalive, None);
    assert!(config.preshared_key.is_none());
    assert_eq!(STANDARD.encode(*config.private_key), PRIVATE);
    assert_eq!(format!("{config:?}"), "Config(…)");
}

#[test]
fn every_supported_setting_is_read_as_in_wg_quick() {
    let text = format!(
        "# a comment\r\n\r\n  [INTERFACE]\r\nprivatekey={PRIVATE} # mine\r\nADDRESS = 10.0.0.2/24 , fd00::2/64\r\n\
         Address = 10.1.0.2\r\nDNS = 10.0.0.1,fd00::1\r\ndns = 10.0.0.9\r\nMTU = 1380\r\n[peer]\r\n\
         PUBLICKEY = {PUBLIC}\r\nPresharedKey = {SHARED}\r\nAllowedIPs = 10.0.0.0/9, 10.128.0.0/9\r\nAllowedIPs = ::/0\r\n\
         Endpoint = [2001:db8::1]:51820\r\nPersistentKeepalive = 25"
    );
    let config = parse(&text).expect("a configuration");
    let addresses: Vec<_> = config.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.2/24", "fd00::2/64", "10.1.0.2/32"]);
    assert_eq!(config.name_servers.len(), 3);
    assert_eq!(config.mtu, 1380);
    assert!(config.preshared_key.is_some());
    let allowed: Vec<_> = config.allowed.iter().map(ToString::to_string).collect();
    assert_eq!(allowed, ["10.0.0.0/8", "::/0"], "adjacent networks are merged");
    assert_eq!(config.endpoint().host, Host::<String>::Ipv6("2001:db8::1".parse().expect("an address")));
    assert_eq!(config.keepalive, Some(25));
    for off in ["off", "OFF", "0"] {
        assert_eq!(parse(&format!("{}PersistentKeepalive = {off}", whole())).expect("a configuration").keepalive, None);
    }
}

#[test]
fn unsupported_settings_are_refused_by_name() {
    let device =
        ["PreUp", "PostUp", "PreDown", "PostDown", "Table", "SaveConfig", "FwMark", "ListenPort", "postup", "Frob"];
    for name in device {
        assert_eq!(refused(&format!("{INTERFACE}{name} = touch /tmp/x\n{PEER}")), name);
    }
    for (line, name) in [
        ("PrivateKey = a", "PrivateKey"),
        ("Endpoint = b", "Endpoint"),
        ("Endpoint = b:0", "Endpoint"),
        ("Endpoint = b:65536", "Endpoint"),
        ("Endpoint = :1", "Endpoint"),
        ("Endpoint = a b:1", "Endpoint"),
        ("AllowedIPs = 10.0.0.0/33", "AllowedIPs"),
        ("PersistentKeepalive = 65536", "PersistentKeepalive"),
        ("PersistentKeepalive = -1", "PersistentKeepalive"),
        ("PublicKey = x", "PublicKey"),
        ("PresharedKey = x", "PresharedKey"),
        ("DNS = 1.1.1.1", "DNS"),
    ] {
        let peer = without(PEER, name);
        assert_eq!(refused(&format!("{INTERFACE}{peer}{line}\n")), name);
    }
    for (line, name) in [
        ("MTU = 575", "MTU"),
        ("MTU = 9001", "MTU"),
        ("MTU = many", "MTU"),
        ("DNS = example.com", "DNS"),
        ("Address = everywhere", "Address"),
        ("Address = 10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9,10.0.0.10", "Address"),
        ("Address = fd00::1\nMTU = 1279", "MTU"),
        ("PublicKey = x", "PublicKey"),
        ("PrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=", "PrivateKey"),
    ] {
        assert_eq!(refused(&format!("{INTERFACE}{line}\n{PEER}")), name);
    }
}

#[test]
fn missing_settings_are_named() {
    for name in ["PrivateKey", "Address", "DNS", "PublicKey", "AllowedIPs", "Endpoint"] {
        let text = without(&whole(), name);
        assert_eq!(refused(&text), name);
    }
    assert_eq!(refused(INTERFACE), "[Peer]");
    assert_eq!(refused(&format!("{INTERFACE}{PEER}{PEER}")), "PublicKey");
    assert_eq!(refused(&format!("{INTERFACE}{PEER}[Peer]")), "[Peer]");
    assert_eq!(refused(""), "[Peer]");
    // A name server outside the tunnel's routes is unreachable.
    assert_eq!(refused(&whole().replace("0.0.0.0/0", "10.0.1.0/24")), "DNS");
    assert_eq!(refused(&whole().replace("DNS = 10.0.0.1", "DNS = fd00::1").replace("0.0.0.0/0", "::/0")), "DNS");
}

#[test]
fn key_that_looks_like_a_directive_is_not_repeated() {
    for line in [PRIVATE, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq=", "secret", "se cret = 1", "\u{1b}[2J = 1"] {
        let error = parse(&format!("{INTERFACE}{line}\n{PEER}")).expect_err("a refusal");
        assert_eq!(error.directive, "line 5");
    }
    assert_eq!(refused("Address = 10.0.0.1"), "Address");
}

#[test]
fn length_limit_is_enforced_and_long_files_parse_fast() {
    let filled = |length: usize| format!("{}#{}", whole(), "x".repeat(length - whole().len() - 1));
    assert!(parse(&filled(16 << 10)).is_ok());
    assert_eq!(refused(&filled((16 << 10) + 1)), "config");
    // As many disjoint networks as fit.
    let mut text = whole();
    for network in (0..=u16::MAX).step_by(2) {
        let [high, low] = network.to_be_bytes();
        let line = format!("AllowedIPs = 1.{high}.{low}.1\n");
        if text.len() + line.len() > 16 << 10 {
            break;
        }
        text.push_str(&line);
    }
    let began = Instant::now();
    assert!(parse(&text).is_ok());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

fn lines() -> impl Strategy<Value = String> {
    let names = "PrivateKey|PublicKey|PresharedKey|Address|DNS|MTU|AllowedIPs|Endpoint|PersistentKeepalive|PostUp|Frob";
    let values = "[0-9a-f.:/, ]{0,40}|\\[[0-9a-f:]{0,9}\\]:[0-9]{0,6}|[A-Za-z0-9+/]{43}=|\\PC{0,60}";
    prop_oneof![
        4 => (names, values).prop_map(|(name, value)| format!("{name} = {value}")),
        1 => "\\[(Interface|Peer|[a-z]{0,5})\\]?",
        1 => "\\PC{0,80}",
        1 => "[\\x00-\\x7f]{0,40}",
    ]
}

proptest! {
    #[test]
    fn parser_never_panics_or_reveals_values(lines in prop::collection::vec(lines(), 0..30), end in "\r?\n") {
        let text = lines.join(&end);
        let began = Instant::now();
        let read = parse(&text);
        prop_assert!(began.elapsed() < Duration::from_secs(1));
        if let Err(error) = read {
            prop_assert!(error.directive.len() <= 24);
            let message = error.to_string();
            for value in text.lines().filter_map(|line| Some(line.split_once('=')?.1.trim())) {
                prop_assert!(value.len() < 12 || !message.contains(value), "{message}");
            }
        }
    }

    #[test]
    fn errors_never_reveal_the_private_key(line in lines(), place in 0..9_usize) {
        let mut text: Vec<_> = whole().lines().map(ToOwned::to_owned).collect();
        text.insert(place.min(text.len()), line);
        if let Err(error) = parse(&text.join("\n")) {
            let message = format!("{error} {error:?}");
            prop_assert!(!message.contains(PRIVATE) && !message.contains(&PRIVATE[..12]));
        }
    }
}
