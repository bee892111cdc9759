//! Scheduled jobs, which any worker runs. An area declares each as a [`ScheduledJob`].
//!
//! The row of the next tick has a unique key: however many workers schedule it, one row is written and one worker runs
//! it. A tick does not depend on the previous tick, so a crash cannot end the schedule.

use std::borrow::Cow;
use std::time::Duration;

use kitfleet_domain::area::ScheduledJob;
use kitfleet_domain::areas;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::queues::Queue;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MaintenanceJob {
    name: Cow<'static, str>,
}

impl MaintenanceJob {
    pub const QUEUE: Queue = Queue::of_all_workers("maintenance").started_by_timer();

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<ScheduledJob> for MaintenanceJob {
    fn from(job: ScheduledJob) -> Self {
        Self { name: job.name.into() }
    }
}

impl Job for MaintenanceJob {
    fn queue(&self) -> String {
        Self::QUEUE.name.to_owned()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Scheduled {
    /// A next tick had no row yet: the previous tick, if there was one, is due now.
    pub anew: bool,
    /// Time until the first tick is due.
    pub next: Duration,
}

/// Writes the row of each scheduled job's next tick, if it is missing.
pub async fn schedule(conn: &mut PgConnection) -> sqlx::Result<Scheduled> {
    let scheduled: Vec<_> = areas::scheduled_jobs().collect();
    let ids: Vec<_> = scheduled.iter().map(|_| ulid::Ulid::generate().to_string()).collect();
    let jobs: Result<Vec<_>, _> = scheduled.iter().map(|job| serde_json::to_vec(&MaintenanceJob::from(*job))).collect();
    let (names, periods): (Vec<_>, Vec<_>) = scheduled.iter().map(|job| (job.name, job.period)).unzip();
    let (anew, next): (bool, f64) = sqlx::query_as(
        "with next as (
             select id, job, name, tick, to_timestamp(tick * period) as due
             from unnest($2::text[], $3::bytea[], $4::text[], $5::int[]) as chain (id, job, name, period),
                  lateral (select floor(extract(epoch from now()) / period)::bigint + 1) as t (tick)
         ), scheduled as (
             insert into apalis.jobs
                 (id, job_type, job, status, attempts, max_attempts, run_at, priority, idempotency_key)
             select id, $1, job, 'Pending', 0, 1, due, 0, name || ':' || tick from next
             on conflict (job_type, idempotency_key) do nothing returning 1
         )
         select exists(select from scheduled), extract(epoch from min(due) - clock_timestamp())::float8 from next",
    )
    .bind(MaintenanceJob::QUEUE.name)
    .bind(ids)
    .bind(jobs.map_err(|e| sqlx::Error::Encode(e.into()))?)
    .bind(names)
    .bind(periods)
    .fetch_one(conn)
    .await?;
    Ok(Scheduled { anew, next: Duration::try_from_secs_f64(next).unwrap_or_default() })
}

/// Value of `service_scheduled_job_chain_pending`.
pub async fn pending_chains(conn: &mut PgConnection) -> sqlx::Result<Vec<(&'static str, bool)>> {
    let pending: Vec<String> = sqlx::query_scalar(
        "select distinct split_part(idempotency_key, ':', 1) from apalis.jobs
         where job_type = $1 and status = 'Pending' and idempotency_key is not null",
    )
    .bind(MaintenanceJob::QUEUE.name)
    .fetch_all(conn)
    .await?;
    Ok(areas::scheduled_jobs().map(|job| (job.name, pending.iter().any(|name| name == job.name))).collect())
}
