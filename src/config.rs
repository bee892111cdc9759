//! Configuration: built-in defaults, then `kitfleet.toml`, then the environment.
//!
//! Only this module reads the environment. An unknown key is an error: an operator who mistypes
//! `sessions.require_customer_egress` must not believe that it is on.

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
mod recordings;
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
use kitfleet_domain::profiles::Retention as ProfileRetention;
use kitfleet_domain::retention::Terms;
use kitfleet_domain::sessions::SessionAgeLimits;
use kitfleet_domain::workers::{Driver, Placement};
use kitfleet_types::addresses::Destinations;
use kitfleet_types::limits::Limits;
use kitfleet_worker::config::{Clock, Sandbox, WarmPool};
use serde::{Deserialize, Serialize};

use self::agents::Agents;
use self::auth::{ApiKeys, Auth, Mfa};
use self::billing::Billing;
use self::egress::Egress;
pub use self::email::Email;
use self::limits::{LimitsTable, REMOVED};
use self::live::Live;
pub use self::machine::memory_bytes;
pub use self::mistakes::ConfigError;
use self::mistakes::{bad_value, check_syntax, one_line, origin};
use self::notifications::Notifications;
use self::profiles::Profiles;
use self::rate_limits::RateLimitsTable;
use self::recordings::{Recordings, Staff};
use self::status::Status;
use self::teams::Teams;
pub use self::traces::Traces;
pub use self::values::duration::parse as parse_duration;
use self::values::{
    BaseUrl, DatabaseUrl, duration, networks, optional_duration, optional_word, origins, secret, socket_address,
    warm_pool, word,
};
pub use self::values::{RedisUrl, Secret};
use self::webhooks::Webhooks;
use crate::descriptors;

