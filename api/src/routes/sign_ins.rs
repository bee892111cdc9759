//! Sign-up, sign-in and sign-out (contract: sign-ins).
//!
//! These routes need no credential, and none reveals whether an address has an account. The worker alone checks whether a mail
//! has a recipient. A password for an unknown address is checked against a dummy hash.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::accounts::{self, AccountName, AccountStatus, CreateError, Login, NewAccount};
use kitfleet_domain::audit::Origin;
use kitfleet_domain::emails::{EmailAddress, REQUESTED_FROM, Recipient, SIGNUP, Template};
use kitfleet_domain::mail_links::{self, Purpose, RedeemedLink};
use kitfleet_domain::passwords::{self, NewPassword};
use kitfleet_domain::sign_ins::{self, Method, SignInError, SignedIn};
use kitfleet_domain::sign_ups;
use kitfleet_domain::tokens::Token;
use kitfleet_domain::web_sessions::{self, NewWebSession};
use kitfleet_jobs::emails;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::both;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{Postgres, Transaction};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{OpenJson, OpenUnchecked};
use crate::http::kinds;
use crate::http::links::LinkToken;
use crate::http::openapi::{Body, Database, LoggingIn, RateLimited, SigningUp, Unauthorized, const_true};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum age at which a welcome mail is still sent.
const WELCOME_FOR: Duration = Duration::from_hours(24);

pub fn routes() -> Routes {
    Routes::new()
        .public(routes!(sign_up))
        .public(routes!(verify_email))
        .public(routes!(resend_verification))
        .public(routes!(log_in))
        .public(routes!(request_magic_link))
        .public(routes!(consume_magic_link))
        .public(routes!(request_password_reset))
        .public(routes!(confirm_password_reset))
        .public(routes!(refresh))
        .public(routes!(log_out))
        .never_stored()
}

/// Request body of a sign-up
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.com", "password": "correct horse battery", "name": "Ada"}))]
struct SignUp {
    /// E-mail address of the account
    #[schema(max_length = 254, format = Email)]
    email: String,
    /// Password, at least 12 characters
    #[schema(min_length = 12, max_length = 1024, format = Password)]
    password: String,
    /// Display name of the account owner
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Result of a sign-up
#[derive(Serialize, ToSchema)]
struct SignedUp {
    /// Time the mailed link expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    verification_email_expires_at: Timestamp,
}

/// Sign up
///
/// Creates an account and mails a link that verifies its address. The account cannot log in before the address is verified.
#[utoipa::path(
    post, path = "/v1/auth/signup", tag = "Authentication", operation_id = "signUp",
    request_body = SignUp,
    responses((status = 200, description = "The verification link was mailed", body = SignedUp), Body, SigningUp, RateLimited, Database),
)]
async fn sign_up(
    State(app): State<App>,
    client: ClientInfo,
    OpenUnchecked(body): OpenUnchecked<SignUp>,
) -> Result<Answer<SignedUp>> {
    app.rate_limits.check(Bucket::Signup, &client).await?;
    let (body, password) = body.check(|body| {
        let names = both(EmailAddress::parse(&body.email), AccountName::parse(&body.name));
        let (_, password) = both(names, NewPassword::parse(&body.password, "password", &app.config.limits))?;
        Ok((body, password))
    })?;
    app.rate_limits.check(Bucket::StrangerMail, client.network()).await?;
    let password_hash = app.hashing.run(move || password.hash()).await?;
    let new = NewAccount {
        email: body.email,
        name: body.name,
        password_hash: Some(password_hash),
        tier: Tier::Free,
        verified: false,
        signup_network: client.origin().network(),
    };
    let mut tx = app.db.begin().await?;
    let account = sign_ups::create(&mut tx, new).await?;
    let verification_email_expires_at = send(
        &mut tx,
        Template::VerifyEmail,
        Recipient::Account(account),
        json!({SIGNUP: true}),
        app.config.auth.verification_ttl,
    )
    .await?;
    tx.commit().await?;
    Ok(Answer(SignedUp { verification_email_expires_at }))
}

/// Mails a link. Returns the time it expires.
async fn send(
    tx: &mut Transaction<'static, Postgres>,
    template: Template,
    recipient: Recipient<'_>,
    details: Value,
    good_for: Duration,
) -> Result<Timestamp> {
    let sent = emails::send(tx, template, recipient, details, good_for).await?;
    sent.ok_or_else(|| Problem::internal(&"no link was mailed"))
}

