//! Public links to a live view: anyone who has the link may watch (contract: live 29 to 33).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, LiveLinkId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;

use super::withdrawn;
use crate::credentials::{Credential, CredentialColumns};
use crate::tokens::{self, Token};

pub const MAX_LINKS: usize = 16;
pub const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub struct NewLink {
    /// Session to watch. It belongs to the acting account, or to an account whose team the acting account is on.
    pub session: SessionId,
    pub acting: AccountId,
    pub credential: Credential,
    pub ttl: Duration,
}

#[derive(Debug)]
pub struct Link {
    pub id: LiveLinkId,
    pub session_id: SessionId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug)]
pub enum LinkOutcome {
    /// The secret is returned only here.
    Link(Link, Token),
    Ended,
    TooMany,
}

/// `conn` is in a transaction.
pub async fn make(conn: &mut PgConnection, new: &NewLink) -> sqlx::Result<LinkOutcome> {
    let lives = sqlx::query_scalar!("select live from sessions where id = $1 for no key update", new.session as _);
    if !lives.fetch_optional(&mut *conn).await?.unwrap_or_default() {
        return Ok(LinkOutcome::Ended);
    }
    if list(&mut *conn, new.session).await?.len() >= MAX_LINKS {
        return Ok(LinkOutcome::TooMany);
    }
    let secret = Token::generate();
    // The link depends on its creator. A link created with an OAuth token depends on the OAuth client and outlives the token, so
    // the token's expiry is not stored.
    let by = CredentialColumns::of(new.credential);
    let link = sqlx::query_as!(
        Link,
        "insert into live_links (secret_hash, session_id, acting_account_id, api_key_id, web_session_id, oauth_client_id, expires_at)
         values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))
         returning id, session_id, created_at, expires_at",
        secret.hash(),
        new.session as _,
        new.acting as _,
        by.key,
        by.web_session,
        by.client,
        new.ttl.as_secs_f64(),
    );
    Ok(LinkOutcome::Link(link.fetch_one(conn).await?, secret))
}

/// Newest first.
pub async fn list(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Vec<Link>> {
    sqlx::query_as!(
        Link,
        "select id, session_id, created_at, expires_at from live_links
         where session_id = $1 and revoked_at is null and expires_at > now()
           and live_right_holds(session_id, acting_account_id, api_key_id, web_session_id, oauth_client_id, null, created_at)
         order by id desc",
        session as _,
    )
    .fetch_all(conn)
    .await
}

/// Disconnects viewers that came through the link. `false` if the account has no such valid link.
pub async fn revoke(conn: &mut PgConnection, account: AccountId, id: LiveLinkId) -> sqlx::Result<bool> {
    let taken = sqlx::query!(
        "update live_links l set revoked_at = now() from sessions s
         where l.id = $1 and l.revoked_at is null and l.expires_at > now() and s.id = l.session_id and s.account_id = $2",
        id as _,
        account as _,
    );
    Ok(taken.execute(conn).await?.rows_affected() == 1)
}

/// `None` if no valid link has this secret, or if the creator of the link may no longer see the session. `conn` is in a
/// transaction, which the caller must roll back on `None`.
pub async fn ticket(
    conn: &mut PgConnection,
    secret: &str,
    ttl: Duration,
) -> sqlx::Result<Option<(SessionId, Token, Timestamp)>> {
    let ticket = Token::generate();
    let issued = sqlx::query!(
        r#"insert into live_tickets (ticket_hash, session_id, role, acting_account_id, api_key_id, web_session_id, oauth_client_id,
                                     link_id, expires_at)
           select $1, s.id, 'viewer', l.acting_account_id, l.api_key_id, l.web_session_id, l.oauth_client_id, l.id,
                  now() + make_interval(secs => $3)
           from live_links l join sessions s on s.id = l.session_id and s.live
           where l.secret_hash = $2 and l.revoked_at is null and l.expires_at > now()
           returning id, session_id as "session_id: SessionId", expires_at"#,
        ticket.hash(),
        tokens::hash(secret),
        ttl.as_secs_f64(),
    );
    let Some(issued) = issued.fetch_optional(&mut *conn).await? else { return Ok(None) };
    let holds = withdrawn(conn, &[issued.id]).await?.is_empty();
    Ok(holds.then_some((issued.session_id, ticket, issued.expires_at)))
}

/// Deletes links that expired more than a day ago.
pub(super) async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from live_links where id = any(array(
             select id from live_links where expires_at < now() - interval '1 day' order by expires_at limit $1 for update skip locked))",
        limit,
    );
    Ok(purged.execute(conn).await?.rows_affected())
}
