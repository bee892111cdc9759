//! Sessions of all accounts: staff can list, inspect and destroy them.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use kitfleet_domain::sessions::SessionStatus;
use kitfleet_domain::sessions::inspection::{
    self, OperationInfo, SessionDetail, SessionFilter, SessionSummary, WaitsFor, WorkerInfo,
};
use kitfleet_jobs::staff;
use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::both;
use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{ReasonBody, StaffAction, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{
    Body, Database, InvalidQuery, NoRecording, NoSession, OutOfPlace, ReadingByStaff, ReadingRecording, Unauthorized,
    named, one_of, or_null,
};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::challenges::SessionChallenge;
use crate::routes::sessions::{parse_format, parse_status, status, trace_response};

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(list)).for_staff(routes!(get)).for_staff(routes!(destroy)).for_staff(routes!(trace))
}

/// Session of any account, in a list
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "status": "busy", "operation": "navigate", "archetype": "iphone-16-ios-18", "label": "checkout test",
    "worker_id": "wrk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "worker_name": "eu-1", "profile_id": null,
    "agent_session_id": null, "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.187Z",
    "ended_at": null,
}))]
struct CustomerSession {
    /// ID of the session
    #[schema(value_type = String)]
    id: SessionId,
    /// Account that owns the session
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Status of the session
    #[schema(schema_with = status)]
    status: SessionStatus,
    /// Kind of the operation in progress
    #[schema(required = true)]
    operation: Option<String>,
    /// Archetype of the browser
    archetype: String,
    /// Label set by the customer
    #[schema(required = true)]
    label: Option<String>,
    /// Worker that owns the browser
    #[schema(value_type = String)]
    worker_id: WorkerId,
    /// Name of the worker; null if its row was purged
    #[schema(required = true)]
    worker_name: Option<String>,
    /// Profile that the session started from
    #[schema(value_type = Option<String>, required = true)]
    profile_id: Option<ProfileId>,
    /// Agent session that uses the session as its driver
    #[schema(value_type = Option<String>, required = true)]
    agent_session_id: Option<AgentSessionId>,
    /// Time the session was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time the session ended
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    ended_at: Option<Timestamp>,
}

impl From<SessionSummary> for CustomerSession {
    fn from(session: SessionSummary) -> Self {
        Self {
            id: session.id,
            account_id: session.account_id,
            status: session.status,
            operation: session.operation,
            archetype: session.archetype,
            label: session.label,
            worker_id: session.worker_id,
            worker_name: session.worker_name,
            profile_id: session.profile_id,
            agent_session_id: session.agent_session_id,
            created_at: session.created_at,
            updated_at: session.updated_at,
            ended_at: session.ended_at,
        }
    }
}

type CustomerSessionList = Page<CustomerSession>;

impl ListItem for CustomerSession {
    const LIST: &'static str = "CustomerSessionList";
    const MEANING: &'static str = "A page of sessions of all accounts, newest first";
}

/// Session of any account, with the details that explain its status
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "account_email": "ada@example.com", "api_key_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "status": "busy",
    "waits_for": "operation", "archetype": "iphone-16-ios-18", "purpose": "production_customer", "label": null,
    "url": "https://example.com/", "operation": {
        "id": "int_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5f", "kind": "navigate", "status": "running", "request_id": "req-1",
        "created_at": "2026-11-20T18:05:00.123Z", "started_at": "2026-11-20T18:05:00.125Z",
    },
    "worker": {
        "id": "wrk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "eu-1", "status": "active", "is_alive": true,
        "last_seen_at": "2026-11-20T18:05:01.123Z", "slot": 8,
    },
    "profile": null, "proxy_id": null, "agent_session": null, "challenge": null,
    "recording": {"bytes": 52_480, "updated_at": "2026-11-20T18:05:00.150Z"}, "may_read_recording": true,
    "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.187Z", "ended_at": null,
}))]
struct CustomerSessionDetail {
    /// ID of the session
    #[schema(value_type = String)]
    id: SessionId,
    /// Account that owns the session
    #[schema(value_type = String)]
    account_id: AccountId,
    /// E-mail address of the account
    account_email: String,
    /// API key that created the session; null if a web session created it
    #[schema(value_type = Option<String>, required = true)]
    api_key_id: Option<ApiKeyId>,
    /// Status of the session
    #[schema(schema_with = status)]
    status: SessionStatus,
    /// Event that the session waits for; null if it waits for the account owner's next request, or has ended
    #[schema(schema_with = waits_for, required = true)]
    waits_for: Option<&'static str>,
    /// Archetype of the browser
    archetype: String,
    /// Purpose of the session
    purpose: String,
    /// Label set by the customer
    #[schema(required = true)]
    label: Option<String>,
    /// Address of the page after the last operation whose result is still stored
    #[schema(required = true)]
    url: Option<String>,
    /// Operation in progress
    #[schema(required = true)]
    operation: Option<OperationUnderWay>,
    /// Worker that owns the browser
    worker: WorkerOfSession,
    /// Profile that the session started from
    #[schema(required = true)]
    profile: Option<ProfileLease>,
    /// Saved proxy of the session
    #[schema(value_type = Option<String>, required = true)]
    proxy_id: Option<ProxyId>,
    /// Agent session that uses the session as its driver
    #[schema(required = true)]
    agent_session: Option<AgentOfSession>,
    /// Challenge that pauses the session
    #[schema(required = true)]
    challenge: Option<SessionChallenge>,
    /// Recording of the session; null without one, and after its deletion
    #[schema(required = true)]
    recording: Option<RecordingOfSession>,
    /// True if staff may read recordings: the setting `staff.may_watch`
    may_read_recording: bool,
    /// Time the session was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time the session ended
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    ended_at: Option<Timestamp>,
}

