//! Operator metrics (contract: operators 3 to 6). Labels come from closed sets; no account, key or address is a label.

use std::sync::LazyLock;
use std::time::Duration;

use axum::http::StatusCode;
use kitfleet_domain::agents::lanes::{self, TRANSITIONS};
use kitfleet_domain::agents::turn_lifecycle::DECOMPOSED;
use kitfleet_domain::agents::turns::TurnKind;
use kitfleet_domain::areas;
use kitfleet_domain::byok::TestOutcome;
use kitfleet_domain::challenges;
use kitfleet_domain::emails::{Outcome, Template};
use kitfleet_domain::encryption_key::KeyStatus;
use kitfleet_domain::live;
use kitfleet_domain::retention::PurgeOutcome;
use kitfleet_domain::sessions::SessionStatus;
use kitfleet_domain::webhooks::deliveries::{self, DeliveryStatus};
use kitfleet_domain::workers::Slots;
use kitfleet_jobs::inspect::Backlog;
use kitfleet_jobs::wakeups::WakeupTransport;
use kitfleet_models::Failure;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::http::buckets::Bucket;

const REQUESTS: &str = "service_http_request_total";
const AUTH: &str = "service_auth_total";
const OAUTH_TOKENS: &str = "service_oauth_token_total";
const PANICS: &str = "service_unhandled_rejection_total";
const CHAINS: &str = "service_scheduled_job_chain_pending";
const LIMITS: &str = "service_rate_limit_total";
const LIMIT_FALLBACKS: &str = "service_rate_limit_store_fallback_total";
const AUDIT: &str = "service_account_audit_emit_total";
const ADMIN_AUDIT: &str = "service_admin_audit_emit_total";
const EMAILS: &str = "service_email_send_total";
const ATTEMPTS: &str = "service_webhook_delivery_attempt_total";
const DELIVERIES: &str = "service_webhook_delivery_terminal_total";
const CREATES_WAITING: &str = "service_session_creates_waiting";
const CREATES_REFUSED: &str = "service_session_create_refusal_total";
const BROWSERS_HOT: &str = "service_browsers_hot";
const CHALLENGES: &str = "service_challenge_total";
const BYOK_TESTS: &str = "service_byok_provider_test_total";
const BUNDLED_REQUESTS: &str = "service_bundled_llm_request_total";
const BUNDLED_ERRORS: &str = "service_bundled_llm_error_total";
const LIVEKIT_TOKENS: &str = "service_livekit_token_mint_total";
const MAC_NODES: &str = "service_mac_node_livekit_register_total";
const CARD_WEBHOOKS: &str = "service_card_webhook_total";
const CRYPTO_WEBHOOKS: &str = "service_crypto_webhook_total";
const WAKEUPS: &str = "service_wakeup_total";
const SESSIONS_LIVE: &str = "service_sessions_live";
const WORKERS: &str = "service_workers";
const WORKER_SESSIONS: &str = "service_worker_sessions";
const SECRET_AGE: &str = "service_secret_age_seconds";
const SLOTS: &str = "service_worker_slots";
const SLOTS_FREE: &str = "service_worker_slots_free";
const QUEUE_DEPTH: &str = "service_job_queue_depth";
const QUEUE_AGE: &str = "service_job_queue_age_seconds";
const POOL: &str = "service_db_pool_connections";
const BUILD: &str = "service_build_info";
const SANDBOXED: &str = "service_worker_sandboxed";
const ENCRYPTION_KEY: &str = "service_encryption_key_ok";
const BROWSER_MEMORY: &str = "service_browser_memory_bytes";
const BROWSER_DEATHS: &str = "service_browser_death_total";
const DATABASE_UP: &str = "service_database_up";
const REDIS_UP: &str = "service_redis_up";
const CLOCK_SKEW: &str = "service_clock_skew_seconds";
const DISK_FREE: &str = "service_worker_disk_free_bytes";
const DISK_FLOOR: &str = "service_worker_disk_floor_bytes";

/// Gauges that are read from the database. While it cannot be read, they are left out of a scrape, because their last values are
/// outdated.
const OF_THE_DATABASE: [&str; 9] =
    [SESSIONS_LIVE, WORKERS, SECRET_AGE, SLOTS, SLOTS_FREE, QUEUE_DEPTH, QUEUE_AGE, CHAINS, CLOCK_SKEW];
