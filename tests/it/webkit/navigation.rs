//! `navigate`: pages that load, pages that fail, and pages that try to prevent navigation.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::app::free_port;
use crate::support::{App, Site, eventually};
use crate::webkit::{Scene, assert_failed, until_status};

/// Contract: operations 6.
#[tokio::test]
async fn navigation_follows_redirects() {
    let scene = Scene::start().await;
    let (from, to) = (scene.site.url("/redirect?to=/redirect?to=/list"), scene.site.url("/list"));
    let arrived = scene.client.navigate(&scene.session, &from).await.body;
    assert!(arrived["duration_ms"].is_u64());
    assert_eq!((&arrived["url"], &arrived["final_url"], &arrived["status"]), (&json!(from), &json!(to), &json!(200)));
    assert_eq!(scene.text("#price").await, "Price: $1,234.50");

    // To a fragment of the page, to the same page, and to another page.
    for path in ["/list#price", "/list#none", "/list", "/list", "/"] {
        let arrived = scene.visit(path).await.body;
        assert_eq!(arrived["status"], 200, "{path}");
        assert_eq!(arrived["final_url"], scene.site.url(path));
        assert_eq!(scene.state().await["url"], scene.site.url(path));
    }
    assert_eq!(scene.text("#title").await, "Home");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 7, 18. The error in `page_state` has the kind `http`.
#[tokio::test]
async fn http_error_page_loads_with_its_status() {
    let scene = Scene::start().await;
    for code in [404, 500] {
        let arrived = scene.visit(&format!("/status?code={code}")).await.body;
        assert_eq!(arrived["status"], code);
        let state = scene.state().await;
        let page_state = &state["page_state"];
        assert_eq!(page_state["state"], "errored");
        assert_eq!(page_state["error"]["kind"], "http");
        assert_eq!(page_state["error"]["http_status"], code);
        assert!(page_state["error"]["message"].is_string(), "{page_state}");
        assert_eq!(scene.text("h1").await, "status");
        scene.assert_ready().await;
    }
    // The next navigation to a good page succeeds.
    assert_eq!(scene.visit("/").await.body["status"], 200);
    assert_eq!(scene.state().await["page_state"], json!({"state": "loaded"}));
    scene.app.stop().await;
}

/// Contract: operations 6. `networkidle` also waits for later requests of the page.
#[tokio::test]
async fn navigation_waits_for_the_requested_load_event() {
    let scene = Scene::start().await;
    let navigate = async |path: &str, until: &str| {
        let body = json!({"url": scene.site.url(path), "wait_until": until});
        let arrived = scene.operate("navigate", body).await.expect(200).body;
        Duration::from_millis(arrived["duration_ms"].as_u64().expect("milliseconds"))
    };
    let picture = Duration::from_millis(1_500);

    assert!(navigate("/heavy", "domcontentloaded").await < picture);
    assert_eq!(scene.text("h1").await, "heavy");
    assert_eq!(scene.state().await["page_state"], json!({"state": "loading"}));
    eventually(Duration::from_secs(10), "the image is loaded", async || {
        (scene.state().await["page_state"] == json!({"state": "loaded"})).then_some(())
    })
    .await;
    assert!(navigate("/heavy?again", "load").await >= picture);
    assert_eq!(scene.state().await["page_state"], json!({"state": "loaded"}));

    navigate("/chatty", "load").await;
    assert_eq!(scene.text("#done").await, "not yet");
    navigate("/chatty?again", "networkidle").await;
    assert_eq!(scene.text("#done").await, "done");
    scene.app.stop().await;
}

/// Contract: operations 6. Other requests are waited for beside them.
#[tokio::test]
async fn network_is_idle_beside_a_stream() {
    let scene = Scene::start().await;
    let idle = async |html: &str| {
        let body = json!({"url": scene.written(html), "wait_until": "networkidle", "timeout_ms": 8_000});
        let arrived = scene.operate("navigate", body).await.expect(200).body;
        assert_eq!((&arrived["status"], &arrived["timed_out"]), (&json!(200), &Value::Null), "{html}");
        Duration::from_millis(arrived["duration_ms"].as_u64().expect("milliseconds"))
    };
    for script in [
        "new EventSource('/stream?type=text/event-stream')",
        "new EventSource('/never')",
        "new EventSource('/stream?type=text/event-stream&ends=1')",
        "fetch('/stream?type=text/plain').then(answer => answer.body.getReader().read())",
        "const request = new XMLHttpRequest(); request.open('GET', '/stream?type=text/plain'); request.send()",
        "fetch('/never')",
        "navigator.sendBeacon('/never', 'x')",
        "setInterval(() => navigator.sendBeacon('/slow?ms=100', 'x'), 150)",
        "fetch('/never', { method: 'POST', keepalive: true })",
        "onload = () => setTimeout(() => fetch('/never'), 200)",
    ] {
        let elapsed = idle(&format!("<script>{script}</script>")).await;
        assert!((Duration::from_millis(500)..Duration::from_secs(5)).contains(&elapsed), "{script}: {elapsed:?}");
    }
    let late = "new EventSource('/stream?type=text/event-stream'); onload = () => setTimeout(() =>
        fetch('/slow?ms=300').then(() => fetch('/slow?ms=300')).then(() => { at.textContent = 'done' }), 200)";
    idle(&format!("<p id=at>not yet</p><script>{late}</script>")).await;
    assert_eq!(scene.text("#at").await, "done");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 3. With `on_timeout: return` the response has the state so far.
#[tokio::test]
async fn navigation_that_times_out_can_keep_the_session() {
    let scene = Scene::start().await;
    let navigate = async |url: String, until: &str| {
        let body = json!({"url": url, "wait_until": until, "timeout_ms": 700, "on_timeout": "return"});
        let arrived = scene.operate("navigate", body).await.expect(200).body;
        assert_eq!((&arrived["url"], &arrived["final_url"]), (&json!(url), &json!(url)));
        assert_eq!((&arrived["timed_out"], &arrived["error"]), (&json!(true), &Value::Null), "{arrived}");
        scene.assert_ready().await;
        arrived["status"].clone()
    };
    // A server that does not answer. There is no page yet, then the previous page stays and works.
    assert_eq!(navigate(scene.site.url("/never"), "load").await, Value::Null);
    scene.visit("/").await;
    assert_eq!(navigate(scene.site.url("/never"), "networkidle").await, Value::Null);
    assert_eq!(scene.text("#title").await, "Home");
    scene.act(json!({"kind": "tap", "selector": "#link"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "#price"})).await.expect(200);
    // The load of a document continues after the timeout.
    assert_eq!(navigate(scene.site.url("/heavy"), "load").await, 200);
    assert_eq!(scene.text("h1").await, "heavy");
    eventually(Duration::from_secs(10), "the page is loaded", async || {
        (scene.state().await["page_state"] == json!({"state": "loaded"})).then_some(())
    })
    .await;
    // A page that is never idle, and one that hangs.
    let busy = scene.written("<script>setInterval(() => fetch('/slow?ms=50'), 100)</script>");
    assert_eq!(navigate(busy, "networkidle").await, 200);
    assert_eq!(navigate(scene.site.url("/stuck"), "load").await, 200);
    assert_eq!(scene.visit("/").await.body["status"], 200);
    assert_eq!(scene.text("#title").await, "Home");
    // A failure is not a timeout.
    let body = json!({"url": "http://no-such-host.invalid/", "on_timeout": "return"});
    scene.operate("navigate", body).await.problem(502, "driver-error");
    assert_failed(&scene.app, &scene.client, &scene.session, "navigate", "DriverError").await;
    scene.app.stop().await;
}

/// Contract: operations 7. With `on_failure: return` the response has the error.
#[tokio::test]
async fn failed_navigation_can_keep_the_session() {
    let scene = Scene::start().await;
    let navigate = async |url: &str| {
        let body = json!({"url": url, "timeout_ms": 5_000, "on_failure": "return"});
        scene.operate("navigate", body).await.expect(200).body
    };
    let targets = [
        ("dns", "http://no-such-host.invalid/".to_owned()),
        ("net", format!("http://127.0.0.1:{}/", free_port())),
        ("net", scene.site.resetting()),
        ("tls", scene.site.untrusted()),
        ("net", scene.site.url("/loop")),
    ];
    for has_page in [false, true] {
        for (kind, url) in &targets {
            let failed = navigate(url).await;
            assert_eq!((&failed["status"], &failed["error"]["kind"]), (&Value::Null, &json!(kind)), "{url}: {failed}");
            assert!(failed["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{failed}");
            assert_eq!((&failed["url"], &failed["timed_out"]), (&json!(url), &Value::Null));
            assert!(failed["final_url"].is_string() && failed["duration_ms"].is_u64(), "{failed}");
            let page_state = &scene.state().await["page_state"];
            assert_eq!(
                (&page_state["state"], &page_state["error"]["kind"]),
                (&json!("errored"), &json!(kind)),
                "{url}"
            );
            if has_page {
                assert_eq!(scene.text("#title").await, "Home", "the previous page is gone after {url}");
            }
            scene.assert_ready().await;
        }
        let redirected = scene.site.url("/redirect?to=http://no-such-host.invalid/");
        assert_eq!(navigate(&redirected).await["final_url"], "http://no-such-host.invalid/");
        assert_eq!(scene.visit("/").await.body["status"], 200);
        assert_eq!(scene.state().await["page_state"], json!({"state": "loaded"}));
    }
    // A page that loads, and an HTTP error, are as without it.
    for (path, status) in [("/list", 200), ("/status?code=503", 503)] {
        let arrived = navigate(&scene.site.url(path)).await;
        assert_eq!((&arrived["status"], &arrived["error"]), (&json!(status), &Value::Null));
    }
    let body = json!({"url": scene.site.url("/never"), "timeout_ms": 500, "on_failure": "return"});
    let late = scene.operate("navigate", body).await.expect(200).body;
    assert_eq!((&late["status"], &late["timed_out"]), (&Value::Null, &json!(true)));
    assert_eq!(late["error"]["kind"], "timeout", "{late}");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 7, 37. This holds for every `on_failure`.
#[tokio::test]
async fn response_without_a_page_keeps_the_session() {
    let mut scene = Scene::start().await;
    for (path, to, status) in [
        ("/download", "/download", 200),
        ("/redirect?to=/download", "/download", 200),
        ("/no-content", "/no-content", 204),
        ("/redirect?to=/no-content", "/no-content", 204),
        ("/status?code=205", "/status?code=205", 205),
        ("/status?code=304", "/status?code=304", 304),
    ] {
        for on_failure in ["fail", "return"] {
            for has_page in [false, true] {
                if has_page {
                    scene.visit("/").await;
                }
                let body = json!({"url": scene.site.url(path), "wait_until": "networkidle", "on_failure": on_failure});
                let arrived = scene.operate("navigate", body).await.expect(200).body;
                assert_eq!(
                    (&arrived["status"], &arrived["error"]),
                    (&json!(status), &Value::Null),
                    "{path}: {arrived}"
                );
                assert_eq!(arrived["final_url"], scene.site.url(to));
                let state = scene.state().await;
                if has_page {
                    assert_eq!(scene.text("#title").await, "Home", "{path}");
                    assert_eq!(state["url"], scene.site.url("/"));
                    assert_eq!(state["page_state"], json!({"state": "loaded"}));
                } else {
                    assert_eq!(state["page_state"], Value::Null, "{path}");
                }
                scene.assert_ready().await;
            }
            scene.begin_again().await;
        }
    }
    // The page still works, and can be left.
    scene.visit("/").await;
    scene.visit("/download").await;
    scene.act(json!({"kind": "tap", "selector": "#link"})).await.expect(200);
    scene.wait(json!({"kind": "url_matches", "pattern": "/list$"})).await.expect(200);

    scene.visit("/then?key=reloaded&code=204").await;
    scene.act(json!({"kind": "reload"})).await.expect(200);
    assert_eq!(scene.text("#title").await, "then");
    scene.visit("/then?key=passed&code=204").await;
    scene.visit("/").await;
    for _ in 0..2 {
        let back = scene.act(json!({"kind": "back"})).await.expect(200).body;
        assert_eq!((&back["ok"], &back["url"]), (&json!(true), &json!(scene.site.url("/"))));
        assert_eq!(scene.text("#title").await, "Home");
    }
    scene.assert_ready().await;
    assert_eq!(scene.visit("/list").await.body["status"], 200);
    scene.app.stop().await;
}

/// Contract: operations 7; sessions 15. The failure is a 502, and publishes one event.
#[tokio::test]
async fn failed_navigation_errors_the_session() {
    let app = App::webkit().start().await;
    let site = Site::start().await;
    // The account has two slots, so that a later create fails if a failure does not free its slot.
    let client = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    let targets = [
        ("a name that does not resolve", "http://no-such-host.invalid/".to_owned()),
        ("a refused connection", format!("http://127.0.0.1:{}/", free_port())),
        ("a connection that is reset", site.resetting()),
        ("an untrusted certificate", site.untrusted()),
        ("redirects without end", site.url("/loop")),
    ];
    let mut details = BTreeSet::new();
    for (what, url) in targets {
        let session = client.session().await;
        let answer = client.operate(&session, "navigate", json!({"url": url})).await;
        assert_eq!(answer.status, 502, "{what}: {}", answer.body);
        details.insert(answer.problem(502, "driver-error").body["detail"].to_string());
        assert_failed(&app, &client, &session, "navigate", "DriverError").await;
    }
    // The error has the cause.
    assert_eq!(details.len(), 5, "{details:?}");
    let session = client.session().await;
    client.navigate(&session, &site.url("/")).await;
    app.stop().await;
}

/// Contract: sessions 16. The cause can be its server or its script.
#[tokio::test]
async fn page_that_never_finishes_loading_is_504() {
    let mut scene = Scene::start().await;
    for path in ["/never", "/stuck"] {
        let started = Instant::now();
        let body = json!({"url": scene.site.url(path), "timeout_ms": 700});
        scene.operate("navigate", body).await.problem(504, "session-timeout");
        assert!(started.elapsed() < Duration::from_secs(3), "{path} took {:?}", started.elapsed());
        assert_failed(&scene.app, &scene.client, &scene.session, "navigate", "SessionTimeoutError").await;
        scene.begin_again().await;
    }
    scene.app.stop().await;
}

/// Contract: sessions 16. Responses of operations are not delayed either.
#[tokio::test]
async fn page_in_an_endless_loop_does_not_block_deletion() {
    let mut scene = Scene::start().await;
    let spin = async |scene: &Scene| {
        let before = scene.site.hits();
        scene.visit("/spin").await;
        eventually(Duration::from_secs(5), "the page is in its loop", async || {
            (scene.site.hits() > before).then_some(())
        })
        .await;
    };

    spin(&scene).await;
    let tap = json!({"action": {"kind": "tap", "selector": "h1"}, "timeout_ms": 1_000});
    scene.operate("interact", tap.clone()).await.problem(504, "session-timeout");
    assert_failed(&scene.app, &scene.client, &scene.session, "interact", "SessionTimeoutError").await;

    // Deletes an idle session.
    scene.begin_again().await;
    spin(&scene).await;
    let path = format!("/v1/sessions/{}", scene.session);
    let started = Instant::now();
    scene.client.delete(&path).await.expect(204);
    assert!(started.elapsed() < Duration::from_secs(1), "DELETE took {:?}", started.elapsed());

    // Deletes a session during an operation, whose caller receives the error at once.
    scene.begin_again().await;
    spin(&scene).await;
    let tap = json!({"action": {"kind": "tap", "selector": "h1"}, "timeout_ms": 60_000});
    let path = format!("/v1/sessions/{}", scene.session);
    let destroy = async {
        until_status(&scene.client, &scene.session, "busy").await;
        let started = Instant::now();
        scene.client.delete(&path).await.expect(204);
        assert!(started.elapsed() < Duration::from_secs(1), "DELETE took {:?}", started.elapsed());
        Instant::now()
    };
    let (answer, destroyed) = tokio::join!(scene.operate("interact", tap), destroy);
    answer.problem(410, "session-destroyed");
    assert!(
        destroyed.elapsed() < Duration::from_secs(1),
        "the caller of the operation waited for {:?}",
        destroyed.elapsed()
    );

    // All three web processes have ended.
    let gone = async || {
        ["kitfleet-host", "WebKitWebProcess"].iter().all(|name| scene.app.processes(name).is_empty()).then_some(())
    };
    eventually(Duration::from_secs(5), "all browsers have ended", gone).await;
    scene.app.stop().await;
}

/// On a busy machine a page can begin to load at about the time at which the host would restart the load. The server must still
/// receive one request.
#[tokio::test]
async fn late_page_load_sends_one_request() {
    let scene = Scene::start().await;
    scene.visit("/list").await;
    for late in (250..=320).step_by(10).map(Duration::from_millis) {
        let before = scene.site.hits();
        scene.with_late("WebKitWebProcess", late, scene.visit("/hit")).await;
        assert_eq!(scene.site.hits(), before + 1, "{late:?} late");
    }
    scene.app.stop().await;
}

/// A session has no user who could close a dialog, name a file or look at another window.
#[tokio::test]
async fn dialogs_popups_and_downloads_do_not_block_a_page() {
    let scene = Scene::start().await;
    scene.visit("/alert").await;
    assert_eq!(scene.text("#after").await, "after");

    scene.visit("/dialogs").await;
    assert_eq!(scene.text("#answers").await, "answered 2");
    for link in ["#save", "#nothing", "#close"] {
        scene.act(json!({"kind": "tap", "selector": link})).await.expect(200);
        assert_eq!(scene.text("#title").await, "dialogs", "after a tap on {link}");
    }
    // The page has a `beforeunload` handler.
    assert_eq!(scene.visit("/popup").await.body["status"], 200);
    assert_eq!(scene.text("title").await, "popup", "the popup replaced the page");
    scene.act(json!({"kind": "tap", "selector": "#open"})).await.expect(200);
    assert_eq!(scene.visit("/").await.body["status"], 200);
    assert_eq!(scene.text("#title").await, "Home");
    scene.assert_ready().await;
    scene.app.stop().await;
}