/// Verify an e-mail address
///
/// Takes the token of the mailed link, and signs in. A resent link keeps the sign-up password on two conditions: it was requested
/// from the network of the sign-up, and the original link would still be valid. Otherwise the password is removed, and the
/// response has a `password_reset_token` to set a new one.
#[utoipa::path(
    post, path = "/v1/auth/verify-email", tag = "Authentication", operation_id = "verifyEmail",
    request_body = LinkToken,
    responses((status = 200, description = "The address is verified", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn verify_email(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<LoginResult>> {
    Ok(Answer(sign_in_by_link(&app, &client, Purpose::VerifyEmail, &body.token).await?))
}

/// Signs in with a mailed link, which proves control of the account's mailbox.
async fn sign_in_by_link(app: &App, client: &ClientInfo, purpose: Purpose, token: &str) -> Result<LoginResult> {
    app.rate_limits.check(Bucket::Verify, client).await?;
    let origin = client.origin();
    let mut tx = app.db.begin().await?;
    let followed = mail_links::follow(&mut tx, purpose, token).await?.ok_or_else(Problem::bad_link)?;
    let first = note_verified(&mut tx, followed.account, &origin).await?;
    let reset = if first && !keeps_password(app, &mut tx, purpose, &followed).await? {
        Some(forget_password(app, &mut tx, followed.account).await?)
    } else {
        None
    };
    Ok(complete(app, tx, followed.account, Method::MailLink, &origin).await?.with_reset(reset))
}

/// Returns whether a verification link keeps the sign-up password. The link of the sign-up does. A resent link does if it was
/// requested from the network of the sign-up and the original link would still be valid.
async fn keeps_password(
    app: &App,
    tx: &mut Transaction<'static, Postgres>,
    purpose: Purpose,
    followed: &RedeemedLink,
) -> Result<bool> {
    let (Purpose::VerifyEmail, Some(details)) = (purpose, &followed.subject) else { return Ok(false) };
    if details[SIGNUP] == true {
        return Ok(true);
    }
    let Some(network) = details[REQUESTED_FROM].as_str() else { return Ok(false) };
    Ok(accounts::was_signed_up_from(tx, followed.account, network, app.config.auth.verification_ttl).await?)
}

/// Removes a password that was chosen before the address was verified. Returns a token to set a new password.
pub async fn forget_password(app: &App, tx: &mut Transaction<'static, Postgres>, account: AccountId) -> Result<Token> {
    sign_ins::forget_password(&mut *tx, account).await?;
    Ok(mail_links::issue_for(tx, account, Purpose::ResetPassword, app.config.auth.reset_ttl).await?)
}

/// Marks the address as verified, because a followed link proves control of the mailbox. The first time, sends a welcome mail and
/// returns `true`: then the chooser of the password had not proven control of the address, unless the link was the sign-up's own.
pub async fn note_verified(
    tx: &mut Transaction<'static, Postgres>,
    account: AccountId,
    origin: &Origin,
) -> Result<bool> {
    let first = accounts::verify_email(&mut *tx, account, origin).await?;
    if first {
        welcome(tx, account).await?;
    }
    Ok(first)
}

/// Sends a welcome mail to an account with a newly verified address.
pub async fn welcome(tx: &mut Transaction<'static, Postgres>, account: AccountId) -> Result<()> {
    emails::send(tx, Template::Welcome, Recipient::Account(account), json!({}), WELCOME_FOR).await?;
    Ok(())
}

/// Completes a sign-in. The transaction is committed even if the account is not allowed to act.
pub async fn complete(
    app: &App,
    mut tx: Transaction<'static, Postgres>,
    account: AccountId,
    method: Method<'_>,
    origin: &Origin,
) -> Result<LoginResult> {
    let signed_in = sign_ins::complete(&mut tx, account, method, origin, app.config.auth.lifetimes).await;
    tx.commit().await?;
    Ok(signed_in?.into())
}

/// Request body of the routes that mail a link
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailRequest, example = json!({"email": "ada@example.com"}))]
struct Address {
    /// E-mail address to write to
    #[schema(max_length = 254, format = Email)]
    email: String,
}

/// Response of the routes that mail a link; it is the same whether or not the address has an account
#[derive(Serialize, ToSchema)]
#[schema(as = SentEmail)]
struct SentLink {
    /// Always true
    sent: bool,
    /// Time a mailed link expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Has a link mailed to the account with this address, if there is one. Too many mails to strangers are withheld (contract: rate-limits 14):
/// such a mail has expired when it is written. The answer, and the time that it takes, tell nothing of the address.
async fn send_to(
    app: &App,
    client: &ClientInfo,
    email: &EmailAddress,
    template: Template,
    details: Value,
    good_for: Duration,
) -> Result<Answer<SentLink>> {
    let login = accounts::find_login(&mut *app.db.acquire().await?, email).await?;
    let is_stranger = !login.is_some_and(|login| login.verified);
    let is_within = app.rate_limits.is_within(Bucket::StrangerMail, client.network(), is_stranger).await;
    let (mail_good_for, rest) =
        if is_stranger && !is_within { (Duration::ZERO, good_for) } else { (good_for, Duration::ZERO) };
    let mut tx = app.db.begin().await?;
    let Timestamp(mail_expires_at) = send(&mut tx, template, Recipient::Address(email), details, mail_good_for).await?;
    tx.commit().await?;
    Ok(Answer(SentLink { sent: true, expires_at: Timestamp(mail_expires_at + rest) }))
}

/// Resend the verification link
///
/// The previous link stops working. A link requested from another network than the sign-up removes the sign-up password when it
/// is followed. The response is the same for every address.
#[utoipa::path(
    post, path = "/v1/auth/resend-verification", tag = "Authentication", operation_id = "resendVerificationEmail",
    request_body = Address,
    responses((status = 200, description = "A link is mailed if the address has an account", body = SentLink), Body, RateLimited, Database),
)]
async fn resend_verification(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<SentLink>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendVerification, &client).await?;
    let network = client.origin().network().map(|network| network.to_string());
    let (details, good_for) = (json!({REQUESTED_FROM: network}), app.config.auth.verification_ttl);
    send_to(&app, &client, &email, Template::VerifyEmail, details, good_for).await
}

