//! Popups, their openers, and pages that the caller opens (contract: operations 16, 43, 44).

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::Scene;

/// Page that a sign-in opens. It tells its opener, and closes itself.
const SIGN_IN: &str = "<title>Sign in</title>
<button id=sign-in onclick='opener.postMessage(\"signed in\", \"*\"); window.close()'>Sign in</button>";

fn opener(address: &str) -> String {
    let address = json!(address);
    format!(
        "<title>Shop</title><button id=open onclick='opened.textContent = String(window.open(address))'>Open</button>
         <p id=opened></p><p id=result></p>
         <script>const address = {address}; addEventListener('message', event => {{ result.textContent = event.data }})</script>"
    )
}

impl Scene {
    async fn pages(&self) -> Vec<Value> {
        let listed = self.client.get(&format!("/v1/sessions/{}/pages", self.session)).await.expect(200).body;
        listed["data"].as_array().expect("a list").clone()
    }

    fn path_of(&self, page: &Value) -> String {
        format!("/v1/sessions/{}/pages/{}", self.session, page["id"].as_str().expect("an id"))
    }

    async fn activate(&self, page: &Value) {
        self.client.post(&format!("{}/activate", self.path_of(page)), json!({})).await.expect(200);
    }

    async fn tap(&self, selector: &str) -> Value {
        self.act(json!({"kind": "tap", "selector": selector})).await.expect(200).body
    }
}

