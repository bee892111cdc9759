//! Completes sign-ins with a web session or, when the account has a second factor, a challenge (contract: sign-ins 9).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, WebSessionId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::accounts::{self, AccountStatus, LockedAccount};
use crate::area::{Area, Bound, Purge};
use crate::audit::{self, Actor, Entry, Origin};
use crate::email_addresses::EmailAddress;
use crate::mail_links;
use crate::mfa::{Via, challenges};
use crate::networks::Network;
use crate::tokens::Token;
use crate::web_sessions::{self, NewWebSession};

pub(crate) const AREA: Area = Area {
    actions: &["account.login", "account.password_changed", "account.email_changed"],
    mails: &[
        "verify_email",
        "magic_link",
        "reset_password",
        "welcome",
        "change_email",
        "email_has_account",
        "email_changed",
    ],
    bounds: &[("sign_in_networks", Bound::Account("32, each for 180 days after its last sign-in"))],
    purges: &[Purge::new("tokens", "sign_in_networks", |conn, _, limit| Box::pin(purge_networks(conn, limit)))],
    on_account_delete: &[
        |conn, account, _| Box::pin(end_all(conn, account)),
        |conn, account, _| Box::pin(forget_networks(conn, account)),
    ],
    ..Area::named("sign_ins")
};

#[derive(Clone, Copy)]
pub enum Method<'a> {
    Password {
        /// The hash that was checked. The password may have been changed since.
        hash: &'a str,
    },
    /// Link in a mail to sign in, to verify the address or to set a new password. Such a sign-in has no entry of its
    /// own in the audit log.
    MailLink,
    Oauth {
        provider: &'a str,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct Lifetimes {
    pub session: Duration,
    pub challenge: Duration,
}

#[derive(Debug)]
pub enum SignedIn {
    Session(NewWebSession),
    Challenge { token: Token, expires_at: Timestamp },
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the account is suspended")]
    Suspended,
    /// The account was deleted or its password changed in the meantime.
    #[error("the account was deleted or its password changed during the sign-in")]
    Gone,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The account's row stays locked, so that a concurrent deletion or suspension finds the session.
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
    let session = begin(conn, account, origin, lifetimes.session, false).await?;
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

/// The most recently used.
const MAX_NETWORKS: i64 = 32;

async fn begin(
    conn: &mut PgConnection,
    account: AccountId,
    origin: &Origin,
    lifetime: Duration,
    proven: bool,
) -> sqlx::Result<NewWebSession> {
    if let Some(network) = origin.network() {
        sqlx::query!(
            "insert into sign_in_networks (account_id, network) values ($1, $2)
             on conflict (account_id, network) do update set last_used_at = now()",
            account as _,
            network as _,
        )
        .execute(&mut *conn)
        .await?;
        sqlx::query!(
            "delete from sign_in_networks where account_id = $1 and network in (
                 select network from sign_in_networks where account_id = $1 order by last_used_at desc, network offset $2)",
            account as _,
            MAX_NETWORKS,
        )
        .execute(&mut *conn)
        .await?;
    }
    web_sessions::begin(conn, account, origin, lifetime, proven).await
}

/// An earlier sign-in with this address succeeded from this network (contract: rate-limits 5).
pub async fn knows_network(
    conn: &mut PgConnection,
    email: &EmailAddress,
    network: Option<&Network>,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (select from sign_in_networks n join accounts a on a.id = n.account_id
                          where a.email_key = $1 and a.status <> 'deleted' and n.network = $2) as "knows!""#,
        email.key(),
        network as _,
    )
    .fetch_one(conn)
    .await
}

