//! Browser sessions (contract: sessions).
//!
//! The status of a session is also its lock: an operation moves it from `ready` to `busy` under its own id, and only
//! that id can release it. The [`creation`] is the first claim. [`intents`] holds the claims, and [`recovery`] ends claims
//! and sessions that their caller or worker abandoned.

pub mod capabilities;
pub mod creation;
pub mod dialogs;
pub mod failures;
pub mod gui_input;
pub mod inspection;
pub mod intents;
pub mod live_counts;
pub mod operation_list;
pub mod pauses;
pub mod profile_lease;
pub mod recovery;

mod create_params;

use std::time::Duration;

use kitfleet_types::emulation::EmulationState;
use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use kitfleet_types::operations::{Failure, OpenDialog, Outcome};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use self::intents::ReplyNotice;
use crate::area::{Area, Bound, Purge, ScheduledJob};
use crate::audit::{self, Actor, Entry};
use crate::challenges::ChallengeState;
use crate::cursors::id_bounds;
use crate::events::EventType;
use crate::recordings::RecordMode;

pub use create_params::CreateParams;

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("operations", "intents", |conn, terms, limit| Box::pin(recovery::purge(conn, terms.jobs, limit))),
        Purge::new("sessions", "intents", |conn, terms, limit| {
            Box::pin(recovery::purge_with_sessions(conn, terms.sessions, limit))
        }),
        Purge::new("sessions", "sessions", |conn, terms, limit| Box::pin(purge(conn, terms.sessions, limit))),
    ],
    actions: &["session.created", "session.destroyed"],
    mails: &["session_success_first", "session_failed_first"],
    scheduled_jobs: &[SWEEP_FREE_TIER, PURGE_FINISHED],
    bounds: &[
        ("sessions", Bound::Term("`retention.ended_sessions` (90 days) after it ended")),
        ("intents", Bound::Term("`retention.finished_jobs` (7 days) after it ended; its result 10 minutes")),
    ],
    ..Area::named("sessions")
};

pub const SWEEP_FREE_TIER: ScheduledJob = ScheduledJob { name: "sweep_free_tier", period: 5 };

/// Also deletes finished jobs.
pub const PURGE_FINISHED: ScheduledJob = ScheduledJob { name: "purge_finished", period: 60 };

#[derive(Debug, Clone)]
pub struct Session {
    pub id: SessionId,
    pub account_id: AccountId,
    /// API key that created the session; `None` for a web session.
    pub api_key_id: Option<ApiKeyId>,
    pub status: SessionStatus,
    pub archetype: String,
    pub purpose: String,
    pub label: Option<String>,
    /// JSON text, which preserves the order of members.
    pub metadata: Option<String>,
    pub profile_id: Option<ProfileId>,
    pub proxy_id: Option<ProxyId>,
    /// Agent session that uses the session as its driver.
    pub agent_session_id: Option<AgentSessionId>,
    /// `None` while the session is live.
    pub end_reason: Option<EndReason>,
    /// `None` unless a failure ended the session.
    pub error: Option<Json<SessionError>>,
    /// Capabilities of the session's proxy, as the worker measured them.
    pub egress_capabilities: Option<Value>,
    pub egress_capability_report: Option<Value>,
    pub challenge: Option<Json<ChallengeState>>,
    pub dialog: Option<Json<OpenDialog>>,
    /// Emulation in force; `None` for the default.
    pub emulation: Option<Json<EmulationState>>,
    pub record: RecordMode,
    /// Number of recorded operations; `None` without a recording.
    pub operation_count: Option<i32>,
    /// Last address of the page in the recording.
    pub last_url: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_state_at: Option<Timestamp>,
    pub destroyed_at: Option<Timestamp>,
}

/// Reason a session ended (contract: sessions 39). The set is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum EndReason {
    Customer,
    FreeTierCap,
    Suspended,
    Staff,
    Idle,
    /// The worker died or stopped, and its browsers with it.
    WorkerLost,
    /// An operation or the browser failed.
    Failed,
    MaxAge,
}

impl EndReason {
    pub const ALL: [Self; 8] = [
        Self::Customer,
        Self::FreeTierCap,
        Self::Suspended,
        Self::Staff,
        Self::Idle,
        Self::WorkerLost,
        Self::Failed,
        Self::MaxAge,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Error that ended a session, as `session.failed` reports it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionError {
    pub name: String,
    pub message: String,
}

impl SessionError {
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        Self { name: failure.class.name().to_owned(), message: failure.class.message().to_owned() }
    }
}

/// The last two are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum SessionStatus {
    Creating,
    Ready,
    Busy,
    Destroyed,
    Errored,
}

