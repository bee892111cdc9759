//! Scheduled jobs: sweeps and purges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::BoxDynError;
use futures_util::future::BoxFuture;
use kitfleet_domain::agents::{self, creates, lanes};
use kitfleet_domain::area::ScheduledJob;
use kitfleet_domain::areas::{self, PurgeGroup};
use kitfleet_domain::billing::{card, orders};
use kitfleet_domain::byok::{self, OldKey};
use kitfleet_domain::database::is_transient;
use kitfleet_domain::emails::{self, NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::metrics::Counter;
use kitfleet_domain::profiles::{self, ExpiredProfile, Retention};
use kitfleet_domain::recordings::PURGE_ARM;
use kitfleet_domain::retention::{self, PurgeOutcome, Terms};
use kitfleet_domain::samples;
use kitfleet_domain::sessions::{self, Destroyed, ExpiredSession, SessionAgeLimits, recovery};
use kitfleet_domain::status::{self, components, history};
use kitfleet_domain::webhooks::reminders::{self, EndingGrace, OldSecret};
use kitfleet_domain::webhooks::requeues::{Batch, BatchLimits};
use kitfleet_domain::webhooks::{self, deliveries, requeues};
use kitfleet_jobs::browser;
use kitfleet_jobs::emails::send as mail;
use kitfleet_jobs::inspect;
use kitfleet_jobs::maintenance::MaintenanceJob;
use kitfleet_jobs::status::send_notices;
use kitfleet_profiles::Stores;
use kitfleet_recording::Recordings;
use kitfleet_types::ids::ProfileId;
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::{Context, WorkerConfig, crypto_orders};

pub(crate) const ENTRUSTED_PURGES: Counter<2> = Counter::new(
    "service_retention_purge_total",
    "Purges of customer data by retention, by kind of data and outcome.",
    ["arm", "outcome"],
)
.starting_with(|| possible_purges(true));

pub(crate) const ROW_PURGES: Counter<2> = Counter::new(
    "service_rows_purge_total",
    "Rows deleted by retention and failed purges, by kind of data and outcome.",
    ["arm", "outcome"],
)
.starting_with(|| possible_purges(false));

fn possible_purges(is_entrusted: bool) -> Vec<[&'static str; 2]> {
    let arms = ["profiles", "snapshots"].into_iter().chain(areas::arms().into_iter().map(|arm| arm.name));
    arms.filter(|arm| retention::is_entrusted(arm) == is_entrusted)
        .flat_map(|arm| PurgeOutcome::possible(arm).iter().map(move |outcome| [arm, outcome.name()]))
        .collect()
}

const BATCH: i64 = 500;

/// Interval of checks whether endpoints have room for requeued deliveries, after so many checks in a row have found none.
const REQUEUE_WAIT: (u32, Duration) = (8, Duration::from_millis(200));

type Run = fn(Arc<Context>) -> BoxFuture<'static, sqlx::Result<()>>;

const SCHEDULED_JOBS: [(ScheduledJob, Run); 14] = [
    (sessions::SWEEP_FREE_TIER, |context| {
        Box::pin(async move { sweep_old_sessions(&context.db, context.config.session_ages).await.map(drop) })
    }),
    (sessions::PURGE_FINISHED, |context| {
        let WorkerConfig { result_retention: results, retention: Terms { jobs, .. }, .. } = context.config;
        Box::pin(async move { purge_finished(&context.async_commit_pool, results, jobs).await })
    }),
    (emails::SEND_DUE, |context| Box::pin(async move { send_due_emails(&context.db).await })),
    (webhooks::GIVE_UP, |context| Box::pin(async move { give_up_deliveries(&context.db).await })),
    // A batch that a crash of the database loses is requeued again: its deliveries are dead letters again, too.
    (webhooks::REQUEUE, |context| Box::pin(async move { requeue_dead_letters(&context.async_commit_pool).await })),
    (webhooks::REMIND_OF_SECRETS, |context| {
        let age = context.config.webhooks.secret_reminder_after;
        Box::pin(async move { remind_webhook_secrets(&context.db, age).await.map(drop) })
    }),
    (byok::REMIND_OF_KEYS, |context| {
        let age = context.config.byok_reminder_after;
        Box::pin(async move { remind_byok_keys(&context.db, age).await.map(drop) })
    }),
    (agents::SWEEP_PAIR_HEARTBEATS, |context| {
        let patience = context.config.agents.heartbeat_timeout;
        Box::pin(async move { sweep_pair_heartbeats(&context.db, patience).await.map(drop) })
    }),
    (agents::CLOSE_ENDED, |context| Box::pin(async move { close_agent_sessions(&context.db).await })),
    (orders::SWEEP, |context| {
        Box::pin(async move { crypto_orders::sweep(&context.db, &context.crypto).await.map(drop) })
    }),
    (status::SAMPLE, |context| Box::pin(async move { sample_status(&context.db).await })),
    (samples::SAMPLE, |context| Box::pin(async move { sample_service(&context.async_commit_pool).await })),
    (status::SEND_NOTICES, |context| {
        let interval = context.config.status.update_interval;
        Box::pin(async move { send_incident_notices(&context.db, interval).await })
    }),
    (profiles::SWEEP_RETENTION, |context| {
        Box::pin(async move {
            let WorkerConfig { profile_retention, retention, .. } = &context.config;
            let stored = (&context.stores, &context.recordings);
            sweep_retention(&context.db, &context.async_commit_pool, stored, *profile_retention, retention).await;
            Ok(())
        })
    }),
];

pub(crate) async fn handle(job: MaintenanceJob, context: Arc<Context>) -> Result<(), BoxDynError> {
    let known = SCHEDULED_JOBS.into_iter().find(|(declared, _)| declared.name == job.name());
    let (_, run) = known.ok_or_else(|| format!("no function runs the scheduled job {}", job.name()))?;
    Ok(run(context).await?)
}

/// Contract: sessions 20, 26. Each session is destroyed in its own transaction. Returns their number.
pub async fn sweep_old_sessions(db: &PgPool, ages: SessionAgeLimits) -> sqlx::Result<u64> {
    let (mut swept, mut after) = (0, None);
    loop {
        let old = sessions::over_age(&mut *db.acquire().await?, ages, after, BATCH).await?;
        let Some(last) = old.last() else { return Ok(swept) };
        after = Some(last.id);
        for session in old {
            match destroy(db, &session).await {
                Ok(Some(Destroyed::Now { .. })) => {
                    tracing::info!(account = %session.account, session = %session.id, "destroyed a session that reached its maximum age");
                    swept += 1;
                }
                Ok(_) => {}
                Err(error) if is_transient(&error) => return Err(error),
                // One failure must not keep the remaining sessions alive.
                Err(error) => {
                    tracing::error!(%error, session = %session.id, "cannot destroy a session that reached its maximum age");
                }
            }
        }
    }
}

async fn destroy(db: &PgPool, session: &ExpiredSession) -> sqlx::Result<Option<Destroyed>> {
    let mut tx = db.begin().await?;
    let destroyed = browser::destroy(&mut tx, session.account, session.id, &session.cause()).await?;
    tx.commit().await?;
    Ok(destroyed)
}

/// The human's client sent no heartbeat for `patience` (contract: agents 12). Returns the number of affected lanes.
pub async fn sweep_pair_heartbeats(db: &PgPool, patience: Duration) -> sqlx::Result<u64> {
    if !lanes::any_silent(&mut *db.acquire().await?, patience).await? {
        return Ok(0);
    }
    until_none(|| async {
        let mut tx = db.begin().await?;
        let timed_out = lanes::time_out(&mut tx, patience, BATCH).await?;
        tx.commit().await?;
        Ok(timed_out)
    })
    .await
}

async fn close_agent_sessions(db: &PgPool) -> sqlx::Result<()> {
    if !agents::any_ended(&mut *db.acquire().await?).await? {
        return Ok(());
    }
    let closed = until_none(|| async {
        let mut tx = db.begin().await?;
        let closed = agents::close_ended(&mut tx, BATCH).await?;
        tx.commit().await?;
        Ok(closed)
    })
    .await?;
    if closed > 0 {
        tracing::debug!(closed, "closed agent sessions whose driver session has ended");
    }
    Ok(())
}

async fn send_due_emails(db: &PgPool) -> sqlx::Result<()> {
    if !emails::any_due(&mut *db.acquire().await?).await? {
        return Ok(());
    }
    let mut tx = db.begin().await?;
    let due = kitfleet_jobs::emails::send_due(&mut tx, BATCH).await?;
    tx.commit().await?;
    if due > 0 {
        tracing::debug!(due, "enqueued due mails");
    }
    Ok(())
}

async fn give_up_deliveries(db: &PgPool) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    deliveries::put_back_paused(&mut conn).await?;
    let given_up = deliveries::give_up(&mut conn).await?;
    if given_up > 0 {
        tracing::info!(given_up, "marked webhook deliveries of disabled endpoints as failed");
    }
    Ok(())
}

