//! Taking workers out of service (contract: workers 10, 11, 20 to 23; command-line 14).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::commands::{Ran, run};
use crate::support::records::uuid_of;
use crate::support::{App, Client, Redis, Role, eventually, unknown_id};

/// How long a process may take to end that waits for nothing any more.
const AT_ONCE: Duration = Duration::from_secs(8);

/// Every session that failed.
pub const ERRORED: &str = "select count(*) from sessions where status = 'errored'";

/// Breaks every connection to the database but this one.
const TERMINATE_ALL: &str = "select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity
                             where datname = current_database() and pid <> pg_backend_pid()) killed";

pub fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "#button"}})
}

pub async fn until_active(app: &App, workers: i64) {
    eventually(Duration::from_secs(30), "the workers are there", async || {
        (app.count("select count(*) from workers where status = 'active'").await == workers).then_some(())
    })
    .await;
}

/// Which process this worker is.
pub fn process_of(app: &App, worker: &str) -> usize {
    let id = uuid_of(worker).to_string();
    (1..app.started()).find(|process| app.log(*process).contains(&id)).expect("its log names it")
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

/// Customers who use sessions all the time, each for some operations.
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

    /// How many operations there have been.
    pub fn operations(&self) -> usize {
        self.operations.load(Ordering::Relaxed)
    }

    /// Has everybody come to an end. Answers how many operations there were, of which none has failed.
    pub async fn end(mut self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        while let Some(customer) = self.customers.join_next().await {
            customer.expect("nothing fails");
        }
        self.operations.load(Ordering::Relaxed)
    }
}

/// Contract: workers 10, 20. All workers are restarted, one after the other, while they are used: no operation fails and no session
/// does.
#[tokio::test]
async fn a_rolling_restart_under_load_fails_nothing() {
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
    assert!(operations > 100, "only {operations} operations came meanwhile");
    assert_eq!(app.count(ERRORED).await, 0);
    assert_eq!(app.count("select count(*) from workers where status = 'stopped'").await, 3);
    assert_eq!(app.count("select count(*) from intents where outcome->>'ended' <> 'done'").await, 0);
    app.stop().await;
}

/// Contract: workers 4, 11. Of four workers one is killed: its sessions fail, idle ones and one at work, and nobody else's, those at work
/// too.
#[tokio::test]
async fn a_worker_that_is_killed_takes_its_own_sessions_along_and_no_others() {
    let roles = [Role::Api, Role::Worker, Role::Worker, Role::Worker, Role::Worker];
    let mut app = App::simulated().roles(&roles).start().await;
    until_active(&app, 4).await;
    let client = app.client().await;
    let mut sessions = BTreeMap::<_, Vec<_>>::new();
    for _ in 0..12 {
        let session = client.session().await;
        sessions.entry(app.worker_of(&session).await).or_default().push(session);
    }
    assert_eq!(sessions.len(), 4, "each has some: {sessions:?}");
    let mut waits = Vec::new();
    for (worker, of_worker) in &sessions {
        waits.push((worker, client.waiting(&of_worker[0], 5_000)));
        app.busy(&of_worker[0]).await;
    }
    let killed = sessions.keys().next().expect("a worker").clone();
    let process = process_of(&app, &killed);
    app.signal(process, Signal::SIGKILL).await;
    // Who starts on its data knows at once that it is dead.
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
                // The one at work stays busy until it is deleted.
                let answer = client.operate(session, "interact", tap()).await;
                assert!([409, 410, 502].contains(&answer.status.as_u16()), "{}: {}", answer.status, answer.body);
            } else {
                client.operate(session, "interact", tap()).await.expect(200);
            }
        }
    }
    let failed = i64::try_from(sessions[&killed].len() - 1).expect("some");
    assert_eq!(app.count(ERRORED).await, failed, "those of the worker, but for the one at work");
    for session in sessions.values().flatten() {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.count("select count(*) from sessions where live").await, 0);
    app.stop().await;
}

/// Contract: workers 10, 22; sessions 23; operators 2. Whoever is told to stop serves the sessions that live until they have ended,
/// and takes no more, and it makes no difference that Redis is away.
#[tokio::test]
async fn who_is_told_to_stop_serves_what_lives_until_it_has_ended() {
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
    assert!(!app.has_ended(0), "it ended with a session that lives");

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    until_ended(&mut app, 0).await;
    assert_eq!(app.status_of(&session).await, "destroyed");
    assert_eq!(app.events(&session).await.len(), 1);
    app.stop().await;
}

