//! Operations on sessions with the simulated driver (contract: operations).

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::support::routes::{Route, direct_operations};
use crate::support::{Answer, App, Client, assert_timestamp, unknown_id};

/// Contract: operations 6, 9, 16, 18, 20, 22, 34; sessions 9. Only reading the state changes `last_state_at`.
#[tokio::test]
async fn operations_return_the_members_of_the_contract() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let path = format!("/v1/sessions/{session}");
    let has = |answer: &Answer, names: &[&str]| {
        assert_eq!(in_order(&answer.body), names, "{}", answer.body);
    };

    let answer = client.navigate(&session, "https://example.com").await;
    has(&answer, &["url", "status", "final_url", "duration_ms"]);
    assert_eq!(answer.body["url"], "https://example.com", "the URL as the caller wrote it");
    assert_eq!(answer.body["final_url"], "https://example.com/");
    assert!(answer.body["duration_ms"].is_u64());
    for action in [
        json!({"kind": "tap", "selector": "#a"}),
        json!({"kind": "type", "selector": "#a", "text": "x", "delay_ms": 0, "sensitive": false}),
        json!({"kind": "scroll"}),
        json!({"kind": "press", "key": "Enter"}),
        json!({"kind": "select", "target": {"label": "Size"}, "option": "m"}),
        json!({"kind": "back"}),
        json!({"kind": "reload"}),
    ] {
        let answer = client.operate(&session, "interact", json!({"action": action})).await.expect(200);
        has(&answer, &["ok", "kind", "duration_ms", "url"]);
        assert_eq!((&answer.body["ok"], &answer.body["kind"]), (&json!(true), &action["kind"]));
    }
    let condition = json!({"kind": "url_matches", "pattern": "example"});
    let answer = client.operate(&session, "wait", json!({"condition": condition})).await.expect(200);
    has(&answer, &["matched", "kind", "duration_ms", "url"]);
    assert_eq!((&answer.body["matched"], &answer.body["kind"]), (&json!(true), &json!("url_matches")));
    let condition = json!({"kind": "response", "url_pattern": "example", "status": 201});
    let answer = client.operate(&session, "wait", json!({"condition": condition})).await.expect(200);
    has(&answer, &["matched", "kind", "duration_ms", "url", "response"]);
    assert_eq!(in_order(&answer.body["response"]), ["url", "status"]);
    captures(&client, &session).await;
    let extraction = json!({"name": "title", "selector": "h1", "type": "text"});
    let answer = client.operate(&session, "extract", json!({"extractions": [extraction]})).await.expect(200);
    has(&answer, &["value"]);
    assert_eq!(in_order(&answer.body["value"]), ["title"]);
    let answer = client.operate(&session, "snapshot", json!({})).await.expect(200);
    has(&answer, &["snapshot", "nodes", "truncated", "url", "duration_ms"]);
    assert!(answer.body["snapshot"].as_str().is_some_and(|text| text.contains("[ref=e1]")), "{}", answer.body);

    assert_eq!(client.get(&path).await.body["last_state_at"], Value::Null);
    let state = client.get(&format!("{path}/state")).await.expect(200);
    has(&state, &["url", "title", "cookies", "local_storage", "captured_at", "page_state"]);
    assert_timestamp(&state.body["captured_at"]);
    let after = client.get(&path).await.body;
    assert_timestamp(&after["last_state_at"]);
    assert_eq!(after["status"], "ready");
    client.navigate(&session, "https://example.com/next").await;
    assert_eq!(client.get(&path).await.body["last_state_at"], after["last_state_at"]);
    app.stop().await;
}

/// Contract: operations 22.
async fn captures(client: &Client, session: &str) {
    for (kind, encoding, content_type, magic) in [
        ("screenshot", "base64", "image/png", b"\x89PNG".as_slice()),
        ("pdf", "base64", "application/pdf", b"%PDF"),
        ("dom_snapshot", "utf8", "text/html; charset=utf-8", b"<"),
    ] {
        let answer = client.operate(session, "capture", json!({"kind": kind, "full_page": true})).await.expect(200);
        let names = ["kind", "encoding", "content", "content_type", "bytes", "duration_ms", "url"];
        assert_eq!(in_order(&answer.body), names);
        assert_eq!(answer.body["kind"], kind);
        assert_eq!(answer.body["encoding"], encoding);
        assert_eq!(answer.body["content_type"], content_type);
        let content = answer.body["content"].as_str().expect("content");
        let bytes = match encoding {
            "base64" => base64::engine::general_purpose::STANDARD.decode(content).expect("base64"),
            _ => content.as_bytes().to_vec(),
        };
        assert!(bytes.starts_with(magic), "{kind}");
        assert_eq!(answer.body["bytes"], bytes.len());
    }
}