/// Request body of a login
#[derive(Deserialize, ToSchema)]
#[schema(as = SignIn, example = json!({"email": "ada@example.com", "password": "correct horse battery"}))]
struct LoginRequest {
    /// E-mail address of the account
    #[schema(format = Email)]
    email: String,
    /// Password of the account
    #[schema(format = Password)]
    password: String,
}

/// Log in
///
/// Takes the e-mail address and the password. An account with a second factor receives a challenge instead of a session.
#[utoipa::path(
    post, path = "/v1/auth/login", tag = "Authentication", operation_id = "logIn",
    request_body = LoginRequest,
    responses(
        (status = 200, description = "Logged in, or a second factor is required", body = LoginResult),
        Unauthorized, Body, LoggingIn, RateLimited, Database,
    ),
)]
async fn log_in(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LoginRequest>,
) -> Result<Answer<LoginResult>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::Login, &client).await?;
    let failures = LoginFailures::before(&app, &client, &email).await?;
    let turn = app.hashing.turn().await?;
    let found = accounts::find_login(&mut *app.db.acquire().await?, &email).await?;
    let wrong = || Problem::unauthorized("the e-mail address or the password is wrong");
    let hash = found.as_ref().and_then(|login| login.password_hash.clone());
    let right = turn.run(move || passwords::verify(&body.password, hash.as_deref())).await?;
    let Some(Login { id, status, verified, password_hash: Some(hash) }) = found.filter(|_| right) else {
        failures.record(&app).await;
        return Err(wrong());
    };
    if status == AccountStatus::Active && !verified {
        return Err(Problem::forbidden("the e-mail address is not verified; follow the link in the verification mail")
            .titled("EmailNotVerified"));
    }
    let mut tx = app.db.begin().await?;
    let method = Method::Password { hash: &hash };
    let signed_in = sign_ins::complete(&mut tx, id, method, &client.origin(), app.config.auth.lifetimes).await;
    tx.commit().await?;
    match signed_in {
        Err(SignInError::Gone) => Err(wrong()),
        signed_in => Ok(Answer(signed_in?.into())),
    }
}

/// Counters of wrong passwords for an address (contract: rate-limits 5).
pub struct LoginFailures {
    email: String,
    /// Key of the counter for the address and the client's network.
    from_network: String,
    /// True when the account owner has signed in from that network before.
    is_known: bool,
}

