//! Pages of a session: listing, opening, activating and closing them.

use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_types::ids::{PageId, SessionId};
use kitfleet_types::operations::{ActivatePage, BrowserPage, BrowserPages, ClosePage, ListPages, OpenPage, Operation};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::READ_STATE;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::{IgnoredBody, Unchecked};
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new()
        .allow(READ_STATE, routes!(list))
        .allow(WRITE_SESSIONS, routes!(open))
        .allow(WRITE_SESSIONS, routes!(activate))
        .allow(WRITE_SESSIONS, routes!(close))
}

/// List a session's pages
///
/// Returns the open pages, oldest first. A page that a link or a script opens is a page of its own and becomes the active one.
/// Operations act on the active page. Listing claims the session like any other operation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/pages", tag = "Sessions", operation_id = "listSessionPages",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The pages", body = BrowserPages), Restricted, NoSession, Driving),
)]
async fn list(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Done> {
    let session = path.id()?;
    dispatch::run(&app, &caller, session, Operation::ListPages(ListPages { session })).await
}

/// Open a page
///
/// Opens a page, makes it the active one and loads the address, if there is one. A session has at most 8 pages; one more is a
/// 409. If the address cannot be reached (DNS, TLS, network), the request fails with 502 and the session is errored.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/pages", tag = "Sessions", operation_id = "openSessionPage",
    params(IdPath<SessionId>), request_body = OpenPageBody,
    responses((status = 201, description = "The page", body = BrowserPage), Restricted, Body, NoSession, Driving),
)]
async fn open(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<OpenPageBody>,
) -> Result<(StatusCode, Done)> {
    let (destinations, limits) = (&app.config.destinations, &app.config.limits);
    let url = body.check(|OpenPageBody { url }| OpenPage::parse_url(url.as_deref(), destinations, limits))?;
    let session = path.id()?;
    let opened = dispatch::run(&app, &caller, session, Operation::OpenPage(OpenPage { session, url })).await?;
    Ok((StatusCode::CREATED, opened))
}

/// Activate a page
///
/// Makes the page the active one, which operations act on. The other pages keep running in the background.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/pages/{page_id}/activate", tag = "Sessions", operation_id = "activateSessionPage",
    params(IdPath<SessionId>, IdPath<PageId>),
    responses((status = 200, description = "The page", body = BrowserPage), Restricted, NoSession, Driving),
)]
async fn activate(
    caller: Caller,
    State(app): State<App>,
    session: IdPath<SessionId>,
    page: IdPath<PageId>,
    _body: IgnoredBody,
) -> Result<Done> {
    let (session, page) = (session.id()?, page.id()?);
    dispatch::run(&app, &caller, session, Operation::ActivatePage(ActivatePage { session, page })).await
}

/// Close a page
///
/// If the page was the active one, its opener becomes active, or else the newest page. The last page cannot be closed.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/pages/{page_id}", tag = "Sessions", operation_id = "closeSessionPage",
    params(IdPath<SessionId>, IdPath<PageId>),
    responses((status = 204, description = "The page is closed"), Restricted, NoSession, Driving),
)]
async fn close(
    caller: Caller,
    State(app): State<App>,
    session: IdPath<SessionId>,
    page: IdPath<PageId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let (session, page) = (session.id()?, page.id()?);
    dispatch::run(&app, &caller, session, Operation::ClosePage(ClosePage { session, page })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body of a new page; the field is optional
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionPageOpen, example = json!({"url": "https://example.com/"}))]
pub struct OpenPageBody {
    /// An http or https address; by default the page is blank
    #[schema(max_length = 32_768)]
    url: Option<String>,
}
