//! Signing up, in and out (contract: sign-ins).
//!
//! None of these routes needs a credential, and none tells a stranger whether an address has an account: where mail is
//! sent, only the worker looks whether there is anybody to send it to, and a password is checked against somebody's hash
//! or, when there is nobody, against nobody's.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::accounts::{self, AccountName, AccountStatus, CreateError, Login, NewAccount, Tier};
use kitfleet_domain::audit::Origin;
use kitfleet_domain::emails::{EmailAddress, REQUESTED_FROM, Recipient, SIGNUP, Template};
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::mail_links::{self, Followed, Purpose};
use kitfleet_domain::passwords::{self, NewPassword};
use kitfleet_domain::sign_ins::{self, Method, SignInError, SignedIn};
use kitfleet_domain::sign_ups;
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::tokens::Token;
use kitfleet_domain::validation::both;
use kitfleet_domain::web_sessions::{self, NewWebSession};
use kitfleet_jobs::emails;
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
use crate::http::openapi::{Body, Database, LoggingIn, RateLimited, SigningUp, Unauthorized, literally_true};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// How long a welcome is worth reading.
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

/// Body of a signup
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"email": "ada@example.com", "password": "correct horse battery", "name": "Ada"}))]
struct SignUp {
    /// Where the account's mail goes
    #[schema(max_length = 254, format = Email)]
    email: String,
    /// At least 12 characters
    #[schema(min_length = 12, max_length = 1024, format = Password)]
    password: String,
    /// What the account's owner is called
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// What a signup answers
#[derive(Serialize, ToSchema)]
struct SignedUp {
    /// Until when the link that was mailed is good
    #[schema(value_type = String, format = DateTime)]
    verification_email_expires_at: Timestamp,
}

/// Sign up
///
/// Makes an account and mails a link that proves its address. Nobody can log in before that.
#[utoipa::path(
    post, path = "/v1/auth/signup", tag = "Authentication", operation_id = "signUp",
    request_body = SignUp,
    responses((status = 200, description = "A link was mailed", body = SignedUp), Body, SigningUp, RateLimited, Database),
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

/// Has a link mailed. Answers until when it is good.
async fn send(
    tx: &mut Transaction<'static, Postgres>,
    template: Template,
    recipient: Recipient<'_>,
    details: Value,
    good_for: Duration,
) -> Result<Timestamp> {
    let sent = emails::send(tx, template, recipient, details, good_for).await?;
    sent.ok_or_else(|| Problem::internal(&"a link was not mailed"))
}

/// Prove an address
///
/// Takes the token of the link that was mailed, and signs in. A link that was requested again keeps the password of the signup only
/// when it was requested from the network of the signup and the signup's own link would still be valid. Otherwise that password is
/// removed, and the answer has a `password_reset_token` to set another one with.
#[utoipa::path(
    post, path = "/v1/auth/verify-email", tag = "Authentication", operation_id = "verifyEmail",
    request_body = LinkToken,
    responses((status = 200, description = "The address is proven", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn verify_email(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<LoginResult>> {
    Ok(Answer(sign_in_by_link(&app, &client, Purpose::VerifyEmail, &body.token).await?))
}

/// Follows a link that proves its holder to have the account's mail.
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

/// Whether a link that proves an address leaves the password of the signup as it is: the signup's own link does, and one that was
/// requested from the network of the signup for as long as the signup's own is valid.
async fn keeps_password(
    app: &App,
    tx: &mut Transaction<'static, Postgres>,
    purpose: Purpose,
    followed: &Followed,
) -> Result<bool> {
    let (Purpose::VerifyEmail, Some(details)) = (purpose, &followed.subject) else { return Ok(false) };
    if details[SIGNUP] == true {
        return Ok(true);
    }
    let Some(network) = details[REQUESTED_FROM].as_str() else { return Ok(false) };
    Ok(accounts::was_signed_up_from(tx, followed.account, network, app.config.auth.verification_ttl).await?)
}

/// Removes a password that was chosen before the address was proven. Returns a token to set another one with.
pub async fn forget_password(app: &App, tx: &mut Transaction<'static, Postgres>, account: AccountId) -> Result<Token> {
    sign_ins::forget_password(&mut *tx, account).await?;
    Ok(mail_links::issue_for(tx, account, Purpose::ResetPassword, app.config.auth.reset_ttl).await?)
}

/// Whoever follows a link has the account's mail; the first time they are welcomed. `true` when it is the first: unless
/// it was a link of the signup's, whoever chose the password had not proven that the address is theirs.
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

/// Greets whoever has an account whose address was just proven.
pub async fn welcome(tx: &mut Transaction<'static, Postgres>, account: AccountId) -> Result<()> {
    emails::send(tx, Template::Welcome, Recipient::Account(account), json!({}), WELCOME_FOR).await?;
    Ok(())
}

/// Signs in, and commits what was done on the way there also when the account may not act.
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

/// Body of the routes that send mail
#[derive(Deserialize, ToSchema)]
#[schema(as = EmailRequest, example = json!({"email": "ada@example.com"}))]
struct Address {
    /// Whom to write to
    #[schema(max_length = 254, format = Email)]
    email: String,
}

/// What they answer, whoever has the address
#[derive(Serialize, ToSchema)]
#[schema(as = SentEmail)]
struct Sent {
    /// Always true
    sent: bool,
    /// Until when a link that was mailed is good
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
) -> Result<Answer<Sent>> {
    let login = accounts::find_login(&mut *app.db.acquire().await?, email).await?;
    let is_stranger = !login.is_some_and(|login| login.verified);
    let is_within = app.rate_limits.is_within(Bucket::StrangerMail, client.network(), is_stranger).await;
    let (mail_good_for, rest) =
        if is_stranger && !is_within { (Duration::ZERO, good_for) } else { (good_for, Duration::ZERO) };
    let mut tx = app.db.begin().await?;
    let Timestamp(mail_expires_at) = send(&mut tx, template, Recipient::Address(email), details, mail_good_for).await?;
    tx.commit().await?;
    Ok(Answer(Sent { sent: true, expires_at: Timestamp(mail_expires_at + rest) }))
}

/// Mail the link that proves an address again
///
/// The link before it stops working. A link that is requested from another network than that of the signup removes the password of the
/// signup when it is followed. The answer is the same for every address.
#[utoipa::path(
    post, path = "/v1/auth/resend-verification", tag = "Authentication", operation_id = "resendVerificationEmail",
    request_body = Address,
    responses((status = 200, description = "If there is somebody to write to, they are", body = Sent), Body, RateLimited, Database),
)]
async fn resend_verification(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<Sent>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendVerification, &client).await?;
    let network = client.origin().network().map(|network| network.to_string());
    let (details, good_for) = (json!({REQUESTED_FROM: network}), app.config.auth.verification_ttl);
    send_to(&app, &client, &email, Template::VerifyEmail, details, good_for).await
}

/// Body of a login
#[derive(Deserialize, ToSchema)]
#[schema(as = SignIn, example = json!({"email": "ada@example.com", "password": "correct horse battery"}))]
struct LogIn {
    /// The account's address
    #[schema(format = Email)]
    email: String,
    /// Its password
    #[schema(format = Password)]
    password: String,
}

/// Log in
///
/// With address and password. An account with a second factor gets a challenge instead of a session.
#[utoipa::path(
    post, path = "/v1/auth/login", tag = "Authentication", operation_id = "logIn",
    request_body = LogIn,
    responses(
        (status = 200, description = "Logged in, or nearly", body = LoginResult),
        Unauthorized, Body, LoggingIn, RateLimited, Database,
    ),
)]
async fn log_in(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LogIn>,
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
        return Err(Problem::forbidden("the e-mail address is not verified yet; follow the link that was mailed")
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

/// Where wrong passwords for an address are counted (contract: rate-limits 5).
struct LoginFailures {
    email: String,
    /// The address and the network of the client.
    from_network: String,
    /// Whether the account owner has signed in from that network before.
    is_known: bool,
}

impl LoginFailures {
    /// Refuses an attempt to sign in after too many wrong passwords. From a network that the account owner has used, only those from that
    /// network count: strangers elsewhere cannot lock the owner out.
    async fn before(app: &App, client: &ClientInfo, email: &EmailAddress) -> Result<Self> {
        let network = client.origin().network();
        let is_known = sign_ins::knows_network(&mut *app.db.acquire().await?, email, network.as_ref()).await?;
        let network = network.map(|network| network.to_string()).unwrap_or_default();
        let failures =
            Self { email: email.key().to_owned(), from_network: format!("{} {network}", email.key()), is_known };
        app.rate_limits.look(Bucket::LoginFailuresOfNetwork, failures.from_network.as_str()).await?;
        if !is_known {
            app.rate_limits.look(Bucket::LoginFailures, failures.email.as_str()).await?;
        }
        Ok(failures)
    }

    /// Counts a wrong password.
    async fn record(&self, app: &App) {
        app.rate_limits.record(Bucket::LoginFailuresOfNetwork, self.from_network.as_str()).await;
        if !self.is_known {
            app.rate_limits.record(Bucket::LoginFailures, self.email.as_str()).await;
        }
    }
}

/// Mail a link that signs in
///
/// The answer is the same whoever has the address.
#[utoipa::path(
    post, path = "/v1/auth/magic-link/request", tag = "Authentication", operation_id = "requestMagicLink",
    request_body = Address,
    responses((status = 200, description = "If there is somebody to write to, they are", body = Sent), Body, RateLimited, Database),
)]
async fn request_magic_link(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<Sent>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendMagicLink, &client).await?;
    send_to(&app, &client, &email, Template::MagicLink, json!({}), app.config.auth.magic_link_ttl).await
}

