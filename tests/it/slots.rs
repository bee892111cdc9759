//! Slots of workers: allocation, waiting for a slot and release (contract: workers 17, 18; sessions 23 to 25).

use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::support::{Answer, App, Client, Role, at_once, eventually, given};

/// Longer than the service takes to mark a worker as lost.
const MARKED_LOST_WITHIN: Duration = Duration::from_secs(25);

const SLOTS: &str = "select count(*) from worker_slots";
const TAKEN: &str = "select count(*) from worker_slots where session_id is not null";
const LIVE: &str = "select count(*) from sessions where status in ('creating', 'ready', 'busy')";
/// The session is live and on the same worker.
const VALID_SLOTS: &str = "select count(*) from worker_slots l
    join sessions s on s.id = l.session_id and s.worker_id = l.worker_id where s.status in ('creating', 'ready', 'busy')";

/// By these clients in rotation. Returns the successful responses, each with its client, and the rejected ones.
async fn race(clients: &[Client]) -> (Vec<(Client, Answer)>, Vec<Answer>) {
    let creates = clients.iter().cycle().take(64).cloned().map(|client| async move {
        let answer = client.post("/v1/sessions", json!({})).await;
        (client, answer)
    });
    let (made, refused): (Vec<_>, Vec<_>) = at_once(creates).await.into_iter().partition(|(_, a)| a.status == 201);
    (made, refused.into_iter().map(|(_, answer)| answer).collect())
}

async fn destroy(client: &Client, session: &Value) {
    client.delete(&format!("/v1/sessions/{}", session.as_str().expect("an id"))).await.expect(204);
}

/// Contract: workers 17; sessions 7. The last slot is one of a worker or of an account.
#[tokio::test]
async fn one_of_64_concurrent_creates_gets_the_last_slot() {
    let app = App::simulated().set("worker.max_sessions", "3").start().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(app.client().await);
    }
    let first = clients[0].session().await;
    clients[1].session().await;
    for round in 0..4 {
        let (made, refused) = race(&clients).await;
        assert_eq!(made.len(), 1, "round {round}");
        for answer in refused {
            answer.problem(503, "capacity-exhausted");
        }
        assert_eq!((app.count(TAKEN).await, app.count(SLOTS).await), (3, 3));
        let (owner, answer) = &made[0];
        destroy(owner, &answer.body["id"]).await;
    }
    destroy(&clients[0], &json!(first)).await;

    // The worker has free slots and the account has none.
    let starter = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    starter.session().await;
    let (made, refused) = race(std::slice::from_ref(&starter)).await;
    assert_eq!(made.len(), 1);
    for answer in refused {
        let told = answer.problem(429, "concurrency-limit").body;
        assert_eq!((&told["current_sessions"], &told["limit"]), (&json!(2), &json!(2)));
    }
    assert_eq!((app.count(TAKEN).await, app.count(LIVE).await), (3, 3));
    app.stop().await;
}

/// Contract: workers 18. Each live session has one slot on its own worker.
#[tokio::test]
async fn random_creates_and_failures_leak_no_slot() {
    let seed: u64 = given("KITFLEET_TEST_SEED", rand::random());
    eprintln!("KITFLEET_TEST_SEED={seed}");
    let app = App::simulated().set("worker.max_sessions", "20").set("limits.min_timeout", "1ms").start().await;
    let mut callers = Vec::new();
    for caller in 0..10 {
        let (client, random) = (app.client().await, StdRng::seed_from_u64(seed.wrapping_add(caller)));
        callers.push(create_and_destroy_randomly(client, random));
    }
    let left: Vec<(Client, Vec<String>)> = at_once(callers).await;
    let live = i64::try_from(left.iter().map(|(_, sessions)| sessions.len()).sum::<usize>()).expect("a number");
    assert_eq!((app.count(LIVE).await, app.count(TAKEN).await, app.count(VALID_SLOTS).await), (live, live, live));
    for (client, sessions) in &left {
        for session in sessions {
            destroy(client, &json!(session)).await;
        }
    }
    assert_eq!((app.count(TAKEN).await, app.count(SLOTS).await), (0, 20));
    let client = app.client().await;
    for _ in 0..20 {
        client.session().await;
    }
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    app.stop().await;
}

/// Random actions. Returns the sessions that are still live.
async fn create_and_destroy_randomly(client: Client, mut random: StdRng) -> (Client, Vec<String>) {
    let mut sessions: Vec<String> = Vec::new();
    for _ in 0..100 {
        let some = (!sessions.is_empty()).then(|| random.random_range(0..sessions.len()));
        match (random.random_range(0..4), some) {
            (0, Some(some)) => destroy(&client, &json!(sessions.swap_remove(some))).await,
            (1, Some(some)) => {
                let too_long = json!({"condition": {"kind": "time", "ms": 30_000}, "timeout_ms": 1});
                let failed = client.operate(&sessions.swap_remove(some), "wait", too_long).await;
                failed.problem(504, "session-timeout");
            }
            _ => {
                let answer = client.post("/v1/sessions", json!({})).await;
                assert!([201, 503].contains(&answer.status.as_u16()), "{}", answer.body);
                sessions.extend(answer.body["id"].as_str().filter(|_| answer.status == 201).map(str::to_owned));
            }
        }
    }
    (client, sessions)
}

