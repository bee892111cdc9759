//! What the card provider tells, and what comes of it (contract: billing 13 to 21, 26).

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use kitfleet_domain::ids::AccountId;
use serde_json::{Value, json};

use super::{SUBSCRIPTION, check_out, selling, shop};
use crate::metrics::{TOKEN, value};
use crate::support::card_provider::{CardProvider, WEBHOOK_SECRET, event, now, signature};
use crate::support::{App, assert_timestamp, at_once, members};

/// When what is told begins.
const START: i64 = 1_790_000_000;

/// A subscription, as Stripe describes one.
pub fn subscription(id: &str, account: AccountId, tier: &str, status: &str) -> Value {
    json!({
        "id": id, "object": "subscription", "customer": format!("cus_of_{id}"), "status": status, "created": START,
        "cancel_at_period_end": false, "current_period_start": START, "current_period_end": START + 2_592_000,
        "metadata": {"account_id": account.to_string(), "tier": tier}, "items": {"object": "list", "data": []},
        "latest_invoice": "in_1", "livemode": false,
    })
}

/// A checkout that somebody has gone through.
pub fn checkout(subscription: &str, account: AccountId, tier: &str, payment_status: &str) -> Value {
    json!({
        "id": "cs_test_1", "object": "checkout.session", "mode": "subscription", "status": "complete",
        "payment_status": payment_status, "client_reference_id": account.to_string(), "customer": format!("cus_of_{subscription}"),
        "subscription": subscription, "metadata": {"account_id": account.to_string(), "tier": tier},
    })
}

/// Tells one thing after the other, each as an event of its own that happened so many seconds after the start.
struct Teller<'a> {
    app: &'a App,
    told: usize,
}

impl<'a> Teller<'a> {
    fn of(app: &'a App) -> Self {
        Self { app, told: 0 }
    }

    async fn tell(&mut self, after: i64, kind: &str, object: &Value) {
        self.told += 1;
        let event = event(&format!("evt_{}", self.told), kind, START + after, object);
        let answer = self.app.told_by_card(&event).await.expect(200);
        assert_eq!(answer.body, json!({"received": true}));
    }

    async fn stands(&mut self, after: i64, kind: &str, object: &Value, account: AccountId, tier: &str) {
        self.tell(after, kind, object).await;
        assert_eq!(self.app.tier_of(account).await, tier, "after {kind} {}", object["status"]);
    }
}

/// Contract: billing 13, 14, 16, 21, 26; operators 5. What is sent is judged in one order, and each end is counted.
#[tokio::test]
async fn each_end_of_an_event_is_counted() {
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
        assert!(count(outcome).await < 0.5, "{outcome} before anything came");
    }
    let sign = |body: &str| signature(body, WEBHOOK_SECRET, now());
    // What has no body is not looked at any further.
    for header in [None, Some(sign(""))] {
        app.told_by_somebody("", header.as_deref()).await.problem(400, "bad-request");
    }
    assert!((count("empty_body").await - 2.0).abs() < 0.5);
    app.told_by_somebody("{}", None).await.invalid("Stripe-Signature");
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
        app.told_by_somebody(body, Some(&header)).await.invalid("Stripe-Signature");
    }
    assert!((count("signature_invalid").await - 6.0).abs() < 0.5);
    let no_id = json!({"type": "invoice.paid", "created": 1, "data": {"object": {}}}).to_string();
    let no_invoice = event("evt_2", "invoice.paid", START, &json!({"amount_paid": 5})).to_string();
    for body in ["nonsense", "[]", "null", "{}", &no_id, &no_invoice] {
        app.told_by_somebody(body, Some(&sign(body))).await.problem(400, "bad-request");
    }
    let long = " ".repeat((1 << 20) + 1);
    app.told_by_somebody(&long, Some(&sign(&long))).await.problem(413, "payload-too-large");
    assert!((count("malformed_event").await - 7.0).abs() < 0.5);
    app.told_by_card(&event("evt_3", "charge.succeeded", START, &json!({"id": "ch_1"}))).await.expect(200);
    let unknown = subscription("sub_9", AccountId::generate(), "api_builder", "active");
    app.told_by_card(&event("evt_4", "customer.subscription.created", START, &unknown)).await.expect(200);
    let other_product = json!({"id": "cs_9", "mode": "payment", "customer": "cus_9", "payment_status": "paid"});
    app.told_by_card(&event("evt_5", "checkout.session.completed", START, &other_product)).await.expect(200);
    assert!((count("ignored").await - 3.0).abs() < 0.5);
    assert_eq!(app.tier_of(account).await, "free");
    app.told_by_card(&good).await.expect(200);
    for _ in 0..2 {
        app.told_by_card(&good).await.expect(200);
    }
    assert!((count("handled").await - 1.0).abs() < 0.5);
    assert!((count("duplicate").await - 2.0).abs() < 0.5);
    assert_eq!(app.moves(account).await, [("free".to_owned(), "api_builder".to_owned())]);
    // What fails on our side is told so, and comes again.
    sqlx::query("alter table card_subscriptions rename to away")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    let ended = event("evt_6", "customer.subscription.deleted", START + 9, &object);
    app.told_by_card(&ended).await.problem(500, "internal");
    assert!((count("error").await - 1.0).abs() < 0.5);
    sqlx::query("alter table away rename to card_subscriptions")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    app.told_by_card(&ended).await.expect(200);
    assert_eq!(app.tier_of(account).await, "free");
    app.stop().await;
}

