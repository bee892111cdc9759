//! Where the links of mails lead (contract: pages 1, 2; sign-ins 14). Opening a page uses nothing up, because programs that
//! look at mails open every link: its person does, with a button.

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
}

/// Confirm an e-mail address
///
/// Where the link of a verification mail leads. The address is confirmed when the person presses the page's button.
#[utoipa::path(
    get, path = "/verify-email", tag = "Pages", operation_id = "verifyEmailPage", params(Token),
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn verify_email(State(app): State<App>) -> Response {
    let link = Link {
        title: "Confirm your e-mail address",
        words: "Press the button, and your account is ready.",
        fields: "",
        button: "Confirm",
        arrived: "Your e-mail address is confirmed, and you are signed in.",
        endpoint: "/v1/auth/verify-email",
    };
    link.page(&app)
}

/// Sign in by a link
///
/// Where the link of a sign-in mail leads.
#[utoipa::path(
    get, path = "/magic-link", tag = "Pages", operation_id = "magicLinkPage", params(Token),
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8")),
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
/// Where the link of a password-reset mail leads.
#[utoipa::path(
    get, path = "/reset-password", tag = "Pages", operation_id = "resetPasswordPage", params(Token),
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn reset_password(State(app): State<App>) -> Response {
    let shortest = app.config.limits.password_min_chars;
    let fields = new_password("new-password", "words", shortest);
    let link = Link {
        title: "Choose a new password",
        words: &format!("It needs at least {shortest} characters. You will be signed out everywhere else."),
        fields: &fields,
        button: "Set the new password",
        arrived: "Your new password is set, and you are signed in.",
        endpoint: "/v1/auth/password-reset/confirm",
    };
    link.page(&app)
}

/// Confirm a new sign-in method
///
/// Where the link of a mail leads that tells of a sign-in through an identity provider which the account does not know.
#[utoipa::path(
    get, path = "/confirm-sign-in", tag = "Pages", operation_id = "confirmSignInPage", params(Token),
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn confirm_sign_in(State(app): State<App>) -> Response {
    let link = Link {
        title: "Confirm a new way to sign in",
        words: "Only continue if you just tried to sign in this way yourself. From then on it opens your account.",
        fields: "",
        button: "Confirm and sign in",
        arrived: "From now on you can sign in this way. You are signed in.",
        endpoint: "/v1/auth/oauth/confirm",
    };
    link.page(&app)
}

/// What a link's address holds.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it describes what the page's script reads")]
struct Token {
    /// The token of the mail; the page is the same without it
    token: Option<String>,
}

/// The fields of a form in which a person chooses a password.
fn new_password(id: &str, described_by: &str, shortest: usize) -> String {
    let input = "type=password autocomplete=new-password required";
    format!(
        "<label for={id}>New password</label>\n\
         <input id={id} name=new_password {input} minlength={shortest} aria-describedby={described_by}>\n\
         <label for={id}-again>The same again</label>\n<input id={id}-again {input} data-repeats={id}>\n"
    )
}

/// A page of a link. Its texts are ours, so that nothing needs escaping.
struct Link<'a> {
    title: &'a str,
    /// What is about to happen.
    words: &'a str,
    /// What else the person has to fill in.
    fields: &'a str,
    button: &'a str,
    /// What has happened.
    arrived: &'a str,
    /// What takes the token.
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
             <p id=removed>The password of the signup was removed, because somebody else may have chosen it. A new one needs at least \
             {shortest} characters.</p>\n<form id=password-form>\n{new_password}<button>Set the password</button>\n</form>\n\
             <button id=no-password type=button class=quiet>Continue without a password</button>\n</section>\n\
             <section id=arrived hidden>\n<h1 tabindex=-1>Welcome</h1>\n<p>{arrived}</p>\n\
             <a id=next class=button href=\"/activate\">Connect a device</a>\n</section>\n\
             <p id=message role=status aria-live=polite></p>\n</main>"
        );
        card(title, "link.js", &main)
    }
}
