//! Pages that links of mails, devices and identity providers open (contract: pages 1, 2, 4, 5; sign-ins 14; devices 1). All are
//! one application (`web/src/links`), which reads the address. Opening a page does not use up its token, because mail scanners
//! open every link.

use axum::extract::State;
use axum::response::{Html, IntoResponse as _, Response};
use utoipa_axum::routes;

use super::headers;
use crate::http::error::Result;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::web_build;

pub fn routes() -> Routes {
    Routes::new()
        .public(routes!(activate))
        .public(routes!(verify_email))
        .public(routes!(magic_link))
        .public(routes!(reset_password))
        .public(routes!(confirm_sign_in))
        .public(routes!(confirm_email))
        .public(routes!(accept))
}

/// The page is never cached, because its URL may hold a token.
pub fn page(app: &App) -> Result<Response> {
    Ok((headers("no-store"), Html(web_build::page_with_sign_in(app, "links.html")?)).into_response())
}

/// Query parameter of a link's URL.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents the parameter that the page's script reads")]
struct Token {
    /// Token of the mailed link; the page is the same without it
    token: Option<String>,
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
async fn activate(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Confirm an e-mail address
///
/// Shows the page that a verification mail links to. The address is confirmed when the person presses the button.
#[utoipa::path(
    get, path = "/verify-email", tag = "Pages", operation_id = "verifyEmailPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn verify_email(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Sign in with a link
///
/// Shows the page that a sign-in mail links to.
#[utoipa::path(
    get, path = "/magic-link", tag = "Pages", operation_id = "magicLinkPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn magic_link(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Choose a new password
///
/// Shows the page that a password reset mail links to.
#[utoipa::path(
    get, path = "/reset-password", tag = "Pages", operation_id = "resetPasswordPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn reset_password(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Confirm a new sign-in method
///
/// Shows the page that a mail links to after a sign-in through an identity provider that is not linked to the account.
#[utoipa::path(
    get, path = "/confirm-sign-in", tag = "Pages", operation_id = "confirmSignInPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_sign_in(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Confirm a new e-mail address
///
/// Shows the page that a mail to the new address of an account links to.
#[utoipa::path(
    get, path = "/confirm-email", tag = "Pages", operation_id = "confirmEmailPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_email(State(app): State<App>) -> Result<Response> {
    page(&app)
}

/// Join a team
///
/// Shows a page to sign in and accept an invitation.
#[utoipa::path(
    get, path = "/team/accept", tag = "Pages", operation_id = "acceptTeamInvitePage",
    params(("token" = String, Query, description = "Token of the mailed link")),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn accept(State(app): State<App>) -> Result<Response> {
    page(&app)
}
