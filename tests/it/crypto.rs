//! Purchases of tiers with crypto currencies (contract: billing 28 to 43), with a local payment processor.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::card_provider::{CardProvider, event, now};
use crate::support::crypto_processor::{CryptoProcessor, Reply, hmac, notice, sorted};
use crate::support::{Answer, App, Builder, Client, Role, assert_timestamp, at_once, eventually, unknown_id};

const CHECKOUT: &str = "/v1/billing/crypto-checkout";
const ORDERS: &str = "/v1/billing/crypto-orders";
const OUTCOMES: [&str; 5] = ["ok", "signature_invalid", "signature_missing", "empty_body", "malformed_event"];

async fn shop() -> (App, CryptoProcessor) {
    let processor = CryptoProcessor::start().await;
    (selling(&processor).start().await, processor)
}

fn selling(processor: &CryptoProcessor) -> Builder {
    App::simulated().paid_in_crypto_at(&processor.base_url).set("metrics.scrape_token", "scrape")
}

async fn check_out(client: &Client, body: Value, key: Option<&str>) -> Answer {
    let request = client.request(Method::POST, CHECKOUT).json(&body);
    client.send(key.into_iter().fold(request, |request, key| request.header("idempotency-key", key))).await
}

async fn order(client: &Client) -> Value {
    check_out(client, json!({"product": "api_builder"}), None).await.expect(201).body
}

async fn read(client: &Client, order: &Value) -> Value {
    client.get(&format!("{ORDERS}/{}", order["id"].as_str().expect("an id"))).await.expect(200).body
}

impl App {
    async fn tier(&self, account: AccountId) -> String {
        let tier = sqlx::query_scalar("select tier from accounts where id = $1").bind(account.as_uuid());
        tier.fetch_one(&self.database.pool).await.expect("the account")
    }

    async fn order_events(&self, order: &Value) -> Vec<(String, Value)> {
        sqlx::query_as("select type, data from events where data->>'order_id' = $1 order by created_at, id")
            .bind(order["id"].as_str().expect("an id"))
            .fetch_all(&self.database.pool)
            .await
            .expect("the events")
    }

    async fn age(&self, order: &Value, by: &str) {
        let age = "update crypto_orders set created_at = created_at - $2::text::interval, expires_at = expires_at - $2::text::interval,
                          paid_until = paid_until - $2::text::interval, asked_at = asked_at - $2::text::interval
                   where id = $1";
        let id = order["id"].as_str().and_then(|id| id.strip_prefix("ord_")).expect("an id");
        let aged = sqlx::query(age).bind(id.parse::<uuid::Uuid>().expect("an id")).bind(by);
        assert_eq!(aged.execute(&self.database.pool).await.expect("a statement").rows_affected(), 1);
    }

