//! Frames of other origins.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::eventually;
use crate::webkit::Scene;
use crate::webkit::agents::{Agent, assert_reply_contains, step_statuses};

impl Scene {
    /// Waits until the frame has loaded.
    pub async fn show_with_foreign_frame(&self, page: &str, inner: &str) {
        let frame = self.foreign(&format!("{inner}<p id=loaded>loaded</p>"));
        self.show(&format!("{page}<iframe id=f title=Other src=\"{frame}\" width=360 height=300></iframe>")).await;
        self.wait(json!({"kind": "selector", "selector": "#f >>> #loaded"})).await.expect(200);
    }

    fn foreign(&self, html: &str) -> String {
        self.written(html).replace("127.0.0.1", "localhost")
    }
}

const CARD: &str = "<label>Card <input id=card></label><button id=pay onclick=\"log.textContent = card.value\">Pay</button><p id=log></p>";

/// Contract: operations 30, 32, 35. The operations are selectors, targets, snapshots, waits and extractions.
#[tokio::test]
async fn operations_reach_frames_of_other_origins() {
    let scene = Scene::start().await;
    let within = format!("<iframe id=own src=\"{}\"></iframe>", scene.written("<p id=deep>Deep</p>"));
    scene.show_with_foreign_frame("<h1>Shop</h1>", &format!("{CARD}{within}")).await;
    scene.wait(json!({"kind": "selector", "selector": "#f >>> #own >>> #deep"})).await.expect(200);
    assert_eq!(scene.text("#f >>> #own >>> #deep").await, "Deep");
    let snapshot = scene.snapshot().await;
    let text = snapshot["snapshot"].as_str().expect("text");
    for part in [r#"textbox "Card""#, r#"button "Pay""#, r#"text "Deep""#] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    scene.act(json!({"kind": "type", "target": {"label": "Card"}, "text": "4242"})).await.expect(200);
    scene.act(json!({"kind": "tap", "target": {"role": "button", "name": "Pay"}})).await.expect(200);
    assert_eq!(scene.text("#f >>> #log").await, "4242");
    scene.act(json!({"kind": "type", "selector": "#f >>> #card", "text": "1"})).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#f >>> #pay"})).await.expect(200);
    assert_eq!(scene.text("#f >>> #log").await, "42421");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 31, 33. The frame loads another page, or is removed.
#[tokio::test]
async fn elements_of_a_replaced_frame_are_gone() {
    let scene = Scene::start().await;
    let next = scene.foreign("<p id=next>Next</p>");
    let page = format!(
        "<button id=replace onclick=\"f.src = '{next}'\">Replace</button><button id=remove onclick=\"f.remove()\">Remove</button>"
    );
    scene.show_with_foreign_frame(&page, CARD).await;
    let snapshot = scene.snapshot().await;
    let text = snapshot["snapshot"].as_str().expect("text");
    let line = text.lines().find(|line| line.contains("button \"Pay\"")).expect("a line");
    let pay = line.split("[ref=").nth(1).and_then(|rest| rest.split(']').next()).expect("a ref").to_owned();
    scene.act(json!({"kind": "tap", "selector": "#replace"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "#f >>> #next"})).await.expect(200);
    scene.act(json!({"kind": "tap", "target": {"ref": pay}})).await.expect(400);
    assert_eq!(scene.text("#f >>> #card").await, serde_json::Value::Null);
    scene.act(json!({"kind": "tap", "selector": "#remove"})).await.expect(200);
    assert_eq!(scene.text("#f >>> #next").await, serde_json::Value::Null);
    scene.wait(json!({"kind": "selector_hidden", "selector": "#f >>> #next"})).await.expect(200);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 29.
#[tokio::test]
async fn element_in_a_tall_frame_is_scrolled_into_view() {
    let scene = Scene::start().await;
    let inner = "<div style='height:2000px'></div><button id=b onclick=\"this.textContent = 'tapped'\">b</button>
        <div style='overflow:auto;height:100px'><div style='height:400px'></div><button id=c onclick=\"this.textContent = 'tapped'\">c</button></div>";
    let frame = scene.foreign(inner);
    let space = "<div style='height:3000px'></div>";
    scene.show(&format!("{space}<iframe id=f height=2500 src=\"{frame}\"></iframe>{space}")).await;
    for selector in ["#f >>> #b", "#f >>> #c"] {
        scene.act(json!({"kind": "tap", "selector": selector})).await.expect(200);
        assert_eq!(scene.text(selector).await, "tapped");
    }
    scene.app.stop().await;
}

/// Contract: operations 30, 35. It has 500 frames.
#[tokio::test]
async fn page_with_many_foreign_frames_is_read() {
    let scene = Scene::start().await;
    let frame = scene.foreign("<p>framed</p>");
    let script = format!(
        "<script>for (let i = 0; i < 500; i++) {{ const frame = document.createElement('iframe'); frame.width = frame.height = 40;
         frame.src = \"{frame}&i=\" + i; document.body.append(frame) }}</script>"
    );
    scene.show(&format!("<body>{script}")).await;
    let started = Instant::now();
    let snapshot = scene.snapshot().await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let text = snapshot["snapshot"].as_str().expect("text");
    assert_eq!(text.matches("text \"framed\"").count(), 500);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 35. The names are those of its frames and elements.
#[tokio::test]
async fn page_cannot_interfere_by_names() {
    let scene = Scene::start().await;
    let frame = scene.foreign("<p>framed</p>");
    let names = ["webkit", "messageHandlers", "globalThis", "WeakMap", "Symbol", "documents", "kitfleet.shared", "top"];
    let frames: Vec<_> = names.iter().map(|name| format!("<iframe name='{name}' src=\"{frame}\"></iframe>")).collect();
    let frames = frames.concat();
    let page = format!(
        "{frames}<p id=seen></p><button onclick=\"this.textContent = 'tapped'\">x</button><script>
         seen.textContent = typeof self[Symbol.for('kitfleet.shared')] + Object.getOwnPropertySymbols(self).length</script>"
    );
    scene.show(&page).await;
    assert_eq!(scene.text("#seen").await, "undefined0");
    let snapshot = scene.snapshot().await;
    let text = snapshot["snapshot"].as_str().expect("text");
    assert_eq!(text.matches("text \"framed\"").count(), names.len(), "{text}");
    scene.act(json!({"kind": "tap", "selector": "button"})).await.expect(200);
    assert_eq!(scene.text("button").await, "tapped");
    scene.app.stop().await;
}

/// Contract: agents 19, 35. The approval submits the form.
#[tokio::test]
async fn form_in_a_foreign_frame_is_held_and_released() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let form = "<form method=post action=/hit target=sink></form><iframe name=sink></iframe>
        <button onclick='document.forms[0].requestSubmit()'>Look</button><button onclick='document.forms[0].submit()'>Glance</button>";
    for (hits, name) in ["Look", "Glance"].into_iter().enumerate() {
        scene.show_with_foreign_frame("", form).await;
        let asked = agent.send_message(&format!("tap '{name}'")).await;
        assert_eq!((step_statuses(&asked), scene.site.hits()), (vec!["needs_approval"], hits), "{asked}");
        assert_reply_contains(&asked, "submit a form");
        let done = agent.approve(&asked, 0).await;
        assert_eq!(step_statuses(&done), ["done"], "{done}");
        eventually(Duration::from_secs(5), "the form is submitted", async || {
            (scene.site.hits() == hits + 1).then_some(())
        })
        .await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
