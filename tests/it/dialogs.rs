//! Dialogs of pages with the simulated driver (contract: operations 45 to 49).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::{Answer, App, Client, eventually};

const CONFIRM: &str = "https://dialog.simulated.example/confirm?message=Delete%20it";
const PROMPT: &str = "https://dialog.simulated.example/prompt?message=Name&default=Ada";

fn held(kind: &str, message: &str, default_value: &Value) -> Value {
    json!({"type": kind, "message": message, "default_value": default_value})
}

fn answered(kind: &str, message: &str, accepted: bool) -> Value {
    json!([{"type": kind, "message": message, "accepted": accepted}])
}

async fn dialog_of(client: &Client, session: &str) -> Value {
    client.get(&format!("/v1/sessions/{session}")).await.expect(200).body["dialog"].clone()
}

async fn answer(client: &Client, session: &str, accept: bool) -> Answer {
    client.operate(session, "interact", json!({"action": {"kind": "dialog", "accept": accept}})).await
}

/// Contract: operations 45. The policy is not `hold`. A page can always be left.
#[tokio::test]
async fn dialogs_are_dismissed_or_accepted_and_named_in_the_result() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    for (body, accepted) in
        [(json!({}), false), (json!({"dialogs": "dismiss"}), false), (json!({"dialogs": "accept"}), true)]
    {
        let session = client.session_with(body).await;
        let shown = client.navigate(&session, CONFIRM).await.body;
        assert_eq!((&shown["status"], &shown["dialogs"]), (&json!(200), &answered("confirm", "Delete it", accepted)));
        assert!(shown.get("dialog").is_none(), "{shown}");
        assert_eq!(dialog_of(&client, &session).await, Value::Null);
        // It is named once.
        let next = client.navigate(&session, "https://example.com/").await.body;
        assert!(next.get("dialogs").is_none(), "{next}");
        let left = client.navigate(&session, "https://dialog.simulated.example/beforeunload?message=Stay").await.body;
        assert_eq!(left["dialogs"], answered("beforeunload", "Stay", true));
        // There is nothing to answer.
        answer(&client, &session, true).await.problem(409, "conflict");
        assert_eq!(client.status(&session).await, "ready");
    }
    app.stop().await;
}

/// Contract: operations 46, 47, 48. It ends the operation, and blocks all operations but `state`, `capture` and its answer.
#[tokio::test]
async fn held_dialog_blocks_the_session_until_it_is_answered() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"dialogs": "hold"})).await;
    let path = format!("/v1/sessions/{session}");
    assert_eq!(dialog_of(&client, &session).await, Value::Null);

    let ended = client.navigate(&session, PROMPT).await.body;
    let dialog = held("prompt", "Name", &json!("Ada"));
    assert_eq!((&ended["status"], &ended["final_url"], &ended["dialog"]), (&Value::Null, &json!(PROMPT), &dialog));
    assert_eq!(dialog_of(&client, &session).await, dialog);
    assert_eq!(client.get("/v1/sessions").await.expect(200).body["data"][0]["dialog"], dialog);
    assert_eq!(client.status(&session).await, "ready");

    let extraction = json!({"name": "title", "selector": "h1", "type": "text"});
    for (operation, body) in [
        ("navigate", json!({"url": "https://example.com/"})),
        ("interact", json!({"action": {"kind": "tap", "selector": "#button"}})),
        ("wait", json!({"condition": {"kind": "url_matches", "pattern": "a"}})),
        ("extract", json!({"extractions": [extraction]})),
        ("snapshot", json!({})),
        ("search", json!({"query": "shoes"})),
        ("pages", json!({})),
        ("capture", json!({"kind": "dom_snapshot"})),
        ("capture", json!({"kind": "pdf"})),
        ("capture", json!({"kind": "screenshot", "full_page": true})),
    ] {
        let refused = client.operate(&session, operation, body).await.problem(409, "conflict");
        assert_eq!(refused.body["dialog"], dialog, "{operation}");
    }
    assert_eq!(client.get(&format!("{path}/pages")).await.problem(409, "conflict").body["dialog"], dialog);
    let refused = client.patch(&format!("{path}/emulation"), json!({"offline": false})).await;
    assert_eq!(refused.problem(409, "conflict").body["dialog"], dialog);

    let state = client.get(&format!("{path}/state")).await.expect(200).body;
    assert_eq!((&state["url"], &state["local_storage"]), (&json!(PROMPT), &Value::Null));
    client.operate(&session, "capture", json!({"kind": "screenshot"})).await.expect(200);
    assert_eq!(dialog_of(&client, &session).await, dialog, "a read has closed it");

    let action = json!({"kind": "dialog", "accept": true, "text": "Grace"});
    let done = client.operate(&session, "interact", json!({"action": action})).await.expect(200).body;
    assert_eq!((&done["ok"], &done["kind"]), (&json!(true), &json!("dialog")));
    assert_eq!(done["dialogs"], answered("prompt", "Name", true));
    assert_eq!(dialog_of(&client, &session).await, Value::Null);
    answer(&client, &session, true).await.problem(409, "conflict");
    let state = client.get(&format!("{path}/state")).await.expect(200).body;
    assert_eq!(state["local_storage"], json!({}));
    client.navigate(&session, "https://example.com/").await;
    app.stop().await;
}

