//! `interact`: a tap reaches its element wherever a user could tap it, and no other element.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

/// Records the tapped elements in `#log`.
const LOG: &str = "<pre id=log style='position:fixed;bottom:0;margin:0;pointer-events:none'></pre>
<script>function say(x) { log.textContent += x + ' ' }</script>";

impl Scene {
    /// Shows a page that can call `say`.
    async fn show_logging(&self, html: &str) {
        self.show(&format!("<!doctype html><style>body {{ margin: 0 }}</style>{html}{LOG}")).await;
    }

    async fn assert_logged(&self, expected: &str, page: &str) {
        eventually(Duration::from_secs(5), &format!("{expected:?} on {page}"), async || {
            (self.text("#log").await == expected).then_some(())
        })
        .await;
    }

    async fn try_to(&self, action: Value) -> Value {
        let body = json!({"action": action, "timeout_ms": 1_500, "on_timeout": "return"});
        self.operate("interact", body).await.expect(200).body
    }
}

const FRAME: &str = "srcdoc='<body style=margin:0 onclick=parent.say(event.target.id)>
<button id=a style=width:80px;height:40px>A</button><button id=b style=width:80px;height:40px>B</button>'";

/// Contract: operations 10, 15. It may be scrolled, below fixed bars, zoomed or in frames.
#[tokio::test]
async fn tap_reaches_clipped_covered_and_transformed_elements() {
    let scene = Scene::start().await;
    let rows: Vec<_> = (0..40)
        .map(|row| format!("<tr><td style=height:40px><button id=r{row} onclick=say({row})>R</button>"))
        .collect();
    let rows = rows.concat();
    let button = "<button id=b onclick=say('b')>B</button>";
    let pages = [
        ("#r30", "30", format!("<div style='height:150px;overflow:auto'><table>{rows}</table></div>")),
        (
            "#b",
            "b",
            "<div style='height:200px;overflow:auto'><div style=height:600px></div><div style='height:120px;overflow:auto;width:150px'>
             <div style='height:300px;width:600px;position:relative'>
             <button id=b style='position:absolute;left:500px;top:250px' onclick=say('b')>B</button></div></div><div style=height:600px>"
                .to_owned(),
        ),
        ("#b", "b", format!("<div style='height:100px;overflow:hidden'><div style=height:500px></div>{button}</div>")),
        ("#b", "b", format!("<dialog id=d style='height:200px;overflow:auto'><div style=height:700px></div>{button}</dialog><script>d.showModal()</script>")),
        ("#b", "b", format!("<div style='position:fixed;bottom:0;width:100%;height:140px;background:#eee'></div><div style=height:600px></div>{button}<div style=height:2000px>")),
        (
            "#b",
            "b",
            format!(
                "<div style='position:fixed;top:0;width:100%;height:250px;background:#eee'></div>
                 <div style='position:fixed;bottom:0;width:100%;height:300px;background:#eee'></div><div style=height:1000px></div>{button}
                 <div style=height:2000px>"
            ),
        ),
        // Under the place of a scroll bar of a desktop.
        ("#b", "b", "<div style='height:300px;overflow:auto;position:relative'><div style=height:900px></div>
          <button id=b style='position:absolute;right:0;top:50px;width:12px;height:40px;padding:0' onclick=say('b')>B".to_owned()),
        ("#f >>> #b", "b", format!("<div style=height:900px></div><iframe id=f style='width:250px;height:60px' {FRAME}></iframe><div style=height:900px>")),
        ("#f >>> #b", "b", format!("<iframe id=f style='width:250px;height:120px;border:0;transform:scale(.75);transform-origin:0 0' {FRAME}></iframe>")),
        ("#f >>> #b", "b", format!("<div style='transform:scale(2);transform-origin:0 0'><iframe id=f style='width:180px;height:60px;border:0' {FRAME}></iframe></div>")),
        ("#f >>> #b", "b", format!("<div style=height:100px></div><iframe id=f style='width:250px;height:120px;border:3px solid;padding:5px;transform:rotate(90deg)' {FRAME}></iframe>")),
        ("#f >>> #b", "b", format!("<div style='zoom:1.3'><iframe id=f style='width:250px;height:120px' {FRAME}></iframe></div>")),
        ("#b", "b", "<div style='zoom:.5' onclick=say(event.target.id)><div style=height:300px></div>
          <button id=a style='width:80px;height:40px'>A</button><button id=b style='width:80px;height:40px'>B</button></div>".to_owned()),
        ("#b", "b", "<div style=height:1500px></div><div style='zoom:2' onclick=say(event.target.id)>
          <button id=a style='width:80px;height:40px'>A</button><button id=b style='width:80px;height:40px'>B</button></div>
          <div style=height:1500px>".to_owned()),
        ("#f >>> #b", "b", "<iframe id=f style='width:300px;height:200px' srcdoc=\"<div style=height:900px></div><div style='zoom:.5'>
          <button id=a style='width:80px;height:40px' onclick=parent.say('a')>A</button>
          <button id=b style='width:80px;height:40px' onclick=parent.say('b')>B</button></div><div style=height:900px>\"></iframe>".to_owned()),
        // Text inside of a button receives no events itself.
        ("#s", "b", "<button onclick=say('b')><span id=s style='pointer-events:none'>Buy</span></button>".to_owned()),
        // The point in the middle belongs to another control.
        ("#c", "c", "<div id=c onclick=say(event.target.id) style='width:300px;height:200px;position:relative'>
          <button id=inner style='position:absolute;left:100px;top:70px;width:100px;height:60px'>I</button></div>".to_owned()),
    ];
    for (selector, logged, page) in pages {
        scene.show_logging(&page).await;
        let tapped = scene.try_to(json!({"kind": "tap", "selector": selector})).await;
        assert_eq!(tapped["ok"], true, "{tapped} on {page}");
        scene.assert_logged(logged, &page).await;
    }
    scene.app.stop().await;
}

/// Contract: operations 3, 10. The tap acts on no other element.
#[tokio::test]
async fn tap_that_cannot_reach_its_element_names_the_reason() {
    let scene = Scene::start().await;
    let moving = |seconds: u32| {
        format!(
            "<style>@keyframes m {{ to {{ left: 250px }} }}</style><div onclick=say('wrong') style=height:300px>
             <button id=b onclick=event.stopPropagation(),say('b')
             style='position:absolute;left:0;width:60px;height:50px;animation:m {seconds}s infinite alternate linear'>B</button></div>"
        )
    };
    let button = "<button id=b onclick=say('b')>B</button>";
    for (page, reason) in [
        (moving(1), "moving"),
        (format!("{button}<div style='position:fixed;inset:0'></div>"), "covered"),
        ("<button id=b disabled onclick=say('b')>B</button>".to_owned(), "disabled"),
        (format!("<div aria-disabled=true>{button}</div>"), "disabled"),
        (format!("<fieldset disabled>{button}</fieldset>"), "disabled"),
        ("<button id=b hidden>B</button>".to_owned(), "not_visible"),
        ("<p>nothing".to_owned(), "not_found"),
        (format!("<div style='position:fixed;left:-500px'>{button}</div>"), "outside"),
    ] {
        scene.show_logging(&page).await;
        let tapped = scene.try_to(json!({"kind": "tap", "selector": "#b"})).await;
        assert_eq!((&tapped["ok"], &tapped["reason"]), (&json!(false), &json!(reason)), "{page}");
        // A finger can reach a place that the moving element has left.
        assert!(reason == "moving" || tapped["delivered"] == false, "{page}: {tapped}");
        assert_eq!(scene.text("#log").await, "", "{page}");
    }
    // The page has received the finger, although the element has gone before its click.
    scene.show_logging("<button id=b onpointerdown=say('down'),this.remove() onclick=say('b')>B</button>").await;
    let tapped = scene.try_to(json!({"kind": "tap", "selector": "#b"})).await;
    assert_ne!(tapped["delivered"], false, "{tapped}");
    assert_eq!(scene.text("#log").await, "down");
    scene.show_logging("<select id=s><option>x</select>").await;
    let chosen = scene.try_to(json!({"kind": "select", "selector": "#s", "option": "y"})).await;
    assert_eq!((&chosen["ok"], &chosen["reason"]), (&json!(false), &json!("no_option")));
    scene.show_logging("<input id=i readonly>").await;
    let typed = scene.try_to(json!({"kind": "type", "selector": "#i", "text": "x"})).await;
    assert_eq!((&typed["ok"], &typed["reason"]), (&json!(false), &json!("not_editable")));

    // A point is tapped without waiting until the element rests.
    scene.show_logging(&moving(3)).await;
    let tapped = scene.try_to(json!({"kind": "tap", "selector": "#b", "at": {"x": 30, "y": 25}})).await;
    assert_eq!(tapped["ok"], true, "{tapped}");
    scene.assert_logged("b", "the page that moves").await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 10. Whatever moves the element, and whatever was read of the page before.
#[tokio::test]
async fn tap_notices_each_kind_of_movement() {
    let scene = Scene::start().await;
    let button =
        "<button id=b style='position:absolute;left:0;top:50px;width:60px;height:50px' onclick=say('b')>B</button>";
    for mover in [
        "let x = 0; const step = () => { x = (x + 3) % 300; b.style.left = x + 'px'; requestAnimationFrame(step); }; step()",
        "b.animate([{ left: '0px' }, { left: '300px' }], { duration: 1000, iterations: Infinity, direction: 'alternate' })",
        "b.style.transition = 'left 20s linear'; b.offsetLeft; b.style.left = '1200px'",
        "b.outerHTML = `<svg style='position:absolute;left:0;top:0' width=390 height=200><rect id=b width=60 height=50 onclick=say('b')>
           <animate attributeName=x from=0 to=300 dur=2s repeatCount=indefinite /></rect></svg>`",
    ] {
        scene.show_logging(&format!("{button}<script>{mover}</script>")).await;
        for _ in 0..2 {
            scene.client.operate(&scene.session, "snapshot", json!({})).await.expect(200);
            let tapped = scene.try_to(json!({"kind": "tap", "selector": "#b"})).await;
            assert_eq!((&tapped["ok"], &tapped["reason"]), (&json!(false), &json!("moving")), "{mover}: {tapped}");
        }
        assert_eq!(scene.text("#log").await, "", "{mover}");
    }
    scene.app.stop().await;
}

/// Contract: operations 10.
#[tokio::test]
async fn tap_waits_until_a_control_is_enabled() {
    let scene = Scene::start().await;
    for (page, enable) in [
        ("<button id=b disabled onclick=say('b')>B</button>", "b.disabled = false"),
        ("<div id=b role=button aria-disabled=true onclick=say('b')>B</div>", "b.removeAttribute('aria-disabled')"),
        (
            "<fieldset id=f disabled><button id=b type=button onclick=say('b')>B</button></fieldset>",
            "f.disabled = false",
        ),
    ] {
        scene.show_logging(&format!("{page}<script>setTimeout(() => {{ {enable} }}, 500)</script>")).await;
        assert_eq!(scene.try_to(json!({"kind": "tap", "selector": "#b"})).await["ok"], true, "{page}");
        scene.assert_logged("b", page).await;
    }
    let legend = "<fieldset disabled><legend><button id=b type=button onclick=say('b')>B</button></legend></fieldset>";
    scene.show_logging(legend).await;
    scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    scene.assert_logged("b", legend).await;
    scene.app.stop().await;
}

/// Contract: operations 10. A point outside of the element or the viewport is a 400.
#[tokio::test]
async fn tap_at_a_point() {
    let scene = Scene::start().await;
    let page = "<div style=height:40px></div><div id=c onclick=say(event.offsetX+'/'+event.offsetY) style='width:300px;height:200px'></div>";
    scene.show_logging(page).await;
    scene.act(json!({"kind": "tap", "selector": "#c", "at": {"x": 12, "y": 9}})).await.expect(200);
    scene.act(json!({"kind": "tap", "at": {"x": 100, "y": 90}})).await.expect(200);
    scene.assert_logged("12/9 100/50", page).await;
    for (selector, at) in
        [(Some("#c"), json!({"x": 301, "y": 1})), (None, json!({"x": 500, "y": 1})), (None, json!({"x": -1, "y": 1}))]
    {
        scene.act(json!({"kind": "tap", "selector": selector, "at": at})).await.invalid("action.at");
    }
    scene.act(json!({"kind": "tap"})).await.invalid("action.selector");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 10. Their order and types are those of a phone.
#[tokio::test]
async fn tap_fires_the_events_of_a_phone() {
    let scene = Scene::start().await;
    let page = "<button id=b style='width:100px;height:60px'>B</button><script>
      for (const type of ['over', 'enter', 'down', 'move', 'up', 'out', 'leave', 'cancel'].flatMap((name) => [`pointer${name}`, `mouse${name}`])
        .concat('touchstart', 'touchend', 'click', 'dblclick', 'contextmenu')) {
        b.addEventListener(type, (event) => say(type + (event.pointerType ? ':' + event.pointerType : '') + (event.isTrusted ? '' : '!')
          + (event.screenX > 1000 ? '?' : '')));
      }</script>";
    scene.show_logging(page).await;
    scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    let events = "pointerover:touch pointerenter:touch pointerdown:touch touchstart pointerup:touch pointerout:touch \
                  pointerleave:touch touchend mouseover mouseenter mousemove mousedown mouseup click:touch";
    scene.assert_logged(events, page).await;

    // A finger comes from nowhere each time, and lifting it goes nowhere.
    let page = "<button id=b style='width:100px;height:60px'>B</button><script>
      for (const type of ['pointerover', 'pointerenter', 'pointerout', 'pointerleave']) {
        b.addEventListener(type, (event) => say(type + ':' + event.relatedTarget));
      }</script>";
    scene.show_logging(page).await;
    for _ in 0..2 {
        scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    }
    let once = "pointerover:null pointerenter:null pointerout:null pointerleave:null";
    scene.assert_logged(&format!("{once} {once}"), page).await;
    scene.app.stop().await;
}

/// Contract: operations 10. A page that takes long to handle a touch still receives a click, and no long press.
#[tokio::test]
async fn tap_on_a_slow_page_is_a_click() {
    let scene = Scene::start().await;
    for slow in ["pointerdown", "touchstart", "pointerup", "touchend", "mousedown"] {
        let page = format!(
            "<button id=b style='width:100px;height:60px'>B</button><script>
             b.addEventListener('{slow}', () => {{ const end = performance.now() + 900; while (performance.now() < end); }});
             for (const type of ['mousedown', 'click', 'contextmenu']) b.addEventListener(type, (event) => say(type + event.button))</script>"
        );
        scene.show_logging(&page).await;
        scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
        scene.assert_logged("mousedown0 click0", &page).await;
    }
    scene.app.stop().await;
}

/// Contract: operations 10. A touch that covers its element, or removes the element, does not click what is there then.
#[tokio::test]
async fn tap_does_not_click_what_the_touch_has_uncovered() {
    let scene = Scene::start().await;
    let layer = "position:absolute;left:0;top:0;width:200px;height:100px";
    let under = format!("<div id=c style='{layer}' onclick=say('c')>C</div>");
    let button = format!("<button id=b style='{layer}' onclick=say('b')>B</button>");
    for (shown, logged, page) in [
        ("b.before(c); b.remove()", "touched", format!("{under}{button}")),
        ("b.style.display = 'none'", "touched", format!("{under}{button}")),
        ("c.style.zIndex = 1", "touched", format!("{under}{button}")),
        // Both are in an element that handles the click.
        ("c.style.zIndex = 1", "touched c d", format!("<div onclick=say('d')>{under}{button}</div>")),
        ("b.innerHTML = '<i>new</i>'", "touched b", button.replace('B', "<i>B</i>")),
    ] {
        for event in ["pointerdown", "touchstart", "touchend"] {
            let page =
                format!("{page}<script>b.addEventListener('{event}', () => {{ say('touched'); {shown} }})</script>");
            scene.show_logging(&page).await;
            assert_eq!(scene.try_to(json!({"kind": "tap", "selector": "#b"})).await["ok"], true, "{page}");
            scene.assert_logged(logged, &page).await;
        }
    }
    scene.app.stop().await;
}

/// Contract: operations 10. A page that prevents the default action of a touch receives no mouse events and no click.
#[tokio::test]
async fn prevented_touch_is_no_click() {
    let scene = Scene::start().await;
    for event in ["touchstart", "touchend"] {
        let page = format!(
            "<button id=b style='width:100px;height:60px'>B</button><script>
             for (const type of ['touchend', 'mousedown', 'focus', 'mouseup', 'click']) b.addEventListener(type, () => say(type));
             b.addEventListener('{event}', (event) => event.preventDefault())</script>"
        );
        scene.show_logging(&page).await;
        assert_eq!(scene.try_to(json!({"kind": "tap", "selector": "#b"})).await["ok"], true, "{page}");
        // A click of the first tap would come before the second tap.
        scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
        scene.assert_logged("touchend touchend", &page).await;
    }
    scene.app.stop().await;
}

/// Contract: operations 10, 13. A touch without a click does not keep a key or a mouse from clicking another element.
#[tokio::test]
async fn touch_without_a_click_affects_no_later_click() {
    let scene = Scene::start().await;
    let page = "<button id=k onclick=say('k')>K</button><p><button id=b>B</button><p><label id=l>L <input type=checkbox onclick=say('box')></label>
      <script>b.addEventListener('touchend', (event) => { event.preventDefault(); say('touched'); k.focus(); })</script>";
    scene.show_logging(page).await;
    scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    scene.act(json!({"kind": "press", "key": "Enter"})).await.expect(200);
    scene.assert_logged("touched k", page).await;
    scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    let path = json!([{"x": 5, "y": 5}, {"x": 6, "y": 5}]);
    scene.act(json!({"kind": "drag", "selector": "#k", "path": path, "pointer": "mouse"})).await.expect(200);
    scene.assert_logged("touched k touched k", page).await;
    scene.act(json!({"kind": "tap", "selector": "#l"})).await.expect(200);
    scene.assert_logged("touched k touched k box", page).await;
    scene.app.stop().await;
}
