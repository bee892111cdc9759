//! Incidents and the mails to subscribers (contract: status).

mod components;
mod mailing;

use std::time::Duration;

use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_domain::emails::Template;
use kitfleet_domain::status::{notices, subscribers};
use kitfleet_jobs::status::send_notices;
use kitfleet_types::ids::EmailId;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::support::mail::Mail;
use crate::support::smtp::MailServer;
use crate::support::{Answer, App, Client, Role, assert_timestamp, at_once, eventually, members, unknown_id};

const HOUR: Duration = Duration::from_hours(1);
const INCIDENTS: &str = "/v1/admin/incidents";
const SUBSCRIBERS: &str = "/v1/status/subscribers";

impl App {
    async fn shown(&self) -> Value {
        self.stranger().get("/v1/status").await.expect(200).body
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