    async fn notices(&self) -> Vec<u64> {
        let scraper = Client::new(&self.base_url, Some("scrape"));
        let text =
            scraper.request(Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text");
        let count = |outcome| {
            let name = format!("service_crypto_webhook_total{{outcome=\"{outcome}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)).expect("a row").parse().expect("a number")
        };
        OUTCOMES.map(count).to_vec()
    }
}

/// Contract: billing 28 to 30. The request to the processor contains the order.
#[tokio::test]
async fn checkout_returns_the_payment_address() {
    let (app, processor) = shop().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let wanted = json!({"product": "api_builder", "price_currency": "USD", "pay_currency": "LTC"});
    let answer = check_out(&client, wanted, None).await.expect(201);
    let order = &answer.body;
    assert!(order["id"].as_str().is_some_and(|id| id.starts_with("ord_")), "{order}");
    for (field, value) in [
        ("status", json!("pending")),
        ("product", json!("api_builder")),
        ("price_cents", json!(19_900)),
        ("price_currency", json!("usd")),
        ("pay_address", json!("bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh")),
        ("pay_amount", json!(0.001_042_5)),
        ("pay_currency", json!("ltc")),
        ("payment_id", json!("5745459401")),
    ] {
        assert_eq!(order[field], value, "{field}");
    }
    assert_timestamp(&order["expires_at"]);
    assert_timestamp(&order["created_at"]);
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["location"], format!("{ORDERS}/{}", order["id"].as_str().expect("an id")));
    assert!(!answer.headers.contains_key("idempotent-replayed"));
    let asked = processor.asked().remove(0);
    assert_eq!(
        (&asked["price_amount"], &asked["price_currency"], &asked["pay_currency"]),
        (&json!(199.0), &json!("usd"), &json!("ltc"))
    );
    assert_eq!(asked["order_id"], order["id"]);
    assert_eq!(asked["ipn_callback_url"], format!("{}/v1/billing/crypto-webhook", app.base_url));

    assert_eq!(&read(&client, order).await, order);
    let second = check_out(&client, json!({"product": "api_starter"}), None).await.expect(201).body;
    let first_page = client.get(&format!("{ORDERS}?limit=1")).await.expect(200).body;
    assert_eq!((&first_page["data"], &first_page["has_more"]), (&json!([second]), &json!(true)));
    let next = first_page["next_cursor"].as_str().expect("a cursor");
    let last_page = client.get(&format!("{ORDERS}?limit=1&cursor={next}")).await.expect(200).body;
    assert_eq!((&last_page["data"], &last_page["next_cursor"]), (&json!([order]), &Value::Null));
    let (_, other) = app.customer(Tier::ApiStarter).await;
    other.get(&format!("{ORDERS}/{}", order["id"].as_str().expect("an id"))).await.problem(404, "not-found");
    other.get(&format!("{ORDERS}/{}", unknown_id("ord"))).await.problem(404, "not-found");
    assert_eq!(other.get(ORDERS).await.expect(200).body["data"], json!([]));

    for (field, body) in [
        ("product", json!({"product": "free"})),
        ("product", json!({"product": "enterprise"})),
        ("product", json!({"product": "gold"})),
        ("price_currency", json!({"product": "api_builder", "price_currency": "idr"})),
        ("pay_currency", json!({"product": "api_builder", "pay_currency": "b t c"})),
        ("pay_currency", json!({"product": "api_builder", "pay_currency": "x".repeat(21)})),
    ] {
        check_out(&client, body, None).await.invalid(field);
    }
    assert_eq!(processor.asked().len(), 2);
    app.stop().await;
}

/// Contract: billing 31. Forever, and whatever the body.
#[tokio::test]
async fn idempotency_key_returns_its_first_order() {
    let (app, processor) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let answers = at_once((0..8).map(|number| {
        let client = client.clone();
        let product = ["api_builder", "api_starter"][number % 2];
        async move { check_out(&client, json!({"product": product}), Some("once")).await.expect(201) }
    }))
    .await;
    assert_eq!((processor.asked().len(), app.count("select count(*) from crypto_orders").await), (1, 1));
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    let replays =
        answers.iter().filter(|answer| answer.headers.get("idempotent-replayed").is_some_and(|header| header == "1"));
    assert_eq!(replays.count(), 7);

    app.deliver_crypto_notice(&notice(&answers[0].body, "finished", &json!({}))).await.expect(200);
    assert_ne!(app.tier(account).await, "free");
    let later = check_out(&client, json!({"product": 5, "what": []}), Some("once")).await.expect(201);
    assert_eq!(later.headers["location"], format!("{ORDERS}/{}", later.body["id"].as_str().expect("an id")));
    assert_eq!((&later.body, later.headers["idempotent-replayed"].to_str().ok()), (&answers[0].body, Some("1")));

    let (_, other) = app.customer(Tier::ApiStarter).await;
    let theirs = check_out(&other, json!({"product": "api_builder"}), Some("once")).await.expect(201);
    assert_ne!(theirs.body["id"], answers[0].body["id"]);
    check_out(&client, json!({"product": "api_builder"}), Some("two words")).await.invalid("Idempotency-Key");
    app.stop().await;
}

/// Contract: billing 32. The same key can be used again.
#[tokio::test]
async fn failed_checkout_leaves_no_order() {
    let (app, processor) = shop().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let bought = || json!({"product": "api_builder"});
    let failures = [400, 402, 409, 500].map(|status| Reply::Json(status, json!({"message": "no"})));
    let nonsense = [
        json!({}),
        json!({"payment_id": "1", "pay_address": "a b", "pay_amount": 1, "pay_currency": "btc"}),
        json!({"payment_id": "1", "pay_address": "ab", "pay_amount": 0, "pay_currency": "btc"}),
    ]
    .map(|body| Reply::Json(201, body));
    for reply in failures.into_iter().chain(nonsense).chain([Reply::Hang]) {
        let status = if let Reply::Json(status @ 400.., _) = reply { json!(status) } else { Value::Null };
        processor.answer(reply);
        let refused = check_out(&client, bought(), Some("again")).await.problem(502, "driver-error");
        assert_eq!(
            (&refused.body["title"], &refused.body["provider_status"]),
            (&json!("PaymentProviderError"), &status)
        );
        assert_eq!(app.count("select count(*) from crypto_orders").await, 0);
    }
    check_out(&client, bought(), Some("again")).await.expect(201);
    app.stop().await;

    let app = App::simulated().paid_in_crypto_at("http://127.0.0.1:9").start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    check_out(&client, bought(), None).await.problem(502, "driver-error");
    assert_eq!(app.count("select count(*) from crypto_orders").await, 0);
    app.stop().await;

    let app = App::simulated().set("billing.prices.api_builder", "19900").set("metrics.scrape_token", "scrape");
    let app = app.start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    check_out(&client, bought(), None).await.problem(503, "feature-unavailable");
    app.noticed("{}", Some("00")).await.problem(503, "feature-unavailable");
    assert_eq!(app.notices().await, [0, 1, 0, 0, 0]);
    app.stop().await;
    // Without the IPN secret the service could not verify payments, so it creates no orders.
    let app =
        App::simulated().paid_in_crypto_at(&processor.base_url).set("billing.crypto.ipn_secret", "").start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    check_out(&client, bought(), None).await.problem(503, "feature-unavailable");
    app.stop().await;
}

/// Contract: billing 33. The process died after the request to the processor.
#[tokio::test]
async fn incomplete_order_is_completed_by_the_next_request() {
    let (app, processor) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let half_made = "insert into crypto_orders (id, account_id, idempotency_key, product, price_cents, price_currency, pay_currency, expires_at, asked_at)
                     values (gen_random_uuid(), $1, 'key', 'api_builder', 19900, 'usd', 'btc', now() + interval '1 hour', now() - interval '1 minute')";
    sqlx::query(half_made).bind(account.as_uuid()).execute(&app.database.pool).await.expect("a row");
    assert_eq!(client.get(ORDERS).await.expect(200).body["data"], json!([]));
    let answer = check_out(&client, json!({"product": "api_starter"}), Some("key")).await.expect(201);
    assert_eq!((&answer.body["product"], processor.asked().len()), (&json!("api_builder"), 1));
    // An incomplete order without a further request is deleted with its key.
    let older = half_made.replace("'key'", "'old'").replace("'1 minute'", "'2 days'");
    sqlx::query(sqlx::AssertSqlSafe(older)).bind(account.as_uuid()).execute(&app.database.pool).await.expect("a row");
    sqlx::query("update crypto_orders set created_at = asked_at")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    let swept = app.run(&["sweep", "idempotency", "--json"]).await.code(0).json();
    assert_eq!((swept, app.count("select count(*) from crypto_orders").await), (json!({"forgotten": 1}), 1));
    app.stop().await;
}

/// Contract: billing 34, 36, 37; events. The tier lasts one period, for any number of notices.
#[tokio::test]
async fn payment_changes_the_tier_once() {
    let (app, processor) = shop().await;
    let (account, client) = app.customer(Tier::Free).await;
    let person = app.device_of(account).await;
    drop(client);
    let order = order(&person).await;
    for status in ["waiting", "confirming", "confirmed", "sending", "partially_paid"] {
        app.deliver_crypto_notice(&notice(&order, status, &json!({}))).await.expect(200);
        assert_eq!(read(&person, &order).await["status"], "pending", "{status}");
    }
    let paid = notice(&order, "finished", &json!({}));
    at_once((0..4).map(|_| {
        let (body, signature) = (paid.to_string(), hmac(&sorted(&paid)));
        let stranger = app.stranger();
        async move {
            let request =
                stranger.request(Method::POST, "/v1/billing/crypto-webhook").header("x-nowpayments-sig", signature);
            stranger.send(request.body(body)).await.expect(200)
        }
    }))
    .await;
    let now = read(&person, &order).await;
    assert_eq!((&now["status"], &now["failed_at"], &now["reason"]), (&json!("paid"), &Value::Null, &Value::Null));
    assert_timestamp(&now["paid_at"]);
    assert_timestamp(&now["paid_until"]);
    assert_eq!(app.tier(account).await, "api_builder");
    let events = app.order_events(&order).await;
    let wanted = json!({
        "order_id": order["id"], "product": "api_builder", "price_cents": 19_900, "price_currency": "usd",
        "payment_id": order["payment_id"], "paid_at": now["paid_at"],
    });
    assert_eq!(events, [("crypto.order.paid".to_owned(), wanted)]);
    let moved = app.audited(account, "subscription.tier_changed").await;
    let moved: Vec<_> =
        moved.iter().map(|row| (row.actor_type.as_str(), &row.payload["from"], &row.payload["to"])).collect();
    assert_eq!(moved, [("system", &json!("free"), &json!("api_builder"))]);
    // Crypto orders have no receipt.
    assert_eq!(app.count("select count(*) from emails where template like 'payment%'").await, 0);
    assert_eq!(app.count("select count(*) from crypto_orders where flag is not null").await, 0);

    let more = notice(&order, "finished", &json!({"payment_id": 99, "parent_payment_id": 1}));
    app.deliver_crypto_notice(&more).await.expect(200);
    assert_eq!(app.count("select count(*) from crypto_orders where flag = 'it was paid twice'").await, 1);
    assert_eq!(app.order_events(&order).await.len(), 1);

    app.deliver_crypto_notice(&notice(&order, "refunded", &json!({}))).await.expect(200);
    assert_eq!(
        app.count("select count(*) from crypto_orders where flag = 'it was given back after it was paid'").await,
        1
    );
    assert_eq!(app.tier(account).await, "api_builder");

    let second = self::order(&person).await;
    app.deliver_crypto_notice(&notice(&second, "finished", &json!({}))).await.expect(200);
    let added =
        "select count(*) from crypto_orders a join crypto_orders b on b.paid_until = a.paid_until + interval '30 days'";
    assert_eq!(app.count(added).await, 1);
    drop(processor);
    app.stop().await;
}

/// Contract: billing 36.
#[tokio::test]
async fn wrong_amount_price_or_currency_is_flagged() {
    let (app, _processor) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    for (amiss, why) in [
        (json!({"actually_paid": 0.001_042_499}), "the amount paid is less than the amount requested"),
        (json!({"actually_paid": null}), "the amount paid is less than the amount requested"),
        (json!({"price_amount": 198.99}), "the price of the payment differs from the price of the order"),
        (json!({"price_currency": "eur"}), "the currency of the payment differs from the currency of the order"),
        (json!({"pay_currency": "doge"}), "the currency of the payment differs from the currency of the order"),
    ] {
        let order = order(&client).await;
        app.deliver_crypto_notice(&notice(&order, "finished", &amiss)).await.expect(200);
        assert_eq!(read(&client, &order).await["status"], "pending", "{amiss}");
        let flagged = sqlx::query_scalar::<_, String>("select flag from crypto_orders where flag is not null");
        assert_eq!(flagged.fetch_one(&app.database.pool).await.expect("a flag"), why, "{amiss}");
        app.deliver_crypto_notice(&notice(&order, "finished", &json!({"payment_id": 77}))).await.expect(200);
        assert_eq!(read(&client, &order).await["status"], "paid", "{amiss}");
        assert_eq!(app.count("select count(*) from crypto_orders where flag is not null").await, 1);
        sqlx::query("delete from crypto_orders").execute(&app.database.pool).await.expect("a statement");
    }
    assert_eq!(app.tier(account).await, "api_builder");
    app.stop().await;
}

/// Contract: billing 36, 38; events. Later notices are flagged and change nothing.
#[tokio::test]
async fn failed_payment_ends_the_order() {
    let (app, _processor) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    for status in ["failed", "refunded", "expired"] {
        let order = order(&client).await;
        let sent = json!({"order_id": order["id"], "payment_id": order["payment_id"], "payment_status": status});
        app.deliver_crypto_notice(&sent).await.expect(200);
        let now = read(&client, &order).await;
        assert_eq!((&now["status"], &now["reason"], &now["paid_at"]), (&json!("failed"), &json!("ipn"), &Value::Null));
        let wanted = json!({
            "order_id": order["id"], "product": "api_builder", "price_cents": 19_900, "price_currency": "usd",
            "payment_id": order["payment_id"], "failed_at": now["failed_at"], "reason": "ipn",
        });
        assert_eq!(app.order_events(&order).await, [("crypto.order.failed".to_owned(), wanted)]);
        app.deliver_crypto_notice(&notice(&order, "finished", &json!({}))).await.expect(200);
        assert_eq!(read(&client, &order).await, now, "a failed order is final");
        assert_eq!(app.order_events(&order).await.len(), 1);
    }
    assert_eq!(app.count("select count(*) from crypto_orders where flag = 'it was paid after it had failed'").await, 3);
    assert_eq!(app.tier(account).await, "api_starter");
    app.stop().await;
}

/// Contract: billing 38, 40. The flags can be in any order.
#[tokio::test]
async fn payment_clears_only_its_own_flag() {
    let (app, _processor) = shop().await;
    let staff = app.staff().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let flag = async |order: &Value| -> (Option<String>, Option<String>) {
        let flag = sqlx::query_as("select flag, flagged_by from crypto_orders where 'ord_' || id = $1");
        flag.bind(order["id"].as_str()).fetch_one(&app.database.pool).await.expect("the order")
    };
    let shown = |why: &str, payment: &str| (Some(why.to_owned()), Some(payment.to_owned()));
    let less = json!({"actually_paid": 0.000_5});
    let other = |paid: f64| json!({"payment_id": 77, "actually_paid": paid});
    let too_little = "the amount paid is less than the amount requested";

    let order = order(&client).await;
    let first = order["payment_id"].as_str().expect("an id");
    app.deliver_crypto_notice(&notice(&order, "finished", &less)).await.expect(200);
    app.deliver_crypto_notice(&notice(&order, "finished", &other(0.000_5))).await.expect(200);
    assert_eq!(flag(&order).await, shown(too_little, "77"));
    app.deliver_crypto_notice(&notice(&order, "finished", &other(0.001_042_5))).await.expect(200);
    assert_eq!(read(&client, &order).await["status"], "paid");
    assert_eq!(flag(&order).await, shown(too_little, first));
    let flagged = staff.get("/v1/admin/crypto-orders?flagged=true").await.expect(200).body;
    assert_eq!((&flagged["data"][0]["id"], &flagged["data"][0]["flag"]), (&order["id"], &json!(too_little)));

    let second = self::order(&client).await;
    app.deliver_crypto_notice(&notice(&second, "finished", &less)).await.expect(200);
    app.deliver_crypto_notice(&notice(&second, "finished", &other(0.000_5))).await.expect(200);
    app.deliver_crypto_notice(&notice(&second, "finished", &json!({}))).await.expect(200);
    assert_eq!(read(&client, &second).await["status"], "paid");
    assert_eq!(flag(&second).await, shown(too_little, "77"));

    let third = self::order(&client).await;
    app.deliver_crypto_notice(&notice(&third, "finished", &less)).await.expect(200);
    app.deliver_crypto_notice(&notice(&third, "finished", &other(0.000_5))).await.expect(200);
    let path = format!("/v1/admin/crypto-orders/{}/settle", third["id"].as_str().expect("an id"));
    let order_now = staff.post(&path, json!({"reason": "both came"})).await.expect(200).body;
    assert_eq!((&order_now["status"], &order_now["flagged"]), (&json!("paid"), &json!(true)));
    assert_eq!(flag(&third).await, shown(too_little, third["payment_id"].as_str().expect("an id")));
    app.stop().await;
}

/// Contract: billing 36, 40, 41. A refund or an absent payment is not flagged.
#[tokio::test]
async fn partial_payment_of_failed_order_is_flagged() {
    let (app, processor) = shop().await;
    let staff = app.staff().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let shown = async |order: &Value| -> Value {
        let all = staff.get("/v1/admin/crypto-orders?limit=100").await.expect(200).body;
        let orders = all["data"].as_array().expect("orders");
        orders.iter().find(|one| one["id"] == order["id"]).expect("the order").clone()
    };
    let settle = async |order: &Value| {
        let path = format!("/v1/admin/crypto-orders/{}/settle", order["id"].as_str().expect("an id"));
        staff.post(&path, json!({"reason": "near enough"})).await
    };
    let (too_little, given_up) = (
        json!("the amount paid is less than the amount requested"),
        json!("the payment arrived, but the processor reported it as failed"),
    );
    for (status, paid, flag) in [
        ("expired", json!(0.000_5), &too_little),
        ("failed", json!(0.001_042_499), &too_little),
        ("expired", json!(0.001_042_5), &given_up),
        ("refunded", json!(0.000_5), &Value::Null),
        ("expired", json!(0), &Value::Null),
        ("failed", Value::Null, &Value::Null),
    ] {
        let order = order(&client).await;
        let sent = notice(&order, status, &json!({"actually_paid": paid}));
        for _ in 0..2 {
            app.deliver_crypto_notice(&sent).await.expect(200);
            let now = shown(&order).await;
            assert_eq!(
                (&now["status"], &now["reason"], &now["flag"]),
                (&json!("failed"), &json!("ipn"), flag),
                "{sent}"
            );
        }
        assert_eq!(app.order_events(&order).await.len(), 1);
        if flag.is_null() {
            settle(&order).await.problem(409, "conflict");
            continue;
        }
        let settled = settle(&order).await.expect(200).body;
        assert_eq!((&settled["status"], &settled["flagged"]), (&json!("paid"), &json!(false)));
        app.deliver_crypto_notice(&sent).await.expect(200);
        assert_eq!(shown(&order).await["flagged"], false);
        let events: Vec<_> = app.order_events(&order).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["crypto.order.failed", "crypto.order.paid"]);
    }
    assert_eq!(app.tier(account).await, "api_builder");

