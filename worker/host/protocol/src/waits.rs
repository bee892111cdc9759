//! Progress of loads and responses, for waits of the worker.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "a later state includes the earlier ones")]
pub struct LoadProgress {
    pub dom_content_loaded: bool,
    /// And no load is in progress.
    pub loaded: bool,
    /// Like `loaded`, and the network is idle as for [`super::WaitUntil::NetworkIdle`].
    pub network_idle: bool,
    /// The last load failed, and led to no document.
    pub has_failed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseEntry {
    /// Never used again in a browser.
    pub number: u64,
    /// Truncated to the device's limit.
    pub uri: String,
    pub status: u16,
    /// Microseconds since 1970.
    pub received_us: u64,
}
