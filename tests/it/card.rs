//! Purchases of tiers by card (contract: billing 1 to 12), with a local provider that accepts Stripe's requests.

pub mod events;
mod ledger;
mod localstripe;
mod mails;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::metrics::{TOKEN, value};
use crate::support::card_provider::{CardProvider, Reply};
use crate::support::{Answer, App, Builder, Client, at_once, members};

const CHECKOUT: &str = "/v1/billing/checkout-session";
const PORTAL: &str = "/v1/billing/portal-session";
const SUBSCRIPTION: &str = "/v1/billing/subscription";

async fn shop() -> (App, CardProvider) {
    let provider = CardProvider::start().await;
    (selling(&provider).start().await, provider)
}

fn selling(provider: &CardProvider) -> Builder {
    App::simulated().selling_at(&provider.base_url)
}

fn purchase(tier: &str) -> Value {
    json!({"tier": tier, "success_url": "https://example.com/done?s={CHECKOUT_SESSION_ID}", "cancel_url": "https://example.com/plans"})
}

async fn check_out(client: &Client, tier: &str, key: Option<&str>) -> Answer {
    let request = client.request(Method::POST, CHECKOUT).json(&purchase(tier));
    client.send(key.into_iter().fold(request, |request, key| request.header("idempotency-key", key))).await
}

impl App {
    async fn tier_of(&self, account: AccountId) -> String {
        let tier = sqlx::query_scalar("select tier from accounts where id = $1").bind(account.as_uuid());
        tier.fetch_one(&self.database.pool).await.expect("the account")
    }

    async fn moves(&self, account: AccountId) -> Vec<(String, String)> {
        let moves = self.audited(account, "subscription.tier_changed").await;
        let word = |value: &Value| value.as_str().expect("a tier").to_owned();
        moves.iter().map(|row| (word(&row.payload["from"]), word(&row.payload["to"]))).collect()
    }

    async fn bind(&self, customer: &str, account: AccountId) {
        let bind = sqlx::query("insert into card_customers (id, account_id, bound_at) values ($1, $2, now())");
        bind.bind(customer).bind(account.as_uuid()).execute(&self.database.pool).await.expect("a statement");
    }
}