/// Until the next tick is due, so that a stop does not wait for the end of a long requeue.
async fn requeue_dead_letters(db: &PgPool) -> sqlx::Result<()> {
    if !requeues::any_under_way(&mut *db.acquire().await?).await? {
        return Ok(());
    }
    let end = Instant::now() + Duration::from_secs(webhooks::REQUEUE.period.unsigned_abs().into());
    let mut waiting = 0;
    while Instant::now() < end {
        let mut tx = db.begin().await?;
        let batch = requeues::requeue_batch(&mut tx, None, BatchLimits::JOB).await?;
        tx.commit().await?;
        waiting = match batch {
            Some(Batch::Requeued) => 0,
            Some(Batch::Waiting) => waiting + 1,
            None => return Ok(()),
        };
        // A requeue that waits must not slow the others down, whose turn is next.
        let pause = match waiting {
            0 => requeues::PAUSE,
            _ if waiting < REQUEUE_WAIT.0 => requeues::PAUSE / 4,
            _ => REQUEUE_WAIT.1,
        };
        sleep(pause).await;
    }
    Ok(())
}

async fn sample_status(db: &PgPool) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    let measured = components::measure(&mut conn).await?;
    history::record(&mut conn, &measured).await
}

async fn sample_service(db: &PgPool) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    let values = kitfleet_jobs::samples::measure(&mut conn).await?;
    samples::record(&mut conn, &values).await
}

