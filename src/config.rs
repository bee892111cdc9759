//! Configuration: built-in defaults, then `kitfleet.toml`, then the environment.
//!
//! This is the only place that reads the environment; everything else is handed what it needs. A key that does nothing
//! is refused instead of ignored, because an operator who mistypes `sessions.require_customer_egress` must not believe
//! it is on.

mod agents;
mod auth;
mod billing;
#[cfg(test)]
mod documented;
mod egress;
mod email;
mod limits;
mod live;
mod machine;
mod mistakes;
mod notifications;
mod profiles;
mod providers;
mod rate_limits;
mod status;
mod teams;
#[cfg(test)]
mod tests;
mod traces;
mod values;
mod webhooks;

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Environment, File, FileFormat};
use ipnet::IpNet;
use kitfleet_api::RateLimits;
use kitfleet_domain::addresses::Destinations;
use kitfleet_domain::limits::Limits;
use kitfleet_domain::profiles::Retention as ProfileRetention;
use kitfleet_domain::retention::Terms;
use kitfleet_domain::sessions::Ages;
use kitfleet_domain::workers::{Driver, Placement};
use kitfleet_worker::config::{Clock, Sandbox, WarmPool};
use serde::{Deserialize, Serialize};

use self::agents::Agents;
use self::auth::{ApiKeys, Auth, Mfa};
use self::billing::Billing;
use self::egress::Egress;
pub use self::email::Email;
use self::limits::LimitsTable;
use self::live::Live;
pub use self::machine::memory_bytes;
pub use self::mistakes::ConfigError;
use self::mistakes::{bad_value, check_syntax, one_line, origin};
use self::notifications::Notifications;
use self::profiles::Profiles;
use self::rate_limits::RateLimitsTable;
use self::status::Status;
use self::teams::Teams;
pub use self::traces::Traces;
pub use self::values::duration::parse as parse_duration;
use self::values::{
    BaseUrl, DatabaseUrl, duration, networks, optional_duration, optional_word, secret, socket_address, warm_pool, word,
};
pub use self::values::{RedisUrl, Secret};
use self::webhooks::Webhooks;
use crate::descriptors;

/// Read when no other file is named.
const DEFAULT_FILE: &str = "kitfleet.toml";
/// The names that are read without our prefix too, as the rest of the world spells them (contract: configuration 2).
const BARE_VARIABLES: [(&str, &str); 4] = [
    ("DATABASE_URL", "KITFLEET_DATABASE__URL"),
    ("REDIS_URL", "KITFLEET_REDIS__URL"),
    ("MFA_ENCRYPTION_KEY", "KITFLEET_MFA__ENCRYPTION_KEY"),
    ("METRICS_SCRAPE_TOKEN", "KITFLEET_METRICS__SCRAPE_TOKEN"),
];
/// Variables that must not be empty: without them, a process would use the embedded database, or the pooler to listen.
const NEVER_EMPTY: [&str; 3] = ["DATABASE_URL", "KITFLEET_DATABASE__URL", "KITFLEET_DATABASE__LISTEN_URL"];
/// Variables of the test suite, which the programs that it starts inherit.
const TEST_PREFIX: &str = "KITFLEET_TEST_";

