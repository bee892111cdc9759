//! Metrics of the API, and the recorder of the process (contract: operators 3 to 7).

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::StatusCode;
use kitfleet_domain::areas;
use kitfleet_domain::byok::TestOutcome;
use kitfleet_domain::encryption_key::KeyStatus;
use kitfleet_domain::live;
use kitfleet_domain::metrics::{Counter, Gauge, Histogram, MetricDeclaration};
use kitfleet_domain::sessions::SessionStatus;
use kitfleet_domain::workers::Slots;
use kitfleet_jobs::inspect::Backlog;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::http::buckets::Bucket;

/// From a response out of memory to an operation at its timeout.
const SECONDS: [f64; 15] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

const AUTH: Counter<1> = Counter::new("service_auth_total", "Authentications, by outcome.", ["outcome"])
    .starting_with(|| AuthOutcome::ALL.map(|outcome| [outcome.label()]).into());

#[derive(Debug, Clone, Copy)]
pub enum AuthOutcome {
    Ok,
    Unauthorized,
    Invalid,
    Revoked,
    Expired,
    Forbidden,
    Error,
}

impl AuthOutcome {
    const ALL: [Self; 7] =
        [Self::Ok, Self::Unauthorized, Self::Invalid, Self::Revoked, Self::Expired, Self::Forbidden, Self::Error];

    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::Error => "error",
        }
    }
}

const OAUTH_TOKENS: Counter<1> =
    Counter::new("service_oauth_token_total", "Requests for an OAuth access token, by outcome.", ["outcome"])
        .starting_with(|| OauthOutcome::ALL.map(|outcome| [outcome.label()]).into());

#[derive(Debug, Clone, Copy)]
pub enum OauthOutcome {
    Ok,
    InvalidRequest,
    InvalidClient,
    InvalidScope,
    UnauthorizedClient,
    UnsupportedGrantType,
    Error,
}

impl OauthOutcome {
    const ALL: [Self; 7] = [
        Self::Ok,
        Self::InvalidRequest,
        Self::InvalidClient,
        Self::InvalidScope,
        Self::UnauthorizedClient,
        Self::UnsupportedGrantType,
        Self::Error,
    ];

    /// For errors of RFC 6749, section 5.2, the error code of the RFC.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidScope => "invalid_scope",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::Error => "error",
        }
    }
}

const REQUESTS: Counter<3> = Counter::new(
    "service_http_request_total",
    "Answered requests, by method, route template and class of status.",
    ["method", "route", "status_class"],
);

const REQUEST_TIME: Histogram<1> = Histogram::new(
    "service_http_request_duration_seconds",
    "Duration of requests in seconds, by route template.",
    ["route"],
);

pub fn count_request(method: &'static str, route: &str, status: StatusCode, elapsed: Duration) {
    let class = match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    REQUESTS.with([method, route, class].map(str::to_owned)).increment(1);
    REQUEST_TIME.with([route.to_owned()]).record(elapsed);
}

pub fn count_auth(outcome: AuthOutcome) {
    AUTH.with([outcome.label()]).increment(1);
}

pub fn count_oauth_token(outcome: OauthOutcome) {
    OAUTH_TOKENS.with([outcome.label()]).increment(1);
}

const LIMITS: Counter<2> = Counter::new(
    "service_rate_limit_total",
    "Requests that a rate limit counted, by bucket and outcome.",
    ["bucket", "outcome"],
)
.starting_with(|| {
    let outcomes = LimitOutcome::ALL;
    Bucket::ALL.into_iter().flat_map(|bucket| outcomes.map(|outcome| [bucket.label(), outcome.label()])).collect()
});

const LIMIT_FALLBACKS: Counter<1> = Counter::new(
    "service_rate_limit_store_fallback_total",
    "Rate limit checks that a process made on its own because Redis did not answer in time.",
    ["limiter"],
)
.starting_with(|| Bucket::ALL.into_iter().map(|bucket| [bucket.label()]).collect());

#[derive(Debug, Clone, Copy)]
pub enum LimitOutcome {
    Allowed,
    Exceeded,
}

impl LimitOutcome {
    const ALL: [Self; 2] = [Self::Allowed, Self::Exceeded];

    fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Exceeded => "exceeded",
        }
    }
}

pub fn count_limit(bucket: Bucket, outcome: LimitOutcome) {
    LIMITS.with([bucket.label(), outcome.label()]).increment(1);
}

/// Redis did not answer in time.
pub fn count_limit_fallback(bucket: Bucket) {
    LIMIT_FALLBACKS.with([bucket.label()]).increment(1);
}

