//! `status.*`: the status page.

use std::time::Duration;

use kitfleet_domain::status::Settings;
use serde::{Deserialize, Serialize};

use super::Config;
use super::values::duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Minimum time between two mails to a subscriber about updates of an incident.
    #[serde(with = "duration")]
    update_interval: Duration,
    #[serde(with = "duration")]
    pub(super) confirm_ttl: Duration,
}

impl Default for Status {
    fn default() -> Self {
        let Settings { update_interval, confirm_ttl } = Settings::default();
        Self { update_interval, confirm_ttl }
    }
}

impl Config {
    #[must_use]
    pub fn status(&self) -> Settings {
        Settings { update_interval: self.status.update_interval, confirm_ttl: self.status.confirm_ttl }
    }
}
