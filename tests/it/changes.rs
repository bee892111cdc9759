//! Hourly limit of audited configuration changes of an account (contract: audit-log 20 to 22).

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::agents::id_of as agent_id_of;
use crate::support::people::ENCRYPTION_KEY;
use crate::support::{Answer, App, Client, Role, at_once, unknown_id};
use crate::webhooks::{create, id_of};

impl App {
    async fn exhaust(&self, account: AccountId) {
        let used = "insert into audited_changes (account_id, full_at) values ($1, now() + interval '1 hour')
                    on conflict (account_id) do update set full_at = excluded.full_at";
        self.execute(used, account.as_uuid()).await;
    }
}

async fn put(client: &Client, path: &str, body: Value) -> Answer {
    client.send(client.request(Method::PUT, path).json(&body)).await
}

/// Contract: audit-log 20. The answer has the time until the next change.
#[tokio::test]
async fn change_beyond_the_limit_is_429_and_writes_no_row() {
    let app = App::simulated().set("limits.audited_changes_per_hour", "3").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let id = id_of(&create(&client, "https://example.com/hook", &["session.failed"]).await);
    let path = format!("/v1/webhooks/{id}");
    for description in ["one", "two"] {
        client.patch(&path, json!({"description": description})).await.expect(200);
    }
    let refused = client.patch(&path, json!({"description": "three"})).await.problem(429, "rate-limited");
    assert_eq!(refused.body["limit"], 3);
    let wait: u64 = refused.headers["retry-after"].to_str().expect("text").parse().expect("a number");
    assert!((1_190..=1_200).contains(&wait), "{wait}");
    assert_eq!(client.get(&path).await.expect(200).body["description"], "two");
    assert_eq!(app.audited(account, "webhook_endpoint.updated").await.len(), 2);

    // Another account has its own limit. After 20 minutes one of three changes is free again.
    let stranger = app.client().await;
    create(&stranger, "https://example.com/hook", &["session.failed"]).await;
    let later = "update audited_changes set full_at = full_at - interval '20 minutes' where account_id = $1";
    app.execute(later, account.as_uuid()).await;
    client.patch(&path, json!({"description": "three"})).await.expect(200);
    client.patch(&path, json!({"description": "four"})).await.problem(429, "rate-limited");
    client.delete(&path).await.expect(204);
    app.stop().await;
}

/// Contract: audit-log 22. Rejected changes do not count either.
#[tokio::test]
async fn changes_without_effect_do_not_count() {
    let app = App::simulated().set("limits.audited_changes_per_hour", "4").start().await;
    let client = app.client().await;
    let agent = agent_id_of(&client.agent_session(json!({"mode": "pair"})).await);
    for _ in 0..6 {
        client.post("/v1/webhooks", json!({"url": "http://plain.example", "events": []})).await.expect(400);
        client.patch(&format!("/v1/webhooks/{}", unknown_id("whk")), json!({"active": true})).await.expect(404);
        client.post_to_agent(&agent, "mode", json!({"mode": "pair"})).await.expect(200);
        client.post_to_agent(&unknown_id("agt"), "mode", json!({"mode": "ai"})).await.expect(404);
    }
    let takeover = json!({"client_id": "a tab"});
    client.post_to_agent(&agent, "takeover", takeover.clone()).await.expect(200);
    for _ in 0..6 {
        client.post_to_agent(&agent, "takeover", takeover.clone()).await.expect(200);
        client.post_to_agent(&agent, "takeover", json!({"client_id": "another"})).await.problem(409, "conflict");
        client.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await.problem(409, "conflict");
    }
    client.post_to_agent(&agent, "handback", takeover.clone()).await.expect(200);
    client.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await.expect(200);
    client.post_to_agent(&agent, "mode", json!({"mode": "pair"})).await.expect(200);
    client.post_to_agent(&agent, "takeover", takeover.clone()).await.expect(200);
    client.post_to_agent(&agent, "handback", takeover.clone()).await.expect(200);
    client.post_to_agent(&agent, "takeover", takeover).await.problem(429, "rate-limited");
    app.stop().await;
}

/// Contract: audit-log 20 to 22. Alternating a preference writes at most as many rows an hour as the limit, apart from the
/// first row of each kind of mail.
#[tokio::test]
async fn alternating_mail_preference_writes_at_most_the_limit() {
    let app = App::simulated().set("limits.audited_changes_per_hour", "7").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let set = async |opted_in: bool| {
        let body = json!({"event_type": "tier-changed", "opted_in": opted_in});
        put(&client, "/v1/account/email-preferences", body).await
    };
    let rows = async || {
        let rows = app.audited(account, "account.email_preferences_changed").await;
        rows.iter().map(|row| row.payload["opted_in"] == true).collect::<Vec<_>>()
    };
    for _ in 0..5 {
        set(true).await.expect(200);
    }
    assert_eq!(rows().await, <[bool; 0]>::default(), "mails are on by default");
    let (mut turned_on, mut rejected) = (0, 0);
    for _ in 0..20 {
        for _ in 0..2 {
            set(false).await.expect(200);
        }
        match set(true).await.status.as_u16() {
            200 => turned_on += 1,
            429 => rejected += 1,
            status => panic!("{status}"),
        }
    }
    assert_eq!((turned_on, rejected), (3, 17));
    assert_eq!(rows().await, [false, true, false, true, false, true, false]);
    app.stop().await;
}

