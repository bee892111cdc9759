//! `/live/:id`: the live view page of a session, for holders of a link or a ticket (contract: live 33 to 36). The credential is
//! in the URL fragment, which browsers never send to a server.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse as _, Response};
use kitfleet_types::ids::SessionId;
use utoipa_axum::routes;

use super::{assets, document, headers};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;

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
async fn watch(State(app): State<App>) -> Response {
    let script = assets::path("live.js");
    let head = format!("<script type=module src=\"{script}\"></script>");
    let body = format!("<body class=live>\n{}", include_str!("live.html"));
    let mut response = (headers("no-store"), Html(document("Live view", &head, &body))).into_response();
    if let Ok(policy) = HeaderValue::try_from(policy(&app)) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The page connects only to this service. The WebSocket origin is listed explicitly because not every browser counts it as
/// `'self'`. Only origins allowed to open a live view can frame the page.
fn policy(app: &App) -> String {
    let socket = app.config.base_url.replacen("http", "ws", 1);
    let ancestors = if app.config.live.origins.is_empty() { "'none'" } else { &app.config.live.origins.join(" ") };
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {socket}; img-src data:; form-action 'none'; \
         frame-ancestors {ancestors}; base-uri 'none'"
    )
}
