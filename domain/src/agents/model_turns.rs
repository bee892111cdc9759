//! Turns whose message a model interprets (contract: byok 17 to 24): their stored state and their token usage.
//!
//! The turn starts before the first model call, because calls cost money: a second worker that receives the turn finds
//! it started. New steps are committed before they run. Token usage is stored as totals, so that a repeated write does
//! not count it twice.

use std::time::Duration;

use kitfleet_types::ids::{AgentSessionId, TurnId};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Sealer;
use super::queued_turn::{QueuedTurn, StopReason};
use super::steps::{self, Step};
use super::turns::{TurnKind, TurnTexts};
use crate::audit::Entry;
use crate::blocking::run_blocking;
use crate::byok::Provider;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelUsage {
    pub input: i64,
    pub output: i64,
    pub cache_write: i64,
    pub cache_read: i64,
    pub cost_cents: f64,
}

impl ModelUsage {
    /// Counts against the budget.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        self.input.saturating_add(self.output).saturating_add(self.cache_write).saturating_add(self.cache_read)
    }
}

/// `false` if another process, with a different `asker`, has started or ended the turn.
///
/// After an error the call may be repeated.
pub async fn begin(
    conn: &mut PgConnection,
    turn: &QueuedTurn,
    asker: Uuid,
    (provider, model): (Provider, &str),
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"with begun as (
               update agent_turns set status = 'running', started_at = now(), decomposer = 'claude'
               where id = $1 and status = 'queued' returning id
           ), noted as (
               insert into agent_model_uses (turn_id, asker, provider, model) select id, $2, $3, $4 from begun
           )
           select exists (select from begun)
                  or exists (select from agent_model_uses where turn_id = $1 and asker = $2) as "begun!""#,
        turn.id as _,
        asker,
        provider as _,
        model,
    )
    .fetch_one(conn)
    .await
}

#[derive(Debug)]
pub struct TurnContext {
    pub stop: Option<StopReason>,
    pub tokens_left: i64,
    /// Cents in this month, with the deployment's key.
    pub bundled_cents: f64,
}

/// A human who was silent for `patience` does not count as driving.
pub async fn turn_context(conn: &mut PgConnection, turn: &QueuedTurn, patience: Duration) -> sqlx::Result<TurnContext> {
    let row = sqlx::query!(
        r#"select mode = 'manual' or coalesce(heard_at > now() - make_interval(secs => $3), false) or interrupted is not distinct from $2
                  as "driven!",
                  turn_credential_holds($2, a.account_id) as "holds!", token_budget - tokens_used as "left!", coalesce(cost_cents, 0) as "spent!"
           from agent_sessions a left join bundled_model_spending s
                on s.account_id = a.account_id and s.month = date_trunc('month', now() at time zone 'utc')
           where id = $1 and turn_id = $2 and status = 'active'"#,
        turn.session as _,
        turn.id as _,
        patience.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(match row {
        None => TurnContext { stop: Some(StopReason::Closed), tokens_left: 0, bundled_cents: 0.0 },
        Some(row) => {
            let stop = if row.holds { row.driven.then_some(StopReason::Driven) } else { Some(StopReason::Revoked) };
            TurnContext { stop, tokens_left: row.left, bundled_cents: row.spent }
        }
    })
}

/// Stores the model usage of the turn so far, on the turn and on its agent session, whatever their status. If the deployment
/// `paid`, the cost of the last call is added to the account's spending.
///
/// # Errors
/// Returns an error if the database fails. The call may be repeated.
pub async fn note(
    conn: &mut PgConnection,
    turn: &QueuedTurn,
    (provider, model): (Provider, &str),
    taken: &ModelUsage,
    paid: bool,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with before as (
             select id, tokens_used from agent_turns where id = $1 for update
         ), spent as (
             insert into bundled_model_spending as s (account_id, month, cost_cents)
             select $12, date_trunc('month', now() at time zone 'utc'), $10 - u.cost_cents
             from agent_model_uses u where u.turn_id = $1 and $11
             on conflict (account_id) do update
             set cost_cents = excluded.cost_cents + case when s.month = excluded.month then s.cost_cents else 0 end,
                 month = excluded.month
         ), used as (
             update agent_model_uses
             set provider = $4, model = $5, input_tokens = $6, output_tokens = $7, cache_write_tokens = $8,
                 cache_read_tokens = $9, cost_cents = $10
             where turn_id = $1
         ), turn as (
             update agent_turns t set tokens_used = $3 from before where t.id = before.id
         )
         update agent_sessions a set tokens_used = a.tokens_used + $3 - before.tokens_used from before where a.id = $2",
        turn.id as _,
        turn.session as _,
        i32::try_from(taken.tokens()).unwrap_or(i32::MAX),
        provider as _,
        model,
        taken.input,
        taken.output,
        taken.cache_write,
        taken.cache_read,
        taken.cost_cents,
        paid,
        turn.account as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The plan has `before` steps, and `shown` is the message as transcripts show it now. Returns `false` if another process
/// has ended the turn. `conn` is in a transaction.
///
/// After an error the call may be repeated.
pub async fn extend(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    shown: &str,
    (before, steps): (usize, &[Step]),
) -> sqlx::Result<bool> {
    let texts = TurnTexts { message: shown.to_owned(), ..TurnTexts::default() };
    let running = sqlx::query!(
        "update agent_turns set sealed_said = $2 where id = $1 and status = 'running'",
        turn.id as _,
        sealer.seal(&turn.id.to_string(), &texts)?,
    )
    .execute(&mut *conn)
    .await?;
    if running.rows_affected() == 0 {
        return Ok(false);
    }
    steps::leave_out(&mut *conn, turn).await?;
    steps::append(conn, sealer, turn, before, steps).await?;
    Ok(true)
}

/// Oldest first, as the transcript shows them.
pub async fn conversation(
    conn: &mut PgConnection,
    sealer: &Sealer,
    session: AgentSessionId,
    limit: i64,
) -> sqlx::Result<Vec<TurnTexts>> {
    let rows = sqlx::query!(
        "select id, sealed_said from agent_turns
         where agent_session_id = $1 and status = 'done' and not lost order by id desc limit $2",
        session as _,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let texts = steps::typed(conn, session).await?;
    let bytes = texts.weight() + rows.iter().map(|row| row.sealed_said.len()).sum::<usize>();
    run_blocking(bytes, || {
        let typed = texts.open(sealer)?;
        let shown = rows.into_iter().rev().map(|row| {
            let mut texts: TurnTexts = sealer.open(&row.id.to_string(), &row.sealed_said)?;
            texts.hide(&typed, &[]);
            Ok(texts)
        });
        shown.collect()
    })
}

/// Contract: byok 22. `None` if no model was used.
pub(super) async fn entry(
    conn: &mut PgConnection,
    (turn, session): (TurnId, AgentSessionId),
    kind: TurnKind,
) -> sqlx::Result<Option<Entry>> {
    let used = sqlx::query!(
        r#"select provider as "provider: Provider", model, input_tokens, output_tokens, cache_write_tokens,
                  cache_read_tokens, cost_cents
           from agent_model_uses where turn_id = $1"#,
        turn as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(used.map(|used| {
        let payload = json!({
            "agent_session_id": session,
            "turn_id": turn,
            "result_kind": kind,
            "provider": used.provider.name(),
            "model": used.model,
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "cost_cents": used.cost_cents,
        });
        Entry { action: "agent.decompose.claude", target: Some(session.to_string()), payload }
    }))
}