    let waits = order(&client).await;
    let part = json!({"payment_id": 77, "parent_payment_id": waits["payment_id"], "actually_paid": 0.000_5});
    app.deliver_crypto_notice(&notice(&waits, "expired", &part)).await.expect(200);
    let now = shown(&waits).await;
    assert_eq!((&now["status"], &now["flag"]), (&json!("pending"), &too_little));

    let [short, nothing] = [order(&client).await, order(&client).await];
    processor.store_notice(&notice(&short, "partially_paid", &json!({"actually_paid": 0.000_5})));
    processor.store_notice(&notice(&nothing, "waiting", &json!({"actually_paid": 0})));
    for old in [&short, &nothing] {
        app.age(old, "8 days 1 minute").await;
    }
    let swept = app.run(&["sweep", "crypto-orders", "--json"]).await.code(0).json();
    assert_eq!(swept, json!({"paid": 0, "failed": 2, "unanswered": 0, "lapsed": 0}));
    for (order, flag) in [(&short, &too_little), (&nothing, &Value::Null)] {
        let now = shown(order).await;
        assert_eq!((&now["status"], &now["reason"], &now["flag"]), (&json!("failed"), &json!("swept"), flag));
    }
    settle(&nothing).await.problem(409, "conflict");
    settle(&short).await.expect(200);
    app.stop().await;
}

