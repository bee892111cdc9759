//! Processes that die, connections that break and callers that disconnect: sessions, events and slots stay consistent.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use kitfleet_types::ids::SessionId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::support::live::ports;
use crate::support::{Answer, App, Client, Role, Site, eventually};
use crate::webkit::processes::{below, listeners, open_files, parent_of, zombies_of};
use crate::webkit::{Scene, assert_failed, failures, until_status};

struct Browser {
    session: String,
    host: Pid,
}

impl Browser {
    /// There must be no warm pool, so that the new host process belongs to the new session.
    async fn open(app: &App, client: &Client) -> Self {
        let before = app.processes("kitfleet-host");
        let session = client.session().await;
        let mut hosts = app.processes("kitfleet-host");
        hosts.retain(|host| !before.contains(host));
        let [host] = hosts[..] else { unreachable!("one session has one host: {hosts:?}") };
        Self { session, host }
    }

    fn kill(&self, name: &str) {
        let victim = match name {
            "kitfleet-host" => Some(self.host),
            "kitfleet-keeper" => Some(parent_of(self.host)),
            "Xvfb" => below(parent_of(self.host), name).pop(),
            _ => below(self.host, name).pop(),
        };
        kill_process(victim.unwrap_or_else(|| panic!("the browser has no {name} process")));
    }
}

fn kill_process(pid: Pid) {
    kill(pid, Signal::SIGKILL).expect("it runs");
}

fn endless_wait() -> Value {
    json!({"condition": {"kind": "selector", "selector": "#nowhere"}, "timeout_ms": 60_000})
}

/// `harm` happens once the session is busy. Returns the response and the time from the harm to it.
async fn during(
    client: &Client,
    session: &str,
    (operation, body): (&str, Value),
    harm: impl AsyncFnOnce(),
) -> (Answer, Duration) {
    let harmed = async {
        until_status(client, session, "busy").await;
        harm().await;
        Instant::now()
    };
    let (answer, harmed) = tokio::join!(client.operate(session, operation, body), harmed);
    (answer, harmed.elapsed())
}

/// The worker has started the operation.
async fn until_begun(app: &App, session: &str) {
    eventually(Duration::from_secs(10), "the operation has started", async || {
        sqlx::query("select from intents where session_id = $1 and status = 'running'")
            .bind(session.parse::<SessionId>().expect("an id"))
            .fetch_optional(&app.database.pool)
            .await
            .expect("an answer")
    })
    .await;
}

async fn count_sessions(db: &PgPool, statuses: &[&str]) -> i64 {
    sqlx::query_scalar("select count(*) from sessions where status = any($1)")
        .bind(statuses)
        .fetch_one(db)
        .await
        .expect("a count")
}

/// It can create a session and load a page.
async fn until_service_works(client: &Client, url: &str) -> String {
    eventually(Duration::from_secs(30), "the service works again", async || {
        let created = client.post("/v1/sessions", json!({})).await;
        let session = created.body["id"].as_str().filter(|_| created.status == 201)?.to_owned();
        let arrived = client.operate(&session, "navigate", json!({"url": url})).await;
        (arrived.status == 200).then_some(session)
    })
    .await
}

/// Contract: sessions 15.
#[tokio::test]
async fn death_of_a_browser_process_fails_only_its_session() {
    let app = App::webkit().start().await;
    let site = Site::start().await;
    // The account has two slots: the neighbour takes one, and each victim needs the other.
    let client = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    let neighbour = Browser::open(&app, &client).await;
    client.navigate(&neighbour.session, &site.url("/")).await;

    let wait = ("wait", endless_wait());
    let load = ("navigate", json!({"url": site.url("/never"), "timeout_ms": 60_000}));
    for (name, at_work) in [
        ("WebKitWebProcess", None),
        ("WebKitWebProcess", Some(wait.clone())),
        ("WebKitNetworkProcess", None),
        ("WebKitNetworkProcess", Some(wait.clone())),
        ("WebKitNetworkProcess", Some(load)),
        ("kitfleet-host", None),
        ("kitfleet-host", Some(wait.clone())),
        ("Xvfb", None),
        ("Xvfb", Some(wait.clone())),
        ("kitfleet-keeper", Some(wait)),
    ] {
        let victim = Browser::open(&app, &client).await;
        client.navigate(&victim.session, &site.url("/")).await;
        let operation = match at_work {
            None => {
                victim.kill(name);
                until_status(&client, &victim.session, "errored").await;
                "unknown"
            }
            Some(work) => {
                let operation = work.0;
                let (answer, after) = during(&client, &victim.session, work, async || victim.kill(name)).await;
                assert_eq!(answer.status, 502, "{name} during {operation}: {}", answer.body);
                answer.problem(502, "driver-error");
                assert!(after < Duration::from_secs(4), "{name} during {operation}: the answer came after {after:?}");
                operation
            }
        };
        assert_failed(&app, &client, &victim.session, operation, "DriverError").await;
        eventually(Duration::from_secs(5), "the processes of the victim have ended", async || {
            (app.processes("kitfleet-host") == [neighbour.host] && app.processes("WebKitNetworkProcess").len() == 1)
                .then_some(())
        })
        .await;
        client.operate(&neighbour.session, "interact", json!({"action": {"kind": "scroll"}})).await.expect(200);
    }
    assert_eq!(failures(&app, &neighbour.session).await, Vec::<Value>::new());
    app.stop().await;
}