/// Sign in with a link
#[utoipa::path(
    post, path = "/v1/auth/magic-link/consume", tag = "Authentication", operation_id = "consumeMagicLink",
    request_body = LinkToken,
    responses((status = 200, description = "Signed in, or nearly", body = LoginResult), Body, LoggingIn, RateLimited, Database),
)]
async fn consume_magic_link(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<LoginResult>> {
    Ok(Answer(sign_in_by_link(&app, &client, Purpose::MagicLink, &body.token).await?))
}

/// Mail a link that lets its reader choose a new password
///
/// The answer is the same whoever has the address.
#[utoipa::path(
    post, path = "/v1/auth/password-reset/request", tag = "Authentication", operation_id = "requestPasswordReset",
    request_body = Address,
    responses((status = 200, description = "If there is somebody to write to, they are", body = Sent), Body, RateLimited, Database),
)]
async fn request_password_reset(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Address>,
) -> Result<Answer<Sent>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::SendPasswordReset, &client).await?;
    send_to(&app, &client, &email, Template::ResetPassword, json!({}), app.config.auth.reset_ttl).await
}

/// Body of a password's reset
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "new_password": "correct horse battery"}))]
struct ResetPassword {
    /// The `token` of the link that was mailed
    token: String,
    /// At least 12 characters
    #[schema(min_length = 12, max_length = 1024, format = Password)]
    new_password: String,
}

