//! Scheduled jobs: sweeps and purges.

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::BoxDynError;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::ids::ProfileId;
use kitfleet_domain::profiles::{self, Retention};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_domain::webhooks::deliveries;
use kitfleet_domain::webhooks::reminders::{self, EndingGrace, OldSecret};
use kitfleet_domain::{emails, intents, tokens};
use kitfleet_jobs::browser;
use kitfleet_jobs::emails::send as mail;
use kitfleet_jobs::inspect;
use kitfleet_jobs::maintenance::MaintenanceJob;
use kitfleet_profiles::Stores;
use serde::Serialize;
use serde_json::json;
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
        MaintenanceJob::RemindWebhookSecrets => {
            remind_webhook_secrets(&context.db, context.config.webhooks.secret_reminder_after).await?;
        }
        MaintenanceJob::SweepRetention => {
            sweep_retention(&context.db, &context.stores, context.config.profile_retention).await?;
        }
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
    let mut conn = db.acquire().await?;
    deliveries::put_back_paused(&mut conn).await?;
    let given_up = deliveries::give_up(&mut conn).await?;
    if given_up > 0 {
        tracing::info!(given_up, "failed webhook deliveries whose endpoint is disabled");
    }
    Ok(())
}

/// Mails that were sent about secrets of webhook endpoints.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Reminded {
    /// About secrets that are old.
    pub old_secrets: usize,
    /// About graces that are nearly over.
    pub ending_graces: usize,
}

/// Mails the owners of secrets that have reached an `age`, and of those whose grace is nearly over (interface,
/// "Transactional emails"), each once a secret. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn remind_webhook_secrets(db: &PgPool, age: Duration) -> sqlx::Result<Reminded> {
    let mut reminded = Reminded::default();
    loop {
        let mut tx = db.begin().await?;
        let old = reminders::take_old_secrets(&mut tx, age, BATCH).await?;
        for OldSecret { endpoint, account, age_seconds } in &old {
            let details = json!({"endpoint_id": endpoint, "age_seconds": age_seconds});
            let to = Recipient::Account(*account);
            mail(&mut tx, Template::WebhookSecretReminder, to, details, NOTICE_GOOD_FOR).await?;
        }
        let ending = reminders::take_ending_graces(&mut tx, BATCH).await?;
        for EndingGrace { endpoint, account, seconds_left } in &ending {
            let (to, details) = (Recipient::Account(*account), json!({"endpoint_id": endpoint}));
            let left = Duration::from_secs_f64(*seconds_left);
            mail(&mut tx, Template::WebhookSecretGraceExpiring, to, details, left).await?;
        }
        tx.commit().await?;
        reminded.old_secrets += old.len();
        reminded.ending_graces += ending.len();
        if old.is_empty() && ending.is_empty() {
            return Ok(reminded);
        }
    }
}

/// What retention has ended.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Purged {
    /// Profiles.
    pub profiles: u64,
    /// Their snapshots.
    pub snapshots: u64,
    /// Profiles that could not be purged now.
    pub failed: u64,
    /// Stores that nobody referred to any more, for whatever reason.
    pub stores: u64,
}

/// Purges the profiles that were in the recycle bin for long enough, and their snapshots with them (decisions D12), each in
/// a transaction of its own, and then removes the stores that nobody refers to. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn sweep_retention(db: &PgPool, stores: &Stores, retention: Retention) -> sqlx::Result<Purged> {
    let mut purged = Purged::default();
    let mut after = None;
    loop {
        let due = profiles::due_for_purge(&mut *db.acquire().await?, retention, after, BATCH).await?;
        let Some(last) = due.last() else { break };
        after = Some(*last);
        for profile in due {
            match purge_profile(db, retention, profile).await {
                Ok(Some(snapshots)) => {
                    tracing::info!(%profile, snapshots, "a deleted profile reached its age and was purged");
                    count_purged("profiles", "purged", 1);
                    count_purged("snapshots", "purged", snapshots);
                    purged.profiles += 1;
                    purged.snapshots += snapshots;
                }
                Ok(None) => count_purged("profiles", "skipped", 1),
                Err(error) => {
                    tracing::error!(%error, %profile, "a deleted profile could not be purged");
                    count_purged("profiles", "failed", 1);
                    purged.failed += 1;
                }
            }
        }
    }
    purged.stores = remove_stores(stores).await?;
    Ok(purged)
}

async fn purge_profile(db: &PgPool, retention: Retention, profile: ProfileId) -> sqlx::Result<Option<u64>> {
    let mut tx = db.begin().await?;
    let snapshots = profiles::purge_due(&mut tx, retention, profile).await?;
    tx.commit().await?;
    Ok(snapshots)
}

fn count_purged(arm: &'static str, outcome: &'static str, count: u64) {
    metrics::counter!("service_retention_purge_total", "arm" => arm, "outcome" => outcome).increment(count);
}

/// Removes what profiles held and nobody refers to any more, and what was written in vain. Answers how many stores.
async fn remove_stores(stores: &Stores) -> sqlx::Result<u64> {
    let mut removed = 0;
    loop {
        match stores.sweep(BATCH).await? {
            0 => break,
            some => removed += some,
        }
    }
    if removed > 0 {
        tracing::debug!(removed, "removed what profiles held");
    }
    Ok(removed)
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
        let webhooks = deliveries::purge(&mut conn, config.webhook_retention, BATCH).await?;
        let touched = intents + jobs + emails + tokens + webhooks;
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
