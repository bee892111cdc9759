//! Webhook endpoints and deliveries (contract: webhooks; events).

mod attempts;
mod fairness;
mod jobs;
mod rebinding;

use std::time::Duration;

use kitfleet_domain::areas;
use kitfleet_domain::retention::Terms;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::events::{self, Promises};
use crate::support::records::uuid_of;
use crate::support::sink::{Received, Sink};
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members, stable, unknown_id};

const EVENTS: [&str; 8] = [
    "session.completed",
    "session.failed",
    "api_key.revoked",
    "session.egress_capability_changed",
    "crypto.order.paid",
    "crypto.order.failed",
    "session.challenge_detected",
    "session.profile_save_failed",
];

pub async fn create(client: &Client, url: &str, events: &[&str]) -> Value {
    client.post("/v1/webhooks", json!({"url": url, "events": events})).await.expect(201).body
}

pub fn id_of(endpoint: &Value) -> String {
    endpoint["id"].as_str().expect("an id").to_owned()
}

async fn get(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/webhooks/{id}")).await.expect(200).body
}

async fn patch(client: &Client, id: &str, body: Value) -> Answer {
    client.patch(&format!("/v1/webhooks/{id}"), body).await
}

async fn deliveries(client: &Client, id: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/webhooks/{id}/deliveries")).await.expect(200);
    listed.body["data"].as_array().expect("a list").clone()
}

pub async fn test_event(client: &Client, id: &str) -> Value {
    client.post(&format!("/v1/webhooks/{id}/test"), json!({})).await.expect(202).body
}

pub async fn send_test(client: &Client, id: &str) -> String {
    test_event(client, id).await["delivery_id"].as_str().expect("an id").to_owned()
}

async fn wait_for_delivery(client: &Client, endpoint: &str, delivery: &str, status: &str) -> Value {
    eventually(Duration::from_secs(20), &format!("the delivery is {status}"), async || {
        let all = deliveries(client, endpoint).await;
        all.into_iter().find(|one| one["id"] == delivery && one["status"] == status)
    })
    .await
}

async fn send_test_until(client: &Client, endpoint: &str, status: &str) -> Value {
    let delivery = send_test(client, endpoint).await;
    wait_for_delivery(client, endpoint, &delivery, status).await
}

/// In one statement.
async fn flood(app: &App, accounts: &[AccountId], events: i32) {
    sqlx::query(
        "insert into events (id, account_id, type, data)
         select uuid_v7(), account, 'session.failed', $3 from unnest($1::uuid[]) account, generate_series(1, $2)",
    )
    .bind(accounts.iter().map(AccountId::as_uuid).collect::<Vec<_>>())
    .bind(events)
    .bind(events::failed())
    .execute(&app.database.pool)
    .await
    .expect("events");
}

/// Contract: versioning 5; events 3.
#[test]
fn invalid_events_fail_the_schema_check() {
    let mut promises = Promises::read();
    let id = "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2";
    let event = |kind: &str, data: Value| json!({"id": id, "type": kind, "created_at": "2026-11-20T18:05:00.123Z", "data": data});
    let mut failed = events::failed();
    promises.check(&event("session.failed", failed.clone())).expect("the event matches its schema");
    failed["duration_ms"] = json!(-1);
    let broken = promises.check(&event("session.failed", failed.clone())).expect_err("a negative duration");
    assert!(broken.contains("duration_ms"), "{broken}");
    failed["duration_ms"] = json!(1);
    failed["reason"] = json!("none");
    promises.check(&event("session.failed", failed)).expect_err("an unknown member");
    promises.check(&event("session.completed", events::failed())).expect_err("data of another type");
    promises.check(&event("session.forgotten", events::failed())).expect_err("an unknown type");
    promises.check(&json!({"id": 1, "type": "test.ping"})).expect_err("not an event");
}