impl LoginFailures {
    /// Rejects a login after too many wrong passwords. From a network that the account owner has used, only failures from that
    /// network count. Clients on other networks therefore cannot lock the account owner out.
    ///
    /// # Errors
    /// There were too many, or the database fails.
    pub async fn before(app: &App, client: &ClientInfo, email: &EmailAddress) -> Result<Self> {
        let network = client.origin().network();
        let is_known = sign_ins::knows_network(&mut *app.db.acquire().await?, email, network.as_ref()).await?;
        let network = network.map(|network| network.to_string()).unwrap_or_default();
        let failures =
            Self { email: email.key().to_owned(), from_network: format!("{} {network}", email.key()), is_known };
        app.rate_limits.peek(Bucket::LoginFailuresOfNetwork, failures.from_network.as_str()).await?;
        if !is_known {
            app.rate_limits.peek(Bucket::LoginFailures, failures.email.as_str()).await?;
        }
        Ok(failures)
    }

    /// Counts a wrong password.
    pub async fn record(&self, app: &App) {
        app.rate_limits.record(Bucket::LoginFailuresOfNetwork, self.from_network.as_str()).await;
        if !self.is_known {
            app.rate_limits.record(Bucket::LoginFailures, self.email.as_str()).await;
        }
    }
}

/// Mail a sign-in link
///
/// The response is the same for every address.
#[utoipa::path(
    post, path = "/v1/auth/magic-link/request", tag = "Authentication", operation_id = "requestMagicLink",
    request_body = Address,
    responses((status = 200, description = "A link is mailed if the address has an account", body = SentLink), Body, RateLimited, Database),
)]
async fn request_magic_link(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<SentLink>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendMagicLink, &client).await?;
    send_to(&app, &client, &email, Template::MagicLink, json!({}), app.config.auth.magic_link_ttl).await
}

/// Sign in with a link
#[utoipa::path(
    post, path = "/v1/auth/magic-link/consume", tag = "Authentication", operation_id = "consumeMagicLink",
    request_body = LinkToken,
    responses((status = 200, description = "Signed in, or a second factor is required", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn consume_magic_link(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<LoginResult>> {
    Ok(Answer(sign_in_by_link(&app, &client, Purpose::MagicLink, &body.token).await?))
}

/// Mail a password reset link
///
/// The response is the same for every address.
#[utoipa::path(
    post, path = "/v1/auth/password-reset/request", tag = "Authentication", operation_id = "requestPasswordReset",
    request_body = Address,
    responses((status = 200, description = "A link is mailed if the address has an account", body = SentLink), Body, RateLimited, Database),
)]
async fn request_password_reset(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<SentLink>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendPasswordReset, &client).await?;
    send_to(&app, &client, &email, Template::ResetPassword, json!({}), app.config.auth.reset_ttl).await
}

/// Request body of a password reset
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "new_password": "correct horse battery"}))]
struct ResetPassword {
    /// Token of the mailed link
    token: String,
    /// New password, at least 12 characters
    #[schema(min_length = 12, max_length = 1024, format = Password)]
    new_password: String,
}

/// Reset the password
///
/// Sets a new password, ends all web sessions of the account, and signs in.
#[utoipa::path(
    post, path = "/v1/auth/password-reset/confirm", tag = "Authentication", operation_id = "confirmPasswordReset",
    request_body = ResetPassword,
    responses((status = 200, description = "The password is changed", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn confirm_password_reset(
    State(app): State<App>,
    client: ClientInfo,
    OpenUnchecked(body): OpenUnchecked<ResetPassword>,
) -> Result<Answer<LoginResult>> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let (token, password) = body.check(|ResetPassword { token, new_password }| {
        Ok((token, NewPassword::parse(&new_password, "new_password", &app.config.limits)?))
    })?;
    // The token is checked before the password is hashed, so an invented token causes no hashing work.
    let mut conn = app.db.acquire().await?;
    if !mail_links::is_valid(&mut conn, Purpose::ResetPassword, &token).await? {
        return Err(Problem::bad_link());
    }
    drop(conn);
    let hash = app.hashing.run(move || password.hash()).await?;
    let origin = client.origin();
    let mut tx = app.db.begin().await?;
    let followed = mail_links::follow(&mut tx, Purpose::ResetPassword, &token).await?;
    let account = followed.ok_or_else(Problem::bad_link)?.account;
    note_verified(&mut tx, account, &origin).await?;
    sign_ins::reset_password(&mut tx, account, &hash, &origin).await?;
    Ok(Answer(complete(&app, tx, account, Method::MailLink, &origin).await?))
}

/// Request body of refresh and logout
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI"}))]
struct SessionToken {
    /// Token of the web session
    token: String,
}

/// Refresh a web session
///
/// Returns a new token with a new lifetime; the previous token stops working.
#[utoipa::path(
    post, path = "/v1/auth/refresh", tag = "Authentication", operation_id = "refreshWebSession",
    request_body = SessionToken,
    responses((status = 200, description = "The new token of the session", body = WebSession), Unauthorized, Body, LoggingIn, Database),
)]
async fn refresh(State(app): State<App>, OpenJson(body): OpenJson<SessionToken>) -> Result<Answer<WebSession>> {
    let mut conn = app.db.acquire().await?;
    if let Some(fresh) = web_sessions::refresh(&mut conn, &body.token, app.config.auth.lifetimes.session).await? {
        return Ok(Answer(fresh.into()));
    }
    match web_sessions::find_by_token(&mut conn, &body.token).await? {
        Some(record) if record.account_status == AccountStatus::Suspended && !record.revoked && !record.expired => {
            Err(Problem::account_suspended())
        }
        _ => Err(Problem::unauthorized("the token is invalid, expired or revoked")),
    }
}

