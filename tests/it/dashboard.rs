//! The dashboard in Chromium, through a whole service (`tests/dashboard`).

mod staff;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, LOCATION};
use serde_json::{Value, json};

use crate::support::app::Builder;
use crate::support::commands::run_within;
use crate::support::people::PASSWORD;
use crate::support::sink::Sink;
use crate::support::{App, plain_http};

/// Flows wait for browsers, mails and deliveries.
const SCRIPT_ENDS_WITHIN: Duration = Duration::from_mins(5);

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard")
}

/// Runs a script of `tests/dashboard`.
async fn browse(app: &App, script: &[&str], variables: &[(&str, &str)]) {
    run_within(SCRIPT_ENDS_WITHIN, script_command(app, script, "dashboard", variables), "").await.code(0);
}

/// Its pictures are kept in the folder `pictures`.
fn script_command(app: &App, script: &[&str], pictures: &str, variables: &[(&str, &str)]) -> Command {
    assert!(tests().join("node_modules").exists(), "./ops/test installs Playwright");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures").join(pictures);
    let mut command = Command::new("node");
    command
        .current_dir(tests())
        .args(script)
        .env("DASHBOARD_URL", &app.base_url)
        .env("DASHBOARD_PASSWORD", PASSWORD)
        .env("DASHBOARD_PICTURES", pictures)
        .envs(variables.iter().copied());
    command
}

/// Runs flows of `tests/dashboard/flows`, for which `people` accounts are made.
async fn walk(app: &App, sink: &Sink, script: &[&str], people: usize, variables: &[(&str, &str)]) {
    let mut emails = Vec::new();
    for _ in 0..people {
        emails.push(app.person(Tier::Enterprise).await.email);
    }
    let free = [app.person(Tier::Free).await.email, app.person(Tier::Free).await.email];
    let link = app.log(0).lines().find_map(|line| {
        let at = line.find("/magic-link?token=")?;
        line[at..]
            .split(|sign: char| sign.is_whitespace() || sign == '"')
            .next()
            .map(|path| format!("{}{path}", app.base_url))
    });
    let world = json!({
        "people": emails,
        "free": free,
        "outbox": app.data_dir.path(),
        "hook": sink.url("/first/500/2/dashboard"),
        "owner_link": link,
    });
    let world = world.to_string();
    let variables = [&[("DASHBOARD_WORLD", world.as_str())][..], variables].concat();
    browse(app, script, &variables).await;
}

/// Deliveries fail twice, and are dead letters then.
fn with_flows(builder: Builder, sink: &Sink) -> Builder {
    builder.with_second_factors().delivering_to(sink).set("webhooks.retry_schedule", "[\"100ms\"]")
}

fn id_of(body: &Value) -> String {
    body["id"].as_str().expect("an id").to_owned()
}

/// Other clients than browsers keep the 404 of an unknown path.
#[tokio::test]
async fn root_leads_browsers_to_the_dashboard() {
    let app = App::simulated().here().start().await;
    let http = plain_http().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
    let root = http.get(format!("{}/", app.base_url)).header(ACCEPT, "text/html,*/*;q=0.8").send().await.expect("sent");
    assert_eq!((root.status().as_u16(), &root.headers()[LOCATION]), (302, &"/app/".parse().expect("a value")));
    for accepted in ["*/*", "application/json"] {
        let root = http.get(format!("{}/", app.base_url)).header(ACCEPT, accepted).send().await.expect("sent");
        assert_eq!(root.status(), 404, "{accepted}");
    }
    app.stranger().post("/", json!({})).await.expect(405);
    app.stop().await;
}