const REQUEST_TIME: &str = "service_http_request_duration_seconds";
const OPERATION_TIME: &str = "service_session_operation_duration_seconds";
const ATTEMPT_TIME: &str = "service_webhook_attempt_duration_seconds";

/// Histogram buckets in seconds, from a response out of memory to an operation at its timeout.
const SECONDS: [f64; 15] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Outcome of an authentication.
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

/// Outcome of a request for an OAuth access token.
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

    /// The label; for errors of RFC 6749, section 5.2, the error code of the RFC.
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

pub fn count_request(method: &'static str, route: &str, status: StatusCode, took: Duration) {
    let class = match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    counter!(REQUESTS, "method" => method, "route" => route.to_owned(), "status_class" => class).increment(1);
    histogram!(REQUEST_TIME, "route" => route.to_owned()).record(took);
}

pub fn count_auth(outcome: AuthOutcome) {
    counter!(AUTH, "outcome" => outcome.label()).increment(1);
}

pub fn count_oauth_token(outcome: OauthOutcome) {
    counter!(OAUTH_TOKENS, "outcome" => outcome.label()).increment(1);
}

/// Outcome of a rate limit check.
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
    counter!(LIMITS, "bucket" => bucket.label(), "outcome" => outcome.label()).increment(1);
}

/// Counts a rate limit check that Redis did not answer in time.
pub fn count_limit_fallback(bucket: Bucket) {
    counter!(LIMIT_FALLBACKS, "limiter" => bucket.label()).increment(1);
}

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
    counter!(CREATES_REFUSED, "reason" => refusal.label()).increment(1);
}

/// Changes the number of requests that wait for a browser.
pub fn note_waiting(more: f64) {
    gauge!(CREATES_WAITING).increment(more);
}

/// Outcome of a test of a model provider key.
#[derive(Debug, Clone, Copy)]
pub enum ByokTest {
    /// The account has no key.
    NotSet,
    /// The provider was asked.
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
    counter!(BYOK_TESTS, "outcome" => test.label()).increment(1);
}

/// Outcome of a request for a LiveKit token.
#[derive(Debug, Clone, Copy)]
pub enum TokenOutcome {
    Ok,
    NotFound,
    Forbidden,
    /// No machine has capacity.
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
    counter!(LIVEKIT_TOKENS, "role" => role.name(), "outcome" => outcome.label()).increment(1);
}

/// Outcome of the registration of a machine for video.
#[derive(Debug, Clone, Copy)]
pub enum RegisterOutcome {
    Ok,
    /// The registration is invalid.
    Validation,
    /// The deployment has no key to encrypt the secret.
    EncryptionError,
    /// The caller is not staff; for other callers the route does not exist.
    NotFound,
    /// The database failed.
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
    counter!(MAC_NODES, "outcome" => outcome.label()).increment(1);
}

/// Outcome of an event of the card provider.
#[derive(Debug, Clone, Copy)]
pub enum CardWebhook {
    Handled,
    /// The event was received before.
    Duplicate,
    /// The event is not relevant.
    Ignored,
    /// The service failed.
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
    counter!(CARD_WEBHOOKS, "outcome" => outcome.label()).increment(1);
}

/// Outcome of a notification of the crypto processor.
#[derive(Debug, Clone, Copy)]
pub enum CryptoWebhook {
    /// The notification was accepted.
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
    counter!(CRYPTO_WEBHOOKS, "outcome" => outcome.label()).increment(1);
}

pub fn count_panic() {
    counter!(PANICS).increment(1);
}

