//! Control of an agent session (contract: agents 8 to 13). In pair mode a human's client can take it over from the AI,
//! and keeps it while it sends heartbeats. Each change locks the agent session's row, and a turn checks the row before
//! each step, so that it does not interfere with a human.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, SessionId};
use kitfleet_types::validation::{Invalid, Rules};
use serde_json::json;
use sqlx::PgConnection;

use super::{Mode, close_if_ended};
use crate::audit::changes::{self, TooManyChanges};
use crate::audit::{self, Actor, Entry};
use crate::metrics::Counter;

pub(super) const TRANSITIONS: Counter<2> = Counter::new(
    "service_pair_mode_transition_total",
    "Changes of the driver of an agent session in pair mode, by previous and next driver.",
    ["from", "to"],
)
.starting_with(|| {
    let (ai, human) = (Lane::AiDriving.into(), Lane::HumanDriving.into());
    vec![[ai, human], [human, ai]]
});

const CLIENT_CHARS: usize = 128;

/// Clients that act at the same time must use different names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientId(String);

impl ClientId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn parse(text: String) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        rules.length(&text, 1, CLIENT_CHARS, "client_id");
        rules.require(!text.contains(char::is_control), "client_id", "must not contain control characters");
        rules.check()?;
        Ok(Self(text))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    #[error("there is no such agent session")]
    NoSession,
    #[error("the agent session is closed")]
    Closed,
    #[error("the agent session is not in pair mode")]
    NotPair,
    #[error("another client controls the agent session")]
    DrivenByAnother,
    #[error("this client does not control the agent session")]
    NotDriving,
    #[error("a human controls the agent session; hand it back first")]
    HumanDrives,
    #[error("no turn is in progress")]
    NoTurn,
    #[error(transparent)]
    TooManyChanges(#[from] TooManyChanges),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The driver, as named in the audit log and the metric.
#[derive(Debug, Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
enum Lane {
    AiDriving,
    HumanDriving,
}

#[derive(Debug)]
pub(super) struct Locked {
    account: AccountId,
    id: AgentSessionId,
    mode: Mode,
    driver: Option<String>,
}

/// Takes the lane from a human who was silent for `patience`.
pub(super) async fn lock(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    patience: Duration,
) -> Result<Locked, LaneError> {
    let row = sqlx::query!(
        r#"select mode as "mode: Mode", driver, heard_at <= now() - make_interval(secs => $3) as lapsed,
                  status = 'active' and exists (select from sessions s where s.id = session_id and s.live) as "active!"
           from agent_sessions where id = $1 and account_id = $2 for update"#,
        id as _,
        account as _,
        patience.as_secs_f64(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(LaneError::NoSession)?;
    if !row.active {
        close_if_ended(conn, account, id).await?;
        return Err(LaneError::Closed);
    }
    let mut locked = Locked { account, id, mode: row.mode, driver: row.driver };
    if row.lapsed == Some(true) {
        locked.time_out(conn).await?;
    }
    Ok(locked)
}

impl Locked {
    async fn drive(&mut self, conn: &mut PgConnection, driver: Option<String>) -> sqlx::Result<()> {
        sqlx::query!(
            "update agent_sessions
             set driver = $2, heard_at = case when $2::text is not null then clock_timestamp() end, updated_at = clock_timestamp(),
                 interrupted = case when $2::text is not null then turn_id else interrupted end
             where id = $1",
            self.id as _,
            driver,
        )
        .execute(conn)
        .await?;
        self.driver = driver;
        Ok(())
    }

    async fn time_out(&mut self, conn: &mut PgConnection) -> sqlx::Result<()> {
        self.drive(&mut *conn, None).await?;
        self.record(
            conn,
            "agent_session.pair_mode.timeout",
            (Lane::HumanDriving, Lane::AiDriving),
            None,
            &Actor::System,
        )
        .await
    }

    async fn record(
        &self,
        conn: &mut PgConnection,
        action: &'static str,
        (from, to): (Lane, Lane),
        client: Option<&str>,
        actor: &Actor,
    ) -> sqlx::Result<()> {
        let (from, to): (&'static str, &'static str) = (from.into(), to.into());
        let mut payload = json!({"from": from, "to": to});
        if let Some(client) = client {
            payload["client_id"] = client.into();
        }
        let entry = Entry { action, target: Some(self.id.to_string()), payload };
        audit::record(conn, self.account, actor, entry).await?;
        TRANSITIONS.with([from, to]).increment(1);
        Ok(())
    }
}

/// The caller has locked the agent session's row.
pub(super) async fn lapse(conn: &mut PgConnection, account: AccountId, id: AgentSessionId) -> sqlx::Result<()> {
    Locked { account, id, mode: Mode::Pair, driver: None }.time_out(conn).await
}

/// If the client already has the lane, this only records a heartbeat.
///
/// For all functions of this module, `conn` is in a transaction, which the caller must commit even if the lane does not change.
pub async fn take_over(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    client: &ClientId,
    patience: Duration,
    per_hour: NonZeroU32,
    actor: &Actor,
) -> Result<(), LaneError> {
    changes::count(&mut *conn, account, per_hour).await??;
    let changed = give_to(&mut *conn, (account, id), client, patience, actor).await;
    keep_count_of(conn, account, per_hour, changed).await
}

async fn give_to(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    client: &ClientId,
    patience: Duration,
    actor: &Actor,
) -> Result<bool, LaneError> {
    let mut locked = lock(&mut *conn, account, id, patience).await?;
    if locked.mode != Mode::Pair {
        return Err(LaneError::NotPair);
    }
    match &locked.driver {
        Some(driver) if *driver == client.0 => {
            update_heartbeat(conn, id).await?;
            Ok(false)
        }
        Some(_) => Err(LaneError::DrivenByAnother),
        None => {
            locked.drive(&mut *conn, Some(client.0.clone())).await?;
            let lanes = (Lane::AiDriving, Lane::HumanDriving);
            locked.record(conn, "agent_session.pair_mode.takeover", lanes, Some(&client.0), actor).await?;
            Ok(true)
        }
    }
}

/// Removes a change from the count if nothing changed.
async fn keep_count_of(
    conn: &mut PgConnection,
    account: AccountId,
    per_hour: NonZeroU32,
    changed: Result<bool, LaneError>,
) -> Result<(), LaneError> {
    if !matches!(changed, Ok(true) | Err(LaneError::Database(_))) {
        changes::uncount(conn, account, per_hour).await?;
    }
    changed.map(drop)
}

pub async fn hand_back(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    client: &ClientId,
    patience: Duration,
    actor: &Actor,
) -> Result<(), LaneError> {
    let mut locked = lock(&mut *conn, account, id, patience).await?;
    if locked.driver.as_ref() != Some(&client.0) {
        return Err(LaneError::NotDriving);
    }
    locked.drive(&mut *conn, None).await?;
    let lanes = (Lane::HumanDriving, Lane::AiDriving);
    Ok(locked.record(conn, "agent_session.pair_mode.handback", lanes, None, actor).await?)
}

/// Also returns an error if the client lost the lane because it was silent for `patience`.
pub async fn heartbeat(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    client: &ClientId,
    patience: Duration,
) -> Result<(), LaneError> {
    let locked = lock(&mut *conn, account, id, patience).await?;
    if locked.driver.as_ref() != Some(&client.0) {
        return Err(LaneError::NotDriving);
    }
    Ok(update_heartbeat(conn, id).await?)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneState {
    pub mode: Mode,
    /// Sent a heartbeat within the patience.
    pub driver: Option<String>,
}

/// `None` if the session belongs to no active agent session.
pub async fn state(conn: &mut PgConnection, session: SessionId, patience: Duration) -> sqlx::Result<Option<LaneState>> {
    sqlx::query_as!(
        LaneState,
        r#"select mode as "mode: Mode",
                  case when heard_at > now() - make_interval(secs => $2) then driver end as driver
           from agent_sessions where session_id = $1 and status = 'active'"#,
        session as _,
        patience.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
}

/// Records a heartbeat for an open connection (contract: live 11). Does nothing if the client does not have the lane.
pub async fn record_heartbeat(
    conn: &mut PgConnection,
    session: SessionId,
    client: &str,
    patience: Duration,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update agent_sessions set heard_at = clock_timestamp()
         where session_id = $1 and status = 'active' and driver = $2 and heard_at > now() - make_interval(secs => $3)",
        session as _,
        client,
        patience.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn update_heartbeat(conn: &mut PgConnection, id: AgentSessionId) -> sqlx::Result<()> {
    sqlx::query!("update agent_sessions set heard_at = clock_timestamp() where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// The turn in progress starts no further step. A second call while it ends changes nothing.
pub async fn cancel_turn(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    patience: Duration,
) -> Result<(), LaneError> {
    lock(&mut *conn, account, id, patience).await?;
    let cancelled = sqlx::query!(
        "update agent_sessions set interrupted = turn_id, updated_at = clock_timestamp() where id = $1 and turn_id is not null",
        id as _,
    )
    .execute(conn)
    .await?;
    if cancelled.rows_affected() == 0 { Err(LaneError::NoTurn) } else { Ok(()) }
}

pub async fn set_mode(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    mode: Mode,
    patience: Duration,
    per_hour: NonZeroU32,
    actor: &Actor,
) -> Result<(), LaneError> {
    changes::count(&mut *conn, account, per_hour).await??;
    let changed = change_mode(&mut *conn, (account, id), mode, patience, actor).await;
    keep_count_of(conn, account, per_hour, changed).await
}

async fn change_mode(
    conn: &mut PgConnection,
    (account, id): (AccountId, AgentSessionId),
    mode: Mode,
    patience: Duration,
    actor: &Actor,
) -> Result<bool, LaneError> {
    let locked = lock(&mut *conn, account, id, patience).await?;
    if locked.driver.is_some() {
        return Err(LaneError::HumanDrives);
    }
    if locked.mode == mode {
        return Ok(false);
    }
    sqlx::query!(
        "update agent_sessions
         set mode = $2, updated_at = clock_timestamp(), interrupted = case when $2 = 'manual' then turn_id else interrupted end
         where id = $1",
        id as _,
        mode as _,
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"from": locked.mode, "to": mode});
    let entry = Entry { action: "agent_session.mode.changed", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

pub async fn any_silent(conn: &mut PgConnection, patience: Duration) -> sqlx::Result<bool> {
    let silent = sqlx::query_scalar!(
        r#"select exists(select from agent_sessions
               where driver is not null and heard_at <= now() - make_interval(secs => $1)) as "silent!""#,
        patience.as_secs_f64(),
    );
    silent.fetch_one(conn).await
}

/// Contract: agents 12. Skips locked rows, because a heartbeat may just be written to them.
pub async fn time_out(conn: &mut PgConnection, patience: Duration, limit: i64) -> sqlx::Result<u64> {
    let lapsed = sqlx::query!(
        r#"select id, account_id, mode as "mode: Mode", driver from agent_sessions
           where driver is not null and heard_at <= now() - make_interval(secs => $1)
           order by account_id, id limit $2 for update skip locked"#,
        patience.as_secs_f64(),
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut timed_out = 0;
    for row in lapsed {
        let mut locked = Locked { account: row.account_id, id: row.id, mode: row.mode, driver: row.driver };
        locked.time_out(&mut *conn).await?;
        timed_out += 1;
    }
    Ok(timed_out)
}
