//! Sessions (contract: sessions): creating, reading and destroying them. Operations on a session are in [`operations`].

pub mod challenges;
mod dispatch;
mod downloads;
pub mod file_links;
pub mod live;
mod live_links;
mod operation_list;
pub mod operations;
mod problems;
mod recordings;
mod timeline;
mod trace_links;
mod wire;

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::sessions::creation::{self, CreateError, Created, NewSession, PlacementLimits};
use kitfleet_domain::sessions::intents::{self, IntentEnding};
use kitfleet_domain::sessions::{self, BehavioralProfile, Cause, Filter, SessionStatus};
use kitfleet_domain::teams::Role;
use kitfleet_domain::workers::Placement;
use kitfleet_jobs::browser;
use kitfleet_jobs::operations::wake;
use kitfleet_jobs::replies::{AwaitedOutcome, Waiter};
use kitfleet_types::emulation::Emulation;
use kitfleet_types::ids::{ApiKeyId, IntentId, ProfileId, ProxyId, SessionId};
use kitfleet_types::operations::{Failure, FailureClass, Outcome};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as UnknownStatus, StrDeserializer};
use sqlx::PgConnection;
use tokio::time::Instant;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn, ParameterStyle};
use utoipa::openapi::{ArrayBuilder, RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client_disconnect::ClientDisconnect;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Unchecked};
use crate::http::kinds;
use crate::http::lists::{self, CreatedWithin, Paging, Query};
use crate::http::metrics::{self, Refusal};
use crate::http::openapi::{Body, Creating, Database, InvalidQuery, NoSession, Restricted, query};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::proxies::{proxy_in_use, sealed_elsewhere};

pub use self::recordings::{parse_format, trace_response};
use wire::{CreateBody, SessionList};
pub use wire::{LaunchBody, Session, status};

const READ_SESSIONS: Rule = Rule::scope(Scope::ReadSessions).for_team(Role::Member).open_to_free_devices();
const WRITE_SESSIONS: Rule = Rule::scope(Scope::WriteSessions).for_team(Role::Admin).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_SESSIONS, routes!(create))
        .allow(READ_SESSIONS, routes!(list))
        .allow(READ_SESSIONS, routes!(get))
        .allow(WRITE_SESSIONS, routes!(destroy))
        .merge(operations::routes())
        .merge(downloads::routes())
        .merge(challenges::routes())
        .merge(live::routes())
        .merge(live_links::routes())
        .merge(operation_list::routes())
        .merge(timeline::routes())
        .merge(recordings::routes())
        .merge(trace_links::routes())
}

/// Create a session
///
/// Opens a mobile browser of the chosen archetype and returns when it is ready. The session occupies one of the account's
/// concurrent slots until it is destroyed or errored. With a `profile_id` the session starts with the profile's data, and its
/// data is saved back to the profile when it ends. A profile can have one live session at a time. If all browsers are taken, the
/// request waits up to `wait_timeout_ms` for a free one; waiting accounts are served in turn. A raw `proxy` is rejected: customer
/// egress is configured through an agent session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "Sessions", operation_id = "createSession",
    request_body = CreateBody,
    responses(
        (status = 201, description = "The session, ready", body = Session,
         headers(("Location" = String, description = "The session's path"))),
        Restricted, Body, Creating,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    disconnect: ClientDisconnect,
    body: Result<Unchecked<CreateBody>>,
) -> Result<CreatedSession> {
    require_no_egress_policy(&app)?;
    let body = body?;
    let profile = body.named(|body| body.profile_id.as_ref()).map(|profile| profile.authorize(&caller)).transpose()?;
    let body = body.check(|body| body.check(&app.config.limits))?;
    let profile = profile.map(|profile| profile.id()).transpose()?;
    open(&app, &caller, &disconnect, body, profile).await
}

/// Creates a session from a profile; the body supplies the other parameters.
///
/// # Errors
/// The same as for a direct create.
pub async fn launch(
    app: &App,
    caller: &Caller,
    disconnect: &ClientDisconnect,
    profile: &IdPath<ProfileId>,
    body: Result<Unchecked<LaunchBody>>,
) -> Result<CreatedSession> {
    require_no_egress_policy(app)?;
    let body = body?.check(|body| CreateBody::from(body).check(&app.config.limits))?;
    open(app, caller, disconnect, body, Some(profile.id()?)).await
}

