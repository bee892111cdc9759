//! The status page, incidents and subscribers (contract: status).

mod mailing;

use std::time::{Duration, Instant};

use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_domain::emails::Template;
use kitfleet_domain::status::{notices, subscribers};
use kitfleet_jobs::status::send_notices;
use kitfleet_types::ids::EmailId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::outages::{let_in, server_of};
use crate::support::mail::Mail;
use crate::support::sink::Sink;
use crate::support::smtp::MailServer;
use crate::support::{Answer, App, Client, Role, assert_timestamp, at_once, eventually, members, unknown_id};
use crate::webhooks::{create, id_of, send_test};

const HOUR: Duration = Duration::from_hours(1);
const INCIDENTS: &str = "/v1/admin/incidents";
const SUBSCRIBERS: &str = "/v1/status/subscribers";
const COMPONENTS: [&str; 5] = ["api", "workers", "webhooks", "mail", "database"];

impl App {
    async fn shown(&self) -> Value {
        self.stranger().get("/v1/status").await.expect(200).body
    }

    async fn wait_for_state(&self, component: &str, state: &str) {
        eventually(Duration::from_secs(40), &format!("{component} is {state}"), async || {
            (state_of(&self.shown().await, component) == state).then_some(())
        })
        .await;
    }

    async fn page(&self, path: &str) -> (reqwest::header::HeaderMap, String) {
        let answer = self.stranger().request(Method::GET, path).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        let headers = answer.headers().clone();
        (headers, answer.text().await.expect("a text"))
    }

    /// As a page's button or a mail program does: without cookies, with a form.
    async fn press(&self, path: &str, token: &str) -> Answer {
        let request = self.stranger().request(Method::POST, &format!("{path}?token={token}"));
        let form = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.stranger().send(form.body("List-Unsubscribe=One-Click")).await
    }

    pub async fn subscribed(&self, address: &str) -> Mail {
        self.stranger().post(SUBSCRIBERS, json!({"email": address})).await.expect(200);
        let asked = self.mail_to(address, Template::StatusConfirm).await;
        self.press("/status/confirm", &asked.token).await.expect(200);
        self.mail_to(address, Template::StatusSubscribed).await
    }

    /// Writes the mails for pending incident notices now, as a worker does.
    async fn write_notices(&self) {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        while send_notices(&mut conn, HOUR, 500).await.expect("a statement") {}
    }

    async fn subscribers(&self, count: i32) {
        sqlx::query(
            "insert into status_subscribers (id, email, email_key, confirm_until, confirmed_at)
             select uuid_v7(), n || '@example.com', n || '@example.com', now(), now() from generate_series(1, $1) n",
        )
        .bind(count)
        .execute(&self.database.pool)
        .await
        .expect("subscribers");
    }
}

fn state_of<'a>(shown: &'a Value, component: &str) -> &'a str {
    let mut components = shown["components"].as_array().expect("components").iter();
    let found = components.find(|one| one["name"] == component).expect("a component");
    found["state"].as_str().expect("a state")
}

fn incident() -> Value {
    json!({"title": "Mails are late", "message": "We look into it.", "impact": "minor", "components": ["mail"], "reason": "alert"})
}

async fn posted(staff: &Client) -> String {
    let posted = staff.post(INCIDENTS, incident()).await.expect(201).body;
    posted["id"].as_str().expect("an id").to_owned()
}

async fn update(staff: &Client, id: &str, message: &str) -> Answer {
    let body = json!({"message": message, "status": "identified", "reason": "r"});
    staff.post(&format!("{INCIDENTS}/{id}/updates"), body).await
}