/// Everything an operator can choose.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Where everything that is kept on this machine lives.
    pub data_dir: PathBuf,
    /// The HTTP interface.
    pub server: Server,
    /// PostgreSQL.
    pub database: Database,
    /// Redis.
    pub redis: Redis,
    /// What is logged, and how.
    pub log: Log,
    /// Traces of what is done, and for whom they are.
    pub traces: Traces,
    /// What sessions may do.
    pub sessions: Sessions,
    /// The worker of this process.
    pub worker: Worker,
    /// How long what is done with is kept.
    pub retention: Retention,
    /// The operators' figures.
    pub metrics: Metrics,
    /// Messages to customers.
    pub email: Email,
    /// Bounds of requests and results (contract: limits).
    #[serde(with = "LimitsTable")]
    pub limits: Limits,
    /// How often somebody may ask.
    #[serde(with = "RateLimitsTable")]
    pub rate_limits: RateLimits,
    /// Logging in.
    pub auth: Auth,
    /// Second factors.
    pub mfa: Mfa,
    /// API keys.
    pub api_keys: ApiKeys,
    /// Accounts of several people.
    pub teams: Teams,
    /// Deliveries to customers.
    pub webhooks: Webhooks,
    /// What profiles hold.
    pub profiles: Profiles,
    /// Sessions that agents drive.
    pub agents: Agents,
    /// What customers bring to leave through.
    pub egress: Egress,
    /// Streams of what happens.
    pub notifications: Notifications,
    /// Who may watch.
    pub live: Live,
    /// The status page.
    pub status: Status,
    /// Who takes money, and how much.
    pub billing: Billing,
    /// What time it is for this process, which whoever starts it may put forward.
    #[serde(skip)]
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(".kitfleet"),
            server: Server::default(),
            database: Database::default(),
            redis: Redis::default(),
            log: Log::default(),
            traces: Traces::default(),
            sessions: Sessions::default(),
            worker: Worker::default(),
            retention: Retention::default(),
            metrics: Metrics::default(),
            email: Email::default(),
            limits: Limits::default(),
            rate_limits: RateLimits::default(),
            auth: Auth::default(),
            mfa: Mfa::default(),
            api_keys: ApiKeys::default(),
            teams: Teams::default(),
            webhooks: Webhooks::default(),
            profiles: Profiles::default(),
            agents: Agents::default(),
            egress: Egress::default(),
            notifications: Notifications::default(),
            live: Live::default(),
            status: Status::default(),
            billing: Billing::default(),
            clock: Clock::default(),
        }
    }
}

/// `server.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Where customers find this service; by default the address listened on.
    pub base_url: Option<BaseUrl>,
    /// Where the pages about errors are; by default `{base_url}/errors`.
    pub errors_url: Option<BaseUrl>,
    /// Proxies whose `X-Forwarded-For` is believed.
    #[serde(with = "networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// How long a client may take to send a request's header.
    #[serde(with = "duration")]
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    #[serde(with = "duration")]
    pub body_timeout: Duration,
    /// How long a client may take to read 64 KiB of an answer, or what is left of it.
    #[serde(with = "duration")]
    pub write_timeout: Duration,
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
    /// Connections at a time; by default an eighth of the files that this process may open.
    pub max_connections: usize,
    /// Connections of one address, or of one /64, at a time; trusted proxies may have more.
    pub max_connections_per_address: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            base_url: None,
            errors_url: None,
            trusted_proxies: Vec::new(),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_body_bytes: 1024 * 1024,
            max_connections: descriptors::connections_that_fit(descriptors::limit()),
            max_connections_per_address: 256,
        }
    }
}

impl Server {
    /// Where customers find a service that listens on `address`. A wildcard address is nowhere one can go, so it becomes
    /// loopback.
    pub fn base_url_at(&self, mut address: SocketAddr) -> String {
        if let Some(url) = &self.base_url {
            return url.as_str().to_owned();
        }
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    }

    /// Where the pages about errors are, given [`Server::base_url_at`].
    pub fn errors_url_at(&self, base_url: &str) -> String {
        self.errors_url.as_ref().map_or_else(|| format!("{base_url}/errors"), |url| url.as_str().to_owned())
    }
}

/// `database.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Database {
    /// A PostgreSQL to share; by default a private one under `data_dir`.
    pub url: Option<DatabaseUrl>,
    /// The same PostgreSQL without a pooler between, for what a connection has to keep; by default `url`.
    pub listen_url: Option<DatabaseUrl>,
    /// Connections of this process's pool.
    pub max_connections: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self { url: None, listen_url: None, max_connections: 32 }
    }
}

/// `redis.*`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// A Redis that all processes share; by default what it would be asked for is done in each process.
    pub url: Option<RedisUrl>,
}

