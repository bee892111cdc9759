//! Parser of client profiles (`.ovpn`) with an allow-list: no part of a profile reaches a program, a file or a library
//! of the machine.
//!
//! Of several servers, the first is used. Route directives have no effect: all traffic goes through the tunnel or is
//! unreachable.

mod directives;
mod words;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use url::Host;
use zeroize::Zeroizing;

use super::data::Cipher;
use super::dns::{self, MAX_DNS, usable};
use super::filters::Filter;
use super::tls::{self, Identity, NameRule, ServerTrust, TlsLimits};
use super::wrapping::{Digest, Direction, Guard, StaticKey};
use crate::{ConfigError, Endpoint};

pub const MAX_PROFILE: usize = 64 * 1024;
/// Size of a wrapped tls-crypt-v2 client key in bytes, as OpenVPN limits it.
const WRAPPED_KEY: std::ops::RangeInclusive<usize> = 2..=1024;
const DEFAULT_PORT: u16 = 1194;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// The first limit reached applies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    /// `None`: only the server requests a renewal.
    pub(super) after: Option<Duration>,
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

#[derive(Clone)]
pub struct Profile {
    pub(super) endpoint: Endpoint,
    pub(super) transport: Transport,
    pub(super) guard: Guard,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) ciphers: Vec<Cipher>,
    /// Cipher for a server that does not negotiate one.
    pub(super) cipher: Option<Cipher>,
    pub(super) dns: Vec<IpAddr>,
    pub(super) filters: Vec<Filter>,
    pub(super) wants_credentials: bool,
    pub(super) ping: Option<Duration>,
    pub(super) ping_restart: Option<Duration>,
    pub(super) renewal: Renewal,
    pub(super) mtu: usize,
}

impl fmt::Debug for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Profile")
            .field("endpoint", &self.endpoint)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl Profile {
    /// An error names the directive and contains no value.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_PROFILE {
            return Err(refuse("profile", "is larger than 64 KiB"));
        }
        Draft::read(text)?.finish()
    }

    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// True with `auth-user-pass`.
    #[must_use]
    pub fn wants_credentials(&self) -> bool {
        self.wants_credentials
    }
}