/// Contract: billing 2, 36. A payment at another price is flagged.
#[tokio::test]
async fn order_keeps_its_price() {
    let processor = CryptoProcessor::start().await;
    let mut app = selling(&processor).in_processes().start().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let [old, misled] = [order(&client).await, order(&client).await];
    app.signal(0, Signal::SIGTERM).await;
    app.start_with(Role::Up, &[("KITFLEET_BILLING__PRICES__API_BUILDER", "29900")]);
    app.ready().await;
    let new = order(&client).await;
    assert_eq!((&old["price_cents"], &new["price_cents"]), (&json!(19_900), &json!(29_900)));
    assert_eq!(processor.asked().last().map(|asked| asked["price_amount"].clone()), Some(json!(299.0)));

    app.deliver_crypto_notice(&notice(&misled, "finished", &json!({"price_amount": 299}))).await.expect(200);
    app.deliver_crypto_notice(&notice(&new, "finished", &json!({"price_amount": 199}))).await.expect(200);
    for order in [&misled, &new] {
        assert_eq!(read(&client, order).await["status"], "pending");
    }
    let flagged = "select count(*) from crypto_orders where flag = 'the price of the payment differs from the price of the order'";
    assert_eq!((app.count(flagged).await, app.tier(account).await.as_str()), (2, "api_starter"));
    app.deliver_crypto_notice(&notice(&old, "finished", &json!({}))).await.expect(200);
    let paid = read(&client, &old).await;
    assert_eq!((&paid["status"], &paid["price_cents"]), (&json!("paid"), &json!(19_900)));
    assert_eq!((app.count(flagged).await, app.tier(account).await.as_str()), (2, "api_builder"));
    app.stop().await;
}

