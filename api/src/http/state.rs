use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ipnet::IpNet;
use kitfleet_domain::account_semaphore::AccountSemaphore;
use kitfleet_domain::account_share::AccountShares;
use kitfleet_domain::agents::{self, Sealer};
use kitfleet_domain::answer_budget::AnswerBudget;
use kitfleet_domain::billing::Prices;
use kitfleet_domain::cursors::CursorSigner;
use kitfleet_domain::database;
use kitfleet_domain::encryption_key::{KeyStatus, KeyWatch};
use kitfleet_domain::file_access::AccessTickets;
use kitfleet_domain::notifications;
use kitfleet_domain::patterns::Patterns;
use kitfleet_domain::recordings::{RecordMode, RecordingLimits, streams};
use kitfleet_domain::sign_ins::Lifetimes;
use kitfleet_domain::status;
use kitfleet_domain::status::subscribers::Unsubscriber;
use kitfleet_domain::vault::Vault;
use kitfleet_domain::webhooks::secrets;
use kitfleet_domain::workers::Placement;
use kitfleet_jobs::replies::Replies;
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_models::Models;
use kitfleet_payments::{CardConfig, CardProvider, CryptoConfig, CryptoProcessor};
use kitfleet_profiles::{PlaceConfig, Stores, StoresConfig};
use kitfleet_recording::{Recordings, RecordingsConfig};
use kitfleet_types::addresses::Destinations;
use kitfleet_types::limits::Limits;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::connections::ConnectionLimits;
use crate::http::database_probe::DatabaseProbe;
use crate::http::error::Problem;
use crate::http::hashing::Hashing;
use crate::http::kinds;
use crate::http::last_used::LastUsed;
use crate::http::providers::{ProviderConfig, Providers};
use crate::http::rate_limits::{RateLimiter, RateLimits};
use crate::http::requeue_outcomes::RequeueOutcomes;
use crate::http::status_cache::StatusCache;
use crate::http::streams::Streams;
use crate::http::transcript_search::TranscriptSearches;
use crate::http::wait_queue::WaitQueue;

/// In this process, and per account.
const BATCHES_AT_ONCE: (usize, usize) = (2, 1);
/// In this process, and per account.
const TESTS_AT_ONCE: (usize, usize) = (8, 1);
/// In this process, and per account.
const PAYMENTS_AT_ONCE: (usize, usize) = (32, 1);

/// Not `Debug`, because it holds a secret.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the settings are independent")]
pub struct ApiConfig {
    /// Without a trailing slash.
    pub base_url: String,
    /// Without a trailing slash.
    pub errors_url: String,
    /// Without one the route is off.
    pub metrics_token: Option<String>,
    pub limits: Limits,
    /// Literal addresses that are allowed.
    pub destinations: Destinations,
    /// For customers' proxies and tunnel servers.
    pub upstreams: Destinations,
    pub require_customer_egress: bool,
    /// True when search and login are offered.
    pub direct_driver_real: bool,
    pub placement: Placement,
    /// Default for pausing sessions on challenges.
    pub detect_challenges: bool,
    pub open_timeout: Duration,
    pub drain_timeout: Duration,
    pub max_body_bytes: usize,
    /// A connection that is idle for longer is closed.
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    /// Time a client has to read 64 KiB, or the rest, of its response.
    pub write_timeout: Duration,
    pub connections: ConnectionLimits,
    /// Without free space this process cannot serve.
    pub data_dir: PathBuf,
    /// Their `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// As browsers spell them.
    pub cors_origins: Vec<String>,
    pub auth: AuthConfig,
    pub invite_ttl: Duration,
    pub rate_limits: RateLimits,
    /// Without it each replica counts rate limits separately.
    pub redis: Option<redis::Client>,
    /// Time the previous secret of a webhook endpoint keeps signing.
    pub webhook_secret_grace: Duration,
    pub stores: StoresConfig,
    pub recordings: RecordingLimits,
    /// Recording of sessions whose create does not name it.
    pub record_by_default: RecordMode,
    /// Open streams of timelines of an account.
    pub timeline_streams: u32,
    /// Staff may read recordings.
    pub staff_may_watch: bool,
    pub models: kitfleet_models::Settings,
    pub agents: agents::Settings,
    pub notifications: notifications::Settings,
    pub live: LiveConfig,
    pub prices: Prices,
    pub card: CardConfig,
    pub crypto: CryptoConfig,
    pub status: status::Settings,
}

