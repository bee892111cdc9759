//! Creation, reading, listing and closing (contract: agents 1 to 7, 14).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use super::{driver_of, id_of};
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, stable, unknown_id};

async fn create(client: &Client, key: &str, body: &Value) -> Answer {
    client.send(client.request(Method::POST, "/v1/agent-sessions").header("idempotency-key", key).json(body)).await
}

/// Contract: agents 1, 2, 14.
#[tokio::test]
async fn create_returns_defaults_and_one_driver_session() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let created = client.post("/v1/agent-sessions", json!({})).await.expect(201);
    let agent = created.body;
    insta::assert_json_snapshot!("agent_session", stable(&agent));
    let id = id_of(&agent);
    assert_eq!(created.headers["location"], format!("/v1/agent-sessions/{id}"));
    assert_eq!(agent["account_id"], account.to_string());
    assert_eq!(client.get_agent(&id).await, agent);

    let driver = client.get(&format!("/v1/sessions/{}", driver_of(&agent))).await.expect(200).body;
    assert_eq!((&driver["status"], &driver["archetype"]), (&json!("ready"), &agent["archetype"]));
    client.operate(&driver_of(&agent), "wait", json!({"condition": {"kind": "time", "ms": 1}})).await.expect(200);

    let profile = client.profile().await;
    let params = json!({
        "mode": "pair", "token_budget": 1, "archetype": "iphone-16-pro-ios-18", "profile_id": profile, "label": "Zürich",
        "purpose": "production_customer",
    });
    let created = client.post("/v1/agent-sessions", params).await.expect(201);
    assert_eq!(created.headers["x-service-unknown-fields"], "purpose");
    let agent = created.body;
    assert_eq!((&agent["mode"], &agent["control"]), (&json!("pair"), &json!("ai")));
    assert_eq!((&agent["token_budget"], &agent["label"]), (&json!(1), &json!("Zürich")));
    assert_eq!((&agent["archetype"], &agent["profile_id"]), (&json!("iphone-16-pro-ios-18"), &json!(profile)));
    let driver = client.get(&format!("/v1/sessions/{}", driver_of(&agent))).await.expect(200).body;
    assert_eq!((&driver["label"], &driver["metadata"]["profile_id"]), (&json!("Zürich"), &json!(profile)));
    client.post("/v1/agent-sessions", json!({"profile_id": profile})).await.problem(409, "profile-in-use");
    assert_eq!(client.agent_session(json!({"mode": "manual"})).await["control"], "human");

    let rows = app.audited(account, "agent_session.created").await;
    let created: Vec<_> = rows.iter().map(|row| row.payload["initial_mode"].clone()).collect();
    assert_eq!(created, ["ai", "pair", "manual"]);
    assert_eq!((rows[0].target_resource_id.as_deref(), rows[0].actor_type.as_str()), (Some(id.as_str()), "customer"));
    assert_eq!(rows[0].payload["agent_session_id"], id);
    app.stop().await;
}

