//! `/activate`: the page of a device's `browser_url` (contract: pages 1; devices 1).

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::routes;

use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::pages::{card, sign_in};

pub fn routes() -> Routes {
    Routes::new().public(routes!(activate))
}

/// Connect a device
///
/// Shows a page to sign in, enter the code of a device, check its request and authorize it.
#[utoipa::path(
    get, path = "/activate", tag = "Pages", operation_id = "activate",
    params(("user_code" = Option<String>, Query, description = "Code of the device, if the device can pass it on",
            example = "7KQ2-M9XD")),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn activate(State(app): State<App>) -> Response {
    let (sign_in, activate) = (sign_in(&app), include_str!("activate.html"));
    let main = format!("<main>\n{sign_in}{activate}<p id=message role=status aria-live=polite></p>\n</main>");
    card("Connect a device", "activate.js", &main)
}
