//! Routes of the staff board: capacity, jobs, requeues, endpoints, storage and previews of incidents.

use std::time::{Duration, Instant};

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually, unknown_id};
use crate::webhooks::{create, id_of};

const REQUEUE: &str = "/v1/admin/webhook-deliveries/requeue";

fn list_of(body: &Value) -> &[Value] {
    body["data"].as_array().expect("a list")
}

/// Every request of the board's pages. `{…}` are IDs of resources that have much.
fn requests(worker: &str, session: &str, account: &str, job: &str, endpoint: &str, since: &str) -> Vec<String> {
    let names = "service_sessions_live,service_workers,service_worker_slots,service_worker_slots_free,service_http_request_total";
    [
        "workers?limit=50".to_owned(),
        "workers?limit=50&all=true".to_owned(),
        format!("workers/{worker}"),
        format!("workers/{worker}/impact"),
        format!("sessions?worker_id={worker}&limit=100"),
        "capacity".to_owned(),
        format!("samples?names={names}"),
        format!("samples?names={names}&since={since}&step=600"),
        "sessions?limit=50".to_owned(),
        "sessions?limit=50&status=busy".to_owned(),
        "sessions?limit=50&status=errored".to_owned(),
        "sessions?limit=50&all=true".to_owned(),
        format!("sessions/{session}"),
        "jobs/loads".to_owned(),
        "jobs?limit=25".to_owned(),
        "jobs?limit=25&status=failed".to_owned(),
        "jobs?limit=25&status=pending".to_owned(),
        "jobs?limit=25&queue=emails".to_owned(),
        format!("jobs/{job}"),
        "webhook-deliveries?status=dlq&limit=100".to_owned(),
        "webhook-deliveries?status=dlq&limit=100&error=timeout".to_owned(),
        "webhook-deliveries?status=dlq&limit=100&error=of%20no%20delivery".to_owned(),
        format!("webhook-deliveries?status=dlq&limit=100&error=of%20no%20delivery&account_id={account}"),
        format!("webhook-deliveries?status=dlq&limit=100&endpoint_id={endpoint}"),
        format!("webhook-deliveries?status=dlq&limit=100&account_id={account}"),
        "webhook-deliveries/requeues?limit=5".to_owned(),
        "webhook-endpoints?disabled=true&limit=50".to_owned(),
        "accounts?limit=50".to_owned(),
        format!("accounts/{account}"),
        format!("accounts/{account}/log?limit=50"),
        format!("sessions?account_id={account}&limit=100"),
        format!("usage?account_id={account}&days=30"),
        "usage?days=30&top=10".to_owned(),
        "crypto-orders?limit=50".to_owned(),
        "incidents?limit=20".to_owned(),
        "storage".to_owned(),
        "storage/accounts?top=25".to_owned(),
    ]
    .map(|path| format!("/v1/admin/{path}"))
    .into()
}

/// Of the fastest of five requests: other tests run beside this one.
const WITHIN: Duration = Duration::from_millis(200);

/// With 1,000 workers, 10,000 live sessions, a million finished sessions, operations and jobs, and 100,000 dead letters.
#[tokio::test]
async fn board_answers_within_200_ms_in_a_large_service() {
    let app = App::simulated().start().await;
    let staff = app.staff().await;
    app.execute_all(include_str!("../support/board.sql")).await;
    app.execute_all("vacuum analyze").await;
    let text = async |query: &'static str| -> String {
        sqlx::query_scalar(query).fetch_one(&app.database.pool).await.unwrap_or_else(|error| panic!("{query}: {error}"))
    };
    let worker = text("select 'wrk_' || id from workers where name = 'board 7'").await;
    let session = text("select 'ses_' || id from sessions where live and status = 'busy' limit 1").await;
    let account = text("select 'acc_' || id from accounts where email = 'board7@example.com'").await;
    let job = text("select id from apalis.jobs where status = 'Failed' limit 1").await;
    let endpoint = text("select 'whk_' || endpoint_id from webhook_deliveries where status = 'dlq' limit 1").await;
    let since =
        text("select to_char(now() at time zone 'utc' - interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')").await;

    let capacity = staff.get("/v1/admin/capacity").await.expect(200).body;
    assert!(capacity["active_workers"].as_i64() >= Some(1_000), "the workers are alive: {capacity}");
    let live = ["creating", "ready", "busy"].map(|status| capacity[format!("{status}_sessions")].as_i64().unwrap_or(0));
    assert!(live.iter().sum::<i64>() >= 10_000, "the sessions live: {capacity}");

    let mut slow = Vec::new();
    for path in requests(&worker, &session, &account, &job, &endpoint, &since) {
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            staff.get(&path).await.expect(200);
            fastest = fastest.min(began.elapsed());
        }
        eprintln!("{fastest:>9.1?} {path}");
        if fastest > WITHIN {
            slow.push(format!("{fastest:.1?}: {path}"));
        }
    }
    assert!(slow.is_empty(), "too slow:\n{}", slow.join("\n"));
    app.stop().await;
}