/// Contract: workers 20, 22. Creates that come in the moment of a stop are refused, or have a session that is served.
#[tokio::test]
async fn a_stop_in_the_middle_of_creates_fails_none() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.max_sessions", "64");
    let mut app = builder.set("worker.drain_timeout", "60s").start().await;
    until_active(&app, 1).await;
    let client = app.client().await;
    // As long as it lives there is a worker, which has no room.
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
    eventually(Duration::from_secs(20), "sessions come and go", async || {
        (served.load(Ordering::Relaxed) > 10).then_some(())
    })
    .await;
    kill(app.pid(1), Signal::SIGTERM).expect("it runs");
    while let Some(customer) = customers.join_next().await {
        customer.expect("nothing fails");
    }
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    until_ended(&mut app, 1).await;
    assert_eq!(app.count(ERRORED).await, 0);
    app.stop().await;
}

/// Contract: workers 20. What a create has in its hands when its worker begins to drain is waited for, so that nothing is placed
/// there afterwards.
#[tokio::test]
async fn a_create_under_way_comes_before_the_drain() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(kitfleet_domain::accounts::Tier::Enterprise).await;
    // The create takes its slot, and then waits for the key that its session names.
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

/// Contract: workers 22. Who is told twice ends at once what still lives, and tells of it.
#[tokio::test]
async fn who_is_told_twice_to_stop_ends_at_once() {
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

/// Has the database stop and come back after twelve seconds, longer than a lease, while workers drain. Whoever asks meanwhile is told so.
async fn interrupt_the_database(app: &mut App, client: &Client, session: &str) {
    let began = Instant::now();
    app.postgres().stop().expect("the database ends");
    while began.elapsed() < Duration::from_secs(12) {
        client.operate(session, "interact", tap()).await.problem(503, "feature-unavailable");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    app.postgres().start_again().await.expect("the database comes back");
}

/// Contract: workers 6, 20, 22, 23. The database ends while one worker drains by a command and another because it was told to stop,
/// and comes back. What lived lives on and is served, and what still lives at the deadline is ended then, and no later for it.
#[tokio::test]
async fn drains_outlast_a_database_that_stops_and_comes_back() {
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
    assert!(commanded != told && sessions[told].len() == 2, "two on each: {sessions:?}");
    let told = process_of(&app, told);
    let began = Instant::now();
    let command = app.command(&["workers", "drain", commanded, "--wait", "--deadline", "35s", "--json"]);
    let draining = tokio::spawn(async move { run(command, "").await });
    kill(app.pid(told), Signal::SIGTERM).expect("it runs");
    eventually(Duration::from_secs(10), "both drain", async || {
        (app.count("select count(*) from workers where status = 'draining'").await == 2).then_some(())
    })
    .await;

    let heeds = process_of(&app, commanded);
    eventually(Duration::from_secs(10), "the worker hears of it", async || {
        app.log(heeds).contains("draining: no more sessions").then_some(())
    })
    .await;
    interrupt_the_database(&mut app, &client, &sessions[commanded][0]).await;
    for session in sessions.values().flatten() {
        eventually(Duration::from_secs(15), "it is served again", async || {
            let answer = client.operate(session, "interact", tap()).await;
            match answer.status.as_u16() {
                200 => Some(()),
                503 => None,
                status => panic!("{status} after the outage: {}", answer.body),
            }
        })
        .await;
    }
    assert!(began.elapsed() < DEADLINE, "it took {:?} until all were served", began.elapsed());
    assert_eq!(app.count(ERRORED).await, 0);
    assert_eq!(app.count("select count(*) from workers where status = 'lost'").await, 0);
    for of_worker in sessions.values() {
        client.delete(&format!("/v1/sessions/{}", of_worker[0])).await.expect(204);
    }

    let ran = draining.await.expect("a task").code(1);
    // Before that it has told of the outage.
    assert!(ran.stderr.contains("at the deadline 1 session still lived"), "{ran:?}");
    let took = began.elapsed();
    assert!(took + Duration::from_secs(1) > DEADLINE && took < DEADLINE + AT_ONCE, "it took {took:?}");
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

/// Contract: workers 22, 23. Redis dies while a worker drains: what lives is served, and the drain ends with it.
#[tokio::test]
async fn a_drain_outlasts_redis() {
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

/// What `kitfleet workers drain --wait --json` has said, line by line.
fn said(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Contract: workers 20, 21; command-line 14. A worker is drained by a command, which waits until no session lives on it, and says
/// how far it has come, over connections that break. The worker stays.
#[tokio::test]
async fn an_operator_drains_a_worker_and_waits() {
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
    assert!(!draining.is_finished(), "a session lives");
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    let said = said(&draining.await.expect("a task").code(0));
    let (begin, end) = (&said[0], said.last().expect("something"));
    assert_eq!(uuid_of(begin["id"].as_str().expect("an id")), uuid_of(&worker));
    assert!(begin["live_sessions"].as_u64() > Some(0), "{begin}");
    assert_eq!((&end["live_sessions"], &end["ended_sessions"], &end["drain_by"]), (&json!(0), &json!(0), &Value::Null));

    eventually(Duration::from_secs(5), "the worker says so", async || {
        app.log(0).contains("drained: no session lives on this worker").then_some(())
    })
    .await;
    assert_eq!(app.run(&["workers", "list", "--json"]).await.code(0).json()[0]["status"], "draining");
    // It is for whoever tries again, too.
    let again = app.run(&["workers", "drain", &worker, "--wait"]).await.code(0).stdout;
    assert!(again.contains("no session lives on it"), "{again}");
    assert!(app.run(&["workers", "drain", &worker]).await.code(1).complaint().contains("draining already"));
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    app.stop().await;
}

/// Contract: workers 20; command-line 14. What still lives at the deadline is ended, idle or at work, its callers and its webhooks
/// hear of it, and the command has failed. A later deadline takes the place of an earlier one.
#[tokio::test]
async fn a_deadline_ends_what_still_lives() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let (idle, busy) = (client.session().await, client.session().await);
    let worker = app.worker_of(&idle).await;
    let patient = app.run(&["workers", "drain", &worker, "--deadline", "4m", "--json"]).await.code(0).json();
    assert!(patient["drain_by"].is_string(), "{patient}");
    let beats = "select count(*) from workers where last_seen_at > now() - interval '1 second'";
    for _ in 0..2 {
        eventually(Duration::from_secs(10), "it was silent", async || (app.count(beats).await == 0).then_some(()))
            .await;
        eventually(Duration::from_secs(10), "it beats", async || (app.count(beats).await == 1).then_some(())).await;
    }
    assert_eq!(client.status(&idle).await, "ready");

    let wait = client.waiting(&busy, 60_000);
    app.busy(&busy).await;
    let started = Instant::now();
    let ran = app.run(&["workers", "drain", &worker, "--wait", "--deadline", "0s", "--json"]).await.code(1);
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
    assert!(ran.complaint().contains("at the deadline 2 sessions still lived"), "{ran:?}");
    assert_eq!(said(&ran).last().expect("something")["ended_sessions"], 2);
    // Whoever asks again, as a hook does, hears of what is now.
    app.run(&["workers", "drain", &worker, "--wait"]).await.code(0);
    wait.await.expect("a task").problem(503, "driver-not-integrated");
    for session in [&idle, &busy] {
        assert_eq!(client.status(session).await, "errored");
        let events: Vec<_> = app.events(session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    app.stop().await;
}

/// Contract: command-line 12, 14. Who cannot be drained is not, and is told from wrong usage.
#[tokio::test]
async fn whom_no_command_drains() {
    let mut app =
        App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).set("worker.name", "twin").start().await;
    until_active(&app, 2).await;
    let unknown = unknown_id("wrk");
    for (args, why) in [
        (vec!["twin"], "several workers are called twin"),
        (vec![unknown.as_str(), "--wait"], "there is no worker"),
        (vec!["nobody", "--wait"], "no worker nobody is alive"),
    ] {
        let ran = app.run(&[&["workers", "drain"], &args[..]].concat()).await.code(1);
        assert!(ran.complaint().contains(why), "{args:?}: {ran:?}");
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
        ends.extend(["it is stopped", "it is lost"].into_iter().filter(|end| ran.complaint().contains(end)));
    }
    ends.sort_unstable();
    assert_eq!(ends, ["it is lost", "it is stopped"]);
    assert!(app.run(&["workers", "drain", "--self"]).await.code(1).complaint().contains("no worker runs on"));
    app.stop().await;
}

/// Contract: sessions 26. A session of any tier ends at an age, where there is one, so that no drain takes longer.
#[tokio::test]
async fn no_session_becomes_older_than_it_may() {
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

/// Contract: command-line 3. Versions work beside each other on one schema: a worker starts on one that is newer than itself, and not on
/// one that is older, which it says.
#[tokio::test]
async fn a_worker_starts_on_a_schema_of_its_own_version_or_a_newer_one() {
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
    assert!(app.count(newest).await < version, "there is no number between the last two");
    let ran = app.run(&["worker"]).await.code(1);
    assert!(ran.stderr.contains("the database's schema is not up to date: run `kitfleet migrate`"), "{ran:?}");
    assert_eq!(app.count("select count(*) from workers").await, 0);
    renumber(before + 1, version + 1).await;
    app.start(Role::Worker);
    until_active(&app, 1).await;
    app.stop().await;
}
