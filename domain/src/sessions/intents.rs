//! Intents: what a caller wanted of a session, persisted before anything is done about it.
//!
//! An intent moves `queued → running → done`, each step by compare-and-set, and its id is the session's claim. Whoever
//! finishes it does so in one transaction, fenced by that claim, which is one statement when nothing went wrong: result, release
//! of the session and event happen together or, when DELETE won the race, not at all.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, PgTransaction};

use super::{SessionStatus, keeping};
use crate::database::may_pass;
use crate::emails;
use crate::events::{self, EventType};
use crate::heavy::heavy;
use crate::ids::{AccountId, EmailId, IntentId, SessionId, WorkerId};
use crate::operations::{Failure, FailureClass, Operation, Outcome, StoredResult};
use crate::timestamp::Timestamp;
use crate::workers;

/// Where the outcome of an intent is waited for.
#[derive(Debug, Clone, Copy)]
pub struct ReplyTo<'a> {
    /// The notification channel of the process that waits.
    pub channel: &'a str,
    /// The HTTP request, for the logs of both sides.
    pub request_id: &'a str,
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The session is busy with the intent; its worker has to be told.
    Won {
        /// Who owns the browser.
        worker: WorkerId,
    },
    /// The session is in no state to take it.
    Lost(SessionStatus),
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
    let wanted = Wanted {
        account,
        session,
        intent,
        kind: operation.kind(),
        request: serde_json::to_value(operation).map_err(|e| sqlx::Error::Encode(e.into()))?,
        sealed,
        reply,
    };
    if let Some(worker) = take_session(&mut *conn, &wanted, true).await? {
        return Ok(Claim::Won { worker });
    }
    loop {
        let found = sqlx::query!(
            r#"select s.status as "status: SessionStatus", coalesce(w.status in ('active', 'draining'), true) as "stands!",
                      coalesce(w.last_seen_at > now() - make_interval(secs => $3), true) as "heard!"
               from sessions s left join workers w on w.id = s.worker_id where s.id = $1 and s.account_id = $2"#,
            session as _,
            account as _,
            workers::LEASE.as_secs_f64(),
        )
        .fetch_optional(&mut *conn)
        .await?;
        match found {
            None => return Ok(Claim::NoSession),
            Some(found) if found.status != SessionStatus::Ready => return Ok(Claim::Lost(found.status)),
            // Its worker was heard of in this very moment, or whoever had the session has just let go of it.
            Some(found) if found.stands && found.heard => {
                let taken = take_session(&mut *conn, &wanted, true).await?;
                return Ok(taken.map_or(Claim::Lost(SessionStatus::Busy), |worker| Claim::Won { worker }));
            }
            Some(found) if found.stands => return Ok(Claim::WorkerSilent),
            Some(_) => {}
        }
        let mut tx = conn.begin().await?;
        if take_session(&mut tx, &wanted, false).await?.is_some() {
            let failure = worker_gone();
            finish(&mut tx, intent, &Outcome::Failed { failure: failure.clone() }.into()).await?;
            tx.commit().await?;
            return Ok(Claim::WorkerGone(failure));
        }
        // Somebody else had the session first, and it stands differently now.
    }
}

/// What a claim is for.
struct Wanted<'a> {
    account: AccountId,
    session: SessionId,
    intent: IntentId,
    kind: &'static str,
    request: Value,
    sealed: Option<&'a [u8]>,
    reply: ReplyTo<'a>,
}

/// Moves a session of a worker that lives, or of one that does not, from `ready` to `busy`. Answers the worker.
async fn take_session(conn: &mut PgConnection, wanted: &Wanted<'_>, alive: bool) -> sqlx::Result<Option<WorkerId>> {
    sqlx::query_scalar!(
        "with claimed as (
             update sessions s set status = 'busy', operation_id = $3, updated_at = now()
             from workers w
             where s.id = $1 and s.account_id = $2 and s.status = 'ready' and w.id = s.worker_id
               and case when $10 then w.status in ('active', 'draining') and w.last_seen_at > now() - make_interval(secs => $9)
                        else w.status not in ('active', 'draining') end
             returning s.id, s.worker_id
         )
         insert into intents (id, session_id, worker_id, kind, request, sealed, reply_channel, request_id)
         select $3, id, worker_id, $4, $5, $6, $7, $8 from claimed
         returning worker_id",
        wanted.session as _,
        wanted.account as _,
        wanted.intent as _,
        wanted.kind,
        wanted.request,
        wanted.sealed,
        wanted.reply.channel,
        wanted.reply.request_id,
        workers::LEASE.as_secs_f64(),
        alive,
    )
    .fetch_optional(conn)
    .await
}

