//! Status of each component and its history (contract: status 1 to 9, 23, 24).

use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::posted;
use crate::outages::{let_in, server_of};
use crate::support::sink::Sink;
use crate::support::smtp::MailServer;
use crate::support::{App, Client, Role, assert_timestamp, at_once, eventually};
use crate::webhooks::{create, id_of, send_test};

const COMPONENTS: [&str; 5] = ["api", "workers", "webhooks", "mail", "database"];

impl App {
    async fn wait_for_state(&self, component: &str, state: &str) {
        eventually(Duration::from_secs(40), &format!("{component} is {state}"), async || {
            (state_of(&self.shown().await, component) == state).then_some(())
        })
        .await;
    }
}

fn state_of<'a>(shown: &'a Value, component: &str) -> &'a str {
    let mut components = shown["components"].as_array().expect("components").iter();
    let found = components.find(|one| one["name"] == component).expect("a component");
    found["state"].as_str().expect("a state")
}

/// Contract: status 1, 2, 7 to 9; retention 13. Days without samples are included.
#[tokio::test]
async fn components_and_90_days_are_shown() {
    let app = App::simulated().start().await;
    for component in COMPONENTS {
        app.wait_for_state(component, "operational").await;
    }
    let days = "insert into status_days (day, component, samples, degraded, partial, major)
                select (now() at time zone 'utc')::date - back, 'mail', 1440, 10, partial, major
                from (values (1, 0, 0), (2, 36, 36), (89, 36, 0), (90, 0, 0)) as days (back, partial, major)";
    sqlx::query(days).execute(&app.database.pool).await.expect("days");
    let shown = eventually(Duration::from_secs(20), "the days are shown", async || {
        let shown = app.shown().await;
        (shown["history"][1]["components"][3]["samples"] == 1440).then_some(shown)
    })
    .await;
    assert_timestamp(&shown["measured_at"]);
    assert_eq!((&shown["status"], &shown["incidents"]), (&json!("operational"), &json!([])));
    let components = shown["components"].as_array().expect("components");
    assert!(components.iter().map(|one| one["name"].as_str().expect("a name")).eq(COMPONENTS), "{components:?}");
    let history = shown["history"].as_array().expect("a history");
    let dates: Vec<_> = history.iter().map(|day| day["date"].as_str().expect("a date")).collect();
    assert!(dates.len() == 90 && dates.is_sorted_by(|newer, older| newer > older), "{dates:?}");
    for (back, state, uptime) in
        [(1, "degraded_performance", 1.0), (2, "major_outage", 0.95), (89, "partial_outage", 0.975)]
    {
        let day = json!({"name": "mail", "state": state, "uptime": uptime, "samples": 1440});
        assert_eq!(history[back]["components"][3], day, "{back} days ago");
    }
    let nothing = json!({"name": "mail", "state": "unknown", "uptime": null, "samples": 0});
    assert_eq!(history[3]["components"][3], nothing);

    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from status_days where samples = 1440").await, 3);
    let (headers, page) = app.page("/status").await;
    let policy = headers["content-security-policy"].to_str().expect("text");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("script-src"), "{policy}");
    assert!(!page.contains("<script") && page.contains("<h1>All systems operational</h1>"), "{page}");
    assert_eq!(page.matches("<ol class=days").count(), COMPONENTS.len());
    assert_eq!(page.matches("<li class=").count(), 90 * COMPONENTS.len());
    app.stop().await;
}