#[derive(Debug, Clone, Copy)]
pub struct DocumentConfig<'a> {
    pub base_url: &'a str,
    pub limits: &'a Limits,
    pub max_token_budget: u32,
}

impl ApiConfig {
    #[must_use]
    pub fn document(&self) -> DocumentConfig<'_> {
        let max_token_budget = self.agents.max_token_budget;
        DocumentConfig { base_url: &self.base_url, limits: &self.limits, max_token_budget }
    }
}

/// Settings of live views (contract: live 24, 26).
#[derive(Debug, Clone)]
pub struct LiveConfig {
    pub ticket_ttl: Duration,
    /// As browsers spell them, in addition to this service's own.
    pub origins: Vec<String>,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self { ticket_ttl: Duration::from_mins(1), origins: Vec::new() }
    }
}

impl Default for ApiConfig {
    fn default() -> Self {
        let base_url = "http://127.0.0.1:8080".to_owned();
        let limits = Limits::default();
        Self {
            errors_url: format!("{base_url}/errors"),
            base_url,
            metrics_token: None,
            stores: StoresConfig {
                vault: None,
                place: PlaceConfig::default(),
                scratch: PathBuf::from(".kitfleet"),
                store_bytes: limits.profile_store_bytes,
                document_bytes: limits.profile_document_bytes,
            },
            recordings: RecordingLimits::default(),
            record_by_default: RecordMode::default(),
            timeline_streams: streams::MAX_STREAMS,
            staff_may_watch: false,
            limits,
            destinations: Destinations::default(),
            upstreams: Destinations::default(),
            require_customer_egress: false,
            direct_driver_real: false,
            placement: Placement::default(),
            detect_challenges: true,
            open_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            max_body_bytes: 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            connections: ConnectionLimits { all: 256, per_address: 128 },
            data_dir: PathBuf::from(".kitfleet"),
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
            auth: AuthConfig::default(),
            invite_ttl: Duration::from_hours(7 * 24),
            rate_limits: RateLimits::default(),
            redis: None,
            webhook_secret_grace: Duration::from_hours(24),
            models: kitfleet_models::Settings::default(),
            agents: agents::Settings::default(),
            notifications: notifications::Settings::default(),
            live: LiveConfig::default(),
            prices: Prices::default(),
            card: CardConfig::default(),
            crypto: CryptoConfig::default(),
            status: status::Settings::default(),
        }
    }
}