/// Contract: webhooks 1, 2, 5. The list has all endpoints, newest first.
#[tokio::test]
async fn endpoint_shows_its_secret_once() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let body = json!({"url": "https://example.com/hook", "events": EVENTS, "description": "Production"});
    let created = client.post("/v1/webhooks", body).await.expect(201);
    assert_eq!(created.headers["location"], format!("/v1/webhooks/{}", id_of(&created.body)));
    let secret = created.body["secret"].as_str().expect("a secret").to_owned();
    assert!(secret.starts_with("whsec_"));
    let mut expected = created.body.clone();
    expected.as_object_mut().expect("an object").remove("secret");
    let id = id_of(&created.body);
    assert_eq!(get(&client, &id).await, expected);
    insta::assert_json_snapshot!("endpoint", stable(&expected), { ".secret_prefix" => "[prefix]" });
    assert_eq!(expected["secret_prefix"], secret[..12]);

    let second = create(&client, "https://example.com/second", &["session.failed"]).await;
    let listed = client.get("/v1/webhooks").await.expect(200);
    assert_eq!(members(&listed.body), ["data"].into());
    let ids: Vec<_> = listed.body["data"].as_array().expect("a list").iter().map(id_of).collect();
    assert_eq!(ids, [id_of(&second), id.clone()]);
    assert!(!listed.body.to_string().contains(&secret[12..]));
    assert_eq!(app.tables_with(&secret).await, Vec::<String>::new());

    let stranger = app.client().await;
    let (missing, path) = (unknown_id("whk"), format!("/v1/webhooks/{id}"));
    for id in [path.as_str(), &format!("/v1/webhooks/{missing}"), "/v1/webhooks/x"] {
        stranger.get(id).await.problem(404, "not-found");
        stranger.delete(id).await.problem(404, "not-found");
        stranger.post(&format!("{id}/test"), json!({})).await.problem(404, "not-found");
        stranger.post(&format!("{id}/rotate-secret"), json!({})).await.problem(404, "not-found");
        stranger.get(&format!("{id}/deliveries")).await.problem(404, "not-found");
    }
    patch(&stranger, &id, json!({"active": false})).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: webhooks 3; events 1.
#[tokio::test]
async fn create_with_invalid_endpoint_is_400() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let post =
        async |url: &str, events: Value| client.post("/v1/webhooks", json!({"url": url, "events": events})).await;
    let good = "https://example.com/hook";
    for bad in ["http://example.com", "https://u:p@example.com/", "example.com", "", "javascript:alert(1)"] {
        post(bad, json!(["session.failed"])).await.invalid("url");
    }
    post(&format!("{good}/{}", "a".repeat(4_000)), json!(["session.failed"])).await.invalid("url");
    for bad in [json!([]), json!(vec!["session.failed"; 11]), json!("session.failed")] {
        post(good, bad).await.invalid("events");
    }
    for bad in ["test.ping", "session.exploded", "*", ""] {
        post(good, json!(["session.failed", bad])).await.invalid("events.1");
    }
    client.post("/v1/webhooks", json!({"events": ["session.failed"]})).await.invalid("url");
    let both = post("http://x", json!([])).await.invalid("url");
    assert_eq!(both.body["errors"].as_array().map(Vec::len), Some(2));
    let long = json!({"url": good, "events": ["session.failed"], "description": "x".repeat(1_001)});
    client.post("/v1/webhooks", long).await.invalid("description");
    assert_eq!(client.get("/v1/webhooks").await.body["data"], json!([]));

    let made = post("https://bücher.example/ü", json!(vec!["session.failed"; 10])).await.expect(201);
    assert_eq!(made.body["events"], json!(["session.failed"]));
    // A private literal address can be registered; its attempts fail (contract: webhooks 3).
    post("https://10.0.0.1/", json!(["session.failed"])).await.expect(201);
    app.stop().await;
}

