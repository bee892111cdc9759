//! The operators' commands. Each uses one transaction unless that would block others.

mod draining;
mod requeueing;
mod resealing;
mod sessions;
mod traces;

use std::io::{BufRead as _, stdin};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kitfleet_domain::accounts::{AccountStatus, LimitChange, LimitChanges};
use kitfleet_domain::api_keys::{self, ApiKey, NewKey, Scopes};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::passwords::NewPassword;
use kitfleet_domain::staff::{self, StaffCredential};
use kitfleet_domain::usage::{self, AccountUsage};
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::{accounts, sign_ups, workers};
use kitfleet_jobs::backend::async_commit_pool;
use kitfleet_jobs::inspect::{self, RetryOutcome};
use kitfleet_jobs::refused::Refused;
use kitfleet_payments::CryptoProcessor;
use kitfleet_profiles::{Rotated, Stores};
use kitfleet_recording::Recordings;
use kitfleet_types::ids::{AccountId, DeliveryId, IntentId};
use kitfleet_types::limits::Limits;
use kitfleet_worker::crypto_orders::{self, SweepCounts};
use kitfleet_worker::maintenance::{self, Purged, ReminderCounts};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::cli::{
    Account, AccountLimits, AnyKey, Deliveries, Jobs, Key, NewAccount, Profiles, Sessions, Sweep, Workers,
};
use crate::config::Config;
use crate::database::Database;
use crate::output::Format;
use crate::owner;

const MAX_KEYS: i64 = 10_000;

pub enum Order {
    Account(Account),
    Key(Key),
    Sessions(Sessions),
    Workers(Workers),
    Jobs(Jobs),
    Deliveries(Deliveries),
    Profiles(Profiles),
    Sweep(Sweep),
}

pub async fn run(config: &Config, order: Order) -> Result<()> {
    let database = Database::reach(config).await?;
    let done = run_on(config, &database, order).await;
    database.close().await;
    done
}

async fn run_on(config: &Config, database: &Database, order: Order) -> Result<()> {
    let mut conn = database.connect().await?;
    match order {
        Order::Account(order) => account(config, &mut conn, order).await?,
        Order::Key(order) => key(config, &mut conn, order).await?,
        Order::Workers(Workers::List { all, format }) => {
            let columns = [
                "id",
                "name",
                "status",
                "driver",
                "live_sessions",
                "max_sessions",
                "free_disk_bytes",
                "free_memory_bytes",
                "version",
                "is_sandboxed",
                "started_at",
                "last_seen_at",
            ];
            format.table(&workers::list(&mut conn, all).await?, &columns)?;
        }
        Order::Workers(Workers::Undrain { worker, format }) => {
            let id = draining::worker_called(&mut conn, &worker).await?;
            let returned = kitfleet_jobs::workers::undrain(&mut conn, id).await;
            let returned = returned.map_err(|refused| refusal(refused, &format!("worker {id}")))?;
            format.print(&returned, |worker| format!("{} receives sessions again", worker.id))?;
        }
        Order::Sessions(Sessions::Trace { session, out, format }) => {
            traces::write(config, &database.pool(config).await?, session, &out, format).await?;
        }
        Order::Sessions(order) => sessions::run(config, &mut conn, order).await?,
        Order::Workers(Workers::Drain(order)) => draining::drain(config, database, &mut conn, &order).await?,
        Order::Jobs(order) => job(&mut conn, order).await?,
        Order::Deliveries(order) => delivery(&mut conn, order).await?,
        Order::Profiles(Profiles::RotateKeys(format)) => {
            let stores = Stores::new(database.pool(config).await?, config.stores()?).await?;
            let rotated = stores.rotate_keys().await?;
            format.print(&rotated, |Rotated { resealed, unreadable }| {
                format!("resealed the keys of {resealed} profiles; the keys of {unreadable} profiles cannot be opened")
            })?;
            ensure!(
                rotated.unreadable == 0,
                "no configured key opens the keys of some profiles; the log names these profiles"
            );
        }
        Order::Sweep(Sweep::FreeTier(format)) => {
            let swept = maintenance::sweep_old_sessions(&database.pool(config).await?, config.sessions.ages()).await?;
            format.print(&json!({"destroyed": swept}), |_| format!("destroyed {swept} sessions"))?;
        }
        Order::Sweep(Sweep::Retention(format)) => {
            let pool = database.pool(config).await?;
            let (stores, lazy) = (Stores::new(pool.clone(), config.stores()?).await?, async_commit_pool(&pool).await?);
            let (profiles, terms) = (config.retention.profiles(), config.retention.terms());
            let recordings = Recordings::new(lazy.clone(), config.recordings()?).await?;
            let purged = maintenance::sweep_retention(&pool, &lazy, (&stores, &recordings), profiles, &terms).await;
            format.print(&purged, |Purged { profiles, snapshots, stores, rows, .. }| {
                let purged = rows.iter().filter(|(_, rows)| **rows > 0).map(|(arm, rows)| format!(", {rows} of {arm}"));
                let purged: String = purged.collect();
                format!("purged {profiles} profiles and {snapshots} snapshots{purged}; removed {stores} stores")
            })?;
            ensure!(purged.failed == 0, "{} purges failed; the log has the causes", purged.failed);
        }
        Order::Sweep(Sweep::ByokKeys(format)) => {
            let age = config.agents.byok_reminder_after;
            let reminded = maintenance::remind_byok_keys(&database.pool(config).await?, age).await?;
            format.print(&json!({"reminded": reminded}), |_| format!("reminded {reminded} owners of old keys"))?;
        }
        Order::Sweep(Sweep::CryptoOrders(format)) => {
            let processor = CryptoProcessor::new(config.billing.crypto.config())?;
            let swept = crypto_orders::sweep(&database.pool(config).await?, &processor).await?;
            format.print(&swept, |SweepCounts { paid, failed, unanswered, lapsed }| {
                format!(
                    "{paid} orders paid, {failed} failed, {unanswered} without an answer of the processor; {lapsed} paid periods ended"
                )
            })?;
        }
        Order::Sweep(Sweep::Idempotency(format)) => {
            let pool = database.pool(config).await?;
            let forgotten = maintenance::sweep_idempotency(&pool).await?;
            format.print(&json!({"forgotten": forgotten}), |_| format!("deleted {forgotten} idempotency keys"))?;
        }
        Order::Sweep(Sweep::PairHeartbeats(format)) => {
            let patience = config.agents.heartbeat_timeout;
            let swept = maintenance::sweep_pair_heartbeats(&database.pool(config).await?, patience).await?;
            format.print(&json!({"timed_out": swept}), |_| format!("returned {swept} agent sessions to the AI"))?;
        }
        Order::Sweep(Sweep::WebhookSecrets(format)) => {
            let age = config.webhooks.secret_reminder_after;
            let reminded = maintenance::remind_webhook_secrets(&database.pool(config).await?, age).await?;
            format.print(&reminded, |ReminderCounts { old_secrets, ending_graces }| {
                format!("reminded {old_secrets} owners of old secrets and {ending_graces} owners of secrets that stop signing soon")
            })?;
        }
    }
    // The command has succeeded even when the connection has broken since.
    if let Err(error) = conn.close().await {
        tracing::debug!(%error, "database connection was already closed");
    }
    Ok(())
}