/// Every address below `/app/` is the application, which runs no script and no style that the service did not write.
#[tokio::test]
async fn application_is_served_under_a_strict_policy() {
    let app = App::simulated().here().start().await;
    let http = plain_http().build().expect("a client");
    for path in ["/app/", "/app/sessions/ses_unknown", "/app/..%2f..%2fetc"] {
        let page = http.get(format!("{}{path}", app.base_url)).send().await.expect("sent");
        assert_eq!(page.status(), 200, "{path}");
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text").to_owned();
        for rule in
            ["default-src 'none'", "script-src 'self'", "style-src 'self'", "require-trusted-types-for 'script'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let page = http.get(format!("{}/app/", app.base_url)).send().await.expect("sent").text().await.expect("text");
    let (_, script) = page.split_once("src=\"/app/assets/").expect("a script");
    let script = script.split('"').next().expect("a name");
    for encoding in ["br", "gzip"] {
        let request = http.request(Method::GET, format!("{}/app/assets/{script}", app.base_url));
        let file = request.header("Accept-Encoding", encoding).send().await.expect("sent");
        assert_eq!(file.headers()[CONTENT_ENCODING], encoding);
        assert_eq!(file.headers()["Cache-Control"], "public, max-age=31536000, immutable");
    }
    app.stranger().get("/app/assets/missing.js").await.problem(404, "not-found");
    app.stop().await;
}

/// In both widths: no error, no violation of the policy, no serious finding of axe, no page that is too wide.
async fn assert_every_page_is_sound(theme: &str) {
    let app = App::simulated().with_second_factors().start().await;
    let person = app.person(Tier::Enterprise).await;
    // What pages and customers say is shown as text.
    let hostile = "<img src=x onerror=alert(1)>\u{202e}gpj.exe";
    let client = &person.client;
    let create = async |path: &str, body: Value| id_of(&client.post(path, body).await.expect(201).body);
    let session = create("/v1/sessions", json!({"label": hostile, "record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await.expect(200);
    let agent = create("/v1/agent-sessions", json!({"label": hostile})).await;
    let profile = create("/v1/profiles", json!({"name": hostile})).await;
    let endpoint =
        create("/v1/webhooks", json!({"url": "https://example.com/hook", "events": ["session.failed"]})).await;
    create("/v1/api-keys", json!({"name": hostile, "scopes": ["read"]})).await;
    let pages = [
        "overview=/",
        "sessions=/sessions",
        &format!("session=/sessions/{session}"),
        "agents=/agents",
        &format!("agent=/agents/{agent}"),
        "approvals=/approvals",
        "recipes=/recipes",
        "profiles=/profiles",
        &format!("profile=/profiles/{profile}"),
        "proxies=/proxies",
        "webhooks=/webhooks",
        &format!("webhook=/webhooks/{endpoint}"),
        "deliveries=/deliveries",
        "keys=/keys",
        "team=/team",
        "usage=/usage",
        "audit-log=/audit-log",
        "billing=/billing",
        "settings=/settings",
        "missing=/nowhere",
    ];
    let pages = pages.join(" ");
    let variables =
        [("DASHBOARD_EMAIL", person.email.as_str()), ("DASHBOARD_PAGES", pages.as_str()), ("DASHBOARD_THEME", theme)];
    browse(&app, &["pages.mjs"], &variables).await;
    app.stop().await;
}

#[tokio::test]
async fn every_page_is_sound_in_light() {
    assert_every_page_is_sound("light").await;
}

#[tokio::test]
async fn every_page_is_sound_in_dark() {
    assert_every_page_is_sound("dark").await;
}

/// Sessions, agents, approvals and recipes, with browsers.
#[tokio::test]
async fn flows_of_sessions_and_agents_work_in_webkit() {
    let sink = Sink::start().await;
    let app = with_flows(App::webkit(), &sink).start().await;
    let flows = ["flows.mjs", "firstMinute", "sessions", "drive", "agents", "profiles"];
    walk(&app, &sink, &flows, 10, &[("DASHBOARD_BROWSERS", "webkit")]).await;
    app.stop().await;
}

/// The service refuses them in names, or the pages show spaces.
#[tokio::test]
async fn control_characters_break_no_page_in_webkit() {
    let sink = Sink::start().await;
    let app = with_flows(App::webkit(), &sink).start().await;
    walk(&app, &sink, &["flows.mjs", "controls"], 2, &[("DASHBOARD_BROWSERS", "webkit")]).await;
    app.stop().await;
}

/// Names, titles, console lines, addresses and dialogs with markup, marks that change the direction of text, and thousands of characters.
#[tokio::test]
async fn hostile_texts_are_shown_as_text_in_webkit() {
    let sink = Sink::start().await;
    let app = with_flows(App::webkit(), &sink).start().await;
    walk(&app, &sink, &["flows.mjs", "hostile"], 2, &[("DASHBOARD_BROWSERS", "webkit")]).await;
    app.stop().await;
}

#[tokio::test]
async fn flows_of_connections_work() {
    let sink = Sink::start().await;
    let app = with_flows(App::simulated(), &sink).start().await;
    walk(&app, &sink, &["flows.mjs", "proxies", "webhooks", "credentials"], 6, &[]).await;
    app.stop().await;
}

#[tokio::test]
async fn flows_of_the_account_work() {
    let sink = Sink::start().await;
    let app = with_flows(App::simulated(), &sink).start().await;
    let flows = ["flows.mjs", "team", "freePlan", "usage", "auditLog", "settings", "signIns", "signUp"];
    walk(&app, &sink, &flows, 12, &[]).await;
    app.stop().await;
}

/// What the owner, an admin, a member, an account on the free plan, and a removed member may do on each page.
#[tokio::test]
async fn pages_say_what_a_person_may_do() {
    let sink = Sink::start().await;
    let app = with_flows(App::simulated(), &sink).start().await;
    walk(&app, &sink, &["flows.mjs", "rights", "freeRights"], 4, &[]).await;
    app.stop().await;
}

/// An expired sign-in, a service that is away, many tabs, and strange addresses: nothing that was typed is lost.
#[tokio::test]
async fn flows_recover_from_errors() {
    let sink = Sink::start().await;
    let app = with_flows(App::simulated(), &sink).start().await;
    let flows = ["flows.mjs", "expiredSignIn", "serviceAway", "twoTabs", "manyTabs", "strangeAddresses"];
    walk(&app, &sink, &flows, 10, &[]).await;
    app.stop().await;
}

#[tokio::test]
async fn main_flows_need_only_a_keyboard() {
    let sink = Sink::start().await;
    let app = with_flows(App::simulated(), &sink).start().await;
    walk(&app, &sink, &["flows.mjs", "byKeyboard"], 2, &[]).await;
    app.stop().await;
}

/// The dashboard in a browser of the service itself.
#[tokio::test]
async fn main_flows_work_in_webkit_on_a_phone() {
    let sink = Sink::start().await;
    let app = with_flows(App::webkit(), &sink).start().await;
    walk(&app, &sink, &["phone.mjs"], 2, &[]).await;
    app.stop().await;
}

/// The first page of 10,000 sessions is usable within 300 ms, and 1,000 rows scroll at 50 frames a second.
#[tokio::test]
async fn many_sessions_are_listed_quickly() {
    let app = App::simulated().start().await;
    let person = app.person(Tier::Enterprise).await;
    let many = "insert into sessions (id, account_id, worker_id, status, archetype, purpose, behavioral_profile, label, created_at, updated_at,
                                      live, ended, ended_at)
                select uuid_v7_of(began), $1, w.id, 'destroyed', 'iphone', 'test', 'regular', 'Nightly run ' || n, began, began, false,
                       'destroyed', began
                from (select id from workers limit 1) w, generate_series(1, 10000) n,
                     lateral (select now() - n * interval '6 seconds') t (began)";
    app.execute(many, person.account.as_uuid()).await;
    browse(&app, &["many.mjs"], &[("DASHBOARD_EMAIL", person.email.as_str())]).await;
    app.stop().await;
}

/// All pages with the data of an account that is in use. With `DASHBOARD_DOCS` the pictures of docs/dashboard.md are written to that folder.
#[tokio::test]
async fn pages_in_use_are_sound_in_webkit() {
    let sink = Sink::start().await;
    let app = with_flows(App::webkit(), &sink).start().await;
    walk(&app, &sink, &["pictures.mjs"], 2, &[("DASHBOARD_BROWSERS", "webkit")]).await;
    app.stop().await;
}