async fn resolve(staff: &Client, id: &str) -> Answer {
    staff.post(&format!("{INCIDENTS}/{id}/resolve"), json!({"reason": "fixed"})).await
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

/// Contract: status 10 to 14; staff 5, 6, 16.
#[tokio::test]
async fn staff_post_update_and_resolve_incidents() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let staff = app.staff().await;
    for (name, wrong) in [
        ("title", json!("")),
        ("title", json!("x".repeat(121))),
        ("title", json!("a\nb")),
        ("message", json!(" ")),
        ("message", json!("x".repeat(5_001))),
        ("message", json!("a\u{7}b")),
        ("impact", json!("none")),
        ("components", json!(["mail", "moon"])),
        ("components", json!("mail")),
        ("reason", json!("")),
        ("reason", json!("x".repeat(501))),
    ] {
        let mut body = incident();
        body[name] = wrong;
        staff.post(INCIDENTS, body).await.invalid(name);
    }
    for absent in ["title", "message", "impact", "reason"] {
        let mut body = incident();
        body.as_object_mut().expect("an object").remove(absent);
        staff.post(INCIDENTS, body).await.invalid(absent);
    }
    assert_eq!(app.count("select count(*) from incidents").await, 0);

    let mut body = incident();
    body["title"] = json!("<script>alert(1)</script>");
    body["components"] = json!(["mail", "api", "mail"]);
    let posted = staff.post(INCIDENTS, body).await.expect(201).body;
    let id = posted["id"].as_str().expect("an id");
    assert!(id.starts_with("inc_"), "{id}");
    assert_eq!((&posted["status"], &posted["impact"]), (&json!("investigating"), &json!("minor")));
    assert_eq!((&posted["components"], &posted["resolved_at"]), (&json!(["api", "mail"]), &Value::Null));
    assert_eq!(posted["updates"][0]["message"], "We look into it.");

    for wrong in [json!("resolved"), json!("gone"), json!(null)] {
        let body = json!({"message": "m", "status": wrong, "reason": "r"});
        staff.post(&format!("{INCIDENTS}/{id}/updates"), body).await.invalid("status");
    }
    let updated = update(&staff, id, "We know why.").await.expect(200).body;
    assert_eq!((&updated["status"], updated["updates"].as_array().map(Vec::len)), (&json!("identified"), Some(2)));
    assert_eq!(updated["updates"][0]["message"], "We know why.", "newest first");
    eventually(Duration::from_secs(10), "the incident is shown", async || {
        let shown = app.shown().await;
        (shown["incidents"][0]["status"] == "identified").then_some(())
    })
    .await;
    let (_, page) = app.page("/status").await;
    assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script"), "{page}");

    let resolved = at_once([(); 4].map(|()| {
        let (staff, id) = (staff.clone(), id.to_owned());
        async move { resolve(&staff, &id).await.status.as_u16() }
    }));
    let mut statuses = resolved.await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409]);
    update(&staff, id, "Once more.").await.problem(409, "conflict");
    for unknown in [unknown_id("inc"), unknown_id("acc"), "x".to_owned()] {
        update(&staff, &unknown, "m").await.problem(404, "not-found");
        resolve(&staff, &unknown).await.problem(404, "not-found");
    }
    eventually(Duration::from_secs(10), "the incident is no longer shown", async || {
        (app.shown().await["incidents"] == json!([])).then_some(())
    })
    .await;
    let log: Vec<(String, String)> = sqlx::query_as("select operation, target_resource_id from staff_log order by id")
        .fetch_all(&app.database.pool)
        .await
        .expect("the log");
    let operations = ["incident.posted", "incident.updated", "incident.resolved"];
    assert_eq!(log, operations.map(|operation| (operation.to_owned(), id.to_owned())));
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let counted = scraper.request(Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text");
    assert!(counted.contains("service_admin_audit_emit_total{prefix=\"incident\"} 3"), "{counted}");
    app.stop().await;
}

