//! Links through which anyone who has them can watch a session (contract: live 29 to 33).

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::live::links::{self, Link, LinkOutcome, NewLink};
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{LiveLinkId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::WRITE_SESSIONS;
use super::live::{LiveTicket, live_ticket};
use super::operations::READ_STATE;
use super::problems::not_ready;
use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json, OpenJson};
use crate::http::kinds;
use crate::http::lists::{ListItem, Page};
use crate::http::openapi::{AnotherLink, Body, Database, EndedSession, NoLink, NoSession, RateLimited, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Desktop apps on the free tier can use the routes under a session; this route is not one of them.
const DELETE_LINK: Rule = Rule::scope(Scope::WriteSessions).for_team(Role::Admin);

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_SESSIONS, routes!(create))
        .allow(READ_STATE, routes!(list))
        .allow(DELETE_LINK, routes!(delete))
        .public(routes!(follow))
        .never_stored()
}

/// Validity of a new live link
#[derive(Deserialize, ToSchema)]
#[schema(as = CreateLiveLink, example = json!({"expires_in": 3600}))]
struct NewLiveLink {
    /// Validity in seconds; one hour by default
    #[schema(minimum = 1, maximum = 86_400)]
    expires_in: Option<i64>,
}

/// In seconds.
const AN_HOUR: i64 = 3_600;

/// Link to watch a session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "lnk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "session_id": "ses_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f",
    "created_at": "2026-11-20T18:05:00.123Z", "expires_at": "2026-11-20T19:05:00.123Z",
}))]
struct LiveLink {
    /// Link ID
    #[schema(value_type = String)]
    id: LiveLinkId,
    /// Session that the link shows
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Time the link was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the link expires
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// New link to a session's live view
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "lnk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "session_id": "ses_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f",
    "created_at": "2026-11-20T18:05:00.123Z", "expires_at": "2026-11-20T19:05:00.123Z",
    "url": "https://fleet.example.com/live/ses_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f#pX2lq0b6T7wYb1l2mC3nD4oE5pF6qG7rH8sI9tJ0uK1",
}))]
struct NewlyMadeLiveLink {
    #[serde(flatten)]
    link: LiveLink,
    /// Page to open. The address is returned only in this response
    #[schema(format = "uri")]
    url: String,
}

impl From<Link> for LiveLink {
    fn from(Link { id, session_id, created_at, expires_at }: Link) -> Self {
        Self { id, session_id, created_at, expires_at }
    }
}

/// Create a live link
///
/// Anyone with the address can watch the browser without an account, but cannot control it. The link ends when the session ends,
/// or when its creator loses access to the session.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/live-links", tag = "Sessions", operation_id = "createLiveLink",
    params(IdPath<SessionId>), request_body = NewLiveLink,
    responses(
        (status = 201, description = "The link", body = NewlyMadeLiveLink),
        Restricted, Body, NoSession, EndedSession, AnotherLink, Database,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(body): Json<NewLiveLink>,
) -> Result<(StatusCode, Answer<NewlyMadeLiveLink>)> {
    let longest = links::LONGEST.as_secs();
    let ttl = u64::try_from(body.expires_in.unwrap_or(AN_HOUR)).ok().filter(|seconds| (1..=longest).contains(seconds));
    let ttl = ttl.ok_or_else(|| Invalid::field("expires_in", format!("must be 1 to {longest} seconds")))?;
    let mut conn = app.db.acquire().await?;
    let found = sessions::find(&mut conn, caller.account_id, path.id()?).await?;
    let session = found.ok_or_else(not_found::<SessionId>)?;
    let new = NewLink {
        session: session.id,
        acting: caller.actor.account().unwrap_or(caller.account_id),
        credential: caller.credential,
        ttl: Duration::from_secs(ttl),
    };
    let mut tx = conn.begin().await?;
    match links::make(&mut tx, &new).await? {
        LinkOutcome::Link(link, secret) => {
            tx.commit().await?;
            let url = format!("{}/live/{}#{}", app.config.base_url, session.id, secret.reveal());
            Ok((StatusCode::CREATED, Answer(NewlyMadeLiveLink { link: link.into(), url })))
        }
        LinkOutcome::Ended if session.status == SessionStatus::Errored => Err(not_ready(session.status)),
        LinkOutcome::Ended => Err(not_ready(SessionStatus::Destroyed)),
        LinkOutcome::TooMany => Err(Problem::new(
            &kinds::CONFLICT,
            format!("the session has {} links; delete one, or wait until one expires", links::MAX_LINKS),
        )),
    }
}

type LiveLinkList = Page<LiveLink>;

impl ListItem for LiveLink {
    const LIST: &'static str = "LiveLinkList";
    const MEANING: &'static str = "All valid links, newest first";
}

/// List the links to a session's live view
///
/// Returns the links that are still valid, without their addresses.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/live-links", tag = "Sessions", operation_id = "listLiveLinks",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The links", body = LiveLinkList), Restricted, NoSession, Database),
)]
async fn list(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Answer<LiveLinkList>> {
    let mut conn = app.db.acquire().await?;
    let found = sessions::find(&mut conn, caller.account_id, path.id()?).await?;
    let session = found.ok_or_else(not_found::<SessionId>)?;
    let links = if session.destroyed_at.is_none() { links::list(&mut conn, session.id).await? } else { Vec::new() };
    Ok(Answer(links.into_iter().map(LiveLink::from).collect()))
}

/// Delete a live link
///
/// Disconnects its viewers within 5 s.
#[utoipa::path(
    delete, path = "/v1/live-links/{id}", tag = "Sessions", operation_id = "deleteLiveLink",
    params(IdPath<LiveLinkId>),
    responses((status = 204, description = "The link is no longer valid"), Restricted, NoLink, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<LiveLinkId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let taken = links::revoke(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    if taken { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<LiveLinkId>()) }
}

/// Secret of a live link
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"link": "pX2lq0b6T7wYb1l2mC3nD4oE5pF6qG7rH8sI9tJ0uK1"}))]
struct FollowLiveLink {
    /// Part of the link's address after the `#`
    #[schema(min_length = 1, max_length = 128)]
    link: String,
}

/// Exchange a live link for a ticket
///
/// Returns a new live-view ticket each time it is called. It needs no credential except the link.
#[utoipa::path(
    post, path = "/v1/live-links/follow", tag = "Sessions", operation_id = "followLiveLink",
    request_body = FollowLiveLink,
    responses((status = 201, description = "The ticket", body = LiveTicket), Body, NoLink, RateLimited, Database),
)]
async fn follow(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<FollowLiveLink>,
) -> Result<(StatusCode, Answer<LiveTicket>)> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let mut tx = app.db.begin().await?;
    let issued = links::ticket(&mut tx, &body.link, app.config.live.ticket_ttl).await?;
    let (session, ticket, expires_at) = issued.ok_or_else(not_found::<LiveLinkId>)?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Answer(live_ticket(&app, session, &ticket, expires_at))))
}
