//! Mails about secrets of webhook endpoints (contract: emails 8; command-line 9).

use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::{App, Client, at_once, commands, eventually};

const REMINDER: Template = Template::WebhookSecretReminder;
const GRACE: Template = Template::WebhookSecretGraceExpiring;

async fn endpoint(client: &Client) -> String {
    let body =
        json!({"url": "https://customer.example/hook", "events": ["session.failed"], "description": "Production"});
    let created = client.post("/v1/webhooks", body).await.expect(201).body;
    created["id"].as_str().expect("an id").to_owned()
}

async fn rotate(client: &Client, endpoint: &str) {
    client.post(&format!("/v1/webhooks/{endpoint}/rotate-secret"), json!({})).await.expect(200);
}

impl App {
    /// 60 days.
    async fn make_old(&self, endpoint: &str) {
        let statement = "update webhook_endpoints set secret_made_at = now() - interval '60 days' where id = $1";
        self.execute(statement, uuid_of(endpoint)).await;
    }

    async fn sweep(&self) -> Value {
        self.run(&["sweep", "webhook-secrets", "--json"]).await.code(0).json()
    }

    /// Skipped mails count, because the address is looked up when a mail is sent.
    async fn queued_mails(&self, template: Template) -> i64 {
        let count = sqlx::query_scalar("select count(*) from emails where template = $1").bind(template.name());
        count.fetch_one(&self.database.pool).await.expect("a count")
    }
}

/// Contract: emails 8; webhooks 13. The secret is 60 days old, and the mail is sent once also with concurrent sweeps.
#[tokio::test]
async fn owner_of_old_secret_is_reminded_once() {
    let app = App::simulated().start().await;
    let owner = app.account(Tier::Enterprise).await;
    let (client, address) = (app.client_of(owner, &["account_owner"]).await, app.address_of(owner).await);
    let (old, paused, young) = (endpoint(&client).await, endpoint(&client).await, endpoint(&client).await);
    let (deleted, disabled) = (endpoint(&client).await, endpoint(&client).await);
    let patch = client.request(reqwest::Method::PATCH, &format!("/v1/webhooks/{paused}"));
    client.send(patch.json(&json!({"active": false}))).await.expect(200);
    client.delete(&format!("/v1/webhooks/{deleted}")).await.expect(204);
    app.execute("update webhook_endpoints set disabled_at = now() where id = $1", uuid_of(&disabled)).await;
    let suspended = app.account(Tier::Enterprise).await;
    let of_suspended = endpoint(&app.client_of(suspended, &["account_owner"]).await).await;
    app.run(&["account", "suspend", &suspended.to_string()]).await.code(0);
    let nearly = "update webhook_endpoints set secret_made_at = now() - interval '59 days 23 hours' where id = $1";
    app.execute(nearly, uuid_of(&young)).await;
    for endpoint in [&old, &paused, &deleted, &disabled, &of_suspended] {
        app.make_old(endpoint).await;
    }

    let sweeps = (0..4).map(|_| {
        let command = app.command(&["sweep", "webhook-secrets", "--json"]);
        async move { commands::run(command, "").await.code(0).json() }
    });
    let swept = at_once(sweeps).await;
    // The service's own scheduled job may have run first.
    let mailed: i64 = swept.iter().map(|swept| swept["old_secrets"].as_i64().expect("a number")).sum();
    assert!(mailed <= 2, "{swept:?}");
    let mail = app.mail_number(2, &address, REMINDER).await;
    let texts: String = app.mails_to(&address, REMINDER).into_iter().map(|mail| mail.text).collect();
    assert!(texts.contains(&old) && texts.contains(&paused), "{texts}");
    assert!(mail.text.contains("60 days old") && mail.subject.contains("secret"), "{}", mail.text);
    for customers in ["customer.example", "Production", "opt out"] {
        assert!(!mail.raw.contains(customers), "{}", mail.raw);
    }
    assert_eq!(app.sweep().await, json!({"old_secrets": 0, "ending_graces": 0}));
    assert_eq!(app.queued_mails(REMINDER).await, 2);

    rotate(&client, &old).await;
    app.sweep().await;
    assert_eq!(app.queued_mails(REMINDER).await, 2);
    app.make_old(&old).await;
    app.sweep().await;
    assert_eq!(app.queued_mails(REMINDER).await, 3);
    app.stop().await;
}

/// Contract: emails 8; webhooks 13.
#[tokio::test]
async fn owner_is_mailed_before_the_grace_period_ends() {
    let app = App::simulated().start().await;
    let owner = app.account(Tier::Enterprise).await;
    let (client, address) = (app.client_of(owner, &["account_owner"]).await, app.address_of(owner).await);
    let id = endpoint(&client).await;
    app.sweep().await;
    assert_eq!(app.queued_mails(GRACE).await, 0);
    rotate(&client, &id).await;
    app.sweep().await;
    app.sweep().await;
    let mail = app.mail_to(&address, GRACE).await;
    assert!(mail.text.contains(&id) && mail.text.contains("another 24 hours"), "{}", mail.text);
    assert!(!mail.raw.contains("customer.example") && !mail.raw.contains("opt out"), "{}", mail.raw);
    assert_eq!(app.queued_mails(GRACE).await, 1);

    // For a longer grace period the mail is sent in its last 24 hours, and not after its end.
    rotate(&client, &id).await;
    let longer = "update webhook_endpoints set grace_expires_at = now() + interval '30 hours', grace_told_at = null
                  where id = $1";
    app.execute(longer, uuid_of(&id)).await;
    let before = app.queued_mails(GRACE).await;
    app.sweep().await;
    assert_eq!(app.queued_mails(GRACE).await, before);
    let over = "update webhook_endpoints set grace_expires_at = now() where id = $1";
    app.execute(over, uuid_of(&id)).await;
    app.sweep().await;
    assert_eq!(app.queued_mails(GRACE).await, before);
    let later = "update webhook_endpoints set grace_expires_at = now() + interval '7 hours' where id = $1";
    app.execute(later, uuid_of(&id)).await;

    // The scheduled job sends the mail; its next run is set to now.
    let tick = "update apalis.jobs set run_at = now()
                where status = 'Pending' and idempotency_key like 'remind_webhook_secrets:%'";
    eventually(Duration::from_secs(20), "the next scheduled job is pending", async || {
        let hurried = sqlx::query(tick).execute(&app.database.pool).await.expect("a statement");
        (hurried.rows_affected() > 0).then_some(())
    })
    .await;
    let count = usize::try_from(before).expect("few") + 1;
    let mail = app.mail_number(count, &address, GRACE).await;
    assert!(mail.text.contains("another 7 hours"), "{}", mail.text);
    app.stop().await;
}
