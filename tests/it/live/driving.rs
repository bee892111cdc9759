//! Contract: live 8 to 12, 36.

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::agents::{driver_of, id_of};
use crate::challenges::{paused, resolution, until_resumed};
use crate::support::live::{Viewer, ticket};
use crate::support::records::uuid_of;
use crate::support::{App, Client, eventually};

const SOON: Duration = Duration::from_secs(10);

fn control(driver: &str, may_act: bool, offers: Option<&str>) -> Value {
    let mut control = json!({"type": "control", "driver": driver, "may_act": may_act});
    if let Some(offers) = offers {
        control["offers"] = offers.into();
    }
    control
}

async fn until_control(viewer: &mut Viewer, wanted: &Value) {
    let last = |viewer: &Viewer| viewer.messages.iter().rev().find(|message| message["type"] == "control").cloned();
    viewer.until(&wanted.to_string(), |viewer| (last(viewer).as_ref() == Some(wanted)).then_some(())).await;
}

async fn refusal(viewer: &mut Viewer, message: Value) -> Value {
    let from = viewer.messages.len();
    viewer.send(message).await;
    viewer.wait_for_message("refused", from).await["reason"].clone()
}

fn takeover() -> Value {
    json!({"type": "takeover"})
}

fn handback() -> Value {
    json!({"type": "handback"})
}

fn finger(phase: &str) -> Value {
    json!({"type": "input", "events": [{"type": "touch", "finger": 0, "phase": phase, "x": 10, "y": 10}]})
}

async fn until_status(client: &Client, session: &str, wanted: &str) {
    eventually(SOON, wanted, async || (client.status(session).await == wanted).then_some(())).await;
}

/// Contract: live 8, 9, 12, 18, 36; agents 9, 10, 13; notifications 2. The effects are those of the routes: the same audit
/// rows, transitions and notifications.
#[tokio::test]
async fn controller_takes_over_and_hands_back_in_the_view() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let made = owner.agent_session(json!({"mode": "pair"})).await;
    let (agent, session) = (id_of(&made), driver_of(&made));
    for what in ["takeover", "handback"] {
        owner.post_to_agent(&agent, what, json!({"client_id": "ada"})).await.expect(200);
    }

    let mut ada = Viewer::control(&app, &owner, &session, Some("ada")).await;
    let mut bob = Viewer::control(&app, &owner, &session, Some("bob")).await;
    let mut eve = Viewer::watch(&app, &owner, &session).await;
    for viewer in [&mut ada, &mut bob] {
        until_control(viewer, &control("agent", false, Some("takeover"))).await;
    }
    until_control(&mut eve, &control("agent", false, None)).await;
    assert_eq!(refusal(&mut ada, handback()).await, "not_driving");

    ada.send(takeover()).await;
    until_control(&mut ada, &control("you", true, Some("handback"))).await;
    for viewer in [&mut bob, &mut eve] {
        until_control(viewer, &control("other", false, None)).await;
    }
    assert_eq!(owner.get_agent(&agent).await["control"], "human");
    assert_eq!(refusal(&mut bob, takeover()).await, "not_driving");
    assert_eq!(refusal(&mut bob, handback()).await, "not_driving");
    owner.post_to_agent(&agent, "takeover", json!({"client_id": "bob"})).await.problem(409, "conflict");
    // A repeated takeover changes nothing.
    ada.send(takeover()).await;

    ada.send(finger("begin")).await;
    until_status(&owner, &session, "busy").await;
    ada.send(handback()).await;
    until_control(&mut ada, &control("agent", false, Some("takeover"))).await;
    assert_eq!(owner.status(&session).await, "ready");
    assert_eq!(owner.get_agent(&agent).await["control"], "ai");
    assert_eq!(refusal(&mut ada, finger("begin")).await, "not_driving");

    let rows = app.audit(account).await;
    let rows: Vec<_> = rows.iter().filter(|row| row.action.starts_with("agent_session.pair_mode")).collect();
    let said = |row: &crate::support::records::AuditRow| {
        let (by, from) = ((row.actor_account_id, row.actor_key_id), (row.ip_address.clone(), row.user_agent.clone()));
        (row.action.clone(), row.payload.clone(), row.target_resource_id.clone(), row.actor_type.clone(), by, from)
    };
    assert_eq!(rows.len(), 4);
    for (by_route, by_view) in rows[..2].iter().zip(&rows[2..]) {
        assert_eq!(said(by_route), said(by_view));
    }
    assert_eq!(rows[2].payload, json!({"from": "ai-driving", "to": "human-driving", "client_id": "ada"}));
    assert!(rows[2].actor_key_id.is_some() && rows[2].ip_address.is_some());
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let metrics = scraper.request(reqwest::Method::GET, "/metrics").send().await.expect("metrics").text().await;
    let metrics = metrics.expect("text");
    for (from, to) in [("ai-driving", "human-driving"), ("human-driving", "ai-driving")] {
        let series = format!("service_pair_mode_transition_total{{from=\"{from}\",to=\"{to}\"}} 2");
        assert!(metrics.contains(&series), "{series}");
    }
    let told = owner.get("/v1/account/notifications?limit=100").await.expect(200).body;
    let changes = told["data"].as_array().expect("a list").iter().rev();
    let changes = changes.filter(|entry| entry["event"] == "agent_session.changed");
    let changes: Vec<_> = changes.map(|entry| entry["data"]["control"].clone()).collect();
    assert_eq!(changes, ["ai", "human", "ai", "human", "ai"]);
    app.stop().await;
}

