//! Agent sessions over video (contract: livekit): access to their LiveKit rooms.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use kitfleet_domain::agents::{self, AgentStatus};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::live::Role;
use kitfleet_domain::livekit::{self, NoRoom};
use kitfleet_domain::workers;
use kitfleet_types::ids::AgentSessionId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::Serialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::READ_AGENTS;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::Query;
use crate::http::metrics::{TokenOutcome, count_livekit_token};
use crate::http::openapi::{AgentElsewhere, InvalidQuery, NoAgentSession, Restricted, Sealing, query};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::live::role;

pub fn routes() -> Routes {
    Routes::new().allow(READ_AGENTS, routes!(token)).on_refusal(count_refusal).never_stored()
}

/// Counts a caller that may not read the agent session. A request without a valid role cannot be counted.
fn count_refusal(target: &Uri, status: StatusCode) {
    if status == StatusCode::FORBIDDEN
        && let Ok(role) = role_in(&Query::of(target))
    {
        count_livekit_token(role, TokenOutcome::Forbidden);
    }
}

fn role_in(query: &Query) -> Result<Role, Invalid> {
    Role::parse(query.text("role")?.unwrap_or_default())
}

/// Access to an agent session's LiveKit room
#[derive(Serialize, ToSchema)]
#[schema(as = LivekitToken, example = json!({
    "token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.ZRrHA1JJJW8opsbCGfG_HACGpVUMN_a9IV7pAx_Zmeo",
    "url": "wss://mac-1.example.com", "room": "agt_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e",
    "expires_at": "2026-11-20T18:15:00.000Z",
}))]
struct RoomAccess {
    /// JSON Web Token for the LiveKit SDKs
    token: String,
    /// Address of the LiveKit server
    url: String,
    /// Room; the token is valid only for this room
    #[schema(value_type = String)]
    room: AgentSessionId,
    /// Time the token expires. A client that is already connected stays connected
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Role parameter, for the contract.
struct RoleParameter;

impl IntoParams for RoleParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let what = "A viewer watches. A controller can also send input, which requires `write:agents`";
        let role: ParameterBuilder = query("role", what, role()).required(Required::True);
        vec![role.build()]
    }
}

/// Get a LiveKit token
///
/// Returns a token for the room that shows the agent session by video. Fails with 503 if the deployment has no machine that shows
/// sessions.
#[utoipa::path(
    get, path = "/v1/agent-sessions/{id}/livekit-token", tag = "Agent sessions", operation_id = "getAgentSessionLivekitToken",
    params(IdPath<AgentSessionId>, RoleParameter),
    responses((status = 200, description = "The token, which is valid only for the caller's role", body = RoomAccess),
              Restricted, InvalidQuery, NoAgentSession, AgentElsewhere, Sealing),
)]
async fn token(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    query: Query,
) -> Result<Answer<RoomAccess>> {
    let role = role_in(&query)?;
    let minted = mint(&app, &caller, &path, role).await;
    let outcome = minted.as_ref().map_or_else(|refused| refused.outcome, |_| Some(TokenOutcome::Ok));
    if let Some(outcome) = outcome {
        count_livekit_token(role, outcome);
    }
    Ok(Answer(minted.map_err(|refused| refused.problem)?))
}

/// Reason why no token was issued. A database error has no outcome to count.
struct Refused {
    outcome: Option<TokenOutcome>,
    problem: Problem,
}

impl<E: Into<Problem>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self { outcome: None, problem: error.into() }
    }
}

fn refused(outcome: TokenOutcome, problem: Problem) -> Refused {
    Refused { outcome: Some(outcome), problem }
}

async fn mint(app: &App, caller: &Caller, path: &IdPath<AgentSessionId>, role: Role) -> Result<RoomAccess, Refused> {
    if role == Role::Controller {
        let required = caller.require_scope(Scope::WriteAgents);
        required.map_err(|problem| refused(TokenOutcome::Forbidden, problem))?;
    }
    let missing = |problem| refused(TokenOutcome::NotFound, problem);
    let id = path.id().map_err(missing)?;
    let mut conn = app.db.acquire().await?;
    let patience = app.config.agents.heartbeat_timeout;
    let session = agents::find(&mut conn, caller.account_id, id, patience).await?;
    let session = session.ok_or_else(|| missing(not_found::<AgentSessionId>()))?;
    if session.status == AgentStatus::Closed {
        return Err(missing(Problem::new(&kinds::CONFLICT, "the agent session is closed")));
    }
    let vault = app.own_vault("LiveKit tokens");
    let place = livekit::place(&mut conn, id, vault.as_ref().ok().copied()).await.map_err(|none| match none {
        NoRoom::Database(error) => error.into(),
        NoRoom::Full => {
            let detail =
                "this deployment has no machine that can show the session by video, or none with free capacity";
            refused(TokenOutcome::NoMac, Problem::new(&kinds::FEATURE_UNAVAILABLE, detail))
        }
        NoRoom::Unreadable(error) => {
            tracing::error!(%error, "LiveKit secret was sealed with another key: see mfa.retired_encryption_keys");
            let detail = "this deployment lacks the key that the secret of the session's machine was sealed with";
            let unreadable = || Problem::new(&kinds::FEATURE_UNAVAILABLE, detail);
            refused(TokenOutcome::SecretUnreadable, vault.err().unwrap_or_else(unreadable))
        }
    })?;
    let now = workers::now(&mut conn).await?;
    let (token, expires_at) = place.token(id, caller.account_id, role, now);
    Ok(RoomAccess { token: token.reveal().to_owned(), url: place.livekit_url, room: id, expires_at })
}