/// Contract: staff 30 to 32. A paused requeue continues only after it is resumed. Of concurrent requests for the same dead letters,
/// one succeeds.
#[tokio::test]
async fn requeue_is_paused_resumed_and_reports_its_outcome() {
    let sink = Sink::start().await;
    let mut app = App::simulated().roles(&[Role::Api]).delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 120, 1).await;
    let begun = staff.post(REQUEUE, json!({"endpoint_id": endpoint, "reason": "r"})).await.expect(202).body;
    let id = begun["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/admin/webhook-deliveries/requeues/{id}");
    for same in [json!({"endpoint_id": endpoint, "reason": "r"}), json!({"account_id": account, "reason": "r"})] {
        let refused = staff.post(REQUEUE, same).await.problem(409, "conflict");
        assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains(&id)), "{}", refused.body);
    }
    let because = json!({"reason": "their server is slow"});
    staff.post(&format!("{path}/resume"), because.clone()).await.problem(409, "conflict");
    let paused = staff.post(&format!("{path}/pause"), because.clone()).await.expect(200).body;
    assert!(paused["paused_at"].is_string(), "{paused}");
    staff.post(&format!("{path}/pause"), because.clone()).await.problem(409, "conflict");
    let unknown = format!("/v1/admin/webhook-deliveries/requeues/{}/pause", unknown_id("rqu"));
    staff.post(&unknown, because.clone()).await.problem(404, "not-found");

    app.start(Role::Worker);
    let ticks = "select count(*) from apalis.jobs where job_type = 'maintenance' and status = 'Done'
                 and idempotency_key like 'requeue_dead_letters:%'";
    eventually(Duration::from_secs(40), "the scheduled job has run twice", async || {
        (app.count(ticks).await >= 2).then_some(())
    })
    .await;
    let now = staff.get(&path).await.expect(200).body;
    assert_eq!((&now["requeued"], &now["done_at"]), (&json!(0), &Value::Null), "a paused requeue has gone on: {now}");

    staff.post(&format!("{path}/resume"), because.clone()).await.expect(200);
    let done = eventually(Duration::from_mins(1), "all are delivered", async || {
        let now = staff.get(&path).await.expect(200).body;
        (now["done_at"].is_string() && now["outcome"]["delivered"] == 120).then_some(now)
    })
    .await;
    assert_eq!((&done["requeued"], &done["outcome"]["failed"]), (&json!(120), &json!(0)), "{done}");
    staff.post(&format!("{path}/pause"), because).await.problem(409, "conflict");
    let listed = staff.get("/v1/admin/webhook-deliveries/requeues").await.expect(200).body;
    assert_eq!((&list_of(&listed)[0]["id"], &list_of(&listed)[0]["outcome"]), (&json!(id), &Value::Null));
    let written = app.written_by_staff(account, "admin.support_note").await;
    let operations: Vec<_> = written.iter().map(|row| row["operation"].clone()).collect();
    let expected = ["webhook_delivery.requeued", "webhook_requeue.paused", "webhook_requeue.resumed"];
    assert_eq!(operations, expected.map(|name| json!(name)));
    app.stop().await;
}

