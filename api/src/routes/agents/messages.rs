//! Sending messages to an agent session, and reading its transcript (contract: agents 15 to 30).

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::agents::queued_turn::Request;
use kitfleet_domain::agents::receipts::{self, Fingerprint, NewReceipt, Receipt};
use kitfleet_domain::agents::steps::Intent;
use kitfleet_domain::agents::turns::{
    self, Decomposer, Full, MessageOutcome, NewTurn, TranscriptTurn, TurnAnswer, TurnDownload, TurnKind,
};
use kitfleet_domain::agents::{self as rows, MESSAGE_CHARS, Sealer};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::database::is_transient;
use kitfleet_grammar::hiding;
use kitfleet_jobs::agents::{TurnJob, enqueue_without_wakeup, wake};
use kitfleet_jobs::replies::Work;
use kitfleet_types::ids::{AgentSessionId, TurnId};
use kitfleet_types::operations::{AnsweredDialog, Candidate, OpenDialog};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{READ_AGENTS, WRITE_AGENTS};
use crate::http::auth::Caller;
use crate::http::body::counted_json;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::{IdempotencyKey, MESSAGES};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::lists::{ListItem, Page, Paging, Query};
use crate::http::openapi::{
    AgentElsewhere, AgentGone, AgentRoom, Body, Database, InvalidQuery, NoAgentSession, Restricted,
};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::transcript_search::ReadingError;

/// Maximum number of steps that one message can approve.
const MAX_APPROVALS: usize = 100;
/// Maximum number of characters of a step's ID.
const APPROVAL_CHARS: usize = 128;
/// Time to wait beyond the turn's own timeout: its last step may use its full timeout, and its worker may die.
const GRACE: Duration = Duration::from_secs(150);

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_AGENTS, routes!(say)).allow(READ_AGENTS, routes!(transcript))
}

/// Message to an agent session
#[derive(Deserialize, ToSchema)]
#[schema(as = AgentMessage, example = json!({"message": "open https://example.com, then tap the 'Sign in' button"}))]
struct MessageBody {
    /// Instructions in natural language
    #[schema(min_length = 1, max_length = 10_000)]
    message: String,
    /// IDs of the intents that this message approves. The plan that they belong to then continues
    #[schema(max_items = 100)]
    approvals: Option<Vec<String>>,
}

impl MessageBody {
    fn check(self) -> Result<Request, Invalid> {
        let approvals = self.approvals.unwrap_or_default();
        let mut rules = Rules::default();
        rules.length(&self.message, 1, MESSAGE_CHARS, "message");
        rules.require(
            approvals.len() <= MAX_APPROVALS,
            "approvals",
            format!("must have at most {MAX_APPROVALS} items"),
        );
        let short = approvals.iter().all(|id| id.chars().count() <= APPROVAL_CHARS);
        rules.require(short, "approvals", "must be ids of intents");
        rules.check()?;
        Ok(Request { message: self.message, approvals })
    }
}

/// Send a message
///
/// Interprets the message and performs its steps one by one. A step that submits data is performed only after its ID is in
/// `approvals` of the next message. An agent session processes one message at a time. If the client disconnects, the transcript
/// shows the outcome. A message with an `Idempotency-Key` can be repeated: no step is performed twice, and the first response is
/// returned.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/message", tag = "Agent sessions", operation_id = "sendAgentMessage",
    params(IdPath<AgentSessionId>, IdempotencyKey), request_body = MessageBody,
    responses((status = 200, description = "The outcome of the turn", body = TurnAnswer),
              Restricted, Body, NoAgentSession, AgentElsewhere, AgentGone, AgentRoom, Database),
)]
async fn say(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    IdempotencyKey(key): IdempotencyKey,
    body: Result<Unchecked<MessageBody>>,
) -> Result<Response> {
    let sealing = key.map(|key| Ok::<_, Problem>((key, app.own_vault("receipts of messages")?))).transpose()?;
    let session = path.id()?;
    let request = match body.and_then(|body| Ok(body.check(MessageBody::check)?)) {
        Ok(request) => request,
        // Check the owner of the agent session before reporting errors in the message.
        Err(problem) => {
            let theirs = rows::exists(&mut *app.db.acquire().await?, caller.account_id, session).await?;
            return Err(if theirs { problem } else { not_found::<AgentSessionId>() });
        }
    };
    let receipt = sealing.map(|(key, vault)| {
        let fingerprint = Fingerprint::of(vault, session, &request.message, &request.approvals);
        NewReceipt { key, fingerprint }
    });
    let sealer = app.agents().await?;
    let turn = TurnId::generate();
    let waiter = app.replies.expect_end(Work::Turn(turn));
    match accept(&app, &caller, sealer, (session, turn), &request, receipt.as_ref()).await? {
        MessageOutcome::Turn(worker) => wake(&app.wakeups, worker),
        MessageOutcome::Known(known) => return replay(&app, &caller, receipt.as_ref(), known).await,
        refused => return Err(refusal(&refused)),
    }
    // The message is accepted at this point. An error response would make the client send it again.
    let deadline = Instant::now() + app.config.agents.turn_timeout + GRACE;
    loop {
        let patient = waiter.changed().await && Instant::now() < deadline;
        match answered(&app, &caller, sealer, session, turn).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(TurnPending::Database(error)) if !is_transient(&error) => return Err(error.into()),
            Err(TurnPending::Reading(error @ ReadingError::Thread(_))) => return Err(error.into()),
            Err(error) => tracing::warn!(%error, %turn, "cannot read the end of a turn: trying again"),
        }
        if !patient {
            let detail = "no outcome of the turn arrived in time; the message was accepted, and the transcript will show the outcome";
            return Err(Problem::new(&kinds::SESSION_TIMEOUT, detail));
        }
    }
}

