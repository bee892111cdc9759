//! The session resource with the simulated driver (contract: sessions).

use std::collections::BTreeSet;
use std::time::Duration;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::routes::{direct_operations, operations, session_routes};
use crate::support::{App, Client, assert_timestamp, at_once, eventually, members, stable, unknown_id};

const LAUNCH: &str = "iphone-16-ios-18";

/// Contract: sessions 1, 9; requests 1, 2. Ids are UUIDs of version 7, and timestamps have milliseconds.
#[tokio::test]
async fn session_has_the_members_of_the_contract() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;

    let created = client.post("/v1/sessions", json!({})).await.expect(201).body;
    insta::assert_json_snapshot!("session", stable(&created));
    assert_eq!(created["account_id"], account.to_string());
    let id = created["id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/v1/sessions/{id}")).await.expect(200).body, created);

    let metadata = json!({"number": 17, "nested": {"deep": [1, 2.5, null, "ü\n\"'"]}, "big": 1e300, "order": u64::MAX});
    let params = json!({
        "archetype": "iphone-16-pro-ios-18", "purpose": "production_customer", "label": "Zürich, first run",
        "metadata": metadata, "behavioral_profile": "power_user",
    });
    let created = client.post("/v1/sessions", params).await.expect(201).body;
    assert_eq!(created["archetype"], "iphone-16-pro-ios-18");
    assert_eq!(created["label"], "Zürich, first run");
    assert_eq!(created["metadata"], metadata);
    let id = created["id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/v1/sessions/{id}")).await.expect(200).body, created);

    let params = json!({"profile_id": client.profile().await, "metadata": {"z": 1, "a": 2}});
    let created = client.post("/v1/sessions", params.clone()).await.expect(201).body;
    let expected = json!({"z": 1, "a": 2, "profile_id": params["profile_id"], "profile_name": "Shop"});
    assert_eq!(created["metadata"], expected);
    let id = created["id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/v1/sessions/{id}")).await.expect(200).body, created);
    app.stop().await;
}

/// Contract: sessions 2, 3, 6.
#[tokio::test]
async fn rejected_create_leaves_no_row() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let refused = [
        (json!({"archetype": "nokia-3310"}), "archetype"),
        (json!({"archetype": ""}), "archetype"),
        (json!({"archetype": 16}), "archetype"),
        (json!({"label": "x".repeat(121)}), "label"),
        (json!({"label": "ü".repeat(121)}), "label"),
        (json!({"label": 1}), "label"),
        (json!({"metadata": []}), "metadata"),
        (json!({"metadata": "text"}), "metadata"),
        (json!({"metadata": true}), "metadata"),
        (json!({"metadata": {"x": "x".repeat(16 * 1024 - 7)}}), "metadata"),
        (json!({"metadata": {"x": "\u{1}".repeat(16 * 1024 / 6)}}), "metadata"),
        (json!({"purpose": "cumulative_rig_validation"}), "purpose"),
        (json!({"purpose": "test_domain_probe"}), "purpose"),
        (json!({"purpose": "anything"}), "purpose"),
        (json!({"behavioral_profile": "hasty"}), "behavioral_profile"),
        (json!({"behavioral_profile": 1}), "behavioral_profile"),
        (json!({"proxy": "socks5://proxy.example:1080"}), "proxy"),
        (json!({"proxy": {"host": "proxy.example"}}), "proxy"),
        (json!({"proxy": null}), "proxy"),
        (json!({"proxy": null, "profile_id": unknown_id("prof")}), "proxy"),
    ];
    for (body, field) in refused {
        client.post("/v1/sessions", body).await.invalid(field);
    }
    let rounded = r#"{"metadata": {"orders": [1, 18446744073709551616]}}"#;
    client.post_raw("/v1/sessions", rounded).await.invalid("metadata");
    for profile in [unknown_id("prof"), "prof_x".to_owned()] {
        client.post("/v1/sessions", json!({"profile_id": profile})).await.problem(404, "not-found");
    }
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    assert_eq!(app.count("select count(*) from intents").await, 0);
    assert_eq!(app.count("select count(*) from audit_log where action like 'session%'").await, 0);

    let taken = [
        json!({"label": "ü".repeat(120)}),
        json!({"label": ""}),
        json!({"label": null, "metadata": null}),
        json!({"metadata": {}}),
        json!({"metadata": {"x": "x".repeat(16 * 1024 - 8)}}),
        json!({"purpose": "production_customer"}),
        json!({"behavioral_profile": "casual"}),
        json!({"behavioral_profile": "regular"}),
        json!({"behavioral_profile": "power_user"}),
    ];
    for body in taken {
        client.session_with(body).await;
    }
    app.stop().await;
}