const CREATES_WAITING: Gauge =
    Gauge::new("service_session_creates_waiting", "Creates that wait for a free browser.", []).starting_at_zero();

const CREATES_REFUSED: Counter<1> = Counter::new(
    "service_session_create_refusal_total",
    "Creates refused for lack of a free browser, by reason.",
    ["reason"],
)
.starting_with(|| Refusal::ALL.map(|refusal| [refusal.label()]).into());

/// Reason a session creation got no browser while all were in use.
#[derive(Debug, Clone, Copy)]
pub enum Refusal {
    /// The request did not want to wait.
    Full,
    /// The request waited until its deadline.
    Waited,
    /// The queue was full.
    LineFull,
    /// The process stopped while the request waited.
    Stopping,
}

impl Refusal {
    const ALL: [Self; 4] = [Self::Full, Self::Waited, Self::LineFull, Self::Stopping];

    fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Waited => "waited",
            Self::LineFull => "line_full",
            Self::Stopping => "stopping",
        }
    }
}

pub fn count_refusal(refusal: Refusal) {
    CREATES_REFUSED.with([refusal.label()]).increment(1);
}

pub fn note_waiting(more: f64) {
    CREATES_WAITING.series().increment(more);
}

const BYOK_TESTS: Counter<1> = Counter::new(
    "service_byok_provider_test_total",
    "Tests of customers' keys at model providers, by outcome.",
    ["outcome"],
)
.starting_with(|| ByokTest::all().map(|test| [test.label()]).collect());

#[derive(Debug, Clone, Copy)]
pub enum ByokTest {
    NotSet,
    Done(TestOutcome),
}

impl ByokTest {
    fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::NotSet).chain(TestOutcome::ALL.iter().copied().map(Self::Done))
    }

    fn label(self) -> &'static str {
        match self {
            Self::NotSet => "not_set",
            Self::Done(outcome) => outcome.name(),
        }
    }
}

pub fn count_byok_test(test: ByokTest) {
    BYOK_TESTS.with([test.label()]).increment(1);
}

const LIVEKIT_TOKENS: Counter<2> = Counter::new(
    "service_livekit_token_mint_total",
    "Requests for a LiveKit token, by role and outcome.",
    ["role", "outcome"],
)
.starting_with(|| {
    let outcomes = TokenOutcome::ALL;
    live::Role::ALL.iter().flat_map(|role| outcomes.map(|outcome| [role.name(), outcome.label()])).collect()
});

#[derive(Debug, Clone, Copy)]
pub enum TokenOutcome {
    Ok,
    NotFound,
    Forbidden,
    NoMac,
    /// The secret of the machine cannot be decrypted.
    SecretUnreadable,
}

impl TokenOutcome {
    const ALL: [Self; 5] = [Self::Ok, Self::NotFound, Self::Forbidden, Self::NoMac, Self::SecretUnreadable];

    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::NoMac => "no_mac",
            Self::SecretUnreadable => "secret_unreadable",
        }
    }
}

pub fn count_livekit_token(role: live::Role, outcome: TokenOutcome) {
    LIVEKIT_TOKENS.with([role.name(), outcome.label()]).increment(1);
}

const MAC_NODES: Counter<1> = Counter::new(
    "service_mac_node_livekit_register_total",
    "Registrations of video machines, by outcome.",
    ["outcome"],
)
.starting_with(|| RegisterOutcome::ALL.map(|outcome| [outcome.label()]).into());

#[derive(Debug, Clone, Copy)]
pub enum RegisterOutcome {
    Ok,
    Validation,
    /// The deployment has no key to encrypt the secret.
    EncryptionError,
    /// The caller is not staff; for other callers the route does not exist.
    NotFound,
    Unknown,
}

impl RegisterOutcome {
    const ALL: [Self; 5] = [Self::Ok, Self::Validation, Self::EncryptionError, Self::NotFound, Self::Unknown];

    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Validation => "validation",
            Self::EncryptionError => "encryption_error",
            Self::NotFound => "not_found",
            Self::Unknown => "unknown",
        }
    }
}

pub fn count_registration(outcome: RegisterOutcome) {
    MAC_NODES.with([outcome.label()]).increment(1);
}

const CARD_WEBHOOKS: Counter<1> =
    Counter::new("service_card_webhook_total", "Events received from the card provider, by outcome.", ["outcome"])
        .starting_with(|| CardWebhook::ALL.map(|outcome| [outcome.label()]).into());

