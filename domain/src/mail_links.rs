//! Links in mails (contract: sign-ins 13, 14). A link works once, and an account has one link for each purpose.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;

use crate::area::{Area, Bound, Purge};
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("tokens", "mail_links", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    bounds: &[("mail_links", Bound::Term("a day after it expired"))],
    ..Area::named("mail_links")
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Purpose {
    VerifyEmail,
    MagicLink,
    ResetPassword,
    ConfirmSignIn,
    ChangeEmail,
}

/// The previous link stops working.
pub async fn issue(
    conn: &mut PgConnection,
    account: AccountId,
    purpose: Purpose,
    subject: Option<&Value>,
    expires_at: Timestamp,
) -> sqlx::Result<Token> {
    let token = Token::generate();
    sqlx::query!(
        "insert into mail_links (account_id, purpose, token_hash, subject, expires_at) values ($1, $2, $3, $4, $5)
         on conflict (account_id, purpose) do update
         set token_hash = excluded.token_hash, subject = excluded.subject, expires_at = excluded.expires_at, created_at = now()",
        account as _,
        purpose as _,
        token.hash(),
        subject,
        expires_at as _,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// Creates the account's link for this purpose without a mail, for a caller that has just proven control of the
/// address.
pub async fn issue_for(
    conn: &mut PgConnection,
    account: AccountId,
    purpose: Purpose,
    ttl: Duration,
) -> sqlx::Result<Token> {
    let expires_at = sqlx::query_scalar!("select now() + $1 as \"at!\"", ttl as _).fetch_one(&mut *conn).await?;
    issue(conn, account, purpose, None, expires_at).await
}

#[derive(Debug)]
pub struct RedeemedLink {
    pub account: AccountId,
    pub subject: Option<Value>,
}

/// Locks the account's row against concurrent uses. `None` when the link is unknown, expired or already used, or the
/// account is deleted. Of several concurrent callers, one receives the link.
pub async fn follow(conn: &mut PgConnection, purpose: Purpose, token: &str) -> sqlx::Result<Option<RedeemedLink>> {
    let hash = tokens::hash(token);
    // Lock the account's row first, in the same order as changes of the account, which lock its links next.
    let held = sqlx::query_scalar!(
        "select id from accounts
         where id = (select account_id from mail_links where token_hash = $1 and purpose = $2) and status <> 'deleted'
         for no key update",
        hash,
        purpose as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if held.is_none() {
        return Ok(None);
    }
    let row = sqlx::query!(
        "delete from mail_links where token_hash = $1 and purpose = $2 and expires_at > now() returning account_id, subject",
        hash,
        purpose as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| RedeemedLink { account: row.account_id, subject: row.subject }))
}

/// [`follow`] would succeed. For callers that must do expensive work before.
pub async fn is_valid(conn: &mut PgConnection, purpose: Purpose, token: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists(select from mail_links where token_hash = $1 and purpose = $2 and expires_at > now()) as "good!""#,
        tokens::hash(token),
        purpose as _,
    )
    .fetch_one(conn)
    .await
}

pub async fn revoke_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from mail_links where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// An expired row is kept for a day (contract: retention 7), in which a caller with the link receives the reason for the refusal.
async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from mail_links where token_hash in (
             select token_hash from mail_links where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
