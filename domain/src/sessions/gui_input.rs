//! The claim of a person who acts in a session's browser (contract: live 8, 9). It is a session's claim like any other, so that no
//! operation and no other person acts meanwhile; whoever acts is the worker's business, which writes its end as that of an operation.

use std::time::Duration;

use sqlx::PgConnection;

use super::intents::ReplyTo;
use crate::ids::{IntentId, SessionId, WorkerId};

/// Who wants to act, and where.
#[derive(Debug, Clone, Copy)]
pub struct InputClaim<'a> {
    /// On this worker's browser.
    pub worker: WorkerId,
    /// Of this session.
    pub session: SessionId,
    /// What their client calls itself, if it does.
    pub client: Option<&'a str>,
    /// How long a client that has the lane may be silent.
    pub patience: Duration,
}

/// What became of a person's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The session is busy with it.
    Won,
    /// Something else is under way, or the session has ended.
    Busy,
    /// The control is somebody else's.
    NotDriving,
}

/// Claims a session for a person, as `intent`, which is under way from then on. Asked again, it says the same: whoever does not know
/// what became of it may ask until they do. `conn` is in no transaction.
///
/// # Errors
/// When the database fails.
pub async fn claim(
    conn: &mut PgConnection,
    person: InputClaim<'_>,
    intent: IntentId,
    reply: ReplyTo<'_>,
) -> sqlx::Result<Claim> {
    let InputClaim { worker, session, client, patience } = person;
    let found = sqlx::query!(
        r#"with found as (
               select s.id, s.status, s.operation_id is not distinct from $3 as has,
                      coalesce(a.mode is null or a.mode = 'manual' or a.mode = 'pair' and a.driver = $4
                          and a.heard_at > now() - make_interval(secs => $5), false) as may
               from sessions s left join agent_sessions a on a.session_id = s.id and a.status = 'active'
               where s.id = $1 and s.worker_id = $2
           ), claimed as (
               update sessions s set status = 'busy', operation_id = $3, updated_at = now(), is_followed = true
               from found f where s.id = f.id and s.status = 'ready' and f.status = 'ready' and f.may
               returning s.id, s.worker_id
           ), intent as (
               insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, started_at)
               select $3, id, worker_id, 'gui_input', 'running', '{}', $6, $7, now() from claimed
           )
           select has or exists (select from claimed) as "won!", may as "may!" from found"#,
        session as _,
        worker as _,
        intent as _,
        client,
        patience.as_secs_f64(),
        reply.channel,
        reply.request_id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(match found {
        Some(found) if found.won => Claim::Won,
        Some(found) if !found.may => Claim::NotDriving,
        _ => Claim::Busy,
    })
}