/// `log.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// By default `pretty` on a terminal, else `json`.
    #[serde(deserialize_with = "optional_word")]
    pub format: Option<LogFormat>,
    /// Which events, in the syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Whether `kitfleet up` prints the owner's key when it creates it.
    pub owner_key: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: None, filter: "info,sqlx=warn,apalis=warn".to_owned(), owner_key: true }
    }
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For machines.
    Json,
    /// For people.
    Pretty,
}

/// `sessions.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    /// The age at which a free-tier session is destroyed.
    #[serde(with = "duration")]
    pub free_tier_cap: Duration,
    /// The age at which any session is destroyed.
    #[serde(with = "optional_duration")]
    pub max_age: Option<Duration>,
    /// Whether a session needs the customer's own way out to the network.
    pub require_customer_egress: bool,
    /// Whether a browser may reach loopback, link-local and private addresses.
    pub allow_private_targets: bool,
    /// What a browser may reach although it is private, or near this machine.
    #[serde(with = "networks")]
    pub allow_networks: Vec<IpNet>,
    /// What a browser may not reach, whatever else is allowed.
    #[serde(with = "networks")]
    pub deny_networks: Vec<IpNet>,
    /// Whether search and login are done, or answered with the capability that is missing.
    #[serde(deserialize_with = "word")]
    pub direct_driver: DirectDriver,
    /// How long a browser may take to open.
    #[serde(with = "duration")]
    pub open_timeout: Duration,
    /// Whether challenges pause sessions.
    pub detect_challenges: bool,
    /// How sure a challenge has to be to pause its session.
    pub challenge_confidence: f64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            free_tier_cap: Duration::from_mins(20),
            max_age: None,
            require_customer_egress: false,
            allow_private_targets: false,
            allow_networks: Vec::new(),
            deny_networks: Vec::new(),
            direct_driver: DirectDriver::Reported,
            open_timeout: Duration::from_secs(30),
            detect_challenges: true,
            challenge_confidence: 0.7,
        }
    }
}

impl Sessions {
    /// The ages at which they are destroyed.
    pub fn ages(&self) -> Ages {
        Ages { free_tier: self.free_tier_cap, any: self.max_age }
    }

    /// Where browsers may go.
    pub fn destinations(&self) -> Destinations {
        Destinations {
            allow_private: self.allow_private_targets,
            allow: self.allow_networks.clone(),
            deny: self.deny_networks.clone(),
        }
    }
}

/// `sessions.direct_driver`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectDriver {
    /// Search and login are answered with 503.
    Reported,
    /// Search and login are done.
    Real,
}