/// Contract: webhooks 6, 8. A deleted endpoint is a tombstone: changes are 409, and deleting it again has no effect.
#[tokio::test]
async fn endpoint_can_be_changed_until_it_is_deleted() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let id = id_of(&create(&client, "https://example.com/hook", &["session.failed"]).await);
    patch(&client, &id, json!({})).await.problem(400, "validation-failed");
    let unknown = patch(&client, &id, json!({"colour": "red"})).await.problem(400, "validation-failed");
    assert_eq!(unknown.headers["x-service-unknown-fields"], "colour");
    patch(&client, &id, json!({"url": "http://example.com"})).await.invalid("url");
    patch(&client, &id, json!({"events": []})).await.invalid("events");
    patch(&client, &id, json!({"events": ["test.ping"]})).await.invalid("events.0");

    for (change, field, value) in [
        (json!({"url": "https://example.com/other"}), "url", json!("https://example.com/other")),
        (json!({"events": ["session.completed"]}), "events", json!(["session.completed"])),
        (json!({"description": "Staging"}), "description", json!("Staging")),
        (json!({"description": null}), "description", Value::Null),
        (json!({"active": false}), "active", json!(false)),
    ] {
        let changed = patch(&client, &id, change).await.expect(200).body;
        assert_eq!(changed[field], value);
        assert_eq!(get(&client, &id).await, changed);
    }
    client.post(&format!("/v1/webhooks/{id}/test"), json!({})).await.problem(400, "validation-failed");
    patch(&client, &id, json!({"active": true})).await.expect(200);

    client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    let tombstone = get(&client, &id).await;
    assert_timestamp(&tombstone["disabled_at"]);
    assert_eq!(client.get("/v1/webhooks").await.body["data"], json!([]));
    patch(&client, &id, json!({"active": true})).await.problem(409, "conflict");
    client.post(&format!("/v1/webhooks/{id}/rotate-secret"), json!({})).await.problem(409, "conflict");
    client.post(&format!("/v1/webhooks/{id}/test"), json!({})).await.problem(400, "validation-failed");

    let log = app.audit(account).await;
    let rows: Vec<_> = log.iter().filter(|row| row.action.starts_with("webhook_endpoint.")).collect();
    let actions: Vec<_> = rows.iter().map(|row| row.action.trim_start_matches("webhook_endpoint.")).collect();
    assert_eq!(actions, ["created", "updated", "updated", "updated", "updated", "updated", "updated", "deleted"]);
    assert!(rows.iter().all(|row| row.target_resource_id.as_deref() == Some(&id)));
    assert_eq!(rows[5].payload, json!({"active": false}));
    app.stop().await;
}

/// Contract: webhooks 4. Of concurrent creates for the last place one succeeds.
#[tokio::test]
async fn eleventh_endpoint_is_409_under_concurrency() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    for i in 0..9 {
        create(&client, &format!("https://example.com/{i}"), &["session.failed"]).await;
    }
    let racing = (0..16).map(|i| {
        let client = client.clone();
        async move {
            let body = json!({"url": format!("https://example.com/r{i}"), "events": ["session.failed"]});
            client.post("/v1/webhooks", body).await
        }
    });
    let answers = at_once(racing).await;
    let made: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(made.len(), 1);
    for refused in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(refused.status, 409, "{}", refused.body);
    }
    let id = id_of(&made[0].body);
    patch(&client, &id, json!({"active": false})).await.expect(200);
    let body = json!({"url": "https://example.com/more", "events": ["session.failed"]});
    client.post("/v1/webhooks", body.clone()).await.problem(409, "conflict");
    client.delete(&format!("/v1/webhooks/{id}")).await.expect(204);
    client.post("/v1/webhooks", body).await.expect(201);
    app.stop().await;
}

