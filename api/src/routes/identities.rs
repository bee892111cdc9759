//! Sign-in through an identity provider (contract: identities).
//!
//! The state is valid once, for ten minutes, and only in the browser that started, which a cookie identifies, so that a link
//! cannot sign a person in to another person's account.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{RawPathParams, State};
use axum::http::header::{ACCEPT, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cookie::{Cookie, SameSite};
use kitfleet_domain::emails::{Recipient, Template};
use kitfleet_domain::identities::{self, Flow, ProviderUser, SignInTarget};
use kitfleet_domain::mail_links::{self, Purpose};
use kitfleet_domain::sign_ins::Method;
use kitfleet_domain::tokens::Token;
use kitfleet_jobs::emails;
use kitfleet_types::timestamp::Timestamp;
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
use crate::routes::pages::links;
use crate::routes::sign_ins::{self, LoginResult};

/// Maximum time between the redirect to the provider and the return.
const SIGN_IN_TIMEOUT: Duration = Duration::from_mins(10);
/// Cookie that identifies the browser that started the sign-in.
const BROWSER_COOKIE: &str = "kitfleet_sign_in";
/// Path of that cookie.
const COOKIE_PATH: &str = "/v1/auth/oauth";

pub fn routes() -> Routes {
    Routes::new().public(routes!(start)).public(routes!(callback)).public(routes!(confirm)).never_stored()
}

fn provider<'a>(app: &'a App, path: &RawPathParams) -> Result<&'a Provider> {
    let named = path.iter().find_map(|(_, name)| app.providers.get(name));
    named.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "no identity provider has this name"))
}

/// Start a sign-in at an identity provider
///
/// Redirects the browser to the provider. The provider must redirect it back to the callback within ten minutes.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/start", tag = "Authentication", operation_id = "startOauthSignIn",
    params(("provider" = String, Path, description = "Name of the provider in the deployment's configuration")),
    responses(
        (status = 303, description = "Redirect to the provider",
         headers(("Location" = String, description = "Sign-in page of the provider"),
                 ("Set-Cookie" = String, description = "Identifies the browser at the callback"))),
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
    identities::start(&mut *app.db.acquire().await?, flow, SIGN_IN_TIMEOUT).await?;
    let cookie = Cookie::build((BROWSER_COOKIE, browser.reveal()))
        .path(COOKIE_PATH)
        .http_only(true)
        .same_site(SameSite::Lax)
        .secure(app.config.base_url.starts_with("https:"))
        .build();
    let cookie = format!("{cookie}; Max-Age={}", SIGN_IN_TIMEOUT.as_secs());
    Ok((StatusCode::SEE_OTHER, [(LOCATION, departure.url.to_string()), (SET_COOKIE, cookie)]).into_response())
}

/// Confirmation request: the e-mail address has an account that is not linked to the identity provider
#[derive(Serialize, ToSchema)]
struct ConfirmationRequired {
    /// Always true
    confirmation_required: bool,
    /// Time the mailed link expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Complete a sign-in at an identity provider
///
/// Signs in to the linked account, or creates one for a verified address. If the address already has an account, a mail asks its
/// owner to confirm the new sign-in method; no session is created. A browser, which accepts `text/html`, receives a page that
/// repeats the request and shows the result.
#[utoipa::path(
    get, path = "/v1/auth/oauth/{provider}/callback", tag = "Authentication", operation_id = "finishOauthSignIn",
    params(
        ("provider" = String, Path, description = "Name of the provider in the deployment's configuration"),
        ("state" = String, Query, description = "State from the start of the sign-in"),
        ("code" = Option<String>, Query, description = "Authorization code of the provider"),
        ("error" = Option<String>, Query, description = "Error code of the provider, sent instead of a code"),
    ),
    responses(
        (status = 200, description = "Signed in, or a second factor is required", body = LoginResult),
        (status = 202, description = "A confirmation mail was sent", body = ConfirmationRequired),
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
        return links::page(&app);
    }
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let state = query.text("state")?.unwrap_or_default();
    let browser = browser_of(&headers).unwrap_or_default();
    let returned = identities::finish(&mut *app.db.acquire().await?, &provider.name, state, &browser).await?;
    let returned = returned
        .ok_or_else(|| Problem::invalid("state", "does not match a sign-in that this browser started; start again"))?;
    if query.text("error")?.is_some() {
        return Err(Problem::invalid("code", "is missing: the identity provider refused the sign-in"));
    }
    let code = query.text("code")?.ok_or_else(|| Problem::invalid("code", "is required"))?;
    let person = provider.arrival(code, returned).await?;

    let origin = client.origin();
    let method = Method::Oauth { provider: &provider.name };
    let visitor = ProviderUser {
        provider: &provider.name,
        subject: &person.subject,
        email: person.email.as_ref(),
        name: person.name.as_deref(),
    };
    let mut tx = app.db.begin().await?;
    match identities::arrive(&mut tx, &visitor).await? {
        SignInTarget::Linked(account) => {
            Ok(Answer(sign_ins::complete(&app, tx, account, method, &origin).await?).into_response())
        }
        SignInTarget::New(account) => {
            sign_ins::welcome(&mut tx, account).await?;
            Ok(Answer(sign_ins::complete(&app, tx, account, method, &origin).await?).into_response())
        }
        SignInTarget::Unlinked(account) => {
            let details = json!({
                "provider": provider.name, "subject": person.subject, "provider_name": provider.config.display_name,
            });
            let good_for = app.config.auth.verification_ttl;
            let to = Recipient::Account(account);
            let sent = emails::send(&mut tx, Template::ConfirmSignIn, to, details, good_for).await?;
            tx.commit().await?;
            let expires_at = sent.ok_or_else(|| Problem::internal(&"no link was mailed"))?;
            let answer = ConfirmationRequired { confirmation_required: true, expires_at };
            Ok((StatusCode::ACCEPTED, Answer(answer)).into_response())
        }
        SignInTarget::Unknown => Err(Problem::forbidden(
            "the identity provider returned no verified e-mail address, and no account is linked",
        )),
    }
}

/// True when a browser asks for a page that a person reads.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|line| line.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// Returns the value of the browser's cookie.
fn browser_of(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = lines.flat_map(Cookie::split_parse).flatten();
    cookies.find(|cookie| cookie.name() == BROWSER_COOKIE).map(|cookie| cookie.value().to_owned())
}

/// Subject of a link that confirms a sign-in method
#[derive(Deserialize)]
struct Subject {
    provider: String,
    subject: String,
}

/// Confirm a new sign-in method
///
/// Links the identity provider to the account with the token of the mailed link, and signs in.
#[utoipa::path(
    post, path = "/v1/auth/oauth/confirm", tag = "Authentication", operation_id = "confirmOauthSignIn",
    request_body = LinkToken,
    responses((status = 200, description = "Signed in, or a second factor is required", body = LoginResult), Body, LoggingIn, RateLimited, Database),
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
