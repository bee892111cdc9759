//! The command line and the configuration (contract: command-line; configuration).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::workers::LEASE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::support::app::free_port;
use crate::support::commands::{Ran, alone, run};
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually, raw, unknown_id};
use crate::webhooks;

/// Contract: command-line 5, 12. An account and a key made on the command line work, with and without `--json`; the password is
/// kept as an argon2id hash only.
#[tokio::test]
async fn an_account_and_a_key_can_be_made() {
    let app = App::simulated().start().await;
    let create = async |more: &[&str], password: &str| {
        let args = ["account", "create", "--email", "Ada@Example.com", "--password-stdin", "--name", "Ada Lovelace"];
        run(app.command(&[&args, more].concat()), password).await
    };
    create(&[], "too short\n").await.code(1);
    let created =
        create(&["--tier", "api_starter", "--verified", "--json"], "correct horse battery\n").await.code(0).json();
    let account = created["id"].as_str().expect("an id").to_owned();
    assert!(account.starts_with("acc_"), "{created}");
    create(&[], "correct horse battery\n").await.code(1);
    let hashes =
        "select count(*) from accounts where password_hash like '$argon2id$%' and email_verified_at is not null";
    assert_eq!(app.count(hashes).await, 1);
    assert_eq!(app.tables_with("correct horse").await, Vec::<String>::new());

    let shown = app.run(&["account", "show", &account, "--json"]).await.code(0).json();
    for (member, value) in
        [("id", account.as_str()), ("name", "Ada Lovelace"), ("tier", "api_starter"), ("status", "active")]
    {
        assert_eq!(shown[member], value);
    }
    assert!(!shown.to_string().contains("argon2"), "{shown}");
    assert!(app.run(&["account", "show", &account]).await.code(0).stdout.contains("api_starter"));

    let mint = ["key", "mint", &account, "--name", "laptop", "--scopes", "read,write"];
    let minted = app.run(&[&mint[..], &["--json"]].concat()).await.code(0).json();
    let key = minted["key"].as_str().expect("a key");
    let plain = app.run(&mint).await.code(0);
    let plain_key = keys_in(&plain.stdout).pop().expect("a key on standard output");
    assert_ne!(key, plain_key);
    for key in [key, &plain_key] {
        let client = Client::new(&app.base_url, Some(key));
        let session = client.session().await;
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.tables_with(key).await, Vec::<String>::new(), "the key itself is stored");

    app.run(&["account", "set-tier", &account, "team_manual"]).await.code(0);
    let set = app.run(&["account", "set-tier", &account, "enterprise", "--json"]).await.code(0);
    assert!(set.json().is_object());
    let shown = app.run(&["account", "show", &account, "--json"]).await.code(0).json();
    assert_eq!(shown["tier"], "enterprise");
    let changes = "select count(*) from audit_log where action = 'subscription.tier_changed' and actor_type = 'system'";
    assert_eq!(app.count(changes).await, 2);
    // An account without a name of a tier is on the free one, and its key says what that means.
    let args = ["account", "create", "--email", "free@example.com", "--name", "Free", "--json"];
    let free = app.run(&args).await.code(0).json();
    let id = free["id"].as_str().expect("an id");
    assert_eq!(app.run(&["account", "show", id, "--json"]).await.code(0).json()["tier"], Tier::Free.name());
    app.stop().await;
}

/// Contract: command-line 5; accounts 6, 7. An account that is suspended loses its live sessions and may not act until it is
/// reactivated.
#[tokio::test]
async fn an_account_can_be_suspended_and_reactivated() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let account = account.to_string();
    let sessions = [client.session().await, client.session().await];
    let wait = client.waiting(&sessions[1], 60_000);
    app.busy(&sessions[1]).await;

    let suspended = app.run(&["account", "suspend", &account, "--json"]).await.code(0).json();
    assert_eq!(suspended, json!({"id": account, "status": "suspended", "reclaimed": 2}));
    wait.await.expect("a task").problem(410, "session-destroyed");
    for session in &sessions {
        assert_eq!(app.status_of(session).await, "destroyed");
    }
    let refused = client.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "AccountSuspended");
    assert!(app.run(&["account", "suspend", &account]).await.code(0).stdout.contains(" 0 live sessions"));
    assert_eq!(app.run(&["account", "show", &account, "--json"]).await.code(0).json()["status"], "suspended");
    let mint = ["key", "mint", &account, "--name", "laptop", "--scopes", "read"];
    assert!(app.run(&mint).await.code(1).complaint().contains("is suspended"));

    let reactivated = app.run(&["account", "reactivate", &account, "--json"]).await.code(0).json();
    assert_eq!(reactivated, json!({"id": account, "status": "active"}));
    assert!(app.run(&["account", "reactivate", &account]).await.code(0).stdout.contains("active"));
    client.session().await;
    app.stop().await;
}

