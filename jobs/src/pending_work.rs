//! What waits for a worker that nobody may have told it of (contract: workers 12).
//!
//! Whoever serves a queue is woken, and looks by itself seldom. In between one look for all queues finds what a lost wake-up would have
//! told of: a worker that has nothing to do asks one question instead of one a queue.

use kitfleet_domain::ids::WorkerId;
use sqlx::{FromRow, PgConnection};

use crate::maintenance::MaintenanceJob;
use crate::operations::OperationJob;
use crate::wakeups::{self, Wakeups};

/// What waits, for longer than it takes to be told.
#[derive(Debug, FromRow)]
pub struct PendingWork {
    /// Whether operations wait for this worker.
    pub operations: bool,
    /// Whether webhook deliveries are due.
    pub deliveries: bool,
    /// Whether a chain's tick was due some seconds ago: whoever keeps the time does not.
    pub late_ticks: bool,
    /// In which of the queues that were asked about jobs wait.
    pub queues: Vec<String>,
}

impl PendingWork {
    /// Wakes whoever serves operations and the queues in which something waits, in this process.
    pub fn wake(&self, wakeups: &Wakeups, worker: WorkerId) {
        let operations = self.operations.then(|| OperationJob::queue_of(worker));
        for queue in self.queues.iter().chain(&operations) {
            wakeups.tell(&wakeups::channel(queue), String::new());
        }
    }
}

/// Looks for what waits for this worker, which serves `queues` of apalis's.
///
/// # Errors
/// When the database fails.
pub async fn look(conn: &mut PgConnection, worker: WorkerId, queues: &[&str]) -> sqlx::Result<PendingWork> {
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
    .bind(MaintenanceJob::QUEUE)
    .fetch_one(conn)
    .await
}