/// Contract: webhooks 11, 16; events 2 to 7. False flags are omitted.
#[tokio::test]
async fn events_are_signed_and_have_exact_payloads() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint = create(&client, &sink.url("/ok"), &["session.completed", "api_key.revoked"]).await;
    let (id, secret) = (id_of(&endpoint), endpoint["secret"].as_str().expect("a secret"));

    let session = client.session().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let received = sink.receives("/ok", 1).await.remove(0);
    let envelope = received.json();
    assert_eq!(envelope["data"]["session_id"], session);
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("x-service-event-id"), envelope["id"]);
    assert_eq!(received.header("x-service-event-type"), "session.completed");
    let ours = ["content-type", "x-service-signature", "x-service-event-id", "x-service-event-type"];
    let order: Vec<_> =
        received.headers.iter().map(|(name, _)| name.as_str()).filter(|name| ours.contains(name)).collect();
    assert_eq!(order, ours);
    let signature = received.header("x-service-signature");
    let (time, signed) = signature.split_once(',').expect("two parts");
    assert_eq!(signed, received.signature_with(secret));
    let time: i64 = time.strip_prefix("t=").expect("a time").parse().expect("seconds");
    assert!((app.count("select extract(epoch from now())::bigint").await - time).abs() < 60);

    // A session ended by a suspension has a reason and `auto_destroyed`.
    let session = client.session().await;
    app.run(&["account", "suspend", &account.to_string()]).await.code(0);
    let data = sink.receives("/ok", 2).await[1].json()["data"].clone();
    assert_eq!(data["session_id"], session);
    app.run(&["account", "reactivate", &account.to_string()]).await.code(0);

    let key = client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201).body;
    client.delete(&format!("/v1/api-keys/{}", id_of(&key))).await.expect(204);
    let data = sink.receives("/ok", 3).await[2].json()["data"].clone();
    assert_eq!(data["api_key_id"], key["id"]);

    let sent = test_event(&client, &id).await;
    assert_eq!(members(&sent), ["delivery_id", "event_id", "event_type"].into());
    let all: Vec<_> = sink.receives("/ok", 4).await.iter().map(Received::json).collect();
    let payloads: Vec<_> = all.iter().map(stable).collect();
    insta::assert_json_snapshot!("events", payloads, { "[].data.duration_ms" => "[duration]" });
    let ping = &all[3];
    assert_eq!(ping["id"], sent["event_id"]);
    assert_eq!((&ping["data"]["endpoint_id"], &ping["data"]["triggered_by_account_id"]), (&json!(id), &json!(account)));
    let delivered = wait_for_delivery(&client, &id, sent["delivery_id"].as_str().expect("an id"), "delivered").await;
    assert_eq!((&delivered["attempts"], &delivered["last_response_status"]), (&json!(1), &json!(200)));
    assert_eq!((&delivered["last_response_excerpt"], &delivered["last_error"]), (&json!("thank you"), &Value::Null));
    assert_timestamp(&delivered["delivered_at"]);
    let replayed = app.audit(account).await.pop().expect("a row");
    assert_eq!(
        (replayed.action.as_str(), &replayed.payload["via"]),
        ("webhook_delivery.replayed", &json!("send_test_event"))
    );

    let endpoint = get(&client, &id).await;
    assert_eq!(endpoint["delivery_counts"], json!({"delivered": 4, "failed": 0, "dlq": 0}));
    assert_timestamp(&endpoint["last_success_at"]);
    app.stop().await;
}

/// Contract: webhooks 7, 15. It receives none from the time it was paused.
#[tokio::test]
async fn endpoint_receives_only_subscribed_events() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let other = app.client().await;
    create(&other, &sink.url("/other"), &EVENTS).await;
    let end_one = async || {
        let session = client.session().await;
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    };
    end_one().await;
    patch(&client, &id, json!({"events": ["session.completed"], "active": false})).await.expect(200);
    end_one().await;
    patch(&client, &id, json!({"active": true})).await.expect(200);
    assert_eq!(deliveries(&client, &id).await, Vec::<Value>::new());
    end_one().await;
    sink.receives("/ok", 1).await;
    assert_eq!(deliveries(&client, &id).await.len(), 1);
    assert!(sink.received("/other").is_empty());
    app.stop().await;
}