fn refuse(directive: &str, reason: &str) -> ConfigError {
    ConfigError { directive: directive.to_owned(), reason: reason.to_owned() }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a directive that is present or not")]
struct Draft {
    pulls: bool,
    is_client: bool,
    has_device: bool,
    wants_credentials: bool,
    remote: Option<Remote>,
    port: Option<u16>,
    transport: Option<Transport>,
    blocks: HashMap<&'static str, Zeroizing<String>>,
    direction: Option<Direction>,
    digest: Option<Digest>,
    cipher: Option<Cipher>,
    ciphers: Option<Vec<Cipher>>,
    tls_limits: TlsLimits,
    name: Option<NameRule>,
    says_server: bool,
    dns: Vec<IpAddr>,
    filters: Vec<Filter>,
    without_routes: bool,
    ping: Option<Duration>,
    ping_restart: Option<Duration>,
    renew_after: Option<u64>,
    renew_bytes: Option<u64>,
    renew_packets: Option<u64>,
    mtu: Option<u16>,
    mssfix: Option<u16>,
    ignored: Vec<String>,
}

struct Remote {
    host: Host,
    port: Option<u16>,
    transport: Option<Transport>,
}

impl Draft {
    fn read(text: &str) -> Result<Self, ConfigError> {
        let mut draft = Self::default();
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        // The directives of a second `<connection>` and of later ones are checked and then dropped.
        let (mut connections, mut within, mut forgotten) = (0, false, Self::default());
        while let Some((at, line)) = lines.next() {
            let line = line.trim();
            if line.chars().any(|character| character.is_control() && character != '\t') {
                return Err(refuse(&place(at), "contains control characters"));
            }
            match tag(line) {
                Some("connection") if !within => {
                    within = true;
                    connections += 1;
                }
                Some("/connection") if within => within = false,
                Some("connection" | "/connection") => return Err(refuse("connection", "is not allowed here")),
                Some(name) => draft.block(name, at, &mut lines)?,
                None => {
                    let words = words::words(line)
                        .map_err(|_| refuse(&place(at), "has an unterminated quote or a trailing backslash"))?;
                    let target = if within && connections > 1 { &mut forgotten } else { &mut draft };
                    if let Some((directive, arguments)) = words.split_first() {
                        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                        target.directive(directive.strip_prefix("--").unwrap_or(directive), &arguments, at)?;
                    }
                }
            }
        }
        if within {
            return Err(refuse("connection", "does not end"));
        }
        Ok(draft)
    }

    fn block<'a>(
        &mut self,
        name: &str,
        at: usize,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<(), ConfigError> {
        let Some(known) = directives::BLOCKS.iter().find(|known| **known == name) else {
            return Err(match (name, directives::refusal(name)) {
                ("auth-user-pass", _) => refuse(
                    "auth-user-pass",
                    "is not accepted inline; send the username and the password beside the profile",
                ),
                (_, Some(reason)) => refuse(name, reason),
                _ => refuse(&reported(name, at), "is not a supported block"),
            });
        };
        let end = format!("</{known}>");
        let mut body = Zeroizing::new(String::with_capacity(MAX_PROFILE));
        loop {
            let (_, line) = lines.next().ok_or_else(|| refuse(known, "does not end"))?;
            if line.trim_start().starts_with(&end) {
                break;
            }
            body.push_str(line.trim());
            body.push('\n');
        }
        if self.blocks.insert(known, body).is_some() {
            return Err(refuse(known, "occurs twice"));
        }
        Ok(())
    }

    #[expect(clippy::too_many_lines, clippy::match_same_arms, reason = "a table of directives, which is read as one")]
    fn directive(&mut self, directive: &str, arguments: &[&str], at: usize) -> Result<(), ConfigError> {
        let amiss = |reason: &str| Err(refuse(directive, reason));
        match (directive, arguments) {
            ("client", []) => (self.pulls, self.is_client) = (true, true),
            ("pull", []) => self.pulls = true,
            ("tls-client", []) => self.is_client = true,
            ("dev", [name]) if name.starts_with("tap") => return amiss("only tun is supported"),
            ("dev", [_]) => self.has_device = true,
            ("dev-type", ["tun"]) => {}
            ("dev" | "dev-type", _) => return amiss("only tun is supported"),
            ("remote", [name, rest @ ..]) if rest.len() <= 2 => {
                let remote = Remote {
                    host: host(name)?,
                    port: rest.first().map(|text| port("remote", text)).transpose()?,
                    transport: rest.get(1).map(|text| transport("remote", text)).transpose()?,
                };
                self.remote.get_or_insert(remote);
            }
            ("port" | "rport", [text]) => self.port = Some(port(directive, text)?),
            ("proto", [text]) => self.transport = Some(transport(directive, text)?),

            ("auth-user-pass", []) => self.wants_credentials = true,
            ("auth-user-pass", _) => {
                return amiss("names a file; send the username and the password beside the profile");
            }
            (
                "ca" | "cert" | "key" | "extra-certs" | "peer-fingerprint" | "tls-crypt" | "tls-crypt-v2",
                ["[inline]"],
            ) => {}
            ("tls-auth", ["[inline]", rest @ ..]) if rest.len() <= 1 => {
                if let Some(text) = rest.first() {
                    self.direction = Some(direction(directive, text)?);
                }
            }
            (block, _) if directives::BLOCKS.contains(&block) => {
                return amiss("names a file; put its content inline, as a block");
            }
            ("key-direction", [text]) => self.direction = Some(direction(directive, text)?),

            ("auth", [name]) => match Digest::named(name) {
                Some(digest) => self.digest = Some(digest),
                None => return amiss("is none of SHA1, SHA256, SHA384 and SHA512"),
            },
            ("cipher" | "data-ciphers-fallback", [name]) => match Cipher::named(name) {
                Some(cipher) => self.cipher = Some(cipher),
                // Written for old servers. Current servers negotiate, and only a negotiated cipher is used.
                None if is_replaced(name) => {}
                None => return amiss("is none of AES-256-GCM, AES-128-GCM and CHACHA20-POLY1305"),
            },
            ("data-ciphers" | "ncp-ciphers", [names]) => {
                let ciphers: Vec<Cipher> =
                    names.split(':').filter_map(|name| Cipher::named(name.trim_start_matches('?'))).collect();
                if ciphers.is_empty() {
                    return amiss("has none of AES-256-GCM, AES-128-GCM and CHACHA20-POLY1305");
                }
                self.ciphers = Some(ciphers);
            }

            // These minimums are below TLS 1.2, the lowest version that is supported.
            ("tls-version-min", ["1.0" | "1.1" | "1.2", ..]) => {}
            ("tls-version-min", ["1.3", ..]) => self.tls_limits.without_12 = true,
            ("tls-version-max", ["1.3"]) => {}
            ("tls-version-max", ["1.2"]) => self.tls_limits.without_13 = true,
            ("tls-version-min" | "tls-version-max", _) => return amiss("only TLS 1.2 and 1.3 are supported"),
            ("tls-cipher", [names]) => self.tls_limits.suites_12 = Some((*names).to_owned()),
            ("tls-ciphersuites", [names]) => self.tls_limits.suites_13 = Some((*names).to_owned()),
            ("tls-groups", [names]) => self.tls_limits.groups = Some((*names).to_owned()),
            ("tls-cert-profile", ["legacy" | "preferred"]) => {}
            ("remote-cert-tls", ["server"]) => self.says_server = true,
            ("remote-cert-eku", ["TLS Web Server Authentication" | "serverAuth" | "1.3.6.1.5.5.7.3.1"]) => {
                self.says_server = true;
            }
            ("remote-cert-tls" | "remote-cert-eku", _) => return amiss("only a server certificate can be required"),
            ("x509-username-field", ["CN"]) => {}
            ("x509-username-field", _) => return amiss("only CN is supported"),
            ("verify-x509-name", [_, kind]) if !matches!(*kind, "subject" | "name" | "name-prefix") => {
                return amiss("its kind is none of subject, name and name-prefix");
            }
            ("verify-x509-name", [""] | ["", _]) => return amiss("names no server"),
            ("verify-x509-name", [subject] | [subject, "subject"]) => {
                self.name = Some(NameRule::Subject((*subject).to_owned()));
            }
            ("verify-x509-name", [name, "name"]) => self.name = Some(NameRule::Name((*name).to_owned())),
            ("verify-x509-name", [prefix, "name-prefix"]) => self.name = Some(NameRule::Prefix((*prefix).to_owned())),

            ("dhcp-option", ["DNS" | "DNS6", address]) => match usable(address) {
                Some(address) => self.name_server(address),
                None => return amiss("is not a server address"),
            },
            // Domains, time servers and printers are not used.
            ("dhcp-option", [_, ..]) => {}
            ("dns", _) => dns::servers(arguments).into_iter().for_each(|address| self.name_server(address)),
            ("route-nopull", []) => self.without_routes = true,
            ("pull-filter", [action, text]) => match Filter::new(action, text) {
                Some(filter) => self.filters.push(filter),
                None => return amiss("its action is none of accept, ignore and reject"),
            },
            ("ping", [text]) => self.ping = Some(seconds(directive, text)?),
            ("ping-restart" | "ping-exit", [text]) => self.ping_restart = Some(seconds(directive, text)?),
            ("keepalive", [ping, restart]) => {
                (self.ping, self.ping_restart) = (Some(seconds(directive, ping)?), Some(seconds(directive, restart)?));
            }
            ("reneg-sec", [text] | [text, _]) => self.renew_after = Some(number(directive, text)?),
            ("reneg-bytes", [text]) => self.renew_bytes = Some(number(directive, text)?),
            ("reneg-pkts", [text]) => self.renew_packets = Some(number(directive, text)?),
            ("tun-mtu", [text, ..]) => self.mtu = Some(number(directive, text)?),
            ("mssfix", [text, ..]) => self.mssfix = Some(number(directive, text)?),
            ("key-method", ["2"]) | ("mssfix", []) => {}

            ("ignore-unknown-option", names) => self.ignored.extend(names.iter().map(|name| (*name).to_owned())),
            // Options that an old client may not know, and markers for old clients.
            ("setenv", ["opt", directive, arguments @ ..]) => {
                if directives::is_known(directive) {
                    self.directive(directive, arguments, at)?;
                }
            }
            ("setenv", ["CLIENT_CERT" | "FORWARD_COMPATIBLE", ..]) => {}
            (harmless, _) if directives::HARMLESS.contains(&harmless) => {}
            (known, _) => {
                if let Some(reason) = directives::refusal(known) {
                    return amiss(reason);
                }
                if directives::is_known(known) {
                    return amiss("has unsupported arguments");
                }
                if !self.ignored.iter().any(|ignored| ignored == known) {
                    return Err(refuse(&reported(known, at), "is not a known directive"));
                }
            }
        }
        Ok(())
    }

    fn name_server(&mut self, address: IpAddr) {
        if self.dns.len() < MAX_DNS && !self.dns.contains(&address) {
            self.dns.push(address);
        }
    }

    fn finish(mut self) -> Result<Profile, ConfigError> {
        let missing = |directive: &str| refuse(directive, "is missing");
        if !(self.pulls && self.is_client) {
            return Err(missing("client"));
        }
        if !self.has_device {
            return Err(missing("dev"));
        }
        let remote = self.remote.take().ok_or_else(|| missing("remote"))?;
        let transport = remote.transport.or(self.transport).unwrap_or(Transport::Udp);
        let port = remote.port.or(self.port).unwrap_or(DEFAULT_PORT);
        let identity = self.identity()?;
        if identity.is_none() && !self.wants_credentials {
            return Err(refuse(
                "cert",
                "is missing, and so is auth-user-pass: the server could not authenticate the client",
            ));
        }
        let trust = self.trust()?;
        let guard = self.guard()?;
        if self.without_routes {
            self.filters.extend(["dhcp-option", "dns "].into_iter().filter_map(|text| Filter::new("ignore", text)));
        }
        let every = |limit: Option<u64>, max: u64| limit.filter(|limit| *limit > 0).map_or(max, |limit| limit.min(max));
        Ok(Profile {
            endpoint: Endpoint { host: remote.host, port },
            transport,
            guard,
            tls: tls::settings(trust, identity, &self.tls_limits)?,
            ciphers: self.ciphers.unwrap_or_else(|| Cipher::ALL.to_vec()),
            cipher: self.cipher,
            dns: self.dns,
            filters: self.filters,
            wants_credentials: self.wants_credentials,
            ping: self.ping,
            ping_restart: self.ping_restart,
            renewal: Renewal {
                after: match self.renew_after {
                    Some(0) => None,
                    after => Some(Duration::from_secs(after.unwrap_or(3600).max(5))),
                },
                bytes: every(self.renew_bytes, super::data::MAX_BYTES),
                packets: every(self.renew_packets, super::data::MAX_PACKETS),
            },
            mtu: mtu(transport, self.mtu, self.mssfix),
        })
    }

    fn identity(&self) -> Result<Option<Identity>, ConfigError> {
        let (cert, key) = match (self.blocks.get("cert"), self.blocks.get("key")) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(refuse("key", "is missing, but <cert> is present")),
            (None, Some(_)) => return Err(refuse("cert", "is missing, but <key> is present")),
            (Some(cert), Some(key)) => (cert, key),
        };
        if key.contains("ENCRYPTED") {
            return Err(refuse("key", "is encrypted with a passphrase, which is not supported"));
        }
        let mut chain = certificates("cert", cert)?;
        if let Some(extra) = self.blocks.get("extra-certs") {
            chain.extend(certificates("extra-certs", extra)?);
        }
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| refuse("key", "contains no readable key"))?;
        Ok(Some(Identity { chain, key: Zeroizing::new(key) }))
    }

    fn trust(&mut self) -> Result<ServerTrust, ConfigError> {
        let roots = self.blocks.get("ca").map(|text| certificates("ca", text)).transpose()?.unwrap_or_default();
        let fingerprints =
            self.blocks.get("peer-fingerprint").map(|text| fingerprints(text)).transpose()?.unwrap_or_default();
        if roots.is_empty() && fingerprints.is_empty() {
            return Err(refuse("ca", "is missing: the server could not be authenticated"));
        }
        Ok(ServerTrust { roots, fingerprints, name: self.name.take(), says_server: self.says_server })
    }

    fn guard(&self) -> Result<Guard, ConfigError> {
        let blocks = ["tls-auth", "tls-crypt", "tls-crypt-v2"].map(|name| self.blocks.get(name));
        Ok(match blocks {
            [None, None, None] => Guard::None,
            [Some(text), None, None] => Guard::Auth {
                digest: self.digest.unwrap_or(Digest::Sha1),
                key: static_key("tls-auth", text)?,
                direction: self.direction.unwrap_or(Direction::Both),
            },
            [None, Some(text), None] => Guard::Crypt { key: static_key("tls-crypt", text)? },
            [None, None, Some(text)] => client_key(text)?,
            _ => return Err(refuse("tls-crypt", "is not the only one of <tls-auth>, <tls-crypt> and <tls-crypt-v2>")),
        })
    }
}

