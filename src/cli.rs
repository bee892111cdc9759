//! The command line (contract: command-line).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use kitfleet_domain::accounts::AccountStatus;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::sessions::SessionStatus;
use kitfleet_domain::webhooks::deliveries::DeliveryStatus;
use kitfleet_domain::workers::LONGEST_DRAIN;
use kitfleet_jobs::inspect;
use kitfleet_types::ids::{
    AccountId, ApiKeyId, DeliveryId, ProfileId, SessionId, StaffCredentialId, WebhookId, WorkerId,
};
use kitfleet_types::limits::{MAX_OWN_PROFILES, MAX_OWN_SESSIONS};
use kitfleet_types::tiers::Tier;

use crate::config::parse_duration;
use crate::output::Format;

/// Self-hosted mobile browser sessions on real WebKit, over plain HTTP.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Configuration: kitfleet.toml, then environment variables; a key `a.b` is KITFLEET_A__B. \
                  `kitfleet config` prints the values in effect.\nExit codes: 0 success, 1 failure, 2 wrong usage."
)]
pub struct Cli {
    /// Read this configuration file instead of ./kitfleet.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: CliCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run everything in one process: database, migrations, API and a worker.
    Up,
    /// Run only the HTTP interface, on a shared database.
    Api,
    /// Run only a worker, on a shared database.
    Worker,
    /// Upgrade the database schema to this version.
    Migrate(Format),
    /// Print the configuration in effect, with secrets masked.
    Config(Format),
    /// Print the OpenAPI document of the HTTP interface.
    Openapi(Format),
    /// Check the requirements of Kitfleet, and print a remedy for each problem.
    Doctor(Format),
    /// Manage accounts.
    #[command(subcommand)]
    Account(Account),
    /// Manage API keys and staff credentials, and reseal secrets.
    #[command(subcommand)]
    Key(Key),
    /// List, show and destroy sessions of all accounts.
    #[command(subcommand)]
    Sessions(Sessions),
    /// List workers, take a worker out of service, and return it.
    #[command(subcommand)]
    Workers(Workers),
    /// Inspect, retry and cancel jobs.
    #[command(subcommand)]
    Jobs(Jobs),
    /// List webhook deliveries, and requeue dead letters.
    #[command(subcommand)]
    Deliveries(Deliveries),
    /// Maintain stored profiles.
    #[command(subcommand)]
    Profiles(Profiles),
    /// Run a scheduled sweep now.
    #[command(subcommand)]
    Sweep(Sweep),
}

/// `kitfleet account`
#[derive(Debug, Subcommand)]
pub enum Account {
    /// Create an account and print its id.
    Create(NewAccount),
    /// Move an account to another tier; live sessions stay.
    SetTier {
        /// The account, acc_….
        account: AccountId,
        /// The tier, such as `free`, `api_builder` or `enterprise`.
        tier: Tier,
        #[command(flatten)]
        format: Format,
    },
    /// Suspend an account and end its live sessions.
    Suspend {
        /// The account, acc_….
        account: AccountId,
        #[command(flatten)]
        format: Format,
    },
    /// Reactivate a suspended account.
    Reactivate {
        /// The account, acc_….
        account: AccountId,
        #[command(flatten)]
        format: Format,
    },
    /// Show an account.
    Show {
        /// The account, acc_….
        account: AccountId,
        #[command(flatten)]
        format: Format,
    },
    /// List accounts, the newest first.
    List {
        /// Only accounts on this tier.
        #[arg(long)]
        tier: Option<Tier>,
        /// Only accounts with this status: active, suspended or deleted.
        #[arg(long, value_parser = account_status)]
        status: Option<AccountStatus>,
        /// Maximum number of accounts.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Print a link that signs in the local owner, whom `kitfleet up` creates. It works once, within an hour.
    SignInLink {
        /// The link also asks for a new password.
        #[arg(long)]
        reset_password: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Show the usage of an account, or of the accounts with the most usage.
    Usage {
        /// The account, acc_…; without it the accounts with the most usage.
        account: Option<AccountId>,
        /// Maximum number of accounts.
        #[arg(long, default_value_t = 10, conflicts_with = "account", value_parser = clap::value_parser!(i64).range(1..=10_000))]
        top: i64,
        /// Number of UTC days, today included.
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=400))]
        days: u32,
        #[command(flatten)]
        format: Format,
    },
    /// Show the limits of an account, or set its own in place of those of its tier.
    Limits(AccountLimits),
}

