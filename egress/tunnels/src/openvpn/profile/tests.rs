use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};

use super::super::data::Cipher;
use super::super::wrapping::{Digest, Direction, Guard};
use super::directives::{BLOCKS, HARMLESS, REFUSED, UNDERSTOOD, is_known, refusal};
use super::{Profile, Transport};
use crate::ConfigError;

static CERTIFICATE: LazyLock<(String, String)> = LazyLock::new(|| {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(Vec::new()).expect("names").self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
});

fn block(name: &str, body: &str) -> String {
    format!("<{name}>\n{body}\n</{name}>\n")
}

fn authority() -> String {
    block("ca", &CERTIFICATE.0)
}

pub(in super::super) fn with(lines: &str) -> String {
    format!("client\ndev tun\nremote vpn.example.test 1194\nauth-user-pass\n{lines}{}", authority())
}

pub(in super::super) fn profile(text: &str) -> Profile {
    Profile::parse(text).expect("a profile")
}

fn refused(text: &str) -> ConfigError {
    Profile::parse(text).map(|_| ()).expect_err(text)
}

fn static_key() -> String {
    let lines = (0..16).fold(String::new(), |mut lines, line| {
        writeln!(lines, "{}", hex::encode([line; 16])).expect("text");
        lines
    });
    format!(
        "#\n# 2048 bit OpenVPN static key\n#\n-----BEGIN OpenVPN Static key V1-----\n{lines}-----END OpenVPN Static key V1-----"
    )
}

fn client_key(wrapped: usize, says: usize) -> String {
    let mut bytes = vec![7; 256 + wrapped];
    let at = bytes.len() - 2;
    bytes[at..].copy_from_slice(&u16::try_from(says).expect("small").to_be_bytes());
    let name = "OpenVPN tls-crypt-v2 client key";
    format!("-----BEGIN {name}-----\n{}\n-----END {name}-----", BASE64_STANDARD.encode(bytes))
}

#[test]
fn profile_of_a_common_generator_is_accepted() {
    let (certificate, key) = &*CERTIFICATE;
    let text = format!(
        "# of a generator that many use\r\nclient\r\nproto udp\r\nexplicit-exit-notify\r\nremote 203.0.113.7 443\r\ndev tun\r\nresolv-retry infinite\r\nnobind\r\n\
         persist-key\r\npersist-tun\r\nremote-cert-tls server\r\nverify-x509-name server_abc name\r\nauth SHA256\r\nauth-nocache\r\ncipher AES-128-GCM\r\n\
         tls-client\r\ntls-version-min 1.2\r\ntls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256\r\nignore-unknown-option block-outside-dns not-invented-yet\r\n\
         setenv opt block-outside-dns\r\nnot-invented-yet 1\r\nsetenv CLIENT_CERT 0\r\nverb 3\r\n{}{}{}{}",
        authority(),
        block("cert", certificate),
        block("key", key),
        block("tls-crypt", &static_key()),
    );
    let profile = profile(&text);
    assert_eq!((profile.endpoint().host.to_string(), profile.endpoint().port), ("203.0.113.7".to_owned(), 443));
    assert!(
        !profile.wants_credentials()
            && matches!(profile.guard, Guard::Crypt { .. })
            && profile.transport == Transport::Udp
    );
    assert_eq!(profile.cipher, Some(Cipher::Aes128Gcm));
    assert!(!format!("{profile:?}").contains("BEGIN"), "{profile:?}");
}

