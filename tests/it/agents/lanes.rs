//! Control of an agent session by the agent or a human (contract: agents 8 to 13).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use super::{driver_of, id_of};
use crate::support::records::uuid_of;
use crate::support::{App, Client, at_once, eventually, unknown_id};

/// Beyond the allowed 30 s.
const SILENT: &str = "update agent_sessions set heard_at = now() - interval '31 seconds' where id = $1";

fn client(name: &str) -> Value {
    json!({"client_id": name})
}

async fn transitions(app: &App, from: &str, to: &str) -> u64 {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let text =
        scraper.request(reqwest::Method::GET, "/metrics").send().await.expect("metrics").text().await.expect("text");
    let series = format!("service_pair_mode_transition_total{{from=\"{from}\",to=\"{to}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or(0)
}

/// Contract: agents 9, 10, 13. The client keeps control while it sends heartbeats.
#[tokio::test]
async fn client_has_exclusive_control_until_it_hands_back() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let agent = id_of(&owner.agent_session(json!({"mode": "pair"})).await);
    for what in ["handback", "heartbeat"] {
        owner.post_to_agent(&agent, what, client("ada")).await.problem(409, "conflict");
    }
    for _ in 0..2 {
        let taken = owner.post_to_agent(&agent, "takeover", client("ada")).await.expect(200).body;
        assert_eq!((&taken["control"], &taken["mode"]), (&json!("human"), &json!("pair")));
    }
    assert_eq!(owner.get_agent(&agent).await["control"], "human");
    for what in ["takeover", "handback", "heartbeat"] {
        owner.post_to_agent(&agent, what, client("bob")).await.problem(409, "conflict");
    }
    assert_eq!(owner.post_to_agent(&agent, "heartbeat", client("ada")).await.expect(200).body["control"], "human");
    assert_eq!(owner.post_to_agent(&agent, "handback", client("ada")).await.expect(200).body["control"], "ai");
    owner.post_to_agent(&agent, "handback", client("ada")).await.problem(409, "conflict");
    owner.post_to_agent(&agent, "takeover", client("bob")).await.expect(200);

    let rows = app.audit(account).await;
    let rows: Vec<_> = rows.iter().filter(|row| row.action.starts_with("agent_session.pair_mode")).collect();
    let told: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.payload.clone())).collect();
    let (ai, human) = ("ai-driving", "human-driving");
    assert_eq!(
        told,
        [
            ("agent_session.pair_mode.takeover", json!({"from": ai, "to": human, "client_id": "ada"})),
            ("agent_session.pair_mode.handback", json!({"from": human, "to": ai})),
            ("agent_session.pair_mode.takeover", json!({"from": ai, "to": human, "client_id": "bob"})),
        ]
    );
    assert!(rows.iter().all(|row| row.actor_type == "customer" && row.target_resource_id.as_deref() == Some(&agent)));
    assert_eq!((transitions(&app, ai, human).await, transitions(&app, human, ai).await), (2, 1));
    app.stop().await;
}

/// Contract: agents 9.
#[tokio::test]
async fn one_of_concurrent_takeovers_succeeds() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let agent = id_of(&owner.agent_session(json!({"mode": "pair"})).await);
    let races = (0..16).map(|i| {
        let (owner, agent) = (owner.clone(), agent.clone());
        async move { owner.post_to_agent(&agent, "takeover", client(&format!("c{i}"))).await }
    });
    let statuses: Vec<_> = at_once(races).await.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 409)), "{statuses:?}");
    app.stop().await;
}

/// Contract: agents 12. The limit is 30 s, checked by the next sweep or request.
#[tokio::test]
async fn client_without_heartbeat_loses_control() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let mut agents = Vec::new();
    for _ in 0..4 {
        let agent = id_of(&owner.agent_session(json!({"mode": "pair"})).await);
        owner.post_to_agent(&agent, "takeover", client("ada")).await.expect(200);
        agents.push(agent);
    }
    let [asked, late, other, lively] = &agents[..] else { unreachable!("four") };
    for agent in [asked, late, other] {
        app.execute(SILENT, uuid_of(agent)).await;
    }
    assert_eq!(owner.get_agent(asked).await["control"], "ai");
    // The audit row exists when the request returns.
    let rows = app.audited(account, "agent_session.pair_mode.timeout").await;
    assert!(rows.iter().any(|row| row.target_resource_id.as_ref() == Some(asked)), "{rows:?}");
    owner.post_to_agent(late, "heartbeat", client("ada")).await.problem(409, "conflict");
    assert_eq!(owner.post_to_agent(other, "takeover", client("bob")).await.expect(200).body["control"], "human");
    eventually(Duration::from_secs(30), "the sweep has run", async || {
        (app.audited(account, "agent_session.pair_mode.timeout").await.len() == 3).then_some(())
    })
    .await;
    for row in app.audited(account, "agent_session.pair_mode.timeout").await {
        assert_eq!(
            (row.actor_type.as_str(), &row.payload),
            ("system", &json!({"from": "human-driving", "to": "ai-driving"}))
        );
    }
    assert_eq!(transitions(&app, "human-driving", "ai-driving").await, 3);
    owner.post_to_agent(lively, "heartbeat", client("ada")).await.expect(200);
    let swept = app.run(&["sweep", "pair-heartbeats", "--json"]).await.code(0).json();
    assert_eq!(swept, json!({"timed_out": 0}));
    app.execute(SILENT, uuid_of(lively)).await;
    app.run(&["sweep", "pair-heartbeats"]).await.code(0);
    assert_eq!(owner.get_agent(lively).await["control"], "ai");
    app.stop().await;
}

