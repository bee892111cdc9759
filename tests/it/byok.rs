//! Customers' keys for model providers, and consent to the deployment's own keys (contract: byok).

use std::time::{Duration, Instant};

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::Builder;
use crate::support::model_provider::{ModelProvider, Reply, anthropic_error, openai_error};
use crate::support::people::ENCRYPTION_KEY;
use crate::support::{Answer, App, Client, at_once, commands, eventually};

const KEY: &str = "sk-ant-api03-never-seen-again";
const PROVIDERS: [&str; 2] = ["anthropic", "openai"];

fn sealing() -> Builder {
    App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).set("metrics.scrape_token", "scrape")
}

fn route(provider: &str) -> String {
    format!("/v1/account/me/byok-{provider}-key")
}

impl Client {
    pub async fn set_key(&self, provider: &str, key: &str) -> Answer {
        self.send(self.request(Method::PUT, &route(provider)).json(&json!({"key": key}))).await
    }

    pub async fn clear_key(&self, provider: &str) -> Answer {
        self.delete(&route(provider)).await
    }

    async fn test_key(&self, provider: &str) -> Answer {
        self.send(self.request(Method::POST, &format!("{}/test", route(provider)))).await
    }

    async fn outcome(&self, provider: &str) -> String {
        let tested = self.test_key(provider).await.expect(200);
        assert_eq!(tested.body.as_object().map(serde_json::Map::len), Some(1), "{}", tested.body);
        tested.body["outcome"].as_str().expect("an outcome").to_owned()
    }

    pub async fn consent(&self, body: Value) -> Answer {
        self.send(self.request(Method::PUT, "/v1/account/me/bundled-llm-consent").json(&body)).await
    }
}

impl App {
    /// Oldest first.
    async fn byok_rows(&self, account: AccountId) -> Vec<(String, Value)> {
        let rows = self.audit(account).await.into_iter();
        let ours = rows.filter(|row| row.action.contains("byok") || row.action.contains("bundled_llm"));
        ours.map(|row| {
            assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(account.as_uuid())));
            (row.action, row.payload)
        })
        .collect()
    }

    async fn tests_counted(&self, outcome: &str) -> u64 {
        let metrics = self.stranger().request(Method::GET, "/metrics").bearer_auth("scrape");
        let metrics = metrics.send().await.expect("the metrics").text().await.expect("text");
        let series = format!("service_byok_provider_test_total{{outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("no {series}")).parse().expect("a number")
    }

    async fn keys_kept(&self) -> i64 {
        self.count("select count(*) from byok_keys").await
    }
}

/// Contract: byok 1, 3, 4. Each change is audited.
#[tokio::test]
async fn stored_key_is_never_visible() {
    let app = sealing().set("log.filter", "trace").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (other, stranger) = app.customer(Tier::Enterprise).await;
    for provider in PROVIDERS {
        client.clear_key(provider).await.expect(204);
        client.set_key(provider, "sk-first-one-of-them").await.expect(204);
        let answer = client.set_key(provider, KEY).await.expect(204);
        assert_eq!(answer.body, Value::Null);
    }
    assert_eq!(app.keys_kept().await, 2);
    for secret in [KEY, "sk-first-one", &KEY[..12], "never-seen"] {
        assert_eq!(app.tables_with(secret).await, <[String; 0]>::default(), "{secret}");
    }
    let header = stranger.request(Method::DELETE, &route("openai")).header("x-service-account", account.to_string());
    stranger.send(header).await.expect(204);
    stranger.test_key("anthropic").await.problem(404, "not-found");
    assert_eq!((app.keys_kept().await, app.byok_rows(other).await), (2, Vec::new()));
    for provider in PROVIDERS {
        client.clear_key(provider).await.expect(204);
        client.clear_key(provider).await.expect(204);
    }
    assert_eq!(app.keys_kept().await, 0);
    let changes = |changes: [&str; 3], provider: &str| {
        changes.map(|change| {
            (format!("account.byok_provider_key_{change}"), json!({"provider": provider, "outcome": "ok"}))
        })
    };
    let set = PROVIDERS.iter().flat_map(|provider| changes(["set", "set", "cleared"], provider)[..2].to_vec());
    let cleared = PROVIDERS.iter().map(|provider| changes(["set", "set", "cleared"], provider)[2].clone());
    assert_eq!(app.byok_rows(account).await, set.chain(cleared).collect::<Vec<_>>());
    client
        .send(client.request(Method::PUT, &route("cohere")).json(&json!({"key": KEY})))
        .await
        .problem(404, "not-found");
    assert!(!app.log(0).contains("sk-"), "the log contains a key");
    app.stop().await;
}

