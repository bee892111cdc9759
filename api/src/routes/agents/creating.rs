//! Creating agent sessions (contract: agents 1 to 6).

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use kitfleet_domain::account_share;
use kitfleet_domain::agents::creates::{self, Answered, Create};
use kitfleet_domain::agents::{self, Mode, NewAgentSession};
use kitfleet_domain::sessions::creation::{CreateError, NewSession};
use kitfleet_domain::sessions::{self as rows, BehavioralProfile, SessionStatus};
use kitfleet_types::ids::{AgentSessionId, ProfileId, ProxyId, SessionId};
use kitfleet_types::operations::DialogPolicy;
use tokio::time::{Instant, sleep};
use utoipa_axum::routes;

use super::wire::{AgentSession, CreateBody, UsedResources};
use super::{WRITE_AGENTS, read};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::{AGENT_SESSIONS, IdempotencyKey, StoredResponse};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::openapi::{AgentElsewhere, AgentRoom, Body, Creating, Restricted};
use crate::http::resource_ref::ResourceRef;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions;

/// Path of the collection.
const PATH: &str = "/v1/agent-sessions";
/// Polling interval of a repeated create that waits for the first response.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that a repeated create waits beyond the timeout for opening a browser.
const GRACE: Duration = Duration::from_secs(10);
/// Time the first request has to store its response after its browser opened.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_AGENTS, routes!(create))
}

/// Create an agent session
///
/// Opens a browser of the chosen archetype, as for a session, and returns when it is ready. The agent session occupies one of the
/// account's concurrent slots until it is closed. A request with an `Idempotency-Key` can be repeated: it creates nothing more
/// and returns the first response, even if that was an error.
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
    // Authorize before a replay, too: a key without access to a profile must not receive the session of a key with access.
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
        let New { id, opened } =
            made.ok_or_else(|| Problem::internal(&"a create without an idempotency key found its key taken"))?;
        opened?;
        return Ok(answer(id, StoredResponse::of(StatusCode::CREATED, &read(&app, &caller, id).await?)?));
    };
    // The stored response is returned, whatever the second request contains.
    if let Some(found) = repeated(&app, &caller, &key).await? {
        return Ok(found);
    }
    let (given, made) = match make(&app, &caller, request, Some(&key)).await {
        Ok(None) => return repeated(&app, &caller, &key).await?.ok_or_else(in_progress),
        Ok(Some(New { id, opened: Ok(()) })) => {
            (StoredResponse::of(StatusCode::CREATED, &read(&app, &caller, id).await?)?, true)
        }
        // The browser may still open. A repeated request then reads the outcome.
        Ok(Some(New { opened: Err(problem), .. })) if problem.is_transient() => return Err(problem),
        Ok(Some(New { opened: Err(problem), .. })) => {
            (StoredResponse::problem(&app, problem, PATH, &caller.request_id), true)
        }
        // Store only 404, 409 and 429. Other errors are temporary, or the request is invalid and was not attempted.
        Err(problem) if !matches!(problem.status().as_u16(), 404 | 409 | 429) => return Err(problem),
        Err(problem) => (StoredResponse::problem(&app, problem, PATH, &caller.request_id), false),
    };
    keep(&app, &caller, &key, given, made).await
}

/// Agent session that was created.
struct New {
    id: AgentSessionId,
    /// `Ok` if its browser opened, otherwise the problem.
    opened: Result<()>,
}