/// What a `ready` session's browser is when its worker died.
#[must_use]
pub fn worker_gone() -> Failure {
    Failure { class: FailureClass::Driver, detail: "the worker that owned the session's browser is gone".to_owned() }
}

/// An intent that its worker has taken.
#[derive(Debug)]
pub struct Taken {
    /// Which.
    pub intent: IntentId,
    /// When; `None` when the database refused that.
    pub at: Option<Timestamp>,
    /// What the worker now carries out, or why it cannot.
    pub started: sqlx::Result<Started>,
}

/// An intent a worker may now carry out.
#[derive(Debug)]
pub struct Started {
    /// On which session.
    pub session: SessionId,
    /// `None` for an intent that opens the browser.
    pub operation: Option<Operation>,
    /// Its secrets, sealed to the worker.
    pub sealed: Option<Vec<u8>>,
    /// The HTTP request that asked for it.
    pub request_id: String,
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
) -> sqlx::Result<Vec<Taken>> {
    let rows = sqlx::query!(
        r#"update intents set status = 'running', started_at = now()
           where id in (
               select id from intents where worker_id = $1 and status = 'queued' and ($2::uuid is null or id = $2)
               order by id limit $3 for update skip locked
           )
           returning id, session_id, kind, request, sealed, request_id, started_at as at"#,
        worker as _,
        only as _,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let taken = rows.into_iter().map(|row| {
        let operation = if row.kind == "open" { Ok(None) } else { serde_json::from_value(row.request).map(Some) };
        let started = operation.map(|operation| Started {
            session: row.session_id,
            operation,
            sealed: row.sealed,
            request_id: row.request_id,
        });
        Taken { intent: row.id, at: row.at, started: started.map_err(|error| sqlx::Error::Decode(error.into())) }
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
         where s.worker_id = $1 and s.live and s.status in ('creating', 'busy') and i.id = s.operation_id
           and i.status = 'running' and ($2::timestamptz is null or i.started_at > $2)",
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
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// What an operation that was done came to. Opening a browser comes to nothing.
    pub result: Option<StoredResult>,
    /// What the browser itself took, if it was asked at all.
    pub browser_time: Option<Duration>,
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, result: None, browser_time: None }
    }
}

/// What whoever waits for an intent is to be told, when its end is committed.
#[derive(Debug)]
#[must_use]
pub struct Notice {
    /// On which channel.
    pub channel: String,
    /// The intent, and how it ended, if that is short; otherwise it is read from the row.
    pub payload: String,
}

/// Ends an intent: writes its outcome, releases its session as the outcome says, counts the operation as usage when it was
/// done, publishes `session.failed` when the session errored, and has the account written to when it is its first session that
/// came up or failed. Answers what the waiting caller has to be told. `None`, and nothing of all that, when it has ended
/// already or lost its claim.
///
/// # Errors
/// When the database fails.
pub async fn finish(conn: &mut PgConnection, id: IntentId, ending: &Ending) -> sqlx::Result<Option<Notice>> {
    let ended = match &ending.outcome {
        Outcome::Failed { failure } => {
            let mut tx = conn.begin().await?;
            let Some(ended) = end(&mut tx, id, ending).await? else { return Ok(None) };
            let operation = if ended.kind == "open" { "unknown" } else { &ended.kind };
            record_failure(&mut tx, &ended.of, operation, failure).await?;
            tx.commit().await?;
            ended
        }
        // An operation that was done came to something, so that this was an opening.
        Outcome::Done if ending.result.is_none() => {
            let mut tx = conn.begin().await?;
            let Some(ended) = end(&mut tx, id, ending).await? else { return Ok(None) };
            mail_about_first(&mut tx, "session_success_first", &ended.of).await?;
            tx.commit().await?;
            ended
        }
        _ => {
            let Some(ended) = end(conn, id, ending).await? else { return Ok(None) };
            ended
        }
    };
    Ok(Some(Notice { channel: ended.reply_channel, payload: notice(id, ending)? }))
}

/// [`finish`], and whoever waits is told when the transaction commits, which `conn` is in.
async fn finish_and_tell(conn: &mut PgConnection, id: IntentId, ending: &Ending) -> sqlx::Result<bool> {
    let Some(Notice { channel, payload }) = finish(&mut *conn, id, ending).await? else { return Ok(false) };
    sqlx::query_scalar!("select pg_notify($1, $2)::text as notified", channel, payload).fetch_one(conn).await?;
    Ok(true)
}

/// An intent that has ended.
struct Ended {
    kind: String,
    reply_channel: String,
    of: Concerned,
}

/// The session that something befell, and how long it has lived.
struct Concerned {
    session: SessionId,
    account: AccountId,
    duration_ms: i64,
}

/// The part of [`finish`] that every end has: its outcome, the release and the count.
async fn end(conn: &mut PgConnection, id: IntentId, ending: &Ending) -> sqlx::Result<Option<Ended>> {
    let Ending { outcome, result, browser_time } = ending;
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
                      case when i.kind in ('navigate', 'interact', 'wait', 'state_capture') then i.kind
                           when i.kind = 'capture' and i.request->>'kind' = 'screenshot' then 'screenshot_capture'
                      end as record
               from intents i join sessions s on s.id = i.session_id and s.operation_id = i.id
               where i.id = $1 and i.status <> 'done' for update of s, i
           ), ended as (
               update intents i
               set status = 'done', outcome = $2, result = $3::text::json, content = $4, browser_us = $5, sealed = null,
                   done_at = now()
               from held where i.id = held.intent_id
           ), released as (
               update sessions s
               set status = $6::text, operation_id = null, updated_at = now(),
                   last_state_at = case when $6::text = 'ready' and $7 and held.kind = 'state_capture' then now() else s.last_state_at end
               from held where s.id = held.session_id and $6::text is not null
           ), usage as (
               insert into usage_counts as u (account_id, day, record, slot, count)
               select account_id, (now() at time zone 'utc')::date, record, usage_slot(), 1
               from held where $7 and record is not null
               on conflict (account_id, day, record, slot) do update set count = u.count + excluded.count
           )
           select kind, reply_channel, session_id, account_id,
                  (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!"
           from held"#,
        id as _,
        stored,
        json,
        content.flatten(),
        browser_time.and_then(microseconds),
        released,
        matches!(outcome, Outcome::Done),
    )
    .fetch_optional(conn)
    .await?;
    Ok(ended.map(|row| Ended {
        kind: row.kind,
        reply_channel: row.reply_channel,
        of: Concerned { session: row.session_id, account: row.account_id, duration_ms: row.duration_ms },
    }))
}

