//! The staff board in Chromium, through a whole service.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY};
use serde_json::json;

use super::script_command;
use crate::draining::{process_of, until_active};
use crate::support::commands::run_within;
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually, plain_http};
use crate::webhooks::{create, id_of};

const DEAD_LETTERS: i32 = 30;
/// Of a script. Some wait until a worker is declared lost.
const LIMIT: Duration = Duration::from_mins(5);

/// Its pictures are kept in `pictures/staff`.
async fn run_board(app: &App, script: &str, variables: &[(&str, &str)]) {
    run_within(LIMIT, script_command(app, &[script], "staff", variables), "").await.code(0);
}

/// Addresses of the files that only the board uses.
fn staff_board_files() -> Vec<String> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/dist/assets");
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("`npm run build` in web/ writes web/dist");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    };
    for name in names(&built).iter().filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "js")) {
        let text = fs::read_to_string(built.join(name)).expect("a script");
        assert!(!text.contains("/v1/admin/"), "{name} is of the board, but outside of assets/staff");
    }
    names(&built.join("staff")).into_iter().map(|name| format!("/app/assets/staff/{name}")).collect()
}

async fn staff_token(app: &App) -> String {
    let minted = app.run(&["key", "mint", "--staff", "--name", "Grace", "--json"]).await.code(0).json();
    minted["key"].as_str().expect("a key").to_owned()
}

/// Contract: staff 3, 29. Browsers send no credential with a page. A customer's credential is refused like on a route of staff.
#[tokio::test]
async fn staff_board_does_not_exist_for_a_customers_credential() {
    let app = App::simulated().start().await;
    let (client, token) = (app.client().await, staff_token(&app).await);
    let http = plain_http().build().expect("a client");
    let get = async |path: &str, token: Option<&str>| {
        let request = http.request(Method::GET, format!("{}{path}", app.base_url));
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        request.send().await.expect("sent")
    };
    let page = get("/staff/", None).await;
    assert_eq!(page.status(), 200);
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let page = page.text().await.expect("text");
    let (_, script) = page.split_once("src=\"").expect("a script");
    let script = script.split('"').next().expect("an address").to_owned();
    assert!(script.starts_with("/app/assets/staff/"), "{script}");
    let files = staff_board_files();
    assert!(files.contains(&script), "{script} is not in web/dist, which is older than web/src");
    let pages = ["/staff", "/staff/", "/staff/workers/wrk_unknown", "/staff/%2e%2e/staff"].map(str::to_owned);
    for path in pages.iter().chain(&files) {
        client.get(path).await.problem(404, "not-found");
        assert_eq!(get(path, Some("svc_live_unknown")).await.status(), 401, "{path}");
        for token in [None, Some(token.as_str())] {
            assert_eq!(get(path, token).await.status(), 200, "{path}");
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn every_page_of_staff_is_sound_in_light() {
    assert_every_page_of_staff_is_sound("light").await;
}

#[tokio::test]
async fn every_page_of_staff_is_sound_in_dark() {
    assert_every_page_of_staff_is_sound("dark").await;
}

/// In both widths: no error, no violation of the policy, no serious finding of axe, no page that is too wide.
async fn assert_every_page_of_staff_is_sound(theme: &str) {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    // Text of customers and pages is shown as text.
    let hostile = "<img src=x onerror=alert(1)>\u{202e}gpj.exe";
    let session = client.session_with(json!({"label": hostile})).await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    create(&client, &sink.url("/disabled"), &["session.failed"]).await;
    app.dead_letters(&endpoint, 3, 1).await;
    let (worker, token) = (app.worker_of(&session).await, staff_token(&app).await);
    let incident = json!({"title": hostile, "message": hostile, "impact": "minor", "reason": hostile});
    let staff = Client::new(&app.base_url, Some(&token));
    staff.post("/v1/admin/incidents", incident).await.expect(201);
    staff
        .post(&format!("/v1/admin/accounts/{account}/notes"), json!({"note": hostile, "reason": "r"}))
        .await
        .expect(201);
    app.execute_all(&format!(
        "update accounts set name = '{hostile}';
         update workers set name = '{hostile}';
         update webhook_deliveries set last_error = '{hostile}', last_response_status = null;
         update webhook_endpoints set disabled_at = now() where url like '%/disabled';
         insert into delivery_requeues (id, account_id, error, total, done_at)
         select uuid_v7(), id, '{hostile}', 1, now() from accounts limit 1"
    ))
    .await;
    let pages = [
        "workers=/".to_owned(),
        format!("worker=/workers/{worker}"),
        "capacity=/capacity".to_owned(),
        "sessions=/sessions".to_owned(),
        format!("session=/sessions/{session}"),
        "queues=/queues".to_owned(),
        "dead-letters=/dead-letters".to_owned(),
        "accounts=/accounts".to_owned(),
        format!("account=/accounts/{account}"),
        "orders=/orders".to_owned(),
        "incidents=/incidents".to_owned(),
        "usage=/usage".to_owned(),
        "storage=/storage".to_owned(),
        "missing=/nowhere".to_owned(),
    ];
    let pages = pages.join(" ");
    let variables = [("STAFF_TOKEN", token.as_str()), ("STAFF_PAGES", pages.as_str()), ("STAFF_THEME", theme)];
    run_board(&app, "staff.mjs", &variables).await;
    app.stop().await;
}

/// A worker has died with a session, and an endpoint was down. Staff end the stuck session, requeue the dead letters, inform
/// the customers, and drain and return the other worker.
#[tokio::test]
async fn operators_handle_an_outage_on_the_board() {
    let sink = Sink::start().await;
    let builder = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]);
    let mut app = builder.delivering_to(&sink).start().await;
    until_active(&app, 2).await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, DEAD_LETTERS, 1).await;
    let session = client.session_with(json!({"label": "stuck"})).await;
    let wait = client.waiting(&session, 60_000);
    eventually(Duration::from_secs(10), "the worker has started the operation", async || {
        let running = "select count(*) from intents where kind = 'wait' and status = 'running'";
        (app.count(running).await == 1).then_some(())
    })
    .await;
    let process = process_of(&app, &app.worker_of(&session).await);
    app.signal(process, Signal::SIGKILL).await;
    wait.await.expect("a task").problem(502, "driver-error");

    let (account, token) = (account.to_string(), staff_token(&app).await);
    let variables = [
        ("STAFF_TOKEN", token.as_str()),
        ("DAY_SESSION", session.as_str()),
        ("DAY_ENDPOINT", endpoint.as_str()),
        ("DAY_ACCOUNT", account.as_str()),
    ];
    run_board(&app, "staff-day.mjs", &variables).await;

    assert_eq!(client.status(&session).await, "destroyed");
    eventually(Duration::from_mins(1), "all are delivered", async || {
        (app.count_of_status("delivered").await >= i64::from(DEAD_LETTERS)).then_some(())
    })
    .await;
    for operation in ["session.ended", "worker.drained", "worker.undrained", "account.suspended", "account.reactivated"]
    {
        let written: i64 =
            sqlx::query_scalar("select count(*) from staff_log where operation = $1 and reason like 'bad day%'")
                .bind(operation)
                .fetch_one(&app.database.pool)
                .await
                .expect("a count");
        assert_eq!(written, 1, "{operation}");
    }
    app.stop().await;
}

