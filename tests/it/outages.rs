//! A database that rejects writes, is unavailable or does not respond: the service retries transient errors and no others.

use std::fs;
use std::future::poll_fn;
use std::pin::pin;
use std::str::FromStr as _;
use std::task::Poll;
use std::time::{Duration, Instant};

use kitfleet_domain::database;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection};

use crate::support::database::Database;
use crate::support::records::uuid_of;
use crate::support::{App, Role, at_once, eventually, given};

fn tap() -> Value {
    json!({"action": {"kind": "tap", "selector": "#button"}})
}

/// Makes the database reject the successful outcome of an open or an interact.
async fn refuse(app: &App) {
    let trigger = "
        create function refuse() returns trigger language plpgsql as $$
        begin
            raise exception 'no';
        end $$;
        create trigger refuse before update on intents for each row
        when (new.outcome->>'ended' = 'done' and new.kind in ('open', 'interact')) execute function refuse();";
    app.database.pool.execute(trigger).await.expect("a trigger");
}

/// Contract: workers 7. The session becomes `errored`, and its slot is free.
#[tokio::test]
async fn rejected_outcome_fails_only_its_operation() {
    let app = App::simulated().set("worker.max_sessions", "2").start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let neighbours = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let (victim, neighbour) = (client.session().await, neighbours.session().await);
    refuse(&app).await;

    let started = Instant::now();
    client.operate(&victim, "interact", tap()).await.problem(502, "driver-error");
    assert!(started.elapsed() < Duration::from_secs(20), "its caller waited for {:?}", started.elapsed());
    assert_eq!(client.status(&victim).await, "errored");
    let events: Vec<_> = app.events(&victim).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(events, ["session.failed"]);
    client.delete(&format!("/v1/sessions/{victim}")).await.expect(204);

    neighbours.navigate(&neighbour, "https://example.com/").await;
    client.post("/v1/sessions", json!({})).await.problem(502, "driver-error");
    app.database.pool.execute("drop trigger refuse on intents").await.expect("the trigger is dropped");
    // The account has one slot, and the worker has two.
    let next = client.session().await;
    client.operate(&next, "interact", tap()).await.expect(200);
    neighbours.operate(&neighbour, "interact", tap()).await.expect(200);
    app.stop().await;
}

/// Stays open while the database allows no connections.
pub async fn server_of(database: &Database) -> PgConnection {
    let options = PgConnectOptions::from_str(&database.url()).expect("a database URL");
    options.database("postgres").connect().await.expect("the test database server runs")
}

pub async fn let_in(server: &mut PgConnection, database: &Database, anybody: bool) {
    let name = &database.name;
    server
        .execute(AssertSqlSafe(format!("alter database {name} allow_connections {anybody}")))
        .await
        .expect("a change");
    if !anybody {
        sqlx::query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1")
            .bind(name)
            .execute(server)
            .await
            .expect("connections end");
    }
}

