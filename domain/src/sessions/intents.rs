//! Intents: what a caller wanted of a session, persisted before anything is done about it.
//!
//! An intent moves `queued → running → done`, each step by compare-and-set, and its id is the session's claim. Whoever
//! finishes it does so in one transaction, fenced by that claim, which is one statement when nothing went wrong: result, release
//! of the session and event happen together or, when DELETE won the race, not at all.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::recovery::{self, worker_gone};
use super::{BehavioralProfile, SessionStatus};
use crate::blocking::run_blocking;
use crate::challenges::ChallengeState;
use crate::emails::{self, Template};
use crate::events::{self, EventType};
use crate::ids::{AccountId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use crate::operations::{Failure, Operation, Outcome, StoredResult};
use crate::timestamp::Timestamp;
use crate::trace_parent::TraceParent;
use crate::usage::UsageKind;
use crate::workers;

/// Where the outcome of an intent is waited for.
#[derive(Debug, Clone, Copy)]
pub struct ReplyTo<'a> {
    /// The notification channel of the process that waits.
    pub channel: &'a str,
    /// The HTTP request, for the logs of both sides.
    pub request_id: &'a str,
    /// What asked, if that is told of.
    pub trace_parent: Option<TraceParent>,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The session is busy with the intent; its worker has to be told.
    Won {
        /// Who owns the browser.
        worker: WorkerId,
        /// Whether somebody follows what happens on the account ([`crate::notifications`]), and has to be told.
        followed: bool,
    },
    /// The session is in no state to take it. It may be ready again by now: somebody else was faster.
    Lost(SessionStatus),
    /// The session is paused, and the operation is none of those that go on then (contract: challenges 6). Nothing was changed.
    Paused(ChallengeState),
    /// The session's worker is gone, and the session is now errored.
    WorkerGone(Failure),
    /// Nobody has heard of the session's worker for longer than a lease, and nobody has found it dead: the database may have
    /// been away, and the worker wait for it. Nothing was changed.
    WorkerSilent,
    /// The account has no such session.
    NoSession,
}

/// The public key of the worker that owns the account's session, to seal secrets to. `None` when there is no such session,
/// and no key when its worker is long gone, and the session has ended.
///
/// # Errors
/// When the database fails.
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

/// Claims the account's session for `operation`, whose secrets were taken out into `sealed`, as `intent`. What is usual is one
/// statement, which is a transaction of its own; `conn` is in none. Of a claim that is won the worker has to be told.
///
/// # Errors
/// When the database fails.
pub async fn claim(
    conn: &mut PgConnection,
    (account, session): (AccountId, SessionId),
    intent: IntentId,
    operation: &Operation,
    sealed: Option<&[u8]>,
    reply: ReplyTo<'_>,
) -> sqlx::Result<Claim> {
    let spec = operation.spec();
    let wanted = ClaimRequest {
        account,
        session,
        intent,
        kind: spec.kind,
        request: serde_json::to_value(operation).map_err(|e| sqlx::Error::Encode(e.into()))?,
        goes_on: spec.allowed_while_paused,
        sealed,
        reply,
    };
    let Some(found) = take_session(&mut *conn, &wanted).await? else { return Ok(Claim::NoSession) };
    let gone = match found {
        SessionRow { taken: Some(followed), worker, .. } => return Ok(Claim::Won { worker, followed }),
        SessionRow { status: SessionStatus::Ready, stands: false, .. } => worker_gone(),
        SessionRow { status: SessionStatus::Ready, heard: false, .. } => return Ok(Claim::WorkerSilent),
        SessionRow { status: SessionStatus::Ready, challenge: Some(Json(standing)), .. } if !wanted.goes_on => {
            return Ok(Claim::Paused(standing));
        }
        // Somebody was faster, who claimed it, paused it or ended it.
        SessionRow { status: SessionStatus::Ready, .. } => return Ok(Claim::Lost(status_now(conn, session).await?)),
        SessionRow { status, .. } => return Ok(Claim::Lost(status)),
    };
    let mut tx = conn.begin().await?;
    if recovery::fail_idle(&mut tx, found.worker, session, wanted.kind, &gone).await? {
        tx.commit().await?;
        Ok(Claim::WorkerGone(gone))
    } else {
        Ok(Claim::Lost(SessionStatus::Errored))
    }
}

