//! Signing in through an identity provider (contract: identities).
//!
//! A browser leaves for the provider with a state, and comes back with it and a code. That trip is good once, for ten
//! minutes, and for the browser that left, which a cookie tells: nobody can be signed in as somebody else by a link. The
//! code becomes what the provider says of the person, and that a session, an account, or a mail.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{RawPathParams, State};
use axum::http::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cookie::{Cookie, SameSite};
use kitfleet_domain::emails::{Recipient, Template};
use kitfleet_domain::identities::{self, Arrival, Flow, Visitor};
use kitfleet_domain::mail_links::{self, Purpose};
use kitfleet_domain::sign_ins::Method;
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::tokens::Token;
use kitfleet_jobs::emails;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::OpenJson;
use crate::http::kinds;
use crate::http::links::LinkToken;
use crate::http::lists::Query;
use crate::http::openapi::{Body, Database, InvalidQuery, LoggingIn, NoProvider, RateLimited};
use crate::http::providers::Provider;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::pages::arrival;
use crate::routes::sign_ins::{self, LoginResult};

/// How long a trip to a provider may take.
const BACK_WITHIN: Duration = Duration::from_mins(10);
/// What tells the browser that left.
const BROWSER_COOKIE: &str = "kitfleet_sign_in";
/// Where that is sent.
const COOKIE_PATH: &str = "/v1/auth/oauth";

pub fn routes() -> Routes {
    Routes::new().public(routes!(start)).public(routes!(callback)).public(routes!(confirm)).never_stored()
}

fn provider<'a>(app: &'a App, path: &RawPathParams) -> Result<&'a Provider> {
    let named = path.iter().find_map(|(_, name)| app.providers.get(name));
    named.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "there is no identity provider of this name"))
}

/// Leave for an identity provider
///
/// Sends a browser there. It comes back to the callback, within ten minutes.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/start", tag = "Authentication", operation_id = "startOauthSignIn",
    params(("provider" = String, Path, description = "The provider's name in the configuration")),
    responses(
        (status = 303, description = "To the provider",
         headers(("Location" = String, description = "The provider's page"),
                 ("Set-Cookie" = String, description = "Tells the browser when it comes back"))),
        NoProvider, RateLimited, Database,
    ),
)]
async fn start(State(app): State<App>, client: ClientInfo, path: RawPathParams) -> Result<Response> {
    let provider = provider(&app, &path)?;
    app.rate_limits.check(Bucket::Login, &client).await?;
    let (state, browser) = (Token::generate(), Token::generate());
    let departure = provider.departure(&state).await?;
    let flow = Flow {
        provider: &provider.name,
        state: &state,
        browser: &browser,
        nonce: departure.nonce.secret(),
        pkce_verifier: departure.pkce_verifier.secret(),
    };
    identities::start(&mut *app.db.acquire().await?, flow, BACK_WITHIN).await?;
    let cookie = Cookie::build((BROWSER_COOKIE, browser.reveal()))
        .path(COOKIE_PATH)
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(app.config.base_url.starts_with("https:"))
        .build();
    let cookie = format!("{cookie}; Max-Age={}", BACK_WITHIN.as_secs());
    Ok((StatusCode::SEE_OTHER, [(LOCATION, departure.url.to_string()), (SET_COOKIE, cookie)]).into_response())
}

