//! Creates that may be repeated (contract: agents 3 to 5): what one with an idempotency key came to, word for word.
//!
//! The key's row is written in the transaction that writes the agent session, or alone with a refusal. So of any number of
//! creates with one key, at any number of processes, one makes something, and a crash leaves either nothing or an agent
//! session whose answer can be given later.

use std::time::Duration;

use sqlx::PgConnection;

use crate::ids::{AccountId, AgentSessionId, SessionId};

/// An answer that was given once, and is the same ever after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The body, word for word.
    pub body: String,
}

/// What there is of a key.
#[derive(Debug)]
pub enum Create {
    /// It was answered.
    Answered(Answered),
    /// The agent session is there, and its driver session may still be opening.
    Opening {
        /// The agent session.
        id: AgentSessionId,
        /// Its driver session.
        driver: SessionId,
    },
}

/// What there is of the account's key; `None` when it was never used.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, account: AccountId, key: &str) -> sqlx::Result<Option<Create>> {
    let row = sqlx::query!(
        r#"select c.http_status, c.body, a.id as "id?", a.session_id as "driver?"
           from agent_session_creates c left join agent_sessions a on a.id = c.agent_session_id
           where c.account_id = $1 and c.key = $2"#,
        account as _,
        key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.and_then(|row| match (row.http_status, row.body, row.id, row.driver) {
        (Some(status), Some(body), ..) => {
            Some(Create::Answered(Answered { status: u16::try_from(status).unwrap_or_default(), body }))
        }
        (_, _, Some(id), Some(driver)) => Some(Create::Opening { id, driver }),
        _ => None,
    }))
}

/// Takes the account's key for an agent session that is written in the same transaction. `false` when somebody else has it: who
/// is about to take it is waited for.
///
/// # Errors
/// When the database fails.
pub async fn reserve(conn: &mut PgConnection, account: AccountId, key: &str, id: AgentSessionId) -> sqlx::Result<bool> {
    let reserved = sqlx::query!(
        "insert into agent_session_creates (account_id, key, agent_session_id) values ($1, $2, $3) on conflict do nothing",
        account as _,
        key,
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(reserved.rows_affected() > 0)
}

/// Keeps the answer of an agent session's create, unless there is one.
///
/// # Errors
/// When the database fails.
pub async fn answer(conn: &mut PgConnection, account: AccountId, key: &str, answer: &Answered) -> sqlx::Result<()> {
    sqlx::query!(
        "update agent_session_creates set http_status = $3, body = $4
         where account_id = $1 and key = $2 and http_status is null",
        account as _,
        key,
        i16::try_from(answer.status).unwrap_or_default(),
        answer.body,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// How long a refusal is kept (contract: agents 6).
const REFUSALS_KEPT: Duration = Duration::from_hours(24);

/// Refusals that one refusal makes room for: more than one, because several that come at once see the same ones as the oldest.
const FORGOTTEN_AT_ONCE: i64 = 16;

/// Keeps a refusal, after which there is no agent session, unless the key was used meanwhile. Of an account the newest `most` are
/// kept: a request that is sent again comes soon after the first.
///
/// # Errors
/// When the database fails.
pub async fn refuse(
    conn: &mut PgConnection,
    account: AccountId,
    key: &str,
    answer: &Answered,
    most: u32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into agent_session_creates (account_id, key, http_status, body) values ($1, $2, $3, $4)
         on conflict do nothing",
        account as _,
        key,
        i16::try_from(answer.status).unwrap_or_default(),
        answer.body,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "delete from agent_session_creates where (account_id, key) in (
             select account_id, key from agent_session_creates where account_id = $1 and agent_session_id is null
             order by created_at desc offset $2 limit $3 for update skip locked)",
        account as _,
        i64::from(most),
        FORGOTTEN_AT_ONCE,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes refusals that have reached their term, up to `limit`; what else there is goes with its agent session. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from agent_session_creates where (account_id, key) in (
             select account_id, key from agent_session_creates
             where agent_session_id is null and created_at < now() - make_interval(secs => $1)
             order by created_at limit $2 for update skip locked)",
        REFUSALS_KEPT.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