/// Contract: staff 11, 12, 32.
#[tokio::test]
async fn dead_letters_are_found_by_error_and_age() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 6, 1).await;
    app.dead_letters(&endpoint, 3, 48).await;
    app.execute_all(
        "update webhook_deliveries set last_response_status = null, last_error = 'Timeout after 10 s'
         where id in (select id from webhook_deliveries where created_at > now() - interval '1 day' limit 2);
         update webhook_deliveries set last_response_status = 503, last_error = null where last_error is null",
    )
    .await;
    let path = "/v1/admin/webhook-deliveries";
    let found = async |query: &str| list_of(&staff.get(&format!("{path}?{query}")).await.expect(200).body).len();
    let since: String = sqlx::query_scalar(
        "select to_char(now() at time zone 'utc' - interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("a time");
    for place in [String::new(), format!("&endpoint_id={endpoint}"), format!("&account_id={account}")] {
        assert_eq!(found(&format!("status=dlq{place}")).await, 9, "{place}");
        assert_eq!(found(&format!("status=dlq&error=timeout{place}")).await, 2, "{place}");
        assert_eq!(found(&format!("status=dlq&error=http%20503{place}")).await, 7, "{place}");
        assert_eq!(found(&format!("status=dlq&since={since}{place}")).await, 6, "{place}");
        assert_eq!(found(&format!("status=dlq&error=%25&since={since}{place}")).await, 0, "{place}");
    }
    for (name, query) in
        [("error", "error=timeout"), ("since", "since=2026-01-01T00:00:00Z"), ("since", "status=dlq&since=x")]
    {
        staff.get(&format!("{path}?{query}")).await.invalid(name);
    }
    let named = json!({"delivery_ids": [unknown_id("wdl")], "error": "timeout", "reason": "r"});
    staff.post(REQUEUE, named).await.invalid("error");
    let body = json!({"endpoint_id": endpoint, "error": "timeout", "reason": "they were slow"});
    let begun = staff.post(REQUEUE, body).await.expect(202).body;
    assert_eq!((&begun["total"], &begun["error"]), (&json!(2), &json!("timeout")), "{begun}");
    eventually(Duration::from_secs(30), "only the matching ones are requeued", async || {
        (app.count_of_status("dlq").await == 7).then_some(())
    })
    .await;

    // A delivery that arrives later would reset the count.
    eventually(Duration::from_secs(30), "no delivery is on its way", async || {
        let waiting = [app.count_of_status("pending").await, app.count_of_status("in_flight").await];
        (waiting == [0, 0]).then_some(())
    })
    .await;
    app.execute_all("update webhook_endpoints set disabled_at = now(), consecutive_failures = 50").await;
    for query in ["disabled=true".to_owned(), format!("account_id={account}")] {
        let listed = staff.get(&format!("/v1/admin/webhook-endpoints?{query}")).await.expect(200).body;
        let row = &list_of(&listed)[0];
        assert_eq!((&row["id"], &row["consecutive_failures"]), (&json!(endpoint), &json!(50)), "{row}");
        assert_eq!((&row["host"].is_string(), &row["last_error"]), (&true, &json!("HTTP 503")), "{row}");
        assert!(!row.to_string().contains("/ok"), "the path belongs to the customer: {row}");
    }
    app.stop().await;
}

/// Contract: staff 33. A change from a page that is older than the account or the worker is refused.
#[tokio::test]
async fn change_that_refers_to_an_older_state_is_409() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let staff = app.staff().await;
    let of_account = |action: &str| format!("/v1/admin/accounts/{account}/{action}");
    let tier = |from: &str, to: &str| json!({"tier": to, "from": from, "reason": "r"});
    staff.post(&of_account("tier"), tier("free", "enterprise")).await.problem(409, "conflict");
    staff.post(&of_account("tier"), tier("gold", "enterprise")).await.invalid("from");
    staff.post(&of_account("tier"), tier("solo_manual", "enterprise")).await.expect(200);
    let refused = staff.post(&of_account("tier"), tier("solo_manual", "free")).await.problem(409, "conflict");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("enterprise")), "{}", refused.body);

    let limits = |from: Value, sessions: u32| json!({"concurrent_sessions": sessions, "from": from, "reason": "r"});
    let none = json!({"concurrent_sessions": null, "profiles": null});
    staff.patch(&of_account("limits"), limits(none.clone(), 3)).await.expect(200);
    staff.patch(&of_account("limits"), limits(none, 4)).await.problem(409, "conflict");
    let shown = staff.get(&format!("/v1/admin/accounts/{account}")).await.expect(200).body;
    assert_eq!((&shown["tier"], &shown["own_limits"]["concurrent_sessions"]), (&json!("enterprise"), &json!(3)));

    let session = client.session().await;
    let worker = app.worker_of(&session).await;
    let drain = format!("/v1/admin/workers/{worker}/drain");
    let body = |from: &str| json!({"from": from, "deadline_seconds": 600, "reason": "r"});
    staff.post(&drain, body("lost")).await.invalid("from");
    staff.post(&drain, body("draining")).await.problem(409, "conflict");
    staff.post(&drain, body("active")).await.expect(200);
    staff.post(&drain, body("active")).await.problem(409, "conflict");
    staff.post(&drain, body("draining")).await.expect(200);
    app.stop().await;
}

