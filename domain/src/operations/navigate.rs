//! Loading a page.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};
use utoipa::ToSchema;

use super::interact::NAVIGATE_TIMEOUT;
use super::{OperationOutput, OperationSpec, Parameters, parse_timeout};
use crate::addresses::Destinations;
use crate::limits::Limits;
use crate::usage::Record;
use crate::validation::{Invalid, Rules, both};

/// `POST /v1/sessions/:id/navigate`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Navigate {
    /// As the caller wrote it: the answer repeats it.
    pub requested_url: String,
    /// Where to.
    pub url: BrowserUrl,
    /// How far the page has to come.
    pub wait_until: WaitUntil,
    /// Until then, or the session errors.
    pub timeout: Duration,
    /// Whether no form may be submitted from now on: see [`super::Interact::hold_submissions`].
    #[serde(default)]
    pub hold_submissions: bool,
}

impl Parameters for Navigate {
    const SPEC: OperationSpec = OperationSpec {
        kind: "navigate",
        route: Some("navigate"),
        usage: Some(Record::Navigate),
        ..OperationSpec::ACTS
    };

    fn budget(&self) -> Duration {
        self.timeout
    }
}

impl OperationOutput for Navigated {}

impl Navigate {
    /// # Errors
    /// On `url` or `timeout_ms`.
    pub fn parse(
        url: String,
        wait_until: WaitUntil,
        timeout_ms: Option<u64>,
        destinations: &Destinations,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        rules.length(&url, 0, limits.url_chars, "url");
        let target = rules.check().and_then(|()| BrowserUrl::parse(&url, destinations));
        let (timeout, target) = both(parse_timeout(timeout_ms, NAVIGATE_TIMEOUT, limits), target)?;
        Ok(Self { requested_url: url, url: target, wait_until, timeout, hold_submissions: false })
    }
}

/// A page that was loaded
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"url": "https://example.com", "status": 200, "final_url": "https://example.com/", "duration_ms": 184}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct Navigated {
    /// As requested
    pub url: String,
    /// The HTTP status of the main document
    #[schema(required = true)]
    pub status: Option<u16>,
    /// After redirects; its first 32,768 characters, as of every address here that a page has chosen
    pub final_url: String,
    pub duration_ms: u64,
    /// Whether the page would have submitted a form by itself, and did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub page_submission_held: bool,
}

/// An address a browser may be sent to: http or https, and not literally a private host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BrowserUrl(Url);

impl BrowserUrl {
    /// # Errors
    /// On field `url`, when it is no absolute http or https URL, or names an address outright that the deployment does
    /// not allow. A name that resolves to one is the egress guard's business, and so is what is near a worker.
    pub fn parse(text: &str, destinations: &Destinations) -> Result<Self, Invalid> {
        let url = Url::parse(text.trim()).map_err(|e| {
            Invalid::field("url", format!("must be an absolute URL, such as https://example.com/: {e}"))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Invalid::field("url", "must be an http or https URL"));
        }
        let permitted = match url.host() {
            Some(Host::Ipv4(v4)) => destinations.permit_literal(v4.into()),
            Some(Host::Ipv6(v6)) => destinations.permit_literal(v6.into()),
            Some(Host::Domain(_)) => true,
            None => return Err(Invalid::field("url", "must name a host")),
        };
        if !permitted {
            return Err(Invalid::field("url", "must not be a private address"));
        }
        Ok(Self(url))
    }

    /// The address, normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// How far a page has to come before a navigation is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    /// The `load` event.
    #[default]
    Load,
    /// The `DOMContentLoaded` event.
    DomContentLoaded,
    /// No requests for half a second after `load`.
    NetworkIdle,
}
