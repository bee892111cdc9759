//! What holds on every route: problem documents, hostile bodies, headers, slow clients, and the routes of the service itself
//! (contract: requests; errors; versioning; operators).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::app::free_port;
use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::routes::{Route, session_routes};
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually, members, raw, unknown_id};
use crate::webhooks;

/// Contract: errors 1; requests 9. Every refusal is a problem document, with the request's path and id.
#[tokio::test]
async fn what_is_refused_is_a_problem_document() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for path in ["/v1", "/v1/nothing", "/v2/sessions", "/v1/sessions/x/y/z", "/v1/sessions/", "/errors/nothing", "/%ff"]
    {
        let answer = client.get(path).await.problem(404, "not-found");
        assert_eq!(answer.body["instance"], path);
    }
    let wrong = [
        (Method::PUT, "/v1/sessions".to_owned()),
        (Method::DELETE, "/v1/sessions".to_owned()),
        (Method::POST, format!("/v1/sessions/{session}")),
        (Method::GET, format!("/v1/sessions/{session}/navigate")),
        (Method::POST, format!("/v1/sessions/{session}/state")),
        (Method::POST, "/v1/archetypes".to_owned()),
        (Method::POST, "/healthz".to_owned()),
        (Method::from_bytes(b"BREW").expect("a method"), "/v1/sessions".to_owned()),
    ];
    for (method, path) in wrong {
        let answer = client.send(client.request(method, &path)).await.problem(405, "method-not-allowed");
        assert!(answer.headers.contains_key("allow"), "RFC 9110, section 15.5.6: {path}");
    }
    for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")]
    {
        let mut request = client.request(Method::POST, "/v1/sessions").body("{}");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        client.send(request).await.problem(415, "unsupported-media-type");
    }
    for content_type in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"] {
        let request = client.request(Method::POST, &format!("/v1/sessions/{session}/navigate"));
        let request = request.header("content-type", content_type).body(r#"{"url":"https://example.com/"}"#);
        client.send(request).await.expect(200);
    }
    assert_eq!(app.count("select count(*) from sessions").await, 1);
    app.stop().await;
}

/// Contract: requests 5. A body that is too large is a 413, told before it was read when its length is announced, and without
/// its being kept when it is not.
#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    const LIMIT: usize = 1024 * 1024;
    let app = App::simulated().in_processes().start().await;
    let client = app.client().await;
    let padded = |length: usize| {
        let frame = r#"{"padding":{"x":""}}"#.len();
        format!(r#"{{"padding":{{"x":"{}"}}}}"#, "x".repeat(length - frame))
    };
    client.post_raw("/v1/sessions", padded(LIMIT)).await.expect(201);
    client.post_raw("/v1/sessions", padded(LIMIT + 1)).await.problem(413, "payload-too-large");

    let before = app.peak_memory_kib(0);
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n",
        client.key.clone().expect("a key")
    );
    let head = format!("{head}Content-Type: application/json\r\n");
    let announced = format!("{head}Content-Length: {}\r\n\r\n{{", 100 * LIMIT);
    let answer = raw::exchange(&app.base_url, announced.as_bytes()).await;
    assert_eq!(raw::status(&answer), Some(413), "{answer}");

    let (mut reader, mut writer) = raw::connect(&app.base_url).await;
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    let upload = async {
        writer.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await?;
        for _ in 0..1_600 {
            writer.write_all(&chunk).await?;
        }
        std::io::Result::Ok(())
    };
    let (sent, answer) = tokio::join!(upload, raw::answer(&mut reader, Duration::from_secs(10)));
    assert_eq!(raw::status(&answer), Some(413), "{answer}");
    // Whether it reads the rest to be polite or hangs up is its own affair, if only it does not keep it.
    drop((sent, reader, writer));
    let grown = app.peak_memory_kib(0) - before;
    assert!(grown < 50 * 1024, "a body of 100 MB took {grown} KiB");
    client.post("/v1/sessions", json!({})).await.expect(201);
    app.stop().await;
}