/// Contract: operations 22.
#[tokio::test]
async fn screenshot_has_the_media_type_of_its_format() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for (format, content_type) in [("png", "image/png"), ("jpeg", "image/jpeg"), ("webp", "image/webp")] {
        let body = json!({"kind": "screenshot", "format": format, "scale": "css"});
        let answer = client.operate(&session, "capture", body).await.expect(200);
        assert_eq!(answer.body["content_type"], content_type);
    }
    let margins = json!({"top": 0, "right": 50});
    let body = json!({"kind": "pdf", "paper": "letter", "landscape": true, "margins": margins, "background": false});
    client.operate(&session, "capture", body).await.expect(200);
    app.stop().await;
}

fn in_order(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Contract: operations 20. Values are in the order of the requested extractions.
#[tokio::test]
async fn response_of_any_size_equals_the_stored_result() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for count in [2, 100] {
        // Names that are sorted neither alphabetically nor by length.
        let names: Vec<_> = (0..count).map(|i| format!("{i:z>width$}", width = 120 - i * 7 % 53)).collect();
        let extractions: Vec<_> =
            names.iter().map(|name| json!({"name": name, "selector": "li", "type": "text"})).collect();
        let answer = client.operate(&session, "extract", json!({"extractions": extractions})).await.expect(200);
        assert_eq!(in_order(&answer.body["value"]), names);
        let stored = "select result::text from intents where kind = 'extract' order by id desc limit 1";
        let stored: String = sqlx::query_scalar(stored).fetch_one(&app.database.pool).await.expect("a row");
        assert_eq!(answer.body.to_string(), stored);
        assert_eq!(stored.len() > 8_000, count == 100, "{}", stored.len());
    }
    app.stop().await;
}

/// Contract: operations 1, 2, 8. `timeout_ms` is between 100 ms and 120 s.
#[tokio::test]
async fn navigate_validates_its_input() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let urls = [
        "",
        " ",
        "example.com",
        "/relative",
        "//example.com/",
        "http://",
        "https://",
        "http:// /",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "ftp://example.com/",
        "data:text/html,x",
        "about:blank",
        "blob:x",
        "ws://example.com/",
        "view-source:http://example.com/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0/",
        "http://0.0.0.0:8080/",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://user:pass@127.0.0.1/",
        "http://１２７.0.0.1/",
        "\thttp://127.0.0.1/",
    ];
    for url in urls {
        client.operate(&session, "navigate", json!({"url": url})).await.invalid("url");
    }
    let good = "https://example.com/";
    let refused = [
        (json!({}), "url"),
        (json!({"url": null}), "url"),
        (json!({"url": 1}), "url"),
        (json!({"url": [good]}), "url"),
        (json!({"url": format!("{good}?{}", "a".repeat(65_536))}), "url"),
        (json!({"url": good, "timeout_ms": 99}), "timeout_ms"),
        (json!({"url": good, "timeout_ms": 120_001}), "timeout_ms"),
        (json!({"url": good, "timeout_ms": -1}), "timeout_ms"),
        (json!({"url": good, "timeout_ms": 100.5}), "timeout_ms"),
        (json!({"url": good, "timeout_ms": "1000"}), "timeout_ms"),
        (json!({"url": good, "timeout_ms": 1e30}), "timeout_ms"),
        (json!({"url": good, "wait_until": "idle"}), "wait_until"),
        (json!({"url": good, "wait_until": "Load"}), "wait_until"),
        (json!({"url": good, "on_timeout": "ignore"}), "on_timeout"),
        (json!({"url": good, "on_failure": "ignore"}), "on_failure"),
        (json!({"url": good, "on_failure": true}), "on_failure"),
    ];
    assert_rejected(&app, &client, &session, "navigate", refused).await;
    let taken = [
        json!({"url": good, "timeout_ms": 100}),
        json!({"url": good, "timeout_ms": 120_000}),
        json!({"url": good, "wait_until": "load"}),
        json!({"url": good, "wait_until": "domcontentloaded"}),
        json!({"url": good, "wait_until": "networkidle"}),
        json!({"url": good, "on_timeout": "return", "on_failure": "return"}),
        json!({"url": good, "on_timeout": null, "on_failure": null}),
        json!({"url": "HTTP://EXAMPLE.COM:8080/päth?q=ü#f"}),
        json!({"url": "http://8.8.8.8/"}),
        json!({"url": "http://[2606:4700:4700::1111]/"}),
    ];
    assert_accepted(&client, &session, "navigate", taken).await;
    app.stop().await;
}

