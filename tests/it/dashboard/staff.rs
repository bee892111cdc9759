//! The staff board in Chromium, through a whole service.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY};
use serde_json::json;

use super::run_script;
use crate::draining::{process_of, until_active};
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually, plain_http};
use crate::webhooks::{create, id_of};

const DEAD_LETTERS: i32 = 30;

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
    for path in ["/staff", "/staff/", "/staff/workers/wrk_unknown", &script] {
        client.get(path).await.problem(404, "not-found");
        assert_eq!(get(path, Some("svc_live_unknown")).await.status(), 401, "{path}");
        for token in [None, Some(token.as_str())] {
            assert_eq!(get(path, token).await.status(), 200, "{path}");
        }
    }
    app.stop().await;
}

/// In both widths and both themes: no error, no violation of the policy, no serious finding of axe, no page that is too wide.
#[tokio::test]
async fn every_page_of_staff_is_sound() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    // What pages and customers say is shown as text.
    let hostile = "<img src=x onerror=alert(1)>\u{202e}gpj.exe";
    let session = client.session_with(json!({"label": hostile})).await;
    let endpoint = id_of(&create(&client, &sink.url("/ok"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 3, 1).await;
    let (worker, token) = (app.worker_of(&session).await, staff_token(&app).await);
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
    run_script(&app, "staff.mjs", &[("STAFF_TOKEN", &token), ("STAFF_PAGES", &pages.join(" "))]).await;
    app.stop().await;
}

/// A worker has died with a session, and an endpoint was down. Staff end the stuck session, requeue the dead letters, inform
/// the customers, and drain and return the other worker.
#[tokio::test]
async fn bad_day_is_handled_on_the_board() {
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
    run_script(&app, "staff-day.mjs", &variables).await;

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
