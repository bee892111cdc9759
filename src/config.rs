//! Configuration: built-in defaults, then `kitfleet.toml`, then the environment.
//!
//! This is the only place that reads the environment; everything else is handed what it needs. A key that does nothing
//! is refused instead of ignored, because an operator who mistypes `sessions.require_customer_egress` must not believe
//! it is on.

mod auth;
#[cfg(test)]
mod documented;
mod email;
mod later;
mod limits;
mod machine;
mod profiles;
mod providers;
mod rate_limits;
mod teams;
mod values;
mod webhooks;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Environment, File, FileFormat};
use ipnet::IpNet;
use kitfleet_api::RateLimits;
use kitfleet_domain::addresses::Destinations;
use kitfleet_domain::limits::{Limits, MOST_RESULT_BYTES};
use kitfleet_domain::profiles::Retention as ProfileRetention;
use kitfleet_domain::retention::Terms;
use kitfleet_domain::workers::{Driver, MOST_SESSIONS, Placement};
use kitfleet_worker::config::{Clock, Sandbox, WarmPool};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use self::auth::{ApiKeys, Auth, Mfa};
pub use self::email::Email;
use self::limits::LimitsTable;
pub use self::machine::memory_bytes;
use self::profiles::Profiles;
use self::rate_limits::RateLimitsTable;
use self::teams::Teams;
use self::values::{BaseUrl, DatabaseUrl, duration, networks, optional_word, secret, warm_pool, word};
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

    // Of areas that are still to come, from here on.
    /// Deliveries to customers.
    /// Sessions that agents drive.
    agents: later::Agents,
    /// Who takes money.
    billing: later::Billing,
    /// Which of these somebody has set.
    #[serde(skip)]
    unused: Vec<&'static str>,
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
            agents: later::Agents::default(),
            billing: later::Billing::default(),
            unused: Vec::new(),
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
    /// Connections of this process's pool.
    pub max_connections: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self { url: None, max_connections: 32 }
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
}

impl Default for Log {
    fn default() -> Self {
        Self { format: None, filter: "info,sqlx=warn,apalis=warn".to_owned() }
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
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            free_tier_cap: Duration::from_mins(20),
            require_customer_egress: false,
            allow_private_targets: false,
            allow_networks: Vec::new(),
            deny_networks: Vec::new(),
            direct_driver: DirectDriver::Reported,
            open_timeout: Duration::from_secs(30),
        }
    }
}

impl Sessions {
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
    pub placement: Placement,
    /// Connections that one session's browser may have under way.
    pub session_connections: usize,
    /// Browsers that are kept hot.
    #[serde(with = "warm_pool")]
    pub warm_pool: WarmPool,
    /// Where `kitfleet worker` serves its health and its metrics, which `kitfleet up` has beside everything else.
    pub listen: Option<SocketAddr>,
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
    /// How long running operations are waited for when a process stops, a worker or an API.
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
    /// How long workers are kept that have stopped, or were lost.
    #[serde(with = "duration")]
    stopped_workers: Duration,
    /// How long counts of usage are kept.
    #[serde(with = "duration")]
    usage: Duration,
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
            workers: self.stopped_workers,
            usage: self.usage,
            revoked: self.revoked,
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
            stopped_workers: Duration::from_hours(7 * 24),
            // The series reaches back for 90 days, and a year can be compared with the one before.
            usage: Duration::from_hours(400 * 24),
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

/// Why there is no configuration: one line that names the key.
#[derive(Debug, thiserror::Error)]
#[error("configuration: {0}")]
pub struct ConfigError(String);

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
        let variables = our_variables(environment);
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
        let is_set = |key: &&str| layers.get::<config::Value>(key).is_ok();
        let unused = later::KEYS.into_iter().filter(is_set).collect();