/// Packets of the tunnel travel inside packets of 1,500 bytes, which leave this much with UDP over IPv6.
fn mtu(transport: Transport, asked: Option<u16>, mssfix: Option<u16>) -> usize {
    let max = match transport {
        Transport::Udp => 1420,
        Transport::Tcp => 1500,
    };
    // `mssfix` limits the size of the outer packet, which is 72 bytes larger.
    let fixed = mssfix.filter(|bytes| *bytes > 0).map_or(max, |bytes| bytes.saturating_sub(72));
    // IPv6 needs at least 1,280 bytes, and IPv4 at least 576.
    usize::from(asked.unwrap_or(max).min(fixed).clamp(576, max))
}

fn tag(line: &str) -> Option<&str> {
    line.strip_prefix('<')?.strip_suffix('>')
}

fn place(at: usize) -> String {
    format!("line {}", at + 1)
}

/// Text that does not look like a directive may be part of a key outside its block, so only its line is reported.
fn reported(directive: &str, at: usize) -> String {
    let is_like_one = directive.len() <= 40
        && directive.starts_with(|first: char| first.is_ascii_lowercase())
        && directive
            .chars()
            .all(|character| character.is_ascii_lowercase() || character.is_ascii_digit() || "-_".contains(character));
    if is_like_one { directive.to_owned() } else { place(at) }
}