/// Contract: status 7. Each sample is added to the day.
#[tokio::test]
async fn scheduled_job_samples_components() {
    let app = App::simulated().start().await;
    app.wait_for_state("api", "operational").await;
    let hurry = "update apalis.jobs set run_at = now()
                 where job_type = 'maintenance' and status = 'Pending' and idempotency_key like 'sample_status:%'";
    sqlx::query(hurry).execute(&app.database.pool).await.expect("a statement");
    eventually(Duration::from_secs(30), "each component is measured", async || {
        let count =
            "select count(*) from status_days where day >= (now() at time zone 'utc')::date - 1 and samples > 0";
        (app.count(count).await >= 5).then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from status_days where major + partial + degraded > 0").await, 0);
    app.stop().await;
}

/// Contract: status 3. A partial outage while another worker runs.
#[tokio::test]
async fn lost_worker_is_an_outage() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    app.wait_for_state("workers", "operational").await;
    app.signal(1, Signal::SIGKILL).await;
    app.wait_for_state("workers", "major_outage").await;
    assert_eq!(app.shown().await["status"], "major_outage");
    app.start(Role::Worker);
    app.wait_for_state("workers", "partial_outage").await;
    let old = "update workers set last_seen_at = now() - interval '6 minutes' where status = 'lost'";
    sqlx::query(old).execute(&app.database.pool).await.expect("a statement");
    app.wait_for_state("workers", "operational").await;
    app.stop().await;
}

/// Contract: status 3. A few failures do not count. Without recent reports the outage is a major one.
#[tokio::test]
async fn failing_api_is_an_outage() {
    let app = App::simulated().start().await;
    app.wait_for_state("api", "operational").await;
    let report = async |answered: i64, failed: i64| {
        let statement = "insert into status_reports (process, answered, failed) values ($3, $1, $2)
                    on conflict (process) do update set answered = $1, failed = $2, seen_at = now()";
        let statement = sqlx::query(statement).bind(answered).bind(failed).bind(uuid::Uuid::from_u128(7));
        statement.execute(&app.database.pool).await.expect("a statement");
    };
    for (answered, failed, state) in [
        (100_000, 6_000, "degraded_performance"),
        (100_000, 4_000, "operational"),
        (100_000, 60_000, "partial_outage"),
        (9, 9, "operational"),
    ] {
        report(answered, failed).await;
        app.wait_for_state("api", state).await;
    }
    eventually(Duration::from_secs(20), "the reports have expired", async || {
        let silent = "update status_reports set seen_at = now() - interval '2 minutes'";
        sqlx::query(silent).execute(&app.database.pool).await.expect("a statement");
        (state_of(&app.shown().await, "api") == "major_outage").then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: status 3. An error of the caller does not.
#[tokio::test]
async fn answers_of_500_count_as_failures() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let rename = async |statement: &'static str| {
        sqlx::query(statement).execute(&app.database.pool).await.expect("a statement");
    };
    for _ in 0..12 {
        client.get("/v1/billing/crypto-orders?limit=0").await.problem(400, "validation-failed");
    }
    rename("alter table crypto_orders rename to away").await;
    for _ in 0..30 {
        client.get("/v1/billing/crypto-orders").await.problem(500, "internal");
    }
    rename("alter table away rename to crypto_orders").await;
    // Processes report every 30 s, so a report may contain some of the failures.
    let counted = "select coalesce(sum(failed), 0)::bigint from status_reports";
    eventually(Duration::from_mins(1), "the failures are reported", async || {
        (app.count(counted).await >= 10).then_some(())
    })
    .await;
    let shown = eventually(Duration::from_secs(10), "the status includes the failures", async || {
        let shown = app.shown().await;
        (state_of(&shown, "api") != "operational").then_some(shown)
    })
    .await;
    assert!(["degraded_performance", "partial_outage"].contains(&state_of(&shown, "api")), "{shown}");
    app.stop().await;
}

/// Contract: status 3.
#[tokio::test]
async fn workers_without_a_free_slot_are_degraded() {
    let app = App::simulated().set("worker.max_sessions", "2").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let sessions = [client.session().await, client.session().await];
    app.wait_for_state("workers", "degraded_performance").await;
    client.delete(&format!("/v1/sessions/{}", sessions[0])).await.expect(204);
    app.wait_for_state("workers", "operational").await;
    client.delete(&format!("/v1/sessions/{}", sessions[1])).await.expect(204);
    app.stop().await;
}

/// Each with an endpoint that is subscribed to `api_key.revoked`.
async fn subscribed_accounts(app: &App, url: &str, count: usize) -> Vec<(Client, String)> {
    let mut accounts = Vec::new();
    for _ in 0..count {
        let (_, client) = app.customer(Tier::Enterprise).await;
        let endpoint = id_of(&create(&client, url, &["api_key.revoked"]).await);
        accounts.push((client, endpoint));
    }
    accounts
}

async fn emit_event(client: &Client) {
    let key = client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201).body;
    client.delete(&format!("/v1/api-keys/{}", key["id"].as_str().expect("an id"))).await.expect(204);
}

impl App {
    /// Returns the first status measured afterwards.
    async fn status_after(&self, statement: &'static str) -> Value {
        sqlx::query(statement).execute(&self.database.pool).await.expect("a statement");
        let before = self.shown().await["measured_at"].clone();
        eventually(Duration::from_secs(20), "the status is measured again", async || {
            let shown = self.shown().await;
            (shown["measured_at"] != before).then_some(shown)
        })
        .await
    }
}

/// Contract: status 4, 23. Errors, refused connections and unknown names, of any number of owners.
#[tokio::test]
async fn failures_of_targets_do_not_affect_the_status() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    for url in [sink.url("/status/500"), "https://127.0.0.1:9/dead".to_owned(), "https://nowhere.invalid/".to_owned()] {
        for (client, endpoint) in subscribed_accounts(&app, &url, 3).await {
            emit_event(&client).await;
            for _ in 0..4 {
                send_test(&client, &endpoint).await;
            }
        }
    }
    eventually(Duration::from_secs(40), "each delivery is attempted", async || {
        let waiting = "select count(*) from webhook_deliveries where attempts = 0";
        (app.count(waiting).await == 0).then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from webhook_deliveries where last_error is not null").await, 6 * 5);
    let shown = app.status_after("select 1").await;
    assert_eq!(state_of(&shown, "webhooks"), "operational");
    let late = "update webhook_deliveries set due = true, next_attempt_at = now() - interval '6 minutes'
                where event_type = 'test.ping' and status = 'pending'";
    assert_eq!(state_of(&app.status_after(late).await, "webhooks"), "operational");
    app.stop().await;
}

/// Contract: status 4, 23, 24. Tests and deliveries of paused endpoints do not count.
#[tokio::test]
async fn late_deliveries_of_three_accounts_are_an_outage() {
    // No worker sends the deliveries.
    let app = App::simulated().roles(&[Role::Api]).start().await;
    let accounts = subscribed_accounts(&app, "https://example.com/hook", 4).await;
    let late = "update webhook_deliveries set next_attempt_at = now() - interval '6 minutes'";
    for (client, endpoint) in &accounts {
        send_test(client, endpoint).await;
    }
    assert_eq!(state_of(&app.status_after(late).await, "webhooks"), "operational", "tests do not count");
    for (client, _) in &accounts[..2] {
        for _ in 0..5 {
            emit_event(client).await;
        }
    }
    assert_eq!(state_of(&app.status_after(late).await, "webhooks"), "operational", "two accounts do not count");
    emit_event(&accounts[2].0).await;
    assert_eq!(
        state_of(&app.status_after("select 1").await, "webhooks"),
        "operational",
        "the third delivery is not late yet"
    );
    assert_eq!(state_of(&app.status_after(late).await, "webhooks"), "major_outage");
    let attempted = "update webhook_endpoints set last_failure_at = now()";
    assert_eq!(
        state_of(&app.status_after(attempted).await, "webhooks"),
        "operational",
        "the endpoints were attempted recently"
    );
    let long_ago = "update webhook_endpoints set last_failure_at = now() - interval '10 minutes'";
    assert_eq!(state_of(&app.status_after(long_ago).await, "webhooks"), "major_outage");
    let (client, endpoint) = &accounts[2];
    client.patch(&format!("/v1/webhooks/{endpoint}"), json!({"active": false})).await.expect(200);
    assert_eq!(
        state_of(&app.status_after("select 1").await, "webhooks"),
        "operational",
        "a paused endpoint does not count"
    );
    app.stop().await;
}

/// Contract: status 23.
#[tokio::test]
async fn deliveries_that_cannot_be_signed_are_an_outage() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let accounts = subscribed_accounts(&app, &sink.url("/status/200"), 3).await;
    sqlx::query("update webhook_endpoints set sealed_secret = 'x'")
        .execute(&app.database.pool)
        .await
        .expect("a statement");
    for (client, _) in &accounts {
        emit_event(client).await;
    }
    app.wait_for_state("webhooks", "major_outage").await;
    let (client, _) = &subscribed_accounts(&app, &sink.url("/status/200"), 1).await[0];
    emit_event(client).await;
    app.wait_for_state("webhooks", "partial_outage").await;
    app.stop().await;
}

/// Contract: webhooks 30; rate-limits 13.
#[tokio::test]
async fn tests_and_replays_are_rate_limited() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("rate_limits.webhook_sends_per_minute", "3").start().await;
    let accounts = subscribed_accounts(&app, &sink.url("/status/200"), 2).await;
    let (client, endpoint) = &accounts[0];
    let delivery = send_test(client, endpoint).await;
    eventually(Duration::from_secs(20), "the delivery has arrived", async || {
        (app.count("select count(*) from webhook_deliveries where status = 'delivered'").await == 1).then_some(())
    })
    .await;
    let replay = async || client.post(&format!("/v1/webhook-deliveries/{delivery}/replay"), json!({})).await;
    replay().await.expect(202);
    send_test(client, endpoint).await;
    for refused in [replay().await, client.post(&format!("/v1/webhooks/{endpoint}/test"), json!({})).await] {
        let refused = refused.problem(429, "rate-limited");
        let wait: u64 = refused.headers["retry-after"].to_str().expect("text").parse().expect("a number");
        assert!((1..=20).contains(&wait), "{wait}");
    }
    let another = id_of(&create(client, &sink.url("/status/200"), &["api_key.revoked"]).await);
    client.post(&format!("/v1/webhooks/{another}/test"), json!({})).await.problem(429, "rate-limited");
    emit_event(client).await;
    send_test(&accounts[1].0, &accounts[1].1).await;
    app.stop().await;
}