/// Contract: lists 4. The next page begins with the session after it.
#[tokio::test]
async fn page_of_sessions_is_limited_by_customer_data() {
    let app = App::simulated().set("limits.page_bytes", "2500").start().await;
    let client = app.client().await;
    let mut made = Vec::new();
    for bytes in [10, 1_000, 1_000, 3_000, 10, 1_000] {
        made.push(client.session_with(json!({"metadata": {"x": "x".repeat(bytes)}})).await);
    }
    // The size counts numbers as the customer wrote them.
    let numbers = json!({"x": vec![1e300; 300]});
    let numbers = client.post("/v1/sessions", json!({"metadata": numbers})).await.expect(201);
    made.push(numbers.body["id"].as_str().expect("an id").to_owned());
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/sessions{cursor}")).await.expect(200).body;
        let ids = page["data"].as_array().expect("a list").iter().map(|session| session["id"].clone());
        pages.push(ids.collect::<Vec<_>>());
        assert_eq!(page["has_more"], page["next_cursor"].is_string());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("?cursor={next}");
    }
    made.reverse();
    let sizes: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 3], "{made:?}");
    assert_eq!(pages.concat(), made);
    app.stop().await;
}

/// Contract: sessions 4. The body of a create makes no difference.
#[tokio::test]
async fn create_is_400_when_customer_egress_is_required() {
    let app = App::simulated().set("sessions.require_customer_egress", "true").start().await;
    let client = app.client().await;
    let bodies = [
        json!({}),
        json!({"archetype": LAUNCH, "label": "label"}),
        json!({"archetype": "nokia-3310"}),
        json!({"profile_id": unknown_id("prof")}),
        json!({"proxy": "socks5://proxy.example:1080"}),
        json!({"proxy_id": "prx_1"}),
        json!({"label": "x".repeat(121)}),
    ];
    for body in bodies {
        let answer = client.post("/v1/sessions", body).await.expect(400);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    app.stop().await;
}

/// Contract: sessions 10; lists 1.
#[tokio::test]
async fn list_is_paged_newest_first_and_filterable() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let other = app.client().await;
    other.session_with(json!({"label": "red"})).await;
    let mut sessions = Vec::new();
    for i in 0..7 {
        sessions.insert(0, client.session_with(json!({"label": if i % 2 == 0 { "red" } else { "blue" }})).await);
    }
    client.delete(&format!("/v1/sessions/{}", sessions[0])).await.expect(204);
    client.delete(&format!("/v1/sessions/{}", sessions[1])).await.expect(204);

    let whole = client.get("/v1/sessions").await.expect(200).body;
    assert_eq!(members(&whole), BTreeSet::from(["data", "has_more", "next_cursor"]));
    assert_eq!(ids(&whole), sessions);
    assert_eq!((&whole["has_more"], &whole["next_cursor"]), (&json!(false), &Value::Null));
    let itself = client.get(&format!("/v1/sessions/{}", sessions[3])).await.expect(200).body;
    assert_eq!(whole["data"][3], itself);

    for limit in [1, 2, 3, 6] {
        assert_eq!(paged(&client, &format!("limit={limit}"), limit).await, sessions);
    }
    let exact = client.get("/v1/sessions?limit=7").await.expect(200).body;
    assert_eq!((&exact["has_more"], &exact["next_cursor"]), (&json!(false), &Value::Null));

    assert_eq!(paged(&client, "limit=1&status=destroyed", 1).await, sessions[..2]);
    assert_eq!(paged(&client, "limit=2&status=ready", 2).await, sessions[2..]);
    assert_eq!(paged(&client, "limit=2&label=red", 2).await.len(), 4);
    assert_eq!(paged(&client, "limit=2&label=red&status=ready", 2).await.len(), 3);
    assert!(ids(&client.get("/v1/sessions?status=busy").await.expect(200).body).is_empty());
    assert!(ids(&client.get("/v1/sessions?label=re").await.expect(200).body).is_empty());
    client.get("/v1/sessions?status=asleep").await.invalid("status");

    // A cursor points to the last session of its page, also after new sessions are created.
    let first = client.get("/v1/sessions?limit=3").await.expect(200).body;
    client.session().await;
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = client.get(&format!("/v1/sessions?limit=3&cursor={cursor}")).await.expect(200).body;
    assert_eq!(ids(&second), sessions[3..6]);
    app.stop().await;
}