/// Contract: webhooks 10, 11. The new secret's signature is first. A second rotation drops the oldest secret.
#[tokio::test]
async fn both_secrets_sign_during_the_grace_period() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint = create(&client, &sink.url("/ok"), &["session.failed"]).await;
    let id = id_of(&endpoint);
    let rotate = async || client.post(&format!("/v1/webhooks/{id}/rotate-secret"), json!({})).await.expect(200).body;
    let signatures = async |count: usize| {
        test_event(&client, &id).await;
        let received = sink.receives("/ok", count).await.pop().expect("a delivery");
        let signed = received.header("x-service-signature").to_owned();
        assert_eq!(received.headers.iter().filter(|(name, _)| name == "x-service-signature").count(), 1);
        (received, signed.split(',').skip(1).map(ToOwned::to_owned).collect::<Vec<_>>())
    };
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let first = text(&endpoint["secret"]);
    let rotated = rotate().await;
    assert_eq!(members(&rotated), ["id", "secret", "secret_prefix", "prev_secret_prefix", "grace_expires_at"].into());
    assert_eq!((&rotated["id"], &rotated["prev_secret_prefix"]), (&json!(id), &endpoint["secret_prefix"]));
    let second = text(&rotated["secret"]);
    let (received, signed) = signatures(1).await;
    assert_eq!(signed, [received.signature_with(&second), received.signature_with(&first)]);
    let shown = get(&client, &id).await;
    assert_eq!(shown["rotation_grace_expires_at"], rotated["grace_expires_at"]);
    assert_eq!(
        (&shown["secret_prefix"], &shown["prev_secret_prefix"]),
        (&rotated["secret_prefix"], &endpoint["secret_prefix"])
    );

    let third = text(&rotate().await["secret"]);
    let (received, signed) = signatures(2).await;
    assert_eq!(signed, [received.signature_with(&third), received.signature_with(&second)]);

    app.execute("update webhook_endpoints set grace_expires_at = now() where id = $1", uuid_of(&id)).await;
    let (received, signed) = signatures(3).await;
    assert_eq!(signed, [received.signature_with(&third)]);
    let shown = get(&client, &id).await;
    assert_eq!((&shown["prev_secret_prefix"], &shown["rotation_grace_expires_at"]), (&Value::Null, &Value::Null));
    let log = app.audit(account).await;
    let row = log.iter().find(|row| row.action == "webhook_endpoint.secret_rotated").expect("a row");
    let payload = json!({"new_secret_prefix": rotated["secret_prefix"], "old_secret_prefix": endpoint["secret_prefix"],
                         "grace_expires_at": rotated["grace_expires_at"]});
    assert_eq!(row.payload, payload);
    app.stop().await;
}

/// Contract: webhooks 20, 23. It is 409 while the delivery is in progress, and if the endpoint is paused or disabled.
#[tokio::test]
async fn ended_delivery_can_be_replayed() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "1h").start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let sent = test_event(&client, &id).await;
    let delivery = sent["delivery_id"].as_str().expect("an id").to_owned();
    wait_for_delivery(&client, &id, &delivery, "delivered").await;
    let replay = async |client: &Client, delivery: &str| {
        client.post(&format!("/v1/webhook-deliveries/{delivery}/replay"), json!({})).await
    };
    let twice = [replay(&client, &delivery), replay(&client, &delivery)];
    for answer in futures_util::future::join_all(twice).await {
        let again = answer.expect(202).body;
        assert_eq!((&again["event_id"], &again["event_type"]), (&sent["event_id"], &json!("test.ping")));
        assert_ne!(again["delivery_id"], sent["delivery_id"]);
    }
    let received = sink.receives("/ok", 3).await;
    assert!(received.iter().all(|one| one.body == received[0].body));

    let (missing, stranger) = (unknown_id("wdl"), app.client().await);
    replay(&client, &missing).await.problem(404, "not-found");
    replay(&stranger, &delivery).await.problem(404, "not-found");
    let failing = id_of(&create(&client, &sink.url("/status/500"), &["session.failed"]).await);
    let waiting = send_test(&client, &failing).await;
    eventually(Duration::from_secs(10), "the first attempt failed", async || {
        (deliveries(&client, &failing).await[0]["attempts"] == 1).then_some(())
    })
    .await;
    replay(&client, &waiting).await.problem(409, "conflict");
    client.delete(&format!("/v1/webhooks/{failing}")).await.expect(204);
    assert_eq!(deliveries(&client, &failing).await[0]["status"], "failed");
    replay(&client, &waiting).await.problem(409, "conflict");
    patch(&client, &id, json!({"active": false})).await.expect(200);
    replay(&client, &delivery).await.problem(409, "conflict");
    let counts = get(&client, &failing).await["delivery_counts"].clone();
    assert_eq!(counts, json!({"delivered": 0, "failed": 1, "dlq": 0}));
    app.stop().await;
}