/// Contract: requests 3, 4. Whatever a body holds, the answer is a 4xx problem and never a 500; nothing is made of it.
#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"not json".to_vec(),
        b"{".to_vec(),
        br#"{"url":"https://example.com/"#.to_vec(),
        br#"{"url":"https://example.com/"} trailing"#.to_vec(),
        br"{'url':'https://example.com/'}".to_vec(),
        br#"{"url":"https://example.com/",}"#.to_vec(),
        b"[]".to_vec(),
        br#"["https://example.com/"]"#.to_vec(),
        br#"[{"url":"https://example.com/"}]"#.to_vec(),
        b"null".to_vec(),
        b"\"text\"".to_vec(),
        b"17".to_vec(),
        b"NaN".to_vec(),
        b"{\"url\":\"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf{\"label\":1}".to_vec(),
        b"\0".to_vec(),
        b"{\"label\":\"a\0b\"}".to_vec(),
        br#"{"url":"\ud800","label":"\ud800"}"#.to_vec(),
        br#"{"url":"https://example.com/","metadata":{"x":"\udc00"},"label":"\udc00"}"#.to_vec(),
        br#"{"url":"https://example.com/","timeout_ms":1e400,"label":1e400}"#.to_vec(),
        deep("[", "]").into_bytes(),
        deep(r#"{"metadata":"#, "}").into_bytes(),
        format!(r#"{{"url":"https://example.com/","metadata":{}}}"#, deep("[", "]")).into_bytes(),
        format!(r#"{{"url":"https://example.com/","unknown":{}}}"#, deep("[", "]")).into_bytes(),
        "[".repeat(500_000).into_bytes(),
    ];
    let navigate = format!("/v1/sessions/{session}/navigate");
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        for path in ["/v1/sessions", &navigate] {
            // Without a body a create has its defaults.
            if path == "/v1/sessions" && body.is_empty() {
                continue;
            }
            let answer = client.post_raw(path, body.clone()).await;
            assert!(answer.status == 400, "{path} {shown}: {} {}", answer.status, answer.body);
            assert_eq!(answer.headers["content-type"], "application/problem+json", "{path} {shown}");
            assert!(answer.body["type"].is_string());
        }
    }
    assert_eq!(app.count("select count(*) from sessions").await, 1);
    assert_eq!(app.intents(&session).await.len(), 1);
    client.navigate(&session, "https://example.com/").await;
    app.stop().await;
}

/// Contract: requests 3, 4. JSON that parses and that a database may not like.
#[tokio::test]
async fn values_that_cannot_be_kept_are_refused() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let nested = |depth: usize| format!(r#"{{"metadata":{{"x":{}{}}}}}"#, "[".repeat(depth), "]".repeat(depth));
    let refused = [
        r#"{"label":"a\u0000b"}"#.to_owned(),
        r#"{"metadata":{"x":"a\u0000b"}}"#.to_owned(),
        r#"{"metadata":{"a\u0000b":1}}"#.to_owned(),
        r#"{"metadata":{"x":1e400}}"#.to_owned(),
        r#"{"metadata":{"x":-1e400}}"#.to_owned(),
        nested(130),
    ];
    for body in refused {
        let answer = client.post_raw("/v1/sessions", body.clone()).await.expect(400);
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{body}");
    }
    assert_eq!(app.count("select count(*) from sessions").await, 1);
    for body in [nested(100), r#"{"metadata":{"x":1.7e308,"y":123456789012345678}}"#.to_owned()] {
        let sent: Value = serde_json::from_str(&body).expect("JSON");
        let created = client.post_raw("/v1/sessions", body).await.expect(201);
        assert_eq!(created.body["metadata"], sent["metadata"]);
    }

    // What a second `url` means is anybody's guess; to refuse it is right, to take one of both is bearable.
    let navigate = format!("/v1/sessions/{session}/navigate");
    let twice = r#"{"url":"https://example.com/","url":"file:///etc/passwd"}"#;
    client.post_raw(&navigate, twice).await.expect(400);
    let nul = [
        ("navigate", json!({"url": "https://example.com/\0"})),
        ("interact", json!({"action": {"kind": "tap", "selector": "#a\0"}})),
        ("interact", json!({"action": {"kind": "type", "selector": "#a", "text": "a\0b"}})),
        ("interact", json!({"action": {"kind": "press", "key": "\0"}})),
        ("wait", json!({"condition": {"kind": "url_matches", "pattern": "\0"}})),
        ("wait", json!({"condition": {"kind": "selector", "selector": "\0"}})),
        ("interact", json!({"action": {"kind": "tap", "target": {"text": "a\0"}}})),
        ("interact", json!({"action": {"kind": "select", "selector": "a", "option": "\0"}})),
        ("extract", json!({"extractions": [{"name": "\0", "selector": "h1", "type": "text"}]})),
    ];
    for (operation, body) in nul {
        let answer = client.operate(&session, operation, body.clone()).await;
        // A URL may be normalised, and a text sealed as it is; but nothing may fail.
        assert!(
            answer.status.is_client_error() || answer.status == 200,
            "{operation} {body}: {} {}",
            answer.status,
            answer.body
        );
    }
    for query in [
        "label=%00",
        "status=%00",
        "cursor=%00",
        "limit=%00",
        "label=%ff",
        "limit=1&limit=2",
        "%00=1",
        "label=a&label=b",
    ] {
        let answer = client.get(&format!("/v1/sessions?{query}")).await;
        assert!(answer.status.is_client_error() || answer.status == 200, "{query}: {} {}", answer.status, answer.body);
    }
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: requests 6; audit-log 7. A query that names a parameter of the route twice is refused and not guessed at, whatever
/// the two say; what the route does not know does not matter.
#[tokio::test]
async fn a_parameter_is_given_once() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let endpoint = webhooks::create(&ada.client, "https://example.com/hook", &["session.completed"]).await;
    let deliveries = format!("/v1/webhooks/{}/deliveries", webhooks::id_of(&endpoint));
    for (path, parameters) in [
        ("/v1/sessions", &["limit=1", "cursor=x", "status=ready", "label=x"][..]),
        ("/v1/api-keys", &["limit=1", "cursor=x"]),
        (&deliveries, &["limit=1", "cursor=x", "status=dlq"]),
        ("/v1/account/audit-log", &["limit=1", "cursor=x", "action=account.login"]),
        ("/v1/account/audit-log/export", &["format=csv"]),
        ("/v1/account/notifications", &["limit=1", "cursor=x"]),
        ("/v1/account/notifications/stream", &["last_event_id=1"]),
        ("/v1/usage/series", &["days=1"]),
    ] {
        for parameter in parameters {
            let (name, _) = parameter.split_once('=').expect("a value");
            for again in [*parameter, name, format!("{name}=y").as_str()] {
                ada.client.get(&format!("{path}?{parameter}&{again}")).await.invalid(name);
            }
        }
    }
    ada.client.delete("/v1/account/web-sessions?keep=current&keep=all").await.invalid("keep");
    ada.client.get("/v1/sessions?utm=a&utm=b&limit=1").await.expect(200);
    app.stop().await;
}

