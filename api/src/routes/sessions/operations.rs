//! Operations on a session.

mod bodies;
mod targets;

use axum::extract::State;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::ids::SessionId;
use kitfleet_domain::operations::{
    Capture, Captured, Condition, Extracted, Interacted, LoginResult, Navigate, Navigated, Operation, PageSnapshot,
    SearchResult, SessionState, Snapshot, StateCapture, Waited,
};
use kitfleet_domain::teams::Role;
use utoipa_axum::routes;

use super::WRITE_SESSIONS;
use super::driving::{self, Done};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{Json, Unchecked};
use crate::http::kinds;
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

use bodies::{CaptureBody, ExtractBody, InteractBody, LoginBody, NavigateBody, SearchBody, SnapshotBody, WaitBody};

/// Reading the state returns cookies and claims the session, so read access to another account's sessions does not suffice.
pub(super) const READ_STATE: Rule =
    Rule::scope(Scope::ReadSessions).for_team_with(Scope::WriteSessions, Role::Admin).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_SESSIONS, routes!(navigate))
        .allow(WRITE_SESSIONS, routes!(interact))
        .allow(WRITE_SESSIONS, routes!(wait))
        .allow(READ_STATE, routes!(state))
        .allow(WRITE_SESSIONS, routes!(capture))
        .allow(WRITE_SESSIONS, routes!(extract))
        .allow(WRITE_SESSIONS, routes!(snapshot))
        .allow(WRITE_SESSIONS, routes!(search))
        .allow(WRITE_SESSIONS, routes!(login))
}

/// Load a page
///
/// An HTTP error page counts as a success and is returned with its `status`. If the page cannot be reached (DNS, TLS, network),
/// the request fails with 502 and the session is errored.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/navigate", tag = "Sessions", operation_id = "navigateInSession",
    params(IdPath<SessionId>), request_body = NavigateBody,
    responses((status = 200, description = "The loaded page", body = Navigated), Restricted, Body, NoSession, Driving),
)]
async fn navigate(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<NavigateBody>,
) -> Result<Done> {
    let (destinations, limits) = (&app.config.destinations, &app.config.limits);
    let operation = body.check(|NavigateBody { url, wait_until, timeout_ms }| {
        Navigate::parse(url, wait_until.unwrap_or_default(), timeout_ms, destinations, limits)
    })?;
    driving::run(&app, &caller, path.id()?, Operation::Navigate(operation)).await
}

/// Tap, type, select, scroll, press a key, go back or reload
///
/// If several elements match, the action is not performed: the request fails with 400 and up to five `candidates`, and the
/// session stays `ready`. Typed text is sealed on its way to the browser: it is neither stored in plain text nor logged.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interact", tag = "Sessions", operation_id = "interactWithSession",
    params(IdPath<SessionId>), request_body = InteractBody,
    responses((status = 200, description = "The outcome of the action", body = Interacted), Restricted, Body, NoSession, Driving),
)]
async fn interact(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<InteractBody>,
) -> Result<Done> {
    let operation = body.check(|body| body.into_operation(&app.config.limits))?;
    driving::run(&app, &caller, path.id()?, Operation::Interact(operation)).await
}

/// Wait for an element, an address or a period of time
#[utoipa::path(
    post, path = "/v1/sessions/{id}/wait", tag = "Sessions", operation_id = "waitInSession",
    params(IdPath<SessionId>), request_body = WaitBody,
    responses((status = 200, description = "The outcome of the wait", body = Waited), Restricted, Body, NoSession, Driving),
)]
async fn wait(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<WaitBody>,
) -> Result<Done> {
    let operation = body.check(|body| body.into_operation(&app.config.limits))?;
    let session = path.id()?;
    if let Condition::UrlMatches { pattern } = &operation.condition {
        // Compiling the pattern takes time, so require a ready session first.
        driving::require_ready(&app, &caller, session).await?;
        app.patterns.compile(pattern).await?;
    }
    driving::run(&app, &caller, session, Operation::Wait(operation)).await
}

