//! The command line (contract: command-line).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use kitfleet_domain::accounts::{AccountStatus, Tier};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::ids::{
    AccountId, ApiKeyId, DeliveryId, ProfileId, SessionId, StaffCredentialId, WebhookId, WorkerId,
};
use kitfleet_domain::limits::{MOST_OWN_PROFILES, MOST_OWN_SESSIONS};
use kitfleet_domain::sessions::SessionStatus;
use kitfleet_domain::webhooks::deliveries::DeliveryStatus;
use kitfleet_domain::workers::LONGEST_DRAIN;
use kitfleet_jobs::inspect;

use crate::config::parse_duration;
use crate::output::Format;

/// Self-hosted mobile browser sessions on real WebKit, over plain HTTP.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Configuration: kitfleet.toml, then environment variables; a key `a.b` is KITFLEET_A__B. \
                  `kitfleet config` prints what is in effect.\nExit codes: 0 done, 1 failed, 2 usage."
)]
pub struct Cli {
    /// Read this configuration file instead of ./kitfleet.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything in one process: database, migrations, API and a worker.
    Up,
    /// Run the HTTP interface only, on a shared database.
    Api,
    /// Run a worker only, on a shared database.
    Worker,
    /// Bring the database's schema up to date.
    Migrate(Format),
    /// Print the configuration in effect, with secrets masked.
    Config(Format),
    /// Print the HTTP interface's OpenAPI document.
    Openapi(Format),
    /// Check what Kitfleet needs, and say how to mend what is missing.
    Doctor(Format),
    /// Manage accounts.
    #[command(subcommand)]
    Account(Account),
    /// Manage API keys, and the key that secrets are sealed with.
    #[command(subcommand)]
    Key(Key),
    /// See sessions of all accounts, and end one.
    #[command(subcommand)]
    Sessions(Sessions),
    /// See who is alive, take a worker out of service, and return it.
    #[command(subcommand)]
    Workers(Workers),
    /// Look into the job tables.
    #[command(subcommand)]
    Jobs(Jobs),
    /// See webhook deliveries, and send dead letters once more.
    #[command(subcommand)]
    Deliveries(Deliveries),
    /// Look after what profiles hold.
    #[command(subcommand)]
    Profiles(Profiles),
    /// Run a sweep now instead of at its time.
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
    /// Stop an account from acting, and end its live sessions.
    Suspend {
        /// The account, acc_….
        account: AccountId,
        #[command(flatten)]
        format: Format,
    },
    /// Let a suspended account act again.
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
    /// Show the limits of an account, or replace those of its tier.
    Limits(AccountLimits),
}

