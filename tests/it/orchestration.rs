//! Claims, workers and the death of workers: the path between the API and a browser (contract: sessions 12 to 17; workers).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::routes::operations;
use crate::support::{App, Client, Role, at_once, eventually, members};

/// A worker's lease plus the sweep that detects its expiry (contract: workers 5), with a margin for a machine that runs other
/// tests.
const RESCUE: Duration = Duration::from_secs(25);

/// Terminates every connection to the database except this one.
pub const TERMINATE_ALL: &str = "select count(*) from (select pg_terminate_backend(pid) from pg_stat_activity
                             where datname = current_database() and pid <> pg_backend_pid()) killed";

fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "#button"}})
}

/// Contract: sessions 13, 17. One event is published, and the slot is free.
#[tokio::test]
async fn operation_on_busy_session_is_409_and_delete_wins() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let session = client.session().await;
    let path = format!("/v1/sessions/{session}");
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    for route in operations(&session) {
        client.call(&route).await.problem(409, "conflict");
    }
    let kinds: Vec<_> = app.intents(&session).await.into_iter().map(|intent| intent.kind).collect();
    assert_eq!(kinds, ["open", "wait"]);
    let busy = client.get(&path).await.expect(200).body;
    assert_eq!((&busy["status"], &busy["last_state_at"]), (&json!("busy"), &Value::Null));

    let started = Instant::now();
    client.delete(&path).await.expect(204);
    assert!(started.elapsed() < Duration::from_secs(5), "DELETE waited for the operation to end");
    wait.await.expect("a task").problem(410, "session-destroyed");
    assert!(started.elapsed() < Duration::from_secs(5), "the rejected caller waited for its operation to end");
    let next = client.session().await;
    client.operate(&next, "interact", tap()).await.expect(200);

    assert_eq!(client.status(&session).await, "destroyed");
    let events = app.events(&session).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "session.completed");
    assert_eq!(members(&events[0].1), BTreeSet::from(["session_id", "duration_ms"]));
    app.stop().await;
}

/// Contract: sessions 13.
#[tokio::test]
async fn concurrent_operations_never_overlap() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let race = (0..64).map(|_| {
        let (client, session) = (client.clone(), session.clone());
        async move { client.operate(&session, "interact", tap()).await }
    });
    let (won, lost): (Vec<_>, Vec<_>) = at_once(race).await.into_iter().partition(|answer| answer.status == 200);
    assert!(!won.is_empty());
    assert!(!lost.is_empty(), "no operations overlapped");
    for answer in lost {
        answer.problem(409, "conflict");
    }
    assert_eq!(app.intents(&session).await.len(), won.len() + 1);
    let overlaps = "select count(*) from intents a join intents b on a.session_id = b.session_id and a.id < b.id
                    where a.kind <> 'open' and a.started_at < b.done_at and b.started_at < a.done_at";
    assert_eq!(app.count(overlaps).await, 0);
    assert_eq!(client.status(&session).await, "ready");
    client.operate(&session, "interact", tap()).await.expect(200);
    app.stop().await;
}

