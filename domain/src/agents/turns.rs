//! Turns: what somebody said in an agent session, and what was answered (contract: agents 15 to 26).
//!
//! A turn moves `queued → running → done`, each step by compare-and-set, and its id is the agent session's lock. Whoever ends it
//! does so in one transaction, fenced by that: how its steps stand, its answer, the release of the agent session, the row
//! of the audit log and the receipt come together or not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use utoipa::ToSchema;
use uuid::Uuid;

use super::receipts::{self, NewReceipt, Receipt};
use super::steps::{self, Intent, Standing, Step, StepStatus};
use super::{CloseReason, Mode, Sealer, Settings, close_if_ended, consulting, lanes};
use crate::audit::{self, Actor, Entry, Line};
use crate::ids::{AccountId, AgentSessionId, SessionId, TurnId, WorkerId};
use crate::operations::Candidate;
use crate::sessions::intents::ReplyTo;
use crate::sessions::{SessionStatus, leftovers};
use crate::timestamp::Timestamp;
use crate::vault::Vault;
use crate::workers::LEASE;

/// What somebody says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// In words.
    pub message: String,
    /// Steps that they approve of, by their ids. None of them need exist.
    pub approvals: Vec<String>,
}

/// What a transcript shows of a turn, besides its steps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Said {
    /// The message, without what was to be typed.
    pub message: String,
    /// The answer in words.
    pub reply: String,
    /// Whom the message may have meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// What a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum TurnKind {
    /// Something was to be done, and was as far as the steps say.
    Plan,
    /// It is not clear what is meant.
    Clarify,
    /// It was understood, and is not done.
    Refuse,
}

