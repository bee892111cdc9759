//! Cost of recordings: the same work on sessions with `record: off` and `steps`, by turns.
//!
//! `KITFLEET_BENCH_PAGE` is the address of another page for the bytes of a recording. Its operations only scroll it.
#![allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
#![allow(clippy::disallowed_methods, reason = "the variable is only the bench's")]

use std::env;
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Result;
use crate::processes::with_descendants;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::site;

const MODES: [&str; 2] = ["off", "steps"];
/// Sessions of each mode.
const ROUNDS: usize = 6;
const TAPS: usize = 40;
const FLOWS: usize = 20;
/// Operations of the recording whose bytes and trace are measured, and of each measurement of processor time.
const OPERATIONS: usize = 100;
/// Bounds of what a recording costs: of an operation, of a whole flow (as a share), of an operation's processor time, of the bytes of
/// a hundred operations, and of the time to the first byte of their trace.
const TAP_MS: f64 = 2.0;
const FLOW_SHARE: f64 = 0.08;
const PROCESSOR_MS: f64 = 10.0;
const STORED_KIB: f64 = 4096.0;
const FIRST_BYTE_MS: f64 = 300.0;
/// Suffices for the picture after an operation.
const PAUSE: Duration = Duration::from_millis(200);
/// Until the events of a session are stored, and until taken browsers are replaced.
const SETTLED: Duration = Duration::from_secs(4);

/// A shop: text, pictures and colours of 40 products. A tap changes a product, and logs a line.
const SHOP: &str = "<!doctype html><title>Shop</title><meta name=viewport content='width=device-width'><style>
body { margin: 0; font: 16px sans-serif } article { display: flex; gap: 12px; padding: 12px; border-bottom: 1px solid #ddd }
svg { width: 96px; height: 96px } button { padding: 8px 16px; border: 0; border-radius: 8px; background: #06c; color: white }</style>
<h1>Shop</h1><main></main><script>
const colour = (n) => `hsl(${n * 47 % 360} 70% ${40 + n % 4 * 10}%)`;
for (let i = 0; i < 40; i++) {
  const article = document.createElement('article');
  article.innerHTML = `<svg viewBox='0 0 96 96'><rect width=96 height=96 fill='${colour(i)}'/><circle cx=48 cy=48 r=${12 + i % 30}
    fill='${colour(i + 5)}'/></svg><div><h2>Product ${i}</h2><p>The quick brown fox jumps over the lazy dog, ${i * 13} times.</p>
    <button>Add to cart</button></div>`;
  article.querySelector('button').onclick = (event) => { event.target.textContent = `${++taps} in the cart`; console.log('cart', taps) };
  document.querySelector('main').append(article);
}
let taps = 0;
</script>";

pub async fn run() -> Result<()> {
    let url = site::serve(Router::new().route("/", get(|| async { Html(SHOP) }))).await?;
    let settings = [
        ("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"),
        ("WORKER__WARM_POOL", "2"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "100000"),
    ];
    let service = Service::start(&settings, 1).await?;
    let client = service.client("recordings")?;
    operations(&client, &url).await?;
    flows(&client, &url).await?;
    processor_time(&service, &client, &url).await?;
    stored(&service, &client, &url).await
}

fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "button"}})
}

async fn open(client: &Client, record: &str, url: &str) -> Result<String> {
    let session = client.create_with(json!({"record": record})).await?;
    client.operate(&session, "navigate", json!({"url": url})).await?;
    Ok(session)
}

/// Prints both medians and their difference, which is at most `bound` milliseconds.
fn compare(name: &str, [off, steps]: &[Samples; 2], bound: f64) {
    report::durations(&format!("{name}, off"), off, None, None);
    report::durations(&format!("{name}, steps"), steps, None, None);
    let difference = steps.quantile(0.5) - off.quantile(0.5);
    report::figure("difference of the medians", difference, "ms", &format!("≤ {bound:.1} ms"), difference <= bound);
}

/// One after the other without a pause, and with a pause in which the picture is taken.
async fn operations(client: &Client, url: &str) -> Result<()> {
    let (mut at_once, mut paused): ([Samples; 2], [Samples; 2]) = Default::default();
    for _ in 0..ROUNDS {
        for (mode, record) in MODES.into_iter().enumerate() {
            let session = open(client, record, url).await?;
            sleep(SETTLED).await;
            for _ in 0..TAPS {
                at_once[mode].push(client.operate(&session, "interact", tap()).await?.total);
            }
            for _ in 0..TAPS {
                sleep(PAUSE).await;
                paused[mode].push(client.operate(&session, "interact", tap()).await?.total);
            }
            client.delete(&session).await?;
        }
    }
    report::heading("Recordings: a tap, by turns, in milliseconds");
    compare("taps without a pause", &at_once, TAP_MS);
    compare("taps with pauses", &paused, TAP_MS);
    Ok(())
}

