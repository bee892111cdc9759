//! Intents: requested operations, stored before any work on them begins.
//!
//! An intent moves `queued → running → done` by compare-and-set, and its id is the claim on the session. One
//! transaction, fenced by that claim, writes the result, the release of the session and the event, or nothing if a
//! DELETE has ended the session first.

use std::time::Duration;

use kitfleet_types::emulation::Emulation;
use kitfleet_types::ids::{AccountId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use kitfleet_types::operations::{
    DialogPolicy, Failure, OpenDialog, Operation, Outcome, Secrets, StoredResult, UsageKind,
};
use kitfleet_types::redaction::mask_addresses;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::dialogs::DialogChange;
use super::failures::{self, SessionInfo, record_failure, worker_gone};
use super::{BehavioralProfile, EndReason, SessionError, SessionStatus};
use crate::actors::OperationActor;
use crate::blocking::run_blocking;
use crate::challenges::ChallengeState;
use crate::emails::{self, Template};
use crate::recordings::RecordMode;
use crate::sealing;
use crate::trace_parent::TraceParent;
use crate::workers;

#[derive(Debug, Clone, Copy)]
pub struct ReplyTo<'a> {
    pub channel: &'a str,
    pub request_id: &'a str,
    pub trace_parent: Option<TraceParent>,
}

#[derive(Debug)]
pub enum Claim {
    /// The caller must notify the worker.
    Won {
        worker: WorkerId,
        /// True when a stream of the account's notifications ([`crate::notifications`]) must be notified.
        followed: bool,
    },
    /// If the status is `ready`, a competing claim came first and has ended since.
    Lost(SessionStatus),
    /// The session is paused and the operation is not allowed then (contract: challenges 6). Nothing was changed.
    Paused(ChallengeState),
    /// The page shows a dialog that waits for an answer, and the operation is not allowed then (contract: operations 47). Nothing was
    /// changed.
    DialogOpen(OpenDialog),
    /// This call moved the session to `errored`.
    WorkerGone(Failure),
    /// The worker has sent no heartbeat within its lease, perhaps because the database was unavailable. Nothing was
    /// changed.
    WorkerSilent,
    NoSession,
}

