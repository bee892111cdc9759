//! Operations of a session, from the rows of its intents (contract: recordings 1 to 6).

use kitfleet_types::ids::{OperationId, SessionId};
use kitfleet_types::operations::{Operation, OperationDescription, OperationOutcome, Outcome};
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::OperationActor;

#[derive(Debug, Clone, PartialEq)]
pub struct ListedOperation {
    pub id: OperationId,
    pub described: OperationDescription,
    pub outcome: OperationOutcome,
    pub error: Option<String>,
    pub url: Option<String>,
    pub actor: Option<OperationActor>,
    /// Time the worker began; `None` before that.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub duration_ms: Option<i64>,
}

/// Newest first. The session's own operations only: not those that agents use to find elements.
pub async fn list(
    conn: &mut PgConnection,
    session: SessionId,
    before: Option<OperationId>,
    limit: i64,
) -> sqlx::Result<Vec<ListedOperation>> {
    let rows = sqlx::query!(
        r#"select id as "id: Uuid", kind, request, status, outcome, url, actor_type, actor_id,
                  started_at as "started_at: Timestamp", done_at as "done_at: Timestamp",
                  (extract(epoch from done_at - started_at) * 1000)::bigint as duration_ms
           from intents
           where session_id = $1 and id < $2 and coalesce(request ->> 'operation', '') not in ('locate', 'hold')
           order by id desc limit $3"#,
        session as _,
        before.map_or(Uuid::max(), |before| before.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await?;
    let listed = rows.into_iter().map(|row| {
        // Another version of this program may have written the row.
        let outcome = row.outcome.and_then(|outcome| serde_json::from_value::<Outcome>(outcome).ok());
        let (described, error_shows_page) = match row.kind.as_str() {
            "open" => (OperationDescription::of_open(), false),
            "gui_input" => (OperationDescription::of_live_input(), false),
            kind => match serde_json::from_value::<Operation>(row.request) {
                Ok(operation) => (operation.describe(), operation.error_shows_page()),
                Err(_) => (OperationDescription::of_unknown(kind), true),
            },
        };
        ListedOperation {
            id: row.id.into(),
            described,
            outcome: match (&outcome, row.status.as_str()) {
                (Some(outcome), _) => outcome.into(),
                (None, "done") => OperationOutcome::Unknown,
                (None, _) => OperationOutcome::Running,
            },
            // Members of a team may read the list, but no content of pages.
            error: outcome.as_ref().and_then(Outcome::error_detail).filter(|_| !error_shows_page),
            url: row.url,
            actor: OperationActor::of_columns(row.actor_type.as_deref(), row.actor_id),
            started_at: row.started_at,
            ended_at: row.done_at,
            duration_ms: row.duration_ms,
        }
    });
    Ok(listed.collect())
}
