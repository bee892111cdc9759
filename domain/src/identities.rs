//! Accounts at identity providers that are linked for sign-in (contract: identities), and sign-ins in progress at a
//! provider.
//!
//! A provider verifies an e-mail address, but the account here with that address may belong to another person, or its
//! owner may not trust the provider. An identity signs in only to an account that was created through it, or linked to
//! it by a link in a mail to the account.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, IdentityId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use sqlx::{Acquire, PgConnection};
use unicode_normalization::UnicodeNormalization;

use crate::accounts::{self, AccountName, CreateError, NewAccount};
use crate::area::{Area, Bound, Purge};
use crate::email_addresses::EmailAddress;
use crate::sign_ups;
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    kept: &[("identities", "a few for each account")],
    purges: &[Purge::new("tokens", "identity_flows", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    mails: &["confirm_sign_in"],
    on_account_delete: &[|conn, account, _| Box::pin(unlink_all(conn, account))],
    bounds: &[
        ("identities", Bound::Account("1 for each linked account at an identity provider")),
        ("identity_flows", Bound::Term("a day after it expired")),
    ],
    ..Area::named("identities")
};

pub struct Flow<'a> {
    pub provider: &'a str,
    pub state: &'a Token,
    /// Token in a cookie of the browser that starts the sign-in.
    pub browser: &'a Token,
    /// The provider includes it in its signed token.
    pub nonce: &'a str,
    /// Proves to the provider that the same client fetches the result.
    pub pkce_verifier: &'a str,
}

