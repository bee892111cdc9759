//! Mails: the rows of [`kitfleet_domain::emails`] are the queue, and a job says which one to look at.

use std::time::Duration;

use kitfleet_domain::emails::{self, Recipient, Template};
use kitfleet_domain::ids::EmailId;
use kitfleet_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgConnection;

use crate::Job;

/// An attempt to send a mail. A second job for the same attempt finds nothing to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EmailJob {
    /// The mail.
    pub email: EmailId,
}

impl EmailJob {
    /// The queue all of them wait in.
    pub const QUEUE: &'static str = "emails";
}

impl Job for EmailJob {
    fn queue(&self) -> String {
        Self::QUEUE.to_owned()
    }
}

/// Has a mail sent when the caller's transaction commits. Answers until when it, and a link in it, is good; `None` when
/// it is sent once and was before.
///
/// # Errors
/// When the database fails.
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

/// Enqueues the mails that are due: those that wait for another attempt, and those whose job or worker was lost; with
/// those that are enqueued already no more than `limit`, so that a mail server that is slow does not make jobs pile up.
/// Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn send_due(conn: &mut PgConnection, limit: i64) -> sqlx::Result<usize> {
    let enqueued: i64 = sqlx::query_scalar(
        "select (select count(*) from apalis.jobs where job_type = $1 and status = 'Pending')
                + (select count(*) from apalis.jobs where job_type = $1 and status in ('Queued', 'Running'))",
    )
    .bind(EmailJob::QUEUE)
    .fetch_one(&mut *conn)
    .await?;
    let due = emails::take_due(&mut *conn, (limit - enqueued).max(0)).await?;
    let jobs: Vec<_> = due.iter().map(|email| EmailJob { email: *email }).collect();
    crate::enqueue_all(conn, &jobs).await?;
    Ok(due.len())
}
