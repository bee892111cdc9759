use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use kitfleet_domain::actors::{OperationActor, OperationActorKind};
use kitfleet_domain::sessions::intents::{self, Claim, ReplyTo};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_types::ids::{AccountId, IntentId, SessionId};
use kitfleet_types::operations::{Condition, OnTimeout, Operation, Outcome, Wait};
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Executor as _, PgConnection};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::records::uuid_of;
use crate::support::statements::{Statement, list};
use crate::support::{App, Client, Redis, Role, at_once, eventually};

/// The worker polls the rows after 2 s; the rest is the operation, and a margin for a busy machine.
const LOST_WAKE_UP: Duration = Duration::from_secs(3);

fn moment() -> Value {
    json!({"condition": {"kind": "time", "ms": 1}})
}

/// Records for each step of an intent whether its commit waits for the disk.
const STEPS: &str = "
    create table steps (step text, waits boolean);
    create function note_step() returns trigger language plpgsql as $$
    begin
        insert into steps values (new.status, current_setting('synchronous_commit') = 'on');
        return new;
    end $$;
    create trigger note_step before insert or update on intents for each row execute function note_step();";

/// Contract: workers 1. The statements are the authentication of the key, the claim, the start and the end. Only the claim and
/// the end wait for the disk. Notifying another process takes two more statements, which do not wait for the disk.
#[tokio::test]
async fn operation_takes_four_statements_and_two_durable_commits() {
    const OPERATIONS: i64 = 100;
    for (builder, told) in [(App::simulated(), 0), (App::simulated().roles(&[Role::Api, Role::Worker]), 2)] {
        let app = builder.counting_statements().start().await;
        let client = app.client().await;
        let session = client.session().await;
        app.database.pool.execute(STEPS).await.expect("the extension");
        client.operate(&session, "wait", moment()).await.expect(200);
        app.database.pool.execute("truncate steps").await.expect("an empty table");
        app.count_statements().await;
        for _ in 0..OPERATIONS {
            client.operate(&session, "wait", moment()).await.expect(200);
        }
        // Statements that do not belong to operations have fewer calls than there are operations.
        let mut statements = app.statements().await;
        statements.retain(|statement| statement.calls >= OPERATIONS);
        let each = statements.iter().map(|statement| statement.calls).sum::<i64>() / OPERATIONS;
        assert_eq!(each, 4 + told, "{}", list(&statements));
        let steps: Vec<(String, bool, i64)> =
            sqlx::query_as("select step, waits, count(*) from steps group by step, waits order by step")
                .fetch_all(&app.database.pool)
                .await
                .expect("the steps");
        let expected = [("done", true), ("queued", true), ("running", false)];
        assert_eq!(steps, expected.map(|(step, waits)| (step.to_owned(), waits, OPERATIONS)));
        app.stop().await;
    }
}

/// Contract: workers 1.
#[tokio::test]
async fn every_kind_of_operation_takes_four_or_five_statements() {
    const EACH: i64 = 30;
    let app = App::simulated().counting_statements().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let kinds = [
        ("navigate", json!({"url": "https://example.com/"}), 4),
        ("interact", json!({"action": {"kind": "tap", "selector": "#q"}}), 4),
        ("interact", json!({"action": {"kind": "type", "selector": "#q", "text": "a"}}), 5),
        ("wait", moment(), 4),
        ("extract", json!({"extractions": [{"name": "a", "selector": "p", "type": "text"}]}), 4),
        ("snapshot", json!({}), 4),
        ("capture", json!({"kind": "screenshot"}), 5),
    ];
    for (kind, body, statements_each) in kinds {
        client.operate(&session, kind, body.clone()).await.expect(200);
        app.count_statements().await;
        for _ in 0..EACH {
            client.operate(&session, kind, body.clone()).await.expect(200);
        }
        let mut statements = app.statements().await;
        statements.retain(|statement| statement.calls >= EACH);
        let each = statements.iter().map(|statement| statement.calls).sum::<i64>() / EACH;
        assert_eq!(each, statements_each, "{kind} {body}: {}", list(&statements));
    }
    app.stop().await;
}

