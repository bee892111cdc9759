//! Password and e-mail address of the caller's account (contract: accounts 12, 13).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::emails::{EmailAddress, NOTICE_GOOD_FOR, Recipient, TO, Template};
use kitfleet_domain::mail_links::{self, Purpose};
use kitfleet_domain::passwords::{self, NewPassword};
use kitfleet_domain::sign_ins::{self, EmailChange, PasswordChange};
use kitfleet_domain::{accounts, mfa};
use kitfleet_jobs::emails;
use kitfleet_types::validation::both;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{OpenJson, Unchecked};
use crate::http::kinds;
use crate::http::links::LinkToken;
use crate::http::openapi::{AddressTaken, Body, Database, RateLimited, Restricted, SteppingUp};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sign_ins::LoginFailures;

pub fn routes() -> Routes {
    Routes::new()
        .allow(Rule::person().after_step_up(), routes!(set_password))
        .allow(Rule::person().after_step_up(), routes!(request_email_change))
        .public(routes!(confirm_email_change))
        .never_stored()
}

/// Request body of a password change
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"current_password": "correct horse battery", "new_password": "staple correct horse"}))]
struct SetPassword {
    /// Current password of the account
    #[schema(max_length = 1024, format = Password)]
    current_password: String,
    /// New password, at least 12 characters
    #[schema(min_length = 12, max_length = 1024, format = Password)]
    new_password: String,
}

/// Change the password
///
/// Ends all other web sessions. An account without a password sets one with a password reset link. An account with a second
/// factor requires a recent second-factor proof.
#[utoipa::path(
    post, path = "/v1/account/password", tag = "Account", operation_id = "setAccountPassword",
    request_body = SetPassword,
    responses((status = 204, description = "The password is changed"), Restricted, Body, SteppingUp, RateLimited, Database),
)]
async fn set_password(
    caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    body: Result<Unchecked<SetPassword>>,
) -> Result<StatusCode> {
    let keep = caller.web_session()?;
    require_proof(&app, &caller).await?;
    let (current, new) = body?.check(|SetPassword { current_password, new_password }| {
        Ok((current_password, NewPassword::parse(&new_password, "new_password", &app.config.limits)?))
    })?;
    let from = check_password(&app, &caller, &client, current, "current_password").await?;
    let to = app.hashing.run(move || new.hash()).await?;
    let mut tx = app.db.begin().await?;
    let change = PasswordChange { from: &from, to: &to, keep };
    if !sign_ins::change_password(&mut tx, caller.account_id, change, &client.origin()).await? {
        return Err(wrong_password("current_password"));
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn require_proof(app: &App, caller: &Caller) -> Result<()> {
    if mfa::is_enrolled(&mut *app.db.acquire().await?, caller.account_id).await? {
        caller.require_step_up(app.config.auth.step_up_ttl)?;
    }
    Ok(())
}

fn wrong_password(field: &'static str) -> Problem {
    Problem::invalid(field, "must be the account's current password")
}

/// Returns the hash of the password. Wrong passwords are limited as for a login.
async fn check_password(
    app: &App,
    caller: &Caller,
    client: &ClientInfo,
    password: String,
    field: &'static str,
) -> Result<String> {
    app.rate_limits.check(Bucket::Login, client).await?;
    let mut conn = app.db.acquire().await?;
    let account = accounts::find(&mut conn, caller.account_id).await?.ok_or_else(Problem::account_gone)?;
    let email = EmailAddress::parse(&account.email)?;
    let login = accounts::find_login(&mut conn, &email).await?.filter(|login| login.id == caller.account_id);
    drop(conn);
    let failures = LoginFailures::before(app, client, &email).await?;
    let hash = login.and_then(|login| login.password_hash);
    let checked = hash.clone();
    let is_right = app.hashing.run(move || passwords::verify(&password, checked.as_deref())).await?;
    if let Some(hash) = hash.filter(|_| is_right) {
        return Ok(hash);
    }
    failures.record(app).await;
    Err(wrong_password(field))
}

/// Request body of an e-mail address change
#[derive(Deserialize, ToSchema)]
#[schema(as = ChangeEmail, example = json!({"email": "ada@example.org", "password": "correct horse battery"}))]
struct NewEmail {
    /// New e-mail address
    #[schema(max_length = 254, format = Email)]
    email: String,
    /// Current password of the account
    #[schema(max_length = 1024, format = Password)]
    password: String,
}

/// Response of an e-mail address change; it is the same whether or not another account has the address
#[derive(Serialize, ToSchema)]
#[schema(as = RequestedEmailChange)]
struct Requested {
    /// True in every answer
    sent: bool,
}

/// Change the e-mail address
///
/// Mails a link to the new address. The account keeps its address until the link is used. If the new address has an account, it
/// gets a mail that says so, and nothing changes. An account with a second factor requires a recent second-factor proof.
#[utoipa::path(
    post, path = "/v1/account/email", tag = "Account", operation_id = "requestEmailChange",
    request_body = NewEmail,
    responses(
        (status = 202, description = "A mail is sent to the new address", body = Requested),
        Restricted, Body, SteppingUp, RateLimited, Database,
    ),
)]
async fn request_email_change(
    caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    body: Result<Unchecked<NewEmail>>,
) -> Result<(StatusCode, Answer<Requested>)> {
    require_proof(&app, &caller).await?;
    let (email, password) =
        body?.check(|NewEmail { email, password }| both(EmailAddress::parse(&email), Ok(password)))?;
    check_password(&app, &caller, &client, password, "password").await?;
    app.rate_limits.check(Bucket::SendVerification, &client).await?;
    app.rate_limits.check(Bucket::StrangerMail, client.network()).await?;
    let ttl = app.config.auth.verification_ttl;
    let mut tx = app.db.begin().await?;
    let is_taken = accounts::find_login(&mut tx, &email).await?.is_some();
    let (template, recipient, details) = if is_taken {
        (Template::EmailHasAccount, Recipient::Address(&email), json!({}))
    } else {
        (Template::ChangeEmail, Recipient::Account(caller.account_id), json!({TO: email.as_str()}))
    };
    emails::send(&mut tx, template, recipient, details, ttl).await?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Answer(Requested { sent: true })))
}

