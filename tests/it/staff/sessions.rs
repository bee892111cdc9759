//! Sessions of all accounts for staff and operators.

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::agents::{driver_of, id_of};
use crate::challenges::paused;
use crate::draining::{process_of, until_active};
use crate::support::{App, Client, Role, eventually, unknown_id};

const LIVE_SLOTS: &str = "select count(*) from worker_slots where session_id is not null";

fn path(session: &str) -> String {
    format!("/v1/admin/sessions/{session}")
}

async fn destroy(staff: &Client, session: &str) -> crate::support::Answer {
    staff.post(&format!("{}/destroy", path(session)), json!({"reason": "ticket 4711"})).await
}

async fn ids(staff: &Client, query: &str) -> Vec<String> {
    let page = staff.get(&format!("/v1/admin/sessions?{query}")).await.expect(200).body;
    let entries = page["data"].as_array().expect("a list").iter();
    entries.map(|entry| entry["id"].as_str().expect("an id").to_owned()).collect()
}

/// Contract: staff 17; command-line 18. The list has ended sessions on request.
#[tokio::test]
async fn staff_lists_and_shows_sessions_of_all_accounts() {
    let app = App::simulated().start().await;
    let ((account, client), other, staff) =
        (app.customer(Tier::Enterprise).await, app.client().await, app.staff().await);
    let profile = client.profile().await;
    let with_profile = client.session_with(json!({"profile_id": profile, "label": "checkout"})).await;
    let (foreign, ended) = (other.session().await, client.session().await);
    client.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let worker = app.worker_of(&foreign).await;

    assert_eq!(ids(&staff, "").await, [foreign.clone(), with_profile.clone()]);
    assert_eq!(ids(&staff, "all=true").await, [ended.clone(), foreign.clone(), with_profile.clone()]);
    assert_eq!(ids(&staff, "status=destroyed").await, [ended.as_str()]);
    assert_eq!(ids(&staff, "status=busy").await, [""; 0]);
    assert_eq!(ids(&staff, &format!("account_id={account}")).await, [with_profile.as_str()]);
    assert_eq!(ids(&staff, &format!("account_id={account}&all=true")).await, [ended.clone(), with_profile.clone()]);
    assert_eq!(ids(&staff, &format!("profile_id={profile}")).await, [with_profile.as_str()]);
    assert_eq!(ids(&staff, &format!("worker_id={worker}&all=true")).await.len(), 3);
    assert_eq!(ids(&staff, &format!("worker_id={}", unknown_id("wrk"))).await, [""; 0]);
    for (name, wrong) in
        [("status", "gone"), ("account_id", "x"), ("worker_id", "x"), ("profile_id", "x"), ("all", "x")]
    {
        staff.get(&format!("/v1/admin/sessions?{name}={wrong}")).await.invalid(name);
    }
    let first = staff.get("/v1/admin/sessions?all=true&limit=2").await.expect(200).body;
    let next = first["next_cursor"].as_str().expect("a cursor");
    assert_eq!(ids(&staff, &format!("all=true&limit=2&cursor={next}")).await, [with_profile.as_str()]);
    staff.get(&format!("/v1/admin/sessions?limit=2&cursor={next}")).await.invalid("cursor");

    client.navigate(&with_profile, "https://example.com/").await;
    let shown = async |session: &str| {
        let shown = staff.get(&path(session)).await.expect(200).body;
        let mut by_command = app.run(&["sessions", "show", session, "--json"]).await.code(0).json();
        // A heartbeat may have arrived in between.
        by_command["worker"]["last_seen_at"] = shown["worker"]["last_seen_at"].clone();
        assert_eq!(by_command, shown);
        shown
    };
    let idle = shown(&with_profile).await;
    assert_eq!(
        (&idle["status"], &idle["waits_for"], &idle["operation"]),
        (&json!("ready"), &Value::Null, &Value::Null)
    );
    assert_eq!((&idle["account_id"], &idle["label"]), (&json!(account), &json!("checkout")));
    assert!(idle["url"].as_str().is_some_and(|url| url.starts_with("https://example.com")), "{idle}");
    assert_eq!((&idle["profile"]["id"], &idle["profile"]["holder"]), (&json!(profile), &Value::Null));
    assert_eq!((&idle["worker"]["status"], &idle["worker"]["is_alive"]), (&json!("active"), &json!(true)));
    assert!(idle["worker"]["slot"].is_u64(), "{idle}");

    let wait = client.waiting(&with_profile, 20_000);
    app.busy(&with_profile).await;
    let busy = eventually(Duration::from_secs(10), "the worker has started the operation", async || {
        Some(shown(&with_profile).await).filter(|busy| busy["operation"]["status"] == "running")
    })
    .await;
    assert_eq!((&busy["waits_for"], &busy["operation"]["kind"]), (&json!("operation"), &json!("wait")));
    assert_eq!(staff.get("/v1/admin/sessions?status=busy").await.expect(200).body["data"][0]["operation"], "wait");

    other.navigate(&foreign, "https://challenge.simulated.example/datadome").await;
    paused(&other, &foreign).await;
    assert_eq!(shown(&foreign).await["waits_for"], "challenge");
    assert_eq!(shown(&ended).await["waits_for"], Value::Null);

    let text = app.run(&["sessions", "show", &with_profile]).await.code(0).stdout;
    assert!(text.contains("waits_for") && text.contains("worker.is_alive"), "{text}");
    let listed = app.run(&["sessions", "list", "--json"]).await.code(0).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    let args = ["sessions", "list", "--status", "destroyed", "--account", &account.to_string(), "--json"];
    assert_eq!(app.run(&args).await.code(0).json()[0]["id"], json!(ended));
    assert!(app.run(&["sessions", "list"]).await.code(0).stdout.contains(&foreign));
    app.run(&["sessions", "show", &unknown_id("ses")]).await.code(1);
    app.run(&["sessions", "show", "ses_x"]).await.code(2);
    app.run(&["sessions", "list", "--status", "gone"]).await.code(2);
    for unknown in [unknown_id("ses"), unknown_id("acc"), "x".to_owned()] {
        staff.get(&path(&unknown)).await.problem(404, "not-found");
    }
    destroy(&staff, &with_profile).await.expect(200);
    wait.await.expect("a task").problem(410, "session-destroyed");
    app.stop().await;
}

