//! Public links to a trace: anyone who has the link may download it (contract: recordings 31 to 36).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, SessionId, TraceLinkId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use crate::audit::{self, Actor, Entry};
use crate::credentials::{Credential, CredentialColumns};
use crate::tokens::{self, Token};

pub const MAX_LINKS: usize = 20;
pub const SHORTEST: Duration = Duration::from_mins(1);
pub const LONGEST: Duration = Duration::from_hours(7 * 24);

#[derive(Debug)]
pub struct NewTraceLink<'a> {
    pub account: AccountId,
    /// Belongs to the account.
    pub session: SessionId,
    /// Acts on the account's behalf.
    pub acting: AccountId,
    pub credential: Credential,
    pub actor: &'a Actor,
    pub ttl: Duration,
}

#[derive(Debug)]
pub struct TraceLink {
    pub id: TraceLinkId,
    pub session_id: SessionId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug)]
pub enum TraceLinkOutcome {
    /// The secret is returned only here.
    Link(TraceLink, Token),
    /// Nothing is recorded, or the recording was deleted.
    NoRecording,
    TooMany,
}

/// `conn` is in a transaction.
pub async fn make(conn: &mut PgConnection, new: &NewTraceLink<'_>) -> sqlx::Result<TraceLinkOutcome> {
    let recorded = sqlx::query_scalar!(
        r#"select session_id as "session_id: SessionId" from recordings
           where session_id = $1 and account_id = $2 and removable_at is null for no key update"#,
        new.session as _,
        new.account as _,
    );
    if recorded.fetch_optional(&mut *conn).await?.is_none() {
        return Ok(TraceLinkOutcome::NoRecording);
    }
    if list(&mut *conn, new.session).await?.len() >= MAX_LINKS {
        return Ok(TraceLinkOutcome::TooMany);
    }
    let secret = Token::generate();
    let by = CredentialColumns::of(new.credential);
    let link = sqlx::query_as!(
        TraceLink,
        "insert into trace_links (secret_hash, session_id, acting_account_id, api_key_id, web_session_id, oauth_client_id, expires_at)
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
    let link = link.fetch_one(&mut *conn).await?;
    let payload = json!({"session_id": new.session, "expires_at": link.expires_at});
    let entry = Entry { action: "trace_link.created", target: Some(link.id.to_string()), payload };
    audit::record(conn, new.account, new.actor, entry).await?;
    Ok(TraceLinkOutcome::Link(link, secret))
}

/// The newest link is first.
pub async fn list(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Vec<TraceLink>> {
    sqlx::query_as!(
        TraceLink,
        "select id, session_id, created_at, expires_at from trace_links
         where session_id = $1 and revoked_at is null and expires_at > now()
           and exists (select from recordings r where r.session_id = trace_links.session_id and r.removable_at is null)
           and live_right_holds(session_id, acting_account_id, api_key_id, web_session_id, oauth_client_id, null, created_at)
         order by id desc",
        session as _,
    )
    .fetch_all(conn)
    .await
}

/// `false` if the account has no such valid link. `conn` is in a transaction.
pub async fn revoke(conn: &mut PgConnection, account: AccountId, id: TraceLinkId, actor: &Actor) -> sqlx::Result<bool> {
    let revoked = sqlx::query_scalar!(
        r#"update trace_links l set revoked_at = now() from sessions s
           where l.id = $1 and l.revoked_at is null and l.expires_at > now() and s.id = l.session_id and s.account_id = $2
           returning l.session_id as "session_id: SessionId""#,
        id as _,
        account as _,
    );
    let Some(session) = revoked.fetch_optional(&mut *conn).await? else { return Ok(false) };
    let payload = json!({"session_id": session});
    let entry = Entry { action: "trace_link.revoked", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

/// The recording was deleted.
pub(super) async fn revoke_all(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<()> {
    sqlx::query!(
        "update trace_links set revoked_at = now() where session_id = $1 and revoked_at is null",
        session as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Session of a valid link, and its account. `None` if no valid link has this secret, if its creator may no longer see the session,
/// or if the account is suspended.
pub async fn open(conn: &mut PgConnection, secret: &str) -> sqlx::Result<Option<(AccountId, SessionId)>> {
    let link = sqlx::query!(
        r#"select s.account_id as "account_id: AccountId", s.id as "id: SessionId"
           from trace_links l join sessions s on s.id = l.session_id
           where l.secret_hash = $1 and l.revoked_at is null and l.expires_at > now()
             and live_right_holds(l.session_id, l.acting_account_id, l.api_key_id, l.web_session_id, l.oauth_client_id, null,
                                  l.created_at)"#,
        tokens::hash(secret),
    );
    Ok(link.fetch_optional(conn).await?.map(|row| (row.account_id, row.id)))
}

/// Deletes links that expired more than a day ago.
pub(super) async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from trace_links where id = any(array(
             select id from trace_links where expires_at < now() - interval '1 day' order by expires_at limit $1 for update skip locked))",
        limit,
    );
    Ok(purged.execute(conn).await?.rows_affected())
}
