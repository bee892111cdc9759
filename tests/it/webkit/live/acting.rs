//! Contract: live 7 to 16.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BOX, kill_page};
use crate::support::live::Viewer;
use crate::support::{App, eventually};
use crate::webkit::{Scene, assert_failed, until_status};

const PAGE: &str = "<style>body { margin: 0 } body > * { position: absolute; left: 20px; width: 200px; height: 40px }
    button { top: 20px } input { top: 100px } select { top: 180px } p { top: 500px }</style>
    <button onclick=\"log.textContent += event.isTrusted ? 'tapped ' : 'forged '\">Tap</button><input id=name>
    <select id=list onchange=\"log.textContent += list.value + ' '\"><option>one<option>two<option>three</select><p id=log></p>";

async fn shown(scene: &Scene, client_id: Option<&str>) -> Viewer {
    let mut viewer = Viewer::control(&scene.app, &scene.client, &scene.session, client_id).await;
    viewer.until("a picture", |viewer| viewer.last).await;
    viewer
}

/// Read when the session is idle.
async fn log(scene: &Scene) -> Value {
    until_status(&scene.client, &scene.session, "ready").await;
    scene.text("#log").await
}

/// Contract: live 8, 9, 14, 15; notifications 2. Typed text is not stored.
#[tokio::test]
async fn person_taps_types_and_selects() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    // Notifications for operations begin with this request.
    scene.client.get("/v1/account/notifications").await.expect(200);
    let mut viewer = shown(&scene, None).await;
    assert_eq!(
        viewer.wait_for_message("control", 0).await,
        json!({"type": "control", "driver": "nobody", "may_act": true})
    );
    viewer.tap(100, 40).await;
    until_status(&scene.client, &scene.session, "busy").await;
    scene.operate("snapshot", json!({})).await.problem(409, "conflict");
    assert_eq!(log(&scene).await, "tapped");
    let told = scene.client.get("/v1/account/notifications").await.expect(200).body;
    let told = told["data"].as_array().expect("a list").iter().rev();
    let told = told.filter(|entry| entry["data"]["operation"] == "gui_input");
    let told: Vec<_> = told.map(|entry| (entry["event"].clone(), entry["data"].clone())).collect();
    let acted = json!({"session_id": scene.session, "operation": "gui_input"});
    let mut ended = acted.clone();
    ended["outcome"] = "done".into();
    assert_eq!(told, [(json!("operation.started"), acted), (json!("operation.ended"), ended)]);

    viewer.tap(100, 120).await;
    let keys: Vec<_> = "Zebra".chars().map(|key| json!({"type": "key", "key": key})).collect();
    viewer.act(json!(keys)).await;
    viewer.act(json!([{"type": "text", "text": "-correct-horse"}, {"type": "key", "key": "Tab"}])).await;
    until_status(&scene.client, &scene.session, "busy").await;
    until_status(&scene.client, &scene.session, "ready").await;
    let name = json!({"extractions": [{"name": "it", "selector": "#name", "type": "text"}]});
    scene.operate("extract", name).await.expect(200);
    crate::webkit::interaction::assert_nowhere_in_clear(&scene, &["Zebra", "correct-horse"]).await;
    scene.act(json!({"kind": "tap", "selector": "button"})).await.expect(200);

    let from = viewer.messages.len();
    viewer.tap(100, 200).await;
    let menu = viewer.until("options", |viewer| {
        viewer.messages.iter().skip(from).find(|said| said["type"] == "menu" && said["items"].is_array()).cloned()
    });
    let menu = menu.await;
    let labels: Vec<_> = menu["items"].as_array().expect("items").iter().map(|item| item["label"].clone()).collect();
    assert_eq!(labels, ["one", "two", "three"]);
    viewer.act(json!([{"type": "choose", "index": 2}])).await;
    viewer
        .until("closed", |viewer| {
            viewer.messages.iter().skip(from).find(|said| said["type"] == "menu" && said["items"].is_null()).map(|_| ())
        })
        .await;
    assert_eq!(log(&scene).await, "tapped tapped three");
    scene.assert_ready().await;

    // Input counts as no usage, and none of it failed.
    let kinds: Vec<String> =
        sqlx::query_scalar("select distinct kind from intents where kind = 'gui_input' and status = 'done'")
            .fetch_all(&scene.app.database.pool)
            .await
            .expect("intents");
    assert_eq!(kinds, ["gui_input"]);
    scene.app.stop().await;
}