/// `kitfleet account limits`
#[derive(Debug, Args)]
pub struct AccountLimits {
    /// The account, acc_….
    pub account: AccountId,
    /// Maximum number of live sessions at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_OWN_SESSIONS)))]
    pub concurrent_sessions: Option<u32>,
    /// Maximum number of profiles.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_OWN_PROFILES)))]
    pub profiles: Option<u32>,
    /// Remove the account's own limits, so that those of its tier apply.
    #[arg(long, conflicts_with_all = ["concurrent_sessions", "profiles"])]
    pub clear: bool,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet account create`
#[derive(Debug, Args)]
pub struct NewAccount {
    /// E-mail address of the account.
    #[arg(long)]
    pub email: String,
    /// Name of the account owner.
    #[arg(long)]
    pub name: String,
    /// Read the password from the first line of standard input. Without this option the account has no password to log in with.
    #[arg(long)]
    pub password_stdin: bool,
    /// Tier of the account.
    #[arg(long, default_value = "free")]
    pub tier: Tier,
    /// Mark the e-mail address as verified.
    #[arg(long)]
    pub verified: bool,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet key`
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create an API key or a staff credential, and print its secret, which is not shown again.
    Mint {
        /// The account that the key acts for, acc_….
        #[arg(required_unless_present = "staff", conflicts_with = "staff")]
        account: Option<AccountId>,
        /// Create a staff credential, which belongs to no account.
        #[arg(long)]
        staff: bool,
        /// Name of the key.
        #[arg(long)]
        name: String,
        /// Scopes of the key, separated by commas, such as `read,write` or `account_owner`.
        #[arg(long, required_unless_present = "staff", conflicts_with = "staff", value_delimiter = ',', value_parser = scope)]
        scopes: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
    /// List an account's API keys, or the staff credentials, the newest first.
    List {
        /// The account, acc_….
        #[arg(required_unless_present = "staff", conflicts_with = "staff")]
        account: Option<AccountId>,
        /// List the staff credentials.
        #[arg(long)]
        staff: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Revoke an API key, `key_…`, or a staff credential, `stf_…`, permanently.
    Revoke {
        /// The key.
        #[arg(value_parser = any_key)]
        key: AnyKey,
        #[command(flatten)]
        format: Format,
    },
    /// Reseal every secret in the database with the current `mfa.encryption_key`, so that retired keys can be removed.
    RotateSealing {
        /// Accept the configured key although it does not open the existing secrets. Use it when the previous key is lost.
        #[arg(long)]
        replace_probe: bool,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet sessions`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List the live sessions, the newest first.
    List(SessionList),
    /// Show a session: the cause of its waiting, its operation, worker, profile, agent session and challenge.
    Show {
        /// The session, ses_….
        session: SessionId,
        #[command(flatten)]
        format: Format,
    },
    /// Write the trace of a recorded session to a file. Requires `staff.may_watch`, and the customer sees it in the audit log.
    Trace {
        /// The session, ses_….
        session: SessionId,
        /// File to write. It must not exist yet.
        #[arg(long)]
        out: PathBuf,
        #[command(flatten)]
        format: Format,
    },
    /// Destroy a session, as its owner can. Its slot and profile become free, even when its worker has died.
    Destroy {
        /// The session, ses_….
        session: SessionId,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet sessions list`
#[derive(Debug, Args)]
pub struct SessionList {
    /// Include sessions that have ended.
    #[arg(long)]
    pub all: bool,
    /// Only sessions with this status: creating, ready, busy, destroyed or errored.
    #[arg(long, value_parser = session_status)]
    pub status: Option<SessionStatus>,
    /// Only sessions of this account, acc_….
    #[arg(long)]
    pub account: Option<AccountId>,
    /// Only sessions on this worker, wrk_….
    #[arg(long)]
    pub worker: Option<WorkerId>,
    /// Only sessions that began with this profile, prof_….
    #[arg(long)]
    pub profile: Option<ProfileId>,
    /// Maximum number of sessions.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub limit: i64,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet workers`
#[derive(Debug, Subcommand)]
pub enum Workers {
    /// List the live workers, with their numbers of sessions.
    List {
        /// Include stopped and lost workers.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Place no more sessions on a worker. Its live sessions continue until they end or the deadline passes.
    Drain(Drain),
    /// Return a draining worker to service. A worker that received a stop signal cannot be returned.
    Undrain {
        /// The worker's id or name.
        #[arg(value_parser = worker)]
        worker: String,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet workers drain`
#[derive(Debug, Args)]
pub struct Drain {
    /// The worker's id or name.
    #[arg(value_parser = worker, required_unless_present = "this", conflicts_with = "this")]
    pub worker: Option<String>,
    /// Drain the worker that runs on this `data_dir`.
    #[arg(long = "self")]
    pub this: bool,
    /// Wait until the worker has no live session, and print the progress. This also works for a worker that is already draining.
    #[arg(long)]
    pub wait: bool,
    /// Time after which the remaining sessions are ended, such as 30m. With 0s they are ended at once.
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    pub deadline: Option<Duration>,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet jobs`
#[derive(Debug, Subcommand)]
pub enum Jobs {
    /// List jobs, the newest first. The queue `webhooks` holds webhook deliveries.
    List {
        /// Only jobs of this queue.
        #[arg(long)]
        queue: Option<String>,
        /// Only jobs with this status: pending, running, done, failed or killed.
        #[arg(long, ignore_case = true, value_parser = ["pending", "running", "done", "failed", "killed"])]
        status: Option<String>,
        /// Maximum number of jobs.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Show a job.
    Show {
        /// The job's id. The id of a webhook delivery is wdl_….
        #[arg(value_parser = job)]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Run a failed job again, or requeue a dead letter (wdl_…) with its attempts counted from zero. A browser operation never
    /// runs twice, and a cancelled mail is never sent.
    Retry {
        /// The job's id.
        #[arg(value_parser = job)]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Cancel a pending job. The job of a mail cannot be retried afterwards. To end a browser operation, destroy its session.
    /// To end a webhook delivery, pause or delete its endpoint.
    Cancel {
        /// The job's id.
        #[arg(value_parser = job)]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Count jobs by queue and status.
    Stats(Format),
}

/// `kitfleet deliveries`
#[derive(Debug, Subcommand)]
pub enum Deliveries {
    /// List the webhook deliveries of all accounts, the newest first.
    List {
        /// Only deliveries with this status: pending, `in_flight`, delivered, failed or dlq.
        #[arg(long, value_parser = delivery_status)]
        status: Option<DeliveryStatus>,
        /// Only deliveries to this endpoint, whk_….
        #[arg(long)]
        endpoint: Option<WebhookId>,
        /// Only deliveries of this account, acc_….
        #[arg(long)]
        account: Option<AccountId>,
        /// Maximum number of deliveries.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Requeue dead letters with their attempts counted from zero: all of the named ones, or none.
    Requeue {
        /// The deliveries, wdl_….
        #[arg(required_unless_present = "endpoint", conflicts_with = "endpoint")]
        deliveries: Vec<DeliveryId>,
        /// Requeue every dead letter of this endpoint, whk_….
        #[arg(long)]
        endpoint: Option<WebhookId>,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet profiles`
#[derive(Debug, Subcommand)]
pub enum Profiles {
    /// Reseal every profile's key with the current key of the deployment, so that retired keys can be removed.
    RotateKeys(Format),
}

/// `kitfleet sweep`
#[derive(Debug, Subcommand)]
pub enum Sweep {
    /// Destroy the free-tier sessions that have reached their maximum age.
    FreeTier(Format),
    /// Return agent sessions to the AI when the heartbeats of the human have stopped.
    PairHeartbeats(Format),
    /// Purge data past its retention: deleted profiles, ended sessions, and rows of every other table with a retention.
    Retention(Format),
    /// Mail the owners of webhook secrets that are old or stop signing soon.
    WebhookSecrets(Format),
    /// Mail the owners of old keys at model providers.
    ByokKeys(Format),
    /// Delete expired idempotency keys.
    Idempotency(Format),
    /// Settle old crypto orders by their status at the processor, and end paid periods that are over.
    CryptoOrders(Format),
}

/// Accepts an id or a name. A name must not begin like an id.
fn worker(id_or_name: &str) -> Result<String, String> {
    let looks_like_an_id = id_or_name.strip_prefix(WorkerId::PREFIX).is_some_and(|rest| rest.starts_with('_'));
    if id_or_name.is_empty() || looks_like_an_id && id_or_name.parse::<WorkerId>().is_err() {
        return Err("must be an id, wrk_…, or a name".to_owned());
    }
    Ok(id_or_name.to_owned())
}

fn deadline(text: &str) -> Result<Duration, String> {
    let deadline = parse_duration(text)?;
    if deadline <= LONGEST_DRAIN { Ok(deadline) } else { Err("must be at most 30d".to_owned()) }
}

#[derive(Debug, Clone, Copy)]
pub enum AnyKey {
    Customer(ApiKeyId),
    Staff(StaffCredentialId),
}

fn any_key(id: &str) -> Result<AnyKey, String> {
    let of_staff = |_| id.parse().map(AnyKey::Staff);
    id.parse().map(AnyKey::Customer).or_else(of_staff).map_err(|_| "must be the id of a key, key_… or stf_…".to_owned())
}

fn job(id: &str) -> Result<String, String> {
    let known = inspect::is_id(id).then(|| id.to_owned());
    known.ok_or_else(|| "must be the id of a job: 26 characters, int_… or wdl_…".to_owned())
}

fn account_status(name: &str) -> Result<AccountStatus, String> {
    AccountStatus::named(name).ok_or_else(|| format!("must be one of {}", AccountStatus::NAMES.join(", ")))
}

fn session_status(name: &str) -> Result<SessionStatus, String> {
    let known = SessionStatus::ALL.iter().copied().find(|status| status.name() == name);
    known.ok_or_else(|| "must be one of creating, ready, busy, destroyed, errored".to_owned())
}

fn delivery_status(name: &str) -> Result<DeliveryStatus, String> {
    let known = DeliveryStatus::ALL.iter().copied().find(|status| status.name() == name);
    known.ok_or_else(|| format!("must be one of {}", DeliveryStatus::NAMES.join(", ")))
}

fn scope(name: &str) -> Result<String, String> {
    name.parse::<Scope>()
        .map(|scope| scope.name().to_owned())
        .map_err(|problem| format!("{problem}; must be one of {}", Scope::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn mistyped_scope_is_a_usage_error() {
        let account = AccountId::generate().to_string();
        let mint =
            |scopes| Cli::try_parse_from(["kitfleet", "key", "mint", &account, "--name", "n", "--scopes", scopes]);
        assert!(mint("read,write:sessions").is_ok());
        assert!(mint("read,wriet").is_err());
        assert!(mint("").is_err());
    }
}
