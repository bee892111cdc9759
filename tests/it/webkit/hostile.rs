//! A page can harm only its own session.

use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{Answer, App, Builder, eventually};
use crate::webkit::Scene;
use crate::webkit::processes::open_files;

/// By name, with the script that each runs shortly after it has loaded.
const PAGES: &[(&str, &str)] = &[
    ("alerts", "while (true) alert('again')"),
    ("windows", "for (let i = 0; i < 10_000; i++) window.open('/page/nothing'); document.querySelector('#done').textContent = 'done'"),
    ("data", "const frame = document.createElement('iframe'); frame.src = 'data:text/html,' + 'x'.repeat(50 << 20);
              document.body.append(frame)"),
    ("file-input", "document.querySelector('#done').textContent = 'done'"),
    ("service-worker", "const done = () => { document.querySelector('#done').textContent = 'done' };
                        navigator.serviceWorker ? navigator.serviceWorker.register('/worker.js').then(done, done) : done()"),
    ("address", "history.replaceState(null, '', '/page/address?' + 'x'.repeat(30 << 20)); document.title = 't'.repeat(1 << 20);
                 document.querySelector('#done').textContent = 'done'"),
    ("downloads", "setInterval(() => { location.href = '/file?' + Math.random() }, 1)"),
    ("loads", "setInterval(() => { location.href = '/never?' + Math.random() }, 1)"),
    ("stops", "setInterval(() => stop(), 1)"),
    ("frames", "for (const src of ['file:///etc/passwd', '/to-file']) { const frame = document.createElement('iframe'); frame.src = src;
                document.body.append(frame) } setTimeout(() => { document.querySelector('#done').textContent = 'done' }, 500)"),
    ("sockets", "const sockets = Array.from({length: 200}, () => new WebSocket('ws://' + location.host + '/socket'));
                 for (const socket of sockets) socket.onopen = () => {
                     document.title = sockets.filter(socket => socket.readyState === 1).length }"),
    ("moves", "document.body.onclick = () => { (function move() { location.hash = Math.random(); setTimeout(move, 0) })() }"),
    ("nothing", ""),
];

/// Dropping this value stops it.
struct Hostile {
    base_url: String,
    _server: JoinSet<()>,
}

impl Hostile {
    async fn start() -> Self {
        let router = Router::new()
            .route("/page/{name}", get(page))
            .route("/away/{step}", get(away))
            .route("/file", get(file))
            .route("/never", get(never))
            .route("/to-file", get(|| async { Redirect::temporary("file:///etc/passwd") }))
            .route("/worker.js", get(worker))
            .route("/socket", get(socket));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.expect("the site runs") });
        Self { base_url, _server: server }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }
}

fn last_of(uri: &Uri) -> &str {
    uri.path().rsplit('/').next().unwrap_or_default()
}

async fn page(uri: Uri) -> Response {
    let Some((name, script)) = PAGES.iter().find(|(page, _)| *page == last_of(&uri)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let html = format!(
        "<!doctype html><title>{name}</title><h1>{name}</h1><p id=done></p><input id=file type=file>
         <script>onload = () => setTimeout(() => {{ {script} }}, 200)</script>"
    );
    Html(html).into_response()
}

/// Endlessly.
async fn away(uri: Uri) -> Html<String> {
    let step: u64 = last_of(&uri).parse().expect("a number");
    Html(format!("<!doctype html><h1>{step}</h1><script>location.replace('/away/{}')</script>", step + 1))
}

async fn file() -> Response {
    let attachment = [(header::CONTENT_DISPOSITION, "attachment; filename=x.bin")];
    (attachment, vec![0_u8; 1024]).into_response()
}

async fn never() -> Response {
    std::future::pending().await
}

async fn worker() -> Response {
    let loops = "while (true) {}";
    ([(header::CONTENT_TYPE, "text/javascript")], loops).into_response()
}

/// Open until the page closes it.
async fn socket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket| while socket.recv().await.is_some() {})
}

/// The target of the attack, and an unaffected session.
struct Attack {
    scene: Scene,
    hostile: Hostile,
    bystander: String,
}

impl Attack {
    async fn start() -> Self {
        Self::on(App::webkit()).await
    }

    async fn on(app: Builder) -> Self {
        let scene = Scene::of(app.start().await).await;
        let bystander = scene.client.session().await;
        Self { scene, hostile: Hostile::start().await, bystander }
    }

    async fn visit(&self, path: &str) -> Answer {
        let url = self.hostile.url(path);
        self.scene.operate("navigate", json!({"url": url})).await
    }

    async fn done(&self) {
        let shown = json!({"kind": "selector", "selector": "#done:not(:empty)"});
        let body = json!({"condition": shown, "timeout_ms": 60_000});
        self.scene.operate("wait", body).await.expect(200);
    }

    /// The other session works, the attacked one can be destroyed, and another one created.
    async fn survive(&mut self) {
        let Self { scene, bystander, .. } = self;
        let (client, url) = (&scene.client, scene.site.url("/"));
        client.navigate(bystander, &url).await;
        assert_eq!(super::text(client, bystander, "#title").await, "Home");
        assert_eq!(client.status(bystander).await, "ready");
        let started = Instant::now();
        scene.begin_again().await;
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "deleting and creating a session took {:?}",
            started.elapsed()
        );
    }

    async fn end(self) {
        self.scene.app.stop().await;
    }
}