/// Contract: live 9, 19. A text overtakes neither the keys before it nor the tap that sets the focus.
#[tokio::test]
async fn input_is_executed_in_order() {
    let scene = Scene::start().await;
    let slow = "<script>
        for (const kind of ['touchstart', 'touchend', 'mousedown', 'keydown'])
            addEventListener(kind, () => { const until = performance.now() + 10; while (performance.now() < until); }, true);
        document.querySelector('input').oninput = (event) => log.textContent = event.target.value;
        </script>";
    scene.show(&format!("{PAGE}{slow}")).await;
    let mut viewer = shown(&scene, None).await;
    let touch = |phase: &str| json!({"type": "touch", "finger": 0, "phase": phase, "x": 100, "y": 120});
    let key = |key: &str| json!({"type": "key", "key": key});
    let text = |text: &str| json!({"type": "text", "text": text});
    viewer.act(json!([touch("begin"), touch("end"), text("ab"), key("x"), key("Shift+ArrowLeft"), text("c")])).await;
    viewer.act(json!([key("Backspace"), text("d"), key("e"), text("f")])).await;
    until_status(&scene.client, &scene.session, "busy").await;
    assert_eq!(log(&scene).await, "abdef");
    scene.app.stop().await;
}

/// Contract: live 7, 14, 20.
#[tokio::test]
async fn invalid_or_forbidden_input_is_rejected() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    let mut looks = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    looks.tap(100, 40).await;
    assert_eq!(looks.wait_for_message("refused", 0).await["reason"], "viewer");

    let mut viewer = shown(&scene, None).await;
    let touch = |x: f64, y: f64| json!({"type": "touch", "finger": 0, "phase": "begin", "x": x, "y": y});
    let bad = [
        json!([touch(100.0, 40.0), touch(-1.0, 40.0)]),
        json!([touch(100.0, 40.0), touch(100.0, 100_000.0)]),
        json!([touch(100.0, 40.0), {"type": "touch", "finger": 10, "phase": "begin", "x": 1, "y": 1}]),
        json!([touch(100.0, 40.0), {"type": "key", "key": "NoSuchKeyAtAll"}]),
        json!([touch(100.0, 40.0), {"type": "text", "text": "a".repeat(4_097)}]),
        json!([touch(100.0, 40.0), {"type": "text", "text": "a\0b"}]),
        json!([touch(100.0, 40.0), {"type": "answer", "accept": true, "text": "\u{1b}"}]),
        json!(vec![touch(100.0, 40.0); 65]),
    ];
    for events in bad {
        let from = viewer.messages.len();
        viewer.act(events.clone()).await;
        assert_eq!(viewer.wait_for_message("refused", from).await["reason"], "invalid", "{events}");
    }
    let from = viewer.messages.len();
    for _ in 0..200 {
        viewer.act(json!(vec![json!({"type": "touch", "finger": 9, "phase": "update", "x": 1, "y": 1}); 50])).await;
    }
    assert_eq!(viewer.wait_for_message("refused", from).await["reason"], "too_fast");
    assert_eq!(log(&scene).await, json!(""));

    for said in [
        "{",
        "{\"type\": \"input\", \"events\": [{\"type\": \"touch\", \"finger\": 0, \"phase\": \"begin\", \"x\": NaN, \"y\": 1}]}",
    ] {
        let mut viewer = shown(&scene, None).await;
        viewer.send_raw(said).await;
        assert_eq!(viewer.until_closed().await, Some(4002), "{said}");
    }
    let mut viewer = shown(&scene, None).await;
    viewer.send_raw(&"x".repeat(64 * 1024 + 1)).await;
    assert_eq!(viewer.wait_for_message("refused", 0).await["reason"], "invalid");
    viewer.send_bytes(vec![0xff, 0xfe]).await;
    assert_eq!(viewer.until_closed().await, Some(4002));
    let mut viewer = shown(&scene, None).await;
    viewer.send_raw(&"x".repeat(256 * 1024 + 1)).await;
    assert_eq!(viewer.until_closed().await, Some(4002));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 8, 9, 11, 12, 18. It can until it hands back.
