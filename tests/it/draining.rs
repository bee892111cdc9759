//! Drains of workers (contract: workers 10, 11, 20 to 23; command-line 14).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::commands::{CommandOutput, run};
use crate::support::records::uuid_of;
use crate::support::{App, Client, Redis, Role, eventually, unknown_id};

/// For a process that nothing keeps running.
const AT_ONCE: Duration = Duration::from_secs(8);

pub const ERRORED: &str = "select count(*) from sessions where status = 'errored'";

/// Terminates every connection to the database except this one.
const TERMINATE_ALL: &str = "select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity
                             where datname = current_database() and pid <> pg_backend_pid()) killed";

pub fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "#button"}})
}

pub async fn until_active(app: &App, workers: i64) {
    eventually(Duration::from_secs(30), "the workers are active", async || {
        (app.count("select count(*) from workers where status = 'active'").await == workers).then_some(())
    })
    .await;
}

pub fn process_of(app: &App, worker: &str) -> usize {
    let id = uuid_of(worker).to_string();
    (1..app.started()).find(|process| app.log(*process).contains(&id)).expect("a log with the worker's id")
}

async fn until_draining(app: &App) {
    eventually(Duration::from_secs(10), "the worker drains", async || {
        (app.count("select count(*) from workers where status = 'draining'").await > 0).then_some(())
    })
    .await;
}

pub async fn until_ended(app: &mut App, process: usize) {
    eventually(AT_ONCE, "the process ends", async || app.has_ended(process).then_some(())).await;
}

/// Customers create sessions, run operations on them and delete them.
pub struct Load {
    over: Arc<AtomicBool>,
    operations: Arc<AtomicUsize>,
    customers: JoinSet<()>,
}

impl Load {
    pub fn begin(client: &Client, customers: usize) -> Self {
        let mut load = Self { over: Arc::default(), operations: Arc::default(), customers: JoinSet::new() };
        for _ in 0..customers {
            let (client, over, operations) = (client.clone(), Arc::clone(&load.over), Arc::clone(&load.operations));
            load.customers.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let session = client.session().await;
                    for _ in 0..10 {
                        client.operate(&session, "interact", tap()).await.expect(200);
                        operations.fetch_add(1, Ordering::Relaxed);
                    }
                    client.waiting(&session, 200).await.expect("a task").expect(200);
                    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
                }
            });
        }
        load
    }

    /// Succeeded ones.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    /// Asserts that no operation failed, and returns their number.
    pub async fn end(mut self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        while let Some(customer) = self.customers.join_next().await {
            customer.expect("a customer without failures");
        }
        self.operations.load(Ordering::Relaxed)
    }
}

/// Contract: workers 10, 20.
#[tokio::test]
async fn rolling_restart_under_load_fails_no_operation() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker, Role::Worker]);
    let mut app = builder.set("worker.drain_timeout", "30s").set("worker.max_sessions", "8").start().await;
    until_active(&app, 3).await;
    let client = app.client().await;
    let load = Load::begin(&client, 6);
    for old in 1..=3 {
        app.signal(old, Signal::SIGTERM).await;
        app.start(Role::Worker);
        until_active(&app, 3).await;
    }
    let operations = load.end().await;
    assert!(operations > 100, "only {operations} operations ran during the restarts");
    assert_eq!(app.count(ERRORED).await, 0);
    assert_eq!(app.count("select count(*) from workers where status = 'stopped'").await, 3);
    assert_eq!(app.count("select count(*) from intents where outcome->>'ended' <> 'done'").await, 0);
    app.stop().await;
}

