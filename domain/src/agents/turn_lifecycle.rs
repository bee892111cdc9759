//! Execution of a turn, from the accepted message to its end (contract: agents 17, 20 to 25, 30).
//!
//! A turn moves `queued → running → done` by compare-and-set, and its id locks the agent session. One transaction,
//! fenced by that lock, writes the states of its steps, the reply, the release of the agent session, the audit entry
//! and the receipt together or not at all.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, SessionId, TurnId};
use kitfleet_types::limits::Limits;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use super::steps::{self, Step, StepColumns, StepStatus};
use super::turns::{self, Decomposer, Request, TurnKind, TurnTexts};
use super::{Sealer, model_turns, receipts};
use crate::audit::{self, Actor, AuditRow, Entry};
use crate::blocking::run_blocking;
use crate::metrics::Counter;
use crate::trace_parent::TraceParent;
use crate::vault::Vault;

pub(super) const INTERPRETED_MESSAGES: Counter<1> = Counter::new(
    "service_agent_decompose_total",
    "Interpreted messages of agent sessions, by outcome.",
    ["result_kind"],
)
.starting_with(|| TurnKind::NAMES.map(|kind| [kind]).into());

#[derive(Debug)]
pub struct QueuedTurn {
    pub id: TurnId,
    pub account: AccountId,
    pub session: AgentSessionId,
    pub driver: SessionId,
    pub request: Request,
    pub request_id: String,
    pub trace_parent: Option<TraceParent>,
    pub receipt: Option<String>,
    /// Stored bytes of all the account's agent sessions.
    pub stored_bytes: i64,
}

impl QueuedTurn {
    /// Bytes of JSON for the results of the turn's steps: the rest of the account's quota, but at most `max`. With a
    /// receipt, each result is stored twice, so half of the rest.
    #[must_use]
    pub fn bytes_left(&self, max: usize, limits: &Limits) -> usize {
        let left = limits.agent_bytes_per_account.saturating_sub(u64::try_from(self.stored_bytes).unwrap_or_default());
        let left = if self.receipt.is_some() { left / 2 } else { left };
        usize::try_from(left).map_or(max, |left| left.min(max))
    }
}

pub async fn waiting(conn: &mut PgConnection, sealer: &Sealer, id: TurnId) -> sqlx::Result<Option<QueuedTurn>> {
    let row = sqlx::query!(
        r#"select t.agent_session_id, t.sealed_request as "sealed_request!", t.request_id, t.trace_parent, t.receipt_key, a.account_id,
                  a.session_id, (select coalesce(sum(stored_bytes), 0)::bigint from agent_sessions k
                                 where k.account_id = a.account_id and k.stored_bytes > 0) as "stored_bytes!"
           from agent_turns t join agent_sessions a on a.id = t.agent_session_id
           where t.id = $1 and t.status = 'queued' and t.sealed_request is not null"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        Ok(QueuedTurn {
            id,
            account: row.account_id,
            session: row.agent_session_id,
            driver: row.session_id,
            request: sealer.open(&id.to_string(), &row.sealed_request)?,
            request_id: row.request_id,
            trace_parent: row.trace_parent.and_then(|parent| parent.parse().ok()),
            receipt: row.receipt_key,
            stored_bytes: row.stored_bytes,
        })
    })
    .transpose()
}

/// The steps that wait for approval, and the planned steps after them.
pub async fn pending(conn: &mut PgConnection, sealer: &Sealer, session: AgentSessionId) -> sqlx::Result<Vec<Step>> {
    let turn = sqlx::query_scalar!(
        "select turn_id from agent_steps s
         where agent_session_id = $1 and status = 'needs_approval'
         order by turn_id desc limit 1",
        session as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(turn) = turn else { return Ok(Vec::new()) };
    let steps = steps::of_turns(conn, &[turn], false).await?;
    let steps = steps.into_iter().map(|sealed| sealed.open(sealer).map(|(step, _)| step));
    let waits = |step: &Step| matches!(step.status, StepStatus::NeedsApproval | StepStatus::Planned);
    steps.filter(|step| step.as_ref().map_or(true, waits)).collect()
}

/// Stores the plan of a turn, or takes over the plan that it approves. Steps of other plans that wait for approval are
/// skipped. `false` if another process has started or ended the turn.
///
/// `conn` is not in a transaction. The commit need not wait for the disk: the first step is claimed later, and the
/// commit of that claim waits for both.
///
/// After an error the call may be repeated with the same steps.
pub async fn begin(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    shown: &str,
    steps: &[Step],
    continues: bool,
) -> sqlx::Result<bool> {
    let texts = TurnTexts { message: shown.to_owned(), ..TurnTexts::default() };
    let texts = sealer.seal(&turn.id.to_string(), &texts)?;
    if continues {
        steps::take_over(conn, turn, &texts, steps).await
    } else {
        steps::plan(conn, sealer, turn, &texts, steps).await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The agent session was closed, or its driver session has ended.
    Closed,
    /// A human drives or the mode does not allow messages, or this was so at any time during the turn.
    Driven,
    /// The credential of the message was revoked or has expired, or its account may no longer act here.
    Revoked,
}

impl StopReason {
    /// Returns a clause that follows "because".
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Closed => "the agent session was closed",
            Self::Driven => "a human has taken over or cancelled it",
            Self::Revoked => "the credential that sent the message is no longer valid",
        }
    }
}