/// Contract: status 15 to 18; rate-limits 4. Each mail has a one-click unsubscribe, after which no data of the address remains.
#[tokio::test]
async fn address_subscribes_by_button_and_unsubscribes_fully() {
    let app = App::simulated().set("rate_limits.status_subscriptions_per_minute", "4").start().await;
    let (stranger, address) = (app.stranger(), "ada@example.com");
    for wrong in
        [json!({}), json!({"email": "nobody"}), json!({"email": 7}), json!({"email": "a@b\r\nBcc: c@d.example"})]
    {
        stranger.post(SUBSCRIBERS, wrong).await.invalid("email");
    }
    let first = stranger.post(SUBSCRIBERS, json!({"email": "Ada@Example.com"})).await.expect(200);
    assert_eq!(first.body["sent"], true);
    assert_timestamp(&first.body["expires_at"]);
    let asked = app.mail_to("Ada@example.com", Template::StatusConfirm).await;
    assert_eq!(asked.link(), format!("{}/status/confirm?token={}", app.base_url, asked.token));
    assert!(app.tables_with(&asked.token).await.is_empty(), "a token is stored");
    let again = stranger.post(SUBSCRIBERS, json!({"email": address})).await.expect(200);
    assert_eq!(members(&again.body), members(&first.body), "the answer is the same for a pending address");
    let done = "select count(*) from emails where status = 'done'";
    eventually(Duration::from_secs(20), "both mails are done", async || (app.count(done).await == 2).then_some(()))
        .await;
    assert_eq!(app.mails_to("Ada@example.com", Template::StatusConfirm).len(), 1);

    let (headers, page) = app.page(&format!("/status/confirm?token={}", asked.token)).await;
    assert!(headers["cache-control"] == "no-store" && headers["referrer-policy"] == "no-referrer", "{headers:?}");
    assert!(page.contains("<form method=post>") && !page.contains(&asked.token) && !page.contains("<script"), "{page}");
    let policy = headers["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(app.count("select count(*) from status_subscribers where confirmed_at is not null").await, 0);
    for worthless in ["", "x", &asked.token[1..]] {
        app.press("/status/confirm", worthless).await.invalid("token");
    }
    let pressed = at_once([(); 3].map(|()| {
        let (stranger, path) = (app.stranger(), format!("/status/confirm?token={}", asked.token));
        async move { stranger.send(stranger.request(Method::POST, &path)).await.status.as_u16() }
    }));
    let mut statuses = pressed.await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400, 400], "the token works once");

    let mailed = app.mail_to("Ada@example.com", Template::StatusSubscribed).await;
    let path = format!("/status/unsubscribe?token={}", mailed.token);
    assert_eq!(mailed.header("List-Unsubscribe"), format!("<{}{path}>", app.base_url));
    assert_eq!(mailed.header("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
    let confirmed = stranger.post(SUBSCRIBERS, json!({"email": address})).await.expect(200);
    assert_eq!(confirmed.body["sent"], true, "the answer is the same for a subscribed address");
    app.page(&path).await;
    assert_eq!(app.count("select count(*) from status_subscribers").await, 1, "opening the page has no effect");
    let mut broken = mailed.token.clone();
    broken.replace_range(30..31, if &broken[30..31] == "A" { "B" } else { "A" });
    app.press("/status/unsubscribe", &broken).await.invalid("token");
    for _ in 0..2 {
        app.press("/status/unsubscribe", &mailed.token).await.expect(200);
    }
    assert_eq!(app.tables_with("ada@example.com").await, Vec::<String>::new());
    assert_eq!(app.count("select count(*) from emails").await, 0);
    stranger.post(SUBSCRIBERS, json!({"email": address})).await.expect(200);
    stranger.post(SUBSCRIBERS, json!({"email": address})).await.problem(429, "rate-limited");
    app.stop().await;
}

/// Contract: status 16, 18; retention 13. An unconfirmed address is deleted a day later, a confirmed one stays.
#[tokio::test]
async fn unconfirmed_address_is_deleted() {
    let app = App::simulated().start().await;
    app.subscribed("bob@example.com").await;
    app.stranger().post(SUBSCRIBERS, json!({"email": "ada@example.com"})).await.expect(200);
    let asked = app.mail_to("ada@example.com", Template::StatusConfirm).await;
    let late = "update status_subscribers set confirm_until = now() - interval '23 hours'";
    sqlx::query(late).execute(&app.database.pool).await.expect("a statement");
    app.press("/status/confirm", &asked.token).await.invalid("token");
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from status_subscribers").await, 2);
    let late = "update status_subscribers set confirm_until = now() - interval '25 hours'";
    sqlx::query(late).execute(&app.database.pool).await.expect("a statement");
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from status_subscribers where email = 'bob@example.com'").await, 1);
    assert_eq!(app.count("select count(*) from status_subscribers").await, 1);
    app.stop().await;
}

/// Contract: status 17, 19 to 21.
#[tokio::test]
async fn subscriber_is_mailed_at_most_hourly() {
    let app = App::simulated().start().await;
    let (staff, address) = (app.staff().await, "ada@example.com");
    app.subscribed(address).await;
    let mut body = incident();
    body["title"] = json!("Posts \u{2013} late <b>");
    body["message"] = json!(format!("We look into it.\n\nCaf\u{e9} & {}", "long ".repeat(300)));
    let first = staff.post(INCIDENTS, body).await.expect(201).body;
    let id = first["id"].as_str().expect("an id");
    // The scheduled job alone writes this mail.
    let mail = app.mail_to(address, Template::IncidentPosted).await;
    assert_eq!(mail.subject, "[Kitfleet] Incident: Posts \u{2013} late <b>");
    assert!(mail.text.contains("Caf\u{e9} & long long") && mail.text.contains("Affected: mail."), "{}", mail.text);
    assert!(mail.html.contains("late &#60;b&#62;") || mail.html.contains("late &lt;b&gt;"), "{}", mail.html);
    assert!(mail.raw.is_ascii() && mail.raw.lines().all(|line| line.len() <= 998), "{}", mail.raw);
    assert!(mail.header("List-Unsubscribe").ends_with(&format!("token={}>", mail.token)));

    update(&staff, id, "First news.").await.expect(200);
    app.write_notices().await;
    assert!(app.mail_to(address, Template::IncidentUpdated).await.text.contains("First news."));
    for news in ["Second news.", "Third news."] {
        update(&staff, id, news).await.expect(200);
        app.write_notices().await;
    }
    let written = "select count(*) from emails where template = 'incident_updated'";
    assert_eq!(app.count(written).await, 1, "an hour has not passed");
    let hour = [
        "update incident_notices set done_at = done_at - interval '1 hour 1 second' where kind = 'updated'",
        "update emails set done_at = done_at - interval '1 hour 1 second' where template = 'incident_updated'",
    ];
    let pass_an_hour = async || {
        eventually(Duration::from_secs(20), "all mails are done", async || {
            (app.count("select count(*) from emails where status <> 'done'").await == 0).then_some(())
        })
        .await;
        for statement in hour {
            sqlx::query(statement).execute(&app.database.pool).await.expect("a statement");
        }
    };
    pass_an_hour().await;
    app.write_notices().await;
    let newest = app.mail_number(2, address, Template::IncidentUpdated).await;
    assert!(newest.text.contains("Third news.") && !newest.text.contains("Second news."), "{}", newest.text);

    update(&staff, id, "Fourth news.").await.expect(200);
    resolve(&staff, id).await.expect(200);
    app.write_notices().await;
    let over = app.mail_to(address, Template::IncidentResolved).await;
    assert!(over.text.contains("This incident has been resolved."), "{}", over.text);
    pass_an_hour().await;
    app.write_notices().await;
    assert_eq!(app.count(written).await, 2, "the pending update is not mailed");
    app.press("/status/unsubscribe", &over.token).await.expect(200);
    let silent = posted(&staff).await;
    app.write_notices().await;
    resolve(&staff, &silent).await.expect(200);
    app.write_notices().await;
    assert_eq!(app.count("select count(*) from emails where subscriber_id is not null").await, 0);
    app.stop().await;
}

/// Contract: status 20. Of several pending updates only the newest is mailed.
#[tokio::test]
async fn update_waits_an_hour_after_a_late_one() {
    let mut server = MailServer::up();
    let app = App::simulated().set("email.transport", "smtp").set("email.smtp_url", &server.url()).start().await;
    let staff = app.staff().await;
    app.subscribers(1).await;
    let change = async |statement: &'static str| {
        sqlx::query(statement).execute(&app.database.pool).await.expect("a statement");
    };
    let hurry = "update emails set next_attempt_at = now() where status = 'queued'";
    let id = posted(&staff).await;
    app.write_notices().await;
    eventually(Duration::from_secs(30), "the posting is mailed", async || (server.taken().len() == 1).then_some(()))
        .await;

    server.stop_listening();
    update(&staff, &id, "First news.").await.expect(200);
    app.write_notices().await;
    let failed = "select count(*) from emails where template = 'incident_updated' and outcome = 'transport'";
    eventually(Duration::from_secs(30), "the attempt has failed", async || {
        (app.count(failed).await == 1).then_some(())
    })
    .await;
    // 59 minutes later the server is up again.
    change("update emails set expires_at = expires_at - interval '59 minutes' where template = 'incident_updated'")
        .await;
    server.come_up();
    change(hurry).await;
    eventually(Duration::from_secs(30), "the first update is sent", async || (server.taken().len() == 2).then_some(()))
        .await;
    assert!(server.taken()[1].text.contains("First news."), "{}", server.taken()[1].text);

    // One hour after the notices of the first update, followed by two more updates.
    let hour = "update incident_notices set done_at = done_at - interval '1 hour 1 second' where kind = 'updated'";
    let waiting = "select count(*) from emails where template = 'incident_updated' and status = 'queued'
                   and next_attempt_at > now() + interval '59 minutes' and expires_at > next_attempt_at";
    for (number, news) in [(1, "Second news."), (2, "Third news.")] {
        change(hour).await;
        update(&staff, &id, news).await.expect(200);
        app.write_notices().await;
        eventually(Duration::from_secs(30), "the update waits", async || {
            (app.count(waiting).await == number).then_some(())
        })
        .await;
    }
    assert_eq!(server.taken().len(), 2, "an hour has not passed");

    change("update emails set done_at = done_at - interval '1 hour' where status = 'done'").await;
    let open = "select count(*) from emails where status <> 'done'";
    eventually(Duration::from_mins(1), "all mails are done", async || {
        change(hurry).await;
        (app.count(open).await == 0).then_some(())
    })
    .await;
    let taken = server.taken();
    assert!(taken.len() == 3 && taken[2].text.contains("Third news."), "{}", taken.len());
    app.stop().await;
}