/// Contract: byok 2. A line break in a key could end a header.
#[tokio::test]
async fn invalid_key_is_rejected_and_not_repeated() {
    let app = sealing().start().await;
    let client = app.client().await;
    let long = "k".repeat(513);
    for bad in
        ["", "sk-1234", "sk-ant-0123 4567", "sk-ant-0123\r\nX-Evil: 1", "sk-ant-\u{0}0123", "sk-ant-ключ-01", &long]
    {
        let refused = client.set_key("openai", bad).await.invalid("key");
        assert!(bad.is_empty() || !refused.body.to_string().contains(bad), "{}", refused.body);
    }
    for body in [json!({}), json!({"key": null}), json!({"key": 1}), json!({"key": ["sk-ant-0123456"]})] {
        let request = client.request(Method::PUT, &route("openai")).json(&body);
        client.send(request).await.invalid("key");
    }
    client.set_key("openai", &format!("\n {} \t", "k".repeat(512))).await.expect(204);
    assert_eq!(app.keys_kept().await, 1);
    app.stop().await;
}

/// Contract: byok 3; command-line 10.
#[tokio::test]
async fn key_requires_the_deployments_encryption_key() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let refused = client.set_key("anthropic", KEY).await.problem(503, "feature-unavailable");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("MFA_ENCRYPTION_KEY")));
    client.clear_key("anthropic").await.expect(204);
    client.test_key("anthropic").await.problem(404, "not-found");
    client.consent(json!({"consented": true})).await.expect(200);
    assert_eq!(app.keys_kept().await, 0);
    app.stop().await;

    let provider = ModelProvider::start().await;
    let app = sealing().asking(&provider).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    client.set_key("anthropic", KEY).await.expect(204);
    let of_secrets = async || {
        let checks = app.run(&["doctor", "--json"]).await.json();
        let checks = checks.as_array().expect("a list").clone();
        checks
            .into_iter()
            .find(|check| check["subject"] == "sealed secrets")
            .expect("doctor checked the sealed secrets")
    };
    assert_eq!(of_secrets().await["status"], "ok");
    let other_key = "update byok_keys set sealed_key = set_byte(sealed_key, 0, 255 - get_byte(sealed_key, 0)) where account_id = $1";
    app.execute(other_key, account.as_uuid()).await;
    client.test_key("anthropic").await.problem(503, "feature-unavailable");
    let found = of_secrets().await;
    assert_eq!(found["status"], "fail");
    assert!(found["finding"].as_str().is_some_and(|text| text.contains("model keys 1")), "{found}");
    assert!(provider.asked().is_empty());
    client.set_key("anthropic", KEY).await.expect(204);
    assert_eq!(client.outcome("anthropic").await, "ok");
    app.stop().await;
}

/// Replies of a provider to a test, and the outcome of each. None may reach `elsewhere`.
fn provider_replies(elsewhere: &ModelProvider) -> Vec<(&'static str, Option<Reply>, &'static str)> {
    let (of_anthropic, of_openai) = (anthropic_error, openai_error);
    vec![
        ("anthropic", None, "ok"),
        ("openai", None, "ok"),
        ("anthropic", Some(Reply::Json(401, of_anthropic("authentication_error", "invalid x-api-key"))), "invalid"),
        ("anthropic", Some(Reply::Json(403, of_anthropic("permission_error", "not for this model"))), "invalid"),
        (
            "openai",
            Some(Reply::Json(
                401,
                of_openai("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-ant-a*****gain."),
            )),
            "invalid",
        ),
        ("anthropic", Some(Reply::Json(402, of_anthropic("billing_error", "pay"))), "quota_exceeded"),
        (
            "anthropic",
            Some(Reply::Json(
                400,
                of_anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
            )),
            "quota_exceeded",
        ),
        (
            "anthropic",
            Some(Reply::Json(
                400,
                of_anthropic("invalid_request_error", "You have reached your specified API usage limits."),
            )),
            "quota_exceeded",
        ),
        (
            "openai",
            Some(Reply::Json(
                429,
                of_openai(
                    "insufficient_quota",
                    "insufficient_quota",
                    "You exceeded your current quota, please check your plan and billing details.",
                ),
            )),
            "quota_exceeded",
        ),
        (
            "openai",
            Some(Reply::Later(
                429,
                "1",
                of_openai(
                    "tokens",
                    "rate_limit_exceeded",
                    "Rate limit reached; add a payment method at https://platform.openai.com/account/billing.",
                ),
            )),
            "unknown",
        ),
        ("anthropic", Some(Reply::Json(400, of_anthropic("invalid_request_error", "model: unknown"))), "unknown"),
        ("anthropic", Some(Reply::Json(404, of_anthropic("not_found_error", "model"))), "unknown"),
        ("anthropic", Some(Reply::Later(529, "0", of_anthropic("overloaded_error", "Overloaded"))), "unknown"),
        ("openai", Some(Reply::Text(500, "<html>")), "unknown"),
        ("openai", Some(Reply::Redirect(format!("{}/v1/responses", elsewhere.base_url))), "unknown"),
        ("openai", Some(Reply::Endless(200)), "unknown"),
        ("openai", Some(Reply::Endless(401)), "invalid"),
        ("anthropic", Some(Reply::Huge), "unknown"),
    ]
}

