//! Attempts: when they are made, and what becomes of them.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::{create, deliveries, flood, get, id_of, send_test, sent, stands, test_event};
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually};

/// Contract: webhooks 17, 19. Anything but a 2xx in time is a failed attempt; six attempts by the schedule, then the
/// dead-letter state, and 2xx of any kind is a success.
#[tokio::test]
async fn six_attempts_are_made_by_the_schedule_and_no_more() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "1s,2s,1s,1s,1s")
        .set("webhooks.timeout", "1s")
        .start()
        .await;
    let client = app.client().await;
    let endpoint = async |path: &str| id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
    let start = async |id: &str| send_test(&client, id).await;
    let (failing, late, hanging) =
        (endpoint("/status/503").await, endpoint("/first/500/2/").await, endpoint("/hang").await);
    let (no_content, stalling) = (endpoint("/status/204").await, endpoint("/stall").await);
    let deliveries = [
        start(&failing).await,
        start(&late).await,
        start(&hanging).await,
        start(&no_content).await,
        start(&stalling).await,
    ];

    let dead = stands(&client, &failing, &deliveries[0], "dlq").await;
    assert_eq!((&dead["attempts"], &dead["last_response_status"]), (&json!(6), &json!(503)));
    assert_eq!((&dead["next_attempt_at"], &dead["delivered_at"]), (&Value::Null, &Value::Null));
    let received = sink.received("/status/503");
    assert_eq!(received.len(), 6);
    let gaps: Vec<_> = received.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
    for (gap, planned) in gaps.iter().zip([1.0, 2.0, 1.0, 1.0, 1.0]) {
        assert!((planned - 0.1..planned + 1.5).contains(gap), "{gaps:?}");
    }
    // The same body and the same event each time.
    assert!(received.iter().all(|one| one.body == received[0].body));
    assert_eq!(get(&client, &failing).await["consecutive_failures"], 1);

    let delivered = stands(&client, &late, &deliveries[1], "delivered").await;
    assert_eq!(delivered["attempts"], 3);
    assert_eq!(get(&client, &late).await["consecutive_failures"], 0);
    assert_eq!(stands(&client, &no_content, &deliveries[3], "delivered").await["last_response_status"], 204);
    for (endpoint, delivery) in [(&hanging, &deliveries[2]), (&stalling, &deliveries[4])] {
        let dead = stands(&client, endpoint, delivery, "dlq").await;
        assert_eq!((&dead["last_error"], &dead["attempts"]), (&json!("timeout"), &json!(6)));
    }
    assert_eq!(sink.received("/status/503").len(), 6);
    app.stop().await;
}

/// Contract: webhooks 29; command-line 7, 10. A delivery whose secret no key opens fails like any other, and says why; the endpoint is
/// not to blame, `doctor` tells how many there are, and once the key is back the dead letters can be sent.
#[tokio::test]
async fn what_cannot_be_signed_fails_until_the_key_is_back() {
    let sink = Sink::start().await;
    let builder = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "1s");
    let app = builder.set("webhooks.auto_disable_after", "1").start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    // As if another key had sealed it, and as if that one were back.
    let change_key = async || {
        let statement =
            "update webhook_endpoints set sealed_secret = set_byte(sealed_secret, 0, 255 - get_byte(sealed_secret, 0))";
        sqlx::query(statement).execute(&app.database.pool).await.expect("an update");
    };
    let of_secrets = async || {
        let checks = app.run(&["doctor", "--json"]).await.json();
        let checks = checks.as_array().expect("a list").clone();
        checks.into_iter().find(|check| check["subject"] == "sealed secrets").expect("it looked at them")
    };
    assert_eq!(of_secrets().await["status"], "ok");
    change_key().await;
    let found = of_secrets().await;
    assert_eq!(found["status"], "fail");
    let told = found["finding"].as_str().expect("a finding");
    assert!(told.starts_with("1 cannot be opened") && told.ends_with(": webhook secrets 1"), "{told}");

    let delivery = send_test(&client, &id).await;
    let dead = stands(&client, &id, &delivery, "dlq").await;
    assert_eq!((&dead["attempts"], &dead["last_response_status"]), (&json!(2), &Value::Null));
    assert!(dead["last_error"].as_str().is_some_and(|told| told.contains("secret")), "{dead}");
    let endpoint = get(&client, &id).await;
    assert_eq!((&endpoint["consecutive_failures"], &endpoint["disabled_at"]), (&json!(0), &Value::Null));
    assert!(sink.received("/ok").is_empty(), "it was sent unsigned");

    change_key().await;
    app.run(&["deliveries", "requeue", "--endpoint", &id]).await.code(0);
    assert_eq!(stands(&client, &id, &delivery, "delivered").await["attempts"], 1);
    assert_eq!(of_secrets().await["status"], "ok");
    app.stop().await;
}