/// Contract: agents 1, 2. Agent sessions use the session slots of the account.
#[tokio::test]
async fn rejected_create_leaves_no_row() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    for (body, field) in [
        (json!({"mode": "auto"}), "mode"),
        (json!({"mode": 1}), "mode"),
        (json!({"token_budget": 0}), "token_budget"),
        (json!({"token_budget": 1_000_001}), "token_budget"),
        (json!({"token_budget": -1}), "token_budget"),
        (json!({"token_budget": 1.5}), "token_budget"),
        (json!({"token_budget": "1"}), "token_budget"),
        (json!({"archetype": "nokia-3310"}), "archetype"),
        (json!({"label": "x".repeat(121)}), "label"),
    ] {
        client.post("/v1/agent-sessions", body).await.invalid(field);
    }
    for body in [
        json!({"proxy_id": unknown_id("prx")}),
        json!({"proxy_id": "x"}),
        json!({"profile_id": unknown_id("prof")}),
        json!({"profile_id": "x"}),
    ] {
        client.post("/v1/agent-sessions", body).await.problem(404, "not-found");
    }
    assert_eq!(app.count("select count(*) from agent_sessions").await, 0);
    assert_eq!(app.count("select count(*) from sessions").await, 0);

    client.agent_session(json!({"token_budget": 1_000_000, "label": "x".repeat(120)})).await;
    let full = client.post("/v1/agent-sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&full.body["current_sessions"], &full.body["limit"]), (&json!(1), &json!(1)));
    client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!(app.count("select count(*) from agent_sessions").await, 1);
    app.stop().await;

    let app = App::simulated().set("sessions.require_customer_egress", "true").start().await;
    let client = app.client().await;
    client.post("/v1/agent-sessions", json!({})).await.invalid("proxy_id");
    app.stop().await;
    let app = App::simulated().set("worker.max_sessions", "1").start().await;
    let client = app.client().await;
    client.agent().await;
    let full = client.post("/v1/agent-sessions", json!({})).await.problem(503, "capacity-exhausted");
    assert_eq!(full.headers["retry-after"], "5");
    app.stop().await;
}

/// Contract: agents 3, 6; requests 17. The body makes no difference.
#[tokio::test]
async fn create_with_a_used_key_returns_the_first_response() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let first = create(&client, "k-1", &json!({"label": "one"})).await.expect(201);
    let path = format!("/v1/agent-sessions/{}", id_of(&first.body));
    for (key, body) in
        [("k-1", json!({"label": "one"})), (" k-1\t", json!({"label": "two"})), ("k-1", json!({"mode": "none"}))]
    {
        let again = create(&client, key, &body).await.expect(201);
        assert_eq!((&again.body, &again.headers["location"]), (&first.body, &first.headers["location"]));
    }
    client.delete(&path).await.expect(204);
    assert_eq!(create(&client, "k-1", &json!({})).await.expect(201).body, first.body);
    assert_eq!(app.audited(account, "agent_session.created").await.len(), 1);
    assert_eq!(app.count("select count(*) from sessions").await, 1);

    // Keys belong to an account. An empty key counts as no key.
    let stranger = app.client().await;
    assert_ne!(create(&stranger, "k-1", &json!({})).await.expect(201).body["id"], first.body["id"]);
    let without = [create(&client, "", &json!({})).await, create(&client, " ", &json!({})).await];
    let [one, other] = without.map(|answer| id_of(&answer.expect(201).body));
    assert_ne!(one, other);
    for bad in ["a b", &"x".repeat(256)] {
        create(&client, bad, &json!({})).await.invalid("Idempotency-Key");
    }
    let twice = client.request(Method::POST, "/v1/agent-sessions").header("idempotency-key", "a");
    client.send(twice.header("idempotency-key", "a").json(&json!({}))).await.invalid("Idempotency-Key");
    // The key expires with the row of its agent session.
    app.execute(
        "update agent_sessions set destroyed_at = now() - interval '31 days' where id = $1",
        uuid_of(&id_of(&first.body)),
    )
    .await;
    app.run(&["sweep", "retention"]).await.code(0);
    client.get(&path).await.problem(404, "not-found");
    assert_ne!(create(&client, "k-1", &json!({})).await.expect(201).body["id"], first.body["id"]);
    app.stop().await;
}

/// Contract: agents 4.
#[tokio::test]
async fn concurrent_creates_with_one_key_create_one_agent_session() {
    let app = App::simulated().start().await;
    // The account has one slot, so that a second create would fail.
    let (account, key) = (app.account(Tier::SoloManual).await, "k");
    let client = app.client_of(account, &["account_owner"]).await;
    let creates = (0..32).map(|_| {
        let client = client.clone();
        async move { create(&client, key, &json!({})).await }
    });
    let answers = at_once(creates).await;
    let first = answers[0].body.clone();
    for answer in answers {
        assert_eq!(answer.expect(201).body, first);
    }
    assert_eq!(app.count("select count(*) from agent_sessions").await, 1);
    assert_eq!(app.audited(account, "agent_session.created").await.len(), 1);
    app.stop().await;
}