/// Contract: status 19, 25. A new subscription of an address counts as a new one.
#[tokio::test]
async fn subscriber_gets_only_notices_after_confirmation() {
    // No worker runs, so only the test writes the mails.
    let app = App::simulated().roles(&[Role::Api]).start().await;
    let staff = app.staff().await;
    let joins = async |name: &str| {
        let mut conn = app.database.pool.acquire().await.expect("a connection");
        let address = EmailAddress::parse(&format!("{name}@example.com")).expect("an address");
        let id = subscribers::subscribe(&mut conn, &address, HOUR).await.expect("a subscriber");
        let asked = subscribers::confirmation(&mut conn, id, EmailId::generate())
            .await
            .expect("a statement")
            .expect("a question");
        app.press("/status/confirm", asked.token.reveal()).await.expect(200);
    };
    let leaves = async |name: &'static str| {
        let gone = sqlx::query("delete from status_subscribers where email = $1").bind(format!("{name}@example.com"));
        gone.execute(&app.database.pool).await.expect("a statement");
    };
    // Names mailed since the last call, sorted.
    let mailed = async |template: &str| {
        app.write_notices().await;
        let names = "with mailed as (delete from emails where template = $1 returning subscriber_id)
                     select coalesce(string_agg(split_part(s.email, '@', 1), ' ' order by s.email), '')
                     from mailed join status_subscribers s on s.id = mailed.subscriber_id";
        let names = sqlx::query_scalar::<_, String>(names).bind(template);
        names.fetch_one(&app.database.pool).await.expect("names")
    };

    joins("ada").await;
    let id = posted(&staff).await;
    joins("bob").await;
    assert_eq!(mailed("incident_posted").await, "ada");
    update(&staff, &id, "First news.").await.expect(200);
    joins("cid").await;
    assert_eq!(mailed("incident_updated").await, "ada bob");
    update(&staff, &id, "Second news.").await.expect(200);
    joins("dan").await;
    assert_eq!(mailed("incident_updated").await, "", "an hour has not passed");
    update(&staff, &id, "Third news.").await.expect(200);
    joins("eve").await;
    leaves("bob").await;
    joins("bob").await;
    let hour = "update incident_notices set done_at = done_at - interval '1 hour 1 second' where kind = 'updated'";
    sqlx::query(hour).execute(&app.database.pool).await.expect("a statement");
    assert_eq!(mailed("incident_updated").await, "ada cid dan");
    resolve(&staff, &id).await.expect(200);
    joins("fay").await;
    leaves("ada").await;
    joins("ada").await;
    assert_eq!(mailed("incident_resolved").await, "bob cid dan eve");

    let (open, over) = (posted(&staff).await, posted(&staff).await);
    resolve(&staff, &over).await.expect(200);
    leaves("bob").await;
    joins("bob").await;
    joins("gus").await;
    assert_eq!(mailed("incident_posted").await, "ada ada cid cid dan dan eve eve fay fay");
    assert_eq!(mailed("incident_resolved").await, "ada cid dan eve fay");
    resolve(&staff, &open).await.expect(200);
    assert_eq!(mailed("incident_resolved").await, "ada bob cid dan eve fay gus");
    app.stop().await;
}