/// Contract: webhooks 17, 18. Of a body 4,096 bytes are kept, nothing is unpacked, redirects are not followed, and what breaks
/// off or cannot be reached is a failed attempt that says why.
#[tokio::test]
async fn hostile_targets_harm_nobody() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "[]").start().await;
    let client = app.client().await;
    let outcome = async |url: &str, status: &str| {
        let id = id_of(&create(&client, url, &["session.failed"]).await);
        let ended = sent(&client, &id, status).await;
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
        ended
    };
    let endless = outcome(&sink.url("/endless"), "delivered").await;
    assert_eq!(endless["last_response_excerpt"].as_str().map(str::len), Some(4_096));
    let packed = outcome(&sink.url("/bomb"), "delivered").await;
    assert!(packed["last_response_excerpt"].as_str().is_some_and(|kept| kept.len() <= 4 * 4_096), "it was unpacked");
    // What the status says counts, also when a server ends its body by hanging up.
    for (status, ends) in [(200, "delivered"), (204, "delivered"), (299, "delivered"), (500, "dlq")] {
        for path in [format!("/unsized/{status}"), format!("/status/{status}")] {
            let ended = outcome(&sink.url(&path), ends).await;
            assert_eq!(
                (&ended["last_response_status"], &ended["last_error"]),
                (&json!(status), &Value::Null),
                "{path}"
            );
        }
    }
    let redirected = outcome(&sink.url(&format!("/redirect/{}", sink.url("/secret"))), "dlq").await;
    assert_eq!(redirected["last_response_status"], 302);
    assert!(sink.received("/secret").is_empty());
    assert_eq!(outcome(&sink.url("/status/410"), "dlq").await["last_response_status"], 410);
    for (url, error) in [
        (sink.url("/reset"), "connection"),
        ("https://localhost:1/".to_owned(), "connection refused"),
        ("https://nowhere.invalid/".to_owned(), "the target's name does not resolve"),
    ] {
        let ended = outcome(&url, "dlq").await;
        assert_eq!(ended["last_response_status"], Value::Null);
        let told = ended["last_error"].as_str().expect("a reason");
        assert!(told.contains(error) && !told.is_empty(), "{url}: {told}");
    }
    app.stop().await;

    // A certificate that nobody vouches for.
    let private = [("webhooks.allow_private_targets", "true"), ("webhooks.retry_schedule", "[]")];
    let app = private.into_iter().fold(App::simulated(), |app, (key, value)| app.set(key, value)).start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let ended = sent(&client, &id, "dlq").await;
    assert!(
        ended["last_error"].as_str().is_some_and(|told| told.contains("certificate was issued by nobody")),
        "{ended}"
    );
    app.stop().await;

    // Private addresses, however they are spelled.
    let app = App::simulated().set("webhooks.retry_schedule", "[]").start().await;
    let client = app.client().await;
    let port = sink.url("").rsplit(':').next().expect("a port").to_owned();
    for host in ["localhost", "127.0.0.1", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"] {
        let id = id_of(&create(&client, &format!("https://{host}:{port}/ok"), &["session.failed"]).await);
        let ended = sent(&client, &id, "dlq").await;
        let told = ended["last_error"].as_str().expect("a reason");
        assert!(told.contains("is not in the public internet"), "{host}: {told}");
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    }
    assert!(sink.received("/ok").is_empty());
    app.stop().await;
}

/// Contract: webhooks 8. What is under way when its endpoint is deleted may still arrive; when it does not, it fails, and is
/// not tried again.
#[tokio::test]
async fn an_attempt_may_outlive_its_endpoint() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "1s").start().await;
    let client = app.client().await;
    for (path, ends, counts) in [
        ("/slow/200/1000", "delivered", json!({"delivered": 1, "failed": 0, "dlq": 0})),
        ("/slow/500/1000", "failed", json!({"delivered": 0, "failed": 1, "dlq": 0})),
    ] {
        let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
        let sent = send_test(&client, &id).await;
        sink.receives(path, 1).await;
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
        assert_eq!(deliveries(&client, &id).await[0]["status"], "in_flight");
        let ended = stands(&client, &id, &sent, ends).await;
        assert_eq!((&ended["attempts"], &ended["next_attempt_at"]), (&json!(1), &Value::Null));
        assert_eq!(get(&client, &id).await["delivery_counts"], counts);
        assert_eq!(sink.received(path).len(), 1);
    }
    app.stop().await;
}

/// Contract: webhooks 16, 17. Informing for ever is no answer; what is sent to whom stands in no header that a customer's words
/// get into.
#[tokio::test]
async fn no_answer_in_time_is_a_failed_attempt() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.timeout", "500ms")
        .start()
        .await;
    let client = app.client().await;
    for path in ["/hang", "/stall", "/early"] {
        let body = json!({"url": sink.url(path), "events": ["session.failed"], "description": "a\r\nX-Evil: 1"});
        let id = id_of(&client.post("/v1/webhooks", body).await.expect(201).body);
        let ended = sent(&client, &id, "dlq").await;
        assert!(ended["duration_ms"].as_i64().is_some_and(|took| took < 2_000), "{path}: {ended}");
        assert!(ended["last_error"].is_string(), "{path}: {ended}");
        assert_eq!(sink.received(path)[0].header("x-evil"), "");
    }
    app.stop().await;
}

