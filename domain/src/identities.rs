//! Accounts at identity providers that sign in here (contract: identities), and sign-ins on their way through one.
//!
//! A provider vouches for an address, but whoever holds an account here by that address may be somebody else, or may
//! not trust the provider. So an identity signs in to an account only when it is linked, and it is linked by its making
//! the account or by a link in a mail to it.

use std::time::Duration;

use sqlx::{Acquire, PgConnection};
use unicode_normalization::UnicodeNormalization;

use crate::accounts::{self, AccountName, CreateError, NewAccount, Tier};
use crate::area::{Area, Bound, Purge};
use crate::email_addresses::EmailAddress;
use crate::ids::AccountId;
use crate::sign_ups;
use crate::timestamp::Timestamp;
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    kept: &[("identities", "a few an account")],
    purges: &[Purge::new("tokens", "identity_flows", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    mails: &["confirm_sign_in"],
    losses: &[|conn, account, _| Box::pin(unlink_all(conn, account))],
    bounds: &[
        ("identities", Bound::Account("1 for each linked account at an identity provider")),
        ("identity_flows", Bound::Term("a day after it expired")),
    ],
    ..Area::named("identities")
};

/// A sign-in that leaves for a provider.
pub struct Flow<'a> {
    /// The provider's name in the configuration.
    pub provider: &'a str,
    /// What the provider hands back.
    pub state: &'a Token,
    /// What the browser that leaves carries with it.
    pub browser: &'a Token,
    /// What the provider puts into what it signs.
    pub nonce: &'a str,
    /// What proves to the provider that whoever fetches the result is whoever asked for it.
    pub pkce_verifier: &'a str,
}

/// # Errors
/// When the database fails.
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

/// A sign-in that came back.
pub struct ReturnedSignIn {
    /// As it was told to [`start`].
    pub nonce: String,
    /// As it was told to [`start`].
    pub pkce_verifier: String,
    /// The database's clock.
    pub now: Timestamp,
}

/// Ends a sign-in's trip. `None` when it left from another browser or for another provider, came back before, or took
/// too long: of several callers one gets it.
///
/// # Errors
/// When the database fails.
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

/// Somebody a provider vouches for.
#[derive(Debug)]
pub struct ProviderUser<'a> {
    /// The provider's name in the configuration.
    pub provider: &'a str,
    /// What it calls them, for ever.
    pub subject: &'a str,
    /// Their address, if it has verified one.
    pub email: Option<&'a EmailAddress>,
    /// What they are called, if it says so.
    pub name: Option<&'a str>,
}

/// Whose account a visitor comes for.
#[derive(Debug, PartialEq, Eq)]
pub enum SignInTarget {
    /// The one their identity is linked to.
    Linked(AccountId),
    /// One that was made for them just now.
    New(AccountId),
    /// One that has their address, but no link.
    Unlinked(AccountId),
    /// None: nothing is linked, and there is no address to go by.
    Unknown,
}

/// Finds the account a visitor comes for, or makes it. Its address counts as proven.
///
/// # Errors
/// When the database fails.
pub async fn arrive(conn: &mut PgConnection, visitor: &ProviderUser<'_>) -> Result<SignInTarget, CreateError> {
    loop {
        // In this order, because an account is made together with its link: who sees the one sees the other.
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
            // Somebody was faster: whose account it is can be seen now.
            Ok(_) | Err(CreateError::EmailTaken) => savepoint.rollback().await?,
            Err(other) => return Err(other),
        }
    }
}

/// The account that an identity is linked to.
async fn find(conn: &mut PgConnection, provider: &str, subject: &str) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!("select account_id from identities where provider = $1 and subject = $2", provider, subject,)
        .fetch_optional(conn)
        .await
}

/// Links an identity to an account. `false` when it is another account's, or the account is deleted: its row stays
/// locked, so that a deletion that comes meanwhile finds the link.
///
/// # Errors
/// When the database fails.
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

/// Takes every identity from an account that is being deleted.
///
/// # Errors
/// When the database fails.
async fn unlink_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from identities where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// What an account calls somebody: what the provider says, as far as it is a name, or else the part of their address
/// before the @.
fn name_of(said: Option<&str>, email: &EmailAddress) -> String {
    let said: String = said.unwrap_or_default().nfc().filter(|c| !c.is_control()).collect();
    let cut: String = said.trim().chars().take(AccountName::MAX_CHARS).collect();
    let (local, _) = email.as_str().split_once('@').unwrap_or_default();
    let name = cut.trim_end();
    if name.is_empty() { local.to_owned() } else { name.to_owned() }
}

/// Deletes trips to providers that ended more than a day ago (contract: retention 7), up to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
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
    use super::*;
    use crate::validation::Invalid;

    /// Contract: identities 9. What signup asks of a name holds for one that a provider tells.
    #[test]
    fn a_visitor_has_a_name_that_an_account_can_have() -> Result<(), Invalid> {
        let email = EmailAddress::parse("ada@example.com")?;
        let name = |said| name_of(said, &email);
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
