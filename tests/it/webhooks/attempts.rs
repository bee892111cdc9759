use std::time::Duration;

use kitfleet_types::tiers::Tier;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use super::{create, deliveries, flood, get, id_of, send_test, send_test_until, test_event, wait_for_delivery};
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually};

/// Contract: webhooks 17, 19. Any answer except a 2xx within the timeout is a failed attempt.
#[tokio::test]
async fn failing_delivery_has_six_attempts_by_schedule() {
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
    let (no_content, dripping) = (endpoint("/status/204").await, endpoint("/drip").await);
    let deliveries = [
        start(&failing).await,
        start(&late).await,
        start(&hanging).await,
        start(&no_content).await,
        start(&dripping).await,
    ];

    let dead = wait_for_delivery(&client, &failing, &deliveries[0], "dlq").await;
    assert_eq!((&dead["attempts"], &dead["last_response_status"]), (&json!(6), &json!(503)));
    assert_eq!((&dead["next_attempt_at"], &dead["delivered_at"]), (&Value::Null, &Value::Null));
    let received = sink.received("/status/503");
    assert_eq!(received.len(), 6);
    let gaps: Vec<_> = received.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
    for (gap, planned) in gaps.iter().zip([1.0, 2.0, 1.0, 1.0, 1.0]) {
        assert!((planned - 0.1..planned + 1.5).contains(gap), "{gaps:?}");
    }
    assert!(received.iter().all(|one| one.body == received[0].body));
    assert_eq!(get(&client, &failing).await["consecutive_failures"], 1);

    let delivered = wait_for_delivery(&client, &late, &deliveries[1], "delivered").await;
    assert_eq!(delivered["attempts"], 3);
    assert_eq!(get(&client, &late).await["consecutive_failures"], 0);
    assert_eq!(wait_for_delivery(&client, &no_content, &deliveries[3], "delivered").await["last_response_status"], 204);
    for (endpoint, delivery) in [(&hanging, &deliveries[2]), (&dripping, &deliveries[4])] {
        let dead = wait_for_delivery(&client, endpoint, delivery, "dlq").await;
        assert_eq!((&dead["last_error"], &dead["attempts"]), (&json!("timeout"), &json!(6)));
    }
    assert_eq!(sink.received("/status/503").len(), 6);
    app.stop().await;
}

/// Contract: webhooks 29; command-line 7, 10. The failure does not count against the endpoint.
#[tokio::test]
async fn delivery_without_its_key_fails_until_the_key_is_back() {
    let sink = Sink::start().await;
    let builder = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "1s");
    let app = builder.set("webhooks.auto_disable_after", "1").start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    // The first call makes the secret unreadable, the second restores it.
    let change_key = async || {
        let statement =
            "update webhook_endpoints set sealed_secret = set_byte(sealed_secret, 0, 255 - get_byte(sealed_secret, 0))";
        sqlx::query(statement).execute(&app.database.pool).await.expect("an update");
    };
    let secrets_check = async || {
        let checks = app.run(&["doctor", "--json"]).await.json();
        let checks = checks.as_array().expect("a list").clone();
        checks
            .into_iter()
            .find(|check| check["subject"] == "sealed secrets")
            .expect("doctor checked the sealed secrets")
    };
    assert_eq!(secrets_check().await["status"], "ok");
    change_key().await;
    let found = secrets_check().await;
    assert_eq!(found["status"], "fail");
    let finding = found["finding"].as_str().expect("a finding");
    assert!(finding.starts_with("1 cannot be opened") && finding.ends_with(": webhook secrets 1"), "{finding}");

    let delivery = send_test(&client, &id).await;
    let dead = wait_for_delivery(&client, &id, &delivery, "dlq").await;
    assert_eq!((&dead["attempts"], &dead["last_response_status"]), (&json!(2), &Value::Null));
    assert!(dead["last_error"].as_str().is_some_and(|reason| reason.contains("secret")), "{dead}");
    let endpoint = get(&client, &id).await;
    assert_eq!((&endpoint["consecutive_failures"], &endpoint["disabled_at"]), (&json!(0), &Value::Null));
    assert!(sink.received("/ok").is_empty(), "an unsigned request was sent");

    change_key().await;
    app.run(&["deliveries", "requeue", "--endpoint", &id]).await.code(0);
    assert_eq!(wait_for_delivery(&client, &id, &delivery, "delivered").await["attempts"], 1);
    assert_eq!(secrets_check().await["status"], "ok");
    app.stop().await;
}