/// Installs the metrics recorder of this process, once; a second call returns the same recorder. Counts before the call are lost.
///
/// # Errors
/// Another recorder is installed.
pub fn install() -> std::result::Result<PrometheusHandle, String> {
    static HANDLE: LazyLock<std::result::Result<PrometheusHandle, String>> = LazyLock::new(|| {
        let builder = PrometheusBuilder::new().set_buckets(&SECONDS).map_err(|error| error.to_string())?;
        let handle = builder.install_recorder().map_err(|error| error.to_string())?;
        describe_counter!(REQUESTS, "Answered requests, by method, route template and class of status.");
        describe_counter!(AUTH, "Authentications, by outcome.");
        describe_counter!(OAUTH_TOKENS, "Requests for an OAuth access token, by outcome.");
        describe_counter!(PANICS, "Handlers that panicked.");
        describe_gauge!(CHAINS, "1 when the next run of a scheduled job is in the queue, 0 when it is not.");
        describe_counter!(LIMITS, "Requests that a rate limit counted, by bucket and outcome.");
        describe_counter!(
            LIMIT_FALLBACKS,
            "Rate limit checks that a process made on its own because Redis did not answer in time."
        );
        describe_counter!(AUDIT, "Written rows of the audit log, by prefix of the action and type of the actor.");
        describe_counter!(ADMIN_AUDIT, "Logged actions of staff, by prefix of the action.");
        describe_counter!(EMAILS, "Attempts to send a mail, by template and outcome.");
        describe_counter!(ATTEMPTS, "Attempts to deliver a webhook, by outcome.");
        describe_counter!(
            PurgeOutcome::metric("profiles"),
            "Purges of customer data by retention, by kind of data and outcome."
        );
        describe_counter!(
            PurgeOutcome::metric(""),
            "Rows deleted by retention and failed purges, by kind of data and outcome."
        );
        describe_counter!(DELIVERIES, "Ended webhook deliveries, by final state.");
        describe_gauge!(CREATES_WAITING, "Creates that wait for a free browser.");
        describe_counter!(CREATES_REFUSED, "Creates refused for lack of a free browser, by reason.");
        describe_gauge!(BROWSERS_HOT, "Started browsers without a session.");
        describe_counter!(CHALLENGES, "Challenges shown by pages, by type and outcome.");
        describe_counter!(BYOK_TESTS, "Tests of customers' keys at model providers, by outcome.");
        describe_counter!(LIVEKIT_TOKENS, "Requests for a LiveKit token, by role and outcome.");
        describe_counter!(MAC_NODES, "Registrations of video machines, by outcome.");
        describe_counter!(BUNDLED_REQUESTS, "Requests to models with the deployment's own key, by outcome.");
        describe_counter!(BUNDLED_ERRORS, "Messages that were not sent to the deployment's model, by reason.");
        describe_counter!(CARD_WEBHOOKS, "Events received from the card provider, by outcome.");
        describe_counter!(CRYPTO_WEBHOOKS, "Notices received from the crypto processor, by outcome.");
        describe_counter!(DECOMPOSED, "Interpreted messages of agent sessions, by outcome.");
        describe_counter!(
            TRANSITIONS,
            "Changes of the driver of an agent session in pair mode, by previous and next driver."
        );
        describe_counter!(WAKEUPS, "Wake-ups sent to processes, by carrier.");
        describe_standing();
        start_at_zero();
        Ok(handle)
    });
    HANDLE.clone()
}

