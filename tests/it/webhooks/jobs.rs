//! Deliveries as jobs, for operators and for workers.

use std::time::Duration;

use kitfleet_domain::webhooks::attempts::{ClaimLimits, claim, give_back};
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{create, flood, id_of, send_test, wait_for_delivery};
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually, unknown_id};

async fn stats(app: &App) -> Value {
    let stats = app.run(&["jobs", "stats", "--json"]).await.code(0).json();
    let of_queue = stats.as_array().and_then(|all| all.iter().find(|stats| stats["queue"] == "webhooks"));
    of_queue.expect("the queue's numbers").clone()
}

async fn listed(app: &App, args: &[&str]) -> Vec<Value> {
    let listed = app.run(&[&["jobs", "list", "--json"], args].concat()).await.code(0).json();
    listed.as_array().expect("a list").clone()
}

/// Contract: command-line 6, 7. A dead letter can be retried like a failed job.
#[tokio::test]
async fn delivery_is_shown_and_retried_as_a_job() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "[]").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint = id_of(&create(&client, &sink.url("/first/500/1/"), &["session.failed"]).await);
    let delivery = send_test(&client, &endpoint).await;
    let dead = wait_for_delivery(&client, &endpoint, &delivery, "dlq").await;

    let shown = app.run(&["jobs", "show", &delivery, "--json"]).await.code(0).json();
    let job = json!({
        "id": delivery, "queue": "webhooks", "status": "failed",
        "body": {"account_id": account, "endpoint_id": endpoint, "event_id": dead["event_id"], "event_type": "test.ping"},
        "attempts": 1, "run_at": null, "lock_by": null, "lock_at": null, "done_at": dead["updated_at"],
        "result": {"last_response_status": 500, "last_error": null},
    });
    assert_eq!(shown, job);
    assert!(app.run(&["jobs", "show", &delivery]).await.code(0).stdout.contains(&delivery));
    assert_eq!(listed(&app, &["--queue", "webhooks", "--status", "failed"]).await, [job]);

    let cancelled = app.run(&["jobs", "cancel", &delivery]).await.code(1);
    assert!(cancelled.error_text().contains("can pause or delete its endpoint"), "{cancelled:?}");
    let retried = app.run(&["jobs", "retry", &delivery, "--json"]).await.code(0).json();
    assert_eq!(retried, json!({"id": delivery, "status": "pending"}));
    let arrived = wait_for_delivery(&client, &endpoint, &delivery, "delivered").await;
    assert_eq!(arrived["attempts"], 1);
    let shown = app.run(&["jobs", "show", &delivery, "--json"]).await.code(0).json();
    assert_eq!((&shown["status"], &shown["done_at"]), (&json!("done"), &arrived["delivered_at"]));
    let refused = app.run(&["jobs", "retry", &delivery]).await.code(1);
    assert!(refused.error_text().contains("is delivered, not dlq"), "{refused:?}");

    let unknown = unknown_id("wdl");
    for (order, error_text) in [("show", "there is no job"), ("retry", "there is no delivery")] {
        let refused = app.run(&["jobs", order, &unknown]).await.code(1);
        assert!(refused.error_text().contains(error_text), "{refused:?}");
    }
    app.stop().await;
}

/// Contract: command-line 6.
#[tokio::test]
async fn deliveries_are_listed_and_counted_as_jobs() {
    let sink = Sink::start().await;
    let mut app = App::simulated().in_processes().delivering_to(&sink).set("webhooks.timeout", "1m").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let answering = id_of(&create(&client, &sink.url("/ok"), &["api_key.revoked"]).await);
    let first = send_test(&client, &answering).await;
    wait_for_delivery(&client, &answering, &first, "delivered").await;
    let session = client.session().await;
    let second = send_test(&client, &answering).await;
    wait_for_delivery(&client, &answering, &second, "delivered").await;
    // A browser was opened in between.
    let all = listed(&app, &["--limit", "10000"]).await;
    let place = |is: &dyn Fn(&Value) -> bool| all.iter().position(is).expect("the job is listed");
    let between = place(&|job| job["queue"].as_str().is_some_and(|queue| queue.starts_with("operations:")));
    assert!(place(&|job| job["id"] == second) < between && between < place(&|job| job["id"] == first), "{all:?}");
    assert_eq!(listed(&app, &["--limit", "1"]).await.len(), 1);
    assert!(listed(&app, &["--queue", "emails"]).await.iter().all(|job| job["queue"] == "emails"));
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);

    // The maximum number of attempts in flight for one endpoint.
    let hanging = id_of(&create(&client, &sink.url("/hang"), &["session.failed"]).await);
    flood(&app, &[account], 40).await;
    let counted = eventually(Duration::from_secs(20), "32 attempts are in flight", async || {
        let counted = stats(&app).await;
        (counted["running"] == 32).then_some(counted)
    })
    .await;
    let counts = |counted: &Value| ["pending", "running", "done", "failed", "killed"].map(|name| counted[name].clone());
    assert_eq!(counts(&counted), [8, 32, 2, 0, 0].map(|count| json!(count)));
    assert!(counted["oldest_pending_seconds"].is_f64());
    let running = listed(&app, &["--queue", "webhooks", "--status", "running", "--limit", "3"]).await;
    assert_eq!(running.len(), 3);
    assert!(running[0]["lock_at"].is_string() && running[0]["run_at"].is_null(), "{running:?}");
    assert!(listed(&app, &["--queue", "webhooks", "--status", "pending"]).await[0]["run_at"].is_string());
    client.delete(&format!("/v1/webhooks/{hanging}")).await.expect(204);
    assert_eq!(listed(&app, &["--queue", "webhooks", "--status", "killed"]).await.len(), 8);
    // A normal shutdown would wait for the hanging attempts.
    app.signal(0, Signal::SIGKILL).await;
    app.stop().await;
}

/// Contract: webhooks 27. Another worker may have claimed it.
#[tokio::test]
async fn released_claim_is_due_again_at_once() {
    let sink = Sink::start().await;
    let mut app = App::simulated().roles(&[Role::Api]).delivering_to(&sink).start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let delivery = send_test(&client, &id).await;
    let claimed = async || {
        let wanted = ClaimLimits {
            not_endpoints: Vec::new(),
            not_accounts: Vec::new(),
            max: (16, 64),
            after: None,
            slow: Vec::new(),
            answering: Vec::new(),
            besides: Vec::new(),
        };
        let mut conn = app.database.pool.acquire().await.expect("a connection");
        let claimed = claim(&mut conn, &wanted, Duration::from_mins(10)).await.expect("a claim");
        let [attempt] = &claimed[..] else { panic!("expected one claim: {claimed:?}") };
        (attempt.id, attempt.claimed_until)
    };
    let given_back = async |claim| {
        let mut conn = app.database.pool.acquire().await.expect("a connection");
        give_back(&mut conn, &[claim]).await.expect("the database");
    };
    let first = claimed().await;
    given_back(first).await;
    let second = claimed().await;
    given_back(first).await;
    assert_eq!(app.count("select count(*) from webhook_deliveries where status = 'in_flight' and not due").await, 1);
    given_back(second).await;
    app.start(Role::Worker);
    assert_eq!(wait_for_delivery(&client, &id, &delivery, "delivered").await["attempts"], 1);
    app.stop().await;
}