async fn account(config: &Config, conn: &mut PgConnection, order: Account) -> Result<()> {
    let limits = &config.limits;
    match order {
        Account::Create(new) => create_account(conn, new, limits).await,
        Account::SetTier { account, tier, format } => {
            let before = kitfleet_jobs::accounts::set_tier(conn, account, tier).await?;
            let before = before.with_context(|| format!("there is no account {account}"))?;
            format
                .print(&json!({"id": account, "from": before, "to": tier}), |_| format!("{account}: {before} → {tier}"))
        }
        Account::Suspend { account, format } => {
            let reclaimed = kitfleet_jobs::accounts::suspend(conn, account).await?;
            let reclaimed = reclaimed.with_context(|| format!("there is no account {account}"))?;
            format.print(&json!({"id": account, "status": AccountStatus::Suspended, "reclaimed": reclaimed}), |_| {
                format!("{account} is suspended; ended {reclaimed} live sessions")
            })
        }
        Account::Reactivate { account, format } => {
            let known = kitfleet_jobs::accounts::reactivate(conn, account).await?;
            ensure!(known, "there is no account {account}");
            format.print(&json!({"id": account, "status": AccountStatus::Active}), |_| format!("{account} is active"))
        }
        Account::Show { account, format } => {
            let found = accounts::find(conn, account).await?;
            format.describe(&found.with_context(|| format!("there is no account {account}"))?)
        }
        Account::List { tier, status, limit, format } => {
            let filter = accounts::Filter { email: None, tier, status, before: None, limit };
            let columns = ["id", "email", "name", "status", "tier", "created_at"];
            format.table(&accounts::list(conn, &filter).await?, &columns)
        }
        Account::Usage { account, top, days, format } => {
            let used = usage::by_account(conn, days, account, top).await?;
            if let Some(account) = account {
                ensure!(!used.is_empty(), "there is no account {account}");
            }
            let rows: Vec<_> = used.iter().map(usage_row).collect();
            format.table_of(&used, &rows, &USAGE_COLUMNS)
        }
        Account::Limits(order) => account_limits(conn, order, limits).await,
        Account::SignInLink { reset_password, format } => {
            let base_url = config.server.base_url_at(config.server.listen);
            let link = if reset_password {
                owner::password_link(conn, &base_url).await?
            } else {
                owner::sign_in_link(conn, &base_url).await?
            };
            let link = link.context("there is no active local owner: the oldest account is not owner@localhost")?;
            format.print(&json!({"link": link}), |_| link)
        }
    }
}

