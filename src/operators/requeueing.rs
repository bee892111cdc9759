//! `kitfleet deliveries requeue --endpoint` (contract: command-line 7).
//!
//! The command shares the work with the workers: each transaction takes one bounded batch, and when this process ends
//! early, a worker continues the request. Its batches follow each other without a pause.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::webhooks::requeues::{self, BatchLimits, DeadLetterFilter};
use kitfleet_types::ids::WebhookId;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::output::Format;

/// Interval between two reads of the progress while a worker handles a batch.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub async fn requeue_all(conn: &mut PgConnection, endpoint: WebhookId, format: Format) -> Result<()> {
    let mut tx = conn.begin().await?;
    let begun = requeues::begin(&mut tx, DeadLetterFilter::Endpoint(endpoint), None, None).await?;
    let begun = begun.with_context(|| format!("the account of {endpoint} was deleted"))?;
    let dead = dead_letters::of_endpoint(&mut tx, endpoint).await?;
    tx.commit().await?;
    let mut told = 0;
    loop {
        let mut tx = conn.begin().await?;
        let batch = requeues::requeue_batch(&mut tx, Some(begun.id), BatchLimits::COMMAND).await?;
        tx.commit().await?;
        let now = requeues::find(conn, begun.id).await?.with_context(|| format!("{} was deleted", begun.id))?;
        if now.done_at.is_some() {
            break;
        }
        if now.requeued > told {
            told = now.requeued;
            format.progress(|| format!("requeued {told} of {} deliveries", now.total))?;
        }
        if batch.is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    let requeued = dead_letters::moved_since(conn, &dead, begun.created_at).await?;
    format.print(&json!({"requeued": requeued}), |_| format!("requeued {} deliveries", requeued.len()))
}