/// Contract: sessions 17. The operation returns 200 or 410.
#[tokio::test]
async fn delete_during_operation_publishes_one_event() {
    let app = App::simulated().set("worker.max_sessions", "100").start().await;
    let client = app.client().await;
    let mut outcomes = BTreeMap::<u16, usize>::new();
    for round in 0..40_u64 {
        let session = client.session().await;
        let operation = client.waiting(&session, round % 8);
        let deletion = after(Duration::from_micros(round * 397 % 12_000), client.clone(), session.clone());
        let (operation, deletion) = tokio::join!(operation, deletion);
        let operation = operation.expect("a task");
        assert_eq!(deletion, 204);
        match operation.status.as_u16() {
            200 => {}
            410 => drop(operation.problem(410, "session-destroyed")),
            other => panic!("round {round}: {other} {}", operation.body),
        }
        *outcomes.entry(operation_status(&app, &session).await).or_default() += 1;
        assert_eq!(client.status(&session).await, "destroyed");
        let events: Vec<_> = app.events(&session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.completed"], "round {round}");
    }
    assert!(outcomes.len() > 1, "all rounds had the same outcome: {outcomes:?}");
    app.stop().await;
}

async fn after(delay: Duration, client: Client, session: String) -> u16 {
    tokio::time::sleep(delay).await;
    client.delete(&format!("/v1/sessions/{session}")).await.status.as_u16()
}

/// Outcome of a session's operation by its row: 200, 410, or 0 when the DELETE came before the claim.
async fn operation_status(app: &App, session: &str) -> u16 {
    let ended: Option<String> =
        sqlx::query_scalar("select outcome->>'ended' from intents where session_id = $1 and kind <> 'open'")
            .bind(crate::support::records::uuid_of(session))
            .fetch_optional(&app.database.pool)
            .await
            .expect("the intents");
    match ended.as_deref() {
        Some("done") => 200,
        Some("destroyed") => 410,
        None => 0,
        other => panic!("the operation ended as {other:?}"),
    }
}

/// Contract: requests 13.
#[tokio::test]
async fn disconnected_clients_leave_nothing_pending() {
    let app = App::simulated().set("worker.max_sessions", "100").start().await;
    let client = app.client().await;
    let session = client.session().await;
    for round in 0..80_u64 {
        let patience = Duration::from_micros(round * 211 % 9_000);
        let _ = tokio::time::timeout(patience, client.post("/v1/sessions", json!({"label": "gone"}))).await;
        let _ = tokio::time::timeout(patience, client.operate(&session, "interact", tap())).await;
        let _ = tokio::time::timeout(patience, client.get(&format!("/v1/sessions/{session}/state"))).await;
        let path = format!("/v1/sessions/{}", abandoned(&app).await);
        let _ = tokio::time::timeout(patience, client.delete(&path)).await;
    }
    eventually(Duration::from_secs(10), "everything settles", async || {
        let open = app.count("select count(*) from sessions where status in ('creating', 'busy')").await;
        (open == 0).then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from sessions where status = 'errored'").await, 0);
    assert_eq!(client.status(&session).await, "ready");
    client.operate(&session, "interact", tap()).await.expect(200);
    let creates = app.count("select count(*) from sessions where label = 'gone'").await;
    assert!(creates > 20, "only {creates} creates were processed: the delays are too short for this test");

    let transactions = "select count(*) from pg_stat_activity
                        where datname = current_database() and state like 'idle in transaction%'";
    eventually(Duration::from_secs(5), "no connection keeps a transaction", async || {
        (app.count(transactions).await == 0).then_some(())
    })
    .await;
    // Runs more requests than the pool has connections, and reads each change over a connection outside the pool.
    let durable = app.client_with(Tier::SoloManual, &["write"]).await;
    for _ in 0..40 {
        let id = durable.session().await;
        assert_eq!(app.status_of(&id).await, "ready");
        durable.delete(&format!("/v1/sessions/{id}")).await.expect(204);
        assert_eq!(app.status_of(&id).await, "destroyed");
        assert_eq!(app.events(&id).await.len(), 1);
    }
    app.stop().await;
}

/// Id of a session whose creator disconnected, or an unknown id.
async fn abandoned(app: &App) -> String {
    let query = "select 'ses_' || id from sessions where label = 'gone' and status = 'ready' order by id limit 1";
    let found: Option<String> =
        sqlx::query_scalar(query).fetch_optional(&app.database.pool).await.expect("the sessions");
    found.unwrap_or_else(|| crate::support::unknown_id("ses"))
}

/// Contract: workers 11; command-line 8. The drained worker's own sessions continue.
#[tokio::test]
async fn two_workers_share_the_load_and_one_is_drained() {
    let app = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).start().await;
    two_workers(&app).await;
    let client = app.client().await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(client.session().await);
    }
    let load = load(&app, &sessions).await;
    assert_eq!(load.len(), 2, "{load:?}");
    assert!(load.values().all(|count| *count == 4), "{load:?}");
    let listed = app.run(&["workers", "list", "--json"]).await.code(0).json();
    let listed: BTreeMap<_, _> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|worker| {
            (worker["id"].as_str().expect("an id").to_owned(), worker["live_sessions"].as_u64().expect("a number"))
        })
        .collect();
    assert_eq!(listed, load);

    let drained = app.worker_of(&sessions[0]).await;
    app.run(&["workers", "drain", &drained]).await.code(0);
    for _ in 0..4 {
        let session = client.session().await;
        assert_ne!(app.worker_of(&session).await, drained);
    }
    for session in &sessions {
        client.operate(session, "interact", tap()).await.expect(200);
    }
    app.stop().await;
}