#[derive(Debug, Clone, Copy)]
pub enum CardWebhook {
    Handled,
    Duplicate,
    Ignored,
    Error,
    SignatureInvalid,
    SignatureMissing,
    EmptyBody,
    Malformed,
}

impl CardWebhook {
    const ALL: [Self; 8] = [
        Self::Handled,
        Self::Duplicate,
        Self::Ignored,
        Self::Error,
        Self::SignatureInvalid,
        Self::SignatureMissing,
        Self::EmptyBody,
        Self::Malformed,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Handled => "handled",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
            Self::Error => "error",
            Self::SignatureInvalid => "signature_invalid",
            Self::SignatureMissing => "signature_missing",
            Self::EmptyBody => "empty_body",
            Self::Malformed => "malformed_event",
        }
    }
}

pub fn count_card_webhook(outcome: CardWebhook) {
    CARD_WEBHOOKS.with([outcome.label()]).increment(1);
}

const CRYPTO_WEBHOOKS: Counter<1> = Counter::new(
    "service_crypto_webhook_total",
    "Notices received from the crypto processor, by outcome.",
    ["outcome"],
)
.starting_with(|| CryptoWebhook::ALL.map(|outcome| [outcome.label()]).into());

#[derive(Debug, Clone, Copy)]
pub enum CryptoWebhook {
    Ok,
    SignatureInvalid,
    SignatureMissing,
    EmptyBody,
    Malformed,
}

impl CryptoWebhook {
    const ALL: [Self; 5] = [Self::Ok, Self::SignatureInvalid, Self::SignatureMissing, Self::EmptyBody, Self::Malformed];

    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::SignatureInvalid => "signature_invalid",
            Self::SignatureMissing => "signature_missing",
            Self::EmptyBody => "empty_body",
            Self::Malformed => "malformed_event",
        }
    }
}

pub fn count_crypto_webhook(outcome: CryptoWebhook) {
    CRYPTO_WEBHOOKS.with([outcome.label()]).increment(1);
}

const PANICS: Counter =
    Counter::new("service_unhandled_rejection_total", "Handlers that panicked.", []).starting_at_zero();

pub fn count_panic() {
    PANICS.series().increment(1);
}

const BUILD: Gauge<1> =
    Gauge::new("service_build_info", "Always 1. The labels hold the build of this process.", ["version"]);

const METRICS: [&dyn MetricDeclaration; 28] = [
    &REQUESTS,
    &AUTH,
    &OAUTH_TOKENS,
    &PANICS,
    &CHAINS,
    &LIMITS,
    &LIMIT_FALLBACKS,
    &CREATES_WAITING,
    &CREATES_REFUSED,
    &BYOK_TESTS,
    &LIVEKIT_TOKENS,
    &MAC_NODES,
    &CARD_WEBHOOKS,
    &CRYPTO_WEBHOOKS,
    &SESSIONS_LIVE,
    &WORKERS,
    &SECRET_AGE,
    &SLOTS,
    &SLOTS_FREE,
    &QUEUE_DEPTH,
    &QUEUE_AGE,
    &POOL,
    &BUILD,
    &ENCRYPTION_KEY,
    &DATABASE_UP,
    &REDIS_UP,
    &CLOCK_SKEW,
    &REQUEST_TIME,
];

fn declared() -> impl Iterator<Item = &'static dyn MetricDeclaration> {
    let of_crates = kitfleet_jobs::METRICS.iter().chain(kitfleet_models::METRICS);
    areas::metrics().chain(of_crates.copied()).chain(METRICS)
}