/// Contract: staff 5. The answer names the bound, also for characters of several bytes.
#[tokio::test]
async fn reason_of_501_characters_is_400() {
    let app = App::simulated().start().await;
    let staff = app.staff().await;
    let (id, long, longest) = (unknown_id, "é".repeat(501), "é".repeat(500));
    let changes = [
        (format!("accounts/{}/suspend", id("acc")), json!({})),
        (format!("accounts/{}/reactivate", id("acc")), json!({})),
        (format!("accounts/{}/tier", id("acc")), json!({"tier": "free"})),
        (format!("accounts/{}/notes", id("acc")), json!({"note": "n"})),
        (format!("accounts/{}/refunds", id("acc")), json!({"amount_cents": 1, "currency": "usd", "reference": "r"})),
        (format!("crypto-orders/{}/expire", id("ord")), json!({})),
        (format!("crypto-orders/{}/settle", id("ord")), json!({})),
        ("webhook-deliveries/requeue".to_owned(), json!({"endpoint_id": id("whk")})),
        (format!("webhook-deliveries/requeues/{}/pause", id("rqu")), json!({})),
        (format!("webhook-deliveries/requeues/{}/resume", id("rqu")), json!({})),
        ("incidents".to_owned(), json!({"title": "t", "message": "m", "impact": "minor"})),
        (format!("incidents/{}/updates", id("inc")), json!({"message": "m", "status": "monitoring"})),
        (format!("incidents/{}/resolve", id("inc")), json!({})),
        (format!("jobs/{}/retry", id("wdl")), json!({})),
        (format!("jobs/{}/cancel", id("wdl")), json!({})),
        (format!("sessions/{}/destroy", id("ses")), json!({})),
        (format!("workers/{}/drain", id("wrk")), json!({})),
        (format!("workers/{}/undrain", id("wrk")), json!({})),
    ];
    for (path, mut body) in changes {
        for (reason, is_refused) in [("", true), (" \n", true), (&*long, true), (&*longest, false)] {
            body["reason"] = json!(reason);
            let answer = staff.post(&format!("/v1/admin/{path}"), body.clone()).await;
            if is_refused {
                let refused = answer.invalid("reason").body;
                assert!(refused["errors"].to_string().contains("500"), "{path} names no bound: {refused}");
            } else {
                assert_ne!(answer.status.as_u16(), 400, "{path}: {}", answer.body);
            }
        }
    }
    app.stop().await;
}

/// Contract: staff 34, 35.
#[tokio::test]
async fn capacity_and_impact_count_sessions_and_slots() {
    let roles = [Role::Api, Role::Worker, Role::Worker];
    let app = App::simulated().roles(&roles).set("worker.max_sessions", "3").start().await;
    crate::draining::until_active(&app, 2).await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let profile = client.profile().await;
    let session = client.session_with(json!({"profile_id": profile})).await;
    client.session().await;
    let worker = app.worker_of(&session).await;
    let capacity = staff.get("/v1/admin/capacity").await.expect(200).body;
    for (name, value) in [
        ("active_workers", 2),
        ("draining_workers", 0),
        ("silent_workers", 0),
        ("slots", 6),
        ("free_slots", 4),
        ("largest_worker_slots", 3),
        ("ready_sessions", 2),
        ("busy_sessions", 0),
    ] {
        assert_eq!(capacity[name], value, "{name} of {capacity}");
    }
    let impact = staff.get(&format!("/v1/admin/workers/{worker}/impact")).await.expect(200).body;
    assert_eq!((&impact["unsaved_profiles"], &impact["busy_sessions"]), (&json!(1), &json!(0)), "{impact}");
    let here = impact["ready_sessions"].as_i64().expect("a number");
    assert_eq!(impact["free_slots_elsewhere"], 3 - (2 - here), "{impact}");
    let unknown = format!("/v1/admin/workers/{}/impact", unknown_id("wrk"));
    staff.get(&unknown).await.problem(404, "not-found");
    let row = staff.get(&format!("/v1/admin/workers/{worker}")).await.expect(200).body;
    assert!(row["lease_age_seconds"].as_f64().is_some_and(|age| (0.0..10.0).contains(&age)), "{row}");
    assert!(row["processor_load"].is_f64() && row["hot_browsers"].is_null(), "{row}");
    app.stop().await;
}