async fn flows(client: &Client, url: &str) -> Result<()> {
    let mut flows: [Samples; 2] = Default::default();
    for _ in 0..FLOWS {
        for (mode, record) in MODES.into_iter().enumerate() {
            // Waits until the pool is full again.
            sleep(Duration::from_secs(1)).await;
            let started = Instant::now();
            let session = open(client, record, url).await?;
            client.operate(&session, "interact", tap()).await?;
            client.state(&session).await?;
            client.operate(&session, "capture", json!({"kind": "screenshot"})).await?;
            client.delete(&session).await?;
            flows[mode].push(started.elapsed());
        }
    }
    report::heading("Recordings: create, navigate, tap, state, screenshot, delete, in milliseconds");
    compare("a whole flow", &flows, flows[0].quantile(0.5) * FLOW_SHARE);
    Ok(())
}

/// Of all processes of the service, with its database, for each operation.
async fn processor_time(service: &Service, client: &Client, url: &str) -> Result<()> {
    let roots = service.pids_of("up");
    report::heading("Recordings: processor time of a tap and of the time after it, by turns");
    let mut times: [Samples; 2] = Default::default();
    for _ in 0..3 {
        for (mode, record) in MODES.into_iter().enumerate() {
            let session = open(client, record, url).await?;
            sleep(SETTLED).await;
            let before = with_descendants(&roots, "")?;
            for _ in 0..OPERATIONS {
                client.operate(&session, "interact", tap()).await?;
                sleep(PAUSE).await;
            }
            let spent = with_descendants(&roots, "")?.saturating_sub(before);
            times[mode].push(spent / u32::try_from(OPERATIONS)?);
            client.delete(&session).await?;
        }
    }
    compare("processor time of an operation", &times, PROCESSOR_MS);
    Ok(())
}

/// Bytes of a recording, and the time to the first byte of its trace.
async fn stored(service: &Service, client: &Client, url: &str) -> Result<()> {
    report::heading("Recordings: a hundred operations, each with its picture");
    let session = open(client, "steps", url).await?;
    for operation in 0..OPERATIONS {
        let scroll = json!({"action": {"kind": "scroll"}});
        client.operate(&session, "interact", if operation % 2 == 0 { tap() } else { scroll }).await?;
        sleep(PAUSE).await;
    }
    measure(service, client, &session, "the shop").await?;
    if let Ok(page) = env::var("KITFLEET_BENCH_PAGE") {
        let session = open(client, "steps", &page).await?;
        for _ in 0..OPERATIONS {
            client.operate(&session, "interact", json!({"action": {"kind": "scroll"}})).await?;
            sleep(PAUSE).await;
        }
        measure(service, client, &session, &page).await?;
    }
    Ok(())
}

async fn measure(service: &Service, client: &Client, session: &str, name: &str) -> Result<()> {
    sleep(SETTLED).await;
    client.delete(session).await?;
    sleep(SETTLED).await;
    let id: uuid::Uuid = session.trim_start_matches("ses_").parse()?;
    let query = "select r.bytes, (select coalesce(sum(cardinality(operations)), 0)::bigint from recording_segments
                                  where session_id = r.session_id) from recordings r where r.session_id = $1";
    let (bytes, pictures): (i64, i64) =
        sqlx::query_as(query).bind(id).fetch_one(&mut service.database().await?).await?;
    let kib = bytes as f64 / 1024.0;
    report::figure(&format!("stored, {name}"), kib, "KiB", &format!("≤ {STORED_KIB} KiB"), kib <= STORED_KIB);
    report::figure("pictures", pictures as f64, "", "no bound", true);
    let (mut first, mut whole, mut size) = (Samples::default(), Samples::default(), 0);
    for _ in 0..10 {
        let download = client.download(&format!("/v1/sessions/{session}/trace")).await?;
        first.push(download.first_byte);
        whole.push(download.total);
        size = download.bytes;
    }
    report::durations("first byte of the trace", &first, Some(FIRST_BYTE_MS), None);
    report::durations("the whole trace", &whole, None, None);
    report::figure("size of the trace", size as f64 / 1024.0, "KiB", "no bound", true);
    Ok(())
}
