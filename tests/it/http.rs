//! Behaviour of all routes: problem documents, hostile bodies, headers, slow clients, and the operators' routes
//! (contract: requests; errors; versioning; operators).

mod bodies;
mod cors;
mod mistakes;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::routes::{Route, session_routes};
use crate::support::{App, Client, Role, eventually, raw, unknown_id};

/// Contract: errors 1; requests 9. The document has the path and id of the request.
#[tokio::test]
async fn errors_are_problem_documents() {
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

/// Contract: requests 9. An id from the caller is kept if it is safe to log, and replaced otherwise.
#[tokio::test]
async fn every_answer_has_a_unique_request_id() {
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
            assert!(seen.insert(id), "a request id is not unique");
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

/// Contract: requests 12.
#[tokio::test]
async fn slow_clients_are_disconnected() {
    let app = App::simulated().set("server.header_timeout", "1s").set("server.body_timeout", "1s").start().await;
    let client = app.client().await;
    let key = client.key.clone().expect("a key");
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    // A larger body may take longer, but only if its bytes arrive.
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
            let answer = send_slowly(&app, start, drips).await;
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

/// Sends nothing more, or one byte every 100 ms.
async fn send_slowly(app: &App, start: &str, drips: bool) -> String {
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

async fn read_to_end(reader: &mut tokio::net::tcp::OwnedReadHalf) -> String {
    use tokio::io::AsyncReadExt;

    let mut bytes = Vec::new();
    let limit = Duration::from_secs(15);
    // A reset of the connection counts as closed.
    let _ = tokio::time::timeout(limit, reader.read_to_end(&mut bytes)).await.expect("the service hangs up");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Contract: workers 17. The process stays alive. Simulated sessions write nothing and are still placed.
#[tokio::test]
async fn service_on_full_disk_is_not_ready() {
    run_on_small_disk("http::inside_a_small_disk").await;
}

#[tokio::test]
#[ignore = "another test starts it in its own mount namespace"]
async fn inside_a_small_disk() {
    let disk = small_disk(128);
    let app = App::simulated().start().await;
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![1; 123 * 1024 * 1024]).expect("the disk has space");
    let refused = app.stranger().get("/readyz").await.problem(503, "feature-unavailable");
    assert_eq!(refused.body["detail"], "the disk of data_dir is full");
    app.stranger().get("/healthz").await.expect(200);
    let reported = "select count(*) from workers where free_disk_bytes < 6 * 1024 * 1024 and has_room";
    eventually(Duration::from_secs(20), "the worker reports its disk", async || {
        (app.count(reported).await == 1).then_some(())
    })
    .await;
    app.client().await.session().await;

    let rest = disk.join("rest");
    let mut file = std::fs::File::create(&rest).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    let ada = app.person(Tier::Free).await;
    app.stranger().post("/v1/auth/magic-link/request", json!({"email": ada.email})).await.expect(200);
    let failed = "select count(*) from emails where template = 'magic_link' and attempts > 0 and status <> 'done'";
    eventually(Duration::from_secs(20), "an attempt fails", async || (app.count(failed).await == 1).then_some(()))
        .await;
    std::fs::remove_file(filler).expect("the file");
    std::fs::remove_file(rest).expect("the other file");
    app.execute_all("update emails set next_attempt_at = now()").await;
    let sent = "select count(*) from emails where template = 'magic_link' and status = 'done'";
    eventually(Duration::from_secs(30), "the mail is sent", async || (app.count(sent).await == 1).then_some(())).await;
    assert!(app.mail_to(&ada.email, Template::MagicLink).await.text.contains("/magic-link?token="));
    app.stranger().get("/readyz").await.expect(200);
    app.stop().await;
}

/// Contract: operators 1 to 3.
#[tokio::test]
async fn health_routes_need_no_credential() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    assert_eq!(stranger.get("/healthz").await.expect(200).body, json!({"status": "ok"}));
    stranger.get("/readyz").await.expect(200);
    stranger.get("/metrics").await.problem(503, "feature-unavailable");
    let any = Client::new(&app.base_url, Some("scrape"));
    any.get("/metrics").await.problem(503, "feature-unavailable");
    app.stop().await;
}

/// Contract: versioning 1; authorization 1. The document equals the output of the binary.
#[tokio::test]
async fn openapi_document_contains_every_route() {
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
        // A route is public only if the document declares it.
        if security.as_array().is_some_and(Vec::is_empty) {
            assert_ne!(answer.body["title"], "Unauthorized", "{path}: {}", answer.body);
        } else {
            answer.problem(401, "unauthorized");
        }
    }
    app.stop().await;
}

/// Contract: versioning 1; errors 2. Every problem type has a page.
#[tokio::test]
async fn docs_and_error_pages_load_no_foreign_resources() {
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
        assert!(text.contains(slug), "/errors/{slug} does not contain its slug");
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

/// Contract: requests 10. The proxy adds it. Earlier entries, written by the client, are ignored.
#[tokio::test]
async fn trusted_proxy_determines_the_client_address() {
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

/// Contract: errors 2. The operator configures both addresses.
#[tokio::test]
async fn problem_type_is_under_the_errors_url() {
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
