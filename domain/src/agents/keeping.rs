//! How agent sessions go when they have been closed for long enough (contract: retention 10, 16): first what each has many of, in
//! batches of its own, and then they.
//!
//! Each batch looks at no more agent sessions than it may delete rows, the oldest. So what is left of those that are not empty yet is not
//! walked through each time.

use std::time::Duration;

use sqlx::PgConnection;

/// Deletes steps of agent sessions that were closed longer ago than `age`, up to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
pub(super) async fn purge_steps(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from agent_sessions_past_term($1, $2) as past (id))
         delete from agent_steps where id = any(array(
             select s.id from old join agent_steps s on s.agent_session_id = old.id limit $2 for update of s skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Deletes turns of such agent sessions that have no steps any more, up to `limit`, with what models took for each. Answers how many.
///
/// # Errors
/// When the database fails.
pub(super) async fn purge_turns(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from agent_sessions_past_term($1, $2) as past (id))
         delete from agent_turns where id = any(array(
             select t.id from old join agent_turns t on t.agent_session_id = old.id
             where not exists (select from agent_steps s where s.agent_session_id = old.id)
             limit $2 for update of t skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Deletes receipts of their messages, up to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
pub(super) async fn purge_receipts(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from agent_sessions_past_term($1, $2) as past (id))
         delete from agent_message_receipts where (account_id, key) in (
             select r.account_id, r.key from old join agent_message_receipts r on r.session_id = old.id
             limit $2 for update of r skip locked)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Deletes such agent sessions that have neither, up to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
pub(super) async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from agent_sessions_past_term($1, $2) as past (id))
         delete from agent_sessions where id = any(array(
             select a.id from old join agent_sessions a on a.id = old.id
             where not exists (select from agent_turns t where t.agent_session_id = a.id)
               and not exists (select from agent_message_receipts r where r.session_id = a.id)
             for update of a skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
