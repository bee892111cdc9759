//! Connections to the database: their number per process, and a connection pooler (contract: workers 24, 25).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::app::{Builder, free_port};
use crate::support::pooler::CONNECTIONS;
use crate::support::sink::Sink;
use crate::support::{App, Role, at_once, eventually};
use crate::webhooks;

fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "#button"}})
}

/// Including the test's own, and of those that listen.
async fn connections(app: &App) -> (i64, i64) {
    sqlx::query_as(
        "select count(*), count(*) filter (where query ilike 'listen%')
         from pg_stat_activity where datname = current_database() and backend_type = 'client backend'",
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("the connections")
}

/// Contract: workers 25. This covers sessions, operations across processes, webhooks, profiles, sweeps, migrations and drains.
/// The processes use at most the pooler's server connections, plus one listening connection each.
#[tokio::test]
async fn pgbouncer_in_transaction_mode_is_supported() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).pooled();
    let sink = Sink::start().await;
    let mut app = builder.set("worker.drain_timeout", "20s").delivering_to(&sink).start().await;
    eventually(Duration::from_secs(30), "both workers are active", async || {
        (app.count("select count(*) from workers where status = 'active'").await == 2).then_some(())
    })
    .await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    webhooks::create(&client, &sink.url("/ok"), &["session.completed"]).await;
    let profile = client.profile().await;
    at_once((0..12).map(|_| {
        let client = client.clone();
        async move {
            let session = client.session().await;
            for round in 0..10 {
                client.operate(&session, "interact", tap()).await.expect(200);
                let url = format!("https://example.com/{round}?{}", "x".repeat(9_000));
                assert_eq!(client.navigate(&session, &url).await.body["url"], url);
            }
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        }
    }))
    .await;
    client.post(&format!("/v1/profiles/{profile}/snapshots"), json!({})).await.expect(201);
    let with_profile = client.session_with(json!({"profile_id": profile})).await;
    let (all, listening) = connections(&app).await;
    let pool = i64::from(app.database.pool.size());
    assert_eq!(listening, 3, "not one listening connection per process");
    assert!(all - pool <= i64::from(CONNECTIONS) + listening, "{all} connections, of them {pool} the test's own");

    app.run(&["migrate"]).await.code(0);
    app.run(&["sweep", "retention"]).await.code(0);
    let worker = app.worker_of(&with_profile).await;
    client.delete(&format!("/v1/sessions/{with_profile}")).await.expect(204);
    app.run(&["workers", "drain", &worker, "--wait"]).await.code(0);
    let session = client.session().await;
    assert_ne!(app.worker_of(&session).await, worker);
    client.operate(&session, "interact", tap()).await.expect(200);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    eventually(Duration::from_secs(20), "every delivery arrives", async || {
        let delivered = "select count(*) from webhook_deliveries where status = 'delivered'";
        (app.count(delivered).await == 14).then_some(())
    })
    .await;
    for worker in [1, 2] {
        app.signal(worker, Signal::SIGTERM).await;
    }
    assert_eq!(app.count("select count(*) from sessions where status = 'errored'").await, 0);
    app.stop().await;
}

/// Contract: workers 24. The number of customers makes no difference.
#[tokio::test]
async fn connections_of_a_process_stay_within_the_limit() {
    takes_at_most(App::simulated(), 1, 8 + 11).await;
    takes_at_most(App::simulated().roles(&[Role::Api, Role::Worker]), 2, 8 + 3 + 8 + 10).await;
}

async fn takes_at_most(builder: Builder, processes: i64, max: i64) {
    let app = builder.set("database.max_connections", "8").set("worker.max_sessions", "64").start().await;
    let client = app.client().await;
    let customers = (0..24).map(|_| {
        let client = client.clone();
        async move {
            let session = client.session().await;
            for _ in 0..10 {
                client.operate(&session, "interact", tap()).await.expect(200);
            }
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        }
    });
    at_once(customers).await;
    let (all, listening) = connections(&app).await;
    let pool = i64::from(app.database.pool.size());
    assert_eq!(listening, processes, "not one listening connection per process");
    assert!(all - pool <= max, "{all} connections, of them {pool} the test's own");
    app.stop().await;
}

/// Contract: workers 25.
#[tokio::test]
async fn worker_that_cannot_listen_logs_the_setting() {
    let mut app = App::simulated().roles(&[Role::Api]).start().await;
    let nowhere = format!("postgres://kitfleet@127.0.0.1:{}/kitfleet", free_port());
    let worker = app.start_with(Role::Worker, &[("KITFLEET_DATABASE__LISTEN_URL", &nowhere)]);
    eventually(Duration::from_secs(30), "the worker logs the setting", async || {
        app.log(worker).contains("cannot listen for wake-ups at the database (database.listen_url").then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from workers where status = 'active'").await, 0);
    app.stop().await;
}