/// Contract: operations 1, 2, 9.
#[tokio::test]
async fn interact_validates_its_input() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let tap = json!({"kind": "tap", "selector": "#a"});
    let typing = |text: &str, delay: Value| json!({"action": {"kind": "type", "selector": "#a", "text": text, "delay_ms": delay}});
    let press = |key: &str| json!({"action": {"kind": "press", "key": key}});
    let scroll = |x: Value, y: Value| json!({"action": {"kind": "scroll", "delta_x": x, "delta_y": y}});
    let refused = [
        (json!({}), "action"),
        (json!({"action": null}), "action"),
        (json!({"action": "tap"}), "action"),
        (json!({"action": {"selector": "#a"}}), "action.kind"),
        (json!({"action": {"kind": "wiggle", "selector": "#a"}}), "action.kind"),
        (json!({"action": {"kind": "tap"}}), "action.selector"),
        (json!({"action": {"kind": "tap", "selector": ""}}), "action.selector"),
        (json!({"action": {"kind": "tap", "selector": 1}}), "action.selector"),
        (json!({"action": {"kind": "tap", "selector": "a".repeat(10_001)}}), "action.selector"),
        (json!({"action": {"kind": "type", "selector": "#a"}}), "action.text"),
        (json!({"action": {"kind": "type", "selector": "#a", "text": 1}}), "action.text"),
        (json!({"action": {"kind": "type", "selector": "#a", "text": "x", "sensitive": "yes"}}), "action.sensitive"),
        (json!({"action": {"kind": "type", "text": "x"}}), "action.selector"),
        (typing(&"x".repeat(10_001), json!(0)), "action.text"),
        (typing(&"ü".repeat(10_001), json!(0)), "action.text"),
        (typing("x", json!(501)), "action.delay_ms"),
        (typing("x", json!(-1)), "action.delay_ms"),
        (typing("x", json!(1.5)), "action.delay_ms"),
        (typing("x", json!("5")), "action.delay_ms"),
        // Exceeds the maximum total delay by 500 ms.
        (typing(&"x".repeat(241), json!(500)), "action.delay_ms"),
        (json!({"action": {"kind": "tap", "selector": "a".repeat(4_097)}}), "action.selector"),
        (press(""), "action.key"),
        (press(&"x".repeat(21)), "action.key"),
        (press("Shift+Alt+Shift+a"), "action.key"),
        (press("Hyper+a"), "action.key"),
        (json!({"action": {"kind": "press"}}), "action.key"),
        (scroll(json!(1.5), json!(0)), "action.delta_x"),
        (scroll(json!(0), json!("down")), "action.delta_y"),
        (scroll(json!(0), json!(1e12)), "action.delta_y"),
        (json!({"action": tap, "timeout_ms": 99}), "timeout_ms"),
        (json!({"action": tap, "timeout_ms": 120_001}), "timeout_ms"),
        (json!({"action": tap, "on_timeout": "explode"}), "on_timeout"),
    ];
    assert_rejected(&app, &client, &session, "interact", refused).await;
    let taken = [
        typing(&"ü".repeat(10_000), json!(0)),
        typing("", json!(0)),
        typing(&"x".repeat(240), json!(500)),
        press("a"),
        press("AudioBassBoostToggle"),
        press("Control+Shift+Alt+Meta+ArrowRight"),
        press("Control++"),
        scroll(json!(-100), json!(i32::MAX)),
        json!({"action": {"kind": "scroll", "selector": "#box", "delta_y": 10}}),
        json!({"action": tap, "timeout_ms": 100}),
        json!({"action": tap, "timeout_ms": 120_000, "on_timeout": "return"}),
        json!({"action": tap, "on_timeout": "fail"}),
    ];
    assert_accepted(&client, &session, "interact", taken).await;
    app.stop().await;
}

