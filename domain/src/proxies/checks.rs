//! Checks whether a saved proxy works (contract: proxies 12 to 14). The process that receives the request assigns the
//! check to a worker, which dials the proxy, and waits for the result.
//!
//! An account has at most one row, so one check at a time. The waiting request deletes the row. If it is cancelled, the
//! row expires and the next check replaces it.

use std::net::IpAddr;
use std::time::Duration;

use kitfleet_types::ids::{AccountId, ProxyCheckId, ProxyId, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::Scheme;
use super::in_use::{InUse, LockedProxy, Secrets, proxy_of};
use crate::sealing;
use crate::workers::SelectedWorker;

pub const WITHIN: Duration = Duration::from_secs(20);
const START_WITHIN: Duration = Duration::from_secs(5);
pub const RESULT_WITHIN: Duration = START_WITHIN.saturating_add(WITHIN);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    pub reachable: bool,
    /// Milliseconds until the connection was open.
    pub latency_ms: Option<u64>,
    /// IP address that the target sees, if it was requested.
    pub exit_address: Option<IpAddr>,
    /// Capabilities of the proxy, as sessions report them.
    pub capabilities: Option<Value>,
    /// Contains no secrets.
    pub error: Option<String>,
}

impl Checked {
    #[must_use]
    pub fn unreachable(error: impl Into<String>) -> Self {
        Self { reachable: false, latency_ms: None, exit_address: None, capabilities: None, error: Some(error.into()) }
    }
}

/// Returns false while another check of the account is in progress.
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
        RESULT_WITHIN.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(begun.rows_affected() == 1)
}

/// `None` when the check has already begun or has expired. A check runs once.
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
        START_WITHIN.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    taken
        .map(|row| proxy_of(row.proxy_id, row.scheme, &row.host, row.port, row.username, row.sealed_secrets))
        .transpose()
}

/// Returns the channel on which a request waits, if one does.
pub async fn finish(conn: &mut PgConnection, id: ProxyCheckId, checked: &Checked) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "update proxy_checks set outcome = $2, done_at = now() where id = $1 and done_at is null returning reply_channel",
        id as _,
        json!(checked),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub enum CheckStatus {
    UnderWay,
    Done(Checked),
    Lost,
}

pub async fn check_status(conn: &mut PgConnection, id: ProxyCheckId) -> sqlx::Result<CheckStatus> {
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

/// The request received the result or stopped waiting.
pub async fn forget(conn: &mut PgConnection, id: ProxyCheckId) -> sqlx::Result<()> {
    sqlx::query!("delete from proxy_checks where id = $1", id as _).execute(conn).await?;
    Ok(())
}
