use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};
use utoipa::ToSchema;

use super::interact::NAVIGATE_TIMEOUT;
use super::{
    AnsweredDialog, DialogMembers, Interruption, OnTimeout, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, PageError, Parameters, UsageKind, parse_timeout,
};
use crate::addresses::Destinations;
use crate::files::DownloadRef;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Navigate {
    /// Address as the caller wrote it, repeated in the response.
    pub requested_url: String,
    pub url: BrowserUrl,
    pub wait_until: WaitUntil,
    pub timeout: Duration,
    #[serde(default)]
    pub on_timeout: OnTimeout,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// See [`super::Interact::hold_submissions`].
    #[serde(default)]
    pub hold_submissions: bool,
}

impl Parameters for Navigate {
    const SPEC: OperationSpec = OperationSpec {
        kind: "navigate",
        route: Some("navigate"),
        usage: Some(UsageKind::Navigate),
        ..OperationSpec::ACTS
    };

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let Interruption { dialog, dialogs, url, duration_ms } = by;
        Some(OperationResult::Navigate(Navigated {
            url: self.requested_url.clone(),
            status: None,
            final_url: url,
            duration_ms,
            error: None,
            timed_out: false,
            dialogs,
            dialog: Some(dialog),
            download: None,
            page_submission_held: false,
        }))
    }
}

impl OperationOutput for Navigated {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

impl Navigate {
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
        Ok(Self {
            requested_url: url,
            url: target,
            wait_until,
            timeout,
            on_timeout: OnTimeout::default(),
            on_failure: OnFailure::default(),
            hold_submissions: false,
        })
    }
}

/// Outcome of a navigation
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"url": "https://example.com", "status": 200, "final_url": "https://example.com/", "duration_ms": 184}))]
pub struct Navigated {
    /// Address as requested
    pub url: String,
    /// HTTP status of the main document, or of a response that leaves the previous document in place: 204, 205, 304 or a download.
    /// Null only with `on_failure: return` or `on_timeout: return`, if there was no response, and with `dialog`
    #[schema(required = true)]
    pub status: Option<u16>,
    /// Address after redirects, limited to its first 32,768 characters like every address that a page can choose
    pub final_url: String,
    pub duration_ms: u64,
    /// With `on_failure: return`, the reason why there was no response
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<PageError>,
    /// True if the navigation timed out with `on_timeout: return` or `on_failure: return`; the page may still be loading
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Download that the navigation has turned into. The page before it stays
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub download: Option<DownloadRef>,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The page may still be loading
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
    /// True if the page tried to submit a form by itself and the submission was held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub page_submission_held: bool,
}

/// Http or https, and not a literal private address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BrowserUrl(Url);

impl BrowserUrl {
    /// Returns an error on field `url`. The egress guard checks the addresses that a host name resolves to, and
    /// addresses near a worker.
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

    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Handling of DNS, TLS and network errors and of timeouts (contract: operations 7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    #[default]
    Fail,
    /// Return 200 with the error and keep the session.
    Return,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    #[default]
    Load,
    DomContentLoaded,
    /// No requests for 500 ms after `load`, except for streams of events and requests that are in flight for longer.
    NetworkIdle,
}
