//! Events of the card provider and their effects (contract: billing 13 to 21, 26).

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use super::{SUBSCRIPTION, check_out, selling, shop};
use crate::metrics::{TOKEN, value};
use crate::support::card_provider::{CardProvider, WEBHOOK_SECRET, event, now, signature};
use crate::support::{App, assert_timestamp, at_once, members};

/// In Unix seconds.
const START: i64 = 1_790_000_000;

/// As Stripe describes it.
pub fn subscription(id: &str, account: AccountId, tier: &str, status: &str) -> Value {
    json!({
        "id": id, "object": "subscription", "customer": format!("cus_of_{id}"), "status": status, "created": START,
        "cancel_at_period_end": false, "current_period_start": START, "current_period_end": START + 2_592_000,
        "metadata": {"account_id": account.to_string(), "tier": tier}, "items": {"object": "list", "data": []},
        "latest_invoice": "in_1", "livemode": false,
    })
}

pub fn checkout(subscription: &str, account: AccountId, tier: &str, payment_status: &str) -> Value {
    json!({
        "id": "cs_test_1", "object": "checkout.session", "mode": "subscription", "status": "complete",
        "payment_status": payment_status, "client_reference_id": account.to_string(), "customer": format!("cus_of_{subscription}"),
        "subscription": subscription, "metadata": {"account_id": account.to_string(), "tier": tier},
    })
}

/// Each event occurs a given number of seconds after the start.
struct EventSender<'a> {
    app: &'a App,
    sent: usize,
}

impl<'a> EventSender<'a> {
    fn of(app: &'a App) -> Self {
        Self { app, sent: 0 }
    }

    async fn send(&mut self, after: i64, kind: &str, object: &Value) {
        self.sent += 1;
        let event = event(&format!("evt_{}", self.sent), kind, START + after, object);
        let answer = self.app.deliver_card_event(&event).await.expect(200);
        assert_eq!(answer.body, json!({"received": true}));
    }

    async fn send_expecting_tier(&mut self, after: i64, kind: &str, object: &Value, account: AccountId, tier: &str) {
        self.send(after, kind, object).await;
        assert_eq!(self.app.tier_of(account).await, tier, "after {kind} {}", object["status"]);
    }
}