impl TurnKind {
    /// As the contract spells them.
    pub const NAMES: [&'static str; 3] = ["plan", "clarify", "refuse"];

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Who reads messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Decomposer {
    /// The grammar.
    Deterministic,
    /// A model.
    Claude,
}

/// A turn to be.
#[derive(Debug)]
pub struct NewTurn<'a> {
    /// Its id.
    pub id: TurnId,
    /// On whose account.
    pub account: AccountId,
    /// In which agent session.
    pub session: AgentSessionId,
    /// What is said.
    pub request: &'a Request,
    /// What a transcript shows of that until somebody has read it.
    pub shown: String,
    /// Its receipt, if it is to have one.
    pub receipt: Option<&'a NewReceipt>,
    /// Where its end is waited for.
    pub reply: ReplyTo<'a>,
}

/// What became of a message.
#[derive(Debug)]
pub enum Accepted {
    /// The agent session is busy with it; its worker has to be given the job.
    Turn(WorkerId),
    /// Its key was used before.
    Known(Receipt),
    /// The account has no such agent session.
    NoSession,
    /// The agent session is closed.
    Closed,
    /// Its driver session has ended, and so has it.
    DriverEnded,
    /// It takes no messages in this mode.
    Manual,
    /// A human drives.
    HumanDrives,
    /// Another message is under way.
    Busy,
    /// It has taken all the messages that it may.
    Full(Full),
    /// The driver session is still opening.
    Opening,
    /// The driver session's worker died during an operation, of which nobody knows what it did.
    DriverLost,
    /// Nobody has heard of the driver session's worker for a while, and nobody has found it dead.
    WorkerSilent,
}

/// Of what an agent session has as much as it may.
#[derive(Debug, Clone, Copy)]
pub enum Full {
    /// Messages.
    Turns {
        /// How many it took.
        current: i32,
        /// How many it may take.
        limit: u32,
    },
    /// Bytes of what is kept of them.
    Bytes {
        /// How many there are.
        current: i64,
        /// From how many on it takes no more.
        limit: u64,
    },
}

impl Full {
    fn of(turns: i32, bytes: i64, settings: &Settings) -> Option<Self> {
        let (turn_limit, byte_limit) = (settings.max_turns, settings.max_transcript_bytes);
        if u32::try_from(turns).is_ok_and(|turns| turns >= turn_limit) {
            return Some(Self::Turns { current: turns, limit: turn_limit });
        }
        let is_full = u64::try_from(bytes).is_ok_and(|bytes| bytes >= byte_limit);
        is_full.then_some(Self::Bytes { current: bytes, limit: byte_limit })
    }
}

/// Takes a message, if the agent session takes one now; `conn` is in a transaction that is committed whatever is answered. A human
/// who was not heard of for long does not drive.
///
/// # Errors
/// When the database fails.
pub async fn accept(
    conn: &mut PgConnection,
    sealer: &Sealer,
    new: &NewTurn<'_>,
    settings: &Settings,
) -> sqlx::Result<Accepted> {
    let found = sqlx::query!(
        r#"select a.status = 'active' as "active!", a.close_reason as "close_reason: CloseReason", a.mode as "mode: Mode",
                  a.turn_id is not null as "busy!", a.driver is not null as "driven!",
                  coalesce(a.heard_at <= now() - make_interval(secs => $3), false) as "lapsed!", a.turns, a.kept_bytes,
                  s.id as "driver?: SessionId", coalesce(s.live, false) as "live!", s.status as "status?: SessionStatus",
                  s.worker_id as "worker?: WorkerId", coalesce(w.status in ('active', 'draining'), false) as "stands!",
                  coalesce(w.last_seen_at > now() - make_interval(secs => $4), false) as "heard!"
           from agent_sessions a left join sessions s on s.id = a.session_id left join workers w on w.id = s.worker_id
           where a.id = $1 and a.account_id = $2 for update of a"#,
        new.session as _,
        new.account as _,
        settings.heartbeat_timeout.as_secs_f64(),
        LEASE.as_secs_f64(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(found) = found else { return Ok(Accepted::NoSession) };
    // Whatever has become of the agent session since, what was answered stays answered.
    if let Some(receipt) = new.receipt
        && let Some(known) = receipts::find(&mut *conn, new.account, receipt).await?
    {
        return Ok(Accepted::Known(known));
    }
    if found.lapsed {
        lanes::lapse(&mut *conn, new.account, new.session).await?;
    }
    if !found.active {
        let ended = found.close_reason == Some(CloseReason::DriverSessionEnded);
        return Ok(if ended { Accepted::DriverEnded } else { Accepted::Closed });
    }
    let (Some(driver), Some(worker), true) = (found.driver, found.worker, found.live) else {
        close_if_ended(conn, new.account, new.session).await?;
        return Ok(Accepted::DriverEnded);
    };
    if found.mode == Mode::Manual {
        return Ok(Accepted::Manual);
    }
    if found.driven && !found.lapsed {
        return Ok(Accepted::HumanDrives);
    }
    if found.busy {
        return Ok(Accepted::Busy);
    }
    if let Some(full) = Full::of(found.turns, found.kept_bytes, settings) {
        return Ok(Accepted::Full(full));
    }
    if found.status == Some(SessionStatus::Creating) {
        return Ok(Accepted::Opening);
    }
    if !found.stands {
        // It is told what its next operation would be told.
        if !leftovers::fail_idle(&mut *conn, worker, driver, "unknown", &leftovers::worker_gone()).await? {
            return Ok(Accepted::DriverLost);
        }
        close_if_ended(conn, new.account, new.session).await?;
        return Ok(Accepted::DriverEnded);
    }
    if !found.heard {
        return Ok(Accepted::WorkerSilent);
    }
    if let Some(receipt) = new.receipt
        && !receipts::reserve(&mut *conn, new.account, new.session, receipt).await?
    {
        // Another agent session's message had the key in this very moment.
        return Ok(Accepted::Known(Receipt::Mismatch));
    }
    insert(conn, sealer, new, worker).await?;
    Ok(Accepted::Turn(worker))
}

/// Writes the turn. Its commit does not wait for the disk: what a crash of the database can forget is a message of which nothing was
/// done, since the first claim of a step waits for all that was committed before.
async fn insert(conn: &mut PgConnection, sealer: &Sealer, new: &NewTurn<'_>, worker: WorkerId) -> sqlx::Result<()> {
    let id = new.id.to_string();
    let said = Said { message: new.shown.clone(), ..Said::default() };
    sqlx::query!(
        "with turn as (
             insert into agent_turns
                 (id, agent_session_id, worker_id, sealed_request, sealed_said, receipt_key, reply_channel, request_id)
             values ($1, $2, $3, $4, $5, $6, $7, $8)
         )
         update agent_sessions set turn_id = $1, turns = turns + 1, updated_at = clock_timestamp() where id = $2
         returning set_config('synchronous_commit', 'off', true)",
        new.id as _,
        new.session as _,
        worker as _,
        sealer.seal(&id, new.request)?,
        sealer.seal(&id, &said)?,
        new.receipt.map(|receipt| receipt.key.as_str()),
        new.reply.channel,
        new.reply.request_id,
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// A turn that waits for its worker.
#[derive(Debug)]
pub struct Waiting {
    /// Which.
    pub id: TurnId,
    /// On whose account.
    pub account: AccountId,
    /// In which agent session.
    pub session: AgentSessionId,
    /// Its driver session.
    pub driver: SessionId,
    /// What was said.
    pub request: Request,
    /// The HTTP request, for the logs.
    pub request_id: String,
    /// The key of its receipt.
    pub receipt: Option<String>,
}

/// The turn of this id, if it still waits.
///
/// # Errors
/// When the database fails, or it was sealed with a key that this process does not have.
pub async fn waiting(conn: &mut PgConnection, sealer: &Sealer, id: TurnId) -> sqlx::Result<Option<Waiting>> {
    let row = sqlx::query!(
        r#"select t.agent_session_id, t.sealed_request as "sealed_request!", t.request_id, t.receipt_key, a.account_id,
                  a.session_id
           from agent_turns t join agent_sessions a on a.id = t.agent_session_id
           where t.id = $1 and t.status = 'queued' and t.sealed_request is not null"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        Ok(Waiting {
            id,
            account: row.account_id,
            session: row.agent_session_id,
            driver: row.session_id,
            request: sealer.open(&id.to_string(), &row.sealed_request)?,
            request_id: row.request_id,
            receipt: row.receipt_key,
        })
    })
    .transpose()
}

/// The steps of an agent session's plan that wait for approval, or behind one that does.
///
/// # Errors
/// When the database fails.
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
    let steps = steps::of_turns(conn, sealer, &[turn], false).await?;
    let waits = |step: &Step| matches!(step.status, StepStatus::NeedsApproval | StepStatus::Planned);
    Ok(steps.into_iter().map(|(_, step)| step).filter(waits).collect())
}