/// Contract: webhooks 22. Of the failure that would disable an endpoint and a success, the one that is written first decides;
/// both are written, whoever made the attempts.
#[tokio::test]
async fn the_last_failure_and_a_success_are_counted_one_after_the_other() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .roles(&[Role::Api, Role::Worker, Role::Worker])
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.auto_disable_after", "3")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    for round in 0..8 {
        let path = format!("/turns/500-500-500-200/200/{round}");
        let id = id_of(&create(&client, &sink.url(&path), &["session.failed"]).await);
        for _ in 0..2 {
            sent(&client, &id, "dlq").await;
        }
        flood(&app, &[account], 2).await;
        eventually(Duration::from_secs(10), "both end", async || {
            let all = deliveries(&client, &id).await;
            let ended = |status| all.iter().filter(|one| one["status"] == status).count();
            (ended("dlq") == 3 && ended("delivered") == 1).then_some(())
        })
        .await;
        let shown = get(&client, &id).await;
        assert_eq!(shown["delivery_counts"], json!({"delivered": 1, "failed": 0, "dlq": 3}));
        let failed_first = !shown["disabled_at"].is_null();
        assert_eq!(shown["consecutive_failures"], i32::from(!failed_first), "{shown}");
        assert_eq!(shown["active"], !failed_first);
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    }
    app.stop().await;
}

/// Contract: webhooks 27. A worker that stalls for longer than its claim comes back to a delivery that somebody else has ended,
/// and what it has to say of it changes nothing.
#[tokio::test]
async fn a_result_that_comes_too_late_changes_nothing() {
    let sink = Sink::start().await;
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).delivering_to(&sink);
    let mut app = builder.set("webhooks.timeout", "1s").start().await;
    let client = app.client().await;
    let path = "/first/hang/1/";
    let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
    let sent = send_test(&client, &id).await;
    sink.receives(path, 1).await;
    kill(app.pid(1), Signal::SIGSTOP).expect("it runs");
    app.start(Role::Worker);
    let delivered = stands(&client, &id, &sent, "delivered").await;
    kill(app.pid(1), Signal::SIGCONT).expect("it is there");
    // It writes what it has before it ends.
    app.signal(1, Signal::SIGTERM).await;
    assert_eq!(deliveries(&client, &id).await, std::slice::from_ref(&delivered));
    assert_eq!(delivered["attempts"], 1);
    let shown = get(&client, &id).await;
    assert_eq!(shown["delivery_counts"], json!({"delivered": 1, "failed": 0, "dlq": 0}));
    assert_eq!(shown["last_failure_at"], Value::Null);
    assert_eq!(sink.received(path).len(), 2);
    app.stop().await;
}

/// Contract: webhooks 27. A worker that is told to stop waits for what it has under way, and writes how it ended.
#[tokio::test]
async fn a_worker_that_stops_ends_its_attempts() {
    let sink = Sink::start().await;
    let mut app = App::simulated().in_processes().delivering_to(&sink).start().await;
    let client = app.client().await;
    let path = "/slow/200/1500";
    let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
    for _ in 0..3 {
        test_event(&client, &id).await;
    }
    sink.receives(path, 3).await;
    app.signal(0, Signal::SIGTERM).await;
    let delivered = "select count(*) from webhook_deliveries where status = 'delivered' and attempts = 1";
    assert_eq!(app.count(delivered).await, 3);
    app.stop().await;
}

/// Contract: webhooks 18. Headers and bodies without an end take no memory, however many come at once.
#[tokio::test]
async fn endless_answers_take_no_memory() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .in_processes()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.auto_disable_after", "1000")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let ok = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    flood(&app, &[account], 200).await;
    sink.receives("/ok", 200).await;
    client.delete(&format!("/v1/webhooks/{ok}")).await.expect(204);
    let before = app.peak_memory_kib(0);
    for path in ["/endless", "/headers", "/bomb"] {
        create(&client, &sink.url(path), &["session.failed"]).await;
    }
    flood(&app, &[account], 200).await;
    eventually(Duration::from_secs(30), "all of them end", async || {
        let ended = "select count(*) from webhook_deliveries where status in ('delivered', 'dlq')";
        (app.count(ended).await == 800).then_some(())
    })
    .await;
    let grown = app.peak_memory_kib(0) - before;
    // 600 answers; each of the bodies alone would have been hundreds of megabytes until the time limit.
    assert!(grown < 64 * 1_024, "{grown} KiB more");
    app.stop().await;
}
