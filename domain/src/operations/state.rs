//! Reading a session's state.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::results::in_place;
use super::{OperationOutput, OperationSpec, Parameters};
use crate::timestamp::Timestamp;
use crate::usage::Record;

/// `GET /v1/sessions/:id/state`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StateCapture {}

impl Parameters for StateCapture {
    const SPEC: OperationSpec = OperationSpec {
        kind: "state_capture",
        route: Some("state"),
        usage: Some(Record::StateCapture),
        allowed_while_paused: true,
        ..OperationSpec::READS
    };
}

impl OperationOutput for SessionState {
    fn weight(&self) -> usize {
        let storage = self.local_storage.iter().map(|(key, value)| key.len() + value.len());
        let cookies = self.cookies.iter().map(|cookie| cookie.name.len() + cookie.value.len());
        storage.chain(cookies).sum()
    }
}

/// A session's state
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "url": "https://example.com/", "title": "Example Domain",
    "cookies": [{"name": "theme", "value": "dark", "domain": "example.com", "path": "/"}],
    "local_storage": {"cart": "3"}, "captured_at": "2026-11-20T18:05:00.123Z", "page_state": {"state": "loaded"},
}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct SessionState {
    /// Its first 32,768 characters
    pub url: String,
    /// Its first 4,096 characters
    #[schema(required = true)]
    pub title: Option<String>,
    /// At most 1,000
    #[schema(value_type = Vec<Object>)]
    pub cookies: Vec<Cookie>,
    /// That of the page's origin, at most 1 MiB of it
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub local_storage: IndexMap<String, String>,
    #[schema(value_type = String, format = DateTime)]
    pub captured_at: Timestamp,
    /// Null before the first lifecycle event
    #[schema(required = true)]
    pub page_state: Option<PageState>,
    /// Present when the address, the title, the cookies or the storage were cut to size
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// One cookie, of any host that the browser has been to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host, with a leading dot when it is valid for subdomains.
    pub domain: String,
    /// The path it is sent to.
    pub path: String,
    /// `None` for a session cookie.
    pub expires: Option<Timestamp>,
    /// Hidden from scripts.
    pub http_only: bool,
    /// Sent over TLS only.
    pub secure: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// Where the page stands
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageState {
    /// How far it is.
    #[schema(schema_with = in_place::<PageStanding>)]
    pub state: PageStanding,
    /// Present when errored
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<PageError>,
}

/// How far a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(title = "PageStanding")]
#[serde(rename_all = "lowercase")]
pub enum PageStanding {
    /// Under way.
    Loading,
    /// The `load` event has fired.
    Loaded,
    /// It failed, or is an HTTP error page.
    Errored,
}

/// Why a page errored
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct PageError {
    /// The layer that failed.
    #[schema(schema_with = in_place::<PageErrorKind>)]
    pub kind: PageErrorKind,
    /// For `http`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub http_status: Option<u16>,
    pub message: String,
}

/// The layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    /// An HTTP status of 400 or above.
    Http,
    /// The certificate or the handshake.
    Tls,
    /// The name does not resolve.
    Dns,
    /// Anything below HTTP.
    Net,
    /// The load took too long.
    Timeout,
}
