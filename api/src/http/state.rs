//! What every handler can reach.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use ipnet::IpNet;
use kitfleet_domain::addresses::Destinations;
use kitfleet_domain::agents::{self, Sealer};
use kitfleet_domain::answer_budget::AnswerBudget;
use kitfleet_domain::billing::Prices;
use kitfleet_domain::cursors::CursorSigner;
use kitfleet_domain::database;
use kitfleet_domain::encryption_key::{KeyStatus, KeyWatch};
use kitfleet_domain::limits::Limits;
use kitfleet_domain::notifications;
use kitfleet_domain::patterns::Patterns;
use kitfleet_domain::sign_ins::Lifetimes;
use kitfleet_domain::status;
use kitfleet_domain::status::subscribers::Unsubscriber;
use kitfleet_domain::turns::Turns;
use kitfleet_domain::vault::Vault;
use kitfleet_domain::webhooks::secrets;
use kitfleet_domain::workers::Placement;
use kitfleet_jobs::replies::Replies;
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_models::Models;
use kitfleet_payments::{CardConfig, CardProvider, CryptoConfig, CryptoProcessor};
use kitfleet_profiles::{PlaceConfig, Stores, StoresConfig};
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::board::Board;
use crate::http::connections::ConnectionLimits;
use crate::http::error::Problem;
use crate::http::hashing::Hashing;
use crate::http::kinds;
use crate::http::last_used::LastUsed;
use crate::http::line::Line;
use crate::http::providers::{ProviderConfig, Providers};
use crate::http::pulse::Pulse;
use crate::http::rate_limits::{RateLimiter, RateLimits};
use crate::http::readings::Readings;
use crate::http::streams::Streams;

/// Batches of exports of the audit log that are read at once, in this process and of an account.
const BATCHES_AT_ONCE: (usize, usize) = (2, 1);
/// Keys at model providers that are tested at once, in this process and of an account.
const TESTS_AT_ONCE: (usize, usize) = (8, 1);
/// Requests to payment providers that are under way at once, in this process and of an account.
const PAYMENTS_AT_ONCE: (usize, usize) = (32, 1);

/// How the API behaves; the root crate's configuration becomes this. Not `Debug`, because it holds a secret.
#[derive(Clone)]
pub struct ApiConfig {
    /// Where customers reach the service, without a trailing slash.
    pub base_url: String,
    /// What problem types begin with, without a trailing slash.
    pub errors_url: String,
    /// What `/metrics` wants to see; without one it is off.
    pub metrics_token: Option<String>,
    /// Bounds of requests.
    pub limits: Limits,
    /// Which literal addresses a browser may be sent to.
    pub destinations: Destinations,
    /// Where the proxies and tunnels' servers may be that customers bring.
    pub upstreams: Destinations,
    /// Whether a session without customer egress is refused.
    pub require_customer_egress: bool,
    /// Whether search and login are offered.
    pub direct_driver_real: bool,
    /// On which worker a session is placed.
    pub placement: Placement,
    /// Whether challenges pause sessions, unless their creators say otherwise.
    pub detect_challenges: bool,
    /// How long a browser may take to open.
    pub open_timeout: Duration,
    /// How long operations under way are waited for when the API stops.
    pub drain_timeout: Duration,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
    /// How long a request's head may take to arrive; a connection that is idle for longer is closed.
    pub header_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may take 64 KiB of its answer, or what is left of it.
    pub write_timeout: Duration,
    /// How many clients may be connected.
    pub connections: ConnectionLimits,
    /// Where this process keeps what it writes; without room there it cannot serve.
    pub data_dir: PathBuf,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// By what somebody proves who they are.
    pub auth: AuthConfig,
    /// How long an invitation to a team is good.
    pub invite_ttl: Duration,
    /// How often somebody may ask.
    pub rate_limits: RateLimits,
    /// Where all replicas count that together; without one each counts for itself.
    pub redis: Option<redis::Client>,
    /// How long a webhook endpoint's secret signs beside its successor.
    pub webhook_secret_grace: Duration,
    /// Where what profiles hold is kept.
    pub stores: StoresConfig,
    /// How models are asked.
    pub models: kitfleet_models::Settings,
    /// How agent sessions are driven.
    pub agents: agents::Settings,
    /// How what happens is followed.
    pub notifications: notifications::Settings,
    /// Who may watch.
    pub live: LiveConfig,
    /// What tiers cost.
    pub prices: Prices,
    /// Who takes cards.
    pub card: CardConfig,
    /// Who takes crypto currencies.
    pub crypto: CryptoConfig,
    /// How subscribers of the status page are mailed.
    pub status: status::Settings,
}

