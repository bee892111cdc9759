//! `live.*`

use std::time::Duration;

use kitfleet_api::LiveConfig;
use serde::{Deserialize, Serialize};

use super::values::{duration, origins};

/// `live.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Live {
    /// How long a ticket is good.
    #[serde(with = "duration")]
    pub ticket_ttl: Duration,
    /// Whose pages may open a live view besides this service's own.
    #[serde(with = "origins")]
    pub origins: Vec<String>,
}

impl Default for Live {
    fn default() -> Self {
        let LiveConfig { ticket_ttl, origins } = LiveConfig::default();
        Self { ticket_ttl, origins }
    }
}