/// Contract: workers 4.
#[tokio::test]
async fn browsers_end_with_their_worker() {
    let mut app = App::webkit().roles(&[Role::Api, Role::Worker]).start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let (idle, left, busy) = (client.session().await, client.session().await, client.session().await);
    client.navigate(&busy, &site.url("/")).await;
    assert!(app.processes("kitfleet-host").len() >= 3);

    let (worker, operation) = (app.pid(1), ("wait", endless_wait()));
    let (answer, after) = during(&client, &busy, operation, async || {
        // Another process would end an operation that the worker had not started, together with its session.
        until_begun(&app, &busy).await;
        kill_process(worker);
    })
    .await;
    assert!(answer.status.is_server_error(), "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert!(after < Duration::from_secs(25), "its caller waited for {after:?}");
    eventually(Duration::from_secs(5), "no browser is left", async || {
        let names = ["kitfleet-keeper", "kitfleet-host", "WebKitWebProcess", "WebKitNetworkProcess", "Xvfb", "bwrap"];
        names.iter().all(|name| app.processes(name).is_empty()).then_some(())
    })
    .await;

    assert_eq!(client.status(&busy).await, "busy", "the outcome of its operation is unknown");
    client.operate(&busy, "navigate", json!({"url": site.url("/")})).await.problem(409, "conflict");
    client.operate(&idle, "navigate", json!({"url": site.url("/")})).await.problem(502, "driver-error");
    assert_failed(&app, &client, &idle, "navigate", "DriverError").await;
    for session in [&busy, &left] {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        assert_eq!(client.status(session).await, "destroyed");
        assert_eq!(failures(&app, session).await, Vec::<Value>::new());
    }
    assert_eq!(count_sessions(&app.database.pool, &["creating", "ready", "busy"]).await, 0);

    // The next worker takes over and deletes the dead worker's files.
    let next = app.start(Role::Worker);
    until_service_works(&client, &site.url("/")).await;
    let folders = fs::read_dir(app.data_dir.path().join("data/browsers")).expect("a folder").flatten();
    let folders = folders.filter(|entry| entry.path().is_dir()).count();
    assert_eq!(folders, 1, "{}", app.log(next));
    app.stop().await;
}

/// Contract: workers 1, 2, 9. No operation runs twice.
#[tokio::test]
async fn broken_database_connections_lose_no_acknowledged_change() {
    const VISITS: usize = 12;
    let app = App::webkit().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let visitor = async || {
        let (mut arrived, mut created) = (0, Vec::new());
        let mut session: Option<String> = None;
        for _ in 0..VISITS {
            let current = if let Some(session) = session.take() {
                session
            } else {
                let new = eventually(Duration::from_secs(30), "a session", async || {
                    let answer = client.post("/v1/sessions", json!({})).await;
                    assert!([201, 502, 503, 504].contains(&answer.status.as_u16()), "{}", answer.body);
                    answer.body["id"].as_str().filter(|_| answer.status == 201).map(ToOwned::to_owned)
                });
                new.await
            };
            created.push(current.clone());
            let answer = client.operate(&current, "navigate", json!({"url": site.url("/hit")})).await;
            match answer.status.as_u16() {
                200 => {
                    arrived += 1;
                    session = Some(current);
                }
                // The session has failed, or is busy with a navigation whose caller received an error.
                409 | 410 | 502 | 503 | 504 => {}
                _ => unreachable!("{}: {}", answer.status, answer.body),
            }
        }
        (arrived, created)
    };
    // The breaks are frequent, but far enough apart for some requests to succeed.
    let breaking = async {
        let mut broken = 0;
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let all: Result<i64, _> = sqlx::query_scalar(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid()",
            )
            .fetch_one(&app.database.pool)
            .await;
            broken += all.unwrap_or_default();
        }
        broken
    };
    let (broken, (one, mut created), (other, also_created)) = tokio::join!(breaking, visitor(), visitor());
    assert!(broken > 20, "only {broken} connections were broken");

    created.extend(also_created);
    for session in &created {
        // The first request on a broken connection notices that it is broken.
        eventually(Duration::from_secs(5), "the acknowledged session exists", async || {
            (client.get(&format!("/v1/sessions/{session}")).await.status == 200).then_some(())
        })
        .await;
    }
    let acknowledged = one + other;
    assert!(site.hits() >= acknowledged, "{acknowledged} requests were acknowledged, {} arrived", site.hits());
    assert!(site.hits() <= 2 * VISITS, "{} of at most {} requests arrived", site.hits(), 2 * VISITS);
    eventually(Duration::from_secs(30), "no session stays busy with an abandoned operation", async || {
        (count_sessions(&app.database.pool, &["creating", "busy"]).await == 0).then_some(())
    })
    .await;
    let done: i64 = sqlx::query_scalar(
        "select count(*) from intents where kind = 'navigate' and status = 'done' and outcome->>'ended' = 'done'",
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("a count");
    assert!(usize::try_from(done).expect("a count") >= acknowledged, "{done} of {acknowledged} are recorded");
    until_service_works(&client, &site.url("/")).await;
    app.stop().await;
}

/// Table, event and condition of each step at which a connection can break.
const STEPS: [(&str, &str, &str); 4] = [
    ("intents", "insert", "true"),
    ("intents", "update", "new.status = 'running'"),
    ("intents", "update", "new.status = 'done'"),
    ("sessions", "update", "new.status in ('ready', 'errored')"),
];

/// Terminates one connection.
async fn break_next(db: &PgPool, (table, event, when): (&str, &str, &str)) {
    let sql = format!(
        "create sequence if not exists faults;
         create or replace function break_connection() returns trigger language plpgsql as $$
         begin
             if nextval('faults') = 1 then
                 perform pg_terminate_backend(pg_backend_pid());
                 perform pg_sleep(10);
             end if;
             return new;
         end $$;
         alter sequence faults restart;
         create trigger fault before {event} on {table} for each row when ({when}) execute function break_connection();"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(db).await.expect("a trigger");
}

/// True when it terminated a connection.
async fn stop_breaking(db: &PgPool, (table, ..): (&str, &str, &str)) -> bool {
    let happened = sqlx::query_scalar("select is_called from faults").fetch_one(db).await.expect("a flag");
    let sql = format!("drop trigger fault on {table}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(db).await.expect("the trigger is dropped");
    happened
}

/// Contract: workers 3. The operation runs at most once and its caller receives a response.
#[tokio::test]
async fn broken_connection_at_any_step_leaves_nothing_busy() {
    let mut scene = Scene::start().await;
    let db = scene.app.database.pool.clone();
    let until_settled = async |step: &str| {
        eventually(Duration::from_secs(15), &format!("everything settles after a fault at {step}"), async || {
            (count_sessions(&db, &["creating", "busy"]).await == 0).then_some(())
        })
        .await;
    };
    let assert_told = |answer: &Answer, done: u16, step: &str| {
        let status = answer.status.as_u16();
        assert!(status == done || [502, 503, 504].contains(&status), "{step}: {status}: {}", answer.body);
    };
    for step in STEPS {
        let named = format!("{} of {} when {}", step.1, step.0, step.2);
        let (before, started) = (scene.site.hits(), Instant::now());
        break_next(&db, step).await;
        let answer = scene.operate("navigate", json!({"url": scene.site.url("/hit")})).await;
        until_settled(&named).await;
        assert!(stop_breaking(&db, step).await, "no operation took this step: {named}");
        assert_told(&answer, 200, &named);
        assert!(started.elapsed() < Duration::from_secs(20), "{named}: {:?}", started.elapsed());
        let came = scene.site.hits() - before;
        assert!(
            came == 1 || (came == 0 && answer.status != 200),
            "{named}: {came} requests arrived, status {}",
            answer.status
        );
        match scene.client.status(&scene.session).await.as_str() {
            "ready" => assert_eq!(failures(&scene.app, &scene.session).await, Vec::<Value>::new()),
            status => {
                assert_eq!(status, "errored", "{named}");
                assert_eq!(failures(&scene.app, &scene.session).await.len(), 1, "{named}");
                scene.begin_again().await;
            }
        }

        break_next(&db, step).await;
        let answer = scene.client.post("/v1/sessions", json!({"label": named})).await;
        until_settled(&named).await;
        assert!(stop_breaking(&db, step).await, "no create took this step: {named}");
        assert_told(&answer, 201, &named);
        if answer.status == 201 {
            let id = answer.body["id"].as_str().expect("an id");
            assert_eq!(scene.client.status(id).await, "ready", "{named}");
        }
        scene.visit("/").await;
    }
    scene.app.stop().await;
}

/// Contract: workers 14.
#[tokio::test]
async fn killed_embedded_database_restarts() {
    let app = App::webkit().embedded().start().await;
    let (site, client) = (Site::start().await, app.owner());
    let database = app.data_dir.path().join("data/postgres");
    let postmaster = || {
        let file = fs::read_to_string(database.join("postmaster.pid")).expect("it runs");
        Pid::from_raw(file.lines().next().and_then(|line| line.trim().parse().ok()).expect("a process id"))
    };
    let known = client.session().await;
    client.navigate(&known, &site.url("/")).await;

    let first = postmaster();
    kill_process(first);
    let second = until_service_works(&client, &site.url("/")).await;
    assert_ne!(postmaster(), first);
    assert_eq!(client.get(&format!("/v1/sessions/{known}")).await.expect(200).body["id"], known);

    let wait = ("wait", json!({"condition": {"kind": "time", "ms": 1_000}, "timeout_ms": 30_000}));
    let (answer, after) = during(&client, &second, wait, async || kill_process(postmaster())).await;
    assert!(answer.status == 200 || answer.status.is_server_error(), "{}: {}", answer.status, answer.body);
    assert_ne!(answer.status, 500, "{}", answer.body);
    assert!(after < Duration::from_secs(35), "its caller waited for {after:?}");
    until_service_works(&client, &site.url("/")).await;
    for session in [&known, &second] {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }

    // The death of one backend makes PostgreSQL restart all of them.
    let folder = fs::File::open(&database).expect("the folder");
    let socket = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let options = PgConnectOptions::new_without_pgpass().socket(socket).username("kitfleet").database("kitfleet");
    let pool = PgPool::connect_with(options).await.expect("the embedded database");
    let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&pool).await.expect("a process id");
    kill_process(Pid::from_raw(backend));
    pool.close().await;
    until_service_works(&client, &site.url("/")).await;
    app.stop().await;
}

/// Contract: workers 10. A running operation finishes when it can, and a session is served until its owner ends it.
#[tokio::test]
async fn sigterm_drains_and_responds_to_callers() {
    for (drain, work, finishes) in
        [("20s", json!({"condition": {"kind": "time", "ms": 1_500}}), true), ("500ms", endless_wait(), false)]
    {
        let app = App::webkit().set("worker.drain_timeout", drain).start().await;
        let (site, client) = (Site::start().await, app.client().await);
        let (session, idle) = (client.session().await, client.session().await);
        client.navigate(&session, &site.url("/")).await;
        let started = Instant::now();
        let pid = app.pid(0);
        let (answer, _) = during(&client, &session, ("wait", work), async || {
            kill(pid, Signal::SIGTERM).expect("it runs");
        })
        .await;
        if finishes {
            assert_eq!(answer.expect(200).body["matched"], true);
            for session in [&session, &idle] {
                client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
            }
        } else {
            assert!(answer.status.is_server_error(), "{}", answer.body);
            assert_eq!(answer.headers["content-type"], "application/problem+json");
        }
        eventually(Duration::from_secs(15), "the process ends", async || {
            app.processes("kitfleet").is_empty().then_some(())
        })
        .await;
        assert!(started.elapsed() < Duration::from_secs(15), "it took {:?} to stop", started.elapsed());
        assert_eq!(count_sessions(&app.database.pool, &["creating", "ready", "busy"]).await, 0);
        assert_eq!(failures(&app, &idle).await.len(), usize::from(!finishes));
        app.stop().await;
    }
}

/// Contract: requests 13.
#[tokio::test]
async fn disconnected_callers_cancel_nothing() {
    let scene = Scene::start().await;
    let (app, client, session) = (&scene.app, &scene.client, &scene.session);
    let moments = [0, 1, 2, 4, 8, 15, 30, 60, 120, 240].map(Duration::from_millis);
    let leave_after = async |moment: Duration, request: reqwest::RequestBuilder| {
        // Dropping a request closes its connection.
        let _ = tokio::time::timeout(moment, request.send()).await;
    };
    let post = |path: String, body: Value| client.request(reqwest::Method::POST, &path).json(&body);
    // The server may not have read the request yet when its caller disconnects.
    let until_settled = async || {
        eventually(Duration::from_secs(15), "all operations have ended", async || {
            let open: i64 = sqlx::query_scalar("select count(*) from intents where status <> 'done'")
                .fetch_one(&app.database.pool)
                .await
                .expect("a count");
            (open == 0 && count_sessions(&app.database.pool, &["creating", "busy"]).await == 0).then_some(())
        })
        .await;
        until_status(client, session, "ready").await;
    };

    for moment in moments {
        leave_after(moment, post("/v1/sessions".to_owned(), json!({"label": "left"}))).await;
        for (operation, body) in [
            ("navigate", json!({"url": scene.site.url("/slow?ms=100")})),
            ("interact", json!({"action": {"kind": "scroll", "delta_y": 1}})),
            ("capture", json!({"kind": "screenshot"})),
        ] {
            leave_after(moment, post(format!("/v1/sessions/{session}/{operation}"), body)).await;
            until_settled().await;
        }
        leave_after(moment, client.request(reqwest::Method::GET, &format!("/v1/sessions/{session}/state"))).await;
        until_settled().await;
        assert_eq!(failures(app, session).await, Vec::<Value>::new());
    }
    let hit = json!({"url": scene.site.url("/redirect?to=/hit")});
    leave_after(Duration::from_millis(60), post(format!("/v1/sessions/{session}/navigate"), hit)).await;
    until_settled().await;
    if scene.site.hits() > 0 {
        assert_eq!(scene.state().await["title"], "Hit");
    }
    assert_eq!(scene.visit("/").await.body["status"], 200);
    scene.assert_ready().await;

    let left = client.get("/v1/sessions?label=left&limit=100").await.expect(200).body;
    for session in left["data"].as_array().expect("sessions") {
        assert_eq!(session["status"], "ready");
        let path = format!("/v1/sessions/{}", session["id"].as_str().expect("an id"));
        leave_after(Duration::from_millis(1), client.request(reqwest::Method::DELETE, &path)).await;
        client.delete(&path).await.expect(204);
    }
    // The age excludes transactions that have just begun.
    eventually(Duration::from_secs(5), "no transaction is left open", async || {
        let open: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and state like 'idle in transaction%' and state_change < now() - interval '500 ms'",
        )
        .fetch_one(&app.database.pool)
        .await
        .expect("a count");
        (open == 0).then_some(())
    })
    .await;
    scene.app.stop().await;
}

/// Contract: workers 13. This includes folders, sockets and file descriptors.
#[tokio::test]
async fn ended_sessions_leave_no_resources() {
    let scene = Scene::of(App::webkit().set("worker.warm_pool", "1").start().await).await;
    let (app, client) = (&scene.app, &scene.client);
    let (known, service) = (ports(app).await, app.pid(0));
    let only_the_warm_pool_is_left = async || {
        eventually(Duration::from_secs(10), "only the warm pool is left", async || {
            let worker = fs::read_dir(app.data_dir.path().join("data/browsers")).expect("a folder").flatten();
            let folders = worker.filter_map(|entry| Some(fs::read_dir(entry.path()).ok()?.count())).sum::<usize>();
            let ports: HashSet<_> = listeners(app, service).into_iter().map(|listener| listener.address).collect();
            let processes = [("kitfleet-host", 1), ("WebKitNetworkProcess", 1), ("Xvfb", 1)]
                .iter()
                .all(|(name, count)| app.processes(name).len() == *count);
            let is_clean = folders == 1 && ports == known && processes && app.processes("WebKitWebProcess").len() <= 1;
            (is_clean && zombies_of(service) == 0).then_some(())
        })
        .await;
    };
    client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    only_the_warm_pool_is_left().await;
    let files = open_files(service);

    for _ in 0..2 {
        let mut sessions = Vec::new();
        for path in ["/", "/storage?n=100000", "/cookies", "/popup", "/tall"] {
            let session = client.session().await;
            client.navigate(&session, &scene.site.url(path)).await;
            client.operate(&session, "capture", json!({"kind": "screenshot"})).await.expect(200);
            sessions.push(session);
        }
        assert!(app.processes("kitfleet-host").len() >= 5);
        for session in sessions {
            client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        }
    }
    only_the_warm_pool_is_left().await;
    // The service, and one warm slot: two sandbox processes, the keeper, the display, the host, the network process, and the web
    // process with its two sandbox processes.
    eventually(Duration::from_secs(5), "no more processes than one warm slot has", async || {
        (app.marked().len() <= 10).then_some(())
    })
    .await;
    assert!(open_files(service) <= files + 10, "{} files were open, now {}", files, open_files(service));
    scene.app.stop().await;
}
