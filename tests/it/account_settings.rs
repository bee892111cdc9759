//! Password, e-mail address, linked identities and plans of an account (contract: accounts 12, 13; identities 10; billing 44).

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::people::PASSWORD;
use crate::support::{App, unknown_id};

const PASSWORD_ROUTE: &str = "/v1/account/password";
const EMAIL: &str = "/v1/account/email";
const CONFIRM: &str = "/v1/account/email/confirm";
const ME: &str = "/v1/account/me";
const OTHER: &str = "staple correct horse";

/// Contract: accounts 12.
#[tokio::test]
async fn password_change_ends_other_web_sessions() {
    let app = App::simulated().start().await;
    let person = app.person(Tier::Free).await;
    let elsewhere = app.device_of(person.account).await;
    let change = |current: &str, new: &str| json!({"current_password": current, "new_password": new});
    person.client.post(PASSWORD_ROUTE, change("wrong", OTHER)).await.invalid("current_password");
    person.client.post(PASSWORD_ROUTE, change(PASSWORD, "short")).await.invalid("new_password");
    elsewhere.get(ME).await.expect(200);
    person.client.post(PASSWORD_ROUTE, change(PASSWORD, OTHER)).await.expect(204);
    elsewhere.get(ME).await.problem(401, "unauthorized");
    person.client.get(ME).await.expect(200);
    app.log_in(&person.email, PASSWORD).await.problem(401, "unauthorized");
    app.log_in(&person.email, OTHER).await.expect(200);
    let changed = app.audited(person.account, "account.password_changed").await;
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].payload["via"], "password_change");
    let program = app.client_of(person.account, &["account_owner"]).await;
    program.post(PASSWORD_ROUTE, change(OTHER, PASSWORD)).await.problem(403, "forbidden");
    app.stop().await;
}

/// Contract: accounts 12, 13. An enrolled account proves its second factor first.
#[tokio::test]
async fn enrolled_account_steps_up_to_change_credentials() {
    let app = App::simulated().with_second_factors().start().await;
    let person = app.person(Tier::Free).await;
    app.enroll(&person).await;
    let password = json!({"current_password": PASSWORD, "new_password": OTHER});
    person.client.post(PASSWORD_ROUTE, password.clone()).await.problem(403, "mfa-step-up-required");
    let email = json!({"email": "new@example.org", "password": PASSWORD});
    person.client.post(EMAIL, email).await.problem(403, "mfa-step-up-required");
    app.prove(&person).await;
    person.client.post(PASSWORD_ROUTE, password).await.expect(204);
    app.stop().await;
}

/// Contract: accounts 13.
#[tokio::test]
async fn email_change_is_confirmed_by_the_new_address() {
    let app = App::simulated().start().await;
    let person = app.person(Tier::Free).await;
    let new = format!("{}@example.org", Uuid::now_v7().simple());
    person.client.post(EMAIL, json!({"email": new, "password": "wrong"})).await.invalid("password");
    person.client.post(EMAIL, json!({"email": "x", "password": PASSWORD})).await.invalid("email");
    let sent = person.client.post(EMAIL, json!({"email": new, "password": PASSWORD})).await.expect(202);
    assert_eq!(sent.body, json!({"sent": true}));
    let token = app.mail_to(&new, Template::ChangeEmail).await.token;
    assert_eq!(person.client.get(ME).await.expect(200).body["email"], person.email.as_str());

    let stranger = app.stranger();
    stranger.post(CONFIRM, json!({"token": "none"})).await.invalid("token");
    let confirmed = stranger.post(CONFIRM, json!({"token": token})).await.expect(200);
    assert_eq!(confirmed.body, json!({"email": new}));
    stranger.post(CONFIRM, json!({"token": token})).await.invalid("token");
    assert_eq!(person.client.get(ME).await.expect(200).body["email"], new.as_str());
    app.mail_to(&person.email, Template::EmailChanged).await;
    app.log_in(&new, PASSWORD).await.expect(200);
    app.log_in(&person.email, PASSWORD).await.problem(401, "unauthorized");
    let changed = app.audited(person.account, "account.email_changed").await;
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].payload, json!({"previous_email": person.email, "email": new}));
    app.stop().await;
}

/// Contract: accounts 13. The caller learns nothing of the address.
#[tokio::test]
async fn email_of_another_account_changes_nothing() {
    let app = App::simulated().start().await;
    let (person, other) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let sent = person.client.post(EMAIL, json!({"email": other.email, "password": PASSWORD})).await.expect(202);
    assert_eq!(sent.body, json!({"sent": true}));
    app.mail_to(&other.email, Template::EmailHasAccount).await;
    assert_eq!(person.client.get(ME).await.expect(200).body["email"], person.email.as_str());
    app.stop().await;
}

/// Contract: identities 10.
#[tokio::test]
async fn linked_identity_can_be_removed() {
    let app = App::simulated().start().await;
    let (person, other) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let link = "insert into identities (provider, subject, account_id) values ('acme', gen_random_uuid()::text, $1)";
    app.execute(link, person.account.as_uuid()).await;
    let listed = person.client.get("/v1/account/identities").await.expect(200).body;
    let identity = &listed["data"][0];
    assert_eq!((&identity["provider"], &identity["display_name"]), (&json!("acme"), &Value::Null));
    let path = format!("/v1/account/identities/{}", identity["id"].as_str().expect("an id"));
    other.client.delete(&path).await.problem(404, "not-found");
    person.client.delete(&format!("/v1/account/identities/{}", unknown_id("idn"))).await.problem(404, "not-found");
    person.client.delete(&path).await.expect(204);
    person.client.delete(&path).await.problem(404, "not-found");
    assert_eq!(person.client.get("/v1/account/identities").await.expect(200).body, json!({"data": []}));
    app.stop().await;
}

/// Contract: billing 44. Tiers without a price cannot be bought.
#[tokio::test]
async fn plans_have_prices_and_limits() {
    let app = App::simulated().set("billing.prices.api_builder", "9900").start().await;
    let plans = app.client().await.get("/v1/billing/plans").await.expect(200).body;
    let plans = plans["data"].as_array().expect("plans");
    assert_eq!(plans.len(), Tier::NAMES.len());
    let of = |tier: &str| plans.iter().find(|plan| plan["tier"] == tier).expect("a plan");
    let builder = of("api_builder");
    assert_eq!((&builder["price_cents"], &builder["purchasable"]), (&json!(9900), &json!(true)));
    assert_eq!((&builder["currency"], &builder["period"]), (&json!("usd"), &json!("month")));
    assert!(builder["limits"]["concurrent_sessions"].as_u64() > Some(0));
    let free = of("free");
    assert_eq!((&free["price_cents"], &free["purchasable"]), (&Value::Null, &json!(false)));
    app.stop().await;
}