/// Choose a new password
///
/// Every web session there was ends. It signs in, too.
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
    // Nobody has us hash a password for a token that they made up.
    let mut conn = app.db.acquire().await?;
    if !mail_links::is_good(&mut conn, Purpose::ResetPassword, &token).await? {
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

/// Body of refresh and logout
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI"}))]
struct SessionToken {
    /// The web session's token
    token: String,
}

/// Refresh a web session
///
/// The session goes on with another token and a new lifetime; the token before is worthless.
#[utoipa::path(
    post, path = "/v1/auth/refresh", tag = "Authentication", operation_id = "refreshWebSession",
    request_body = SessionToken,
    responses((status = 200, description = "The session's new token", body = WebSession), Unauthorized, Body, LoggingIn, Database),
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
        _ => Err(Problem::unauthorized("the token is not valid, or not any more")),
    }
}

/// What a logout answers
#[derive(Serialize, ToSchema)]
struct LoggedOut {
    /// Always true
    ok: bool,
}

/// Log out
///
/// The token is worthless afterwards, if it was not before.
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

/// A web session that was just begun or refreshed
#[derive(Serialize, ToSchema)]
#[schema(as = WebSession, example = json!({
    "token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "expires_at": "2026-12-20T18:05:00.123Z",
    "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
}))]
pub struct WebSession {
    /// The bearer token, shown this once
    token: String,
    /// Until when it is good
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Who signed in
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

/// What signing in answers: a session or, for an account with a second factor, a challenge. Clients branch on
/// `mfa_required`.
#[derive(Serialize, ToSchema)]
#[schema(as = SignInResult)]
#[serde(untagged)]
pub enum LoginResult {
    /// Signed in
    #[schema(title = "SignedIn")]
    Session {
        /// The session
        session: WebSession,
        /// Present when the password that was chosen at the signup was removed: send it to `/v1/auth/password-reset/confirm` with a
        /// new password, within 60 minutes
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        password_reset_token: Option<String>,
    },
    /// A second factor is needed
    #[schema(title = "MfaRequired")]
    Challenge {
        /// Always true
        #[schema(schema_with = literally_true)]
        mfa_required: bool,
        /// What to send with the code, once, from the same address
        challenge_token: String,
        /// Until when
        #[schema(value_type = String, format = DateTime)]
        challenge_expires_at: Timestamp,
    },
}

impl LoginResult {
    /// The same with a token to set a new password with.
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
            CreateError::EmailTaken => Self::new(&kinds::CONFLICT, "the e-mail address already has an account"),
            CreateError::Database(error) => error.into(),
        }
    }
}
