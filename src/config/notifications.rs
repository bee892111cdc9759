//! `notifications.*`: notification streams.

use kitfleet_domain::notifications::Settings;
use serde::{Deserialize, Serialize};

use super::Config;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Notifications {
    pub(super) max_streams: u32,
}

impl Default for Notifications {
    fn default() -> Self {
        Self { max_streams: Settings::default().max_streams }
    }
}

impl Config {
    #[must_use]
    pub fn notifications(&self) -> Settings {
        Settings { max_streams: self.notifications.max_streams, retention: self.retention.notifications }
    }
}
