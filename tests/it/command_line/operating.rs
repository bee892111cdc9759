//! Operator commands on a running service (contract: command-line).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::sink::Sink;
use crate::support::{App, eventually, unknown_id};
use crate::webhooks;

/// Contract: operators 2; command-line 6, 8; workers 2. An operation can be neither retried nor cancelled.
#[tokio::test]
async fn operator_lists_workers_and_jobs() {
    let app = App::simulated().set("worker.name", "left").start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;

    let workers = app.run(&["workers", "list", "--json"]).await.code(0).json();
    let [worker] = &workers.as_array().expect("a list")[..] else { panic!("expected one worker: {workers}") };
    assert_eq!((&worker["name"], &worker["status"]), (&json!("left"), &json!("active")));
    assert_eq!((&worker["driver"], &worker["live_sessions"]), (&json!("simulated"), &json!(1)));
    assert!(worker["max_sessions"].is_u64());
    assert!(app.run(&["workers", "list"]).await.code(0).stdout.contains("left"));

    let queue = format!("operations:{}", worker["id"].as_str().expect("an id"));
    let listed = async |args: &[&str]| {
        let listed = app.run(&[&["jobs", "list", "--queue", &queue, "--json"], args].concat()).await.code(0).json();
        listed.as_array().expect("a list").clone()
    };
    let jobs = listed(&["--status", "done"]).await;
    assert_eq!(jobs.iter().map(|job| &job["body"]["operation"]).collect::<Vec<_>>(), ["navigate", "open"]);
    let job = jobs[0]["id"].as_str().expect("an id");
    let shown = app.run(&["jobs", "show", job, "--json"]).await.code(0).json();
    assert_eq!(shown, jobs[0]);
    assert_eq!((&shown["queue"], &shown["body"]["session_id"]), (&json!(queue), &json!(session)));
    assert_eq!((&shown["lock_by"], &shown["result"]), (&worker["id"], &json!({"ended": "done"})));
    assert!(app.run(&["jobs", "show", job]).await.code(0).stdout.contains(job));
    let refused = app.run(&["jobs", "retry", job]).await.code(1);
    assert!(refused.error_text().contains("an operation never runs twice"), "{refused:?}");
    let refused = app.run(&["jobs", "cancel", job]).await.code(1);
    assert!(refused.error_text().contains("can destroy its session"), "{refused:?}");
    let waiting = client.waiting(&session, 2_000);
    let running = eventually(Duration::from_secs(5), "the operation is running", async || {
        listed(&["--status", "running"]).await.pop()
    });
    assert_eq!(running.await["body"]["operation"], "wait");
    waiting.await.expect("a task").expect(200);
    assert!(listed(&["--status", "pending"]).await.is_empty());
    assert_eq!(
        app.run(&["jobs", "list", "--limit", "1", "--json"]).await.code(0).json().as_array().map(Vec::len),
        Some(1)
    );
    app.run(&["jobs", "list"]).await.code(0);
    let stats = app.run(&["jobs", "stats", "--json"]).await.code(0).json();
    let of_queue = stats.as_array().and_then(|all| all.iter().find(|stats| stats["queue"] == queue.as_str()));
    assert_eq!(of_queue.expect("the queue's numbers")["done"], 3);
    app.run(&["jobs", "stats"]).await.code(0);
    assert_eq!(app.intents(&session).await.len(), 3);

    app.run(&["sweep", "free-tier"]).await.code(0);
    assert!(app.run(&["sweep", "free-tier", "--json"]).await.code(0).json().is_object());
    let ready = async || app.stranger().get("/readyz").await.expect(200).body["workers"].clone();
    assert_eq!(ready().await, "ok");
    app.run(&["workers", "drain", "left", "--json"]).await.code(0).json();
    assert_eq!(ready().await, "draining");
    assert_eq!(app.run(&["workers", "list", "--json"]).await.code(0).json()[0]["status"], "draining");
    assert!(app.run(&["workers", "drain", "left"]).await.code(1).error_text().contains("already draining"));
    client.navigate(&session, "https://example.com/still").await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    app.stop().await;
}

