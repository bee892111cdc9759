//! Gestures of a finger and of a mouse, and controls with a state.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

/// `say` records in `#o`.
const SAY: &str = "<pre id=o></pre><script>function say(x) { o.textContent += x + ' ' }</script>";

const EVENTS: &str = "for (const type of ['pointerdown', 'pointerup', 'touchstart', 'touchend', 'mousedown', 'mouseup', 'mouseover', 'click', 'dblclick', 'contextmenu'])
  b.addEventListener(type, (event) => say(type + (event.pointerType ? ':' + event.pointerType : '') + (event.isTrusted ? '' : '!')));";

/// It follows the pointer.
fn draggable(down: &str, moved: &str, up: &str) -> String {
    format!(
        "<div id=b style='position:absolute;left:20px;top:20px;width:50px;height:50px;background:red;touch-action:none'></div><script>
         const at = (event) => event.touches ? event.touches[0] : event;
         let from = null;
         b.addEventListener('{down}', (event) => {{
           from = [at(event).clientX - b.offsetLeft, at(event).clientY - b.offsetTop];
           if (event.touches) event.preventDefault();
         }}, {{ passive: false }});
         addEventListener('{moved}', (event) => {{
           if (!from) return;
           b.style.left = at(event).clientX - from[0] + 'px';
           b.style.top = at(event).clientY - from[1] + 'px';
         }});
         addEventListener('{up}', (event) => {{ from = null; say((event.pointerType ?? '') + b.offsetLeft + ',' + b.offsetTop); }})</script>"
    )
}

impl Scene {
    async fn show_with_log(&self, html: &str) {
        self.show(&format!("<!doctype html><style>body {{ margin: 0 }}</style>{html}{SAY}")).await;
    }

    async fn assert_logged_text(&self, expected: &str, page: &str) {
        eventually(Duration::from_secs(5), &format!("{expected:?} on {page}"), async || {
            (self.text("#o").await == expected).then_some(())
        })
        .await;
    }

    async fn gesture(&self, action: Value) {
        let done = self.act(action).await.expect(200).body;
        assert_eq!(done["ok"], true, "{done}");
    }
}

/// Contract: operations 10.
#[tokio::test]
async fn taps_can_be_double_and_long() {
    let scene = Scene::start().await;
    let page = format!("<button id=b style='width:100px;height:50px'>B</button>{SAY}<script>{EVENTS}</script>");
    scene.show(&page).await;
    scene.gesture(json!({"kind": "tap", "selector": "#b", "count": 2})).await;
    let said = eventually(Duration::from_secs(5), "a double click", async || {
        let said = scene.text("#o").await;
        said.as_str().filter(|said| said.ends_with("dblclick")).map(str::to_owned)
    })
    .await;
    assert_eq!(said.matches("click:touch").count(), 2, "{said}");
    assert!(!said.contains('!'), "{said}");
    // A tap just before, at the same or another place, is not counted.
    let page_of_two = format!(
        "<button id=a style='width:100px;height:50px'>A</button><button id=b style='width:100px;height:50px'>B</button>{SAY}
         <script>b.addEventListener('click', (event) => say(event.detail))</script>"
    );
    for (first, said) in [("#a", "1 2 3"), ("#b", "1 1 2 3")] {
        scene.show(&page_of_two).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        scene.gesture(json!({"kind": "tap", "selector": first})).await;
        scene.gesture(json!({"kind": "tap", "selector": "#b", "count": 3})).await;
        scene.assert_logged_text(said, &page_of_two).await;
    }
    scene.show(&page).await;
    scene.gesture(json!({"kind": "tap", "selector": "#b", "hold_ms": 900})).await;
    eventually(Duration::from_secs(5), "a context menu", async || {
        scene.text("#o").await.as_str().is_some_and(|said| said.contains("contextmenu")).then_some(())
    })
    .await;
    // The next tap has all of its events.
    let before = scene.text("#o").await.as_str().map_or(0, str::len);
    scene.gesture(json!({"kind": "tap", "selector": "#b"})).await;
    eventually(Duration::from_secs(5), "a tap after a long press", async || {
        let said = scene.text("#o").await;
        let tap = said.as_str().and_then(|said| said.get(before..)).unwrap_or_default().to_owned();
        (tap.contains("pointerdown:touch") && tap.contains("click:touch")).then_some(())
    })
    .await;
    for (member, value) in [("count", 0), ("count", 4), ("hold_ms", 5_001)] {
        scene.act(json!({"kind": "tap", "selector": "#b", member: value})).await.invalid(&format!("action.{member}"));
    }
    scene.app.stop().await;
}