fn number<T: std::str::FromStr>(directive: &str, text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|_| refuse(directive, "is not a number in the allowed range"))
}

fn seconds(directive: &str, text: &str) -> Result<Duration, ConfigError> {
    number::<u32>(directive, text).map(|seconds| Duration::from_secs(seconds.into()))
}

fn port(directive: &str, text: &str) -> Result<u16, ConfigError> {
    match text.parse() {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(refuse(directive, "has no port from 1 to 65535")),
    }
}

fn transport(directive: &str, text: &str) -> Result<Transport, ConfigError> {
    match text {
        "udp" | "udp4" | "udp6" => Ok(Transport::Udp),
        "tcp" | "tcp4" | "tcp6" | "tcp-client" | "tcp4-client" | "tcp6-client" => Ok(Transport::Tcp),
        _ => Err(refuse(directive, "is neither udp nor tcp")),
    }
}

fn direction(directive: &str, text: &str) -> Result<Direction, ConfigError> {
    match text {
        "0" => Ok(Direction::Normal),
        "1" => Ok(Direction::Inverse),
        _ => Err(refuse(directive, "its direction is neither 0 nor 1")),
    }
}

/// Parses a name or an address, in the normalized form that address checks expect.
fn host(text: &str) -> Result<Host, ConfigError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(match address {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        });
    }
    let is_plain = !text.is_empty() && text.len() <= 253 && !text.starts_with(['-', '.']);
    let is_plain =
        is_plain && text.chars().all(|character| character.is_ascii_alphanumeric() || ".-_".contains(character));
    let host = if is_plain { Host::parse(text).ok() } else { None };
    host.ok_or_else(|| refuse("remote", "has no valid host"))
}