/// Result of a confirmed e-mail address change
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedEmail, example = json!({"email": "ada@example.org"}))]
struct Confirmed {
    /// New e-mail address of the account
    email: String,
}

/// Confirm a new e-mail address
///
/// Takes the token of the mailed link. The previous address gets a mail about the change. Web sessions and API keys keep working.
#[utoipa::path(
    post, path = "/v1/account/email/confirm", tag = "Account", operation_id = "confirmEmailChange",
    request_body = LinkToken,
    responses(
        (status = 200, description = "The address is changed", body = Confirmed),
        Body, AddressTaken, RateLimited, Database,
    ),
)]
async fn confirm_email_change(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<LinkToken>,
) -> Result<Answer<Confirmed>> {
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let mut tx = app.db.begin().await?;
    let link = mail_links::follow(&mut tx, Purpose::ChangeEmail, &body.token).await?.ok_or_else(Problem::bad_link)?;
    let email = link.subject.as_ref().and_then(|subject| subject[TO].as_str()).unwrap_or_default();
    let email = EmailAddress::parse(email)?;
    let previous = match sign_ins::change_email(&mut tx, link.account, &email, &client.origin()).await? {
        EmailChange::Changed(previous) => previous,
        EmailChange::Taken => {
            return Err(Problem::new(&kinds::CONFLICT, "another account has this e-mail address now"));
        }
        EmailChange::Inactive => return Err(Problem::account_suspended()),
    };
    let (recipient, details) = (Recipient::Account(link.account), json!({TO: previous.as_str()}));
    emails::send(&mut tx, Template::EmailChanged, recipient, details, NOTICE_GOOD_FOR).await?;
    tx.commit().await?;
    Ok(Answer(Confirmed { email: email.as_str().to_owned() }))
}
