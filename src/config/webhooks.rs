//! `webhooks.*`

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kitfleet_domain::webhooks::attempts::Schedule;
use kitfleet_jobs::webhooks::attempts_that_fit;
use kitfleet_worker::webhooks::{ExtraRoots, WebhookConfig};
use serde::{Deserialize, Serialize};

use super::values::{duration, durations};
use super::{Config, ConfigError};
use crate::descriptors;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhooks {
    #[serde(with = "durations")]
    pub retry_schedule: Vec<Duration>,
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Consecutive dead letters.
    pub auto_disable_after: u32,
    /// A rotated secret signs beside its successor.
    #[serde(with = "duration")]
    pub secret_grace: Duration,
    /// The owner then gets a reminder to rotate it.
    #[serde(with = "duration")]
    pub secret_reminder_after: Duration,
    /// Loopback, link-local and private addresses.
    pub allow_private_targets: bool,
    /// Further root certificates for https targets, in PEM.
    pub extra_ca_file: Option<PathBuf>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            retry_schedule: [1, 5, 15, 30, 60].map(Duration::from_mins).to_vec(),
            timeout: Duration::from_secs(10),
            auto_disable_after: 50,
            secret_grace: Duration::from_hours(24),
            secret_reminder_after: Duration::from_hours(60 * 24),
            allow_private_targets: false,
            extra_ca_file: None,
        }
    }
}

impl Config {
    pub(crate) fn webhooks(&self) -> Result<WebhookConfig, ConfigError> {
        let webhooks = &self.webhooks;
        Ok(WebhookConfig {
            schedule: Schedule {
                pauses: webhooks.retry_schedule.clone(),
                disable_after: webhooks.auto_disable_after.into(),
            },
            timeout: webhooks.timeout,
            secret_reminder_after: webhooks.secret_reminder_after,
            at_once: attempts_that_fit(descriptors::limit()),
            allow_private_targets: webhooks.allow_private_targets,
            extra_roots: webhooks.extra_roots()?,
            vault: self.auth().vault,
        })
    }
}

impl Webhooks {
    fn extra_roots(&self) -> Result<ExtraRoots, ConfigError> {
        let Some(file) = &self.extra_ca_file else { return Ok(ExtraRoots::default()) };
        let refuse = |why: String| ConfigError(format!("`webhooks.extra_ca_file`, {}: {why}", file.display()));
        let pem = fs::read(file).map_err(|error| refuse(error.to_string()))?;
        ExtraRoots::parse(&pem).map_err(|error| refuse(error.to_string()))
    }
}
