//! Contract: operations 41.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

/// One zone takes the box, and one does not. Each event is recorded once in a row.
const ZONES: &str = "<style>body { margin: 0 } div { position: absolute; width: 100px; height: 60px; background: #ccc }</style>
    <div id=source draggable=true style='left: 20px; top: 20px'>box</div>
    <div id=zone style='left: 150px; top: 200px'>zone</div><div id=other style='left: 150px; top: 400px'>other</div>
    <pre id=events></pre><pre id=result></pre><script>
    let last = '';
    const record = (event) => {
      const said = event.type + (event.isTrusted ? '' : '!') + (event.target.id ? ':' + event.target.id : '');
      if (said !== last) events.textContent += said + ' ';
      last = said;
    };
    for (const type of ['dragstart', 'dragenter', 'dragover', 'dragleave', 'drop', 'dragend', 'touchstart', 'touchcancel',
      'touchend', 'mousedown', 'mouseup', 'pointerdown', 'pointercancel', 'pointerup', 'click', 'contextmenu'])
      addEventListener(type, record);
    source.addEventListener('dragstart', (event) => {
      event.dataTransfer.setData('text/plain', 'carried');
      event.dataTransfer.setData('application/x-own', '{\"own\": 1}');
    });
    for (const type of ['dragenter', 'dragover']) zone.addEventListener(type, (event) => event.preventDefault());
    zone.addEventListener('drop', (event) => {
      event.preventDefault();
      result.textContent += event.dataTransfer.getData('text/plain') + event.dataTransfer.getData('application/x-own') + ' ';
    });
    source.addEventListener('dragend', (event) => { result.textContent += event.dataTransfer.dropEffect });</script>";

/// The items are sorted by dragging.
const LIST: &str = "<style>body, ul { margin: 0; padding: 0 } li { height: 60px; display: block }</style>
    <ul id=list><li draggable=true id=a>a</li><li draggable=true id=b>b</li><li draggable=true id=c>c</li></ul>
    <script>let dragged = null;
    list.addEventListener('dragstart', (event) => { dragged = event.target; event.dataTransfer.effectAllowed = 'move' });
    list.addEventListener('dragover', (event) => {
      event.preventDefault();
      const over = event.target.closest('li');
      if (!over || over === dragged) return;
      const { top, height } = over.getBoundingClientRect();
      list.insertBefore(dragged, event.clientY > top + height / 2 ? over.nextSibling : over);
    });
    list.addEventListener('drop', (event) => event.preventDefault());</script>";

impl Scene {
    async fn drag_to(&self, start: &str, end: &str, pointer: &str) -> Value {
        let action = json!({"kind": "drag", "selector": start, "to": {"selector": end}, "pointer": pointer});
        self.act(action).await.expect(200).body
    }

    async fn words(&self, selector: &str) -> Vec<String> {
        let text = self.text(selector).await;
        text.as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }
}

fn position(events: &[String], event: &str) -> usize {
    events.iter().position(|one| one == event).unwrap_or_else(|| panic!("no {event} in {events:?}"))
}