/// Begins what a message comes to: writes its plan, or takes over the one that it approves of. What else still waited for approval
/// is left out from now on. `false` when somebody else has begun or ended the turn. It is one statement, which is a transaction of
/// its own, and may commit without waiting for the disk: what it writes is there before the first step is claimed, and that commit waits
/// for both. `conn` is in none.
///
/// # Errors
/// When the database fails. Then it can be tried again with the same steps.
pub async fn begin(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &Waiting,
    shown: &str,
    steps: &[Step],
    goes_on: bool,
) -> sqlx::Result<bool> {
    let said = Said { message: shown.to_owned(), ..Said::default() };
    let said = sealer.seal(&turn.id.to_string(), &said)?;
    if goes_on {
        steps::take_over(conn, turn, &said, steps).await
    } else {
        steps::plan(conn, sealer, turn, &said, steps).await
    }
}

/// Why a turn goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its agent session was closed, or its driver session has ended.
    Closed,
    /// A human drives, or the mode takes no messages any more.
    Driven,
}

/// Notes what a step is about to do. `Some`, and nothing is noted, when it must not: who drives is looked at in the same moment.
///
/// # Errors
/// When the database fails.
pub async fn step(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &Waiting,
    step: &Step,
    patience: Duration,
) -> sqlx::Result<Option<Stop>> {
    let columns = steps::seal(sealer, step)?;
    let noted = sqlx::query!(
        "update agent_steps s set status = 'running', needs_approval = $3, sealed_shown = $4
         from agent_sessions a
         where s.id = $1 and a.id = s.agent_session_id and a.status = 'active' and a.turn_id = $2 and a.mode <> 'manual'
           and not coalesce(a.heard_at > now() - make_interval(secs => $5), false)",
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
    let driven = sqlx::query_scalar!(
        r#"select mode = 'manual' or coalesce(heard_at > now() - make_interval(secs => $3), false) as "driven!"
           from agent_sessions where id = $1 and status = 'active' and turn_id = $2"#,
        turn.session as _,
        turn.id as _,
        patience.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    match driven {
        None => Ok(Some(Stop::Closed)),
        Some(true) => Ok(Some(Stop::Driven)),
        // Its plan is not there: the database crashed before it had reached the disk.
        Some(false) => Err(sqlx::Error::RowNotFound),
    }
}

/// How a turn ended.
#[derive(Debug)]
pub struct Ending {
    /// What it is.
    pub kind: TurnKind,
    /// What was said.
    pub said: Said,
    /// How its steps stand.
    pub steps: Vec<Step>,
    /// Who read the message, and what came of that; `None` when nobody had to.
    pub read: Option<(Decomposer, TurnKind)>,
}

/// Ends a turn, and answers the channel on which it is waited for. `None`, and nothing is done, when it has ended already. With a
/// receipt, `receipts` seals it; otherwise it is one statement, which is a transaction of its own. `conn` is in none.
///
/// # Errors
/// When the database fails.
pub async fn end(
    conn: &mut PgConnection,
    sealer: &Sealer,
    receipts: Option<&Vault>,
    turn: &Waiting,
    ending: &Ending,
) -> sqlx::Result<Option<String>> {
    let (Some(key), Some(vault)) = (&turn.receipt, receipts) else {
        return write_end(conn, sealer, turn, ending).await;
    };
    let mut tx = conn.begin().await?;
    let Some(channel) = write_end(&mut tx, sealer, turn, ending).await? else { return Ok(None) };
    if let Some(answer) = answer(&mut tx, sealer, turn.session, turn.id).await? {
        let body = serde_json::to_vec(&answer).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let body = receipts::seal(vault, turn.account, key, &body);
        receipts::complete(&mut tx, turn.account, key, &body).await?;
    }
    tx.commit().await?;
    Ok(Some(channel))
}

async fn write_end(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &Waiting,
    ending: &Ending,
) -> sqlx::Result<Option<String>> {
    let read = match ending.read {
        Some((Decomposer::Deterministic, kind)) => {
            let payload = json!({"agent_session_id": turn.session, "turn_id": turn.id, "result_kind": kind});
            let target = Some(turn.session.to_string());
            Some((Entry { action: "agent.decompose.deterministic", target, payload }, kind))
        }
        Some((Decomposer::Claude, kind)) => {
            consulting::entry(&mut *conn, (turn.id, turn.session), kind).await?.map(|entry| (entry, kind))
        }
        None => None,
    };
    let audited = read.map(|(entry, kind)| (Line::new(turn.account, &Actor::System, entry), kind));
    // Whoever says something else has thought better of what waits; who only approves of the wrong step may still find it.
    let leaves_out = ending.steps.is_empty() && ending.read.is_some();
    let steps = Standing::of(sealer, &ending.steps)?;
    let said = sealer.seal(&turn.id.to_string(), &ending.said)?;
    let kept = i64::try_from(said.len() + steps.bytes()).unwrap_or(i64::MAX);
    let ended = sqlx::query!(
        r#"with ended as (
               update agent_turns
               set status = 'done', kind = $3, decomposer = $4, sealed_said = $5, sealed_request = null,
                   done_at = clock_timestamp()
               where id = $1 and status <> 'done' returning reply_channel
           ), released as (
               update agent_sessions a
               set turn_id = null, kept_bytes = a.kept_bytes + $13, updated_at = clock_timestamp()
               from ended where a.id = $2 and a.turn_id = $1
           ), stand as (
               update agent_steps s
               set status = step.status, needs_approval = step.needs_approval, sealed_shown = step.shown,
                   sealed_result = step.result
               from ended, unnest($6::uuid[], $7::text[], $8::boolean[], $9::bytea[], $10::bytea[])
                    as step (id, status, needs_approval, shown, result)
               where s.id = step.id
           ), left_out as (
               update agent_steps s set status = 'skipped'
               from ended
               where $11 and agent_session_id = $2 and turn_id <> $1 and s.status in ('needs_approval', 'planned')
           )
           select reply_channel, case when $12::jsonb is not null then write_audit($12) end as audited from ended"#,
        turn.id as _,
        turn.session as _,
        ending.kind as _,
        ending.read.map(|(decomposer, _)| decomposer) as _,
        said,
        &steps.ids,
        &steps.statuses,
        &steps.approvals,
        &steps.shown as &[Option<Vec<u8>>],
        &steps.ends as &[Option<Vec<u8>>],
        leaves_out,
        audited.as_ref().map(|(line, _)| &line.columns),
        kept,
    )
    .fetch_optional(conn)
    .await?;
    if let (Some(_), Some((line, kind))) = (&ended, audited) {
        line.count();
        metrics::counter!("service_agent_decompose_total", "result_kind" => kind.name()).increment(1);
    }
    Ok(ended.map(|row| row.reply_channel))
}

/// Ends turns that their workers left when they died or stopped, at most `limit`, and tells of their steps what their operations tell.
/// Answers how many. `conn` is in a transaction.
///
/// # Errors
/// When the database fails.
pub async fn rescue(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
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
        lose(&mut *conn, *id).await?;
    }
    Ok(left.len())
}

