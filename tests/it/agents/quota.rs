//! Quota of an account, and purges that free it (contract: agents 38 to 40).

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use super::id_of;
use crate::support::people::ENCRYPTION_KEY;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, unknown_id};

/// In all rows of agent sessions that count towards the quota.
const KEPT: &str = "select coalesce(sum(bytes), 0)::bigint from (
    select 256 + octet_length(sealed_said) as bytes from agent_turns
    union all select 256 + octet_length(sealed_wish) + coalesce(octet_length(sealed_shown), 0) + coalesce(octet_length(sealed_result), 0)
              from agent_steps
    union all select 256 + coalesce(octet_length(sealed_body), 0) from agent_message_receipts
    union all select coalesce(octet_length(body), 0) from agent_session_creates where agent_session_id is not null) kept";
const COUNTED: &str = "select coalesce(sum(stored_bytes), 0)::bigint from agent_sessions";

async fn say_with(client: &Client, agent: &str, key: &str, body: &Value) -> Answer {
    let request = client.request(Method::POST, &format!("/v1/agent-sessions/{agent}/message"));
    client.send(request.header("idempotency-key", key).json(body)).await
}

/// Returns the rejection.
async fn fill(client: &Client, agent: &str) -> Answer {
    for _ in 0..100 {
        let answer = client.post_to_agent(agent, "message", json!({"message": "scroll down"})).await;
        if answer.status != 200 {
            return answer;
        }
    }
    panic!("a hundred messages were accepted");
}

/// Contract: agents 38. The turns have a receipt or not, and are approved, unclear or refused.
#[tokio::test]
async fn stored_bytes_of_agent_sessions_are_exact() {
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).start().await;
    let client = app.client().await;
    let create = client.request(Method::POST, "/v1/agent-sessions").header("idempotency-key", "a-create");
    let agent = id_of(&client.send(create.json(&json!({}))).await.expect(201).body);
    let send_message = async |message: &str| {
        client.post_to_agent(&agent, "message", json!({"message": message})).await.expect(200).body
    };
    send_message("open https://example.com, then type 'hunter2' into 'Name', then scroll down").await;
    send_message("make me a sandwich").await;
    send_message("open file:///etc/passwd").await;
    let asked = send_message("tap the 'Pay now' button, then scroll down").await;
    assert_eq!(app.count(COUNTED).await, app.count(KEPT).await);
    let step = asked["intents"][0]["id"].clone();
    client.post_to_agent(&agent, "message", json!({"message": "yes", "approvals": [step]})).await.expect(200);
    say_with(&client, &agent, "k", &json!({"message": "take a screenshot"})).await.expect(200);
    let counted = app.count(COUNTED).await;
    assert_eq!(counted, app.count(KEPT).await);
    assert!(counted > 5_000, "{counted}");
    app.stop().await;
}

/// Contract: agents 38, 40. Receipts still return their responses.
#[tokio::test]
async fn messages_above_the_quota_are_403() {
    let app = App::simulated()
        .set("mfa.encryption_key", ENCRYPTION_KEY)
        .set("limits.agent_bytes_per_account", "8000")
        .start()
        .await;
    let client = app.client().await;
    let (first, other) = (client.agent().await, client.agent().await);
    let told = say_with(&client, &first, "k", &json!({"message": "scroll up"})).await.expect(200);
    fill(&client, &first).await.problem(403, "feature-unavailable");
    let refused = client.post_to_agent(&other, "message", json!({"message": "scroll down"})).await;
    let refused = refused.problem(403, "feature-unavailable").body;
    assert_eq!((&refused["bytes"], &refused["limit_bytes"]), (&json!(app.count(KEPT).await), &json!(8_000)));
    let create = client.post("/v1/agent-sessions", json!({})).await.problem(403, "feature-unavailable").body;
    assert_eq!((&create["bytes"], &create["limit_bytes"]), (&refused["bytes"], &json!(8_000)));
    assert_eq!(app.count("select count(*) from sessions").await, 2, "a rejected create opened a session");
    let keyed = say_with(&client, &other, "refused", &json!({"message": "scroll down"})).await;
    keyed.problem(403, "feature-unavailable");
    assert_eq!(app.count("select count(*) from agent_message_receipts").await, 1);
    let again = say_with(&client, &first, "k", &json!({"message": "scroll up"})).await.expect(200);
    assert_eq!(again.body, told.body);

    let stranger = app.client().await;
    let theirs = stranger.agent().await;
    stranger.post_to_agent(&theirs, "message", json!({"message": "scroll down"})).await.expect(200);

    let path = format!("/v1/agent-sessions/{first}");
    client.delete(&format!("{path}?purge=perhaps")).await.invalid("purge");
    stranger.delete(&format!("{path}?purge=true")).await.problem(404, "not-found");
    client.delete(&path).await.expect(204);
    client
        .post_to_agent(&other, "message", json!({"message": "scroll down"}))
        .await
        .problem(403, "feature-unavailable");
    client.delete(&format!("{path}?purge=false")).await.expect(204);
    client.get(&path).await.expect(200);
    client.delete(&format!("{path}?purge=true")).await.expect(204);
    client.get(&path).await.problem(404, "not-found");
    client.delete(&format!("{path}?purge=true")).await.problem(404, "not-found");
    client.get(&format!("{path}/transcript")).await.problem(404, "not-found");
    client.post_to_agent(&other, "message", json!({"message": "scroll down"})).await.expect(200);
    client.agent().await;
    assert_eq!(app.count(COUNTED).await, app.count(KEPT).await);
    app.stop().await;
}

