//! `/live/:id`: the live view page of a session, for holders of a link or a ticket (contract: live 33 to 36). The credential is
//! in the URL fragment, which browsers never send to a server.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse as _, Response};
use kitfleet_types::ids::SessionId;
use utoipa_axum::routes;

use super::headers;
use crate::http::error::Result;
use crate::http::page_headers::{own_connections, policy};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::web_build;

pub fn routes() -> Routes {
    Routes::new().public(routes!(watch))
}

/// Watch a session
///
/// Shows the live view of the session's browser. The page is the same for every session ID, including unknown ones.
#[utoipa::path(
    get, path = "/live/{id}", tag = "Pages", operation_id = "livePage", params(IdPath<SessionId>),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn watch(State(app): State<App>) -> Result<Response> {
    let mut response = (headers("no-store"), Html(web_build::page("live.html")?)).into_response();
    // Only origins that may open a live view can frame the page.
    let origins = &app.config.live.origins;
    let ancestors = if origins.is_empty() { "'none'" } else { &origins.join(" ") };
    let policy = policy("'self'", &own_connections(&app.config.base_url), ancestors);
    if let Ok(policy) = HeaderValue::try_from(policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}
