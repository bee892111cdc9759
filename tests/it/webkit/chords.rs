//! Keys with modifiers.

use serde_json::{Value, json};

use crate::webkit::Scene;

/// All events are trusted.
const PAGE: &str = "<title>chords</title>
<input id=field value='one two three'><textarea id=area>one two\nthree four</textarea><textarea id=last></textarea>
<output id=now></output><output id=log></output><output id=caught></output>
<script>
for (const type of ['keydown', 'keypress', 'keyup']) {
  addEventListener(type, (event) => {
    const held = [['C', event.ctrlKey], ['S', event.shiftKey], ['A', event.altKey], ['M', event.metaKey]];
    log.textContent += `${type} ${event.key} ${held.filter(([, is]) => is).map(([name]) => name).join('')}${event.isTrusted ? '' : '!'}, `;
    if (event.key === 'k' && event.metaKey && type === 'keydown') {
      event.preventDefault();
      caught.textContent = 'Meta+k';
    }
  });
}
addEventListener('keyup', () => {
  const { value, selectionStart, selectionEnd } = document.activeElement;
  const text = `${value.slice(0, selectionStart)}[${value.slice(selectionStart, selectionEnd)}]${value.slice(selectionEnd)}`;
  now.textContent = text.replaceAll('\\n', '/');
});
</script>";

async fn press(scene: &Scene, chord: &str) {
    let pressed = scene.act(json!({"kind": "press", "key": chord})).await.expect(200).body;
    assert_eq!((&pressed["ok"], &pressed["kind"]), (&json!(true), &json!("press")), "{chord}");
}

/// With the selection in brackets.
async fn selection(scene: &Scene) -> Value {
    scene.text("#now").await
}

/// Contract: operations 13. They go down as written, and up in the reverse order.
#[tokio::test]
async fn chord_presses_its_modifiers_around_the_key() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    scene.act(json!({"kind": "tap", "selector": "#field"})).await.expect(200);
    press(&scene, "Control+Shift+ArrowLeft").await;
    let expected = "keydown Control C, keydown Shift CS, keydown ArrowLeft CS, \
        keyup ArrowLeft CS, keyup Shift C, keyup Control ,";
    assert_eq!(scene.text("#log").await, expected);
    assert_eq!(selection(&scene).await, "one two [three]");

    scene.show(PAGE).await;
    scene.act(json!({"kind": "tap", "selector": "#field"})).await.expect(200);
    press(&scene, "Control++").await;
    press(&scene, "Alt+Meta+F5").await;
    let log = scene.text("#log").await;
    let log = log.as_str().expect("text");
    assert!(log.starts_with("keydown Control C, keydown + C, "), "{log}");
    assert!(log.contains("keydown Alt A, keydown Meta AM, keydown F5 AM, "), "{log}");
    assert!(log.ends_with("keyup F5 AM, keyup Meta A, keyup Alt ,"), "{log}");
    assert!(!log.contains('!'), "{log}");

    press(&scene, "Tab").await;
    press(&scene, "Shift+Tab").await;
    press(&scene, "End").await;
    press(&scene, "Shift+a").await;
    assert_eq!(selection(&scene).await, "one two threeA[]");
    scene.app.stop().await;
}

/// Contract: operations 13. The phone is one with iOS. Those that the browser does not have type nothing, and a page can handle
/// them.
#[tokio::test]
async fn shortcut_has_the_effect_of_a_phone() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    scene.act(json!({"kind": "tap", "selector": "#area"})).await.expect(200);
    for (chord, expected) in [
        ("Meta+ArrowUp", "[]one two/three four"),
        ("Meta+ArrowRight", "one two[]/three four"),
        ("Shift+Alt+ArrowLeft", "one [two]/three four"),
        ("Meta+ArrowDown", "one two/three four[]"),
        ("Shift+Meta+ArrowLeft", "one two/[three four]"),
        ("Meta+a", "[one two/three four]"),
        ("End", "one two/three four[]"),
        ("Control+a", "[one two/three four]"),
        ("Meta+c", "[one two/three four]"),
        ("Meta+ArrowDown", "one two/three four[]"),
        ("Alt+Backspace", "one two/three []"),
        ("Meta+Backspace", "one two/[]"),
        ("Meta+k", "one two/[]"),
        ("Meta+z", "one two/[]"),
        ("Meta+Delete", "one two/[]"),
        ("a", "one two/a[]"),
        ("x", "one two/ax[]"),
        ("Meta+a", "[one two/ax]"),
        ("Meta+x", "[]"),
        ("Meta+v", "one two/ax[]"),
    ] {
        press(&scene, chord).await;
        assert_eq!(selection(&scene).await, expected, "{chord}");
    }
    assert_eq!(scene.text("#caught").await, "Meta+k");
    assert!(!scene.text("#log").await.as_str().expect("text").contains("keypress k"));
    scene.app.stop().await;
}

/// Contract: operations 13. A chord with an unknown key is rejected too.
#[tokio::test]
async fn impossible_chord_is_400() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    let long = format!("Control+{}", "a".repeat(21));
    for chord in [
        "Control+Hyper",
        "Hyper+a",
        "control+a",
        "Control+Control",
        "Shift+Control+Shift+a",
        "Enter+a",
        "Control+",
        "++",
        "Control+ab",
        "",
        long.as_str(),
        "Control+Shift+Alt+Meta+Control+ArrowRight",
    ] {
        scene.act(json!({"kind": "press", "key": chord})).await.invalid("action.key");
    }
    scene.assert_ready().await;
    assert_eq!(scene.text("#log").await, "");
    scene.app.stop().await;
}