/// Contract: billing 13, 14, 16, 21, 26; operators 5.
#[tokio::test]
async fn event_outcomes_are_counted() {
    let provider = CardProvider::start().await;
    let app = selling(&provider).set("metrics.scrape_token", TOKEN).start().await;
    let count =
        async |outcome: &str| value(&app, &format!("service_card_webhook_total{{outcome=\"{outcome}\"}}")).await;
    for outcome in [
        "handled",
        "duplicate",
        "ignored",
        "error",
        "signature_invalid",
        "signature_missing",
        "empty_body",
        "malformed_event",
    ] {
        assert!(count(outcome).await < 0.5, "{outcome} before the first event");
    }
    let sign = |body: &str| signature(body, WEBHOOK_SECRET, now());
    // An empty body is rejected before the signature is checked.
    for header in [None, Some(sign(""))] {
        app.deliver_card_event_signed_as("", header.as_deref()).await.problem(400, "bad-request");
    }
    assert!((count("empty_body").await - 2.0).abs() < 0.5);
    app.deliver_card_event_signed_as("{}", None).await.invalid("Stripe-Signature");
    assert!((count("signature_missing").await - 1.0).abs() < 0.5);
    let account = app.account(Tier::Free).await;
    let object = subscription("sub_1", account, "api_builder", "active");
    let good = event("evt_1", "customer.subscription.created", START, &object);
    let body = good.to_string();
    let altered = body.replace("api_builder", "enterprise_");
    for (body, header) in [
        (&body, signature(&body, "whsec_other", now())),
        (&body, signature(&body, WEBHOOK_SECRET, now() - 301)),
        (&body, signature(&body, WEBHOOK_SECRET, now() + 310)),
        (&altered, sign(&body)),
        (&body, format!("t={}", now())),
        (&body, "nonsense".to_owned()),
    ] {
        app.deliver_card_event_signed_as(body, Some(&header)).await.invalid("Stripe-Signature");
    }
    assert!((count("signature_invalid").await - 6.0).abs() < 0.5);
    let no_id = json!({"type": "invoice.paid", "created": 1, "data": {"object": {}}}).to_string();
    let no_invoice = event("evt_2", "invoice.paid", START, &json!({"amount_paid": 5})).to_string();
    for body in ["nonsense", "[]", "null", "{}", &no_id, &no_invoice] {
        app.deliver_card_event_signed_as(body, Some(&sign(body))).await.problem(400, "bad-request");
    }
    let long = " ".repeat((1 << 20) + 1);
    app.deliver_card_event_signed_as(&long, Some(&sign(&long))).await.problem(413, "payload-too-large");
    assert!((count("malformed_event").await - 7.0).abs() < 0.5);
    app.deliver_card_event(&event("evt_3", "charge.succeeded", START, &json!({"id": "ch_1"}))).await.expect(200);
    let unknown = subscription("sub_9", AccountId::generate(), "api_builder", "active");
    app.deliver_card_event(&event("evt_4", "customer.subscription.created", START, &unknown)).await.expect(200);
    let other_product = json!({"id": "cs_9", "mode": "payment", "customer": "cus_9", "payment_status": "paid"});
    app.deliver_card_event(&event("evt_5", "checkout.session.completed", START, &other_product)).await.expect(200);
    assert!((count("ignored").await - 3.0).abs() < 0.5);
    assert_eq!(app.tier_of(account).await, "free");
    app.deliver_card_event(&good).await.expect(200);
    for _ in 0..2 {
        app.deliver_card_event(&good).await.expect(200);
    }
    assert!((count("handled").await - 1.0).abs() < 0.5);
    assert!((count("duplicate").await - 2.0).abs() < 0.5);
    assert_eq!(app.moves(account).await, [("free".to_owned(), "api_builder".to_owned())]);
    sqlx::query("alter table card_subscriptions rename to away")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    let ended = event("evt_6", "customer.subscription.deleted", START + 9, &object);
    app.deliver_card_event(&ended).await.problem(500, "internal");
    assert!((count("error").await - 1.0).abs() < 0.5);
    sqlx::query("alter table away rename to card_subscriptions")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    app.deliver_card_event(&ended).await.expect(200);
    assert_eq!(app.tier_of(account).await, "free");
    app.stop().await;
}

/// Contract: billing 3, 18. Limits and API access change with it.
#[tokio::test]
async fn paid_checkout_changes_the_tier() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let key = app.client_of(person.account, &["account_owner"]).await;
    key.get("/v1/sessions").await.problem(403, "forbidden");
    let mut sender = EventSender::of(&app);
    let unpaid = checkout("sub_1", person.account, "api_starter", "unpaid");
    sender.send_expecting_tier(0, "checkout.session.completed", &unpaid, person.account, "free").await;
    assert_eq!(person.client.get(SUBSCRIPTION).await.expect(200).body["status"], "incomplete");
    let paid = checkout("sub_1", person.account, "api_starter", "paid");
    sender
        .send_expecting_tier(60, "checkout.session.async_payment_succeeded", &paid, person.account, "api_starter")
        .await;
    key.get("/v1/sessions").await.expect(200);
    let sessions = [key.session().await, key.session().await];
    key.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    let body = subscription("sub_1", person.account, "api_starter", "active");
    sender.send_expecting_tier(70, "customer.subscription.deleted", &body, person.account, "free").await;
    key.get("/v1/sessions").await.problem(403, "forbidden");
    for session in &sessions {
        assert_eq!(app.status_of(session).await, "ready");
    }
    let rows = app.audited(person.account, "subscription.tier_changed").await;
    assert!(
        rows.iter().all(|row| row.actor_type == "system" && row.actor_account_id.is_none() && row.ip_address.is_none())
    );
    let moved = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(app.moves(person.account).await, [moved("free", "api_starter"), moved("api_starter", "free")]);
    app.mail_number(2, &person.email, Template::TierChanged).await;
    app.stop().await;
}

