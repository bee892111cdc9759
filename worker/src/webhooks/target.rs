//! One attempt: a POST request to an address that the customer chooses and that may be hostile.
//!
//! Only public internet addresses are dialled. They are checked at connection time: the resolver filters the addresses of a
//! name, and a literal address is checked before the request. Redirects are not followed. One time limit covers connect,
//! headers and body. Only an excerpt of the body is read, and its end does not matter.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitfleet_domain::metrics::{Counter, Histogram};
use kitfleet_domain::webhooks::attempts::{Attempt, AttemptResult, Outcome, UNSIGNED};
use kitfleet_domain::webhooks::deliveries;
use kitfleet_domain::webhooks::secrets::{SigningSecret, signature};
use kitfleet_egress::{AddressPolicy, Names};
use kitfleet_types::addresses::Destinations;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Response, redirect};
use url::{Host, Url};

use super::WebhookConfig;

pub(crate) const ATTEMPTS: Counter<1> =
    Counter::new("service_webhook_delivery_attempt_total", "Attempts to deliver a webhook, by outcome.", ["outcome"])
        .starting_with(|| Outcome::ALL.iter().map(|outcome| [outcome.name()]).collect());

pub(crate) const ATTEMPT_TIME: Histogram =
    Histogram::new("service_webhook_attempt_duration_seconds", "Duration of webhook delivery attempts in seconds.", []);

const EXCERPT_BYTES: usize = 4_096;
const ERROR_CHARS: usize = 500;

/// To a host, with the time they are kept.
const IDLE_CONNECTIONS: usize = 8;
const IDLE_FOR: Duration = Duration::from_secs(20);

/// Root certificates that are trusted in addition to the public ones.
#[derive(Debug, Clone, Default)]
pub struct ExtraRoots(Vec<Certificate>);

#[derive(Debug, thiserror::Error)]
pub enum BadRoots {
    #[error("the file contains no certificate")]
    Empty,
    #[error("the file cannot be read as PEM certificates: {0}")]
    Malformed(#[from] reqwest::Error),
}

impl ExtraRoots {
    /// Certificates in PEM.
    pub fn parse(pem: &[u8]) -> Result<Self, BadRoots> {
        let roots = Certificate::from_pem_bundle(pem)?;
        if roots.is_empty() { Err(BadRoots::Empty) } else { Ok(Self(roots)) }
    }
}

pub(super) struct Target {
    http: Client,
    address_policy: AddressPolicy,
}

impl Target {
    pub(super) fn new(config: &WebhookConfig, names: &Arc<Names>) -> reqwest::Result<Self> {
        let address_policy =
            AddressPolicy::new(Destinations { allow_private: config.allow_private_targets, ..Destinations::default() });
        let mut http = Client::builder()
            .no_proxy()
            .https_only(true)
            .redirect(redirect::Policy::none())
            .timeout(config.timeout)
            // A connection that one attempt opens may serve another attempt after the first one's time limit.
            .connect_timeout(config.timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_FOR)
            .user_agent("Kitfleet-Webhooks/1")
            .dns_resolver(Arc::new(Guard { names: Arc::clone(names), address_policy: address_policy.clone() }));
        for root in &config.extra_roots.0 {
            http = http.add_root_certificate(root.clone());
        }
        Ok(Self { http: http.build()?, address_policy })
    }

    /// Measures the time until the status arrives.
    pub(super) async fn send(&self, attempt: &Attempt, secrets: &[SigningSecret]) -> AttemptResult {
        let began = Instant::now();
        let body = attempt.body();
        let signature = signature(attempt.sent_at, &body, secrets);
        let response = self.ask(attempt, body, &signature).await;
        let elapsed = began.elapsed();
        let answered = match response {
            Ok(mut response) => {
                let status = i32::from(response.status().as_u16());
                Ok(Answered { status, excerpt: read_excerpt(&mut response).await })
            }
            Err(error) => Err(error),
        };
        ended(attempt, elapsed, answered, Some(signature))
    }

