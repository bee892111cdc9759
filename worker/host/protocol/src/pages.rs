//! Pages of a browser, and their loads.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    Load,
    DomContentLoaded,
    /// `load`, then 500 ms without a request in flight. Event streams, beacons, and a request that has been in flight for 500
    /// ms, do not count.
    NetworkIdle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Navigated {
    /// After redirects, truncated.
    pub final_uri: String,
    /// `None` without a response. After a response without a document, such as a download, the previous document stays.
    pub status: Option<u16>,
    pub error: Option<PageError>,
    /// The load has turned into it: the previous document stays, and there is no error.
    pub download: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEntry {
    /// Never used again in a browser.
    pub id: u32,
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
    pub active: bool,
    /// Also with `noopener`. That page may be closed.
    pub opener: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
    pub truncated: bool,
    /// Of the main document. `None` before the first navigation.
    pub lifecycle: Option<Lifecycle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Lifecycle {
    Loading,
    Loaded,
    /// The load failed, or the document is an HTTP error page.
    Errored {
        error: PageError,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageError {
    pub kind: PageErrorKind,
    pub http_status: Option<u16>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    Http,
    /// Error of the certificate or the handshake.
    Tls,
    Dns,
    /// Refused, reset, redirect loop, blocked, closed page.
    Net,
    Timeout,
}
