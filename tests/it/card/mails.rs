//! Mails about card payments (contract: billing 22 to 25; emails 13). Each is sent once, for any number of events.

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use super::events::{checkout, subscription};
use super::shop;
use crate::support::App;
use crate::support::card_provider::event;

const START: i64 = 1_790_000_000;

fn invoice(id: &str, account: Option<AccountId>, customer: &str, amount: i64) -> Value {
    let mut invoice = json!({
        "id": id, "object": "invoice", "customer": customer, "subscription": "sub_1", "amount_paid": amount, "amount_due": amount,
        "total": amount, "currency": "usd", "attempt_count": 1, "period_end": START,
    });
    if let Some(account) = account {
        invoice["subscription_details"] =
            json!({"metadata": {"account_id": account.to_string(), "tier": "api_builder"}});
    }
    invoice
}

impl App {
    async fn invoiced(&self, id: &str, kind: &str, invoice: &Value) {
        self.deliver_card_event(&event(id, kind, START, invoice)).await.expect(200);
    }

    /// Includes mails that are later skipped because the reader opted out.
    async fn written(&self, template: Template) -> i64 {
        let count = sqlx::query_scalar("select count(*) from emails where template = $1").bind(template.name());
        count.fetch_one(&self.database.pool).await.expect("the mails")
    }
}

/// Contract: billing 22. Several event types report it. A charge of zero has none.
#[tokio::test]
async fn charge_has_one_receipt() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::ApiBuilder).await;
    let paid = invoice("in_1", Some(person.account), "cus_1", 19_900);
    for (id, kind) in [
        ("evt_1", "invoice.paid"),
        ("evt_1", "invoice.paid"),
        ("evt_2", "invoice.payment_succeeded"),
        ("evt_3", "invoice.paid"),
    ] {
        app.invoiced(id, kind, &paid).await;
    }
    let nothing = invoice("in_2", Some(person.account), "cus_1", 0);
    app.invoiced("evt_4", "invoice.paid", &nothing).await;
    let mail = app.mail_to(&person.email, Template::PaymentReceipt).await;
    assert!(mail.text.contains("199.00 USD"), "{}", mail.text);
    assert!(mail.text.contains("billing-receipt"), "the mail explains how to opt out: {}", mail.text);
    assert_eq!(app.written(Template::PaymentReceipt).await, 1);
    let mut yen = invoice("in_3", Some(person.account), "cus_1", 500);
    yen["currency"] = json!("jpy");
    app.invoiced("evt_5", "invoice.paid", &yen).await;
    let mail = app.mail_number(2, &person.email, Template::PaymentReceipt).await;
    assert!(mail.text.contains(" 500 JPY"), "{}", mail.text);
    let opted_out = json!({"event_type": "billing-receipt", "opted_in": false});
    person
        .client
        .send(person.client.request(reqwest::Method::PUT, "/v1/account/email-preferences").json(&opted_out))
        .await
        .expect(200);
    app.invoiced("evt_6", "invoice.paid", &invoice("in_4", Some(person.account), "cus_1", 100)).await;
    // This mail cannot be opted out of. Its arrival shows that the earlier receipt was skipped.
    app.invoiced("evt_7", "invoice.payment_failed", &invoice("in_5", Some(person.account), "cus_1", 100)).await;
    app.mail_to(&person.email, Template::PaymentFailed).await;
    crate::support::eventually(std::time::Duration::from_secs(20), "all mails are done", async || {
        (app.count("select count(*) from emails where status <> 'done'").await == 0).then_some(())
    })
    .await;
    assert_eq!(app.mails_to(&person.email, Template::PaymentReceipt).len(), 2);
    app.stop().await;
}

/// Contract: billing 23. The tier stays.
#[tokio::test]
async fn each_failed_attempt_is_mailed_once() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::ApiBuilder).await;
    let mut failed = invoice("in_1", Some(person.account), "cus_1", 19_900);
    failed["amount_paid"] = json!(0);
    for (number, attempt) in [1, 1, 2, 2, 3].into_iter().enumerate() {
        failed["attempt_count"] = json!(attempt);
        app.invoiced(&format!("evt_{number}"), "invoice.payment_failed", &failed).await;
    }
    let mail = app.mail_number(3, &person.email, Template::PaymentFailed).await;
    assert!(mail.text.contains("199.00 USD") && !mail.text.contains("opt out"), "{}", mail.text);
    assert_eq!(app.written(Template::PaymentFailed).await, 3);
    assert_eq!(app.tier_of(person.account).await, "api_builder");
    app.stop().await;
}

/// Contract: billing 24.
#[tokio::test]
async fn renewal_is_announced_once_per_period() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::ApiBuilder).await;
    let mut coming = invoice("in_1", Some(person.account), "cus_1", 19_900);
    coming.as_object_mut().expect("an object").remove("id");
    for (number, end) in [START, START, START + 2_592_000].into_iter().enumerate() {
        coming["period_end"] = json!(end);
        app.invoiced(&format!("evt_{number}"), "invoice.upcoming", &coming).await;
    }
    let mail = app.mail_number(2, &person.email, Template::RenewalReminder).await;
    assert!(mail.text.contains("in 7 days") && mail.text.contains("199.00 USD"), "{}", mail.text);
    assert!(mail.text.contains("billing-renewal-reminder"), "{}", mail.text);
    assert_eq!(app.written(Template::RenewalReminder).await, 2);
    app.stop().await;
}

/// Contract: billing 25. It is mailed once.
#[tokio::test]
async fn early_invoice_waits_for_its_customer() {
    let (app, _provider) = shop().await;
    let person = app.person(Tier::Free).await;
    let early = invoice("in_1", None, "cus_of_sub_1", 19_900);
    app.invoiced("evt_1", "invoice.payment_succeeded", &early).await;
    app.invoiced("evt_2", "invoice.paid", &early).await;
    app.invoiced("evt_3", "invoice.paid", &invoice("in_9", None, "cus_of_others", 100)).await;
    assert_eq!(app.written(Template::PaymentReceipt).await, 0);
    let begun = subscription("sub_1", person.account, "api_builder", "active");
    app.invoiced("evt_4", "customer.subscription.created", &begun).await;
    let bought = checkout("sub_1", person.account, "api_builder", "paid");
    app.invoiced("evt_5", "checkout.session.completed", &bought).await;
    app.mail_to(&person.email, Template::PaymentReceipt).await;
    // The customer is known now.
    app.invoiced("evt_6", "invoice.paid", &early).await;
    app.invoiced("evt_7", "invoice.paid", &invoice("in_2", None, "cus_of_sub_1", 19_900)).await;
    app.mail_number(2, &person.email, Template::PaymentReceipt).await;
    assert_eq!(app.written(Template::PaymentReceipt).await, 2);
    assert_eq!(app.tier_of(person.account).await, "api_builder");
    app.stop().await;
}
