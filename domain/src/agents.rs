//! Agent sessions (contract: agents): a browser that is told in words what to do, by an AI, by a human, or by both in turns.
//!
//! An agent session owns one driver session, which is a session like any other: it takes a slot of the account, ends as sessions
//! end, and can be driven directly. An agent session whose driver session has ended is closed from that moment on, whoever
//! looks; it is written down, and in the audit log, by who looks first, or within seconds.

pub mod approvals;
pub mod commands;
pub mod creates;
pub mod decomposers;
mod dictionary;
pub mod grammar;
pub mod hiding;
mod keeping;
pub mod lanes;
pub mod model_turns;
pub mod receipts;
pub mod steps;
pub mod texts;
pub mod turn_lifecycle;
pub mod turns;
pub mod typed;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::area::{Area, Bound, Purge, ScheduledJob, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::blocking::run_blocking;
use crate::database;
use crate::ids::{AccountId, AgentSessionId, ProfileId, ProxyId, SessionId, StepId, TurnId};
use crate::limits::Limits;
use crate::timestamp::Timestamp;
use crate::vault::Vault;

pub(crate) const AREA: Area = Area {
    kept: &[("agent_model_uses", "one a turn at most, purged with it"), ("bundled_model_spending", "one an account")],
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
    ],
    chains: &[SWEEP_PAIR_HEARTBEATS, CLOSE_ENDED],
    losses: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
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

/// What the vault is told that what is said in agent sessions is for.
const PURPOSE: &str = "agents";

/// Seals what was said, and what was made of it.
#[derive(Debug, Clone)]
pub struct Sealer(Vault);

impl Sealer {
    /// One that uses the deployment's keys where it has some, and otherwise one that its processes share.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<Self> {
        database::vault(conn, PURPOSE, configured).await.map(Self)
    }

    /// Seals something of the turn or step of this id.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn seal(&self, owner: &str, secret: &impl Serialize) -> sqlx::Result<Vec<u8>> {
        let text = serde_json::to_vec(secret).map_err(|error| sqlx::Error::Encode(error.into()))?;
        Ok(run_blocking(text.len(), || self.0.seal(PURPOSE, owner, &text)))
    }

    /// Opens something of the turn or step of this id.
    ///
    /// # Errors
    /// When it was sealed with a key that this process does not have, or by another version of this program.
    pub fn open<T: DeserializeOwned>(&self, owner: &str, sealed: &[u8]) -> sqlx::Result<T> {
        run_blocking(sealed.len(), || {
            let text = self.0.open(PURPOSE, owner, sealed).map_err(|error| sqlx::Error::Decode(error.into()))?;
            serde_json::from_slice(&text).map_err(|error| sqlx::Error::Decode(error.into()))
        })
    }
}

/// Returns the lane to the AI where a human who drives was not heard of for long.
pub const SWEEP_PAIR_HEARTBEATS: ScheduledJob = ScheduledJob { name: "sweep_pair_heartbeats", period: 5 };

/// Closes agent sessions whose driver session has ended.
pub const CLOSE_ENDED: ScheduledJob = ScheduledJob { name: "close_agent_sessions", period: 5 };

/// Characters of a message (contract: agents 15).
pub const MESSAGE_CHARS: usize = 10_000;

/// What an operator may choose of agent sessions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a human who drives may be silent.
    pub heartbeat_timeout: Duration,
    /// Tokens that models may use for an agent session that asks for no number.
    pub default_token_budget: u32,
    /// Tokens that an agent session may ask for.
    pub max_token_budget: u32,
    /// Steps of one turn.
    pub max_steps_per_turn: usize,
    /// How often a model may be asked for one message.
    pub max_model_calls_per_turn: u32,
    /// What an account may spend in a month of the key that the deployment pays for, in cents; as much as it likes when there is none.
    pub bundled_monthly_cents: Option<u32>,
    /// How long an element that is described in words may take to appear.
    pub locate_timeout: Duration,
    /// How long a turn may take before it begins no further step.
    pub turn_timeout: Duration,
    /// Bytes of what the steps of a turn come to, as JSON. What is beyond is withheld, and ends the turn.
    pub turn_result_bytes: usize,
    /// Messages that an agent session takes.
    pub max_turns: u32,
    /// Bytes that are kept of them, with their receipts: an agent session that has more takes no further one.
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

/// An agent session, as customers see it.
#[derive(Debug, Clone)]
pub struct AgentSession {
    /// Its id.
    pub id: AgentSessionId,
    /// Whose it is.
    pub account_id: AccountId,
    /// Its driver session.
    pub session_id: SessionId,
    /// Who may drive.
    pub mode: Mode,
    /// Who does.
    pub control: Control,
    /// Where it stands.
    pub status: AgentStatus,
    /// Why it is closed.
    pub close_reason: Option<CloseReason>,
    /// The device that its browser is.
    pub archetype: String,
    /// What its browser began with.
    pub profile_id: Option<ProfileId>,
    /// The saved proxy that its browser leaves through; it may be gone when that has ended.
    pub proxy_id: Option<ProxyId>,
    /// The customer's words.
    pub label: Option<String>,
    /// Tokens that models may use for it.
    pub token_budget: i32,
    /// Tokens that they have used.
    pub tokens_used: i64,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its row last changed.
    pub updated_at: Timestamp,
    /// When it was closed.
    pub destroyed_at: Option<Timestamp>,
}