async fn forget_networks(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from sign_in_networks where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// Deletes up to `limit` networks that were not used for 180 days. Returns the number of deleted rows.
async fn purge_networks(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from sign_in_networks where (account_id, network) in (
             select account_id, network from sign_in_networks where last_used_at < now() - interval '180 days'
             order by last_used_at limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

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

/// Writes `account.login`. The session starts with a proof of the second factor.
pub async fn prove(
    conn: &mut PgConnection,
    account: AccountId,
    via: Via,
    origin: &Origin,
    lifetime: Duration,
) -> Result<NewWebSession, SignInError> {
    hold_active(&mut *conn, account).await?;
    let session = begin(conn, account, origin, lifetime, true).await?;
    let method = match via {
        Via::Totp => "mfa_totp",
        Via::Recovery => "mfa_recovery",
    };
    record_login(conn, &session, origin, json!({"method": method})).await?;
    Ok(session)
}

/// Ends all web sessions, pending challenges and mailed links of the account, and writes `account.password_changed`.
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

/// Ends all web sessions, pending challenges and mailed links. The password was set before the address was verified,
/// possibly by a person other than the owner of the address.
pub async fn forget_password(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    accounts::remove_password(&mut *conn, account).await?;
    end_all(conn, account).await
}

#[derive(Debug, Clone, Copy)]
pub struct PasswordChange<'a> {
    /// The hash that was checked. The password may have been changed since.
    pub from: &'a str,
    pub to: &'a str,
    /// Web session of the change, which does not end.
    pub keep: WebSessionId,
}

/// Ends the other web sessions, and writes `account.password_changed`. Returns false when the password was changed in the meantime.
pub async fn change_password(
    conn: &mut PgConnection,
    account: AccountId,
    change: PasswordChange<'_>,
    origin: &Origin,
) -> Result<bool, SignInError> {
    if accounts::lock_password(&mut *conn, account).await?.as_deref() != Some(change.from) {
        return Ok(false);
    }
    accounts::set_password(&mut *conn, account, change.to).await?;
    web_sessions::end_all(&mut *conn, account, Some(change.keep)).await?;
    challenges::revoke_all(&mut *conn, account).await?;
    mail_links::revoke_all(&mut *conn, account).await?;
    let payload = origin.issued(json!({"via": "password_change"}));
    let entry = Entry { action: "account.password_changed", target: Some(account.to_string()), payload };
    audit::record(conn, account, &Actor::person(account, origin), entry).await?;
    Ok(true)
}

#[derive(Debug)]
pub enum EmailChange {
    /// The previous address.
    Changed(EmailAddress),
    /// Another account has the address now.
    Taken,
    /// The account is suspended or deleted.
    Inactive,
}

/// The new address counts as verified, and links in mails to the previous one stop working. Writes `account.email_changed`. `conn`
/// is in a transaction that the caller does not commit unless the address was changed.
pub async fn change_email(
    conn: &mut PgConnection,
    account: AccountId,
    email: &EmailAddress,
    origin: &Origin,
) -> Result<EmailChange, SignInError> {
    let Some(previous) = accounts::lock_email(&mut *conn, account).await? else { return Ok(EmailChange::Inactive) };
    if !accounts::set_email(&mut *conn, account, email).await? {
        return Ok(EmailChange::Taken);
    }
    mail_links::revoke_all(&mut *conn, account).await?;
    let payload = json!({"previous_email": previous, "email": email.as_str()});
    let entry = Entry { action: "account.email_changed", target: Some(account.to_string()), payload };
    audit::record(conn, account, &Actor::person(account, origin), entry).await?;
    let previous = EmailAddress::parse(&previous).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(EmailChange::Changed(previous))
}

async fn end_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    web_sessions::end_all(&mut *conn, account, None).await?;
    challenges::revoke_all(&mut *conn, account).await?;
    mail_links::revoke_all(conn, account).await
}

/// Locks the row until the transaction ends.
async fn hold_active(conn: &mut PgConnection, account: AccountId) -> Result<LockedAccount, SignInError> {
    match accounts::hold(conn, account).await? {
        Some(held) if held.status == AccountStatus::Active => Ok(held),
        Some(_) => Err(SignInError::Suspended),
        None => Err(SignInError::Gone),
    }
}