/// Returns the public key that seals secrets for the session's worker. `Some(None)`: the worker's row was deleted,
/// which happens only after the session has ended.
pub async fn sealing_key(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
) -> sqlx::Result<Option<Option<Vec<u8>>>> {
    sqlx::query_scalar!(
        r#"select w.public_key as "public_key?" from sessions s left join workers w on w.id = s.worker_id
           where s.id = $1 and s.account_id = $2"#,
        session as _,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

/// Claims a session for `operation`, from which the `sealed` secrets were removed. `conn` is not in a transaction: the
/// usual case is a single statement. After a successful claim, the caller must notify the worker.
pub async fn claim(
    conn: &mut PgConnection,
    (account, session): (AccountId, SessionId),
    intent: IntentId,
    operation: &Operation,
    sealed: Option<&[u8]>,
    actor: &OperationActor,
    reply: ReplyTo<'_>,
) -> sqlx::Result<Claim> {
    let spec = operation.spec();
    let claim = ClaimRequest {
        account,
        session,
        intent,
        kind: spec.kind,
        request: serde_json::to_value(operation).map_err(|e| sqlx::Error::Encode(e.into()))?,
        allowed_while_paused: spec.allowed_while_paused,
        allowed_with_dialog: spec.allowed_with_dialog,
        sealed,
        actor,
        reply,
    };
    let Some(found) = take_session(&mut *conn, &claim).await? else { return Ok(Claim::NoSession) };
    let gone = match found {
        SessionRow { taken: Some(followed), worker, .. } => return Ok(Claim::Won { worker, followed }),
        SessionRow { status: SessionStatus::Ready, stands: false, .. } => worker_gone(),
        SessionRow { status: SessionStatus::Ready, heard: false, .. } => return Ok(Claim::WorkerSilent),
        SessionRow { status: SessionStatus::Ready, challenge: Some(Json(challenge)), .. }
            if !claim.allowed_while_paused =>
        {
            return Ok(Claim::Paused(challenge));
        }
        SessionRow { status: SessionStatus::Ready, dialog: Some(Json(dialog)), .. } if !claim.allowed_with_dialog => {
            return Ok(Claim::DialogOpen(dialog));
        }
        // Another transaction claimed, paused or ended the session first.
        SessionRow { status: SessionStatus::Ready, .. } => return Ok(Claim::Lost(status_now(conn, session).await?)),
        SessionRow { status, .. } => return Ok(Claim::Lost(status)),
    };
    let mut tx = conn.begin().await?;
    if failures::fail_idle(&mut tx, found.worker, session, claim.kind, &gone, EndReason::WorkerLost).await? {
        tx.commit().await?;
        Ok(Claim::WorkerGone(gone))
    } else {
        Ok(Claim::Lost(SessionStatus::Errored))
    }
}

async fn status_now(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<SessionStatus> {
    sqlx::query_scalar!(r#"select status as "status: SessionStatus" from sessions where id = $1"#, session as _)
        .fetch_one(conn)
        .await
}

struct ClaimRequest<'a> {
    account: AccountId,
    session: SessionId,
    intent: IntentId,
    kind: &'static str,
    request: Value,
    /// Allowed on a paused session.
    allowed_while_paused: bool,
    /// Allowed while the page shows a dialog.
    allowed_with_dialog: bool,
    sealed: Option<&'a [u8]>,
    actor: &'a OperationActor,
    reply: ReplyTo<'a>,
}

struct SessionRow {
    status: SessionStatus,
    worker: WorkerId,
    /// True when the worker has not been declared dead.
    stands: bool,
    /// Sent a heartbeat within its lease.
    heard: bool,
    challenge: Option<Json<ChallengeState>>,
    dialog: Option<Json<OpenDialog>>,
    /// After a successful claim: true when a stream of the account's notifications is open.
    taken: Option<bool>,
}

/// Returns the state before the claim, also after a failed claim, from the same snapshot.
async fn take_session(conn: &mut PgConnection, claim: &ClaimRequest<'_>) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as!(
        SessionRow,
        r#"with found as materialized (
               select s.id, s.status, s.worker_id, s.challenge, s.dialog, coalesce(w.status in ('active', 'draining'), false) as stands,
                      coalesce(w.last_seen_at > now() - make_interval(secs => $9), false) as heard,
                      coalesce(r.until > now(), false) as asked, coalesce(r.streamed_until > now(), false) as streamed
               from sessions s left join workers w on w.id = s.worker_id
                    left join notification_readers r on r.account_id = s.account_id
               where s.id = $1 and s.account_id = $2
           ), claimed as (
               update sessions s set status = 'busy', operation_id = $3, updated_at = now(), is_followed = f.asked
               from found f where s.id = f.id and s.status = 'ready' and f.status = 'ready' and f.stands and f.heard
                 and (s.challenge is null or $10) and (s.dialog is null or $12)
               returning s.id, s.worker_id
           ), intent as (
               insert into intents (id, session_id, worker_id, kind, request, sealed, reply_channel, request_id, trace_parent,
                                    actor_type, actor_id)
               select $3, id, worker_id, $4, $5, $6, $7, $8, $11, $13, $14 from claimed
           )
           select status as "status: SessionStatus", worker_id as worker, stands as "stands!", heard as "heard!",
                  challenge as "challenge: Json<ChallengeState>", dialog as "dialog: Json<OpenDialog>",
                  case when exists (select from claimed) then streamed end as taken
           from found"#,
        claim.session as _,
        claim.account as _,
        claim.intent as _,
        claim.kind,
        claim.request,
        claim.sealed,
        claim.reply.channel,
        claim.reply.request_id,
        workers::LEASE.as_secs_f64(),
        claim.allowed_while_paused,
        claim.reply.trace_parent.map(|parent| parent.to_string()),
        claim.allowed_with_dialog,
        claim.actor.kind.name(),
        claim.actor.id,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub struct TakenIntent {
    pub intent: IntentId,
    /// `None` if the database refused to take it.
    pub at: Option<Timestamp>,
    pub started: sqlx::Result<StartedIntent>,
}

#[derive(Debug)]
pub struct StartedIntent {
    pub session: SessionId,
    pub request: Request,
    pub sealed: Option<Vec<u8>>,
    pub request_id: String,
    pub trace_parent: Option<TraceParent>,
    /// `None` for the opening of a browser.
    pub actor: Option<OperationActor>,
}

#[derive(Debug)]
pub enum Request {
    Open(OpenRequest),
    Operate(Operation),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct OpenRequest {
    /// May have left the catalogue: profiles keep their archetype.
    pub archetype: String,
    pub behavioral_profile: BehavioralProfile,
    pub profile_id: Option<ProfileId>,
    #[serde(default)]
    pub proxy_id: Option<ProxyId>,
    #[serde(default)]
    pub detect_challenges: bool,
    /// In the stored request, its headers have no values.
    #[serde(default)]
    pub emulation: Emulation,
    #[serde(default)]
    pub dialogs: DialogPolicy,
    #[serde(default)]
    pub record: RecordMode,
}

impl OpenRequest {
    pub fn restore_secrets(&mut self, secrets: Secrets) {
        self.emulation.restore_header_values(secrets.into_header_values());
    }
}

pub(super) async fn seal(
    conn: &mut PgConnection,
    (intent, worker): (IntentId, WorkerId),
    secrets: &Secrets,
) -> sqlx::Result<()> {
    let public_key = workers::public_key(&mut *conn, worker).await?;
    let sealed = sealing::seal(secrets, &public_key).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query!("update intents set sealed = $2 where id = $1", intent as _, sealed).execute(conn).await?;
    Ok(())
}

/// Takes up to `limit` queued intents of a worker, oldest first, or `only` the given one.
///
/// A row written by another version of this program is returned as an intent that cannot be executed.
pub async fn take(
    conn: &mut PgConnection,
    worker: WorkerId,
    only: Option<IntentId>,
    limit: i64,
) -> sqlx::Result<Vec<TakenIntent>> {
    let rows = sqlx::query!(
        r#"update intents set status = 'running', started_at = now()
           where id in (
               select id from intents where worker_id = $1 and status = 'queued' and ($2::uuid is null or id = $2)
               order by id limit $3 for update skip locked
           )
           returning id, session_id, kind, request, sealed, request_id, trace_parent, actor_type, actor_id, started_at as at"#,
        worker as _,
        only as _,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let taken = rows.into_iter().map(|row| {
        let request = if row.kind == "open" {
            serde_json::from_value(row.request).map(Request::Open)
        } else {
            serde_json::from_value(row.request).map(Request::Operate)
        };
        let started = request.map(|request| StartedIntent {
            session: row.session_id,
            request,
            sealed: row.sealed,
            request_id: row.request_id,
            trace_parent: row.trace_parent.and_then(|parent| parent.parse().ok()),
            actor: OperationActor::of_columns(row.actor_type.as_deref(), row.actor_id),
        });
        TakenIntent { intent: row.id, at: row.at, started: started.map_err(|error| sqlx::Error::Decode(error.into())) }
    });
    Ok(taken.collect())
}

pub async fn queued(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<Vec<IntentId>> {
    sqlx::query_scalar!("select id from intents where worker_id = $1 and status = 'queued' order by id", worker as _)
        .fetch_all(conn)
        .await
}

/// Requeues intents taken after `since`, or all running ones, when the worker did not receive the reply to [`take`].
pub async fn give_back_since(conn: &mut PgConnection, worker: WorkerId, since: Option<Timestamp>) -> sqlx::Result<()> {
    sqlx::query!(
        "update intents i set status = 'queued', started_at = null
         from sessions s
         where s.worker_id = $1 and s.live and i.id = s.operation_id
           and i.status = 'running' and i.kind <> 'gui_input' and ($2::timestamptz is null or i.started_at > $2)",
        worker as _,
        since as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Requeues intents that a worker took but did not begin.
pub async fn give_back(conn: &mut PgConnection, intents: &[IntentId]) -> sqlx::Result<()> {
    sqlx::query!(
        "update intents set status = 'queued', started_at = null where id = any($1) and status = 'running'",
        intents as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct IntentEnding {
    pub outcome: Outcome,
    pub result: Option<StoredResult>,
    /// `None` if the browser received no call.
    pub browser_time: Option<Duration>,
    pub usage: Option<UsageKind>,
    /// The result is the emulation of the session, which is stored with the outcome.
    pub sets_emulation: bool,
    pub reads_state: bool,
    /// Stored with the outcome.
    pub dialog: DialogChange,
    /// Address of the page after the operation, if it is known.
    pub url: Option<String>,
    /// Time the outcome was stored and the session released.
    pub done_at: Option<Timestamp>,
}

impl From<Outcome> for IntentEnding {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            result: None,
            browser_time: None,
            usage: None,
            sets_emulation: false,
            reads_state: false,
            dialog: DialogChange::Keep,
            url: None,
            done_at: None,
        }
    }
}

/// Notice for the process that waits for an intent. The caller sends it after the commit.
#[derive(Debug)]
#[must_use]
pub struct ReplyNotice {
    pub channel: String,
    /// Id of the intent, with its ending if that is short. Otherwise the receiver reads the row.
    pub payload: String,
}

impl ReplyNotice {
    pub(super) fn destroyed(intent: IntentId, channel: String) -> sqlx::Result<Self> {
        Ok(Self { channel, payload: payload(intent, &Outcome::Destroyed.into(), None)? })
    }
}

/// Ends an intent. The call
///
/// * stores the outcome,
/// * releases the session, with the status that follows from the outcome,
/// * counts the usage of a successful operation,
/// * publishes `session.failed` if the session errored, and
/// * queues a mail for the account's first session that opened or failed.
///
/// Returns the notice for the waiting process; `None` if the intent has already ended or has lost
/// its claim.
pub async fn finish(conn: &mut PgConnection, id: IntentId, ending: &IntentEnding) -> sqlx::Result<Option<ReplyNotice>> {
    let failure = match (&ending.outcome, &ending.result) {
        (Outcome::Failed { failure }, _) => failure,
        (Outcome::Done, Some(emulation)) if ending.sets_emulation => {
            return finish_emulation(conn, id, ending, emulation).await;
        }
        _ => return Ok(end(conn, id, ending).await?.map(|ended| ended.notice)),
    };
    let mut tx = conn.begin().await?;
    let Some(EndedIntent { kind, of, notice }) = end(&mut tx, id, ending).await? else { return Ok(None) };
    let operation = if kind == "open" { "unknown" } else { &kind };
    record_failure(&mut tx, &of, operation, failure).await?;
    tx.commit().await?;
    Ok(Some(notice))
}

async fn finish_emulation(
    conn: &mut PgConnection,
    id: IntentId,
    ending: &IntentEnding,
    emulation: &StoredResult,
) -> sqlx::Result<Option<ReplyNotice>> {
    let mut tx = conn.begin().await?;
    let Some(EndedIntent { of, notice, .. }) = end(&mut tx, id, ending).await? else { return Ok(None) };
    sqlx::query!(
        "update sessions set emulation = $2::text::jsonb where id = $1",
        of.session as _,
        emulation.json.get(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(notice))
}

/// `conn` is in a transaction; the notification is sent when it commits.
pub(super) async fn finish_and_notify(
    conn: &mut PgConnection,
    id: IntentId,
    ending: &IntentEnding,
) -> sqlx::Result<bool> {
    let Some(ReplyNotice { channel, payload }) = finish(&mut *conn, id, ending).await? else { return Ok(false) };
    sqlx::query_scalar!("select pg_notify($1, $2)::text as notified", channel, payload).fetch_one(conn).await?;
    Ok(true)
}

struct EndedIntent {
    kind: String,
    of: SessionInfo,
    notice: ReplyNotice,
}

/// The part of [`finish`] common to all endings.
async fn end(conn: &mut PgConnection, id: IntentId, ending: &IntentEnding) -> sqlx::Result<Option<EndedIntent>> {
    let IntentEnding { outcome, result, browser_time, usage, reads_state, dialog, url, .. } = ending;
    let released = match outcome {
        Outcome::Done | Outcome::Invalid { .. } | Outcome::Withheld { .. } => Some("ready"),
        Outcome::Failed { .. } => Some("errored"),
        Outcome::Unknown | Outcome::Destroyed => None,
    };
    let url = url.as_deref().map(mask_addresses);
    let url = url.as_deref();
    let stored = serde_json::to_value(outcome).map_err(|e| sqlx::Error::Encode(e.into()))?;
    let (json, content) = result.as_ref().map(|result| (result.json.get(), result.content.as_deref())).unzip();
    let ended = sqlx::query!(
        r#"with held as (
               select i.id as intent_id, i.kind, i.reply_channel, s.id as session_id, s.account_id, s.created_at,
                      coalesce(r.until > now(), false) as asked
               from intents i join sessions s on s.id = i.session_id and s.operation_id = i.id
                    left join notification_readers r on r.account_id = s.account_id
               where i.id = $1 and i.status <> 'done' for update of s, i
           ), ended as (
               update intents i
               set status = 'done', outcome = $2, result = $3::text::json, content = $4, browser_us = $5, sealed = null,
                   url = $14, done_at = now()
               from held where i.id = held.intent_id
           ), released as (
               update sessions s
               set status = $6::text, operation_id = null, updated_at = now(), is_followed = held.asked,
                   last_state_at = case when $6::text = 'ready' and $7 and $11 then now() else s.last_state_at end,
                   dialog = case when $12 or $6::text = 'errored' then $13::jsonb else s.dialog end,
                   end_reason = case when $6::text = 'errored' then coalesce(s.end_reason, 'failed') end, error = $15::jsonb,
                   used = case when $7 and $10::text is not null
                               then add_use(s.used, (now() at time zone 'utc')::date, $10::text) else s.used end
               from held where s.id = held.session_id and $6::text is not null
           ), usage as (
               insert into usage_counts as u (account_id, day, record, slot, count)
               select account_id, (now() at time zone 'utc')::date, $10::text, usage_slot(), 1
               from held where $7 and $10::text is not null
               on conflict (account_id, day, record, slot) do update set count = u.count + excluded.count
           )
           select kind, reply_channel, session_id, account_id, now() as "done_at!: Timestamp",
                  (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!",
                  case when $7 and kind = 'open' then
                      write_mail_once($8, account_id, jsonb_build_object('session_id', 'ses_' || session_id), $9)
                  end as mail
           from held"#,
        id as _,
        stored,
        json,
        content.flatten(),
        browser_time.and_then(microseconds),
        released,
        matches!(outcome, Outcome::Done),
        Template::SessionSuccessFirst.name(),
        emails::NOTICE_GOOD_FOR.as_secs_f64(),
        *usage as _,
        *reads_state,
        *dialog != DialogChange::Keep,
        // A page's text does not outlast its session.
        dialog.dialog().filter(|_| released != Some("errored")).map(|dialog| json!(dialog)),
        url,
        match outcome {
            Outcome::Failed { failure } => Some(json!(SessionError::of(failure))),
            _ => None,
        },
    )
    .fetch_optional(conn)
    .await?;
    let ended = ended.map(|row| {
        let payload = payload(id, ending, Some(row.done_at))?;
        Ok(EndedIntent {
            kind: row.kind,
            of: SessionInfo { session: row.session_id, account: row.account_id, duration_ms: row.duration_ms },
            notice: ReplyNotice { channel: row.reply_channel, payload },
        })
    });
    ended.transpose()
}

/// PostgreSQL accepts 8,000 bytes.
const NOTICE_BYTES: usize = 7_500;

/// Leaves out an ending that is too long; the receiver reads it from the row.
fn payload(intent: IntentId, ending: &IntentEnding, done_at: Option<Timestamp>) -> sqlx::Result<String> {
    #[derive(Serialize)]
    struct Payload<'a> {
        intent: IntentId,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a Outcome>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        browser_us: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        done_at: Option<Timestamp>,
    }
    let written = |payload: &Payload<'_>| serde_json::to_string(payload).map_err(|e| sqlx::Error::Encode(e.into()));
    let IntentEnding { outcome, result, browser_time, .. } = ending;
    let may_fit = |result: &StoredResult| result.content.is_none() && result.json.get().len() < NOTICE_BYTES;
    if result.as_ref().is_none_or(may_fit) {
        let (outcome, result) = (Some(outcome), result.as_ref().map(|result| &*result.json));
        let browser_us = browser_time.and_then(microseconds);
        let whole = written(&Payload { intent, outcome, result, browser_us, done_at })?;
        if whole.len() < NOTICE_BYTES {
            return Ok(whole);
        }
    }
    written(&Payload { intent, outcome: None, result: None, browser_us: None, done_at: None })
}

fn microseconds(time: Duration) -> Option<i64> {
    i64::try_from(time.as_micros()).ok()
}

pub async fn worker_of(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<WorkerId>> {
    let worker = sqlx::query_scalar!(r#"select worker_id as "worker: WorkerId" from intents where id = $1"#, id as _);
    worker.fetch_optional(conn).await
}

/// Returns an error also if another version of this program wrote the row.
pub async fn ending(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<IntentEnding>> {
    Ok(match ending_within(conn, id, u64::MAX).await? {
        Some(StoredEnding::Whole(ending)) => Some(*ending),
        Some(StoredEnding::Larger(_)) | None => None,
    })
}

#[derive(Debug)]
pub enum StoredEnding {
    Whole(Box<IntentEnding>),
    /// Size in bytes of a result over the limit.
    Larger(u64),
}

/// As [`ending`], if the result has at most `max_bytes`.
pub async fn ending_within(
    conn: &mut PgConnection,
    id: IntentId,
    max_bytes: u64,
) -> sqlx::Result<Option<StoredEnding>> {
    let row = sqlx::query!(
        r#"select outcome as "outcome!", case when bytes <= $2 then result::text end as result,
                  case when bytes <= $2 then content end as content, browser_us, done_at as "done_at: Timestamp", bytes as "bytes!"
           from intents,
                lateral (select coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(result::text), 0) as bytes) stored
           where id = $1 and status = 'done' and outcome is not null"#,
        id as _,
        i64::try_from(max_bytes).unwrap_or(i64::MAX),
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        let bytes = u64::try_from(row.bytes).unwrap_or_default();
        if bytes > max_bytes {
            return Ok(StoredEnding::Larger(bytes));
        }
        let outcome: Outcome = serde_json::from_value(row.outcome).map_err(|e| sqlx::Error::Decode(e.into()))?;
        let json = row.result.map(|text| run_blocking(text.len(), || RawValue::from_string(text))).transpose();
        let json = json.map_err(|e| sqlx::Error::Decode(e.into()))?;
        let result = json.map(|json| StoredResult { json, content: row.content, page_url: None });
        let browser_time = row.browser_us.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros);
        let done_at = row.done_at;
        let ending = IntentEnding { result, browser_time, done_at, ..IntentEnding::from(outcome) };
        Ok(StoredEnding::Whole(Box::new(ending)))
    })
    .transpose()
}
