use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitfleet_domain::agents::Settings;
use kitfleet_domain::machine::DiskSpace;
use kitfleet_domain::profiles::Retention;
use kitfleet_domain::retention::Terms;
use kitfleet_domain::sessions::SessionAgeLimits;
use kitfleet_domain::status;
use kitfleet_domain::workers::Driver;
use kitfleet_egress::Probes;
use kitfleet_profiles::StoresConfig;
use kitfleet_recording::RecordingsConfig;
use kitfleet_types::addresses::Destinations;
use kitfleet_types::limits::Limits;
use serde::{Deserialize, Serialize};

pub use crate::clock::Clock;
use crate::emails::MailConfig;
use crate::webhooks::WebhookConfig;

/// The `worker.*`, `sessions.*` and `email.*` keys of docs/configuration.md name their sources.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    pub driver: Driver,
    /// Shown by `kitfleet workers list`.
    pub name: String,
    pub max_sessions: u32,
    /// API processes connect here for viewers.
    pub live_listen: SocketAddr,
    /// Opened with the default archetype's device pixel ratio.
    pub warm_pool: WarmPool,
    pub clock: Clock,
    /// Links in mails point there.
    pub base_url: String,
    pub mail: MailConfig,
    /// Also the mail outbox. Each browser has its own folder, which is deleted with it.
    pub data_dir: PathBuf,
    pub host_program: PathBuf,
    pub destinations: Destinations,
    /// For customers' proxies and tunnel servers.
    pub upstreams: Destinations,
    /// `None` disables the measurement of customers' proxies.
    pub probing: Option<Probing>,
    pub session_connections: usize,
    pub sandbox: Sandbox,
    pub bounds: Bounds,
    /// 0 to 1.
    pub challenge_confidence: f64,
    pub open_timeout: Duration,
    /// Maximum time to wait for live sessions when the worker stops.
    pub drain_timeout: Duration,
    pub session_ages: SessionAgeLimits,
    /// Time an operation's result is kept after the response to its caller.
    pub result_retention: Duration,
    pub outbox_retention: Duration,
    /// Retention of all other ended items.
    pub retention: Terms,
    pub stores: StoresConfig,
    pub recordings: RecordingsConfig,
    /// In the recycle bin.
    pub profile_retention: Retention,
    /// Contract: limits.
    pub limits: Limits,
    pub webhooks: WebhookConfig,
    /// Age of a model provider's key.
    pub byok_reminder_after: Duration,
    pub status: status::Settings,
    pub agents: Settings,
    pub models: kitfleet_models::Settings,
    pub crypto: kitfleet_payments::CryptoConfig,
}

#[derive(Debug, Clone)]
pub struct Probing {
    pub probes: Probes,
    /// Per proxy that a session uses.
    pub interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmPool {
    /// The largest burst of the last minutes, limited by free sessions and memory.
    Auto,
    Exactly(u32),
}

/// In bytes. A browser that exceeds one is ended.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub memory: u64,
    /// Site storage and the browser's cache.
    pub disk: u64,
    /// Regardless of its user. On a small disk a twentieth of its size applies.
    pub free_disk: u64,
}

impl Bounds {
    /// False when the disk cannot be measured.
    #[must_use]
    pub fn is_full(&self, folder: &Path) -> bool {
        DiskSpace::on(folder).is_ok_and(|space| space.is_below(self.free_disk))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a byte more or less of exbibytes does not matter")]
pub(crate) fn bytes(count: u64) -> f64 {
    count as f64
}

/// Behavior when browsers cannot be confined to their own folder and egress route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    Required,
    /// Browsers run without confinement, and the worker logs a warning.
    Preferred,
}