/// Contract: agents 5. Invalid requests and transient errors are not repeated.
#[tokio::test]
async fn rejection_is_repeated_for_the_same_key() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    create(&client, "bad", &json!({"mode": "none"})).await.invalid("mode");
    let missing =
        create(&client, "missing", &json!({"profile_id": unknown_id("prof")})).await.problem(404, "not-found");
    let agent = create(&client, "bad", &json!({})).await.expect(201);
    let full = create(&client, "full", &json!({})).await.problem(429, "concurrency-limit");
    client.delete(&format!("/v1/agent-sessions/{}", id_of(&agent.body))).await.expect(204);
    for (key, first) in [("full", full), ("missing", missing)] {
        let again = create(&client, key, &json!({})).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.headers["content-type"], "application/problem+json");
    }
    assert_eq!(create(&client, "bad", &json!({})).await.expect(201).body, agent.body);
    app.stop().await;

    let app = App::simulated().set("worker.max_sessions", "1").start().await;
    let client = app.client().await;
    let taken = client.agent().await;
    create(&client, "later", &json!({})).await.problem(503, "capacity-exhausted");
    client.delete(&format!("/v1/agent-sessions/{taken}")).await.expect(204);
    create(&client, "later", &json!({})).await.expect(201);
    app.stop().await;
}

/// Contract: agents 6.
#[tokio::test]
async fn newest_rejections_are_kept_for_a_day() {
    let app = App::simulated().set("limits.refused_creates", "3").start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let stranger = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let agent = create(&client, "made", &json!({})).await.expect(201).body;
    stranger.agent().await;
    create(&stranger, "theirs", &json!({})).await.problem(429, "concurrency-limit");
    for number in 0..40 {
        create(&client, &format!("k-{number}"), &json!({})).await.problem(429, "concurrency-limit");
    }
    let refused = "select count(*) from agent_session_creates where agent_session_id is null";
    assert_eq!(app.count(refused).await, 3 + 1, "three of this account, and one of the other account");
    client.delete(&format!("/v1/agent-sessions/{}", id_of(&agent))).await.expect(204);
    for number in 37..40 {
        create(&client, &format!("k-{number}"), &json!({})).await.expect(429);
    }
    create(&stranger, "theirs", &json!({})).await.expect(429);
    assert_eq!(create(&client, "made", &json!({})).await.expect(201).body, agent);

    for (hours, left) in [("23 hours", 4), ("2 hours", 0)] {
        let later = format!("update agent_session_creates set created_at = created_at - interval '{hours}'");
        sqlx::query(sqlx::AssertSqlSafe(later)).execute(&app.database.pool).await.expect("a statement");
        app.run(&["sweep", "retention"]).await.code(0);
        assert_eq!(app.count(refused).await, left, "{hours} later");
    }
    let made = create(&client, "k-39", &json!({})).await.expect(201).body;
    assert_ne!(made["id"], agent["id"]);
    assert_eq!(
        create(&client, "made", &json!({})).await.expect(201).body,
        agent,
        "the key of a created agent session expired before its row"
    );
    app.stop().await;
}

/// Contract: agents 6.
#[tokio::test]
async fn number_of_concurrent_rejections_is_limited() {
    let app = App::simulated().set("limits.refused_creates", "5").start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    client.agent().await;
    let refused = at_once((0..64).map(|number| {
        let client = client.clone();
        async move { create(&client, &format!("k-{number}"), &json!({})).await.problem(429, "concurrency-limit") }
    }));
    refused.await;
    create(&client, "last", &json!({})).await.problem(429, "concurrency-limit");
    assert_eq!(app.count("select count(*) from agent_session_creates where agent_session_id is null").await, 5);
    app.stop().await;
}

