//! Making agent sessions (contract: agents 1 to 6).

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use kitfleet_domain::agents::creates::{self, Answered, Create};
use kitfleet_domain::agents::{self, NewAgentSession};
use kitfleet_domain::ids::{AgentSessionId, ProfileId, ProxyId, SessionId};
use kitfleet_domain::sessions::{self as rows, BehavioralProfile, CreateError, NewSession, SessionStatus};
use tokio::time::{Instant, sleep};
use utoipa_axum::routes;

use super::wire::{AgentSession, CreateBody, UsedResources};
use super::{WRITE_AGENTS, read};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::{AGENT_SESSIONS, Given, IdempotencyKey};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::openapi::{AgentElsewhere, AgentRoom, Body, Creating, Restricted};
use crate::http::resource_ref::ResourceRef;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions;

/// Where they are made.
const PATH: &str = "/v1/agent-sessions";
/// How often somebody who repeats a create looks whether the first one was answered.
const LOOK: Duration = Duration::from_millis(50);
/// How long beyond the opening of a browser.
const GRACE: Duration = Duration::from_secs(10);
/// How long whoever opened it has for the answer when it is open.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_AGENTS, routes!(create))
}

/// Create an agent session
///
/// Opens a browser of the chosen archetype, as a session is created, and answers when it is ready. It occupies one of the
/// account's concurrent slots until the agent session is closed. With an `Idempotency-Key` the same request can be sent again: it
/// makes nothing more, and has the answer of the first, a refusal included.
#[utoipa::path(
    post, path = "/v1/agent-sessions", tag = "Agent sessions", operation_id = "createAgentSession",
    params(IdempotencyKey), request_body = CreateBody,
    responses(
        (status = 201, description = "The agent session, whose browser is ready", body = AgentSession,
         headers(("Location" = String, description = "The agent session's path"))),
        Restricted, Body, Creating, AgentElsewhere, AgentRoom,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    body: Result<Unchecked<CreateBody>>,
) -> Result<Response> {
    // Before a replay, too: a key that may not use a profile does not receive the session of one that may.
    let request = match body {
        Ok(body) => Ok((
            UsedResources::authorize(
                &caller,
                body.named(|body| body.profile_id.as_ref()),
                body.named(|body| body.proxy_id.as_ref()),
            )?,
            body,
        )),
        Err(problem) => Err(problem),
    };
    let Some(key) = key else {
        let made = make(&app, &caller, request, None).await?;
        let New { id, opened } = made.ok_or_else(|| Problem::internal(&"somebody else has no key"))?;
        opened?;
        return Ok(answer(id, Given::of(StatusCode::CREATED, &read(&app, &caller, id).await?)?));
    };
    // Whatever the second request says, it has the answer of the first.
    if let Some(found) = repeated(&app, &caller, &key).await? {
        return Ok(found);
    }
    let (given, made) = match make(&app, &caller, request, Some(&key)).await {
        Ok(None) => return repeated(&app, &caller, &key).await?.ok_or_else(in_progress),
        Ok(Some(New { id, opened: Ok(()) })) => {
            (Given::of(StatusCode::CREATED, &read(&app, &caller, id).await?)?, true)
        }
        // It may be open in a moment, and whoever asks again hears of that.
        Ok(Some(New { opened: Err(problem), .. })) if problem.may_pass() => return Err(problem),
        Ok(Some(New { opened: Err(problem), .. })) => (Given::problem(&app, problem, PATH, &caller.request_id), true),
        // What may pass is no answer for ever, and what is wrong with the request itself was not tried.
        Err(problem) if !matches!(problem.status().as_u16(), 404 | 409 | 429) => return Err(problem),
        Err(problem) => (Given::problem(&app, problem, PATH, &caller.request_id), false),
    };
    keep(&app, &caller, &key, given, made).await
}

/// An agent session that was made.
struct New {
    id: AgentSessionId,
    /// Whether its browser is open, or why not.
    opened: Result<()>,
}