/// Contract: agents 12. A client whose heartbeat succeeds has control.
#[tokio::test]
async fn heartbeat_and_concurrent_sweep_agree() {
    let app = App::simulated().set("agents.heartbeat_timeout", "20ms").start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let agent = id_of(&owner.agent_session(json!({"mode": "pair"})).await);
    let (mut held, mut lost) = (0, 0);
    for round in 0..30_u64 {
        owner.post_to_agent(&agent, "takeover", client("ada")).await.expect(200);
        tokio::time::sleep(Duration::from_millis(15 + round % 10)).await;
        let (beat, ()) = tokio::join!(owner.post_to_agent(&agent, "heartbeat", client("ada")), sweep(&app));
        match beat.status.as_u16() {
            200 => held += 1,
            409 => lost += 1,
            other => panic!("{other} {}", beat.body),
        }
        eventually(Duration::from_secs(10), "the lane lapses", async || {
            (owner.get_agent(&agent).await["control"] == "ai").then_some(())
        })
        .await;
    }
    sweep(&app).await;
    let (taken, timed_out) = (
        app.audited(account, "agent_session.pair_mode.takeover").await.len(),
        app.audited(account, "agent_session.pair_mode.timeout").await.len(),
    );
    assert_eq!((held + lost, taken), (30, timed_out), "{held} heartbeats succeeded, {lost} failed");
    app.stop().await;
}

async fn sweep(app: &App) {
    let patience = Duration::from_millis(20);
    kitfleet_worker::maintenance::sweep_pair_heartbeats(&app.database.pool, patience).await.expect("a sweep");
}

/// Contract: agents 8, 11, 13. A closed agent session rejects all changes.
#[tokio::test]
async fn mode_change_during_human_control_is_409() {
    let app = App::simulated().start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let opened = owner.agent_session(json!({})).await;
    let agent = id_of(&opened);
    let mode = |mode: &str| json!({"mode": mode});
    for (bad, field) in [(json!({}), "mode"), (mode("none"), "mode"), (json!({"mode": null}), "mode")] {
        owner.post_to_agent(&agent, "mode", bad).await.invalid(field);
    }
    owner.post_to_agent(&agent, "takeover", client("ada")).await.problem(409, "conflict");
    for (to, control) in [("manual", "human"), ("manual", "human"), ("ai", "ai"), ("pair", "ai")] {
        let changed = owner.post_to_agent(&agent, "mode", mode(to)).await.expect(200).body;
        assert_eq!((&changed["mode"], &changed["control"]), (&json!(to), &json!(control)));
    }
    for bad in [json!({}), client(""), client(&"x".repeat(129)), client("a\nb"), json!({"client_id": 1})] {
        owner.post_to_agent(&agent, "takeover", bad).await.invalid("client_id");
    }
    owner.post_to_agent(&agent, "takeover", client(&"ü".repeat(128))).await.expect(200);
    for to in ["manual", "ai", "pair"] {
        owner.post_to_agent(&agent, "mode", mode(to)).await.problem(409, "conflict");
    }
    owner.post_to_agent(&agent, "handback", client(&"ü".repeat(128))).await.expect(200);
    let changes: Vec<_> =
        app.audited(account, "agent_session.mode.changed").await.into_iter().map(|row| row.payload).collect();
    let change = |from: &str, to: &str| json!({"from": from, "to": to});
    assert_eq!(changes, [change("ai", "manual"), change("manual", "ai"), change("ai", "pair")]);

    let stranger = app.client().await;
    for (what, body) in
        [("takeover", client("a")), ("handback", client("a")), ("heartbeat", client("a")), ("mode", mode("ai"))]
    {
        stranger.post_to_agent(&agent, what, body.clone()).await.problem(404, "not-found");
        owner.post_to_agent(&unknown_id("agt"), what, body.clone()).await.problem(404, "not-found");
    }
    owner.delete(&format!("/v1/sessions/{}", driver_of(&opened))).await.expect(204);
    for (what, body) in [("takeover", client("a")), ("heartbeat", client("a")), ("mode", mode("ai"))] {
        owner.post_to_agent(&agent, what, body).await.problem(409, "conflict");
    }
    app.stop().await;
}

/// Contract: agents 54, 55.
#[tokio::test]
async fn turn_is_cancelled_after_its_step() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    client.post_to_agent(&agent, "cancel", json!({})).await.problem(409, "conflict");
    let turn = tokio::spawn({
        let (client, agent) = (client.clone(), agent.clone());
        let message = json!({"message": "wait 3 seconds, then open https://example.com"});
        async move { client.post_to_agent(&agent, "message", message).await }
    });
    eventually(Duration::from_secs(10), "the turn is cancelled", async || {
        (client.post_to_agent(&agent, "cancel", json!({})).await.status == 200).then_some(())
    })
    .await;
    let turn = turn.await.expect("an answer").expect(200).body;
    let statuses: Vec<_> = turn["intents"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses.last(), Some(&&json!("skipped")), "{turn}");
    assert_eq!(client.get("/v1/account/approvals").await.expect(200).body["data"], json!([]));
    app.stop().await;
}