/// Contract: agents 3. The process died before it stored the response, which is derived from the agent session.
#[tokio::test]
async fn lost_response_of_a_create_is_rebuilt() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let first = create(&client, "k", &json!({})).await.expect(201);
    let forget = "update agent_session_creates set http_status = null, body = null where agent_session_id = $1";
    app.execute(forget, uuid_of(&id_of(&first.body))).await;
    assert_eq!(create(&client, "k", &json!({})).await.expect(201).body["id"], first.body["id"]);
    app.execute(forget, uuid_of(&id_of(&first.body))).await;
    client.delete(&format!("/v1/sessions/{}", driver_of(&first.body))).await.expect(204);
    let failed = create(&client, "k", &json!({})).await.problem(502, "driver-error");
    assert_eq!(create(&client, "k", &json!({})).await.expect(502).body, failed.body);
    app.stop().await;
}

/// Contract: agents 7. Each cause of the end has its own reason.
#[tokio::test]
async fn agent_session_closes_with_its_driver_session() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let agent = client.agent_session(json!({})).await;
    let path = format!("/v1/agent-sessions/{}", id_of(&agent));
    for _ in 0..2 {
        client.delete(&path).await.expect(204);
    }
    assert_eq!(client.status(&driver_of(&agent)).await, "destroyed");
    let closed = client.get_agent(&id_of(&agent)).await;
    assert_eq!((&closed["status"], &closed["close_reason"]), (&json!("closed"), &json!("customer")));
    assert_timestamp(&closed["destroyed_at"]);

    // Concurrent reads right after the end of the driver session all return `closed`.
    let other = client.agent_session(json!({})).await;
    client.delete(&format!("/v1/sessions/{}", driver_of(&other))).await.expect(204);
    let looks = at_once((0..8).map(|_| {
        let (client, other) = (client.clone(), id_of(&other));
        async move { client.get_agent(&other).await }
    }));
    let mut looks = looks.await;
    let ended = looks.pop().expect("eight");
    assert!(looks.iter().all(|look| *look == ended), "{looks:?}");
    assert_eq!((&ended["status"], &ended["close_reason"]), (&json!("closed"), &json!("driver_session_ended")));
    assert_timestamp(&ended["destroyed_at"]);
    assert_eq!(
        app.audited(account, "agent_session.destroyed").await.len(),
        2,
        "no audit row although the end was returned"
    );
    assert_eq!(client.get_agent(&id_of(&other)).await, ended);
    let active = client.get("/v1/agent-sessions?status=active").await.expect(200).body;
    assert_eq!(active["data"], json!([]));
    client.delete(&format!("/v1/agent-sessions/{}", id_of(&other))).await.expect(204);
    let third = client.agent_session(json!({})).await;
    client.delete(&format!("/v1/sessions/{}", driver_of(&third))).await.expect(204);
    client.post_to_agent(&id_of(&third), "mode", json!({"mode": "manual"})).await.problem(409, "conflict");
    assert_eq!(app.audited(account, "agent_session.destroyed").await.len(), 3);
    let fourth = client.agent_session(json!({})).await;
    client.delete(&format!("/v1/sessions/{}", driver_of(&fourth))).await.expect(204);
    eventually(Duration::from_secs(30), "the end has an audit row", async || {
        (app.audited(account, "agent_session.destroyed").await.len() == 4).then_some(())
    })
    .await;
    let rows = app.audited(account, "agent_session.destroyed").await;
    let told: Vec<_> = rows.iter().map(|row| (row.actor_type.as_str(), row.payload.clone())).collect();
    let ended = |agent: &Value, reason: &str| json!({"agent_session_id": agent["id"], "reason": reason});
    assert_eq!(
        told,
        [
            ("customer", ended(&agent, "customer")),
            ("system", ended(&other, "driver_session_ended")),
            ("system", ended(&third, "driver_session_ended")),
            ("system", ended(&fourth, "driver_session_ended")),
        ]
    );
    client.get(&format!("/v1/agent-sessions/{}", unknown_id("agt"))).await.problem(404, "not-found");
    app.client().await.get(&path).await.problem(404, "not-found");
    app.client().await.delete(&path).await.problem(404, "not-found");

    client.agent().await;
    app.run(&["account", "suspend", &account.to_string()]).await.code(0);
    let rows = app.audited(account, "agent_session.destroyed").await;
    assert_eq!(rows[4].payload["reason"], "account_suspended");
    app.stop().await;
}