async fn send_incident_notices(db: &PgPool, update_interval: Duration) -> sqlx::Result<()> {
    // Each batch takes its own connection, so that many subscribers do not occupy one for long.
    while send_notices(&mut *db.acquire().await?, update_interval, BATCH).await? {}
    Ok(())
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct ReminderCounts {
    pub old_secrets: usize,
    /// Grace periods that are about to end.
    pub ending_graces: usize,
}

/// Contract: emails 8. Each secret causes each mail once.
pub async fn remind_webhook_secrets(db: &PgPool, age: Duration) -> sqlx::Result<ReminderCounts> {
    let mut reminded = ReminderCounts::default();
    loop {
        let mut tx = db.begin().await?;
        let old = reminders::take_old_secrets(&mut tx, age, BATCH).await?;
        for OldSecret { endpoint, account, age_seconds } in &old {
            let details = json!({"endpoint_id": endpoint, "age_seconds": age_seconds});
            let to = Recipient::Account(*account);
            mail(&mut tx, Template::WebhookSecretReminder, to, details, NOTICE_GOOD_FOR).await?;
        }
        let ending = reminders::take_ending_graces(&mut tx, BATCH).await?;
        for EndingGrace { endpoint, account, seconds_left } in &ending {
            let (to, details) = (Recipient::Account(*account), json!({"endpoint_id": endpoint}));
            let left = Duration::from_secs_f64(*seconds_left);
            mail(&mut tx, Template::WebhookSecretGraceExpiring, to, details, left).await?;
        }
        tx.commit().await?;
        reminded.old_secrets += old.len();
        reminded.ending_graces += ending.len();
        if old.is_empty() && ending.is_empty() {
            return Ok(reminded);
        }
    }
}

/// Contract: byok 8. One mail per key, with the number of mails as the result.
pub async fn remind_byok_keys(db: &PgPool, age: Duration) -> sqlx::Result<usize> {
    let mut reminded = 0;
    loop {
        let mut tx = db.begin().await?;
        let old = byok::take_old_keys(&mut tx, age, BATCH).await?;
        for OldKey { account, provider, age_seconds } in &old {
            let details = json!({"provider": provider.name(), "age_seconds": age_seconds});
            let to = Recipient::Account(*account);
            mail(&mut tx, Template::ByokKeyReminder, to, details, NOTICE_GOOD_FOR).await?;
        }
        tx.commit().await?;
        if old.is_empty() {
            return Ok(reminded);
        }
        reminded += old.len();
    }
}

#[derive(Debug, Default, Clone, Serialize)]
pub struct Purged {
    pub profiles: u64,
    pub snapshots: u64,
    /// Removed stores that had no references, for any reason.
    pub stores: u64,
    /// Of each [`PurgeGroup`].
    pub rows: BTreeMap<&'static str, u64>,
    /// Profiles, and groups that failed before their end.
    pub failed: u64,
}

/// Contract: retention 1.
///
/// - Profiles that have been in the recycle bin for long enough, with their snapshots, each in its own transaction.
/// - Stores without references, and recordings.
/// - The rows of every [`PurgeGroup`], through `async_commit_pool`
///   ([`async_commit_pool`](kitfleet_jobs::backend::async_commit_pool)). Transactions that wait for these rows then do
///   not wait   for the disk. Rows that return after a database crash are purged again.
///
/// A failure does not stop the rest, and the next sweep retries it.
pub async fn sweep_retention(
    db: &PgPool,
    async_commit_pool: &PgPool,
    (stores, recordings): (&Stores, &Recordings),
    profiles: Retention,
    terms: &Terms,
) -> Purged {
    let mut purged = Purged::default();
    if let Err(error) = purge_profiles(db, profiles, &mut purged).await {
        tracing::error!(%error, "cannot find profiles past their retention");
        count_purge("profiles", PurgeOutcome::Failed, 1);
        purged.failed += 1;
    }
    match remove_stores(stores).await {
        Ok(removed) => purged.stores = removed,
        Err(error) => {
            tracing::error!(%error, "cannot remove unused profile stores");
            purged.failed += 1;
        }
    }
    for arm in areas::arms() {
        let mut rows = 0;
        if arm.name == PURGE_ARM {
            match until_none(|| recordings.sweep(terms.recordings, BATCH)).await {
                Ok(removed) => rows = removed,
                Err(error) => {
                    tracing::error!(%error, "cannot remove recordings past their retention");
                    count_purge(arm.name, PurgeOutcome::Failed, 1);
                    purged.failed += 1;
                }
            }
        }
        if let Err(error) = purge_arm(async_commit_pool, &arm, terms, &mut rows).await {
            tracing::error!(%error, purge = arm.name, "cannot purge rows past their retention");
            count_purge(arm.name, PurgeOutcome::Failed, 1);
            purged.failed += 1;
        }
        count_purge(arm.name, PurgeOutcome::Purged, rows);
        purged.rows.insert(arm.name, rows);
    }
    purged
}

/// Each batch has its own connection, so that a long purge does not occupy one. `rows` includes the rows that were deleted
/// before an error.
async fn purge_arm(db: &PgPool, arm: &PurgeGroup, terms: &Terms, rows: &mut u64) -> sqlx::Result<()> {
    loop {
        let before = *rows;
        for part in arm.purges() {
            *rows += (part.purge)(&mut *db.acquire().await?, terms, BATCH).await?;
        }
        if *rows == before {
            break;
        }
    }
    for left in arm.purges().iter().filter_map(|part| part.left) {
        count_purge(arm.name, PurgeOutcome::Skipped, left(&mut *db.acquire().await?, terms).await?);
    }
    Ok(())
}

/// Deletes the keys of creates and purchases (contract: agents 6; billing 6, 33). Receipts of messages are deleted only with
/// their agent session.
pub async fn sweep_idempotency(db: &PgPool) -> sqlx::Result<u64> {
    let creates = until_none(|| async { creates::purge(&mut *db.acquire().await?, BATCH).await }).await?;
    let by_card = until_none(|| async { card::purge_keys(&mut *db.acquire().await?, BATCH).await }).await?;
    let orders = until_none(|| async { orders::purge_unanswered(&mut *db.acquire().await?, BATCH).await }).await?;
    Ok(creates + by_card + orders)
}

async fn purge_profiles(db: &PgPool, retention: Retention, purged: &mut Purged) -> sqlx::Result<()> {
    let mut after = None;
    loop {
        let due = profiles::due_for_purge(&mut *db.acquire().await?, retention, after, BATCH).await?;
        let Some(last) = due.last() else { return Ok(()) };
        after = Some(last.profile);
        for ExpiredProfile { profile, snapshots } in due {
            let (outcome, snapshots) = match purge_profile(db, retention, profile).await {
                Ok(Some(snapshots)) => {
                    tracing::info!(%profile, snapshots, "purged a deleted profile past its retention");
                    purged.profiles += 1;
                    purged.snapshots += snapshots;
                    (PurgeOutcome::Purged, snapshots)
                }
                Ok(None) => (PurgeOutcome::Skipped, snapshots.unsigned_abs()),
                Err(error) => {
                    tracing::error!(%error, %profile, "cannot purge a deleted profile");
                    purged.failed += 1;
                    (PurgeOutcome::Failed, snapshots.unsigned_abs())
                }
            };
            count_purge("profiles", outcome, 1);
            count_purge("snapshots", outcome, snapshots);
        }
    }
}

async fn purge_profile(db: &PgPool, retention: Retention, profile: ProfileId) -> sqlx::Result<Option<u64>> {
    let mut tx = db.begin().await?;
    let snapshots = profiles::purge_due(&mut tx, retention, profile).await?;
    tx.commit().await?;
    Ok(snapshots)
}

fn count_purge(arm: &'static str, outcome: PurgeOutcome, count: u64) {
    let purges = if retention::is_entrusted(arm) { ENTRUSTED_PURGES } else { ROW_PURGES };
    purges.with([arm, outcome.name()]).increment(count);
}

/// Removes stores without references, including those of failed saves. Returns the number of stores.
async fn remove_stores(stores: &Stores) -> sqlx::Result<u64> {
    let removed = until_none(|| stores.sweep(BATCH)).await?;
    if removed > 0 {
        tracing::debug!(removed, "removed unused profile stores");
    }
    Ok(removed)
}

async fn purge_finished(db: &PgPool, results: Duration, jobs: Duration) -> sqlx::Result<()> {
    let (mut wiped, mut from) = (0, None);
    while let Some(batch) = recovery::wipe_results(&mut *db.acquire().await?, results, from, BATCH).await? {
        wiped += batch.count;
        from = Some(batch.last_done_at);
    }
    let purged = until_none(|| async { inspect::purge(&mut *db.acquire().await?, jobs, BATCH).await }).await?;
    if wiped > 0 || purged > 0 {
        tracing::debug!(wiped, purged, "wiped old results and purged finished jobs");
    }
    Ok(())
}

/// Each batch has its own connection, so that a long purge does not occupy one.
async fn until_none<F: Future<Output = sqlx::Result<u64>>>(batch: impl Fn() -> F) -> sqlx::Result<u64> {
    let mut touched = 0;
    loop {
        match batch().await? {
            0 => return Ok(touched),
            some => touched += some,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scheduled_job_has_a_function() {
        let run: BTreeSet<_> = SCHEDULED_JOBS.iter().map(|(job, _)| job.name).collect();
        assert_eq!(run, areas::scheduled_jobs().map(|job| job.name).collect());
    }
}
