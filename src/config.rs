//! Configuration: built-in defaults, then `kitfleet.toml`, then the environment.
//!
//! This is the only place that reads the environment; everything else is handed what it needs. A key that does nothing
//! is refused instead of ignored, because an operator who mistypes `sessions.require_customer_egress` must not believe
//! it is on.

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

use config::{Environment, File, FileFormat};
use ipnet::IpNet;
use kitfleet_domain::limits::Limits;
use kitfleet_domain::workers::Driver;
use serde::{Deserialize, Serialize, Serializer};
use sqlx::postgres::PgConnectOptions;
use tracing_subscriber::EnvFilter;
use url::Url;

/// Read when no other file is named.
const DEFAULT_FILE: &str = "kitfleet.toml";
/// The names of D2 that are read without our prefix, as the rest of the world spells them.
const BARE_VARIABLES: [(&str, &str); 3] = [
    ("DATABASE_URL", "KITFLEET_DATABASE__URL"),
    ("REDIS_URL", "KITFLEET_REDIS__URL"),
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
    /// The interface's Limits table.
    #[serde(with = "LimitsTable")]
    pub limits: Limits,
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
            limits: Limits::default(),
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
    /// Bytes of a request's body.
    pub max_body_bytes: usize,
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
            max_body_bytes: 1024 * 1024,
        }
    }
}

impl Server {
    /// Where customers find a service that listens on `address`. A wildcard address is nowhere one can go, so it becomes
    /// loopback.
    pub fn base_url_at(&self, mut address: SocketAddr) -> String {
        if let Some(url) = &self.base_url {
            return url.0.clone();
        }
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        format!("http://{address}")
    }

    /// Where the pages about errors are, given [`Server::base_url_at`].
    pub fn errors_url_at(&self, base_url: &str) -> String {
        self.errors_url.as_ref().map_or_else(|| format!("{base_url}/errors"), |url| url.0.clone())
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
    /// Accepted, so that a deployment can be prepared; nothing uses it yet, and a start says so.
    pub url: Option<Secret>,
}

/// `log.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// By default `pretty` on a terminal, else `json`.
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
    /// Whether search and login are done, or answered with the capability that is missing.
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
            direct_driver: DirectDriver::Reported,
            open_timeout: Duration::from_secs(30),
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
    pub driver: Driver,
    /// As `kitfleet workers list` shows it; by default the machine's name.
    pub name: String,
    /// Live sessions at most; by default what the machine's memory holds.
    pub max_sessions: u32,
    /// Hot slots kept ready.
    pub warm_pool: u32,
    /// The `kitfleet-host` executable; by default the one beside this program, else the one in `PATH`.
    pub host_program: PathBuf,
    /// How long running operations are waited for when the process stops.
    #[serde(with = "duration")]
    pub drain_timeout: Duration,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            driver: Driver::Webkit,
            name: machine_name(),
            max_sessions: sessions_that_fit(memory_bytes()),
            warm_pool: 1,
            host_program: host_program(),
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
    pub finished_jobs: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { operation_results: Duration::from_mins(10), finished_jobs: Duration::from_hours(7 * 24) }
    }
}

/// `metrics.*`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// The bearer token of `GET /metrics`; without one that route answers 503.
    pub scrape_token: Option<Secret>,
}

/// [`Limits`], field by field: the domain does not know how configuration is spelled.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits", default = "Limits::default")]
struct LimitsTable {
    label_chars: usize,
    type_text_chars: usize,
    type_delay_ms: u64,
    press_key_chars: usize,
    #[serde(with = "duration")]
    min_timeout: Duration,
    #[serde(with = "duration")]
    max_timeout: Duration,
    #[serde(with = "duration")]
    max_time_wait: Duration,
    extractions: usize,
    query_chars: usize,
    #[serde(with = "duration")]
    max_form_timeout: Duration,
    #[serde(with = "duration")]
    form_work: Duration,
    screenshot_bytes: u64,
    pdf_bytes: u64,
    state_storage_bytes: usize,
    state_cookies: usize,
    page_default: u32,
    page_max: u32,
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