/// Where a session stands now.
async fn status_now(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<SessionStatus> {
    sqlx::query_scalar!(r#"select status as "status: SessionStatus" from sessions where id = $1"#, session as _)
        .fetch_one(conn)
        .await
}

/// What a claim is for.
struct ClaimRequest<'a> {
    account: AccountId,
    session: SessionId,
    intent: IntentId,
    kind: &'static str,
    request: Value,
    /// Whether a pause does not keep it.
    goes_on: bool,
    sealed: Option<&'a [u8]>,
    reply: ReplyTo<'a>,
}

/// A session that was to be claimed, as it stood before.
struct SessionRow {
    status: SessionStatus,
    worker: WorkerId,
    /// Whether its worker was not found dead.
    stands: bool,
    /// Whether its worker was heard of during its lease.
    heard: bool,
    /// What pauses it.
    challenge: Option<Json<ChallengeState>>,
    /// Whether a stream of the account's notifications is open, if the session was claimed.
    taken: Option<bool>,
}

/// Moves a session of a worker that lives from `ready` to `busy`, and says in any case how it was found, by the same look.
async fn take_session(conn: &mut PgConnection, wanted: &ClaimRequest<'_>) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as!(
        SessionRow,
        r#"with found as materialized (
               select s.id, s.status, s.worker_id, s.challenge, coalesce(w.status in ('active', 'draining'), false) as stands,
                      coalesce(w.last_seen_at > now() - make_interval(secs => $9), false) as heard,
                      coalesce(r.until > now(), false) as asked, coalesce(r.streamed_until > now(), false) as streamed
               from sessions s left join workers w on w.id = s.worker_id
                    left join notification_readers r on r.account_id = s.account_id
               where s.id = $1 and s.account_id = $2
           ), claimed as (
               update sessions s set status = 'busy', operation_id = $3, updated_at = now(), is_followed = f.asked
               from found f where s.id = f.id and s.status = 'ready' and f.status = 'ready' and f.stands and f.heard
                 and (s.challenge is null or $10)
               returning s.id, s.worker_id
           ), intent as (
               insert into intents (id, session_id, worker_id, kind, request, sealed, reply_channel, request_id, trace_parent)
               select $3, id, worker_id, $4, $5, $6, $7, $8, $11 from claimed
           )
           select status as "status: SessionStatus", worker_id as worker, stands as "stands!", heard as "heard!",
                  challenge as "challenge: Json<ChallengeState>",
                  case when exists (select from claimed) then streamed end as taken
           from found"#,
        wanted.session as _,
        wanted.account as _,
        wanted.intent as _,
        wanted.kind,
        wanted.request,
        wanted.sealed,
        wanted.reply.channel,
        wanted.reply.request_id,
        workers::LEASE.as_secs_f64(),
        wanted.goes_on,
        wanted.reply.trace_parent.map(|parent| parent.to_string()),
    )
    .fetch_optional(conn)
    .await
}

/// An intent that its worker has taken.
#[derive(Debug)]
pub struct TakenIntent {
    /// Which.
    pub intent: IntentId,
    /// When; `None` when the database refused that.
    pub at: Option<Timestamp>,
    /// What the worker now carries out, or why it cannot.
    pub started: sqlx::Result<StartedIntent>,
}

/// An intent a worker may now carry out.
#[derive(Debug)]
pub struct StartedIntent {
    /// On which session.
    pub session: SessionId,
    /// What.
    pub request: Request,
    /// Its secrets, sealed to the worker.
    pub sealed: Option<Vec<u8>>,
    /// The HTTP request that asked for it.
    pub request_id: String,
    /// What of that asked, if it is told of.
    pub trace_parent: Option<TraceParent>,
}

/// What an intent is for.
#[derive(Debug)]
pub enum Request {
    /// The session's browser is to be opened.
    Open(OpenRequest),
    /// It is to be driven.
    Operate(Operation),
}

/// What a browser has to become.
#[derive(Debug, Serialize, Deserialize)]
pub struct OpenRequest {
    /// An id of a catalogue: that of the process that created the session, or one before it that a profile is from.
    pub archetype: String,
    /// How its user behaves.
    pub behavioral_profile: BehavioralProfile,
    /// What it begins with.
    pub profile_id: Option<ProfileId>,
    /// What it leaves through, and nothing else ([`crate::proxies::of_session`]).
    #[serde(default)]
    pub proxy_id: Option<ProxyId>,
    /// Whether challenges pause it.
    #[serde(default)]
    pub detect_challenges: bool,
}

/// Moves up to `limit` of a worker's intents from `queued` to `running`, the oldest first, or `only` this one.
///
/// # Errors
/// When the database fails. A row that another version of this program wrote is an intent that cannot be carried out.
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
           returning id, session_id, kind, request, sealed, request_id, trace_parent, started_at as at"#,
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
        });
        TakenIntent { intent: row.id, at: row.at, started: started.map_err(|error| sqlx::Error::Decode(error.into())) }
    });
    Ok(taken.collect())
}