/// Contract: billing 1, 2, 10, 11. The answer has the checkout's address.
#[tokio::test]
async fn checkout_creates_a_session_at_the_provider() {
    let (app, provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let answer = check_out(&person.client, "api_builder", None).await.expect(201);
    assert_eq!(members(&answer.body), ["checkout_url", "provider_session_id"].into());
    assert_eq!(answer.body["provider_session_id"], "cs_test_1");
    assert_eq!(answer.body["checkout_url"], "https://checkout.stripe.com/c/pay/cs_test_1#fid1d2BpamRh");
    assert_eq!(answer.headers["cache-control"], "no-store");
    let asked = provider.asked().remove(0);
    assert_eq!((asked.path.as_str(), asked.header("idempotency-key")), ("/v1/checkout/sessions", ""));
    let account = person.account.to_string();
    for (name, value) in [
        ("client_reference_id", account.as_str()),
        ("metadata[account_id]", &account),
        ("metadata[tier]", "api_builder"),
        ("subscription_data[metadata][account_id]", &account),
        ("subscription_data[metadata][tier]", "api_builder"),
        ("line_items[0][price_data][unit_amount]", "19900"),
        ("customer_email", &app.address_of(person.account).await),
        ("success_url", "https://example.com/done?s={CHECKOUT_SESSION_ID}"),
        ("cancel_url", "https://example.com/plans"),
    ] {
        assert_eq!(asked.form[name], value, "{name}");
    }
    app.bind("cus_ada", person.account).await;
    check_out(&person.client, "solo_manual", None).await.expect(201);
    let asked = provider.asked().remove(1);
    assert_eq!(
        (asked.form.get("customer").map(String::as_str), asked.form.get("customer_email")),
        (Some("cus_ada"), None)
    );
    assert_eq!(app.tier_of(person.account).await, "free");
    app.stop().await;
}

/// Contract: billing 2, 10.
#[tokio::test]
async fn invalid_purchase_is_400_without_a_provider_call() {
    let (app, provider) = shop().await;
    let client = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    for tier in ["free", "api_scale", "none", "", "API_BUILDER"] {
        check_out(&client, tier, None).await.invalid("tier");
    }
    let long = format!("https://example.com/{}", "x".repeat(2_048));
    for url in [
        "",
        "example.com",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https://",
        "https://e.com/ x",
        "https://e.com/\n",
        &long,
    ] {
        for field in ["success_url", "cancel_url"] {
            let mut body = purchase("api_builder");
            body[field] = json!(url);
            client.post(CHECKOUT, body).await.invalid(field);
        }
        client.post(PORTAL, json!({"return_url": url})).await.invalid("return_url");
    }
    for body in [json!({}), json!({"tier": 5}), json!({"tier": "api_builder"})] {
        client.post(CHECKOUT, body).await.problem(400, "validation-failed");
    }
    let several = client.post(CHECKOUT, json!({"tier": "free", "success_url": "x", "cancel_url": "y"})).await;
    several.invalid("tier").invalid("success_url").invalid("cancel_url");
    let bad = client.request(Method::POST, CHECKOUT).header("idempotency-key", "a b").json(&purchase("api_builder"));
    client.send(bad).await.invalid("Idempotency-Key");
    assert_eq!(provider.asked().len(), 0);
    app.stop().await;
}

/// Contract: billing 8, 26. Events are not accepted either.
#[tokio::test]
async fn purchases_without_a_provider_are_503() {
    let app = App::simulated().set("metrics.scrape_token", TOKEN).start().await;
    let client = app.client().await;
    check_out(&client, "api_builder", None).await.problem(503, "feature-unavailable");
    client.post(PORTAL, json!({"return_url": "https://example.com/"})).await.problem(503, "feature-unavailable");
    client.get(SUBSCRIPTION).await.expect(200);
    app.deliver_card_event(&json!({})).await.problem(503, "feature-unavailable");
    let errors = value(&app, "service_card_webhook_total{outcome=\"error\"}").await;
    assert!((errors - 1.0).abs() < 0.5, "{errors}");
    app.stop().await;
}

/// Contract: billing 5, 6. The purchase may have been paid in the meantime.
#[tokio::test]
async fn idempotency_key_starts_one_purchase() {
    let (app, provider) = shop().await;
    let (ada, adas) = app.customer(Tier::ApiStarter).await;
    let (bob, bobs) = app.customer(Tier::ApiStarter).await;
    let first = check_out(&adas, "api_builder", Some("order-1")).await.expect(201);
    app.bind("cus_ada", ada).await;
    app.run(&["account", "set-tier", &ada.to_string(), "api_builder"]).await.code(0);
    let again = check_out(&adas, "api_builder", Some(" order-1 ")).await.expect(201);
    assert_eq!(again.body, first.body);
    let other = check_out(&bobs, "api_builder", Some("order-1")).await.expect(201);
    assert_ne!(other.body, first.body);
    assert_eq!(check_out(&bobs, "api_builder", Some("order-1")).await.expect(201).body, other.body);
    let asked = provider.asked();
    let sent: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").to_owned()).collect();
    assert_eq!(sent, ["order-1", "order-1", &format!("{bob}:order-1"), &format!("{bob}:order-1")]);
    assert_eq!(asked[0].form, asked[1].form);
    // A key cannot collide with the prefixed key of another account, and a long key still identifies one purchase.
    let (_, eves) = app.customer(Tier::ApiStarter).await;
    let theirs = check_out(&eves, "api_builder", Some(&format!("{bob}:order-1"))).await.expect(201);
    assert_ne!(theirs.body, other.body);
    let long = "k".repeat(255);
    for client in [&eves, &bobs] {
        let one = check_out(client, "api_builder", Some(&long)).await.expect(201);
        assert_eq!(check_out(client, "api_builder", Some(&long)).await.expect(201).body, one.body);
    }
    assert!(provider.asked().iter().all(|asked| asked.header("idempotency-key").len() <= 255));
    let refused = check_out(&bobs, "solo_manual", Some("order-1")).await.problem(502, "driver-error");
    assert_eq!(
        (&refused.body["title"], &refused.body["provider_status"]),
        (&json!("PaymentProviderError"), &json!(400))
    );
    app.stop().await;
}

/// Contract: billing 5, 7.
#[tokio::test]
async fn concurrent_requests_with_one_key_start_one_purchase() {
    let (app, provider) = shop().await;
    let client = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    let requests = (0..8).map(|_| {
        let client = client.clone();
        async move { check_out(&client, "api_builder", Some("once")).await.expect(201).body }
    });
    let mut answers = at_once(requests).await;
    answers.dedup();
    assert_eq!((answers.len(), provider.asked().len()), (1, 8));
    app.stop().await;
}

/// Contract: billing 7, 8. No data remains after a failure.
#[tokio::test]
async fn failed_purchase_can_be_repeated_with_its_key() {
    let provider = CardProvider::start().await;
    let app = selling(&provider).set("billing.card.timeout", "300ms").start().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    app.bind("cus_ada", account).await;
    let elsewhere = CardProvider::start().await;
    let good = json!({"id": "cs_1", "url": "https://checkout.stripe.com/x"});
    let replies = [
        Reply::Json(402, json!({"error": {"type": "card_error", "message": "no"}})),
        Reply::Json(409, json!({"error": {"type": "idempotency_error"}})),
        Reply::Json(500, json!({"error": {"type": "api_error", "message": "sk_test_secret"}})),
        Reply::Json(429, json!("slow down")),
        Reply::Json(200, json!({"id": "cs_1"})),
        Reply::Json(200, json!({"id": "", "url": good["url"]})),
        Reply::Json(200, json!({"id": "cs_1", "url": "javascript:alert(1)"})),
        Reply::Json(200, json!([])),
        Reply::Hang,
        Reply::Endless,
        Reply::Redirect(format!("{}/v1/checkout/sessions", elsewhere.base_url)),
    ];
    for (number, reply) in replies.into_iter().enumerate() {
        let status = if let Reply::Json(status @ 400.., _) = reply { json!(status) } else { Value::Null };
        provider.answer(reply.clone());
        let key = format!("key-{number}");
        let refused = check_out(&client, "api_builder", Some(&key)).await.problem(502, "driver-error");
        assert_eq!(refused.body["title"], "PaymentProviderError", "{reply:?}");
        if !status.is_null() {
            assert_eq!(refused.body["provider_status"], status);
        }
        assert!(!refused.body.to_string().contains("sk_test"), "{}", refused.body);
        let again = check_out(&client, "api_builder", Some(&key)).await.expect(201);
        assert_eq!(provider.asked().last().expect("a request").header("idempotency-key"), key);
        assert_eq!(check_out(&client, "api_builder", Some(&key)).await.expect(201).body, again.body);
        provider.answer(reply);
        let refused = client.post(PORTAL, json!({"return_url": "https://example.com/"})).await;
        if !status.is_null() {
            refused.problem(502, "driver-error");
        }
    }
    assert_eq!(elsewhere.asked().len(), 0, "redirects are not followed");
    drop(provider);
    let refused = check_out(&client, "api_builder", None).await.problem(502, "driver-error");
    assert_eq!(refused.body["title"], "PaymentProviderError");
    assert_eq!(app.tier_of(account).await, "api_starter");
    assert_eq!(app.count("select count(*) from card_subscriptions").await, 0);
    app.stop().await;
}

/// Contract: billing 7. The limit is per account.
#[tokio::test]
async fn provider_requests_are_rate_limited() {
    let provider = CardProvider::start().await;
    let app = selling(&provider).set("rate_limits.billing_per_minute", "2").start().await;
    let (client, other) = (app.client().await, app.client().await);
    check_out(&client, "api_builder", None).await.expect(201);
    client.post(PORTAL, json!({"return_url": "https://example.com/"})).await.expect(404);
    check_out(&client, "api_builder", None).await.problem(429, "rate-limited");
    client.post(PORTAL, json!({"return_url": "https://example.com/"})).await.problem(429, "rate-limited");
    check_out(&other, "api_builder", None).await.expect(201);
    client.get(SUBSCRIPTION).await.expect(200);
    app.stop().await;
}

/// Contract: billing 12. Before the first purchase it is 404.
#[tokio::test]
async fn portal_belongs_to_the_accounts_customer() {
    let (app, provider) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let back = json!({"return_url": "https://example.com/account"});
    client.post(PORTAL, back.clone()).await.problem(404, "not-found");
    assert_eq!(provider.asked().len(), 0);
    app.bind("cus_ada", account).await;
    app.bind("cus_other", app.account(Tier::ApiStarter).await).await;
    let answer = client.post(PORTAL, back).await.expect(201);
    assert_eq!(members(&answer.body), ["portal_url"].into());
    assert_eq!(answer.body["portal_url"], "https://billing.stripe.com/p/session/bps_1");
    let asked = provider.asked().remove(0);
    assert_eq!(asked.path, "/v1/billing_portal/sessions");
    assert_eq!(
        (asked.form["customer"].as_str(), asked.form["return_url"].as_str()),
        ("cus_ada", "https://example.com/account")
    );
    app.stop().await;
}

/// Contract: billing 6; retention 1. The provider deletes them too.
#[tokio::test]
async fn idempotency_keys_are_deleted_after_30_days() {
    let (app, _provider) = shop().await;
    let client = app.client().await;
    for key in ["old", "new"] {
        check_out(&client, "api_builder", Some(key)).await.expect(201);
    }
    let age = "update card_checkout_keys set created_at = now() - interval '31 days' where sent_key = 'old' and $1 is not null";
    app.execute(age, Uuid::nil()).await;
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from card_checkout_keys where sent_key = 'new'").await, 1);
    assert_eq!(app.count("select count(*) from card_checkout_keys").await, 1);
    app.stop().await;
}
