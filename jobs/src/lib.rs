//! Typed jobs on apalis: payloads, queues, and the backend that runs them.
//!
//! A job carries ids, not data: its handler reads the rows when it runs. It is enqueued in the transaction that
//! requires it. Attempts and backoff are stored in Kitfleet's own tables; one apalis job is one attempt. Operations and
//! webhook deliveries are never enqueued: rows in their own tables are the queue ([`operations`], [`webhooks`]).

pub mod accounts;
pub mod agents;
pub mod backend;
pub mod billing;
pub mod browser;
pub mod dispatch;
pub mod emails;
pub mod inspect;
pub mod maintenance;
mod notifications;
pub mod operations;
pub mod pending_work;
pub mod proxies;
pub mod queues;
pub mod refused;
pub mod replies;
pub mod samples;
pub mod sessions;
pub mod staff;
pub mod status;
pub mod traces;
pub mod wakeups;
pub mod webhooks;
pub mod workers;

use std::slice;
use std::time::Duration;

use kitfleet_domain::database;
use kitfleet_domain::metrics::MetricDeclaration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use crate::agents::TurnJob;
use crate::emails::EmailJob;
use crate::maintenance::MaintenanceJob;
use crate::operations::OperationJob;
use crate::proxies::CheckProxy;
use crate::queues::Queue;
use crate::webhooks::AttemptJob;

pub const METRICS: &[&dyn MetricDeclaration] = &[&wakeups::WAKEUPS, &webhooks::ENDED_DELIVERIES];

/// Workers, metrics and operators' commands read them here.
pub const QUEUES: [Queue; 6] =
    [MaintenanceJob::QUEUE, EmailJob::QUEUE, AttemptJob::QUEUE, OperationJob::QUEUE, TurnJob::QUEUE, CheckProxy::QUEUE];

pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A constant, or a constant and the owner's id.
    fn queue(&self) -> String;
}

/// Interval at which a queue is polled without a wake-up. The worker checks all its queues more often ([`pending_work`]).
const SAFETY: Duration = Duration::from_secs(30);

/// Wakes the queue's server when the transaction commits.
pub async fn enqueue<J: Job>(conn: &mut PgConnection, job: &J) -> sqlx::Result<()> {
    push(&mut *conn, job).await?;
    wakeups::wake(conn, &job.queue()).await
}

/// Writes several jobs of one queue in one statement, which keeps the transaction's row locks short.
pub async fn enqueue_all<J: Job>(conn: &mut PgConnection, jobs: &[J]) -> sqlx::Result<()> {
    let Some(first) = jobs.first() else { return Ok(()) };
    push_all(&mut *conn, &first.queue(), jobs).await?;
    wakeups::wake(conn, &first.queue()).await
}

async fn push<J: Job>(conn: &mut PgConnection, job: &J) -> sqlx::Result<()> {
    push_all(conn, &job.queue(), slice::from_ref(job)).await
}

async fn push_all<J: Job>(conn: &mut PgConnection, queue: &str, jobs: &[J]) -> sqlx::Result<()> {
    let ids: Vec<_> = jobs.iter().map(|_| ulid::Ulid::generate().to_string()).collect();
    let bodies: Vec<_> =
        jobs.iter().map(serde_json::to_vec).collect::<Result<_, _>>().map_err(|e| sqlx::Error::Encode(e.into()))?;
    sqlx::query(
        "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority)
         select id, $2, body, 'Pending', 0, 1, now(), 0 from unnest($1::text[], $3::bytea[]) as job (id, body)",
    )
    .bind(ids)
    .bind(queue)
    .bind(bodies)
    .execute(conn)
    .await?;
    Ok(())
}

/// Interval at which a process tries to take the migration lock while another process migrates.
const TRY_LOCK_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("a migration failed: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// First apalis's tables, then Kitfleet's, which refer to them. One process migrates at a time; the others wait and
/// then find nothing to do.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    const LOCK: i64 = 0x6b69_7466_6c65_6574; // "kitfleet"
    // A statement that blocks on the lock would deadlock with the migrating process: its `create index concurrently` waits for
    // all running statements.
    while !sqlx::query_scalar::<_, bool>("select pg_try_advisory_lock($1)").bind(LOCK).fetch_one(&mut *conn).await? {
        tokio::time::sleep(TRY_LOCK_AFTER).await;
    }
    let migrated = migrate_locked(conn).await;
    sqlx::query("select pg_advisory_unlock($1)").bind(LOCK).execute(conn).await?;
    migrated
}

async fn migrate_locked(conn: &mut PgConnection) -> Result<(), MigrateError> {
    sqlx::query("create schema if not exists apalis").execute(&mut *conn).await?;
    let mut apalis = apalis_postgres::PostgresStorage::migrations();
    apalis.set_ignore_missing(true).run_direct(None, &mut *conn, false).await?;
    database::migrate(&mut *conn).await?;
    Ok(())
}