/// Contract: command-line 6. A cancelled job cannot.
#[tokio::test]
async fn failed_job_can_be_retried_once() {
    let app = App::simulated().start().await;
    let failed = "select id from apalis.jobs where job_type = 'maintenance' and status = 'Done' order by id limit 1";
    let job: String = eventually(Duration::from_secs(15), "a scheduled job has run", async || {
        sqlx::query_scalar(failed).fetch_optional(&app.database.pool).await.expect("the jobs")
    })
    .await;
    let fail = "update apalis.jobs set status = 'Failed', done_at = now() where id = $1";
    sqlx::query(fail).bind(&job).execute(&app.database.pool).await.expect("an update");
    app.run(&["jobs", "retry", &job, "--json"]).await.code(0).json();
    eventually(Duration::from_secs(5), "the job has run again", async || {
        let shown = app.run(&["jobs", "show", &job, "--json"]).await.code(0).json();
        (shown["status"] == "done").then_some(())
    })
    .await;
    app.run(&["jobs", "retry", &job]).await.code(1);
    app.set_job_status(&job, "pending").await;
    app.run(&["jobs", "cancel", &job]).await.code(0);
    let refused = app.run(&["jobs", "retry", &job]).await.code(1);
    assert!(refused.error_text().contains("was cancelled"), "{refused:?}");
    assert_eq!(app.job_status(&job).await, "killed");
    app.stop().await;
}

/// One hour from now, as after a failure of the mail server.
const MAIL_WAITS: &str =
    "update emails set status = 'queued', next_attempt_at = now() + interval '1 hour', done_at = null";

impl App {
    /// Returns the id of the job that sent it.
    async fn send_mail(&self) -> String {
        let body = json!({"email": "ada@example.com", "password": "correct horse battery", "name": "Ada"});
        self.stranger().post("/v1/auth/signup", body).await.expect(200);
        let sent = "select id from apalis.jobs where job_type = 'emails' and status = 'Done'";
        eventually(Duration::from_secs(15), "the mail is sent", async || {
            sqlx::query_scalar(sent).fetch_optional(&self.database.pool).await.expect("the jobs")
        })
        .await
    }

    async fn set_job_status(&self, job: &str, status: &str) {
        sqlx::query("update apalis.jobs set status = initcap($2), run_at = now() + interval '1 hour' where id = $1")
            .bind(job)
            .bind(status)
            .execute(&self.database.pool)
            .await
            .expect("an update");
    }

    async fn job_status(&self, job: &str) -> Value {
        self.run(&["jobs", "show", job, "--json"]).await.code(0).json()["status"].take()
    }
}

/// Contract: command-line 6. This ends its mail for good.
#[tokio::test]
async fn waiting_job_can_be_cancelled() {
    let app = App::simulated().start().await;
    let job = app.send_mail().await;
    for status in ["done", "running", "failed"] {
        app.set_job_status(&job, status).await;
        app.run(&["jobs", "cancel", &job]).await.code(1);
        assert_eq!(app.job_status(&job).await, status);
    }

    app.set_job_status(&job, "pending").await;
    sqlx::query(MAIL_WAITS).execute(&app.database.pool).await.expect("an update");
    assert_eq!(app.run(&["jobs", "cancel", &job, "--json"]).await.code(0).json()["status"], "killed");
    assert_eq!(app.job_status(&job).await, "killed");
    assert_eq!(app.count("select count(*) from emails where status <> 'done'").await, 0);
    app.run(&["jobs", "cancel", &job]).await.code(1);
    let refused = app.run(&["jobs", "retry", &job]).await.code(1);
    assert!(refused.error_text().contains("was cancelled"), "{refused:?}");
    assert_eq!(app.job_status(&job).await, "killed");
    app.stop().await;
}

/// Contract: command-line 6. It cannot after the mail has ended.
#[tokio::test]
async fn job_of_waiting_mail_can_be_retried() {
    let app = App::simulated().start().await;
    let job = app.send_mail().await;
    for status in ["failed", "killed"] {
        app.set_job_status(&job, status).await;
        let refused = app.run(&["jobs", "retry", &job]).await.code(1);
        assert!(refused.error_text().contains("mail"), "{refused:?}");
        assert_eq!(app.job_status(&job).await, status);

        sqlx::query(MAIL_WAITS).execute(&app.database.pool).await.expect("an update");
        app.run(&["jobs", "retry", &job]).await.code(0);
        eventually(Duration::from_secs(15), "the mail is sent", async || {
            let waiting = app.count("select count(*) from emails where status <> 'done'").await;
            (waiting == 0 && app.job_status(&job).await == "done").then_some(())
        })
        .await;
    }
    sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a purge");
    app.set_job_status(&job, "failed").await;
    app.run(&["jobs", "retry", &job]).await.code(1);
    app.stop().await;
}

