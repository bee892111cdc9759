//! `MiniWoB++` (Shi et al. 2017; Liu et al. 2018): small tasks on separate pages. Each page states its task in a sentence and
//! scores the result. The test completes each task with one message to an agent session. A fixed template per task writes the
//! message from the sentence alone.
//!
//! A few tasks run with all other tests. `KITFLEET_TEST_MINIWOB=10 ./ops/test plays_miniwob` runs ten seeds of each task and
//! prints the number of successes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::text;
use crate::support::{App, Client};

/// Page and template of the message.
type Task = (&'static str, fn(&str) -> String);

const SHARE: f64 = 0.9;

const TASKS: [Task; 27] = [
    ("click-test", |_| "tap the \"Click Me!\" button".to_owned()),
    ("click-test-2", one_button),
    ("click-test-transfer", one_button),
    ("click-button", quoted_button),
    ("click-button-sequence", |_| "tap the \"ONE\" button, then tap the \"TWO\" button".to_owned()),
    ("click-link", |asked| format!("tap \"{}\"", quoted(asked)[0])),
    ("click-tab", |asked| format!("tap the \"{}\" tab", between(asked, "Click on ", "."))),
    ("click-tab-2-easy", |asked| format!("tap \"{}\"", quoted(asked)[0])),
    ("click-dialog", |_| "tap the \"Close\" button".to_owned()),
    ("click-dialog-2", |asked| match quoted(asked)[0] {
        "x" => "tap the \"Close\" button".to_owned(),
        label => format!("tap the \"{label}\" button"),
    }),
    ("click-option", |asked| {
        let label = between(asked, "Select ", " and click");
        format!("tap the \"{label}\" radio button, then tap the \"Submit\" button")
    }),
    ("click-checkboxes", checkboxes),
    ("click-checkboxes-large", checkboxes),
    ("click-checkboxes-transfer", checkboxes),
    ("click-collapsible", section),
    ("click-collapsible-nodelay", section),
    ("click-widget", |asked| {
        format!("tap css '#area > :nth-child(1 of :has([data-type=\"{}\"])) *'", quoted(asked)[0])
    }),
    ("choose-list", |asked| {
        let option = between(asked, "Select ", " from the list");
        format!("select \"{option}\" in \"#options\", then tap the \"Submit\" button")
    }),
    ("enter-text", |asked| field_and_submit(quoted(asked)[0])),
    ("enter-text-2", |asked| {
        let text = quoted(asked)[0];
        field_and_submit(&if asked.contains("upper case") { text.to_uppercase() } else { text.to_lowercase() })
    }),
    ("enter-text-dynamic", |asked| field_and_submit(quoted(asked)[0])),
    ("enter-password", |asked| {
        let password = quoted(asked)[0];
        format!(
            "type \"{password}\" into \"#password\", type \"{password}\" into \"#verify\", tap the \"Submit\" button"
        )
    }),
    ("login-user", |asked| {
        let [user, password] = quoted(asked)[..] else { unreachable!("a name and a password: {asked}") };
        format!("type \"{user}\" into \"#username\", type \"{password}\" into \"#password\", tap the \"Login\" button")
    }),
    ("focus-text", |_| "tap the text field".to_owned()),
    ("focus-text-2", |asked| format!("tap \"#tt{}\"", &between(asked, "into the ", " input")[..1])),
    ("unicode-test", quoted_button),
    ("search-engine", |asked| {
        let position: usize =
            between(asked, "click the ", " search").trim_end_matches(char::is_alphabetic).parse().expect("a number");
        let (page, result) = (1 + (position - 1) / 3, position - 1);
        let turn = if page == 1 { String::new() } else { format!("tap the \"{page}\" link, ") };
        format!(
            "type \"{}\" into \"#search-text\", tap the \"Search\" button, {turn}tap css 'a[data-result=\"{result}\"]'",
            quoted(asked)[0]
        )
    }),
];

fn one_button(asked: &str) -> String {
    format!("tap the \"{}\" button", between(asked, "button ", "."))
}

fn quoted_button(asked: &str) -> String {
    format!("tap the \"{}\" button", quoted(asked)[0])
}

fn checkboxes(asked: &str) -> String {
    let labels = between(asked, "Select ", " and click");
    let mut message = String::new();
    for label in labels.split(", ").filter(|label| *label != "nothing") {
        write!(message, "check \"{label}\", ").expect("a write to a string");
    }
    message + "tap the \"Submit\" button"
}

fn section(_: &str) -> String {
    "tap the \"Section\" tab, then tap the \"Submit\" button".to_owned()
}

fn field_and_submit(text: &str) -> String {
    format!("type \"{text}\" into the text field, then tap the \"Submit\" button")
}

fn quoted(asked: &str) -> Vec<&str> {
    asked.split('"').skip(1).step_by(2).collect()
}

fn between<'a>(asked: &'a str, before: &str, behind: &str) -> &'a str {
    let (_, rest) = asked.split_once(before).unwrap_or_else(|| unreachable!("{before} is in {asked}"));
    rest.split_once(behind).unwrap_or_else(|| unreachable!("{behind} is in {rest}")).0
}