/// Contract: billing 3, 18. A checkout that was paid moves the account at once: caps and API access follow, live sessions stay, and
/// the log and the mailbox have it.
#[tokio::test]
async fn a_checkout_that_is_paid_moves_the_account() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let key = app.client_of(person.account, &["account_owner"]).await;
    key.get("/v1/sessions").await.problem(403, "forbidden");
    let mut teller = Teller::of(&app);
    let unpaid = checkout("sub_1", person.account, "api_starter", "unpaid");
    teller.stands(0, "checkout.session.completed", &unpaid, person.account, "free").await;
    assert_eq!(person.client.get(SUBSCRIPTION).await.expect(200).body["status"], "incomplete");
    let paid = checkout("sub_1", person.account, "api_starter", "paid");
    teller.stands(60, "checkout.session.async_payment_succeeded", &paid, person.account, "api_starter").await;
    key.get("/v1/sessions").await.expect(200);
    let sessions = [key.session().await, key.session().await];
    key.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    let body = subscription("sub_1", person.account, "api_starter", "active");
    teller.stands(70, "customer.subscription.deleted", &body, person.account, "free").await;
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

/// Contract: billing 2. Who pays for a tier cannot buy it twice; whoever has it otherwise can.
#[tokio::test]
async fn a_tier_is_paid_for_once() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::ApiStarter).await;
    check_out(&person.client, "api_starter", None).await.expect(201);
    let mut teller = Teller::of(&app);
    let paid = checkout("sub_1", person.account, "api_starter", "paid");
    teller.stands(0, "checkout.session.completed", &paid, person.account, "api_starter").await;
    check_out(&person.client, "api_starter", None).await.invalid("tier");
    check_out(&person.client, "api_builder", None).await.expect(201);
    app.stop().await;
}

/// Contract: billing 4, 19. Each status of a subscription says what becomes of the tier; one whose first payment never came takes none.
#[tokio::test]
async fn a_subscriptions_status_decides() {
    let (app, _provider) = shop().await;
    let mut teller = Teller::of(&app);
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
            teller.stands(second, kind, &object, account, tier).await;
        }
    }
    app.stop().await;
}

