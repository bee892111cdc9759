//! Claims for input from a live view (contract: live 8, 9). They use the same lock as operations. The worker decides
//! which viewer acts, and ends the claim like an operation.

use std::time::Duration;

use kitfleet_types::ids::{IntentId, SessionId, WorkerId};
use sqlx::PgConnection;

use super::intents::ReplyTo;

#[derive(Debug, Clone, Copy)]
pub struct InputClaim<'a> {
    pub worker: WorkerId,
    pub session: SessionId,
    pub client: Option<&'a str>,
    /// Time after which a silent client loses the lane.
    pub patience: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Won,
    /// An operation or another viewer has the session, or it has ended.
    Busy,
    /// The lane belongs to the AI or to another client.
    NotDriving,
}

/// The `intent` is running from then on. A caller that did not receive the result may repeat the call with the same
/// intent. `conn` is not in a transaction.
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
               insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, started_at,
                                    actor_type, actor_id)
               select $3, id, worker_id, 'gui_input', 'running', '{}', $6, $7, now(), 'person', $4 from claimed
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