/// Contract: billing 2. A tier that staff gave can be bought.
#[tokio::test]
async fn second_checkout_of_paid_tier_is_400() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::ApiStarter).await;
    check_out(&person.client, "api_starter", None).await.expect(201);
    let mut sender = EventSender::of(&app);
    let paid = checkout("sub_1", person.account, "api_starter", "paid");
    sender.send_expecting_tier(0, "checkout.session.completed", &paid, person.account, "api_starter").await;
    check_out(&person.client, "api_starter", None).await.invalid("tier");
    check_out(&person.client, "api_builder", None).await.expect(201);
    app.stop().await;
}

/// Contract: billing 4, 19. One whose first payment failed changes nothing.
#[tokio::test]
async fn subscription_status_decides_the_tier() {
    let (app, _provider) = shop().await;
    let mut sender = EventSender::of(&app);
    let mut second = 0;
    for (number, (status, at_first, then)) in [
        ("active", "api_builder", "api_builder"),
        ("trialing", "api_builder", "api_builder"),
        ("past_due", "solo_manual", "api_builder"),
        ("incomplete", "solo_manual", "api_builder"),
        ("something_new", "solo_manual", "api_builder"),
        ("unpaid", "free", "free"),
        ("canceled", "free", "free"),
        ("paused", "free", "free"),
        ("incomplete_expired", "solo_manual", "free"),
    ]
    .into_iter()
    .enumerate()
    {
        let account = app.account(Tier::SoloManual).await;
        let id = format!("sub_{number}");
        let (created, updated) = ("customer.subscription.created", "customer.subscription.updated");
        for (kind, status, tier) in [
            (created, status, at_first),
            (updated, status, at_first),
            (updated, "active", "api_builder"),
            (updated, status, then),
            (updated, "active", "api_builder"),
            (updated, "past_due", "api_builder"),
        ] {
            second += 1;
            let object = subscription(&id, account, "api_builder", status);
            sender.send_expecting_tier(second, kind, &object, account, tier).await;
        }
    }
    app.stop().await;
}

/// Contract: billing 4, 19, 20; staff 8. A subscription replaces it when it starts, is paid again after it lapsed, or changes
/// its tier.
#[tokio::test]
async fn tier_given_by_staff_stays_until_a_purchase() {
    let (app, _provider) = shop().await;
    let staff = app.staff().await;
    let mut sender = EventSender::of(&app);
    let (created, updated, deleted) =
        ("customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted");
    let give = async |account: AccountId, tier: &str| {
        let body = json!({"tier": tier, "reason": "as agreed"});
        staff.post(&format!("/v1/admin/accounts/{account}/tier"), body).await.expect(200);
    };

    // These subscriptions end before they gave a tier.
    for (number, (status, then)) in
        [("incomplete_expired", "enterprise"), ("unpaid", "free"), ("canceled", "free"), ("paused", "free")]
            .into_iter()
            .enumerate()
    {
        let account = app.account(Tier::Free).await;
        give(account, "enterprise").await;
        let (id, at) = (format!("sub_never_{number}"), 10 * i64::try_from(number).expect("few"));
        let begun = subscription(&id, account, "api_builder", "incomplete");
        sender.send_expecting_tier(at, created, &begun, account, "enterprise").await;
        let ends = subscription(&id, account, "api_builder", status);
        sender.send_expecting_tier(at + 1, updated, &ends, account, then).await;
        sender.send_expecting_tier(at + 2, deleted, &ends, account, then).await;
    }

    let account = app.account(Tier::Free).await;
    let with_status = |status: &str| subscription("sub_renewed", account, "api_builder", status);
    sender.send_expecting_tier(100, created, &with_status("active"), account, "api_builder").await;
    give(account, "enterprise").await;
    sender.send_expecting_tier(200, updated, &with_status("active"), account, "enterprise").await;
    sender.send_expecting_tier(210, updated, &with_status("past_due"), account, "enterprise").await;
    sender.send_expecting_tier(220, updated, &with_status("active"), account, "enterprise").await;
    // The paid checkout arrives late.
    let paid = checkout("sub_renewed", account, "api_builder", "paid");
    sender.send_expecting_tier(100, "checkout.session.completed", &paid, account, "enterprise").await;
    sender.send_expecting_tier(230, updated, &with_status("unpaid"), account, "free").await;
    sender.send_expecting_tier(240, updated, &with_status("active"), account, "api_builder").await;
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    let other = subscription("sub_renewed", account, "api_scale", "active");
    sender.send_expecting_tier(250, updated, &other, account, "api_scale").await;
    give(account, "free").await;
    sender.send_expecting_tier(260, updated, &other, account, "free").await;
    // The customer buys another subscription.
    let bought = checkout("sub_bought", account, "solo_manual", "paid");
    sender.send_expecting_tier(300, "checkout.session.completed", &bought, account, "solo_manual").await;
    give(account, "enterprise").await;
    sender
        .send_expecting_tier(
            400,
            deleted,
            &subscription("sub_bought", account, "solo_manual", "active"),
            account,
            "enterprise",
        )
        .await;
    sender.send_expecting_tier(410, deleted, &other, account, "enterprise").await;
    app.stop().await;
}