    async fn ask(&self, attempt: &Attempt, body: Vec<u8>, signature: &str) -> Result<Response, NotAnswered> {
        let url = Url::parse(&attempt.url).map_err(|error| NotAnswered::transport(&error))?;
        if let Some(literal) = literal_address(&url)
            && !self.address_policy.permits(literal)
        {
            return Err(NotAnswered::transport(REFUSED));
        }
        let headers = headers(attempt, signature)?;
        Ok(self.http.post(url).headers(headers).body(body).send().await?)
    }
}

const TIMEOUT: &str = "timeout";
const REFUSED: &str = "refused: the target's address is not in the public internet";
const UNKNOWN_NAME: &str = "the target's name does not resolve";

/// Converts the response, or the failure, into the result of an attempt, and counts it.
pub(super) fn ended(
    attempt: &Attempt,
    elapsed: Duration,
    answered: Result<Answered, NotAnswered>,
    signature: Option<String>,
) -> AttemptResult {
    let (outcome, response_status, response_excerpt, error) = match answered {
        Ok(Answered { status, excerpt }) => {
            let outcome = if (200..300).contains(&status) { Outcome::Success } else { Outcome::HttpError };
            (outcome, Some(status), Some(excerpt), None)
        }
        Err(NotAnswered { outcome, error }) => (outcome, None, None, Some(error)),
    };
    ATTEMPTS.with([outcome.name()]).increment(1);
    ATTEMPT_TIME.series().record(elapsed);
    let duration_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    let Attempt { id, claimed_until, .. } = *attempt;
    AttemptResult { id, claimed_until, outcome, response_status, response_excerpt, error, duration_ms, signature }
}

fn literal_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn headers(attempt: &Attempt, signature: &str) -> Result<HeaderMap, NotAnswered> {
    let headers = deliveries::headers(attempt.event_id, &attempt.event_type, signature.to_owned());
    let headers = headers.into_iter().map(|(name, value)| {
        let name = HeaderName::try_from(name).map_err(|error| NotAnswered::transport(&error))?;
        Ok((name, HeaderValue::try_from(value).map_err(|error| NotAnswered::transport(&error))?))
    });
    headers.collect()
}

pub(super) struct Answered {
    status: i32,
    excerpt: String,
}

pub(super) struct NotAnswered {
    outcome: Outcome,
    error: String,
}

impl NotAnswered {
    fn transport(error: &(impl ToString + ?Sized)) -> Self {
        Self { outcome: Outcome::TransportError, error: kept(&error.to_string(), ERROR_CHARS) }
    }

    /// The request was not sent because it could not be signed.
    pub(super) fn unsigned() -> Self {
        Self { outcome: Outcome::Unsigned, error: UNSIGNED.to_owned() }
    }
}

impl From<reqwest::Error> for NotAnswered {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self { outcome: Outcome::Timeout, error: TIMEOUT.to_owned() };
        }
        let mut innermost: &(dyn Error + 'static) = &error;
        while let Some(cause) = cause(innermost) {
            innermost = cause;
            match innermost.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => return Self::transport("connection refused"),
                Some(io::ErrorKind::ConnectionReset) => return Self::transport("connection reset"),
                _ => {}
            }
        }
        match innermost.downcast_ref::<rustls::Error>() {
            Some(error) => Self::transport(broken_trust(error)),
            None => Self::transport(&innermost.to_string()),
        }
    }
}

/// An error inside an `io::Error` is not its `source()`, so it is read with `get_ref`.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    carried.map(|carried| carried as &(dyn Error + 'static)).or_else(|| error.source())
}

/// The messages of rustls are Rust debug output.
fn broken_trust(error: &rustls::Error) -> &'static str {
    use rustls::CertificateError as Certificate;
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            Certificate::UnknownIssuer => "the target's certificate was issued by an untrusted authority",
            Certificate::Expired | Certificate::ExpiredContext { .. } => "the target's certificate has expired",
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                "the target's certificate is not valid yet"
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                "the target's certificate is for another name"
            }
            _ => "the target's certificate is not valid",
        },
        rustls::Error::AlertReceived(_) => "the target rejected the TLS connection",
        _ => "the TLS handshake with the target failed",
    }
}

/// The rest is not read, which closes the connection. A body that breaks off or exceeds the time limit ends the excerpt: many
/// servers end a response by closing the connection, and some never end it.
async fn read_excerpt(response: &mut Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < EXCERPT_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        bytes.extend_from_slice(&chunk[..chunk.len().min(EXCERPT_BYTES - bytes.len())]);
    }
    kept(&String::from_utf8_lossy(&bytes), EXCERPT_BYTES)
}

/// PostgreSQL rejects NUL.
fn kept(text: &str, chars: usize) -> String {
    text.replace('\0', "\u{fffd}").chars().take(chars).collect()
}

/// Drops addresses that must not be dialled.
struct Guard {
    names: Arc<Names>,
    address_policy: AddressPolicy,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, address_policy) = (Arc::clone(&self.names), self.address_policy.clone());
        Box::pin(async move {
            let resolved = names.addresses(name.as_str()).await.map_err(|_| io::Error::other(UNKNOWN_NAME))?;
            let dialled = resolved.into_iter().filter(|address| address_policy.permits(*address));
            let dialled: Vec<_> = dialled.map(|address| SocketAddr::new(address, 0)).collect();
            if dialled.is_empty() {
                return Err(io::Error::other(REFUSED).into());
            }
            Ok(Box::new(dialled.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_text_has_no_nul_and_a_maximum_length() {
        assert_eq!(kept("a\0b", 10), "a\u{fffd}b");
        assert_eq!(kept(&"ü".repeat(5), 3), "üüü");
    }

    #[test]
    fn literal_addresses_are_recognized_in_every_notation() {
        for (url, literal) in [
            ("https://127.0.0.1/", true),
            ("https://2130706433/", true),
            ("https://0x7f.1/", true),
            ("https://[::1]/", true),
            ("https://localhost/", false),
        ] {
            assert_eq!(literal_address(&Url::parse(url).expect("a URL")).is_some(), literal, "{url}");
        }
    }
}