/// Contract: operations 29, 30, 33. The service checks this before it claims the session.
#[tokio::test]
async fn targets_are_validated() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let tap = |target: Value| json!({"action": {"kind": "tap", "target": target}});
    let long = "x".repeat(1_001);
    let refused = [
        (json!({"action": {"kind": "tap"}}), "action.selector"),
        (json!({"action": {"kind": "tap", "selector": "#a", "target": {"text": "a"}}}), "action.target"),
        (tap(json!({})), "action.target"),
        (tap(json!("a")), "action.target"),
        (tap(json!({"text": "a", "label": "a"})), "action.target"),
        (tap(json!({"name": "a"})), "action.target.name"),
        (tap(json!({"role": "buton"})), "action.target.role"),
        (tap(json!({"role": 5})), "action.target.role"),
        (tap(json!({"role": "button", "name": " "})), "action.target.name"),
        (tap(json!({"role": "button", "name": long})), "action.target.name"),
        (tap(json!({"text": ""})), "action.target.text"),
        (tap(json!({"text": long})), "action.target.text"),
        (tap(json!({"label": long})), "action.target.label"),
        (tap(json!({"placeholder": long})), "action.target.placeholder"),
        (tap(json!({"selector": "a".repeat(4_097)})), "action.target.selector"),
        (tap(json!({"ref": "12"})), "action.target.ref"),
        (tap(json!({"ref": "e"})), "action.target.ref"),
        (tap(json!({"ref": "e1234567890"})), "action.target.ref"),
        (tap(json!({"ref": "e-1"})), "action.target.ref"),
        (json!({"action": {"kind": "select", "selector": "#a"}}), "action.option"),
        (json!({"action": {"kind": "select", "selector": "#a", "option": long}}), "action.option"),
        (json!({"action": {"kind": "select", "option": "a"}}), "action.selector"),
    ];
    assert_rejected(&app, &client, &session, "interact", refused).await;
    let refused = [
        (json!({"condition": {"kind": "selector", "target": {}}}), "condition.target"),
        (json!({"condition": {"kind": "selector_hidden", "target": {"ref": "x"}}}), "condition.target.ref"),
    ];
    assert_rejected(&app, &client, &session, "wait", refused).await;
    let one = |extraction: Value| json!({"extractions": [extraction]});
    let refused = [
        (one(json!({"name": "a", "type": "text", "target": {"text": ""}})), "extractions.0.target.text"),
        (one(json!({"name": "a", "type": "text", "selector": "a", "target": {"text": "a"}})), "extractions.0.target"),
    ];
    assert_rejected(&app, &client, &session, "extract", refused).await;
    let taken = [
        tap(json!({"role": "button"})),
        tap(json!({"role": "button", "name": "x".repeat(1_000)})),
        tap(json!({"ref": "e123456789"})),
        tap(json!({"text": "a", "unknown": true})),
        json!({"action": {"kind": "scroll", "target": {"label": "a"}, "delta_y": 5}}),
        json!({"action": {"kind": "select", "selector": "#a", "option": ""}}),
        json!({"action": {"kind": "back"}, "timeout_ms": 100, "on_timeout": "return"}),
    ];
    assert_accepted(&client, &session, "interact", taken).await;
    app.stop().await;
}

