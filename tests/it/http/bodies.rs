//! Contract: requests.

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::routes::{Route, session_routes};
use crate::support::{App, Client, at_once, members, raw, unknown_id};
use crate::webhooks;

/// Contract: requests 5. A body with a `Content-Length` is rejected before it is read.
#[tokio::test]
async fn oversized_body_is_413() {
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
    // The service may read the rest or close the connection, but must not keep the body in memory.
    drop((sent, reader, writer));
    let grown = app.peak_memory_kib(0) - before;
    assert!(grown < 50 * 1024, "a body of 100 MB took {grown} KiB");
    client.post("/v1/sessions", json!({})).await.expect(201);
    app.stop().await;
}

/// Contract: requests 5. This holds on every route below `/v1/auth/`.
#[tokio::test]
async fn auth_body_over_16_kib_is_413() {
    const LIMIT: usize = 16 * 1024;
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let padded = |length: usize| format!(r#"{{"padding":"{}"}}"#, "x".repeat(length - r#"{"padding":""}"#.len()));
    let contract = app.stranger().get("/openapi.json").await.expect(200).body;
    let paths = contract["paths"].as_object().expect("paths").iter();
    let routes: Vec<_> = paths
        .filter(|(path, item)| path.starts_with("/v1/auth/") && item["post"]["requestBody"].is_object())
        .map(|(path, _)| path.replace("{user_code}", "0000-0000").replace("{provider}", "unknown"))
        .collect();
    assert!(routes.len() > 10, "{routes:?}");
    for path in &routes {
        let rejected = ada.client.post_raw(path, padded(LIMIT + 1)).await.problem(413, "payload-too-large");
        assert_eq!(rejected.body["limit_bytes"], LIMIT, "{path}");
        assert_ne!(ada.client.post_raw(path, padded(LIMIT)).await.status, 413, "{path}");
    }
    ada.client.post_raw("/v1/status/subscribers", padded(LIMIT + 1)).await.invalid("email");
    app.stop().await;
}

/// Contract: requests 3, 4. The body has no effect.
#[tokio::test]
async fn malformed_json_is_400() {
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

/// Contract: requests 3, 4. The JSON parses.
#[tokio::test]
async fn values_the_database_cannot_store_are_400() {
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

    // A duplicate `url` is ambiguous. The service rejects it.
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
        // A URL may be normalised and a text stored as it is, but no request may fail with a 5xx.
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

/// Contract: requests 6; audit-log 7. Repeated unknown parameters are ignored.
#[tokio::test]
async fn repeated_query_parameter_is_400() {
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

/// Contract: requests 7. The service keeps running.
#[tokio::test]
async fn oversized_headers_are_rejected() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let long = "x".repeat(200 * 1024);
    let many = "X-Header: x\r\n".repeat(2_000);
    let requests = [
        format!("GET /v1/archetypes HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\nConnection: close\r\n\r\n"),
        format!("GET /v1/archetypes?{long} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        // Just above the maximum length of a URL.
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
            // The service closes the connection or answers with a problem.
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

/// Contract: requests 8.
#[tokio::test]
async fn unknown_fields_are_listed_and_ignored() {
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

/// Contract: requests 8. Every authenticated write with unknown fields has the header, whatever its status.
#[tokio::test]
async fn unknown_fields_are_listed_on_every_write() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let create = Route { method: Method::POST, path: "/v1/sessions".to_owned(), body: Some(json!({})) };
    let writes = session_routes(&session).into_iter().filter(|route| route.body.is_some());
    for route in writes.chain([create]) {
        let path = &route.path;
        let answer = client.call(&route).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        assert!(
            !answer.headers.contains_key(UNKNOWN),
            "{path} reports a declared field as unknown: {:?}",
            answer.headers[UNKNOWN]
        );
        let mut more = route.clone();
        more.body.as_mut().expect("a body")["surprise"] = true.into();
        let answer = client.call(&more).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        assert_eq!(answer.headers[UNKNOWN], "surprise", "{path}");
    }
    // All declared fields of each operation, with unknown nested ones.
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

/// Contract: requests 18. Values take far more memory than their text, so they are not allocated.
#[tokio::test]
async fn body_with_too_many_values_is_rejected_early() {
    const OPEN: &str = "/v1/status/subscribers";
    let app = App::simulated().in_processes().start().await;
    let (client, stranger) = (app.client().await, Client::new(&app.base_url, None));
    let body = |field: &str, value: &str| {
        let values = vec![value; 1_000_000 / (value.len() + 1)].join(",");
        format!("{{\"{field}\":[{values}]}}")
    };
    let before = app.peak_memory_kib(0);
    for value in ["[]", "{}", "{\"a\":{}}", "null", "0"] {
        let bodies = ["email", "unknown"].map(|field| body(field, value));
        for body in &bodies {
            stranger.post_raw(OPEN, body.clone()).await.invalid("body");
            client.post_raw("/v1/sessions", body.clone()).await.invalid("body");
        }
        let flood = (0..20).map(|_| {
            let (stranger, body) = (stranger.clone(), bodies[0].clone());
            async move { stranger.post_raw(OPEN, body).await }
        });
        let flood = at_once(flood).await;
        for answer in flood {
            answer.invalid("body");
        }
    }
    let form = format!("grant_type=client_credentials{}", "&a=".repeat(300_000));
    let form = stranger.request(Method::POST, "/v1/oauth/token").body(form);
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(form.send().await.expect("an answer").status(), 400);
    let grown = app.peak_memory_kib(0) - before;
    assert!(grown < 100 * 1024, "bodies of a megabyte took {grown} KiB");

    let excessive = format!("{{\"email\":[{}]}}", vec!["0"; 1_001].join(","));
    for path in ["/v1/auth/login", "/v1/auth/refresh", "/v1/auth/cli-authorize/initiate"] {
        stranger.post_raw(path, excessive.clone()).await.invalid("body");
    }

    let few = format!("{{\"email\":\"a@b.example\",\"password\":\"x\",\"unknown\":[{}]}}", vec!["0"; 990].join(","));
    stranger.post_raw("/v1/auth/login", few).await.problem(401, "unauthorized");
    let many = format!("{{\"unknown\":[{}]}}", vec!["0"; 49_000].join(","));
    client.post_raw("/v1/sessions", many).await.expect(201);
    app.stop().await;
}