/// Contract: billing 4, 20. A tier given since then stays.
#[tokio::test]
async fn ended_subscription_removes_only_its_own_tier() {
    let (app, _provider) = shop().await;
    let mut sender = EventSender::of(&app);
    let account = app.account(Tier::Free).await;
    let (created, updated, deleted) =
        ("customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted");
    let mut first = subscription("sub_first", account, "solo_manual", "active");
    let mut second = subscription("sub_second", account, "api_builder", "active");
    second["created"] = json!(START + 100);
    sender.send_expecting_tier(0, created, &first, account, "solo_manual").await;
    sender.send_expecting_tier(100, created, &second, account, "api_builder").await;
    // The older subscription renews.
    sender.send_expecting_tier(200, updated, &first, account, "api_builder").await;
    first["status"] = json!("unpaid");
    sender.send_expecting_tier(300, updated, &first, account, "api_builder").await;
    first["status"] = json!("active");
    sender.send_expecting_tier(400, updated, &first, account, "api_builder").await;
    sender.send_expecting_tier(500, deleted, &second, account, "solo_manual").await;
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    sender.send_expecting_tier(600, deleted, &first, account, "enterprise").await;
    let third = subscription("sub_third", account, "solo_manual", "incomplete");
    sender.send_expecting_tier(700, deleted, &third, account, "enterprise").await;
    app.stop().await;
}

/// Contract: billing 17, 20.
#[tokio::test]
async fn early_end_event_keeps_the_other_subscription() {
    let (app, _provider) = shop().await;
    let mut sender = EventSender::of(&app);
    let account = app.account(Tier::Free).await;
    let first = subscription("sub_first", account, "solo_manual", "active");
    let mut second = subscription("sub_second", account, "api_builder", "past_due");
    second["created"] = json!(START + 100);
    let updated = "customer.subscription.updated";
    sender.send_expecting_tier(120, updated, &second, account, "free").await;
    sender.send_expecting_tier(0, "customer.subscription.created", &first, account, "solo_manual").await;
    sender.send_expecting_tier(130, "customer.subscription.deleted", &second, account, "solo_manual").await;
    second["status"] = json!("active");
    sender.send_expecting_tier(110, updated, &second, account, "solo_manual").await;
    assert_eq!(app.moves(account).await.len(), 1);
    app.stop().await;
}

/// Contract: billing 17. The subscription was paid before.
#[tokio::test]
async fn late_active_event_of_past_due_subscription_gives_tier() {
    let (app, _provider) = shop().await;
    let mut sender = EventSender::of(&app);
    let account = app.account(Tier::Free).await;
    let late = subscription("sub_1", account, "api_builder", "past_due");
    sender.send_expecting_tier(100, "customer.subscription.updated", &late, account, "free").await;
    let active = subscription("sub_1", account, "api_builder", "active");
    sender.send_expecting_tier(50, "customer.subscription.updated", &active, account, "api_builder").await;
    let client = app.client_of(account, &["account_owner"]).await;
    assert_eq!(client.get(SUBSCRIPTION).await.expect(200).body["status"], "past_due");
    app.stop().await;
}