/// Contract: configuration 5; limits 1, 2. How many sessions a tier may have can be changed.
#[tokio::test]
async fn the_sessions_of_a_tier_can_be_configured() {
    let app = App::simulated().set("limits.concurrent_sessions.solo_manual", "2").start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    client.session().await;
    client.session().await;
    let refused = client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&refused.body["current_sessions"], &refused.body["limit"]), (&json!(2), &json!(2)));
    app.stop().await;
}

/// Every API key in a text.
fn keys_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("svc_live_") && word.len() == 81).map(ToOwned::to_owned).collect()
}

/// Contract: command-line 12. The exit codes, and a `--help` that reads well.
#[tokio::test]
async fn exit_codes_tell_failure_from_misuse() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await.to_string();
    let (unknown, worker) = (unknown_id("acc"), unknown_id("wrk"));
    let failures: [&[&str]; 9] = [
        &["account", "show", &unknown],
        &["account", "suspend", &unknown],
        &["account", "reactivate", &unknown],
        &["account", "set-tier", &unknown, "free"],
        &["key", "mint", &unknown, "--name", "n", "--scopes", "read"],
        &["workers", "drain", &worker],
        &["jobs", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["jobs", "retry", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["jobs", "cancel", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ];
    for args in failures {
        let ran = app.run(args).await.code(1);
        assert!(!ran.complaint().is_empty());
        assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let misuses: [&[&str]; 17] = [
        &["jobs", "show", "x"],
        &["jobs", "retry", "int_x"],
        &["jobs", "cancel", "wdl_x"],
        &["workers", "drain", "wrk_x"],
        &[],
        &["fly"],
        &["--fly"],
        &["account"],
        &["account", "create"],
        &["account", "show"],
        &["account", "show", "acc_x"],
        &["account", "set-tier", &account, "gold"],
        &["key", "mint", &account, "--name", "n"],
        &["key", "mint", &account, "--name", "n", "--scopes", "fly"],
        &["jobs", "list", "--status", "asleep"],
        &["sweep"],
        &["sweep", "moon"],
    ];
    for args in misuses {
        let ran = app.run(args).await.code(2);
        assert!(!ran.stderr.is_empty(), "{args:?} says nothing");
    }
    let help = app.run(&["--help"]).await.code(0).stdout;
    let commands = [
        "up",
        "api",
        "worker",
        "migrate",
        "config",
        "openapi",
        "doctor",
        "account",
        "key",
        "workers",
        "jobs",
        "deliveries",
        "sweep",
    ];
    for command in commands {
        let line = help.lines().find(|line| line.trim_start().starts_with(command)).expect("each command has a line");
        assert!(line.split_whitespace().count() >= 3, "no word about {command}");
        app.run(&[command, "--help"]).await.code(0);
    }
    assert!(app.run(&["--version"]).await.code(0).stdout.contains(env!("CARGO_PKG_VERSION")));
    app.stop().await;
}

/// Contract: operators 2; command-line 6, 8; workers 2. The operators' views of workers and jobs, for people and for machines; an operation
/// is neither retried nor cancelled.
#[tokio::test]
async fn operators_see_workers_and_jobs() {
    let app = App::simulated().set("worker.name", "left").start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;

    let workers = app.run(&["workers", "list", "--json"]).await.code(0).json();
    let [worker] = &workers.as_array().expect("a list")[..] else { panic!("not one worker: {workers}") };
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
    assert!(refused.complaint().contains("none is ever run twice"), "{refused:?}");
    let refused = app.run(&["jobs", "cancel", job]).await.code(1);
    assert!(refused.complaint().contains("end with their session"), "{refused:?}");
    let waiting = client.waiting(&session, 2_000);
    let running =
        eventually(Duration::from_secs(5), "it is under way", async || listed(&["--status", "running"]).await.pop());
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
    assert!(app.run(&["workers", "drain", "left"]).await.code(1).complaint().contains("draining already"));
    client.navigate(&session, "https://example.com/still").await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    app.stop().await;
}

/// Contract: command-line 6. A job that failed can be retried by an operator, once, and one that was cancelled cannot.
#[tokio::test]
async fn a_failed_job_can_be_retried() {
    let app = App::simulated().start().await;
    let failed = "select id from apalis.jobs where job_type = 'maintenance' and status = 'Done' order by id limit 1";
    let job: String = eventually(Duration::from_secs(15), "a scheduled job has run", async || {
        sqlx::query_scalar(failed).fetch_optional(&app.database.pool).await.expect("the jobs")
    })
    .await;
    let fail = "update apalis.jobs set status = 'Failed', done_at = now() where id = $1";
    sqlx::query(fail).bind(&job).execute(&app.database.pool).await.expect("an update");
    app.run(&["jobs", "retry", &job, "--json"]).await.code(0).json();
    eventually(Duration::from_secs(5), "it has run again", async || {
        let shown = app.run(&["jobs", "show", &job, "--json"]).await.code(0).json();
        (shown["status"] == "Done").then_some(())
    })
    .await;
    app.run(&["jobs", "retry", &job]).await.code(1);
    app.stands(&job, "Pending").await;
    app.run(&["jobs", "cancel", &job]).await.code(0);
    let refused = app.run(&["jobs", "retry", &job]).await.code(1);
    assert!(refused.complaint().contains("was cancelled"), "{refused:?}");
    assert_eq!(app.job_status(&job).await, "Killed");
    app.stop().await;
}

/// A mail's next attempt is due in an hour, as if its server had been away.
const MAIL_WAITS: &str =
    "update emails set status = 'queued', next_attempt_at = now() + interval '1 hour', done_at = null";

impl App {
    /// Has a mail sent. Answers the job that sent it.
    async fn mailed(&self) -> String {
        let body = json!({"email": "ada@example.com", "password": "correct horse battery", "name": "Ada"});
        self.stranger().post("/v1/auth/signup", body).await.expect(200);
        let sent = "select id from apalis.jobs where job_type = 'emails' and status = 'Done'";
        eventually(Duration::from_secs(15), "the mail is sent", async || {
            sqlx::query_scalar(sent).fetch_optional(&self.database.pool).await.expect("the jobs")
        })
        .await
    }

    /// A job that has ended stands as if it had this status, and would run in an hour.
    async fn stands(&self, job: &str, status: &str) {
        sqlx::query("update apalis.jobs set status = $2, run_at = now() + interval '1 hour' where id = $1")
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

/// Contract: command-line 6. A job that waits can be cancelled by an operator, and a mail with it, for good; one that has run
/// or is running cannot.
#[tokio::test]
async fn a_waiting_job_can_be_cancelled() {
    let app = App::simulated().start().await;
    let job = app.mailed().await;
    for status in ["Done", "Running", "Failed"] {
        app.stands(&job, status).await;
        app.run(&["jobs", "cancel", &job]).await.code(1);
        assert_eq!(app.job_status(&job).await, status);
    }

    app.stands(&job, "Pending").await;
    sqlx::query(MAIL_WAITS).execute(&app.database.pool).await.expect("an update");
    assert_eq!(app.run(&["jobs", "cancel", &job, "--json"]).await.code(0).json()["status"], "Killed");
    assert_eq!(app.job_status(&job).await, "Killed");
    assert_eq!(app.count("select count(*) from emails where status <> 'done'").await, 0);
    app.run(&["jobs", "cancel", &job]).await.code(1);
    let refused = app.run(&["jobs", "retry", &job]).await.code(1);
    assert!(refused.complaint().contains("was cancelled"), "{refused:?}");
    assert_eq!(app.job_status(&job).await, "Killed");
    app.stop().await;
}

/// Contract: command-line 6. A mail's job runs again while the mail waits, and not when it has ended.
#[tokio::test]
async fn the_job_of_a_mail_that_waits_can_be_retried() {
    let app = App::simulated().start().await;
    let job = app.mailed().await;
    for status in ["Failed", "Killed"] {
        app.stands(&job, status).await;
        let refused = app.run(&["jobs", "retry", &job]).await.code(1);
        assert!(refused.complaint().contains("mail"), "{refused:?}");
        assert_eq!(app.job_status(&job).await, status);

        sqlx::query(MAIL_WAITS).execute(&app.database.pool).await.expect("an update");
        app.run(&["jobs", "retry", &job]).await.code(0);
        eventually(Duration::from_secs(15), "the mail is sent now", async || {
            let waiting = app.count("select count(*) from emails where status <> 'done'").await;
            (waiting == 0 && app.job_status(&job).await == "Done").then_some(())
        })
        .await;
    }
    sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a purge");
    app.stands(&job, "Failed").await;
    app.run(&["jobs", "retry", &job]).await.code(1);
    app.stop().await;
}

/// Contract: command-line 7; webhooks 21. An operator sees deliveries, and sends dead letters once more, under their own ids
/// and with six attempts to come; what is no dead letter, or goes to a disabled endpoint, is refused, and then nothing is sent.
#[tokio::test]
async fn dead_letters_can_be_requeued() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).set("webhooks.retry_schedule", "[]").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint =
        async |path: &str| webhooks::id_of(&webhooks::create(&client, &sink.url(path), &["session.failed"]).await);
    let delivery = async |endpoint: &str, status: &str| {
        let delivery = webhooks::send_test(&client, endpoint).await;
        delivery_stands(&app, &delivery, status).await;
        delivery
    };
    let counts = async |endpoint: &str| {
        client.get(&format!("/v1/webhooks/{endpoint}")).await.expect(200).body["delivery_counts"].clone()
    };
    // Each event's first request fails.
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
    let arrived = delivery_stands(&app, &first, "delivered").await;
    assert_eq!(arrived["attempts"], 1);
    assert_eq!(counts(&late).await, json!({"delivered": 1, "failed": 0, "dlq": 1}));
    let received = sink.received("/first/500/1/");
    assert_eq!(received.last().map(|one| &one.body), received.first().map(|one| &one.body));

    let unknown = unknown_id("wdl");
    let refused = app.run(&["deliveries", "requeue", &second, &first, &lost, &unknown]).await.code(1);
    let told = refused.complaint();
    for why in [
        format!("{first} is delivered and not dlq"),
        format!("{lost} goes to {gone}, which is disabled"),
        format!("there is no delivery {unknown}"),
    ] {
        assert!(told.contains(&why), "{told}");
    }
    delivery_stands(&app, &second, "dlq").await;
    let refused = app.run(&["deliveries", "requeue", "--endpoint", &gone]).await.code(1);
    assert!(refused.complaint().contains(&format!("{gone} is disabled")));
    let unknown = unknown_id("whk");
    assert!(app.run(&["deliveries", "requeue", "--endpoint", &unknown]).await.code(1).complaint().contains(&unknown));

    let third = delivery(&late, "dlq").await;
    let requeued = app.run(&["deliveries", "requeue", "--endpoint", &late, "--json"]).await.code(0).json();
    assert_eq!(requeued, json!({"requeued": [second, third]}));
    for delivery in [&second, &third] {
        delivery_stands(&app, delivery, "delivered").await;
    }
    assert_eq!(counts(&late).await, json!({"delivered": 3, "failed": 0, "dlq": 0}));
    // Twice is once.
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

/// Waits until a delivery stands there, as operators see it.
async fn delivery_stands(app: &App, delivery: &str, status: &str) -> Value {
    eventually(Duration::from_secs(20), &format!("the delivery is {status}"), async || {
        let listed = app.run(&["deliveries", "list", "--status", status, "--json"]).await.code(0).json();
        listed.as_array()?.iter().find(|row| row["id"] == delivery).cloned()
    })
    .await
}

/// Contract: configuration 1, 6; command-line 4. Defaults, then the file, then the environment; secrets are masked; what is
/// printed is what is in effect.
#[tokio::test]
async fn the_configuration_is_layered_and_masked() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("kitfleet.toml"), "[sessions]\nfree_tier_cap = \"5m\"\n").expect("a file");
    let other = folder.path().join("other.toml");
    fs::write(&other, "[sessions]\nfree_tier_cap = \"7m\"\n[server]\nlisten = \"127.0.0.1:9\"\n").expect("a file");
    let other = other.to_str().expect("text");
    let config = async |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = alone(folder.path(), &[&["config"], args].concat());
        command.envs(variables.iter().copied());
        run(command, "").await.code(0)
    };
    let cap = |ran: &Ran| ran.json()["sessions"]["free_tier_cap"].clone();
    assert_eq!(cap(&config(&["--json"], &[]).await), "5m");
    assert_eq!(cap(&config(&["--config", other, "--json"], &[]).await), "7m");
    let variable = ("KITFLEET_SESSIONS__FREE_TIER_CAP", "9m");
    assert_eq!(cap(&config(&["--config", other, "--json"], &[variable]).await), "9m");
    let printed = config(&["--json"], &[]).await.json();
    assert_eq!(printed["server"]["listen"], "127.0.0.1:8080");
    assert_eq!(printed["server"]["base_url"], "http://127.0.0.1:8080");
    assert_eq!(printed["worker"]["driver"], "webkit");
    assert_eq!(printed["sessions"]["direct_driver"], "reported");

    let secrets = [
        ("DATABASE_URL", "postgres://kit:hunter2@db.example/kit"),
        ("REDIS_URL", "redis://:hunter2@redis.example"),
        ("METRICS_SCRAPE_TOKEN", "hunter2"),
    ];
    for args in [&["--json"][..], &[]] {
        let printed = config(args, &secrets).await.stdout;
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("db.example"), "an operator has to see which database it is: {printed}");
    }
}

