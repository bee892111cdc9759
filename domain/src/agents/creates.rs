//! Idempotent creation of agent sessions (contract: agents 3 to 5): stores the exact response for each idempotency key.
//!
//! The row of the key is inserted in the transaction that inserts the agent session, or alone with a refusal. Of all
//! requests with one key, in all processes, only one creates an agent session. After a crash there is either no agent
//! session, or one whose response can be completed later.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, SessionId};
use sqlx::PgConnection;

/// Every repetition returns it unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub body: String,
}

#[derive(Debug)]
pub enum Create {
    Answered(Answered),
    /// The driver session may still be opening.
    Opening {
        id: AgentSessionId,
        driver: SessionId,
    },
}

/// `None` if the key was never used.
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

/// The agent session is inserted in the same transaction. `false` if the key is already in use. Waits for a concurrent
/// transaction that is about to reserve it.
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

/// Does nothing if a response is already stored.
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

/// Contract: agents 6.
const REFUSALS_KEPT: Duration = Duration::from_hours(24);

/// Old refusals that a new one deletes. More than one, because simultaneous refusals select the same oldest rows.
const FORGOTTEN_AT_ONCE: i64 = 16;

/// A refusal created no agent session. Does nothing if the key was used in the meantime. Only the account's newest
/// `max` refusals are kept, because a client repeats a request soon after the first attempt.
pub async fn refuse(
    conn: &mut PgConnection,
    account: AccountId,
    key: &str,
    answer: &Answered,
    max: u32,
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
        i64::from(max),
        FORGOTTEN_AT_ONCE,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Other rows are deleted with their agent session.
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