/// Has an account written to about the first of its sessions that came up, or that failed, once.
async fn mail_about_first(conn: &mut PgConnection, template: &str, of: &Concerned) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into emails (id, template, account_id, details, expires_at)
         values ($1, $2, $3, $4, now() + make_interval(secs => $5)) on conflict do nothing",
        EmailId::generate() as _,
        template,
        of.account as _,
        json!({"session_id": of.session}),
        emails::NOTICE_GOOD_FOR.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends an intent whose session was destroyed under it, and tells its caller.
///
/// # Errors
/// When the database fails.
pub async fn abandon(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<()> {
    let outcome = json!(Outcome::Destroyed);
    let notice = notice(id, &Outcome::Destroyed.into())?;
    sqlx::query_scalar!(
        r#"with ended as (
               update intents set status = 'done', outcome = $2, sealed = null, done_at = now()
               where id = $1 and status <> 'done' returning reply_channel
           )
           select pg_notify(reply_channel, $3)::text as notified from ended"#,
        id as _,
        outcome,
        notice,
    )
    .fetch_optional(conn)
    .await?;
    Ok(())
}

/// Bytes of a notification at most; PostgreSQL takes 8,000.
const NOTICE_BYTES: usize = 7_500;

/// What the process that waits for an intent is notified of. What does not fit it reads from the row.
fn notice(intent: IntentId, ending: &Ending) -> sqlx::Result<String> {
    #[derive(Serialize)]
    struct Notice<'a> {
        intent: IntentId,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<&'a Outcome>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        browser_us: Option<i64>,
    }
    let written = |notice: &Notice<'_>| serde_json::to_string(notice).map_err(|e| sqlx::Error::Encode(e.into()));
    let Ending { outcome, result, browser_time } = ending;
    let may_fit = |result: &StoredResult| result.content.is_none() && result.json.get().len() < NOTICE_BYTES;
    if result.as_ref().is_none_or(may_fit) {
        let result = result.as_ref().map(|result| &*result.json);
        let whole = Notice { intent, outcome: Some(outcome), result, browser_us: browser_time.and_then(microseconds) };
        let whole = written(&whole)?;
        if whole.len() < NOTICE_BYTES {
            return Ok(whole);
        }
    }
    written(&Notice { intent, outcome: None, result: None, browser_us: None })
}

