//! Loading a page.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Navigate, Navigated, OnFailure, OnTimeout, Operation, WaitUntil};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::on_timeout;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::openapi::{Body, Driving, NoSession, Restricted, named, one_of, or_null};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(navigate))
}

/// Load a page
///
/// An HTTP error page counts as a success and is returned with its `status`. So does a response without a page: 204, 205, 304 and
/// downloads leave the previous page in place. If the page cannot be reached (DNS, TLS, network), the request fails with 502 and the
/// session is errored, unless `on_failure` is `return`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/navigate", tag = "Sessions", operation_id = "navigateInSession",
    params(IdPath<SessionId>), request_body = NavigateBody,
    responses((status = 200, description = "The outcome of the navigation", body = Navigated), Restricted, Body, NoSession, Driving),
)]
async fn navigate(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<NavigateBody>,
) -> Result<Done> {
    let (destinations, limits) = (&app.config.destinations, &app.config.limits);
    let operation = body.check(|NavigateBody { url, wait_until, timeout_ms, on_timeout, on_failure }| {
        let navigate = Navigate::parse(url, wait_until.unwrap_or_default(), timeout_ms, destinations, limits)?;
        let (on_timeout, on_failure) = (on_timeout.unwrap_or_default(), on_failure.unwrap_or_default());
        Ok(Navigate { on_timeout, on_failure, ..navigate })
    })?;
    dispatch::run(&app, &caller, path.id()?, Operation::Navigate(operation)).await
}

/// Body of `navigate`
#[derive(Deserialize, ToSchema)]
#[schema(as = Navigate, example = json!({"url": "https://example.com/", "wait_until": "load"}))]
pub struct NavigateBody {
    /// An http or https address
    #[schema(max_length = 32_768)]
    pub url: String,
    /// Load state to wait for
    #[schema(schema_with = wait_until)]
    pub wait_until: Option<WaitUntil>,
    /// Timeout in milliseconds
    #[schema(minimum = 100, maximum = 120_000, default = 30_000)]
    pub timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns what is known of the page, with `timed_out: true`, and keeps the
    /// session
    #[schema(schema_with = on_timeout)]
    pub on_timeout: Option<OnTimeout>,
    /// On a failure of DNS, TLS or the network, or a timeout, `fail` errors the session; `return` returns `status: null` with the
    /// `error`, and keeps the session
    #[schema(schema_with = on_timeout)]
    pub on_failure: Option<OnFailure>,
}

fn wait_until() -> RefOr<Schema> {
    or_null(named("WaitUntil", one_of(&["load", "domcontentloaded", "networkidle"], Some("load"))))
}