/// Contract: lists 2, 3.
#[tokio::test]
async fn invalid_limits_and_cursors_are_400() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    for _ in 0..3 {
        client.session_with(json!({"label": "red"})).await;
    }
    for limit in ["0", "101", "-1", "abc", "1.5", "99999999999999999999", "%00"] {
        client.get(&format!("/v1/sessions?limit={limit}")).await.invalid("limit");
    }
    for limit in [1, 100] {
        client.get(&format!("/v1/sessions?limit={limit}")).await.expect(200);
    }

    let page = client.get("/v1/sessions?limit=1&label=red").await.expect(200).body;
    let cursor = page["next_cursor"].as_str().expect("a cursor").to_owned();
    let again = format!("/v1/sessions?limit=1&label=red&cursor={cursor}");
    assert_eq!(ids(&client.get(&again).await.expect(200).body).len(), 1);

    let stranger = app.client().await;
    stranger.get(&again).await.invalid("cursor");
    client.get(&format!("/v1/sessions?limit=1&cursor={cursor}")).await.invalid("cursor");
    client.get(&format!("/v1/sessions?limit=1&label=red&status=ready&cursor={cursor}")).await.invalid("cursor");
    client.get(&format!("/v1/sessions?limit=1&label=blue&cursor={cursor}")).await.invalid("cursor");
    for place in [0, cursor.len() / 4, cursor.len() / 2, cursor.len() - 2] {
        let other = if cursor.as_bytes()[place] == b'A' { "B" } else { "A" };
        let mut tampered = cursor.clone();
        tampered.replace_range(place..=place, other);
        client.get(&format!("/v1/sessions?limit=1&label=red&cursor={tampered}")).await.invalid("cursor");
    }
    let long = "A".repeat(4_000);
    for garbage in ["x", "%00", "..%2F..%2Fetc", "ses_0", &cursor[..cursor.len() - 4], &long] {
        client.get(&format!("/v1/sessions?limit=1&label=red&cursor={garbage}")).await.invalid("cursor");
    }
    app.stop().await;
}

/// Contract: sessions 7; limits 2. A create above the limit is 429 without Retry-After.
#[tokio::test]
async fn each_tier_has_its_concurrency_limit() {
    let app = App::simulated().set("worker.max_sessions", "200").start().await;
    let caps = [
        (Tier::SoloManual, 1),
        (Tier::TeamManual, 3),
        (Tier::AgencyManual, 8),
        (Tier::ApiStarter, 2),
        (Tier::ApiBuilder, 8),
        (Tier::ApiScale, 24),
        (Tier::Enterprise, 32),
    ];
    for (tier, cap) in caps {
        let client = app.client_with(tier, &["account_owner"]).await;
        let mut session = String::new();
        for _ in 0..cap {
            session = client.session().await;
        }
        let refused = client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
        assert_eq!(refused.body["title"], "ConcurrencyLimit");
        assert_eq!((&refused.body["current_sessions"], &refused.body["limit"]), (&json!(cap), &json!(cap)), "{tier}");
        assert!(!refused.headers.contains_key("retry-after"));
        for _ in 0..3 {
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
            session = client.session().await;
        }
        client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    }
    app.stop().await;
}

/// Contract: sessions 7.
#[tokio::test]
async fn fifty_concurrent_creates_at_limit_eight_make_eight_sessions() {
    let app = App::simulated().set("worker.max_sessions", "100").start().await;
    let client = app.client_with(Tier::ApiBuilder, &["write"]).await;
    let race = (0..50).map(|_| {
        let client = client.clone();
        async move { client.post("/v1/sessions", json!({})).await }
    });
    let (created, refused): (Vec<_>, Vec<_>) = at_once(race).await.into_iter().partition(|a| a.status == 201);
    assert_eq!(created.len(), 8);
    for answer in refused {
        let body = answer.problem(429, "concurrency-limit").body;
        assert_eq!(body["limit"], 8);
        assert_eq!(body["current_sessions"], 8);
    }
    assert_eq!(app.count("select count(*) from sessions").await, 8);
    assert_eq!(app.count("select count(*) from sessions where status = 'ready'").await, 8);
    assert_eq!(app.count("select count(*) from audit_log where action = 'session.created'").await, 8);
    app.stop().await;
}

