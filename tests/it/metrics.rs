//! What operators are told by numbers (contract: operators 5, 7).

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::sink::Sink;
use crate::support::{App, Builder, Client, Role, eventually};
use crate::webhooks;

pub const TOKEN: &str = "scrape";

/// A service whose metrics [`value`] reads.
pub fn scraped(builder: Builder) -> Builder {
    builder.set("metrics.scrape_token", TOKEN)
}

/// The samples of a service, a line each.
async fn samples(base_url: &str) -> Vec<String> {
    let request = Client::new(base_url, Some(TOKEN)).request(Method::GET, "/metrics");
    let text = request.send().await.expect("an answer").text().await.expect("text");
    text.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect()
}

/// What a sample says that is there.
pub async fn value(app: &App, name: &str) -> f64 {
    let samples = samples(&app.base_url).await;
    let found = samples.iter().find_map(|sample| sample.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {samples:#?}")).parse().expect("a number")
}

/// Contract: operators 7. Live sessions by status, slots, what runs, and connections.
#[tokio::test]
async fn a_deployment_says_how_it_stands() {
    let app = scraped(App::simulated().set("worker.max_sessions", "3")).start().await;
    let client = app.client().await;
    let (first, second) = (client.session().await, client.session().await);
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    for (name, expected) in [
        ("service_sessions_live{status=\"creating\"}", 0.0),
        ("service_sessions_live{status=\"ready\"}", 1.0),
        ("service_sessions_live{status=\"busy\"}", 0.0),
        ("service_worker_slots", 3.0),
        ("service_worker_slots_free", 2.0),
        ("service_worker_sandboxed", 1.0),
        ("service_browser_memory_bytes", 0.0),
        (&format!("service_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
    ] {
        assert!((value(&app, name).await - expected).abs() < 0.5, "{name}");
    }
    let pool = value(&app, "service_db_pool_connections{state=\"idle\"}").await
        + value(&app, "service_db_pool_connections{state=\"in_use\"}").await;
    assert!(pool >= 1.0, "{pool}");
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    assert!(value(&app, "service_sessions_live{status=\"ready\"}").await < 0.5);
    app.stop().await;
}

/// Contract: operators 7. How long requests, operations and attempts to deliver took, each as a histogram.
#[tokio::test]
async fn durations_are_told() {
    let sink = Sink::start().await;
    let app = scraped(App::simulated().delivering_to(&sink)).start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.operate(&session, "wait", json!({"condition": {"kind": "time", "ms": 30}})).await.expect(200);
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;
    let operation = "service_session_operation_duration_seconds";
    assert!((value(&app, &format!("{operation}_count{{operation=\"wait\"}}")).await - 1.0).abs() < 0.5);
    assert!(value(&app, &format!("{operation}_sum{{operation=\"wait\"}}")).await >= 0.03);
    let request = "service_http_request_duration_seconds_bucket{route=\"/v1/sessions/{id}/wait\",le";
    let buckets: Vec<_> = samples(&app.base_url).await;
    let buckets: Vec<_> = buckets.iter().filter_map(|sample| sample.strip_prefix(request)).collect();
    assert!(buckets.first().is_some_and(|bucket| bucket.ends_with(" 0")), "{buckets:?}");
    assert!(buckets.contains(&"=\"+Inf\"} 1"), "{buckets:?}");
    eventually(Duration::from_secs(10), "the attempt is told", async || {
        let samples = samples(&app.base_url).await;
        samples.iter().any(|sample| sample == "service_webhook_attempt_duration_seconds_count 1").then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: operators 7. What is due and nobody has begun is told by type, with how long it waits.
#[tokio::test]
async fn what_waits_is_told() {
    let app = scraped(App::simulated().roles(&[Role::Api])).start().await;
    let types = ["maintenance", "emails", "webhooks", "operations", "turns", "proxy_checks"];
    for job_type in types {
        assert!(value(&app, &format!("service_job_queue_depth{{job_type=\"{job_type}\"}}")).await < 0.5, "{job_type}");
    }
    // Nobody is there who sends it.
    let address = json!({"email": "ada@example.com"});
    app.stranger().post("/v1/auth/magic-link/request", address).await.expect(200);
    assert!((value(&app, "service_job_queue_depth{job_type=\"emails\"}").await - 1.0).abs() < 0.5);
    eventually(Duration::from_secs(10), "it has waited", async || {
        (value(&app, "service_job_queue_age_seconds{job_type=\"emails\"}").await > 0.5).then_some(())
    })
    .await;
    app.stop().await;
}
