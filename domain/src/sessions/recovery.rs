//! Ends intents and sessions whose caller has given up, or whose browser or worker has died. Also wipes old results and
//! deletes old rows.

use std::fmt::Display;
use std::time::Duration;

use kitfleet_types::ids::{IntentId, SessionId, WorkerId};
use kitfleet_types::operations::{Failure, FailureClass, Outcome};
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::{Connection as _, PgConnection, PgTransaction};

use super::failures::{SessionInfo, record_failure, worker_gone};
use super::intents::{finish, finish_and_notify};
use super::{SessionError, profile_lease};
use crate::database::is_transient;
use crate::workers;

/// A `ready` session of a dead worker is left this long for its next operation, which then reports the failure. After
/// that it is errored, because it occupies a slot and possibly a profile.
const PATIENCE: Duration = Duration::from_mins(2);

/// Ends the work of dead workers (contract: workers 4, 7). `conn` is in a transaction. Returns the number of ended intents.
///
/// * A session is errored if its browser never opened, its operation never started, or a viewer was acting in it.
/// * A running operation gets an unknown outcome, and its session stays busy.
/// * A `ready` session is left for its next operation, and errored after two minutes without one.
/// * All live sessions of a worker that stopped in an orderly way are errored, whatever prevented it from doing so itself.
/// * Profile leases of ended sessions are released. Their unsaved state is lost.
///
/// If the database rejects the end of a single intent, that is logged and the others are still ended.
pub async fn recover(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
    let stranded = sqlx::query!(
        r#"select i.id, i.status = 'running' and i.kind not in ('open', 'gui_input') as "under_way!"
           from sessions s join intents i on i.id = s.operation_id join workers w on w.id = s.worker_id
           where i.status <> 'done' and s.live and w.status in ('lost', 'stopped')
           order by s.account_id, i.id limit $1 for update of s, i skip locked"#,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut ended = 0;
    for intent in &stranded {
        let outcome = if intent.under_way { Outcome::Unknown } else { Outcome::Failed { failure: worker_gone() } };
        let mut alone = conn.begin().await?;
        if !intent.under_way {
            mark_worker_lost(&mut alone, intent.id).await?;
        }
        let finished = finish_and_notify(&mut alone, intent.id, &outcome.into()).await;
        ended += usize::from(settle(alone, finished, &intent.id).await?);
    }
    for worker in workers::dead_with_sessions(&mut *conn, PATIENCE).await? {
        let mut alone = conn.begin().await?;
        let failed = if worker.was_lost {
            fail_sessions(&mut alone, worker.id, &["ready"], &worker_gone()).await
        } else {
            fail_sessions_of(&mut alone, worker.id).await
        };
        settle(alone, failed, &worker.id).await?;
    }
    profile_lease::release_dead_leases(conn, None, limit).await?;
    Ok(ended)
}

/// The end of the operation keeps a reason that is set.
async fn mark_worker_lost(conn: &mut PgConnection, operation: IntentId) -> sqlx::Result<()> {
    sqlx::query!("update sessions set end_reason = 'worker_lost' where operation_id = $1", operation as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Rolls back if the database rejected the nested transaction. `id` is its intent or worker, for the log.
async fn settle<T>(part: PgTransaction<'_>, done: sqlx::Result<T>, id: &(impl Display + Sync)) -> sqlx::Result<bool> {
    match done {
        Ok(_) => part.commit().await.map(|()| true),
        Err(error) if is_transient(&error) => Err(error),
        Err(error) => {
            tracing::error!(%error, %id, "cannot end an operation or session of a dead worker");
            part.rollback().await.map(|()| false)
        }
    }
}

/// Ends an intent so that no worker can start it later. `false` if a worker has started it or it has ended.
pub async fn give_up(conn: &mut PgConnection, id: IntentId, failure: Failure) -> sqlx::Result<bool> {
    let session = sqlx::query_scalar!(
        "select s.id from sessions s join intents i on i.session_id = s.id where i.id = $1 for update of s, i",
        id as _,
    );
    session.fetch_optional(&mut *conn).await?;
    let queued = sqlx::query_scalar!(
        r#"select exists(select from intents where id = $1 and status = 'queued') as "queued!""#,
        id as _,
    );
    if queued.fetch_one(&mut *conn).await? {
        Ok(finish(conn, id, &Outcome::Failed { failure }.into()).await?.is_some())
    } else {
        Ok(false)
    }
}

/// The worker stops in an orderly way, and its slots become free.
pub async fn fail_sessions_of(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<usize> {
    let failure = Failure {
        class: FailureClass::NotIntegrated,
        detail: "the worker that owned the session's browser was stopped".to_owned(),
    };
    fail_sessions(conn, worker, &["creating", "ready", "busy"], &failure).await
}

async fn fail_sessions(
    conn: &mut PgConnection,
    worker: WorkerId,
    statuses: &[&str],
    failure: &Failure,
) -> sqlx::Result<usize> {
    // Locks the sessions first: a simultaneous claim waits and then finds the session errored. The order by account, as
    // in [`recover`], avoids a deadlock between two workers that stop, because an account's first failure also writes
    // its mail.
    let live = sqlx::query!(
        r#"select id as "id: SessionId", account_id, operation_id as "operation_id?: IntentId",
                  (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!"
           from sessions where worker_id = $1 and live and status = any($2)
           order by account_id, id for update"#,
        worker as _,
        statuses as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<_> = live.iter().map(|session| session.id.as_uuid()).collect();
    // The end of an operation keeps a reason that is set.
    sqlx::query!("update sessions set end_reason = 'worker_lost' where id = any($1)", &ids).execute(&mut *conn).await?;
    let error = json!(SessionError::of(failure));
    for session in &live {
        let ending = Outcome::Failed { failure: failure.clone() }.into();
        if let Some(operation) = session.operation_id
            && finish_and_notify(&mut *conn, operation, &ending).await?
        {
            continue;
        }
        sqlx::query!(
            "update sessions set status = 'errored', operation_id = null, dialog = null, error = $2, updated_at = now()
             where id = $1",
            session.id as _,
            error,
        )
        .execute(&mut *conn)
        .await?;
        let of = SessionInfo { session: session.id, account: session.account_id, duration_ms: session.duration_ms };
        record_failure(&mut *conn, &of, "unknown", failure).await?;
    }
    Ok(live.len())
}

#[derive(Debug)]
pub struct WipedResults {
    pub count: i64,
    pub last_done_at: Timestamp,
}

/// Oldest first, of operations that ended at `from` or later. `None` if there are none.
///
/// Pass the previous `last_done_at` as `from` to skip rows already wiped: until the next vacuum, the index still contains them.
pub async fn wipe_results(
    conn: &mut PgConnection,
    age: Duration,
    from: Option<Timestamp>,
    limit: i64,
) -> sqlx::Result<Option<WipedResults>> {
    let wiped = sqlx::query!(
        r#"with old as (
               select id, done_at from intents
               where outcome is not null and done_at < now() - make_interval(secs => $1)
                 and done_at >= coalesce($2::timestamptz, '-infinity')
               order by done_at limit $3 for update skip locked
           ), wiped as (
               update intents set outcome = null, result = null, content = null where id = any(array(select id from old))
           )
           select count(*) as "count!", max(done_at) as "last_done_at: Timestamp" from old"#,
        age.as_secs_f64(),
        from as _,
        limit,
    )
    .fetch_one(conn)
    .await?;
    Ok(wiped.last_done_at.map(|last_done_at| WipedResults { count: wiped.count, last_done_at }))
}

/// Keeps an operation that still keeps its session busy.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from intents where id = any(array(
             select i.id from intents i
             where i.id < uuid_v7_of(now() - make_interval(secs => $1)) and i.status = 'done'
               and not exists (select from sessions s where s.id = i.session_id and s.operation_id = i.id)
             order by i.id limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Operations of any age, of sessions that ended longer ago than `age`.
pub async fn purge_with_sessions(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from sessions_past_term($1, $2) as past (id))
         delete from intents where id = any(array(
             select i.id from old join intents i on i.session_id = old.id limit $2 for update of i skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