/// Contract: workers 6. The outage lasts `KITFLEET_TEST_OUTAGE_SECONDS`, by default 12 s, longer than a lease.
#[tokio::test]
async fn sessions_survive_a_database_outage() {
    let outage = Duration::from_secs(given("KITFLEET_TEST_OUTAGE_SECONDS", 12));
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(client.session().await);
    }
    let busy = client.session().await;
    let under_way = client.waiting(&busy, 3_000);
    app.busy(&busy).await;

    let mut server = server_of(&app.database).await;
    let began = Instant::now();
    let_in(&mut server, &app.database, false).await;
    while began.elapsed() < outage {
        let answer = client.operate(&sessions[0], "interact", tap()).await.problem(503, "feature-unavailable");
        assert!(answer.headers.contains_key("retry-after"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let_in(&mut server, &app.database, true).await;

    // The sessions must work at once, before the worker's first heartbeat after the outage.
    eventually(Duration::from_mins(1), "the sessions take operations again", async || {
        let mut well = true;
        for session in &sessions {
            let answer = client.operate(session, "interact", tap()).await;
            match answer.status.as_u16() {
                200 => {}
                503 => well = false,
                status => panic!("{status} after the outage: {}", answer.body),
            }
        }
        well.then_some(())
    })
    .await;
    let answer = under_way.await.expect("a task");
    assert!(answer.status == 200 || answer.status.is_server_error(), "{}: {}", answer.status, answer.body);
    eventually(Duration::from_mins(1), "the running operation has ended", async || {
        (client.status(&busy).await == "ready").then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from workers where status = 'lost'").await, 0);
    assert_eq!(app.count("select count(*) from events").await, 0);
    app.stop().await;
}

fn postmaster(app: &App) -> Pid {
    let file = app.data_dir.path().join("data/postgres/postmaster.pid");
    let text = fs::read_to_string(file).expect("it runs");
    Pid::from_raw(text.lines().next().and_then(|line| line.trim().parse().ok()).expect("a process id"))
}

/// Contract: errors 7; status 1. Nothing is lost when the database continues.
#[tokio::test]
async fn requests_during_a_database_freeze_are_503() {
    let app = App::simulated().embedded().start().await;
    let client = app.owner();
    let session = client.session().await;
    // The postmaster is stopped first, so that no new backend starts. A backend may end meanwhile.
    kill(postmaster(&app), Signal::SIGSTOP).expect("it runs");
    let database = app.processes("postgres");
    assert!(database.len() > 5, "the embedded database and its connections: {database:?}");
    let send = |signal: Signal| {
        for process in &database {
            let _ = kill(*process, signal);
        }
    };
    send(Signal::SIGSTOP);

    let asked = Instant::now();
    let status = client.get("/v1/status").await.expect(200).body;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(status["components"][4], json!({"name": "database", "state": "major_outage"}));
    let read = format!("/v1/sessions/{session}");
    let answers = (0..4).map(|_| {
        let (client, read) = (client.clone(), read.clone());
        async move { client.get(&read).await }
    });
    let told =
        tokio::time::timeout(Duration::from_secs(90), at_once(answers)).await.expect("responses before the timeout");
    for answer in told {
        answer.problem(503, "feature-unavailable");
    }
    client.get("/healthz").await.expect(200);
    send(Signal::SIGCONT);

    eventually(Duration::from_mins(1), "the session takes operations again", async || {
        let answer = client.operate(&session, "interact", tap()).await;
        match answer.status.as_u16() {
            200 => Some(()),
            // Operations that were requested during the freeze may still run, and a new one has to wait for them.
            409 | 503 => None,
            status => panic!("{status} after the stall: {}", answer.body),
        }
    })
    .await;
    app.stop().await;
}

/// Contract: agents 15, 37; errors 7.
#[tokio::test]
async fn accepted_message_completes_after_a_database_restart() {
    let app = App::simulated().embedded().start().await;
    let client = app.owner();
    let made = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let agent = made["id"].as_str().expect("an id").to_owned();
    let said = {
        let (client, agent) = (client.clone(), agent.clone());
        let body = json!({"message": "wait 3 seconds, tap 'Next'"});
        tokio::spawn(async move { client.post(&format!("/v1/agent-sessions/{agent}/message"), body).await })
    };
    let driver = made["session_id"].as_str().expect("an id");
    eventually(Duration::from_secs(10), "a step has started", async || {
        (client.status(driver).await == "busy").then_some(())
    })
    .await;
    kill(postmaster(&app), Signal::SIGKILL).expect("it runs");
    let turn = said.await.expect("a task").expect(200).body;
    assert_eq!(turn["reply"], "Done, all 2 steps.");
    eventually(Duration::from_mins(1), "the transcript has the message once", async || {
        let told = client.get(&format!("/v1/agent-sessions/{agent}/transcript")).await;
        (told.status == 200).then(|| assert_eq!(told.body["data"].as_array().map(Vec::len), Some(2), "{}", told.body))
    })
    .await;
    app.stop().await;
}

/// At most this many polls.
async fn cancel_after<F: Future>(looks: u32, future: F) {
    let mut future = pin!(future);
    for _ in 0..looks {
        if poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cancelled_begin_leaves_no_transaction() {
    let database = Database::create().await;
    let options = PgConnectOptions::from_str(&database.url()).expect("a database URL").application_name("cancelled");
    let pool = database::connect(options, 4).await.expect("a pool");
    // The connections are opened first, so that the first poll of `begin` sends the statement.
    let all = (pool.acquire().await, pool.acquire().await, pool.acquire().await, pool.acquire().await);
    drop(all);
    for round in 0..100 {
        eventually(Duration::from_secs(20), "a connection is idle", async || (pool.num_idle() > 0).then_some(())).await;
        cancel_after(1 + round % 6, database::begin(&pool)).await;
    }
    let open = "select count(*) from pg_stat_activity
                where datname = current_database() and application_name = 'cancelled' and state like 'idle in transaction%'";
    eventually(Duration::from_secs(20), "no connection keeps a transaction", async || {
        let open: i64 = sqlx::query_scalar(open).fetch_one(&database.pool).await.expect("a count");
        (open == 0).then_some(())
    })
    .await;
    // Each connection writes a row that other connections see.
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(pool.acquire().await.expect("a connection"));
    }
    for (number, conn) in (0_i32..).zip(&mut taken) {
        let insert = "insert into server_secrets (name, value) values ($1::text, '')";
        sqlx::query(insert).bind(number.to_string()).execute(&mut **conn).await.expect("a row");
        let seen: i64 = sqlx::query_scalar("select count(*) from server_secrets where name = $1")
            .bind(number.to_string())
            .fetch_one(&database.pool)
            .await
            .expect("a count");
        assert_eq!(seen, 1, "connection {number} has a transaction open");
    }
    drop(taken);
    pool.close().await;
    database.drop().await;
}

/// Contract: workers 7. The callers of its other operations still receive their errors.
#[tokio::test]
async fn rejected_end_of_one_operation_blocks_no_other_caller() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let (first, second) = (client.session().await, client.session().await);
    let (one, other) = (client.waiting(&first, 60_000), client.waiting(&second, 60_000));
    eventually(Duration::from_secs(20), "both operations run", async || {
        let running = app.count("select count(*) from intents where kind = 'wait' and status = 'running'").await;
        (running == 2).then_some(())
    })
    .await;
    let refuse = format!(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
         create trigger refuse before update on intents for each row
         when (new.session_id = '{}') execute function refuse();",
        uuid_of(&first)
    );
    app.database.pool.execute(AssertSqlSafe(refuse)).await.expect("a trigger");
    app.signal(1, Signal::SIGKILL).await;

    let told = tokio::time::timeout(Duration::from_secs(90), other).await.expect("a response before the timeout");
    told.expect("a task").problem(502, "driver-error");
    app.database.pool.execute("drop trigger refuse on intents").await.expect("the trigger is dropped");
    let told = tokio::time::timeout(Duration::from_mins(1), one)
        .await
        .expect("a response to the other caller before the timeout");
    told.expect("a task").problem(502, "driver-error");
    app.stop().await;
}

/// Contract: workers 8.
#[tokio::test]
async fn sessions_of_a_stopped_worker_are_ended_by_others() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    let session = client.session().await;
    app.signal(1, Signal::SIGKILL).await;
    let stopped = "update workers set status = 'stopped' where id = (select worker_id from sessions where id = $1)";
    app.execute(stopped, uuid_of(&session)).await;
    eventually(Duration::from_secs(90), "its session is ended", async || {
        (client.status(&session).await == "errored").then_some(())
    })
    .await;
    app.start(Role::Worker);
    app.ready().await;
    client.session().await;
    app.stop().await;
}
