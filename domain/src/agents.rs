//! Agent sessions (contract: agents): browsers driven by natural-language messages, by a human, or by both in turn.
//!
//! An agent session owns one driver session: an ordinary session, which takes a slot of the account and accepts
//! operations directly. When it ends, the agent session counts as closed at once. The next read, or a job within
//! seconds, stores the closing and its audit entry.

pub mod approvals;
pub mod creates;
pub mod declining;
pub mod decomposers;
mod keeping;
pub mod lanes;
pub mod model_turns;
pub mod queued_turn;
pub mod receipts;
pub mod steps;
pub mod texts;
pub mod turn_lifecycle;
pub mod turns;
pub mod typed;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, ProfileId, ProxyId, SessionId, StepId, TurnId};
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::area::{Area, Bound, Purge, ScheduledJob, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::blocking::run_blocking;
use crate::database;
use crate::vault::Vault;

pub(crate) const AREA: Area = Area {
    kept: &[
        ("agent_model_uses", "at most one per turn, purged with it"),
        ("bundled_model_spending", "one per account"),
    ],
    purges: &[
        Purge::new("agents", "agent_session_creates", |conn, _, limit| Box::pin(creates::purge(conn, limit))),
        Purge::new("agents", "agent_steps", |conn, terms, limit| {
            Box::pin(keeping::purge_steps(conn, terms.agent_sessions, limit))
        }),
        Purge::new("agents", "agent_turns", |conn, terms, limit| {
            Box::pin(keeping::purge_turns(conn, terms.agent_sessions, limit))
        }),
        Purge::new("agents", "agent_message_receipts", |conn, terms, limit| {
            Box::pin(keeping::purge_receipts(conn, terms.agent_sessions, limit))
        }),
        Purge::new("agents", "agent_sessions", |conn, terms, limit| {
            Box::pin(keeping::purge(conn, terms.agent_sessions, limit))
        }),
    ],
    actions: &[
        "agent.decompose.claude",
        "agent.decompose.deterministic",
        "agent_session.created",
        "agent_session.destroyed",
        "agent_session.mode.changed",
        "agent_session.pair_mode.takeover",
        "agent_session.pair_mode.handback",
        "agent_session.pair_mode.timeout",
        "approval.decided",
    ],
    metrics: &[&decomposers::BUNDLED_ERRORS, &lanes::TRANSITIONS, &turn_lifecycle::INTERPRETED_MESSAGES],
    scheduled_jobs: &[SWEEP_PAIR_HEARTBEATS, CLOSE_ENDED],
    on_account_delete: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
    bounds: &[
        ("agent_sessions", Bound::Term("`retention.agent_sessions` (30 days) after it was closed")),
        (
            "agent_turns",
            Bound::Account("`limits.agent_bytes_per_account` (256 MiB) with steps, receipts and answers of creates"),
        ),
        (
            "agent_steps",
            Bound::Account("`limits.agent_bytes_per_account` (256 MiB) with turns, receipts and answers of creates"),
        ),
        (
            "agent_message_receipts",
            Bound::Account("`limits.agent_bytes_per_account` (256 MiB) with turns, steps and answers of creates"),
        ),
        (
            "agent_session_creates",
            Bound::Account("`limits.refused_creates` (1,000) refusals, each for 24 h; 1 for each agent session"),
        ),
        ("agent_model_uses", Bound::Account("1 for each turn")),
        ("bundled_model_spending", Bound::Account("1")),
    ],
    sealed: &[
        Sealed {
            kind: "agent_turns",
            table: "agent_turns",
            id: "id",
            part: None,
            purpose: PURPOSE,
            has_shared_key: true,
            columns: &[
                ("sealed_request", |row| TurnId::from(row.id).to_string()),
                ("sealed_said", |row| TurnId::from(row.id).to_string()),
            ],
        },
        Sealed {
            kind: "agent_steps",
            table: "agent_steps",
            id: "id",
            part: None,
            purpose: PURPOSE,
            has_shared_key: true,
            columns: &[
                ("sealed_wish", |row| StepId::from(row.id).to_string()),
                ("sealed_shown", |row| StepId::from(row.id).to_string()),
                ("sealed_result", |row| StepId::from(row.id).to_string()),
                ("sealed_text_origins", |row| StepId::from(row.id).to_string()),
            ],
        },
        Sealed {
            kind: "message_receipts",
            table: "agent_message_receipts",
            id: "account_id",
            part: Some("key"),
            purpose: receipts::PURPOSE,
            has_shared_key: false,
            columns: &[("sealed_body", |row| {
                receipts::owner(AccountId::from(row.id), row.part.as_deref().unwrap_or_default())
            })],
        },
    ],
    ..Area::named("agents")
};

const PURPOSE: &str = "agents";

#[derive(Debug, Clone)]
pub struct Sealer(Vault);

impl Sealer {
    /// Without configured keys, all processes share a key through the database.
    pub async fn fetch(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<Self> {
        database::vault(conn, PURPOSE, configured).await.map(Self)
    }

    pub fn seal(&self, owner: &str, secret: &impl Serialize) -> sqlx::Result<Vec<u8>> {
        let text = serde_json::to_vec(secret).map_err(|error| sqlx::Error::Encode(error.into()))?;
        Ok(run_blocking(text.len(), || self.0.seal(PURPOSE, owner, &text)))
    }

    /// Returns an error if this process does not have the key, or another version of this program sealed the value.
    pub fn open<T: DeserializeOwned>(&self, owner: &str, sealed: &[u8]) -> sqlx::Result<T> {
        run_blocking(sealed.len(), || {
            let text = self.0.open(PURPOSE, owner, sealed).map_err(|error| sqlx::Error::Decode(error.into()))?;
            serde_json::from_slice(&text).map_err(|error| sqlx::Error::Decode(error.into()))
        })
    }
}

/// Returns the lane to the AI.
pub const SWEEP_PAIR_HEARTBEATS: ScheduledJob = ScheduledJob { name: "sweep_pair_heartbeats", period: 5 };

pub const CLOSE_ENDED: ScheduledJob = ScheduledJob { name: "close_agent_sessions", period: 5 };

/// Characters (contract: agents 15).
pub const MESSAGE_CHARS: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Time after which a silent human loses the lane.
    pub heartbeat_timeout: Duration,
    pub default_token_budget: u32,
    pub max_token_budget: u32,
    pub max_steps_per_turn: usize,
    pub max_model_calls_per_turn: u32,
    /// Cents per account on the deployment's model key; `None` is unlimited.
    pub bundled_monthly_cents: Option<u32>,
    /// Wait for an element that a message describes.
    pub locate_timeout: Duration,
    pub turn_timeout: Duration,
    /// Bytes of JSON. A larger result is withheld and ends the turn.
    pub turn_result_bytes: usize,
    pub max_turns: u32,
    /// Bytes of an agent session's turns, steps and receipts. At the limit, it accepts no further message.
    pub max_transcript_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat_timeout: Duration::from_secs(30),
            default_token_budget: 200_000,
            max_token_budget: 1_000_000,
            max_steps_per_turn: 20,
            max_model_calls_per_turn: 8,
            bundled_monthly_cents: None,
            locate_timeout: Duration::from_secs(2),
            turn_timeout: Duration::from_mins(5),
            turn_result_bytes: 16 * 1024 * 1024,
            max_turns: 1_000,
            max_transcript_bytes: 64 * 1024 * 1024,
        }
    }
}

