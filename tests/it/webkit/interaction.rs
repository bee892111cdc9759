use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::{Scene, assert_failed};

/// Contract: operations 10.
#[tokio::test]
async fn tap_sends_trusted_touch_events() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    let tapped = scene.act(json!({"kind": "tap", "selector": "#button"})).await.expect(200).body;
    assert!(tapped["duration_ms"].is_u64());
    assert_eq!(
        (&tapped["ok"], &tapped["kind"], &tapped["url"]),
        (&json!(true), &json!("tap"), &json!(scene.site.url("/")))
    );
    assert_eq!(scene.text("#button").await, "trusted");

    scene.act(json!({"kind": "tap", "selector": "a[href='/list']"})).await.expect(200);
    scene.wait(json!({"kind": "url_matches", "pattern": "/list$"})).await.expect(200);
    assert_eq!(scene.text("#price").await, "Price: $1,234.50");

    // The target is below the viewport. It is scrolled into view, and touched before it is clicked.
    scene.visit("/touches").await;
    scene.act(json!({"kind": "tap", "selector": "#target"})).await.expect(200);
    let log = eventually(Duration::from_secs(5), "a click", async || {
        let log = scene.text("#log").await;
        log.as_str().is_some_and(|log| log.contains("click")).then_some(log)
    })
    .await;
    let mut events: Vec<_> = log.as_str().expect("text").split(' ').collect();
    assert_eq!(events.pop(), Some("click"), "{log}");
    events.sort_unstable();
    assert_eq!(events, ["pointerdown", "touchend", "touchstart1"], "not each event exactly once and trusted");
    scene.app.stop().await;
}

/// Contract: operations 4, 11. No part of the text is executed.
#[tokio::test]
async fn typed_text_arrives_unchanged() {
    let scene = Scene::start().await;
    let name = "Zoë Müller-Łuków \"x\" 'y' \\n ${z} `w` </script><script>document.title='pwned'</script> &amp; 100%";
    let text = "first line\nsecond: 日本語 한국어 Ελλάδα\nthird: 🙂 👩‍🚀 \u{1F1E9}\u{1F1EA}";
    let secret = "correct-horse-battery-staple-§5";

    scene.visit("/form").await;
    let slow = json!({"kind": "type", "selector": "#name", "text": "abcdef", "delay_ms": 100, "sensitive": true});
    let typed = scene.act(slow).await.expect(200).body;
    assert!(typed["duration_ms"].as_u64() >= Some(500), "{typed}");
    assert_eq!(scene.text("#keys").await, "a b c d e f");
    scene.act(json!({"kind": "type", "selector": "#secret", "text": secret})).await.expect(200);
    // Before the page is read, because its contents would store the text.
    assert_nowhere_in_clear(&scene, &[secret, "abcdef"]).await;

    scene.visit("/form").await;
    for (selector, text) in [("#name", name), ("#text", text), ("#secret", secret)] {
        let typed = scene.act(json!({"kind": "type", "selector": selector, "text": text})).await.expect(200).body;
        assert_eq!((&typed["ok"], &typed["kind"]), (&json!(true), &json!("type")));
    }
    scene.act(json!({"kind": "tap", "selector": "#check"})).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#send"})).await.expect(200);
    scene.wait(json!({"kind": "url_matches", "pattern": "/submitted"})).await.expect(200);
    assert_eq!(scene.text("#name").await, name);
    assert_eq!(scene.text("#text").await, text);
    assert_eq!(scene.text("#secret").await, secret);
    assert_eq!(scene.text("#check").await, "on");
    assert_eq!(scene.state().await["title"], "Submitted");
    scene.app.stop().await;
}

pub async fn assert_nowhere_in_clear(scene: &Scene, secrets: &[&str]) {
    let rows: Vec<String> = sqlx::query_scalar(
        "select i::text from intents i union all select convert_from(job, 'UTF8') from apalis.jobs
         union all select e::text from events e union all select a::text from audit_log a",
    )
    .fetch_all(&scene.app.database.pool)
    .await
    .expect("rows");
    assert!(
        rows.iter().any(|row| ["#name", "login", "wait"].iter().any(|part| row.contains(part))),
        "no rows of the operations"
    );
    for secret in secrets {
        assert!(!rows.iter().any(|row| row.contains(secret)), "{secret} is in the database");
        assert!(!scene.app.log(0).contains(secret), "{secret} is in the log");
    }
}