/// Contract: billing 17. Fields that were unknown are still filled in.
#[tokio::test]
async fn late_events_change_no_tier() {
    let (app, _provider) = shop().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let mut sender = EventSender::of(&app);
    let (created, updated) = ("customer.subscription.created", "customer.subscription.updated");
    let paid = checkout("sub_1", account, "api_builder", "paid");
    sender.send_expecting_tier(100, "checkout.session.completed", &paid, account, "api_builder").await;
    let shown = client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!((&shown["status"], &shown["current_period_end"]), (&json!("active"), &Value::Null));
    // The late event contains the end of the period.
    let begun = subscription("sub_1", account, "api_builder", "incomplete");
    sender.send_expecting_tier(90, created, &begun, account, "api_builder").await;
    let unpaid = subscription("sub_1", account, "api_builder", "unpaid");
    sender.send_expecting_tier(95, updated, &unpaid, account, "api_builder").await;
    let shown = client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!(
        (&shown["status"], &shown["current_period_end"]),
        (&json!("active"), &json!("2026-10-21T14:13:20.000Z"))
    );
    // In the same second, an update follows the creation.
    let active = subscription("sub_1", account, "api_builder", "active");
    sender.send_expecting_tier(200, updated, &unpaid, account, "free").await;
    sender.send_expecting_tier(200, created, &active, account, "free").await;
    sender.send_expecting_tier(201, updated, &active, account, "api_builder").await;
    // The end may arrive before all other events.
    sender.send_expecting_tier(150, "customer.subscription.deleted", &active, account, "free").await;
    for after in [120, 300, 400] {
        sender.send_expecting_tier(after, updated, &active, account, "free").await;
        sender.send_expecting_tier(after, "checkout.session.completed", &paid, account, "free").await;
    }
    app.stop().await;
}

/// Contract: billing 9. Without a subscription the members are null.
#[tokio::test]
async fn subscription_is_shown_to_its_account() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let none = json!({"tier": "free", "status": null, "current_period_end": null, "cancel_at_period_end": null, "provider": null});
    let shown = person.client.get(SUBSCRIPTION).await.expect(200);
    assert_eq!((&shown.body, &shown.headers["cache-control"]), (&none, &"no-store".parse().expect("a header")));
    let mut sender = EventSender::of(&app);
    let mut object = subscription("sub_1", person.account, "api_builder", "active");
    object["cancel_at_period_end"] = json!(true);
    sender.send(0, "customer.subscription.created", &object).await;
    let shown = person.client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!(members(&shown), members(&none));
    assert_timestamp(&shown["current_period_end"]);
    assert_eq!((&shown["tier"], &shown["status"]), (&json!("api_builder"), &json!("active")));
    assert_eq!((&shown["cancel_at_period_end"], &shown["provider"]), (&json!(true), &json!("card")));
    let other = app.person(Tier::Free).await;
    assert_eq!(other.client.get(SUBSCRIPTION).await.expect(200).body, none);
    object["status"] = json!("canceled");
    sender.send(9, "customer.subscription.deleted", &object).await;
    let shown = person.client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!((&shown["tier"], &shown["status"]), (&json!("free"), &json!("canceled")));
    app.stop().await;
}

/// Contract: billing 16.
#[tokio::test]
async fn concurrent_deliveries_of_event_have_one_effect() {
    let (app, _provider) = shop().await;
    let account = app.account(Tier::Free).await;
    let object = subscription("sub_1", account, "api_builder", "active");
    let body = event("evt_1", "customer.subscription.created", START, &object).to_string();
    let header = signature(&body, WEBHOOK_SECRET, now());
    let stranger = app.stranger();
    let requests = (0..10).map(|_| {
        let request = stranger.request(reqwest::Method::POST, "/v1/billing/card-webhook");
        let request = request.header("stripe-signature", &header).body(body.clone());
        let stranger = stranger.clone();
        async move { stranger.send(request).await.expect(200) }
    });
    at_once(requests).await;
    assert_eq!(app.moves(account).await.len(), 1);
    assert_eq!(app.count("select count(*) from card_events").await, 1);
    app.stop().await;
}

/// Contract: billing 21; accounts 9.
#[tokio::test]
async fn events_do_not_change_deleted_accounts() {
    let (app, _provider) = shop().await;
    let account = app.account(Tier::SoloManual).await;
    app.execute("update accounts set status = 'deleted' where id = $1", account.as_uuid()).await;
    let object = subscription("sub_1", account, "api_builder", "active");
    EventSender::of(&app)
        .send_expecting_tier(0, "customer.subscription.created", &object, account, "solo_manual")
        .await;
    assert!(app.moves(account).await.is_empty());
    app.stop().await;
}
