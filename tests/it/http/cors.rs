//! Calls of the API by pages of other origins.

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, App, Client, unknown_id};

const DESK: &str = "https://desk.example.com";
const DESK_ON_PORT: &str = "https://desk.example.com:8443";

/// Except for `Vary`.
fn cors_headers(answer: &Answer) -> Vec<&str> {
    answer
        .headers
        .keys()
        .map(reqwest::header::HeaderName::as_str)
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

fn varies_by_origin(answer: &Answer) -> bool {
    let mut lines = answer.headers.get_all("vary").iter();
    lines.any(|line| line.to_str().is_ok_and(|line| line.to_ascii_lowercase().contains("origin")))
}

async fn preflight(client: &Client, path: &str, origin: &str) -> Answer {
    let request = client.http.request(Method::OPTIONS, format!("{}{path}", client.base_url));
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    client.send(request.header("access-control-request-headers", "authorization,content-type")).await
}

async fn get_from(client: &Client, path: &str, origin: &str) -> Answer {
    client.send(client.request(Method::GET, path).header("origin", origin)).await
}

/// Contract: requests 19.
#[tokio::test]
async fn no_origin_is_allowed_by_default() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let asked = preflight(&client, "/v1/sessions", DESK).await.problem(405, "method-not-allowed");
    let read = get_from(&client, "/v1/sessions", DESK).await.expect(200);
    for answer in [asked, read] {
        assert_eq!(cors_headers(&answer), [""; 0]);
        assert!(!varies_by_origin(&answer));
    }
    app.stop().await;
}

/// Contract: requests 19, 20. It can read errors too.
#[tokio::test]
async fn page_of_a_configured_origin_calls_the_api_with_a_key() {
    let app = App::simulated().set("server.cors_origins", &format!("{DESK},{DESK_ON_PORT}")).start().await;
    let client = app.client().await;
    for origin in [DESK, DESK_ON_PORT] {
        let asked = preflight(&client, "/v1/sessions", origin).await.expect(200);
        assert_eq!(header(&asked, "access-control-allow-origin"), origin);
        let methods: Vec<_> = header(&asked, "access-control-allow-methods").split(',').map(str::trim).collect();
        assert!(["GET", "POST", "PUT", "PATCH", "DELETE"].iter().all(|method| methods.contains(method)), "{methods:?}");
        let sent = header(&asked, "access-control-allow-headers").to_ascii_lowercase();
        for name in
            ["authorization", "content-type", "idempotency-key", "x-service-account", "x-request-id", "last-event-id"]
        {
            assert!(sent.split(',').any(|allowed| allowed.trim() == name), "{name} is not in {sent}");
        }
        assert_eq!(header(&asked, "access-control-max-age"), "3600");
        assert!(varies_by_origin(&asked) && asked.headers.contains_key("x-request-id"));

        let post = client.request(Method::POST, "/v1/sessions").header("origin", origin).json(&json!({}));
        let created = client.send(post).await.expect(201);
        let id = created.body["id"].as_str().expect("an id").to_owned();
        let missing = get_from(&client, &format!("/v1/sessions/{}", unknown_id("ses")), origin).await;
        let missing = missing.problem(404, "not-found");
        let stranger = get_from(&app.stranger(), "/v1/sessions", origin).await.problem(401, "unauthorized");
        let nowhere = get_from(&client, "/v1/nothing", origin).await.problem(404, "not-found");
        let document = get_from(&app.stranger(), "/openapi.json", origin).await.expect(200);
        for answer in [created, missing, stranger, nowhere, document] {
            assert_eq!(header(&answer, "access-control-allow-origin"), origin);
            let exposed = header(&answer, "access-control-expose-headers").to_ascii_lowercase();
            for name in ["x-request-id", "retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
                assert!(exposed.split(',').any(|shown| shown.trim() == name), "{name} is not in {exposed}");
            }
            assert!(!answer.headers.contains_key("access-control-allow-credentials"));
            assert!(varies_by_origin(&answer));
        }
        client.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    }
    // A request without an origin, such as one of a program, has the same answer as before.
    let plain = client.get("/v1/sessions").await.expect(200);
    assert_eq!(cors_headers(&plain), [""; 0]);
    assert!(varies_by_origin(&plain), "a cache could return this answer to the page");
    app.stop().await;
}

/// Contract: requests 19. The difference is in scheme, host or port.
#[tokio::test]
async fn similar_origin_is_not_allowed() {
    let app = App::simulated().set("server.cors_origins", DESK).start().await;
    let client = app.client().await;
    for origin in [
        "http://desk.example.com",
        DESK_ON_PORT,
        "https://desk.example.com:443",
        "https://desk.example.com/",
        "https://desk.example.com.evil.example",
        "https://evil.desk.example.com",
        "https://DESK.example.com",
        "null",
        "*",
        "",
    ] {
        let asked = preflight(&client, "/v1/sessions", origin).await.problem(405, "method-not-allowed");
        let read = get_from(&client, "/v1/sessions", origin).await.expect(200);
        for answer in [asked, read] {
            assert_eq!(cors_headers(&answer), [""; 0], "{origin}");
            assert!(varies_by_origin(&answer), "{origin}");
        }
    }
    // `OPTIONS` without the method of a later request is not a preflight request.
    let options = client.request(Method::OPTIONS, "/v1/sessions").header("origin", DESK);
    client.send(options).await.problem(405, "method-not-allowed");
    app.stop().await;
}

/// Contract: requests 21.
#[tokio::test]
async fn sign_ins_staff_routes_and_web_sessions_are_closed_to_other_origins() {
    let app = App::simulated().set("server.cors_origins", DESK).start().await;
    let (client, person) = (app.client().await, app.person(Tier::ApiStarter).await);
    for path in [
        "/v1/auth/login",
        "/v1/admin/workers",
        "/v1/mac-nodes/register",
        "/mcp",
        "/webdriver/session",
        "/docs",
        "/metrics",
    ] {
        for answer in [preflight(&client, path, DESK).await, get_from(&client, path, DESK).await] {
            assert_eq!(cors_headers(&answer), [""; 0], "{path}: {}", answer.status);
        }
        assert!(preflight(&client, path, DESK).await.status.is_client_error(), "{path}");
    }
    let login = json!({"email": person.email, "password": "wrong wrong wrong"});
    let login = client.request(Method::POST, "/v1/auth/login").header("origin", DESK).json(&login);
    let login = client.send(login).await;
    assert_eq!(cors_headers(&login), [""; 0]);

    let forged = Client::new(&app.base_url, Some("an-unknown-token"));
    for (client, status) in [(&person.client, 200), (&forged, 401)] {
        for path in ["/v1/account/me", "/v1/sessions"] {
            let answer = get_from(client, path, DESK).await.expect(status);
            assert_eq!(cors_headers(&answer), [""; 0], "{path}");
            assert!(varies_by_origin(&answer), "{path}");
        }
    }
    app.stop().await;
}