/// A worker's intents that wait.
///
/// # Errors
/// When the database fails.
pub async fn queued(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<Vec<IntentId>> {
    sqlx::query_scalar!("select id from intents where worker_id = $1 and status = 'queued' order by id", worker as _)
        .fetch_all(conn)
        .await
}

/// Gives back what a worker took `since` then without having heard of it.
///
/// # Errors
/// When the database fails.
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

/// Gives back what a worker took and has not begun.
///
/// # Errors
/// When the database fails.
pub async fn give_back(conn: &mut PgConnection, intents: &[IntentId]) -> sqlx::Result<()> {
    sqlx::query!(
        "update intents set status = 'queued', started_at = null where id = any($1) and status = 'running'",
        intents as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// How an intent ended, and what came of it.
#[derive(Debug, Clone)]
pub struct IntentEnding {
    /// How.
    pub outcome: Outcome,
    /// What an operation that was done came to. Opening a browser comes to nothing.
    pub result: Option<StoredResult>,
    /// What the browser itself took, if it was asked at all.
    pub browser_time: Option<Duration>,
    /// Usage that an operation that was done adds to.
    pub usage: Option<UsageKind>,
    /// When it was written, and its session released; `None` as long as it was not.
    pub done_at: Option<Timestamp>,
}

impl From<Outcome> for IntentEnding {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, result: None, browser_time: None, usage: None, done_at: None }
    }
}

/// What whoever waits for an intent is to be told, when its end is committed.
#[derive(Debug)]
#[must_use]
pub struct ReplyNotice {
    /// On which channel.
    pub channel: String,
    /// The intent, and how it ended, if that is short; otherwise it is read from the row.
    pub payload: String,
}

impl ReplyNotice {
    /// That a session was destroyed under the intent.
    pub(super) fn destroyed(intent: IntentId, channel: String) -> sqlx::Result<Self> {
        Ok(Self { channel, payload: payload(intent, &Outcome::Destroyed.into(), None)? })
    }
}

/// Ends an intent: writes its outcome, releases its session as the outcome says, counts the operation as usage when it was
/// done, publishes `session.failed` when the session errored, and has the account written to when it is its first session that
/// came up or failed. Answers what the waiting caller has to be told. `None`, and nothing of all that, when it has ended
/// already or lost its claim.
///
/// # Errors
/// When the database fails.
pub async fn finish(conn: &mut PgConnection, id: IntentId, ending: &IntentEnding) -> sqlx::Result<Option<ReplyNotice>> {
    let Outcome::Failed { failure } = &ending.outcome else {
        return Ok(end(conn, id, ending).await?.map(|ended| ended.notice));
    };
    let mut tx = conn.begin().await?;
    let Some(EndedIntent { kind, of, notice }) = end(&mut tx, id, ending).await? else { return Ok(None) };
    let operation = if kind == "open" { "unknown" } else { &kind };
    record_failure(&mut tx, &of, operation, failure).await?;
    tx.commit().await?;
    Ok(Some(notice))
}

/// [`finish`], and whoever waits is told when the transaction commits, which `conn` is in.
pub(super) async fn finish_and_notify(
    conn: &mut PgConnection,
    id: IntentId,
    ending: &IntentEnding,
) -> sqlx::Result<bool> {
    let Some(ReplyNotice { channel, payload }) = finish(&mut *conn, id, ending).await? else { return Ok(false) };
    sqlx::query_scalar!("select pg_notify($1, $2)::text as notified", channel, payload).fetch_one(conn).await?;
    Ok(true)
}

/// An intent that has ended.
struct EndedIntent {
    kind: String,
    of: SessionInfo,
    notice: ReplyNotice,
}

/// The session that something befell, and how long it has lived.
pub(super) struct SessionInfo {
    pub(super) session: SessionId,
    pub(super) account: AccountId,
    pub(super) duration_ms: i64,
}

/// The part of [`finish`] that every end has: its outcome, the release, the count, and of the first opening the mail.
async fn end(conn: &mut PgConnection, id: IntentId, ending: &IntentEnding) -> sqlx::Result<Option<EndedIntent>> {
    let IntentEnding { outcome, result, browser_time, usage, .. } = ending;
    let released = match outcome {
        Outcome::Done | Outcome::Invalid { .. } | Outcome::Withheld { .. } => Some("ready"),
        Outcome::Failed { .. } => Some("errored"),
        Outcome::Unknown | Outcome::Destroyed => None,
    };
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
                   done_at = now()
               from held where i.id = held.intent_id
           ), released as (
               update sessions s
               set status = $6::text, operation_id = null, updated_at = now(), is_followed = held.asked,
                   last_state_at = case when $6::text = 'ready' and $7 and $10 = 'state_capture' then now() else s.last_state_at end
               from held where s.id = held.session_id and $6::text is not null
           ), usage as (
               insert into usage_counts as u (account_id, day, record, slot, count)
               select account_id, (now() at time zone 'utc')::date, $10, usage_slot(), 1
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

/// Publishes that a session has errored, and has its account written to when it is the first that did.
pub(super) async fn record_failure(
    conn: &mut PgConnection,
    of: &SessionInfo,
    operation: &str,
    failure: &Failure,
) -> sqlx::Result<()> {
    let data: Value = json!({
        "session_id": of.session,
        "duration_ms": of.duration_ms,
        "operation": operation,
        "error_name": failure.class.name(),
        "error_message": failure.class.message(),
    });
    events::record(&mut *conn, of.account, EventType::SessionFailed, data).await?;
    sqlx::query_scalar!(
        "select write_mail_once($1, $2, $3, $4)",
        Template::SessionFailedFirst.name(),
        of.account as _,
        json!({"session_id": of.session}),
        emails::NOTICE_GOOD_FOR.as_secs_f64(),
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Bytes of a notification at most; PostgreSQL takes 8,000.
const NOTICE_BYTES: usize = 7_500;

/// What the process that waits for an intent is told. What is too long for it it reads from the row.
fn payload(intent: IntentId, ending: &IntentEnding, done_at: Option<Timestamp>) -> sqlx::Result<String> {
    #[derive(Serialize)]
    struct Told<'a> {
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
    let written = |told: &Told<'_>| serde_json::to_string(told).map_err(|e| sqlx::Error::Encode(e.into()));
    let IntentEnding { outcome, result, browser_time, .. } = ending;
    let may_fit = |result: &StoredResult| result.content.is_none() && result.json.get().len() < NOTICE_BYTES;
    if result.as_ref().is_none_or(may_fit) {
        let (outcome, result) = (Some(outcome), result.as_ref().map(|result| &*result.json));
        let browser_us = browser_time.and_then(microseconds);
        let whole = written(&Told { intent, outcome, result, browser_us, done_at })?;
        if whole.len() < NOTICE_BYTES {
            return Ok(whole);
        }
    }
    written(&Told { intent, outcome: None, result: None, browser_us: None, done_at: None })
}

fn microseconds(time: Duration) -> Option<i64> {
    i64::try_from(time.as_micros()).ok()
}

/// Which worker is to carry an intent out; `None` when nothing was claimed for it.
///
/// # Errors
/// When the database fails.
pub async fn worker_of(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<WorkerId>> {
    let worker = sqlx::query_scalar!(r#"select worker_id as "worker: WorkerId" from intents where id = $1"#, id as _);
    worker.fetch_optional(conn).await
}

/// How an intent ended; `None` as long as it has not.
///
/// # Errors
/// When the database fails, or the row was written by another version of this program.
pub async fn ending(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<IntentEnding>> {
    Ok(match ending_within(conn, id, u64::MAX).await? {
        Some(StoredEnding::Whole(ending)) => Some(ending),
        Some(StoredEnding::Larger(_)) | None => None,
    })
}

/// How an intent ended, as far as that was read from its row.
#[derive(Debug)]
pub enum StoredEnding {
    /// All of it.
    Whole(IntentEnding),
    /// What it came to has so many bytes, which are more than were asked for.
    Larger(u64),
}

/// How an intent ended, if what it came to has at most so many bytes; `None` as long as it has not.
///
/// # Errors
/// When the database fails, or the row was written by another version of this program.
pub async fn ending_within(
    conn: &mut PgConnection,
    id: IntentId,
    most_bytes: u64,
) -> sqlx::Result<Option<StoredEnding>> {
    let row = sqlx::query!(
        r#"select outcome as "outcome!", case when bytes <= $2 then result::text end as result,
                  case when bytes <= $2 then content end as content, browser_us, done_at as "done_at: Timestamp", bytes as "bytes!"
           from intents,
                lateral (select coalesce(octet_length(content), 0)::bigint + coalesce(octet_length(result::text), 0) as bytes) stored
           where id = $1 and status = 'done' and outcome is not null"#,
        id as _,
        i64::try_from(most_bytes).unwrap_or(i64::MAX),
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        let bytes = u64::try_from(row.bytes).unwrap_or_default();
        if bytes > most_bytes {
            return Ok(StoredEnding::Larger(bytes));
        }
        let outcome = serde_json::from_value(row.outcome).map_err(|e| sqlx::Error::Decode(e.into()))?;
        let json = row.result.map(|text| run_blocking(text.len(), || RawValue::from_string(text))).transpose();
        let json = json.map_err(|e| sqlx::Error::Decode(e.into()))?;
        let result = json.map(|json| StoredResult { json, content: row.content });
        let browser_time = row.browser_us.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros);
        Ok(StoredEnding::Whole(IntentEnding { outcome, result, browser_time, usage: None, done_at: row.done_at }))
    })
    .transpose()
}
