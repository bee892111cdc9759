//! Cookies of a session's browser: reading, setting and deleting them.

use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{
    BrowserCookies, CookieParams, DeleteCookies, GetCookies, Operation, SameSite, SetCookies,
};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::READ_STATE;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::{IgnoredBody, Unchecked};
use crate::http::lists::Query;
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new()
        .allow(READ_STATE, routes!(read))
        .allow(WRITE_SESSIONS, routes!(set))
        .allow(WRITE_SESSIONS, routes!(delete))
}

/// List a session's cookies
///
/// Returns the cookies of all hosts, including those that scripts cannot read. Reading claims the session like any other operation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/cookies", tag = "Sessions", operation_id = "listSessionCookies",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The cookies", body = BrowserCookies), Restricted, NoSession, Driving),
)]
async fn read(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Done> {
    dispatch::run(&app, &caller, path.id()?, Operation::GetCookies(GetCookies {})).await
}

/// Set cookies of a session
///
/// Adds cookies, or replaces those with the same name, domain and path. Values are sealed on their way to the browser.
#[utoipa::path(
    put, path = "/v1/sessions/{id}/cookies", tag = "Sessions", operation_id = "setSessionCookies",
    params(IdPath<SessionId>), request_body = SetCookiesBody,
    responses((status = 204, description = "The cookies are set"), Restricted, Body, NoSession, Driving),
)]
async fn set(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<SetCookiesBody>,
) -> Result<StatusCode> {
    let operation = body.check(SetCookiesBody::into_operation)?;
    dispatch::run(&app, &caller, path.id()?, Operation::SetCookies(operation)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete cookies of a session
///
/// Deletes the cookies that match all given parameters; without any, all cookies.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/cookies", tag = "Sessions", operation_id = "deleteSessionCookies",
    params(
        IdPath<SessionId>,
        ("name" = Option<String>, Query, description = "Only cookies with this name"),
        ("domain" = Option<String>, Query, description = "Only cookies of this domain; without a leading dot also those with one"),
        ("path" = Option<String>, Query, description = "Only cookies with this path"),
    ),
    responses((status = 204, description = "The cookies are deleted"), Restricted, NoSession, Driving),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    query: Query,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let given = both(query.text("name"), both(query.text("domain"), query.text("path")));
    let operation = given.and_then(|(name, (domain, path))| DeleteCookies::parse(name, domain, path))?;
    dispatch::run(&app, &caller, path.id()?, Operation::DeleteCookies(operation)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body of a change of cookies
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionCookiesSet, example = json!({"cookies": [{
    "name": "theme", "value": "dark", "domain": "example.com", "secure": true, "same_site": "lax",
}]}))]
pub struct SetCookiesBody {
    /// Cookies to set
    #[schema(min_items = 1, max_items = 1_000)]
    cookies: Vec<CookieBody>,
}

/// Cookie to set
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionCookieSet)]
struct CookieBody {
    /// Name without `=`, `;` and control characters
    #[schema(min_length = 1, max_length = 4_096)]
    name: String,
    /// Value without `;` and control characters; at most 4,096 bytes with the name
    #[schema(max_length = 4_096)]
    value: String,
    /// Host of the cookie; with a leading dot also its subdomains
    #[schema(min_length = 1)]
    domain: String,
    /// Path of the cookie
    #[schema(max_length = 1_024, default = "/")]
    path: Option<String>,
    /// Time at which the browser deletes the cookie, in the future; by default the cookie lasts as long as the browser
    #[schema(value_type = Option<String>, format = DateTime)]
    expires: Option<Timestamp>,
    /// True to hide the cookie from scripts
    #[schema(default = false)]
    http_only: Option<bool>,
    /// True to send the cookie over TLS only
    #[schema(default = false)]
    secure: Option<bool>,
    /// `SameSite` of the cookie; `none` by default
    same_site: Option<SameSite>,
}

impl SetCookiesBody {
    /// # Errors
    /// On `cookies`, or a member of one of them.
    fn into_operation(self) -> Result<SetCookies, Invalid> {
        let params = |body: CookieBody| CookieParams {
            name: body.name,
            value: body.value,
            domain: body.domain,
            path: body.path,
            expires: body.expires,
            http_only: body.http_only.unwrap_or_default(),
            secure: body.secure.unwrap_or_default(),
            same_site: body.same_site,
        };
        SetCookies::parse(self.cookies.into_iter().map(params).collect())
    }
}
