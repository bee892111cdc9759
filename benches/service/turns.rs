//! Cost of an agent session's turn beyond its operation.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::{Value, json};

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::site;

const ROUNDS: usize = 200;
const BEYOND: f64 = 10.0;

const PAGE: &str = "<!doctype html><title>Turns</title><meta name=viewport content='width=device-width'>
<button id=next onclick='this.dataset.taps = 1 + (+this.dataset.taps || 0)'>Next</button><input aria-label=Name>";

pub async fn run() -> Result<()> {
    let url = site::serve(Router::new().route("/", get(|| async { Html(PAGE) }))).await?;
    for driver in ["simulated", "webkit"] {
        let settings =
            [("WORKER__DRIVER", driver), ("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"), ("WORKER__WARM_POOL", "1")];
        let service = Service::start(&settings, 1).await?;
        report::heading(&format!("Turns of agent sessions, {driver}, one client, in milliseconds"));
        measure(&service.client("turns")?, &url).await?;
    }
    Ok(())
}

async fn measure(client: &Client, url: &str) -> Result<()> {
    let (agent, driver) = client.agent().await?;
    client.operate(&driver, "navigate", json!({"url": url})).await?;
    let tap = json!({"action": {"kind": "tap", "selector": "#next"}});
    let (mut bare, mut turn, mut three) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        bare.push(client.operate(&driver, "interact", tap.clone()).await?.total);
        turn.push(done(&client.send_message(&agent, "tap 'Next'").await?)?);
        three.push(done(&client.send_message(&agent, "tap 'Next', tap 'Next', tap 'Next'").await?)?);
    }
    report::durations("interact: a tap", &bare, None, None);
    report::durations("a turn of that tap, by its name", &turn, None, None);
    report::durations("a turn of three taps", &three, None, None);
    let beyond = turn.quantile(0.5) - bare.quantile(0.5);
    report::figure("a turn beyond its operation, median", beyond, "ms", "≤ 10 ms", beyond <= BEYOND);
    Ok(())
}

/// An error if a step was not done.
fn done(answer: &crate::service::Answer) -> Result<std::time::Duration> {
    let steps = answer.body["intents"].as_array().map(Vec::as_slice).unwrap_or_default();
    let done = |step: &Value| step["status"] == "done";
    if steps.is_empty() || !steps.iter().all(done) { Err(answer.body.to_string().into()) } else { Ok(answer.total) }
}