/// Contract: staff 36.
#[tokio::test]
async fn job_is_shown_beside_the_load_of_its_type() {
    let app = App::simulated().start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    let loads = staff.get("/v1/admin/jobs/loads").await.expect(200).body;
    let operations = list_of(&loads).iter().find(|row| row["job_type"] == "operations").expect("the type");
    assert!(operations["ended_last_minute"].as_i64() >= Some(2), "an open and a navigate: {operations}");
    assert_eq!(operations["running"], 0, "{operations}");
    let listed = staff.get("/v1/admin/jobs?limit=100").await.expect(200).body;
    let job = list_of(&listed).iter().find(|job| job["body"]["operation"] == "navigate").expect("the operation");
    let path = |id: &str| format!("/v1/admin/jobs/{id}");
    let shown = staff.get(&path(job["id"].as_str().expect("an id"))).await.expect(200).body;
    assert_eq!((&shown["id"], &shown["status"]), (&job["id"], &json!("done")));
    for unknown in [unknown_id("int"), "x".to_owned()] {
        staff.get(&path(&unknown)).await.problem(404, "not-found");
    }
    // Operations never fail in this sense, and the list ends at once.
    let failed = staff.get("/v1/admin/jobs?status=failed").await.expect(200).body;
    assert_eq!(list_of(&failed).len(), 0, "{failed}");
    let by_chain = staff.get("/v1/admin/jobs?queue=maintenance&limit=100").await.expect(200).body;
    let is_sampling = |job: &&Value| job["body"].to_string().contains("sample_service");
    assert!(list_of(&by_chain).iter().any(|job| is_sampling(&job)), "the samples are a job: {by_chain}");
    app.stop().await;
}

/// Contract: staff 37.
#[tokio::test]
async fn preview_is_the_mail_about_an_incident() {
    let app = App::simulated().start().await;
    let (staff, address) = (app.staff().await, "ada@example.com");
    app.subscribed(address).await;
    let preview = async |body: Value| staff.post("/v1/admin/incidents/preview", body).await;
    let message = "We look into it.\n\nIt is <b>late</b>.";
    let incident = json!({"title": "Mails are late", "message": message, "impact": "minor", "components": ["mail"]});
    let with = |more: Value| {
        let mut body = incident.clone();
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let shown = preview(with(json!({"status": "investigating", "is_new": true}))).await.expect(200).body;
    assert_eq!((&shown["subject"], &shown["subscribers"]), (&json!("[Kitfleet] Incident: Mails are late"), &json!(1)));
    staff.post("/v1/admin/incidents", with(json!({"reason": "alert 4711"}))).await.expect(201);
    let mail = app.mail_to(address, Template::IncidentPosted).await;
    assert_eq!(mail.subject, shown["subject"]);
    for paragraph in shown["paragraphs"].as_array().expect("paragraphs") {
        assert!(mail.text.contains(paragraph.as_str().expect("text")), "{paragraph} is not in the mail: {}", mail.text);
    }
    let solved = json!({"title": "t", "impact": "minor", "status": "resolved", "is_new": false});
    assert_eq!(preview(solved).await.expect(200).body["subject"], "[Kitfleet] Resolved: t");
    preview(with(json!({"status": "late", "is_new": false}))).await.invalid("status");
    preview(json!({"title": "t", "impact": "minor", "status": "identified", "is_new": false})).await.invalid("message");
    assert_eq!(app.count("select count(*) from incidents").await, 1, "a preview stores nothing");
    app.stop().await;
}

/// Contract: staff 38.
#[tokio::test]
async fn stored_bytes_of_accounts_are_listed_with_their_quotas() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff: Client = app.staff().await;
    let session = client.session_with(json!({"record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await;
    let row = eventually(Duration::from_secs(20), "the recording is counted", async || {
        let listed = staff.get("/v1/admin/storage/accounts").await.expect(200).body;
        list_of(&listed).iter().find(|row| row["recording_bytes"].as_i64() > Some(0)).cloned()
    })
    .await;
    assert_eq!((&row["account_id"], &row["recordings"]), (&json!(account.to_string()), &json!(1)), "{row}");
    assert_eq!(row["recording_bytes_limit"], 2_147_483_648_i64);
    assert_eq!(row["profile_bytes_limit"], 17_179_869_184_i64);
    staff.get("/v1/admin/storage/accounts?top=0").await.invalid("top");
    app.stop().await;
}