/// Result of a logout
#[derive(Serialize, ToSchema)]
struct LoggedOut {
    /// Always true
    ok: bool,
}

/// Log out
///
/// Revokes the token. Succeeds when it was already invalid.
#[utoipa::path(
    post, path = "/v1/auth/logout", tag = "Authentication", operation_id = "logOut",
    request_body = SessionToken,
    responses((status = 200, description = "Logged out", body = LoggedOut), Body, Database),
)]
async fn log_out(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<SessionToken>,
) -> Result<Answer<LoggedOut>> {
    let mut tx = app.db.begin().await?;
    web_sessions::log_out(&mut tx, &body.token, &client.origin()).await?;
    tx.commit().await?;
    Ok(Answer(LoggedOut { ok: true }))
}

/// A new or refreshed web session
#[derive(Serialize, ToSchema)]
#[schema(as = WebSession, example = json!({
    "token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "expires_at": "2026-12-20T18:05:00.123Z",
    "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
}))]
pub struct WebSession {
    /// Bearer token, returned only once
    token: String,
    /// Time the token expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Account that signed in
    #[schema(value_type = String)]
    account_id: AccountId,
}

impl From<NewWebSession> for WebSession {
    fn from(session: NewWebSession) -> Self {
        Self {
            token: session.token.reveal().to_owned(),
            expires_at: session.expires_at,
            account_id: session.account_id,
        }
    }
}

/// Result of a sign-in: a session or, for an account with a second factor, a challenge. Clients check `mfa_required`.
#[derive(Serialize, ToSchema)]
#[schema(as = SignInResult)]
#[serde(untagged)]
pub enum LoginResult {
    /// Signed in
    #[schema(title = "SignedIn")]
    Session {
        /// The web session
        session: WebSession,
        /// Token to set a new password. It is present when the sign-up password was removed; send it to
        /// `/v1/auth/password-reset/confirm` within 60 minutes
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        password_reset_token: Option<String>,
    },
    /// A second factor is required
    #[schema(title = "MfaRequired")]
    Challenge {
        /// Always true
        #[schema(schema_with = const_true)]
        mfa_required: bool,
        /// Token to send with the code, once, from the same IP address
        challenge_token: String,
        /// Time the challenge expires (RFC 3339)
        #[schema(value_type = String, format = DateTime)]
        challenge_expires_at: Timestamp,
    },
}

impl LoginResult {
    /// Adds a token to set a new password.
    pub fn with_reset(mut self, token: Option<Token>) -> Self {
        if let Self::Session { password_reset_token, .. } = &mut self {
            *password_reset_token = token.map(|token| token.reveal().to_owned());
        }
        self
    }
}

impl From<SignedIn> for LoginResult {
    fn from(signed_in: SignedIn) -> Self {
        match signed_in {
            SignedIn::Session(session) => Self::Session { session: session.into(), password_reset_token: None },
            SignedIn::Challenge { token, expires_at } => Self::Challenge {
                mfa_required: true,
                challenge_token: token.reveal().to_owned(),
                challenge_expires_at: expires_at,
            },
        }
    }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::Suspended => Self::account_suspended(),
            SignInError::Gone => Self::bad_link(),
            SignInError::Database(error) => error.into(),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Invalid(invalid) => invalid.into(),
            CreateError::EmailTaken => {
                Self::new(&kinds::CONFLICT, "an account with this e-mail address already exists")
            }
            CreateError::Database(error) => error.into(),
        }
    }
}
