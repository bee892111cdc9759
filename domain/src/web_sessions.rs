//! Web sessions: signed-in browsers (contract: web-sessions).

use std::time::Duration;

use kitfleet_types::ids::{AccountId, WebSessionId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use crate::accounts::AccountStatus;
use crate::area::{Area, Bound, Purge};
use crate::audit::{self, Actor, Entry, Origin};
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("tokens", "web_sessions", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    actions: &["account.logout", "account.web_session_revoked"],
    bounds: &[("web_sessions", Bound::Term("a day after it expired"))],
    ..Area::named("web_sessions")
};

/// A new session above this number ends the oldest. No user signs in on so many devices, and each session is a row.
const MAX_SESSIONS: i64 = 1_000;

/// The token is known only at this moment.
#[derive(Debug)]
pub struct NewWebSession {
    pub id: WebSessionId,
    pub token: Token,
    pub expires_at: Timestamp,
    pub account_id: AccountId,
}

/// The caller holds a lock on the row of the active account. With `proven`, the session starts with a proof of the
/// second factor.
pub async fn begin(
    conn: &mut PgConnection,
    account_id: AccountId,
    origin: &Origin,
    ttl: Duration,
    proven: bool,
) -> sqlx::Result<NewWebSession> {
    let (id, token) = (WebSessionId::generate(), Token::generate());
    let expires_at = sqlx::query_scalar!(
        "insert into web_sessions (id, account_id, token_hash, expires_at, ip_address, user_agent, mfa_satisfied_at)
         values ($1, $2, $3, now() + $4, $5, $6, case when $7 then now() end) returning expires_at",
        id as _,
        account_id as _,
        token.hash(),
        ttl as _,
        origin.ip_address,
        origin.user_agent,
        proven,
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query!(
        "update web_sessions set revoked_at = now()
         where id in (select id from web_sessions where account_id = $1 and revoked_at is null order by id desc offset $2)",
        account_id as _,
        MAX_SESSIONS,
    )
    .execute(conn)
    .await?;
    Ok(NewWebSession { id, token, expires_at, account_id })
}

#[derive(Debug)]
pub struct SessionRecord {
    pub id: WebSessionId,
    pub account_id: AccountId,
    /// Time since the last proof of a second factor.
    pub proof_age: Option<Duration>,
    pub revoked: bool,
    pub expired: bool,
    pub account_status: AccountStatus,
    pub tier: Tier,
}

pub async fn find_by_token(conn: &mut PgConnection, token: &str) -> sqlx::Result<Option<SessionRecord>> {
    let row = sqlx::query!(
        r#"select s.id, s.account_id, s.revoked_at is not null as "revoked!", s.expires_at <= now() as "expired!",
                  extract(epoch from now() - s.mfa_satisfied_at)::float8 as proof_age,
                  a.status as "status: AccountStatus", a.tier as "tier: Tier"
           from web_sessions s join accounts a on a.id = s.account_id where s.token_hash = $1"#,
        tokens::hash(token),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| SessionRecord {
        id: row.id,
        account_id: row.account_id,
        proof_age: row.proof_age.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
        revoked: row.revoked,
        expired: row.expired,
        account_status: row.status,
        tier: row.tier,
    }))
}

/// The previous token stops working. `None` when the session is no longer valid. Of several callers with one token, one
/// succeeds.
pub async fn refresh(conn: &mut PgConnection, token: &str, ttl: Duration) -> sqlx::Result<Option<NewWebSession>> {
    let fresh = Token::generate();
    let row = sqlx::query!(
        r#"update web_sessions s set token_hash = $2, expires_at = now() + $3, last_used_at = now() from accounts a
           where s.token_hash = $1 and s.revoked_at is null and s.expires_at > now()
             and a.id = s.account_id and a.status = 'active'
           returning s.id, s.account_id, s.expires_at"#,
        tokens::hash(token),
        fresh.hash(),
        ttl as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| NewWebSession {
        id: row.id,
        token: fresh,
        expires_at: row.expires_at,
        account_id: row.account_id,
    }))
}