    fn read(file: Option<&Path>, environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, ConfigError> {
        let variables = our_variables(environment);
        let layers = config::Config::builder();
        let layers = match file {
            Some(path) => layers.add_source(File::from(path).format(FileFormat::Toml)),
            None => layers,
        };
        let environment = Environment::with_prefix("KITFLEET").prefix_separator("_").separator("__");
        let environment = environment.ignore_empty(true).source(Some(variables.clone()));
        let layers = layers.add_source(environment).build().map_err(|error| one_line(&error))?;

        let mut unknown = Vec::new();
        let mut note = |key: serde_ignored::Path<'_>| unknown.push(key.to_string());
        let config: Self = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(layers, &mut note))
            .map_err(|error| bad_value(&error, &variables))?;
        if let Some(key) = unknown.first() {
            return Err(ConfigError(format!("unknown key `{key}`{}", origin(key, file, &variables))));
        }
        config.check()?;
        Ok(Self { data_dir: std::path::absolute(&config.data_dir).map_err(|error| one_line(&error))?, ..config })
    }

    /// What no single value can say of itself.
    fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let rules = [
            (self.database.max_connections >= 8, "database.max_connections", "must be at least 8"),
            (self.worker.max_sessions >= 1, "worker.max_sessions", "must be at least 1"),
            (!self.worker.name.trim().is_empty(), "worker.name", "must not be empty"),
            (!self.sessions.open_timeout.is_zero(), "sessions.open_timeout", "must be longer than nothing"),
            (!self.server.header_timeout.is_zero(), "server.header_timeout", "must be longer than nothing"),
            (!self.server.body_timeout.is_zero(), "server.body_timeout", "must be longer than nothing"),
            (EnvFilter::try_new(&self.log.filter).is_ok(), "log.filter", "is no filter such as info,sqlx=warn"),
            (limits.min_timeout <= limits.max_timeout, "limits.min_timeout", "must not exceed limits.max_timeout"),
            (limits.page_default >= 1, "limits.page_default", "must be at least 1"),
            (limits.page_default <= limits.page_max, "limits.page_default", "must not exceed limits.page_max"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, key, rule)) => Err(ConfigError(format!("`{key}` {rule}"))),
            None => Ok(()),
        }
    }

    /// The configuration as it is in effect: what is derived from other keys is filled in.
    #[must_use]
    pub fn effective(&self) -> Self {
        let mut effective = self.clone();
        let base_url = self.server.base_url_at(self.server.listen);
        effective.server.errors_url = Some(BaseUrl(self.server.errors_url_at(&base_url)));
        effective.server.base_url = Some(BaseUrl(base_url));
        effective
    }
}

/// The variables that are meant for us, under our own names. Our own name wins over a bare one.
fn our_variables(environment: impl Iterator<Item = (OsString, OsString)>) -> HashMap<String, String> {
    let all: HashMap<String, String> = environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .collect();
    let bare = BARE_VARIABLES.into_iter().filter_map(|(bare, ours)| Some((ours.to_owned(), all.get(bare)?.clone())));
    let mut variables: HashMap<_, _> = bare.filter(|(_, value)| !value.is_empty()).collect();
    let ours = all
        .into_iter()
        .filter(|(name, value)| name.starts_with("KITFLEET_") && !name.starts_with(TEST_PREFIX) && !value.is_empty());
    variables.extend(ours);
    variables
}

/// Where an unknown key stands.
fn origin(key: &str, file: Option<&Path>, variables: &HashMap<String, String>) -> String {
    if let Some(name) = variable_of(key, variables) {
        return format!(", environment variable {name}");
    }
    file.map(|file| format!(", in {}", file.display())).unwrap_or_default()
}

/// The variable that sets `key`, or something below it.
fn variable_of<'a>(key: &str, variables: &'a HashMap<String, String>) -> Option<&'a String> {
    let name = format!("KITFLEET_{}", key.to_uppercase().replace('.', "__"));
    variables.keys().find(|variable| {
        let variable = variable.to_uppercase();
        variable == name || variable.strip_prefix(&name).is_some_and(|rest| rest.starts_with("__"))
    })
}

fn bad_value(
    error: &serde_path_to_error::Error<config::ConfigError>,
    variables: &HashMap<String, String>,
) -> ConfigError {
    let key = error.path().to_string();
    let reason = one_line(error.inner()).0;
    // The crate appends the key to some of its messages, and its own name for the environment.
    let reason = reason.split(" for key `").next().unwrap_or(&reason).to_owned();
    let place = variable_of(&key, variables).map(|name| format!(", environment variable {name}")).unwrap_or_default();
    ConfigError(format!("`{key}`{place}: {reason}"))
}