/// Contract: live 36. It lacks a `client_id`, `write:agents` or a valid key, or exceeds the rate limit.
#[tokio::test]
async fn control_change_without_permission_is_rejected() {
    let app = App::simulated().start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let made = owner.agent_session(json!({"mode": "pair"})).await;
    let (agent, session) = (id_of(&made), driver_of(&made));
    let driving = app.client_of(account, &["read:sessions", "write:sessions"]).await;
    let watched = ticket(&owner, &session, "viewer", Some("eve")).await;
    let mut viewer = Viewer::through_the_api(&app, &session, &watched).await;
    let mut nameless = Viewer::control(&app, &owner, &session, None).await;
    let mut scopeless = Viewer::control(&app, &driving, &session, Some("ada")).await;
    for (viewer, reason) in [(&mut viewer, "viewer"), (&mut nameless, "forbidden"), (&mut scopeless, "forbidden")] {
        until_control(viewer, &control("agent", false, None)).await;
        for said in [takeover(), handback()] {
            assert_eq!(refusal(viewer, said).await, reason);
        }
    }

    let key = app.client_of(account, &["account_owner"]).await;
    let mut late = Viewer::control(&app, &key, &session, Some("ada")).await;
    until_control(&mut late, &control("agent", false, Some("takeover"))).await;
    let revoke = "update api_keys set revoked_at = now() where id = (select api_key_id from live_tickets order by id desc limit 1)
                  and account_id = $1";
    app.execute(revoke, account.as_uuid()).await;
    late.send(takeover()).await;
    assert_eq!(late.until_closed().await, Some(4001));

    let mut hasty = Viewer::control(&app, &owner, &session, Some("ada")).await;
    for _ in 0..20 {
        hasty.send(handback()).await;
    }
    hasty
        .until("too fast", |viewer| viewer.messages.iter().find(|said| said["reason"] == "too_fast").map(|_| ()))
        .await;
    assert_eq!(owner.get_agent(&agent).await["control"], "ai");

    for (mode, driver, may_act) in [("ai", "agent", false), ("manual", "you", true)] {
        owner.post_to_agent(&agent, "mode", json!({"mode": mode})).await.expect(200);
        let mut viewer = Viewer::control(&app, &owner, &session, Some("ada")).await;
        until_control(&mut viewer, &control(driver, may_act, None)).await;
        for said in [takeover(), handback()] {
            assert_eq!(refusal(&mut viewer, said).await, "not_driving");
        }
    }
    let plain = owner.session().await;
    let mut viewer = Viewer::control(&app, &owner, &plain, Some("ada")).await;
    until_control(&mut viewer, &control("nobody", true, None)).await;
    assert_eq!(refusal(&mut viewer, takeover()).await, "forbidden");
    let rows = app.audit(account).await;
    assert!(!rows.iter().any(|row| row.action.starts_with("agent_session.pair_mode")));
    app.stop().await;
}

