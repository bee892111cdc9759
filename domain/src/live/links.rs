//! Addresses by which anybody may watch who has them (contract: live 29 to 33).

use std::time::Duration;

use sqlx::PgConnection;

use super::withdrawn;
use crate::credentials::{Credential, CredentialColumns};
use crate::ids::{AccountId, LiveLinkId, SessionId};
use crate::timestamp::Timestamp;
use crate::tokens::{self, Token};

/// Links of a session that are good at the same time.
pub const MOST: usize = 16;
/// How long one is good at most.
pub const LONGEST: Duration = Duration::from_hours(24);

/// A link that is wanted.
#[derive(Debug)]
pub struct NewLink {
    /// Whose browser is to be seen. It is the caller's, or of an account whose team they are on.
    pub session: SessionId,
    /// Who asks.
    pub acting: AccountId,
    /// By what.
    pub credential: Credential,
    /// How long it is good.
    pub ttl: Duration,
}

/// A link, without what makes it one.
#[derive(Debug)]
pub struct Link {
    /// Its id.
    pub id: LiveLinkId,
    /// What it shows.
    pub session_id: SessionId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it is good.
    pub expires_at: Timestamp,
}

/// What came of the wish for a link.
#[derive(Debug)]
pub enum LinkOutcome {
    /// It is there, and its address has this in it, which is shown this once.
    Link(Link, Token),
    /// The session lives no more.
    Ended,
    /// The session has [`MOST`] of them.
    TooMany,
}

/// Makes a link. `conn` is in a transaction.
///
/// # Errors
/// When the database fails.
pub async fn make(conn: &mut PgConnection, new: &NewLink) -> sqlx::Result<LinkOutcome> {
    let lives = sqlx::query_scalar!("select live from sessions where id = $1 for no key update", new.session as _);
    if !lives.fetch_optional(&mut *conn).await?.unwrap_or_default() {
        return Ok(LinkOutcome::Ended);
    }
    if list(&mut *conn, new.session).await?.len() >= MOST {
        return Ok(LinkOutcome::TooMany);
    }
    let secret = Token::generate();
    // It is its maker's, and an OAuth token's is the client's: it outlives the token.
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

/// The session's links that are good, the newest first.
///
/// # Errors
/// When the database fails.
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

/// Takes the account's link back: whoever watches by it has to leave. `false` when there is none that is good.
///
/// # Errors
/// When the database fails.
pub async fn take_back(conn: &mut PgConnection, account: AccountId, id: LiveLinkId) -> sqlx::Result<bool> {
    let taken = sqlx::query!(
        "update live_links l set revoked_at = now() from sessions s
         where l.id = $1 and l.revoked_at is null and l.expires_at > now() and s.id = l.session_id and s.account_id = $2",
        id as _,
        account as _,
    );
    Ok(taken.execute(conn).await?.rows_affected() == 1)
}

/// A ticket to watch by, for whoever has the address of a link; and which session it is to, and until when it is good. `None` when no
/// link is good that has this secret, or whoever made it may not see the session any more. `conn` is in a transaction, which is to be
/// taken back then.
///
/// # Errors
/// When the database fails.
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

/// Deletes links that were good until a day ago, up to `limit`. Answers how many.
pub(super) async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from live_links where id = any(array(
             select id from live_links where expires_at < now() - interval '1 day' order by expires_at limit $1 for update skip locked))",
        limit,
    );
    Ok(purged.execute(conn).await?.rows_affected())
}
