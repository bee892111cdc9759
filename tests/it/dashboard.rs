//! The dashboard in Chromium, through a whole service (`tests/dashboard`).

mod staff;

use std::path::{Path, PathBuf};
use std::process::Command;

use kitfleet_domain::accounts::Tier;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, LOCATION};
use serde_json::{Value, json};

use crate::support::commands::run;
use crate::support::people::{PASSWORD, Person};
use crate::support::{App, plain_http};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard")
}

/// Runs a script of `tests/dashboard` as a person.
async fn browse(app: &App, person: &Person, script: &str, variables: &[(&str, &str)]) {
    let of_person = [("DASHBOARD_EMAIL", person.email.as_str()), ("DASHBOARD_PASSWORD", PASSWORD)];
    run_script(app, script, &[&of_person[..], variables].concat()).await;
}

/// Runs a script of `tests/dashboard`. Its pictures are kept.
async fn run_script(app: &App, script: &str, variables: &[(&str, &str)]) {
    run(script_command(app, script, "dashboard", variables), "").await.code(0);
}

/// `pictures` is the folder of its pictures.
fn script_command(app: &App, script: &str, pictures: &str, variables: &[(&str, &str)]) -> Command {
    assert!(tests().join("node_modules").exists(), "./ops/test installs Playwright");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures").join(pictures);
    let mut command = Command::new("node");
    command
        .arg(tests().join(script))
        .env("DASHBOARD_URL", &app.base_url)
        .env("DASHBOARD_PICTURES", pictures)
        .envs(variables.iter().copied());
    command
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
    browse(&app, &person, "pages.mjs", &[("DASHBOARD_PAGES", &pages.join(" ")), ("DASHBOARD_THEME", theme)]).await;
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
