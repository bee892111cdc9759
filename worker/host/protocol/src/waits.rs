//! Progress, responses and scripts for waits of the worker.

use std::fmt;

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

/// Result of [`super::HostCommand::RunPredicate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredicateResult {
    /// True when the value is truthy.
    pub holds: bool,
    /// Exception that the script has thrown.
    pub exception: Option<PredicateException>,
}

/// Exception of a script.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredicateException {
    /// Name of the error, truncated.
    pub name: String,
    /// Message of the error, or the thrown value as text, truncated.
    pub message: String,
}

/// Prints nothing, because the text may contain values of the page.
impl fmt::Debug for PredicateException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PredicateException")
    }
}
