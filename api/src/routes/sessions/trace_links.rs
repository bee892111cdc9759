//! Links through which anyone who has them can download a trace (contract: recordings 31 to 36).

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{RawPathParams, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, VARY};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::recordings::trace_links::{self, NewTraceLink, TraceLinkOutcome};
use kitfleet_domain::sessions;
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{SessionId, TraceLinkId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::WRITE_SESSIONS;
use super::operations::READ_STATE;
use super::recordings::{parse_format, trace_response};
use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json};
use crate::http::kinds;
use crate::http::lists::{ListItem, Page, Query};
use crate::http::openapi::{
    AnotherTraceLink, Body, Database, InvalidQuery, NoRecording, NoSession, NoTraceLink, RateLimited, ReadingRecording,
    Restricted,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

const DELETE_LINK: Rule = Rule::scope(Scope::WriteSessions).for_team(Role::Admin).open_to_free_devices();

/// Origin of Playwright's hosted trace viewer.
const VIEWER: HeaderValue = HeaderValue::from_static("https://trace.playwright.dev");

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_SESSIONS, routes!(create))
        .allow(READ_STATE, routes!(list))
        .allow(DELETE_LINK, routes!(delete))
        .public(routes!(download))
        .never_stored()
}

/// Validity of a new trace link
#[derive(Deserialize, ToSchema)]
#[schema(as = CreateTraceLink, example = json!({"expires_in": 3600}))]
struct NewLink {
    /// Validity in seconds; one day by default
    #[schema(minimum = 60, maximum = 604_800)]
    expires_in: Option<i64>,
}

/// Lifetime of the link, in seconds.
const A_DAY: i64 = 86_400;

/// Link to a trace
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "trl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "expires_at": "2026-11-20T19:05:00.123Z",
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct TraceLink {
    /// ID of the link
    #[schema(value_type = String)]
    id: TraceLinkId,
    /// Time the link expires
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Time the link was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// New link to a trace
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "trl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "url": "https://fleet.example.com/traces/pX2lq0b6T7wYb1l2mC3nD4oE5pF6qG7rH8sI9tJ0uK1",
    "expires_at": "2026-11-20T19:05:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct NewTraceLinkBody {
    /// ID of the link
    #[schema(value_type = String)]
    id: TraceLinkId,
    /// Address of the trace. It is returned only in this response
    #[schema(format = "uri")]
    url: String,
    /// Time the link expires
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Time the link was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// Create a trace link
///
/// Anyone with the address can download the trace without an account. The link ends when it expires or is deleted, when the
/// recording is deleted, or when its creator loses access to the session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/trace-links", tag = "Sessions", operation_id = "createTraceLink",
    params(IdPath<SessionId>), request_body = NewLink,
    responses(
        (status = 201, description = "The link", body = NewTraceLinkBody),
        Restricted, Body, NoSession, NoRecording, AnotherTraceLink, Database,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(body): Json<NewLink>,
) -> Result<(StatusCode, Answer<NewTraceLinkBody>)> {
    let (shortest, longest) = (trace_links::SHORTEST.as_secs(), trace_links::LONGEST.as_secs());
    let ttl = u64::try_from(body.expires_in.unwrap_or(A_DAY)).ok().filter(|ttl| (shortest..=longest).contains(ttl));
    let ttl = ttl.ok_or_else(|| Invalid::field("expires_in", format!("must be {shortest} to {longest} seconds")))?;
    let session = path.id()?;
    let mut tx = app.db.begin().await?;
    let found = sessions::find(&mut tx, caller.account_id, session).await?;
    found.ok_or_else(not_found::<SessionId>)?;
    let new = NewTraceLink {
        account: caller.account_id,
        session,
        acting: caller.actor.account().unwrap_or(caller.account_id),
        credential: caller.credential,
        actor: &caller.actor,
        ttl: Duration::from_secs(ttl),
    };
    match trace_links::make(&mut tx, &new).await? {
        TraceLinkOutcome::Link(link, secret) => {
            tx.commit().await?;
            let url = format!("{}/traces/{}", app.config.base_url, secret.reveal());
            let trace_links::TraceLink { id, created_at, expires_at, .. } = link;
            Ok((StatusCode::CREATED, Answer(NewTraceLinkBody { id, url, expires_at, created_at })))
        }
        TraceLinkOutcome::NoRecording => Err(Problem::new(&kinds::NOT_FOUND, "the session has no recording")),
        TraceLinkOutcome::TooMany => Err(Problem::new(
            &kinds::CONFLICT,
            format!("the session has {} trace links; delete one, or wait until one expires", trace_links::MAX_LINKS),
        )),
    }
}

type TraceLinkList = Page<TraceLink>;

impl ListItem for TraceLink {
    const LIST: &'static str = "TraceLinkList";
    const MEANING: &'static str = "All valid links, newest first";
}

/// List the links to a session's trace
///
/// Returns the links that are still valid, without their addresses.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/trace-links", tag = "Sessions", operation_id = "listTraceLinks",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The links", body = TraceLinkList), Restricted, NoSession, Database),
)]
async fn list(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Answer<TraceLinkList>> {
    let mut conn = app.db.acquire().await?;
    let found = sessions::find(&mut conn, caller.account_id, path.id()?).await?;
    let session = found.ok_or_else(not_found::<SessionId>)?;
    let links = trace_links::list(&mut conn, session.id).await?;
    let shown = |link: trace_links::TraceLink| TraceLink {
        id: link.id,
        expires_at: link.expires_at,
        created_at: link.created_at,
    };
    Ok(Answer(links.into_iter().map(shown).collect()))
}

/// Delete a trace link
#[utoipa::path(
    delete, path = "/v1/trace-links/{id}", tag = "Sessions", operation_id = "deleteTraceLink",
    params(IdPath<TraceLinkId>),
    responses((status = 204, description = "The link is no longer valid"), Restricted, NoTraceLink, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<TraceLinkId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let revoked = trace_links::revoke(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if revoked { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<TraceLinkId>()) }
}

/// Download a trace by its link
///
/// Streams the trace as a ZIP file. It needs no credential except the link. `https://trace.playwright.dev` may read the answer.
#[utoipa::path(
    get, path = "/traces/{secret}", tag = "Sessions", operation_id = "getLinkedTrace",
    params(
        ("secret" = String, Path, description = "Secret of the link's address"),
        ("format" = Option<u32>, Query, description = "Version of the format: 9 (default), 8 or 7", minimum = 7, maximum = 9),
    ),
    responses(
        (status = 200, description = "The file", content((String = "application/zip", example = json!("PK …")))),
        InvalidQuery, NoTraceLink, RateLimited, ReadingRecording,
    ),
)]
async fn download(
    State(app): State<App>,
    client: ClientInfo,
    method: Method,
    params: RawPathParams,
    query: Query,
) -> Response {
    let secret = params.iter().next().map(|(_, secret)| secret).unwrap_or_default();
    let found = linked_trace(&app, &client, &method, secret, &query).await;
    let mut response = found.unwrap_or_else(IntoResponse::into_response);
    // The viewer shows why a link does not work.
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, VIEWER);
    response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
    response
}

async fn linked_trace(
    app: &App,
    client: &ClientInfo,
    method: &Method,
    secret: &str,
    query: &Query,
) -> Result<Response> {
    app.rate_limits.check(Bucket::TraceDownload, client).await?;
    let format = parse_format(query)?;
    let link = trace_links::open(&mut *app.db.acquire().await?, secret).await?;
    let (_, session) = link.ok_or_else(not_found::<TraceLinkId>)?;
    trace_response(app, method, session, format).await
}