const DEFAULT_FILE: &str = "kitfleet.toml";
/// Read without the prefix `KITFLEET_` (contract: configuration 2).
const BARE_VARIABLES: [(&str, &str); 4] = [
    ("DATABASE_URL", "KITFLEET_DATABASE__URL"),
    ("REDIS_URL", "KITFLEET_REDIS__URL"),
    ("MFA_ENCRYPTION_KEY", "KITFLEET_MFA__ENCRYPTION_KEY"),
    ("METRICS_SCRAPE_TOKEN", "KITFLEET_METRICS__SCRAPE_TOKEN"),
];
/// Without them, a process would use the embedded database, or the pooler to listen.
const NEVER_EMPTY: [&str; 3] = ["DATABASE_URL", "KITFLEET_DATABASE__URL", "KITFLEET_DATABASE__LISTEN_URL"];
/// Programs started by tests inherit these variables.
const TEST_PREFIX: &str = "KITFLEET_TEST_";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Folder for everything that this machine stores.
    pub data_dir: PathBuf,
    pub server: Server,
    pub database: Database,
    pub redis: Redis,
    pub log: Log,
    pub traces: Traces,
    pub sessions: Sessions,
    pub worker: Worker,
    pub retention: Retention,
    pub metrics: Metrics,
    pub email: Email,
    /// Bounds of requests and results (contract: limits).
    #[serde(with = "LimitsTable")]
    pub limits: Limits,
    #[serde(with = "RateLimitsTable")]
    pub rate_limits: RateLimits,
    pub auth: Auth,
    pub mfa: Mfa,
    pub api_keys: ApiKeys,
    pub teams: Teams,
    pub webhooks: Webhooks,
    pub profiles: Profiles,
    pub recordings: Recordings,
    pub staff: Staff,
    pub agents: Agents,
    pub egress: Egress,
    pub notifications: Notifications,
    pub live: Live,
    pub status: Status,
    pub billing: Billing,
    /// Tests set it forward.
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
            recordings: Recordings::default(),
            staff: Staff::default(),
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

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Address and port of the HTTP server.
    pub listen: SocketAddr,
    /// By default the listening address.
    pub base_url: Option<BaseUrl>,
    /// Prefix of the `type` of problem documents; by default `{base_url}/errors`.
    pub errors_url: Option<BaseUrl>,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    #[serde(with = "networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// Pages of these origins may call the API with an API key or an OAuth token.
    #[serde(with = "origins")]
    pub cors_origins: Vec<String>,
    #[serde(with = "duration")]
    pub header_timeout: Duration,
    #[serde(with = "duration")]
    pub body_timeout: Duration,
    /// Time limit for a client to read 64 KiB of an answer, or the rest of the answer.
    #[serde(with = "duration")]
    pub write_timeout: Duration,
    pub max_body_bytes: usize,
    /// By default an eighth of the limit of open files.
    pub max_connections: usize,
    /// Per address or IPv6 /64; trusted proxies may have more.
    pub max_connections_per_address: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            base_url: None,
            errors_url: None,
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
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
    /// A wildcard address is replaced by loopback, because clients cannot connect to it.
    pub fn base_url_at(&self, mut address: SocketAddr) -> String {
        if let Some(url) = &self.base_url {
            return url.as_str().to_owned();
        }
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    }

    pub fn errors_url_at(&self, base_url: &str) -> String {
        self.errors_url.as_ref().map_or_else(|| format!("{base_url}/errors"), |url| url.as_str().to_owned())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Database {
    /// By default an embedded PostgreSQL under `data_dir`.
    pub url: Option<DatabaseUrl>,
    /// Address without a pooler, for connections that keep state; by default `url`.
    pub listen_url: Option<DatabaseUrl>,
    pub max_connections: u32,
}

impl Default for Database {
    fn default() -> Self {
        Self { url: None, listen_url: None, max_connections: 32 }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Redis {
    /// Without it each process counts rate limits on its own.
    pub url: Option<RedisUrl>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// By default `pretty` on a terminal, otherwise `json`.
    #[serde(deserialize_with = "optional_word")]
    pub format: Option<LogFormat>,
    /// Syntax of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// `kitfleet up` prints the owner's key after its creation.
    pub owner_key: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: None, filter: "info,sqlx=warn,apalis=warn".to_owned(), owner_key: true }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Json,
    Pretty,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    #[serde(with = "duration")]
    pub free_tier_cap: Duration,
    #[serde(with = "optional_duration")]
    pub max_age: Option<Duration>,
    /// True when a session has to use a proxy of the customer.
    pub require_customer_egress: bool,
    /// True when browsers may connect to loopback, link-local and private addresses.
    pub allow_private_targets: bool,
    /// Networks that browsers may connect to although they are private or local to this machine.
    #[serde(with = "networks")]
    pub allow_networks: Vec<IpNet>,
    /// Takes precedence over every other setting.
    #[serde(with = "networks")]
    pub deny_networks: Vec<IpNet>,
    #[serde(deserialize_with = "word")]
    pub direct_driver: DirectDriver,
    #[serde(with = "duration")]
    pub open_timeout: Duration,
    pub detect_challenges: bool,
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
    pub fn ages(&self) -> SessionAgeLimits {
        SessionAgeLimits { free_tier: self.free_tier_cap, any: self.max_age }
    }

    pub fn destinations(&self) -> Destinations {
        Destinations {
            allow_private: self.allow_private_targets,
            allow: self.allow_networks.clone(),
            deny: self.deny_networks.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectDriver {
    Reported,
    Real,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    #[serde(deserialize_with = "word")]
    pub driver: Driver,
    /// Name of the worker in `kitfleet workers list`; by default the machine's name.
    pub name: String,
    /// By default the number that fits into memory.
    pub max_sessions: u32,
    #[serde(deserialize_with = "word")]
    pub placement: Placement,
    pub session_connections: usize,
    /// Browsers started without a session.
    #[serde(with = "warm_pool")]
    pub warm_pool: WarmPool,
    /// Health and metrics of `kitfleet worker`. `kitfleet up` serves them at `server.listen`.
    pub listen: Option<SocketAddr>,
    /// API processes connect viewers here.
    #[serde(deserialize_with = "socket_address")]
    pub live_listen: SocketAddr,
    /// By default the one beside this program, otherwise the one in `PATH`.
    pub host_program: PathBuf,
    /// Behavior when browsers cannot be confined.
    pub sandbox: Sandbox,
    pub session_memory_bytes: u64,
    pub session_disk_bytes: u64,
    /// Free bytes to keep on that disk. Below it the worker ends the session that wrote most.
    pub free_disk_bytes: u64,
    /// A stopping worker waits this long for live sessions, and a stopping API process for running operations.
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

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    #[serde(with = "duration")]
    pub operation_results: Duration,
    #[serde(with = "duration")]
    finished_jobs: Duration,
    #[serde(with = "duration")]
    pub outbox: Duration,
    #[serde(with = "duration")]
    webhook_bodies: Duration,
    #[serde(with = "duration")]
    ended_sessions: Duration,
    #[serde(with = "duration")]
    agent_sessions: Duration,
    #[serde(with = "duration")]
    stopped_workers: Duration,
    #[serde(with = "duration")]
    usage: Duration,
    #[serde(with = "duration")]
    pub notifications: Duration,
    #[serde(with = "duration")]
    pub recordings: Duration,
    /// OAuth clients, endpoints and invitations that no row refers to.
    #[serde(with = "duration")]
    revoked: Duration,
    #[serde(with = "duration")]
    deleted_profiles: Duration,
    /// Includes profile data.
    #[serde(with = "duration")]
    deleted_account_secrets: Duration,
}

impl Retention {
    pub fn profiles(&self) -> ProfileRetention {
        ProfileRetention { deleted: self.deleted_profiles, of_deleted_accounts: self.deleted_account_secrets }
    }

    pub fn terms(&self) -> Terms {
        Terms {
            jobs: self.finished_jobs,
            webhooks: self.webhook_bodies,
            sessions: self.ended_sessions,
            agent_sessions: self.agent_sessions,
            workers: self.stopped_workers,
            usage: self.usage,
            notifications: self.notifications,
            recordings: self.recordings,
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
            // Usage series cover up to 90 days, and a year can be compared with the previous one.
            usage: Duration::from_hours(400 * 24),
            notifications: Duration::from_hours(24),
            recordings: Duration::from_hours(7 * 24),
            revoked: Duration::from_hours(90 * 24),
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Without it the route answers 503.
    #[serde(deserialize_with = "secret")]
    pub scrape_token: Option<Secret>,
}

impl Config {
    /// `./kitfleet.toml` is used when it exists.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        #[expect(clippy::disallowed_methods, reason = "this module is the one that reads the environment")]
        let environment = std::env::vars_os();
        let default = Path::new(DEFAULT_FILE);
        Self::read(file.or_else(|| default.exists().then_some(default)), environment)
    }

    /// Reads only these variables, as if they were the environment.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, ConfigError> {
        Self::read(None, variables.into_iter())
    }

    fn read(file: Option<&Path>, environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, ConfigError> {
        let variables = service_variables(environment)?;
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
            let origin = origin(key, file, &variables);
            return Err(ConfigError(if REMOVED.contains(&key.as_str()) {
                format!("`{key}` was removed, because the limit is fixed now: delete the key{origin}")
            } else {
                format!("unknown key `{key}`{origin}")
            }));
        }
        config.check()?;
        let data_dir = std::path::absolute(&config.data_dir).map_err(|error| one_line(&error))?;
        Ok(Self { data_dir, ..config })
    }

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

struct Variable {
    name: String,
    value: String,
}

/// Kubernetes sets such variables in each pod for a service whose name begins with `kitfleet`. No setting has such a
/// name.
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

/// Names with the prefix take precedence over the common names.
fn service_variables(
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