/// Who may watch a session's browser (contract: live 24, 26).
#[derive(Debug, Clone)]
pub struct LiveConfig {
    /// How long a ticket is good.
    pub ticket_ttl: Duration,
    /// Whose pages may open a live view besides this service's own, as browsers spell origins.
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

/// By what somebody proves who they are, and for how long. Not `Debug`, because it holds keys.
#[derive(Clone)]
pub struct AuthConfig {
    /// Of web sessions and challenges.
    pub lifetimes: Lifetimes,
    /// How long the link that proves an address is good.
    pub verification_ttl: Duration,
    /// How long a link that signs in is good.
    pub magic_link_ttl: Duration,
    /// How long a link that resets a password is good.
    pub reset_ttl: Duration,
    /// How long a second-factor proof is fresh.
    pub step_up_ttl: Duration,
    /// How long a device waits for a person.
    pub device_code_ttl: Duration,
    /// How long a device's credential waits for it.
    pub device_bound_ttl: Duration,
    /// How long an API key works beside its successor.
    pub rotation_grace: Duration,
    /// How long an OAuth client's access token is good.
    pub oauth_token_ttl: Duration,
    /// Who else may say who somebody is, by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// What second factors are sealed with; without it nobody can enroll one.
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

/// Why the API does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process already counts its metrics elsewhere.
    #[error("the metrics recorder could not be installed: {0}")]
    Metrics(String),
    /// The machine allows no more threads.
    #[error("the threads that hash passwords could not be started: {0}")]
    Threads(#[from] io::Error),
    /// A Redis that is away is no reason; this is one that could never be connected to.
    #[error("the connection to Redis could not be set up: {0}")]
    Redis(#[from] redis::RedisError),
    /// The machine's certificates make no sense.
    #[error("models and payment providers cannot be asked: {0}")]
    Models(#[from] kitfleet_models::ClientError),
}

/// The running API, cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub config: ApiConfig,
    pub db: PgPool,
    /// Who has something to do is told here, once it is committed.
    pub wakeups: Wakeups,
    pub replies: Replies,
    pub rate_limits: RateLimiter,
    /// Where passwords are hashed.
    pub hashing: Hashing,
    /// Where customers' regular expressions are compiled.
    pub patterns: Patterns,
    /// Who else may say who somebody is.
    pub providers: Providers,
    /// What models are asked by.
    pub models: Models,
    /// Whose turn it is to test a key at a model provider.
    pub byok_tests: Turns,
    /// Who takes cards.
    pub card: CardProvider,
    /// Who takes crypto currencies.
    pub crypto: CryptoProcessor,
    /// Whose turn it is to ask a payment provider.
    pub payments: Turns,
    /// Whose turn it is to read some of an export of the audit log.
    pub exports: Turns,
    /// What counts the bytes of large answers.
    pub answers: AnswerBudget,
    /// Where what was said in agent sessions is searched for what was typed there.
    pub readings: Readings,
    /// Who waits for a browser.
    pub line: Line,
    /// Who follows what happens.
    pub streams: Streams,
    /// When credentials were last used.
    pub last_used: LastUsed,
    /// Whether the database answers.
    pub pulse: Pulse,
    /// How everything is.
    pub board: Arc<Board>,
    /// The requests under way: the process must not end before they do.
    pub handlers: TaskTracker,
    /// Room for those who watch by this process.
    pub views: Arc<Semaphore>,
    /// The live views that pass through here, and what ends them all.
    pub tunnels: TaskTracker,
    pub tunnels_cut: CancellationToken,
    /// Requests whose bodies still arrive are waited for no longer.
    pub bodies_given_up: CancellationToken,
    pub metrics: PrometheusHandle,
    /// Configured keys. Read them by [`App::vault`], which checks that they are the deployment's.
    vault: Option<Vault>,
    key_watch: KeyWatch,
    cursors: OnceCell<CursorSigner>,
    webhook_vault: OnceCell<Vault>,
    agents: OnceCell<Sealer>,
    stores: OnceCell<Stores>,
    unsubscriber: OnceCell<Unsubscriber>,
}

impl App {
    /// # Errors
    /// When the machine has no threads left, or the connection to Redis cannot be set up.
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
        let line = Line::new(config.limits.waiting_creates, config.limits.waiting_creates_per_account);
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
            byok_tests: Turns::new(TESTS_AT_ONCE.0, TESTS_AT_ONCE.1),
            card,
            crypto,
            payments: Turns::new(PAYMENTS_AT_ONCE.0, PAYMENTS_AT_ONCE.1),
            exports: Turns::new(BATCHES_AT_ONCE.0, BATCHES_AT_ONCE.1),
            answers,
            readings: Readings::default(),
            line,
            streams: Streams::default(),
            last_used: LastUsed::default(),
            pulse: Pulse::default(),
            board: Arc::default(),
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
            agents: OnceCell::new(),
            stores: OnceCell::new(),
            unsubscriber: OnceCell::new(),
        })))
    }

    /// What signs cursors. It is fetched when first needed, so that the API starts without the database too.
    pub async fn cursors(&self) -> sqlx::Result<&CursorSigner> {
        let fetch = async || {
            let mut conn = self.db.acquire().await?;
            Ok(CursorSigner::new(database::server_secret(&mut conn, "cursors").await?))
        };
        self.cursors.get_or_try_init(fetch).await
    }

    /// Checks the encryption key, and keeps the result for [`App::vault`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn check_encryption_key(&self, conn: &mut PgConnection) -> sqlx::Result<KeyStatus> {
        self.key_watch.check(conn, self.vault.as_ref()).await
    }

    /// Checks the encryption key when the latest check is more than 30 s old.
    pub async fn refresh_encryption_key(&self) {
        self.key_watch.refresh(&self.db, self.vault.as_ref()).await;
    }

    /// Keys of this process, which may seal and open.
    ///
    /// # Errors
    /// 503 when they do not open the deployment's secrets (contract: operators 13).
    pub fn vault(&self) -> Result<Option<&Vault>, Problem> {
        match self.key_watch.latest() {
            Some(status) if status.is_usable() => Ok(self.vault.as_ref()),
            Some(status) => Err(Problem::wrong_encryption_key(status)),
            None => Err(Problem::unavailable_for_now("the encryption key of this process has not been checked yet")),
        }
    }

    /// What seals what only a key of the deployment's own may seal: one in the database would lie beside it.
    ///
    /// # Errors
    /// The problem that says what `needs` such a key, where there is none (contract: mfa 1; byok 3), and those of [`App::vault`].
    pub fn own_vault(&self, needs: &str) -> Result<&Vault, Problem> {
        self.vault()?.ok_or_else(|| {
            let detail = format!("this deployment has no MFA_ENCRYPTION_KEY, which {needs} need");
            Problem::new(&kinds::FEATURE_UNAVAILABLE, detail)
        })
    }

    /// What seals the secrets of webhook endpoints, fetched when first needed too.
    pub async fn webhook_vault(&self) -> Result<&Vault, Problem> {
        let configured = self.vault()?;
        let fetch = async || secrets::vault(&mut *self.db.acquire().await?, configured).await;
        Ok(self.webhook_vault.get_or_try_init(fetch).await?)
    }

    /// What seals what is said in agent sessions, fetched when first needed too.
    pub async fn agents(&self) -> Result<&Sealer, Problem> {
        let configured = self.vault()?;
        let fetch = async || Sealer::fetch(&mut *self.db.acquire().await?, configured).await;
        Ok(self.agents.get_or_try_init(fetch).await?)
    }

    /// What reads the tokens by which subscriptions end, fetched when first needed too.
    pub async fn unsubscriber(&self) -> sqlx::Result<&Unsubscriber> {
        let fetch = async || Unsubscriber::fetch(&mut *self.db.acquire().await?).await;
        self.unsubscriber.get_or_try_init(fetch).await
    }

    /// What profiles hold, made when first needed too.
    pub async fn stores(&self) -> Result<&Stores, Problem> {
        self.vault()?;
        Ok(self.stores_to_remove().await?)
    }

    /// The same, for a caller that removes and neither seals nor opens.
    pub async fn stores_to_remove(&self) -> sqlx::Result<&Stores> {
        self.stores.get_or_try_init(|| Stores::new(self.db.clone(), self.config.stores.clone())).await
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
