//! Many sessions on many workers, and the emptying of workers when the load falls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::Result;
use crate::postgres::Postgres;
use crate::processes::memory_mib;
use crate::report::{self, Samples};
use crate::service::{Client, Service};

const SESSIONS: usize = 10_000;
const WORKERS: usize = 16;
const AT_ONCE: usize = 32;
const SCRAPES: usize = 50;
const TOKEN: &str = "bench";

/// In the falling load.
const LONGEST: Duration = Duration::from_secs(4);

pub async fn run() -> Result<()> {
    many_sessions().await?;
    scaling_down().await
}

const KILLS: usize = 5;
/// One of the workers is killed; then the number of sessions, and the interval of each session's operations.
const OF_WORKERS: usize = 4;
const STEADY: usize = 16;
const EVERY: Duration = Duration::from_millis(50);
/// Measuring time before a kill, and after it.
const MEASURED: Duration = Duration::from_secs(10);

/// Under a steady load. Measurements before and after alternate, so that a drift of the machine's speed cancels out.
pub async fn kill() -> Result<()> {
    report::heading(&format!("{KILLS} kills of one of {OF_WORKERS} workers with {STEADY} sessions under load"));
    let (mut before, mut after) = (Samples::default(), Samples::default());
    let (mut own, mut others) = (0, 0);
    for _ in 0..KILLS {
        let kill = kill_one().await?;
        before.extend(kill.before);
        after.extend(kill.after);
        own += kill.own;
        others += kill.others;
    }
    report::durations("an operation elsewhere, before", &before, None, None);
    report::durations("an operation elsewhere, after", &after, None, None);
    let moved = (after.quantile(0.99) / before.quantile(0.99) - 1.0) * 100.0;
    report::figure("their p99 has changed by", moved, "%", "< 10 %", moved < 10.0);
    let expected = KILLS * STEADY / OF_WORKERS;
    report::figure("sessions that failed with their worker", count(own), "", &format!("{expected}"), own == expected);
    report::figure("other sessions that failed", count(others), "", "0", others == 0);
    Ok(())
}

struct Kill {
    /// Operations on sessions of the other workers, before and after the kill.
    before: Samples,
    after: Samples,
    /// Sessions of the killed worker, and of other workers.
    own: usize,
    others: usize,
}

