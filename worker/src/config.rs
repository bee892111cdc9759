//! What a worker has to be told.

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

/// A worker's settings; the `worker.*`, `sessions.*` and `email.*` keys of docs/configuration.md name their sources.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// What a session is made of.
    pub driver: Driver,
    /// As `kitfleet workers list` shows it.
    pub name: String,
    /// Live sessions at most.
    pub max_sessions: u32,
    /// Where api processes bring those who watch.
    pub live_listen: SocketAddr,
    /// Browsers that are kept hot, of the default archetype's device pixel ratio.
    pub warm_pool: WarmPool,
    /// What time it is, for what is remembered of the last minutes.
    pub clock: Clock,
    /// Where customers find the service, which is where links in mails go.
    pub base_url: String,
    /// How mails are sent.
    pub mail: MailConfig,
    /// Where browsers keep their data, each in a folder of its own, which goes with it, and where mails go that are files.
    pub data_dir: PathBuf,
    /// The `kitfleet-host` executable.
    pub host_program: PathBuf,
    /// Where browsers may go.
    pub destinations: Destinations,
    /// Where the proxies and tunnels' servers may be that customers bring.
    pub upstreams: Destinations,
    /// How customers' proxies are measured, if they are.
    pub probing: Option<Probing>,
    /// Connections that one session's browser may have under way.
    pub session_connections: usize,
    /// What is done where browsers cannot be confined.
    pub sandbox: Sandbox,
    /// What a browser may take of this machine.
    pub bounds: Bounds,
    /// How sure a challenge has to be to pause its session, 0 to 1.
    pub challenge_confidence: f64,
    /// How long a browser may take to open.
    pub open_timeout: Duration,
    /// How long the sessions that live are waited for when the worker stops.
    pub drain_timeout: Duration,
    /// The ages at which sessions are destroyed.
    pub session_ages: SessionAgeLimits,
    /// How long an operation's result is kept after its caller was answered.
    pub result_retention: Duration,
    /// How long mails are kept that are files.
    pub outbox_retention: Duration,
    /// How long everything else that has ended is kept.
    pub retention: Terms,
    /// What is kept of profiles, and where.
    pub stores: StoresConfig,
    /// How long profiles stay in the recycle bin.
    pub profile_retention: Retention,
    /// Bounds of requests and results (contract: limits).
    pub limits: Limits,
    /// How webhooks are delivered.
    pub webhooks: WebhookConfig,
    /// The age at which the owner of a key at a model provider is reminded to rotate it.
    pub byok_reminder_after: Duration,
    /// How subscribers of the status page are mailed.
    pub status: status::Settings,
    /// How agent sessions are driven.
    pub agents: Settings,
    /// How models are asked.
    pub models: kitfleet_models::Settings,
    /// How the crypto processor is asked.
    pub crypto: kitfleet_payments::CryptoConfig,
}

/// How customers' proxies are measured.
#[derive(Debug, Clone)]
pub struct Probing {
    /// What is asked.
    pub probes: Probes,
    /// How often, of a proxy that a session leaves through.
    pub interval: Duration,
}

/// How many browsers are kept hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmPool {
    /// As many as the bursts of the last minutes asked for, as far as there are sessions and memory for them.
    Auto,
    /// So many.
    Exactly(u32),
}

/// What a browser may take of its machine, in bytes. One that takes more is ended.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Memory, of all its processes.
    pub memory: u64,
    /// Room on the disk, for what sites store and what the browser keeps of them.
    pub disk: u64,
    /// What has to stay free on that disk, whoever takes it; of a small disk a twentieth.
    pub free_disk: u64,
}

impl Bounds {
    /// Whether less is free than has to stay so on the disk that holds `folder`. One that does not answer is not for us to judge.
    #[must_use]
    pub fn is_full(&self, folder: &Path) -> bool {
        DiskSpace::on(folder).is_ok_and(|room| room.is_below(self.free_disk))
    }
}

/// Bytes as a gauge has them.
#[expect(clippy::cast_precision_loss, reason = "a byte more or less of exbibytes does not matter")]
pub(crate) fn bytes(count: u64) -> f64 {
    count as f64
}

/// What is done where browsers cannot be confined to a folder and a way out of their own each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// The worker does not start.
    Required,
    /// Browsers run all the same, and the log says so.
    Preferred,
}

/// How webhooks are delivered.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// When attempts are made.
    pub schedule: Schedule,
    /// How long one may take.
    pub timeout: Duration,
    /// Attempts under way at once.
    pub at_once: usize,
    /// Whether a target may be a loopback, link-local or private address.
    pub allow_private_targets: bool,
    /// The age at which a secret's owner is reminded to rotate it.
    pub secret_reminder_after: Duration,
    /// Whose certificates are trusted besides the public ones.
    pub extra_roots: ExtraRoots,
    /// What the deployment seals secrets with, if it has keys of its own.
    pub vault: Option<Vault>,
}

/// How mails are sent.
#[derive(Debug, Clone)]
pub struct MailConfig {
    /// From whom.
    pub from: Sender,
    /// By what.
    pub transport: MailTransport,
}

/// What mails are sent by.
#[derive(Debug, Clone)]
pub enum MailTransport {
    /// A file a mail, in the data directory's `outbox`.
    File,
    /// A mail server.
    Smtp(Relay),
    /// Postmark's API.
    Postmark(PostmarkAccount),
}
