//! Ends what dead workers left behind, so that their callers hear of it within seconds. Every API process does it; the
//! statements are made so that several may.
//!
//! This is who finds a worker dead. To everybody else one that was not heard of is silent, and its sessions wait for it: when
//! the database was away nobody could send a heartbeat, and everybody looks dead in the moment it comes back.

use std::time::Duration;

use kitfleet_domain::agents::carrying;
use kitfleet_domain::sessions::leftovers;
use kitfleet_domain::workers;
use kitfleet_jobs::inspect;
use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(2);
/// A pause between two rounds that is longer than this means that this process, or its database, stood still.
const STALL: Duration = Duration::from_secs(5);
/// Intents a transaction ends at most.
const BATCH: i64 = 100;
/// Nobody waits for the jobs of a worker that stopped in an orderly way: they can be looked for now and then.
const TIDY_EVERY: u32 = 15;

pub async fn run(db: PgPool, stop: CancellationToken) {
    let mut watch = Watch::begin();
    let mut rounds = 0_u32;
    while stop.run_until_cancelled(tokio::time::sleep(PERIOD)).await.is_some() {
        // Not under `run_until_cancelled`: a transaction has to be left in order.
        if let Err(error) = round(&db, &watch, rounds.is_multiple_of(TIDY_EVERY)).await {
            tracing::warn!(%error, "cannot look for dead workers");
            watch = Watch::begin();
        }
        watch.round_ended();
        rounds = rounds.wrapping_add(1);
    }
}

/// How long this process has been able to see heartbeats without a break.
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
    // The moment that is judged by: should the database stand still from here on, those whose lease runs out meanwhile are
    // not among the lost. Without judging, it only proves that the database can be watched.
    let now = workers::now(&mut conn).await?;
    if !watch.is_long_enough() {
        return Ok(());
    }
    let lost = workers::declare_lost(&mut conn, now).await?;
    drop(conn);
    for worker in &lost {
        tracing::warn!(%worker, "worker missed its heartbeats and is marked as lost");
    }
    loop {
        let mut tx = db.begin().await?;
        let ended = leftovers::rescue(&mut tx, BATCH).await?;
        tx.commit().await?;
        if ended > 0 {
            tracing::warn!(ended, "ended operations of lost workers");
        }
        if i64::try_from(ended).is_ok_and(|ended| ended < BATCH) {
            break;
        }
    }
    loop {
        let mut tx = db.begin().await?;
        let ended = carrying::rescue(&mut tx, BATCH).await?;
        tx.commit().await?;
        if ended > 0 {
            tracing::warn!(ended, "ended agent turns of lost workers");
        }
        if i64::try_from(ended).is_ok_and(|ended| ended < BATCH) {
            break;
        }
    }
    if tidy || !lost.is_empty() {
        let killed = inspect::kill_dead(&mut *db.acquire().await?).await?;
        if killed > 0 {
            tracing::warn!(killed, "killed jobs of lost workers");
        }
    }
    Ok(())
}