/// Contract: status 4.
#[tokio::test]
async fn unreachable_mail_server_is_an_outage() {
    let mut server = MailServer::down();
    let app = App::simulated().set("email.transport", "smtp").set("email.smtp_url", &server.url()).start().await;
    for _ in 0..3 {
        let address = app.address_of(app.account(Tier::Free).await).await;
        app.stranger().post("/v1/auth/password-reset/request", json!({"email": address})).await.expect(200);
    }
    app.wait_for_state("mail", "major_outage").await;
    server.come_up();
    let hurry = "update emails set next_attempt_at = now() where status <> 'done'";
    sqlx::query(hurry).execute(&app.database.pool).await.expect("a statement");
    app.wait_for_state("mail", "operational").await;
    assert_eq!(server.taken().len(), 3);
    app.stop().await;
}

/// Contract: status 1, 5. The answer is a 200 within a second, with the last known data.
#[tokio::test]
async fn unreachable_database_is_an_outage() {
    let app = App::simulated().start().await;
    let staff = app.staff().await;
    posted(&staff).await;
    eventually(Duration::from_secs(10), "the incident is shown", async || {
        (app.shown().await["incidents"][0]["title"] == "Mails are late").then_some(())
    })
    .await;
    let mut server = server_of(&app.database).await;
    let_in(&mut server, &app.database, false).await;
    eventually(Duration::from_secs(10), "the outage is shown", async || {
        let asked = Instant::now();
        let shown = app.shown().await;
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        if state_of(&shown, "database") != "major_outage" {
            return None;
        }
        let states = COMPONENTS.map(|component| state_of(&shown, component));
        assert_eq!(states, ["partial_outage", "unknown", "unknown", "unknown", "major_outage"]);
        assert_eq!(
            (&shown["status"], &shown["incidents"][0]["title"]),
            (&json!("major_outage"), &json!("Mails are late"))
        );
        assert_eq!(shown["history"].as_array().map(Vec::len), Some(90));
        Some(())
    })
    .await;
    let (_, page) = app.page("/status").await;
    assert!(page.contains("Mails are late") && page.contains("the last time the database responded"), "{page}");
    let_in(&mut server, &app.database, true).await;
    app.wait_for_state("database", "operational").await;
    app.stop().await;
}

/// Contract: status 6. The query runs at most once in 3 s.
#[tokio::test]
async fn status_requests_share_one_database_query() {
    let app = App::simulated().counting_statements().start().await;
    app.wait_for_state("api", "operational").await;
    app.count_statements().await;
    let began = Instant::now();
    for _ in 0..20 {
        let asked = (0..10).map(|_| {
            let stranger = app.stranger();
            async move { stranger.get("/v1/status").await.expect(200) }
        });
        at_once(asked).await;
    }
    let looks = i64::try_from(began.elapsed().as_secs() / 3 + 2).expect("a few");
    for statement in app.statements().await.iter().filter(|one| one.query.contains("status_days")) {
        assert!(statement.calls <= looks, "at most {looks}: {statement}");
    }
    app.stop().await;
}