/// Contract: sessions 14, 17, 18; events 2.
#[tokio::test]
async fn operations_on_a_destroyed_session_are_410() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let path = format!("/v1/sessions/{session}");
    client.navigate(&session, "https://example.com/").await;
    for _ in 0..3 {
        let answer = client.delete(&path).await.expect(204);
        assert!(answer.headers.get("content-length").is_none_or(|length| length == "0"));
    }
    let destroyed = client.get(&path).await.expect(200).body;
    assert_eq!(destroyed["status"], "destroyed");
    assert_timestamp(&destroyed["destroyed_at"]);
    for route in operations(&session).iter().chain(&direct_operations(&session)) {
        client.call(route).await.problem(410, "session-destroyed");
    }
    assert_eq!(client.get(&path).await.expect(200).body, destroyed);
    assert_eq!(app.intents(&session).await.len(), 2, "the open and the navigation");

    let events = app.events(&session).await;
    let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!(kind, "session.completed");
    assert_eq!(members(data), BTreeSet::from(["session_id", "duration_ms"]));
    assert_eq!(data["session_id"], session);
    assert!(data["duration_ms"].as_i64().is_some_and(|ms| (0..60_000).contains(&ms)), "{data}");
    app.stop().await;
}

/// Contract: sessions 11; errors 5. The other account's session stays unchanged.
#[tokio::test]
async fn session_of_another_account_is_404() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let (owner, stranger) = (app.client().await, app.client().await);
    let foreign = owner.session().await;
    let unknown = unknown_id("ses");
    let mut answers = BTreeSet::new();
    for id in [&foreign, &unknown] {
        for route in session_routes(id) {
            let answer = stranger.call(&route).await.problem(404, "not-found");
            let told = (answer.body["title"].clone(), answer.body["detail"].clone(), members(&answer.body).len());
            answers.insert(format!("{told:?}").replace(id.as_str(), ""));
        }
    }
    assert_eq!(answers.len(), 1, "the responses differ: {answers:?}");

    let uuid = uuid_of(&foreign);
    let malformed = [
        "ses_x".to_owned(),
        "x".to_owned(),
        format!("acc_{uuid}"),
        uuid.to_string(),
        format!("ses_{}", uuid.simple()),
        foreign.to_uppercase(),
        format!("{foreign}%20"),
        "ses_%00".to_owned(),
        "%ff".to_owned(),
        "a".repeat(5_000),
    ];
    for id in &malformed {
        for route in session_routes(id) {
            owner.call(&route).await.problem(404, "not-found");
        }
    }
    assert_eq!(owner.status(&foreign).await, "ready");
    assert_eq!(app.intents(&foreign).await.len(), 1);
    app.stop().await;
}

/// Contract: sessions 22; audit-log 4, 15; requests 10. Without trusted proxies, a caller cannot choose its address with a
/// header.
#[tokio::test]
async fn create_and_destroy_are_in_the_audit_log() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::SoloManual).await;
    let client = app.client_of(account, &["write"]).await;
    let key = app.audit(account).await[0].target_resource_id.clone().expect("the id of the created key");
    let agent = |request: reqwest::RequestBuilder| {
        request.header("user-agent", "curl/8 (test)").header("x-forwarded-for", "203.0.113.7")
    };
    let create = client.request(reqwest::Method::POST, "/v1/sessions").json(&json!({"label": "one"}));
    let session = client.send(agent(create)).await.expect(201).body["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/sessions/{session}");
    for _ in 0..2 {
        client.send(agent(client.request(reqwest::Method::DELETE, &path))).await.expect(204);
    }
    let log = app.audit(account).await;
    let rows: Vec<_> = log.iter().filter(|row| row.target_resource_id.as_ref() == Some(&session)).collect();
    let actions: Vec<_> = rows.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["session.created", "session.destroyed"]);
    for row in rows {
        assert_eq!(row.actor_type, "customer");
        assert_eq!(row.actor_account_id, Some(account.as_uuid()));
        assert_eq!(row.actor_key_id, Some(uuid_of(&key)));
        assert_eq!(row.ip_address.as_deref(), Some("127.0.0.1"));
        assert_eq!(row.user_agent.as_deref(), Some("curl/8 (test)"));
        assert!(row.payload.is_object());
    }
    app.stop().await;
}

