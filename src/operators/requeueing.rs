//! `kitfleet deliveries requeue --endpoint` (contract: command-line 7).
//!
//! It does what a worker does when staff ask for the same, a bounded batch a transaction, and does not wait for one: whichever is at it
//! leaves the other the next batch, and what is begun goes on where this process dies.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kitfleet_domain::ids::WebhookId;
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::webhooks::requeues::{self, Whose};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::output::Format;

/// How often it is looked how far somebody else has come.
const LOOK: Duration = Duration::from_millis(200);

/// Sends all of an endpoint's dead letters once more, and says how far that has come.
///
/// # Errors
/// When there is no such endpoint, it is disabled, or the database fails.
pub async fn requeue_all(conn: &mut PgConnection, endpoint: WebhookId, format: Format) -> Result<()> {
    let mut tx = conn.begin().await?;
    let begun = requeues::begin(&mut tx, Whose::Endpoint(endpoint), None).await?;
    let begun = begun.with_context(|| format!("the account of {endpoint} is gone"))?;
    let dead = dead_letters::of_endpoint(&mut tx, endpoint).await?;
    tx.commit().await?;
    let mut told = 0;
    loop {
        let mut tx = conn.begin().await?;
        let is_mine = requeues::go_on(&mut tx, requeues::AT_ONCE).await?;
        tx.commit().await?;
        let now = requeues::find(conn, begun.id).await?.with_context(|| format!("{} is gone", begun.id))?;
        if now.done_at.is_some() {
            break;
        }
        if now.requeued > told {
            told = now.requeued;
            format.progress(|| format!("{told} of {} are sent once more", now.total))?;
        }
        if !is_mine {
            tokio::time::sleep(LOOK).await;
        }
    }
    let requeued = dead_letters::moved_since(conn, &dead, begun.created_at).await?;
    format.print(&json!({"requeued": requeued}), |_| format!("{} deliveries are sent once more", requeued.len()))
}