/// Contract: billing 4, 19, 20; staff 8. A tier that staff or a command gave stays while a subscription goes on or is deleted, or never came
/// about; one that begins, or is paid again after it gave nothing any more, or is for another tier now, takes it, and so does one that
/// is not paid any more.
#[tokio::test]
async fn what_staff_gave_stays_until_something_is_bought() {
    let (app, _provider) = shop().await;
    let staff = app.staff().await;
    let mut teller = Teller::of(&app);
    let (created, updated, deleted) =
        ("customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted");
    let give = async |account: AccountId, tier: &str| {
        let body = json!({"tier": tier, "reason": "as was agreed"});
        staff.post(&format!("/v1/admin/accounts/{account}/tier"), body).await.expect(200);
    };

    // What never gave anything ends, for want of a first payment or otherwise.
    for (number, (status, then)) in
        [("incomplete_expired", "enterprise"), ("unpaid", "free"), ("canceled", "free"), ("paused", "free")]
            .into_iter()
            .enumerate()
    {
        let account = app.account(Tier::Free).await;
        give(account, "enterprise").await;
        let (id, at) = (format!("sub_never_{number}"), 10 * i64::try_from(number).expect("few"));
        let begun = subscription(&id, account, "api_builder", "incomplete");
        teller.stands(at, created, &begun, account, "enterprise").await;
        let ends = subscription(&id, account, "api_builder", status);
        teller.stands(at + 1, updated, &ends, account, then).await;
        teller.stands(at + 2, deleted, &ends, account, then).await;
    }

    // What gave something goes on, and ends.
    let account = app.account(Tier::Free).await;
    let stands = |status: &str| subscription("sub_renewed", account, "api_builder", status);
    teller.stands(100, created, &stands("active"), account, "api_builder").await;
    give(account, "enterprise").await;
    teller.stands(200, updated, &stands("active"), account, "enterprise").await;
    teller.stands(210, updated, &stands("past_due"), account, "enterprise").await;
    teller.stands(220, updated, &stands("active"), account, "enterprise").await;
    // It is told late that it was paid.
    let paid = checkout("sub_renewed", account, "api_builder", "paid");
    teller.stands(100, "checkout.session.completed", &paid, account, "enterprise").await;
    teller.stands(230, updated, &stands("unpaid"), account, "free").await;
    // Whoever pays again has what they pay for.
    teller.stands(240, updated, &stands("active"), account, "api_builder").await;
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    let other = subscription("sub_renewed", account, "api_scale", "active");
    teller.stands(250, updated, &other, account, "api_scale").await;
    give(account, "free").await;
    teller.stands(260, updated, &other, account, "free").await;
    // Another one is bought.
    let bought = checkout("sub_bought", account, "solo_manual", "paid");
    teller.stands(300, "checkout.session.completed", &bought, account, "solo_manual").await;
    give(account, "enterprise").await;
    teller
        .stands(400, deleted, &subscription("sub_bought", account, "solo_manual", "active"), account, "enterprise")
        .await;
    teller.stands(410, deleted, &other, account, "enterprise").await;
    app.stop().await;
}

/// Contract: billing 4, 20. A subscription takes back what it gave, and nothing that somebody else has given since; where another
/// one goes on, the account has that one's tier.
#[tokio::test]
async fn a_subscription_takes_back_what_it_gave() {
    let (app, _provider) = shop().await;
    let mut teller = Teller::of(&app);
    let account = app.account(Tier::Free).await;
    let (created, updated, deleted) =
        ("customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted");
    let mut first = subscription("sub_first", account, "solo_manual", "active");
    let mut second = subscription("sub_second", account, "api_builder", "active");
    second["created"] = json!(START + 100);
    teller.stands(0, created, &first, account, "solo_manual").await;
    teller.stands(100, created, &second, account, "api_builder").await;
    // The older one goes on, and says so.
    teller.stands(200, updated, &first, account, "api_builder").await;
    first["status"] = json!("unpaid");
    teller.stands(300, updated, &first, account, "api_builder").await;
    first["status"] = json!("active");
    teller.stands(400, updated, &first, account, "api_builder").await;
    teller.stands(500, deleted, &second, account, "solo_manual").await;
    // Staff have given it something else meanwhile.
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    teller.stands(600, deleted, &first, account, "enterprise").await;
    // One that ends without having given anything.
    let third = subscription("sub_third", account, "solo_manual", "incomplete");
    teller.stands(700, deleted, &third, account, "enterprise").await;
    app.stop().await;
}

/// Contract: billing 17, 20. The end of a subscription that is told before it ever gave anything leaves the account where another has it.
#[tokio::test]
async fn an_end_that_is_told_first_leaves_the_other() {
    let (app, _provider) = shop().await;
    let mut teller = Teller::of(&app);
    let account = app.account(Tier::Free).await;
    let first = subscription("sub_first", account, "solo_manual", "active");
    let mut second = subscription("sub_second", account, "api_builder", "past_due");
    second["created"] = json!(START + 100);
    let updated = "customer.subscription.updated";
    teller.stands(120, updated, &second, account, "free").await;
    teller.stands(0, "customer.subscription.created", &first, account, "solo_manual").await;
    teller.stands(130, "customer.subscription.deleted", &second, account, "solo_manual").await;
    second["status"] = json!("active");
    teller.stands(110, updated, &second, account, "solo_manual").await;
    assert_eq!(app.moves(account).await.len(), 1);
    app.stop().await;
}

