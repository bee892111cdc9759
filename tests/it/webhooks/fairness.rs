use std::collections::HashSet;
use std::time::{Duration, Instant};

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::json;
use uuid::Uuid;

use super::{create, flood, id_of, test_event};
use crate::support::events;
use crate::support::sink::{Silence, Sink};
use crate::support::{App, eventually};

/// Sorted, of 200 events of an account that are created one every 10 ms.
async fn times_to(app: &App, sink: &Sink, account: AccountId, path: &str) -> Vec<Duration> {
    const EVENTS: usize = 200;
    let (mut ticks, mut committed) = (tokio::time::interval(Duration::from_millis(10)), Vec::new());
    let before = sink.received(path).len();
    for _ in 0..EVENTS {
        ticks.tick().await;
        let id = Uuid::now_v7();
        sqlx::query("insert into events (id, account_id, type, data) values ($1, $2, 'session.failed', $3)")
            .bind(id)
            .bind(account.as_uuid())
            .bind(events::failed())
            .execute(&app.database.pool)
            .await
            .expect("an event");
        committed.push((id.to_string(), Instant::now()));
    }
    let received = sink.receives(path, before + EVENTS).await;
    let elapsed = |(id, at): &(String, Instant)| {
        let received =
            received.iter().find(|one| one.header("x-service-event-id") == id).expect("the event was received");
        received.at.saturating_duration_since(*at)
    };
    let mut times: Vec<_> = committed.iter().map(elapsed).collect();
    times.sort_unstable();
    times
}

/// Contract: webhooks 25. The endpoints are more than a worker can serve concurrently. The p99 may rise by 10 % plus 250 ms,
/// because tests share the machine. A delivery that waited for a hanging endpoint would take seconds.
#[tokio::test]
async fn accounts_whose_endpoints_hang_delay_no_other_account() {
    let (sink, silence) = (Sink::start().await, Silence::start());
    let mut app =
        App::simulated().in_processes().delivering_to(&sink).set("limits.webhook_endpoints", "40").start().await;
    let mut hanging = Vec::new();
    for _ in 0..10 {
        let (account, client) = app.customer(Tier::Enterprise).await;
        for _ in 0..20 {
            create(&client, &silence.url(), &["session.failed"]).await;
        }
        hanging.push(account);
    }
    let (account, client) = app.customer(Tier::Enterprise).await;
    create(&client, &sink.url("/ok"), &["session.failed"]).await;
    let alone = times_to(&app, &sink, account, "/ok").await;
    for hanging in hanging {
        flood(&app, &[hanging], 8).await;
    }
    eventually(Duration::from_secs(10), "the hanging deliveries use most of the slots", async || {
        let under_way = app.count("select count(*) from webhook_deliveries where status = 'in_flight'").await;
        (under_way >= 800).then_some(())
    })
    .await;
    let beside = times_to(&app, &sink, account, "/ok").await;
    let (median, p99) = (alone.len() / 2, alone.len() * 99 / 100);
    for (rank, slack) in [(median, 25), (p99, 250)] {
        let bound = alone[rank].mul_f64(1.1) + Duration::from_millis(slack);
        assert!(
            beside[rank] <= bound,
            "rank {rank}: {:?} alone, {:?} beside the hanging ones",
            alone[rank],
            beside[rank]
        );
    }
    // A normal shutdown would wait for the hanging attempts.
    app.signal(0, Signal::SIGKILL).await;
    app.stop().await;
}