/// Contract: staff 17. `waits_for` is `approval`.
#[tokio::test]
async fn session_waiting_for_approval_is_shown_as_such() {
    let app = App::simulated().start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    let created = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let (agent, driver) = (id_of(&created), driver_of(&created));
    assert_eq!(staff.get(&path(&driver)).await.expect(200).body["waits_for"], Value::Null);
    client.post_to_agent(&agent, "message", json!({"message": "tap the 'Pay now' button"})).await.expect(200);
    let shown = staff.get(&path(&driver)).await.expect(200).body;
    assert_eq!((&shown["waits_for"], &shown["agent_session"]["id"]), (&json!("approval"), &json!(agent)), "{shown}");
    app.stop().await;
}

/// Contract: staff 5, 6, 18; sessions 27; command-line 19. The owner's log has one row of the system, and one of staff when
/// staff did it.
#[tokio::test]
async fn session_can_be_destroyed_once_by_staff_or_command() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let (first, second) = (client.session().await, client.session().await);
    staff.post(&format!("{}/destroy", path(&first)), json!({})).await.invalid("reason");
    destroy(&client, &first).await.problem(404, "not-found");
    let wait = client.waiting(&first, 60_000);
    app.busy(&first).await;
    let shown = destroy(&staff, &first).await.expect(200).body;
    assert_eq!((&shown["status"], &shown["worker"]["slot"]), (&json!("destroyed"), &Value::Null));
    wait.await.expect("a task").problem(410, "session-destroyed");
    destroy(&staff, &first).await.problem(409, "conflict");
    destroy(&staff, &unknown_id("ses")).await.problem(404, "not-found");
    assert_eq!(app.count(LIVE_SLOTS).await, 1);
    let written = app.written_by_staff(account, "admin.support_note").await;
    assert_eq!(written, [json!({"operation": "session.ended", "reason": "ticket 4711"})]);

    let destroyed = app.run(&["sessions", "destroy", &second, "--json"]).await.code(0).json();
    assert_eq!(destroyed, json!({"id": second, "account_id": account, "status": "destroyed"}));
    let refused = app.run(&["sessions", "destroy", &second]).await.code(1);
    assert!(refused.error_text().contains("the session has ended"), "{refused:?}");
    let refused = app.run(&["sessions", "destroy", &unknown_id("ses")]).await.code(1);
    assert!(refused.error_text().contains("there is no session"), "{refused:?}");
    app.run(&["sessions", "destroy", &unknown_id("acc")]).await.code(2);
    assert_eq!(app.count(LIVE_SLOTS).await, 0);

    let rows = app.audited(account, "session.destroyed").await;
    let seen: Vec<_> = rows.iter().map(|row| (row.actor_type.as_str(), row.target_resource_id.clone())).collect();
    assert_eq!(seen, [("system", Some(first.clone())), ("system", Some(second.clone()))]);
    for session in [&first, &second] {
        let events = app.events(session).await;
        let [(kind, data)] = &events[..] else { panic!("expected one event: {events:?}") };
        assert_eq!(kind, "session.completed");
        assert!(data.get("auto_destroyed").is_none() && data.get("reason").is_none(), "{data}");
    }
    assert_eq!(app.written_by_staff(account, "admin.support_note").await.len(), 1);
    app.stop().await;
}

/// Contract: staff 17, 18; command-line 18, 19. Its profile can then be opened on another worker.
#[tokio::test]
async fn session_of_dead_worker_can_be_destroyed() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    until_active(&app, 1).await;
    let (client, staff) = (app.client().await, app.staff().await);
    let profile = client.profile().await;
    let session = client.session_with(json!({"profile_id": profile})).await;
    let wait = client.waiting(&session, 60_000);
    eventually(Duration::from_secs(10), "the worker has started the operation", async || {
        let running = "select count(*) from intents where kind = 'wait' and status = 'running'";
        (app.count(running).await == 1).then_some(())
    })
    .await;
    let process = process_of(&app, &app.worker_of(&session).await);
    app.signal(process, Signal::SIGKILL).await;
    wait.await.expect("a task").problem(502, "driver-error");
    let shown = staff.get(&path(&session)).await.expect(200).body;
    assert_eq!((&shown["status"], &shown["waits_for"]), (&json!("busy"), &json!("worker")), "{shown}");
    assert_eq!((&shown["worker"]["is_alive"], &shown["worker"]["status"]), (&json!(false), &json!("lost")));
    let by_command = app.run(&["sessions", "show", &session, "--json"]).await.code(0).json();
    for shown in [&shown, &by_command] {
        let operation = &shown["operation"];
        assert_eq!((&operation["kind"], &operation["status"]), (&json!("wait"), &json!("unknown")), "{shown}");
    }
    app.run(&["sessions", "destroy", &session]).await.code(0);
    assert_eq!(app.count("select count(*) from sessions where live or profile_in_hand").await, 0);
    app.start(Role::Worker);
    until_active(&app, 1).await;
    client.session_with(json!({"profile_id": profile})).await;
    app.stop().await;
}