/// Makes an agent session, and waits until its browser is open. `None` when the key is somebody else's by now.
async fn make(
    app: &App,
    caller: &Caller,
    request: Result<(UsedResources, Unchecked<CreateBody>)>,
    key: Option<&str>,
) -> Result<Option<New>> {
    let (used, body) = request?;
    let (body, token_budget) =
        body.check(|body| body.check(&app.config.agents, &app.config.limits).map(|budget| (body, budget)))?;
    if used.proxy.is_none() && app.config.require_customer_egress {
        let message = "this deployment requires customer egress; name a saved proxy";
        return Err(Problem::invalid("proxy_id", message));
    }
    let profile = used.profile.map(|profile| profile.id()).transpose()?;
    let proxy = used.proxy.map(|proxy| proxy.id()).transpose()?;
    let wishes = body.wishes();
    let driver = NewSession {
        account_id: caller.account_id,
        api_key_id: caller.api_key_id(),
        archetype: wishes.archetype,
        purpose: wishes.purpose(),
        behavioral_profile: BehavioralProfile::Regular,
        label: wishes.label,
        metadata: None,
        profile,
        detect_challenges: app.config.detect_challenges && body.detect_challenges.unwrap_or(true),
        proxy: proxy.map(|id| Ok::<_, Problem>((id, app.vault()?))).transpose()?,
    };
    let (id, account) = (AgentSessionId::generate(), caller.account_id);
    let new = NewAgentSession { id, account, mode: body.mode.unwrap_or_default(), token_budget };
    let mut tx = app.db.begin().await?;
    if let Some(key) = key
        && !creates::reserve(&mut tx, account, key, id).await?
    {
        return Ok(None);
    }
    let (created, waiter) = match sessions::take_place(app, caller, &mut tx, &driver).await {
        Err(full @ CreateError::CapacityExhausted) => return Err(sessions::refused_for_room(full)),
        created => created?,
    };
    // The account is locked by now.
    agents::require_room(&mut tx, account, &app.config.limits).await??;
    agents::create(&mut tx, &new, created.session.id, &caller.actor).await?;
    tx.commit().await?;
    let opened = sessions::until_open(app, &created, waiter).await.map(drop);
    Ok(Some(New { id, opened }))
}

/// Keeps an answer, and gives what is kept: somebody may have been faster.
async fn keep(app: &App, caller: &Caller, key: &str, given: Given, made: bool) -> Result<Response> {
    let answered = Answered { status: given.status.as_u16(), body: given.body.clone() };
    let mut conn = app.db.acquire().await?;
    if made {
        creates::answer(&mut conn, caller.account_id, key, &answered).await?;
    } else {
        creates::refuse(&mut conn, caller.account_id, key, &answered, app.config.limits.refused_creates).await?;
    }
    drop(conn);
    // Of very many refusals the newest are kept, and this one may not be among them any more.
    match repeated(app, caller, key).await? {
        Some(kept) => Ok(kept),
        None => replay(caller, &answered),
    }
}

/// What the first request of this key was answered, as soon as that is known. `None` when there was none.
async fn repeated(app: &App, caller: &Caller, key: &str) -> Result<Option<Response>> {
    let deadline = Instant::now() + app.config.open_timeout + GRACE;
    let mut settled = None;
    loop {
        let mut conn = app.db.acquire().await?;
        let (id, driver) = match creates::find(&mut conn, caller.account_id, key).await? {
            None => return Ok(None),
            Some(Create::Answered(answered)) => return replay(caller, &answered).map(Some),
            Some(Create::Opening { id, driver }) => (id, driver),
        };
        // Whoever made it may have died before it was answered.
        let standing = rows::find(&mut conn, caller.account_id, driver).await?.map(|driver| driver.status);
        drop(conn);
        if Instant::now() > deadline {
            return Err(in_progress());
        }
        let opens = standing == Some(SessionStatus::Creating);
        if opens || settled.get_or_insert_with(Instant::now).elapsed() < ANSWERED_WITHIN {
            sleep(LOOK).await;
            continue;
        }
        let given = match standing {
            Some(SessionStatus::Ready | SessionStatus::Busy) => {
                Given::of(StatusCode::CREATED, &read(app, caller, id).await?)?
            }
            _ => Given::problem(app, not_opened(driver), PATH, &caller.request_id),
        };
        let answered = Answered { status: given.status.as_u16(), body: given.body };
        creates::answer(&mut *app.db.acquire().await?, caller.account_id, key, &answered).await?;
    }
}

fn not_opened(driver: SessionId) -> Problem {
    Problem::new(&kinds::DRIVER_ERROR, format!("the driver session {driver} did not open"))
}

/// Somebody else makes it, and takes long.
fn in_progress() -> Problem {
    let detail = "another request with this Idempotency-Key is under way";
    Problem::new(&kinds::CONFLICT, detail).with("idempotency_status", "in_progress")
}

fn replay(caller: &Caller, answered: &Answered) -> Result<Response> {
    let status = StatusCode::from_u16(answered.status).map_err(|error| Problem::internal(&error))?;
    let given = Given { status, body: answered.body.clone() };
    let made = serde_json::from_str::<Made>(&answered.body).ok().filter(|_| status == StatusCode::CREATED);
    let replayed = AGENT_SESSIONS.replay(given);
    Ok(match made {
        Some(Made { id, profile_id, proxy_id }) => {
            UsedResources::authorize(caller, profile_id.as_ref(), proxy_id.as_ref())?;
            answer(id, replayed)
        }
        None => replayed,
    })
}

/// What an answer says of the agent session: where it is, and what it uses.
#[derive(serde::Deserialize)]
struct Made {
    id: AgentSessionId,
    profile_id: Option<ResourceRef<ProfileId>>,
    proxy_id: Option<ResourceRef<ProxyId>>,
}

fn answer(id: AgentSessionId, given: impl IntoResponse) -> Response {
    ([(LOCATION, format!("{PATH}/{id}"))], given).into_response()
}
