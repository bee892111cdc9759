//! What becomes of somebody who has proven to hold an account: a web session or, when the account has a second factor, a
//! challenge (contract: sign-ins 9).

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::accounts::{self, AccountStatus, Held};
use crate::area::Area;
use crate::audit::{self, Actor, Entry, Origin};
use crate::ids::AccountId;
use crate::mail_links;
use crate::mfa::{Via, challenges};
use crate::timestamp::Timestamp;
use crate::tokens::Token;
use crate::web_sessions::{self, NewWebSession};

pub(crate) const AREA: Area = Area {
    actions: &["account.login", "account.password_changed"],
    mails: &["verify_email", "magic_link", "reset_password", "welcome"],
    losses: &[|conn, account, _| Box::pin(end_all(conn, account))],
    ..Area::named("sign_ins")
};

/// How somebody proved it.
#[derive(Clone, Copy)]
pub enum Method<'a> {
    /// By the password.
    Password {
        /// The hash that it was held against: another password may have been chosen since.
        hash: &'a str,
    },
    /// By a link that was mailed: to sign in, to prove the address or to choose a new password. Such a sign-in leaves
    /// no row of its own in the audit log.
    MailLink,
    /// By an account at this identity provider.
    Oauth {
        /// Its name in the configuration.
        provider: &'a str,
    },
}

/// How long things last.
#[derive(Debug, Clone, Copy)]
pub struct Lifetimes {
    /// A web session.
    pub session: Duration,
    /// A challenge.
    pub challenge: Duration,
}

/// What they get.
#[derive(Debug)]
pub enum SignedIn {
    /// They are in.
    Session(NewWebSession),
    /// They have to give a second factor.
    Challenge {
        /// What they show with it.
        token: Token,
        /// Until when.
        expires_at: Timestamp,
    },
}

/// Why they get nothing.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The account is suspended.
    #[error("the account is suspended")]
    Suspended,
    /// The account was deleted meanwhile, or its password changed.
    #[error("what was proven is not so any more")]
    Gone,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Signs in. The account's row stays locked, so that a deletion or a suspension that comes meanwhile finds the session.
///
/// # Errors
/// When the account may not act, or the database fails.
pub async fn complete(
    conn: &mut PgConnection,
    account: AccountId,
    method: Method<'_>,
    origin: &Origin,
    lifetimes: Lifetimes,
) -> Result<SignedIn, SignInError> {
    let held = hold_active(&mut *conn, account).await?;
    if let Method::Password { hash } = method
        && held.password_hash.as_deref() != Some(hash)
    {
        return Err(SignInError::Gone);
    }
    if held.mfa_enrolled {
        let (token, expires_at) = challenges::open(conn, account, origin, lifetimes.challenge).await?;
        return Ok(SignedIn::Challenge { token, expires_at });
    }
    let session = web_sessions::begin(conn, account, origin, lifetimes.session, false).await?;
    let payload = match method {
        Method::Password { .. } => Some(json!({"method": "password"})),
        Method::MailLink => None,
        Method::Oauth { provider } => {
            Some(json!({"kind": "oauth_callback", "provider": provider, "session_id": session.id}))
        }
    };
    if let Some(payload) = payload {
        record_login(conn, &session, origin, payload).await?;
    }
    Ok(SignedIn::Session(session))
}

/// Writes `account.login`.
async fn record_login(
    conn: &mut PgConnection,
    session: &NewWebSession,
    origin: &Origin,
    payload: Value,
) -> sqlx::Result<()> {
    let account = session.account_id;
    let payload = origin.issued(payload);
    let entry = Entry { action: "account.login", target: Some(session.id.to_string()), payload };
    audit::record(conn, account, &Actor::person(account, origin), entry).await
}

/// Signs in somebody who met their challenge, and writes `account.login`. The session begins with a second-factor proof.
///
/// # Errors
/// When the account may not act any more, or the database fails.
pub async fn prove(
    conn: &mut PgConnection,
    account: AccountId,
    via: Via,
    origin: &Origin,
    lifetime: Duration,
) -> Result<NewWebSession, SignInError> {
    hold_active(&mut *conn, account).await?;
    let session = web_sessions::begin(&mut *conn, account, origin, lifetime, true).await?;
    let method = match via {
        Via::Totp => "mfa_totp",
        Via::Recovery => "mfa_recovery",
    };
    record_login(conn, &session, origin, json!({"method": method})).await?;
    Ok(session)
}

/// Gives the account another password, ends whatever was signed in, waiting or mailed under the one before, and writes
/// `account.password_changed`.
///
/// # Errors
/// When the database fails.
pub async fn reset_password(
    conn: &mut PgConnection,
    account: AccountId,
    password_hash: &str,
    origin: &Origin,
) -> sqlx::Result<()> {
    accounts::set_password(&mut *conn, account, password_hash).await?;
    end_all(&mut *conn, account).await?;
    let payload = origin.issued(json!({"via": "password_reset"}));
    let entry = Entry { action: "account.password_changed", target: Some(account.to_string()), payload };
    audit::record(conn, account, &Actor::person(account, origin), entry).await
}

/// Makes the password worthless, and whatever is signed in, waiting or mailed: it was chosen when the address was not
/// proven, by somebody who may not be the one who has proven it since.
///
/// # Errors
/// When the database fails.
pub async fn forget_password(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    accounts::remove_password(&mut *conn, account).await?;
    end_all(conn, account).await
}

/// Ends whatever is signed in to an account, waits for its second factor, or is on its way in a mail.
///
/// # Errors
/// When the database fails.
async fn end_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    web_sessions::end_all(&mut *conn, account, None).await?;
    challenges::revoke_all(&mut *conn, account).await?;
    mail_links::revoke_all(conn, account).await
}

/// Sees to it that the account may act until the transaction ends.
async fn hold_active(conn: &mut PgConnection, account: AccountId) -> Result<Held, SignInError> {
    match accounts::hold(conn, account).await? {
        Some(held) if held.status == AccountStatus::Active => Ok(held),
        Some(_) => Err(SignInError::Suspended),
        None => Err(SignInError::Gone),
    }
}