/// Contract: command-line 7; webhooks 21. A requeued dead letter keeps its id and starts again with six attempts.
#[tokio::test]
async fn dead_letters_can_be_requeued() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "[]").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint =
        async |path: &str| webhooks::id_of(&webhooks::create(&client, &sink.url(path), &["session.failed"]).await);
    let delivery = async |endpoint: &str, status: &str| {
        let delivery = webhooks::send_test(&client, endpoint).await;
        wait_for_delivery(&app, &delivery, status).await;
        delivery
    };
    let counts = async |endpoint: &str| {
        client.get(&format!("/v1/webhooks/{endpoint}")).await.expect(200).body["delivery_counts"].clone()
    };
    let late = endpoint("/first/500/1/").await;
    let first = delivery(&late, "dlq").await;
    let second = delivery(&late, "dlq").await;
    let gone = endpoint("/status/503").await;
    let lost = delivery(&gone, "dlq").await;
    client.delete(&format!("/v1/webhooks/{gone}")).await.expect(204);

    let listed =
        app.run(&["deliveries", "list", "--status", "dlq", "--endpoint", &late, "--json"]).await.code(0).json();
    let ids: Vec<_> = listed.as_array().expect("a list").iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, [&second, &first]);
    let row = json!({"id": second, "account_id": account, "endpoint_id": late, "event_type": "test.ping", "status": "dlq",
                     "attempts": 1, "last_response_status": 500, "last_error": null,
                     "created_at": listed[0]["created_at"]});
    assert_eq!(listed[0], row);
    let newest = app.run(&["deliveries", "list", "--limit", "1"]).await.code(0).stdout;
    assert!(newest.contains(&lost) && newest.contains("503") && newest.lines().count() == 2, "{newest}");

    let requeued = app.run(&["deliveries", "requeue", &first, "--json"]).await.code(0).json();
    assert_eq!(requeued, json!({"requeued": [first]}));
    let arrived = wait_for_delivery(&app, &first, "delivered").await;
    assert_eq!(arrived["attempts"], 1);
    assert_eq!(counts(&late).await, json!({"delivered": 1, "failed": 0, "dlq": 1}));
    let received = sink.received("/first/500/1/");
    assert_eq!(received.last().map(|one| &one.body), received.first().map(|one| &one.body));

    let unknown = unknown_id("wdl");
    let refused = app.run(&["deliveries", "requeue", &second, &first, &lost, &unknown]).await.code(1);
    let complaint = refused.error_text();
    for why in [
        format!("{first} is delivered, not dlq"),
        format!("{lost} goes to {gone}, which is disabled"),
        format!("there is no delivery {unknown}"),
    ] {
        assert!(complaint.contains(&why), "{complaint}");
    }
    wait_for_delivery(&app, &second, "dlq").await;
    let refused = app.run(&["deliveries", "requeue", "--endpoint", &gone]).await.code(1);
    assert!(refused.error_text().contains(&format!("{gone} is disabled")));
    let unknown = unknown_id("whk");
    assert!(app.run(&["deliveries", "requeue", "--endpoint", &unknown]).await.code(1).error_text().contains(&unknown));

    let third = delivery(&late, "dlq").await;
    let requeued = app.run(&["deliveries", "requeue", "--endpoint", &late, "--json"]).await.code(0).json();
    assert_eq!(requeued, json!({"requeued": [second, third]}));
    for delivery in [&second, &third] {
        wait_for_delivery(&app, delivery, "delivered").await;
    }
    assert_eq!(counts(&late).await, json!({"delivered": 3, "failed": 0, "dlq": 0}));
    let again = app.run(&["deliveries", "requeue", "--endpoint", &late, "--json"]).await.code(0).json();
    assert_eq!(again, json!({"requeued": []}));
    assert_eq!(sink.received("/first/500/1/").len(), 6);
    let misuses: [&[&str]; 5] = [
        &["deliveries", "requeue"],
        &["deliveries", "requeue", "wdl_x"],
        &["deliveries", "requeue", &first, "--endpoint", &late],
        &["deliveries", "list", "--status", "lost"],
        &["deliveries", "list", "--limit", "0"],
    ];
    for args in misuses {
        app.run(args).await.code(2);
    }
    app.stop().await;
}

async fn wait_for_delivery(app: &App, delivery: &str, status: &str) -> Value {
    eventually(Duration::from_secs(20), &format!("the delivery is {status}"), async || {
        let listed = app.run(&["deliveries", "list", "--status", status, "--json"]).await.code(0).json();
        listed.as_array()?.iter().find(|row| row["id"] == delivery).cloned()
    })
    .await
}