/// Who may drive an agent session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Mode {
    /// The customer, by operations on the driver session.
    Manual,
    /// The AI, by messages.
    #[default]
    Ai,
    /// The AI, until a human takes over.
    Pair,
}

impl Mode {
    /// As the contract spells them.
    pub const NAMES: [&'static str; 3] = ["manual", "ai", "pair"];

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Who drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Messages do.
    Ai,
    /// A human does, and messages are refused.
    Human,
}

/// Where an agent session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum AgentStatus {
    /// Its browser is there.
    Active,
    /// It was closed, for good.
    Closed,
}

impl AgentStatus {
    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why an agent session was closed (contract: agents 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum CloseReason {
    /// DELETE.
    Customer,
    /// Its driver session ended: it errored, was destroyed, or reached the age of a free-tier session.
    DriverSessionEnded,
    /// The account was suspended.
    AccountSuspended,
    /// The account was deleted.
    AccountDeleted,
}

impl CloseReason {
    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An agent session to be.
#[derive(Debug, Clone, Copy)]
pub struct NewAgentSession {
    /// Its id.
    pub id: AgentSessionId,
    /// Whose it will be.
    pub account: AccountId,
    /// Who may drive it.
    pub mode: Mode,
    /// Tokens that models may use for it.
    pub token_budget: i32,
}

/// Writes an agent session around a driver session that was created in the same transaction, and `agent_session.created`.
///
/// # Errors
/// When the database fails.
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

/// Writes down what has become of the account's agent sessions by itself: those whose driver session has ended are closed, and humans
/// who were not heard of for `patience` drive no more. So whoever is told of it finds it in the audit log. Who is at that already is
/// waited for.
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

/// The account's agent session of this id. A human who was not heard of for `patience` does not drive any more.
///
/// # Errors
/// When the database fails.
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

/// Whether the account has an agent session of this id.
///
/// # Errors
/// When the database fails.
pub async fn exists(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists(select from agent_sessions where id = $1 and account_id = $2) as "exists!""#,
        id as _,
        account as _,
    )
    .fetch_one(conn)
    .await
}

/// Which agent sessions to list.
#[derive(Debug, Default)]
pub struct Filter<'a> {
    /// Only those that stand there.
    pub status: Option<AgentStatus>,
    /// Only those with exactly this label.
    pub label: Option<&'a str>,
    /// Only those before this one, in the list's order.
    pub after: Option<AgentSessionId>,
}

/// The account's agent sessions, newest first, at most `limit`.
///
/// # Errors
/// When the database fails.
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

/// Closes the account's agent session, and says so in the audit log. Answers its driver session, whose end is the caller's
/// business; `None` when it was closed before, or there is none.
///
/// # Errors
/// When the database fails.
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

/// Closes the account's agent session if its driver session has ended. Whether that was so, and nobody had done it.
///
/// # Errors
/// When the database fails.
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

/// Whether any agent session is active whose driver session has ended, which [`close_ended`] would close.
///
/// # Errors
/// When the database fails.
pub async fn any_ended(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let ended = sqlx::query_scalar!(
        r#"select exists(select from agent_sessions a where a.status = 'active'
               and not exists (select from sessions s where s.id = a.session_id and s.live)) as "ended!""#,
    );
    ended.fetch_one(conn).await
}

/// Closes agent sessions whose driver session has ended, at most `limit`. Answers how many. `conn` is in a transaction.
///
/// # Errors
/// When the database fails.
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

/// Closes all agent sessions of an account that may not act any more. Their driver sessions end with those of the account.
///
/// # Errors
/// When the database fails.
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

/// The account's agent sessions keep as many bytes as they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account's agent sessions store {current} bytes; the limit is {limit}")]
pub struct TooManyBytes {
    /// Bytes that they keep.
    pub current: i64,
    /// Bytes that they may keep.
    pub limit: u64,
}

/// Whether the account's agent sessions may keep more than they do (contract: agents 38). The caller has locked the account. An
/// index holds the counts, which triggers keep.
///
/// # Errors
/// When the database fails.
pub async fn require_room(
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

/// Deletes an agent session that is closed, with all that was said in it, its receipts and its idempotency key. `false` when a
/// turn of it is still under way, or there is no such agent session.
///
/// # Errors
/// When the database fails.
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

/// What a deleted account loses: its agent sessions are closed, and no message can be repeated any more.
async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    close_of(&mut *conn, account, CloseReason::AccountDeleted).await?;
    sqlx::query!("delete from agent_message_receipts where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("delete from agent_session_creates where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("delete from bundled_model_spending where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}