/// Contract: status 18, 19, 22. A subscriber who leaves in the meantime is not mailed afterwards.
#[tokio::test]
async fn each_of_many_subscribers_is_mailed_once() {
    // No worker sends the mails.
    let app = App::simulated().roles(&[Role::Api]).start().await;
    let staff = app.staff().await;
    app.subscribers(1_300).await;
    let id = posted(&staff).await;
    resolve(&staff, &id).await.expect(200);

    let mut conn = app.database.pool.acquire().await.expect("a connection");
    for crashes in [true, false] {
        let mut tx = sqlx::Acquire::begin(&mut *conn).await.expect("a transaction");
        assert!(notices::queue_batch(&mut tx, HOUR, 500).await.expect("a batch"));
        if crashes {
            drop(tx);
        } else {
            tx.commit().await.expect("a commit");
        }
    }
    drop(conn);
    let written = "select count(*) from emails";
    assert_eq!(app.count(written).await, 500);
    sqlx::query("delete from status_subscribers where email = '1300@example.com'")
        .execute(&app.database.pool)
        .await
        .expect("a subscriber leaves");
    let mailed = at_once((0..3).map(|_| {
        let pool = app.database.pool.clone();
        async move {
            let mut conn = pool.acquire().await.expect("a connection");
            while send_notices(&mut conn, HOUR, 100).await.expect("a statement") {}
        }
    }));
    mailed.await;
    app.write_notices().await;
    for (template, count) in [("incident_posted", 1_299_i64), ("incident_resolved", 1_299)] {
        let counts: (i64, i64) =
            sqlx::query_as("select count(*), count(distinct subscriber_id) from emails where template = $1")
                .bind(template)
                .fetch_one(&app.database.pool)
                .await
                .expect("counts");
        assert_eq!(counts, (count, count), "{template}");
    }
    let order = "select count(*) from emails p join emails r on r.subscriber_id = p.subscriber_id
                 where p.template = 'incident_posted' and r.template = 'incident_resolved' and r.id < p.id";
    assert_eq!(app.count(order).await, 0, "the posting is mailed before the resolution");
    let queued = app.run(&["jobs", "stats", "--json"]).await.code(0).stdout;
    assert!(queued.contains("emails"), "{queued}");
    assert_eq!(app.count("select count(*) from incident_notices where done_at is null").await, 0);
    app.stop().await;
}
