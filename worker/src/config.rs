//! Settings of a worker.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitfleet_domain::addresses::Destinations;
use kitfleet_domain::agents::Settings;
use kitfleet_domain::limits::Limits;
use kitfleet_domain::machine::DiskSpace;
use kitfleet_domain::profiles::Retention;
use kitfleet_domain::retention::Terms;
use kitfleet_domain::sessions::SessionAgeLimits;
use kitfleet_domain::status;
use kitfleet_domain::vault::Vault;
use kitfleet_domain::webhooks::deliveries::Schedule;
use kitfleet_domain::workers::Driver;
use kitfleet_egress::Probes;
use kitfleet_profiles::StoresConfig;
use serde::{Deserialize, Serialize};

pub use crate::clock::Clock;
use crate::emails::{PostmarkAccount, Relay, Sender};
use crate::webhooks::ExtraRoots;

/// Settings of a worker. The `worker.*`, `sessions.*` and `email.*` keys of docs/configuration.md name their sources.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Implementation of the browsers.
    pub driver: Driver,
    /// Name that `kitfleet workers list` shows.
    pub name: String,
    /// Maximum number of live sessions.
    pub max_sessions: u32,
    /// Address that API processes connect to for viewers.
    pub live_listen: SocketAddr,
    /// Number of warm browsers, opened with the default archetype's device pixel ratio.
    pub warm_pool: WarmPool,
    /// Clock for short-term measurements of the worker.
    pub clock: Clock,
    /// Public URL of the service, which links in mails point to.
    pub base_url: String,
    /// Settings of outgoing mail.
    pub mail: MailConfig,
    /// Folder for browser data and the mail outbox. Each browser has its own folder, which is deleted with the browser.
    pub data_dir: PathBuf,
    /// Path of the `kitfleet-host` executable.
    pub host_program: PathBuf,
    /// Addresses that browsers may connect to.
    pub destinations: Destinations,
    /// Addresses that customers' proxies and tunnel servers may have.
    pub upstreams: Destinations,
    /// Measurement of customers' proxies. `None` disables it.
    pub probing: Option<Probing>,
    /// Maximum number of simultaneous connections of one session's browser.
    pub session_connections: usize,
    /// Behavior when browsers cannot be confined.
    pub sandbox: Sandbox,
    /// Limits on a browser's use of this machine.
    pub bounds: Bounds,
    /// Minimum confidence of a challenge that pauses its session, 0 to 1.
    pub challenge_confidence: f64,
    /// Maximum time for opening a browser.
    pub open_timeout: Duration,
    /// Maximum time to wait for live sessions when the worker stops.
    pub drain_timeout: Duration,
    /// Ages at which sessions are destroyed.
    pub session_ages: SessionAgeLimits,
    /// Time an operation's result is kept after the response to its caller.
    pub result_retention: Duration,
    /// Time mails that are stored as files are kept.
    pub outbox_retention: Duration,
    /// Retention of all other ended items.
    pub retention: Terms,
    /// Stores of profile data.
    pub stores: StoresConfig,
    /// Time profiles stay in the recycle bin.
    pub profile_retention: Retention,
    /// Limits of requests and results (contract: limits).
    pub limits: Limits,
    /// Settings of webhook delivery.
    pub webhooks: WebhookConfig,
    /// Age at which the owner of a model provider's key is reminded to rotate it.
    pub byok_reminder_after: Duration,
    /// Settings of mails to subscribers of the status page.
    pub status: status::Settings,
    /// Settings of agent sessions.
    pub agents: Settings,
    /// Settings of model requests.
    pub models: kitfleet_models::Settings,
    /// Settings of requests to the crypto processor.
    pub crypto: kitfleet_payments::CryptoConfig,
}

/// Settings of the measurement of customers' proxies.
#[derive(Debug, Clone)]
pub struct Probing {
    /// Probes to run.
    pub probes: Probes,
    /// Time between two measurements of a proxy that a session uses.
    pub interval: Duration,
}

/// Number of warm browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmPool {
    /// The largest burst of the last minutes, limited by free sessions and memory.
    Auto,
    /// A fixed number.
    Exactly(u32),
}

/// Limits on a browser's use of its machine, in bytes. A browser that exceeds one is ended.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Memory of all its processes.
    pub memory: u64,
    /// Disk space of site storage and the browser's cache.
    pub disk: u64,
    /// Disk space that must stay free regardless of its user. On a small disk a twentieth of its size applies.
    pub free_disk: u64,
}

impl Bounds {
    /// True when the disk that holds `folder` has less free space than required. False when the disk cannot be measured.
    #[must_use]
    pub fn is_full(&self, folder: &Path) -> bool {
        DiskSpace::on(folder).is_ok_and(|room| room.is_below(self.free_disk))
    }
}

/// Converts bytes to the value of a gauge.
#[expect(clippy::cast_precision_loss, reason = "a byte more or less of exbibytes does not matter")]
pub(crate) fn bytes(count: u64) -> f64 {
    count as f64
}

/// Behavior when browsers cannot be confined to their own folder and egress route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// The worker does not start.
    Required,
    /// Browsers run without confinement, and the worker logs a warning.
    Preferred,
}

/// Settings of webhook delivery.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// Times of the attempts.
    pub schedule: Schedule,
    /// Maximum duration of one attempt.
    pub timeout: Duration,
    /// Maximum number of simultaneous attempts.
    pub at_once: usize,
    /// True when a target may have a loopback, link-local or private address.
    pub allow_private_targets: bool,
    /// Age at which a secret's owner is reminded to rotate it.
    pub secret_reminder_after: Duration,
    /// Root certificates that are trusted in addition to the public ones.
    pub extra_roots: ExtraRoots,
    /// Keys that seal secrets, if the deployment has its own.
    pub vault: Option<Vault>,
}

/// Settings of outgoing mail.
#[derive(Debug, Clone)]
pub struct MailConfig {
    /// Sender address.
    pub from: Sender,
    /// Delivery method.
    pub transport: MailTransport,
}

/// Delivery method of mails.
#[derive(Debug, Clone)]
pub enum MailTransport {
    /// One file per mail in `outbox` under the data directory.
    File,
    /// An SMTP server.
    Smtp(Relay),
    /// The API of Postmark.
    Postmark(PostmarkAccount),
}