/// Contract: sessions 20. A downgrade alone does not destroy a session (contract: accounts 5).
#[tokio::test]
async fn free_tier_session_ends_at_its_time_limit() {
    let app = App::simulated().set("sessions.free_tier_cap", "1s").start().await;
    let paid = app.client().await;
    let paid_session = paid.session().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let session = client.session().await;
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    app.run(&["account", "set-tier", &account.to_string(), "free"]).await.code(0);

    wait.await.expect("a task").problem(410, "session-destroyed");
    assert_eq!(app.status_of(&session).await, "destroyed");
    assert_auto_destroyed(&app, &session, "auto-destroyed: free-tier session duration cap").await;

    let log = app.audit(account).await;
    let destroyed: Vec<_> = log.iter().filter(|row| row.action == "session.destroyed").collect();
    let [row] = destroyed[..] else { panic!("not one row: {log:?}") };
    assert_eq!((row.actor_type.as_str(), row.actor_account_id, row.actor_key_id), ("system", None, None));
    assert_eq!((&row.ip_address, &row.user_agent), (&None, &None));
    let changed = log.iter().find(|row| row.action == "subscription.tier_changed").expect("a row for the changed tier");
    assert_eq!(changed.actor_type, "system");
    assert_eq!(changed.payload, json!({"from": "solo_manual", "to": "free"}));

    assert_eq!(paid.status(&paid_session).await, "ready");
    assert!(app.events(&paid_session).await.is_empty());
    app.stop().await;
}

/// Contract: sessions 19; events 2.
#[tokio::test]
async fn suspension_destroys_sessions_with_its_reason() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let [before, busy, idle] = [client.session().await, client.session().await, client.session().await];
    client.delete(&format!("/v1/sessions/{before}")).await.expect(204);
    let wait = client.waiting(&busy, 60_000);
    app.busy(&busy).await;
    app.run(&["account", "suspend", &account.to_string()]).await.code(0);
    wait.await.expect("a task").problem(410, "session-destroyed");

    let destroyed = app.audited(account, "session.destroyed").await;
    assert_eq!(destroyed.len(), 3);
    for session in [&busy, &idle] {
        assert_eq!(app.status_of(session).await, "destroyed");
        assert_auto_destroyed(&app, session, "account suspended").await;
        let row = destroyed.iter().find(|row| row.target_resource_id.as_ref() == Some(session)).expect("its row");
        assert_eq!((row.actor_type.as_str(), row.actor_account_id, row.actor_key_id), ("system", None, None));
        assert_eq!((&row.ip_address, &row.user_agent), (&None, &None));
        assert_eq!(row.payload["reason"], "account suspended");
    }
    let events = app.events(&before).await;
    let [(_, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!(
        members(data),
        BTreeSet::from(["session_id", "duration_ms"]),
        "the account owner destroyed this session"
    );
    app.stop().await;
}

/// Contract: command-line 9.
#[tokio::test]
async fn sweep_command_destroys_free_tier_sessions() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::SoloManual).await;
    let session = app.client_of(account, &["account_owner"]).await.session().await;
    app.run(&["account", "set-tier", &account.to_string(), "free"]).await.code(0);
    let sweep = async |cap: &str| {
        let mut command = app.command(&["sweep", "free-tier", "--json"]);
        command.env("KITFLEET_SESSIONS__FREE_TIER_CAP", cap);
        crate::support::commands::run(command, "").await.code(0).json()
    };
    sweep("20m").await;
    assert_eq!(app.status_of(&session).await, "ready");
    eventually(Duration::from_secs(10), "the session is old enough", async || {
        sweep("1s").await;
        (app.status_of(&session).await == "destroyed").then_some(())
    })
    .await;
    sweep("1s").await;
    assert_auto_destroyed(&app, &session, "auto-destroyed: free-tier session duration cap").await;
    app.stop().await;
}

/// Contract: accounts 5.
#[tokio::test]
async fn downgrade_keeps_live_sessions_and_rejects_new_ones() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::TeamManual).await;
    let sessions = [client.session().await, client.session().await, client.session().await];
    app.run(&["account", "set-tier", &account.to_string(), "api_starter"]).await.code(0);
    for session in &sessions {
        client.navigate(session, "https://example.com/").await;
    }
    let refused = client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&refused.body["current_sessions"], &refused.body["limit"]), (&json!(3), &json!(2)));
    client.delete(&format!("/v1/sessions/{}", sessions[0])).await.expect(204);
    client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    client.delete(&format!("/v1/sessions/{}", sessions[1])).await.expect(204);
    client.session().await;
    app.stop().await;
}

