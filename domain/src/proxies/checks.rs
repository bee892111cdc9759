//! Trying out whether a saved proxy works (contract: proxies 12 to 14). The process that was asked dials nothing: it gives a worker
//! a check, and waits until that has said what it came to.
//!
//! The row of a check is the account's turn to have one. Whoever waits takes it away; when nobody does any more it is worth nothing
//! after a while, and the next check takes its place.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::Scheme;
use super::in_use::{InUse, LockedProxy, Secrets, proxy_of};
use crate::ids::{AccountId, ProxyCheckId, ProxyId, WorkerId};
use crate::sealing;
use crate::workers::SelectedWorker;

/// How long a worker tries.
pub const WITHIN: Duration = Duration::from_secs(20);
/// How long a check may wait for its worker.
const BEGUN_WITHIN: Duration = Duration::from_secs(5);
/// How long whoever wants to know waits at most.
pub const HEARD_WITHIN: Duration = BEGUN_WITHIN.saturating_add(WITHIN);

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Whether something can leave through it.
    pub reachable: bool,
    /// Milliseconds until it did.
    pub latency_ms: Option<u64>,
    /// The address as which it leaves, where that was asked for.
    pub exit_address: Option<IpAddr>,
    /// What it can do, as sessions tell it.
    pub capabilities: Option<Value>,
    /// Why nothing can, in words without secrets.
    pub error: Option<String>,
}

impl Checked {
    /// Nothing can leave, for this reason.
    #[must_use]
    pub fn unreachable(error: impl Into<String>) -> Self {
        Self { reachable: false, latency_ms: None, exit_address: None, capabilities: None, error: Some(error.into()) }
    }
}

/// Gives `worker` a check of a proxy. `None` while another one of the account is under way.
///
/// # Errors
/// When the database fails.
pub async fn begin(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProxyCheckId,
    (proxy, secrets): (&LockedProxy, &Secrets),
    worker: &SelectedWorker,
    reply_channel: &str,
) -> sqlx::Result<bool> {
    let sealed = sealing::seal(secrets, &worker.public_key).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let begun = sqlx::query!(
        "insert into proxy_checks
             (account_id, id, proxy_id, worker_id, scheme, host, port, username, sealed_secrets, reply_channel)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (account_id) do update
         set id = excluded.id, proxy_id = excluded.proxy_id, worker_id = excluded.worker_id, scheme = excluded.scheme,
             host = excluded.host, port = excluded.port, username = excluded.username,
             sealed_secrets = excluded.sealed_secrets, reply_channel = excluded.reply_channel, outcome = null,
             created_at = now(), begun_at = null, done_at = null
         where proxy_checks.created_at < now() - make_interval(secs => $11)",
        account as _,
        id as _,
        proxy.id as _,
        worker.id as _,
        proxy.scheme as _,
        proxy.host,
        proxy.port,
        proxy.username,
        sealed,
        reply_channel,
        HEARD_WITHIN.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(begun.rows_affected() == 1)
}

/// Begins a check that was given to this worker. `None` when somebody has begun it, or nobody waits for it any more: it is done
/// once.
///
/// # Errors
/// When the database fails.
pub async fn take(conn: &mut PgConnection, worker: WorkerId, id: ProxyCheckId) -> sqlx::Result<Option<InUse>> {
    let taken = sqlx::query!(
        r#"with waiting as (
               select id, sealed_secrets from proxy_checks
               where id = $1 and worker_id = $2 and begun_at is null
                 and created_at > now() - make_interval(secs => $3) for update
           )
           update proxy_checks c set begun_at = now(), sealed_secrets = null from waiting where c.id = waiting.id
           returning c.proxy_id as "proxy_id: ProxyId", c.scheme as "scheme: Scheme", c.host, c.port, c.username,
                     waiting.sealed_secrets as "sealed_secrets!""#,
        id as _,
        worker as _,
        BEGUN_WITHIN.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    taken
        .map(|row| proxy_of(row.proxy_id, row.scheme, &row.host, row.port, row.username, row.sealed_secrets))
        .transpose()
}

/// Says what a check came to. Answers where somebody waits for it; `None` when nobody does any more.
///
/// # Errors
/// When the database fails.
pub async fn finish(conn: &mut PgConnection, id: ProxyCheckId, checked: &Checked) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "update proxy_checks set outcome = $2, done_at = now() where id = $1 and done_at is null returning reply_channel",
        id as _,
        json!(checked),
    )
    .fetch_optional(conn)
    .await
}

/// How a check stands.
#[derive(Debug)]
pub enum CheckStatus {
    /// Its worker has it.
    UnderWay,
    /// It came to this.
    Done(Checked),
    /// Its worker is gone.
    Lost,
}

/// How a check stands that was given to a worker.
///
/// # Errors
/// When the database fails.
pub async fn standing(conn: &mut PgConnection, id: ProxyCheckId) -> sqlx::Result<CheckStatus> {
    let row = sqlx::query!(
        r#"select c.outcome, coalesce(w.status in ('active', 'draining'), false) as "lives!"
           from proxy_checks c left join workers w on w.id = c.worker_id where c.id = $1"#,
        id as _,
    );
    let Some(row) = row.fetch_optional(conn).await? else { return Ok(CheckStatus::Lost) };
    Ok(match row.outcome {
        Some(outcome) => {
            CheckStatus::Done(serde_json::from_value(outcome).map_err(|error| sqlx::Error::Decode(error.into()))?)
        }
        None if row.lives => CheckStatus::UnderWay,
        None => CheckStatus::Lost,
    })
}

/// Forgets a check: whoever waited has heard of it, or does not wait any more.
///
/// # Errors
/// When the database fails.
pub async fn forget(conn: &mut PgConnection, id: ProxyCheckId) -> sqlx::Result<()> {
    sqlx::query!("delete from proxy_checks where id = $1", id as _).execute(conn).await?;
    Ok(())
}
