//! `type` and `fill` in fields of every kind.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

/// Shows the value of `#i` and the events it has received in `#o`.
const SHOWN: &str = "<p id=o></p><script>
let log = '';
for (const type of ['input', 'change']) i.addEventListener(type, (event) => { log += ' ' + type; });
setInterval(() => { o.textContent = JSON.stringify(i.value) + log; }, 20)</script>";

impl Scene {
    async fn show_field(&self, html: &str) {
        self.show(&format!("<!doctype html><body>{html}{SHOWN}")).await;
    }

    async fn assert_field(&self, expected: &str, page: &str) {
        eventually(Duration::from_secs(5), &format!("{expected} on {page}"), async || {
            (self.text("#o").await == expected).then_some(())
        })
        .await;
    }

    async fn type_into(&self, text: &str) -> Value {
        self.act(json!({"kind": "type", "selector": "#i", "text": text})).await.expect(200).body
    }
}

/// Contract: operations 11. HTML defines the form of these values.
#[tokio::test]
async fn fields_with_a_picker_take_values() {
    let scene = Scene::start().await;
    for (kind, value, wrong) in [
        ("date", "2025-11-08", "11/08/2025"),
        ("time", "09:30", "9.30"),
        ("month", "2025-02", "2025-13"),
        ("week", "2025-W07", "2025-7"),
        ("datetime-local", "2025-11-08T09:30", "2025-11-08"),
        ("color", "#ff8800", "orange"),
        ("range", "70", "much"),
    ] {
        for action in ["type", "fill"] {
            let page = format!("<input id=i type={kind}>");
            scene.show_field(&page).await;
            let member = if action == "type" { "text" } else { "value" };
            let act = |value: &str| scene.act(json!({"kind": action, "selector": "#i", member: value}));
            act(wrong).await.invalid(&format!("action.{member}"));
            act(value).await.expect(200);
            scene.assert_field(&format!("{value:?} input change"), &page).await;
        }
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 11. The page has the last word.
#[tokio::test]
async fn type_leaves_the_caret_where_the_page_puts_it() {
    let scene = Scene::start().await;
    let mask = "<input id=i value='(__) __'><script>
      i.addEventListener('click', () => { const at = i.value.indexOf('_'); i.setSelectionRange(at, at); });
      i.addEventListener('beforeinput', (event) => {
        event.preventDefault();
        const at = i.selectionStart;
        if (i.value[at] !== '_') return;
        i.value = i.value.slice(0, at) + event.data + i.value.slice(at + 1);
        const next = i.value.indexOf('_');
        i.setSelectionRange(next < 0 ? 99 : next, next < 0 ? 99 : next);
      })</script>";
    let long = "a text that is longer than half of its field";
    for (page, text, value) in [
        (mask.to_owned(), "1234", "(12) 34"),
        ("<input id=i value=old onfocus=this.select()>".to_owned(), "new", "new"),
        ("<input id=i value=old onclick=this.select()>".to_owned(), "new", "new"),
        ("<input id=i value=' €' onfocus='setTimeout(() => this.setSelectionRange(0, 0))'>".to_owned(), "12", "12 €"),
        (
            format!("<input id=i style=width:300px value='{long}'>"),
            "!",
            "a text that is longer than half of its field!",
        ),
        ("<input id=i value=old autofocus>".to_owned(), "er", "older"),
        ("<input id=i type=number style=width:30px>".to_owned(), "5", "5"),
        ("<textarea id=i></textarea>".to_owned(), "a\tb\nc", "a\tb\nc"),
    ] {
        scene.show_field(&page).await;
        scene.type_into(text).await;
        eventually(Duration::from_secs(5), &format!("{value:?} on {page}"), async || {
            let shown = scene.text("#o").await;
            shown.as_str().is_some_and(|shown| shown.starts_with(&json!(value).to_string())).then_some(())
        })
        .await;
    }

    // A caret that is in the field already stays.
    scene.show_field("<input id=i>").await;
    scene.type_into("abc").await;
    scene.act(json!({"kind": "press", "key": "ArrowLeft"})).await.expect(200);
    scene.type_into("X").await;
    scene.assert_field("\"abXc\" input input input input", "the field").await;
    scene.app.stop().await;
}

/// Contract: operations 11. The body is editable, or the document is in design mode.
#[tokio::test]
async fn editors_in_frames_take_text() {
    let scene = Scene::start().await;
    for page in [
        "<iframe id=f srcdoc='<body contenteditable><p>a</p></body>'></iframe>",
        "<iframe id=f></iframe><script>f.contentDocument.designMode = 'on'; f.contentDocument.body.innerHTML = '<p>a</p>'</script>",
    ] {
        scene.show(page).await;
        scene.act(json!({"kind": "type", "selector": "#f >>> body", "text": " more"})).await.expect(200);
        assert_eq!(scene.text("#f >>> body").await, "a more", "{page}");
    }
    scene.app.stop().await;
}

/// Contract: operations 9. It fires `input` and `change`.
#[tokio::test]
async fn fill_replaces_the_content_of_a_field() {
    let scene = Scene::start().await;
    let fill = async |value: &str| scene.act(json!({"kind": "fill", "selector": "#i", "value": value})).await;
    for (page, value, shown) in [
        ("<input id=i value=old>", "new text", "\"new text\" input change"),
        ("<input id=i value=old>", "", "\"\" input change"),
        ("<input id=i type=number value=3>", "42", "\"42\" input change"),
        ("<textarea id=i>old</textarea>", "one line", "\"one line\" input change"),
    ] {
        scene.show_field(page).await;
        fill(value).await.expect(200);
        scene.assert_field(shown, page).await;
    }
    scene.show("<div id=i contenteditable><b>old</b> text</div>").await;
    fill("new").await.expect(200);
    assert_eq!(scene.text("#i").await, "new");

    for page in
        ["<input id=i type=checkbox>", "<input id=i type=file>", "<select id=i><option>a</select>", "<p id=i>text</p>"]
    {
        scene.show(page).await;
        fill("x").await.invalid("action.selector");
    }
    fill(&"x".repeat(10_001)).await.invalid("action.value");

    // What the field does not take, or the page prevents, is a 400, and the field keeps its value.
    for (page, value) in [
        ("<input id=i type=number value=3>", "many"),
        ("<input id=i type=range min=0 max=10 step=2 value=4>", "11"),
        ("<input id=i type=range min=0 max=10 step=2 value=4>", "3"),
        ("<input id=i value=old onbeforeinput='return false'>", "new"),
    ] {
        scene.show_field(page).await;
        let shown = async || scene.evaluate("return i.value").await.expect(200).body["value"].clone();
        let before = shown().await;
        fill(value).await.invalid("action.value");
        assert_eq!(shown().await, before, "{page}");
    }
    // A page can change what it has received.
    scene.show_field("<input id=i oninput='this.value = \"\"'>").await;
    fill("new").await.expect(200);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 12. Only the first characters have the pauses of the behavioural profile.
#[tokio::test]
async fn long_text_is_typed_fast() {
    let scene = Scene::start().await;
    scene.show("<textarea id=i></textarea><p id=o></p><script>setInterval(() => { o.textContent = i.value.length }, 20)</script>").await;
    let started = Instant::now();
    scene.type_into(&"abcdefghi ".repeat(1_000)).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    scene.assert_field("10000", "the page").await;
    scene.app.stop().await;
}
