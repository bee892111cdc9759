//! Single operations, memory, and whole flows compared with bare `WebDriver`.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::{site, webdriver};

const ROUNDS: usize = 20;
const FLOWS: Duration = Duration::from_secs(20);
/// Concurrent flows.
const AT_ONCE: [usize; 4] = [1, 2, 4, 8];
/// Concurrent creates, and repetitions.
const BURST: (usize, usize) = (8, 5);

pub async fn run() -> Result<()> {
    let url = site::start().await?;
    let settings = [("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"), ("WORKER__WARM_POOL", "2")];
    let service = Service::start(&settings, 1).await?;
    let client = service.client("browsers")?;
    operations(&client, &url).await?;
    overhead(&client, &url).await?;
    snapshots(&client, &url).await?;
    memory(&service, &client, &url).await?;
    flows(&client, &url).await?;
    drop(service);

    let service = Service::start(&[("SESSIONS__ALLOW_PRIVATE_TARGETS", "true")], 1).await?;
    bursts(&service.client("bursts")?).await?;
    drop(service);

    let cold = Service::start(&[("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"), ("WORKER__WARM_POOL", "0")], 1).await?;
    let client = cold.client("cold")?;
    report::heading("With an empty pool, in milliseconds");
    let mut create = Samples::default();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let session = client.create().await?;
        create.push(started.elapsed());
        client.delete(&session).await?;
    }
    report::durations("create", &create, None, None);
    Ok(())
}

async fn operations(client: &Client, url: &str) -> Result<()> {
    let mut samples: HashMap<&str, Samples> = HashMap::new();
    let operations = [
        ("navigate again", "navigate", json!({"url": url})),
        ("tap", "interact", json!({"action": {"kind": "tap", "selector": "#button"}})),
        (
            "type 10 characters",
            "interact",
            json!({"action": {"kind": "type", "selector": "#input", "text": "0123456789", "delay_ms": 0}}),
        ),
        ("extract", "extract", json!({"extractions": [{"name": "heading", "selector": "h1", "type": "text"}]})),
        ("screenshot at ratio 3", "capture", json!({"kind": "screenshot"})),
        ("full-page screenshot", "capture", json!({"kind": "screenshot", "full_page": true})),
    ];
    for _ in 0..ROUNDS {
        // Waits until the pool is full again: a taken browser is replaced in the background.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        let session = client.create().await?;
        samples.entry("create, hot").or_default().push(begun.elapsed());
        client.operate(&session, "navigate", json!({"url": url})).await?;
        samples.entry("create to first page").or_default().push(begun.elapsed());
        for (name, operation, body) in &operations {
            let answer = client.operate(&session, operation, body.clone()).await?;
            samples.entry(name).or_default().push(answer.total);
        }
        let state = client.state(&session).await?;
        samples.entry("state").or_default().push(state.total);
        samples.entry("delete").or_default().push(client.delete(&session).await?);
    }
    report::heading("Operations on real WebKit, one client, in milliseconds");
    let bounds = [
        ("create, hot", Some(60.0)),
        ("create to first page", Some(175.0)),
        ("navigate again", None),
        ("tap", None),
        ("type 10 characters", None),
        ("state", None),
        ("extract", None),
        ("screenshot at ratio 3", Some(150.0)),
        ("full-page screenshot", None),
        ("delete", Some(30.0)),
    ];
    for (name, bound) in bounds {
        report::durations(name, &samples[name], bound, None);
    }
    Ok(())
}

/// For one client on one session, while no browser is being replaced.
async fn overhead(client: &Client, url: &str) -> Result<()> {
    let operations = [
        ("navigate", json!({"url": url})),
        ("interact", json!({"action": {"kind": "tap", "selector": "#button"}})),
        ("extract", json!({"extractions": [{"name": "heading", "selector": "h1", "type": "text"}]})),
        ("wait", json!({"condition": {"kind": "selector", "selector": "#input"}})),
    ];
    let session = client.create().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut overhead = Samples::default();
    for _ in 0..ROUNDS * 5 {
        for (operation, body) in &operations {
            overhead.push(client.operate(&session, operation, body.clone()).await?.overhead());
        }
    }
    client.delete(&session).await?;
    report::durations("overhead of an operation", &overhead, Some(4.0), Some(20.0));
    Ok(())
}