fn waits_for() -> RefOr<Schema> {
    or_null(named("SessionWaitsFor", one_of(WaitsFor::NAMES, None)))
}

/// Operation that has claimed a session
#[derive(Serialize, ToSchema)]
struct OperationUnderWay {
    /// ID of the operation
    #[schema(value_type = String)]
    id: IntentId,
    /// Kind of operation, such as `navigate`
    kind: String,
    /// `queued`, `running`, or `unknown` when its worker died while it ran
    status: String,
    /// Request that started the operation
    request_id: String,
    /// Time of the request
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the worker started the operation
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    started_at: Option<Timestamp>,
}

impl From<OperationInfo> for OperationUnderWay {
    fn from(operation: OperationInfo) -> Self {
        let OperationInfo { id, kind, status, request_id, created_at, started_at } = operation;
        Self { id, kind, status, request_id, created_at, started_at }
    }
}

/// Worker of a session
#[derive(Serialize, ToSchema)]
struct WorkerOfSession {
    /// ID of the worker
    #[schema(value_type = String)]
    id: WorkerId,
    /// Name of the worker; null if its row was purged
    #[schema(required = true)]
    name: Option<String>,
    /// `active`, `draining`, `stopped` or `lost`
    #[schema(required = true)]
    status: Option<String>,
    /// True if the worker's lease is valid
    is_alive: bool,
    /// Time of the last heartbeat
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_seen_at: Option<Timestamp>,
    /// Slot number of the session on the worker
    #[schema(required = true)]
    slot: Option<i32>,
}

impl From<WorkerInfo> for WorkerOfSession {
    fn from(worker: WorkerInfo) -> Self {
        let WorkerInfo { id, name, status, is_alive, last_seen_at, slot } = worker;
        Self { id, name, status, is_alive, last_seen_at, slot }
    }
}

/// Session's lease of its profile
#[derive(Serialize, ToSchema)]
struct ProfileLease {
    /// ID of the profile
    #[schema(value_type = String)]
    id: ProfileId,
    /// Name of the profile
    #[schema(required = true)]
    name: Option<String>,
    /// True if the session holds the profile's data and saves it when the session ends
    is_held: bool,
    /// Another session that still holds the lease
    #[schema(value_type = Option<String>, required = true)]
    holder: Option<SessionId>,
}

impl From<inspection::ProfileLease> for ProfileLease {
    fn from(lease: inspection::ProfileLease) -> Self {
        let inspection::ProfileLease { id, name, is_held, holder } = lease;
        Self { id, name, is_held, holder }
    }
}