/// `worker.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// What a session is made of.
    #[serde(deserialize_with = "word")]
    pub driver: Driver,
    /// As `kitfleet workers list` shows it; by default the machine's name.
    pub name: String,
    /// Live sessions at most; by default what the machine's memory holds.
    pub max_sessions: u32,
    /// On which worker an API process places a session.
    #[serde(deserialize_with = "word")]
    pub placement: Placement,
    /// Connections that one session's browser may have under way.
    pub session_connections: usize,
    /// Browsers that are kept hot.
    #[serde(with = "warm_pool")]
    pub warm_pool: WarmPool,
    /// Where `kitfleet worker` serves its health and its metrics, which `kitfleet up` has beside everything else.
    pub listen: Option<SocketAddr>,
    /// Where API processes bring those who watch a browser of this worker.
    #[serde(deserialize_with = "socket_address")]
    pub live_listen: SocketAddr,
    /// The `kitfleet-host` executable; by default the one beside this program, else the one in `PATH`.
    pub host_program: PathBuf,
    /// Whether the worker starts where browsers cannot be confined.
    pub sandbox: Sandbox,
    /// Memory that a session's browser may take, in bytes.
    pub session_memory_bytes: u64,
    /// Room on the disk that it may take, in bytes.
    pub session_disk_bytes: u64,
    /// What has to stay free there, in bytes: below it the session that wrote most is ended.
    pub free_disk_bytes: u64,
    /// How long a worker that stops waits for the sessions that live on it, and an API for the operations under way.
    #[serde(with = "duration")]
    pub drain_timeout: Duration,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            driver: Driver::Webkit,
            name: machine::name(),
            max_sessions: machine::sessions_that_fit(memory_bytes()),
            placement: Placement::Spread,
            session_connections: 256,
            warm_pool: WarmPool::Auto,
            listen: None,
            live_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            host_program: machine::host_program(),
            sandbox: Sandbox::Preferred,
            session_memory_bytes: 1024 * 1024 * 1024,
            session_disk_bytes: 2 * 1024 * 1024 * 1024,
            free_disk_bytes: 512 * 1024 * 1024,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// `retention.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// How long an operation's result is kept after its caller was answered.
    #[serde(with = "duration")]
    pub operation_results: Duration,
    /// How long finished jobs are kept.
    #[serde(with = "duration")]
    finished_jobs: Duration,
    /// How long mails are kept that are files.
    #[serde(with = "duration")]
    pub outbox: Duration,
    /// How long webhook deliveries that have ended, and their events, are kept.
    #[serde(with = "duration")]
    webhook_bodies: Duration,
    /// How long sessions are kept that have ended.
    #[serde(with = "duration")]
    ended_sessions: Duration,
    /// How long agent sessions are kept that were closed, with all that was said in them.
    #[serde(with = "duration")]
    agent_sessions: Duration,
    /// How long workers are kept that have stopped, or were lost.
    #[serde(with = "duration")]
    stopped_workers: Duration,
    /// How long counts of usage are kept.
    #[serde(with = "duration")]
    usage: Duration,
    /// How long notifications are kept.
    #[serde(with = "duration")]
    pub notifications: Duration,
    /// How long what somebody revoked, deleted or accepted is kept, where nothing refers to it.
    #[serde(with = "duration")]
    revoked: Duration,
    /// How long profiles, and their snapshots with them, are kept after their deletion.
    #[serde(with = "duration")]
    deleted_profiles: Duration,
    /// How long the secrets of deleted accounts are kept, of which what their profiles hold is one.
    #[serde(with = "duration")]
    deleted_account_secrets: Duration,
}

impl Retention {
    /// How long profiles stay in the recycle bin.
    pub fn profiles(&self) -> ProfileRetention {
        ProfileRetention { deleted: self.deleted_profiles, of_deleted_accounts: self.deleted_account_secrets }
    }

    /// How long everything else is kept.
    pub fn terms(&self) -> Terms {
        Terms {
            jobs: self.finished_jobs,
            webhooks: self.webhook_bodies,
            sessions: self.ended_sessions,
            agent_sessions: self.agent_sessions,
            workers: self.stopped_workers,
            usage: self.usage,
            notifications: self.notifications,
            revoked: self.revoked,
            deleted_account_secrets: self.deleted_account_secrets,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            operation_results: Duration::from_mins(10),
            finished_jobs: Duration::from_hours(7 * 24),
            outbox: Duration::from_hours(30 * 24),
            deleted_profiles: Duration::from_hours(30 * 24),
            deleted_account_secrets: Duration::from_hours(24),
            webhook_bodies: Duration::from_hours(30 * 24),
            ended_sessions: Duration::from_hours(90 * 24),
            agent_sessions: Duration::from_hours(30 * 24),
            stopped_workers: Duration::from_hours(7 * 24),
            // The series reaches back for 90 days, and a year can be compared with the one before.
            usage: Duration::from_hours(400 * 24),
            notifications: Duration::from_hours(24),
            revoked: Duration::from_hours(90 * 24),
        }
    }
}

/// `metrics.*`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// The bearer token of `GET /metrics`; without one, or with an empty one, that route answers 503.
    #[serde(deserialize_with = "secret")]
    pub scrape_token: Option<Secret>,
}