/// Contract: operations 1, 2, 16, 17. Patterns use the syntax of Rust's `regex` crate, which matches in linear time.
#[tokio::test]
async fn wait_validates_its_input() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let pattern = |pattern: &str| json!({"condition": {"kind": "url_matches", "pattern": pattern}});
    let time = |ms: Value| json!({"condition": {"kind": "time", "ms": ms}});
    let shown = json!({"kind": "selector", "selector": "h1"});
    let refused = [
        (json!({}), "condition"),
        (json!({"condition": []}), "condition"),
        (json!({"condition": {"kind": "moon"}}), "condition.kind"),
        (json!({"condition": {"kind": "selector"}}), "condition.selector"),
        (json!({"condition": {"kind": "selector_hidden", "selector": " "}}), "condition.selector"),
        (json!({"condition": {"kind": "url_matches"}}), "condition.pattern"),
        (json!({"condition": {"kind": "time"}}), "condition.ms"),
        (pattern("("), "condition.pattern"),
        (pattern(&"a".repeat(10_001)), "condition.pattern"),
        (pattern("(?=a)"), "condition.pattern"),
        (pattern(r"(a)\1"), "condition.pattern"),
        (pattern("(((a{1000}){1000}){1000})"), "condition.pattern"),
        (pattern(r"\p{L}{900}"), "condition.pattern"),
        (pattern(&"a".repeat(1_001)), "condition.pattern"),
        (json!({"condition": {"kind": "selector", "selector": "a".repeat(4_097)}}), "condition.selector"),
        (json!({"condition": {"kind": "text", "text": " "}}), "condition.text"),
        (json!({"condition": {"kind": "text", "text": "a".repeat(1_001)}}), "condition.text"),
        (json!({"condition": {"kind": "function"}}), "condition.script"),
        (json!({"condition": {"kind": "function", "script": ""}}), "condition.script"),
        (json!({"condition": {"kind": "function", "script": "x".repeat(65_537)}}), "condition.script"),
        (json!({"condition": {"kind": "response", "url_pattern": "("}}), "condition.url_pattern"),
        (json!({"condition": {"kind": "response", "url_pattern": "a".repeat(1_001)}}), "condition.url_pattern"),
        (json!({"condition": {"kind": "response", "url_pattern": "a", "status": 600}}), "condition.status"),
        (json!({"condition": {"kind": "load_state", "state": "idle"}}), "condition.state"),
        (json!({"condition": {"kind": "load_state"}}), "condition.state"),
        (time(json!(60_001)), "condition.ms"),
        (time(json!(-1)), "condition.ms"),
        (time(json!(0.5)), "condition.ms"),
        (json!({"condition": shown, "timeout_ms": 99}), "timeout_ms"),
        (json!({"condition": shown, "timeout_ms": 120_001}), "timeout_ms"),
        (json!({"condition": shown, "on_timeout": true}), "on_timeout"),
    ];
    assert_rejected(&app, &client, &session, "wait", refused).await;
    let taken = [
        pattern("(a+)+$"),
        pattern(&"a".repeat(1_000)),
        pattern(""),
        time(json!(0)),
        time(json!(20)),
        json!({"condition": {"kind": "selector_hidden", "selector": "#a"}}),
        json!({"condition": {"kind": "text", "text": "a"}}),
        json!({"condition": {"kind": "function", "script": "x".repeat(65_536)}}),
        json!({"condition": {"kind": "response", "url_pattern": "/a$", "status": 200}}),
        json!({"condition": {"kind": "load_state", "state": "networkidle"}}),
        json!({"condition": shown, "timeout_ms": 100}),
        json!({"condition": shown, "timeout_ms": 120_000}),
    ];
    assert_accepted(&client, &session, "wait", taken).await;
    // The longest allowed wait. The test ends it with a DELETE.
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    wait.await.expect("a task").problem(410, "session-destroyed");
    app.stop().await;
}