const USAGE_COLUMNS: [&str; 10] = [
    "account_id",
    "email",
    "tier",
    "live_sessions",
    "session_minute",
    "navigate",
    "interact",
    "wait",
    "state_capture",
    "screenshot_capture",
];

fn usage_row(used: &AccountUsage) -> Value {
    let mut row = json!(used.totals);
    row["account_id"] = json!(used.account_id);
    row["email"] = json!(used.email);
    row["tier"] = json!(used.tier);
    row["live_sessions"] = json!(used.live_sessions);
    row
}

async fn account_limits(conn: &mut PgConnection, order: AccountLimits, limits: &Limits) -> Result<()> {
    let AccountLimits { account, concurrent_sessions, profiles, clear, format } = order;
    let change = |limit: Option<u32>| limit.map_or(LimitChange::Unchanged, LimitChange::Own);
    let changes = if clear {
        LimitChanges::CLEARED
    } else {
        LimitChanges { concurrent_sessions: change(concurrent_sessions), profiles: change(profiles) }
    };
    let mut tx = conn.begin().await?;
    if !changes.is_empty() {
        let known = accounts::change_limits(&mut tx, account, changes).await?;
        known.with_context(|| format!("there is no account {account}"))?;
    }
    let found = accounts::find(&mut tx, account).await?.with_context(|| format!("there is no account {account}"))?;
    tx.commit().await?;
    let own = found.own_limits();
    let (sessions, profiles) = (limits.sessions_of(found.tier, own), limits.profiles_of(found.tier, own));
    let shown = json!({
        "id": account,
        "tier": found.tier,
        "limits": {"concurrent_sessions": sessions, "profiles": profiles},
        "own_limits": own,
    });
    let source = |own: Option<u32>| if own.is_some() { "its own limit" } else { "the limit of its tier" };
    format.print(&shown, |_| {
        format!(
            "{account} is on {}\nconcurrent sessions  {sessions} ({})\nprofiles             {profiles} ({})",
            found.tier,
            source(own.concurrent_sessions),
            source(own.profiles),
        )
    })
}

/// The error names the object.
fn refusal(refused: Refused, what: &str) -> anyhow::Error {
    match refused {
        Refused::Unknown => anyhow!("there is no {what}"),
        Refused::Conflict(why) => anyhow!("{what}: {why}"),
        Refused::Database(error) => error.into(),
    }
}

async fn create_account(conn: &mut PgConnection, new: NewAccount, limits: &Limits) -> Result<()> {
    let password_hash =
        if new.password_stdin { Some(NewPassword::parse(&password()?, "password", limits)?.hash()) } else { None };
    let format = new.format;
    let account = accounts::NewAccount {
        email: new.email,
        name: new.name,
        password_hash,
        tier: new.tier,
        verified: new.verified,
        signup_network: None,
    };
    let id = sign_ups::create(conn, account).await?;
    format.print(&json!({"id": id}), |_| id.to_string())
}

fn password() -> Result<String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line).context("reading the password from standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    ensure!(!password.is_empty(), "standard input holds no password");
    Ok(password.to_owned())
}

async fn key(config: &Config, conn: &mut PgConnection, order: Key) -> Result<()> {
    match order {
        Key::Mint { account: Some(account), name, scopes, format, .. } => {
            mint_key(conn, account, &name, &scopes, format).await
        }
        Key::Mint { account: None, name, format, .. } => {
            let (StaffCredential { id, .. }, secret) = staff::mint(conn, &name).await?;
            format.print(&json!({"id": id, "key": secret.reveal()}), |_| secret.reveal().to_owned())
        }
        Key::List { account: Some(account), format, .. } => {
            let known = accounts::find(&mut *conn, account).await?;
            known.with_context(|| format!("there is no account {account}"))?;
            let keys = api_keys::list(conn, account, None, MAX_KEYS).await?;
            let columns =
                ["id", "name", "scopes", "key_prefix", "created_at", "last_used_at", "expires_at", "revoked_at"];
            format.table(&keys, &columns)
        }
        Key::List { account: None, format, .. } => {
            let columns = ["id", "name", "key_prefix", "created_at", "last_used_at", "revoked_at"];
            format.table(&staff::list(conn).await?, &columns)
        }
        Key::Revoke { key, format } => {
            let (id, known) = match key {
                AnyKey::Customer(id) => {
                    let mut tx = conn.begin().await?;
                    let known = api_keys::revoke_any(&mut tx, id, &Actor::System).await?;
                    tx.commit().await?;
                    (id.to_string(), known)
                }
                AnyKey::Staff(id) => (id.to_string(), staff::revoke(conn, id).await?),
            };
            ensure!(known, "there is no key {id}");
            format.print(&json!({"id": id, "status": "revoked"}), |_| format!("{id} is revoked"))
        }
        Key::RotateSealing { replace_probe, format } => resealing::rotate(config, conn, replace_probe, format).await,
    }
}