/// Contract: operations 16, 43.
#[tokio::test]
async fn sign_in_popup_notifies_its_opener_and_closes() {
    let scene = Scene::start().await;
    let same_site = scene.written(SIGN_IN);
    for popup in [same_site.replace("127.0.0.1", "localhost"), same_site] {
        scene.show(&opener(&popup)).await;
        scene.tap("#open").await;
        assert_eq!(scene.wait(json!({"kind": "page"})).await.expect(200).body["matched"], true);
        let pages = scene.pages().await;
        assert_eq!(pages.len(), 2, "{pages:?}");
        assert_eq!((&pages[1]["active"], &pages[1]["opener_id"]), (&json!(true), &pages[0]["id"]));

        scene.wait(json!({"kind": "selector", "selector": "#sign-in"})).await.expect(200);
        assert_eq!(scene.state().await["title"], "Sign in");
        scene.tap("#sign-in").await;
        eventually(Duration::from_secs(8), "the popup is closed", async || {
            (scene.pages().await.len() == 1).then_some(())
        })
        .await;
        assert_eq!(scene.pages().await[0]["active"], true);
        assert_eq!(scene.text("#result").await, "signed in");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 43. Scripts cannot reach the opener, which is known.
#[tokio::test]
async fn link_to_a_new_page_opens_one_without_a_script_opener() {
    let scene = Scene::start().await;
    let linked = scene.written("<p id=reached></p><script>reached.textContent = String(window.opener)</script>");
    scene.show(&format!("<a id=link target=_blank href='{linked}'>new page</a>")).await;
    scene.tap("#link").await;
    scene.wait(json!({"kind": "selector", "selector": "#reached"})).await.expect(200);
    assert_eq!(scene.text("#reached").await, "null");
    let pages = scene.pages().await;
    assert_eq!((pages.len(), &pages[1]["opener_id"]), (2, &pages[0]["id"]));
    scene.client.delete(&scene.path_of(&pages[1])).await.expect(204);
    assert_eq!(scene.text("#link").await, "new page");
    scene.app.stop().await;
}

/// Contract: operations 43. It also has the headers and the cookies, before its first script runs.
#[tokio::test]
async fn popup_has_the_device_of_its_session() {
    let scene = Scene::start().await;
    scene.visit("/device").await;
    let device = scene.text("#device").await;
    scene.show(&opener(&scene.site.url("/device"))).await;
    scene.tap("#open").await;
    scene.wait(json!({"kind": "selector", "selector": "#device"})).await.expect(200);
    assert_eq!(scene.pages().await.len(), 2);
    assert_eq!(scene.text("#device").await, device);
    scene.app.stop().await;
}

/// Contract: operations 43.
#[tokio::test]
async fn popup_without_an_action_is_blocked() {
    let scene = Scene::start().await;
    let opens =
        "<p id=opened></p><script>let count = 0; for (let at = 0; at < 100; at++) if (window.open('/list')) count++;
        opened.textContent = count</script>";
    scene.show(opens).await;
    assert_eq!(scene.text("#opened").await, "0");
    assert_eq!(scene.pages().await.len(), 1);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 44. `window.open` returns null, and a POST is a 409.
#[tokio::test]
async fn ninth_page_is_not_opened() {
    let scene = Scene::start().await;
    scene.show(&opener(&scene.site.url("/list"))).await;
    let first = scene.pages().await[0].clone();
    for _ in 0..7 {
        let opened = scene.operate("pages", json!({"url": scene.site.url("/list")})).await.expect(201).body;
        assert_eq!((&opened["url"], &opened["active"]), (&json!(scene.site.url("/list")), &json!(true)));
    }
    scene.operate("pages", json!({})).await.problem(409, "conflict");
    scene.activate(&first).await;
    scene.tap("#open").await;
    assert_eq!(scene.text("#opened").await, "null");
    assert_eq!(scene.pages().await.len(), 8);
    for page in &scene.pages().await[1..] {
        scene.client.delete(&scene.path_of(page)).await.expect(204);
    }
    scene.client.delete(&scene.path_of(&first)).await.problem(409, "conflict");
    scene.tap("#open").await;
    assert_eq!(scene.pages().await.len(), 2);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 43. It may also close or navigate its opener.
#[tokio::test]
async fn page_that_closes_during_an_operation_costs_no_session() {
    let scene = Scene::start().await;
    let closing = scene.written("<p id=here>here</p><script>setTimeout(() => window.close(), 500)</script>");
    scene.show(&opener(&closing)).await;
    scene.tap("#open").await;
    let condition = json!({"kind": "selector", "selector": "#none"});
    let body = json!({"condition": condition, "timeout_ms": 2_000, "on_timeout": "return"});
    assert_eq!(scene.operate("wait", body).await.expect(200).body["matched"], false);
    assert_eq!(scene.pages().await.len(), 1);
    assert_eq!(scene.state().await["title"], "Shop");

    let leads_away = format!("<p id=here>here</p><script>opener.location = '{}'</script>", scene.site.url("/list"));
    scene.show(&opener(&scene.written(&leads_away))).await;
    scene.tap("#open").await;
    scene.wait(json!({"kind": "selector", "selector": "#here"})).await.expect(200);
    let pages = scene.pages().await;
    assert_eq!(pages.len(), 2);
    scene.activate(&pages[0]).await;
    scene.wait(json!({"kind": "selector", "selector": "#price"})).await.expect(200);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 44, 47. The session has the policy `hold`.
#[tokio::test]
async fn page_that_asks_is_closed_after_the_answer() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"dialogs": "hold"})).await;
    let asks = scene.written(
        "<button id=touch>touch</button>
         <script>addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay' })</script>",
    );
    let opened = scene.operate("pages", json!({"url": asks})).await.expect(201).body;
    scene.tap("#touch").await;
    let refused = scene.client.delete(&scene.path_of(&opened)).await.problem(409, "conflict");
    assert_eq!(refused.body["dialog"]["type"], "beforeunload");
    scene.act(json!({"kind": "dialog", "accept": true})).await.expect(200);
    eventually(Duration::from_secs(8), "the page is closed", async || (scene.pages().await.len() == 1).then_some(()))
        .await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 7, 44.
#[tokio::test]
async fn page_that_cannot_be_reached_fails_as_a_navigation() {
    let scene = Scene::start().await;
    scene.operate("pages", json!({"url": scene.site.resetting()})).await.problem(502, "driver-error");
    crate::webkit::assert_failed(&scene.app, &scene.client, &scene.session, "navigate", "DriverError").await;
    scene.app.stop().await;
}

/// Contract: operations 43; sessions 31, 33 to 36.
#[tokio::test]
async fn popup_has_the_emulation_of_its_session() {
    let mut scene = Scene::start().await;
    let body = json!({
        "geolocation": {"latitude": 47.5, "longitude": 8.5, "accuracy": 20}, "color_scheme": "dark",
        "extra_headers": [{"name": "X-Test", "value": "sent"}], "block": {"hosts": ["localhost"]},
    });
    scene.session = scene.client.session_with(body).await;
    scene.show(&opener(&scene.site.url("/header"))).await;
    scene.tap("#open").await;
    scene.wait(json!({"kind": "selector", "selector": "#header"})).await.expect(200);
    assert_eq!(scene.text("#header").await, "sent");

    let blocked = scene.site.url_under("localhost", "/hit");
    let first = format!(
        "<p id=dark></p><p id=place></p><p id=fetched></p><script>
         dark.textContent = matchMedia('(prefers-color-scheme: dark)').matches;
         navigator.geolocation.getCurrentPosition(found => {{ place.textContent = found.coords.latitude }},
           error => {{ place.textContent = 'error ' + error.code }});
         fetch('{blocked}', {{ mode: 'no-cors' }}).then(() => {{ fetched.textContent = 'sent' }},
           () => {{ fetched.textContent = 'blocked' }})</script>"
    );
    scene.show(&opener(&scene.written(&first))).await;
    scene.tap("#open").await;
    scene.wait(json!({"kind": "selector", "selector": "#dark"})).await.expect(200);
    for (selector, expected) in [("#dark", "true"), ("#place", "47.5"), ("#fetched", "blocked")] {
        eventually(Duration::from_secs(8), &format!("{selector} is {expected}"), async || {
            (scene.text(selector).await == expected).then_some(())
        })
        .await;
    }
    assert_eq!(scene.site.hits(), 0);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 43; sessions 35.
#[tokio::test]
async fn popup_of_an_offline_session_loads_nothing() {
    let scene = Scene::start().await;
    scene.show(&opener(&scene.site.url("/hit"))).await;
    let path = format!("/v1/sessions/{}/emulation", scene.session);
    scene.client.patch(&path, json!({"offline": true})).await.expect(200);
    scene.tap("#open").await;
    eventually(Duration::from_secs(8), "a popup, or none", async || {
        // A load that fails may close the popup.
        let state = scene.state().await["page_state"].clone();
        (scene.pages().await.len() == 1 || state["state"] == "errored").then_some(())
    })
    .await;
    assert_eq!(scene.site.hits(), 0);
    scene.assert_ready().await;
    scene.app.stop().await;
}