/// Contract: sessions 4. If the deployment requires customer egress, a direct create fails for every body, because it has no
/// egress route.
fn require_no_egress_policy(app: &App) -> Result<()> {
    if app.config.require_customer_egress {
        let message = "this deployment requires customer egress, which a direct create cannot provide; use an agent \
                       session with a saved proxy";
        return Err(Problem::invalid("proxy_id", message));
    }
    Ok(())
}

/// Response to a create: status, `Location` and session.
pub type CreatedSession = (StatusCode, [(HeaderName, String); 1], Answer<Session>);

/// Opens a browser for a validated body and returns the session when the browser is ready.
async fn open(
    app: &App,
    caller: &Caller,
    disconnect: &ClientDisconnect,
    (body, emulation): (CreateBody, Emulation),
    profile: Option<ProfileId>,
) -> Result<CreatedSession> {
    let params = body.params();
    let new = NewSession {
        account_id: caller.account_id,
        api_key_id: caller.api_key_id(),
        archetype: params.archetype,
        purpose: params.purpose(),
        behavioral_profile: body.behavioral_profile.unwrap_or(BehavioralProfile::Regular),
        label: params.label,
        metadata: body.metadata.clone(),
        profile,
        detect_challenges: app.config.detect_challenges && body.detect_challenges.unwrap_or(true),
        emulation: &emulation,
        dialogs: body.dialogs.unwrap_or_default(),
        record: body.record.unwrap_or(app.config.record_by_default),
        proxy: None,
    };
    let (created, waiter) = place(app, caller, disconnect, &new, params.patience()).await?;
    let id = created.session.id;
    let session = match until_open(app, &created, waiter).await? {
        Some(at) => created.session.opened(at).into(),
        None => read(app, caller, id).await?,
    };
    Ok((StatusCode::CREATED, [(LOCATION, format!("/v1/sessions/{id}"))], Answer(session)))
}

/// Wakes the worker of a committed session and waits until its browser is open. Returns the time at which it opened, or `None` if
/// it opened just as the wait ended.
///
/// # Errors
/// If the browser does not open. The session is then errored.
pub async fn until_open(app: &App, created: &Created, mut waiter: Waiter) -> Result<Option<Timestamp>> {
    tracing::Span::current().record("session", tracing::field::display(created.session.id));
    wake(&app.wakeups, created.worker);
    match waiter.outcome(app.config.open_timeout, None).await? {
        AwaitedOutcome::Ended(ending, _) => match *ending {
            IntentEnding { outcome: Outcome::Done, done_at, .. } => Ok(done_at),
            other => Err(dispatch::refusal(other.outcome)),
        },
        AwaitedOutcome::Crowded(not_yet) => Err(not_yet.into()),
        AwaitedOutcome::Nothing => give_up(app, created).await?.map_or(Ok(None), |failure| Err(failure.into())),
    }
}

/// Creates a session as soon as a slot is free, and subscribes to the outcome of its opening. Requests that already wait come
/// first (contract: sessions 24), and a caller that has disconnected takes no slot.
async fn place(
    app: &App,
    caller: &Caller,
    disconnect: &ClientDisconnect,
    new: &NewSession<'_>,
    patience: Option<Duration>,
) -> Result<(Created, Waiter)> {
    let placement = Some(app.config.placement);
    let first = try_to_place(app, caller, new, placement.filter(|_| app.wait_queue.is_empty())).await;
    let Err(full @ CreateError::CapacityExhausted) = first else { return Ok(first?) };
    let Some(patience) = patience else { return Err(capacity_problem(full)) };
    let mut waiting = app.wait_queue.enter(caller.account_id, Instant::now() + patience)?;
    loop {
        waiting.turn(disconnect).await?;
        match try_to_place(app, caller, new, placement).await {
            Err(CreateError::CapacityExhausted) => {}
            ended => return Ok(ended?),
        }
    }
}

