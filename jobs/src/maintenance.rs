//! Scheduled jobs, which any worker runs.
//!
//! Each chain has one row for its next tick, held by a unique key: however many workers schedule it, one row is written
//! and one worker runs it. Nothing depends on the previous tick having run, so that a crash cannot break a chain.

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;

/// A tick of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaintenanceJob {
    /// Destroys free-tier sessions that reached their age.
    SweepFreeTier,
    /// Enqueues mails that wait for another attempt, and those whose worker died.
    SendDueEmails,
    /// Fails webhook deliveries to endpoints that are disabled.
    GiveUpDeliveries,
    /// Mails the owners of webhook endpoints whose secrets are old, or stop to sign soon.
    RemindWebhookSecrets,
    /// Purges profiles that were in the recycle bin for long enough, and what nobody refers to any more.
    SweepRetention,
    /// Wipes results and deletes finished jobs.
    PurgeFinished,
}

impl MaintenanceJob {
    /// The queue all of them wait in.
    pub const QUEUE: &'static str = "maintenance";

    /// Every chain.
    pub const ALL: [Self; 6] = [
        Self::SweepFreeTier,
        Self::SendDueEmails,
        Self::GiveUpDeliveries,
        Self::RemindWebhookSecrets,
        Self::SweepRetention,
        Self::PurgeFinished,
    ];

    /// As operators and metrics name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SweepFreeTier => "sweep_free_tier",
            Self::SendDueEmails => "send_due_emails",
            Self::GiveUpDeliveries => "give_up_deliveries",
            Self::RemindWebhookSecrets => "remind_webhook_secrets",
            Self::SweepRetention => "sweep_retention",
            Self::PurgeFinished => "purge_finished",
        }
    }

    /// Seconds between ticks.
    fn period(self) -> i32 {
        match self {
            Self::SweepFreeTier | Self::SendDueEmails | Self::GiveUpDeliveries => 5,
            Self::RemindWebhookSecrets | Self::SweepRetention | Self::PurgeFinished => 60,
        }
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
    for chain in MaintenanceJob::ALL {
        sqlx::query(
            "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, idempotency_key)
             select $1, $2, $3, 'Pending', 0, 1, to_timestamp(tick * $4), 0, $5 || ':' || tick
             from (select floor(extract(epoch from now()) / $4)::bigint + 1 as tick) next
             on conflict (job_type, idempotency_key) do nothing",
        )
        .bind(ulid::Ulid::generate().to_string())
        .bind(MaintenanceJob::QUEUE)
        .bind(serde_json::to_vec(&chain).map_err(|e| sqlx::Error::Encode(e.into()))?)
        .bind(chain.period())
        .bind(chain.name())
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
    for chain in MaintenanceJob::ALL {
        let pending = sqlx::query_scalar(
            "select exists(select from apalis.jobs
                           where job_type = $1 and status = 'Pending' and idempotency_key like $2 || ':%')",
        )
        .bind(MaintenanceJob::QUEUE)
        .bind(chain.name())
        .fetch_one(&mut *conn)
        .await?;
        chains.push((chain.name(), pending));
    }
    Ok(chains)
}
