//! `recordings.*`: recordings of sessions.

use kitfleet_domain::recordings::{RecordMode, RecordingLimits, streams};
use kitfleet_recording::RecordingsConfig;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Recordings {
    /// Of sessions whose create does not name it.
    pub default: RecordMode,
    pub session_bytes: u64,
    pub account_bytes: u64,
    /// Open streams of timelines of an account.
    pub max_streams: u32,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Staff {
    /// Content of customers' sessions may be read. The customers see it in their audit logs.
    pub may_watch: bool,
}

impl Default for Recordings {
    fn default() -> Self {
        let RecordingLimits { session_bytes, account_bytes } = RecordingLimits::default();
        Self { default: RecordMode::default(), session_bytes, account_bytes, max_streams: streams::MAX_STREAMS }
    }
}

impl Recordings {
    /// A trace is a ZIP file without the extension for large files.
    pub const MAX_SESSION_BYTES: u64 = 2 * 1024 * 1024 * 1024;

    #[must_use]
    pub fn limits(&self) -> RecordingLimits {
        RecordingLimits { session_bytes: self.session_bytes, account_bytes: self.account_bytes }
    }
}

impl Config {
    pub(crate) fn recordings(&self) -> Result<RecordingsConfig, ConfigError> {
        let stores = self.stores()?;
        Ok(RecordingsConfig { vault: stores.vault, place: stores.place, limits: self.recordings.limits() })
    }
}
