use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::results::in_place;
use super::{OperationOutput, OperationSpec, Parameters, UsageKind};
use crate::timestamp::Timestamp;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StateCapture {}

impl Parameters for StateCapture {
    const SPEC: OperationSpec = OperationSpec {
        kind: "state_capture",
        route: Some("state"),
        usage: Some(UsageKind::StateCapture),
        allowed_while_paused: true,
        allowed_with_dialog: true,
        ..OperationSpec::READS
    };
}

impl OperationOutput for SessionState {
    fn weight(&self) -> usize {
        let storage = self.local_storage.iter().flatten().map(|(key, value)| key.len() + value.len());
        let cookies = self.cookies.iter().map(|cookie| cookie.name.len() + cookie.value.len());
        storage.chain(cookies).sum()
    }
}

/// State of a session's browser
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "url": "https://example.com/", "title": "Example Domain",
    "cookies": [{"name": "theme", "value": "dark", "domain": "example.com", "path": "/"}],
    "local_storage": {"cart": "3"}, "captured_at": "2026-11-20T18:05:00.123Z", "page_state": {"state": "loaded"},
}))]
pub struct SessionState {
    /// Address of the page, limited to its first 32,768 characters
    pub url: String,
    /// Title of the page, limited to its first 4,096 characters
    #[schema(required = true)]
    pub title: Option<String>,
    /// Cookies, at most 1,000
    #[schema(value_type = Vec<Object>)]
    pub cookies: Vec<Cookie>,
    /// Local storage of the page's origin, at most 1 MiB; null while the page shows a dialog that waits for an answer
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, required = true)]
    pub local_storage: Option<IndexMap<String, String>>,
    #[schema(value_type = String, format = DateTime)]
    pub captured_at: Timestamp,
    /// State of the page; null before the first lifecycle event
    #[schema(required = true)]
    pub page_state: Option<PageState>,
    /// True if the address, title, cookies or storage were truncated; absent otherwise
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A cookie of any host that the browser has visited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// A leading dot includes subdomains.
    pub domain: String,
    pub path: String,
    /// `None` for a session cookie.
    pub expires: Option<Timestamp>,
    pub http_only: bool,
    pub secure: bool,
    pub same_site: String,
}

/// Load state of the page
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageState {
    /// Load state.
    #[schema(schema_with = in_place::<PageStanding>)]
    pub state: PageStanding,
    /// Error of the page; present if `state` is `errored`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<PageError>,
}

/// Load state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(title = "PageStanding")]
#[serde(rename_all = "lowercase")]
pub enum PageStanding {
    /// The page is loading.
    Loading,
    /// The `load` event has fired.
    Loaded,
    /// The load failed, or returned an HTTP error page.
    Errored,
}

/// Error of a page
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageError {
    /// Layer that failed.
    #[schema(schema_with = in_place::<PageErrorKind>)]
    pub kind: PageErrorKind,
    /// HTTP status, for `http`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub http_status: Option<u16>,
    pub message: String,
}

/// Layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    /// An HTTP status of 400 or above.
    Http,
    /// TLS handshake or certificate.
    Tls,
    /// Name resolution.
    Dns,
    /// Network, below HTTP.
    Net,
    /// Timeout of the load.
    Timeout,
}