/// Contract: audit-log 20, 22. The requests are concurrent.
#[tokio::test]
async fn concurrent_changes_at_two_processes_share_the_limit() {
    let mut app =
        App::simulated().roles(&[Role::Api]).in_processes().set("limits.audited_changes_per_hour", "6").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (_, second) = app.start_another_api().await;
    let other = Client { base_url: second, ..client.clone() };
    let path =
        format!("/v1/webhooks/{}", id_of(&create(&client, "https://example.com/hook", &["session.failed"]).await));
    let asked = at_once((0..24).map(|number| {
        let (client, path) = (if number % 2 == 0 { client.clone() } else { other.clone() }, path.clone());
        async move { client.patch(&path, json!({"description": number.to_string()})).await.status.as_u16() }
    }));
    let mut statuses = asked.await;
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 5], vec![429; 19]].concat());
    assert_eq!(app.audited(account, "webhook_endpoint.updated").await.len(), 5);
    app.stop().await;
}

/// Contract: audit-log 20, 21. They are 429, and every other request succeeds.
#[tokio::test]
async fn only_audited_changes_are_limited() {
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).start().await;
    let person = app.person(Tier::Enterprise).await;
    let (account, client) = (person.account, &person.client);
    let hook = id_of(&create(client, "https://example.com/hook", &["session.failed"]).await);
    let key = client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201).body;
    let key = key["id"].as_str().expect("an id").to_owned();
    let proxy = json!({"label": "P", "scheme": "socks5", "host": "proxy.example.com", "port": 1080});
    let saved = client.post("/v1/account/me/proxies", proxy.clone()).await.expect(201).body;
    let saved = format!("/v1/account/me/proxies/{}", saved["id"].as_str().expect("an id"));
    let profile = client.profile().await;
    client.set_key("anthropic", "sk-ant-api03-never-seen-again").await.expect(204);
    client.consent(json!({"consented": true})).await.expect(200);
    let agent = agent_id_of(&client.agent_session(json!({"mode": "pair"})).await);
    client.post_to_agent(&agent, "message", json!({"message": "scroll down"})).await.expect(200);
    client.post_to_agent(&agent, "takeover", json!({"client_id": "a tab"})).await.expect(200);
    let recipe = client.post("/v1/recipes", json!({"agent_session_id": agent, "label": "Down"})).await.expect(201).body;
    let team = client.get("/v1/teams").await.expect(200).body["data"][0]["id"].as_str().expect("an id").to_owned();
    app.exhaust(account).await;

    let email = |opted_in| json!({"event_type": "tier-changed", "opted_in": opted_in});
    let (mails, consent) = ("/v1/account/email-preferences", "/v1/account/me/bundled-llm-consent");
    let refused = [
        client.post("/v1/webhooks", json!({"url": "https://example.com/h", "events": ["session.failed"]})).await,
        client.patch(&format!("/v1/webhooks/{hook}"), json!({"active": false})).await,
        client.post(&format!("/v1/webhooks/{hook}/rotate-secret"), json!({})).await,
        client.post(&format!("/v1/webhooks/{hook}/test"), json!({})).await,
        client.post(&format!("/v1/webhook-deliveries/{}/replay", unknown_id("wdl")), json!({})).await,
        client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await,
        client.post(&format!("/v1/api-keys/{key}/rotate"), json!({})).await,
        client.post("/v1/oauth/clients", json!({"name": "CI", "scopes": ["read"]})).await,
        client.post("/v1/profiles", json!({"name": "Shop", "archetype": "iphone-16-ios-18"})).await,
        client.post(&format!("/v1/profiles/{profile}/clone"), json!({})).await,
        client.get(&format!("/v1/profiles/{profile}/export")).await,
        client.post(&format!("/v1/profiles/{profile}/restore"), json!({})).await,
        client.post("/v1/account/me/proxies", proxy.clone()).await,
        put(client, &saved, proxy).await,
        client.post("/v1/recipes", json!({"agent_session_id": agent, "label": "Down"})).await,
        client.post("/v1/team/invites", json!({"email": "ada@example.com", "role": "member"})).await,
        client.patch(&format!("/v1/teams/{team}"), json!({"name": "Ours"})).await,
        client.set_key("openai", "sk-proj-never-seen-again-either-way").await,
        client.send(client.request(Method::POST, "/v1/account/me/byok-anthropic-key/test")).await,
        put(client, consent, json!({"consented": true})).await,
        put(client, mails, email(true)).await,
        client.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await,
        client.post_to_agent(&agent, "takeover", json!({"client_id": "another"})).await,
    ];
    for (number, answer) in refused.into_iter().enumerate() {
        assert_eq!((answer.status.as_u16(), &answer.body["limit"]), (429, &json!(1_000)), "{number}: {}", answer.body);
    }

    let session = client.session().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    client.post_to_agent(&agent, "handback", json!({"client_id": "a tab"})).await.expect(200);
    client.post_to_agent(&agent, "message", json!({"message": "scroll down"})).await.expect(200);
    client.consent(json!({"consented": false})).await.expect(200);
    put(client, mails, email(false)).await.expect(200);
    put(client, mails, email(false)).await.expect(200);
    client.clear_key("anthropic").await.expect(204);
    client.delete(&format!("/v1/recipes/{}", recipe["id"].as_str().expect("an id"))).await.expect(204);
    client.delete(&saved).await.expect(204);
    client.delete(&format!("/v1/profiles/{profile}")).await.expect(204);
    client.delete(&format!("/v1/profiles/{profile}/purge")).await.expect(204);
    client.delete(&format!("/v1/webhooks/{hook}")).await.expect(204);
    client.delete(&format!("/v1/api-keys/{key}")).await.expect(204);
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    client.agent().await;
    app.log_in(&person.email, crate::support::people::PASSWORD).await.expect(200);
    let token = client.key.clone();
    client.post("/v1/auth/logout", json!({"token": token})).await.expect(200);
    app.stop().await;
}
