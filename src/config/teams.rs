//! `teams.*`

use std::time::Duration;

use kitfleet_api::ApiConfig;
use serde::{Deserialize, Serialize};

use super::values::duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Teams {
    #[serde(with = "duration")]
    pub invite_ttl: Duration,
}

impl Default for Teams {
    fn default() -> Self {
        Self { invite_ttl: ApiConfig::default().invite_ttl }
    }
}
