//! Contract: agents 25, 27, 30.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{driver_of, id_of};
use crate::orchestration::TERMINATE_ALL;
use crate::support::records::uuid_of;
use crate::support::{App, Client, Role, eventually};

/// Contract: agents 25; workers 4. Finished steps are `done`, the running step is `failed` with an unknown outcome, and the
/// rest is `skipped`.
#[tokio::test]
async fn worker_death_during_a_turn_is_recorded_per_step() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let made = client.agent_session(json!({})).await;
    let (agent, path) = (id_of(&made), format!("/v1/agent-sessions/{}", id_of(&made)));
    let said = {
        let (client, agent) = (client.clone(), agent.clone());
        let body = json!({"message": "wait 1 second, wait 40 seconds, tap 'Next'"});
        tokio::spawn(async move { client.post_to_agent(&agent, "message", body).await })
    };
    eventually(Duration::from_secs(20), "the second step runs", async || {
        let under_way = "select count(*) from intents where kind = 'wait' and status = 'running'
                         and exists (select from intents where kind = 'wait' and status = 'done')";
        (app.count(under_way).await > 0).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    let turn = said.await.expect("a task").expect(200).body;
    let statuses: Vec<_> = turn["intents"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["done", "failed", "skipped"], "{turn}");
    assert!(turn["intents"][1]["error"].is_string(), "{turn}");
    let told = client.get(&format!("{path}/transcript")).await.expect(200).body;
    assert_eq!(told["data"][1]["intents"], turn["intents"]);
    assert_eq!(told["data"][1]["decomposer"], Value::Null);

    // The browser may have executed the step, so that the agent session rejects further messages.
    assert!(turn["reply"].as_str().is_some_and(|reply| reply.contains("close this agent session")), "{turn}");
    client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.problem(409, "conflict");
    client.delete(&path).await.expect(204);
    let next = client.post("/v1/agent-sessions", json!({})).await;
    assert_eq!(next.status, 503, "{}", next.body);
    app.start(Role::Worker);
    app.ready().await;
    let agent = eventually(Duration::from_secs(30), "the new worker accepts agent sessions", async || {
        let made = client.post("/v1/agent-sessions", json!({})).await;
        (made.status == 201).then(|| id_of(&made.body))
    })
    .await;
    let turn = client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.expect(200).body;
    assert_eq!(turn["intents"][0]["status"], "done");
    app.stop().await;
}

/// Contract: agents 25, 37. Claimed work continues, and unclaimed work is claimed again.
#[tokio::test]
async fn turn_survives_broken_connections() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = id_of(&client.agent_session(json!({})).await);
    let message = ["wait 1 second"; 4].join(", ");
    let said = client.post_to_agent(&agent, "message", json!({"message": message}));
    let breaking = async {
        eventually(Duration::from_secs(10), "the message was accepted", async || {
            (app.count("select count(*) from agent_turns").await == 1).then_some(())
        })
        .await;
        loop {
            app.count(TERMINATE_ALL).await;
            sleep(Duration::from_millis(70)).await;
        }
    };
    let turn = tokio::select! {
        turn = said => turn.expect(200).body,
        () = breaking => unreachable!("the loop has no end"),
    };
    let step_statuses: Vec<_> = turn["intents"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(step_statuses, ["done"; 4], "{turn}");
    app.stop().await;
}

/// A worker dies at this write. Each has its own agent session, whose worker is blocked at the write.
struct Moment {
    name: &'static str,
    /// Table, event and condition. `{agent}` and `{driver}` stand for ids.
    write: (&'static str, &'static str, &'static str),
    /// The database commits the write although the worker is dead.
    lands: bool,
    kind: &'static str,
    steps: &'static [&'static str],
    operations: usize,
}

const CLAIM: &str = "new.session_id = '{driver}' and new.kind = 'interact'";
const FINISH: &str = "new.session_id = '{driver}' and new.kind = 'interact' and new.status = 'done'";
const FIRST: &str = "new.agent_session_id = '{agent}' and new.status = 'running' and new.position = 1";
const SECOND: &str = "new.agent_session_id = '{agent}' and new.status = 'running' and new.position = 2";
const BEGIN: &str = "new.agent_session_id = '{agent}' and new.status = 'running'";
const END: &str = "new.agent_session_id = '{agent}' and new.status = 'done'";

const MOMENTS: [Moment; 9] = [
    Moment::new("before the claim", ("intents", "insert", CLAIM), false, &["skipped", "skipped"], 0),
    Moment::new("after the claim", ("intents", "insert", CLAIM), true, &["failed", "skipped"], 1),
    Moment::new("before the end of a step", ("intents", "update", FINISH), false, &["failed", "skipped"], 1),
    Moment::new("after the end of a step", ("intents", "update", FINISH), true, &["done", "skipped"], 1),
    Moment::new("before the receipt", ("agent_turns", "update", END), false, &["done", "done"], 2),
    Moment::new("after the end", ("agent_turns", "update", END), true, &["done", "done"], 2),
    // Writes on the connection pool with asynchronous commits, of which only a few can block at once.
    Moment { kind: "clarify", ..Moment::new("before the plan", ("agent_turns", "update", BEGIN), false, &[], 0) },
    Moment::new("after the first status", ("agent_steps", "update", FIRST), true, &["skipped", "skipped"], 0),
    Moment::new("between two steps", ("agent_steps", "update", SECOND), false, &["done", "skipped"], 1),
];

impl Moment {
    const fn new(
        name: &'static str,
        write: (&'static str, &'static str, &'static str),
        lands: bool,
        steps: &'static [&'static str],
        operations: usize,
    ) -> Self {
        Self { name, write, lands, kind: "plan", steps, operations }
    }

    /// The trigger blocks the first matching write while another connection holds this lock.
    async fn set(&self, app: &App, lock: i64, agent: &Value) {
        let (table, event, when) = self.write;
        let (driver, agent) = (uuid_of(&driver_of(agent)), uuid_of(&id_of(agent)));
        let when = when.replace("{driver}", &driver.to_string()).replace("{agent}", &agent.to_string());
        let sql = format!(
            "create sequence moment_{lock};
             create function stop_{lock}() returns trigger language plpgsql as $$
             begin
                 if nextval('moment_{lock}') = 1 then perform pg_advisory_xact_lock({lock}); end if;
                 return new;
             end $$;
             create trigger moment_{lock} before {event} on {table} for each row when ({when}) execute function stop_{lock}();"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&app.database.pool).await.expect("a trigger");
    }
}

/// Contract: agents 25, 28, 30. No step runs twice, and the receipt claims no unknown outcome.
#[tokio::test]
async fn worker_death_at_any_write_leaves_true_statuses() {
    let mut app = App::simulated().with_second_factors().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let mut holder = app.database.pool.acquire().await.expect("a connection");
    let mut set = Vec::new();
    // A trigger must be created before a transaction blocks at another one, because its creation would wait.
    for (lock, moment) in (1..).zip(&MOMENTS) {
        sqlx::query("select pg_advisory_lock($1)").bind(lock).execute(&mut *holder).await.expect("a lock");
        let agent = client.agent_session(json!({})).await;
        moment.set(&app, lock, &agent).await;
        set.push((lock, moment, agent));
    }
    let mut stopped = Vec::new();
    for (lock, moment, agent) in set {
        let request = message(&client, &id_of(&agent), moment, "tap 'Next', tap 'Next'");
        let sending = client.clone();
        let said = tokio::spawn(async move { sending.send(request).await });
        eventually(Duration::from_secs(20), moment.name, async || waiting_for(&app, lock).await).await;
        stopped.push((lock, moment, agent, said));
    }
    app.signal(1, Signal::SIGKILL).await;
    for (lock, moment, ..) in &stopped {
        if !moment.lands {
            let backend = waiting_for(&app, *lock).await.expect("a waiting backend");
            sqlx::query("select pg_terminate_backend($1, 5000)")
                .bind(backend)
                .execute(&mut *holder)
                .await
                .expect("it ends");
        }
        sqlx::query("select pg_advisory_unlock($1)").bind(lock).execute(&mut *holder).await.expect("a lock");
    }
    for (_, moment, agent, said) in stopped {
        let Moment { name, kind, steps, operations, .. } = moment;
        let turn = said.await.expect("a task").expect(200).body;
        let step_statuses: Value =
            turn["intents"].as_array().expect("steps").iter().map(|step| step["status"].clone()).collect();
        assert_eq!((&turn["kind"], step_statuses), (&json!(kind), json!(steps)), "{name}: {turn}");
        let ran = app.intents(&driver_of(&agent)).await.into_iter().filter(|intent| intent.kind == "interact").count();
        assert_eq!(ran, *operations, "{name}");
        let path = format!("/v1/agent-sessions/{}", id_of(&agent));
        let told = client.get(&format!("{path}/transcript")).await.expect(200).body;
        assert_eq!(told["data"][1]["intents"], turn["intents"], "{name}");
        if has_receipt(moment) {
            let again = client.send(message(&client, &id_of(&agent), moment, "tap 'Next', tap 'Next'")).await;
            assert_eq!(again.problem(409, "conflict").body["idempotency_status"], "in_progress", "{name}");
        } else {
            assert_eq!(turn["reply"], "Done, all 2 steps.", "{name}");
        }
        client.delete(&path).await.expect(204);
    }
    drop(holder);
    app.stop().await;
}

/// Without a receipt, the end of a turn is one statement. With a receipt there are several, and the dead worker cannot commit
/// them.
fn has_receipt(moment: &Moment) -> bool {
    moment.name != "after the end"
}

fn message(client: &Client, agent: &str, moment: &Moment, text: &str) -> reqwest::RequestBuilder {
    let path = format!("/v1/agent-sessions/{agent}/message");
    let request = client.request(reqwest::Method::POST, &path).json(&json!({"message": text}));
    if has_receipt(moment) { request.header("idempotency-key", moment.name.replace(' ', "-")) } else { request }
}

async fn waiting_for(app: &App, lock: i64) -> Option<i32> {
    sqlx::query_scalar(
        "select pid from pg_locks where locktype = 'advisory' and objid::bigint = $1 and not granted
         and database = (select oid from pg_database where datname = current_database())",
    )
    .bind(lock)
    .fetch_optional(&app.database.pool)
    .await
    .expect("locks")
}

/// Contract: agents 25, 27. The transcript contains the turn, and a repeated message with the key returns it.
#[tokio::test]
async fn turn_completes_after_the_death_of_its_api_process() {
    let mut app = App::simulated().with_second_factors().in_processes().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let path = format!("/v1/agent-sessions/{agent}");
    let (other, address) = app.start_another_api().await;
    let elsewhere = Client { base_url: address, ..client.clone() };
    let send = |client: &Client| {
        let request = client.request(reqwest::Method::POST, &format!("{path}/message")).header("idempotency-key", "k");
        request.json(&json!({"message": "wait 1 second, tap 'Next'"}))
    };
    let said = tokio::spawn(send(&elsewhere).send());
    eventually(Duration::from_secs(20), "a step runs", async || {
        (app.count("select count(*) from intents where kind = 'wait' and status = 'running'").await > 0).then_some(())
    })
    .await;
    app.signal(other, Signal::SIGKILL).await;
    assert!(said.await.expect("a task").is_err(), "the killed process responded");
    let told = eventually(Duration::from_secs(20), "the turn has ended", async || {
        let told = client.get(&format!("{path}/transcript")).await.expect(200).body;
        (told["data"].as_array()?.len() == 2).then_some(told)
    })
    .await;
    let again = client.send(send(&client)).await.expect(200).body;
    assert_eq!((&again["turn_id"], &again["intents"]), (&told["data"][1]["turn_id"], &told["data"][1]["intents"]));
    let step_statuses: Vec<_> =
        again["intents"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(step_statuses, ["done", "done"]);
    assert_eq!(app.count("select count(*) from agent_turns").await, 1);
    app.stop().await;
}
