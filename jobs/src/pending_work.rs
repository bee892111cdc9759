//! Finds waiting work whose wake-up may have been lost (contract: workers 12).
//!
//! A queue is woken, and polled only every 30 s. In between, one query for all queues finds work whose wake-up was
//! lost.

use kitfleet_types::ids::WorkerId;
use sqlx::{FromRow, PgConnection};

use crate::maintenance::MaintenanceJob;
use crate::operations::OperationJob;
use crate::wakeups::{self, Wakeups};

/// Waiting for longer than a wake-up takes to arrive.
#[derive(Debug, FromRow)]
pub struct PendingWork {
    pub operations: bool,
    pub deliveries: bool,
    /// A tick has been due for 2 s: the process that keeps the schedule has failed to start it.
    pub late_ticks: bool,
    /// Queues with waiting jobs, of those that were asked about.
    pub queues: Vec<String>,
}

impl PendingWork {
    /// Wakes the servers in this process.
    pub fn wake(&self, wakeups: &Wakeups, worker: WorkerId) {
        let operations = self.operations.then(|| OperationJob::QUEUE.name_at(worker));
        for queue in self.queues.iter().chain(&operations) {
            wakeups.send(&wakeups::channel(queue), String::new());
        }
    }
}

pub async fn find(conn: &mut PgConnection, worker: WorkerId, queues: &[String]) -> sqlx::Result<PendingWork> {
    sqlx::query_as(
        "select exists(select from intents where worker_id = $1 and status = 'queued') as operations,
                exists(select from webhook_deliveries where due)
                    or exists(select from webhook_deliveries where not due and next_attempt_at <= now()) as deliveries,
                exists(select from apalis.jobs where job_type = $3 and status = 'Pending'
                       and run_at <= now() - interval '2 seconds') as late_ticks,
                array(select queue from unnest($2::text[]) as served (queue) cross join lateral (
                    select from apalis.jobs where job_type = queue and status = 'Pending' and run_at <= now() limit 1) one) as queues",
    )
    .bind(worker)
    .bind(queues)
    .bind(MaintenanceJob::QUEUE.name)
    .fetch_one(conn)
    .await
}