#[tokio::test]
async fn hostile_page_affects_only_its_own_session() {
    let mut attack = Attack::start().await;
    for page in ["alerts", "service-worker", "data"] {
        attack.visit(&format!("/page/{page}")).await.expect(200);
        // The page may or may not respond.
        let tap = json!({"action": {"kind": "tap", "selector": "#file"}, "timeout_ms": 1_500, "on_timeout": "return"});
        attack.scene.operate("interact", tap).await;
        attack.survive().await;
    }
    for page in ["windows", "file-input"] {
        attack.visit(&format!("/page/{page}")).await.expect(200);
        attack.done().await;
        let tap = json!({"kind": "tap", "selector": "#file"});
        attack.scene.act(tap).await.expect(200);
        assert_eq!(attack.scene.text("h1").await, page);
        assert_eq!(attack.scene.visit("/").await.body["status"], 200);
        attack.scene.assert_ready().await;
        attack.survive().await;
    }
    attack.end().await;
}

/// By repeated loads, downloads or `stop()`.
#[tokio::test]
async fn page_cannot_prevent_navigation() {
    let mut attack = Attack::start().await;
    for page in ["downloads", "loads", "stops"] {
        attack.visit(&format!("/page/{page}")).await.expect(200);
        // The script begins shortly after the page has loaded.
        attack.scene.operate("wait", json!({"condition": {"kind": "time", "ms": 500}})).await.expect(200);
        let arrived = attack.scene.visit("/redirect?to=/list").await.body;
        assert_eq!((&arrived["status"], &arrived["final_url"]), (&json!(200), &json!(attack.scene.site.url("/list"))));
        assert_eq!(attack.scene.text("#price").await, "Price: $1,234.50", "the navigation away from {page} failed");
        assert_eq!(attack.scene.visit("/").await.body["status"], 200);
        attack.scene.act(json!({"kind": "tap", "selector": "#button"})).await.expect(200);
        assert_eq!(attack.scene.text("#button").await, "trusted");
        attack.scene.assert_ready().await;
        attack.survive().await;
    }
    attack.end().await;
}

/// Contract: operations 8. The load that it interrupts is not taken for a download.
#[tokio::test]
async fn changing_fragment_does_not_prevent_navigation() {
    let attack = Attack::start().await;
    for round in 0..12 {
        attack.visit("/page/moves").await.expect(200);
        attack.scene.operate("wait", json!({"condition": {"kind": "time", "ms": 250}})).await.expect(200);
        attack.scene.act(json!({"kind": "tap", "selector": "h1"})).await.expect(200);
        let arrived = attack.scene.visit("/list").await;
        assert_eq!((arrived.status.as_u16(), &arrived.body["status"]), (200, &json!(200)), "{round}: {}", arrived.body);
    }
    assert_eq!(attack.scene.text("#price").await, "Price: $1,234.50");
    attack.scene.assert_ready().await;
    attack.end().await;
}