/// Counts before the call are lost. A second call registers nothing and returns the same recorder.
pub fn install(of_others: &[&'static dyn MetricDeclaration]) -> std::result::Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<std::result::Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(|| install_recorder(of_others)).clone()
}

fn install_recorder(of_others: &[&'static dyn MetricDeclaration]) -> std::result::Result<PrometheusHandle, String> {
    let builder = PrometheusBuilder::new().set_buckets(&SECONDS).map_err(|error| error.to_string())?;
    let handle = builder.install_recorder().map_err(|error| error.to_string())?;
    for metric in declared().chain(of_others.iter().copied()) {
        metric.register();
    }
    BUILD.with([env!("CARGO_PKG_VERSION")]).set(1.0);
    Ok(handle)
}

const SESSIONS_LIVE: Gauge<1> =
    Gauge::new("service_sessions_live", "Live sessions of the deployment, by status.", ["status"]).read_from_database();

const WORKERS: Gauge<1> =
    Gauge::new("service_workers", "Workers, by status. Lost and stopped workers count for one hour.", ["status"])
        .read_from_database();

const SECRET_AGE: Gauge<1> = Gauge::new(
    "service_secret_age_seconds",
    "Age of the oldest secret in use in seconds, by kind of secret.",
    ["kind"],
)
.read_from_database();

const SLOTS: Gauge =
    Gauge::new("service_worker_slots", "Slots of workers that take sessions.", []).read_from_database();

const SLOTS_FREE: Gauge =
    Gauge::new("service_worker_slots_free", "Free slots of workers that take sessions.", []).read_from_database();

const QUEUE_DEPTH: Gauge<1> =
    Gauge::new("service_job_queue_depth", "Jobs that are due and have not started, by type.", ["job_type"])
        .read_from_database();

const QUEUE_AGE: Gauge<1> =
    Gauge::new("service_job_queue_age_seconds", "Age of the oldest due job in seconds, by type.", ["job_type"])
        .read_from_database();

const CLOCK_SKEW: Gauge = Gauge::new(
    "service_clock_skew_seconds",
    "Seconds by which the clock of this process is ahead of the database's.",
    [],
)
.read_from_database();

pub struct DeploymentState {
    pub sessions: [(SessionStatus, i64); 3],
    pub workers: [(&'static str, i64); 4],
    pub slots: Slots,
    pub backlogs: Vec<Backlog>,
    /// In seconds, by kind.
    pub secrets: [(&'static str, f64); 2],
    /// This process's clock is ahead of the database's by these seconds.
    pub clock_skew: f64,
}

pub fn set_deployment_state(state: &DeploymentState) {
    for (status, count) in &state.sessions {
        SESSIONS_LIVE.with([status.name()]).set(number(*count));
    }
    for (status, count) in &state.workers {
        WORKERS.with([*status]).set(number(*count));
    }
    CLOCK_SKEW.series().set(state.clock_skew);
    SLOTS.series().set(number(state.slots.all));
    SLOTS_FREE.series().set(number(state.slots.free));
    for (kind, seconds) in &state.secrets {
        SECRET_AGE.with([*kind]).set(*seconds);
    }
    for Backlog { job_type, depth, age } in &state.backlogs {
        QUEUE_DEPTH.with([*job_type]).set(number(*depth));
        QUEUE_AGE.with([*job_type]).set(age.as_secs_f64());
    }
}

const DATABASE_UP: Gauge =
    Gauge::new("service_database_up", "1 when this process can read the database, 0 when it cannot.", []);

const REDIS_UP: Gauge = Gauge::new(
    "service_redis_up",
    "1 when Redis answers this process, 0 when it does not. Absent without a configured Redis.",
    [],
);

/// Redis only if it is configured.
pub fn note_reachable(database: bool, redis: Option<bool>) {
    DATABASE_UP.series().set(u8::from(database));
    if let Some(redis) = redis {
        REDIS_UP.series().set(u8::from(redis));
    }
}

/// Removes gauges whose values are from the database.
pub fn without_the_databases(scrape: &str) -> String {
    let absent: Vec<_> = declared().filter(|metric| metric.is_from_database()).map(MetricDeclaration::name).collect();
    let is_absent = |line: &str| {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        absent.contains(&name.split(['{', ' ']).next().unwrap_or_default())
    };
    scrape.split_inclusive('\n').filter(|line| !is_absent(line)).collect()
}

const POOL: Gauge<1> =
    Gauge::new("service_db_pool_connections", "Database connections of this process's pool, by state.", ["state"]);

pub fn note_pool(idle: usize, all: u32) {
    let idle = u32::try_from(idle).unwrap_or(all).min(all);
    POOL.with(["idle"]).set(idle);
    POOL.with(["in_use"]).set(all - idle);
}

const ENCRYPTION_KEY: Gauge = Gauge::new(
    "service_encryption_key_ok",
    "1 when this process's keys open the secrets in the database, 0 when they do not.",
    [],
);

pub fn note_encryption_key(status: KeyStatus) {
    ENCRYPTION_KEY.series().set(u8::from(status.is_usable()));
}

fn number(count: i64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

const CHAINS: Gauge<1> = Gauge::new(
    "service_scheduled_job_chain_pending",
    "1 when the next run of a scheduled job is in the queue, 0 when it is not.",
    ["job_type"],
)
.read_from_database();

/// The next tick of the job is in the queue.
pub fn note_chain(chain: &'static str, pending: bool) {
    CHAINS.with([chain]).set(if pending { 1.0 } else { 0.0 });
}