/// Contract: workers 4, 11.
#[tokio::test]
async fn killed_worker_fails_only_its_own_sessions() {
    let roles = [Role::Api, Role::Worker, Role::Worker, Role::Worker, Role::Worker];
    let mut app = App::simulated().roles(&roles).start().await;
    until_active(&app, 4).await;
    let client = app.client().await;
    let mut sessions = BTreeMap::<_, Vec<_>>::new();
    for _ in 0..12 {
        let session = client.session().await;
        sessions.entry(app.worker_of(&session).await).or_default().push(session);
    }
    assert_eq!(sessions.len(), 4, "a worker has no session: {sessions:?}");
    let mut waits = Vec::new();
    for (worker, of_worker) in &sessions {
        waits.push((worker, client.waiting(&of_worker[0], 5_000)));
        app.busy(&of_worker[0]).await;
    }
    let killed = sessions.keys().next().expect("a worker").clone();
    let process = process_of(&app, &killed);
    app.signal(process, Signal::SIGKILL).await;
    // A new process with the same data directory detects the death at once.
    app.start(Role::Worker);
    until_active(&app, 4).await;
    for (worker, wait) in waits {
        let answer = wait.await.expect("a task");
        if *worker == killed {
            answer.problem(502, "driver-error");
        } else {
            answer.expect(200);
        }
    }
    for (worker, of_worker) in &sessions {
        for session in of_worker {
            if *worker == killed {
                let answer = client.operate(session, "interact", tap()).await;
                assert!([409, 410, 502].contains(&answer.status.as_u16()), "{}: {}", answer.status, answer.body);
            } else {
                client.operate(session, "interact", tap()).await.expect(200);
            }
        }
    }
    let failed = i64::try_from(sessions[&killed].len() - 1).expect("some");
    assert_eq!(app.count(ERRORED).await, failed, "all idle sessions of the killed worker");
    for session in sessions.values().flatten() {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.count("select count(*) from sessions where live").await, 0);
    app.stop().await;
}

/// Contract: workers 10, 22; sessions 23; operators 2.
#[tokio::test]
async fn stopping_process_serves_live_sessions_until_they_end() {
    let builder = App::simulated().in_processes().set("redis.url", "redis://127.0.0.1:1");
    let mut app = builder.set("worker.drain_timeout", "60s").start().await;
    let client = app.client().await;
    let session = client.session().await;
    kill(app.pid(0), Signal::SIGTERM).expect("it runs");
    until_draining(&app).await;
    for _ in 0..3 {
        client.operate(&session, "interact", tap()).await.expect(200);
    }
    let refused = client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(app.stranger().get("/readyz").await.expect(200).body["workers"], "draining");
    assert!(!app.has_ended(0), "the process ended although a session is live");

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    until_ended(&mut app, 0).await;
    assert_eq!(app.status_of(&session).await, "destroyed");
    assert_eq!(app.events(&session).await.len(), 1);
    app.stop().await;
}