/// The limit is `worker.session_connections`, also when the process may open few files. Further connections wait.
#[tokio::test]
async fn sockets_of_a_page_are_limited_by_its_session() {
    let app = App::webkit().files(1_024, 2_048).set("worker.max_sessions", "40");
    let mut attack = Attack::on(app.set("worker.session_connections", "40")).await;
    let lowered: i32 = sqlx::query_scalar("select max_sessions from workers")
        .fetch_one(&attack.scene.app.database.pool)
        .await
        .expect("one worker");
    assert!((2..40).contains(&lowered), "{lowered} sessions despite the limit of open files");
    attack.visit("/page/sockets").await.expect(200);
    let open = async |attack: &Attack| attack.scene.state().await["title"].as_str()?.parse::<u32>().ok();
    let max = eventually(Duration::from_secs(20), "sockets are open", async || {
        open(&attack).await.filter(|open| *open >= 24)
    })
    .await;
    assert!(max <= 40, "{max} sockets of a session that may have 40 connections");

    let files = open_files(attack.scene.app.pid(0));
    assert!(files < 1_024, "{files} files are open");
    attack.survive().await;
    attack.end().await;
}

/// Contract: operations 19. The state reports the truncation.
#[tokio::test]
async fn url_of_thirty_megabytes_is_truncated() {
    let mut attack = Attack::start().await;
    attack.visit("/page/address").await.expect(200);
    attack.done().await;
    let state = attack.scene.state().await;
    let chars = |value: &Value| value.as_str().map(|text| text.chars().count());
    assert_eq!((chars(&state["url"]), chars(&state["title"])), (Some(32_768), Some(4_096)));
    assert_eq!(state["truncated"], true);
    let pattern = json!({"kind": "url_matches", "pattern": "/page/address[?]x{100}"});
    let waited = attack.scene.wait(pattern).await.expect(200).body;
    let tapped = attack.scene.act(json!({"kind": "tap", "selector": "h1"})).await.expect(200).body;
    for answer in [waited, tapped] {
        assert_eq!(chars(&answer["url"]), Some(32_768), "{}", answer["kind"]);
    }
    assert_eq!(attack.scene.visit("/").await.body["status"], 200);
    assert_eq!(attack.scene.state().await["truncated"], Value::Null);
    attack.scene.assert_ready().await;
    attack.survive().await;
    attack.end().await;
}

#[tokio::test]
async fn endless_redirects_and_file_urls_fail() {
    let mut attack = Attack::start().await;
    let body = json!({"url": attack.hostile.url("/away/1"), "timeout_ms": 2_000});
    let away = attack.scene.operate("navigate", body).await;
    // A page that redirects after a delay counts as loaded, and a navigation away from it succeeds.
    if away.status == 200 {
        assert_eq!(attack.scene.visit("/").await.body["status"], 200);
        attack.scene.assert_ready().await;
    } else {
        away.problem(504, "session-timeout");
    }
    attack.survive().await;

    attack.visit("/to-file").await.problem(502, "driver-error");
    attack.survive().await;

    // The page must not show files of this machine. Its session may have errored, because WebKit ends a process that requests a
    // file, or whose frame is redirected to one, without asking the policy first.
    attack.visit("/page/frames").await.expect(200);
    let ended = eventually(Duration::from_secs(20), "the frames have loaded or failed", async || {
        let asked = json!({"extractions": [{"name": "it", "selector": "#done", "type": "text"}]});
        let answer = attack.scene.operate("extract", asked).await;
        (answer.status != 200 || answer.body["value"]["it"] == "done").then_some(answer)
    })
    .await;
    if ended.status == 200 {
        let picture = attack.scene.operate("capture", json!({"kind": "dom_snapshot"})).await.expect(200).body;
        assert!(!picture.to_string().contains("root:"), "{picture}");
        assert_eq!(attack.scene.visit("/").await.body["status"], 200);
    } else {
        assert!(matches!(ended.status.as_u16(), 410 | 502), "{}", ended.body);
    }
    attack.survive().await;
    attack.end().await;
}