async fn try_to_place(
    app: &App,
    caller: &Caller,
    new: &NewSession<'_>,
    placement: Option<Placement>,
) -> Result<(Created, Waiter), CreateError> {
    take_slot(app, caller, &mut *app.db.acquire().await?, new, placement).await
}

/// Creates a session in the caller's transaction if a slot is free now. Requests that wait in the queue come first.
///
/// # Errors
/// If no slot is free.
pub async fn take_place(
    app: &App,
    caller: &Caller,
    conn: &mut PgConnection,
    new: &NewSession<'_>,
) -> Result<(Created, Waiter), CreateError> {
    take_slot(app, caller, conn, new, Some(app.config.placement).filter(|_| app.wait_queue.is_empty())).await
}

async fn take_slot(
    app: &App,
    caller: &Caller,
    conn: &mut PgConnection,
    new: &NewSession<'_>,
    placement: Option<Placement>,
) -> Result<(Created, Waiter), CreateError> {
    let limits = PlacementLimits { allowed: &app.config.limits.concurrent_sessions, placement };
    let intent = IntentId::generate();
    let (waiter, reply_to) = (app.replies.expect(intent), app.replies.address(&caller.request_id));
    let created = creation::create(conn, new, limits, &caller.actor, (intent, reply_to)).await?;
    Ok((created, waiter))
}

/// Problem for a create that finds all browsers taken and does not wait. It is counted as a refusal.
pub fn capacity_problem(full: CreateError) -> Problem {
    metrics::count_refusal(Refusal::Full);
    full.into()
}

/// Errors a session whose browser did not open in time. The caller does not know the session's ID, so no client could free its
/// slot. Returns `None` if the browser has opened in the meantime.
async fn give_up(app: &App, created: &Created) -> Result<Option<Failure>> {
    let failure = Failure { class: FailureClass::Timeout, detail: "the browser did not open in time".to_owned() };
    let outcome = Outcome::Failed { failure: failure.clone() };
    let ended = intents::finish(&mut *app.db.acquire().await?, created.intent, &outcome.into()).await?;
    Ok(ended.map(|_nobody_else_waits| {
        browser::close(&app.wakeups, created.worker);
        failure
    }))
}

/// Status filter of the list, for the contract.
struct ByStatus;

impl IntoParams for ByStatus {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let statuses = RefOr::T(Schema::Array(ArrayBuilder::new().items(wire::status()).min_items(Some(1)).build()));
        let what = "Only sessions of these statuses, separated by commas, such as `ready,busy`";
        let statuses = query("status", what, statuses).style(Some(ParameterStyle::Form)).explode(Some(false));
        vec![statuses.build()]
    }
}

/// Filters of the list, as they were given.
struct ListFilters<'a> {
    statuses: Vec<SessionStatus>,
    label: Option<&'a str>,
    archetype: Option<&'a str>,
    profile: Option<ProfileId>,
    api_key: Option<ApiKeyId>,
    created: (Option<Timestamp>, Option<Timestamp>),
}

impl<'a> ListFilters<'a> {
    fn read(query: &'a Query) -> Result<Self, Invalid> {
        let statuses = query.parsed("status", parse_statuses).map(Option::unwrap_or_default);
        let texts = both(query.text("label"), query.text("archetype"));
        let ids = both(query.id("profile_id"), query.id("api_key_id"));
        let created = both(query.time("created_after"), query.time("created_before"));
        let ((statuses, (label, archetype)), ((profile, api_key), created)) =
            both(both(statuses, texts), both(ids, created))?;
        Ok(Self { statuses, label, archetype, profile, api_key, created })
    }
}

