//! Turns: the messages of an agent session and the replies (contract: agents 15 to 26). The module [`super::turn_lifecycle`] runs
//! a turn.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::iter::from_fn;

use kitfleet_types::files::DownloadStatus;
use kitfleet_types::ids::{AccountId, AgentSessionId, DownloadId, SessionId, StepId, TurnId, WorkerId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{AnsweredDialog, Candidate, OpenDialog};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::queued_turn::Request;
use super::receipts::{self, NewReceipt, Receipt};
use super::steps::{self, Intent, SealedStep, SealedTexts, StepStatus};
use super::typed::Typed;
use super::{CloseReason, Mode, Sealer, Settings, TooManyBytes, close_if_ended, lanes, require_space};
use crate::accounts;
use crate::credentials::{Credential, CredentialColumns};
use crate::sessions::intents::ReplyTo;
use crate::sessions::{EndReason, SessionStatus, failures};
use crate::workers::LEASE;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TurnTexts {
    /// Message, without the texts to type.
    pub message: String,
    pub reply: String,
    /// Elements the message may refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<TurnDownload>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialog: Option<OpenDialog>,
}

/// Download that began during a turn
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentDownload, example = json!({
    "id": "dl_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f", "file_name": "invoice.pdf", "bytes": 48_213, "status": "complete",
}))]
pub struct TurnDownload {
    /// ID of the download
    #[schema(value_type = String)]
    pub id: DownloadId,
    /// Suggested name of the file
    pub file_name: String,
    /// Number of bytes received until the end of the turn
    pub bytes: u64,
    /// Progress of the download at the end of the turn
    pub status: DownloadStatus,
}