/// Contract: byok 4 to 6, 10. For errors the outcome depends on the message too.
#[tokio::test]
async fn key_test_maps_provider_reply_to_outcome() {
    let provider = ModelProvider::start().await;
    let app = sealing().asking(&provider).set("rate_limits.byok_test_per_minute", "1000").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    client.test_key("anthropic").await.problem(404, "not-found");
    assert_eq!(app.tests_counted("not_set").await, 1);
    for name in PROVIDERS {
        client.set_key(name, KEY).await.expect(204);
    }
    let elsewhere = ModelProvider::start().await;
    let replies = provider_replies(&elsewhere);
    for (name, reply, outcome) in &replies {
        reply.iter().cloned().for_each(|reply| provider.answer(reply));
        assert_eq!(client.outcome(name).await, *outcome, "{name} {reply:?}");
    }
    for outcome in ["ok", "invalid", "quota_exceeded", "unknown"] {
        let expected = replies.iter().filter(|(.., expected)| *expected == outcome).count();
        assert_eq!(app.tests_counted(outcome).await, u64::try_from(expected).expect("few"), "{outcome}");
    }
    let rows = app.byok_rows(account).await.into_iter().filter(|(action, _)| action.ends_with("_tested"));
    let expected = replies.iter().map(|(name, _, outcome)| json!({"provider": name, "outcome": outcome}));
    assert_eq!(rows.map(|(_, payload)| payload).collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    let asked = provider.asked();
    assert_eq!(asked.len(), replies.len(), "a test sent more than one request");
    assert!(elsewhere.asked().is_empty(), "a redirect was followed");
    for asked in &asked {
        let body = asked.body.to_string();
        let (path, key, least) = match asked.header("x-api-key") {
            "" => (
                "/v1/responses",
                asked.header("authorization").trim_start_matches("Bearer "),
                "\"max_output_tokens\":16",
            ),
            key => ("/v1/messages", key, "\"max_tokens\":1"),
        };
        assert_eq!((asked.path.as_str(), key), (path, KEY));
        assert!(body.contains(least) && !body.contains("sk-") && body.len() < 200, "{body}");
        let with_key = asked.headers.values().filter(|value| value.to_str().is_ok_and(|value| value.contains("sk-")));
        assert_eq!(with_key.count(), 1);
    }
    assert!(!app.log(0).contains("sk-ant"), "the log contains a key or part of it");
    app.stop().await;
}

/// Contract: byok 6; rate-limits 10. A timeout ends the test of a provider that hangs.
#[tokio::test]
async fn key_tests_are_rate_limited_per_account() {
    let provider = ModelProvider::start().await;
    let app = sealing()
        .asking(&provider)
        .set("rate_limits.byok_test_per_minute", "3")
        .set("agents.model_timeout", "1s")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let other = app.client_of(account, &["account_owner"]).await;
    client.set_key("anthropic", KEY).await.expect(204);
    let begun = Instant::now();
    for reply in [Reply::Hang, Reply::Stall] {
        provider.answer(reply);
        assert_eq!(client.outcome("anthropic").await, "unknown");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(other.outcome("anthropic").await, "ok");
    for client in [&client, &other] {
        let refused = client.test_key("anthropic").await.problem(429, "rate-limited");
        assert!(refused.headers.contains_key("retry-after"));
        client.test_key("openai").await.problem(429, "rate-limited");
    }
    assert_eq!(provider.asked().len(), 3);
    app.client().await.test_key("openai").await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: byok 7.
#[tokio::test]
async fn consent_changes_are_audited_once() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    for consented in [false, true, true, false, false] {
        assert_eq!(
            client.consent(json!({"consented": consented})).await.expect(200).body,
            json!({"consented": consented})
        );
    }
    let change = |from: bool| ("account.bundled_llm_consent_changed".to_owned(), json!({"from": from, "to": !from}));
    assert_eq!(app.byok_rows(account).await, [change(false), change(true)]);
    for body in [json!({}), json!({"consented": null}), json!({"consented": "yes"}), json!({"consented": 1})] {
        client.consent(body).await.invalid("consented");
    }
    let many = (0..16).map(|_| {
        let client = client.clone();
        async move { client.consent(json!({"consented": true})).await.expect(200).status }
    });
    at_once(many).await;
    assert_eq!(app.byok_rows(account).await, [change(false), change(true), change(false)]);
    app.stop().await;
}

impl App {
    async fn make_keys_old(&self, account: AccountId) {
        let statement = "update byok_keys set set_at = now() - interval '60 days' where account_id = $1";
        self.execute(statement, account.as_uuid()).await;
    }

    async fn sweep_keys(&self) -> i64 {
        let swept = self.run(&["sweep", "byok-keys", "--json"]).await.code(0).json();
        swept["reminded"].as_i64().expect("a number")
    }
}

/// Contract: byok 8; emails 12; command-line 9. The mail follows after 60 days.
#[tokio::test]
async fn owner_of_old_key_is_reminded_once() {
    let app = sealing().start().await;
    let (owner, client) = app.customer(Tier::Enterprise).await;
    let address = app.address_of(owner).await;
    let (suspended, theirs) = app.customer(Tier::Enterprise).await;
    for client in [&client, &theirs] {
        client.set_key("anthropic", KEY).await.expect(204);
    }
    app.run(&["account", "suspend", &suspended.to_string()]).await.code(0);
    assert_eq!(app.sweep_keys().await, 0);
    let nearly = "update byok_keys set set_at = now() - interval '59 days 23 hours' where account_id = $1";
    app.execute(nearly, owner.as_uuid()).await;
    assert_eq!(app.sweep_keys().await, 0);
    app.make_keys_old(owner).await;
    app.make_keys_old(suspended).await;
    let sweeps = (0..4).map(|_| {
        let command = app.command(&["sweep", "byok-keys", "--json"]);
        async move { commands::run(command, "").await.code(0).json() }
    });
    let mailed: i64 = at_once(sweeps).await.iter().filter_map(|swept| swept["reminded"].as_i64()).sum();
    // The service's own scheduled job may have run first.
    assert!(mailed <= 1);
    let mail = app.mail_to(&address, Template::ByokKeyReminder).await;
    assert!(mail.text.contains("key at Anthropic") && mail.text.contains("60 days old"), "{}", mail.text);
    assert!(!mail.raw.contains("opt out") && !mail.raw.contains("sk-"), "{}", mail.raw);
    assert_eq!(app.sweep_keys().await, 0);

    // A new key becomes old too, and the scheduled job reminds the owner of it.
    client.set_key("anthropic", KEY).await.expect(204);
    client.set_key("openai", KEY).await.expect(204);
    assert_eq!(app.sweep_keys().await, 0);
    app.make_keys_old(owner).await;
    let tick =
        "update apalis.jobs set run_at = now() where status = 'Pending' and idempotency_key like 'remind_byok_keys:%'";
    eventually(Duration::from_secs(20), "the next scheduled job is pending", async || {
        let hurried = sqlx::query(tick).execute(&app.database.pool).await.expect("a statement");
        (hurried.rows_affected() > 0).then_some(())
    })
    .await;
    app.mail_number(3, &address, Template::ByokKeyReminder).await;
    let texts: String = app.mails_to(&address, Template::ByokKeyReminder).into_iter().map(|mail| mail.text).collect();
    assert!(texts.contains("key at OpenAI"), "{texts}");
    app.stop().await;
}

/// Contract: byok 9; retention 9.
#[tokio::test]
async fn keys_of_deleted_account_are_purged_after_a_day() {
    let app = sealing().start().await;
    let (ada, (_, other)) = (app.person(Tier::Enterprise).await, app.customer(Tier::Enterprise).await);
    for client in [&ada.client, &other] {
        client.set_key("anthropic", KEY).await.expect(204);
        client.consent(json!({"consented": true})).await.expect(200);
    }
    let delete = ada.client.request(Method::DELETE, "/v1/account/me").json(&json!({"confirm": "delete-account"}));
    ada.client.send(delete).await.expect(204);
    assert_eq!(app.count("select count(*) from bundled_llm_consents").await, 1);
    app.make_keys_old(ada.account).await;
    assert_eq!(app.sweep_keys().await, 0, "a deleted account was reminded");
    let purge = async || {
        let purged = app.run(&["sweep", "retention", "--json"]).await.code(0).json();
        (purged["rows"]["byok"].clone(), app.keys_kept().await)
    };
    assert_eq!(purge().await, (json!(0), 2));
    let aged = "update byok_keys set lost_at = lost_at - interval '24 hours 1 second' where account_id = $1";
    app.execute(aged, ada.account.as_uuid()).await;
    assert_eq!(purge().await, (json!(1), 1));
    app.stop().await;
}