/// Contract: operations 13. An unknown key is 400, and the session stays `ready`.
#[tokio::test]
async fn press_sends_a_key_to_the_focused_element() {
    let scene = Scene::start().await;
    let press = async |key: &str| scene.act(json!({"kind": "press", "key": key})).await;
    scene.visit("/form").await;
    scene.act(json!({"kind": "tap", "selector": "#name"})).await.expect(200);
    for key in ["a", "b", "é", "Backspace", "ArrowLeft", "X", "Tab", "s"] {
        let pressed = press(key).await.expect(200).body;
        assert_eq!((&pressed["ok"], &pressed["kind"]), (&json!(true), &json!("press")), "{key}");
    }
    assert_eq!(scene.text("#keys").await, "a b é Backspace ArrowLeft X Tab s");
    for key in ["Nonsense", "Enterr", "ab"] {
        press(key).await.invalid("action.key");
        scene.assert_ready().await;
    }
    assert_eq!(scene.text("#keys").await, "a b é Backspace ArrowLeft X Tab s", "an invalid key was typed");
    press("Enter").await.expect(200);
    scene.wait(json!({"kind": "url_matches", "pattern": "/submitted"})).await.expect(200);
    assert_eq!(scene.text("#name").await, "aXb");
    assert_eq!(scene.text("#secret").await, "s", "Tab did not move to the next field");
    scene.app.stop().await;
}

/// Contract: operations 14. Deltas are in CSS pixels. Positive values are down and right.
#[tokio::test]
async fn page_and_elements_scroll_by_deltas() {
    let scene = Scene::start().await;
    scene.visit("/scrolling").await;
    let scroll = async |action: Value, shown_by: &str, expected: &str| {
        let scrolled = scene.act(action).await.expect(200).body;
        assert_eq!((&scrolled["ok"], &scrolled["kind"]), (&json!(true), &json!("scroll")));
        eventually(Duration::from_secs(5), &format!("{shown_by} is {expected}"), async || {
            (scene.text(shown_by).await == expected).then_some(())
        })
        .await;
    };
    scroll(json!({"kind": "scroll", "delta_y": 700}), "#at", "0,700").await;
    scroll(json!({"kind": "scroll", "delta_x": 250, "delta_y": -200}), "#at", "250,500").await;
    scroll(json!({"kind": "scroll"}), "#at", "250,500").await;
    scroll(json!({"kind": "scroll", "delta_x": -9_999, "delta_y": -9_999}), "#at", "0,0").await;
    scroll(json!({"kind": "scroll", "selector": "#box", "delta_x": 30, "delta_y": 400}), "#in", "30,400").await;
    scroll(json!({"kind": "scroll", "selector": "#box", "delta_y": -150}), "#in", "30,250").await;
    assert_eq!(scene.text("#at").await, "0,0", "the page scrolled with its element");
    scene.app.stop().await;
}

/// Contract: operations 1, 4. The session stays `ready`. No part of it is executed.
#[tokio::test]
async fn invalid_selector_is_400() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for selector in
        ["][", "p:nonsense(", "'); document.title = 'pwned'; ('", "`${document.title = 'pwned'}`", "a\u{0}b{"]
    {
        for action in [
            json!({"kind": "tap", "selector": selector}),
            json!({"kind": "type", "selector": selector, "text": "x"}),
            json!({"kind": "scroll", "selector": selector, "delta_y": 1}),
        ] {
            scene.act(action).await.invalid("action.selector");
        }
    }
    scene.assert_ready().await;
    assert_eq!(scene.state().await["title"], "Home");
    // Quotes are allowed: this one is a valid selector.
    scene.act(json!({"kind": "tap", "selector": "#button:not([title=\"'); alert(1); ('\"])"})).await.expect(200);
    assert_eq!(scene.text("#button").await, "trusted");
    scene.app.stop().await;
}

/// Contract: operations 15. The session errors unless the caller set `on_timeout` to `return`.
#[tokio::test]
async fn missing_element_is_a_timeout() {
    let mut scene = Scene::start().await;
    for action in [
        json!({"kind": "tap", "selector": "#nowhere"}),
        json!({"kind": "tap", "selector": "#hidden"}),
        json!({"kind": "type", "selector": "#nowhere", "text": "x"}),
        json!({"kind": "scroll", "selector": "#nowhere", "delta_y": 1}),
    ] {
        scene.visit("/").await;
        let kind = action["kind"].clone();
        let told = json!({"action": action, "timeout_ms": 300, "on_timeout": "return"});
        let told = scene.operate("interact", told).await.expect(200).body;
        assert_eq!((&told["ok"], &told["kind"]), (&json!(false), &kind), "{action}");
        assert!((300..2_000).contains(&told["duration_ms"].as_u64().expect("milliseconds")), "{told}");
        scene.assert_ready().await;

        scene.operate("interact", json!({"action": action, "timeout_ms": 300})).await.problem(504, "session-timeout");
        assert_failed(&scene.app, &scene.client, &scene.session, "interact", "SessionTimeoutError").await;
        scene.begin_again().await;
    }
    scene.app.stop().await;
}