/// Reason why the response of a turn is not available yet.
#[derive(Debug, thiserror::Error)]
enum TurnPending {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Crowded(#[from] AcquireTimeout),
    #[error(transparent)]
    Reading(#[from] ReadingError),
}

/// Response of a turn; `None` while the turn has not ended.
async fn answered(
    app: &App,
    caller: &Caller,
    sealer: &Sealer,
    session: AgentSessionId,
    turn: TurnId,
) -> Result<Option<Response>, TurnPending> {
    let (account, sealer) = (caller.account_id, sealer.clone());
    let bytes = turns::answer_bytes(&mut *app.db.acquire().await?, session, turn).await?;
    let Some(bytes) = bytes else { return Ok(None) };
    let reservation = app.answers.reserve(account, bytes).await?;
    let mut reading = app.readings.begin(account, bytes).await.map_err(ReadingError::from)?;
    let answer = turns::answer(&mut *app.db.acquire().await?, session, turn).await?;
    let Some(answer) = answer else { return Ok(None) };
    let weight = answer.weight();
    let written = move || {
        let answer = answer.open(&sealer)?;
        serde_json::to_vec(&answer).map_err(|error| sqlx::Error::Encode(error.into()))
    };
    let text = reading.run(weight, written).await??;
    Ok(Some(counted_json(text, reservation)))
}

async fn accept(
    app: &App,
    caller: &Caller,
    sealer: &Sealer,
    (session, id): (AgentSessionId, TurnId),
    request: &Request,
    receipt: Option<&NewReceipt>,
) -> Result<MessageOutcome> {
    let new = NewTurn {
        id,
        account: caller.account_id,
        acting: caller.actor.account().unwrap_or(caller.account_id),
        credential: caller.credential,
        session,
        request,
        shown: hiding::unread(&request.message),
        receipt,
        reply: app.replies.address(&caller.request_id),
    };
    let mut tx = app.db.begin().await?;
    let accepted = turns::accept(&mut tx, sealer, &new, &app.config.agents, &app.config.limits).await?;
    if let MessageOutcome::Turn(worker) = accepted {
        enqueue_without_wakeup(&mut tx, &TurnJob { worker, turn: id }).await?;
    }
    tx.commit().await?;
    Ok(accepted)
}

fn refusal(refused: &MessageOutcome) -> Problem {
    let conflict = |detail: &str| Problem::new(&kinds::CONFLICT, detail);
    match refused {
        MessageOutcome::NoSession => not_found::<AgentSessionId>(),
        MessageOutcome::Closed => conflict("the agent session is closed"),
        MessageOutcome::DriverEnded => {
            Problem::new(&kinds::SESSION_DESTROYED, "the driver session has ended, and therefore the agent session")
        }
        MessageOutcome::Manual => {
            conflict("the agent session is in manual mode: use the operations of its driver session")
        }
        MessageOutcome::HumanDrives => conflict("a human controls the agent session"),
        MessageOutcome::Busy => conflict("another message is in progress"),
        MessageOutcome::Full(Full::Turns { current, limit }) => {
            let detail = "the agent session has reached its limit of messages; create another one";
            conflict(detail).with("current_turns", current).with("limit", limit)
        }
        MessageOutcome::Full(Full::Bytes { current, limit }) => {
            let detail = "the agent session has reached its limit of stored bytes; create another one";
            conflict(detail).with("current_bytes", current).with("limit", limit)
        }
        MessageOutcome::NoRoom(full) => (*full).into(),
        MessageOutcome::Opening => conflict("the driver session is still creating"),
        MessageOutcome::DriverLost => conflict(
            "the driver session is busy with an operation whose outcome is unknown, because its worker died; close the \
             agent session",
        ),
        MessageOutcome::WorkerSilent => Problem::unavailable_for_now(
            "the worker has not reported recently, for example after a database outage; try again",
        ),
        MessageOutcome::Turn(_) | MessageOutcome::Known(_) => {
            Problem::internal(&"an accepted message is handled as a refusal")
        }
    }
}

/// Returns the response to the first message with this key (contract: agents 28, 29).
async fn replay(app: &App, caller: &Caller, receipt: Option<&NewReceipt>, known: Receipt) -> Result<Response> {
    let refuse =
        |detail: &str, status: &str| Err(Problem::new(&kinds::CONFLICT, detail).with("idempotency_status", status));
    match (known, app.vault()?, receipt) {
        (Receipt::Completed { status, bytes }, Some(vault), Some(receipt)) => {
            let (account, key) = (caller.account_id, receipt.key.as_str());
            let reservation = app.answers.reserve(account, bytes).await?;
            let mut reading = app.readings.begin(account, bytes).await?;
            let sealed = receipts::sealed_body(&mut *app.db.acquire().await?, account, key).await?;
            // The receipt was deleted with its agent session in the meantime.
            let sealed = sealed.ok_or_else(not_found::<AgentSessionId>)?;
            let (vault, key) = (vault.clone(), key.to_owned());
            let opened = reading.run(sealed.len(), move || receipts::open(&vault, account, &key, &sealed)).await?;
            let body = opened.map_err(|error| Problem::internal(&error))?;
            let status = StatusCode::from_u16(status).map_err(|error| Problem::internal(&error))?;
            Ok(MESSAGES.replay_counted(status, body, reservation))
        }
        (Receipt::Mismatch, ..) => refuse("another message was sent with this Idempotency-Key", "mismatch"),
        (Receipt::InProgress | Receipt::Completed { .. }, ..) => refuse(
            "the message with this Idempotency-Key is in progress, or its outcome is unknown; read the transcript",
            "in_progress",
        ),
    }
}

/// Message, or reply to a message
#[derive(Serialize, ToSchema)]
#[schema(as = AgentTranscriptEntry, example = json!({
    "turn_id": "turn_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "role": "user",
    "message": "open https://example.com, then tap the 'Sign in' button", "tokens_used": 0,
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct Entry {
    /// Turn ID; a turn is a message and its reply
    #[schema(value_type = String)]
    turn_id: TurnId,
    /// `user` or `agent`
    role: &'static str,
    /// Text of the message, without the texts to type
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message: Option<String>,
    /// Outcome of the turn
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    kind: Option<TurnKind>,
    /// Reply in natural language
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reply: Option<String>,
    /// Steps of the turn
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    intents: Option<Vec<Intent>>,
    /// Elements the message may refer to
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    candidates: Option<Vec<Candidate>>,
    /// Downloads that began during the turn, at most 20
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    downloads: Vec<TurnDownload>,
    /// Dialogs that pages showed during the turn, at most 20, and their answers
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    dialogs: Vec<AnsweredDialog>,
    /// Dialog that waited for an answer at the end of the turn
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    dialog: Option<OpenDialog>,
    /// Component that interpreted the message
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    decomposer: Option<Decomposer>,
    /// Tokens that a model used for the turn
    tokens_used: i32,
    /// Time of the message or reply
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl ListItem for Entry {
    const LIST: &'static str = "AgentTranscript";
    const MEANING: &'static str = "A page of a transcript, oldest first";
    const ENTRIES: Option<&'static str> = Some("The messages and replies");
}

type Transcript = Page<Entry>;

fn entries(entry: TranscriptTurn) -> [Entry; 2] {
    let turn_id = entry.id;
    let blank = |role, created_at| Entry {
        turn_id,
        role,
        message: None,
        kind: None,
        reply: None,
        intents: None,
        candidates: None,
        downloads: Vec::new(),
        dialogs: Vec::new(),
        dialog: None,
        decomposer: None,
        tokens_used: 0,
        created_at,
    };
    let user = Entry { message: Some(entry.texts.message), ..blank("user", entry.created_at) };
    let agent = Entry {
        kind: Some(entry.kind),
        reply: Some(entry.texts.reply),
        intents: Some(entry.intents),
        candidates: (!entry.texts.candidates.is_empty()).then_some(entry.texts.candidates),
        downloads: entry.texts.downloads,
        dialogs: entry.texts.dialogs,
        dialog: entry.texts.dialog,
        decomposer: entry.decomposer,
        tokens_used: entry.tokens_used,
        ..blank("agent", entry.done_at)
    };
    [user, agent]
}

/// Read a transcript
///
/// Returns the messages of the agent session and the replies, oldest first. Texts to type and the content of captures are
/// omitted.
#[utoipa::path(
    get, path = "/v1/agent-sessions/{id}/transcript", tag = "Agent sessions", operation_id = "getAgentTranscript",
    params(IdPath<AgentSessionId>, Paging),
    responses((status = 200, description = "A page", body = Transcript),
              Restricted, NoAgentSession, InvalidQuery, Database),
)]
async fn transcript(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    query: Query,
) -> Result<Response> {
    let session = path.id()?;
    let limit = query.limit(&app.config.limits)? as usize;
    let named = session.to_string();
    let filters = [Some(named.as_str())];
    // A page may end between a message and its reply.
    let scope = |list| CursorScope { account: caller.account_id, list, filters: &filters };
    let (whole, half) = (scope("agent-transcript"), scope("agent-transcript-message"));
    let cursors = app.cursors().await?;
    let (from, with_it) = match query.text("cursor")? {
        None => (None, false),
        Some(cursor) => match cursors.read(whole, cursor) {
            Ok(last) => (Some(TurnId::from(last)), false),
            Err(_) => (Some(TurnId::from(cursors.read(half, cursor)?)), true),
        },
    };
    let max = i64::try_from(limit / 2 + 2).unwrap_or(i64::MAX);
    let mut conn = app.db.acquire().await?;
    if !rows::exists(&mut conn, caller.account_id, session).await? {
        return Err(not_found::<AgentSessionId>());
    }
    let ended = turns::ended(&mut conn, session, (from, with_it), max).await?;
    drop(conn);
    let (turns, bytes) = on_a_page(&ended, limit, app.config.limits.page_bytes as u64);
    let mut more = turns.len() < ended.len();
    let reservation = app.answers.reserve(caller.account_id, bytes).await?;
    let mut reading = app.readings.begin(caller.account_id, bytes).await?;
    let sealer = app.agents().await?.clone();
    let stored = turns::transcript(&mut *app.db.acquire().await?, session, &turns).await?;
    let weight = stored.weight();
    let entry = reading.run(weight, move || stored.open(&sealer)).await??;
    let mut data: Vec<_> = entry.into_iter().flat_map(entries).collect();
    if with_it && !data.is_empty() {
        data.remove(0);
    }
    more |= data.len() > limit;
    data.truncate(limit);
    let next_cursor = data.last().filter(|_| more).map(|last| {
        let scope = if last.role == "user" { half } else { whole };
        cursors.sign(scope, last.turn_id.as_uuid())
    });
    let page = Page::new(data, next_cursor);
    let text = reading.run(weight, move || serde_json::to_vec(&page)).await?;
    Ok(counted_json(text.map_err(|error| Problem::internal(&error))?, reservation))
}

/// Selects the turns of a page and sums their stored bytes. The page ends with the turn that exceeds the byte limit, so that no
/// turn of the next page is read.
fn on_a_page(ended: &[(TurnId, u64)], max_entries: usize, page_bytes: u64) -> (Vec<TurnId>, u64) {
    let (mut turns, mut bytes) = (Vec::new(), 0_u64);
    for (turn, its_bytes) in ended {
        if turns.len() * 2 >= max_entries || bytes >= page_bytes {
            break;
        }
        bytes = bytes.saturating_add(*its_bytes);
        turns.push(*turn);
    }
    (turns, bytes)
}