/// Contract: live 8, 18. Any `client_id` is accepted.
#[tokio::test]
async fn input_is_accepted_only_in_manual_mode() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let made = owner.agent_session(json!({"mode": "manual"})).await;
    let (agent, session) = (id_of(&made), driver_of(&made));
    for name in [None, Some("ada")] {
        let mut viewer = Viewer::control(&app, &owner, &session, name).await;
        until_control(&mut viewer, &control("you", true, None)).await;
        viewer.send(finger("begin")).await;
        until_status(&owner, &session, "busy").await;
        owner.operate(&session, "snapshot", json!({})).await.problem(409, "conflict");
        viewer.send(finger("end")).await;
        until_status(&owner, &session, "ready").await;
        viewer.read_for(Duration::from_millis(50)).await;
        assert!(viewer.messages.iter().all(|said| said["type"] != "refused"), "{:?}", viewer.messages);
    }
    owner.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await.expect(200);
    for name in [None, Some("ada")] {
        let mut viewer = Viewer::control(&app, &owner, &session, name).await;
        until_control(&mut viewer, &control("agent", false, None)).await;
        assert_eq!(refusal(&mut viewer, finger("begin")).await, "not_driving");
    }
    assert_eq!(owner.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: live 11, 12, 13; agents 12. The claim is released within 2 s.
#[tokio::test]
async fn input_ends_when_control_times_out() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let made = owner.agent_session(json!({"mode": "pair"})).await;
    let (agent, session) = (id_of(&made), driver_of(&made));
    let mut ada = Viewer::control(&app, &owner, &session, Some("ada")).await;
    ada.send(takeover()).await;
    until_control(&mut ada, &control("you", true, Some("handback"))).await;
    ada.send(finger("begin")).await;
    until_status(&owner, &session, "busy").await;
    let silent = "update agent_sessions set heard_at = now() - interval '31 seconds' where id = $1";
    app.execute(silent, uuid_of(&agent)).await;
    let lost = std::time::Instant::now();
    until_control(&mut ada, &control("agent", false, Some("takeover"))).await;
    until_status(&owner, &session, "ready").await;
    assert!(lost.elapsed() < Duration::from_secs(3), "{:?}", lost.elapsed());
    assert_eq!(refusal(&mut ada, finger("begin")).await, "not_driving");
    let tapped = json!({"message": "scroll down"});
    owner.post_to_agent(&agent, "message", tapped).await.expect(200);
    ada.send(takeover()).await;
    until_control(&mut ada, &control("you", true, Some("handback"))).await;
    app.stop().await;
}

/// Contract: challenges 6; live 9. It stays paused until the challenge is resolved.
#[tokio::test]
async fn paused_session_accepts_input_of_a_person() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://challenge.simulated.example/hcaptcha").await;
    let found = paused(&client, &session).await;
    client.operate(&session, "snapshot", json!({})).await.problem(409, "conflict");
    let mut viewer = Viewer::control(&app, &client, &session, None).await;
    until_control(&mut viewer, &control("nobody", true, None)).await;
    viewer.send(finger("begin")).await;
    until_status(&client, &session, "busy").await;
    viewer.send(finger("end")).await;
    until_status(&client, &session, "ready").await;
    viewer.read_for(Duration::from_millis(50)).await;
    assert!(viewer.messages.iter().all(|said| said["type"] != "refused"), "{:?}", viewer.messages);
    assert_eq!(paused(&client, &session).await, found);
    client.post(&resolution(&session, &found), json!({})).await.expect(200);
    until_resumed(&client, &session).await;
    client.operate(&session, "snapshot", json!({})).await.expect(200);
    app.stop().await;
}