/// Contract: billing 17. A subscription that is past due was paid before, also when that is told later.
#[tokio::test]
async fn what_is_past_due_was_paid() {
    let (app, _provider) = shop().await;
    let mut teller = Teller::of(&app);
    let account = app.account(Tier::Free).await;
    let late = subscription("sub_1", account, "api_builder", "past_due");
    teller.stands(100, "customer.subscription.updated", &late, account, "free").await;
    let active = subscription("sub_1", account, "api_builder", "active");
    teller.stands(50, "customer.subscription.updated", &active, account, "api_builder").await;
    let client = app.client_of(account, &["account_owner"]).await;
    assert_eq!(client.get(SUBSCRIPTION).await.expect(200).body["status"], "past_due");
    app.stop().await;
}

/// Contract: billing 17. What is told late changes nothing, and what has ended is final; what was not known is learned all the same.
#[tokio::test]
async fn an_older_event_changes_nothing() {
    let (app, _provider) = shop().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let mut teller = Teller::of(&app);
    let (created, updated) = ("customer.subscription.created", "customer.subscription.updated");
    let paid = checkout("sub_1", account, "api_builder", "paid");
    teller.stands(100, "checkout.session.completed", &paid, account, "api_builder").await;
    let shown = client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!((&shown["status"], &shown["current_period_end"]), (&json!("active"), &Value::Null));
    // It was told late, and it alone has the period's end.
    let begun = subscription("sub_1", account, "api_builder", "incomplete");
    teller.stands(90, created, &begun, account, "api_builder").await;
    let unpaid = subscription("sub_1", account, "api_builder", "unpaid");
    teller.stands(95, updated, &unpaid, account, "api_builder").await;
    let shown = client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!(
        (&shown["status"], &shown["current_period_end"]),
        (&json!("active"), &json!("2026-10-21T14:13:20.000Z"))
    );
    // Of what happened in one second a change came after the beginning.
    let active = subscription("sub_1", account, "api_builder", "active");
    teller.stands(200, updated, &unpaid, account, "free").await;
    teller.stands(200, created, &active, account, "free").await;
    teller.stands(201, updated, &active, account, "api_builder").await;
    // The end may be told before all else.
    teller.stands(150, "customer.subscription.deleted", &active, account, "free").await;
    for after in [120, 300, 400] {
        teller.stands(after, updated, &active, account, "free").await;
        teller.stands(after, "checkout.session.completed", &paid, account, "free").await;
    }
    app.stop().await;
}

/// Contract: billing 9. The subscription is shown as it stands, and without one there is nothing to show.
#[tokio::test]
async fn a_subscription_is_shown() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let none = json!({"tier": "free", "status": null, "current_period_end": null, "cancel_at_period_end": null, "provider": null});
    let shown = person.client.get(SUBSCRIPTION).await.expect(200);
    assert_eq!((&shown.body, &shown.headers["cache-control"]), (&none, &"no-store".parse().expect("a header")));
    let mut teller = Teller::of(&app);
    let mut object = subscription("sub_1", person.account, "api_builder", "active");
    object["cancel_at_period_end"] = json!(true);
    teller.tell(0, "customer.subscription.created", &object).await;
    let shown = person.client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!(members(&shown), members(&none));
    assert_timestamp(&shown["current_period_end"]);
    assert_eq!((&shown["tier"], &shown["status"]), (&json!("api_builder"), &json!("active")));
    assert_eq!((&shown["cancel_at_period_end"], &shown["provider"]), (&json!(true), &json!("card")));
    // It is the account's own, whatever header there is, and nobody else's.
    let other = app.person(Tier::Free).await;
    assert_eq!(other.client.get(SUBSCRIPTION).await.expect(200).body, none);
    object["status"] = json!("canceled");
    teller.tell(9, "customer.subscription.deleted", &object).await;
    let shown = person.client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!((&shown["tier"], &shown["status"]), (&json!("free"), &json!("canceled")));
    app.stop().await;
}

/// Contract: billing 16. The same event many times at once does what it does once.
#[tokio::test]
async fn an_event_that_comes_at_once_is_one() {
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

/// Contract: billing 21; accounts 9. A deleted account is told nothing any more.
#[tokio::test]
async fn a_deleted_account_stays_as_it_was() {
    let (app, _provider) = shop().await;
    let account = app.account(Tier::SoloManual).await;
    app.execute("update accounts set status = 'deleted' where id = $1", account.as_uuid()).await;
    let object = subscription("sub_1", account, "api_builder", "active");
    Teller::of(&app).stands(0, "customer.subscription.created", &object, account, "solo_manual").await;
    assert!(app.moves(account).await.is_empty());
    app.stop().await;
}
