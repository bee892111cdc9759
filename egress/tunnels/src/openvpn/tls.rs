//! TLS settings from a profile: trust in the server, the client's identity, and the allowed versions and suites.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::sign;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, NamedGroup,
    SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;
use zeroize::Zeroizing;

use super::keys::fingerprint;
use crate::ConfigError;

/// DER encoding of `id-kp-serverAuth`.
const SERVER_AUTH: &[u8] = &[43, 6, 1, 5, 5, 7, 3, 1];

pub(super) struct ServerTrust {
    pub(super) roots: Vec<CertificateDer<'static>>,
    pub(super) fingerprints: Vec<[u8; 32]>,
    pub(super) name: Option<NameRule>,
    /// True when the certificate must name server use both in its key usage and in its extended key usage.
    pub(super) says_server: bool,
}

/// `verify-x509-name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameRule {
    /// As OpenSSL formats it: `C=DE, O=Example, CN=server`.
    Subject(String),
    Name(String),
    Prefix(String),
}

pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: Zeroizing<PrivateKeyDer<'static>>,
}

#[derive(Default)]
pub(super) struct TlsLimits {
    pub(super) without_12: bool,
    pub(super) without_13: bool,
    /// `tls-cipher`.
    pub(super) suites_12: Option<String>,
    /// `tls-ciphersuites`.
    pub(super) suites_13: Option<String>,
    pub(super) groups: Option<String>,
}

pub(super) fn settings(
    trust: ServerTrust,
    identity: Option<Identity>,
    tls_limits: &TlsLimits,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let refuse =
        |directive: &str, reason: &str| ConfigError { directive: directive.to_owned(), reason: reason.to_owned() };
    let mut provider = ring::default_provider();
    for (directive, list, of_13) in
        [("tls-cipher", &tls_limits.suites_12, false), ("tls-ciphersuites", &tls_limits.suites_13, true)]
    {
        let Some(list) = list else { continue };
        let other = |suite: CipherSuite| suite_names(suite).iter().any(|name| name.starts_with("TLS13")) != of_13;
        let all = list.split(':').any(|name| name == "DEFAULT");
        provider
            .cipher_suites
            .retain(|suite| all || other(suite.suite()) || is_named(list, &suite_names(suite.suite())));
        if provider.cipher_suites.iter().all(|suite| other(suite.suite())) {
            return Err(refuse(directive, "has no supported cipher suite"));
        }
    }
    if let Some(list) = &tls_limits.groups {
        provider.kx_groups.retain(|group| is_named(list, &group_names(group.name())));
        if provider.kx_groups.is_empty() {
            return Err(refuse("tls-groups", "has no supported group"));
        }
    }
    let versions: Vec<_> = [(&TLS13, tls_limits.without_13), (&TLS12, tls_limits.without_12)]
        .into_iter()
        .filter_map(|(version, without)| (!without).then_some(version))
        .collect();
    let provider = Arc::new(provider);
    let check = ServerCheck::new(trust, provider.signature_verification_algorithms)
        .ok_or_else(|| refuse("ca", "contains a certificate that cannot be a trust anchor"))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|_| refuse("tls-version-min", "leaves no supported TLS version and cipher suite"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(check));
    let mut settings = match identity {
        Some(Identity { chain, key }) => {
            let signing = sign::any_supported_type(&key).map_err(|_| refuse("key", "is of an unsupported type"))?;
            let certified = CertifiedKey::new(chain, signing);
            match certified.keys_match() {
                Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
                Err(Error::InconsistentKeys(_)) => return Err(refuse("key", "is not the key of <cert>")),
                Err(_) => return Err(refuse("cert", "contains no readable certificate")),
            }
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
        None => builder.with_no_client_auth(),
    };
    settings.enable_sni = false;
    settings.resumption = Resumption::disabled();
    Ok(Arc::new(settings))
}

fn is_named(list: &str, names: &[String]) -> bool {
    list.split(':').any(|item| names.iter().any(|name| name.eq_ignore_ascii_case(item)))
}

/// Returns the spellings of a cipher suite in the IANA registry, OpenVPN and OpenSSL.
fn suite_names(suite: CipherSuite) -> Vec<String> {
    let name = suite.as_str().unwrap_or_default();
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return vec![name.to_owned(), format!("TLS_{rest}"), format!("TLS-{}", rest.replace('_', "-"))];
    }
    let of_openssl = name.trim_start_matches("TLS_").replace("_WITH", "").replace("AES_", "AES").replace('_', "-");
    let of_openssl = of_openssl.replace("POLY1305-SHA256", "POLY1305");
    vec![name.to_owned(), name.replace('_', "-"), of_openssl]
}