async fn small_and_large(placement: &str) -> App {
    let mut app = App::simulated().roles(&[Role::Api]).set("worker.placement", placement).start().await;
    for (workers, slots) in [(1, "2"), (2, "6")] {
        app.start_with(Role::Worker, &[("KITFLEET_WORKER__MAX_SESSIONS", slots)]);
        eventually(Duration::from_secs(30), "the worker is registered", async || {
            (app.count("select count(*) from workers").await == workers).then_some(())
        })
        .await;
    }
    app
}

/// Returns for each session the number of slots of its worker.
async fn placed(app: &App) -> Vec<i32> {
    let client = app.client().await;
    let mut placed = Vec::new();
    for _ in 0..8 {
        client.session().await;
    }
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    let query = "select w.max_sessions from sessions s join workers w on w.id = s.worker_id order by s.id";
    placed.extend(sqlx::query_scalar::<_, i32>(query).fetch_all(&app.database.pool).await.expect("sessions"));
    placed
}

/// Contract: workers 17. Workers with equally many free slots alternate.
#[tokio::test]
async fn spread_placement_prefers_the_worker_with_most_free_slots() {
    let app = small_and_large("spread").await;
    let placed = placed(&app).await;
    assert_eq!(placed[..4], [6; 4]);
    for pair in placed[4..].chunks(2) {
        assert!(pair == [2, 6] || pair == [6, 2], "{placed:?}");
    }
    app.stop().await;
}

/// Contract: workers 17.
#[tokio::test]
async fn pack_placement_fills_one_worker_first() {
    let app = small_and_large("pack").await;
    assert_eq!(placed(&app).await, [2, 2, 6, 6, 6, 6, 6, 6]);
    app.stop().await;
}

/// Contract: workers 17, 18. The slots of the dead worker are removed.
#[tokio::test]
async fn restarted_worker_has_all_of_its_slots() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.max_sessions", "4").start().await;
    let client = app.client().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(client.session().await);
    }
    app.signal(1, Signal::SIGKILL).await;
    let again = app.start(Role::Worker);
    eventually(MARKED_LOST_WITHIN, "the new worker's slots replace those of the dead worker", async || {
        let lost = app.count("select count(*) from workers where status = 'lost'").await;
        (lost == 1 && app.count(SLOTS).await == 4 && app.count(TAKEN).await == 0).then_some(())
    })
    .await;
    let mut new = Vec::new();
    for _ in 0..4 {
        new.push(client.session().await);
    }
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    for session in &sessions {
        destroy(&client, &json!(session)).await;
    }
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    assert_eq!((app.count(TAKEN).await, app.count(VALID_SLOTS).await), (4, 4));

    app.signal(again, Signal::SIGTERM).await;
    assert_eq!(app.count(SLOTS).await, 0);
    app.stop().await;
}

const KEY: &str = "scrape";

async fn gauge(app: &App, series: &str) -> Option<f64> {
    let text = app.stranger().http.get(format!("{}/metrics", app.base_url)).bearer_auth(KEY);
    let text = text.send().await.expect("an answer").text().await.expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|value| value.parse().ok())
}

async fn until_waiting(app: &App, callers: f64) {
    eventually(Duration::from_secs(10), "the expected number of creates waits", async || {
        (gauge(app, "service_session_creates_waiting").await == Some(callers)).then_some(())
    })
    .await;
}

fn with_wait_timeout() -> Value {
    json!({"wait_timeout_ms": 60_000})
}

/// Contract: sessions 23; errors 7; limits 1. Contract: operators 5. A create that breaks another rule receives that rule's
/// error. The metrics count these rejections.
#[tokio::test]
async fn create_without_free_slot_is_503_after_its_wait() {
    let app = App::simulated().set("worker.max_sessions", "1").set("metrics.scrape_token", KEY).start().await;
    let (client, solo) = (app.client().await, app.client_with(Tier::SoloManual, &["account_owner"]).await);
    let session = solo.session().await;
    for wait in [json!(99), json!(120_001), json!(-1), json!(1.5), json!("1000")] {
        client.post("/v1/sessions", json!({"wait_timeout_ms": wait})).await.invalid("wait_timeout_ms");
    }
    for body in [json!({}), json!({"wait_timeout_ms": 0}), json!({"wait_timeout_ms": null})] {
        let answer = client.post("/v1/sessions", body).await.problem(503, "capacity-exhausted");
        assert_eq!(answer.body["title"], "CapacityExhausted");
        assert_eq!(answer.headers["retry-after"], "5");
    }
    let started = Instant::now();
    let answer = client.post("/v1/sessions", json!({"wait_timeout_ms": 700})).await.problem(503, "capacity-exhausted");
    assert!((700..5_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(answer.headers["retry-after"], "5");
    // These errors come before the wait for a slot.
    let started = Instant::now();
    solo.post("/v1/sessions", with_wait_timeout()).await.problem(429, "concurrency-limit");
    client
        .post("/v1/sessions", json!({"profile_id": "prof_x", "wait_timeout_ms": 60_000}))
        .await
        .problem(404, "not-found");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(app.count("select count(*) from sessions").await, 1);

    assert_eq!(gauge(&app, "service_session_creates_waiting").await, Some(0.0));
    for (reason, count) in [("full", 3.0), ("waited", 1.0), ("line_full", 0.0), ("stopping", 0.0)] {
        let series = format!("service_session_create_refusal_total{{reason=\"{reason}\"}}");
        assert_eq!(gauge(&app, &series).await, Some(count), "{reason}");
    }
    let profile = client.profile().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.post(&format!("/v1/profiles/{profile}/launch"), with_wait_timeout()).await }
    });
    until_waiting(&app, 1.0).await;
    destroy(&solo, &json!(session)).await;
    waiting.await.expect("a task").expect(201);
    app.stop().await;
}