impl Config {
    /// Reads `file`, or `./kitfleet.toml` when that exists, and the environment of this process.
    ///
    /// # Errors
    /// When the file cannot be read, a key is unknown, or a value is bad.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one that reads the environment")]
        let environment = std::env::vars_os();
        let default = Path::new(DEFAULT_FILE);
        Self::read(file.or_else(|| default.exists().then_some(default)), environment)
    }

    /// Reads these variables alone, as if they were the environment.
    ///
    /// # Errors
    /// When a key is unknown, or a value is bad.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, ConfigError> {
        Self::read(None, variables.into_iter())
    }

    fn read(file: Option<&Path>, environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, ConfigError> {
        let variables = our_variables(environment)?;
        let layers = config::Config::builder();
        if let Some(path) = file {
            check_syntax(path)?;
        }
        let layers = match file {
            Some(path) => layers.add_source(File::from(path).format(FileFormat::Toml)),
            None => layers,
        };
        let environment = Environment::with_prefix("KITFLEET").prefix_separator("_").separator("__");
        let values = variables.iter().map(|(name, variable)| (name.clone(), variable.value.clone())).collect();
        let environment = environment.ignore_empty(true).source(Some(values));
        let layers = layers.add_source(environment).build().map_err(|error| one_line(&error))?;

        let mut unknown = Vec::new();
        let mut note = |key: serde_ignored::Path<'_>| unknown.push(key.to_string());
        let config: Self = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(layers, &mut note))
            .map_err(|error| bad_value(&error, &variables))?;
        if let Some(key) = unknown.first() {
            return Err(ConfigError(format!("unknown key `{key}`{}", origin(key, file, &variables))));
        }
        config.check()?;
        let data_dir = std::path::absolute(&config.data_dir).map_err(|error| one_line(&error))?;
        Ok(Self { data_dir, ..config })
    }

    /// The configuration as it is in effect: what is derived from other keys is filled in.
    #[must_use]
    pub fn effective(&self) -> Self {
        let mut effective = self.clone();
        let base_url = self.server.base_url_at(self.server.listen);
        effective.server.errors_url = Some(BaseUrl::known(self.server.errors_url_at(&base_url)));
        effective.email.from = Some(self.email.sender_at(&base_url));
        effective.server.base_url = Some(BaseUrl::known(base_url));
        effective
    }
}

/// A variable of the environment.
struct Variable {
    /// As its owner spells it.
    name: String,
    value: String,
}

/// Whether Kubernetes has set a variable for a service whose name begins with `kitfleet`, as it does in each pod of the namespace. No setting
/// has such a name.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
    let of_one_port = || {
        let (_, port) = name.rsplit_once("_PORT_")?;
        let mut words = port.split('_');
        Some(is_port(words.next()?) && matches!(words.next()?, "TCP" | "UDP" | "SCTP"))
    };
    let is_of_a_service = name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_address)
        || of_one_port().unwrap_or(false);
    is_of_a_service && !name.contains("__")
}

/// The variables that are meant for us, under our own names. Our own name wins over a bare one.
///
/// # Errors
/// When the address of the database is empty.
fn our_variables(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<HashMap<String, Variable>, ConfigError> {
    let (empty, all): (HashMap<_, _>, HashMap<_, _>) = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .partition(|(_, value)| value.is_empty());
    if let Some(name) = NEVER_EMPTY.into_iter().find(|name| empty.contains_key(*name)) {
        let message = "is set and empty: set it to the address of a database, or remove the variable";
        return Err(ConfigError(format!("{name} {message}")));
    }
    let bare = BARE_VARIABLES.into_iter().filter_map(|(bare, ours)| {
        Some((ours.to_owned(), Variable { name: bare.to_owned(), value: all.get(bare)?.clone() }))
    });
    let mut variables: HashMap<_, _> = bare.collect();
    let ours = all.into_iter().filter(|(name, value)| {
        name.starts_with("KITFLEET_") && !name.starts_with(TEST_PREFIX) && !is_service_link(name, value)
    });
    variables.extend(ours.map(|(name, value)| (name.clone(), Variable { name, value })));
    Ok(variables)
}
