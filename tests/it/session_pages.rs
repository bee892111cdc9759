//! Pages of a session with the simulated driver (contract: operations 16, 43, 44).

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::{Answer, App, Client, unknown_id};

const POPUP: &str = "https://popup.simulated.example/";

async fn pages(client: &Client, session: &str) -> Vec<Value> {
    let listed = client.get(&format!("/v1/sessions/{session}/pages")).await.expect(200).body;
    listed["data"].as_array().expect("a list").clone()
}

async fn open(client: &Client, session: &str, body: Value) -> Answer {
    client.operate(session, "pages", body).await
}

fn path_of(session: &str, page: &Value) -> String {
    format!("/v1/sessions/{session}/pages/{}", page.as_str().expect("an id"))
}

async fn active(client: &Client, session: &str) -> Value {
    let active: Vec<_> = pages(client, session).await.into_iter().filter(|page| page["active"] == true).collect();
    assert_eq!(active.len(), 1, "{active:?}");
    active[0]["id"].clone()
}

/// Contract: operations 44. Operations act on the active page.
#[tokio::test]
async fn pages_are_listed_opened_activated_and_closed() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    let first = pages(&client, &session).await;
    assert_eq!(first.len(), 1);
    let expected = json!({
        "id": first[0]["id"], "url": "https://example.com/", "title": "Simulated", "active": true, "opener_id": null,
    });
    assert_eq!(first[0], expected);
    assert!(first[0]["id"].as_str().is_some_and(|id| id.starts_with("page_")), "{}", first[0]);

    let opened = open(&client, &session, json!({"url": "https://example.org/"})).await.expect(201).body;
    assert_eq!((&opened["url"], &opened["active"]), (&json!("https://example.org/"), &json!(true)));
    assert_eq!(pages(&client, &session).await[1], opened);
    let blank = open(&client, &session, json!({})).await.expect(201).body;
    assert_eq!(blank["url"], "about:blank");
    client.navigate(&session, "https://example.net/").await;

    let activated = client.post(&format!("{}/activate", path_of(&session, &first[0]["id"])), json!({})).await;
    assert_eq!(activated.expect(200).body, expected);
    let state = client.get(&format!("/v1/sessions/{session}/state")).await.expect(200).body;
    assert_eq!(state["url"], "https://example.com/");
    let urls: Vec<_> = pages(&client, &session).await.into_iter().map(|page| page["url"].clone()).collect();
    assert_eq!(urls, ["https://example.com/", "https://example.org/", "https://example.net/"]);

    client.delete(&path_of(&session, &opened["id"])).await.expect(204);
    assert_eq!(active(&client, &session).await, first[0]["id"]);
    client.delete(&path_of(&session, &first[0]["id"])).await.expect(204);
    assert_eq!(active(&client, &session).await, blank["id"]);
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: operations 43, 44.
#[tokio::test]
async fn opener_becomes_active_when_its_page_closes() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    open(&client, &session, json!({})).await.expect(201);
    let first = pages(&client, &session).await[0]["id"].clone();
    client.post(&format!("{}/activate", path_of(&session, &first)), json!({})).await.expect(200);
    client.navigate(&session, POPUP).await;
    let popup = pages(&client, &session).await[2].clone();
    assert_eq!((&popup["opener_id"], &popup["active"]), (&first, &json!(true)));
    client.delete(&path_of(&session, &popup["id"])).await.expect(204);
    assert_eq!(active(&client, &session).await, first);
    app.stop().await;
}

/// Contract: operations 44. The limit is eight pages.
#[tokio::test]
async fn ninth_page_and_closing_the_last_one_are_409() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let first = pages(&client, &session).await[0]["id"].clone();
    client.delete(&path_of(&session, &first)).await.problem(409, "conflict");
    for _ in 0..7 {
        open(&client, &session, json!({})).await.expect(201);
    }
    open(&client, &session, json!({})).await.problem(409, "conflict");
    client.navigate(&session, POPUP).await;
    assert_eq!(pages(&client, &session).await.len(), 8);
    client.delete(&path_of(&session, &first)).await.expect(204);
    open(&client, &session, json!({})).await.expect(201);
    client.delete(&path_of(&session, &first)).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: operations 44; sessions 11. An unknown page and a malformed id are the same 404.
#[tokio::test]
async fn page_of_another_session_is_404() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let (session, other) = (client.session().await, client.session().await);
    open(&client, &other, json!({})).await.expect(201);
    let theirs = pages(&client, &other).await[1]["id"].clone();
    let uuid = session.trim_start_matches("ses_").to_owned();
    for id in [theirs, json!(unknown_id("page")), json!(format!("page_{uuid}")), json!("page_x"), json!(session)] {
        let path = path_of(&session, &id);
        client.post(&format!("{path}/activate"), json!({})).await.problem(404, "not-found");
        client.delete(&path).await.problem(404, "not-found");
    }
    assert_eq!(pages(&client, &other).await.len(), 2);
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: operations 8, 44.
#[tokio::test]
async fn page_with_an_invalid_address_is_not_opened() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for url in ["", "example.com", "file:///etc/passwd", "javascript:alert(1)", "http://10.0.0.1/"] {
        open(&client, &session, json!({"url": url})).await.invalid("url");
    }
    open(&client, &session, json!({"url": 1})).await.invalid("url");
    assert_eq!(pages(&client, &session).await.len(), 1);
    app.stop().await;
}

/// Contract: operations 16.
#[tokio::test]
async fn wait_for_a_page_counts_from_the_previous_operation() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = async || {
        let body = json!({"condition": {"kind": "page"}, "timeout_ms": 200, "on_timeout": "return"});
        client.operate(&session, "wait", body).await.expect(200).body
    };
    client.navigate(&session, POPUP).await;
    let matched = wait().await;
    assert_eq!((&matched["matched"], &matched["kind"]), (&json!(true), &json!("page")));
    // The previous operation is that wait now.
    assert_eq!(wait().await["matched"], false);
    client.navigate(&session, "https://example.com/").await;
    assert_eq!(wait().await["matched"], false);
    app.stop().await;
}

/// Contract: usage 7.
#[tokio::test]
async fn page_operations_are_counted_by_kind() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    pages(&client, &session).await;
    open(&client, &session, json!({})).await.expect(201);
    open(&client, &session, json!({"url": "https://example.com/"})).await.expect(201);
    let totals = client.get("/v1/usage").await.expect(200).body["totals"].clone();
    assert_eq!((&totals["navigate"], &totals["state_capture"], &totals["interact"]), (&json!(1), &json!(1), &json!(0)));
    let session = client.get(&format!("/v1/sessions/{session}")).await.expect(200).body;
    assert_eq!(session["last_state_at"], Value::Null);
    app.stop().await;
}
