use serde_json::{Value, json};

use crate::webkit::{Scene, assert_failed};

/// Contract: operations 37. Without a page they are 400.
#[tokio::test]
async fn back_and_reload_work_like_browser_buttons() {
    let scene = Scene::start().await;
    let act = async |kind: &str| scene.act(json!({"kind": kind})).await;
    act("back").await.invalid("action.kind");
    act("reload").await.invalid("action.kind");
    scene.visit("/").await;
    act("back").await.invalid("action.kind");
    scene.assert_ready().await;

    scene.visit("/list").await;
    scene.visit("/status?code=404").await;
    for path in ["/list", "/"] {
        let back = act("back").await.expect(200).body;
        assert_eq!(
            (&back["ok"], &back["kind"], &back["url"]),
            (&json!(true), &json!("back"), &json!(scene.site.url(path)))
        );
        assert_eq!(scene.state().await["page_state"], json!({"state": "loaded"}));
    }
    assert_eq!(scene.text("#title").await, "Home");
    act("back").await.invalid("action.kind");
    let forward = act("forward").await.expect(200).body;
    assert_eq!((&forward["ok"], &forward["kind"]), (&json!(true), &json!("forward")));
    assert_eq!(forward["url"], scene.site.url("/list"));
    act("forward").await.expect(200);
    act("forward").await.invalid("action.kind");
    act("back").await.expect(200);
    act("back").await.expect(200);

    scene.act(json!({"kind": "tap", "selector": "#button"})).await.expect(200);
    assert_eq!(scene.text("#button").await, "trusted");
    let reloaded = act("reload").await.expect(200).body;
    assert_eq!((&reloaded["ok"], &reloaded["kind"]), (&json!(true), &json!("reload")));
    assert_eq!(reloaded["url"], scene.site.url("/"));
    assert_eq!(scene.text("#button").await, "press");
    let before = scene.site.hits();
    scene.visit("/hit").await;
    act("reload").await.expect(200);
    assert_eq!(scene.site.hits(), before + 2);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 37. The page may have started the navigation.
#[tokio::test]
async fn back_undoes_navigation_within_a_page() {
    let scene = Scene::start().await;
    let back = async || scene.act(json!({"kind": "back"})).await.expect(200).body["url"].clone();
    scene.visit("/list").await;
    scene.visit("/list#price").await;
    assert_eq!(back().await, scene.site.url("/list"));

    scene.show("<p id=at>start</p><button onclick=\"history.pushState(1, '', '/pushed'); at.textContent = 'pushed'\">Push</button>
        <a href='#place'>Place</a><iframe name=f src=/list></iframe><a id=inner target=f href='/'>Inner</a><script>onpopstate = () => { at.textContent = 'popped' }</script>").await;
    let here = scene.state().await["url"].clone();
    scene.act(json!({"kind": "tap", "target": {"role": "button"}})).await.expect(200);
    scene.wait(json!({"kind": "url_matches", "pattern": "/pushed$"})).await.expect(200);
    assert_eq!(back().await, here);
    scene.wait(json!({"kind": "selector", "target": {"text": "popped"}})).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#inner"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "iframe >>> #title"})).await.expect(200);
    assert_eq!(back().await, here);
    scene.wait(json!({"kind": "selector", "selector": "iframe >>> #price"})).await.expect(200);
    assert_eq!(scene.state().await["page_state"], json!({"state": "loaded"}));
    assert_eq!(back().await, scene.site.url("/list"));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 37; usage 4; events 3.
#[tokio::test]
async fn back_and_reload_count_and_fail_as_navigations() {
    let scene = Scene::start().await;
    scene.visit("/hop").await;
    scene.wait(json!({"kind": "url_matches", "pattern": "/list$"})).await.expect(200);
    scene.visit("/").await;
    scene.act(json!({"kind": "back"})).await.expect(200);
    scene.act(json!({"kind": "reload"})).await.expect(200);
    scene.show("<select aria-label=It><option>a<option>b</select>").await;
    scene.act(json!({"kind": "select", "target": {"label": "it"}, "option": "b"})).await.expect(200);
    scene.snapshot().await;
    let usage = scene.client.get("/v1/usage").await.expect(200).body;
    assert_eq!((&usage["totals"]["navigate"], &usage["totals"]["interact"]), (&json!(5), &json!(1)));

    // The server no longer responds in time.
    let late = scene.operate("navigate", json!({"url": scene.site.url("/slow?ms=1500")})).await.expect(200);
    assert_eq!(late.body["status"], 200);
    let reload = json!({"action": {"kind": "reload"}, "timeout_ms": 300, "on_timeout": "return"});
    assert_eq!(scene.operate("interact", reload).await.expect(200).body["ok"], false);
    scene.assert_ready().await;
    scene.act(json!({"kind": "reload"})).await.expect(200);
    let reload = json!({"action": {"kind": "reload"}, "timeout_ms": 300});
    scene.operate("interact", reload).await.problem(504, "session-timeout");
    assert_failed(&scene.app, &scene.client, &scene.session, "navigate", "SessionTimeoutError").await;
    scene.app.stop().await;
}

/// Nor by a `beforeunload` handler.
#[tokio::test]
async fn page_cannot_prevent_back() {
    let scene = Scene::start().await;
    for script in [
        "setInterval(() => { location.href = '/never?' + Math.random() }, 1)",
        "setInterval(() => { location.href = '/download?' + Math.random() }, 1)",
        "setInterval(() => stop(), 1)",
        "addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay' })",
    ] {
        scene.visit("/list").await;
        scene.show(&format!("<script>onload = () => setTimeout(() => {{ {script} }}, 200)</script>")).await;
        scene.operate("wait", json!({"condition": {"kind": "time", "ms": 500}})).await.expect(200);
        let back = scene.act(json!({"kind": "back"})).await;
        assert_eq!(back.status, 200, "{script}: {}", back.body);
        assert_eq!(back.body["url"], scene.site.url("/list"), "{script}");
        assert_eq!(scene.text("#price").await, Value::from("Price: $1,234.50"));
        scene.assert_ready().await;
    }
    scene.app.stop().await;
}
