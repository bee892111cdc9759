//! Requeueing many dead letters, and its cost for other requests.

use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use serde_json::json;

use crate::support::delays::Delays;
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually};
use crate::webhooks::{create, id_of};

const COUNT: i32 = 100_000;
const ALONE: usize = 300;
/// Their duration is measured.
const DELIVERED: i64 = 20_000;

/// Contract: command-line 7; staff 12. A batch has 200 deliveries and one transaction.
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
    eventually(Duration::from_mins(1), "all are delivered", async || {
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

    let (mut asked, began) = (Delays::default(), Instant::now());
    let body = json!({"endpoint_id": endpoint, "reason": "their server is back"});
    let requeue = asked.of(staff.post("/v1/admin/webhook-deliveries/requeue", body)).await.expect(202).body;
    assert_eq!(requeue["total"], COUNT);
    let progress = format!("/v1/admin/webhook-deliveries/requeues/{}", requeue["id"].as_str().expect("an id"));
    let (mut beside, mut changes, mut seen) = (Delays::default(), Delays::default(), vec![0]);
    loop {
        for _ in 0..10 {
            beside.of(operate()).await;
        }
        changes.of(client.patch(&format!("/v1/webhooks/{endpoint}"), json!({"description": "back"}))).await.expect(200);
        let now = staff.get(&progress).await.expect(200).body;
        seen.push(now["requeued"].as_i64().expect("a number"));
        if now["done_at"].is_string() {
            break;
        }
        assert!(began.elapsed() < Duration::from_mins(8), "{now}");
    }
    assert!(seen.is_sorted() && seen.last() == Some(&i64::from(COUNT)), "{seen:?}");
    let took: f64 =
        sqlx::query_scalar("select extract(epoch from done_at - created_at)::double precision from delivery_requeues")
            .fetch_one(&app.database.pool)
            .await
            .expect("a duration");
    let delivered = app.count_of_status("delivered").await;
    seen.dedup();
    eprintln!(
        "{COUNT} dead letters: asked for in {asked}, requeued within {took:.1} s, {delivered} delivered by then; progress {seen:?}"
    );
    eprintln!("an operation alone: {alone}");
    eprintln!("an operation beside: {beside}");
    eprintln!("a change of the endpoint beside: {changes}");

    eventually(Duration::from_mins(2), "many are delivered", async || {
        (app.count_of_status("delivered").await >= DELIVERED).then_some(())
    })
    .await;
    eprintln!("{DELIVERED} of them delivered within {:.1?}", began.elapsed());
    assert_eq!(
        app.count("select count(*) from webhook_deliveries where attempts > 1").await,
        0,
        "no delivery is sent twice"
    );
    app.stop().await;
}