/// Contract: configuration 4. An unknown key or a bad value stops the start with one line that names it.
#[tokio::test]
async fn a_bad_configuration_stops_with_one_line() {
    let folder = TempDir::new().expect("a folder");
    let cases: [(&str, Variables<'_>, &str); 13] = [
        ("[server]\nlisten_on = \"127.0.0.1:1\"", &[], "server.listen_on"),
        ("[sesions]\nfree_tier_cap = \"5m\"", &[], "sesions"),
        ("[sessions]\nfree_tier_cap = \"soon\"", &[], "sessions.free_tier_cap"),
        ("[worker]\ndriver = \"chrome\"", &[], "worker.driver"),
        ("[server", &[], "kitfleet.toml"),
        ("", &[("KITFLEET_SERVER__LISTEN_ON", "127.0.0.1:1")], "KITFLEET_SERVER__LISTEN_ON"),
        ("", &[("KITFLEET_SESSIONS__FREE_TIER_CAP", "5 parsecs")], "sessions.free_tier_cap"),
        ("", &[("KITFLEET_SERVER__LISTEN", "everywhere")], "server.listen"),
        ("", &[("KITFLEET_SERVER__TRUSTED_PROXIES", "10.0.0.0/99")], "server.trusted_proxies"),
        ("", &[("DATABASE_URL", "mysql://kit:hunter2@db/kit")], "database.url"),
        ("", &[("MFA_ENCRYPTION_KEY", "hunter2")], "MFA_ENCRYPTION_KEY"),
        ("[webhooks]\ntimeout = 10", &[], "webhooks.timeout"),
        ("[auth]\nsession_tll = \"30d\"", &[], "auth.session_tll"),
    ];
    for (file, variables, key) in cases {
        fs::write(folder.path().join("kitfleet.toml"), file).expect("a file");
        for role in ["up", "api", "worker", "migrate", "config"] {
            let mut command = alone(folder.path(), &[role]);
            command.envs(variables.iter().copied());
            let ran = run(command, "").await;
            // The contract does not say whether a bad configuration is a failure or a misuse.
            assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
            assert!(ran.stdout.is_empty(), "{ran:?}");
            let line = ran.complaint();
            assert!(line.contains(key), "{role}: {line} does not name {key}");
            assert!(!line.contains("hunter2"), "{line}");
        }
    }
    fs::remove_file(folder.path().join("kitfleet.toml")).expect("the file");
    let ran = run(alone(folder.path(), &["--config", "missing.toml", "config"]), "").await;
    assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
    assert!(ran.complaint().contains("missing.toml"));
    let ran = run(alone(folder.path(), &["--config", ".", "config"]), "").await.code(2);
    assert!(ran.complaint().contains("Is a directory"), "{ran:?}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "a start that was refused left something behind");
}

/// A command in the wrong folder says so: a new and empty database would answer that there is nothing.
#[tokio::test]
async fn a_command_makes_no_database() {
    let folder = TempDir::new().expect("a folder");
    let account = unknown_id("acc");
    for args in [&["account", "show", &account][..], &["workers", "list"], &["jobs", "list"], &["sweep", "free-tier"]] {
        let ran = run(alone(folder.path(), args), "").await.code(1);
        let line = ran.complaint();
        assert!(line.contains("there is no database in") && line.contains(".kitfleet"), "{args:?}: {line}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// Contract: configuration 5, 7. Every key that it lists has its default, also those of areas that are still to come.
#[tokio::test]
async fn every_listed_key_has_its_default() {
    let folder = TempDir::new().expect("a folder");
    let printed = run(alone(folder.path(), &["config", "--json"]), "").await.code(0).json();
    let listed = json!({
        "/server/trusted_proxies": [],
        "/database/url": null,
        "/redis/url": null,
        "/email/transport": "file",
        "/email/smtp_url": null,
        "/webhooks/retry_schedule": ["1m", "5m", "15m", "30m", "1h"],
        "/webhooks/timeout": "10s",
        "/webhooks/auto_disable_after": 50,
        "/webhooks/secret_grace": "1d",
        "/webhooks/secret_reminder_after": "60d",
        "/webhooks/allow_private_targets": false,
        "/webhooks/extra_ca_file": null,
        "/sessions/free_tier_cap": "20m",
        "/sessions/require_customer_egress": false,
        "/sessions/allow_private_targets": false,
        "/worker/warm_pool": "auto",
        "/auth/session_ttl": "30d",
        "/auth/verification_ttl": "30m",
        "/auth/magic_link_ttl": "15m",
        "/auth/reset_ttl": "1h",
        "/auth/challenge_ttl": "5m",
        "/auth/step_up_ttl": "15m",
        "/auth/device_code_ttl": "10m",
        "/auth/device_bound_ttl": "2m",
        "/auth/send_rate_per_minute": 3,
        "/mfa/encryption_key": null,
        "/teams/invite_ttl": "7d",
        "/agents/heartbeat_timeout": "30s",
        "/api_keys/rotation_grace": "1d",
        "/billing/card/webhook_secret": null,
        "/billing/crypto/ipn_secret": null,
        "/billing/prices/api_builder": null,
        "/limits/enterprise_profiles": 1000,
        "/limits/concurrent_sessions/api_scale": 24,
    });
    for (key, default) in listed.as_object().expect("an object") {
        assert_eq!(printed.pointer(key), Some(default), "{key}");
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Contract: command-line 3, 4. `migrate` may be run by everybody at once and again; `openapi` needs nothing at all.
#[tokio::test]
async fn migrating_and_printing_the_contract_need_little() {
    let app = App::simulated().start().await;
    let runs = (0..3).map(|_| {
        let command = app.command(&["migrate"]);
        async move { run(command, "").await }
    });
    for ran in crate::support::at_once(runs).await {
        ran.code(0);
    }
    let folder = TempDir::new().expect("a folder");
    let contract = run(alone(folder.path(), &["openapi"]), "").await.code(0).json();
    assert!(contract["paths"]["/v1/sessions"].is_object());
    assert_eq!(run(alone(folder.path(), &["openapi", "--json"]), "").await.code(0).json(), contract);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);

    let mut nowhere = alone(folder.path(), &["migrate"]);
    nowhere.env("DATABASE_URL", format!("postgres://127.0.0.1:{}/none", free_port()));
    assert!(!run(nowhere, "").await.code(1).complaint().is_empty());
    app.stop().await;
}

/// Contract: command-line 10. `doctor` says what is missing.
#[tokio::test]
async fn the_doctor_names_what_is_missing() {
    let app = App::simulated().start().await;
    let healthy = app.run(&["doctor", "--json"]).await;
    assert!(matches!(healthy.code, Some(0 | 1)), "{healthy:?}");
    assert!(healthy.json().to_string().contains("atabase"));
    let mut command = app.command(&["doctor"]);
    command.env("DATABASE_URL", format!("postgres://127.0.0.1:{}/none", free_port()));
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.to_lowercase().contains("database"), "{ill:?}");
    // One that takes connections and then stands still.
    let still = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    for asked in [&["doctor"][..], &["workers", "list"]] {
        let mut command = app.command(asked);
        command.env("DATABASE_URL", format!("postgres://{}/none", still.local_addr().expect("an address")));
        let ill = run(command, "").await.code(1);
        let told = format!("{}{}", ill.stdout, ill.stderr);
        assert!(told.contains("(database.url) cannot be reached"), "{told}");
    }
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_WORKER__DRIVER", "webkit").env("KITFLEET_WORKER__HOST_PROGRAM", "/nowhere/kitfleet-host");
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("there is no /nowhere/kitfleet-host (worker.host_program)"), "{ill:?}");
    let told = format!("{}{}", ill.stdout, ill.stderr);
    assert!(!told.contains("bubblewrap") && !told.contains("CONFINEMENT"), "nothing that confines is at fault: {told}");
    // A provider that is paid by, and whose notices nobody believes.
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_BILLING__CARD__SECRET_KEY", "sk_test_1");
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("billing.card.secret_key is set, and billing.card.webhook_secret is not"), "{ill:?}");
    // Of a browser's two programs the one that is missing is named.
    let host = app.data_dir.path().join("kitfleet-host");
    fs::write(&host, "").expect("a file");
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_WORKER__DRIVER", "webkit").env("KITFLEET_WORKER__HOST_PROGRAM", &host);
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("a build puts kitfleet-keeper beside kitfleet"), "{ill:?}");
    app.stop().await;
}

/// Contract: command-line 2. A port that is taken stops the start with one clear line.
#[tokio::test]
async fn a_taken_port_stops_the_start() {
    let app = App::simulated().start().await;
    let ran = app.run(&["api"]).await.code(1);
    let address = app.base_url.strip_prefix("http://").expect("plain HTTP");
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains(address), "{told}");
    app.client().await.session().await;
    app.stop().await;
}

/// Contract: command-line 1. `kitfleet up` on a bare machine brings its own database, makes a local owner, shows his key once
/// and keeps it in a file that only he can read; SIGTERM leaves no process and no socket; a restart has everything and shows
/// the file.
#[tokio::test]
async fn up_alone_brings_its_own_database() {
    let folder = TempDir::new().expect("a folder");
    // An unprivileged database process has to get through.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let first = Up::start(folder.path()).await;
    let text = first.output().await;
    let [key] = &keys_in(&text)[..] else { panic!("not one key in {text}") };
    assert!(text.contains("curl"), "{text}");
    let client = Client::new(&first.base_url, Some(key));
    let session = client.session().await;
    let kept = files_with(&folder.path().join("data"), key);
    let [file] = &kept[..] else { panic!("the key is kept in {kept:?}") };
    let metadata = fs::metadata(file).expect("the file");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.uid(), nix::unistd::geteuid().as_raw());
    first.stop(folder.path()).await;

    let second = Up::start(folder.path()).await;
    let text = second.output().await;
    assert!(keys_in(&text).is_empty(), "the key is shown again: {text}");
    assert!(text.contains(file.to_str().expect("text")), "a restart does not say where the key is: {text}");
    let client = Client::new(&second.base_url, Some(key));
    assert_eq!(client.status(&session).await, "errored", "its browser ended with the first run");
    client.session().await;

    // A crash: the next start has to cope with what lies around.
    kill(second.pid(), Signal::SIGKILL).expect("it runs");
    let mut second = second;
    second.child.wait().await.expect("a child");
    let third = Up::start(folder.path()).await;
    let client = Client::new(&third.base_url, Some(key));
    // The lease of the second run's worker has not run out, but its machine knows that it is dead: whoever is told that the
    // third is ready gets a session of the third.
    client.session().await;
    third.stop(folder.path()).await;
}

