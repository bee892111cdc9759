//! Results of operations, for the contract alone: the worker puts them together, and they pass through as they are.
#![expect(dead_code, reason = "these types describe JSON that is never a Rust value here")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::openapi::one_of;

/// A page that was loaded
#[derive(ToSchema)]
#[schema(example = json!({"url": "https://example.com", "status": 200, "final_url": "https://example.com/", "duration_ms": 184}))]
pub struct Navigated {
    /// As requested
    url: String,
    /// The HTTP status of the main document
    #[schema(required = true)]
    status: Option<u16>,
    /// After redirects; its first 32,768 characters, as of every address here that a page has chosen
    final_url: String,
    duration_ms: u64,
}

/// What became of an interaction
#[derive(ToSchema)]
#[schema(example = json!({"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}))]
pub struct Interacted {
    /// False only with `on_timeout: return`
    ok: bool,
    /// The action's kind
    kind: String,
    duration_ms: u64,
    /// The page's address afterwards
    url: String,
}

/// What became of a wait
#[derive(ToSchema)]
#[schema(example = json!({"matched": true, "kind": "selector", "duration_ms": 412, "url": "https://example.com/"}))]
pub struct Waited {
    /// False only with `on_timeout: return`
    matched: bool,
    /// The condition's kind
    kind: String,
    duration_ms: u64,
    /// The page's address afterwards
    url: String,
}

/// A session's state
#[derive(ToSchema)]
#[schema(as = SessionState, example = json!({
    "url": "https://example.com/", "title": "Example Domain",
    "cookies": [{"name": "theme", "value": "dark", "domain": "example.com", "path": "/"}],
    "local_storage": {"cart": "3"}, "captured_at": "2026-11-20T18:05:00.123Z", "page_state": {"state": "loaded"},
}))]
pub struct Snapshot {
    /// Its first 32,768 characters
    url: String,
    /// Its first 4,096 characters
    #[schema(required = true)]
    title: Option<String>,
    /// At most 1,000
    #[schema(value_type = Vec<Object>)]
    cookies: Vec<Value>,
    /// That of the page's origin, at most 1 MiB of it
    local_storage: BTreeMap<String, String>,
    #[schema(format = DateTime)]
    captured_at: String,
    /// Null before the first lifecycle event
    #[schema(required = true)]
    page_state: Option<PageState>,
    /// Present when the address, the title, the cookies or the storage were cut to size
    #[schema(nullable = false)]
    truncated: Option<bool>,
}

/// Where the page stands
#[derive(ToSchema)]
struct PageState {
    #[schema(schema_with = page_states)]
    state: String,
    /// Present when errored
    #[schema(nullable = false)]
    error: Option<PageError>,
}

/// Why a page errored
#[derive(ToSchema)]
struct PageError {
    #[schema(schema_with = page_error_kinds)]
    kind: String,
    /// For `http`
    #[schema(nullable = false)]
    http_status: Option<u16>,
    message: String,
}

fn page_states() -> RefOr<Schema> {
    one_of(&["loading", "loaded", "errored"], None)
}

fn page_error_kinds() -> RefOr<Schema> {
    one_of(&["http", "tls", "dns", "net", "timeout"], None)
}

/// A capture
#[derive(ToSchema)]
#[schema(example = json!({"kind": "screenshot", "encoding": "base64", "content": "iVBORw0KGgo…",
    "content_type": "image/png", "bytes": 48213, "duration_ms": 71, "url": "https://example.com/"}))]
pub struct Captured {
    kind: String,
    /// `base64` for a screenshot or PDF, `utf8` for a DOM snapshot
    #[schema(schema_with = encodings)]
    encoding: String,
    content: String,
    content_type: String,
    /// Of the content before it was encoded
    bytes: u64,
    duration_ms: u64,
    /// The page's address
    url: String,
}

fn encodings() -> RefOr<Schema> {
    one_of(&["base64", "utf8"], None)
}

/// The values that were read
#[derive(ToSchema)]
#[schema(example = json!({"value": {"title": "Shoes", "price": 89.9, "links": [{"href": "/sale"}]}}))]
pub struct Extracted {
    /// By extraction name; null or an empty array where nothing matched. Values of more than 8 MiB in all, and lists of more
    /// than 10,000 matches, are withheld: a 502 `driver-error` with `bytes` and `limit_bytes`, or `matches` and
    /// `limit_matches`, that leaves the session ready
    #[schema(value_type = Object)]
    value: Value,
}

/// What became of a search
#[derive(ToSchema)]
#[schema(as = SearchResult, example = json!({"submitted": true, "query_truncated": false, "results_visible": true, "duration_ms": 1240}))]
pub struct SearchEnded {
    submitted: bool,
    /// True when typing hit its safety bound; then nothing was submitted
    query_truncated: bool,
    /// With `wait_for_results_selector`: whether it showed in time
    #[schema(nullable = false)]
    results_visible: Option<bool>,
    duration_ms: u64,
}

/// What became of a login
#[derive(ToSchema)]
#[schema(as = LoginResult, example = json!({"submitted": true, "credentials_truncated": false, "logged_in": true,
    "post_login_url": "https://example.com/home", "duration_ms": 2310}))]
pub struct LoginEnded {
    submitted: bool,
    /// True when typing hit its safety bound; then nothing was submitted
    credentials_truncated: bool,
    /// An assessment, not proof
    logged_in: bool,
    /// Absent when nothing was submitted
    #[schema(nullable = false)]
    post_login_url: Option<String>,
    duration_ms: u64,
}