/// Contract: operations 41.
#[tokio::test]
async fn drop_zone_receives_what_the_drag_carries() {
    let scene = Scene::start().await;
    for pointer in ["touch", "mouse", "touch"] {
        scene.show(ZONES).await;
        assert_eq!(scene.drag_to("#source", "#zone", pointer).await["ok"], true, "{pointer}");
        let result = scene.text("#result").await;
        assert!(result.as_str().is_some_and(|result| result.starts_with("carried{\"own\": 1}")), "{pointer}: {result}");
        let events = scene.words("#events").await;
        let order = ["dragstart:source", "dragenter:zone", "dragover:zone", "drop:zone", "dragend:source"];
        let places: Vec<usize> = order.iter().map(|event| position(&events, event)).collect();
        assert!(places.is_sorted(), "{pointer}: {events:?}");
        let has = |event: &str| events.iter().any(|one| one.starts_with(event));
        assert_eq!(has("touchcancel"), pointer == "touch", "{events:?}");
        assert_eq!(has("mousedown"), pointer == "mouse", "{events:?}");
        assert!(has("pointerdown") && has("pointercancel"), "{events:?}");
        for absent in ["touchend", "mouseup", "pointerup", "click", "contextmenu"] {
            assert!(!has(absent), "{pointer}: {events:?}");
        }
        // The next tap is complete.
        scene.act(json!({"kind": "tap", "selector": "#other"})).await.expect(200);
        eventually(Duration::from_secs(5), "a tap", async || {
            let events = scene.words("#events").await;
            let tail = ["pointerdown:other", "touchstart:other", "pointerup:other", "touchend:other", "click:other"];
            tail.iter().all(|event| events.iter().any(|one| one == event)).then_some(())
        })
        .await;
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 41. The source learns of the refusal.
#[tokio::test]
async fn zone_that_refuses_receives_no_drop() {
    let scene = Scene::start().await;
    for pointer in ["touch", "mouse"] {
        scene.show(ZONES).await;
        assert_eq!(scene.drag_to("#source", "#other", pointer).await["ok"], true, "{pointer}");
        assert_eq!(scene.text("#result").await, "none", "{pointer}");
        let events = scene.words("#events").await;
        position(&events, "dragover:other");
        position(&events, "dragend:source");
        assert!(!events.iter().any(|event| event.starts_with("drop")), "{events:?}");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 41. The list is also in a frame of another origin.
#[tokio::test]
async fn list_is_sorted_by_dragging() {
    let scene = Scene::start().await;
    for pointer in ["mouse", "touch"] {
        scene.show(LIST).await;
        scene.drag_to("#a", "#c", pointer).await;
        let sorted = scene.text("#list").await.as_str().unwrap_or_default().replace(char::is_whitespace, "");
        assert_eq!(sorted.len(), 3, "{sorted}");
        assert_ne!(sorted, "abc", "{pointer}");
        for _ in 0..3 {
            let order = |text: Value| text.as_str().unwrap_or_default().replace(char::is_whitespace, "");
            let before = order(scene.text("#list").await);
            let ends = |index: usize| format!("#{}", before.chars().nth(index).expect("three items"));
            assert_eq!(scene.drag_to(&ends(0), &ends(2), pointer).await["ok"], true);
            assert_ne!(order(scene.text("#list").await), before, "{pointer}");
        }
    }
    let inner = scene.written(ZONES).replace("127.0.0.1", "localhost");
    scene.show(&format!("<iframe id=f style='width: 380px; height: 600px; border: 0' src=\"{inner}\"></iframe>")).await;
    scene.wait(json!({"kind": "selector", "selector": "#f >>> #zone"})).await.expect(200);
    for pointer in ["touch", "mouse"] {
        assert_eq!(scene.drag_to("#f >>> #source", "#f >>> #zone", pointer).await["ok"], true);
        let result = scene.text("#f >>> #result").await;
        assert!(result.as_str().is_some_and(|result| result.contains("carried")), "{pointer}: {result}");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 41. It prevents the touch, or the start of the drag.
#[tokio::test]
async fn page_that_prevents_a_drag_receives_the_finger() {
    let scene = Scene::start().await;
    for script in [
        "source.addEventListener('touchstart', (event) => event.preventDefault(), { passive: false })",
        "addEventListener('dragstart', (event) => event.preventDefault())",
    ] {
        scene.show(&format!("{ZONES}<script>{script}</script>")).await;
        assert_eq!(scene.drag_to("#source", "#zone", "touch").await["ok"], true, "{script}");
        let events = scene.words("#events").await;
        position(&events, "touchend:source");
        assert!(!events.iter().any(|event| event.starts_with("dragover") || event == "drop:zone"), "{events:?}");
        assert_eq!(scene.text("#result").await, "");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}
