//! Dialogs of real pages (contract: operations 45 to 49).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

const ASKS: &str = "<title>Asks</title><button id=ask onclick='answers.textContent = JSON.stringify([confirm(\"sure?\"),
    prompt(\"name?\", \"Ada\")])'>ask</button><p id=answers></p><script>localStorage.setItem('colour', 'green')</script>";

const STAYS: &str = "<title>Stays</title><button id=touch>touch</button>
    <script>addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay' })</script>";

const ASKS_BEFORE_SENDING: &str = "<input id=file type=file
    onchange='answer.textContent = confirm(\"send?\") + this.files[0].name'><p id=answer></p>";

impl Scene {
    async fn with_dialogs(mut self, policy: &str) -> Self {
        self.session = self.client.session_with(json!({"dialogs": policy})).await;
        self
    }

    async fn ask(&self) -> Value {
        self.act(json!({"kind": "tap", "selector": "#ask"})).await.expect(200).body
    }

    async fn send_file(&self) -> Value {
        let files = [json!({"name": "a.txt", "content": "aGVsbG8="})];
        self.upload(json!({"selector": "#file"}), &files).await.expect(200).body
    }

    async fn answer(&self, answer: Value) -> Value {
        let mut action = answer;
        action["kind"] = "dialog".into();
        self.act(action).await.expect(200).body
    }

    async fn dialog(&self) -> Value {
        self.client.get(&format!("/v1/sessions/{}", self.session)).await.expect(200).body["dialog"].clone()
    }

    async fn shown_dialog(&self) -> Value {
        eventually(Duration::from_secs(8), "a dialog", async || {
            Some(self.dialog().await).filter(|dialog| !dialog.is_null())
        })
        .await
    }
}

/// Contract: operations 45. The result names the dialogs.
#[tokio::test]
async fn policy_answers_the_dialogs_of_a_page() {
    for (policy, answers, accepted) in [("dismiss", "[false,null]", false), ("accept", r#"[true,"Ada"]"#, true)] {
        let scene = Scene::start().await.with_dialogs(policy).await;
        scene.show(ASKS).await;
        let asked = scene.ask().await;
        let expected = json!([
            {"type": "confirm", "message": "sure?", "accepted": accepted},
            {"type": "prompt", "message": "name?", "accepted": accepted},
        ]);
        assert_eq!((&asked["ok"], &asked["dialogs"]), (&json!(true), &expected));
        assert!(asked.get("dialog").is_none(), "{asked}");
        assert_eq!(scene.text("#answers").await, answers);
        scene.show(STAYS).await;
        scene.act(json!({"kind": "tap", "selector": "#touch"})).await.expect(200);
        assert_eq!(scene.visit("/").await.body["status"], 200);
        scene.assert_ready().await;
        scene.app.stop().await;
    }
}

/// Contract: operations 46, 47, 48. Its answer returns with the next dialog.
#[tokio::test]
async fn held_dialogs_are_answered_one_after_another() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene.show(ASKS).await;
    let started = Instant::now();
    let asked = scene.ask().await;
    assert!(started.elapsed() < Duration::from_secs(5), "the tap has waited for {:?}", started.elapsed());
    let confirm = json!({"type": "confirm", "message": "sure?", "default_value": null});
    assert_eq!((&asked["ok"], &asked["dialog"]), (&json!(false), &confirm));
    assert_eq!(scene.dialog().await, confirm);

    let refused = scene.act(json!({"kind": "tap", "selector": "#ask"})).await.problem(409, "conflict");
    assert_eq!(refused.body["dialog"], confirm);
    assert_eq!(scene.operate("snapshot", json!({})).await.problem(409, "conflict").body["dialog"], confirm);
    let state = scene.state().await;
    assert_eq!((&state["title"], &state["local_storage"]), (&json!("Asks"), &Value::Null));
    assert!(state["cookies"].is_array(), "{state}");
    scene.operate("capture", json!({"kind": "pdf"})).await.problem(409, "conflict");

    let next = scene.answer(json!({"accept": true})).await;
    let prompt = json!({"type": "prompt", "message": "name?", "default_value": "Ada"});
    assert_eq!((&next["ok"], &next["dialog"]), (&json!(true), &prompt));
    assert_eq!(scene.dialog().await, prompt);
    let done = scene.answer(json!({"accept": true, "text": "Grace"})).await;
    assert!(done.get("dialog").is_none(), "{done}");
    assert_eq!(scene.dialog().await, Value::Null);
    assert_eq!(scene.text("#answers").await, r#"[true,"Grace"]"#);
    assert_eq!(scene.state().await["local_storage"], json!({"colour": "green"}));
    scene.act(json!({"kind": "dialog", "accept": true})).await.problem(409, "conflict");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46, 48. An accepted prompt without a text has the answer of a browser.
#[tokio::test]
async fn held_dialogs_can_be_dismissed() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene.show(ASKS).await;
    scene.ask().await;
    scene.answer(json!({"accept": false})).await;
    scene.answer(json!({"accept": false})).await;
    assert_eq!(scene.text("#answers").await, "[false,null]");
    scene.ask().await;
    scene.answer(json!({"accept": false})).await;
    scene.answer(json!({"accept": true})).await;
    assert_eq!(scene.text("#answers").await, r#"[false,"Ada"]"#);
    scene.app.stop().await;
}

/// Contract: operations 46.
#[tokio::test]
async fn held_question_before_leaving_decides_whether_the_page_stays() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    for accept in [false, true] {
        scene.show(STAYS).await;
        scene.act(json!({"kind": "tap", "selector": "#touch"})).await.expect(200);
        let before = scene.state().await["url"].clone();
        let left = scene.visit("/list").await.body;
        assert_eq!((&left["status"], &left["dialog"]["type"]), (&Value::Null, &json!("beforeunload")));
        scene.answer(json!({"accept": accept})).await;
        if accept {
            scene.wait(json!({"kind": "selector", "selector": "#price"})).await.expect(200);
        } else {
            let state = scene.state().await;
            assert_eq!((&state["title"], &state["url"]), (&json!("Stays"), &before));
            let reloaded = scene.act(json!({"kind": "reload"})).await.expect(200).body;
            assert_eq!((&reloaded["url"], &reloaded["dialog"]["type"]), (&before, &json!("beforeunload")));
            scene.answer(json!({"accept": true})).await;
            eventually(Duration::from_secs(5), "the page is loaded again", async || {
                (scene.state().await["title"] == "Stays").then_some(())
            })
            .await;
            scene.operate("pages", json!({})).await.expect(201);
        }
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46, 47. It ends the wait under way.
#[tokio::test]
async fn dialog_of_a_timer_is_shown_by_the_session() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    let late = "<title>Late</title><p id=after></p>
        <script>setTimeout(() => { alert('late'); after.textContent = 'after' }, 700)</script>";
    scene.show(late).await;
    let alert = json!({"type": "alert", "message": "late", "default_value": null});
    let waited = scene.wait(json!({"kind": "time", "ms": 8_000})).await.expect(200).body;
    assert_eq!((&waited["matched"], &waited["dialog"]), (&json!(false), &alert));
    scene.answer(json!({"accept": true})).await;
    assert_eq!(scene.text("#after").await, "after");

    scene.show(late).await;
    assert_eq!(scene.shown_dialog().await, alert);
    assert_eq!(scene.operate("snapshot", json!({})).await.problem(409, "conflict").body["dialog"], alert);
    scene.answer(json!({"accept": true})).await;
    assert_eq!(scene.text("#after").await, "after");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: sessions 17; operations 47.
#[tokio::test]
async fn session_with_an_open_dialog_is_destroyed() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene.show(ASKS).await;
    scene.ask().await;
    let started = Instant::now();
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    assert!(started.elapsed() < Duration::from_secs(2), "DELETE waited for {:?}", started.elapsed());
    assert_eq!(scene.dialog().await, Value::Null);
    scene.app.stop().await;
}

/// Contract: operations 47.
#[tokio::test]
async fn capture_with_an_open_dialog_has_the_last_picture() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene
        .show(
            "<style>body { margin: 0; background: #0a0 }</style>
             <button id=ask onclick='document.body.style.background = \"#00a\"; alert(1)'>ask</button>",
        )
        .await;
    // The page has painted when a picture of it is taken.
    scene.operate("capture", json!({"kind": "screenshot"})).await.expect(200);
    scene.ask().await;
    for format in ["png", "jpeg", "webp"] {
        let body = json!({"kind": "screenshot", "format": format, "scale": "css"});
        let shown = eventually(Duration::from_secs(5), "a picture", async || {
            let picture = scene.operate("capture", body.clone()).await;
            (picture.status == 200).then_some(picture)
        })
        .await;
        assert!(shown.body["bytes"].as_u64().is_some_and(|bytes| bytes > 100), "{format}");
    }
    for body in [json!({"kind": "screenshot", "selector": "#ask"}), json!({"kind": "screenshot", "full_page": true})] {
        assert_eq!(scene.operate("capture", body).await.problem(409, "conflict").body["dialog"]["type"], "alert");
    }
    scene.answer(json!({"accept": true})).await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46, 47. The mouse is released after the answer.
#[tokio::test]
async fn dialog_during_a_drag_of_a_mouse_ends_it_early() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    let page = "<div id=box style='width: 100px; height: 100px'></div><p id=released></p><p id=next></p><script>
        let asked = false;
        box.addEventListener('mousemove', event => { if (event.buttons && !asked) { asked = true; confirm('sure?') } })
        addEventListener('mouseup', () => { released.textContent += 'released' })
        addEventListener('mousedown', () => { next.textContent += 'pressed' })</script>";
    scene.show(page).await;
    let path = json!([{"x": 10, "y": 10}, {"x": 90, "y": 90}]);
    let drag = json!({"kind": "drag", "selector": "#box", "path": path, "pointer": "mouse"});
    let ended = scene.act(drag.clone()).await.expect(200).body;
    assert_eq!((&ended["ok"], &ended["dialog"]["type"]), (&json!(false), &json!("confirm")));
    scene.answer(json!({"accept": true})).await;
    eventually(Duration::from_secs(5), "the mouse is released", async || {
        (scene.text("#released").await == "released").then_some(())
    })
    .await;
    assert_eq!(scene.act(drag).await.expect(200).body["ok"], true);
    eventually(Duration::from_secs(5), "another drag", async || {
        (scene.text("#next").await == "pressedpressed" && scene.text("#released").await == "releasedreleased")
            .then_some(())
    })
    .await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46, 47. The page has the files.
#[tokio::test]
async fn dialog_during_an_upload_ends_it_early() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene.show(ASKS_BEFORE_SENDING).await;
    let ended = scene.send_file().await;
    assert_eq!((&ended["ok"], &ended["kind"]), (&json!(false), &json!("upload")));
    assert_eq!(ended["dialog"]["message"], "send?");
    scene.answer(json!({"accept": true})).await;
    assert_eq!(scene.text("#answer").await, "truea.txt");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 46, 47. WebKit gives the files to the page when its network process has permitted it.
#[tokio::test]
async fn upload_ends_when_the_page_has_the_files() {
    let scene = Scene::start().await.with_dialogs("hold").await;
    scene.show(ASKS_BEFORE_SENDING).await;
    let ended = scene.with_late("WebKitNetworkProcess", Duration::from_secs(2), scene.send_file()).await;
    assert_eq!((&ended["ok"], &ended["dialog"]["message"]), (&json!(false), &json!("send?")));
    scene.answer(json!({"accept": true})).await;
    assert_eq!(scene.text("#answer").await, "truea.txt");
    scene.app.stop().await;
}
