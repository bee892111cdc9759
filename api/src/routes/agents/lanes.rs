//! Control of an agent session (contract: agents 8 to 13).

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::agents::Mode;
use kitfleet_domain::agents::lanes::{self, ClientId, LaneError};
use kitfleet_types::ids::{AccountId, AgentSessionId};
use serde::Deserialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::wire::{self, AgentSession};
use super::{WRITE_AGENTS, read};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json};
use crate::http::kinds;
use crate::http::openapi::{AgentElsewhere, Body, Database, NoAgentSession, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_AGENTS, routes!(take_over))
        .allow(WRITE_AGENTS, routes!(hand_back))
        .allow(WRITE_AGENTS, routes!(heartbeat))
        .allow(WRITE_AGENTS, routes!(set_mode))
        .allow(WRITE_AGENTS, routes!(cancel))
}

/// Client of a person
#[derive(Deserialize, ToSchema)]
#[schema(as = AgentSessionClient, example = json!({"client_id": "ada-laptop"}))]
struct ClientBody {
    /// Name of the client; it identifies the client that has control
    #[schema(min_length = 1, max_length = 128)]
    client_id: String,
}

/// Body of a change of mode
#[derive(Deserialize, ToSchema)]
#[schema(as = AgentSessionModeChange, example = json!({"mode": "pair"}))]
struct ModeBody {
    /// New mode
    #[schema(schema_with = wire::mode)]
    mode: Mode,
}

/// Take over from the AI
///
/// Gives control to the client, in pair mode. Messages are rejected until the client hands back or sends no heartbeat for 30 s. A
/// turn in progress starts no further step. A takeover by the client that already has control changes nothing.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/takeover", tag = "Agent sessions", operation_id = "takeOverAgentSession",
    params(IdPath<AgentSessionId>), request_body = ClientBody,
    responses((status = 200, description = "The agent session, controlled by the client", body = AgentSession),
              Restricted, Body, NoAgentSession, AgentElsewhere, Database),
)]
async fn take_over(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    Json(body): Json<ClientBody>,
) -> Result<Answer<AgentSession>> {
    let client = ClientId::parse(body.client_id)?;
    change(&app, &caller, path.id()?, async |conn, whose| {
        let max = app.config.limits.audited_changes_per_hour;
        lanes::take_over(conn, whose, &client, app.config.agents.heartbeat_timeout, max, &caller.actor).await
    })
    .await
}

/// Hand back to the AI
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/handback", tag = "Agent sessions", operation_id = "handBackAgentSession",
    params(IdPath<AgentSessionId>), request_body = ClientBody,
    responses((status = 200, description = "The agent session, controlled by the AI", body = AgentSession),
              Restricted, Body, NoAgentSession, AgentElsewhere, Database),
)]
async fn hand_back(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    Json(body): Json<ClientBody>,
) -> Result<Answer<AgentSession>> {
    let client = ClientId::parse(body.client_id)?;
    change(&app, &caller, path.id()?, async |conn, whose| {
        lanes::hand_back(conn, whose, &client, app.config.agents.heartbeat_timeout, &caller.actor).await
    })
    .await
}

/// Keep control
///
/// Renews the client's control. A client in control must call this more often than every 30 s.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/heartbeat", tag = "Agent sessions", operation_id = "keepDrivingAgentSession",
    params(IdPath<AgentSessionId>), request_body = ClientBody,
    responses((status = 200, description = "The agent session, still controlled by the client", body = AgentSession),
              Restricted, Body, NoAgentSession, AgentElsewhere, Database),
)]
async fn heartbeat(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    Json(body): Json<ClientBody>,
) -> Result<Answer<AgentSession>> {
    let client = ClientId::parse(body.client_id)?;
    change(&app, &caller, path.id()?, async |conn, whose| {
        lanes::heartbeat(conn, whose, &client, app.config.agents.heartbeat_timeout).await
    })
    .await
}

/// Change the mode
///
/// Fails while a person has control in pair mode. Setting the current mode again changes nothing.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/mode", tag = "Agent sessions", operation_id = "setAgentSessionMode",
    params(IdPath<AgentSessionId>), request_body = ModeBody,
    responses((status = 200, description = "The agent session, in the new mode", body = AgentSession),
              Restricted, Body, NoAgentSession, AgentElsewhere, Database),
)]
async fn set_mode(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    Json(body): Json<ModeBody>,
) -> Result<Answer<AgentSession>> {
    change(&app, &caller, path.id()?, async |conn, whose| {
        let max = app.config.limits.audited_changes_per_hour;
        lanes::set_mode(conn, whose, body.mode, app.config.agents.heartbeat_timeout, max, &caller.actor).await
    })
    .await
}

/// Cancel the turn in progress
///
/// The turn ends after its current step; its other steps are skipped. Fails with 409 while no turn is in progress.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/cancel", tag = "Agent sessions", operation_id = "cancelAgentTurn",
    params(IdPath<AgentSessionId>),
    responses((status = 200, description = "The agent session", body = AgentSession),
              Restricted, NoAgentSession, AgentElsewhere, Database),
)]
async fn cancel(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    _body: IgnoredBody,
) -> Result<Answer<AgentSession>> {
    change(&app, &caller, path.id()?, async |conn, whose| {
        lanes::cancel_turn(conn, whose, app.config.agents.heartbeat_timeout).await
    })
    .await
}

/// Applies a change in a transaction and returns the agent session. The transaction is committed even if the change is refused,
/// so that an expired takeover ends in either case.
async fn change(
    app: &App,
    caller: &Caller,
    id: AgentSessionId,
    make: impl AsyncFnOnce(&mut PgConnection, (AccountId, AgentSessionId)) -> Result<(), LaneError>,
) -> Result<Answer<AgentSession>> {
    let mut tx = app.db.begin().await?;
    let changed = make(&mut tx, (caller.account_id, id)).await;
    match changed {
        Err(LaneError::Database(error)) => return Err(error.into()),
        changed => {
            tx.commit().await?;
            changed?;
        }
    }
    Ok(Answer(read(app, caller, id).await?))
}

impl From<LaneError> for Problem {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::NoSession => not_found::<AgentSessionId>(),
            LaneError::TooManyChanges(error) => error.into(),
            LaneError::Database(error) => error.into(),
            LaneError::Closed
            | LaneError::NotPair
            | LaneError::DrivenByAnother
            | LaneError::NotDriving
            | LaneError::HumanDrives
            | LaneError::NoTurn => Self::new(&kinds::CONFLICT, error.to_string()),
        }
    }
}