/// Ends a turn that nobody can end any more. What was under way has failed, because nobody knows what became of it; what had not
/// begun is left out.
///
/// # Errors
/// When the database fails.
pub async fn lose(conn: &mut PgConnection, id: TurnId) -> sqlx::Result<()> {
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
        && let Some(entry) = consulting::entry(&mut *conn, (id, ended.session), ended.kind).await?
    {
        audit::record(conn, ended.account, &Actor::System, entry).await?;
        metrics::counter!("service_agent_decompose_total", "result_kind" => ended.kind.name()).increment(1);
    }
    Ok(())
}

/// What is said of a turn whose worker died.
const LOST: &str = "The worker that carried this out died. Of what was under way nobody knows what became of it: look at the page \
                    before you go on.";

/// What a message came to
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentTurn, example = json!({
    "turn_id": "turn_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "kind": "plan", "reply": "Done.",
    "intents": [{
        "id": "step_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "kind": "tap",
        "target": {"selector": "#sign-in", "description": "button \"Sign in\""}, "needs_approval": false, "status": "done",
        "result": {"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}, "error": null,
    }],
    "tokens_used": 0,
}))]
pub struct TurnAnswer {
    /// The turn
    #[schema(value_type = String)]
    pub turn_id: TurnId,
    /// `plan`: something was to be done; `clarify`: it is not clear what is meant; `refuse`: it is not done
    #[schema(value_type = String)]
    pub kind: TurnKind,
    /// The answer in words
    pub reply: String,
    /// The steps that there were to do, in their order
    pub intents: Vec<Intent>,
    /// Whom the message may have meant, when that is not clear: up to five
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Object>, required = false)]
    pub candidates: Option<Vec<Candidate>>,
    /// Tokens that a model has used for it
    pub tokens_used: i32,
}

