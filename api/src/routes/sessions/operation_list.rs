//! List of a session's operations (contract: recordings). It needs no recording.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::recordings;
use kitfleet_domain::sessions::operation_list::{self, ListedOperation};
use kitfleet_types::ids::{OperationId, SessionId};
use kitfleet_types::operations::OperationOutcome;
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::READ_SESSIONS;
use super::recordings::require_session;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Database, InvalidQuery, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().allow(READ_SESSIONS, routes!(list_operations)).never_stored()
}

/// Operation of a session
#[derive(Serialize, ToSchema)]
#[schema(as = SessionOperation, example = json!({
    "id": "op_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f61", "kind": "interact", "action": "tap", "description": "Tap button \"Send\"",
    "outcome": "done", "error": null, "url": "https://example.com/", "actor": {"type": "api_key",
    "id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5"}, "started_at": "2026-11-20T18:05:01.000Z",
    "ended_at": "2026-11-20T18:05:01.063Z", "duration_ms": 63, "has_frames": true,
}))]
struct SessionOperation {
    /// ID of the operation
    #[schema(value_type = String)]
    id: OperationId,
    /// Kind of the operation, as in `session.failed`
    kind: String,
    /// Precise name, such as `tap` or `screenshot`
    action: String,
    /// Operation in words. It contains no typed text
    description: String,
    /// Outcome: `done` (also with `ok: false` or `matched: false`), `failed`, `timeout`, `invalid`, `withheld`, `destroyed`,
    /// `unknown` or `running`
    #[schema(value_type = String)]
    outcome: OperationOutcome,
    /// Detail of an outcome that is not `done`
    #[schema(required = true)]
    error: Option<String>,
    /// Address of the page after the operation, if it is known
    #[schema(required = true)]
    url: Option<String>,
    /// Origin of the operation; null if it is not known
    #[schema(required = true)]
    actor: Option<Actor>,
    /// Time the browser began
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    started_at: Option<Timestamp>,
    /// Time of the end
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    ended_at: Option<Timestamp>,
    #[schema(required = true)]
    duration_ms: Option<i64>,
    /// True if the recording has a picture after the operation
    has_frames: bool,
}

/// Origin of an operation
#[derive(Serialize, ToSchema)]
#[schema(as = OperationActor, example = json!({"type": "api_key", "id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5"}))]
struct Actor {
    /// Type: `api_key` (also an OAuth token), `web_session`, `agent`, `person`, `webdriver` or `mcp`
    #[serde(rename = "type")]
    kind: &'static str,
    /// ID of the credential, the agent session or the client
    #[schema(required = true)]
    id: Option<String>,
}

impl From<OperationActor> for Actor {
    fn from(OperationActor { kind, id }: OperationActor) -> Self {
        Self { kind: kind.name(), id }
    }
}

type SessionOperationList = Page<SessionOperation>;

impl ListItem for SessionOperation {
    const LIST: &'static str = "SessionOperationList";
    const MEANING: &'static str = "A page of operations, newest first";
}

/// List operations
///
/// Returns the operations of a session, newest first, for 7 days. It needs no recording.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/operations", tag = "Sessions", operation_id = "listSessionOperations",
    params(IdPath<SessionId>, Paging),
    responses((status = 200, description = "A page", body = SessionOperationList), Restricted, InvalidQuery, NoSession, Database),
)]
async fn list_operations(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    query: Query,
) -> Result<Answer<SessionOperationList>> {
    let (session, account) = (path.id()?, caller.account_id);
    require_session(&app, &caller, session).await?;
    let text = session.to_string();
    let filters = [Some(text.as_str())];
    let scope = CursorScope { account, list: "operations", filters: &filters };
    let mut pictured = Vec::new();
    let page = lists::page(
        &app,
        &query,
        scope,
        |listed: &ListedOperation| listed.id.as_uuid(),
        async |conn, after, limit| {
            let listed = operation_list::list(&mut *conn, session, after.map(OperationId::from), limit).await?;
            let ids: Vec<_> = listed.iter().map(|operation| operation.id.as_uuid()).collect();
            pictured = recordings::with_pictures(conn, session, &ids).await?;
            Ok(listed)
        },
    );
    let page = page.await?;
    Ok(Answer(page.map(|listed| SessionOperation {
        has_frames: pictured.contains(&listed.id),
        id: listed.id,
        kind: listed.described.kind,
        action: listed.described.action,
        description: listed.described.description,
        outcome: listed.outcome,
        error: listed.error,
        url: listed.url,
        actor: listed.actor.map(Actor::from),
        started_at: listed.started_at,
        ended_at: listed.ended_at,
        duration_ms: listed.duration_ms,
    })))
}