/// Contract: workers 1, 19. The statements of a create are the authentication of the key, the session, the start and the end of
/// its opening. Those of a destroy are the authentication of the key and the end of the session. Notifying another process
/// takes at most three more, which do not.
#[tokio::test]
async fn create_and_destroy_take_three_durable_commits() {
    const PAIRS: i64 = 100;
    for (builder, told) in [(App::simulated(), 0), (App::simulated().roles(&[Role::Api, Role::Worker]), 3)] {
        let app = builder.counting_statements().start().await;
        let client = app.client().await;
        let pair = async || {
            let session = client.session().await;
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        };
        pair().await;
        app.database.pool.execute(STEPS).await.expect("the steps of intents");
        let ends =
            "create trigger note_step before update of status on sessions for each row when (new.status = 'destroyed')
                    execute function note_step()";
        app.database.pool.execute(ends).await.expect("the end of a session");
        app.count_statements().await;
        for _ in 0..PAIRS {
            pair().await;
        }
        let mut statements = app.statements().await;
        statements.retain(|statement| statement.calls >= PAIRS / 2);
        let each = statements.iter().map(|statement| statement.calls).sum::<i64>() / PAIRS;
        assert!((6..=7 + told).contains(&each), "{}", list(&statements));
        let is_part = |statement: &Statement| ["begin", "commit"].contains(&&*statement.query.to_lowercase());
        assert!(!statements.iter().any(is_part), "{}", list(&statements));
        let steps: Vec<(String, bool, i64)> =
            sqlx::query_as("select step, waits, count(*) from steps group by step, waits order by step")
                .fetch_all(&app.database.pool)
                .await
                .expect("the steps");
        let expected = [("destroyed", true), ("done", true), ("queued", true), ("running", false)];
        assert_eq!(steps, expected.map(|(step, waits)| (step.to_owned(), waits, PAIRS)));
        app.stop().await;
    }
}

/// Contract: sessions 17. The destroy began before the claim was committed.
#[tokio::test]
async fn destroy_ends_the_operation_of_a_concurrent_claim() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let mut claiming = app.database.pool.begin().await.expect("a transaction");
    let intent = claim(&mut claiming, account, &session).await;
    let destroyed = tokio::spawn({
        let (client, path) = (client.clone(), format!("/v1/sessions/{session}"));
        async move { client.delete(&path).await }
    });
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    eventually(Duration::from_secs(10), "the destroy waits", async || (app.count(waiting).await == 1).then_some(()))
        .await;
    claiming.commit().await.expect("a commit");
    destroyed.await.expect("a task").expect(204);
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    let ending = intents::ending(&mut conn, intent).await.expect("a row").expect("an ending");
    assert!(matches!(ending.outcome, Outcome::Destroyed), "{ending:?}");
    assert_eq!(app.status_of(&session).await, "destroyed");
    drop(conn);
    app.stop().await;
}