/// A rate does not show the first event of a new series, so known series start at zero.
fn start_at_zero() {
    counter!(PANICS).absolute(0);
    gauge!(CREATES_WAITING).set(0.0);
    gauge!(BROWSERS_HOT).set(0.0);
    gauge!(BROWSER_MEMORY).set(0.0);
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    for (kind, outcome) in challenges::counted() {
        counter!(CHALLENGES, "type" => kind, "outcome" => outcome).absolute(0);
    }
    for refusal in Refusal::ALL {
        counter!(CREATES_REFUSED, "reason" => refusal.label()).absolute(0);
    }
    for outcome in AuthOutcome::ALL {
        counter!(AUTH, "outcome" => outcome.label()).absolute(0);
    }
    for outcome in OauthOutcome::ALL {
        counter!(OAUTH_TOKENS, "outcome" => outcome.label()).absolute(0);
    }
    for bucket in Bucket::ALL {
        for outcome in LimitOutcome::ALL {
            counter!(LIMITS, "bucket" => bucket.label(), "outcome" => outcome.label()).absolute(0);
        }
        counter!(LIMIT_FALLBACKS, "limiter" => bucket.label()).absolute(0);
    }
    for template in Template::ALL {
        for outcome in Outcome::ALL {
            counter!(EMAILS, "template" => template.name(), "outcome" => outcome.name()).absolute(0);
        }
    }
    for outcome in deliveries::Outcome::ALL {
        counter!(ATTEMPTS, "outcome" => outcome.name()).absolute(0);
    }
    for test in ByokTest::all() {
        counter!(BYOK_TESTS, "outcome" => test.label()).absolute(0);
    }
    for role in live::Role::ALL {
        for outcome in TokenOutcome::ALL {
            counter!(LIVEKIT_TOKENS, "role" => role.name(), "outcome" => outcome.label()).absolute(0);
        }
    }
    for outcome in CardWebhook::ALL {
        counter!(CARD_WEBHOOKS, "outcome" => outcome.label()).absolute(0);
    }
    for outcome in CryptoWebhook::ALL {
        counter!(CRYPTO_WEBHOOKS, "outcome" => outcome.label()).absolute(0);
    }
    for outcome in RegisterOutcome::ALL {
        counter!(MAC_NODES, "outcome" => outcome.label()).absolute(0);
    }
    for outcome in Failure::OUTCOMES {
        counter!(BUNDLED_REQUESTS, "outcome" => outcome).absolute(0);
    }
    for kind in TurnKind::NAMES {
        counter!(DECOMPOSED, "result_kind" => kind).absolute(0);
    }
    for (from, to) in lanes::transitions() {
        counter!(TRANSITIONS, "from" => from, "to" => to).absolute(0);
    }
    for kind in ["consent_missing", "budget_exhausted"] {
        counter!(BUNDLED_ERRORS, "kind" => kind).absolute(0);
    }
    for cause in ["memory", "disk", "page_process", "network_process", "host"] {
        counter!(BROWSER_DEATHS, "cause" => cause).absolute(0);
    }
    for carrier in WakeupTransport::ALL {
        counter!(WAKEUPS, "carrier" => carrier.name()).absolute(0);
    }
    for state in DeliveryStatus::COUNTED {
        counter!(DELIVERIES, "terminal_state" => state.name()).absolute(0);
    }
    for arm in ["profiles", "snapshots"].into_iter().chain(areas::arms().iter().map(|arm| arm.name)) {
        for outcome in PurgeOutcome::possible(arm) {
            counter!(PurgeOutcome::metric(arm), "arm" => arm, "outcome" => outcome.name()).absolute(0);
        }
    }
    for (prefix, actor) in [
        ("session", "customer"),
        ("session", "system"),
        ("profile", "customer"),
        ("account", "customer"),
        ("api_key", "customer"),
        ("api_key", "system"),
        ("subscription", "system"),
        ("team", "customer"),
        ("webhook_endpoint", "customer"),
        ("webhook_delivery", "customer"),
        ("admin", "staff"),
    ] {
        counter!(AUDIT, "prefix" => prefix, "actor_type" => actor).absolute(0);
    }
    for prefix in ["admin", "job", "worker"] {
        counter!(ADMIN_AUDIT, "prefix" => prefix).absolute(0);
    }
}