impl Session {
    #[must_use]
    pub fn opened(self, at: Timestamp) -> Self {
        Self { status: SessionStatus::Ready, updated_at: at, ..self }
    }
}

impl SessionStatus {
    pub const ALL: [Self; 5] = [Self::Creating, Self::Ready, Self::Busy, Self::Destroyed, Self::Errored];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Simulated pace of the user: determines how long typing and touching take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum BehavioralProfile {
    Casual,
    #[default]
    Regular,
    PowerUser,
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: SessionId) -> sqlx::Result<Option<Session>> {
    sqlx::query_as!(
        Session,
        r#"select id, account_id, api_key_id, status as "status: _", archetype, purpose, label,
                  metadata::text as metadata, profile_id as "profile_id: _", proxy_id as "proxy_id: _",
                  (select a.id from agent_sessions a where a.session_id = sessions.id) as "agent_session_id: _",
                  end_reason as "end_reason: _", error as "error: _", egress_capabilities, egress_capability_report,
                  case when live then challenge end as "challenge: _", case when live then dialog end as "dialog: _",
                  emulation as "emulation: _", record as "record: _", recorded.operation_count as "operation_count?",
                  recorded.last_url, created_at, updated_at, last_state_at, destroyed_at
           from sessions
                left join lateral (
                    select r.operation_count, r.last_url from recordings r where r.session_id = sessions.id and r.removable_at is null
                ) recorded on true
           where id = $1 and account_id = $2"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Default)]
pub struct Filter<'a> {
    /// Empty for all.
    pub statuses: &'a [SessionStatus],
    pub label: Option<&'a str>,
    pub archetype: Option<&'a str>,
    pub profile: Option<ProfileId>,
    pub api_key: Option<ApiKeyId>,
    /// Inclusive start of the period.
    pub created_after: Option<Timestamp>,
    /// Exclusive end of the period.
    pub created_before: Option<Timestamp>,
    pub after: Option<SessionId>,
}

/// Newest first.
///
/// The statement has one part for each combination of filters; the others cost nothing under any plan. Each part scans
/// an index of only the rows that match one filter, so the length of the account's history does not matter. Ended sessions have
/// their own indexes, which operations do not update.
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    filter: Filter<'_>,
    limit: i64,
) -> sqlx::Result<Vec<Session>> {
    let created = (filter.created_after, filter.created_before);
    let (first, end) = id_bounds(created, filter.after.map(|after| after.as_uuid()));
    let statuses: Vec<_> = filter.statuses.iter().map(|status| status.name().to_owned()).collect();
    sqlx::query_as!(
        Session,
        r#"select id, account_id, api_key_id, status as "status: _", archetype, purpose, label,
                  metadata::text as metadata, profile_id as "profile_id: _", proxy_id as "proxy_id: _",
                  (select a.id from agent_sessions a where a.session_id = sessions.id) as "agent_session_id: _",
                  end_reason as "end_reason: _", error as "error: _", egress_capabilities, egress_capability_report,
                  case when live then challenge end as "challenge: _", case when live then dialog end as "dialog: _",
                  emulation as "emulation: _", record as "record: _", recorded.operation_count as "operation_count?",
                  recorded.last_url, created_at, updated_at, last_state_at, destroyed_at
           from sessions
                left join lateral (
                    select r.operation_count, r.last_url from recordings r where r.session_id = sessions.id and r.removable_at is null
                ) recorded on true
           where id = any(array(
               (select id from sessions
                where $2::text[] is null and $3::text is null and $7::text is null and $8::uuid is null and $9::uuid is null
                  and account_id = $1 and id < $4 and id >= $6
                  and created_at >= coalesce($10::timestamptz, '-infinity') and created_at < coalesce($11::timestamptz, 'infinity')
                order by id desc limit $5)
               union all
               select id from sessions
               where num_nonnulls($2, $3, $7, $8, $9) > 0 and account_id = $1 and live
                 and ($2 is null or status = any($2)) and ($3 is null or label = $3) and ($7 is null or archetype = $7)
                 and ($8 is null or profile_id = $8) and ($9 is null or api_key_id = $9) and id < $4 and id >= $6
                 and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
               union all
               (select id from sessions
                where 'destroyed' = any($2) and num_nonnulls($3, $7, $8, $9) = 0 and account_id = $1 and not live and ended = 'destroyed'
                  and id < $4 and id >= $6
                  and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                order by id desc limit $5)
               union all
               (select id from sessions
                where 'errored' = any($2) and num_nonnulls($3, $7, $8, $9) = 0 and account_id = $1 and not live and ended = 'errored'
                  and id < $4 and id >= $6
                  and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                order by id desc limit $5)
               union all
               select ended.id from unnest(array['destroyed', 'errored']) wanted (status)
               cross join lateral (
                   select id from sessions
                   where account_id = $1 and label = $3 and not live and ended = wanted.status
                     and ($7 is null or archetype = $7) and id < $4 and id >= $6
                     and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                   order by id desc limit $5
               ) ended
               where $3 is not null and num_nonnulls($8, $9) = 0 and ($2 is null or wanted.status = any($2))
               union all
               (select id from sessions
                where $7 is not null and num_nonnulls($3, $8, $9) = 0 and account_id = $1 and archetype = $7 and not live
                  and ($2 is null or ended = any($2)) and id < $4 and id >= $6
                  and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                order by id desc limit $5)
               union all
               (select id from sessions
                where $8 is not null and account_id = $1 and profile_id = $8 and not live
                  and ($2 is null or ended = any($2)) and ($3 is null or label = $3) and ($7 is null or archetype = $7)
                  and ($9 is null or api_key_id = $9) and id < $4 and id >= $6
                  and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                order by id desc limit $5)
               union all
               (select id from sessions
                where $9 is not null and $8 is null and account_id = $1 and api_key_id = $9 and not live
                  and ($2 is null or ended = any($2)) and ($3 is null or label = $3) and ($7 is null or archetype = $7)
                  and id < $4 and id >= $6
                  and created_at >= coalesce($10, '-infinity') and created_at < coalesce($11, 'infinity')
                order by id desc limit $5)
           )) order by id desc limit $5"#,
        account as _,
        Some(statuses).filter(|statuses| !statuses.is_empty()) as _,
        filter.label,
        end,
        limit,
        first,
        filter.archetype,
        filter.profile as _,
        filter.api_key as _,
        filter.created_after as _,
        filter.created_before as _,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, Clone)]
pub enum Cause {
    Customer(Actor),
    FreeTierCap,
    MaxAge,
    AccountSuspended,
    Staff,
}

impl Cause {
    fn actor(&self) -> &Actor {
        match self {
            Self::Customer(actor) => actor,
            Self::FreeTierCap | Self::MaxAge | Self::AccountSuspended | Self::Staff => &Actor::System,
        }
    }

