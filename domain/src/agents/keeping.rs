//! Deletes closed agent sessions after their retention (contract: retention 10, 16): their many rows first, in batches.
//!
//! Each batch examines at most as many agent sessions as it may delete rows, oldest first, so that agent sessions which
//! still have rows are not scanned again and again.

use std::time::Duration;

use sqlx::PgConnection;

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

/// Deletes up to `limit` turns of agent sessions closed longer ago than `age` that have no steps left, with their model usage.
/// Returns the number of deleted rows.
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

/// Deletes up to `limit` agent sessions closed longer ago than `age` that have no turns and receipts left. Returns the number of
/// deleted rows.
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