/// Describes gauges of the deployment's state, and durations.
fn describe_standing() {
    describe_gauge!(SESSIONS_LIVE, "Live sessions of the deployment, by status.");
    describe_gauge!(WORKERS, "Workers, by status. Lost and stopped workers count for one hour.");
    describe_gauge!(WORKER_SESSIONS, "Live sessions of this worker.");
    describe_gauge!(SECRET_AGE, "Age of the oldest secret in use in seconds, by kind of secret.");
    describe_gauge!(SLOTS, "Slots of workers that take sessions.");
    describe_gauge!(SLOTS_FREE, "Free slots of workers that take sessions.");
    describe_gauge!(QUEUE_DEPTH, "Jobs that are due and have not started, by type.");
    describe_gauge!(QUEUE_AGE, "Age of the oldest due job in seconds, by type.");
    describe_gauge!(POOL, "Database connections of this process's pool, by state.");
    describe_gauge!(BUILD, "Always 1. The labels hold the build of this process.");
    describe_gauge!(SANDBOXED, "1 when this worker's browsers are confined, 0 when they are not.");
    describe_gauge!(
        BROWSER_MEMORY,
        "Bytes of memory of this worker's browsers, idle ones included. Memory that processes share is counted once (PSS)."
    );
    describe_gauge!(DATABASE_UP, "1 when this process can read the database, 0 when it cannot.");
    describe_gauge!(
        REDIS_UP,
        "1 when Redis answers this process, 0 when it does not. Absent without a configured Redis."
    );
    describe_gauge!(CLOCK_SKEW, "Seconds by which the clock of this process is ahead of the database's.");
    describe_gauge!(DISK_FREE, "Free bytes on the disk of this worker's browsers.");
    describe_gauge!(
        DISK_FLOOR,
        "Free bytes below which this worker takes no sessions and ends the session that wrote most."
    );
    describe_gauge!(ENCRYPTION_KEY, "1 when this process's keys open the secrets in the database, 0 when they do not.");
    describe_counter!(BROWSER_DEATHS, "Browsers of sessions that ended by themselves, by cause.");
    describe_histogram!(REQUEST_TIME, "Duration of requests in seconds, by route template.");
    describe_histogram!(OPERATION_TIME, "Time in the browser per operation in seconds, by kind of operation.");
    describe_histogram!(ATTEMPT_TIME, "Duration of webhook delivery attempts in seconds.");
}

/// State of the deployment, from the database.
pub struct DeploymentState {
    pub sessions: [(SessionStatus, i64); 3],
    pub workers: [(&'static str, i64); 4],
    pub slots: Slots,
    pub backlogs: Vec<Backlog>,
    /// Ages in seconds, by kind.
    pub secrets: [(&'static str, f64); 2],
    /// Seconds that the clock of this process is ahead of the database's clock.
    pub clock_skew: f64,
}

pub fn note_standing(standing: &DeploymentState) {
    for (status, count) in &standing.sessions {
        gauge!(SESSIONS_LIVE, "status" => status.name()).set(number(*count));
    }
    for (status, count) in &standing.workers {
        gauge!(WORKERS, "status" => *status).set(number(*count));
    }
    gauge!(CLOCK_SKEW).set(standing.clock_skew);
    gauge!(SLOTS).set(number(standing.slots.all));
    gauge!(SLOTS_FREE).set(number(standing.slots.free));
    for (kind, seconds) in &standing.secrets {
        gauge!(SECRET_AGE, "kind" => *kind).set(*seconds);
    }
    for Backlog { job_type, depth, age } in &standing.backlogs {
        gauge!(QUEUE_DEPTH, "job_type" => *job_type).set(number(*depth));
        gauge!(QUEUE_AGE, "job_type" => *job_type).set(age.as_secs_f64());
    }
}

/// Records whether the database was readable and, if configured, whether Redis answered.
pub fn note_reachable(database: bool, redis: Option<bool>) {
    gauge!(DATABASE_UP).set(u8::from(database));
    if let Some(redis) = redis {
        gauge!(REDIS_UP).set(u8::from(redis));
    }
}

/// Removes the gauges that are read from the database from a scrape.
pub fn without_the_databases(scrape: &str) -> String {
    let is_of_the_database = |line: &str| {
        let name = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        OF_THE_DATABASE.contains(&name.split(['{', ' ']).next().unwrap_or_default())
    };
    scrape.split_inclusive('\n').filter(|line| !is_of_the_database(line)).collect()
}

/// Records the state of this process's pool.
pub fn note_pool(idle: usize, all: u32) {
    let idle = u32::try_from(idle).unwrap_or(all).min(all);
    gauge!(POOL, "state" => "idle").set(idle);
    gauge!(POOL, "state" => "in_use").set(all - idle);
}

/// Records the result of the encryption key check.
pub fn note_encryption_key(status: KeyStatus) {
    gauge!(ENCRYPTION_KEY).set(u8::from(status.is_usable()));
}

/// Converts a count for a gauge.
fn number(count: i64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

/// Records whether this scheduled job has its next tick in the queue.
pub fn note_chain(chain: &'static str, pending: bool) {
    gauge!(CHAINS, "job_type" => chain).set(if pending { 1.0 } else { 0.0 });
}