/// Contract: workers 10. An API process by itself waits for its callers' operations no longer than it may, and tells them so;
/// the operation goes on.
#[tokio::test]
async fn an_api_that_stops_keeps_nobody_waiting() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "500ms");
    let mut app = builder.start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    wait.await.expect("a task").problem(504, "session-timeout");
    assert!(started.elapsed() < Duration::from_secs(12), "it took {:?} to stop", started.elapsed());
    assert_eq!(app.status_of(&session).await, "busy");
    app.stop().await;
}

/// Contract: workers 10. Who sends a body too slowly for that keeps no process from ending, and is told.
#[tokio::test]
async fn a_slow_body_does_not_hold_up_the_end() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "500ms");
    let mut app = builder.start().await;
    let client = app.client().await;
    let (mut reader, mut writer) = raw::connect(&app.base_url).await;
    let head = format!(
        "POST /v1/profiles/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{{",
        client.key.clone().expect("a key")
    );
    writer.write_all(head.as_bytes()).await.expect("a connection");
    // It is under way when another request on the same process, made later, was answered.
    client.get("/v1/profiles").await.expect(200);
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    assert!(started.elapsed() < Duration::from_secs(8), "it took {:?} to stop", started.elapsed());
    let answer = raw::answer(&mut reader, Duration::from_secs(5)).await;
    assert!(raw::status(&answer) == Some(503) && answer.contains("the service is stopping"), "{answer}");
    drop(writer);
    app.stop().await;
}

