//! The rows of [`kitfleet_domain::emails`] are the queue; a job names the row to process.

use std::time::Duration;

use kitfleet_domain::emails::{self, Recipient, Template};
use kitfleet_types::ids::EmailId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgConnection;

use crate::Job;
use crate::queues::Queue;

/// A second job for the same attempt finds nothing to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EmailJob {
    pub email: EmailId,
}

impl EmailJob {
    pub const QUEUE: Queue = Queue::of_all_workers("emails");
}

impl Job for EmailJob {
    fn queue(&self) -> String {
        Self::QUEUE.name.to_owned()
    }
}

/// Queues a mail, which is sent after the caller's transaction commits. Returns the time when the mail, and a link in it,
/// expires. Returns `None` if the mail is sent only once and was queued before.
pub async fn send(
    conn: &mut PgConnection,
    template: Template,
    recipient: Recipient<'_>,
    details: Value,
    good_for: Duration,
) -> sqlx::Result<Option<Timestamp>> {
    let Some(queued) = emails::queue(&mut *conn, template, recipient, details, good_for).await? else {
        return Ok(None);
    };
    crate::enqueue(conn, &EmailJob { email: queued.id }).await?;
    Ok(Some(queued.expires_at))
}

/// Includes mails whose job or worker was lost. Mails that are enqueued already count toward `limit`, so that a slow
/// mail server does not make jobs accumulate.
pub async fn send_due(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
    let enqueued: i64 = sqlx::query_scalar(
        "select (select count(*) from apalis.jobs where job_type = $1 and status = 'Pending')
                + (select count(*) from apalis.jobs where job_type = $1 and status in ('Queued', 'Running'))",
    )
    .bind(EmailJob::QUEUE.name)
    .fetch_one(&mut *conn)
    .await?;
    let due = emails::take_due(&mut *conn, (limit - enqueued).max(0)).await?;
    let jobs: Vec<_> = due.iter().map(|email| EmailJob { email: *email }).collect();
    crate::enqueue_all(conn, &jobs).await?;
    Ok(due.len())
}
