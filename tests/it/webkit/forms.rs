//! `search` and `login` with `sessions.direct_driver = real` (contract: operations 25).

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::support::App;
use crate::webkit::Scene;
use crate::webkit::interaction::assert_nowhere_in_clear;

async fn scene_with_a_real_direct_driver() -> Scene {
    Scene::of(App::webkit().set("sessions.direct_driver", "real").start().await).await
}

/// Contract: operations 26.
#[tokio::test]
async fn search_types_and_submits_the_query() {
    let scene = scene_with_a_real_direct_driver().await;
    let search = async |body: Value| {
        scene.visit("/search").await;
        let mut found = scene.operate("search", body).await.expect(200).body;
        let duration = found.as_object_mut().expect("an object").remove("duration_ms");
        assert!(duration.is_some_and(|duration| duration.is_u64()));
        found
    };
    let query = "Zoë & \"friends\" '); alert(1); ('";
    let found = search(json!({"query": query, "wait_for_results_selector": "#q"})).await;
    assert_eq!(found, json!({"submitted": true, "query_truncated": false, "results_visible": true}));
    assert_eq!(scene.text("#q").await, query);

    let chosen = json!({"query": "x", "search_selector": "input[name=q]", "wait_for_results_selector": "#nowhere", "timeout_seconds": 1});
    let found = search(chosen).await;
    assert_eq!(found, json!({"submitted": true, "query_truncated": false, "results_visible": false}));

    let found = search(json!({"query": "kept", "submit": false})).await;
    assert_eq!(found, json!({"submitted": false, "query_truncated": false}));
    assert_eq!(scene.state().await["url"], scene.site.url("/search"), "the form was submitted");
    scene.act(json!({"kind": "press", "key": "Enter"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "#q"})).await.expect(200);
    assert_eq!(scene.text("#q").await, "kept", "the query was not typed");

    scene.visit("/search").await;
    scene.operate("search", json!({"query": "x", "search_selector": "]["})).await.invalid("search_selector");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 27. `logged_in` is an assessment of the page after the login.
#[tokio::test]
async fn login_reports_whether_it_succeeded() {
    let scene = scene_with_a_real_direct_driver().await;
    let (username, good, bad) = ("ada@example.com", "correct horse", "wrong-horse-battery");
    let login = async |password: &str, more: Value| {
        scene.visit("/login").await;
        let mut body = json!({"username": username, "password": password, "timeout_seconds": 2});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let mut led = scene.operate("login", body).await.expect(200).body;
        let duration = led.as_object_mut().expect("an object").remove("duration_ms");
        assert!(duration.is_some_and(|duration| duration.is_u64()));
        led
    };
    let expected = |logged_in: bool, path: &str| {
        let url = scene.site.url(path);
        json!({"submitted": true, "credentials_truncated": false, "logged_in": logged_in, "post_login_url": url})
    };

    assert_eq!(login(good, json!({})).await, expected(true, "/account"));
    assert_eq!(scene.text("#welcome").await, "Welcome");
    assert_eq!(login(bad, json!({})).await, expected(false, "/login"));
    let chosen = json!({
        "username_selector": "[name=email]", "password_selector": "[name=password]", "submit_selector": "button",
        "success_selector": "#welcome",
    });
    assert_eq!(login(good, chosen.clone()).await, expected(true, "/account"));
    assert_eq!(login(bad, chosen).await, expected(false, "/login"));
    // A success selector that does not match means that the login failed, whatever the page shows.
    assert_eq!(login(good, json!({"success_selector": "#nowhere"})).await, expected(false, "/account"));
    scene.assert_ready().await;

    assert_nowhere_in_clear(&scene, &[good, bad, username]).await;
    scene.app.stop().await;
}

/// Contract: operations 28. The result reports that, and the session stays `ready`.
#[tokio::test]
async fn typing_beyond_its_time_limit_submits_nothing() {
    let app = App::webkit().set("sessions.direct_driver", "real").set("limits.form_work", "700ms");
    let scene = Scene::of(app.start().await).await;
    let long = "abcdefghij".repeat(1_000);
    let cases = [
        (
            "search",
            json!({"query": long, "wait_for_results_selector": "#q", "timeout_seconds": 120}),
            json!({"submitted": false, "query_truncated": true}),
        ),
        (
            "login",
            json!({"username": "ada@example.com", "password": long, "timeout_seconds": 120}),
            json!({"submitted": false, "credentials_truncated": true, "logged_in": false}),
        ),
    ];
    for (operation, body, expected) in cases {
        scene.visit(&format!("/{operation}")).await;
        let mut answer = scene.operate(operation, body).await.expect(200).body;
        let duration = answer.as_object_mut().expect("an object").remove("duration_ms");
        assert!(duration.is_some_and(|duration| duration.as_u64() < Some(2_000)), "{operation}");
        assert_eq!(answer, expected);
        assert_eq!(scene.state().await["url"], scene.site.url(&format!("/{operation}")));
        scene.assert_ready().await;
    }
    scene.app.stop().await;
}

/// Contract: operations 28. The time is that of a form and the margin after it.
#[tokio::test]
async fn search_in_a_hanging_browser_is_504() {
    let app = App::webkit().set("sessions.direct_driver", "real").set("limits.form_work", "300ms");
    let scene = Scene::of(app.set("limits.form_teardown", "100ms").start().await).await;
    scene.visit("/search").await;
    for host in scene.app.processes("kitfleet-host") {
        kill(host, Signal::SIGSTOP).expect("it runs");
    }
    let begun = Instant::now();
    scene.operate("search", json!({"query": "x"})).await.problem(504, "session-timeout");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(scene.client.status(&scene.session).await, "errored");
    scene.app.stop().await;
}
