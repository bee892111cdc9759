//! Progress of loads and responses, for waits of the worker.

use serde::{Deserialize, Serialize};

/// Progress of a page's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "a later state includes the earlier ones")]
pub struct LoadProgress {
    /// The `DOMContentLoaded` event has fired.
    pub dom_content_loaded: bool,
    /// The `load` event has fired, and no load is in progress.
    pub loaded: bool,
    /// The same, and the network is idle as for [`super::WaitUntil::NetworkIdle`].
    pub network_idle: bool,
    /// The last load failed, and led to no document.
    pub has_failed: bool,
}

/// Response that a page has received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseEntry {
    /// Number, never used again in a browser. The first response is 1.
    pub number: u64,
    /// Address, truncated to the device's limit.
    pub uri: String,
    /// HTTP status of the response.
    pub status: u16,
    /// Time of the response, in microseconds since 1970.
    pub received_us: u64,
}