async fn kill_one() -> Result<Kill> {
    let postgres = Postgres::start(&["max_connections=300"]).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let settings = [
        ("DATABASE__URL", url.as_str()),
        ("DATABASE__MAX_CONNECTIONS", "16"),
        ("WORKER__DRIVER", "simulated"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000"),
    ];
    let mut service = Service::of_roles(&settings, 1, 1).await?;
    let mut conn = postgres.options().connect().await?;
    let first: String = sqlx::query_scalar("select id::text from workers").fetch_one(&mut conn).await?;
    service.add_workers(OF_WORKERS - 1).await?;
    let client = service.client("steady")?;
    let fatal = Instant::now() + MEASURED;
    let mut customers = JoinSet::new();
    let mut creating = Vec::new();
    for _ in 0..STEADY {
        creating.push(client.create().await?);
    }
    for session in creating {
        let placed = "select worker_id::text = $2 from sessions where 'ses_' || id = $1";
        let on_first: bool = sqlx::query_scalar(placed).bind(&session).bind(&first).fetch_one(&mut conn).await?;
        customers.spawn(operated(client.clone(), session, on_first, fatal));
    }
    sleep(fatal.saturating_duration_since(Instant::now())).await;
    service.kill_first_worker()?;
    let mut kill = Kill { before: Samples::default(), after: Samples::default(), own: 0, others: 0 };
    while let Some(customer) = customers.join_next().await {
        let customer = customer?;
        if customer.on_first {
            kill.own += usize::from(customer.failed);
        } else {
            kill.others += usize::from(customer.failed);
            kill.before.extend(customer.before);
            kill.after.extend(customer.after);
        }
    }
    Ok(kill)
}

struct Seen {
    on_first: bool,
    failed: bool,
    before: Samples,
    after: Samples,
}

/// Until the session fails. Durations are from before and after `fatal`.
async fn operated(client: Client, session: String, on_first: bool, fatal: Instant) -> Seen {
    let mut seen = Seen { on_first, failed: false, before: Samples::default(), after: Samples::default() };
    let mut ticks = interval(EVERY);
    while fatal.elapsed() < MEASURED {
        ticks.tick().await;
        let begun = Instant::now();
        let tap = json!({"action": {"kind": "tap", "selector": "#button"}});
        if client.operate(&session, "interact", tap).await.is_err() {
            seen.failed = true;
            break;
        }
        let samples = if begun < fatal { &mut seen.before } else { &mut seen.after };
        samples.push(begun.elapsed());
    }
    seen
}

async fn many_sessions() -> Result<()> {
    let postgres = Postgres::start(&["max_connections=1000", "shared_buffers=512MB"]).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let settings = [
        ("DATABASE__URL", url.as_str()),
        ("DATABASE__MAX_CONNECTIONS", "16"),
        ("WORKER__DRIVER", "simulated"),
        ("WORKER__MAX_SESSIONS", "640"),
        ("LIMITS__CONCURRENT_SESSIONS__ENTERPRISE", "10000"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000"),
        ("METRICS__SCRAPE_TOKEN", TOKEN),
    ];
    let service = Service::of_roles(&settings, 1, WORKERS).await?;
    let client = service.client("fleet")?;
    let workers = service.pids_of("worker");
    let memory = || -> Result<f64> { workers.iter().map(|pid| memory_mib(*pid)).sum() };
    report::heading(&format!("{SESSIONS} simulated sessions on {WORKERS} workers"));
    let (empty, creating_since) = (memory()?, Instant::now());
    let mut creating = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        creating.spawn(async move {
            for _ in 0..SESSIONS / AT_ONCE {
                client.create().await?;
            }
            Result::Ok(())
        });
    }
    while let Some(created) = creating.join_next().await {
        created??;
    }
    let (rate, full) = (per_second(SESSIONS, creating_since.elapsed()), memory()?);
    report::figure("creates", rate, "a second", "-", true);
    let mut scrapes = Samples::default();
    let http = reqwest::Client::builder().no_proxy().build()?;
    for _ in 0..SCRAPES {
        let begun = Instant::now();
        let scrape = http.get(format!("{}/metrics", client.base_url)).bearer_auth(TOKEN).send().await?;
        let text = scrape.error_for_status()?.text().await?;
        scrapes.push(begun.elapsed());
        if !text.contains("service_sessions_live") {
            return Err("metrics without sessions".into());
        }
        sleep(Duration::from_millis(200)).await;
    }
    report::durations("a scrape of metrics", &scrapes, Some(50.0), None);
    report::figure("memory of a worker, empty", empty / count(WORKERS), "MiB", "-", true);
    report::figure("memory of a worker, with its sessions", full / count(WORKERS), "MiB", "-", true);
    report::figure("memory of a session", (full - empty) * 1024.0 / count(SESSIONS), "KiB", "-", true);
    Ok(())
}

/// The load falls to a fifth. With `pack`, six of eight workers are empty as soon as their sessions have ended.
async fn scaling_down() -> Result<()> {
    let postgres = Postgres::start(&["max_connections=600"]).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let settings = [
        ("DATABASE__URL", url.as_str()),
        ("DATABASE__MAX_CONNECTIONS", "16"),
        ("WORKER__DRIVER", "simulated"),
        ("WORKER__MAX_SESSIONS", "10"),
        ("WORKER__PLACEMENT", "pack"),
        ("LIMITS__CONCURRENT_SESSIONS__ENTERPRISE", "10000"),
    ];
    let service = Service::of_roles(&settings, 1, 8).await?;
    let client = Arc::new(service.client("falling")?);
    let mut conn = postgres.options().connect().await?;
    report::heading("A load that falls from 80 sessions to 16, on 8 workers of 10 slots");
    let mut falling = JoinSet::new();
    for _ in 0..64 {
        falling.spawn(comes_and_goes(Arc::clone(&client), Instant::now() + LONGEST));
    }
    for _ in 0..16 {
        falling.spawn(comes_and_goes(Arc::clone(&client), Instant::now() + LONGEST * 5));
    }
    sleep(LONGEST).await;
    report::figure("workers with sessions, before", count(used(&mut conn).await?), "", "8", true);
    let fell = Instant::now();
    while used(&mut conn).await? > 2 {
        if fell.elapsed() > LONGEST * 3 {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    let elapsed = fell.elapsed();
    report::figure(
        "six of them empty after",
        elapsed.as_secs_f64(),
        "s",
        "≤ 4 s, the longest session",
        elapsed <= LONGEST,
    );
    // The remaining sessions continue, and new ones are placed only on their workers.
    sleep(LONGEST).await;
    let left = used(&mut conn).await?;
    report::figure("workers with sessions, later", count(left), "", "≤ 2", left <= 2);
    while let Some(done) = falling.join_next().await {
        done??;
    }
    Ok(())
}

/// With different lifetimes, one after another.
async fn comes_and_goes(client: Arc<Client>, until: Instant) -> Result<()> {
    let mut lengths: VecDeque<_> = [1_000, 2_500, 1_700, 4_000, 600].map(Duration::from_millis).into();
    while Instant::now() < until {
        let session = client.create().await?;
        sleep(lengths[0]).await;
        lengths.rotate_left(1);
        client.delete(&session).await?;
    }
    Ok(())
}

async fn used(conn: &mut PgConnection) -> Result<usize> {
    let used: i64 =
        sqlx::query_scalar("select count(distinct worker_id) from sessions where live").fetch_one(conn).await?;
    Ok(usize::try_from(used)?)
}

fn per_second(what: usize, elapsed: Duration) -> f64 {
    count(what) / elapsed.as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn count(what: usize) -> f64 {
    what as f64
}