async fn two_workers(app: &App) {
    eventually(Duration::from_secs(30), "two workers are active", async || {
        (app.count("select count(*) from workers where status = 'active'").await == 2).then_some(())
    })
    .await;
}

async fn load(app: &App, sessions: &[String]) -> BTreeMap<String, u64> {
    let mut load = BTreeMap::new();
    for session in sessions {
        *load.entry(app.worker_of(session).await).or_default() += 1;
    }
    load
}

/// Contract: sessions 8, 23. Contract: operators 1, 2. `/readyz` requires a live worker; `/healthz` and `/readyz?for=api` do
/// not.
#[tokio::test]
async fn create_without_worker_or_free_slot_is_503() {
    let mut app = App::simulated().roles(&[Role::Api]).set("worker.max_sessions", "2").start().await;
    let client = app.client().await;
    client.post("/v1/sessions", json!({})).await.problem(503, "driver-not-integrated");
    client.get("/readyz").await.expect(503);
    assert_eq!(client.get("/readyz?for=api").await.expect(200).body["workers"], "none");
    client.get("/readyz?for=worker").await.problem(400, "validation-failed");
    client.get("/healthz").await.expect(200);
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    assert_eq!(app.count("select count(*) from audit_log where action = 'session.created'").await, 0);

    app.start(Role::Worker);
    eventually(Duration::from_secs(30), "the worker is ready", async || {
        (client.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    let first = client.session().await;
    client.session().await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    client.session().await;
    app.stop().await;

    let app = App::simulated().set("worker.driver", "none").start().await;
    assert_eq!(app.stranger().get("/readyz").await.expect(200).body["workers"], "no_driver");
    app.stop().await;
}

/// Contract: workers 4.
#[tokio::test]
async fn next_operation_after_worker_death_is_502() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client_with(Tier::TeamManual, &["account_owner"]).await;
    let sessions = [client.session().await, client.session().await, client.session().await];
    app.signal(1, Signal::SIGKILL).await;

    let started = Instant::now();
    client.operate(&sessions[0], "interact", tap()).await.problem(502, "driver-error");
    assert!(started.elapsed() < RESCUE, "the caller waited for {:?}", started.elapsed());
    let started = Instant::now();
    client.operate(&sessions[1], "interact", tap()).await.problem(502, "driver-error");
    assert!(started.elapsed() < Duration::from_secs(5), "the second operation waited for the dead worker");
    for session in &sessions[..2] {
        assert_eq!(client.status(session).await, "errored");
        let events = app.events(session).await;
        let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
        assert_eq!(kind, "session.failed");
        let told = json!({
            "session_id": session, "duration_ms": data["duration_ms"], "operation": "interact",
            "error_name": "DriverError", "error_message": "The browser operation failed.",
        });
        assert_eq!(data, &told);
        client.operate(session, "interact", tap()).await.problem(410, "session-destroyed");
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        assert_eq!(app.events(session).await.len(), 1, "DELETE published an event for an errored session");
    }
    client.delete(&format!("/v1/sessions/{}", sessions[2])).await.expect(204);
    assert_eq!(client.status(&sessions[2]).await, "destroyed");
    app.start(Role::Worker);
    eventually(RESCUE, "the new worker is ready", async || {
        (client.post("/v1/sessions", json!({})).await.status == 201).then_some(())
    })
    .await;
    app.stop().await;
}

/// No operation follows. The slot and the profile become free.
#[tokio::test]
async fn idle_session_of_dead_worker_ends() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let session = client.session().await;
    app.signal(1, Signal::SIGKILL).await;
    let worker = eventually(RESCUE, "the worker is marked as lost", async || {
        let lost = sqlx::query_scalar::<_, Uuid>("select id from workers where status = 'lost'");
        lost.fetch_optional(&app.database.pool).await.expect("workers")
    })
    .await;
    // The session stays `ready` for 2 min, so that its next operation returns the error.
    assert_eq!(client.status(&session).await, "ready");
    let long_ago = sqlx::query("update workers set last_seen_at = now() - interval '3 minutes' where id = $1");
    long_ago.bind(worker).execute(&app.database.pool).await.expect("an update");
    eventually(RESCUE, "the session ends", async || (client.status(&session).await == "errored").then_some(())).await;
    let events = app.events(&session).await;
    let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!(
        (kind.as_str(), &data["operation"], &data["error_name"]),
        ("session.failed", &json!("unknown"), &json!("DriverError"))
    );
    app.start(Role::Worker);
    eventually(RESCUE, "its slot is free", async || {
        (client.post("/v1/sessions", json!({})).await.status == 201).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: workers 2, 4.
#[tokio::test]
async fn operation_of_dead_worker_is_not_run_again() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let session = client.session().await;
    let wait = client.waiting(&session, 60_000);
    running(&app).await;
    app.signal(1, Signal::SIGKILL).await;
    let told = tokio::time::timeout(RESCUE, wait).await.expect("a response before the timeout");
    told.expect("a task").problem(502, "driver-error");
    let ended = app.intents(&session).await;

    app.start(Role::Worker);
    eventually(Duration::from_secs(30), "the new worker is active", async || {
        (app.count("select count(*) from workers where status = 'active'").await == 1).then_some(())
    })
    .await;
    let other = app.client().await;
    let elsewhere = other.session().await;
    other.operate(&elsewhere, "interact", tap()).await.expect(200);
    assert_eq!(client.status(&session).await, "busy");
    assert_eq!(app.intents(&session).await, ended);
    assert!(app.events(&session).await.is_empty());
    client.operate(&session, "interact", tap()).await.problem(409, "conflict");
    client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    let unfinished = "select count(*) from intents where status <> 'done'";
    eventually(RESCUE, "no job is left for the dead worker", async || (app.count(unfinished).await == 0).then_some(()))
        .await;
    assert!(!app.log(2).contains(&session), "the new worker touched the session");

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    client.session().await;
    let events: Vec<_> = app.events(&session).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(events, ["session.completed"]);
    app.stop().await;
}

async fn running(app: &App) {
    eventually(Duration::from_secs(5), "the operation runs", async || {
        let running = app.count("select count(*) from intents where kind <> 'open' and status = 'running'").await;
        (running == 1).then_some(())
    })
    .await;
}

/// Contract: workers 5. DELETE destroys its sessions as usual.
#[tokio::test]
async fn worker_with_expired_lease_publishes_nothing() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let (session, idle) = (client.session().await, client.session().await);
    let wait = client.waiting(&session, 1_500);
    running(&app).await;
    app.signal(1, Signal::SIGSTOP).await;
    let told = tokio::time::timeout(RESCUE, wait).await.expect("a response before the timeout");
    told.expect("a task").problem(502, "driver-error");
    let outcome =
        "select count(*) from intents where kind = 'wait' and status = 'done' and outcome->>'ended' = 'unknown'";
    assert_eq!(app.count(outcome).await, 1);

    app.signal(1, Signal::SIGCONT).await;
    // The worker has noticed when it has registered again or its process has ended.
    eventually(RESCUE, "the worker notices", async || {
        let again = app.count("select count(*) from workers where status = 'active'").await == 1;
        (again || app.has_ended(1)).then_some(())
    })
    .await;
    assert_eq!(app.count(outcome).await, 1, "the late result was published");
    assert_eq!(client.status(&session).await, "busy");
    assert!(app.events(&session).await.is_empty());
    client.operate(&idle, "interact", tap()).await.problem(502, "driver-error");
    for session in [&session, &idle] {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    app.stop().await;
}

/// Contract: workers 10. Callers of running operations receive a response.
#[tokio::test]
async fn shutdown_frees_slots_and_responds_to_callers() {
    let mut app = App::simulated().in_processes().set("worker.drain_timeout", "1s").start().await;
    let client = app.client().await;
    let (idle, waiting, quick) = (client.session().await, client.session().await, client.session().await);
    let wait = client.waiting(&waiting, 60_000);
    app.busy(&waiting).await;
    let short = client.waiting(&quick, 300);
    app.busy(&quick).await;
    app.signal(0, Signal::SIGTERM).await;

    short.await.expect("a task").expect(200);
    let answer = wait.await.expect("a task");
    assert!((502..=504).contains(&answer.status.as_u16()), "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    for session in [&idle, &waiting, &quick] {
        assert_eq!(app.status_of(session).await, "errored");
        let events: Vec<_> = app.events(session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    assert_eq!(app.count("select count(*) from intents where status <> 'done'").await, 0);
    let jobs = "select count(*) from apalis.jobs where status in ('Queued', 'Running')";
    assert_eq!(app.count(jobs).await, 0);
    app.stop().await;
}

/// Contract: workers 11. The death of one ends neither sessions nor operations.
#[tokio::test]
async fn requests_can_go_to_either_api_process() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let here = app.client().await;
    let (other, address) = app.start_another_api().await;
    let there = Client { base_url: address, ..here.clone() };
    let (session, second) = (here.session().await, there.session().await);
    there.navigate(&session, "https://example.com/there").await;
    here.navigate(&session, "https://example.com/here").await;
    let page = here.get("/v1/sessions?limit=1").await.expect(200).body;
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let next = there.get(&format!("/v1/sessions?limit=1&cursor={cursor}")).await.expect(200).body;
    assert_eq!((&page["data"][0]["id"], &next["data"][0]["id"]), (&json!(second), &json!(session)));

    let wait = here.waiting(&session, 60_000);
    app.busy(&session).await;
    there.operate(&session, "interact", tap()).await.problem(409, "conflict");
    there.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    wait.await.expect("a task").problem(410, "session-destroyed");

    let lost = there.clone();
    let body = json!({"condition": {"kind": "time", "ms": 1_000}});
    let path = format!("/v1/sessions/{second}/wait");
    let wait = tokio::spawn(async move { lost.request(reqwest::Method::POST, &path).json(&body).send().await });
    running(&app).await;
    app.signal(other, Signal::SIGKILL).await;
    assert!(wait.await.expect("a task").is_err(), "the killed process responded");
    eventually(Duration::from_secs(5), "the operation ends without its caller", async || {
        (here.status(&second).await == "ready").then_some(())
    })
    .await;
    here.operate(&second, "interact", tap()).await.expect(200);
    assert!(app.events(&second).await.is_empty());
    app.stop().await;
}

/// Contract: workers 12. Responses may be too long for a notification.
#[tokio::test]
async fn concurrent_callers_receive_their_own_responses() {
    let app = App::simulated().set("worker.max_sessions", "100").start().await;
    let client = app.client().await;
    let callers = (0..24_usize).map(|caller| {
        let client = client.clone();
        async move {
            let session = client.session().await;
            for round in 0..8 {
                // From a few bytes to well above 8 kB, the limit of a notification.
                let filler = "x".repeat(round * 1_300);
                let url = format!("https://example.com/{caller}/{round}?{filler}");
                let answer = client.navigate(&session, &url).await;
                assert_eq!(answer.body["url"], url);
                let state = client.get(&format!("/v1/sessions/{session}/state")).await.expect(200);
                assert_eq!(state.body["url"], url);
            }
            let huge = format!("https://example.com/?{}", "ü".repeat(20_000));
            assert_eq!(client.navigate(&session, &huge).await.body["url"], huge);
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        }
    });
    assert_eq!(at_once(callers).await.len(), 24);
    assert_eq!(app.count("select count(*) from events where type = 'session.completed'").await, 24);
    app.stop().await;
}

/// Contract: workers 10. Operations that exceed the drain timeout end, and the slots are free.
#[tokio::test]
async fn worker_shutdown_responds_to_its_callers() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "1s");
    let mut app = builder.start().await;
    let client = app.client().await;
    let (idle, long, short) = (client.session().await, client.session().await, client.session().await);
    let long_wait = client.waiting(&long, 60_000);
    app.busy(&long).await;
    let short_wait = client.waiting(&short, 300);
    app.busy(&short).await;
    app.signal(1, Signal::SIGTERM).await;
    short_wait.await.expect("a task").expect(200);
    long_wait.await.expect("a task").problem(503, "driver-not-integrated");
    for session in [&idle, &long, &short] {
        assert_eq!(client.status(session).await, "errored");
        let events: Vec<_> = app.events(session).await.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(events, ["session.failed"]);
    }
    client.post("/v1/sessions", json!({})).await.problem(503, "driver-not-integrated");
    app.stop().await;
}

/// Contract: workers 12. The log records the loss and the recovery.
#[tokio::test]
async fn broken_listener_connection_loses_no_response() {
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = client.waiting(&session, 700);
    running(&app).await;
    let terminate = "select count(*) from (
                         select pg_terminate_backend(pid) from pg_stat_activity
                         where datname = current_database() and pid <> pg_backend_pid() and query ilike 'listen%'
                     ) killed";
    assert!(app.count(terminate).await >= 2, "the listeners of the API and of the worker");
    let answer = tokio::time::timeout(Duration::from_secs(8), wait).await.expect("an answer in time");
    answer.expect("a task").expect(200);
    for _ in 0..5 {
        // Terminates the listeners repeatedly, at arbitrary points of operations.
        let call = client.waiting(&session, 50);
        app.count(terminate).await;
        let answer = tokio::time::timeout(Duration::from_secs(8), call).await.expect("an answer in time");
        answer.expect("a task").expect(200);
    }
    for process in [0, 1] {
        eventually(Duration::from_secs(10), "the process listens again", async || {
            app.log(process).contains("receiving wake-ups again").then_some(())
        })
        .await;
        assert!(app.log(process).contains("lost the connection that receives wake-ups"));
    }
    app.stop().await;
}

/// Contract: workers 9. No session is lost.
#[tokio::test]
async fn service_recovers_when_all_connections_break() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for _ in 0..3 {
        // The pool considers a recently used connection as open. The first request on a broken one receives 503.
        eventually(Duration::from_secs(10), "the pool has no broken connection", async || {
            let looks = at_once((0..16).map(|_| {
                let (client, path) = (client.clone(), format!("/v1/sessions/{session}"));
                async move { client.get(&path).await }
            }));
            looks.await.iter().all(|answer| answer.status == 200).then_some(())
        })
        .await;
        let wait = client.waiting(&session, 1_000);
        running(&app).await;
        app.count(TERMINATE_ALL).await;
        let answer = tokio::time::timeout(Duration::from_secs(10), wait).await.expect("an answer in time");
        answer.expect("a task").expect(200);
        assert_eq!(client.status(&session).await, "ready");
    }
    app.stop().await;
}

#[tokio::test]
async fn shutdown_with_broken_connections_ends_all_sessions() {
    for _ in 0..3 {
        let app = App::simulated().start().await;
        let client = app.client().await;
        let session = client.session().await;
        // The pool considers recently used connections as open.
        at_once((0..16).map(|_| {
            let (client, session) = (client.clone(), session.clone());
            async move { client.get(&format!("/v1/sessions/{session}/state")).await }
        }))
        .await;
        app.count(TERMINATE_ALL).await;
        app.stop().await;
    }
}