/// Contract: agent-grammar. The messages are in plain words.
#[tokio::test]
async fn agent_plays_miniwob() {
    let seeds: Option<u32> = std::env::var("KITFLEET_TEST_MINIWOB").ok().map(|seeds| seeds.parse().expect("a number"));
    let tasks: Vec<_> =
        TASKS.iter().enumerate().filter(|(n, _)| seeds.is_some() || n % 5 == 0).map(|(_, task)| task).collect();
    let (app, pages) = (App::webkit().start().await, Pages::start().await);
    let client = app.client_with(Tier::Enterprise, &["read", "write"]).await;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let (mut done, mut tries, mut table) = (0, 0, String::new());
    for (name, template) in tasks {
        let mut of_task = 0;
        for seed in 0..seeds.unwrap_or(1) {
            let (reward, told) = play(&client, &agent, &pages.url(name, seed), *template).await;
            tries += 1;
            if reward > 0.0 {
                of_task += 1;
            } else {
                eprintln!("{name}, seed {seed}: {told}");
            }
        }
        done += of_task;
        writeln!(table, "| {name} | {of_task} |").expect("a write to a string");
    }
    eprintln!("{table}{done} of {tries}");
    assert!(f64::from(done) >= SHARE * f64::from(tries), "{done} of {tries}:\n{table}");
    app.stop().await;
}

/// Returns the reward of the page and a log.
async fn play(client: &Client, agent: &Value, url: &str, template: fn(&str) -> String) -> (f64, String) {
    let session = agent["session_id"].as_str().expect("an id");
    client.navigate(session, url).await.expect(200);
    let begin = json!({"action": {"kind": "tap", "selector": "#sync-task-cover"}});
    client.operate(session, "interact", begin).await.expect(200);
    let asked = text(client, session, "#query").await;
    let asked = asked.as_str().expect("a sentence");
    let messages = format!("/v1/agent-sessions/{}/message", agent["id"].as_str().expect("an id"));
    let message = template(asked);
    let mut turn = client.post(&messages, json!({"message": message})).await.expect(200).body;
    let mut told = format!("{asked} | {message} | {turn}");
    // When several elements have the same description, any of them will do, and the reply lists them.
    if let [first, rest @ ..] = &turn["candidates"].as_array().cloned().unwrap_or_default()[..]
        && rest.iter().all(|other| other["description"] == first["description"])
    {
        let first = format!("tap css \"{}\"", first["selector"].as_str().expect("a selector"));
        turn = client.post(&messages, json!({"message": first})).await.expect(200).body;
        write!(told, " | {first} | {turn}").expect("a write to a string");
    }
    loop {
        let waiting = turn["intents"].as_array().expect("steps").iter().find(|step| step["status"] == "needs_approval");
        let Some(waiting) = waiting else { break };
        let approval = json!({"message": "approved", "approvals": [waiting["id"]]});
        turn = client.post(&messages, approval).await.expect(200).body;
        write!(told, " | {turn}").expect("a write to a string");
    }
    let over = json!({
        "condition": {"kind": "selector_hidden", "selector": "#reward-last:not([style])"},
        "timeout_ms": 2_000, "on_timeout": "return",
    });
    client.operate(session, "wait", over).await.expect(200);
    let reward = text(client, session, "#reward-last").await;
    (reward.as_str().and_then(|reward| reward.parse().ok()).unwrap_or_default(), told)
}

/// For the `MiniWoB` package. Dropping this value stops it.
struct Pages {
    base_url: String,
    _server: JoinSet<()>,
}

impl Pages {
    async fn start() -> Self {
        let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schemathesis/lib");
        let python =
            std::fs::read_dir(environment).expect("./ops/test installs it").flatten().next().expect("a Python");
        let folder = python.path().join("site-packages/miniwob/html");
        assert!(folder.exists(), "./ops/test installs miniwob");
        let router = Router::new().fallback(page).with_state(Arc::new(folder));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut server = JoinSet::new();
        server.spawn(async { axum::serve(listener, router).await.expect("the server runs") });
        Self { base_url, _server: server }
    }

    fn url(&self, task: &str, seed: u32) -> String {
        format!("{}/miniwob/{task}.html?{seed}", self.base_url)
    }
}

/// The query of a task's address seeds its random numbers.
async fn page(State(folder): State<Arc<PathBuf>>, request: Request) -> Response {
    let path = folder.join(request.uri().path().trim_start_matches('/'));
    let Ok(content) = tokio::fs::read(&path).await else { return StatusCode::NOT_FOUND.into_response() };
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    };
    let content = match request.uri().query() {
        Some(seed) if kind.starts_with("text/html") => {
            let content = String::from_utf8(content).expect("text");
            content.replace("</head>", &format!("<script>Math.seedrandom('{seed}')</script></head>")).into_bytes()
        }
        _ => content,
    };
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}
