//! Pages that links in mails open (contract: pages 1, 2; sign-ins 14). Opening a page does not use up its token, because mail
//! scanners open every link.

use axum::extract::State;
use axum::response::Response;
use utoipa_axum::routes;

use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::pages::{card, sign_in};

pub fn routes() -> Routes {
    Routes::new()
        .public(routes!(verify_email))
        .public(routes!(magic_link))
        .public(routes!(reset_password))
        .public(routes!(confirm_sign_in))
        .public(routes!(confirm_email))
}

/// Confirm an e-mail address
///
/// Shows the page that a verification mail links to. The address is confirmed when the person presses the button.
#[utoipa::path(
    get, path = "/verify-email", tag = "Pages", operation_id = "verifyEmailPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn verify_email(State(app): State<App>) -> Response {
    let link = Link {
        title: "Confirm your e-mail address",
        words: "Press the button to activate your account.",
        fields: "",
        button: "Confirm",
        arrived: "Your e-mail address is confirmed, and you are signed in.",
        endpoint: "/v1/auth/verify-email",
    };
    link.page(&app)
}

/// Sign in with a link
///
/// Shows the page that a sign-in mail links to.
#[utoipa::path(
    get, path = "/magic-link", tag = "Pages", operation_id = "magicLinkPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn magic_link(State(app): State<App>) -> Response {
    let link = Link {
        title: "Sign in to Kitfleet",
        words: "Press the button to sign in. The link works once.",
        fields: "",
        button: "Sign in",
        arrived: "You are signed in.",
        endpoint: "/v1/auth/magic-link/consume",
    };
    link.page(&app)
}

/// Choose a new password
///
/// Shows the page that a password reset mail links to.
#[utoipa::path(
    get, path = "/reset-password", tag = "Pages", operation_id = "resetPasswordPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn reset_password(State(app): State<App>) -> Response {
    let shortest = app.config.limits.password_min_chars;
    let fields = new_password("new-password", "words", shortest);
    let link = Link {
        title: "Choose a new password",
        words: &format!(
            "The password needs at least {shortest} characters. You will be signed out on all other devices."
        ),
        fields: &fields,
        button: "Set new password",
        arrived: "Your new password is set, and you are signed in.",
        endpoint: "/v1/auth/password-reset/confirm",
    };
    link.page(&app)
}

/// Confirm a new sign-in method
///
/// Shows the page that a mail links to after a sign-in through an identity provider that is not linked to the account.
#[utoipa::path(
    get, path = "/confirm-sign-in", tag = "Pages", operation_id = "confirmSignInPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_sign_in(State(app): State<App>) -> Response {
    let link = Link {
        title: "Confirm a new sign-in method",
        words: "Continue only if you have just tried to sign in this way yourself. This method can then sign in to your account.",
        fields: "",
        button: "Confirm and sign in",
        arrived: "The new sign-in method is confirmed, and you are signed in.",
        endpoint: "/v1/auth/oauth/confirm",
    };
    link.page(&app)
}

/// Confirm a new e-mail address
///
/// Shows the page that a mail to the new address of an account links to.
#[utoipa::path(
    get, path = "/confirm-email", tag = "Pages", operation_id = "confirmEmailPage", params(Token),
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_email(State(app): State<App>) -> Response {
    let link = Link {
        title: "Confirm your new e-mail address",
        words: "Press the button to use this address for your account from now on.",
        fields: "",
        button: "Confirm",
        arrived: "Your e-mail address is changed.",
        endpoint: "/v1/account/email/confirm",
    };
    link.page(&app)
}

/// Query parameter of a link's URL.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "documents the parameter that the page's script reads")]
struct Token {
    /// Token of the mailed link; the page is the same without it
    token: Option<String>,
}

/// Form fields to choose a password.
fn new_password(id: &str, described_by: &str, shortest: usize) -> String {
    let input = "type=password autocomplete=new-password required";
    format!(
        "<label for={id}>New password</label>\n\
         <input id={id} name=new_password {input} minlength={shortest} aria-describedby={described_by}>\n\
         <label for={id}-again>Repeat the new password</label>\n<input id={id}-again {input} data-repeats={id}>\n"
    )
}

/// Page of a mailed link. All texts are constants, so nothing needs escaping.
struct Link<'a> {
    title: &'a str,
    /// Text before the action.
    words: &'a str,
    /// Additional form fields.
    fields: &'a str,
    button: &'a str,
    /// Text after the action.
    arrived: &'a str,
    /// Route that takes the token.
    endpoint: &'a str,
}

impl Link<'_> {
    fn page(self, app: &App) -> Response {
        let Self { title, words, fields, button, arrived, endpoint } = self;
        let sign_in = sign_in(app);
        let shortest = app.config.limits.password_min_chars;
        let new_password = new_password("chosen-password", "removed", shortest);
        let main = format!(
            "<main data-endpoint=\"{endpoint}\">\n\
             <section id=link>\n<h1 tabindex=-1>{title}</h1>\n<p id=words>{words}</p>\n\
             <form id=link-form>\n{fields}<button>{button}</button>\n</form>\n</section>\n{sign_in}\
             <section id=password-removed hidden>\n<h1 tabindex=-1>Choose a password</h1>\n\
             <p id=removed>The password from the sign-up was removed, because another person may have chosen it. A new one needs at least \
             {shortest} characters.</p>\n<form id=password-form>\n{new_password}<button>Set the password</button>\n</form>\n\
             <button id=no-password type=button class=quiet>Continue without a password</button>\n</section>\n\
             <section id=arrived hidden>\n<h1 tabindex=-1>Welcome</h1>\n<p>{arrived}</p>\n\
             <a id=next class=button href=\"/app/\">Open the dashboard</a>\n</section>\n\
             <p id=message role=status aria-live=polite></p>\n</main>"
        );
        card(title, "link.js", &main)
    }
}