/// Contract: requests 7. Headers and addresses without measure are refused, and the service goes on.
#[tokio::test]
async fn headers_without_measure_are_refused() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let long = "x".repeat(200 * 1024);
    let many = "X-Header: x\r\n".repeat(2_000);
    let requests = [
        format!("GET /v1/archetypes HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/archetypes?{long} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        // Just longer than an address may be.
        format!("GET /v1/archetypes?{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", &long[..65_520]),
        format!("GET /v1/archetypes HTTP/1.1\r\nHost: x\r\n{many}Connection: close\r\n\r\n"),
        "GET /v1/archetypes HTTP/9.9\r\nHost: x\r\n\r\n".to_owned(),
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET /v1/archetypes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".to_owned(),
    ];
    for request in requests {
        let answer = raw::exchange(&app.base_url, request.as_bytes()).await;
        let shown: String = request.chars().take(60).collect();
        match raw::status(&answer) {
            // Hung up on, or told; nothing else.
            None => assert!(answer.is_empty(), "{shown}: {answer}"),
            Some(status) => {
                assert!((400..500).contains(&status), "{shown}: {answer}");
                let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
                let lengths: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("content-length: ")).collect();
                assert_eq!(lengths, [body.len().to_string()], "{shown}: {head}");
                let problem: Value = serde_json::from_str(body).expect("a problem document");
                assert_eq!((&problem["title"], &problem["status"]), (&json!("BadRequest"), &json!(status)));
                assert_eq!(problem["type"], format!("{}/errors/bad-request", app.base_url));
                let path = if request.starts_with("GET") { "/v1/archetypes" } else { "" };
                assert_eq!(problem["instance"], path, "{shown}");
            }
        }
    }
    client.get("/v1/archetypes").await.expect(200);
    app.stop().await;
}

/// Contract: requests 9. Every answer carries `X-Request-Id`. One that the caller gave is kept when it is fit to be logged,
/// else replaced.
#[tokio::test]
async fn every_answer_has_a_request_id() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let mut seen = BTreeSet::new();
    let mut routes = session_routes(&unknown_id("ses"));
    for path in [
        "/v1/sessions",
        "/v1/archetypes",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/errors/conflict",
        "/x",
    ] {
        routes.push(Route { method: Method::GET, path: path.to_owned(), body: None });
    }
    for route in &routes {
        for client in [&client, &app.stranger()] {
            let answer = client.call(route).await;
            let id = answer.headers["x-request-id"].to_str().expect("text").to_owned();
            assert!(!id.is_empty());
            assert!(seen.insert(id), "an id was given twice");
        }
    }
    let with_id = async |id: &[u8]| {
        let value = reqwest::header::HeaderValue::from_bytes(id).expect("a value that can be sent");
        let request = client.request(Method::POST, &format!("/v1/sessions/{session}/navigate"));
        let answer = client.send(request.header("x-request-id", value).json(&json!({"url": "file:///"}))).await;
        let answered = answer.headers["x-request-id"].to_str().expect("text").to_owned();
        assert_eq!(answer.body["request_id"], answered);
        answered
    };
    for good in ["abc-123", "0199f6a0-0000-7000-8000-000000000000", "A_b.C"] {
        assert_eq!(with_id(good.as_bytes()).await, good);
    }
    let long = "x".repeat(5_000);
    for bad in [b"two words".as_slice(), b"", b"<script>", b"a\"b", "ü".as_bytes(), b"\xff", long.as_bytes()] {
        let answered = with_id(bad).await;
        assert_ne!(answered.as_bytes(), bad);
        assert!(!answered.is_empty() && answered.len() < 200);
    }
    app.stop().await;
}

