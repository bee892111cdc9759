//! Operations and browser openings, shown as jobs of their worker's queue.
//!
//! Their rows are the queue; apalis's tables do not contain them. The status is `done` after any outcome; the result
//! holds the outcome until it is wiped. Parameters and results belong to the customer and are not shown.

use kitfleet_types::ids::{IntentId, WorkerId};
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::JobRow;

pub(super) const STATUS: &str =
    "case i.status when 'queued' then 'pending' when 'running' then 'running' else 'done' end";

const COLUMNS: &str = "
    'int_' || i.id as id, 'operations:wrk_' || i.worker_id as queue,
    json_build_object('session_id', 'ses_' || i.session_id, 'operation', i.kind) as body,
    case when i.status = 'queued' then 0 else 1 end as attempts, case when i.status = 'queued' then i.created_at end as run_at,
    case when i.started_at is not null then 'wrk_' || i.worker_id end as lock_by, i.started_at as lock_at, i.done_at,
    i.outcome as result";

/// An unfinished intent is found through its session; finished ones are read from the end of the primary key.
const UNDER_WAY: &str = "sessions s join intents i on i.id = s.operation_id and s.live";

pub(super) async fn list(
    conn: &mut PgConnection,
    worker: Option<WorkerId>,
    status: Option<&str>,
    before: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<JobRow>> {
    // An operation is done after any outcome.
    if status.is_some_and(|status| ["failed", "killed"].contains(&&*status.to_lowercase())) {
        return Ok(Vec::new());
    }
    let under_way = status.is_some_and(|status| ["pending", "running"].contains(&&*status.to_lowercase()));
    let from = if under_way { UNDER_WAY } else { "intents i" };
    let select = format!(
        "select {COLUMNS}, {STATUS} as status from {from}
         where ($1::uuid is null or i.worker_id = $1) and ($2::text is null or {STATUS} = lower($2)) and i.id < $3
         order by i.id desc limit $4"
    );
    sqlx::query_as(AssertSqlSafe(select)).bind(worker).bind(status).bind(before).bind(limit).fetch_all(conn).await
}

pub(super) async fn show(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<JobRow>> {
    let select = format!("select {COLUMNS}, {STATUS} as status from intents i where i.id = $1");
    sqlx::query_as(AssertSqlSafe(select)).bind(id).fetch_optional(conn).await
}
