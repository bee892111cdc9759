//! Workers for staff and operators, including their return to service.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::draining::{until_active, until_ended};
use crate::support::commands::run;
use crate::support::{App, Role, eventually, unknown_id};

const DRAINING: &str = "select count(*) from workers where status = 'draining'";

/// Contract: staff 19; command-line 20. It also reports its sandbox.
#[tokio::test]
async fn worker_reports_version_and_resources() {
    let app = App::simulated().start().await;
    let staff = app.staff().await;
    let listed = staff.get("/v1/admin/workers").await.expect(200).body["data"][0].clone();
    let path = format!("/v1/admin/workers/{}", listed["id"].as_str().expect("an id"));
    let shown = eventually(Duration::from_secs(10), "the worker has sent a heartbeat", async || {
        let shown = staff.get(&path).await.expect(200).body;
        shown["free_disk_bytes"].is_u64().then_some(shown)
    })
    .await;
    assert_eq!((&shown["id"], &shown["version"]), (&listed["id"], &json!(env!("CARGO_PKG_VERSION"))));
    assert_eq!(
        (&shown["is_sandboxed"], &shown["drain_by"]),
        (&Value::Null, &Value::Null),
        "the worker has no real browsers"
    );
    assert!(shown["free_memory_bytes"].as_u64() > Some(1_000_000), "{shown}");
    let by_command = app.run(&["workers", "list", "--json"]).await.code(0).json();
    assert_eq!((&by_command[0]["version"], by_command[0]["free_disk_bytes"].is_u64()), (&shown["version"], true));
    let table = app.run(&["workers", "list"]).await.code(0).stdout;
    assert!(table.contains("FREE DISK") && table.contains(" GiB") && table.contains("IS SANDBOXED"), "{table}");
    for unknown in [unknown_id("wrk"), "x".to_owned()] {
        staff.get(&format!("/v1/admin/workers/{unknown}")).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: staff 5, 20; workers 28; command-line 20. A command that waits for the drain exits with 1.
#[tokio::test]
async fn drained_worker_returns_to_service() {
    let app = App::simulated().set("worker.max_sessions", "3").set("worker.name", "left").start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    let (first, second) = (client.session().await, client.session().await);
    let worker = app.worker_of(&first).await;
    let path = format!("/v1/admin/workers/{worker}/undrain");
    let because = json!({"reason": "the kernel is new"});
    staff.post(&path, because.clone()).await.problem(409, "conflict");
    let command = app.command(&["workers", "drain", "left", "--wait", "--deadline", "1h"]);
    let draining = tokio::spawn(async move { run(command, "").await });
    eventually(Duration::from_secs(10), "the worker is draining", async || {
        app.log(0).contains("this worker receives no more sessions").then_some(())
    })
    .await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);

    staff.post(&path, json!({})).await.invalid("reason");
    client.post(&path, because.clone()).await.problem(404, "not-found");
    let returned = staff.post(&path, because.clone()).await.expect(200).body;
    assert_eq!((&returned["status"], &returned["drain_by"]), (&json!("active"), &Value::Null));
    assert_eq!((&returned["drain_began_at"], &returned["drain_sessions"]), (&Value::Null, &Value::Null));
    staff.post(&path, because.clone()).await.problem(409, "conflict");
    staff.post(&format!("/v1/admin/workers/{}/undrain", unknown_id("wrk")), because).await.problem(404, "not-found");
    let ended = draining.await.expect("a task").code(1);
    assert!(ended.stderr.contains("was returned to service while it drained"), "{ended:?}");
    assert_eq!(app.count("select count(*) from worker_slots").await, 3);
    client.session().await;
    client.session().await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    assert_eq!(client.status(&first).await, "ready");
    assert_eq!(app.count("select count(*) from staff_log where operation = 'worker.undrained'").await, 1);
    eventually(Duration::from_secs(10), "the worker logs its return", async || {
        app.log(0).contains("returned to service").then_some(())
    })
    .await;

    // The worker obeys a second drain after the first one was revoked.
    let refused = app.run(&["workers", "undrain", "left"]).await.code(1);
    assert!(refused.error_text().contains("the worker is active"), "{refused:?}");
    app.run(&["workers", "drain", "left", "--deadline", "0s"]).await.code(0);
    eventually(Duration::from_secs(10), "the sessions are ended", async || {
        (app.count("select count(*) from sessions where live").await == 0).then_some(())
    })
    .await;
    let returned = app.run(&["workers", "undrain", "left", "--json"]).await.code(0).json();
    assert_eq!((&returned["id"], &returned["status"]), (&json!(worker), &json!("active")));
    for _ in 0..3 {
        client.session().await;
    }
    app.run(&["workers", "undrain", &unknown_id("wrk")]).await.code(1);
    app.run(&["workers", "undrain", "wrk_x"]).await.code(2);
    app.run(&["workers", "undrain"]).await.code(2);
    app.stop().await;
}

/// Contract: staff 14; workers 20. A later request replaces the deadline.
#[tokio::test]
async fn staff_drain_deadline_ends_remaining_sessions() {
    let app = App::simulated().set("worker.max_sessions", "3").start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    let session = client.session().await;
    let path = format!("/v1/admin/workers/{}/drain", app.worker_of(&session).await);
    for invalid in [json!(-1), json!(2_592_001), json!("30m"), json!(1.5)] {
        staff.post(&path, json!({"reason": "r", "deadline_seconds": invalid})).await.invalid("deadline_seconds");
    }
    staff.post(&path, json!({"deadline_seconds": 60})).await.invalid("reason");
    assert_eq!(app.count(DRAINING).await, 0);

    let drained = staff.post(&path, json!({"reason": "r", "deadline_seconds": null})).await.expect(200).body;
    assert_eq!((&drained["status"], &drained["drain_by"]), (&json!("draining"), &Value::Null));
    assert!(drained["drain_began_at"].is_string() && drained["drain_sessions"] == 1, "{drained}");
    staff.post(&path, json!({"reason": "r"})).await.problem(409, "conflict");
    let drained = staff.post(&path, json!({"reason": "r", "deadline_seconds": 2_592_000})).await.expect(200).body;
    assert!(drained["drain_by"].is_string(), "{drained}");
    assert_eq!(client.status(&session).await, "ready");
    staff.post(&path, json!({"reason": "enough", "deadline_seconds": 0})).await.expect(200);
    eventually(Duration::from_secs(10), "the session is ended", async || {
        (client.status(&session).await == "errored").then_some(())
    })
    .await;
    let without = "select count(*) from staff_log where operation = 'worker.drained' and payload = '{}'";
    assert_eq!(app.count(without).await, 1);
    let at_once = "select count(*) from staff_log where reason = 'enough' and payload = '{\"deadline_seconds\": 0}'";
    assert_eq!(app.count(at_once).await, 1);
    app.stop().await;
}

/// Contract: workers 10, 28.
#[tokio::test]
async fn stopping_worker_cannot_return_to_service() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "60s").start().await;
    until_active(&app, 1).await;
    let (client, staff) = (app.client().await, app.staff().await);
    let session = client.session().await;
    let worker = app.worker_of(&session).await;
    kill(app.pid(1), Signal::SIGTERM).expect("the worker runs");
    eventually(Duration::from_secs(10), "the worker is draining", async || {
        (app.count(DRAINING).await == 1).then_some(())
    })
    .await;
    let refused = app.run(&["workers", "undrain", &worker]).await.code(1);
    assert!(refused.error_text().contains("received a stop signal"), "{refused:?}");
    let path = format!("/v1/admin/workers/{worker}/undrain");
    staff.post(&path, json!({"reason": "r"})).await.problem(409, "conflict");
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    until_ended(&mut app, 1).await;
    app.stop().await;
}
