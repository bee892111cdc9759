//! `live.*`

use std::time::Duration;

use kitfleet_api::LiveConfig;
use serde::{Deserialize, Serialize};

use super::values::{duration, origins};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Live {
    #[serde(with = "duration")]
    pub ticket_ttl: Duration,
    /// Pages of these origins may open a live view, in addition to this service's own.
    #[serde(with = "origins")]
    pub origins: Vec<String>,
}

impl Default for Live {
    fn default() -> Self {
        let LiveConfig { ticket_ttl, origins } = LiveConfig::default();
        Self { ticket_ttl, origins }
    }
}
