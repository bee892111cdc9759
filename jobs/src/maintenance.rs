//! Scheduled jobs, which any worker runs: a tick of a chain ([`Chain`]) that an area declares.
//!
//! Each chain has one row for its next tick, held by a unique key: however many workers schedule it, one row is written
//! and one worker runs it. Nothing depends on the previous tick having run, so that a crash cannot break a chain.

use std::borrow::Cow;

use kitfleet_domain::area::Chain;
use kitfleet_domain::areas;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;

/// A tick of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaintenanceJob {
    chain: Cow<'static, str>,
}

impl MaintenanceJob {
    /// The queue all of them wait in.
    pub const QUEUE: &'static str = "maintenance";

    /// The chain's name.
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.chain
    }
}

impl From<Chain> for MaintenanceJob {
    fn from(chain: Chain) -> Self {
        Self { chain: chain.name.into() }
    }
}

impl Job for MaintenanceJob {
    fn queue(&self) -> String {
        Self::QUEUE.to_owned()
    }
}

/// Sees to it that each chain's next tick has its row.
///
/// # Errors
/// When the database fails.
pub async fn schedule(conn: &mut PgConnection) -> sqlx::Result<()> {
    for chain in areas::chains() {
        sqlx::query(
            "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, idempotency_key)
             select $1, $2, $3, 'Pending', 0, 1, to_timestamp(tick * $4), 0, $5 || ':' || tick
             from (select floor(extract(epoch from now()) / $4)::bigint + 1 as tick) next
             on conflict (job_type, idempotency_key) do nothing",
        )
        .bind(ulid::Ulid::generate().to_string())
        .bind(MaintenanceJob::QUEUE)
        .bind(serde_json::to_vec(&MaintenanceJob::from(chain)).map_err(|e| sqlx::Error::Encode(e.into()))?)
        .bind(chain.period)
        .bind(chain.name)
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// Whether each chain has a row that waits, for `service_scheduled_job_chain_pending`.
///
/// # Errors
/// When the database fails.
pub async fn pending_chains(conn: &mut PgConnection) -> sqlx::Result<Vec<(&'static str, bool)>> {
    let mut chains = Vec::new();
    for chain in areas::chains() {
        let pending = sqlx::query_scalar(
            "select exists(select from apalis.jobs
                           where job_type = $1 and status = 'Pending' and idempotency_key like $2 || ':%')",
        )
        .bind(MaintenanceJob::QUEUE)
        .bind(chain.name)
        .fetch_one(&mut *conn)
        .await?;
        chains.push((chain.name, pending));
    }
    Ok(chains)
}