fn microseconds(time: Duration) -> Option<i64> {
    i64::try_from(time.as_micros()).ok()
}

/// How an intent ended; `None` as long as it has not.
///
/// # Errors
/// When the database fails, or the row was written by another version of this program.
pub async fn ending(conn: &mut PgConnection, id: IntentId) -> sqlx::Result<Option<Ending>> {
    let row = sqlx::query!(
        r#"select outcome as "outcome!", result::text, content, browser_us from intents
           where id = $1 and status = 'done' and outcome is not null"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    row.map(|row| {
        let outcome = serde_json::from_value(row.outcome).map_err(|e| sqlx::Error::Decode(e.into()))?;
        let json = row.result.map(|text| heavy(text.len(), || RawValue::from_string(text))).transpose();
        let json = json.map_err(|e| sqlx::Error::Decode(e.into()))?;
        let result = json.map(|json| StoredResult { json, content: row.content });
        let browser_time = row.browser_us.and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros);
        Ok(Ending { outcome, result, browser_time })
    })
    .transpose()
}

/// How long a `ready` session of a dead worker is left to its next operation, which is told what has happened. It takes a slot, and
/// perhaps a profile, and so it is not left for ever.
const PATIENCE: Duration = Duration::from_mins(10);

/// Ends what dead workers left behind (contract: workers 4, 7): a session whose browser never opened, or whose operation never
/// started, is errored; an operation under way has an unknown outcome and its session stays busy; a `ready` session is left to
/// its next operation, and errored when none comes for ten minutes. Of workers that stopped in good order nothing is left,
/// whatever kept them from seeing to it. What ended sessions had in hand is lost. Answers how many intents were ended. `conn`
/// is in a transaction.
///
/// # Errors
/// When the database fails. An intent whose end it does not take is logged and left, so that the others are ended.
pub async fn rescue(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
    let stranded = sqlx::query!(
        r#"select i.id, i.status = 'running' and i.kind <> 'open' as "under_way!"
           from sessions s join intents i on i.id = s.operation_id join workers w on w.id = s.worker_id
           where i.status <> 'done' and s.live and s.status in ('creating', 'busy') and w.status in ('lost', 'stopped')
           order by s.account_id, i.id limit $1 for update of s, i skip locked"#,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut ended = 0;
    for intent in &stranded {
        let outcome = if intent.under_way { Outcome::Unknown } else { Outcome::Failed { failure: worker_gone() } };
        let mut alone = conn.begin().await?;
        let finished = finish_and_tell(&mut alone, intent.id, &outcome.into()).await;
        ended += usize::from(settle(alone, finished).await?);
    }
    for worker in workers::forsakers(&mut *conn, PATIENCE).await? {
        let mut alone = conn.begin().await?;
        let failed = if worker.was_lost {
            fail_sessions(&mut alone, worker.id, &["ready"], &worker_gone()).await
        } else {
            fail_sessions_of(&mut alone, worker.id).await
        };
        settle(alone, failed).await?;
    }
    keeping::forsake(conn, limit).await?;
    Ok(ended)
}

/// Keeps what was done in a part of a transaction, or takes back what the database refused. Whether it was done.
async fn settle<T>(part: PgTransaction<'_>, done: sqlx::Result<T>) -> sqlx::Result<bool> {
    match done {
        Ok(_) => part.commit().await.map(|()| true),
        Err(error) if may_pass(&error) => Err(error),
        Err(error) => {
            tracing::error!(%error, "something that a dead worker left cannot be ended");
            part.rollback().await.map(|()| false)
        }
    }
}

/// Ends an intent that no worker has started, so that none can start it any more. `false` when one has, or it has ended.
///
/// # Errors
/// When the database fails.
pub async fn give_up(conn: &mut PgConnection, id: IntentId, failure: Failure) -> sqlx::Result<bool> {
    let session = sqlx::query_scalar!(
        "select s.id from sessions s join intents i on i.session_id = s.id where i.id = $1 for update of s, i",
        id as _,
    );
    session.fetch_optional(&mut *conn).await?;
    let queued = sqlx::query_scalar!(
        r#"select exists(select from intents where id = $1 and status = 'queued') as "queued!""#,
        id as _,
    );
    if queued.fetch_one(&mut *conn).await? {
        Ok(finish(conn, id, &Outcome::Failed { failure }.into()).await?.is_some())
    } else {
        Ok(false)
    }
}

/// Whether anything is claimed and not ended on a worker's sessions, begun or not.
///
/// # Errors
/// When the database fails.
pub async fn any_open(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists(select from sessions s join intents i on i.id = s.operation_id
                         where s.worker_id = $1 and s.live and i.status <> 'done') as "open!""#,
        worker as _,
    )
    .fetch_one(conn)
    .await
}

