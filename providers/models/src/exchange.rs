//! Requests to providers, with limits on the time and size of answers.
//!
//! A request is sent again only when the provider rejected it and said when to retry. One that failed midway or timed
//! out may have been processed and charged.

use std::time::Duration;

use kitfleet_domain::byok::ProviderKey;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, redirect};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::provider_apis::ProviderApi;
use crate::{Failure, ProviderSettings};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 1024 * 1024;
const MAX_REFUSED_BYTES: usize = 64 * 1024;
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// Longest pause before a retry that a provider may request.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Rate limits have the same status codes.
const OF_PAYMENT: [&str; 7] = [
    "credit",
    "balance",
    "spend limit",
    "spending limit",
    "usage limits",
    "insufficient_quota",
    "exceeded your current quota",
];

pub struct Exchange(Client);

#[derive(Debug)]
pub enum Refusal {
    Status { status: u16, of_payment: bool, pause: Option<Duration> },
    Failed(Failure),
}

impl Refusal {
    pub fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Status { status: 401 | 403, .. } => Failure::KeyRefused,
            Self::Status { status: 402, .. } | Self::Status { status: 400 | 429, of_payment: true, .. } => {
                Failure::QuotaExceeded
            }
            Self::Status { status: 429 | 529, .. } => Failure::Busy,
            Self::Status { status, .. } => Failure::Status(status),
        }
    }

    /// Pause before a retry, if a retry is allowed.
    fn pause(&self) -> Option<Duration> {
        match self {
            Self::Status { status: 429 | 529, of_payment: false, pause } => {
                pause.filter(|pause| *pause <= LONGEST_PAUSE)
            }
            _ => None,
        }
    }
}

impl Exchange {
    pub fn new() -> reqwest::Result<Self> {
        let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).connect_timeout(CONNECT_WITHIN);
        // Automatic retries are off: the client library does not know the cost of a request.
        let client = client.retry(reqwest::retry::never()).user_agent(concat!("kitfleet/", env!("CARGO_PKG_VERSION")));
        client.build().map(Self)
    }

    pub fn request(
        &self,
        end: &dyn ProviderApi,
        settings: &ProviderSettings,
        key: &ProviderKey,
        body: &Value,
    ) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        let (name, value) = end.credential(key);
        let mut value = HeaderValue::try_from(value).unwrap_or_else(|_| unreachable!("a key is printable"));
        value.set_sensitive(true);
        headers.insert(name, value);
        self.0.post(format!("{}{}", settings.base_url, end.path())).headers(headers).headers(end.headers()).json(body)
    }

    pub async fn once(&self, request: RequestBuilder, within: Duration) -> Result<Vec<u8>, Refusal> {
        timeout(within, attempt(request)).await.unwrap_or(Err(Refusal::Failed(Failure::Late)))
    }

    /// Sends a request, and again if the provider asks for a retry. `within` limits the total time.
    pub async fn twice_at_most(&self, request: RequestBuilder, within: Duration) -> Result<Vec<u8>, Refusal> {
        let again = request.try_clone();
        let attempts = async {
            let refusal = match attempt(request).await {
                Err(refusal) => refusal,
                answered => return answered,
            };
            let Some((pause, again)) = refusal.pause().zip(again) else { return Err(refusal) };
            sleep(pause).await;
            attempt(again).await
        };
        timeout(within, attempts).await.unwrap_or(Err(Refusal::Failed(Failure::Late)))
    }
}

async fn attempt(request: RequestBuilder) -> Result<Vec<u8>, Refusal> {
    let response = request.send().await.map_err(|error| Refusal::Failed(lost(&error)))?;
    let status = response.status();
    if status.is_success() {
        return read_body(response).await.map_err(Refusal::Failed);
    }
    let pause = pause(response.headers());
    // An unreadable body counts as empty.
    let text = timeout(REFUSED_WITHIN, read_excerpt(response)).await.unwrap_or_default().to_ascii_lowercase();
    let of_payment = OF_PAYMENT.iter().any(|word| text.contains(word));
    Err(Refusal::Status { status: status.as_u16(), of_payment, pause })
}

fn pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, Failure> {
    if response.content_length().is_some_and(|length| length > MAX_BYTES as u64) {
        return Err(Failure::TooLong);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(Failure::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

async fn read_excerpt(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_REFUSED_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn lost(error: &reqwest::Error) -> Failure {
    if error.is_timeout() && !error.is_connect() { Failure::Late } else { Failure::Unreachable }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: byok 5, 12.
    #[test]
    fn error_status_determines_failure_and_retry() {
        let refusal = |status, of_payment, seconds: Option<u64>| Refusal::Status {
            status,
            of_payment,
            pause: seconds.map(Duration::from_secs),
        };
        for (refused, failure, pause) in [
            (refusal(401, false, Some(1)), Failure::KeyRefused, None),
            (refusal(403, true, None), Failure::KeyRefused, None),
            (refusal(402, false, Some(1)), Failure::QuotaExceeded, None),
            (refusal(400, true, None), Failure::QuotaExceeded, None),
            (refusal(429, true, Some(1)), Failure::QuotaExceeded, None),
            (refusal(429, false, Some(10)), Failure::Busy, Some(10)),
            (refusal(429, false, Some(11)), Failure::Busy, None),
            (refusal(429, false, None), Failure::Busy, None),
            (refusal(529, false, Some(0)), Failure::Busy, Some(0)),
            (refusal(503, false, Some(1)), Failure::Status(503), None),
            (refusal(400, false, None), Failure::Status(400), None),
            (refusal(302, true, None), Failure::Status(302), None),
        ] {
            assert_eq!(refused.pause(), pause.map(Duration::from_secs), "{refused:?}");
            assert_eq!(refused.failure(), failure);
        }
    }
}
