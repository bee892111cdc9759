//! Cookies of sessions with the simulated driver (contract: cookies).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, App, Client};

pub async fn cookies(client: &Client, session: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/sessions/{session}/cookies")).await.expect(200).body;
    listed["data"].as_array().expect("a list").clone()
}

pub async fn set(client: &Client, session: &str, cookies: Value) -> Answer {
    let request = client.request(Method::PUT, &format!("/v1/sessions/{session}/cookies"));
    client.send(request.json(&json!({"cookies": cookies}))).await
}

pub fn names(cookies: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = cookies.iter().map(|cookie| cookie["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    names
}

/// Contract: cookies 1, 3, 6. Name, domain and path identify a cookie.
#[tokio::test]
async fn cookies_are_set_and_deleted() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let path = format!("/v1/sessions/{session}/cookies");
    assert!(cookies(&client, &session).await.is_empty());
    set(&client, &session, json!([{"name": "a", "value": "1", "domain": "Example.com"}])).await.expect(204);
    let first = json!({
        "name": "a", "value": "1", "domain": "example.com", "path": "/", "expires": null, "http_only": false, "secure": false,
        "same_site": "none",
    });
    assert_eq!(cookies(&client, &session).await, [first]);
    let full = json!({
        "name": "a", "value": "2", "domain": "example.com", "path": "/", "expires": "2099-01-01T00:00:00.000Z", "http_only": true,
        "secure": true, "same_site": "strict",
    });
    let others = json!([
        full,
        {"name": "a", "value": "3", "domain": "example.com", "path": "/x"},
        {"name": "b", "value": "4", "domain": ".example.com"},
        {"name": "c", "value": "5", "domain": "127.0.0.1", "expires": null},
    ]);
    set(&client, &session, others).await.expect(204);
    let all = cookies(&client, &session).await;
    assert_eq!(names(&all), ["a", "a", "b", "c"]);
    assert!(all.contains(&full), "{all:?}");
    // Cookies that were read can be set.
    set(&client, &session, Value::from(all.clone())).await.expect(204);
    assert_eq!(cookies(&client, &session).await.len(), 4);

    client.delete(&format!("{path}?name=a&path=/x")).await.expect(204);
    client.delete(&format!("{path}?name=nothing")).await.expect(204);
    assert_eq!(names(&cookies(&client, &session).await), ["a", "b", "c"]);
    client.delete(&format!("{path}?domain=example.com")).await.expect(204);
    assert_eq!(names(&cookies(&client, &session).await), ["c"]);
    client.delete(&path).await.expect(204);
    assert!(cookies(&client, &session).await.is_empty());
    app.stop().await;
}

/// Contract: cookies 3, 4, 6. No cookie is set.
#[tokio::test]
async fn invalid_cookies_are_named() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let good = json!({"name": "a", "value": "1", "domain": "example.com"});
    let with = |member: &str, value: Value| {
        let mut cookie = good.clone();
        cookie[member] = value;
        cookie
    };
    for (cookie, field) in [
        (with("name", json!("")), "cookies.1.name"),
        (with("name", json!("a=b")), "cookies.1.name"),
        (with("name", json!(1)), "cookies.1.name"),
        (with("value", json!("a;b")), "cookies.1.value"),
        (with("value", json!("a\r\nb")), "cookies.1.value"),
        (with("value", json!("x".repeat(4_096))), "cookies.1.value"),
        (with("domain", json!("https://example.com")), "cookies.1.domain"),
        (with("domain", json!(".127.0.0.1")), "cookies.1.domain"),
        (with("path", json!("x")), "cookies.1.path"),
        (with("expires", json!("tomorrow")), "cookies.1.expires"),
        (with("expires", json!("2001-01-01T00:00:00Z")), "cookies.1.expires"),
        (with("same_site", json!("Lax")), "cookies.1.same_site"),
        (with("name", json!("__Secure-a")), "cookies.1.secure"),
        (with("name", json!("__Host-a")), "cookies.1.secure"),
        (json!({"name": "a", "value": "1"}), "cookies.1.domain"),
    ] {
        set(&client, &session, json!([good, cookie])).await.invalid(field);
    }
    set(&client, &session, json!([])).await.invalid("cookies");
    set(&client, &session, Value::from(vec![good; 1_001])).await.invalid("cookies");
    for (query, field) in [("name=", "name"), ("name=a&name=b", "name"), ("domain=a:1", "domain"), ("path=x", "path")] {
        client.delete(&format!("/v1/sessions/{session}/cookies?{query}")).await.invalid(field);
    }
    assert!(cookies(&client, &session).await.is_empty());
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: cookies 7, 8. An open dialog refuses all three operations.
#[tokio::test]
async fn values_of_cookies_are_not_stored() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    set(&client, &session, json!([{"name": "a", "value": "secret-value", "domain": "example.com"}])).await.expect(204);
    let stored: Vec<String> = sqlx::query_scalar("select request::text || coalesce(result::text, '') from intents")
        .fetch_all(&app.database.pool)
        .await
        .expect("intents");
    assert!(stored.iter().any(|row| row.contains("set_cookies")), "{stored:?}");
    for text in stored.iter().chain([&app.log(0)]) {
        assert!(!text.contains("secret-value"), "{text}");
    }
    assert_eq!(cookies(&client, &session).await[0]["value"], "secret-value");
    let kinds: Vec<_> = app.intents(&session).await.into_iter().map(|intent| intent.kind).collect();
    assert_eq!(kinds, ["open", "unknown", "state_capture"]);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);

    let session = client.session_with(json!({"dialogs": "hold"})).await;
    client.navigate(&session, "https://dialog.simulated.example/alert?message=Hello").await;
    let path = format!("/v1/sessions/{session}/cookies");
    client.get(&path).await.problem(409, "conflict");
    client.delete(&path).await.problem(409, "conflict");
    let cookie = json!([{"name": "a", "value": "1", "domain": "example.com"}]);
    let refused = set(&client, &session, cookie).await.problem(409, "conflict");
    assert_eq!(refused.body["dialog"]["message"], "Hello");
    app.stop().await;
}