/// Contract: webhooks 22. A success resets the count.
#[tokio::test]
async fn failing_endpoint_is_disabled() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.auto_disable_after", "3")
        .start()
        .await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/status/500"), &["session.failed"]).await);
    let fail = async |failures: i64| {
        send_test_until(&client, &id, "dlq").await;
        assert_eq!(get(&client, &id).await["consecutive_failures"], failures);
    };
    fail(1).await;
    fail(2).await;
    patch(&client, &id, json!({"url": sink.url("/ok")})).await.expect(200);
    send_test_until(&client, &id, "delivered").await;
    assert_eq!(get(&client, &id).await["consecutive_failures"], 0);
    patch(&client, &id, json!({"url": sink.url("/status/500")})).await.expect(200);
    for failures in 1..=3 {
        assert_eq!(get(&client, &id).await["disabled_at"], Value::Null);
        fail(failures).await;
    }
    let disabled = get(&client, &id).await;
    assert_timestamp(&disabled["disabled_at"]);
    assert_eq!(disabled["active"], false);
    patch(&client, &id, json!({"active": true})).await.problem(409, "conflict");
    // The owner did not disable the endpoint, so it is still listed.
    assert_eq!(client.get("/v1/webhooks").await.body["data"][0]["id"], id);
    app.stop().await;
}

/// Contract: webhooks 14; lists 3. A cursor is valid for its list only.
#[tokio::test]
async fn deliveries_are_listed_by_status_and_page() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let other = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(test_event(&client, &id).await["delivery_id"].clone());
    }
    sink.receives("/ok", 3).await;
    let list = async |query: &str| client.get(&format!("/v1/webhooks/{id}/deliveries?{query}")).await;
    for delivery in &sent {
        wait_for_delivery(&client, &id, delivery.as_str().expect("an id"), "delivered").await;
    }
    let first = list("limit=2&status=delivered").await.expect(200).body;
    assert_eq!((&first["data"][0]["id"], &first["data"][1]["id"]), (&sent[2], &sent[1]));
    assert_eq!(first["has_more"], true);
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = list(&format!("limit=2&status=delivered&cursor={cursor}")).await.expect(200).body;
    assert_eq!((&second["data"][0]["id"], &second["next_cursor"]), (&sent[0], &Value::Null));
    assert_eq!(list("status=dlq").await.expect(200).body["data"], json!([]));
    list("status=lost").await.invalid("status");
    for bad in ["limit=0", "limit=101"] {
        list(bad).await.invalid("limit");
    }
    list(&format!("cursor={cursor}")).await.invalid("cursor");
    client.get(&format!("/v1/webhooks/{other}/deliveries?status=delivered&cursor={cursor}")).await.invalid("cursor");
    insta::assert_json_snapshot!("delivery", stable(&first["data"][0]), { ".duration_ms" => "[duration]" });
    app.stop().await;
}