pub async fn start(conn: &mut PgConnection, flow: Flow<'_>, good_for: Duration) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into identity_flows (state_hash, provider, nonce, pkce_verifier, browser_hash, expires_at)
         values ($1, $2, $3, $4, $5, now() + $6)",
        flow.state.hash(),
        flow.provider,
        flow.nonce,
        flow.pkce_verifier,
        flow.browser.hash(),
        good_for as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub struct ReturnedSignIn {
    pub nonce: String,
    pub pkce_verifier: String,
    pub now: Timestamp,
}

/// `None` when the sign-in started in another browser or for another provider, was completed before, or expired. Of
/// several concurrent callers, one receives it.
pub async fn finish(
    conn: &mut PgConnection,
    provider: &str,
    state: &str,
    browser: &str,
) -> sqlx::Result<Option<ReturnedSignIn>> {
    sqlx::query_as!(
        ReturnedSignIn,
        r#"delete from identity_flows
           where state_hash = $1 and provider = $2 and browser_hash = $3 and expires_at > now()
           returning nonce, pkce_verifier, now() as "now!: Timestamp""#,
        tokens::hash(state),
        provider,
        tokens::hash(browser),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub struct ProviderUser<'a> {
    pub provider: &'a str,
    pub subject: &'a str,
    pub email: Option<&'a EmailAddress>,
    pub name: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum SignInTarget {
    Linked(AccountId),
    New(AccountId),
    /// Has the same address but no link to the identity.
    Unlinked(AccountId),
    /// The identity is not linked and has no address.
    Unknown,
}

/// The address of a new account counts as verified.
pub async fn arrive(conn: &mut PgConnection, visitor: &ProviderUser<'_>) -> Result<SignInTarget, CreateError> {
    loop {
        // The address must be looked up first. An account is created together with its link, so a transaction that sees
        // the account also sees the link.
        let has_address = match visitor.email {
            Some(email) => accounts::find_login(conn, email).await?,
            None => None,
        };
        if let Some(account) = find(conn, visitor.provider, visitor.subject).await? {
            return Ok(SignInTarget::Linked(account));
        }
        if let Some(account) = has_address {
            return Ok(SignInTarget::Unlinked(account.id));
        }
        let Some(email) = visitor.email else { return Ok(SignInTarget::Unknown) };
        let new = NewAccount {
            email: email.as_str().to_owned(),
            name: name_of(visitor.name, email),
            password_hash: None,
            tier: Tier::Free,
            verified: true,
            signup_network: None,
        };
        let mut savepoint = conn.begin().await?;
        match sign_ups::create(&mut savepoint, new).await {
            Ok(account) if link(&mut savepoint, account, visitor.provider, visitor.subject).await? => {
                savepoint.commit().await?;
                return Ok(SignInTarget::New(account));
            }
            // Another transaction created the account or the link first; the next iteration finds it.
            Ok(_) | Err(CreateError::EmailTaken) => savepoint.rollback().await?,
            Err(other) => return Err(other),
        }
    }
}

async fn find(conn: &mut PgConnection, provider: &str, subject: &str) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!("select account_id from identities where provider = $1 and subject = $2", provider, subject,)
        .fetch_optional(conn)
        .await
}

/// Returns false when the identity is linked to another account, or the account is deleted. The row of the account
/// stays locked, so that a concurrent deletion finds the link.
pub async fn link(conn: &mut PgConnection, account: AccountId, provider: &str, subject: &str) -> sqlx::Result<bool> {
    let linked = sqlx::query!(
        "insert into identities (provider, subject, account_id)
         select $1, $2, id from accounts where id = $3 and status <> 'deleted' for share
         on conflict (provider, subject) do update set account_id = excluded.account_id
         where identities.account_id = excluded.account_id",
        provider,
        subject,
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(linked.rows_affected() > 0)
}

#[derive(Debug)]
pub struct Identity {
    pub id: IdentityId,
    pub provider: String,
    pub created_at: Timestamp,
}

/// The newest first.
pub async fn list(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<Identity>> {
    sqlx::query_as!(
        Identity,
        r#"select id as "id!: IdentityId", provider, created_at as "created_at: Timestamp"
           from identities where account_id = $1 order by id desc"#,
        account as _,
    )
    .fetch_all(conn)
    .await
}

/// The account owner can still sign in with a password or a link in a mail.
pub async fn unlink(conn: &mut PgConnection, account: AccountId, id: IdentityId) -> sqlx::Result<bool> {
    let unlinked = sqlx::query!("delete from identities where account_id = $1 and id = $2", account as _, id as _)
        .execute(conn)
        .await?;
    Ok(unlinked.rows_affected() > 0)
}

async fn unlink_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from identities where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// The name from the provider without invalid characters, or the part of the address before the @.
fn name_of(provided: Option<&str>, email: &EmailAddress) -> String {
    let name: String = provided.unwrap_or_default().nfc().filter(|c| !c.is_control()).collect();
    let cut: String = name.trim().chars().take(AccountName::MAX_CHARS).collect();
    let (local, _) = email.as_str().split_once('@').unwrap_or_default();
    let name = cut.trim_end();
    if name.is_empty() { local.to_owned() } else { name.to_owned() }
}

/// Deletes sign-ins that expired more than a day ago (contract: retention 7).
async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from identity_flows where state_hash in (
             select state_hash from identity_flows where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

#[cfg(test)]
mod tests {
    use kitfleet_types::validation::Invalid;

    use super::*;

    /// Contract: identities 9. A name from a provider follows the same rules as a name in a sign-up.
    #[test]
    fn provider_name_is_reduced_to_a_valid_account_name() -> Result<(), Invalid> {
        let email = EmailAddress::parse("ada@example.com")?;
        let name = |provided| name_of(provided, &email);
        assert_eq!(name(Some(" Ada Lovelace ")), "Ada Lovelace");
        assert_eq!(name(Some("Ada\r\nBcc: x\0")), "AdaBcc: x");
        let long = "ß".repeat(121);
        assert_eq!(name(Some(&long)), "ß".repeat(120));
        for none in [None, Some(""), Some(" \t\u{1}")] {
            assert_eq!(name(none), "ada");
        }
        Ok(())
    }
}
