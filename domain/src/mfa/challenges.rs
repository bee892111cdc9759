//! Sign-ins that wait for their second factor (contract: sign-ins 9; mfa 5 to 8).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, MfaChallengeId};
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;

use crate::accounts;
use crate::audit::Origin;
use crate::tokens::{self, Token};

/// Opens a challenge whose proof must come from the same address.
pub(crate) async fn open(
    conn: &mut PgConnection,
    account: AccountId,
    origin: &Origin,
    ttl: Duration,
) -> sqlx::Result<(Token, Timestamp)> {
    let token = Token::generate();
    let expires_at = sqlx::query_scalar!(
        "insert into mfa_challenges (id, account_id, token_hash, ip_address, expires_at)
         values ($1, $2, $3, $4, now() + $5) returning expires_at",
        MfaChallengeId::generate() as _,
        account as _,
        token.hash(),
        origin.ip_address,
        ttl as _,
    )
    .fetch_one(conn)
    .await?;
    Ok((token, expires_at))
}

/// A challenge that is valid and not completed yet.
#[derive(Debug)]
pub struct Challenge {
    pub id: MfaChallengeId,
    pub account: AccountId,
}

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// No challenge has this token, or it has expired.
    #[error("the challenge is unknown or has expired")]
    Unknown,
    /// It was completed before.
    #[error("the challenge was already completed")]
    Consumed,
    #[error("the challenge was issued to another IP address")]
    Elsewhere,
    /// Too many wrong guesses.
    #[error("too many wrong codes; sign in again")]
    Exhausted,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Locks the challenge and its account until the transaction ends.
pub async fn find(
    conn: &mut PgConnection,
    token: &str,
    origin: &Origin,
    guesses_allowed: u32,
) -> Result<Challenge, Refused> {
    // Locks the account's row first: changes of the account lock its challenges next.
    let account =
        sqlx::query_scalar!("select account_id from mfa_challenges where token_hash = $1", tokens::hash(token))
            .fetch_optional(&mut *conn)
            .await?;
    accounts::hold(&mut *conn, account.ok_or(Refused::Unknown)?).await?.ok_or(Refused::Unknown)?;
    let row = sqlx::query!(
        r#"select id, account_id, ip_address, wrong_guesses, consumed_at, expires_at <= now() as "expired!"
           from mfa_challenges where token_hash = $1 for update"#,
        tokens::hash(token),
    )
    .fetch_optional(conn)
    .await?;
    let row = row.ok_or(Refused::Unknown)?;
    if row.ip_address != origin.ip_address {
        return Err(Refused::Elsewhere);
    }
    if row.consumed_at.is_some() {
        return Err(Refused::Consumed);
    }
    if row.expired {
        return Err(Refused::Unknown);
    }
    if i64::from(row.wrong_guesses) >= i64::from(guesses_allowed) {
        return Err(Refused::Exhausted);
    }
    Ok(Challenge { id: row.id, account: row.account_id })
}

pub async fn consume(conn: &mut PgConnection, id: MfaChallengeId) -> sqlx::Result<()> {
    sqlx::query!("update mfa_challenges set consumed_at = now() where id = $1", id as _).execute(conn).await?;
    Ok(())
}

pub async fn count_wrong_guess(conn: &mut PgConnection, id: MfaChallengeId) -> sqlx::Result<()> {
    sqlx::query!("update mfa_challenges set wrong_guesses = wrong_guesses + 1 where id = $1", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

pub async fn revoke_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from mfa_challenges where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// An expired row is kept for a day (contract: retention 7), in which a caller with the token receives the reason for the refusal.
pub(super) async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from mfa_challenges where id in (
             select id from mfa_challenges where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