/// Contract: agents 40. The slot is free too.
#[tokio::test]
async fn purge_closes_an_active_agent_session() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let agent = client.agent().await;
    client.post_to_agent(&agent, "message", json!({"message": "scroll down"})).await.expect(200);
    client.delete(&format!("/v1/agent-sessions/{agent}?purge=true")).await.expect(204);
    client.get_agent(&client.agent().await).await;
    let ended = app.audited(account, "agent_session.destroyed").await;
    assert_eq!((ended.len(), &ended[0].payload["reason"]), (1, &json!("customer")));
    for table in ["select count(*) from agent_turns", "select count(*) from agent_steps"] {
        assert_eq!(app.count(table).await, 0);
    }
    client.delete(&format!("/v1/agent-sessions/{}?purge=true", unknown_id("agt"))).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: agents 40. The turn still has to record its costs.
#[tokio::test]
async fn purge_during_a_turn_is_409() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    client.post_to_agent(&agent, "message", json!({"message": "scroll down"})).await.expect(200);
    let under_way = "update agent_sessions set turn_id = (select id from agent_turns) where id = $1";
    app.execute(under_way, uuid_of(&agent)).await;
    let path = format!("/v1/agent-sessions/{agent}?purge=true");
    client.delete(&path).await.problem(409, "conflict");
    assert_eq!(client.get_agent(&agent).await["status"], "closed");
    app.execute("update agent_sessions set turn_id = null where id = $1", uuid_of(&agent)).await;
    client.delete(&path).await.expect(204);
    app.stop().await;
}

/// Contract: agents 39.
#[tokio::test]
async fn turn_ends_at_the_quota() {
    let app = App::simulated().set("limits.agent_bytes_per_account", "1500").start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let steps = vec!["scroll down"; 20].join(", then ");
    let turn = client.post_to_agent(&agent, "message", json!({"message": steps})).await.expect(200).body;
    let intents = turn["intents"].as_array().expect("intents");
    let failed = intents.iter().position(|step| step["status"] == "failed").expect("a step that failed");
    assert!(failed > 0 && failed < 19, "{failed}");
    let error = intents[failed]["error"].as_str().expect("an error");
    assert!(error.contains("it was done") && error.contains("exceed the limit"), "{error}");
    assert!(intents[failed + 1..].iter().all(|step| step["status"] == "skipped"), "{turn}");
    assert!(turn["reply"].as_str().expect("a reply").contains("exceed the limit"), "{turn}");
    client
        .post_to_agent(&agent, "message", json!({"message": "scroll down"}))
        .await
        .problem(403, "feature-unavailable");
    app.stop().await;
}

/// Contract: agents 38. The turns that were accepted before the quota was reached may exceed it.
#[tokio::test]
async fn concurrent_messages_respect_the_quota() {
    let app = App::simulated().set("limits.agent_bytes_per_account", "3000").start().await;
    let client = app.client().await;
    let mut agents = Vec::new();
    for _ in 0..4 {
        agents.push(client.agent().await);
    }
    let told = at_once(agents.into_iter().map(|agent| {
        let client = client.clone();
        async move { fill(&client, &agent).await.problem(403, "feature-unavailable") }
    }));
    told.await;
    let kept = app.count(KEPT).await;
    assert!((3_000..9_000).contains(&kept), "{kept}");
    app.stop().await;
}
