//! Scheduled jobs: sweeps and purges.

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::BoxDynError;
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_domain::webhooks::deliveries;
use kitfleet_domain::{emails, intents, tokens};
use kitfleet_jobs::browser;
use kitfleet_jobs::inspect;
use kitfleet_jobs::maintenance::MaintenanceJob;
use sqlx::PgPool;

use crate::Context;

/// Rows a sweep or a purge touches at once.
const BATCH: i64 = 500;

pub(crate) async fn handle(job: MaintenanceJob, context: Arc<Context>) -> Result<(), BoxDynError> {
    match job {
        MaintenanceJob::SweepFreeTier => {
            sweep_free_tier(&context.db, context.config.free_tier_cap).await?;
        }
        MaintenanceJob::SendDueEmails => send_due_emails(&context.db).await?,
        MaintenanceJob::GiveUpDeliveries => give_up_deliveries(&context.db).await?,
        MaintenanceJob::PurgeFinished => purge_finished(&context).await?,
    }
    Ok(())
}

/// Destroys every free-tier session older than `cap` (interface, "Driver session"), each in a transaction of its own.
/// Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn sweep_free_tier(db: &PgPool, cap: Duration) -> sqlx::Result<u64> {
    let mut swept = 0;
    loop {
        let over = sessions::over_free_tier_cap(&mut *db.acquire().await?, cap, BATCH).await?;
        if over.is_empty() {
            return Ok(swept);
        }
        for (account, session) in over {
            let mut tx = db.begin().await?;
            let destroyed = browser::destroy(&mut tx, account, session, &Cause::FreeTierCap).await?;
            tx.commit().await?;
            if let Some(Destroyed::Now(_)) = destroyed {
                tracing::info!(%account, %session, "free-tier session reached its age and was destroyed");
                swept += 1;
            }
        }
    }
}

async fn send_due_emails(db: &PgPool) -> sqlx::Result<()> {
    let mut tx = db.begin().await?;
    let due = kitfleet_jobs::emails::send_due(&mut tx, BATCH).await?;
    tx.commit().await?;
    if due > 0 {
        tracing::debug!(due, "enqueued mails that were due");
    }
    Ok(())
}

async fn give_up_deliveries(db: &PgPool) -> sqlx::Result<()> {
    let given_up = deliveries::give_up(&mut *db.acquire().await?).await?;
    if given_up > 0 {
        tracing::info!(given_up, "failed webhook deliveries whose endpoint is disabled");
    }
    Ok(())
}

async fn purge_finished(context: &Context) -> sqlx::Result<()> {
    let config = &context.config;
    let mut conn = context.db.acquire().await?;
    let mut purged = 0;
    loop {
        let intents = intents::purge(&mut conn, config.result_retention, config.job_retention, BATCH).await?;
        let jobs = inspect::purge(&mut conn, config.job_retention, BATCH).await?;
        let emails = emails::purge(&mut conn, config.job_retention, BATCH).await?;
        let tokens = tokens::purge_expired(&mut conn, BATCH).await?;
        let touched = intents + jobs + emails + tokens;
        purged += touched;
        if touched == 0 {
            break;
        }
    }
    if purged > 0 {
        tracing::debug!(purged, "purged what was finished");
    }
    Ok(())
}