/// What an identity provider's sign-in answers when its address has an account that is not linked
#[derive(Serialize, ToSchema)]
struct ConfirmationRequired {
    /// Always true
    confirmation_required: bool,
    /// Until when the link that was mailed is good
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Come back from an identity provider
///
/// Signs in to the account that is linked, or makes one for a verified address. An address that has an account already
/// gets a mail that asks to confirm the new sign-in method, and no session. A browser, which asks for `text/html`, gets a
/// page that asks again for what a program is answered.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/callback", tag = "Authentication", operation_id = "finishOauthSignIn",
    params(
        ("provider" = String, Path, description = "The provider's name in the configuration"),
        ("state" = String, Query, description = "What the browser left with"),
        ("code" = Option<String>, Query, description = "What the provider gives"),
        ("error" = Option<String>, Query, description = "Why it gives none"),
    ),
    responses(
        (status = 200, description = "Signed in, or nearly", body = LoginResult),
        (status = 202, description = "A mail asks to confirm", body = ConfirmationRequired),
        InvalidQuery, LoggingIn, NoProvider, RateLimited, Database,
    ),
)]
async fn callback(
    State(app): State<App>,
    client: ClientInfo,
    path: RawPathParams,
    query: Query,
    headers: HeaderMap,
) -> Result<Response> {
    let provider = provider(&app, &path)?;
    if wants_page(&headers) {
        return Ok(arrival::page(&app));
    }
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let state = query.text("state")?.unwrap_or_default();
    let browser = browser_of(&headers).unwrap_or_default();
    let returned = identities::finish(&mut *app.db.acquire().await?, &provider.name, state, &browser).await?;
    let returned = returned.ok_or_else(|| {
        Problem::invalid("state", "belongs to no sign-in that this browser has under way; start again")
    })?;
    if query.text("error")?.is_some() {
        return Err(Problem::invalid("code", "the identity provider gave none: the sign-in was refused there"));
    }
    let code = query.text("code")?.ok_or_else(|| Problem::invalid("code", "is required"))?;
    let person = provider.arrival(code, returned).await?;

    let origin = client.origin();
    let method = Method::Oauth { provider: &provider.name };
    let visitor = Visitor {
        provider: &provider.name,
        subject: &person.subject,
        email: person.email.as_ref(),
        name: person.name.as_deref(),
    };
    let mut tx = app.db.begin().await?;
    match identities::arrive(&mut tx, &visitor).await? {
        Arrival::Linked(account) => {
            Ok(Answer(sign_ins::complete(&app, tx, account, method, &origin).await?).into_response())
        }
        Arrival::New(account) => {
            sign_ins::welcome(&mut tx, account).await?;
            Ok(Answer(sign_ins::complete(&app, tx, account, method, &origin).await?).into_response())
        }
        Arrival::Unlinked(account) => {
            let details = json!({
                "provider": provider.name, "subject": person.subject, "provider_name": provider.config.display_name,
            });
            let good_for = app.config.auth.verification_ttl;
            let to = Recipient::Account(account);
            let sent = emails::send(&mut tx, Template::ConfirmSignIn, to, details, good_for).await?;
            tx.commit().await?;
            let expires_at = sent.ok_or_else(|| Problem::internal(&"a link was not mailed"))?;
            let answer = ConfirmationRequired { confirmation_required: true, expires_at };
            Ok((StatusCode::ACCEPTED, Answer(answer)).into_response())
        }
        Arrival::Unknown => Err(Problem::forbidden(
            "the identity provider names no e-mail address that it has verified, and no account is linked",
        )),
    }
}

/// Whether a browser asks, for a person to look at the answer.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|line| line.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// What the cookie of a browser says.
fn browser_of(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = lines.flat_map(Cookie::split_parse).flatten();
    cookies.find(|cookie| cookie.name() == BROWSER_COOKIE).map(|cookie| cookie.value().to_owned())
}

/// What a mail about a new sign-in method is about
#[derive(Deserialize)]
struct Subject {
    provider: String,
    subject: String,
}

/// Confirm a new sign-in method
///
/// With the link that was mailed. From then on the identity provider signs in to the account. It signs in now, too.
#[utoipa::path(
    post, path = "/v1/auth/oauth/confirm", tag = "Authentication", operation_id = "confirmOauthSignIn",
    request_body = LinkToken,
    responses((status = 200, description = "Signed in, or nearly", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn confirm(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<LoginResult>> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let origin = client.origin();
    let mut tx = app.db.begin().await?;
    let followed = mail_links::follow(&mut tx, Purpose::ConfirmSignIn, &body.token).await?;
    let followed = followed.ok_or_else(Problem::bad_link)?;
    let account = followed.account;
    let Subject { provider, subject } =
        serde_json::from_value(followed.subject.unwrap_or_default()).map_err(|error| Problem::internal(&error))?;
    if !identities::link(&mut tx, account, &provider, &subject).await? {
        return Err(Problem::bad_link());
    }
    let reset = if sign_ins::note_verified(&mut tx, account, &origin).await? {
        Some(sign_ins::forget_password(&app, &mut tx, account).await?)
    } else {
        None
    };
    let method = Method::Oauth { provider: &provider };
    Ok(Answer(sign_ins::complete(&app, tx, account, method, &origin).await?.with_reset(reset)))
}