fn one_line(error: &dyn fmt::Display) -> ConfigError {
    ConfigError(error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What must not be shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

const MASK: &str = "********";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// An http or https URL without a slash at its end, so that a path can be appended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BaseUrl(String);

impl TryFrom<String> for BaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = Url::parse(&text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{text:?} is not an http or https URL"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{text:?} has more than a path"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// The address of a shared database. Its password is never shown.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct DatabaseUrl(Url);

impl DatabaseUrl {
    /// How to connect.
    pub fn options(&self) -> sqlx::Result<PgConnectOptions> {
        PgConnectOptions::from_str(self.0.as_str())
    }

    fn masked(&self) -> String {
        if self.0.query_pairs().any(|(name, _)| name == "password") {
            return MASK.to_owned();
        }
        let mut url = self.0.clone();
        if url.password().is_some() {
            // It fails for a URL without a host only, and that has no password.
            let _ = url.set_password(Some(MASK));
        }
        url.into()
    }
}

impl TryFrom<String> for DatabaseUrl {
    type Error = &'static str;

    /// The text may hold a password, so no message repeats it.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).map_err(|_| "not a URL such as postgres://user:password@host/database")?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err("the scheme must be postgres");
        }
        let parsed = Self(url);
        if parsed.options().is_err() { Err("not an address that PostgreSQL understands") } else { Ok(parsed) }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

/// `10s`, `20m`, `24h`, `60d`.
mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(|error| {
            D::Error::custom(format!("{text:?} is not a duration such as 10s, 20m, 24h or 60d: {error}"))
        })
    }

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = duration.as_millis();
        let (size, unit) =
            UNITS.into_iter().find(|(size, _)| millis >= *size && millis.is_multiple_of(*size)).unwrap_or((1, "ms"));
        serializer.serialize_str(&format!("{}{unit}", millis / size))
    }
}

/// Addresses and prefixes: a list, or a text that is comma-separated or a JSON array.
mod networks {
    use std::net::IpAddr;

    use ipnet::IpNet;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Spelling {
        List(Vec<String>),
        Text(String),
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        let items = match Spelling::deserialize(deserializer)? {
            Spelling::List(items) => items,
            Spelling::Text(text) if text.trim_start().starts_with('[') => {
                serde_json::from_str(&text).map_err(D::Error::custom)?
            }
            Spelling::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
        };
        items.iter().filter(|item| !item.is_empty()).map(|item| parse(item).map_err(D::Error::custom)).collect()
    }

    fn parse(item: &str) -> Result<IpNet, String> {
        item.parse::<IpNet>()
            .or_else(|_| item.parse::<IpAddr>().map(IpNet::from))
            .map_err(|_| format!("{item:?} is neither an address nor a prefix such as 10.0.0.0/8"))
    }

    pub fn serialize<S: Serializer>(networks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        networks.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(serializer)
    }
}

fn machine_name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "worker".to_owned())
}

/// Beside this program, where a build puts it, else wherever `PATH` finds it.
fn host_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("kitfleet-host"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("kitfleet-host"))
}

/// A session takes about 80 MiB, and a heavy page more; the rest of the machine keeps 1 GiB.
fn sessions_that_fit(memory: u64) -> u32 {
    const MIB: u64 = 1024 * 1024;
    let sessions = memory.saturating_sub(1024 * MIB) / (110 * MIB);
    u32::try_from(sessions).unwrap_or(u32::MAX).max(1)
}

/// The machine's memory, or what the control group of a container leaves of it.
pub fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    });
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min().unwrap_or(0)
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
        assert!(mistake("[worker]\ndriver = \"chrome\"", &[]).contains("`worker.driver`"));
        assert!(mistake("[log]\nfilter = \"info,sqlx=loud\"", &[]).contains("`log.filter`"));
        assert!(mistake("[server", &[]).contains(DEFAULT_FILE));
        assert!(mistake("server = 1", &[]).contains("`server`"));
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
        let variables = [("METRICS_SCRAPE_TOKEN", "00123"), ("DATABASE_URL", "postgres://u:hunter2@h/d")];
        let config = read("", &variables).expect("a good configuration");
        assert_eq!(config.metrics.scrape_token.as_ref().map(Secret::reveal), Some("00123"));
        for shown in [format!("{config:?}"), toml::to_string(&config.effective()).expect("TOML")] {
            assert!(!shown.contains("00123") && !shown.contains("hunter2"), "{shown}");
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

    #[test]
    fn a_small_machine_still_gets_a_session() {
        assert_eq!(sessions_that_fit(512 << 20), 1);
        assert_eq!(sessions_that_fit(4 << 30), 27);
    }
}