/// Contract: webhooks 17, 18.
#[tokio::test]
async fn hostile_targets_cause_only_failed_attempts() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "[]").start().await;
    let client = app.client().await;
    let outcome = async |url: &str, status: &str| {
        let id = id_of(&create(&client, url, &["session.failed"]).await);
        let ended = send_test_until(&client, &id, status).await;
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
        ended
    };
    let endless = outcome(&sink.url("/endless"), "delivered").await;
    assert_eq!(endless["last_response_excerpt"].as_str().map(str::len), Some(4_096));
    let packed = outcome(&sink.url("/bomb"), "delivered").await;
    assert!(
        packed["last_response_excerpt"].as_str().is_some_and(|kept| kept.len() <= 4 * 4_096),
        "the body was decompressed"
    );
    // The status decides, also if the server ends the body by closing the connection.
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
        let reason = ended["last_error"].as_str().expect("a reason");
        assert!(reason.contains(error) && !reason.is_empty(), "{url}: {reason}");
    }
    app.stop().await;

    // A certificate of an unknown issuer.
    let private = [("webhooks.allow_private_targets", "true"), ("webhooks.retry_schedule", "[]")];
    let app = private.into_iter().fold(App::simulated(), |app, (key, value)| app.set(key, value)).start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let ended = send_test_until(&client, &id, "dlq").await;
    assert!(
        ended["last_error"].as_str().is_some_and(|reason| reason.contains("issued by an untrusted authority")),
        "{ended}"
    );
    app.stop().await;

    // Private addresses in various spellings.
    let app = App::simulated().set("webhooks.retry_schedule", "[]").start().await;
    let client = app.client().await;
    let port = sink.url("").rsplit(':').next().expect("a port").to_owned();
    for host in ["localhost", "127.0.0.1", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"] {
        let id = id_of(&create(&client, &format!("https://{host}:{port}/ok"), &["session.failed"]).await);
        let ended = send_test_until(&client, &id, "dlq").await;
        let reason = ended["last_error"].as_str().expect("a reason");
        assert!(reason.contains("is not in the public internet"), "{host}: {reason}");
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    }
    assert!(sink.received("/ok").is_empty());
    app.stop().await;
}

/// Contract: webhooks 8. If the attempt fails, there is no retry.
#[tokio::test]
async fn attempt_in_flight_survives_the_endpoints_deletion() {
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
        let ended = wait_for_delivery(&client, &id, &sent, ends).await;
        assert_eq!((&ended["attempts"], &ended["next_attempt_at"]), (&json!(1), &Value::Null));
        assert_eq!(get(&client, &id).await["delivery_counts"], counts);
        assert_eq!(sink.received(path).len(), 1);
    }
    app.stop().await;
}

/// Contract: webhooks 16, 17. Informational responses do not extend the timeout. A description cannot inject headers.
#[tokio::test]
async fn answer_after_the_timeout_is_a_failed_attempt() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.timeout", "500ms")
        .start()
        .await;
    let client = app.client().await;
    for path in ["/hang", "/drip", "/early"] {
        let body = json!({"url": sink.url(path), "events": ["session.failed"], "description": "a\r\nX-Evil: 1"});
        let id = id_of(&client.post("/v1/webhooks", body).await.expect(201).body);
        let ended = send_test_until(&client, &id, "dlq").await;
        assert!(ended["duration_ms"].as_i64().is_some_and(|elapsed| elapsed < 2_000), "{path}: {ended}");
        assert!(ended["last_error"].is_string(), "{path}: {ended}");
        assert_eq!(sink.received(path)[0].header("x-evil"), "");
    }
    app.stop().await;
}