fn ids(page: &Value) -> Vec<String> {
    let data = page["data"].as_array().expect("data");
    data.iter().map(|session| session["id"].as_str().expect("an id").to_owned()).collect()
}

async fn paged(client: &Client, query: &str, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/sessions?{query}{cursor}")).await.expect(200).body;
        let found = ids(&page);
        assert!(found.len() <= limit);
        all.extend(found);
        let Some(next) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            return all;
        };
        assert_eq!(page["has_more"], true);
        cursor = format!("&cursor={next}");
    }
}

async fn assert_auto_destroyed(app: &App, session: &str, reason: &str) {
    let events = app.events(session).await;
    let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!(kind, "session.completed");
    assert_eq!(members(data), BTreeSet::from(["session_id", "duration_ms", "auto_destroyed", "reason"]));
    assert_eq!((&data["auto_destroyed"], &data["reason"]), (&json!(true), &json!(reason)));
}

/// Contract: sessions 39. Each path that ends a session stores its reason.
#[tokio::test]
async fn ended_session_has_its_end_reason() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::Enterprise, &["account_owner"]).await;
    let read = async |id: &str| client.get(&format!("/v1/sessions/{id}")).await.expect(200).body;
    let session = client.session().await;
    let live = read(&session).await;
    assert_eq!((&live["end_reason"], &live["error"]), (&Value::Null, &Value::Null));
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(read(&session).await["end_reason"], "customer");

    let late = client.session().await;
    let condition = json!({"condition": {"kind": "time", "ms": 30_000}, "timeout_ms": 100});
    client.operate(&late, "wait", condition).await.problem(504, "session-timeout");
    let failed = read(&late).await;
    assert_eq!((&failed["status"], &failed["end_reason"]), (&json!("errored"), &json!("failed")));
    assert_eq!(failed["error"]["name"], "SessionTimeoutError");
    assert!(failed["error"]["message"].is_string());

    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let driver = read(agent["session_id"].as_str().expect("a driver")).await;
    assert_eq!(driver["agent_session_id"], agent["id"]);
    app.stop().await;
}

/// Contract: sessions 10.
#[tokio::test]
async fn list_is_filtered_by_every_property() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::Enterprise, &["account_owner"]).await;
    let profile = client.profile().await;
    let first = client.session_with(json!({"label": "a", "profile_id": profile})).await;
    let second = client.session_with(json!({"label": "b"})).await;
    let ended = client.session().await;
    client.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let ids = async |query: String| {
        let page = client.get(&format!("/v1/sessions?{query}")).await.expect(200).body;
        let data = page["data"].as_array().expect("sessions").clone();
        data.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    let all = [ended.clone(), second.clone(), first.clone()];
    assert_eq!(ids("status=ready,busy".to_owned()).await, all[1..]);
    assert_eq!(ids("status=ready,destroyed".to_owned()).await, all);
    assert_eq!(ids(format!("profile_id={profile}")).await, [first.as_str()]);
    let shown = client.get(&format!("/v1/sessions/{first}")).await.expect(200).body;
    assert_eq!(shown["profile_id"], profile.as_str());
    let key = shown["api_key_id"].as_str().expect("a key");
    assert_eq!(ids(format!("api_key_id={key}")).await, all);
    assert_eq!(ids(format!("api_key_id={}", unknown_id("key"))).await, Vec::<String>::new());
    let archetype = shown["archetype"].as_str().expect("an archetype");
    assert_eq!(ids(format!("archetype={archetype}")).await, all);
    assert_eq!(ids(format!("archetype={archetype}&status=destroyed")).await, all[..1]);
    assert_eq!(ids(format!("archetype={archetype}&label=a")).await, [first.as_str()]);
    let since = client.get(&format!("/v1/sessions/{second}")).await.expect(200).body;
    let since = since["created_at"].as_str().expect("a time");
    assert_eq!(ids(format!("created_after={since}")).await, all[..2]);
    assert_eq!(ids("created_before=2026-01-01T00:00:00Z".to_owned()).await, Vec::<String>::new());
    for (query, field) in [
        ("status=ready,none", "status"),
        ("profile_id=x", "profile_id"),
        ("api_key_id=prof_1", "api_key_id"),
        ("created_after=yesterday", "created_after"),
    ] {
        client.get(&format!("/v1/sessions?{query}")).await.invalid(field);
    }
    app.stop().await;
}