/// `kitfleet account limits`
#[derive(Debug, Args)]
pub struct AccountLimits {
    /// The account, acc_….
    pub account: AccountId,
    /// Live sessions at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_OWN_SESSIONS)))]
    pub concurrent_sessions: Option<u32>,
    /// Profiles.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_OWN_PROFILES)))]
    pub profiles: Option<u32>,
    /// Return every limit to that of the tier.
    #[arg(long, conflicts_with_all = ["concurrent_sessions", "profiles"])]
    pub clear: bool,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet account create`
#[derive(Debug, Args)]
pub struct NewAccount {
    /// Where the account's mail goes.
    #[arg(long)]
    pub email: String,
    /// What its owner is called.
    #[arg(long)]
    pub name: String,
    /// Read the password from the first line of standard input; without one nobody can log in.
    #[arg(long)]
    pub password_stdin: bool,
    /// What it pays for.
    #[arg(long, default_value = "free")]
    pub tier: Tier,
    /// Count the e-mail address as proven.
    #[arg(long)]
    pub verified: bool,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet key`
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Mint an API key, or a credential of staff, and print it, this once.
    Mint {
        /// The account that the key acts for, acc_….
        #[arg(required_unless_present = "staff", conflicts_with = "staff")]
        account: Option<AccountId>,
        /// A credential of staff, which acts for no account.
        #[arg(long)]
        staff: bool,
        /// What the key is for.
        #[arg(long)]
        name: String,
        /// What the key may do, separated by commas, such as `read,write` or `account_owner`.
        #[arg(long, required_unless_present = "staff", conflicts_with = "staff", value_delimiter = ',', value_parser = scope)]
        scopes: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
    /// List an account's API keys, or the credentials of staff, the newest first.
    List {
        /// The account, acc_….
        #[arg(required_unless_present = "staff", conflicts_with = "staff")]
        account: Option<AccountId>,
        /// The credentials of staff.
        #[arg(long)]
        staff: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Revoke an API key, `key_…`, or a credential of staff, `stf_…`, for good.
    Revoke {
        /// The key.
        #[arg(value_parser = any_key)]
        key: AnyKey,
        #[command(flatten)]
        format: Format,
    },
    /// Seal every secret in the database with the present `mfa.encryption_key`, so that retired keys can be removed.
    RotateSealing {
        /// Make the configured key the deployment's although it does not open the secrets that are there: for a key that is lost.
        #[arg(long)]
        replace_probe: bool,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet sessions`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List the sessions that live, the newest first.
    List(SessionList),
    /// Show a session: what it waits for, its operation, worker, profile and agent session.
    Show {
        /// The session, ses_….
        session: SessionId,
        #[command(flatten)]
        format: Format,
    },
    /// End a session, as its owner can. Its slot and its profile are free then, also when its worker has died.
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
    /// Only sessions of this status: creating, ready, busy, destroyed or errored.
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
    /// List the workers that live, with their sessions.
    List {
        /// Those that stopped or were lost, too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Give a worker no more sessions; those it has live on, until they end or the deadline.
    Drain(Drain),
    /// Give a draining worker sessions again. One that was told to stop does not return.
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
    /// The worker that runs on this `data_dir`, instead of a named one.
    #[arg(long = "self")]
    pub this: bool,
    /// Wait until no session lives on it, and say how far it has come. A worker that drains already is waited for, too.
    #[arg(long)]
    pub wait: bool,
    /// End what still lives on it after so long, such as 30m; 0s ends it at once.
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    pub deadline: Option<Duration>,
    #[command(flatten)]
    pub format: Format,
}

/// `kitfleet jobs`
#[derive(Debug, Subcommand)]
pub enum Jobs {
    /// List jobs, the newest first. Webhook deliveries are those of the queue `webhooks`.
    List {
        /// Only of this queue.
        #[arg(long)]
        queue: Option<String>,
        /// Only with this status: pending, running, done, failed or killed.
        #[arg(long, ignore_case = true, value_parser = ["pending", "running", "done", "failed", "killed"])]
        status: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Show a job.
    Show {
        /// The job's id; a webhook delivery's is wdl_….
        #[arg(value_parser = job)]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Let a job that failed run once more, or send a dead letter (wdl_…) once more, with its attempts counted anew. A browser's
    /// operation never runs twice, and no mail is sent that was cancelled.
    Retry {
        /// The job's id.
        #[arg(value_parser = job)]
        job: String,
        #[command(flatten)]
        format: Format,
    },
    /// Keep a job that waits from running, for good if it sends a mail. A browser's operation ends with its session instead,
    /// and a webhook delivery with its endpoint.
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
        /// Only with this status: pending, `in_flight`, delivered, failed or dlq.
        #[arg(long, value_parser = delivery_status)]
        status: Option<DeliveryStatus>,
        /// Only to this endpoint, whk_….
        #[arg(long)]
        endpoint: Option<WebhookId>,
        /// Only of this account, acc_….
        #[arg(long)]
        account: Option<AccountId>,
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        #[command(flatten)]
        format: Format,
    },
    /// Send dead letters once more, with their attempts counted anew: all that are named, or none.
    Requeue {
        /// The deliveries, wdl_….
        #[arg(required_unless_present = "endpoint", conflicts_with = "endpoint")]
        deliveries: Vec<DeliveryId>,
        /// All of this endpoint, whk_….
        #[arg(long)]
        endpoint: Option<WebhookId>,
        #[command(flatten)]
        format: Format,
    },
}

/// `kitfleet profiles`
#[derive(Debug, Subcommand)]
pub enum Profiles {
    /// Seal every profile's key with the present deployment's key, so that retired ones can be forgotten.
    RotateKeys(Format),
}

/// `kitfleet sweep`
#[derive(Debug, Subcommand)]
pub enum Sweep {
    /// Destroy the free-tier sessions that have reached their age.
    FreeTier(Format),
    /// Return agent sessions to the AI whose human was not heard of for long.
    PairHeartbeats(Format),
    /// Purge what was kept for its term: deleted profiles, ended sessions, and everything else that grows.
    Retention(Format),
    /// Mail the owners of webhook secrets that are old, or sign no more soon.
    WebhookSecrets(Format),
    /// Mail the owners of keys at model providers that were kept for long.
    ByokKeys(Format),
    /// Forget the idempotency keys that are good no more.
    Idempotency(Format),
    /// End the crypto orders that have waited for long, as the processor says, and the paid periods that are over.
    CryptoOrders(Format),
}

/// A worker may be called anything but what begins as an id and is none.
fn worker(id_or_name: &str) -> Result<String, String> {
    let looks_like_an_id = id_or_name.strip_prefix(WorkerId::PREFIX).is_some_and(|rest| rest.starts_with('_'));
    if id_or_name.is_empty() || looks_like_an_id && id_or_name.parse::<WorkerId>().is_err() {
        return Err("neither an id, wrk_…, nor a name".to_owned());
    }
    Ok(id_or_name.to_owned())
}

fn deadline(text: &str) -> Result<Duration, String> {
    let deadline = parse_duration(text)?;
    if deadline <= LONGEST_DRAIN { Ok(deadline) } else { Err("longer than 30d".to_owned()) }
}

/// What `kitfleet key revoke` can revoke.
#[derive(Debug, Clone, Copy)]
pub enum AnyKey {
    /// A customer's.
    Customer(ApiKeyId),
    /// A credential of staff.
    Staff(StaffCredentialId),
}

fn any_key(id: &str) -> Result<AnyKey, String> {
    let of_staff = |_| id.parse().map(AnyKey::Staff);
    id.parse().map(AnyKey::Customer).or_else(of_staff).map_err(|_| "no key's id: those are key_… or stf_…".to_owned())
}

fn job(id: &str) -> Result<String, String> {
    let known = inspect::is_id(id).then(|| id.to_owned());
    known.ok_or_else(|| "no job's id: those are 26 characters, int_… or wdl_…".to_owned())
}

fn account_status(name: &str) -> Result<AccountStatus, String> {
    AccountStatus::named(name).ok_or_else(|| format!("one of {}", AccountStatus::NAMES.join(", ")))
}

fn session_status(name: &str) -> Result<SessionStatus, String> {
    let known = SessionStatus::ALL.iter().copied().find(|status| status.name() == name);
    known.ok_or_else(|| "one of creating, ready, busy, destroyed, errored".to_owned())
}

fn delivery_status(name: &str) -> Result<DeliveryStatus, String> {
    let known = DeliveryStatus::ALL.iter().copied().find(|status| status.name() == name);
    known.ok_or_else(|| format!("one of {}", DeliveryStatus::NAMES.join(", ")))
}

fn scope(name: &str) -> Result<String, String> {
    name.parse::<Scope>()
        .map(|scope| scope.name().to_owned())
        .map_err(|problem| format!("{problem}; one of {}", Scope::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistyped_scope_is_a_usage_error() {
        let account = AccountId::generate().to_string();
        let mint =
            |scopes| Cli::try_parse_from(["kitfleet", "key", "mint", &account, "--name", "n", "--scopes", scopes]);
        assert!(mint("read,write:sessions").is_ok());
        assert!(mint("read,wriet").is_err());
        assert!(mint("").is_err());
    }
}
