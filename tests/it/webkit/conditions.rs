//! Texts, scripts, responses and loads.

use std::time::Duration;

use serde_json::{Value, json};

use super::interaction::assert_nowhere_in_clear;
use crate::webkit::{Scene, assert_failed};

impl Scene {
    /// Waits for a condition that becomes true, and returns the result.
    async fn met(&self, condition: Value) -> Value {
        let waited = self.wait(condition.clone()).await.expect(200).body;
        assert_eq!((&waited["matched"], &waited["kind"]), (&json!(true), &condition["kind"]), "{condition}");
        waited
    }

    /// It does not become true within a short time. Returns the result.
    async fn not_met(&self, condition: Value) -> Value {
        let body = json!({"condition": condition, "timeout_ms": 500, "on_timeout": "return"});
        let waited = self.operate("wait", body).await.expect(200).body;
        assert_eq!((&waited["matched"], &waited["kind"]), (&json!(false), &condition["kind"]), "{condition}");
        waited
    }
}

fn text(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

fn function(script: &str) -> Value {
    json!({"kind": "function", "script": script})
}

fn response(url_pattern: &str) -> Value {
    json!({"kind": "response", "url_pattern": url_pattern})
}

fn load_state(state: &str) -> Value {
    json!({"kind": "load_state", "state": state})
}

/// Contract: operations 16, 30. It must be visible.
#[tokio::test]
async fn text_is_waited_for_in_all_frames() {
    let scene = Scene::start().await;
    let late = "<script>setTimeout(() => { document.body.append('Paid in another frame') }, 300)</script>";
    let frame = scene.written(late).replace("127.0.0.1", "localhost");
    let page = format!(
        "<p>Order <b>No&nbsp;42</b> is\n ready</p><p hidden>not shown</p><button>Send it</button>
        <p id=late style='visibility:hidden'>shown later</p><iframe src=\"{frame}\"></iframe>
        <script>setTimeout(() => {{ late.style.visibility = 'visible' }}, 300)</script>"
    );
    scene.show(&page).await;
    scene.met(text("order no 42 IS   ready")).await;
    scene.met(text("Send it")).await;
    scene.met(text("paid in ANOTHER frame")).await;
    scene.met(text("shown later")).await;
    for absent in ["not shown", "order 42", "Ordér"] {
        scene.not_met(text(absent)).await;
    }
    // The page may be replaced during the wait.
    scene.visit("/hop").await;
    scene.met(text("Price: $1,234.50")).await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 16.
#[tokio::test]
async fn script_is_repeated_until_it_returns_something_truthy() {
    let scene = Scene::start().await;
    let page = "<script>let runs = 0; setTimeout(() => { window.ready = true }, 300);
        JSON.stringify = Boolean = String = () => { throw new Error('replaced') };
        Object.prototype.toJSON = Array.prototype[Symbol.iterator] = () => { throw new Error('replaced') }</script>";
    scene.show(page).await;
    scene.met(function("return window.ready")).await;
    scene
        .met(function("return await new Promise((done) => setTimeout(() => done(window.ready), 50)) // the end"))
        .await;
    scene.met(function("return ++runs > 3")).await;
    scene.met(function("return await new Promise((done) => setTimeout(() => done(true), 3_000))")).await;
    for truthy in
        ["return {}", "return 'x'", "return document.body", "return () => {}", "return 1n", "return [args.length]"]
    {
        scene.met(function(truthy)).await;
    }
    for falsy in ["1", "return", "return 0", "return ''", "return NaN", "return null", "return new Promise(() => {})"] {
        let waited = scene.not_met(function(falsy)).await;
        assert!(waited.get("exception").is_none(), "{waited}");
    }
    scene.visit("/hop").await;
    let waited = scene.met(function("return location.pathname === '/list'")).await;
    assert_eq!(waited["url"], scene.site.url("/list"));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 3, 16. A syntax error is a
/// 400. No part of the script is stored or logged.
#[tokio::test]
async fn exception_of_a_script_is_named_by_the_timeout() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for (script, name, message) in [
        ("throw new RangeError('too far')", "RangeError", "too far"),
        ("throw 'a text'", "Error", "a text"),
        ("throw undefined", "Error", "undefined"),
        ("throw {get name() { throw 1 }}", "Error", "[object Object]"),
        ("throw new Proxy({}, {get() { throw 1 }})", "Error", "the thrown value cannot be read"),
        ("await Promise.reject(new TypeError('later'))", "TypeError", "later"),
    ] {
        let waited = scene.not_met(function(script)).await;
        assert_eq!(waited["exception"], json!({"name": name, "message": message}), "{script}");
    }
    let waited = scene.not_met(function("throw new Error('x'.repeat(1e7))")).await;
    assert_eq!(waited["exception"]["message"].as_str().map(str::len), Some(1_000));
    for broken in ["return 1 }", "}); (() => {", "const x = ;", "return 'open"] {
        scene.wait(function(broken)).await.invalid("condition.script");
    }
    scene.assert_ready().await;

    let secret = "a-secret-of-the-script";
    scene.not_met(function(&format!("return '{secret}' === document.title"))).await;
    assert_nowhere_in_clear(&scene, &[secret]).await;
    let failing = json!({"condition": function("throw new TypeError('named-by-the-timeout')"), "timeout_ms": 300});
    let failed = scene.operate("wait", failing).await.problem(504, "session-timeout").body;
    let detail = failed["detail"].as_str().expect("a detail");
    assert!(detail.contains("TypeError: named-by-the-timeout"), "{detail}");
    assert!(!scene.app.log(0).contains("named-by-the-timeout"), "the exception is in the log");
    assert_failed(&scene.app, &scene.client, &scene.session, "wait", "SessionTimeoutError").await;
    scene.app.stop().await;
}

/// Contract: operations 16. It may also arrive during the wait.
#[tokio::test]
async fn response_is_found_since_the_previous_operation() {
    let scene = Scene::start().await;
    let frame =
        scene.written("<script>setTimeout(() => fetch('/list?inner'), 300)</script>").replace("127.0.0.1", "localhost");
    let page = format!(
        "<button id=send onclick=\"fetch('/status?code=422')\">send</button><button id=later onclick=\"setTimeout(() => fetch('/list?later'), 300)\">later</button>
        <button id=turn onclick=\"fetch('/redirect?to=/list')\">turn</button><a id=save href='/download'>save</a>
        <button id=work onclick=\"new Worker(window.URL.createObjectURL(new Blob(['fetch(`' + location.origin + '/list?worker`)'])))\">work</button>
        <button id=frame onclick=\"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{frame}'}}))\">frame</button>"
    );
    scene.show(&page).await;
    let tap = async |selector: &str| scene.act(json!({"kind": "tap", "selector": selector})).await.expect(200);
    tap("#send").await;
    let waited = scene.met(response(r"/status\?code=\d+$")).await;
    assert_eq!(waited["response"], json!({"url": scene.site.url("/status?code=422"), "status": 422}));
    // The wait itself was the previous operation.
    scene.not_met(response("/status")).await;
    tap("#send").await;
    scene.met(json!({"kind": "response", "url_pattern": "/status", "status": 422})).await;
    tap("#send").await;
    let other = scene.not_met(json!({"kind": "response", "url_pattern": "/status", "status": 200})).await;
    assert!(other.get("response").is_none(), "{other}");
    tap("#later").await;
    scene.met(response(r"/list\?later$")).await;
    tap("#turn").await;
    let turned = scene.met(json!({"kind": "response", "url_pattern": "/redirect", "status": 307})).await;
    assert_eq!(turned["response"]["url"], scene.site.url("/redirect?to=/list"));
    tap("#turn").await;
    scene.met(json!({"kind": "response", "url_pattern": "/list$", "status": 200})).await;
    tap("#save").await;
    scene.met(response("/download$")).await;
    tap("#work").await;
    scene.met(response(r"/list\?worker$")).await;
    // Only HTTP has responses.
    tap("#work").await;
    scene.not_met(response("^(blob|data):")).await;
    tap("#frame").await;
    scene.met(response(r"^http://localhost:\d+/list\?inner$")).await;
    scene.visit("/status?code=404").await;
    assert_eq!(scene.met(response("/status")).await["response"]["status"], 404);
    scene.wait(response("(")).await.invalid("condition.url_pattern");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 6, 16. A load that failed is not met.
#[tokio::test]
async fn load_of_the_page_is_waited_for() {
    let scene = Scene::start().await;
    let heavy = scene.site.url("/heavy");
    let loading = json!({"url": heavy, "wait_until": "domcontentloaded"});
    scene.operate("navigate", loading).await.expect(200);
    scene.met(load_state("domcontentloaded")).await;
    assert_eq!(scene.state().await["page_state"]["state"], "loading");
    scene.met(load_state("load")).await;
    assert_eq!(scene.state().await["page_state"]["state"], "loaded");
    let idle = scene.met(load_state("networkidle")).await;
    assert_eq!(idle["url"], heavy);

    scene.show("<a id=slow href='/slow?ms=700'>slow</a>").await;
    scene.act(json!({"kind": "tap", "selector": "#slow"})).await.expect(200);
    assert_eq!(scene.met(load_state("load")).await["url"], scene.site.url("/slow?ms=700"));

    // A page of which a part never loads, and one that cannot be reached.
    let page = scene.written("<img src='/never'>");
    scene.operate("navigate", json!({"url": page, "wait_until": "domcontentloaded"})).await.expect(200);
    scene.met(load_state("domcontentloaded")).await;
    scene.not_met(load_state("load")).await;
    scene.not_met(load_state("networkidle")).await;
    scene.show(&format!("<a id=lost href='{}'>lost</a>", scene.site.resetting())).await;
    scene.act(json!({"kind": "tap", "selector": "#lost"})).await.expect(200);
    scene.not_met(load_state("load")).await;
    scene.visit("/").await;
    for state in ["domcontentloaded", "load", "networkidle"] {
        scene.met(load_state(state)).await;
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46.
#[tokio::test]
async fn held_dialog_ends_a_wait() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"dialogs": "hold"})).await;
    let page = "<button id=ask onclick=\"setTimeout(() => confirm('sure?'), 2000)\">ask</button><img src='/never'>";
    let page = scene.written(page);
    scene.operate("navigate", json!({"url": page, "wait_until": "domcontentloaded"})).await.expect(200);
    for condition in [
        text("nothing"),
        function("return false"),
        function("await new Promise(() => {})"),
        response("nothing"),
        load_state("load"),
    ] {
        scene.act(json!({"kind": "tap", "selector": "#ask"})).await.expect(200);
        let waited = scene.wait(condition.clone()).await.expect(200).body;
        assert_eq!((&waited["matched"], &waited["kind"]), (&json!(false), &condition["kind"]), "{waited}");
        assert_eq!(waited["dialog"]["message"], "sure?", "{waited}");
        scene.act(json!({"kind": "dialog", "accept": true})).await.expect(200);
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 3. Another page can be loaded afterwards.
#[tokio::test]
async fn script_without_an_end_times_out() {
    let mut scene = Scene::start().await;
    scene.visit("/").await;
    let endless = json!({"condition": function("while (true) {}"), "timeout_ms": 500, "on_timeout": "return"});
    let waited = scene.operate("wait", endless.clone()).await.expect(200).body;
    assert_eq!(waited["matched"], false);
    assert!((500..5_000).contains(&waited["duration_ms"].as_u64().expect("milliseconds")), "{waited}");
    let visited = scene.client.operate(&scene.session, "navigate", json!({"url": scene.site.url("/list")}));
    tokio::time::timeout(Duration::from_secs(30), visited).await.expect("an answer").expect(200);
    scene.met(text("Price")).await;
    let endless = json!({"condition": function("while (true) {}"), "timeout_ms": 500});
    scene.operate("wait", endless).await.problem(504, "session-timeout");
    assert_failed(&scene.app, &scene.client, &scene.session, "wait", "SessionTimeoutError").await;
    scene.begin_again().await;
    scene.app.stop().await;
}