/// Contract: webhooks 17, 18.
#[tokio::test]
async fn status_decides_although_the_body_is_slow_or_incomplete() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.timeout", "2s")
        .start()
        .await;
    let client = app.client().await;
    for (path, ends, status, excerpt) in [
        ("/stall", "delivered", 200, "hello"),
        ("/stall/201", "delivered", 201, "hello"),
        ("/stall/302", "dlq", 302, "hello"),
        ("/stall/404", "dlq", 404, "hello"),
        ("/stall/503", "dlq", 503, "hello"),
        ("/silent/200", "delivered", 200, ""),
        ("/silent/500", "dlq", 500, ""),
        ("/cut/200", "delivered", 200, "hello"),
        ("/cut/500", "dlq", 500, "hello"),
        ("/continue/200", "delivered", 200, "thank you"),
    ] {
        let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
        let ended = send_test_until(&client, &id, ends).await;
        assert_eq!(
            (&ended["last_response_status"], &ended["last_error"], &ended["attempts"]),
            (&json!(status), &Value::Null, &json!(1)),
            "{path}"
        );
        assert_eq!(ended["last_response_excerpt"], excerpt, "{path}");
        assert!(ended["duration_ms"].as_i64().is_some_and(|elapsed| elapsed < 1_500), "{path}: {ended}");
        assert_eq!(sink.received(path).len(), 1, "{path}");
        client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    }
    app.stop().await;
}

/// Contract: webhooks 22. The first one written decides, also when different workers made the attempts.
#[tokio::test]
async fn racing_failure_and_success_are_both_recorded() {
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
            send_test_until(&client, &id, "dlq").await;
        }
        flood(&app, &[account], 2).await;
        eventually(Duration::from_secs(10), "both deliveries end", async || {
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

/// Contract: webhooks 27. Another worker has ended the delivery.
#[tokio::test]
async fn late_result_of_stalled_worker_is_ignored() {
    let sink = Sink::start().await;
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).delivering_to(&sink);
    let mut app = builder.set("webhooks.timeout", "1s").start().await;
    let client = app.client().await;
    let path = "/first/hang/1/";
    let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
    let sent = send_test(&client, &id).await;
    sink.receives(path, 1).await;
    kill(app.pid(1), Signal::SIGSTOP).expect("the worker runs");
    app.start(Role::Worker);
    let delivered = wait_for_delivery(&client, &id, &sent, "delivered").await;
    kill(app.pid(1), Signal::SIGCONT).expect("the worker is stopped");
    // The worker writes its results before it ends.
    app.signal(1, Signal::SIGTERM).await;
    assert_eq!(deliveries(&client, &id).await, std::slice::from_ref(&delivered));
    assert_eq!(delivered["attempts"], 1);
    let shown = get(&client, &id).await;
    assert_eq!(shown["delivery_counts"], json!({"delivered": 1, "failed": 0, "dlq": 0}));
    assert_eq!(shown["last_failure_at"], Value::Null);
    assert_eq!(sink.received(path).len(), 2);
    app.stop().await;
}

/// Contract: webhooks 27.
#[tokio::test]
async fn stopping_worker_finishes_its_attempts() {
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

/// Contract: webhooks 18.
#[tokio::test]
async fn endless_answers_use_bounded_memory() {
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
    eventually(Duration::from_secs(30), "all deliveries end", async || {
        let ended = "select count(*) from webhook_deliveries where status in ('delivered', 'dlq')";
        (app.count(ended).await == 800).then_some(())
    })
    .await;
    let grown = app.peak_memory_kib(0) - before;
    // There are 600 answers. Each full body would be hundreds of megabytes by the time limit.
    assert!(grown < 64 * 1_024, "memory grew by {grown} KiB");
    app.stop().await;
}