#[test]
fn first_server_is_used_and_others_are_checked() {
    for (lines, host, port, transport) in [
        ("remote 192.0.2.1 1195 tcp\nremote vpn.other.test 7 udp\n", "192.0.2.1", 1195, Transport::Tcp),
        ("proto tcp-client\nport 7\nremote 2001:db8::1\nremote 192.0.2.2\n", "[2001:db8::1]", 7, Transport::Tcp),
        (
            "<connection>\nremote VPN.example\n</connection>\n<connection>\nproto tcp\nport 5\nremote 192.0.2.2 9\n</connection>\n",
            "vpn.example",
            1194,
            Transport::Udp,
        ),
        // Normalized, as an address check reads it.
        ("remote 127.1\n", "127.0.0.1", 1194, Transport::Udp),
        ("remote 0x7f000001 1\n", "127.0.0.1", 1, Transport::Udp),
    ] {
        let profile = profile(&with(lines).replace("remote vpn.example.test 1194\n", ""));
        assert_eq!(
            (profile.endpoint.host.to_string().as_str(), profile.endpoint.port, profile.transport),
            (host, port, transport),
            "{lines}"
        );
    }
    assert_eq!(
        refused(&with("<connection>\nremote 192.0.2.1\n</connection>\n<connection>\nup /bin/sh\n</connection>\n"))
            .directive,
        "up"
    );
    for bad in [
        "remote\n",
        "remote -x\n",
        "remote a;b\n",
        "remote $(x)\n",
        "remote a%2eb\n",
        "remote x 0\n",
        "remote x 65536\n",
        "remote x 1 unix\n",
        "remote x 1 udp y\n",
        "remote ''\n",
        "remote [::1]\n",
        "remote ..\n",
    ] {
        assert_eq!(refused(&with(bad)).directive, "remote", "{bad}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn unsafe_or_unsupported_directives_are_refused_by_name() {
    for line in [
        "up /bin/sh",
        "  up\t/bin/sh",
        "--up /bin/sh",
        "\"up\" /bin/sh",
        "'up' /bin/sh",
        "u\\p /bin/sh",
        "setenv opt up /bin/sh",
        "ignore-unknown-option up\nup x",
        "down x",
        "route-up x",
        "route-pre-down x",
        "ipchange x",
        "tls-verify x",
        "learn-address x",
        "auth-user-pass-verify x via-env",
        "client-connect x",
        "plugin /tmp/x.so",
        "script-security 2",
        "config /etc/passwd",
        "cd /tmp",
        "chroot /tmp",
        "log /tmp/x",
        "log-append /tmp/x",
        "status /tmp/x",
        "writepid /tmp/x",
        "askpass /etc/passwd",
        "capath /etc",
        "tls-export-cert /tmp",
        "replay-persist /tmp/x",
        "management 127.0.0.1 1",
        "management-client",
        "management-external-key",
        "http-proxy 169.254.169.254 80",
        "http-proxy-option x",
        "socks-proxy 10.0.0.1",
        "local 0.0.0.0",
        "lport 53",
        "mark 1",
        "bind-dev eth0",
        "engine x",
        "providers x",
        "pkcs11-providers /tmp/x.so",
        "pkcs11-id x",
        "pkcs12 x",
        "iproute /tmp/x",
        "daemon",
        "setenv PATH /tmp",
        "setenv LD_PRELOAD x",
        "setenv-safe a b",
        "setcon x",
        "dev-node /dev/x",
        "dev tap",
        "dev tap0",
        "dev-type tap",
        "secret /etc/passwd",
        "server 10.0.0.0 255.0.0.0",
        "mode server",
        "tls-server",
        "comp-lzo",
        "comp-lzo no",
        "compress",
        "compress lz4",
        "fragment 1200",
        "cipher BF-CBC",
        "cipher none",
        "cipher DES-EDE3-CBC",
        "data-ciphers AES-256-CBC",
        "data-ciphers-fallback BF-CBC",
        "ncp-disable",
        "no-replay",
        "no-iv",
        "auth MD5",
        "auth none",
        "tls-version-max 1.1",
        "tls-cipher DES-CBC-SHA",
        "tls-ciphersuites TLS_SHA",
        "tls-groups secp112r1",
        "tls-cert-profile insecure",
        "remote-cert-tls client",
        "remote-cert-ku a0",
        "ns-cert-type server",
        "verify-hash 00",
        "crl-verify x",
        "verify-x509-name x y",
        "verify-x509-name '' name",
        "x509-username-field emailAddress",
        "auth-user-pass /etc/passwd",
        "ca /etc/passwd",
        "cert /etc/passwd",
        "key /etc/shadow",
        "tls-auth /etc/passwd 1",
        "tls-crypt x",
        "tls-crypt-v2 x",
        "extra-certs x",
        "key-direction 2",
        "static-challenge x 1",
        "auth-token x",
        "proto unix",
        "port 0",
        "key-method 1",
        "ifconfig 10.0.0.1 10.0.0.2",
        "dhcp-option DNS 0.0.0.0",
        "dhcp-option DNS example.test",
        "dhcp-option DNS 255.255.255.255",
        "ping x",
        "keepalive 1",
        "client x",
        "reneg-sec x",
        "tun-mtu x",
        "pull-filter x y",
        "frobnicate",
        "frobnicate-more 1",
    ] {
        let error = refused(&with(&format!("{line}\n")));
        let plain = line.replace(['"', '\'', '\\'], "");
        let named = error.directive.as_str();
        assert!(plain.split_whitespace().any(|word| word.trim_start_matches("--") == named), "{line}: {error}");
        for value in plain.split_whitespace().skip(1).filter(|value| *value != named && value.len() > 3) {
            // Words that a reason contains on its own.
            let promised = ["server", "client", "none", "name"];
            assert!(promised.contains(&value) || !error.reason.contains(value), "{line}: {error}");
        }
    }
    for name in
        ["up", "plugin", "dh", "secret", "pkcs12", "crl-verify", "auth-user-pass", "http-proxy-user-pass", "frobnicate"]
    {
        assert_eq!(refused(&with(&block(name, "x"))).directive, name);
    }
}

#[test]
fn directives_without_effect_accept_any_arguments() {
    for directive in HARMLESS {
        profile(&with(&format!("{directive} /bin/sh 1 2\n")));
    }
    profile(&with(
        "dhcp-option DOMAIN example.test\nredirect-gateway def1 ipv6\nroute 10.0.0.0 255.0.0.0\nroute-nopull\nallow-compression no\n",
    ));
}

#[test]
fn directive_lists_are_disjoint() {
    let all: Vec<&str> = HARMLESS
        .iter()
        .chain(UNDERSTOOD)
        .chain(BLOCKS)
        .chain(REFUSED.iter().flat_map(|(_, names)| *names))
        .copied()
        .collect();
    for (at, name) in all.iter().enumerate() {
        assert!(is_known(name) && !all[..at].contains(name), "{name}");
        assert_eq!(refusal(name).is_some(), REFUSED.iter().any(|(_, names)| names.contains(name)));
    }
}

#[test]
fn missing_or_unreadable_parts_are_named() {
    let full = with("");
    let (certificate, key) = &*CERTIFICATE;
    for (without, named) in [
        ("client\n", "client"),
        ("dev tun\n", "dev"),
        ("remote vpn.example.test 1194\n", "remote"),
        ("auth-user-pass\n", "cert"),
        (authority().as_str(), "ca"),
    ] {
        assert_eq!(refused(&full.replace(without, "")).directive, named);
    }
    assert_eq!(refused(&with(&block("cert", certificate))).directive, "key");
    assert_eq!(refused(&with(&block("key", key))).directive, "cert");
    let other = KeyPair::generate().expect("a key").serialize_pem();
    assert_eq!(refused(&with(&(block("cert", certificate) + &block("key", &other)))).directive, "key");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----";
    assert!(refused(&with(&(block("cert", certificate) + &block("key", encrypted)))).reason.contains("passphrase"));
    assert_eq!(refused(&with(&block("ca", certificate))).directive, "ca", "twice");
    assert_eq!(refused(&with("<key>\nx")).directive, "key", "no closing tag");
    assert_eq!(refused(&with("<connection>\nremote x\n")).directive, "connection");
    assert_eq!(refused(&with("</connection>\n")).directive, "connection");
    for name in ["ca", "cert", "key"] {
        let broken = full.replace(&authority(), "")
            + &["ca", "cert", "key"].iter().fold(String::new(), |text, block_name| {
                let body = match *block_name {
                    "key" => key,
                    _ => certificate,
                };
                text + &block(block_name, if *block_name == name { "nonsense" } else { body })
            });
        assert_eq!(refused(&broken).directive, name);
    }
    assert!(refused(&"#".repeat(64 * 1024 + 1)).reason.contains("64 KiB"));
    assert!(Profile::parse(&(with("") + &"#".repeat(60 * 1024))).is_ok());
}

#[test]
fn incomplete_static_keys_are_refused() {
    assert!(matches!(profile(&with("")).guard, Guard::None));
    for (lines, expected) in [
        ("key-direction 1\nauth SHA512\n", (Digest::Sha512, Direction::Inverse)),
        ("tls-auth [inline] 0\n", (Digest::Sha1, Direction::Normal)),
        ("auth rsa-sha256\n", (Digest::Sha256, Direction::Both)),
    ] {
        let Guard::Auth { digest, direction, key } =
            profile(&with(&(lines.to_owned() + &block("tls-auth", &static_key())))).guard
        else {
            panic!("tls-auth")
        };
        assert_eq!((digest, direction), expected);
        assert_eq!((key[0], key[255]), (0, 15));
    }
    let Guard::CryptV2 { key, wrapped } = profile(&with(&block("tls-crypt-v2", &client_key(300, 300)))).guard else {
        panic!("tls-crypt-v2")
    };
    assert_eq!((key[255], wrapped.len()), (7, 300));
    for (name, bad) in [
        ("tls-crypt-v2", client_key(300, 299)),
        ("tls-crypt-v2", client_key(1025, 1025)),
        ("tls-crypt-v2", static_key()),
        ("tls-crypt", static_key().replace("0f0f\n", "")),
        ("tls-crypt", static_key().replace("0f0f\n", "0f0x\n")),
        ("tls-auth", String::new()),
    ] {
        assert_eq!(refused(&with(&block(name, &bad))).directive, name);
    }
    let two = block("tls-auth", &static_key()) + &block("tls-crypt", &static_key());
    assert!(refused(&with(&two)).reason.contains("only one"));
}

#[test]
fn settings_are_applied_within_limits() {
    let lines = "keepalive 7 30\nreneg-sec 600\nreneg-bytes 1000\nreneg-pkts 0\ntun-mtu 1300\ndhcp-option DNS 9.9.9.9\ndhcp-option DNS6 2620:fe::fe\n\
                 dns server 1 address 1.1.1.1\ndata-ciphers ?AES-192-GCM:CHACHA20-POLY1305:aes-256-gcm\ncipher AES-256-CBC\n";
    let profile = profile(&with(lines));
    assert_eq!((profile.ping, profile.ping_restart), (Some(Duration::from_secs(7)), Some(Duration::from_secs(30))));
    assert_eq!((profile.renewal.after, profile.renewal.bytes), (Some(Duration::from_mins(10)), 1000));
    assert_eq!((profile.mtu, profile.dns.len()), (1300, 3));
    assert_eq!((profile.ciphers, profile.cipher), (vec![Cipher::Chacha20Poly1305, Cipher::Aes256Gcm], None));
    for (lines, mtu) in [
        ("", 1420),
        ("proto tcp\n", 1500),
        ("mssfix 1300\n", 1228),
        ("mssfix 0\n", 1420),
        ("tun-mtu 9000\n", 1420),
        ("tun-mtu 1\n", 576),
    ] {
        assert_eq!(super::tests::profile(&with(lines)).mtu, mtu, "{lines}");
    }
    let many: String = (1..30).fold(String::new(), |text, host| text + &format!("dhcp-option DNS 10.0.0.{host}\n"));
    assert_eq!(super::tests::profile(&with(&many)).dns.len(), super::super::dns::MAX_DNS);
}

#[test]
fn text_that_is_no_directive_is_reported_by_line_number() {
    for secret in [
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
        "hunter2hunter2hunter2hunter2hunter2hunter2hunter2",
        "-----BEGIN PRIVATE KEY-----",
        "Pässwort",
        "\"Secret",
        "x\u{1}y",
    ] {
        let error = refused(&format!("client\n{secret}\n"));
        assert_eq!(error.directive, "line 2", "{secret}");
        assert!(!error.to_string().contains(secret));
    }
}

fn word() -> impl Strategy<Value = String> {
    let known: Vec<&'static str> = HARMLESS
        .iter()
        .chain(UNDERSTOOD)
        .chain(BLOCKS)
        .chain(REFUSED.iter().flat_map(|(_, names)| *names))
        .copied()
        .collect();
    prop_oneof![3 => prop::sample::select(known).prop_map(str::to_owned), 1 => "[a-z][a-z0-9./:-]{0,12}", 1 => "x\\PC{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn parser_never_panics(text in "[\\PC\n\t\r<>/\"'\\\\#]{0,2000}") {
        let _ = Profile::parse(&text);
    }

    #[test]
    fn errors_never_contain_values(lines in prop::collection::vec((word(), "zq[0-9a-f]{16}", any::<bool>()), 0..12)) {
        let text = lines.iter().fold(String::new(), |mut text, (directive, value, is_block)| {
            // A connection block contains directives.
            let _ = if *is_block && directive != "connection" { write!(text, "<{directive}>\n{value}\n</{directive}>\n") } else { writeln!(text, "{directive} {value}") };
            text
        });
        for text in [text.clone(), with(&text)] {
            let began = Instant::now();
            if let Err(error) = Profile::parse(&text) {
                let message = error.to_string();
                prop_assert!(lines.iter().all(|(_, value, _)| !message.contains(value)), "{}", message);
            }
            prop_assert!(began.elapsed() < Duration::from_secs(5));
        }
    }
}