/// List sessions
///
/// Returns the account's sessions, newest first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "Sessions", operation_id = "listSessions",
    params(
        Paging, ByStatus,
        ("label" = Option<String>, Query, description = "Only sessions with exactly this label"),
        ("archetype" = Option<String>, Query, description = "Only sessions of this archetype", example = "iphone-16-ios-18"),
        ("profile_id" = Option<String>, Query, description = "Only sessions that started from this profile",
         example = "prof_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5"),
        ("api_key_id" = Option<String>, Query, description = "Only sessions that this API key created",
         example = "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5"),
        CreatedWithin,
    ),
    responses((status = 200, description = "A page", body = SessionList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<SessionList>> {
    let given = query.filters(ListFilters::read(&query), &app.config.limits)?;
    let account = caller.account_id;
    let texts = ["status", "label", "archetype", "profile_id", "api_key_id", "created_after", "created_before"];
    let filters = texts.map(|name| query.text(name).ok().flatten());
    let scope = CursorScope { account, list: "sessions", filters: &filters };
    let id_of = |session: &sessions::Session| session.id.as_uuid();
    let bytes_of = |session: &sessions::Session| {
        let emulation = session.emulation.as_ref().map_or(0, |emulation| emulation.weight());
        let dialog = session.dialog.as_ref().map_or(0, |dialog| dialog.message.len());
        session.metadata.as_ref().map_or(0, String::len) + emulation + dialog
    };
    let page = lists::page_within_bytes(&app, &query, scope, id_of, bytes_of, async |conn, after, limit| {
        let filter = Filter {
            statuses: &given.statuses,
            label: given.label,
            archetype: given.archetype,
            profile: given.profile,
            api_key: given.api_key,
            created_after: given.created.0,
            created_before: given.created.1,
            after: after.map(SessionId::from),
        };
        sessions::list(conn, account, filter, limit).await
    });
    Ok(Answer(page.await?.map(Session::from)))
}

/// Separated by commas.
fn parse_statuses(text: &str) -> Result<Vec<SessionStatus>, Invalid> {
    text.split(',').map(parse_status).collect()
}

/// Parses a session status.
///
/// # Errors
/// On field `status`, if the name is unknown.
pub fn parse_status(text: &str) -> Result<SessionStatus, Invalid> {
    let deserializer: StrDeserializer<'_, UnknownStatus> = text.into_deserializer();
    SessionStatus::deserialize(deserializer)
        .map_err(|_| Invalid::field("status", "must be one of creating, ready, busy, destroyed, errored"))
}

/// Get a session
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "Sessions", operation_id = "getSession",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The session", body = Session), Restricted, NoSession, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Answer<Session>> {
    Ok(Answer(read(&app, &caller, path.id()?).await?))
}

async fn read(app: &App, caller: &Caller, id: SessionId) -> Result<Session> {
    let mut conn = app.db.acquire().await?;
    let session = sessions::find(&mut conn, caller.account_id, id).await?;
    session.map(Session::from).ok_or_else(not_found::<SessionId>)
}

/// Destroy a session
///
/// Frees the session's slot immediately. An operation in progress fails with 410. Destroying a session again has no effect.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "Sessions", operation_id = "destroySession",
    params(IdPath<SessionId>),
    responses((status = 204, description = "The session is destroyed, or was already terminal"), Restricted, NoSession, Database),
)]
async fn destroy(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let session = path.id()?;
    let cause = Cause::Customer(caller.actor.clone());
    let destroyed = sessions::destroy(&mut *app.db.acquire().await?, caller.account_id, session, &cause).await?;
    browser::notify_destroyed(&app.wakeups, destroyed.ok_or_else(not_found::<SessionId>)?);
    app.wait_queue.wake_next();
    Ok(StatusCode::NO_CONTENT)
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Profile(error) => error.into(),
            CreateError::NoProxy => not_found::<ProxyId>(),
            CreateError::ProxyInUse(user) => proxy_in_use(&error, user),
            CreateError::ProxySealed(error) => sealed_elsewhere(error),
            CreateError::ConcurrencyLimit { current, limit } => Self::new(&kinds::CONCURRENCY_LIMIT, error.to_string())
                .with("current_sessions", current)
                .with("limit", limit),
            CreateError::AccountSuspended => Self::account_suspended(),
            CreateError::CapacityExhausted => Self::capacity_exhausted(error.to_string()),
            CreateError::NoWorker => Self::new(&kinds::DRIVER_NOT_INTEGRATED, "no worker is available"),
            CreateError::WorkersSilent => problems::worker_silent(),
            CreateError::Database(error) => error.into(),
        }
    }
}