async fn mint_key(
    conn: &mut PgConnection,
    account: AccountId,
    name: &str,
    scopes: &[String],
    format: Format,
) -> Result<()> {
    let scopes = Scopes::parse(scopes)?;
    let mut tx = conn.begin().await?;
    // As over HTTP, a suspended account gets no key.
    let known = accounts::find(&mut tx, account).await?;
    let suspended = known.is_some_and(|known| known.status == AccountStatus::Suspended);
    ensure!(!suspended, "{account} is suspended: reactivate it to create a key");
    let new = NewKey::customer(name, &scopes);
    let (ApiKey { id, .. }, secret) = api_keys::mint(&mut tx, account, &Actor::System, new).await?;
    tx.commit().await?;
    format.print(&json!({"id": id, "key": secret.reveal()}), |_| secret.reveal().to_owned())
}

async fn job(conn: &mut PgConnection, order: Jobs) -> Result<()> {
    match order {
        Jobs::List { queue, status, limit, format } => {
            let jobs = inspect::list(conn, &inspect::Filter { queue, status, before: None, limit }).await?;
            format.table(&jobs, &["id", "queue", "status", "attempts", "run_at", "done_at", "body"])
        }
        Jobs::Show { job, format } => {
            let found = inspect::show(conn, &job).await?;
            format.describe(&found.with_context(|| format!("there is no job {job}"))?)
        }
        Jobs::Retry { job, format } => {
            match inspect::retry(conn, &job).await? {
                RetryOutcome::Yes => {}
                RetryOutcome::NoSuchJob => {
                    bail!("{job} is not a failed job that can be retried: turns and proxy checks run once")
                }
                RetryOutcome::RunsOnce => bail!("{job} is an operation, and an operation never runs twice"),
                RetryOutcome::Cancelled => bail!("{job} was cancelled and cannot be retried"),
                RetryOutcome::MailEnded => bail!("{job} cannot be retried: its mail was sent or abandoned"),
                RetryOutcome::DeliveryStays(refused) => bail!(refused),
            }
            format.print(&json!({"id": job, "status": "pending"}), |_| format!("{job} is queued again"))
        }
        Jobs::Cancel { job, format } => {
            ensure!(
                job.parse::<DeliveryId>().is_err(),
                "{job} is a webhook delivery and cannot be cancelled: the account owner can pause or delete its endpoint"
            );
            ensure!(
                job.parse::<IntentId>().is_err(),
                "{job} is an operation and cannot be cancelled: the account owner can destroy its session"
            );
            ensure!(inspect::cancel(conn, &job).await?, "{job} is not a pending job that can be cancelled");
            format.print(&json!({"id": job, "status": "killed"}), |_| format!("{job} is cancelled"))
        }
        Jobs::Stats(format) => {
            let columns = ["queue", "pending", "running", "done", "failed", "killed", "oldest_pending_seconds"];
            format.table(&inspect::stats(conn).await?, &columns)
        }
    }
}

async fn delivery(conn: &mut PgConnection, order: Deliveries) -> Result<()> {
    match order {
        Deliveries::List { status, endpoint, account, limit, format } => {
            let (error, since, before) = (None, None, None);
            let wanted = dead_letters::Filter { status, endpoint, account, error, since, before, limit };
            let rows = dead_letters::list(conn, &wanted).await?;
            let columns = [
                "id",
                "account_id",
                "endpoint_id",
                "event_type",
                "status",
                "attempts",
                "last_response_status",
                "last_error",
                "created_at",
            ];
            format.table(&rows, &columns)
        }
        Deliveries::Requeue { endpoint: Some(endpoint), format, .. } => {
            requeueing::requeue_all(conn, endpoint, format).await
        }
        Deliveries::Requeue { deliveries, endpoint: None, format } => {
            let mut tx = conn.begin().await?;
            let requeued = dead_letters::requeue(&mut tx, &deliveries).await?;
            tx.commit().await?;
            format.print(&json!({"requeued": requeued}), |_| format!("requeued {} deliveries", requeued.len()))
        }
    }
}
