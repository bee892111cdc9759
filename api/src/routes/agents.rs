//! Agent sessions (contract: agents): creating, reading and closing them, and control of their browsers.

mod approvals;
mod creating;
mod files;
mod lanes;
mod livekit;
mod messages;
mod wire;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::agents::{self, AgentStatus, Filter, TooManyBytes};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::teams::Role;
use kitfleet_jobs::{agents as jobs, browser};
use kitfleet_types::ids::AgentSessionId;
use kitfleet_types::validation::{Invalid, both};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::lists::{self, Paging, Query};
use crate::http::openapi::{AgentElsewhere, Database, InvalidQuery, NoAgentSession, Restricted, query};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

use wire::{AgentSession, AgentSessionList};

/// A conversation reveals as much as the browser does, so a team member with read-only access to an account may not read it.
const READ_AGENTS: Rule = Rule::scope(Scope::ReadAgents).for_team(Role::Admin).open_to_free_devices();
const WRITE_AGENTS: Rule = Rule::scope(Scope::WriteAgents).for_team(Role::Admin).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .merge(approvals::routes())
        .merge(creating::routes())
        .merge(files::routes())
        .allow(READ_AGENTS, routes!(list))
        .allow(READ_AGENTS, routes!(get))
        .allow(WRITE_AGENTS, routes!(close))
        .merge(lanes::routes())
        .merge(livekit::routes())
        .merge(messages::routes())
}

/// Status filter of the list, for the contract.
struct ByStatus;

impl IntoParams for ByStatus {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![query("status", "Only agent sessions of this status", wire::status()).build()]
    }
}

/// List agent sessions
///
/// Returns the account's agent sessions, newest first.
#[utoipa::path(
    get, path = "/v1/agent-sessions", tag = "Agent sessions", operation_id = "listAgentSessions",
    params(
        Paging, ByStatus,
        ("label" = Option<String>, Query, description = "Only agent sessions with exactly this label"),
    ),
    responses((status = 200, description = "A page", body = AgentSessionList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<AgentSessionList>> {
    let filters = both(query.parsed("status", parse_status), query.text("label"));
    let (status, label) = query.filters(filters, &app.config.limits)?;
    let account = caller.account_id;
    let filters = [status.map(AgentStatus::name), label];
    let scope = CursorScope { account, list: "agent-sessions", filters: &filters };
    let id_of = |session: &agents::AgentSession| session.id.as_uuid();
    let patience = app.config.agents.heartbeat_timeout;
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        let filter = Filter { status, label, after: after.map(AgentSessionId::from) };
        agents::list(conn, account, filter, patience, limit).await
    });
    Ok(Answer(page.await?.map(AgentSession::from)))
}

fn parse_status(text: &str) -> Result<AgentStatus, Invalid> {
    let known = [AgentStatus::Active, AgentStatus::Closed].into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| Invalid::field("status", "must be active or closed"))
}

/// Get an agent session
#[utoipa::path(
    get, path = "/v1/agent-sessions/{id}", tag = "Agent sessions", operation_id = "getAgentSession",
    params(IdPath<AgentSessionId>),
    responses((status = 200, description = "The agent session", body = AgentSession), Restricted, NoAgentSession, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<AgentSessionId>) -> Result<Answer<AgentSession>> {
    Ok(Answer(read(&app, &caller, path.id()?).await?))
}

async fn read(app: &App, caller: &Caller, id: AgentSessionId) -> Result<AgentSession> {
    let mut conn = app.db.acquire().await?;
    let session = agents::find(&mut conn, caller.account_id, id, app.config.agents.heartbeat_timeout).await?;
    session.map(AgentSession::from).ok_or_else(not_found::<AgentSessionId>)
}

/// Close an agent session
///
/// Destroys its driver session, which frees the slot immediately. A turn in progress ends without another step. Closing an agent
/// session again has no effect. With `purge=true` the agent session is also deleted, with its transcript, its receipts and its
/// idempotency key. It then no longer counts toward the account's quota. A purge fails with 409 while the last turn is still
/// ending.
#[utoipa::path(
    delete, path = "/v1/agent-sessions/{id}", tag = "Agent sessions", operation_id = "closeAgentSession",
    params(
        IdPath<AgentSessionId>,
        ("purge" = Option<bool>, Query, description = "`true` deletes the agent session with its transcript"),
    ),
    responses(
        (status = 204, description = "The agent session is closed, or was already closed"),
        Restricted, InvalidQuery, NoAgentSession, AgentElsewhere, Database,
    ),
)]
async fn close(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    query: Query,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let id = path.id()?;
    let purge = match query.text("purge")? {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("purge", "must be true or false")),
    };
    let mut tx = app.db.begin().await?;
    let closed = jobs::close(&mut tx, caller.account_id, id, &caller.actor).await?;
    tx.commit().await?;
    if let Some(destroyed) = closed.ok_or_else(not_found::<AgentSessionId>)? {
        browser::notify_destroyed(&app.wakeups, destroyed);
    }
    app.wait_queue.wake_next();
    if purge {
        let mut conn = app.db.acquire().await?;
        let purged = agents::purge_closed(&mut conn, caller.account_id, id).await?;
        if !purged && agents::exists(&mut conn, caller.account_id, id).await? {
            let detail = "the agent session is closed, and its last turn is still ending; try again";
            return Err(Problem::new(&kinds::CONFLICT, detail));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

impl From<TooManyBytes> for Problem {
    fn from(error: TooManyBytes) -> Self {
        let TooManyBytes { current, limit } = error;
        Self::new(&kinds::AGENT_BYTES_LIMIT, error.to_string()).with("bytes", current).with("limit_bytes", limit)
    }
}