/// Contract: operations 3. `on_timeout` set to `return` keeps it.
#[tokio::test]
async fn wait_timeout_ends_the_session_unless_it_should_return() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let late = json!({"condition": {"kind": "time", "ms": 30_000}, "timeout_ms": 100});
    client.operate(&session, "wait", late.clone()).await.problem(504, "session-timeout");
    assert_eq!(client.status(&session).await, "errored");
    client.operate(&session, "wait", late.clone()).await.problem(410, "session-destroyed");
    let events = app.events(&session).await;
    let [(kind, data)] = &events[..] else { panic!("not one event: {events:?}") };
    assert_eq!(kind, "session.failed");
    assert!(data["duration_ms"].is_i64());
    let told = json!({
        "session_id": session, "duration_ms": data["duration_ms"], "operation": "wait",
        "error_name": "SessionTimeoutError", "error_message": "The session operation timed out.",
    });
    assert_eq!(data, &told);

    let session = client.session().await;
    let mut patient = late;
    patient["on_timeout"] = "return".into();
    let answer = client.operate(&session, "wait", patient).await.expect(200);
    assert_eq!(answer.body["matched"], false);
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: operations 1, 20 to 22. Duplicate names are 400.
#[tokio::test]
async fn capture_and_extract_validate_their_input() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let refused = [
        (json!({}), "kind"),
        (json!({"kind": "gif"}), "kind"),
        (json!({"kind": 1}), "kind"),
        (json!({"kind": "screenshot", "full_page": "yes"}), "full_page"),
        (json!({"kind": "screenshot", "full_page": true, "reveal": "yes"}), "reveal"),
        (json!({"kind": "screenshot", "reveal": true}), "reveal"),
        (json!({"kind": "pdf", "full_page": true, "reveal": true}), "reveal"),
        (json!({"kind": "screenshot", "selector": "#a", "full_page": true}), "full_page"),
        (json!({"kind": "screenshot", "selector": ""}), "selector"),
        (json!({"kind": "screenshot", "selector": "#a", "target": {"text": "a"}}), "target"),
        (json!({"kind": "screenshot", "target": {"role": "nothing"}}), "target.role"),
        (json!({"kind": "pdf", "selector": "#a"}), "selector"),
        (json!({"kind": "screenshot", "format": "gif"}), "format"),
        (json!({"kind": "pdf", "format": "jpeg"}), "format"),
        (json!({"kind": "screenshot", "quality": 80}), "quality"),
        (json!({"kind": "screenshot", "format": "png", "quality": 80}), "quality"),
        (json!({"kind": "screenshot", "format": "webp", "quality": 0}), "quality"),
        (json!({"kind": "screenshot", "format": "jpeg", "quality": 101}), "quality"),
        (json!({"kind": "screenshot", "scale": "print"}), "scale"),
        (json!({"kind": "dom_snapshot", "scale": "css"}), "scale"),
        (json!({"kind": "screenshot", "paper": "a4"}), "paper"),
        (json!({"kind": "pdf", "paper": "a0"}), "paper"),
        (json!({"kind": "screenshot", "landscape": true}), "landscape"),
        (json!({"kind": "screenshot", "background": false}), "background"),
        (json!({"kind": "screenshot", "margins": {"top": 1}}), "margins"),
        (json!({"kind": "pdf", "margins": {"top": 51}}), "margins.top"),
        (json!({"kind": "pdf", "margins": {"left": -1}}), "margins.left"),
    ];
    assert_rejected(&app, &client, &session, "capture", refused).await;

    let text = |name: &str| json!({"name": name, "selector": "h1", "type": "text"});
    let many = |count: usize| Value::from((0..count).map(|i| text(&i.to_string())).collect::<Vec<_>>());
    let one = |extraction: Value| json!({"extractions": [extraction]});
    let list = |sub: Value| one(json!({"name": "a", "selector": "li", "type": "list", "extract": {"b": sub}}));
    let subs = |names: Vec<String>| {
        let subs: Map<String, Value> =
            names.into_iter().map(|name| (name, json!({"selector": "a", "type": "text"}))).collect();
        one(json!({"name": "a", "selector": "li", "type": "list", "extract": subs}))
    };
    let refused = [
        (json!({}), "extractions"),
        (json!({"extractions": {}}), "extractions"),
        (json!({"extractions": []}), "extractions"),
        (json!({"extractions": many(101)}), "extractions"),
        (json!({"extractions": [text("a"), text("a")]}), "extractions.1.name"),
        (one(json!({"selector": "h1", "type": "text"})), "extractions.0.name"),
        (one(json!({"name": "", "selector": "h1", "type": "text"})), "extractions.0.name"),
        (one(json!({"name": "a".repeat(257), "selector": "h1", "type": "text"})), "extractions.0.name"),
        (one(json!({"name": "a", "type": "text"})), "extractions.0.selector"),
        (one(json!({"name": "a", "selector": "", "type": "text"})), "extractions.0.selector"),
        (one(json!({"name": "a", "selector": "h1"})), "extractions.0.type"),
        (one(json!({"name": "a", "selector": "h1", "type": "html"})), "extractions.0.type"),
        (one(json!({"name": "a", "selector": "h1", "type": "attribute"})), "extractions.0.attribute"),
        (one(json!({"name": "a", "selector": "h1", "type": "text", "transform": "date"})), "extractions.0.transform"),
        (list(json!({"selector": "a", "type": "list"})), "extractions.0.extract.b.type"),
        (list(json!({"selector": "a", "type": "attribute"})), "extractions.0.extract.b.attribute"),
        (list(json!({"selector": "", "type": "text"})), "extractions.0.extract.b.selector"),
        (one(text(&"n".repeat(121))), "extractions.0.name"),
        (one(json!({"name": "a", "selector": "a".repeat(4_097), "type": "text"})), "extractions.0.selector"),
        (
            list(json!({"selector": "a", "type": "attribute", "attribute": "a".repeat(121)})),
            "extractions.0.extract.b.attribute",
        ),
        (subs((0..33).map(|i| i.to_string()).collect()), "extractions.0.extract"),
        (subs(vec!["n".repeat(121)]), "extractions.0.extract"),
    ];
    assert_rejected(&app, &client, &session, "extract", refused).await;
    let taken = [
        json!({"extractions": many(1)}),
        json!({"extractions": many(100)}),
        one(json!({"name": "a", "selector": "h1", "type": "text", "transform": "number"})),
        one(json!({"name": "a", "selector": "a", "type": "attribute", "attribute": "href"})),
        one(json!({"name": "a", "selector": "li", "type": "list"})),
        list(json!({"selector": "a", "type": "attribute", "attribute": "href"})),
        one(text(&"n".repeat(120))),
        subs((0..32).map(|i| format!("{i:0>120}")).collect()),
    ];
    assert_accepted(&client, &session, "extract", taken).await;
    app.stop().await;
}