impl TurnTexts {
    pub(super) fn hide(&mut self, typed: &Typed, intents: &[Intent]) {
        let waiting = intents.iter().filter(|intent| intent.status == StepStatus::NeedsApproval);
        let ids: Vec<_> = waiting.map(|intent| intent.id.to_string()).collect();
        self.message = typed.hide(&self.message);
        self.reply = typed.hide_around(&self.reply, &ids);
        for Candidate { description, selector } in &mut self.candidates {
            *description = typed.hide(description);
            *selector = typed.hide_in_selector(selector);
        }
        for TurnDownload { file_name, .. } in &mut self.downloads {
            *file_name = typed.hide(file_name);
        }
        for AnsweredDialog { message, .. } in &mut self.dialogs {
            *message = typed.hide(message);
        }
        if let Some(OpenDialog { message, default_value, .. }) = &mut self.dialog {
            *message = typed.hide(message);
            *default_value = default_value.as_ref().map(|text| typed.hide(text));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum TurnKind {
    Plan,
    Clarify,
    /// The message was understood.
    Refuse,
}

impl TurnKind {
    pub const NAMES: [&'static str; 3] = ["plan", "clarify", "refuse"];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Decomposer {
    Deterministic,
    Claude,
}

#[derive(Debug)]
pub struct NewTurn<'a> {
    pub id: TurnId,
    pub account: AccountId,
    /// The owner of the agent session, or an admin of their team.
    pub acting: AccountId,
    pub credential: Credential,
    pub session: AgentSessionId,
    pub request: &'a Request,
    /// Shown in the transcript until the message has been interpreted.
    pub shown: String,
    pub receipt: Option<&'a NewReceipt>,
    pub reply: ReplyTo<'a>,
}

#[derive(Debug)]
pub enum MessageOutcome {
    /// The caller must enqueue the job for this worker.
    Turn(WorkerId),
    Known(Receipt),
    NoSession,
    Closed,
    /// The end of the driver session has closed the agent session.
    DriverEnded,
    /// The mode does not allow messages.
    Manual,
    HumanDrives,
    Busy,
    /// The agent session has reached a limit.
    Full(Full),
    /// The account's agent sessions have reached their limit of stored bytes.
    NoRoom(TooManyBytes),
    Opening,
    /// It died during an operation, whose outcome is unknown.
    DriverLost,
    /// No recent heartbeat, but not declared dead.
    WorkerSilent,
}

#[derive(Debug, Clone, Copy)]
pub enum Full {
    Turns {
        current: i32,
        limit: u32,
    },
    Bytes {
        current: i64,
        /// Stored bytes from which no message is accepted.
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

/// The account is locked first, so that its messages count each other's bytes. Takes the lane from a person without a
/// recent heartbeat. `conn` is in a transaction that the caller must commit, whatever this returns.
pub async fn accept(
    conn: &mut PgConnection,
    sealer: &Sealer,
    new: &NewTurn<'_>,
    settings: &Settings,
    limits: &Limits,
) -> sqlx::Result<MessageOutcome> {
    // Lock the account before the agent session, in the same order as a suspension.
    if accounts::lock(&mut *conn, new.account).await?.is_none() {
        return Ok(MessageOutcome::NoSession);
    }
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
    let Some(found) = found else { return Ok(MessageOutcome::NoSession) };
    // A stored response is returned whatever has happened to the agent session since.
    if let Some(receipt) = new.receipt
        && let Some(known) = receipts::find(&mut *conn, new.account, receipt).await?
    {
        return Ok(MessageOutcome::Known(known));
    }
    if found.lapsed {
        lanes::lapse(&mut *conn, new.account, new.session).await?;
    }
    if !found.active {
        let ended = found.close_reason == Some(CloseReason::DriverSessionEnded);
        return Ok(if ended { MessageOutcome::DriverEnded } else { MessageOutcome::Closed });
    }
    let (Some(driver), Some(worker), true) = (found.driver, found.worker, found.live) else {
        close_if_ended(conn, new.account, new.session).await?;
        return Ok(MessageOutcome::DriverEnded);
    };
    if found.mode == Mode::Manual {
        return Ok(MessageOutcome::Manual);
    }
    if found.driven && !found.lapsed {
        return Ok(MessageOutcome::HumanDrives);
    }
    if found.busy {
        return Ok(MessageOutcome::Busy);
    }
    if let Some(full) = Full::of(found.turns, found.kept_bytes, settings) {
        return Ok(MessageOutcome::Full(full));
    }
    if let Err(full) = require_space(&mut *conn, new.account, limits).await? {
        return Ok(MessageOutcome::NoRoom(full));
    }
    if found.status == Some(SessionStatus::Creating) {
        return Ok(MessageOutcome::Opening);
    }
    if !found.stands {
        // Fail with the same outcome as the next operation would.
        if !failures::fail_idle(&mut *conn, worker, driver, "unknown", &failures::worker_gone(), EndReason::WorkerLost)
            .await?
        {
            return Ok(MessageOutcome::DriverLost);
        }
        close_if_ended(conn, new.account, new.session).await?;
        return Ok(MessageOutcome::DriverEnded);
    }
    if !found.heard {
        return Ok(MessageOutcome::WorkerSilent);
    }
    if let Some(receipt) = new.receipt
        && !receipts::reserve(&mut *conn, new.account, new.session, receipt).await?
    {
        // A concurrent message of another agent session has reserved the key.
        return Ok(MessageOutcome::Known(Receipt::Mismatch));
    }
    insert(conn, sealer, new, worker).await?;
    Ok(MessageOutcome::Turn(worker))
}

/// The commit does not wait for the disk. If the database crashes it can lose a message, but no step of it was
/// performed: the first claim of a step waits for all earlier commits.
async fn insert(conn: &mut PgConnection, sealer: &Sealer, new: &NewTurn<'_>, worker: WorkerId) -> sqlx::Result<()> {
    let id = new.id.to_string();
    let texts = TurnTexts { message: new.shown.clone(), ..TurnTexts::default() };
    let by = CredentialColumns::of(new.credential);
    sqlx::query!(
        "with turn as (
             insert into agent_turns
                 (id, agent_session_id, worker_id, sealed_request, sealed_said, receipt_key, reply_channel, request_id, trace_parent,
                  acting_account_id, api_key_id, web_session_id, oauth_client_id, credential_expires_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         )
         update agent_sessions set turn_id = $1, turns = turns + 1, updated_at = clock_timestamp() where id = $2
         returning set_config('synchronous_commit', 'off', true)",
        new.id as _,
        new.session as _,
        worker as _,
        sealer.seal(&id, new.request)?,
        sealer.seal(&id, &texts)?,
        new.receipt.map(|receipt| receipt.key.as_str()),
        new.reply.channel,
        new.reply.request_id,
        new.reply.trace_parent.map(|parent| parent.to_string()),
        new.acting as _,
        by.key,
        by.web_session,
        by.client,
        by.expires_at as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

const LOST: &str = "The worker that performed this turn died, and so did its browser. The outcome of the step in progress is unknown: \
                    check the site for its effect, close this agent session, and create another one.";

/// Outcome of a message
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
    /// Turn ID
    #[schema(value_type = String)]
    pub turn_id: TurnId,
    /// `plan`: the message had steps to perform; `clarify`: the message was ambiguous; `refuse`: the request was refused
    #[schema(value_type = String)]
    pub kind: TurnKind,
    /// Reply in natural language
    pub reply: String,
    /// Steps of the turn, in order
    pub intents: Vec<Intent>,
    /// Elements the message may refer to if it is ambiguous, at most five
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub candidates: Option<Vec<Candidate>>,
    /// Downloads that began during the turn, at most 20; absent if there was none
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub downloads: Vec<TurnDownload>,
    /// Dialogs that pages showed during the turn, at most 20, and their answers; absent if there was none
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that waits for an answer at the end of the turn; absent if there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
    /// Tokens that a model used for the turn
    pub tokens_used: i32,
}

pub async fn answer_bytes(conn: &mut PgConnection, session: AgentSessionId, id: TurnId) -> sqlx::Result<Option<u64>> {
    let bytes = sqlx::query_scalar!(
        r#"select octet_length(sealed_said) + coalesce((
               select sum(octet_length(s.sealed_wish) + coalesce(octet_length(s.sealed_shown), 0)
                          + coalesce(octet_length(s.sealed_result), 0)
                          + coalesce(octet_length(i.content), 0)::bigint * 4 / 3)::bigint
               from agent_steps s left join intents i on i.id = s.operation_id and s.kind = 'capture' where s.turn_id = t.id
           ), 0) as "bytes!"
           from agent_turns t where id = $1 and agent_session_id = $2 and status = 'done'"#,
        id as _,
        session as _,
    );
    Ok(bytes.fetch_optional(conn).await?.map(|bytes| u64::try_from(bytes).unwrap_or_default()))
}

#[derive(Debug)]
pub struct SealedAnswer {
    turn: TurnId,
    kind: TurnKind,
    sealed_said: Vec<u8>,
    steps: Vec<SealedStep>,
    tokens_used: i32,
    lost: bool,
    typed: SealedTexts,
}

/// `None` while the turn has not ended.
pub async fn answer(
    conn: &mut PgConnection,
    session: AgentSessionId,
    id: TurnId,
) -> sqlx::Result<Option<SealedAnswer>> {
    let row = sqlx::query!(
        r#"select kind as "kind!: TurnKind", sealed_said, tokens_used, lost from agent_turns
           where id = $1 and agent_session_id = $2 and status = 'done'"#,
        id as _,
        session as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let steps = steps::of_turns(&mut *conn, &[id], true).await?;
    let typed = steps::typed(conn, session).await?;
    let (kind, sealed_said, tokens_used, lost) = (row.kind, row.sealed_said, row.tokens_used, row.lost);
    Ok(Some(SealedAnswer { turn: id, kind, sealed_said, steps, tokens_used, lost, typed }))
}

impl SealedAnswer {
    /// Approximate number of bytes to process.
    #[must_use]
    pub fn weight(&self) -> usize {
        weight(&self.steps) + self.typed.weight()
    }

    /// Unseals the response for customers. Slow for large inputs: run it off the async runtime.
    pub fn open(self, sealer: &Sealer) -> sqlx::Result<TurnAnswer> {
        let typed = self.typed.open(sealer)?;
        let mut texts: TurnTexts = sealer.open(&self.turn.to_string(), &self.sealed_said)?;
        let intents = open(self.steps, sealer, &typed)?;
        texts.hide(&typed, &intents);
        Ok(TurnAnswer {
            turn_id: self.turn,
            kind: self.kind,
            reply: if self.lost { LOST.to_owned() } else { texts.reply },
            intents,
            candidates: (!texts.candidates.is_empty()).then_some(texts.candidates),
            downloads: texts.downloads,
            dialogs: texts.dialogs,
            dialog: texts.dialog,
            tokens_used: self.tokens_used,
        })
    }
}

fn weight(steps: &[SealedStep]) -> usize {
    steps.iter().map(SealedStep::bytes).sum()
}

fn open(steps: impl IntoIterator<Item = SealedStep>, sealer: &Sealer, typed: &Typed) -> sqlx::Result<Vec<Intent>> {
    let intents = steps.into_iter().map(|sealed| {
        let (step, content) = sealed.open(sealer)?;
        let mut intent = step.public();
        if !typed.is_empty() {
            intent.hide(typed)?;
        }
        intent.put_content(content)?;
        Ok(intent)
    });
    intents.collect()
}

#[derive(Debug)]
pub struct WaitingStep {
    pub id: StepId,
    pub turn: TurnId,
    pub agent_session: AgentSessionId,
    pub session: SessionId,
    pub requested_at: Timestamp,
}

/// Steps that wait for an approval, of all active agent sessions of an account, newest first.
pub async fn waiting(
    conn: &mut PgConnection,
    account: AccountId,
    after: Option<StepId>,
    limit: i64,
) -> sqlx::Result<Vec<WaitingStep>> {
    sqlx::query_as!(
        WaitingStep,
        r#"select s.id as "id: StepId", s.turn_id as "turn: TurnId", a.id as "agent_session: AgentSessionId",
                  a.session_id as "session: SessionId", t.done_at as "requested_at!: Timestamp"
           from agent_sessions a
           join agent_steps s on s.agent_session_id = a.id and s.status = 'needs_approval'
           join agent_turns t on t.id = s.turn_id and t.status = 'done'
           where a.account_id = $1 and a.status = 'active' and s.id < $2
             and exists (select from sessions d where d.id = a.session_id and d.live)
           order by s.id desc limit $3"#,
        account as _,
        after.map_or(Uuid::max(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug)]
pub struct SealedWaitingSteps {
    waiting: Vec<WaitingStep>,
    steps: Vec<SealedStep>,
    typed: HashMap<AgentSessionId, SealedTexts>,
}

pub async fn sealed_waiting(conn: &mut PgConnection, waiting: Vec<WaitingStep>) -> sqlx::Result<SealedWaitingSteps> {
    let turns: Vec<_> = waiting.iter().map(|step| step.turn).collect();
    let steps = steps::of_turns(&mut *conn, &turns, false).await?;
    let mut typed = HashMap::new();
    for step in &waiting {
        if let Entry::Vacant(vacant) = typed.entry(step.agent_session) {
            vacant.insert(steps::typed(&mut *conn, step.agent_session).await?);
        }
    }
    Ok(SealedWaitingSteps { waiting, steps, typed })
}

impl SealedWaitingSteps {
    /// Approximate number of bytes to process.
    #[must_use]
    pub fn weight(&self) -> usize {
        weight(&self.steps) + self.typed.values().map(SealedTexts::weight).sum::<usize>()
    }

    /// Unseals the steps for customers. Slow for large inputs: run it off the async runtime.
    pub fn open(self, sealer: &Sealer) -> sqlx::Result<Vec<(WaitingStep, Intent)>> {
        let mut steps: HashMap<_, _> = self.steps.into_iter().map(|step| (step.id, step)).collect();
        let mut opened = Vec::new();
        for waiting in self.waiting {
            let Some(step) = steps.remove(&waiting.id) else { continue };
            let typed = match self.typed.get(&waiting.agent_session) {
                Some(typed) => typed.open(sealer)?,
                None => continue,
            };
            opened.extend(open([step], sealer, &typed)?.pop().map(|intent| (waiting, intent)));
        }
        Ok(opened)
    }
}

#[derive(Debug)]
pub struct TranscriptTurn {
    pub id: TurnId,
    pub texts: TurnTexts,
    pub kind: TurnKind,
    pub intents: Vec<Intent>,
    pub decomposer: Option<Decomposer>,
    pub tokens_used: i32,
    pub created_at: Timestamp,
    pub done_at: Timestamp,
}

/// Oldest first, with their stored bytes. The list starts after the given turn, or with that turn if the flag is set.
pub async fn ended(
    conn: &mut PgConnection,
    session: AgentSessionId,
    (from, with_it): (Option<TurnId>, bool),
    limit: i64,
) -> sqlx::Result<Vec<(TurnId, u64)>> {
    let rows = sqlx::query!(
        r#"select id, octet_length(sealed_said) + coalesce((
               select sum(octet_length(s.sealed_wish) + coalesce(octet_length(s.sealed_shown), 0)
                          + coalesce(octet_length(s.sealed_result), 0))
               from agent_steps s where s.turn_id = t.id
           ), 0) as "bytes!"
           from agent_turns t
           where agent_session_id = $1 and status = 'done' and (id > $2 or $3 and id = $2) order by id limit $4"#,
        session as _,
        from.map_or(Uuid::nil(), |from| from.as_uuid()),
        with_it,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, u64::try_from(row.bytes).unwrap_or_default())).collect())
}

#[derive(Debug)]
pub struct SealedTurns {
    turns: Vec<SealedTurn>,
    steps: Vec<SealedStep>,
    typed: SealedTexts,
}

#[derive(Debug)]
struct SealedTurn {
    id: TurnId,
    kind: TurnKind,
    sealed_said: Vec<u8>,
    decomposer: Option<Decomposer>,
    tokens_used: i32,
    lost: bool,
    created_at: Timestamp,
    done_at: Timestamp,
}

pub async fn transcript(
    conn: &mut PgConnection,
    session: AgentSessionId,
    turns: &[TurnId],
) -> sqlx::Result<SealedTurns> {
    let ids: Vec<_> = turns.iter().map(TurnId::as_uuid).collect();
    let found = sqlx::query_as!(
        SealedTurn,
        r#"select id, kind as "kind!: TurnKind", sealed_said, decomposer as "decomposer: Decomposer", tokens_used, lost,
                  created_at, done_at as "done_at!"
           from agent_turns where id = any($2) and agent_session_id = $1 and status = 'done' order by id"#,
        session as _,
        &ids,
    );
    let found = found.fetch_all(&mut *conn).await?;
    let steps = steps::of_turns(&mut *conn, turns, false).await?;
    let typed = steps::typed(conn, session).await?;
    Ok(SealedTurns { turns: found, steps, typed })
}

impl SealedTurns {
    /// Approximate number of bytes to process.
    #[must_use]
    pub fn weight(&self) -> usize {
        weight(&self.steps) + self.typed.weight()
    }

    /// Unseals the turns for customers. Slow for large inputs: run it off the async runtime.
    ///
    /// # Errors
    /// Returns an error if a turn was sealed with a key that this process lacks, or written by another version of this program.
    pub fn open(self, sealer: &Sealer) -> sqlx::Result<Vec<TranscriptTurn>> {
        let typed = self.typed.open(sealer)?;
        let mut steps = self.steps.into_iter().peekable();
        let turns = self.turns.into_iter().map(|turn| {
            let mut texts: TurnTexts = sealer.open(&turn.id.to_string(), &turn.sealed_said)?;
            if turn.lost {
                LOST.clone_into(&mut texts.reply);
            }
            let its = from_fn(|| steps.next_if(|step| step.turn == turn.id));
            let intents = open(its, sealer, &typed)?;
            texts.hide(&typed, &intents);
            Ok(TranscriptTurn {
                id: turn.id,
                texts,
                kind: turn.kind,
                intents,
                decomposer: turn.decomposer,
                tokens_used: turn.tokens_used,
                created_at: turn.created_at,
                done_at: turn.done_at,
            })
        });
        turns.collect()
    }
}