/// Contract: requests 8. Unknown top-level fields are named in a header, in body order, at most ten, cut to 64 characters and
/// then percent-encoded, and change nothing else.
#[tokio::test]
async fn unknown_fields_are_named_and_ignored() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let navigate = format!("/v1/sessions/{session}/navigate");
    let plain = client.post_raw(&navigate, r#"{"url":"https://example.com/"}"#).await.expect(200);
    assert!(!plain.headers.contains_key(UNKNOWN));

    let body = r#"{"zeta":1,"url":"https://example.com/","alpha":{"inner":1},"URL":"x","wait_until":"load","1":null}"#;
    let answer = client.post_raw(&navigate, body).await.expect(200);
    assert_eq!(answer.headers[UNKNOWN], "zeta,alpha,URL,1");
    assert_eq!(members(&answer.body), members(&plain.body));

    let eleven: Vec<_> = (0..11).map(|i| format!(r#""f{i}":0"#)).collect();
    let eleven = eleven.join(",");
    let answer = client.post_raw(&navigate, format!(r#"{{{eleven},"url":"https://example.com/"}}"#)).await.expect(200);
    assert_eq!(answer.headers[UNKNOWN], "f0,f1,f2,f3,f4,f5,f6,f7,f8,f9");

    let (long, wide) = ("x".repeat(65), "ü".repeat(70));
    let strange = json!({"url": "https://example.com/", long: 1, wide: 1, "a,b": 1, "a b": 1, "a\r\nX-Evil: 1": 1, "50%": 1, "a-b_c.d~e": 1});
    let answer = client.post(&navigate, strange).await.expect(200);
    let named: Vec<_> = answer.headers[UNKNOWN].to_str().expect("ASCII").split(',').collect();
    assert_eq!(named[0], "x".repeat(64));
    assert_eq!(named[1], "%C3%BC".repeat(64));
    assert_eq!(named[2], "a%2Cb");
    assert_eq!(named[3], "a%20b");
    assert!(named[4].starts_with("a%0D%0AX-Evil"), "{}", named[4]);
    assert_eq!(named[5], "50%25");
    assert_eq!(named[6], "a-b_c.d~e");
    assert!(!answer.headers.contains_key("x-evil"));
    app.stop().await;
}

const UNKNOWN: &str = "x-service-unknown-fields";

/// Contract: requests 8. The header is on every authenticated write that carries such fields, however it ends, and nowhere
/// else; nested names are not told, and declared ones neither.
#[tokio::test]
async fn unknown_fields_are_named_on_every_write() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let writes = session_routes(&session).into_iter().filter_map(|route| Some((route.path, route.body?)));
    let writes = writes.chain([("/v1/sessions".to_owned(), json!({}))]);
    for (path, body) in writes {
        let answer = client.post(&path, body.clone()).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        assert!(
            !answer.headers.contains_key(UNKNOWN),
            "{path} does not know its own fields: {:?}",
            answer.headers[UNKNOWN]
        );
        let mut more = body;
        more["surprise"] = true.into();
        let answer = client.post(&path, more).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        assert_eq!(answer.headers[UNKNOWN], "surprise", "{path}");
    }
    // Every declared field of each, and nested strangers.
    let declared = [
        ("navigate", json!({"url": "https://example.com/", "wait_until": "load", "timeout_ms": 1000})),
        (
            "interact",
            json!({"action": {"kind": "tap", "selector": "#a", "odd": 1}, "timeout_ms": 1000, "on_timeout": "return"}),
        ),
        ("wait", json!({"condition": {"kind": "time", "ms": 1, "odd": 1}, "timeout_ms": 1000, "on_timeout": "fail"})),
        ("capture", json!({"kind": "dom_snapshot", "full_page": false})),
        ("extract", json!({"extractions": [{"name": "a", "selector": "a", "type": "text", "odd": 1}]})),
        (
            "search",
            json!({"query": "x", "search_selector": "#q", "submit": true, "wait_for_results_selector": "#r", "timeout_seconds": 5}),
        ),
        (
            "login",
            json!({"username": "u", "password": "p", "success_selector": "#s", "username_selector": "#u",
            "password_selector": "#p", "submit_selector": "#b", "timeout_seconds": 5}),
        ),
    ];
    for (operation, body) in declared {
        let answer = client.operate(&session, operation, body).await.expect(200);
        assert!(!answer.headers.contains_key(UNKNOWN), "{operation}: {:?}", answer.headers[UNKNOWN]);
    }
    let create = json!({"archetype": "iphone-16-ios-18", "purpose": "production_customer", "label": "x", "metadata": {"odd": 1},
        "behavioral_profile": "casual"});
    assert!(!client.post("/v1/sessions", create).await.expect(201).headers.contains_key(UNKNOWN));

    let odd = json!({"url": "https://example.com/", "odd": 1});
    let wrong = json!({"url": "file:///", "odd": 1});
    assert_eq!(client.operate(&session, "navigate", wrong).await.invalid("url").headers[UNKNOWN], "odd");
    let missing = client.operate(&unknown_id("ses"), "navigate", odd.clone()).await.problem(404, "not-found");
    assert_eq!(missing.headers[UNKNOWN], "odd");
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    let busy = client.operate(&session, "navigate", odd.clone()).await.problem(409, "conflict");
    assert_eq!(busy.headers[UNKNOWN], "odd");
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    wait.await.expect("a task").expect(410);
    let gone = client.operate(&session, "navigate", odd).await.problem(410, "session-destroyed");
    assert_eq!(gone.headers[UNKNOWN], "odd");
    app.stop().await;
}

/// Contract: requests 12. A client that is slow, or drips, is cut off in time.
#[tokio::test]
async fn slow_clients_are_cut_off() {
    let app = App::simulated().set("server.header_timeout", "1s").set("server.body_timeout", "1s").start().await;
    let client = app.client().await;
    let key = client.key.clone().expect("a key");
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    // What is large may take longer, but not for being promised only.
    let import = head.replace("/v1/sessions", "/v1/profiles/import");
    let starts = [
        format!("{import}Content-Length: 1000000\r\n\r\n{{"),
        String::new(),
        "GET /v1/archetypes HTTP/1.1\r\nHost: x\r\n".to_owned(),
        format!("{head}Content-Length: 1000\r\n\r\n{{\"label\":"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"),
    ];
    for start in &starts {
        for drips in [false, true] {
            let started = Instant::now();
            let answer = slowly(&app, start, drips).await;
            let elapsed = started.elapsed();
            assert!(elapsed < Duration::from_secs(6), "{start:?} (drips: {drips}) held a connection for {elapsed:?}");
            if let Some(status) = raw::status(&answer) {
                assert!((400..500).contains(&status), "{answer}");
                assert!(!start.contains("/import ") || status == 408, "{answer}");
            }
        }
    }
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    client.session().await;
    app.stop().await;
}

/// Starts a request and never ends it: in silence, or with a byte now and then.
async fn slowly(app: &App, start: &str, drips: bool) -> String {
    let (mut reader, mut writer) = raw::connect(&app.base_url).await;
    writer.write_all(start.as_bytes()).await.expect("the service listens");
    let drip = tokio::spawn(async move {
        let mut clock = tokio::time::interval(Duration::from_millis(100));
        loop {
            clock.tick().await;
            if drips && writer.write_all(b"x").await.is_err() {
                return;
            }
        }
    });
    let answer = read_to_end(&mut reader).await;
    drip.abort();
    answer
}

/// Everything until the service hangs up.
async fn read_to_end(reader: &mut tokio::net::tcp::OwnedReadHalf) -> String {
    use tokio::io::AsyncReadExt;

    let mut bytes = Vec::new();
    let limit = Duration::from_secs(15);
    // A reset is an end, too.
    let _ = tokio::time::timeout(limit, reader.read_to_end(&mut bytes)).await.expect("the service hangs up");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A disk without room fails whatever is written, so that the process is not ready; it lives all the same.
#[tokio::test]
async fn a_full_disk_is_not_ready() {
    run_on_small_disk("http::inside_a_small_disk").await;
}

/// See [`a_full_disk_is_not_ready`], which starts it.
#[tokio::test]
#[ignore = "runs with mounts of its own, where another test starts it"]
async fn inside_a_small_disk() {
    let disk = small_disk(128);
    let app = App::simulated().start().await;
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![1; 123 * 1024 * 1024]).expect("there is room");
    let refused = app.stranger().get("/readyz").await.problem(503, "feature-unavailable");
    assert_eq!(refused.body["detail"], "the disk of data_dir is full");
    app.stranger().get("/healthz").await.expect(200);

    // A mail that has no room is sent when it has.
    let rest = disk.join("rest");
    let mut file = std::fs::File::create(&rest).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    let ada = app.person(Tier::Free).await;
    app.stranger().post("/v1/auth/magic-link/request", json!({"email": ada.email})).await.expect(200);
    let failed = "select count(*) from emails where attempts > 0 and status <> 'done'";
    eventually(Duration::from_secs(20), "an attempt fails", async || (app.count(failed).await == 1).then_some(()))
        .await;
    std::fs::remove_file(filler).expect("the file");
    std::fs::remove_file(rest).expect("the other file");
    app.execute_all("update emails set next_attempt_at = now()").await;
    let sent = "select count(*) from emails where status = 'done'";
    eventually(Duration::from_secs(30), "it is sent", async || (app.count(sent).await == 1).then_some(())).await;
    assert!(app.mail_to(&ada.email, Template::MagicLink).await.text.contains("/magic-link?token="));
    app.stranger().get("/readyz").await.expect(200);
    app.stop().await;
}

/// Contract: operators 1 to 3.
#[tokio::test]
async fn operators_can_ask_how_the_service_is() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    assert_eq!(stranger.get("/healthz").await.expect(200).body, json!({"status": "ok"}));
    stranger.get("/readyz").await.expect(200);
    stranger.get("/metrics").await.problem(503, "feature-unavailable");
    let any = Client::new(&app.base_url, Some("scrape"));
    any.get("/metrics").await.problem(503, "feature-unavailable");
    app.stop().await;
}

/// Contract: operators 3, 4. The token, the content type, the names, and labels that are bounded.
#[tokio::test]
async fn metrics_have_bounded_labels() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    client.get("/v1/nowhere-to-be-found").await.expect(404);
    client.get(&format!("/v1/sessions/{}", unknown_id("ses"))).await.expect(404);
    client.send(client.request(Method::from_bytes(b"BREW").expect("a method"), "/v1/sessions")).await.expect(405);
    app.stranger().get("/v1/sessions").await.expect(401);
    Client::new(&app.base_url, Some("svc_live_garbled")).get("/v1/sessions").await.expect(401);
    app.client_of(account, &["read"]).await.post("/v1/sessions", json!({})).await.expect(403);

    app.stranger().get("/metrics").await.problem(401, "unauthorized");
    client.get("/metrics").await.problem(401, "unauthorized");
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let response = scraper.request(Method::GET, "/metrics").send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.expect("text");

    let samples: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(samples.iter().all(|sample| sample.starts_with("service_")), "{text}");
    for name in [
        "service_http_request_total",
        "service_auth_total",
        "service_account_audit_emit_total",
        "service_email_send_total",
        "service_scheduled_job_chain_pending",
        "service_unhandled_rejection_total",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not registered:\n{text}");
    }
    for secret in [session.as_str(), &account.to_string(), "nowhere-to-be-found", "BREW", "127.0.0.1", "scrape"] {
        assert!(!text.contains(secret), "{secret} is a label:\n{text}");
    }
    let http: Vec<_> = samples.iter().filter_map(|sample| labels(sample, "service_http_request_total")).collect();
    assert!(http.iter().all(|labels| labels.keys().copied().eq(["method", "route", "status_class"])), "{text}");
    let counted =
        |route: &str, class: &str| http.iter().any(|l| l["route"].contains(route) && l["status_class"] == class);
    assert!(counted("/navigate", "2xx") && counted("/v1/sessions", "4xx"), "{text}");
    let outcomes: BTreeSet<_> =
        samples.iter().filter_map(|s| Some(labels(s, "service_auth_total")?["outcome"])).collect();
    assert!(BTreeSet::from(["ok", "unauthorized", "invalid", "forbidden"]).is_subset(&outcomes), "{text}");
    // What has not happened is there, at zero.
    let audited = samples.iter().filter_map(|sample| labels(sample, "service_account_audit_emit_total"));
    let audited: BTreeSet<_> = audited.map(|labels| (labels["prefix"], labels["actor_type"])).collect();
    let customers = ["account", "api_key", "profile", "session", "team", "webhook_delivery", "webhook_endpoint"];
    let systems = ["api_key", "session", "subscription"];
    let expected =
        customers.map(|prefix| (prefix, "customer")).into_iter().chain(systems.map(|prefix| (prefix, "system")));
    let expected = expected.chain([("admin", "staff")]);
    assert_eq!(audited, expected.collect(), "{text}");
    app.stop().await;
}

/// Contract: operators 5. Attempts are counted by outcome, and deliveries by how they ended; each is there at zero before
/// anything happened.
#[tokio::test]
async fn webhook_deliveries_are_counted() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("metrics.scrape_token", "scrape")
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.timeout", "1s")
        .start()
        .await;
    let (client, scraper) = (app.client().await, Client::new(&app.base_url, Some("scrape")));
    let counted = async || {
        let answer = scraper.request(Method::GET, "/metrics").send().await.expect("an answer");
        let text = answer.text().await.expect("text");
        let samples = text.lines().filter_map(|line| line.strip_prefix("service_webhook_delivery_"));
        samples.map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    let expected = |counts: [u64; 6]| {
        let [success, http_error, timeout, transport_error, delivered, dlq] = counts;
        let attempts = [
            ("success", success),
            ("http_error", http_error),
            ("timeout", timeout),
            ("transport_error", transport_error),
        ];
        let attempts = attempts.map(|(outcome, count)| format!("attempt_total{{outcome=\"{outcome}\"}} {count}"));
        let ends = [("delivered", delivered), ("dlq", dlq)];
        let ends = ends.map(|(state, count)| format!("terminal_total{{terminal_state=\"{state}\"}} {count}"));
        attempts.into_iter().chain(ends).collect::<BTreeSet<_>>()
    };
    assert_eq!(counted().await, expected([0; 6]));
    for url in [&sink.url("/ok"), &sink.url("/status/500"), &sink.url("/hang"), "https://localhost:1/"] {
        let endpoint = webhooks::create(&client, url, &["session.failed"]).await;
        webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;
    }
    let all = expected([1, 1, 1, 1, 1, 3]);
    eventually(Duration::from_secs(10), "all of them are counted", async || (counted().await == all).then_some(()))
        .await;
    app.stop().await;
}

/// Contract: operators 6. What a worker without an API counts it tells itself, where `worker.listen` says, and to nobody
/// without the token.
#[tokio::test]
async fn a_worker_tells_what_it_counts() {
    let (sink, address) = (Sink::start().await, format!("127.0.0.1:{}", free_port()));
    let app = App::simulated()
        .roles(&[Role::Api, Role::Worker])
        .delivering_to(&sink)
        .set("metrics.scrape_token", "scrape")
        .set("worker.listen", &address)
        .start()
        .await;
    let client = app.client().await;
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;

    let base_url = format!("http://{address}");
    let (scraper, stranger) = (Client::new(&base_url, Some("scrape")), Client::new(&base_url, None));
    eventually(Duration::from_secs(10), "the delivery is counted", async || {
        let text = scraper.request(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        let counted = "service_webhook_delivery_terminal_total{terminal_state=\"delivered\"} 1";
        text.lines().any(|line| line == counted).then_some(())
    })
    .await;
    stranger.get("/metrics").await.problem(401, "unauthorized");
    assert_eq!(stranger.get("/healthz").await.expect(200).body["status"], "ok");
    assert_eq!(stranger.get("/readyz").await.expect(200).body["status"], "ok");
    client.get("/v1/sessions").await.expect(200);
    stranger.get("/v1/sessions").await.problem(404, "not-found");
    app.stop().await;
}

/// The labels of a sample of this metric.
fn labels<'a>(sample: &'a str, name: &str) -> Option<BTreeMap<&'a str, &'a str>> {
    let labels = sample.strip_prefix(name)?.strip_prefix('{')?.rsplit_once('}')?.0;
    Some(labels.split(',').filter_map(|label| label.split_once('=')).map(|(k, v)| (k, v.trim_matches('"'))).collect())
}

/// Contract: versioning 1; authorization 1. `/openapi.json` is the contract. It has every route of this release, equals what
/// the binary prints, and no route under `/v1` that needs a key answers without one.
#[tokio::test]
async fn the_contract_covers_every_route() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let contract = stranger.get("/openapi.json").await.expect(200).body;
    let printed = app.run(&["openapi"]).await.code(0);
    assert_eq!(contract, printed.json());
    assert!(contract["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));

    let mut routes = BTreeSet::new();
    for (path, methods) in contract["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            routes.insert((method.to_uppercase(), path.clone()));
            assert!(operation["responses"].as_object().is_some_and(|answers| !answers.is_empty()), "{method} {path}");
        }
    }
    let session = ["navigate", "interact", "wait", "capture", "extract", "snapshot", "search", "login"];
    let mut expected: Vec<_> = session.map(|o| ("POST".to_owned(), format!("/v1/sessions/{{id}}/{o}"))).to_vec();
    for (method, path) in [
        ("POST", "/v1/sessions"),
        ("GET", "/v1/sessions"),
        ("GET", "/v1/sessions/{id}"),
        ("DELETE", "/v1/sessions/{id}"),
        ("GET", "/v1/sessions/{id}/state"),
        ("GET", "/v1/archetypes"),
    ] {
        expected.push((method.to_owned(), path.to_owned()));
    }
    for route in &expected {
        assert!(routes.contains(route), "{route:?} is not in the contract");
    }
    for (method, path) in routes.iter().filter(|route| route.1.starts_with("/v1/")) {
        let security = &contract["paths"][path][method.to_lowercase()]["security"];
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let path = path.replace("{id}", &unknown_id("ses"));
        let answer = stranger.send(stranger.request(method, &path)).await;
        // A route that says that it is public is, and no other.
        if security.as_array().is_some_and(Vec::is_empty) {
            assert_ne!(answer.body["title"], "Unauthorized", "{path}: {}", answer.body);
        } else {
            answer.problem(401, "unauthorized");
        }
    }
    app.stop().await;
}

/// Contract: versioning 1; errors 2. The rendering is served by the service alone; each error has a page.
#[tokio::test]
async fn pages_for_people_need_no_other_host() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let docs = page(&app, "/docs").await;
    let mut whole = docs.clone();
    for reference in references(&docs) {
        let own = !reference.contains("://") && !reference.starts_with("//");
        assert!(own || reference.starts_with(&app.base_url), "/docs needs {reference}");
        if own && !reference.starts_with(['#', '?']) && !reference.starts_with("data:") {
            let path = if reference.starts_with('/') { reference.clone() } else { format!("/{reference}") };
            let asset = stranger.request(Method::GET, &path).send().await.expect("an answer");
            assert_eq!(asset.status(), 200, "{path}");
            whole.push_str(&String::from_utf8_lossy(&asset.bytes().await.expect("a whole answer")));
        }
    }
    assert!(whole.contains("/openapi.json"), "/docs does not render the contract");
    let slugs = [
        "validation-failed",
        "unauthorized",
        "forbidden",
        "not-found",
        "conflict",
        "profile-in-use",
        "session-destroyed",
        "session-timeout",
        "driver-error",
        "driver-not-integrated",
        "capacity-exhausted",
        "feature-unavailable",
        "mfa-step-up-required",
        "rate-limited",
        "concurrency-limit",
        "bad-request",
        "payload-too-large",
        "unsupported-media-type",
        "internal",
        "method-not-allowed",
    ];
    for slug in slugs {
        let text = page(&app, &format!("/errors/{slug}")).await;
        assert!(text.contains(slug), "/errors/{slug} does not say what it is about");
    }
    app.stop().await;
}

async fn page(app: &App, path: &str) -> String {
    let response = reqwest::get(format!("{}{path}", app.base_url)).await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    let content_type = response.headers()["content-type"].to_str().expect("text").to_owned();
    assert!(content_type.starts_with("text/html"), "{path} is {content_type}");
    response.text().await.expect("text")
}

/// What a page loads or points to.
fn references(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in ["src=", "href=", "action=", "url("] {
        for (_, rest) in html.match_indices(attribute).map(|(at, _)| html.split_at(at + attribute.len())) {
            let rest = rest.trim_start_matches(['"', '\'']);
            let end = rest.find(['"', '\'', ' ', '>', ')']).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
        }
    }
    found
}

/// Contract: requests 10. Behind a trusted proxy, the address it names is the client's; what the client itself wrote before
/// that is not believed.
#[tokio::test]
async fn a_trusted_proxy_names_the_client() {
    let app = App::simulated().set("server.trusted_proxies", "127.0.0.0/8, 192.0.2.0/24").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let cases = [
        (vec!["203.0.113.7"], "203.0.113.7"),
        (vec!["6.6.6.6, 203.0.113.7"], "203.0.113.7"),
        (vec!["6.6.6.6, 203.0.113.7, 192.0.2.1"], "203.0.113.7"),
        (vec!["6.6.6.6", "203.0.113.7"], "203.0.113.7"),
        (vec!["2001:db8::7"], "2001:db8::7"),
        (vec![], "127.0.0.1"),
    ];
    for (headers, expected) in cases {
        let mut request = client.request(Method::POST, "/v1/sessions").json(&json!({}));
        for header in &headers {
            request = request.header("x-forwarded-for", *header);
        }
        client.send(request).await.expect(201);
        let log = app.audit(account).await;
        assert_eq!(log.last().expect("a row").ip_address.as_deref(), Some(expected), "{headers:?}");
    }
    for garbage in ["not an address", "203.0.113.7:abc", ""] {
        let request = client.request(Method::POST, "/v1/sessions").header("x-forwarded-for", garbage).json(&json!({}));
        client.send(request).await.expect(201);
    }
    app.stop().await;
}

/// Contract: errors 2. Where the service is found is the operator's to say.
#[tokio::test]
async fn the_type_of_a_problem_stands_under_the_errors_url() {
    let app = App::simulated().roles(&[Role::Api]).set("server.base_url", "https://kit.example/fleet/").start().await;
    let answer = app.stranger().get("/v1/sessions").await.problem(401, "unauthorized");
    assert_eq!(answer.body["type"], "https://kit.example/fleet/errors/unauthorized");
    app.stop().await;
    let app =
        App::simulated().roles(&[Role::Api]).set("server.errors_url", "https://errors.example/errors").start().await;
    let answer = app.stranger().get("/v1/sessions").await.problem(401, "unauthorized");
    assert_eq!(answer.body["type"], "https://errors.example/errors/unauthorized");
    app.stop().await;
}