fn group_names(group: NamedGroup) -> Vec<String> {
    let names: &[&str] = match group {
        NamedGroup::X25519 => &["x25519"],
        NamedGroup::secp256r1 => &["secp256r1", "prime256v1", "P-256"],
        NamedGroup::secp384r1 => &["secp384r1", "P-384"],
        _ => &[],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// As OpenVPN does: the chain to the profile's authorities, the usage, and the profile's name rule. The host name is
/// not checked.
#[derive(Debug)]
struct ServerCheck {
    anchors: Vec<TrustAnchor<'static>>,
    fingerprints: Vec<[u8; 32]>,
    name: Option<NameRule>,
    says_server: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCheck {
    fn new(trust: ServerTrust, algorithms: WebPkiSupportedAlgorithms) -> Option<Self> {
        let anchors = trust.roots.iter().map(|root| anchor_from_trusted_cert(root).map(|anchor| anchor.to_owned()));
        let anchors: Vec<_> = anchors.collect::<Result<_, _>>().ok()?;
        Some(Self {
            anchors,
            fingerprints: trust.fingerprints,
            name: trust.name,
            says_server: trust.says_server,
            algorithms,
        })
    }

    /// A certificate of the authority alone could belong to another client: unless the profile identifies the server by
    /// name or fingerprint, the certificate must allow server use.
    fn purpose(&self) -> KeyUsage {
        let is_known = self.name.is_some() || !self.fingerprints.is_empty();
        if self.says_server || !is_known {
            KeyUsage::required(SERVER_AUTH)
        } else {
            KeyUsage::required_if_present(SERVER_AUTH)
        }
    }
}

impl ServerCertVerifier for ServerCheck {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let not = |error| Error::InvalidCertificate(error);
        let unreadable = || not(CertificateError::BadEncoding);
        if !self.anchors.is_empty() {
            let end = EndEntityCert::try_from(certificate).map_err(|_| unreadable())?;
            end.verify_for_usage(self.algorithms.all, &self.anchors, between, now, self.purpose(), None, None)
                .map_err(|_| not(CertificateError::UnknownIssuer))?;
        }
        if !self.fingerprints.is_empty() && !self.fingerprints.contains(&fingerprint(certificate)) {
            return Err(not(CertificateError::ApplicationVerificationFailure));
        }
        let (_, read) = X509Certificate::from_der(certificate).map_err(|_| unreadable())?;
        if self.says_server {
            let usage =
                read.key_usage().map_err(|_| unreadable())?.ok_or_else(|| not(CertificateError::InvalidPurpose))?;
            if !(usage.value.digital_signature() || usage.value.key_agreement() || usage.value.key_encipherment()) {
                return Err(not(CertificateError::InvalidPurpose));
            }
        }
        let is_named = match &self.name {
            None => true,
            Some(NameRule::Subject(subject)) => written(read.subject()).is_some_and(|written| written == *subject),
            Some(NameRule::Name(name)) => common_name(read.subject()).is_some_and(|common| common == name),
            Some(NameRule::Prefix(prefix)) => {
                common_name(read.subject()).is_some_and(|common| common.starts_with(prefix.as_str()))
            }
        };
        if is_named { Ok(ServerCertVerified::assertion()) } else { Err(not(CertificateError::NotValidForName)) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// OpenVPN uses the last one.
fn common_name<'a>(subject: &'a X509Name<'_>) -> Option<&'a str> {
    subject.iter_common_name().last().and_then(|name| name.as_str().ok())
}

/// Formats a subject as OpenSSL does for OpenVPN.
fn written(subject: &X509Name<'_>) -> Option<String> {
    let parts = subject.iter_rdn().map(|rdn| {
        let attributes = rdn.iter().map(|attribute| {
            let value = attribute.as_str().ok()?;
            // OpenSSL would escape these; profiles do not contain such names.
            let is_plain = !value.chars().any(char::is_control);
            is_plain.then(|| format!("{}={value}", short_name(attribute.attr_type())))
        });
        attributes.collect::<Option<Vec<_>>>().map(|attributes| attributes.join(" + "))
    });
    parts.collect::<Option<Vec<_>>>().map(|parts| parts.join(", "))
}

fn short_name(kind: &Oid<'_>) -> String {
    let dotted = kind.to_id_string();
    let known = match dotted.as_str() {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.41" => "name",
        "2.5.4.42" => "GN",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        _ => return dotted,
    };
    known.to_owned()
}

#[cfg(test)]
mod tests;