/// Read the session's state
///
/// Reads the state from the live browser, which claims the session like any other operation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/state", tag = "Sessions", operation_id = "getSessionState",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The state", body = SessionState), Restricted, NoSession, Driving),
)]
async fn state(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Done> {
    driving::run(&app, &caller, path.id()?, Operation::StateCapture(StateCapture {})).await
}

/// Capture a screenshot, the DOM or a PDF
#[utoipa::path(
    post, path = "/v1/sessions/{id}/capture", tag = "Sessions", operation_id = "captureInSession",
    params(IdPath<SessionId>), request_body = CaptureBody,
    responses((status = 200, description = "The capture", body = Captured), Restricted, Body, NoSession, Driving),
)]
async fn capture(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(body): Json<CaptureBody>,
) -> Result<Done> {
    let operation = Capture::new(body.kind, body.full_page.unwrap_or_default(), &app.config.limits);
    driving::run(&app, &caller, path.id()?, Operation::Capture(operation)).await
}

/// Extract values from the page
#[utoipa::path(
    post, path = "/v1/sessions/{id}/extract", tag = "Sessions", operation_id = "extractFromSession",
    params(IdPath<SessionId>), request_body = ExtractBody,
    responses((status = 200, description = "The values", body = Extracted), Restricted, Body, NoSession, Driving),
)]
async fn extract(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<ExtractBody>,
) -> Result<Done> {
    let operation = body.check(|body| body.into_operation(&app.config.limits))?;
    driving::run(&app, &caller, path.id()?, Operation::Extract(operation)).await
}

/// Take a snapshot of the page
///
/// Returns the page as assistive technology presents it: roles, names, states, and a `ref` that operations can use to address an
/// element. The value of a password field is never included.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/snapshot", tag = "Sessions", operation_id = "snapshotPageInSession",
    params(IdPath<SessionId>), request_body = SnapshotBody,
    responses((status = 200, description = "The snapshot", body = PageSnapshot), Restricted, Body, NoSession, Driving),
)]
async fn snapshot(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(SnapshotBody {}): Json<SnapshotBody>,
) -> Result<Done> {
    driving::run(&app, &caller, path.id()?, Operation::Snapshot(Snapshot::default())).await
}

/// Fill in and submit a search form
///
/// Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/search", tag = "Sessions", operation_id = "searchInSession",
    params(IdPath<SessionId>), request_body = SearchBody,
    responses((status = 200, description = "The outcome of the search", body = SearchResult), Restricted, Body, NoSession, Driving),
)]
async fn search(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Result<Unchecked<SearchBody>>,
) -> Result<Done> {
    require_real_driver(&app)?;
    let operation = body?.check(|body| body.into_operation(&app.config.limits))?;
    driving::run(&app, &caller, path.id()?, Operation::Search(operation)).await
}

/// Fill in and submit a login form
///
/// Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
/// The credentials are sealed on their way to the browser. `logged_in` is an estimate, not proof.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/login", tag = "Sessions", operation_id = "loginInSession",
    params(IdPath<SessionId>), request_body = LoginBody,
    responses((status = 200, description = "The outcome of the login", body = LoginResult), Restricted, Body, NoSession, Driving),
)]
async fn login(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Result<Unchecked<LoginBody>>,
) -> Result<Done> {
    require_real_driver(&app)?;
    let operation = body?.check(|body| body.into_operation(&app.config.limits))?;
    driving::run(&app, &caller, path.id()?, Operation::Login(operation)).await
}

/// This check precedes all other checks of the request (contract: operations 25).
fn require_real_driver(app: &App) -> Result<()> {
    if app.config.direct_driver_real {
        return Ok(());
    }
    Err(Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "this deployment's direct driver does not offer search and login"))
}
