//! Ends the work of dead workers, so that their callers receive an error within seconds. Every API process does this, also
//! concurrently.
//!
//! Only this module declares a worker dead. To other code, a worker without heartbeats is only silent, and its sessions wait for
//! it. After a database outage, no worker could send heartbeats, and all of them would look dead at first.

use std::time::Duration;

use kitfleet_domain::agents::turn_lifecycle;
use kitfleet_domain::sessions::recovery;
use kitfleet_domain::workers;
use kitfleet_jobs::inspect;
use sqlx::{PgConnection, PgPool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(2);
/// A longer pause between two rounds means that this process or its database was stalled.
const STALL: Duration = Duration::from_secs(5);
/// In one transaction.
const BATCH: i64 = 100;
/// Rounds between searches for jobs of workers that stopped in an orderly way, which are not urgent.
const CLEANUP_EVERY: u32 = 15;

pub async fn run(db: PgPool, stop: CancellationToken) {
    let mut watch = Watch::begin();
    let mut rounds = 0_u32;
    while stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
        // Not under `run_until_cancelled`: a transaction must not be interrupted.
        if let Err(error) = round(&db, &watch, rounds.is_multiple_of(CLEANUP_EVERY)).await {
            tracing::warn!(%error, "cannot look for dead workers");
            watch = Watch::begin();
        }
        watch.round_ended();
        rounds = rounds.wrapping_add(1);
    }
}

/// Time this process has seen heartbeats without interruption.
struct Watch {
    since: Instant,
    last_round: Instant,
}

impl Watch {
    fn begin() -> Self {
        Self { since: Instant::now(), last_round: Instant::now() }
    }

    fn round_ended(&mut self) {
        if self.last_round.elapsed() > STALL {
            self.since = Instant::now();
        }
        self.last_round = Instant::now();
    }

    fn is_long_enough(&self) -> bool {
        self.last_round.elapsed() <= STALL && self.since.elapsed() >= workers::LEASE
    }
}

async fn round(db: &PgPool, watch: &Watch, tidy: bool) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    // Time of the decision. If the database stalls after this, workers whose lease expires meanwhile are not declared lost. If no
    // decision is due, the query only proves that the database responds.
    let now = workers::now(&mut conn).await?;
    if !watch.is_long_enough() {
        return Ok(());
    }
    let lost = workers::declare_lost(&mut conn, now).await?;
    drop(conn);
    for worker in &lost {
        tracing::warn!(%worker, "worker missed its heartbeats and is marked as lost");
    }
    recover_all(db, "operations", recovery::recover).await?;
    recover_all(db, "agent turns", turn_lifecycle::recover).await?;
    if tidy || !lost.is_empty() {
        let killed = inspect::mark_dead(&mut *db.acquire().await?).await?;
        if killed > 0 {
            tracing::warn!(killed, "killed jobs of lost workers");
        }
    }
    Ok(())
}

/// Ends the `work` of dead workers in batches, each in its own transaction.
async fn recover_all(
    db: &PgPool,
    work: &'static str,
    recover: impl AsyncFn(&mut PgConnection, i64) -> sqlx::Result<usize>,
) -> sqlx::Result<()> {
    loop {
        let mut tx = db.begin().await?;
        let ended = recover(&mut tx, BATCH).await?;
        tx.commit().await?;
        if ended > 0 {
            tracing::warn!(ended, "ended {work} of lost workers");
        }
        if i64::try_from(ended).is_ok_and(|ended| ended < BATCH) {
            return Ok(());
        }
    }
}