/// Returns the reason if the turn must stop instead. The same statement checks who drives and whether the credential of
/// the message is still valid.
pub async fn step(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    step: &Step,
    patience: Duration,
) -> sqlx::Result<Option<StopReason>> {
    let columns = steps::seal(sealer, step)?;
    let noted = sqlx::query!(
        "update agent_steps s set status = 'running', needs_approval = $3, sealed_shown = $4
         from agent_sessions a
         where s.id = $1 and a.id = s.agent_session_id and a.status = 'active' and a.turn_id = $2 and a.mode <> 'manual'
           and not coalesce(a.heard_at > now() - make_interval(secs => $5), false) and a.interrupted is distinct from $2
           and turn_credential_holds($2, a.account_id)",
        step.id as _,
        turn.id as _,
        step.needs_approval,
        columns.shown,
        patience.as_secs_f64(),
    )
    .execute(&mut *conn)
    .await?;
    if noted.rows_affected() > 0 {
        return Ok(None);
    }
    let stands = sqlx::query!(
        r#"select mode = 'manual' or coalesce(heard_at > now() - make_interval(secs => $3), false) or interrupted is not distinct from $2
                  as "driven!", turn_credential_holds($2, account_id) as "holds!"
           from agent_sessions where id = $1 and status = 'active' and turn_id = $2"#,
        turn.session as _,
        turn.id as _,
        patience.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    match stands {
        None => Ok(Some(StopReason::Closed)),
        Some(row) if !row.holds => Ok(Some(StopReason::Revoked)),
        Some(row) if row.driven => Ok(Some(StopReason::Driven)),
        // The plan is missing: the database crashed before it was on disk.
        Some(_) => Err(sqlx::Error::RowNotFound),
    }
}

#[derive(Debug)]
pub struct TurnEnding {
    pub kind: TurnKind,
    pub texts: TurnTexts,
    pub steps: Vec<Step>,
    /// `None` if no message was interpreted.
    pub read: Option<(Decomposer, TurnKind)>,
}

/// Returns the channel of the waiting process; `None` if the turn has already ended. With a receipt, the response is
/// sealed with `receipts` in the same transaction. Otherwise it is a single statement. `conn` is not in a transaction.
pub async fn end(
    conn: &mut PgConnection,
    sealer: &Sealer,
    receipts: Option<&Vault>,
    turn: &QueuedTurn,
    ending: &TurnEnding,
) -> sqlx::Result<Option<String>> {
    let (Some(key), Some(vault)) = (&turn.receipt, receipts) else {
        return write_end(conn, sealer, turn, ending).await;
    };
    let mut tx = conn.begin().await?;
    let Some(channel) = write_end(&mut tx, sealer, turn, ending).await? else { return Ok(None) };
    if let Some(answer) = turns::answer(&mut tx, turn.session, turn.id).await? {
        let body = run_blocking(answer.weight(), || {
            let body = serde_json::to_vec(&answer.open(sealer)?).map_err(|error| sqlx::Error::Encode(error.into()))?;
            Ok::<_, sqlx::Error>(receipts::seal(vault, turn.account, key, &body))
        })?;
        receipts::complete(&mut tx, turn.account, key, &body).await?;
    }
    tx.commit().await?;
    Ok(Some(channel))
}

async fn write_end(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    ending: &TurnEnding,
) -> sqlx::Result<Option<String>> {
    let read = match ending.read {
        Some((Decomposer::Deterministic, kind)) => {
            let payload = json!({"agent_session_id": turn.session, "turn_id": turn.id, "result_kind": kind});
            let target = Some(turn.session.to_string());
            Some((Entry { action: "agent.decompose.deterministic", target, payload }, kind))
        }
        Some((Decomposer::Claude, kind)) => {
            model_turns::entry(&mut *conn, (turn.id, turn.session), kind).await?.map(|entry| (entry, kind))
        }
        None => None,
    };
    let audited = read.map(|(entry, kind)| (AuditRow::new(turn.account, &Actor::System, entry), kind));
    let steps = StepColumns::of(sealer, &ending.steps)?;
    let texts = sealer.seal(&turn.id.to_string(), &ending.texts)?;
    let kept = i64::try_from(texts.len() + steps.bytes()).unwrap_or(i64::MAX);
    let ended = sqlx::query!(
        r#"with ended as (
               update agent_turns
               set status = 'done', kind = $3, decomposer = $4, sealed_said = $5, sealed_request = null,
                   done_at = clock_timestamp()
               where id = $1 and status <> 'done' returning reply_channel
           ), released as (
               update agent_sessions a
               set turn_id = null, kept_bytes = a.kept_bytes + $12, updated_at = clock_timestamp()
               from ended where a.id = $2 and a.turn_id = $1
           ), stand as (
               update agent_steps s
               set status = step.status, needs_approval = step.needs_approval, sealed_shown = step.shown,
                   sealed_result = step.result
               from ended, unnest($6::uuid[], $7::text[], $8::boolean[], $9::bytea[], $10::bytea[])
                    as step (id, status, needs_approval, shown, result)
               where s.id = step.id
           )
           select reply_channel, case when $11::jsonb is not null then write_audit($11) end as audited from ended"#,
        turn.id as _,
        turn.session as _,
        ending.kind as _,
        ending.read.map(|(decomposer, _)| decomposer) as _,
        texts,
        &steps.ids,
        &steps.statuses,
        &steps.approvals,
        &steps.shown as &[Option<Vec<u8>>],
        &steps.ends as &[Option<Vec<u8>>],
        audited.as_ref().map(|(line, _)| &line.columns),
        kept,
    )
    .fetch_optional(conn)
    .await?;
    if let (Some(_), Some((line, kind))) = (&ended, audited) {
        line.count();
        INTERPRETED_MESSAGES.with([kind.name()]).increment(1);
    }
    Ok(ended.map(|row| row.reply_channel))
}