/// Contract: workers 20, 22. It is either rejected or served.
#[tokio::test]
async fn shutdown_during_creates_fails_no_session() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.max_sessions", "64");
    let mut app = builder.set("worker.drain_timeout", "60s").start().await;
    until_active(&app, 1).await;
    let client = app.client().await;
    // While this session is live, the draining worker keeps running, so that creates fail for lack of capacity.
    let first = client.session().await;
    let served = Arc::new(AtomicUsize::new(0));
    let mut customers: JoinSet<()> = JoinSet::new();
    for _ in 0..6 {
        let (client, served) = (client.clone(), Arc::clone(&served));
        customers.spawn(async move {
            loop {
                let answer = client.post("/v1/sessions", json!({})).await;
                if answer.status != 201 {
                    answer.problem(503, "capacity-exhausted");
                    break;
                }
                let session = answer.body["id"].as_str().expect("an id");
                client.operate(session, "interact", tap()).await.expect(200);
                client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    eventually(Duration::from_secs(20), "more than ten sessions were served", async || {
        (served.load(Ordering::Relaxed) > 10).then_some(())
    })
    .await;
    kill(app.pid(1), Signal::SIGTERM).expect("it runs");
    while let Some(customer) = customers.join_next().await {
        customer.expect("a customer without failures");
    }
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    until_ended(&mut app, 1).await;
    assert_eq!(app.count(ERRORED).await, 0);
    app.stop().await;
}

/// Contract: workers 20. No session is placed on the worker afterwards.
#[tokio::test]
async fn drain_waits_for_a_create_in_progress() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(kitfleet_types::tiers::Tier::Enterprise).await;
    // The create takes its slot and then waits for the lock on its API key.
    let mut holder = app.database.pool.begin().await.expect("a transaction");
    let lock = sqlx::query("select from api_keys where account_id = $1 for update").bind(account.as_uuid());
    lock.execute(&mut *holder).await.expect("the key");
    let create = tokio::spawn(async move { (client.post("/v1/sessions", json!({})).await, client) });
    let waiting = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock' and query ilike '%take_slot%'";
    eventually(Duration::from_secs(10), "the create waits", async || (app.count(waiting).await == 1).then_some(()))
        .await;
    let command = app.command(&["workers", "drain", "--self", "--json"]);
    let draining = tokio::spawn(async move { run(command, "").await });
    let waits_too =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                     and query ilike 'update workers set status%'";
    eventually(Duration::from_secs(10), "the drain waits for the create", async || {
        (app.count(waits_too).await == 1).then_some(())
    })
    .await;
    holder.rollback().await.expect("an end");
    let (created, client) = create.await.expect("a task");
    let session = created.expect(201).body["id"].as_str().expect("an id").to_owned();
    let drained = draining.await.expect("a task").code(0).json();
    assert_eq!((&drained["status"], &drained["live_sessions"]), (&json!("draining"), &json!(1)));
    assert_eq!(app.count("select count(*) from worker_slots where session_id is null").await, 0);
    client.operate(&session, "interact", tap()).await.expect(200);
    app.stop().await;
}

/// Contract: workers 22. Their failure is published.
#[tokio::test]
async fn second_signal_ends_live_sessions_at_once() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "60s");
    let mut app = builder.start().await;
    until_active(&app, 1).await;
    let client = app.client().await;
    let (idle, busy) = (client.session().await, client.session().await);
    let wait = client.waiting(&busy, 60_000);
    app.busy(&busy).await;
    kill(app.pid(1), Signal::SIGTERM).expect("it runs");
    until_draining(&app).await;
    kill(app.pid(1), Signal::SIGINT).expect("it runs");
    until_ended(&mut app, 1).await;
    wait.await.expect("a task").problem(503, "driver-not-integrated");
    for session in [&idle, &busy] {
        assert_eq!(client.status(session).await, "errored");
        let events: Vec<_> = app.events(session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    app.stop().await;
}

/// For 12 s, longer than a lease, while workers drain. Operations are 503 meanwhile.
async fn interrupt_the_database(app: &mut App, client: &Client, session: &str) {
    let began = Instant::now();
    app.postgres().stop().expect("the database ends");
    while began.elapsed() < Duration::from_secs(12) {
        client.operate(session, "interact", tap()).await.problem(503, "feature-unavailable");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    app.postgres().start_again().await.expect("the database comes back");
}

/// Contract: workers 6, 20, 22, 23. The outage does not extend the deadline.
#[tokio::test]
async fn drains_survive_a_database_restart() {
    const DEADLINE: Duration = Duration::from_secs(35);
    let builder = App::simulated().on_a_server_of_its_own().roles(&[Role::Api, Role::Worker, Role::Worker]);
    let mut app = builder.set("worker.drain_timeout", "35s").start().await;
    until_active(&app, 2).await;
    let client = app.client().await;
    let mut sessions = BTreeMap::<_, Vec<_>>::new();
    for _ in 0..4 {
        let session = client.session().await;
        sessions.entry(app.worker_of(&session).await).or_default().push(session);
    }
    let (commanded, told) = (sessions.keys().next().expect("a worker"), sessions.keys().last().expect("another"));
    assert!(commanded != told && sessions[told].len() == 2, "not two sessions on each worker: {sessions:?}");
    let told = process_of(&app, told);
    let began = Instant::now();
    let command = app.command(&["workers", "drain", commanded, "--wait", "--deadline", "35s", "--json"]);
    let draining = tokio::spawn(async move { run(command, "").await });
    kill(app.pid(told), Signal::SIGTERM).expect("it runs");
    eventually(Duration::from_secs(10), "both workers drain", async || {
        (app.count("select count(*) from workers where status = 'draining'").await == 2).then_some(())
    })
    .await;

    let heeds = process_of(&app, commanded);
    eventually(Duration::from_secs(10), "the worker has noticed its drain", async || {
        app.log(heeds).contains("draining: this worker receives no more sessions").then_some(())
    })
    .await;
    interrupt_the_database(&mut app, &client, &sessions[commanded][0]).await;
    for session in sessions.values().flatten() {
        eventually(Duration::from_secs(15), "the session is served again", async || {
            let answer = client.operate(session, "interact", tap()).await;
            match answer.status.as_u16() {
                200 => Some(()),
                503 => None,
                status => panic!("{status} after the outage: {}", answer.body),
            }
        })
        .await;
    }
    assert!(began.elapsed() < DEADLINE, "the sessions were served again after {:?}", began.elapsed());
    assert_eq!(app.count(ERRORED).await, 0);
    assert_eq!(app.count("select count(*) from workers where status = 'lost'").await, 0);
    for of_worker in sessions.values() {
        client.delete(&format!("/v1/sessions/{}", of_worker[0])).await.expect(204);
    }

    let ran = draining.await.expect("a task").code(1);
    assert!(ran.stderr.contains("had to end 1 live session at the deadline"), "{ran:?}");
    let elapsed = began.elapsed();
    assert!(elapsed + Duration::from_secs(1) > DEADLINE && elapsed < DEADLINE + AT_ONCE, "the drain took {elapsed:?}");
    until_ended(&mut app, told).await;
    for of_worker in sessions.values() {
        assert_eq!(
            (client.status(&of_worker[0]).await, client.status(&of_worker[1]).await),
            ("destroyed".into(), "errored".into())
        );
        let events: Vec<_> = app.events(&of_worker[1]).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    app.stop().await;
}

/// Contract: workers 22, 23.
#[tokio::test]
async fn drain_survives_the_death_of_redis() {
    let mut redis = Redis::start();
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "60s");
    let mut app = builder.set("redis.url", &redis.url()).start().await;
    until_active(&app, 1).await;
    let client = app.client().await;
    let (session, busy) = (client.session().await, client.session().await);
    client.operate(&session, "interact", tap()).await.expect(200);
    let wait = client.waiting(&busy, 1_000);
    app.busy(&busy).await;
    kill(app.pid(1), Signal::SIGTERM).expect("it runs");
    until_draining(&app).await;
    redis.kill();
    for _ in 0..5 {
        client.operate(&session, "interact", tap()).await.expect(200);
    }
    wait.await.expect("a task").expect(200);
    for session in [&session, &busy] {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    until_ended(&mut app, 1).await;
    assert_eq!(app.count(ERRORED).await, 0);
    app.stop().await;
}

/// Of `kitfleet workers drain --wait --json`.
fn json_lines(ran: &CommandOutput) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Contract: workers 20, 21; command-line 14. It prints its progress, also when connections break.
#[tokio::test]
async fn drain_command_waits_for_live_sessions() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let (first, second) = (client.session().await, client.session().await);
    let worker = app.worker_of(&first).await;
    let command = app.command(&["workers", "drain", "--self", "--wait", "--json"]);
    let draining = tokio::spawn(async move { run(command, "").await });
    until_draining(&app).await;
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    app.count(TERMINATE_ALL).await;
    eventually(Duration::from_secs(10), "the session is served again", async || {
        (client.operate(&second, "interact", tap()).await.status == 200).then_some(())
    })
    .await;
    assert!(!draining.is_finished(), "the drain ended although a session is live");
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    let said = json_lines(&draining.await.expect("a task").code(0));
    let (begin, end) = (&said[0], said.last().expect("at least one line"));
    assert_eq!(uuid_of(begin["id"].as_str().expect("an id")), uuid_of(&worker));
    assert!(begin["live_sessions"].as_u64() > Some(0), "{begin}");
    assert_eq!((&end["live_sessions"], &end["ended_sessions"], &end["drain_by"]), (&json!(0), &json!(0), &Value::Null));

    eventually(Duration::from_secs(5), "the worker logs the end of the drain", async || {
        app.log(0).contains("drained: this worker has no live session").then_some(())
    })
    .await;
    assert_eq!(app.run(&["workers", "list", "--json"]).await.code(0).json()[0]["status"], "draining");
    let again = app.run(&["workers", "drain", &worker, "--wait"]).await.code(0).stdout;
    assert!(again.contains("has no live session"), "{again}");
    assert!(app.run(&["workers", "drain", &worker]).await.code(1).error_text().contains("already draining"));
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    app.stop().await;
}

/// Contract: workers 20; command-line 14. A second command replaces the deadline of the first.
#[tokio::test]
async fn drain_deadline_ends_live_sessions() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let (idle, busy) = (client.session().await, client.session().await);
    let worker = app.worker_of(&idle).await;
    let patient = app.run(&["workers", "drain", &worker, "--deadline", "4m", "--json"]).await.code(0).json();
    assert!(patient["drain_by"].is_string(), "{patient}");
    let beats = "select count(*) from workers where last_seen_at > now() - interval '1 second'";
    for _ in 0..2 {
        eventually(Duration::from_secs(10), "no heartbeat for 1 s", async || {
            (app.count(beats).await == 0).then_some(())
        })
        .await;
        eventually(Duration::from_secs(10), "a heartbeat", async || (app.count(beats).await == 1).then_some(())).await;
    }
    assert_eq!(client.status(&idle).await, "ready");

    let wait = client.waiting(&busy, 60_000);
    app.busy(&busy).await;
    let started = Instant::now();
    let ran = app.run(&["workers", "drain", &worker, "--wait", "--deadline", "0s", "--json"]).await.code(1);
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
    assert!(ran.error_text().contains("had to end 2 live sessions at the deadline"), "{ran:?}");
    assert_eq!(json_lines(&ran).last().expect("at least one line")["ended_sessions"], 2);
    app.run(&["workers", "drain", &worker, "--wait"]).await.code(0);
    wait.await.expect("a task").problem(503, "driver-not-integrated");
    for session in [&idle, &busy] {
        assert_eq!(client.status(session).await, "errored");
        let events: Vec<_> = app.events(session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    app.stop().await;
}

/// Contract: command-line 12, 14. They exit with 1, and wrong usage with 2.
#[tokio::test]
async fn drain_of_unknown_or_ended_worker_fails() {
    let mut app =
        App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).set("worker.name", "twin").start().await;
    until_active(&app, 2).await;
    let unknown = unknown_id("wrk");
    for (args, why) in [
        (vec!["twin"], "several live workers are named twin"),
        (vec![unknown.as_str(), "--wait"], "there is no worker"),
        (vec!["nobody", "--wait"], "no live worker is named nobody"),
    ] {
        let ran = app.run(&[&["workers", "drain"], &args[..]].concat()).await.code(1);
        assert!(ran.error_text().contains(why), "{args:?}: {ran:?}");
    }
    for args in [vec![], vec!["twin", "--self"], vec!["twin", "--deadline", "soon"], vec!["twin", "--deadline", "31d"]]
    {
        app.run(&[&["workers", "drain"], &args[..]].concat()).await.code(2);
    }
    let workers = app.run(&["workers", "list", "--json"]).await.code(0).json();
    let ids: Vec<_> = workers.as_array().expect("a list").iter().map(|worker| worker["id"].clone()).collect();
    app.signal(1, Signal::SIGTERM).await;
    app.signal(2, Signal::SIGKILL).await;
    app.execute("update workers set status = 'lost' where status = 'active' and $1 is not null", uuid_of(&unknown))
        .await;
    let mut ends = Vec::new();
    for id in &ids {
        let ran = app.run(&["workers", "drain", id.as_str().expect("an id"), "--wait"]).await.code(1);
        ends.extend(
            ["its status is stopped", "its status is lost"].into_iter().filter(|end| ran.error_text().contains(end)),
        );
    }
    ends.sort_unstable();
    assert_eq!(ends, ["its status is lost", "its status is stopped"]);
    assert!(app.run(&["workers", "drain", "--self"]).await.code(1).error_text().contains("no worker runs on"));
    app.stop().await;
}

/// Contract: sessions 26. This bounds the duration of a drain.
#[tokio::test]
async fn session_ends_at_the_maximum_age() {
    let app = App::simulated().set("sessions.max_age", "1s").start().await;
    let client = app.client().await;
    let session = client.session().await;
    eventually(Duration::from_secs(20), "it is destroyed", async || {
        (client.status(&session).await == "destroyed").then_some(())
    })
    .await;
    let events = app.events(&session).await;
    let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!((kind.as_str(), &data["auto_destroyed"]), ("session.completed", &json!(true)));
    assert_eq!(data["reason"], "auto-destroyed: session duration cap");
    client.operate(&session, "interact", tap()).await.problem(410, "session-destroyed");
    app.stop().await;
}

/// Contract: command-line 3.
#[tokio::test]
async fn worker_starts_on_newer_schema_but_not_on_older() {
    let mut app = App::simulated().roles(&[Role::Api]).start().await;
    let newest = "select max(version) from _sqlx_migrations";
    let version = app.count(newest).await;
    let renumber = async |from: i64, to: i64| {
        let statement = sqlx::query("update _sqlx_migrations set version = $2 where version = $1").bind(from).bind(to);
        statement.execute(&app.database.pool).await.expect("a statement");
    };
    let before = app
        .count("select max(version) from _sqlx_migrations where version < (select max(version) from _sqlx_migrations)")
        .await;
    renumber(version, before + 1).await;
    assert!(app.count(newest).await < version, "no free version number before the newest migration");
    let ran = app.run(&["worker"]).await.code(1);
    assert!(ran.stderr.contains("the database schema is not up to date: run `kitfleet migrate`"), "{ran:?}");
    assert_eq!(app.count("select count(*) from workers").await, 0);
    renumber(before + 1, version + 1).await;
    app.start(Role::Worker);
    until_active(&app, 1).await;
    app.stop().await;
}