/// Contract: operations 39. Pages see a mouse.
#[tokio::test]
async fn hover_moves_a_mouse() {
    let scene = Scene::start().await;
    let page = "<button id=b style='width:100px;height:50px'>B</button>";
    scene.show(&format!("{page}{SAY}<script>{EVENTS} b.addEventListener('pointerover', (event) => say(event.type + ':' + event.pointerType))</script>")).await;
    scene.gesture(json!({"kind": "hover", "selector": "#b"})).await;
    scene.assert_logged_text("pointerover:mouse mouseover", page).await;
    scene.app.stop().await;
}

/// Contract: operations 39, 40. `touch-action` and prevented touches keep the page still, however fast the finger moves.
#[tokio::test]
async fn finger_scrolls_only_where_a_phone_does() {
    const LOG: &str = "<script>const types = ['pointerup', 'pointercancel', 'touchend', 'click', 'wheel'];
        const seen = new Set(); for (const type of types) addEventListener(type, (event) => seen.add(event.type), true);
        addEventListener('touchmove', () => { const until = Date.now() + 10; while (Date.now() < until); }, { passive: true });
        addEventListener('scroll', () => seen.add('scroll'), true);
        addEventListener('touchend', () => setTimeout(() => {
          o.textContent = [...seen].sort().join(' ');
          say(scrollY + inner.scrollTop > 0 ? '+' : scrollX > 0 ? '>' : '.');
        }, 300))</script>";
    let scene = Scene::start().await;
    let scrolled = "pointercancel scroll touchend";
    let still = "pointerup touchend";
    for (style, script, direction, seen) in [
        ("", "", "up", format!("{scrolled}+")),
        ("touch-action:manipulation", "", "up", format!("{scrolled}+")),
        ("touch-action:none", "", "up", format!("{still}.")),
        ("touch-action:pan-x", "", "up", format!("{still}.")),
        ("touch-action:pan-y", "", "up", format!("{scrolled}+")),
        ("touch-action:pan-x", "", "left", format!("{scrolled}>")),
        ("touch-action:pan-y", "", "left", format!("{still}.")),
        ("touch-action:pan-x pan-y", "", "up", format!("{scrolled}+")),
        (
            "",
            "b.addEventListener('touchmove', (event) => event.preventDefault(), { passive: false })",
            "up",
            format!("{still}."),
        ),
        (
            "",
            "b.addEventListener('touchstart', (event) => event.preventDefault(), { passive: false })",
            "up",
            format!("{still}."),
        ),
        // A list inside of an element that forbids to scroll may scroll itself.
        ("touch-action:none", "inner.style.display = 'block'", "up", format!("{scrolled}+")),
        // Nothing scrolls, so that the pointer is not cancelled.
        (
            "",
            "document.body.style.cssText = 'margin:0;overflow:hidden'; document.querySelector('#tall').remove()",
            "up",
            format!("{still}."),
        ),
    ] {
        let page = format!(
            "<style>#tall {{ width: 2000px; height: 3000px }} #inner {{ display: none; height: 300px; overflow: auto }}</style>
             <div id=b style='width:300px;height:300px;background:#ccc;{style}'><div id=inner><div style=height:2000px></div></div></div>
             <div id=tall></div>{LOG}<script>{script}</script>"
        );
        scene.show_with_log(&page).await;
        scene.gesture(json!({"kind": "swipe", "selector": "#b", "direction": direction, "distance": 150})).await;
        scene.assert_logged_text(&seen, &page).await;
    }
    scene.app.stop().await;
}

