//! `/team/accept`: the page that an invitation links to (contract: pages 5). The invitation is accepted with the reader's own
//! account.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::routes;

use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::pages::{card, sign_in};

pub fn routes() -> Routes {
    Routes::new().public(routes!(accept))
}

/// Join a team
///
/// Shows a page to sign in and accept an invitation.
#[utoipa::path(
    get, path = "/team/accept", tag = "Pages", operation_id = "acceptTeamInvitePage",
    params(("token" = String, Query, description = "Token of the mailed link")),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn accept(State(app): State<App>) -> Response {
    let (sign_in, invitation) = (sign_in(&app), include_str!("invitation.html"));
    let main = format!("<main>\n{sign_in}{invitation}<p id=message role=status aria-live=polite></p>\n</main>");
    card("Join a team", "invitation.js", &main)
}