/// Contract: workers 15. Who starts on the data of a worker that was killed knows at once that it is dead, and spares one that
/// lives.
#[tokio::test]
async fn a_dead_worker_is_known_to_the_next_on_its_data() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).start().await;
    let active = "select count(*) from workers where status = 'active'";
    eventually(Duration::from_secs(10), "both workers are there", async || {
        (app.count(active).await == 2).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    let started = Instant::now();
    app.start(Role::Worker);
    eventually(Duration::from_secs(10), "there is a third worker", async || {
        (app.count("select count(*) from workers").await == 3).then_some(())
    })
    .await;
    let lost = app.count("select count(*) from workers where status = 'lost'").await;
    assert!(started.elapsed() < LEASE, "too late to tell");
    assert_eq!((lost, app.count(active).await), (1, 2));
    app.stop().await;
}

struct Up {
    child: tokio::process::Child,
    base_url: String,
    log: PathBuf,
}

impl Up {
    async fn start(folder: &Path) -> Self {
        let port = free_port();
        let log = folder.join(format!("{port}.log"));
        let file = fs::File::create(&log).expect("a file");
        let mut command = alone(folder, &["up"]);
        command.env("KITFLEET_DATA_DIR", folder.join("data")).env("KITFLEET_WORKER__DRIVER", "simulated");
        command.env("KITFLEET_WORKER__DRAIN_TIMEOUT", "100ms");
        command.env("KITFLEET_SERVER__LISTEN", format!("127.0.0.1:{port}"));
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("the binary starts");
        let mut up = Self { child, base_url: format!("http://127.0.0.1:{port}"), log };
        eventually(Duration::from_mins(1), "it is ready", async || {
            if let Some(status) = up.child.try_wait().expect("a child") {
                panic!("it ended with {status}: {}", fs::read_to_string(&up.log).unwrap_or_default());
            }
            reqwest::get(format!("{}/readyz", up.base_url)).await.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        up
    }

    /// What it has said since it started, once it has said where it is.
    async fn output(&self) -> String {
        eventually(Duration::from_secs(10), "it says where it is", async || {
            Some(fs::read_to_string(&self.log).expect("its output")).filter(|text| text.contains(&self.base_url))
        })
        .await
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().expect("it runs")).expect("a process id"))
    }

    async fn stop(mut self, folder: &Path) {
        kill(self.pid(), Signal::SIGTERM).expect("it runs");
        let status = tokio::time::timeout(Duration::from_secs(40), self.child.wait()).await.expect("it stops");
        assert!(status.expect("a child").success());
        let left = processes_of(folder);
        assert!(left.is_empty(), "left: {left:?}");
        let data = folder.join("data");
        let sockets: Vec<_> = walk(&data).into_iter().filter(|path| is_socket(path)).collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        assert!(!data.join("postgres/postmaster.pid").exists(), "the database was not shut down");
    }
}

/// The command lines of processes that name this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("text");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(folder)).collect()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;

    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn files_with(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(needle));
    walk(folder).into_iter().filter(|path| !is_socket(path)).filter(holds).collect()
}