/// Recording of a session
#[derive(Serialize, ToSchema)]
struct RecordingOfSession {
    /// Stored bytes
    bytes: i64,
    /// Time of the last stored part
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<inspection::RecordingInfo> for RecordingOfSession {
    fn from(recording: inspection::RecordingInfo) -> Self {
        let inspection::RecordingInfo { bytes, updated_at } = recording;
        Self { bytes, updated_at }
    }
}

/// Agent session of a session
#[derive(Serialize, ToSchema)]
struct AgentOfSession {
    /// ID of the agent session
    #[schema(value_type = String)]
    id: AgentSessionId,
    /// `manual`, `ai` or `pair`
    mode: String,
    /// True if a turn is in progress
    has_turn: bool,
    /// True if a step waits for approval
    needs_approval: bool,
    /// True if a person has control
    is_human_driven: bool,
}

impl From<inspection::AgentInfo> for AgentOfSession {
    fn from(agent: inspection::AgentInfo) -> Self {
        let inspection::AgentInfo { id, mode, has_turn, needs_approval, is_human_driven } = agent;
        Self { id, mode, has_turn, needs_approval, is_human_driven }
    }
}

impl CustomerSessionDetail {
    fn new(session: SessionDetail, may_read_recording: bool) -> Self {
        Self {
            id: session.id,
            account_id: session.account_id,
            account_email: session.account_email,
            api_key_id: session.api_key_id,
            status: session.status,
            waits_for: session.waits_for.map(WaitsFor::name),
            archetype: session.archetype,
            purpose: session.purpose,
            label: session.label,
            url: session.url,
            operation: session.operation.map(OperationUnderWay::from),
            worker: session.worker.into(),
            profile: session.profile.map(ProfileLease::from),
            proxy_id: session.proxy_id,
            agent_session: session.agent_session.map(AgentOfSession::from),
            challenge: session.challenge.map(SessionChallenge::from),
            recording: session.recording.map(RecordingOfSession::from),
            may_read_recording,
            created_at: session.created_at,
            updated_at: session.updated_at,
            ended_at: session.ended_at,
        }
    }
}

/// List sessions of all accounts
///
/// Returns live sessions, unless `all` or a terminal status is requested.
#[utoipa::path(
    get, path = "/v1/admin/sessions", tag = "Staff", operation_id = "listCustomerSessions",
    params(
        Paging,
        ("all" = Option<bool>, Query, description = "Include sessions that have ended"),
        ("status" = Option<String>, Query, description = "Only sessions of this status"),
        ("account_id" = Option<String>, Query, description = "Only sessions of this account"),
        ("worker_id" = Option<String>, Query, description = "Only sessions on this worker"),
        ("profile_id" = Option<String>, Query, description = "Only sessions that started from this profile"),
    ),
    responses((status = 200, description = "A page", body = CustomerSessionList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<CustomerSessionList>> {
    let all = filter(&query, "all", |text| text.parse::<bool>().ok());
    let account = filter(&query, "account_id", |text| text.parse::<AccountId>().ok());
    let worker = filter(&query, "worker_id", |text| text.parse::<WorkerId>().ok());
    let profile = filter(&query, "profile_id", |text| text.parse::<ProfileId>().ok());
    let wanted = both(both(both(all, query.parsed("status", parse_status)), account), both(worker, profile));
    let (((all, status), account), (worker, profile)) = query.filters(wanted, &app.config.limits)?;
    let names = ["all", "status", "account_id", "worker_id", "profile_id"];
    let mut filters = [None; 5];
    for (value, name) in filters.iter_mut().zip(names) {
        *value = query.text(name)?;
    }
    let all = all.unwrap_or_default();
    let id_of = |session: &SessionSummary| session.id.as_uuid();
    let page =
        lists::page(&app, &query, cursors("customers_sessions", &filters), id_of, async |conn, before, limit| {
            let before = before.map(SessionId::from);
            inspection::list(conn, &SessionFilter { all, status, account, worker, profile, before, limit }).await
        });
    Ok(Answer(page.await?.map(CustomerSession::from)))
}

/// Get a session of any account
#[utoipa::path(
    get, path = "/v1/admin/sessions/{id}", tag = "Staff", operation_id = "getCustomerSession",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The session", body = CustomerSessionDetail), Unauthorized, NoSession, Database),
)]
async fn get(_: Staff, State(app): State<App>, path: IdPath<SessionId>) -> Result<Answer<CustomerSessionDetail>> {
    shown(&app, &mut *app.db.acquire().await?, path.id()?).await
}

async fn shown(app: &App, conn: &mut PgConnection, id: SessionId) -> Result<Answer<CustomerSessionDetail>> {
    let found = inspection::find(conn, id).await?.ok_or_else(not_found::<SessionId>)?;
    Ok(Answer(CustomerSessionDetail::new(found, app.config.staff_may_watch)))
}

/// Destroy a session of any account
///
/// Has the same effect as the account owner's DELETE. It works even if the worker is dead.
#[utoipa::path(
    post, path = "/v1/admin/sessions/{id}/destroy", tag = "Staff", operation_id = "destroyCustomerSession",
    params(IdPath<SessionId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The session", body = CustomerSessionDetail),
        Unauthorized, Body, NoSession, OutOfPlace, Database,
    ),
)]
async fn destroy(
    State(app): State<App>,
    StaffAction { id, by }: StaffAction<SessionId>,
) -> Result<Answer<CustomerSessionDetail>> {
    let mut conn = app.db.acquire().await?;
    staff::destroy_session(&mut conn, id, &by).await?;
    app.wait_queue.wake_next();
    shown(&app, &mut conn, id).await
}

/// Read the recording of a session of any account
///
/// Streams its trace as a ZIP file for Playwright's trace viewer. Requires the setting `staff.may_watch`. The account owner sees the
/// read in the audit log.
#[utoipa::path(
    post, path = "/v1/admin/sessions/{id}/trace", tag = "Staff", operation_id = "getCustomerSessionTrace",
    params(IdPath<SessionId>, ("format" = Option<u32>, Query, description = "Version of the format: 9 (default), 8 or 7", minimum = 7, maximum = 9)),
    request_body = ReasonBody,
    responses(
        (status = 200, description = "The file", content((String = "application/zip", example = json!("PK …"))),
         headers(("Content-Disposition" = String, description = "The file's name"))),
        Unauthorized, Body, InvalidQuery, NoSession, NoRecording, ReadingByStaff, ReadingRecording, Database,
    ),
)]
async fn trace(
    State(app): State<App>,
    method: Method,
    query: Query,
    StaffAction { id, by }: StaffAction<SessionId>,
) -> Result<Response> {
    let format = parse_format(&query)?;
    if !app.config.staff_may_watch {
        return Err(Problem::new(&kinds::FORBIDDEN, "staff may not read recordings here: `staff.may_watch` is off"));
    }
    staff::read_recording(&mut *app.db.acquire().await?, id, &by).await?;
    trace_response(&app, &method, id, format).await
}
