//! Conditions that become true, and conditions that do not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::webkit::{Scene, assert_failed};

/// Contract: operations 16.
#[tokio::test]
async fn wait_ends_when_its_condition_becomes_true() {
    let scene = Scene::start().await;
    let matched = async |path: &str, condition: Value| {
        scene.visit(path).await;
        let waited = scene.wait(condition.clone()).await.expect(200).body;
        assert_eq!((&waited["matched"], &waited["kind"]), (&json!(true), &condition["kind"]), "{condition}");
        assert!(waited["duration_ms"].is_u64() && waited["url"].is_string(), "{waited}");
        waited
    };
    matched("/late", json!({"kind": "selector", "selector": "#comes"})).await;
    assert_eq!(scene.text("#comes").await, "came");
    matched("/late", json!({"kind": "selector_hidden", "selector": "#goes"})).await;
    assert_eq!(scene.text("#goes").await, Value::Null);
    // An invisible element counts as hidden.
    matched("/", json!({"kind": "selector_hidden", "selector": "#hidden"})).await;
    let arrived = matched("/late", json!({"kind": "url_matches", "pattern": "/late/h.re$"})).await;
    assert_eq!(arrived["url"], scene.site.url("/late/here"), "pushState moves without a load");
    let waited = matched("/", json!({"kind": "time", "ms": 400})).await;
    assert!((400..3_000).contains(&waited["duration_ms"].as_u64().expect("milliseconds")), "{waited}");
    // The page may change during a wait.
    matched("/hop", json!({"kind": "selector", "selector": "li[data-id='2']"})).await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 3. The session errors unless the caller set `on_timeout` to `return`.
#[tokio::test]
async fn wait_without_match_is_a_timeout() {
    let mut scene = Scene::start().await;
    for condition in [
        json!({"kind": "selector", "selector": "#nowhere"}),
        json!({"kind": "selector", "selector": "#hidden"}),
        json!({"kind": "selector_hidden", "selector": "#title"}),
        json!({"kind": "url_matches", "pattern": "/elsewhere$"}),
        json!({"kind": "time", "ms": 60_000}),
    ] {
        scene.visit("/").await;
        let told = json!({"condition": condition, "timeout_ms": 300, "on_timeout": "return"});
        let told = scene.operate("wait", told).await.expect(200).body;
        assert_eq!((&told["matched"], &told["kind"]), (&json!(false), &condition["kind"]));
        assert!((300..2_000).contains(&told["duration_ms"].as_u64().expect("milliseconds")), "{told}");
        scene.assert_ready().await;

        scene.operate("wait", json!({"condition": condition, "timeout_ms": 300})).await.problem(504, "session-timeout");
        assert_failed(&scene.app, &scene.client, &scene.session, "wait", "SessionTimeoutError").await;
        scene.begin_again().await;
    }
    scene.app.stop().await;
}

/// Contract: operations 1, 4, 17. Regular expressions take linear time. The session stays `ready`.
#[tokio::test]
async fn invalid_condition_is_400_and_hostile_regex_is_bounded() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for selector in ["][", "'); document.title = 'pwned'; ('"] {
        for kind in ["selector", "selector_hidden"] {
            scene.wait(json!({"kind": kind, "selector": selector})).await.invalid("condition.selector");
        }
    }
    scene.wait(json!({"kind": "url_matches", "pattern": "("})).await.invalid("condition.pattern");
    scene.assert_ready().await;
    assert_eq!(scene.state().await["title"], "Home");

    // A backtracking engine would practically never end on this URL.
    scene.visit(&format!("/list?{}!", "a".repeat(2_000))).await;
    let started = Instant::now();
    let hostile =
        json!({"condition": {"kind": "url_matches", "pattern": "(a+)+$"}, "timeout_ms": 500, "on_timeout": "return"});
    assert_eq!(scene.operate("wait", hostile).await.expect(200).body["matched"], false);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    scene.wait(json!({"kind": "url_matches", "pattern": "(a+)+!$"})).await.expect(200);
    scene.assert_ready().await;

    // A linear expression that exceeds the timeout ends at the timeout and does not delay other sessions.
    scene.visit(&format!("/list?{}", "a".repeat(30_000))).await;
    let long = format!("{}b$", "(?:[a-c]?[a-d]?){1,60}".repeat(40));
    let long =
        json!({"condition": {"kind": "url_matches", "pattern": long}, "timeout_ms": 1_000, "on_timeout": "return"});
    let (other, home) = (scene.client.session().await, scene.site.url("/"));
    let started = Instant::now();
    for _ in 0..2 {
        let (waited, visited) = tokio::join!(scene.operate("wait", long.clone()), scene.client.navigate(&other, &home));
        assert_eq!(waited.expect(200).body["matched"], false);
        assert_eq!(visited.body["status"], 200);
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    scene.assert_ready().await;
    scene.app.stop().await;
}