/// Ends up to `limit` turns of workers that died or stopped. The states of their steps are those of the operations. Returns the
/// number of turns. `conn` is in a transaction.
pub async fn recover(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
    let left = sqlx::query_scalar!(
        "select t.id from agent_turns t
         where t.status <> 'done'
           and not exists (select from workers w where w.id = t.worker_id and w.status in ('active', 'draining'))
         order by t.id limit $1 for update skip locked",
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    for id in &left {
        fail_lost(&mut *conn, *id).await?;
    }
    Ok(left.len())
}

/// A completed operation makes its step done. Any other makes it failed, because the outcome is unknown. Steps without
/// an operation are skipped.
pub async fn fail_lost(conn: &mut PgConnection, id: TurnId) -> sqlx::Result<()> {
    sqlx::query!(
        "update agent_steps s
         set status = case when i.id is null then 'skipped'
                           when i.status = 'done' and coalesce(i.outcome->>'ended' = 'done', i.outcome is null)
                                and coalesce(i.result->>'ok', i.result->>'matched', 'true') = 'true' then 'done'
                           else 'failed' end
         from agent_steps t left join intents i on i.id = t.operation_id
         where s.turn_id = $1 and t.id = s.id and s.status in ('planned', 'running')",
        id as _,
    )
    .execute(&mut *conn)
    .await?;
    let ended = sqlx::query!(
        r#"with ended as (
               update agent_turns t
               set status = 'done', lost = true, sealed_request = null, done_at = clock_timestamp(),
                   kind = case when exists (select from agent_steps s where s.turn_id = t.id) then 'plan' else 'clarify' end
               where id = $1 and status <> 'done' returning id, agent_session_id, kind
           ), released as (
               update agent_sessions a set turn_id = null, updated_at = clock_timestamp()
               from ended where a.id = ended.agent_session_id and a.turn_id = ended.id
           )
           select a.id as "session: AgentSessionId", a.account_id as "account: AccountId", ended.kind as "kind!: TurnKind"
           from ended join agent_sessions a on a.id = ended.agent_session_id"#,
        id as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(ended) = ended
        && let Some(entry) = model_turns::entry(&mut *conn, (id, ended.session), ended.kind).await?
    {
        audit::record(conn, ended.account, &Actor::System, entry).await?;
        INTERPRETED_MESSAGES.with([ended.kind.name()]).increment(1);
    }
    Ok(())
}
