//! Steps of agent sessions that wait for an approval (contract: agents 19, 20, 55, 56).

use axum::Json as Answer;
use axum::extract::State;
use axum::response::Response;
use kitfleet_domain::agents::declining::{self, DeclineError};
use kitfleet_domain::agents::lanes::LaneError;
use kitfleet_domain::agents::steps::Intent;
use kitfleet_domain::agents::turns::{self, WaitingStep};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_types::ids::{AgentSessionId, SessionId, StepId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::wire::AgentSession;
use super::{READ_AGENTS, WRITE_AGENTS, read};
use crate::http::auth::Caller;
use crate::http::body::counted_json;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{AgentElsewhere, Database, InvalidQuery, NoAgentSession, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().allow(READ_AGENTS, routes!(list)).allow(WRITE_AGENTS, routes!(decline))
}

/// Step that waits for an approval
#[derive(Serialize, ToSchema)]
#[schema(as = WaitingApproval)]
struct Approval {
    step: Intent,
    /// Agent session of the step; a message with the step's ID in `approvals` approves it
    #[schema(value_type = String, example = "agt_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5")]
    agent_session_id: AgentSessionId,
    /// Driver session of the agent session
    #[schema(value_type = String, example = "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e")]
    session_id: SessionId,
    /// Time the approval was requested
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
}

type ApprovalList = Page<Approval>;

impl ListItem for Approval {
    const LIST: &'static str = "WaitingApprovalList";
    const MEANING: &'static str = "A page of steps that wait for an approval, newest first";
}

/// List steps that wait for an approval
///
/// Returns the steps of all active agent sessions of the account, newest first. Texts to type are omitted.
#[utoipa::path(
    get, path = "/v1/account/approvals", tag = "Agent sessions", operation_id = "listApprovals",
    params(Paging),
    responses((status = 200, description = "A page", body = ApprovalList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Response> {
    let account = caller.account_id;
    let scope = CursorScope { account, list: "approvals", filters: &[] };
    let id_of = |step: &WaitingStep| step.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        turns::waiting(conn, account, after.map(StepId::from), limit).await
    });
    let page = page.await?;
    let waiting_steps = turns::sealed_waiting(&mut *app.db.acquire().await?, page.data).await?;
    let weight = waiting_steps.weight();
    let bytes = u64::try_from(weight).unwrap_or(u64::MAX);
    let reservation = app.answers.reserve(account, bytes).await?;
    let mut reading = app.readings.begin(account, bytes).await?;
    let sealer = app.agents().await?.clone();
    let opened = reading.run(weight, move || waiting_steps.open(&sealer)).await??;
    let data = opened.into_iter().map(|(waiting, step)| Approval {
        step,
        agent_session_id: waiting.agent_session,
        session_id: waiting.session,
        requested_at: waiting.requested_at,
    });
    let page = Page::new(data.collect(), page.next_cursor);
    let text = reading.run(weight, move || serde_json::to_vec(&page)).await?;
    Ok(counted_json(text.map_err(|error| Problem::internal(&error))?, reservation))
}

/// Decline a step that waits for an approval
///
/// Ends the plan of the step: the step and those after it are skipped. Returns the agent session. Fails with 409 if the step does
/// not wait for an approval, or while a turn is in progress.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/steps/{step_id}/decline", tag = "Agent sessions", operation_id = "declineAgentStep",
    params(IdPath<AgentSessionId>, IdPath<StepId>),
    responses((status = 200, description = "The agent session", body = AgentSession),
              Restricted, NoAgentSession, AgentElsewhere, Database),
)]
async fn decline(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    step: IdPath<StepId>,
    _body: IgnoredBody,
) -> Result<Answer<AgentSession>> {
    let (session, step) = (path.id()?, step.id()?);
    let (sealer, patience) = (app.agents().await?, app.config.agents.heartbeat_timeout);
    let mut tx = app.db.begin().await?;
    let account = caller.account_id;
    let declined = declining::decline_step(&mut tx, sealer, (account, session), step, patience, &caller.actor).await;
    match declined {
        Err(DeclineError::Database(error) | DeclineError::Lane(LaneError::Database(error))) => return Err(error.into()),
        // An expired takeover ends even if the step is not declined.
        declined => {
            tx.commit().await?;
            declined?;
        }
    }
    Ok(Answer(read(&app, &caller, session).await?))
}

impl From<DeclineError> for Problem {
    fn from(error: DeclineError) -> Self {
        match error {
            DeclineError::NoStep => not_found::<StepId>(),
            DeclineError::NotWaiting | DeclineError::TurnInProgress => Self::new(&kinds::CONFLICT, error.to_string()),
            DeclineError::Lane(error) => error.into(),
            DeclineError::Database(error) => error.into(),
        }
    }
}