/// Contract: sessions 24. Within one account the oldest create is first.
#[tokio::test]
async fn waiting_accounts_are_served_in_turn() {
    let app = App::simulated().set("worker.max_sessions", "1").set("metrics.scrape_token", KEY).start().await;
    let [holder, many, few] = [app.client().await, app.client().await, app.client().await];
    let held = holder.session().await;
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let callers = [("many 1", &many), ("many 2", &many), ("many 3", &many), ("few 1", &few), ("few 2", &few)];
    let mut waiting = 0.0;
    for (name, client) in callers {
        let (client, served) = (client.clone(), served.clone());
        tokio::spawn(async move {
            let answer = client.post("/v1/sessions", with_wait_timeout()).await.expect(201);
            served.send(name).expect("the receiver is open");
            destroy(&client, &answer.body["id"]).await;
        });
        waiting += 1.0;
        until_waiting(&app, waiting).await;
    }
    drop(served);
    destroy(&holder, &json!(held)).await;
    let mut came = Vec::new();
    while let Some(name) = order.recv().await {
        came.push(name);
    }
    assert_eq!(came, ["many 1", "few 1", "many 2", "few 2", "many 3"]);
    until_waiting(&app, 0.0).await;
    app.stop().await;
}

/// Contract: sessions 25. The create of a caller that disconnects leaves the queue and makes no session.
#[tokio::test]
async fn wait_queue_is_bounded_and_drops_disconnected_callers() {
    let builder = App::simulated().set("worker.max_sessions", "1").set("metrics.scrape_token", KEY);
    let builder = builder.set("limits.waiting_creates", "3").set("limits.waiting_creates_per_account", "2");
    let app = builder.start().await;
    let [holder, first, second] = [app.client().await, app.client().await, app.client().await];
    let held = holder.session().await;
    let wait = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move { client.post("/v1/sessions", with_wait_timeout()).await })
    };
    let gone = [wait(&first), wait(&first)];
    until_waiting(&app, 2.0).await;
    first.post("/v1/sessions", with_wait_timeout()).await.problem(503, "capacity-exhausted");
    let left = wait(&second);
    until_waiting(&app, 3.0).await;
    second.post("/v1/sessions", with_wait_timeout()).await.problem(503, "capacity-exhausted");
    let series = "service_session_create_refusal_total{reason=\"line_full\"}";
    assert_eq!(gauge(&app, series).await, Some(2.0));

    for caller in gone {
        caller.abort();
    }
    until_waiting(&app, 1.0).await;
    destroy(&holder, &json!(held)).await;
    left.await.expect("a task").expect(201);
    assert_eq!(app.count("select count(*) from sessions").await, 2);
    assert_eq!((app.count(TAKEN).await, app.count(LIVE).await), (1, 1));
    app.stop().await;
}

/// Contract: sessions 24, 25. A process that shuts down rejects its waiting creates.
#[tokio::test]
async fn wait_queue_spans_all_api_processes() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.max_sessions", "1");
    let mut app = builder.set("metrics.scrape_token", KEY).start().await;
    let here = app.client().await;
    let (_, address) = app.start_another_api().await;
    let there = Client { base_url: address, ..here.clone() };
    let held = there.session().await;
    let wait = || {
        let here = here.clone();
        tokio::spawn(async move { here.post("/v1/sessions", with_wait_timeout()).await })
    };
    let waiting = wait();
    until_waiting(&app, 1.0).await;
    destroy(&there, &json!(held)).await;
    let started = Instant::now();
    waiting.await.expect("a task").expect(201);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());

    let waiting = wait();
    until_waiting(&app, 1.0).await;
    app.start(Role::Worker);
    waiting.await.expect("a task").expect(201);

    let waiting = wait();
    until_waiting(&app, 1.0).await;
    app.signal(0, Signal::SIGTERM).await;
    let told = waiting.await.expect("a task").problem(503, "capacity-exhausted");
    assert!(told.body["detail"].as_str().is_some_and(|detail| detail.contains("stopping")), "{}", told.body);
    app.stop().await;
}