/// Contract: billing 41. About orders without a notice.
#[tokio::test]
async fn scheduled_job_sweeps_orders() {
    let (app, processor) = shop().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let [paid, waiting] = [order(&client).await, order(&client).await];
    processor.store_notice(&notice(&paid, "finished", &json!({})));
    processor.store_notice(&notice(&waiting, "waiting", &json!({"actually_paid": 0})));
    for old in [&paid, &waiting] {
        app.age(old, "8 days 1 minute").await;
    }
    let tick = "update apalis.jobs set run_at = now()
                where job_type = 'maintenance' and status = 'Pending' and idempotency_key like 'sweep_crypto_orders:%'";
    eventually(Duration::from_secs(30), "the orders have ended", async || {
        sqlx::query(tick).execute(&app.database.pool).await.expect("a statement");
        let states = [read(&client, &paid).await, read(&client, &waiting).await];
        (states.map(|order| order["status"].clone()) == [json!("paid"), json!("failed")]).then_some(())
    })
    .await;
    assert_eq!(read(&client, &waiting).await["reason"], "swept");
    assert_eq!(app.tier(account).await, "api_builder");
    assert_eq!((app.order_events(&paid).await.len(), app.order_events(&waiting).await.len()), (1, 1));
    app.stop().await;
}

/// Contract: billing 35, 43; operators. The order of the checks is fixed.
#[tokio::test]
async fn unsigned_notices_are_rejected_and_counted() {
    let (app, _processor) = shop().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let order = order(&client).await;
    let good = notice(&order, "finished", &json!({}));
    let mut counts = app.notices().await;
    assert_eq!(counts, [0; 5]);
    let mut counted = async |outcome: &str| {
        let at = OUTCOMES.iter().position(|known| *known == outcome).expect("an outcome");
        counts[at] += 1;
        assert_eq!(app.notices().await, counts, "{outcome}");
    };
    app.noticed("", Some("00")).await.problem(400, "bad-request");
    counted("empty_body").await;
    app.noticed(&good.to_string(), None).await.invalid("x-nowpayments-sig");
    counted("signature_missing").await;
    let other = notice(&order, "finished", &json!({"actually_paid": 1})).to_string();
    for (body, signature) in [
        (good.to_string(), "00".to_owned()),
        (good.to_string(), "nonsense".to_owned()),
        (other, hmac(&sorted(&good))),
        (format!("{}{}", "[".repeat(100), "]".repeat(100)), hmac("")),
    ] {
        app.noticed(&body, Some(&signature)).await.invalid("x-nowpayments-sig");
        counted("signature_invalid").await;
    }
    for malformed in ["no JSON", "{}", r#"{"payment_id":1,"payment_status":2}"#, "[]"] {
        app.noticed(malformed, Some(&hmac(malformed))).await.problem(400, "bad-request");
        counted("malformed_event").await;
    }
    let long = json!({"payment_id": 1, "more": "x".repeat(1 << 20)}).to_string();
    app.noticed(&long, Some(&hmac(&long))).await.problem(413, "payload-too-large");
    counted("malformed_event").await;
    assert_eq!(read(&client, &order).await["status"], "pending");

    // Notices with an unknown order or without one are accepted and change nothing.
    for unknown in [json!(unknown_id("ord")), json!("4711"), Value::Null] {
        app.deliver_crypto_notice(&notice(&order, "finished", &json!({"order_id": unknown}))).await.expect(200);
        counted("ok").await;
    }
    // Numbers, letters and arrays are signed as written; the processor's own script turns arrays into objects.
    let body = good.to_string().replacen('{', r#"{"zß":[1.10,{"b":1e-7,"a":"é"}],"#, 1);
    let signed = sorted(&good);
    for list in [r#"[1.10,{"a":"é","b":1e-7}]"#, r#"{"0":1.10,"1":{"a":"é","b":1e-7}}"#] {
        let signed = format!(r#"{},"zß":{list}}}"#, signed.trim_end_matches('}'));
        assert_eq!(app.noticed(&body, Some(&hmac(&signed))).await.expect(200).body, json!({"received": true}));
        counted("ok").await;
    }
    assert_eq!(read(&client, &order).await["status"], "paid");
    app.stop().await;
}

/// Contract: billing 39, 40; staff.
#[tokio::test]
async fn staff_expire_and_settle_orders_once() {
    let (app, _processor) = shop().await;
    let staff = app.staff().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let path = |order: &Value, action: &str| {
        format!("/v1/admin/crypto-orders/{}/{action}", order["id"].as_str().expect("an id"))
    };
    let because = || json!({"reason": "asked for"});
    let late = order(&client).await;
    staff.post(&path(&late, "expire"), because()).await.problem(409, "conflict");
    app.age(&late, "1 hour").await;
    staff.post(&path(&late, "expire"), json!({"reason": " "})).await.invalid("reason");
    let order_now = staff.post(&path(&late, "expire"), because()).await.expect(200).body;
    assert_eq!(
        (&order_now["status"], &order_now["reason"], &order_now["account_id"]),
        (&json!("failed"), &json!("expired"), &json!(account))
    );
    assert_eq!(app.order_events(&late).await[0].1["reason"], "expired");
    staff.post(&path(&late, "expire"), because()).await.problem(409, "conflict");
    staff.post(&path(&late, "settle"), because()).await.problem(409, "conflict");

    app.deliver_crypto_notice(&notice(&late, "finished", &json!({}))).await.expect(200);
    let flagged = staff.get("/v1/admin/crypto-orders?flagged=true").await.expect(200).body;
    assert_eq!((flagged["data"].as_array().map(Vec::len), &flagged["data"][0]["id"]), (Some(1), &late["id"]));
    assert_eq!(staff.get("/v1/admin/crypto-orders?flagged=true&status=paid").await.expect(200).body["data"], json!([]));
    staff.get("/v1/admin/crypto-orders?status=gone").await.invalid("status");
    let order_now = staff.post(&path(&late, "settle"), because()).await.expect(200).body;
    assert_eq!((&order_now["status"], &order_now["flagged"]), (&json!("paid"), &json!(false)));
    assert_eq!(app.tier(account).await, "api_builder");
    staff.post(&path(&late, "settle"), because()).await.problem(409, "conflict");
    staff.post(&path(&json!({"id": unknown_id("ord")}), "settle"), because()).await.problem(404, "not-found");

    let notes = app.audited(account, "admin.support_note").await;
    let notes: Vec<_> = notes
        .iter()
        .map(|row| (row.actor_type.as_str(), &row.payload["operation"], &row.payload["order_id"]))
        .collect();
    let id = &late["id"];
    assert_eq!(notes, [("staff", &json!("crypto_order.expired"), id), ("staff", &json!("crypto_order.settled"), id)]);

    // With the processor, a sweep and staff at once, the order ends once.
    for _ in 0..8 {
        let order = order(&client).await;
        app.age(&order, "9 days").await;
        let paid = notice(&order, "finished", &json!({}));
        let expire = path(&order, "expire");
        let sweep = app.run(&["sweep", "crypto-orders", "--json"]);
        let (_, _, swept) = tokio::join!(app.deliver_crypto_notice(&paid), staff.post(&expire, because()), sweep);
        swept.code(0);
        assert_eq!(app.order_events(&order).await.len(), 1);
        let moved = read(&client, &order).await;
        assert_eq!(moved["paid_at"].is_null(), moved["status"] == "failed");
    }
    app.stop().await;
}

/// Contract: billing 19, 42.
#[tokio::test]
async fn renewal_keeps_the_tier_of_a_paid_order() {
    let (processor, cards) = (CryptoProcessor::start().await, CardProvider::start().await);
    let app = selling(&processor).selling_at(&cards.base_url).start().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let subscription = |status: &str| {
        json!({"id": "sub_1", "object": "subscription", "customer": "cus_1", "status": status,
               "metadata": {"account_id": account, "tier": "api_starter"}, "start_date": now() - 100})
    };
    app.deliver_card_event(&event("evt_1", "customer.subscription.created", now() - 100, &subscription("active")))
        .await
        .expect(200);
    let order = order(&client).await;
    app.deliver_crypto_notice(&notice(&order, "finished", &json!({}))).await.expect(200);
    app.deliver_card_event(&event("evt_2", "customer.subscription.updated", now(), &subscription("active")))
        .await
        .expect(200);
    assert_eq!(app.tier(account).await, "api_builder");
    app.age(&order, "31 days").await;
    app.run(&["sweep", "crypto-orders"]).await.code(0);
    assert_eq!(app.tier(account).await, "api_starter", "the subscription goes on");
    app.stop().await;
}

/// Contract: billing 41, 42; command-line.
#[tokio::test]
async fn sweep_ends_old_orders_and_paid_periods() {
    let (app, processor) = shop().await;
    let (account, client) = app.customer(Tier::Free).await;
    drop(client);
    let client = app.device_of(account).await;
    let [paid, waiting, unknown, young] =
        [order(&client).await, order(&client).await, order(&client).await, order(&client).await];
    processor.store_notice(&notice(&paid, "finished", &json!({})));
    processor.store_notice(&notice(&waiting, "waiting", &json!({"actually_paid": 0})));
    for old in [&paid, &waiting, &unknown] {
        app.age(old, "8 days 1 minute").await;
    }
    let swept = app.run(&["sweep", "crypto-orders", "--json"]).await.code(0).json();
    assert_eq!(swept, json!({"paid": 1, "failed": 2, "unanswered": 0, "lapsed": 0}));
    for (order, status, reason) in [
        (&paid, "paid", None),
        (&waiting, "failed", Some("swept")),
        (&unknown, "failed", Some("swept")),
        (&young, "pending", None),
    ] {
        let now = read(&client, order).await;
        assert_eq!((&now["status"], &now["reason"]), (&json!(status), &json!(reason)));
    }
    assert_eq!(app.tier(account).await, "api_builder");
    assert_eq!(app.order_events(&waiting).await[0].1["reason"], "swept");

    app.age(&paid, "30 days 1 minute").await;
    let swept = app.run(&["sweep", "crypto-orders", "--json"]).await.code(0).json();
    assert_eq!((&swept["lapsed"], app.tier(account).await.as_str()), (&json!(1), "free"));
    assert_eq!(app.run(&["sweep", "crypto-orders", "--json"]).await.code(0).json()["lapsed"], 0);

    app.deliver_crypto_notice(&notice(&young, "finished", &json!({}))).await.expect(200);
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    app.age(&young, "31 days").await;
    let swept = app.run(&["sweep", "crypto-orders", "--json"]).await.code(0).json();
    assert_eq!((&swept["lapsed"], app.tier(account).await.as_str()), (&json!(1), "enterprise"));
    app.stop().await;

    let app =
        App::simulated().paid_in_crypto_at(&processor.base_url).set("billing.crypto.sweep_after", "0s").start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let order = order(&client).await;
    let dead = &[("KITFLEET_BILLING__CRYPTO__BASE_URL", "http://127.0.0.1:9")];
    let mut sweep = app.command(&["sweep", "crypto-orders", "--json"]);
    let output = sweep.envs(dead.iter().copied()).output().expect("the command runs");
    let swept: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(swept, json!({"paid": 0, "failed": 0, "unanswered": 1, "lapsed": 0}));
    assert_eq!(read(&client, &order).await["status"], "pending");
    app.stop().await;
}
