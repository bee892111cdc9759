//! Typed jobs on apalis: what they carry, which queue they wait in, and the backend that runs them.
//!
//! A job carries ids, not snapshots: the rows are the truth, and a handler reads them when it runs. It is enqueued in
//! the transaction that makes it necessary, so that neither can exist without the other. Attempts and back-off live in
//! our own tables; an apalis job is one attempt. Operations and the attempts of webhook deliveries are never enqueued: what
//! waits in their own tables makes them ([`operations`], [`webhooks`]).

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
pub mod replies;
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
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

/// What a worker can be told to do.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The queue it waits in: a constant, or a constant and the owner's id.
    fn queue(&self) -> String;
}

/// How often a queue is looked at by whoever serves it without having been woken. Its worker looks for all of them meanwhile
/// ([`waiting`]).
const SAFETY: Duration = Duration::from_secs(30);

/// Writes `job` into its queue and, when the transaction commits, wakes whoever serves that queue.
///
/// # Errors
/// When the database fails.
pub async fn enqueue<J: Job>(conn: &mut PgConnection, job: &J) -> sqlx::Result<()> {
    push(&mut *conn, job).await?;
    wakeups::wake(conn, &job.queue()).await
}

/// The same of many jobs of one queue, in one statement: whatever row the transaction holds is not held for long.
///
/// # Errors
/// When the database fails.
pub async fn enqueue_all<J: Job>(conn: &mut PgConnection, jobs: &[J]) -> sqlx::Result<()> {
    let Some(first) = jobs.first() else { return Ok(()) };
    push_all(&mut *conn, &first.queue(), jobs).await?;
    wakeups::wake(conn, &first.queue()).await
}

/// Writes `job` into its queue.
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

/// How often a process that waits for another one's migrations tries to take the lock.
const TRY_LOCK_AFTER: Duration = Duration::from_millis(100);

/// Why the schema is not up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A migration failed.
    #[error("a migration failed: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Brings both schemas up to date: apalis's tables, then ours, which refer to them. One process at a time does it; the
/// others wait and then find nothing to do.
///
/// # Errors
/// When a migration fails.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    const LOCK: i64 = 0x6b69_7466_6c65_6574; // "kitfleet"
    // A statement that waits for the lock would be one that `create index concurrently` of the process with the lock waits for: a deadlock.
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