/// Errors every session that still lives on a worker that stops in an orderly way, so that no slot stays taken.
///
/// # Errors
/// When the database fails.
pub async fn fail_sessions_of(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<()> {
    let failure = Failure {
        class: FailureClass::NotIntegrated,
        detail: "the worker that owned the session's browser was stopped".to_owned(),
    };
    fail_sessions(conn, worker, &["creating", "ready", "busy"], &failure).await
}

async fn fail_sessions(
    conn: &mut PgConnection,
    worker: WorkerId,
    statuses: &[&str],
    failure: &Failure,
) -> sqlx::Result<()> {
    // Locked first: a claim that comes meanwhile waits, and then finds the session errored. By account, as in [`rescue`]:
    // an account gets one mail about its first failure, and two workers that stop must not wait for each other's.
    let live = sqlx::query!(
        r#"select id, account_id, operation_id as "operation_id?: IntentId",
                  (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!"
           from sessions where worker_id = $1 and live and status = any($2)
           order by account_id, id for update"#,
        worker as _,
        statuses as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    for session in live {
        let ending = Outcome::Failed { failure: failure.clone() }.into();
        if let Some(operation) = session.operation_id
            && finish_and_tell(&mut *conn, operation, &ending).await?
        {
            continue;
        }
        sqlx::query!(
            "update sessions set status = 'errored', operation_id = null, updated_at = now() where id = $1",
            session.id as _,
        )
        .execute(&mut *conn)
        .await?;
        let of = Concerned { session: session.id, account: session.account_id, duration_ms: session.duration_ms };
        record_failure(&mut *conn, &of, "unknown", failure).await?;
    }
    Ok(())
}

/// Errors an idle session whose browser died by itself, on `worker`. `false` when an operation or a destroy was faster:
/// then it is theirs to tell.
///
/// # Errors
/// When the database fails.
pub async fn fail_idle(
    conn: &mut PgConnection,
    worker: WorkerId,
    session: SessionId,
    failure: &Failure,
) -> sqlx::Result<bool> {
    let idle = sqlx::query!(
        r#"update sessions set status = 'errored', updated_at = now()
           where id = $1 and worker_id = $2 and status = 'ready'
           returning account_id, (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!""#,
        session as _,
        worker as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(idle) = idle else { return Ok(false) };
    let of = Concerned { session, account: idle.account_id, duration_ms: idle.duration_ms };
    record_failure(conn, &of, "unknown", failure).await?;
    Ok(true)
}

async fn record_failure(
    conn: &mut PgConnection,
    of: &Concerned,
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
    mail_about_first(conn, "session_failed_first", of).await
}

/// Results that were wiped at once.
#[derive(Debug)]
pub struct Wiped {
    /// How many.
    pub count: i64,
    /// When the last of these operations was done.
    pub last_done_at: Timestamp,
}

/// Wipes results that are older than `age`, the oldest first, of up to `limit` operations that were done at `from` or later.
/// `None` when there are none.
///
/// Who goes on where he has left off does not pass by what he has wiped: the index knows of that until it is vacuumed.
///
/// # Errors
/// When the database fails.
pub async fn wipe_results(
    conn: &mut PgConnection,
    age: Duration,
    from: Option<Timestamp>,
    limit: i64,
) -> sqlx::Result<Option<Wiped>> {
    let wiped = sqlx::query!(
        r#"with old as (
               select id, done_at from intents
               where outcome is not null and done_at < now() - make_interval(secs => $1)
                 and done_at >= coalesce($2::timestamptz, '-infinity')
               order by done_at limit $3 for update skip locked
           ), wiped as (
               update intents set outcome = null, result = null, content = null where id = any(array(select id from old))
           )
           select count(*) as "count!", max(done_at) as "last_done_at: Timestamp" from old"#,
        age.as_secs_f64(),
        from as _,
        limit,
    )
    .fetch_one(conn)
    .await?;
    Ok(wiped.last_done_at.map(|last_done_at| Wiped { count: wiped.count, last_done_at }))
}

/// Deletes operations that are older than `age` and have ended, up to `limit`; one whose session still stands busy with it
/// stays. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from intents where id = any(array(
             select i.id from intents i
             where i.id < uuid_v7_of(now() - make_interval(secs => $1)) and i.status = 'done'
               and not exists (select from sessions s where s.id = i.session_id and s.operation_id = i.id)
             order by i.id limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