/// Contract: operations 40.
#[tokio::test]
async fn swipe_scrolls() {
    let scene = Scene::start().await;
    scene.show_with_log("<div style=height:3000px></div><script>addEventListener('scroll', () => { o.textContent = scrollY > 100 })</script>").await;
    scene.gesture(json!({"kind": "swipe", "direction": "up"})).await;
    scene.assert_logged_text("true", "the page").await;
    scene
        .show_with_log(
            "<div id=l style='height:200px;overflow:auto'><div style=height:2000px></div></div>
             <script>l.addEventListener('scroll', () => { o.textContent = l.scrollTop > 80 && scrollY === 0 })</script>",
        )
        .await;
    scene.gesture(json!({"kind": "swipe", "selector": "#l", "direction": "up", "distance": 150})).await;
    scene.assert_logged_text("true", "the list").await;
    for (member, value) in [("direction", json!("north")), ("distance", json!(9)), ("duration_ms", json!(5_001))] {
        let mut action = json!({"kind": "swipe", "direction": "up"});
        action[member] = value;
        scene.act(action).await.invalid(&format!("action.{member}"));
    }
    scene.app.stop().await;
}

/// Contract: operations 41.
#[tokio::test]
async fn drag_moves_elements() {
    let scene = Scene::start().await;
    let path = json!([{"x": 25, "y": 25}, {"x": 75, "y": 25}, {"x": 125, "y": 85}]);
    for (page, pointer, said) in [
        (draggable("mousedown", "mousemove", "mouseup"), "mouse", "120,80"),
        (draggable("touchstart", "touchmove", "touchend"), "touch", "120,80"),
        (draggable("pointerdown", "pointermove", "pointerup"), "touch", "touch120,80"),
        (draggable("pointerdown", "pointermove", "pointerup"), "mouse", "mouse120,80"),
    ] {
        scene.show_with_log(&page).await;
        scene.gesture(json!({"kind": "drag", "selector": "#b", "path": path, "pointer": pointer})).await;
        scene.assert_logged_text(said, &page).await;
    }
    let page = format!(
        "{}<div id=z style='position:absolute;left:200px;top:300px;width:100px;height:100px'></div>",
        draggable("mousedown", "mousemove", "mouseup")
    );
    scene.show_with_log(&page).await;
    scene.gesture(json!({"kind": "drag", "selector": "#b", "to": {"selector": "#z"}, "pointer": "mouse"})).await;
    scene.assert_logged_text("225,325", &page).await;

    scene.show_with_log(&page).await;
    for (course, field) in [
        (json!({}), "action.path"),
        (json!({"path": [{"x": 1, "y": 1}]}), "action.path"),
        (json!({"path": [{"x": 1, "y": 1}, {"x": 5000, "y": 1}]}), "action.path"),
        (json!({"path": path, "to": {"selector": "#z"}}), "action.to"),
        (json!({"to": {}}), "action.to.selector"),
        (json!({"path": path, "duration_ms": 10}), "action.duration_ms"),
        (json!({"path": path, "pointer": "pen"}), "action.pointer"),
    ] {
        let mut action = json!({"kind": "drag", "selector": "#b"});
        action.as_object_mut().expect("an object").extend(course.as_object().expect("an object").clone());
        scene.act(action).await.invalid(field);
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 41. The element that a finger touches receives the pointer until the finger is lifted, unless the page
/// releases it.
#[tokio::test]
async fn touched_element_captures_the_pointer() {
    let scene = Scene::start().await;
    let path = json!([{"x": 20, "y": 20}, {"x": 100, "y": 120}, {"x": 150, "y": 200}]);
    let element = |down: &str| {
        format!(
            "<div id=b style='width:40px;height:40px;background:red;touch-action:none'></div>
             <div id=c style='width:300px;height:300px'></div><script>
             b.addEventListener('pointerdown', (event) => {{ {down} }});
             for (const type of ['gotpointercapture', 'lostpointercapture']) b.addEventListener(type, (event) => say(type));
             let moves = [0, 0];
             b.addEventListener('pointermove', () => moves[0]++);
             c.addEventListener('pointermove', () => moves[1]++);
             addEventListener('pointerup', (event) => say(event.target.id + (moves[0] > 3) + (moves[1] > 3)));
             </script>"
        )
    };
    for (down, said) in [
        ("", "gotpointercapture btruefalse lostpointercapture"),
        ("b.setPointerCapture(event.pointerId)", "gotpointercapture btruefalse lostpointercapture"),
        ("b.releasePointerCapture(event.pointerId)", "cfalsetrue"),
        ("c.setPointerCapture(event.pointerId)", "cfalsetrue"),
    ] {
        let page = element(down);
        // The second finger finds the page as the first one did.
        scene.show_with_log(&page).await;
        scene.gesture(json!({"kind": "drag", "selector": "#b", "path": path})).await;
        scene.assert_logged_text(said, &page).await;
        scene.gesture(json!({"kind": "drag", "selector": "#b", "path": path})).await;
        scene.assert_logged_text(&format!("{said} {said}"), &page).await;
    }
    scene.app.stop().await;
}

/// Contract: operations 42. The control is tapped only if it has another state.
#[tokio::test]
async fn check_sets_the_state_of_a_control() {
    let scene = Scene::start().await;
    for page in [
        "<input type=checkbox id=c onclick=say(this.checked)>",
        "<label><input type=checkbox id=c style='position:absolute;opacity:0;width:0;height:0' onclick=say(this.checked)> Accept</label>",
        "<div id=c role=switch aria-checked=false onclick=\"this.ariaChecked = String(this.ariaChecked !== 'true'); say(this.ariaChecked)\">Switch</div>",
    ] {
        scene.show_with_log(page).await;
        for checked in [true, true, false, false] {
            scene.gesture(json!({"kind": "check", "selector": "#c", "checked": checked})).await;
        }
        scene.assert_logged_text("true false", page).await;
    }
    scene.show("<input type=radio id=c checked><p id=p>text").await;
    scene.act(json!({"kind": "check", "selector": "#c", "checked": false})).await.invalid("action.checked");
    scene.act(json!({"kind": "check", "selector": "#p"})).await.invalid("action.selector");
    scene.show("<input type=file id=c><label id=l><input type=file> Photo</label>").await;
    for selector in ["#c", "#l"] {
        let refused = scene.act(json!({"kind": "check", "selector": selector})).await;
        let refused = refused.invalid("action.selector").body.to_string();
        assert!(refused.contains("upload"), "{refused}");
    }
    scene.app.stop().await;
}

/// Contract: operations 29, 36.
#[tokio::test]
async fn options_and_exact_words() {
    let scene = Scene::start().await;
    scene.show_with_log("<select id=s multiple onchange='say([...selectedOptions].map((option) => option.value))'><option selected>a<option>b<option>c</select>").await;
    scene.gesture(json!({"kind": "select", "selector": "#s", "options": ["b", "c"]})).await;
    scene.gesture(json!({"kind": "select", "selector": "#s", "option": "a"})).await;
    scene.assert_logged_text("b,c a,b,c", "the menu").await;
    scene
        .act(json!({"kind": "select", "selector": "#s", "option": "a", "options": ["b"]}))
        .await
        .invalid("action.options");
    scene.act(json!({"kind": "select", "selector": "#s"})).await.invalid("action.option");
    scene.show_with_log("<button onclick=say(1)>Save all</button><button onclick=say(2)>Save</button>").await;
    scene.act(json!({"kind": "tap", "target": {"role": "button", "name": "Save"}})).await.invalid("action.target");
    for target in [json!({"role": "button", "name": "Save", "exact": true}), json!({"text": "Save", "exact": true})] {
        scene.gesture(json!({"kind": "tap", "target": target})).await;
    }
    scene.assert_logged_text("2 2", "the buttons").await;
    scene.app.stop().await;
}
