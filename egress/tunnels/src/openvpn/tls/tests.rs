use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::{NameRule, ServerCheck, ServerTrust, TlsLimits, settings};
use crate::openvpn::keys::fingerprint;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = params.self_signed(&key).expect("a certificate").der().clone();
        Self { issuer: Issuer::new(params, key), root }
    }

    fn issue(
        &self,
        names: &[(DnType, &str)],
        purpose: &[ExtendedKeyUsagePurpose],
        usage: &[KeyUsagePurpose],
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.extended_key_usages = purpose.to_vec();
        params.key_usages = usage.to_vec();
        let key = KeyPair::generate().expect("a key");
        params.signed_by(&key, &self.issuer).expect("a certificate").der().clone()
    }

    fn server(&self) -> CertificateDer<'static> {
        let names = [(DnType::CountryName, "DE"), (DnType::OrganizationName, "Example"), (DnType::CommonName, "vpn-1")];
        self.issue(&names, &[ExtendedKeyUsagePurpose::ServerAuth], &[KeyUsagePurpose::DigitalSignature])
    }

    fn trust(&self) -> ServerTrust {
        ServerTrust { roots: vec![self.root.clone()], fingerprints: Vec::new(), name: None, says_server: false }
    }
}

fn is_trusted(trust: ServerTrust, certificate: &CertificateDer<'_>) -> bool {
    let check = ServerCheck::new(trust, ring::default_provider().signature_verification_algorithms).expect("roots");
    let name = ServerName::try_from("openvpn").expect("a name");
    check.verify_server_cert(certificate, &[], &name, &[], UnixTime::now()).is_ok()
}

#[test]
fn certificate_of_another_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    assert!(is_trusted(authority.trust(), &authority.server()));
    assert!(!is_trusted(authority.trust(), &other.server()));
    assert!(!is_trusted(authority.trust(), &CertificateDer::from(vec![1, 2, 3])));
}

#[test]
fn client_certificate_of_the_authority_is_refused() {
    let authority = Authority::new();
    let name = [(DnType::CommonName, "vpn-1")];
    let signs = [KeyUsagePurpose::DigitalSignature];
    let client = authority.issue(&name, &[ExtendedKeyUsagePurpose::ClientAuth], &signs);
    let unsaid = authority.issue(&name, &[], &signs);
    let is_named = || Some(NameRule::Name("vpn-1".into()));
    assert!(!is_trusted(authority.trust(), &client));
    assert!(!is_trusted(authority.trust(), &unsaid), "neither purpose nor name identify a server");
    assert!(is_trusted(ServerTrust { name: is_named(), ..authority.trust() }, &unsaid), "the name identifies it");
    assert!(
        !is_trusted(ServerTrust { name: is_named(), ..authority.trust() }, &client),
        "the name matches but the purpose does not"
    );
    assert!(
        !is_trusted(ServerTrust { name: is_named(), says_server: true, ..authority.trust() }, &unsaid),
        "remote-cert-tls requires both"
    );
    let without_usage = authority.issue(&name, &[ExtendedKeyUsagePurpose::ServerAuth], &[]);
    assert!(!is_trusted(ServerTrust { says_server: true, ..authority.trust() }, &without_usage));
    assert!(is_trusted(ServerTrust { says_server: true, ..authority.trust() }, &authority.server()));
}

#[test]
fn name_rules_match_subject_name_or_prefix() {
    let authority = Authority::new();
    for (rule, taken) in [
        (NameRule::Subject("C=DE, O=Example, CN=vpn-1".into()), true),
        (NameRule::Subject("C=DE,O=Example,CN=vpn-1".into()), false),
        (NameRule::Subject("CN=vpn-1".into()), false),
        (NameRule::Name("vpn-1".into()), true),
        (NameRule::Name("vpn".into()), false),
        (NameRule::Name("VPN-1".into()), false),
        (NameRule::Prefix("vpn-".into()), true),
        (NameRule::Prefix("pn-".into()), false),
    ] {
        assert_eq!(
            is_trusted(ServerTrust { name: Some(rule.clone()), ..authority.trust() }, &authority.server()),
            taken,
            "{rule:?}"
        );
    }
}

#[test]
fn fingerprint_identifies_the_server() {
    let authority = Authority::new();
    let (server, other) = (authority.server(), authority.server());
    let alone = |certificate: &CertificateDer<'_>| ServerTrust {
        roots: Vec::new(),
        fingerprints: vec![fingerprint(certificate)],
        name: None,
        says_server: false,
    };
    assert!(is_trusted(alone(&server), &server));
    assert!(!is_trusted(alone(&server), &other));
    let both = |certificate: &CertificateDer<'_>| ServerTrust {
        fingerprints: vec![fingerprint(certificate)],
        ..Authority::new().trust()
    };
    assert!(!is_trusted(both(&server), &server), "the authority is required, too");
}

#[test]
fn profile_restricts_suites_groups_and_versions() {
    let authority = Authority::new();
    let tls_limits = |of_12: Option<&str>, of_13: Option<&str>, groups: Option<&str>, without_13| {
        let tls_limits = TlsLimits {
            without_12: false,
            without_13,
            suites_12: of_12.map(Into::into),
            suites_13: of_13.map(Into::into),
            groups: groups.map(Into::into),
        };
        settings(authority.trust(), None, &tls_limits).map(|settings| {
            (settings.crypto_provider().cipher_suites.len(), settings.crypto_provider().kx_groups.len())
        })
    };
    assert_eq!(tls_limits(None, None, None, false), Ok((9, 3)));
    for name in [
        "TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "ecdhe-ecdsa-aes128-gcm-sha256:RC4-SHA",
    ] {
        assert_eq!(tls_limits(Some(name), None, None, false), Ok((4, 3)), "{name}");
    }
    assert_eq!(tls_limits(Some("DEFAULT:@SECLEVEL=0"), None, None, false), Ok((9, 3)));
    assert_eq!(tls_limits(None, Some("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"), None, false), Ok((8, 3)));
    assert_eq!(tls_limits(None, None, Some("X25519:P-256:brainpool"), false), Ok((9, 2)));
    assert_eq!(tls_limits(None, None, None, true), Ok((9, 3)));
    assert_eq!(
        tls_limits(Some("RC4-SHA"), None, None, false).map_err(|error| error.directive),
        Err("tls-cipher".into())
    );
    assert_eq!(
        tls_limits(None, Some("RC4-SHA"), None, false).map_err(|error| error.directive),
        Err("tls-ciphersuites".into())
    );
    assert_eq!(
        tls_limits(None, None, Some("secp112r1"), false).map_err(|error| error.directive),
        Err("tls-groups".into())
    );
    let nothing = TlsLimits { without_12: true, without_13: true, ..TlsLimits::default() };
    assert!(settings(authority.trust(), None, &nothing).is_err());
}