/// Contract: operations 48. It is typed text.
#[tokio::test]
async fn answer_to_a_prompt_is_not_stored() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"dialogs": "hold"})).await;
    client.navigate(&session, PROMPT).await;
    let action = json!({"kind": "dialog", "accept": true, "text": "secret-of-the-prompt"});
    client.operate(&session, "interact", json!({"action": action})).await.expect(200);
    let requests: Vec<String> = sqlx::query_scalar("select request::text || coalesce(result::text, '') from intents")
        .fetch_all(&app.database.pool)
        .await
        .expect("intents");
    assert!(requests.iter().any(|request| request.contains("\"dialog\"")), "{requests:?}");
    assert!(!requests.iter().any(|request| request.contains("secret-of-the-prompt")), "{requests:?}");
    app.stop().await;
}

/// Contract: operations 49. A dialog without an answer is dismissed.
#[tokio::test]
async fn dialog_expires_between_operations() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"dialogs": "hold"})).await;
    let ended = client.navigate(&session, &format!("{CONFIRM}&for_ms=1500")).await.body;
    assert_eq!(ended["dialog"], held("confirm", "Delete it", &Value::Null));
    assert_eq!(dialog_of(&client, &session).await, ended["dialog"]);
    eventually(Duration::from_secs(8), "the dialog is closed", async || {
        dialog_of(&client, &session).await.is_null().then_some(())
    })
    .await;
    answer(&client, &session, true).await.problem(409, "conflict");
    client.navigate(&session, "https://example.com/").await;
    app.stop().await;
}

/// Contract: operations 47; sessions 9.
#[tokio::test]
async fn ended_session_shows_no_dialog() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"dialogs": "hold"})).await;
    client.navigate(&session, CONFIRM).await;
    assert!(dialog_of(&client, &session).await.is_object());
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(dialog_of(&client, &session).await, Value::Null);
    app.stop().await;
}

/// Contract: operations 45, 48; agents 1; profiles 16.
#[tokio::test]
async fn policy_is_taken_by_agent_sessions_and_launches_and_is_checked() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let profile = client.profile().await;
    let hold = json!({"dialogs": "hold"});
    let agent = client.post("/v1/agent-sessions", hold.clone()).await.expect(201).body;
    let launched = client.post(&format!("/v1/profiles/{profile}/launch"), hold).await.expect(201).body;
    for session in [&agent["session_id"], &launched["id"]] {
        let session = session.as_str().expect("an id");
        let ended = client.navigate(session, CONFIRM).await.body;
        assert_eq!(ended["dialog"]["type"], "confirm", "{ended}");
        answer(&client, session, false).await.expect(200);
    }

    for wrong in [json!({"dialogs": "ignore"}), json!({"dialogs": true}), json!({"dialogs": "Hold"})] {
        client.post("/v1/sessions", wrong.clone()).await.invalid("dialogs");
        client.post("/v1/agent-sessions", wrong).await.invalid("dialogs");
    }
    let session = client.session().await;
    for (action, field) in [
        (json!({"kind": "dialog"}), "action.accept"),
        (json!({"kind": "dialog", "accept": "yes"}), "action.accept"),
        (json!({"kind": "dialog", "accept": true, "text": "x".repeat(10_001)}), "action.text"),
    ] {
        client.operate(&session, "interact", json!({"action": action})).await.invalid(field);
    }
    app.stop().await;
}

/// Contract: agents 1.
#[tokio::test]
async fn agent_session_holds_dialogs_unless_it_is_manual() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    for (body, holds) in [
        (json!({}), true),
        (json!({"mode": "pair"}), true),
        (json!({"mode": "manual"}), false),
        (json!({"dialogs": "dismiss"}), false),
        (json!({"mode": "manual", "dialogs": "hold"}), true),
    ] {
        let agent = client.post("/v1/agent-sessions", body.clone()).await.expect(201).body;
        let shown = client.navigate(agent["session_id"].as_str().expect("an id"), CONFIRM).await.body;
        assert_eq!(shown.get("dialog").is_some(), holds, "{body}: {shown}");
    }
    app.stop().await;
}

/// Contract: agents 48, 49, 52. An earlier message has led to the dialog.
#[tokio::test]
async fn messages_answer_dialogs() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let path = format!("/v1/agent-sessions/{}/message", agent["id"].as_str().expect("an id"));
    let post_dialog = async |body: Value| client.post(&path, body).await.expect(200).body;
    let opened = post_dialog(json!({"message": format!("open {CONFIRM}")})).await;
    assert_eq!(opened["dialog"], held("confirm", "Delete it", &Value::Null), "{opened}");
    let other = post_dialog(json!({"message": "tap 'Next'"})).await;
    assert_eq!(other["intents"][0]["status"], "skipped", "{other}");
    let waits = post_dialog(json!({"message": "accept the dialog"})).await;
    let step = &waits["intents"][0];
    assert_eq!((&step["kind"], &step["status"]), (&json!("dialog"), &json!("needs_approval")), "{waits}");
    let done = post_dialog(json!({"message": "approved", "approvals": [step["id"]]})).await;
    assert_eq!(done["intents"][0]["status"], "done", "{done}");
    assert_eq!(done["dialogs"], answered("confirm", "Delete it", true), "{done}");

    post_dialog(json!({"message": format!("open {PROMPT}")})).await;
    let named = post_dialog(json!({"message": "answer the dialog with 'Grace Hopper'"})).await;
    assert_eq!(
        (&named["intents"][0]["status"], &named["intents"][0]["text"]),
        (&json!("done"), &json!("•••")),
        "{named}"
    );
    let none = post_dialog(json!({"message": "dismiss the dialog"})).await;
    assert_eq!(none["kind"], "clarify", "{none}");
    app.stop().await;
}