/// Contract: staff 5, 33. Two people who change the same thing, a reason of 501 characters, a change of the service while a page is
/// open, and a service that does not answer.
#[tokio::test]
async fn stale_staff_page_shows_a_warning() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (_, other) = app.customer(Tier::Enterprise).await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 3, 1).await;
    let worker = app.worker_of(&other.session().await).await;
    let key = other.key.clone().expect("a key");
    let (account, token) = (account.to_string(), staff_token(&app).await);
    let variables = [
        ("STAFF_TOKEN", token.as_str()),
        ("STALE_ACCOUNT", account.as_str()),
        ("STALE_ENDPOINT", endpoint.as_str()),
        ("STALE_WORKER", worker.as_str()),
        ("STALE_KEY", key.as_str()),
    ];
    run_board(&app, "staff-stale.mjs", &variables).await;
    let second = "select count(*) from staff_log where reason = 'stale: second'";
    assert_eq!(app.count(second).await, 0, "a refused change is in the log of staff");
    app.stop().await;
}

/// Contract: recordings 37; staff 39. The customer sees the read with its reason.
#[tokio::test]
async fn recording_is_read_on_the_board_where_staff_may() {
    let app = App::simulated().set("staff.may_watch", "true").start().await;
    let account = look_at_a_recording(&app, true).await;
    let rows = app.written_by_staff(account, "admin.support_note").await;
    let [row] = &rows[..] else { panic!("not one row: {rows:?}") };
    assert_eq!(row["operation"], "session.recording_read");
    assert!(row["reason"].as_str().is_some_and(|reason| reason.starts_with("watch: ")), "{row}");
    app.stop().await;
}

#[tokio::test]
async fn board_shows_why_staff_may_not_read_a_recording() {
    let app = App::simulated().start().await;
    let account = look_at_a_recording(&app, false).await;
    assert!(app.written_by_staff(account, "admin.support_note").await.is_empty());
    app.stop().await;
}

async fn look_at_a_recording(app: &App, may: bool) -> AccountId {
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session_with(json!({"record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await;
    eventually(Duration::from_secs(20), "the recording is stored", async || {
        (app.count("select count(*) from recordings where bytes > 0").await == 1).then_some(())
    })
    .await;
    let (token, account_id) = (staff_token(app).await, account.to_string());
    let variables = [
        ("STAFF_TOKEN", token.as_str()),
        ("WATCH_SESSION", session.as_str()),
        ("WATCH_ACCOUNT", account_id.as_str()),
        ("WATCH_MAY", if may { "true" } else { "false" }),
    ];
    run_board(app, "staff-watch.mjs", &variables).await;
    account
}

#[tokio::test]
async fn worker_that_dies_during_its_drain_is_shown_as_lost() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]);
    let mut app = builder.start().await;
    until_active(&app, 2).await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let worker = app.worker_of(&client.session().await).await;
    let process = process_of(&app, &worker);
    let token = staff_token(&app).await;
    let variables = [("STAFF_TOKEN", token.as_str()), ("LOST_WORKER", worker.as_str())];
    let command = script_command(&app, &["staff-lost.mjs"], "staff", &variables);
    let script = tokio::spawn(async move { run_within(LIMIT, command, "").await.code(0) });
    eventually(Duration::from_mins(1), "staff drain the worker", async || {
        (app.count("select count(*) from workers where status = 'draining'").await == 1).then_some(())
    })
    .await;
    // The page shows the drain first.
    tokio::time::sleep(Duration::from_secs(4)).await;
    app.signal(process, Signal::SIGKILL).await;
    script.await.expect("the board shows it");
    app.stop().await;
}