/// Contract: webhooks 22.
#[tokio::test]
async fn waiting_deliveries_of_disabled_endpoint_fail() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("webhooks.retry_schedule", "[\"1h\"]")
        .set("webhooks.auto_disable_after", "1")
        .start()
        .await;
    let client = app.client().await;
    let id = id_of(&create(&client, &sink.url("/status/500"), &["session.failed"]).await);
    let waits = send_test(&client, &id).await;
    let dies = send_test(&client, &id).await;
    sink.receives("/status/500", 2).await;
    for delivery in [&waits, &dies] {
        wait_for_delivery(&client, &id, delivery, "pending").await;
    }
    app.execute("update webhook_deliveries set next_attempt_at = now() where id = $1", uuid_of(&dies)).await;
    wait_for_delivery(&client, &id, &dies, "dlq").await;
    let ended = wait_for_delivery(&client, &id, &waits, "failed").await;
    assert_eq!((&ended["attempts"], &ended["last_error"]), (&json!(1), &json!("the endpoint was disabled")));
    let endpoint = get(&client, &id).await;
    assert_eq!(endpoint["delivery_counts"], json!({"delivered": 0, "failed": 1, "dlq": 1}));
    assert!(endpoint["disabled_at"].is_string());
    assert_eq!(sink.received("/status/500").len(), 3);
    app.stop().await;
}

/// Contract: retention 4. Waiting ones stay.
#[tokio::test]
async fn ended_deliveries_are_purged() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let client = app.client().await;
    let delivered = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let waiting = id_of(&create(&client, &sink.url("/status/500"), &["session.failed"]).await);
    for id in [&delivered, &waiting] {
        test_event(&client, id).await;
    }
    sink.receives("/status/500", 1).await;
    sink.receives("/ok", 1).await;
    eventually(Duration::from_secs(10), "the results are written", async || {
        let written =
            "select count(*) from webhook_deliveries where status in ('delivered', 'pending') and attempts = 1";
        (app.count(written).await == 2).then_some(())
    })
    .await;
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    let arm = areas::arms().into_iter().find(|arm| arm.name == "deliveries").expect("an arm");
    for (age, purged) in [(Duration::from_mins(1), 0), (Duration::ZERO, 2), (Duration::ZERO, 0)] {
        // An id contains the millisecond of its creation, which must be over.
        let over = "select count(*) from events where id >= uuid_v7_of(now())";
        eventually(Duration::from_secs(2), "the millisecond is over", async || {
            (app.count(over).await == 0).then_some(())
        })
        .await;
        let terms = Terms {
            jobs: age,
            webhooks: age,
            sessions: age,
            agent_sessions: age,
            workers: age,
            usage: age,
            notifications: age,
            recordings: age,
            revoked: age,
            deleted_account_secrets: age,
        };
        let mut rows = 0;
        for part in arm.purges() {
            rows += (part.purge)(&mut conn, &terms, 100).await.expect("a statement");
        }
        assert_eq!(rows, purged, "{age:?}");
    }
    drop(conn);
    assert!(deliveries(&client, &delivered).await.is_empty());
    assert_eq!(get(&client, &delivered).await["delivery_counts"]["delivered"], 1);
    assert_eq!(deliveries(&client, &waiting).await.len(), 1);
    assert_eq!(app.count("select count(*) from events where type = 'test.ping'").await, 1);
    app.stop().await;
}

/// Contract: accounts 9.
#[tokio::test]
async fn deleted_account_sends_no_webhooks() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let ada = app.person(Tier::Enterprise).await;
    let events = ["session.completed", "api_key.revoked"];
    let id = id_of(&create(&ada.client, &sink.url("/status/500"), &events).await);
    ada.client.session().await;
    ada.client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201);
    test_event(&ada.client, &id).await;
    sink.receives("/status/500", 1).await;
    eventually(Duration::from_secs(10), "the result is written", async || {
        (app.count("select count(*) from webhook_deliveries where status = 'pending'").await == 1).then_some(())
    })
    .await;
    let request = ada.client.request(reqwest::Method::DELETE, "/v1/account/me");
    ada.client.send(request.json(&json!({"confirm": "delete-account"}))).await.expect(204);
    assert_eq!(app.count("select count(*) from webhook_deliveries where status <> 'failed'").await, 0);
    let secrets = "select count(*) from webhook_endpoints where disabled_at is null or length(sealed_secret) > 0";
    assert_eq!(app.count(secrets).await, 0);
    assert_eq!(sink.all().len(), 1);
    app.stop().await;
}

