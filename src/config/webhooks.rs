//! `webhooks.*`

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kitfleet_domain::webhooks::deliveries::Schedule;
use kitfleet_jobs::webhooks::attempts_that_fit;
use kitfleet_worker::config::WebhookConfig;
use kitfleet_worker::webhooks::ExtraRoots;
use serde::{Deserialize, Serialize};

use super::values::{duration, durations};
use super::{Config, ConfigError};
use crate::descriptors;

/// `webhooks.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhooks {
    /// Pauses between the attempts of a delivery.
    #[serde(with = "durations")]
    pub retry_schedule: Vec<Duration>,
    /// Time limit of an attempt.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Number of consecutive dead letters after which an endpoint is disabled.
    pub auto_disable_after: u32,
    /// Time for which a rotated secret signs beside its successor.
    #[serde(with = "duration")]
    pub secret_grace: Duration,
    /// Age of a secret at which its owner gets a reminder to rotate it.
    #[serde(with = "duration")]
    pub secret_reminder_after: Duration,
    /// True when a target may be a loopback, link-local or private address.
    pub allow_private_targets: bool,
    /// File with further root certificates for https targets, in PEM.
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
