//! Declining a step that waits for an approval (contract: agents 56).

use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;

use super::lanes::{self, LaneError};
use super::steps::{self, StepStatus};
use super::turns::TurnTexts;
use super::{Mode, Sealer};
use crate::audit::{self, Actor, Entry};
use crate::notifications;
use kitfleet_types::ids::{AccountId, AgentSessionId, StepId};

#[derive(Debug, thiserror::Error)]
pub enum DeclineError {
    #[error("there is no such step")]
    NoStep,
    #[error("the step no longer waits for an approval")]
    NotWaiting,
    #[error("a turn is in progress; cancel it first")]
    TurnInProgress,
    #[error(transparent)]
    Lane(#[from] LaneError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

const DECLINED: &str = "the step was declined";

/// Appended to the reply of the turn, where a model reads it with the next message.
const PLAN_ENDED: &str = " The step was declined, so the plan has ended.";

/// Skips the step and the rest of its plan. A turn must not be in progress, because it can just be approving the step.
///
/// `conn` is in a transaction, which the caller must commit even if the step is not declined.
pub async fn decline_step(
    conn: &mut PgConnection,
    sealer: &Sealer,
    (account, id): (AccountId, AgentSessionId),
    step: StepId,
    patience: Duration,
    actor: &Actor,
) -> Result<(), DeclineError> {
    lanes::lock(&mut *conn, account, id, patience).await?;
    let row = sqlx::query!(
        r#"select s.turn_id, s.status as "status: StepStatus", t.sealed_said, a.turn_id is not null as "busy!"
           from agent_sessions a join agent_steps s on s.agent_session_id = a.id join agent_turns t on t.id = s.turn_id
           where a.id = $1 and s.id = $2"#,
        id as _,
        step as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(DeclineError::NoStep)?;
    if row.busy {
        return Err(DeclineError::TurnInProgress);
    }
    if row.status != StepStatus::NeedsApproval {
        return Err(DeclineError::NotWaiting);
    }
    let steps = steps::of_turns(&mut *conn, &[row.turn_id], false).await?;
    let found = steps.into_iter().find(|found| found.id == step).ok_or(DeclineError::NoStep)?;
    let (mut declined, _) = found.open(sealer)?;
    declined.end.error = Some(DECLINED.to_owned());
    let mut texts: TurnTexts = sealer.open(&row.turn_id.to_string(), &row.sealed_said)?;
    texts.reply.push_str(PLAN_ENDED);
    sqlx::query!(
        "with told as (update agent_turns set sealed_said = $4 where id = $3)
         update agent_steps
         set status = 'skipped', sealed_result = case when id = $2 then $5 else sealed_result end
         where agent_session_id = $1 and status in ('needs_approval', 'planned')",
        id as _,
        step as _,
        row.turn_id as _,
        sealer.seal(&row.turn_id.to_string(), &texts)?,
        steps::seal(sealer, &declined)?.end as _,
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"step_id": step, "decision": "declined"});
    let entry = Entry { action: "approval.decided", target: Some(id.to_string()), payload };
    audit::record(&mut *conn, account, actor, entry).await?;
    Ok(notify(conn, account, id).await?)
}

/// Lists of waiting steps are then loaded again.
async fn notify(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<()> {
    let row = sqlx::query!(
        r#"update agent_sessions set updated_at = clock_timestamp() where id = $1
           returning session_id, mode as "mode: Mode", status, driver is null as "is_free!""#,
        id as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    let control = if row.is_free { "ai" } else { "human" };
    let data = json!({
        "agent_session_id": id, "session_id": row.session_id, "mode": row.mode, "control": control, "status": row.status,
    });
    notifications::record(conn, account, "agent_session.changed", data).await
}