        let mut unknown = Vec::new();
        let mut note = |key: serde_ignored::Path<'_>| unknown.push(key.to_string());
        let config: Self = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(layers, &mut note))
            .map_err(|error| bad_value(&error, &variables))?;
        if let Some(key) = unknown.first() {
            return Err(ConfigError(format!("unknown key `{key}`{}", origin(key, file, &variables))));
        }
        config.check()?;
        let data_dir = std::path::absolute(&config.data_dir).map_err(|error| one_line(&error))?;
        Ok(Self { data_dir, unused, ..config })
    }

    /// What no single value can say of itself.
    fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let rules = [
            (self.database.max_connections >= 8, "database.max_connections", "must be at least 8"),
            ((1..=MOST_SESSIONS).contains(&self.worker.max_sessions), "worker.max_sessions", "must be 1 to 10000"),
            (!self.worker.name.trim().is_empty(), "worker.name", "must not be empty"),
            (!self.sessions.open_timeout.is_zero(), "sessions.open_timeout", "must be longer than nothing"),
            (!self.server.header_timeout.is_zero(), "server.header_timeout", "must be longer than nothing"),
            (!self.server.body_timeout.is_zero(), "server.body_timeout", "must be longer than nothing"),
            (!self.server.write_timeout.is_zero(), "server.write_timeout", "must be longer than nothing"),
            (self.server.max_connections >= 4, "server.max_connections", "must be at least 4"),
            (self.server.max_connections_per_address >= 1, "server.max_connections_per_address", "must be at least 1"),
            (
                self.worker.session_connections >= descriptors::LEAST_SESSION_CONNECTIONS,
                "worker.session_connections",
                "must be at least 24",
            ),
            (EnvFilter::try_new(&self.log.filter).is_ok(), "log.filter", "is no filter such as info,sqlx=warn"),
            (limits.min_timeout <= limits.max_timeout, "limits.min_timeout", "must not exceed limits.max_timeout"),
            (!limits.default_form_timeout.is_zero(), "limits.default_form_timeout", "must be longer than nothing"),
            (self.auth.oauth_token_ttl >= Duration::from_secs(1), "auth.oauth_token_ttl", "must be at least a second"),
            (limits.password_min_chars >= 1, "limits.password_min_chars", "must be at least 1"),
            (
                limits.password_min_chars <= limits.password_max_chars,
                "limits.password_min_chars",
                "must not exceed limits.password_max_chars",
            ),
            (!self.webhooks.timeout.is_zero(), "webhooks.timeout", "must be longer than nothing"),
            (self.webhooks.auto_disable_after >= 1, "webhooks.auto_disable_after", "must be at least 1"),
            (limits.webhook_events >= 1, "limits.webhook_events", "must be at least 1"),
            (limits.recovery_codes >= 1, "limits.recovery_codes", "must be at least 1"),
            (limits.challenge_guesses >= 1, "limits.challenge_guesses", "must be at least 1"),
            (limits.mfa_guesses >= 1, "limits.mfa_guesses", "must be at least 1"),
            (limits.page_default >= 1, "limits.page_default", "must be at least 1"),
            (limits.page_default <= limits.page_max, "limits.page_default", "must not exceed limits.page_max"),
            (limits.audit_export_rows >= 1, "limits.audit_export_rows", "must be at least 1"),
            (limits.usage_days_default >= 1, "limits.usage_days_default", "must be at least 1"),
            (
                limits.usage_days_default <= limits.usage_days_max,
                "limits.usage_days_default",
                "must not exceed limits.usage_days_max",
            ),
            (limits.url_chars >= 1, "limits.url_chars", "must be at least 1"),
            (
                (1..=MOST_RESULT_BYTES).contains(&limits.result_bytes),
                "limits.result_bytes",
                "must be 1 to 15728640, 15 MiB",
            ),
            (limits.usage_days_max <= 3_650, "limits.usage_days_max", "must be at most 3650"),
        ];
        if let Some((_, key, rule)) = rules.into_iter().find(|(holds, ..)| !holds) {
            return Err(ConfigError(format!("`{key}` {rule}")));
        }
        self.webhooks()?;
        self.stores()?;
        self.email.mail_at(&self.server.base_url_at(self.server.listen)).map(drop)
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

    /// What is set although nothing uses it yet, as sections or keys.
    #[must_use]
    pub fn unused(&self) -> &[&'static str] {
        &self.unused
    }
}

/// A variable of the environment.
struct Variable {
    /// As its owner spells it.
    name: String,
    value: String,
}

/// The variables that are meant for us, under our own names. Our own name wins over a bare one.
fn our_variables(environment: impl Iterator<Item = (OsString, OsString)>) -> HashMap<String, Variable> {
    let all: HashMap<String, String> = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let bare = BARE_VARIABLES.into_iter().filter_map(|(bare, ours)| {
        Some((ours.to_owned(), Variable { name: bare.to_owned(), value: all.get(bare)?.clone() }))
    });
    let mut variables: HashMap<_, _> = bare.collect();
    let ours = all.into_iter().filter(|(name, _)| name.starts_with("KITFLEET_") && !name.starts_with(TEST_PREFIX));
    variables.extend(ours.map(|(name, value)| (name.clone(), Variable { name, value })));
    variables
}