/// What a turn of the agent session was answered; `None` as long as it has not ended.
///
/// # Errors
/// When the database fails.
pub async fn answer(
    conn: &mut PgConnection,
    sealer: &Sealer,
    session: AgentSessionId,
    id: TurnId,
) -> sqlx::Result<Option<TurnAnswer>> {
    let row = sqlx::query!(
        r#"select kind as "kind!: TurnKind", sealed_said, tokens_used, lost from agent_turns
           where id = $1 and agent_session_id = $2 and status = 'done'"#,
        id as _,
        session as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let said: Said = sealer.open(&id.to_string(), &row.sealed_said)?;
    let steps = steps::of_turns(conn, sealer, &[id], true).await?;
    Ok(Some(TurnAnswer {
        turn_id: id,
        kind: row.kind,
        reply: if row.lost { LOST.to_owned() } else { said.reply },
        intents: steps.into_iter().map(|(_, step)| step.public()).collect(),
        candidates: (!said.candidates.is_empty()).then_some(said.candidates),
        tokens_used: row.tokens_used,
    }))
}

/// A turn, as a transcript tells of it.
#[derive(Debug)]
pub struct Told {
    /// Which.
    pub id: TurnId,
    /// What was said.
    pub said: Said,
    /// What it is.
    pub kind: TurnKind,
    /// Its steps, without the content of captures.
    pub intents: Vec<Intent>,
    /// Who read the message.
    pub decomposer: Option<Decomposer>,
    /// Tokens that a model has used for it.
    pub tokens_used: i32,
    /// When the message came.
    pub created_at: Timestamp,
    /// When it was answered.
    pub done_at: Timestamp,
    /// How much there is of it.
    pub bytes: usize,
}

/// The turns of an agent session that have ended, the oldest first, from `from` on or behind it, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn transcript(
    conn: &mut PgConnection,
    sealer: &Sealer,
    session: AgentSessionId,
    (from, with_it): (Option<TurnId>, bool),
    limit: i64,
) -> sqlx::Result<Vec<Told>> {
    let rows = sqlx::query!(
        r#"select id, kind as "kind!: TurnKind", sealed_said, decomposer as "decomposer: Decomposer", tokens_used, lost,
                  created_at, done_at as "done_at!"
           from agent_turns
           where agent_session_id = $1 and status = 'done' and (id > $2 or $3 and id = $2) order by id limit $4"#,
        session as _,
        from.map_or(Uuid::nil(), |from| from.as_uuid()),
        with_it,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let mut steps = steps::of_turns(conn, sealer, &ids, false).await?;
    rows.into_iter()
        .map(|row| {
            let mut said: Said = sealer.open(&row.id.to_string(), &row.sealed_said)?;
            if row.lost {
                LOST.clone_into(&mut said.reply);
            }
            let intents: Vec<_> =
                steps.extract_if(.., |(turn, _)| *turn == row.id).map(|(_, step)| step.public()).collect();
            let results = intents.iter().filter_map(|intent| intent.result.as_ref()).map(|result| result.get().len());
            let bytes = said.message.len() + said.reply.len() + results.sum::<usize>();
            let (id, kind, decomposer, tokens_used) = (row.id, row.kind, row.decomposer, row.tokens_used);
            let (created_at, done_at) = (row.created_at, row.done_at);
            Ok(Told { id, said, kind, intents, decomposer, tokens_used, created_at, done_at, bytes })
        })
        .collect()
}
