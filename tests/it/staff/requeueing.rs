//! Requeueing many dead letters, and its cost for other requests.

use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::delays::Delays;
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually};
use crate::webhooks::{create, id_of, send_test};

const COUNT: i32 = 100_000;
const ALONE: usize = 300;
/// Of the requeue.
const MEASURED: Duration = Duration::from_mins(1);
/// Requeued deliveries of an endpoint that are due or in flight.
const MAX_IN_PROGRESS: i64 = 16;

/// Contract: command-line 7; staff 12. A batch of the command has 200 deliveries and one transaction.
#[tokio::test]
async fn command_requeues_in_batches() {
    let sink = Sink::start().await;
    let mut app = App::simulated().roles(&[Role::Api]).delivering_to(&sink).start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 450, 1).await;
    let output = app.run(&["deliveries", "requeue", "--endpoint", &endpoint]).await.code(0).stdout;
    let lines: Vec<_> = output.lines().collect();
    let wanted = ["requeued 200 of 450 deliveries", "requeued 400 of 450 deliveries", "requeued 450 of 450 deliveries"];
    assert_eq!(lines, [&wanted[..], &["requeued 450 deliveries"]].concat());
    let sent = "select count(*) from webhook_deliveries
                where status = 'pending' and updated_at > created_at + interval '30 minutes'";
    let moments = "select count(distinct updated_at) from webhook_deliveries
                   where status = 'pending' and updated_at > created_at + interval '30 minutes'";
    assert_eq!((app.count(sent).await, app.count(moments).await), (450, 3), "in three transactions");
    let counts = client.get(&format!("/v1/webhooks/{endpoint}")).await.expect(200).body["delivery_counts"].clone();
    assert_eq!(counts, json!({"delivered": 0, "failed": 0, "dlq": 0}));

    app.start(Role::Worker);
    app.dead_letters(&endpoint, 650, 1).await;
    let output = app.run(&["deliveries", "requeue", "--endpoint", &endpoint, "--json"]).await.code(0).json();
    let ids = output["requeued"].as_array().expect("ids");
    assert!(ids.len() == 650 && ids.is_sorted_by(|a, b| a.as_str() < b.as_str()), "{ids:?}");
    // Deliveries of new events do not count.
    let delivered = "select count(*) from webhook_deliveries where status = 'delivered' and created_at < now() - interval '30 minutes'";
    eventually(Duration::from_mins(2), "all are delivered", async || {
        (app.count(delivered).await == 1_100).then_some(())
    })
    .await;
    assert_eq!(
        app.count("select count(*) from webhook_deliveries where attempts > 1").await,
        0,
        "no delivery is sent twice"
    );
    assert_eq!(
        app.count("select count(*) from delivery_requeues where requeued = total and done_at is not null").await,
        2
    );
    app.stop().await;
}