#[derive(Debug, Clone)]
pub struct AgentSession {
    pub id: AgentSessionId,
    pub account_id: AccountId,
    pub session_id: SessionId,
    pub mode: Mode,
    pub control: Control,
    pub status: AgentStatus,
    pub close_reason: Option<CloseReason>,
    pub archetype: String,
    pub profile_id: Option<ProfileId>,
    /// May have been deleted after the session ended.
    pub proxy_id: Option<ProxyId>,
    pub label: Option<String>,
    pub token_budget: i32,
    pub tokens_used: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub destroyed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Mode {
    /// The customer, through operations on the driver session.
    Manual,
    #[default]
    Ai,
    /// The AI, and a human after a takeover.
    Pair,
}

impl Mode {
    pub const NAMES: [&'static str; 3] = ["manual", "ai", "pair"];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    Ai,
    /// Messages are rejected.
    Human,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum AgentStatus {
    Active,
    Closed,
}

impl AgentStatus {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Reason why an agent session was closed (contract: agents 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum CloseReason {
    Customer,
    /// It errored, was destroyed, or reached its maximum age.
    DriverSessionEnded,
    AccountSuspended,
    AccountDeleted,
}

impl CloseReason {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct NewAgentSession {
    pub id: AgentSessionId,
    pub account: AccountId,
    pub mode: Mode,
    pub token_budget: i32,
}

/// The driver session was created in the same transaction.
pub async fn create(
    conn: &mut PgConnection,
    new: &NewAgentSession,
    driver: SessionId,
    actor: &Actor,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into agent_sessions (id, account_id, session_id, mode, archetype, profile_id, proxy_id, label, token_budget)
         select $1, account_id, id, $3, archetype, profile_id, proxy_id, label, $4 from sessions where id = $2",
        new.id as _,
        driver as _,
        new.mode as _,
        new.token_budget,
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"agent_session_id": new.id, "initial_mode": new.mode});
    let entry = Entry { action: "agent_session.created", target: Some(new.id.to_string()), payload };
    audit::record(conn, new.account, actor, entry).await
}

struct Row {
    id: AgentSessionId,
    account_id: AccountId,
    session_id: SessionId,
    mode: Mode,
    is_driven: bool,
    status: AgentStatus,
    close_reason: Option<CloseReason>,
    archetype: String,
    profile_id: Option<ProfileId>,
    proxy_id: Option<ProxyId>,
    label: Option<String>,
    token_budget: i32,
    tokens_used: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
    destroyed_at: Option<Timestamp>,
}

impl From<Row> for AgentSession {
    fn from(row: Row) -> Self {
        let driven = row.mode == Mode::Manual || row.is_driven;
        Self {
            id: row.id,
            account_id: row.account_id,
            session_id: row.session_id,
            mode: row.mode,
            control: if driven { Control::Human } else { Control::Ai },
            status: row.status,
            close_reason: row.close_reason,
            archetype: row.archetype,
            profile_id: row.profile_id,
            proxy_id: row.proxy_id,
            label: row.label,
            token_budget: row.token_budget,
            tokens_used: row.tokens_used,
            created_at: row.created_at,
            updated_at: row.updated_at,
            destroyed_at: row.destroyed_at,
        }
    }
}

/// Closes agent sessions whose driver session has ended, and takes the lane from humans who were silent for `patience`.
/// Reads call it first, so that every change a caller sees is in the audit log. Waits for another transaction that does
/// the same.
async fn settle(conn: &mut PgConnection, account: AccountId, patience: Duration) -> sqlx::Result<()> {
    let unsettled = sqlx::query_scalar!(
        r#"select exists(select from agent_sessions a left join sessions s on s.id = a.session_id
               where a.account_id = $1 and a.status = 'active'
                 and (a.heard_at <= now() - make_interval(secs => $2) or s.live is not true)) as "unsettled!""#,
        account as _,
        patience.as_secs_f64(),
    )
    .fetch_one(&mut *conn)
    .await?;
    if !unsettled {
        return Ok(());
    }
    let mut tx = conn.begin().await?;
    let rows = sqlx::query!(
        r#"select a.id, s.live is not true as "ended!"
           from agent_sessions a left join sessions s on s.id = a.session_id
           where a.account_id = $1 and a.status = 'active'
             and (a.heard_at <= now() - make_interval(secs => $2) or s.live is not true)
           order by a.id for no key update of a"#,
        account as _,
        patience.as_secs_f64(),
    )
    .fetch_all(&mut *tx)
    .await?;
    for row in rows {
        if row.ended {
            close(&mut tx, account, row.id, CloseReason::DriverSessionEnded, &Actor::System).await?;
        } else {
            lanes::lapse(&mut tx, account, row.id).await?;
        }
    }
    tx.commit().await
}

/// A human who was silent for `patience` no longer drives.
pub async fn find(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    patience: Duration,
) -> sqlx::Result<Option<AgentSession>> {
    settle(&mut *conn, account, patience).await?;
    let row = sqlx::query_as!(
        Row,
        r#"select id, account_id, session_id, mode as "mode: _", driver is not null as "is_driven!", status as "status: _",
                  close_reason as "close_reason: _", archetype, profile_id, proxy_id, label, token_budget, tokens_used, created_at,
                  updated_at, destroyed_at
           from agent_sessions where id = $1 and account_id = $2"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(AgentSession::from))
}

pub async fn exists(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists(select from agent_sessions where id = $1 and account_id = $2) as "exists!""#,
        id as _,
        account as _,
    )
    .fetch_one(conn)
    .await
}

#[derive(Debug, Default)]
pub struct Filter<'a> {
    pub status: Option<AgentStatus>,
    pub label: Option<&'a str>,
    pub after: Option<AgentSessionId>,
}

/// Newest first.
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    filter: Filter<'_>,
    patience: Duration,
    limit: i64,
) -> sqlx::Result<Vec<AgentSession>> {
    settle(&mut *conn, account, patience).await?;
    let rows = sqlx::query_as!(
        Row,
        r#"select id, account_id, session_id, mode as "mode: _", driver is not null as "is_driven!", status as "status: _",
                  close_reason as "close_reason: _", archetype, profile_id, proxy_id, label, token_budget, tokens_used, created_at,
                  updated_at, destroyed_at
           from agent_sessions
           where account_id = $1 and id < $4 and ($2::text is null or status = $2) and ($3::text is null or label = $3)
           order by id desc limit $5"#,
        account as _,
        filter.status.map(AgentStatus::name),
        filter.label,
        filter.after.map_or(Uuid::max(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(AgentSession::from).collect())
}

/// Returns the driver session, which the caller must end; `None` if the agent session was already closed.
pub async fn close(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    reason: CloseReason,
    actor: &Actor,
) -> sqlx::Result<Option<SessionId>> {
    let driver = sqlx::query_scalar!(
        "update agent_sessions
         set status = 'closed', close_reason = $3, driver = null, heard_at = null, updated_at = clock_timestamp(),
             destroyed_at = clock_timestamp()
         where id = $1 and account_id = $2 and status = 'active' returning session_id",
        id as _,
        account as _,
        reason as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if driver.is_some() {
        let payload = json!({"agent_session_id": id, "reason": reason});
        let entry = Entry { action: "agent_session.destroyed", target: Some(id.to_string()), payload };
        audit::record(conn, account, actor, entry).await?;
    }
    Ok(driver)
}

/// Returns true if this call closed it.
pub async fn close_if_ended(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<bool> {
    let ended = sqlx::query_scalar!(
        r#"select not coalesce(s.live, false) as "ended!"
           from agent_sessions a left join sessions s on s.id = a.session_id
           where a.id = $1 and a.account_id = $2"#,
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if ended != Some(true) {
        return Ok(false);
    }
    Ok(close(conn, account, id, CloseReason::DriverSessionEnded, &Actor::System).await?.is_some())
}

pub async fn any_ended(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let ended = sqlx::query_scalar!(
        r#"select exists(select from agent_sessions a where a.status = 'active'
               and not exists (select from sessions s where s.id = a.session_id and s.live)) as "ended!""#,
    );
    ended.fetch_one(conn).await
}

/// `conn` is in a transaction.
pub async fn close_ended(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let ended = sqlx::query!(
        "select a.id, a.account_id from agent_sessions a
         where a.status = 'active' and not exists (select from sessions s where s.id = a.session_id and s.live)
         order by a.account_id, a.id limit $1 for update skip locked",
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut closed = 0;
    for row in ended {
        let reason = CloseReason::DriverSessionEnded;
        closed += u64::from(close(&mut *conn, row.account_id, row.id, reason, &Actor::System).await?.is_some());
    }
    Ok(closed)
}

/// Closes all agent sessions of a suspended or deleted account. The caller ends the driver sessions together with the account's
/// other sessions.
pub async fn close_of(conn: &mut PgConnection, account: AccountId, reason: CloseReason) -> sqlx::Result<()> {
    let active = sqlx::query_scalar!(
        "select id from agent_sessions where account_id = $1 and status = 'active' order by id for update",
        account as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    for id in active {
        close(&mut *conn, account, id, reason, &Actor::System).await?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account's agent sessions store {current} bytes; the limit is {limit}")]
pub struct TooManyBytes {
    pub current: i64,
    pub limit: u64,
}

/// Contract: agents 38. The caller has locked the account. Triggers maintain the byte counts, and an index covers them.
pub async fn require_space(
    conn: &mut PgConnection,
    account: AccountId,
    limits: &Limits,
) -> sqlx::Result<Result<(), TooManyBytes>> {
    let current = sqlx::query_scalar!(
        r#"select coalesce(sum(stored_bytes), 0)::bigint as "bytes!" from agent_sessions
           where account_id = $1 and stored_bytes > 0"#,
        account as _,
    )
    .fetch_one(conn)
    .await?;
    let limit = limits.agent_bytes_per_account;
    let has_room = u64::try_from(current).is_ok_and(|current| current < limit);
    Ok(if has_room { Ok(()) } else { Err(TooManyBytes { current, limit }) })
}

/// `false` if one of its turns is still running.
pub async fn purge_closed(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<bool> {
    let purged = sqlx::query!(
        "delete from agent_sessions where id = $1 and account_id = $2 and status = 'closed' and turn_id is null",
        id as _,
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected() > 0)
}

/// Also deletes receipts, idempotency keys and model spending.
async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    close_of(&mut *conn, account, CloseReason::AccountDeleted).await?;
    sqlx::query!("delete from agent_message_receipts where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("delete from agent_session_creates where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("delete from bundled_model_spending where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}