/// Current servers replace these ciphers by a negotiated one.
fn is_replaced(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["AES-128", "AES-192", "AES-256"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|mode| matches!(mode, "-CBC" | "-GCM")))
}

fn certificates(block: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(refuse(block, "contains no readable certificate")),
    }
}

/// One per line, with colons between the bytes.
fn fingerprints(text: &str) -> Result<Vec<[u8; 32]>, ConfigError> {
    let amiss = || refuse("peer-fingerprint", "contains no readable SHA-256 fingerprint");
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    let found = lines.map(|line| {
        let mut fingerprint = [0; 32];
        hex::decode_to_slice(line.replace(':', ""), &mut fingerprint).map(|()| fingerprint).map_err(|_| amiss())
    });
    let found: Vec<_> = found.collect::<Result<_, _>>()?;
    if found.is_empty() { Err(amiss()) } else { Ok(found) }
}

/// Text outside the markers is ignored.
fn armoured(text: &str, name: &str) -> Option<Zeroizing<String>> {
    let (begin, end) = (format!("-----BEGIN {name}-----"), format!("-----END {name}-----"));
    let body = text.split_once(&begin)?.1.split_once(&end)?.0;
    let mut joined = Zeroizing::new(String::with_capacity(body.len()));
    body.lines().for_each(|line| joined.push_str(line.trim()));
    Some(joined)
}