/// Contract: agents 7; sessions 20.
#[tokio::test]
async fn free_tier_time_limit_closes_agent_sessions() {
    let app = App::simulated().set("sessions.free_tier_cap", "1s").start().await;
    let account = app.account(Tier::Free).await;
    let client = app.device_of(account).await;
    let agent = client.agent().await;
    client.get("/v1/agent-sessions").await.expect(200);
    eventually(Duration::from_secs(30), "the agent session is closed", async || {
        (client.get_agent(&agent).await["close_reason"] == "driver_session_ended").then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: agents 14; lists 1.
#[tokio::test]
async fn list_is_paged_newest_first_and_filterable() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    app.client().await.agent().await;
    let mut made = Vec::new();
    for i in 0..5 {
        let label = if i % 2 == 0 { "red" } else { "blue" };
        made.insert(0, id_of(&client.agent_session(json!({"label": label})).await));
    }
    client.delete(&format!("/v1/agent-sessions/{}", made[0])).await.expect(204);
    let ids = async |query: &str| {
        let page = client.get(&format!("/v1/agent-sessions{query}")).await.expect(200).body;
        page["data"].as_array().expect("a list").iter().map(id_of).collect::<Vec<_>>()
    };
    assert_eq!(ids("").await, made);
    assert_eq!(ids("?label=blue").await, [made[1].clone(), made[3].clone()]);
    assert_eq!(ids("?status=closed").await, made[..1]);
    assert_eq!(ids("?status=active&label=red").await, [made[2].clone(), made[4].clone()]);
    let page = client.get("/v1/agent-sessions?limit=2&label=red").await.expect(200).body;
    let cursor = page["next_cursor"].as_str().expect("another page");
    assert_eq!(ids(&format!("?limit=2&label=red&cursor={cursor}")).await, made[4..]);
    client.get(&format!("/v1/agent-sessions?cursor={cursor}")).await.invalid("cursor");
    client.get("/v1/agent-sessions?status=open").await.invalid("status");
    app.stop().await;
}

/// Contract: agents 14; authorization 10. An admin's agent sessions use the owner's slots.
#[tokio::test]
async fn agent_sessions_of_an_owner_require_the_admin_role() {
    let app = App::simulated().start().await;
    let (owner, own) = app.customer(Tier::SoloManual).await;
    let (admin, member) = (app.customer(Tier::Enterprise).await, app.customer(Tier::Enterprise).await);
    app.join_team(owner, admin.0, "admin").await;
    app.join_team(owner, member.0, "member").await;
    let on_owners = |client: &Client, method: Method, path: &str| {
        client.request(method, path).header("x-service-account", owner.to_string())
    };
    let made = on_owners(&admin.1, Method::POST, "/v1/agent-sessions").json(&json!({}));
    let agent = id_of(&admin.1.send(made).await.expect(201).body);
    own.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    let path = format!("/v1/agent-sessions/{agent}");
    for (method, path) in [(Method::GET, "/v1/agent-sessions"), (Method::GET, &path), (Method::DELETE, &path)] {
        member.1.send(on_owners(&member.1, method, path)).await.problem(403, "forbidden");
    }
    admin.1.get(&path).await.problem(404, "not-found");
    admin.1.send(on_owners(&admin.1, Method::DELETE, &path)).await.expect(204);
    app.stop().await;
}