/// Where an unknown key stands.
fn origin(key: &str, file: Option<&Path>, variables: &HashMap<String, Variable>) -> String {
    if let Some(name) = variable_of(key, variables) {
        return format!(", environment variable {name}");
    }
    file.map(|file| format!(", in {}", file.display())).unwrap_or_default()
}

/// The variable that sets `key`, or something below it.
fn variable_of<'a>(key: &str, variables: &'a HashMap<String, Variable>) -> Option<&'a str> {
    let name = format!("KITFLEET_{}", key.to_uppercase().replace('.', "__"));
    let sets = |ours: &str| {
        let ours = ours.to_uppercase();
        ours == name || ours.strip_prefix(&name).is_some_and(|rest| rest.starts_with("__"))
    };
    variables.iter().find(|(ours, _)| sets(ours)).map(|(_, variable)| variable.name.as_str())
}

fn bad_value(
    error: &serde_path_to_error::Error<config::ConfigError>,
    variables: &HashMap<String, Variable>,
) -> ConfigError {
    let key = error.path().to_string();
    let reason = one_line(error.inner()).0;
    // The crate appends the key to some of its messages, and its own name for the environment.
    let reason = reason.split(" for key `").next().unwrap_or(&reason);
    // Of the wrong type may also be a secret that stands where its table should.
    let reason = match reason.rsplit_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid type") => format!("must be {expected}"),
        _ => reason.to_owned(),
    };
    let place = variable_of(&key, variables).map(|name| format!(", environment variable {name}")).unwrap_or_default();
    ConfigError(format!("`{key}`{place}: {reason}"))
}

/// Says of a file that is no TOML where it is not (contract: configuration 4). The parser would show the line, which may hold a
/// secret. What cannot be read is told by who reads it next.
fn check_syntax(path: &Path) -> Result<(), ConfigError> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(()) };
    text.parse::<toml::Table>().map(drop).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        ConfigError(format!("{}, line {line}: {}", path.display(), error.message()))
    })
}