fn static_key(block: &str, text: &str) -> Result<Zeroizing<StaticKey>, ConfigError> {
    let amiss = || refuse(block, "contains no readable OpenVPN static key");
    let digits = armoured(text, "OpenVPN Static key V1").ok_or_else(amiss)?;
    let mut key = Zeroizing::new([0; 256]);
    hex::decode_to_slice(digits.as_bytes(), &mut *key).map_err(|_| amiss())?;
    Ok(key)
}

/// The key itself, followed by its wrapped form for the server.
fn client_key(text: &str) -> Result<Guard, ConfigError> {
    let amiss = || refuse("tls-crypt-v2", "contains no readable OpenVPN client key");
    let armoured = armoured(text, "OpenVPN tls-crypt-v2 client key").ok_or_else(amiss)?;
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(armoured.as_bytes()).map_err(|_| amiss())?);
    let (own, wrapped) = bytes.split_at_checked(256).ok_or_else(amiss)?;
    let says = wrapped.last_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
    if !WRAPPED_KEY.contains(&wrapped.len()) || says != Some(wrapped.len()) {
        return Err(amiss());
    }
    let mut key = Zeroizing::new([0; 256]);
    key.copy_from_slice(own);
    Ok(Guard::CryptV2 { key, wrapped: wrapped.to_vec() })
}

#[cfg(test)]
pub(super) mod tests;