/// Contract: webhooks 7. They are sent when the endpoint is active again, also beyond their time.
#[tokio::test]
async fn paused_endpoint_keeps_its_waiting_deliveries() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "1s").start().await;
    let client = app.client().await;
    let path = "/first/500/1/";
    let id = id_of(&create(&client, &sink.url(path), &["session.failed"]).await);
    let sent = send_test(&client, &id).await;
    sink.receives(path, 1).await;
    patch(&client, &id, json!({"active": false})).await.expect(200);
    eventually(Duration::from_secs(10), "the delivery is overdue by 2 s", async || {
        let overdue = "select count(*) from webhook_deliveries
                       where status = 'pending' and attempts = 1 and next_attempt_at < now() - interval '2 s'";
        (app.count(overdue).await == 1).then_some(())
    })
    .await;
    assert_eq!(sink.received(path).len(), 1);
    patch(&client, &id, json!({"active": true})).await.expect(200);
    assert_eq!(wait_for_delivery(&client, &id, &sent, "delivered").await["attempts"], 2);
    app.stop().await;
}

/// Contract: webhooks 31, 32.
#[tokio::test]
async fn delivery_shows_what_was_sent() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let client = app.client().await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    let delivery = send_test_until(&client, &endpoint, "delivered").await;
    let id = id_of(&delivery);
    let detail = client.get(&format!("/v1/webhook-deliveries/{id}")).await.expect(200).body;
    assert_eq!((&detail["payload"]["type"], &detail["payload"]["id"]), (&json!("test.ping"), &delivery["event_id"]));
    assert_eq!(detail["headers"]["X-Service-Event-Id"], delivery["event_id"]);
    let signature = detail["headers"]["X-Service-Signature"].as_str().expect("a signature");
    assert!(signature.starts_with("t=") && signature.ends_with(",v1=•••"), "{signature}");
    let attempts = detail["attempts_log"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 1);
    assert_eq!((&attempts[0]["status"], &attempts[0]["error"]), (&delivery["last_response_status"], &Value::Null));
    assert_timestamp(&attempts[0]["at"]);

    let old = "update webhook_deliveries set last_signature = 't=1700000000,v1=ab' where id = $1";
    app.execute(old, uuid_of(&id)).await;
    let detail = client.get(&format!("/v1/webhook-deliveries/{id}")).await.expect(200).body;
    assert_eq!(detail["headers"]["X-Service-Signature"], "t=1700000000,v1=ab");

    let list = async |query: &str| {
        let page = client.get(&format!("/v1/webhook-deliveries{query}")).await.expect(200).body;
        page["data"].as_array().expect("a list").len()
    };
    assert_eq!(list("").await, 1);
    for query in ["?status=delivered", "?event_type=test.ping", "?created_after=2026-01-01T00:00:00Z"] {
        assert_eq!(list(query).await, 1, "{query}");
    }
    assert_eq!(list(&format!("?endpoint_id={endpoint}&status=delivered")).await, 1);
    for query in ["?status=dlq", "?event_type=session.failed", "?created_before=2026-01-01T00:00:00Z"] {
        assert_eq!(list(query).await, 0, "{query}");
    }
    let stranger = app.client().await;
    stranger.get(&format!("/v1/webhook-deliveries/{id}")).await.problem(404, "not-found");
    assert_eq!(stranger.get("/v1/webhook-deliveries").await.expect(200).body["data"], json!([]));
    client.get("/v1/webhook-deliveries?event_type=none").await.invalid("event_type");
    app.stop().await;
}