fn one_line(error: &dyn fmt::Display) -> ConfigError {
    ConfigError(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(DEFAULT_FILE);
        fs::write(&path, file).expect("a file");
        let environment = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Config::read(Some(&path), environment).map_err(|error| error.to_string())
    }

    fn mistake(file: &str, variables: &[(&str, &str)]) -> String {
        let message = read(file, variables).expect_err("a bad configuration was accepted");
        assert!(!message.contains('\n'), "more than a line: {message}");
        message
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\n[sessions]\nfree_tier_cap = \"5m\"";
        let config = read(file, &[("KITFLEET_SERVER__LISTEN", "127.0.0.1:2")]).expect("a good configuration");
        assert_eq!(config.server.listen.port(), 2);
        assert_eq!(config.sessions.free_tier_cap, Duration::from_mins(5));
        assert_eq!(config.sessions.open_timeout, Duration::from_secs(30));
        assert_eq!(config.server.base_url_at(config.server.listen), "http://127.0.0.1:2");
    }

    #[test]
    fn a_warm_pool_is_a_number_or_as_large_as_it_has_to_be() {
        let pool = |file: &str, variables: &[(&str, &str)]| read(file, variables).map(|config| config.worker.warm_pool);
        assert_eq!(pool("", &[]), Ok(WarmPool::Auto));
        assert_eq!(pool("[worker]\nwarm_pool = 0", &[]), Ok(WarmPool::Exactly(0)));
        let variable = "KITFLEET_WORKER__WARM_POOL";
        assert_eq!(pool("[worker]\nwarm_pool = \"auto\"", &[(variable, "12")]), Ok(WarmPool::Exactly(12)));
        assert_eq!(pool("[worker]\nwarm_pool = 3", &[(variable, "auto")]), Ok(WarmPool::Auto));
    }

    #[test]
    fn bare_names_are_read_and_ours_win() {
        let bare = ("DATABASE_URL", "postgres://bare/a");
        let config = read("", &[bare]).expect("a good configuration");
        assert!(format!("{:?}", config.database.url).contains("bare"));
        let config = read("", &[bare, ("KITFLEET_DATABASE__URL", "postgres://ours/a")]).expect("a good configuration");
        assert!(format!("{:?}", config.database.url).contains("ours"));
    }

    #[test]
    fn every_mistake_is_one_line_that_names_the_key() {
        assert!(mistake("[server]\nlisten_on = 1", &[]).contains("`server.listen_on`, in "));
        assert!(mistake("", &[("KITFLEET_SEVER__LISTEN", "x")]).contains("KITFLEET_SEVER__LISTEN"));
        assert!(mistake("", &[("KITFLEET_SERVER__LISTEN", "x")]).contains("`server.listen`"));
        assert!(mistake("", &[("KITFLEET_SERVER", "x")]).contains("`server`"));
        assert!(mistake("[sessions]\nfree_tier_cap = 20", &[]).contains("`sessions.free_tier_cap`"));
        assert!(mistake("[limits]\npage_default = 0", &[]).contains("`limits.page_default`"));
        assert!(mistake("[limits]\nscreenshot_bytes = -1", &[]).contains("`limits.screenshot_bytes`"));
        for (file, key, words) in [
            ("[worker]\ndriver = \"chrome\"", "`worker.driver`", ["`webkit`", "`simulated`", "`none`"]),
            ("[email]\ntransport = \"pigeon\"", "`email.transport`", ["`file`", "`smtp`", "`postmark`"]),
            ("[log]\nformat = \"loud\"", "`log.format`", ["`loud`", "`json`", "`pretty`"]),
            ("[worker]\nwarm_pool = \"some\"", "`worker.warm_pool`", ["must be", "`auto`", "a number"]),
            ("[worker]\nwarm_pool = -1", "`worker.warm_pool`", ["must be", "`auto`", "a number"]),
            ("[sessions]\ndirect_driver = \"x\"", "`sessions.direct_driver`", ["`x`", "`reported`", "`real`"]),
        ] {
            let told = mistake(file, &[]);
            assert!(told.contains(key) && words.iter().all(|word| told.contains(word)), "{told}");
        }
        assert!(mistake("[log]\nfilter = \"info,sqlx=loud\"", &[]).contains("`log.filter`"));
        assert!(mistake("[limits.concurrent_sessions]\ngold = 1", &[]).contains("`limits.concurrent_sessions.gold`"));
        assert!(mistake("[server", &[]).contains(DEFAULT_FILE));
        let secrets = [
            "[mfa]\nencryption_key = 12345678s3cret\n",
            "[mfa]\nencryption_key = \"s3cret\n",
            "[metrics]\nscrape_token = \"a\"\nscrape_token = \"s3cret\"\n",
            "mfa = \"s3cret\"\n",
        ];
        for file in secrets {
            let told = mistake(file, &[]);
            assert!(!told.contains("s3cret"), "{told}");
        }
        assert!(mistake("server = 1", &[]).contains("`server`"));
    }

    #[test]
    fn keys_of_later_areas_are_checked_and_named() {
        let file = "[webhooks]\nretry_schedule = [\"1s\", \"2s\"]\n[retention]\nfinished_jobs = \"1d\"\n\
                    [billing.prices]\napi_scale = 9900\n[limits]\nform_teardown = \"2s\"";
        let config = read(file, &[("KITFLEET_WEBHOOKS__RETRY_SCHEDULE", "3s,4s")]).expect("a good configuration");
        assert_eq!(config.unused(), ["billing", "limits.form_teardown"]);
        let printed = toml::to_string(&config.effective()).expect("TOML");
        assert!(
            printed.contains(r#"retry_schedule = ["3s", "4s"]"#) && printed.contains("api_scale = 9900"),
            "{printed}"
        );
        assert_eq!(read("", &[]).expect("a good configuration").unused(), <[&str; 0]>::default());

        assert!(mistake("[webhooks]\nretries = 1", &[]).contains("`webhooks.retries`, in "));
        assert!(mistake("[billing.prices]\nfree = 1", &[]).contains("`billing.prices.free`"));
        assert!(
            mistake("", &[("KITFLEET_AUTH__SEND_RATE_PER_MINUTE", "many")]).contains("`auth.send_rate_per_minute`")
        );
        let short = "aHVudGVyMg==";
        let told = mistake("", &[("MFA_ENCRYPTION_KEY", short)]);
        assert!(told.contains("`mfa.encryption_key`") && told.contains(" MFA_ENCRYPTION_KEY:"), "{told}");
        assert!(!told.contains(short), "{told}");
    }

    #[test]
    fn identity_providers_have_names_and_issuers_that_are_told_apart() {
        let file = "[auth.providers.work]\nissuer = \"https://idp.example/\"\nclient_id = \"kitfleet\"";
        let variables = [
            ("KITFLEET_AUTH__PROVIDERS__LOCAL__ISSUER", "http://127.0.0.1:9000"),
            ("KITFLEET_AUTH__PROVIDERS__LOCAL__CLIENT_ID", "kitfleet"),
            ("KITFLEET_AUTH__PROVIDERS__LOCAL__SCOPES", "openid,email"),
        ];
        let config = read(file, &variables).expect("a good configuration");
        let providers = config.auth().providers;
        let seen: Vec<_> = providers.iter().map(|(name, provider)| (name.as_str(), provider)).collect();
        let [("local", local), ("work", work)] = &seen[..] else { panic!("names") };
        assert_eq!((&*work.issuer, &*local.issuer), ("https://idp.example/", "http://127.0.0.1:9000"));
        assert_eq!(work.scopes, ["openid", "email", "profile"]);
        assert_eq!(local.scopes, ["openid", "email"]);
        let printed = toml::to_string(&config.effective()).expect("TOML");
        assert_eq!(read(&printed, &[]).expect("a good configuration").auth.providers.len(), 2);

        for (file, key) in [
            ("[auth.providers.a]\nissuer = \"http://idp.example\"\nclient_id = \"k\"", "`auth.providers.a.issuer`"),
            ("[auth.providers.a]\nissuer = \"https://idp.example?x\"\nclient_id = \"k\"", "`auth.providers.a.issuer`"),
            ("[auth.providers.a]\nissuer = \"https://idp.example\"", "`auth.providers.a`"),
            ("[auth.providers.\"a/b\"]\nissuer = \"https://idp.example\"\nclient_id = \"k\"", "a/b"),
            (
                "[auth.providers.a]\nissuer = \"https://i.example\"\nclient_id = \"k\"\nsecret = \"s\"",
                "`auth.providers.a.secret`",
            ),
        ] {
            let told = mistake(file, &[]);
            assert!(told.contains(key), "{told}");
        }
    }

    #[test]
    fn a_transport_of_mails_needs_what_it_needs() {
        assert!(mistake("[email]\ntransport = \"pigeon\"", &[]).contains("`email.transport`"));
        assert!(mistake("[email]\ntransport = \"smtp\"", &[]).contains("`email.smtp_url`"));
        assert!(
            mistake("[email]\ntransport = \"postmark\"\npostmark_token = \"\"", &[]).contains("`email.postmark_token`")
        );
        assert!(mistake("[email]\nfrom = \"nobody\"", &[]).contains("`email.from`"));
        for url in ["http://u:hunter2@h", "smtp://u:hunter2@h?tls=perhaps"] {
            let told = mistake(&format!("[email]\ntransport = \"smtp\"\nsmtp_url = \"{url}\""), &[]);
            assert!(told.contains("`email.smtp_url`") && !told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn a_place_for_profiles_needs_what_it_needs() {
        let told = |store: &str| mistake(&format!("[profiles.store]\n{store}"), &[]);
        assert!(told("url = \"https://s3.example/bucket\"").contains("`profiles.store.url`"));
        assert!(told("url = \"bucket\"").contains("`profiles.store.url`"));
        assert!(told("url = \"s3://b\"\naccess_key_id = \"k\"").contains("`profiles.store.secret_access_key`"));
        let in_clear = "url = \"s3://b\"\nendpoint = \"http://s3.example\"";
        assert!(told(in_clear).contains("`profiles.store.url`: its server must be an https one"));
        assert!(told("url = \"s3://k:s@b\"").contains("`profiles.store.url`"));
        assert!(told("endpoint = \"s3.example\"").contains("`profiles.store.endpoint`"));
        let store = "[profiles.store]\nurl = \"s3://b/p/q\"\nendpoint = \"http://127.0.0.1:9000\"";
        let stores = read(store, &[]).expect("a good configuration").stores().expect("a place");
        assert!(matches!(stores.place, kitfleet_profiles::PlaceConfig::Objects(_)));
    }

    #[test]
    fn mails_are_from_nobody_at_the_service() {
        let from =
            |file: &str| read(file, &[]).expect("a good configuration").effective().email.from.expect("a sender");
        assert_eq!(from("").to_string(), "Kitfleet <no-reply@localhost>");
        let base_url = "[server]\nbase_url = \"https://fleet.example:8443/x\"\n";
        assert_eq!(from(base_url).to_string(), "Kitfleet <no-reply@fleet.example>");
        assert_eq!(from("[email]\nfrom = \"post@ours.example\"").to_string(), "Kitfleet <post@ours.example>");
        assert_eq!(from("[email]\nfrom = \"Us <post@ours.example>\"").to_string(), "Us <post@ours.example>");
    }

    #[test]
    fn an_empty_token_is_none() {
        let config = read("[metrics]\nscrape_token = \"\"", &[]).expect("a good configuration");
        assert!(config.metrics.scrape_token.is_none());
    }

    #[test]
    fn the_variables_of_the_test_suite_are_not_configuration() {
        read("", &[("KITFLEET_TEST_DATABASE_URL", "x"), ("KITFLEET_DATA_DIR", "")]).expect("a good configuration");
    }

    #[test]
    fn a_list_in_the_environment_is_comma_separated_or_json() {
        let lists = ["10.0.0.0/8, 192.0.2.1", r#"["10.0.0.0/8", "192.0.2.1"]"#];
        for list in lists {
            let config = read("", &[("KITFLEET_SERVER__TRUSTED_PROXIES", list)]).expect("a good configuration");
            let networks: Vec<_> = config.server.trusted_proxies.iter().map(ToString::to_string).collect();
            assert_eq!(networks, ["10.0.0.0/8", "192.0.2.1/32"]);
        }
    }

    #[test]
    fn secrets_are_masked_and_survive_looking_like_numbers() {
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let variables = [
            ("METRICS_SCRAPE_TOKEN", "00123"),
            ("DATABASE_URL", "postgres://u:hunter2@h/d"),
            ("REDIS_URL", "redis://:hunter2@h"),
            ("MFA_ENCRYPTION_KEY", key),
            ("KITFLEET_EMAIL__SMTP_URL", "smtps://u:hunter2@h:465"),
            ("KITFLEET_AUTH__PROVIDERS__IDP__ISSUER", "https://idp.example"),
            ("KITFLEET_AUTH__PROVIDERS__IDP__CLIENT_ID", "kitfleet"),
            ("KITFLEET_AUTH__PROVIDERS__IDP__CLIENT_SECRET", "hunter2"),
            ("KITFLEET_EMAIL__POSTMARK_TOKEN", "hunter2"),
            ("KITFLEET_PROFILES__STORE__URL", "s3://bucket/prefix"),
            ("KITFLEET_PROFILES__STORE__ACCESS_KEY_ID", "kitfleet"),
            ("KITFLEET_PROFILES__STORE__SECRET_ACCESS_KEY", "hunter2"),
            ("KITFLEET_BILLING__CARD__SECRET_KEY", "hunter2"),
            ("KITFLEET_BILLING__CARD__WEBHOOK_SECRET", "hunter2"),
            ("KITFLEET_BILLING__CRYPTO__API_KEY", "hunter2"),
            ("KITFLEET_BILLING__CRYPTO__IPN_SECRET", "hunter2"),
        ];
        let config = read("", &variables).expect("a good configuration");
        assert_eq!(config.metrics.scrape_token.as_ref().map(Secret::reveal), Some("00123"));
        for shown in [format!("{config:?}"), toml::to_string(&config.effective()).expect("TOML")] {
            assert!(!shown.contains("00123") && !shown.contains("hunter2") && !shown.contains(key), "{shown}");
        }
        assert!(!mistake("", &[("DATABASE_URL", "hunter2")]).contains("hunter2"));
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let printed = toml::to_string(&Config::default().effective()).expect("TOML");
        let again = read(&printed, &[]).expect("a good configuration");
        assert_eq!(toml::to_string(&again.effective()).expect("TOML"), {
            let absolute = Config { data_dir: again.data_dir.clone(), ..Config::default() };
            toml::to_string(&absolute.effective()).expect("TOML")
        });
    }
}