/// Contract: operations 25. This precedes any look-up.
#[tokio::test]
async fn search_and_login_without_real_driver_are_503() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let destroyed = client.session().await;
    client.delete(&format!("/v1/sessions/{destroyed}")).await.expect(204);
    let foreign = app.client().await.session().await;
    for id in [&session, &destroyed, &foreign, &unknown_id("ses"), "nonsense"] {
        for route in direct_operations(id) {
            client.call(&route).await.problem(503, "driver-not-integrated");
        }
    }
    assert_eq!(client.status(&session).await, "ready");
    assert_eq!(app.intents(&session).await.len(), 1);
    app.stop().await;
}

/// Contract: operations 1, 26, 27. Bounds are checked before the claim.
#[tokio::test]
async fn search_and_login_with_real_driver_validate_their_input() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let refused = [
        (json!({}), "query"),
        (json!({"query": 1}), "query"),
        (json!({"query": "ü".repeat(10_001)}), "query"),
        (json!({"query": "x", "submit": "yes"}), "submit"),
        (json!({"query": "x", "search_selector": 1}), "search_selector"),
        (json!({"query": "x", "search_selector": "a".repeat(10_001)}), "search_selector"),
        (json!({"query": "x", "timeout_seconds": 0}), "timeout_seconds"),
        (json!({"query": "x", "timeout_seconds": 121}), "timeout_seconds"),
        (json!({"query": "x", "timeout_seconds": -1}), "timeout_seconds"),
        (json!({"query": "x", "timeout_seconds": 1.5}), "timeout_seconds"),
    ];
    assert_rejected(&app, &client, &session, "search", refused).await;
    let login = |more: Value| {
        let mut body = json!({"username": "ada@example.com", "password": "correct horse"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let refused = [
        (json!({"password": "correct horse"}), "username"),
        (json!({"username": "ada@example.com"}), "password"),
        (login(json!({"password": 1})), "password"),
        (login(json!({"success_selector": 1})), "success_selector"),
        (login(json!({"timeout_seconds": 0})), "timeout_seconds"),
        (login(json!({"timeout_seconds": 121})), "timeout_seconds"),
    ];
    assert_rejected(&app, &client, &session, "login", refused).await;

    let search = client.operate(&session, "search", json!({"query": "ü".repeat(10_000)})).await.expect(200);
    assert_eq!(in_order(&search.body), ["submitted", "query_truncated", "duration_ms"]);
    assert_eq!((&search.body["submitted"], &search.body["query_truncated"]), (&json!(true), &json!(false)));
    let body = json!({"query": "x", "wait_for_results_selector": "#results", "timeout_seconds": 120});
    let search = client.operate(&session, "search", body).await.expect(200);
    assert_eq!(in_order(&search.body), ["submitted", "query_truncated", "results_visible", "duration_ms"]);
    assert!(search.body["results_visible"].is_boolean());
    let body = json!({"query": "x", "submit": false, "timeout_seconds": 1});
    assert_eq!(client.operate(&session, "search", body).await.expect(200).body["submitted"], false);
    for more in [json!({}), json!({"timeout_seconds": 1}), json!({"timeout_seconds": 120, "success_selector": "#in"})] {
        let answer = client.operate(&session, "login", login(more)).await.expect(200);
        let names = ["submitted", "credentials_truncated", "logged_in", "post_login_url", "duration_ms"];
        assert_eq!(in_order(&answer.body), names);
        assert_eq!((&answer.body["submitted"], &answer.body["credentials_truncated"]), (&json!(true), &json!(false)));
    }
    app.stop().await;
}

/// Contract: operations 5. It is not returned either, also while the operation is queued for its worker.
#[tokio::test]
async fn typed_text_is_neither_logged_nor_stored_in_clear() {
    use crate::support::Role;
    use nix::sys::signal::Signal;

    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("sessions.direct_driver", "real");
    let mut app = builder.set("log.filter", "trace").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let secrets =
        ["hunter2-typed-clearly", "hunter2-typed-secretly", "hunter2-password", "hunter2-username", "471147114711"];
    let typing = |text: &str, sensitive: bool| json!({"action": {"kind": "type", "selector": "#a", "text": text, "sensitive": sensitive}});
    let requests = [
        ("interact", typing(secrets[0], false)),
        ("interact", typing(secrets[1], true)),
        ("login", json!({"username": secrets[3], "password": secrets[2]})),
    ];
    for (operation, body) in requests {
        // The worker is stopped, so that the test can search the database and the logs while the operation is queued.
        app.signal(1, Signal::SIGSTOP).await;
        let call = tokio::spawn({
            let (client, session) = (client.clone(), session.clone());
            async move { client.operate(&session, operation, body).await }
        });
        app.busy(&session).await;
        let sealed = "select count(*) from intents where status <> 'done' and sealed is not null";
        assert_eq!(app.count(sealed).await, 1, "{operation}");
        assert_not_stored_or_logged(&app, &secrets).await;
        app.signal(1, Signal::SIGCONT).await;
        let answer = call.await.expect("a task").expect(200);
        assert!(!secrets.iter().any(|secret| answer.body.to_string().contains(secret)), "{}", answer.body);
    }
    let refused = client.operate(&session, "interact", typing(&secrets[0].repeat(1_000), true)).await;
    assert!(!refused.invalid("action.text").body.to_string().contains(secrets[0]));
    let number = json!({"action": {"kind": "type", "selector": "#a", "text": 471_147_114_711_u64}});
    client.operate(&session, "interact", number).await.expect(400);

    assert_eq!(app.count("select count(*) from intents where sealed is not null").await, 0);
    assert_not_stored_or_logged(&app, &secrets).await;
    // These assertions show that the log is not empty and that the search finds text which is stored.
    assert!(app.log(0).contains(&session) && app.log(1).contains(&session));
    assert!(app.tables_with("#a").await.contains(&"public.intents".to_owned()));
    app.stop().await;
}

async fn assert_not_stored_or_logged(app: &App, secrets: &[&str]) {
    for secret in secrets {
        assert_eq!(app.tables_with(secret).await, Vec::<String>::new(), "{secret} is in the database");
        for process in [0, 1] {
            assert!(!app.log(process).contains(secret), "{secret} is in the log of process {process}");
        }
    }
}

/// Each body is rejected on the given field, and the session is not claimed.
async fn assert_rejected<const N: usize>(
    app: &App,
    client: &Client,
    session: &str,
    operation: &str,
    bodies: [(Value, &str); N],
) {
    let before = app.intents(session).await;
    let mut wrong = Vec::new();
    for (body, field) in bodies {
        let answer = client.operate(session, operation, body.clone()).await;
        let named = answer.body["errors"].as_array().is_some_and(|errors| errors.iter().any(|e| e["field"] == field));
        if answer.status != 400 || !named {
            let body: String = body.to_string().chars().take(120).collect();
            wrong.push(format!("{operation} {body}: expected 400 on {field}, got {} {}", answer.status, answer.body));
        } else {
            answer.invalid(field);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(app.intents(session).await, before, "a refused {operation} claimed the session");
    assert_eq!(client.status(session).await, "ready");
}

async fn assert_accepted<const N: usize>(client: &Client, session: &str, operation: &str, bodies: [Value; N]) {
    for body in bodies {
        let route = Route {
            method: reqwest::Method::POST,
            path: format!("/v1/sessions/{session}/{operation}"),
            body: Some(body),
        };
        let answer = client.call(&route).await;
        assert_eq!(answer.status, 200, "{route:?}: {}", answer.body);
    }
}