/// Contract: staff 12. A requeue keeps few deliveries of an endpoint under way, so that a new delivery to it starts at once. Another
/// account's requeue goes on beside it.
#[tokio::test]
async fn requeue_to_a_slow_endpoint_delays_no_other_delivery() {
    const SLOW: &str = "/slow/200/4000";
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let (_, other) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let slow = id_of(&create(&client, &sink.url(SLOW), &["session.failed"]).await);
    let fast = id_of(&create(&other, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&slow, 200, 1).await;
    app.dead_letters(&fast, 100, 1).await;
    // The events of the dead letters have deliveries of their own, which end first.
    let ended = "select count(*) from webhook_deliveries where status = 'delivered'";
    eventually(Duration::from_secs(20), "the new events are delivered", async || {
        (app.count(ended).await == 2).then_some(())
    })
    .await;
    let begin = async |endpoint: &str| {
        let body = json!({"endpoint_id": endpoint, "reason": "their server is back"});
        let begun = staff.post("/v1/admin/webhook-deliveries/requeue", body).await.expect(202).body;
        format!("/v1/admin/webhook-deliveries/requeues/{}", begun["id"].as_str().expect("an id"))
    };
    let (slow_requeue, fast_requeue) = (begin(&slow).await, begin(&fast).await);
    let in_progress =
        "select count(*) from webhook_deliveries where requeue_id is not null and (due or status = 'in_flight')
                     and endpoint_id = (select id from webhook_endpoints where url like '%/slow/%')";
    eventually(Duration::from_secs(20), "the slow endpoint has enough to do", async || {
        (app.count(in_progress).await == MAX_IN_PROGRESS).then_some(())
    })
    .await;

    let asked = Instant::now();
    send_test(&client, &slow).await;
    let new = "select count(*) from webhook_deliveries where event_type = 'test.ping' and status = 'in_flight'";
    eventually(Duration::from_secs(10), "a new delivery to the slow endpoint starts", async || {
        (app.count(new).await == 1).then_some(())
    })
    .await;
    assert!(asked.elapsed() < Duration::from_secs(3), "a new delivery waited for {:?}", asked.elapsed());

    eventually(Duration::from_secs(30), "the other account's are delivered", async || {
        assert!(app.count(in_progress).await <= MAX_IN_PROGRESS, "too many are under way");
        let now = staff.get(&fast_requeue).await.expect(200).body;
        (now["outcome"]["delivered"] == 100).then_some(())
    })
    .await;
    let now = staff.get(&slow_requeue).await.expect(200).body;
    assert_eq!(now["done_at"], Value::Null, "the other account's did not go on beside it: {now}");
    app.stop().await;
}

/// Contract: staff 12. The endpoint can be changed meanwhile, and no delivery is sent twice.
#[tokio::test]
#[ignore = "prints figures: ./ops/test requeueing_a_hundred_thousand --run-ignored only --success-output final"]
async fn requeueing_a_hundred_thousand_dead_letters() {
    let sink = Sink::start().await;
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).delivering_to(&sink).start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, COUNT, 1).await;
    let (_, other) = app.customer(Tier::Enterprise).await;
    let session = other.session().await;
    let operate = async || other.navigate(&session, "https://example.com/").await;
    let mut alone = Delays::default();
    for _ in 0..ALONE {
        alone.of(operate()).await;
    }

    let mut asked = Delays::default();
    let body = json!({"endpoint_id": endpoint, "reason": "their server is back"});
    let requeue = asked.of(staff.post("/v1/admin/webhook-deliveries/requeue", body)).await.expect(202).body;
    assert_eq!(requeue["total"], COUNT);
    let progress = format!("/v1/admin/webhook-deliveries/requeues/{}", requeue["id"].as_str().expect("an id"));
    let (mut beside, mut changes, mut seen) = (Delays::default(), Delays::default(), vec![0]);
    let began = Instant::now();
    while began.elapsed() < MEASURED {
        for _ in 0..10 {
            beside.of(operate()).await;
        }
        changes.of(client.patch(&format!("/v1/webhooks/{endpoint}"), json!({"description": "back"}))).await.expect(200);
        let now = staff.get(&progress).await.expect(200).body;
        seen.push(now["requeued"].as_i64().expect("a number"));
    }
    let paused = staff.post(&format!("{progress}/pause"), json!({"reason": "measured"})).await.expect(200).body;
    let requeued = paused["requeued"].as_i64().expect("a number");
    assert!(seen.is_sorted() && seen.last() > Some(&0), "{seen:?}");
    seen.dedup();
    eprintln!("{COUNT} dead letters: asked for in {asked}, {requeued} requeued within {MEASURED:?}; progress {seen:?}");
    eprintln!("an operation alone: {alone}");
    eprintln!("an operation beside: {beside}");
    eprintln!("a change of the endpoint beside: {changes}");

    eventually(Duration::from_mins(2), "the requeued ones are delivered", async || {
        // The event of the dead letters has a delivery of its own.
        (app.count_of_status("delivered").await == requeued + 1).then_some(())
    })
    .await;
    assert_eq!(
        app.count("select count(*) from webhook_deliveries where attempts > 1 and status = 'delivered'").await,
        0,
        "no delivery is sent twice"
    );
    app.stop().await;
}
