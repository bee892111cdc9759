//! Scheduled jobs: sweeps and purges.

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::BoxDynError;
use kitfleet_domain::intents;
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_jobs::browser::{BrowserJob, BrowserTask};
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
        MaintenanceJob::PurgeFinished => purge_finished(&context).await?,
    }
    Ok(())
}

/// Destroys the free-tier sessions older than `cap` (interface, "Driver session"), each in a transaction of its own.
/// Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn sweep_free_tier(db: &PgPool, cap: Duration) -> sqlx::Result<u64> {
    let mut swept = 0;
    let over = sessions::over_free_tier_cap(&mut *db.acquire().await?, cap, BATCH).await?;
    for (account, session) in over {
        let mut tx = db.begin().await?;
        if let Some(Destroyed::Now(worker)) = sessions::destroy(&mut tx, account, session, &Cause::FreeTierCap).await? {
            kitfleet_jobs::enqueue(&mut tx, &BrowserJob { worker, task: BrowserTask::Close(session) }).await?;
            tx.commit().await?;
            tracing::info!(%account, %session, "free-tier session reached its age and was destroyed");
            swept += 1;
        }
    }
    Ok(swept)
}

async fn purge_finished(context: &Context) -> sqlx::Result<()> {
    let config = &context.config;
    let mut conn = context.db.acquire().await?;
    let intents = intents::purge(&mut conn, config.result_retention, config.job_retention, BATCH).await?;
    let jobs = inspect::purge(&mut conn, config.job_retention, BATCH).await?;
    if intents + jobs > 0 {
        tracing::debug!(intents, jobs, "purged what was finished");
    }
    Ok(())
}