/// Of a page with a thousand controls on an otherwise idle session.
async fn snapshots(client: &Client, url: &str) -> Result<()> {
    let session = client.create().await?;
    client.operate(&session, "navigate", json!({"url": format!("{url}controls")})).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        samples.push(client.operate(&session, "snapshot", json!({})).await?.total);
    }
    client.delete(&session).await?;
    report::durations("snapshot of a thousand controls", &samples, Some(30.0), None);
    Ok(())
}

/// PSS with ten sessions.
async fn memory(service: &Service, client: &Client, url: &str) -> Result<()> {
    const SESSIONS: u32 = 10;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = client.create().await?;
        client.operate(&session, "navigate", json!({"url": url})).await?;
        sessions.push(session);
    }
    let (browsers, count) = browser_memory(&service.pids())?;
    let each = browsers / f64::from(u32::try_from(count.max(1))?);
    report::heading("Memory");
    report::figure(&format!("a session, {count} browsers alive"), each, "MiB PSS", "≤ 100 MiB", each <= 100.0);
    for session in sessions {
        client.delete(&session).await?;
    }
    Ok(())
}

/// In MiB, of all descendants except the database's, with the number of browsers among them.
fn browser_memory(roots: &[u32]) -> Result<(f64, usize)> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let (mut kib, mut browsers) = (0_u32, 0);
    let mut todo: Vec<u32> = roots.iter().flat_map(|root| children.get(root).cloned().unwrap_or_default()).collect();
    while let Some(pid) = todo.pop() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.starts_with("postgres") {
            continue;
        }
        browsers += usize::from(name.trim() == "kitfleet-host");
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let pss =
            rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse::<u32>().ok());
        kib += pss.unwrap_or(0);
        todo.extend(children.get(&pid).cloned().unwrap_or_default());
    }
    Ok((f64::from(kib) / 1024.0, browsers))
}

/// With the service's default number of hot browsers. The first burst comes before the pool has adapted.
async fn bursts(client: &Client) -> Result<()> {
    report::heading("Eight creates at once, all ready, in milliseconds");
    for burst in 0..BURST.1 {
        // By then, the browsers that were taken are replaced.
        tokio::time::sleep(Duration::from_secs(8)).await;
        let begun = Instant::now();
        let sessions = futures_util::future::try_join_all((0..BURST.0).map(|_| client.create())).await?;
        let elapsed = begun.elapsed().as_secs_f64() * 1_000.0;
        let name = if burst == 0 { "the first such burst" } else { "one after another such burst" };
        report::figure(name, elapsed, "ms", "≤ 500", elapsed <= 500.0);
        futures_util::future::try_join_all(sessions.iter().map(|session| client.delete(session))).await?;
    }
    Ok(())
}

/// Create, navigate, tap, state, screenshot, delete.
async fn flows(client: &Client, url: &str) -> Result<()> {
    report::heading("Whole flows: create, navigate, tap, state, screenshot, delete");
    for at_once in AT_ONCE {
        let ours = rate(at_once, async |_| flow(client, url).await).await?;
        let driver = webdriver::Server::start(at_once)?;
        let theirs = rate(at_once, async |lane| driver.flow(lane, url).await).await?;
        report::figure(&format!("ours, {at_once} at once"), ours, "flows/s", "no bound", true);
        report::figure("bare WebDriver, a fresh browser each", theirs, "flows/s", "no bound", true);
        report::figure("ours to bare WebDriver", ours / theirs, "times", "≥ 1", ours >= theirs);
    }
    Ok(())
}

async fn flow(client: &Client, url: &str) -> Result<()> {
    let session = client.create().await?;
    client.operate(&session, "navigate", json!({"url": url})).await?;
    client.operate(&session, "interact", json!({"action": {"kind": "tap", "selector": "#button"}})).await?;
    client.state(&session).await?;
    client.operate(&session, "capture", json!({"kind": "screenshot"})).await?;
    client.delete(&session).await.map(drop)
}

async fn rate(at_once: usize, work: impl AsyncFn(usize) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    let lane = async |lane| {
        let mut flows = 0_u32;
        while started.elapsed() < FLOWS {
            work(lane).await?;
            flows += 1;
        }
        Result::Ok(flows)
    };
    let flows = futures_util::future::try_join_all((0..at_once).map(lane)).await?;
    Ok(f64::from(flows.into_iter().sum::<u32>()) / started.elapsed().as_secs_f64())
}