/// Writes `account.logout`. Does nothing for an invalid token.
pub async fn log_out(conn: &mut PgConnection, token: &str, origin: &Origin) -> sqlx::Result<()> {
    let ended = sqlx::query!(
        "update web_sessions set revoked_at = now()
         where token_hash = $1 and revoked_at is null and expires_at > now() returning id, account_id",
        tokens::hash(token),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(ended) = ended else { return Ok(()) };
    let payload = origin.issued(json!({"session_id": ended.id}));
    let entry = Entry { action: "account.logout", target: Some(ended.id.to_string()), payload };
    audit::record(conn, ended.account_id, &Actor::person(ended.account_id, origin), entry).await
}

#[derive(Debug)]
pub struct WebSession {
    pub id: WebSessionId,
    pub created_at: Timestamp,
    /// Accurate to about a minute.
    pub last_used_at: Timestamp,
    pub expires_at: Timestamp,
    pub ip_address: Option<String>,
    pub user_agent: Option<String>,
}

pub async fn list(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<WebSession>> {
    sqlx::query_as!(
        WebSession,
        "select id, created_at, last_used_at, expires_at, ip_address, user_agent from web_sessions
         where account_id = $1 and revoked_at is null and expires_at > now() order by id desc",
        account as _,
    )
    .fetch_all(conn)
    .await
}

/// Writes `account.web_session_revoked`. Returns false when the account has no such active session.
pub async fn revoke(
    conn: &mut PgConnection,
    account: AccountId,
    id: WebSessionId,
    actor: &Actor,
) -> sqlx::Result<bool> {
    let ended = sqlx::query!(
        "update web_sessions set revoked_at = now()
         where id = $1 and account_id = $2 and revoked_at is null and expires_at > now()",
        id as _,
        account as _,
    )
    .execute(&mut *conn)
    .await?;
    if ended.rows_affected() == 0 {
        return Ok(false);
    }
    let payload = json!({"scope": "single"});
    let entry = Entry { action: "account.web_session_revoked", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

/// Writes `account.web_session_revoked`.
pub async fn revoke_others(
    conn: &mut PgConnection,
    account: AccountId,
    current: WebSessionId,
    actor: &Actor,
) -> sqlx::Result<u64> {
    let revoked = end_all(conn, account, Some(current)).await?;
    let payload = json!({"scope": "all_except_current", "revoked": revoked});
    audit::record(conn, account, actor, Entry { action: "account.web_session_revoked", target: None, payload }).await?;
    Ok(revoked)
}

pub async fn end_all(conn: &mut PgConnection, account: AccountId, except: Option<WebSessionId>) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "update web_sessions set revoked_at = now()
         where account_id = $1 and id is distinct from $2 and revoked_at is null and expires_at > now()",
        account as _,
        except as _,
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected())
}

/// `None` when the session was ended.
pub async fn satisfy_mfa(conn: &mut PgConnection, id: WebSessionId) -> sqlx::Result<Option<Timestamp>> {
    let satisfied = sqlx::query_scalar!(
        "update web_sessions set mfa_satisfied_at = now() where id = $1 and revoked_at is null returning mfa_satisfied_at",
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(satisfied.flatten())
}

pub async fn touch(conn: &mut PgConnection, ids: &[WebSessionId]) -> sqlx::Result<()> {
    let ids: Vec<_> = ids.iter().map(WebSessionId::as_uuid).collect();
    // Skip rows locked by other transactions: those sessions are in use anyway, and waiting could end in a deadlock.
    sqlx::query!(
        "update web_sessions t set last_used_at = now()
         from (select id from web_sessions where id = any($1) for no key update skip locked) free where t.id = free.id",
        &ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// An expired row is kept for a day (contract: retention 7), in which a caller with the token receives the reason for the refusal.
async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from web_sessions where id in (
             select id from web_sessions where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