#[tokio::test]
async fn only_the_controlling_client_can_send_input() {
    let app = App::webkit().start().await;
    let client = app.client().await;
    let agent = client.post("/v1/agent-sessions", json!({"mode": "pair"})).await.expect(201).body;
    let (agent, session) =
        (agent["id"].as_str().expect("an id").to_owned(), agent["session_id"].as_str().expect("an id").to_owned());
    let scene = Scene { site: crate::support::Site::start().await, client, session, app };
    scene.show(PAGE).await;
    let post_to_agent = async |what: &str, who: &str| {
        let path = format!("/v1/agent-sessions/{agent}/{what}");
        scene.client.post(&path, json!({"client_id": who})).await.expect(200);
    };
    let (mut ada, mut bob) = (shown(&scene, Some("ada")).await, shown(&scene, Some("bob")).await);
    let waits = json!({"type": "control", "driver": "agent", "may_act": false, "offers": "takeover"});
    assert_eq!(ada.wait_for_message("control", 0).await, waits);
    ada.tap(100, 40).await;
    assert_eq!(ada.wait_for_message("refused", 0).await["reason"], "not_driving");

    post_to_agent("takeover", "ada").await;
    ada.until("control by ada", |ada| {
        ada.messages.iter().any(|said| said["driver"] == "you" && said["may_act"] == true).then_some(())
    })
    .await;
    bob.until("control by ada", |bob| {
        bob.messages.iter().any(|said| said["driver"] == "other" && said["may_act"] == false).then_some(())
    })
    .await;
    // The touch stays down when the lane changes.
    ada.tap(100, 40).await;
    ada.act(json!([{"type": "touch", "finger": 1, "phase": "begin", "x": 100, "y": 400}])).await;
    until_status(&scene.client, &scene.session, "busy").await;
    bob.tap(100, 40).await;
    assert_eq!(bob.wait_for_message("refused", 0).await["reason"], "busy");
    // The open connection of the client counts as a heartbeat.
    sqlx::query("update agent_sessions set heard_at = now() - interval '20 seconds'")
        .execute(&scene.app.database.pool)
        .await
        .expect("time");
    eventually(Duration::from_secs(8), "the heartbeat is recorded", async || {
        let query = "select heard_at > now() - interval '10 seconds' from agent_sessions";
        let heard: bool =
            sqlx::query_scalar(query).fetch_one(&scene.app.database.pool).await.expect("an agent session");
        heard.then_some(())
    })
    .await;
    post_to_agent("handback", "ada").await;
    assert_eq!(log(&scene).await, "tapped");
    ada.until("control by the agent", |ada| {
        ada.messages.last().is_some_and(|said| said["driver"] == "agent").then_some(())
    })
    .await;
    let from = ada.messages.len();
    ada.tap(100, 40).await;
    assert_eq!(ada.wait_for_message("refused", from).await["reason"], "not_driving");
    assert_eq!(log(&scene).await, "tapped");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 9, 13. The session is ready at once.
#[tokio::test]
async fn disconnect_ends_a_touch() {
    let scene = Scene::start().await;
    scene
        .show(&format!(
            "{PAGE}<script>for (const kind of ['touchstart', 'touchcancel', 'touchend', 'click'])
        addEventListener(kind, () => log.textContent += kind + ' ')</script>"
        ))
        .await;
    let mut viewer = shown(&scene, None).await;
    viewer.act(json!([{"type": "touch", "finger": 0, "phase": "begin", "x": 100, "y": 400}])).await;
    until_status(&scene.client, &scene.session, "busy").await;
    drop(viewer);
    let log = log(&scene).await;
    assert!(
        log == "touchstart touchend" || log == "touchstart touchcancel",
        "the touch did not end without a tap: {log}"
    );
    scene.app.stop().await;
}

/// Contract: live 16.
#[tokio::test]
async fn dialogs_wait_for_the_person_during_input() {
    let scene = Scene::start().await;
    let page =
        "<style>body { margin: 0 } button { position: absolute; left: 20px; top: 20px; width: 200px; height: 40px }
        p { position: absolute; top: 300px }</style><p id=log></p>
        <button onclick=\"log.textContent += confirm('sure?') + ' ' + prompt('who?', 'me') + ' '\">Ask</button>";
    scene.show(page).await;
    let mut viewer = shown(&scene, None).await;
    viewer.tap(100, 40).await;
    let asked = |kind: &'static str| {
        move |viewer: &Viewer| viewer.messages.iter().rev().find(|said| said["dialog"]["kind"] == kind).cloned()
    };
    let confirm = viewer.until("a question", asked("confirm")).await;
    assert_eq!(confirm["dialog"]["message"], "sure?");
    // The dialog stays open until the person answers it.
    viewer.read_for(Duration::from_millis(1_500)).await;
    assert_eq!(scene.client.status(&scene.session).await, "busy");
    viewer.act(json!([{"type": "answer", "accept": true}])).await;
    let prompt = viewer.until("a prompt", asked("prompt")).await;
    assert_eq!(prompt["dialog"], json!({"kind": "prompt", "message": "who?", "default": "me"}));
    viewer.act(json!([{"type": "answer", "accept": true, "text": "ada"}])).await;
    assert_eq!(log(&scene).await, "true ada");
    // Without a person's input dialogs are answered at once.
    scene.act(json!({"kind": "tap", "selector": "button"})).await.expect(200);
    assert_eq!(log(&scene).await, "true ada false null");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 10.
#[tokio::test]
async fn browser_death_during_input_fails_gui_input() {
    let scene = Scene::start().await;
    scene.show(BOX).await;
    let mut viewer = shown(&scene, None).await;
    viewer.act(json!([{"type": "touch", "finger": 0, "phase": "begin", "x": 100, "y": 400}])).await;
    until_status(&scene.client, &scene.session, "busy").await;
    kill_page(&scene.app);
    assert_eq!(viewer.until_closed().await, Some(4000));
    until_status(&scene.client, &scene.session, "errored").await;
    assert_failed(&scene.app, &scene.client, &scene.session, "gui_input", "DriverError").await;
    scene.app.stop().await;
}
