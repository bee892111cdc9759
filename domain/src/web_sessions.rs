//! Web sessions: signed-in devices (contract: web-sessions).

use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;

use crate::accounts::{AccountStatus, Tier};
use crate::area::{Area, Bound, Purge};
use crate::audit::{self, Actor, Entry, Origin};
use crate::ids::{AccountId, WebSessionId};
use crate::timestamp::Timestamp;
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("tokens", "web_sessions", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    actions: &["account.logout", "account.web_session_revoked"],
    bounds: &[("web_sessions", Bound::Term("a day after it expired"))],
    ..Area::named("web_sessions")
};

/// Sessions of an account at once. Beyond them the oldest end: nobody signs in on so many devices, and each is a row.
const MOST: i64 = 1_000;

/// A session that was just begun, or refreshed: the only moment its token is known.
#[derive(Debug)]
pub struct NewWebSession {
    /// Its id.
    pub id: WebSessionId,
    /// Its bearer token.
    pub token: Token,
    /// Until when it is good.
    pub expires_at: Timestamp,
    /// Who signed in.
    pub account_id: AccountId,
}

/// Begins a session of an account that the caller knows to be active and holds a lock on, and ends the oldest when there
/// are too many. With `proven` it starts with a second-factor proof.
///
/// # Errors
/// When the database fails.
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
        MOST,
    )
    .execute(conn)
    .await?;
    Ok(NewWebSession { id, token, expires_at, account_id })
}

/// What a token says of its bearer.
#[derive(Debug)]
pub struct SessionRecord {
    /// The session.
    pub id: WebSessionId,
    /// Who signed in.
    pub account_id: AccountId,
    /// How long ago the last second-factor proof was given.
    pub proof_age: Option<Duration>,
    /// Whether it was ended.
    pub revoked: bool,
    /// Whether its time is over.
    pub expired: bool,
    /// Whether its account may act.
    pub account_status: AccountStatus,
    /// What its account pays for.
    pub tier: Tier,
}

/// # Errors
/// When the database fails.
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

/// Gives the session another token and another lifetime; the token before is worthless. `None` when the session is not
/// good any more: of several callers with one token one succeeds.
///
/// # Errors
/// When the database fails.
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

/// Ends the session of this token and writes `account.logout`. A token that is worthless already stays so.
///
/// # Errors
/// When the database fails.
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

/// A signed-in device.
#[derive(Debug)]
pub struct WebSession {
    /// Its id.
    pub id: WebSessionId,
    /// When it signed in.
    pub created_at: Timestamp,
    /// When it was last seen, to about a minute.
    pub last_used_at: Timestamp,
    /// Until when it is good.
    pub expires_at: Timestamp,
    /// From where it signed in.
    pub ip_address: Option<String>,
    /// With what.
    pub user_agent: Option<String>,
}

/// The account's sessions that are good, the newest first.
///
/// # Errors
/// When the database fails.
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

/// Ends one session of the account, and writes `account.web_session_revoked`. `false` when it has no such session that
/// is good.
///
/// # Errors
/// When the database fails.
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

/// Ends all of the account's sessions but `current`, and writes `account.web_session_revoked`. Answers how many.
///
/// # Errors
/// When the database fails.
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

/// Ends all of the account's sessions, but for `spared`. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn end_all(conn: &mut PgConnection, account: AccountId, spared: Option<WebSessionId>) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "update web_sessions set revoked_at = now()
         where account_id = $1 and id is distinct from $2 and revoked_at is null and expires_at > now()",
        account as _,
        spared as _,
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected())
}

/// Notes a second-factor proof. `None` when the session was ended meanwhile.
///
/// # Errors
/// When the database fails.
pub async fn satisfy_mfa(conn: &mut PgConnection, id: WebSessionId) -> sqlx::Result<Option<Timestamp>> {
    let satisfied = sqlx::query_scalar!(
        "update web_sessions set mfa_satisfied_at = now() where id = $1 and revoked_at is null returning mfa_satisfied_at",
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(satisfied.flatten())
}

/// Notes that these were used.
///
/// # Errors
/// When the database fails.
pub async fn touch(conn: &mut PgConnection, ids: &[WebSessionId]) -> sqlx::Result<()> {
    let ids: Vec<_> = ids.iter().map(WebSessionId::as_uuid).collect();
    // A row that somebody holds is in use anyway; waiting for it could end in a deadlock.
    sqlx::query!(
        "update web_sessions t set last_used_at = now()
         from (select id from web_sessions where id = any($1) for no key update skip locked) free where t.id = free.id",
        &ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes sessions that expired more than a day ago (contract: retention 7), up to `limit`: for so long their bearers hear why
/// they are refused. Answers how many.
///
/// # Errors
/// When the database fails.
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