/// Not `Debug`, because it holds keys.
#[derive(Clone)]
pub struct AuthConfig {
    pub lifetimes: Lifetimes,
    pub verification_ttl: Duration,
    pub magic_link_ttl: Duration,
    pub reset_ttl: Duration,
    /// Time a second-factor proof counts as recent.
    pub step_up_ttl: Duration,
    /// Time a device waits for a person.
    pub device_code_ttl: Duration,
    /// Time a device has to collect its credential.
    pub device_bound_ttl: Duration,
    /// Time an API key keeps working after its rotation.
    pub rotation_grace: Duration,
    pub oauth_token_ttl: Duration,
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Without it second factors cannot be enrolled.
    pub vault: Option<Vault>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            lifetimes: Lifetimes { session: Duration::from_hours(30 * 24), challenge: Duration::from_mins(5) },
            verification_ttl: Duration::from_mins(30),
            magic_link_ttl: Duration::from_mins(15),
            reset_ttl: Duration::from_hours(1),
            step_up_ttl: Duration::from_mins(15),
            device_code_ttl: Duration::from_mins(10),
            device_bound_ttl: Duration::from_mins(2),
            rotation_grace: Duration::from_hours(24),
            oauth_token_ttl: Duration::from_hours(1),
            providers: BTreeMap::new(),
            vault: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot install the metrics recorder: {0}")]
    Metrics(String),
    #[error("cannot start the password hashing threads: {0}")]
    Threads(#[from] io::Error),
    /// A Redis that is down is no error.
    #[error("cannot set up the connection to Redis: {0}")]
    Redis(#[from] redis::RedisError),
    #[error("cannot create the client for models and payment providers: {0}")]
    Models(#[from] kitfleet_models::ClientError),
}

/// Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub config: ApiConfig,
    pub db: PgPool,
    pub wakeups: Wakeups,
    pub replies: Replies,
    pub rate_limits: RateLimiter,
    pub hashing: Hashing,
    pub patterns: Patterns,
    pub providers: Providers,
    pub models: Models,
    pub byok_tests: AccountSemaphore,
    pub card: CardProvider,
    pub crypto: CryptoProcessor,
    pub payments: AccountSemaphore,
    pub exports: AccountSemaphore,
    /// Budget for the bytes of large responses.
    pub answers: AnswerBudget,
    /// Bound of the requests of an account that run at once.
    pub shares: AccountShares,
    /// Searches in the messages of agent sessions.
    pub readings: TranscriptSearches,
    /// Cached outcomes of requeues.
    pub requeue_outcomes: RequeueOutcomes,
    /// Queue of requests that wait for a browser.
    pub wait_queue: WaitQueue,
    pub streams: Streams,
    pub last_used: LastUsed,
    pub pulse: DatabaseProbe,
    /// Cached service status.
    pub status_cache: Arc<StatusCache>,
    /// Requests in progress: the process must not end before them.
    pub handlers: TaskTracker,
    /// Slots for viewers in this process.
    pub views: Arc<Semaphore>,
    /// Live views that are proxied by this process, and the token that ends them.
    pub tunnels: TaskTracker,
    pub tunnels_cut: CancellationToken,
    /// Stops waiting for request bodies.
    pub bodies_given_up: CancellationToken,
    pub metrics: PrometheusHandle,
    /// Read them by [`App::vault`], which checks that they are the deployment's.
    vault: Option<Vault>,
    key_watch: KeyWatch,
    cursors: OnceCell<CursorSigner>,
    webhook_vault: OnceCell<Vault>,
    file_tickets: OnceCell<AccessTickets>,
    agents: OnceCell<Sealer>,
    stores: OnceCell<Stores>,
    recordings: OnceCell<Recordings>,
    unsubscriber: OnceCell<Unsubscriber>,
}

impl App {
    pub fn new(
        mut config: ApiConfig,
        db: PgPool,
        wakeups: Wakeups,
        metrics: PrometheusHandle,
    ) -> Result<Self, ServeError> {
        let replies = Replies::new(db.clone(), wakeups.clone());
        let rate_limits = RateLimiter::new(&config.rate_limits, config.redis.as_ref())?;
        let hashing = Hashing::start()?;
        let providers = Providers::new(&config.auth.providers, &config.base_url);
        let wait_queue = WaitQueue::new(config.limits.waiting_creates, config.limits.waiting_creates_per_account);
        let answers = AnswerBudget::new(&config.limits);
        let models = Models::new(config.models.clone())?;
        let card = CardProvider::new(config.card.clone())?;
        let crypto = CryptoProcessor::new(config.crypto.clone())?;
        let vault = config.auth.vault.take();
        let views = Semaphore::new(config.connections.views());
        let handlers = TaskTracker::new();
        Ok(Self(Arc::new(Shared {
            config,
            db,
            wakeups,
            replies,
            rate_limits,
            hashing,
            patterns: Patterns::new(available_parallelism().map_or(1, NonZeroUsize::get)),
            providers,
            models,
            byok_tests: AccountSemaphore::new(TESTS_AT_ONCE.0, TESTS_AT_ONCE.1),
            card,
            crypto,
            payments: AccountSemaphore::new(PAYMENTS_AT_ONCE.0, PAYMENTS_AT_ONCE.1),
            exports: AccountSemaphore::new(BATCHES_AT_ONCE.0, BATCHES_AT_ONCE.1),
            answers,
            shares: AccountShares::default(),
            readings: TranscriptSearches::default(),
            requeue_outcomes: RequeueOutcomes::default(),
            wait_queue,
            streams: Streams::default(),
            last_used: LastUsed::default(),
            pulse: DatabaseProbe::default(),
            status_cache: Arc::default(),
            handlers,
            views: Arc::new(views),
            tunnels: TaskTracker::new(),
            tunnels_cut: CancellationToken::new(),
            bodies_given_up: CancellationToken::new(),
            metrics,
            vault,
            key_watch: KeyWatch::default(),
            cursors: OnceCell::new(),
            webhook_vault: OnceCell::new(),
            file_tickets: OnceCell::new(),
            agents: OnceCell::new(),
            stores: OnceCell::new(),
            recordings: OnceCell::new(),
            unsubscriber: OnceCell::new(),
        })))
    }

    /// Fetched on first use, so that the API starts without the database.
    pub async fn cursors(&self) -> sqlx::Result<&CursorSigner> {
        let fetch = async || {
            let mut conn = self.db.acquire().await?;
            Ok(CursorSigner::new(database::server_secret(&mut conn, "cursors").await?))
        };
        self.cursors.get_or_try_init(fetch).await
    }

    /// Keeps the result for [`App::vault`].
    pub async fn check_encryption_key(&self, conn: &mut PgConnection) -> sqlx::Result<KeyStatus> {
        self.key_watch.check(conn, self.vault.as_ref()).await
    }

    /// At most every 30 s.
    pub async fn refresh_encryption_key(&self) {
        self.key_watch.refresh(&self.db, self.vault.as_ref()).await;
    }

    /// 503 when they do not open the deployment's secrets (contract: operators 13).
    pub fn vault(&self) -> Result<Option<&Vault>, Problem> {
        match self.key_watch.latest() {
            Some(status) if status.is_usable() => Ok(self.vault.as_ref()),
            Some(status) => Err(Problem::wrong_encryption_key(status)),
            None => Err(Problem::unavailable_for_now("the encryption key of this process has not been checked yet")),
        }
    }

    /// Only a key from the configuration may encrypt these secrets: a key in the database would be stored beside them.
    ///
    /// An error names the feature that `needs` the key (contract: mfa 1; byok 3).
    pub fn own_vault(&self, needs: &str) -> Result<&Vault, Problem> {
        self.vault()?.ok_or_else(|| {
            let detail = format!("this deployment has no MFA_ENCRYPTION_KEY, which is required for {needs}");
            Problem::new(&kinds::FEATURE_UNAVAILABLE, detail)
        })
    }

    pub async fn webhook_vault(&self) -> Result<&Vault, Problem> {
        let configured = self.vault()?;
        let fetch = async || secrets::vault(&mut *self.db.acquire().await?, configured).await;
        Ok(self.webhook_vault.get_or_try_init(fetch).await?)
    }

    pub async fn file_tickets(&self) -> Result<&AccessTickets, Problem> {
        let configured = self.vault()?;
        let fetch = async || AccessTickets::fetch(&mut *self.db.acquire().await?, configured).await;
        Ok(self.file_tickets.get_or_try_init(fetch).await?)
    }

    pub async fn agents(&self) -> Result<&Sealer, Problem> {
        let configured = self.vault()?;
        let fetch = async || Sealer::fetch(&mut *self.db.acquire().await?, configured).await;
        Ok(self.agents.get_or_try_init(fetch).await?)
    }

    pub async fn unsubscriber(&self) -> sqlx::Result<&Unsubscriber> {
        let fetch = async || Unsubscriber::fetch(&mut *self.db.acquire().await?).await;
        self.unsubscriber.get_or_try_init(fetch).await
    }

    pub async fn stores(&self) -> Result<&Stores, Problem> {
        self.vault()?;
        Ok(self.stores_to_remove().await?)
    }

    /// For a caller that only removes stores.
    pub async fn stores_to_remove(&self) -> sqlx::Result<&Stores> {
        self.stores.get_or_try_init(|| Stores::new(self.db.clone(), self.config.stores.clone())).await
    }

    pub async fn recordings(&self) -> sqlx::Result<&Recordings> {
        let StoresConfig { vault, place, .. } = &self.config.stores;
        let config = RecordingsConfig { vault: vault.clone(), place: place.clone(), limits: self.config.recordings };
        self.recordings.get_or_try_init(|| Recordings::new(self.db.clone(), config)).await
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
