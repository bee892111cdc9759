//! Scripts in pages with the simulated driver (contract: evaluate).

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::App;

/// Contract: evaluate 1, 2, 5. They are checked before the claim.
#[tokio::test]
async fn script_and_arguments_have_bounds() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    let evaluated = client.operate(&session, "evaluate", json!({"script": "return [1, null]"})).await.expect(200).body;
    let members: Vec<_> = evaluated.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, ["value", "exception", "duration_ms", "url"]);
    assert_eq!((&evaluated["value"], &evaluated["exception"]), (&json!([1, null]), &Value::Null));
    assert_eq!(evaluated["url"], "https://example.com/");

    // The brackets and quotes count.
    let arguments = |bytes: usize| json!(["x".repeat(bytes - 4)]);
    for (body, field) in [
        (json!({}), "script"),
        (json!({"script": ""}), "script"),
        (json!({"script": 1}), "script"),
        (json!({"script": "x".repeat(65_537)}), "script"),
        (json!({"script": "x", "args": {}}), "args"),
        (json!({"script": "x", "args": arguments(65_537)}), "args"),
        (json!({"script": "x", "timeout_ms": 99}), "timeout_ms"),
        (json!({"script": "x", "timeout_ms": 120_001}), "timeout_ms"),
        (json!({"script": "x", "on_timeout": "ignore"}), "on_timeout"),
    ] {
        client.operate(&session, "evaluate", body).await.invalid(field);
    }
    let largest = json!({"script": "\u{1F600}".repeat(65_536), "args": arguments(65_536), "on_timeout": "return"});
    client.operate(&session, "evaluate", largest).await.expect(200);
    let nothing = json!({"script": "return 0", "args": null, "timeout_ms": null});
    assert_eq!(client.operate(&session, "evaluate", nothing).await.expect(200).body["value"], 0);
    assert_eq!(client.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: evaluate 1, 13. The script and its arguments are neither stored in clear nor logged.
#[tokio::test]
async fn script_is_not_stored() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let body = json!({"script": "secretScript()", "args": ["secretArgument"]});
    client.operate(&session, "evaluate", body).await.expect(200);
    let stored: Vec<String> = sqlx::query_scalar("select request::text || coalesce(outcome::text, '') from intents")
        .fetch_all(&app.database.pool)
        .await
        .expect("intents");
    assert!(stored.iter().any(|row| row.contains("\"evaluate\"")), "{stored:?}");
    let audited: Vec<String> =
        sqlx::query_scalar("select audit_log::text from audit_log").fetch_all(&app.database.pool).await.expect("rows");
    for text in stored.iter().chain(&audited).chain([&app.log(0)]) {
        assert!(!text.contains("secretScript") && !text.contains("secretArgument"), "{text}");
    }
    let kinds: Vec<_> = app.intents(&session).await.into_iter().map(|intent| intent.kind).collect();
    assert_eq!(kinds, ["open", "interact"]);
    app.stop().await;
}

/// Contract: evaluate 12; operations 47. An open dialog refuses it as well.
#[tokio::test]
async fn script_is_refused_while_submissions_are_held() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let (id, session) = (agent["id"].as_str().expect("an id"), agent["session_id"].as_str().expect("an id"));
    let script = || json!({"script": "return 0"});
    client.operate(session, "evaluate", script()).await.expect(200);
    let message = json!({"message": "open https://example.com/"});
    client.post(&format!("/v1/agent-sessions/{id}/message"), message).await.expect(200);
    client.operate(session, "evaluate", script()).await.problem(409, "conflict");
    client.navigate(session, "https://example.com/").await;
    client.operate(session, "evaluate", script()).await.expect(200);

    let session = client.session_with(json!({"dialogs": "hold"})).await;
    client.navigate(&session, "https://dialog.simulated.example/alert?message=Hello").await;
    let refused = client.operate(&session, "evaluate", script()).await.problem(409, "conflict");
    assert_eq!(refused.body["dialog"]["message"], "Hello");
    app.stop().await;
}