/// Contract: webhooks 25, 26. A working endpoint of the account does not wait for them.
#[tokio::test]
async fn hanging_endpoints_are_attempted_a_few_at_a_time() {
    let (sink, silence) = (Sink::start().await, Silence::start());
    let app = App::simulated()
        .delivering_to(&sink)
        .set("limits.webhook_endpoints", "41")
        .set("webhooks.timeout", "400ms")
        .set("webhooks.retry_schedule", "1s")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    for _ in 0..40 {
        create(&client, &silence.url(), &["session.failed"]).await;
    }
    create(&client, &sink.url("/ok"), &["api_key.revoked"]).await;
    flood(&app, &[account], 2).await;
    eventually(Duration::from_secs(20), "each delivery had an attempt", async || {
        let not_asked = "select count(*) from webhook_deliveries where attempts = 0";
        (app.count(not_asked).await == 0).then_some(())
    })
    .await;
    let key = client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201);
    client.delete(&format!("/v1/api-keys/{}", key.body["id"].as_str().expect("an id"))).await.expect(204);
    let mut max = 0;
    eventually(Duration::from_secs(30), "each delivery had two attempts", async || {
        let under_way = "select count(*) from webhook_deliveries where status = 'in_flight'";
        max = max.max(app.count(under_way).await);
        let of_one = "select coalesce(max(count), 0) from (
                          select count(*) from webhook_deliveries where status = 'in_flight' group by endpoint_id) counts";
        let of_one = app.count(of_one).await;
        assert!(max <= 9 && of_one <= 4, "{max} in flight, {of_one} of them for one endpoint");
        let waiting = "select count(*) from webhook_deliveries where next_attempt_at is not null";
        (app.count(waiting).await == 0).then_some(())
    })
    .await;
    assert!(max >= 4, "at most {max} were in flight");
    let received = sink.receives("/ok", 1).await;
    let last = Instant::now();
    assert!(last - received[0].at > Duration::from_secs(1), "the working endpoint waited for the hanging ones");
    assert_eq!(app.count("select count(*) from webhook_deliveries where status = 'dlq'").await, 80);
    app.stop().await;
}

/// Contract: webhooks 25. The other account's delivery was created later.
#[tokio::test]
async fn long_queues_do_not_delay_other_accounts() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (mut busy, path) = (Vec::new(), "/slow/200/100");
    for _ in 0..50 {
        let (account, client) = app.customer(Tier::Enterprise).await;
        create(&client, &sink.url(path), &["session.failed"]).await;
        busy.push(account);
    }
    let other = app.client().await;
    let id = id_of(&create(&other, &sink.url("/ok"), &["session.failed"]).await);
    flood(&app, &busy, 100).await;
    test_event(&other, &id).await;
    sink.receives("/ok", 1).await;
    // Each account has some turns first. Without fairness two thirds of the queue or more would be ahead.
    let ahead = sink.received(path).len();
    assert!(ahead < 2_000, "{ahead} of 5,000 were ahead");
    eventually(Duration::from_mins(1), "all events are received", async || {
        (sink.received(path).len() == 5_000).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: webhooks 26.
#[tokio::test]
async fn working_endpoint_does_not_wait_for_hanging_ones() {
    let (sink, silence) = (Sink::start().await, Silence::start());
    let app = App::simulated()
        .delivering_to(&sink)
        .set("limits.webhook_endpoints", "20")
        .set("webhooks.timeout", "3s")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let answering = id_of(&create(&client, &sink.url("/ok"), &["session.completed"]).await);
    test_event(&client, &answering).await;
    sink.receives("/ok", 1).await;
    for _ in 0..16 {
        create(&client, &silence.url(), &["session.failed"]).await;
    }
    flood(&app, &[account], 20).await;
    eventually(Duration::from_secs(20), "some attempts have timed out", async || {
        (app.count("select count(*) from webhook_deliveries where last_error = 'timeout'").await > 0).then_some(())
    })
    .await;
    test_event(&client, &answering).await;
    let asked = Instant::now();
    sink.receives("/ok", 2).await;
    assert!(asked.elapsed() < Duration::from_secs(3), "the delivery waited {:?}", asked.elapsed());
    assert!(app.count("select count(*) from webhook_deliveries where attempts = 0").await > 50);
    app.stop().await;
}

/// Contract: webhooks 26. The connection belongs to another endpoint on the same host.
#[tokio::test]
async fn hanging_endpoint_does_not_close_kept_connections() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.timeout", "500ms")
        .set("webhooks.retry_schedule", "1h")
        .start()
        .await;
    let (hanging, other) = (app.client().await, app.client().await);
    let hangs = id_of(&create(&hanging, &sink.url("/hang"), &["session.failed"]).await);
    let answers = id_of(&create(&other, &sink.url("/ok"), &["session.failed"]).await);
    for round in 1..=3 {
        // Before the first timeout the endpoint is not known to hang.
        test_event(&hanging, &hangs).await;
        eventually(Duration::from_secs(20), "the attempt has timed out", async || {
            let given_up = "select count(*) from webhook_deliveries where last_error = 'timeout'";
            (app.count(given_up).await == round).then_some(())
        })
        .await;
        test_event(&other, &answers).await;
        sink.receives("/ok", usize::try_from(round).expect("a few")).await;
    }
    let connections: HashSet<_> = sink.received("/ok").iter().map(|one| one.from).collect();
    assert_eq!(connections.len(), 1, "{connections:?}");
    app.stop().await;
}