    fn end_reason(&self) -> EndReason {
        match self {
            Self::Customer(_) => EndReason::Customer,
            Self::FreeTierCap => EndReason::FreeTierCap,
            Self::MaxAge => EndReason::MaxAge,
            Self::AccountSuspended => EndReason::Suspended,
            Self::Staff => EndReason::Staff,
        }
    }

    /// `reason` in `session.completed`.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Customer(_) | Self::Staff => None,
            Self::FreeTierCap => Some("auto-destroyed: free-tier session duration cap"),
            Self::MaxAge => Some("auto-destroyed: session duration cap"),
            Self::AccountSuspended => Some("account suspended"),
        }
    }
}

#[derive(Debug)]
pub enum Destroyed {
    Now { worker: WorkerId, notice: Option<ReplyNotice> },
    Before,
}

/// A single statement frees the slot, ends the running operation and writes the events. The timestamps come from the
/// clock, because this transaction may have started before the one that created the session, and waited for it. After
/// the commit, the caller must notify the worker and the waiting process.
pub async fn destroy(
    conn: &mut PgConnection,
    account: AccountId,
    id: SessionId,
    cause: &Cause,
) -> sqlx::Result<Option<Destroyed>> {
    let (mut event, mut payload) = (json!({"session_id": id}), json!({}));
    if let Some(reason) = cause.reason() {
        event["auto_destroyed"] = true.into();
        event["reason"] = reason.into();
        payload["reason"] = reason.into();
    }
    let entry = Entry { action: "session.destroyed", target: Some(id.to_string()), payload };
    let line = audit::AuditRow::new(account, cause.actor(), entry);
    let ended = sqlx::query!(
        r#"with live as (
               select id, operation_id from sessions
               where id = $1 and account_id = $2 and live for update
           ), ended as (
               update sessions s
               set status = 'destroyed', operation_id = null, dialog = null, updated_at = clock_timestamp(),
                   destroyed_at = clock_timestamp(), end_reason = $8::text
               from live where s.id = live.id
               returning s.worker_id, live.operation_id,
                         (extract(epoch from s.destroyed_at - s.created_at) * 1000)::bigint as duration_ms
           )
           select worker_id as "worker_id: WorkerId", operation_id as "operation_id?: IntentId",
                  case when operation_id is not null then end_operation(operation_id, $3) end as reply_channel,
                  write_event($4, $2, $5, jsonb_set($6, '{duration_ms}', to_jsonb(duration_ms))) as event,
                  write_audit(jsonb_set($7, '{payload, duration_ms}', to_jsonb(duration_ms))) as line
           from ended"#,
        id as _,
        account as _,
        json!(Outcome::Destroyed),
        Uuid::now_v7(),
        EventType::SessionCompleted.name(),
        event,
        line.columns,
        cause.end_reason().name(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(ended) = ended else {
        let exists = sqlx::query_scalar!(
            r#"select exists(select from sessions where id = $1 and account_id = $2) as "exists!""#,
            id as _,
            account as _,
        )
        .fetch_one(conn)
        .await?;
        return Ok(exists.then_some(Destroyed::Before));
    };
    line.count();
    let waited_for = ended.operation_id.zip(ended.reply_channel);
    let notice = waited_for.map(|(operation, channel)| ReplyNotice::destroyed(operation, channel)).transpose()?;
    Ok(Some(Destroyed::Now { worker: ended.worker_id, notice }))
}

pub async fn live_of(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<SessionId>> {
    sqlx::query_scalar!("select id from sessions where account_id = $1 and live order by id", account as _,)
        .fetch_all(conn)
        .await
}

/// `worker` has the browsers of the given sessions open.
pub async fn ended_among(
    conn: &mut PgConnection,
    worker: WorkerId,
    open: &[SessionId],
) -> sqlx::Result<Vec<SessionId>> {
    let open: Vec<_> = open.iter().map(SessionId::as_uuid).collect();
    sqlx::query_scalar!(
        "select id from sessions where id = any($1)
           and not (worker_id = $2 and live)",
        &open,
        worker as _,
    )
    .fetch_all(conn)
    .await
}

/// Deletes sessions that ended longer ago than `age` and have no operations and challenges left. Examines the same
/// `limit` oldest sessions as the purges of those do.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "with old as materialized (select id from sessions_past_term($1, $2) as past (id))
         delete from sessions where id = any(array(
             select s.id from old join sessions s on s.id = old.id
             where not exists (select from intents i where i.session_id = s.id)
               and not exists (select from challenges c where c.session_id = s.id)
             for update of s skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Ages at which sessions are destroyed (contract: sessions 20, 26).
#[derive(Debug, Clone, Copy)]
pub struct SessionAgeLimits {
    pub free_tier: Duration,
    /// `None` is unlimited.
    pub any: Option<Duration>,
}

#[derive(Debug)]
pub struct ExpiredSession {
    pub id: SessionId,
    pub account: AccountId,
    free_tier: bool,
}

impl ExpiredSession {
    #[must_use]
    pub fn cause(&self) -> Cause {
        if self.free_tier { Cause::FreeTierCap } else { Cause::MaxAge }
    }
}

/// Returns up to `limit` sessions that have reached their maximum age, in the order of their ids, starting after `after`.
pub async fn over_age(
    conn: &mut PgConnection,
    ages: SessionAgeLimits,
    after: Option<SessionId>,
    limit: i64,
) -> sqlx::Result<Vec<ExpiredSession>> {
    sqlx::query_as!(
        ExpiredSession,
        r#"with live as materialized (
               select account_id, id, created_at from sessions where live
           ), judged as (
               select s.id, s.account_id, a.tier = 'free' and s.created_at <= now() - make_interval(secs => $1) as free_tier,
                      s.created_at <= now() - make_interval(secs => $4) as too_old
               from live s join accounts a on a.id = s.account_id
           )
           select id as "id: SessionId", account_id as "account: AccountId", free_tier as "free_tier!" from judged
           where (free_tier or too_old) and ($3::uuid is null or id > $3)
           order by id limit $2"#,
        ages.free_tier.as_secs_f64(),
        limit,
        after as _,
        ages.any.map(|age| age.as_secs_f64()),
    )
    .fetch_all(conn)
    .await
}