/// Creates an agent session and waits until its browser is open. Returns `None` if another request has taken the key.
async fn make(
    app: &App,
    caller: &Caller,
    request: Result<(UsedResources, Unchecked<CreateBody>)>,
    key: Option<&str>,
) -> Result<Option<New>> {
    let (used, body) = request?;
    let (body, (token_budget, emulation)) = body.check(|mut body| {
        let checked = body.check(&app.config.agents, &app.config.limits)?;
        Ok((body, checked))
    })?;
    if used.proxy.is_none() && app.config.require_customer_egress {
        let message = "this deployment requires customer egress; set a saved proxy";
        return Err(Problem::invalid("proxy_id", message));
    }
    let profile = used.profile.map(|profile| profile.id()).transpose()?;
    let proxy = used.proxy.map(|proxy| proxy.id()).transpose()?;
    let mode = body.mode.unwrap_or_default();
    // Messages can answer a dialog, and can therefore hold it.
    let by_default = if mode == Mode::Manual { DialogPolicy::Dismiss } else { DialogPolicy::Hold };
    let params = body.params();
    let driver = NewSession {
        account_id: caller.account_id,
        api_key_id: caller.api_key_id(),
        archetype: params.archetype,
        purpose: params.purpose(),
        behavioral_profile: BehavioralProfile::Regular,
        label: params.label,
        metadata: None,
        profile,
        detect_challenges: app.config.detect_challenges && body.detect_challenges.unwrap_or(true),
        emulation: &emulation,
        dialogs: body.dialogs.unwrap_or(by_default),
        record: body.record.unwrap_or(app.config.record_by_default),
        proxy: proxy.map(|id| Ok::<_, Problem>((id, app.vault()?))).transpose()?,
    };
    let (id, account) = (AgentSessionId::generate(), caller.account_id);
    let new = NewAgentSession { id, account, mode, token_budget };
    let mut tx = app.db.begin().await?;
    if let Some(key) = key
        && !creates::reserve(&mut tx, account, key, id).await?
    {
        return Ok(None);
    }
    let (created, waiter) = match sessions::take_place(app, caller, &mut tx, &driver).await {
        Err(full @ CreateError::CapacityExhausted) => return Err(sessions::capacity_problem(full)),
        created => created?,
    };
    // `take_place` has locked the account.
    agents::require_space(&mut tx, account, &app.config.limits).await??;
    agents::create(&mut tx, &new, created.session.id, &caller.actor).await?;
    tx.commit().await?;
    let opened = sessions::until_open(app, &created, waiter).await.map(drop);
    Ok(Some(New { id, opened }))
}

/// Stores a response and returns the stored one: another request may have stored its response first.
async fn keep(app: &App, caller: &Caller, key: &str, given: StoredResponse, made: bool) -> Result<Response> {
    let answered = Answered { status: given.status.as_u16(), body: given.body.clone() };
    let mut conn = app.db.acquire().await?;
    if made {
        creates::answer(&mut conn, caller.account_id, key, &answered).await?;
    } else {
        creates::refuse(&mut conn, caller.account_id, key, &answered, app.config.limits.refused_creates).await?;
    }
    drop(conn);
    // Only the newest refusals are stored, so this one may already have been deleted.
    match repeated(app, caller, key).await? {
        Some(kept) => Ok(kept),
        None => replay(caller, &answered),
    }
}

/// Response to the first request with this key, once it is known. `None` if there was no such request.
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
        // The process that created it may have died before it stored a response.
        let driver_status = rows::find(&mut conn, caller.account_id, driver).await?.map(|driver| driver.status);
        drop(conn);
        if Instant::now() > deadline {
            return Err(in_progress());
        }
        let opens = driver_status == Some(SessionStatus::Creating);
        if opens || settled.get_or_insert_with(Instant::now).elapsed() < ANSWERED_WITHIN {
            account_share::release();
            sleep(POLL_INTERVAL).await;
            continue;
        }
        let given = match driver_status {
            Some(SessionStatus::Ready | SessionStatus::Busy) => {
                StoredResponse::of(StatusCode::CREATED, &read(app, caller, id).await?)?
            }
            _ => StoredResponse::problem(app, not_opened(driver), PATH, &caller.request_id),
        };
        let answered = Answered { status: given.status.as_u16(), body: given.body };
        creates::answer(&mut *app.db.acquire().await?, caller.account_id, key, &answered).await?;
    }
}

fn not_opened(driver: SessionId) -> Problem {
    Problem::new(&kinds::DRIVER_ERROR, format!("the driver session {driver} did not open"))
}

/// Another request is creating the agent session and takes long.
fn in_progress() -> Problem {
    let detail = "another request with this Idempotency-Key is in progress";
    Problem::new(&kinds::CONFLICT, detail).with("idempotency_status", "in_progress")
}

fn replay(caller: &Caller, answered: &Answered) -> Result<Response> {
    let status = StatusCode::from_u16(answered.status).map_err(|error| Problem::internal(&error))?;
    let given = StoredResponse { status, body: answered.body.clone() };
    let made =
        serde_json::from_str::<CreatedAgentSession>(&answered.body).ok().filter(|_| status == StatusCode::CREATED);
    let replayed = AGENT_SESSIONS.replay(given);
    Ok(match made {
        Some(CreatedAgentSession { id, profile_id, proxy_id }) => {
            UsedResources::authorize(caller, profile_id.as_ref(), proxy_id.as_ref())?;
            answer(id, replayed)
        }
        None => replayed,
    })
}

/// Agent session in a create response, with the resources it uses.
#[derive(serde::Deserialize)]
struct CreatedAgentSession {
    id: AgentSessionId,
    profile_id: Option<ResourceRef<ProfileId>>,
    proxy_id: Option<ResourceRef<ProxyId>>,
}

fn answer(id: AgentSessionId, given: impl IntoResponse) -> Response {
    ([(LOCATION, format!("{PATH}/{id}"))], given).into_response()
}