/// Contract: workers 13. The worker's next poll closes the browser.
#[tokio::test]
async fn browser_closes_after_a_lost_end_notification() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (profile, cause) = (client.profile().await, Cause::FreeTierCap);
    let session = client.session_with(json!({"profile_id": profile})).await;
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    let ended = sessions::destroy(&mut conn, account, SessionId::from(uuid_of(&session)), &cause).await;
    assert!(matches!(ended, Ok(Some(Destroyed::Now { .. }))), "{ended:?}");
    drop(conn);
    // The actor that closes its browser releases the profile.
    let in_hand = "select count(*) from sessions where profile_in_hand";
    eventually(Duration::from_secs(10), "the browser is closed", async || {
        (app.count(in_hand).await == 0).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: workers 12. The process dies 224 times between a claim and its wake-up, and the worker runs each operation within
/// about a second.
#[tokio::test]
async fn operation_runs_after_a_lost_wake_up() {
    const SESSIONS: usize = 32;
    let app = App::simulated().set("worker.max_sessions", "32").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(client.session().await);
    }
    for _ in 0..7 {
        let began = Instant::now();
        for session in &sessions {
            let mut conn = app.database.pool.acquire().await.expect("a connection");
            claim(&mut conn, account, session).await;
        }
        let open = "select count(*) from intents where status <> 'done'";
        eventually(LOST_WAKE_UP, "all operations are done", async || (app.count(open).await == 0).then_some(())).await;
        assert!(began.elapsed() < LOST_WAKE_UP, "{:?}", began.elapsed());
    }
    for session in &sessions {
        assert_eq!(client.status(session).await, "ready");
    }
    app.stop().await;
}

/// Claims a session like an API process that dies before it sends the wake-up.
async fn claim(conn: &mut PgConnection, account: AccountId, session: &str) -> IntentId {
    let condition = Condition::Time { ms: 1 };
    let operation = Operation::Wait(Wait { condition, timeout: Duration::from_secs(1), on_timeout: OnTimeout::Fail });
    let (whose, reply) = (
        (account, SessionId::from(uuid_of(session))),
        ReplyTo { channel: "nobody", request_id: "", trace_parent: None },
    );
    let intent = IntentId::generate();
    let actor = OperationActor { kind: OperationActorKind::ApiKey, id: None };
    let claim = intents::claim(conn, whose, intent, &operation, None, &actor, reply).await;
    assert!(matches!(claim, Ok(Claim::Won { .. })), "{claim:?}");
    intent
}

/// Contract: workers 12.
#[tokio::test]
async fn lost_repeated_or_invalid_wake_ups_change_no_outcome() {
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let mut others = vec![session.clone()];
    while others.len() < 20 {
        others.push(client.session().await);
    }
    let nonsense = "select pg_notify(channel, 'nonsense ' || n), pg_notify(channel, ''), pg_notify(channel, outcome)
                    from generate_series(1, 20000) n,
                         (select reply_channel as channel, json_build_object('intent', 'int_' || id, 'outcome', outcome)::text as outcome
                          from intents union all select 'jobs:operations:wrk_' || id, 'nonsense' from workers) told";
    app.database.pool.execute(nonsense).await.expect("notifications");
    for _ in 0..10 {
        client.operate(&session, "wait", moment()).await.expect(200);
    }
    let away = "create function away() returns trigger language plpgsql as $$
                begin
                    new.reply_channel := 'nobody';
                    return new;
                end $$;
                create trigger away before insert on intents for each row execute function away();";
    app.database.pool.execute(away).await.expect("a trigger");
    for _ in 0..10 {
        let asked = Instant::now();
        let operations = others.clone().into_iter().map(|session| {
            let client = client.clone();
            async move { client.operate(&session, "wait", moment()).await.expect(200) }
        });
        at_once(operations).await;
        assert!(asked.elapsed() < LOST_WAKE_UP, "{:?}", asked.elapsed());
    }
    app.stop().await;
}

/// Contract: workers 12; operations 2.
#[tokio::test]
async fn each_operation_runs_once_while_redis_fails() {
    const CLIENTS: usize = 24;
    const OPERATIONS_PER_PHASE: i64 = 100;
    let mut redis = Redis::start();
    let app =
        App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).set("redis.url", &redis.url()).start().await;
    let client = app.client().await;
    let (told, enough) = (Arc::new(AtomicI64::new(0)), CancellationToken::new());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, session, told, enough) =
            (client.clone(), client.session().await, Arc::clone(&told), enough.clone());
        clients.spawn(async move {
            while !enough.is_cancelled() {
                client.operate(&session, "wait", moment()).await.expect(200);
                told.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    // Waits until another 100 operations have succeeded.
    let flood = async || {
        let so_far = told.load(Ordering::Relaxed);
        eventually(Duration::from_secs(30), "operations succeed", async || {
            (told.load(Ordering::Relaxed) >= so_far + OPERATIONS_PER_PHASE).then_some(())
        })
        .await;
    };
    for _ in 0..3 {
        flood().await;
        redis.signal(Signal::SIGSTOP);
        flood().await;
        redis.signal(Signal::SIGCONT);
        flood().await;
        redis.kill();
        flood().await;
        redis.restart();
        flood().await;
        redis.fill();
        flood().await;
        redis.make_room();
    }
    enough.cancel();
    clients.join_all().await;
    let done = "select count(*) from intents where kind = 'wait' and status = 'done' and outcome ->> 'ended' = 'done'";
    assert_eq!(app.count(done).await, told.load(Ordering::Relaxed));
    assert_eq!(app.count("select count(*) from intents where status <> 'done'").await, 0);
    app.stop().await;
}

async fn wake_ups_sent(app: &App, carrier: &str) -> u64 {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let text = scraper.request(Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text");
    let series = format!("service_wakeup_total{{carrier=\"{carrier}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).expect("the series exists from the start")
}

/// Contract: workers 12; operators 5. With Redis, all wake-ups are sent through it. A frozen or dead Redis delays operations by
/// milliseconds. The metric counts wake-ups by carrier.
#[tokio::test]
async fn wake_ups_fall_back_to_postgres_without_redis() {
    let mut redis = Redis::start();
    let app = App::simulated()
        .roles(&[Role::Api, Role::Worker])
        .set("redis.url", &redis.url())
        .set("metrics.scrape_token", "scrape")
        .start()
        .await;
    let client = app.client().await;
    let sessions = [client.session().await, client.session().await, client.session().await];
    let operate = async || {
        let operations = sessions.clone().map(|session| {
            let client = client.clone();
            async move {
                let asked = Instant::now();
                client.operate(&session, "wait", moment()).await.expect(200);
                asked.elapsed()
            }
        });
        at_once(operations).await.into_iter().max().expect("some")
    };
    let by_redis = async || {
        let before = (wake_ups_sent(&app, "redis").await, wake_ups_sent(&app, "postgres").await);
        operate().await;
        (wake_ups_sent(&app, "redis").await == before.0 + 3 && wake_ups_sent(&app, "postgres").await == before.1)
            .then_some(())
    };
    let without = async || {
        let before = wake_ups_sent(&app, "postgres").await;
        for _ in 0..5 {
            let elapsed = operate().await;
            assert!(elapsed < LOST_WAKE_UP, "{elapsed:?}");
        }
        assert!(wake_ups_sent(&app, "postgres").await > before);
    };
    eventually(Duration::from_secs(20), "Redis carries the wake-ups", by_redis).await;
    // Redis does not store published messages.
    redis.fill();
    eventually(Duration::from_secs(20), "Redis carries the wake-ups although its memory is full", by_redis).await;
    redis.make_room();
    redis.signal(Signal::SIGSTOP);
    without().await;
    redis.signal(Signal::SIGCONT);
    eventually(Duration::from_secs(20), "Redis carries the wake-ups after SIGCONT", by_redis).await;
    redis.kill();
    without().await;
    redis.restart();
    eventually(Duration::from_secs(30), "Redis carries the wake-ups after its restart", by_redis).await;
    assert_eq!(wake_ups_sent(&app, "none").await, 0);
    app.stop().await;
}
