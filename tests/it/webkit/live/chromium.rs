//! The page of a live view in another browser than our own (contract: live 33, 35): Chromium, driven by its `WebDriver`.

use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::page::SOON;
use crate::support::app::free_port;
use crate::support::{eventually, plain_http};
use crate::webkit::{Scene, until_status};

/// A headless Chromium that ends with this value.
struct Chromium {
    http: reqwest::Client,
    session_url: String,
    _driver: Child,
}

impl Chromium {
    async fn start() -> Self {
        let port = free_port();
        let mut driver = Command::new("chromedriver");
        driver.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = driver.kill_on_drop(true).spawn().expect("chromedriver starts");
        let (http, base_url) = (plain_http().build().expect("a client"), format!("http://127.0.0.1:{port}"));
        eventually(SOON, "the driver listens", async || http.get(format!("{base_url}/status")).send().await.ok()).await;
        // Tests run as root, and in containers with little shared memory.
        let args =
            ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=600,1000"];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": args}}}});
        let answer = http.post(format!("{base_url}/session")).json(&wanted).send().await.expect("an answer");
        let session: Value = answer.json().await.expect("JSON");
        let id = session["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {session}"));
        Self { http, session_url: format!("{base_url}/session/{id}"), _driver: driver }
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Value {
        let request = self.http.request(method, format!("{}{path}", self.session_url)).json(body);
        let mut answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }

    async fn open(&self, url: &str) {
        self.call(Method::POST, "/url", &json!({"url": url})).await;
    }

    /// What a script returns.
    async fn asked(&self, script: &str) -> Value {
        self.call(Method::POST, "/execute/sync", &json!({"script": script, "args": []})).await
    }

    async fn until(&self, script: &str, wanted: &Value) {
        eventually(SOON, &format!("{script} is {wanted}"), async || {
            (self.asked(script).await == *wanted).then_some(())
        })
        .await;
    }

    /// Taps there with a finger.
    async fn touch(&self, [x, y]: [i64; 2]) {
        let steps = json!([{"type": "pointerMove", "duration": 0, "x": x, "y": y}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]);
        let finger =
            json!({"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}, "actions": steps});
        self.call(Method::POST, "/actions", &json!({"actions": [finger]})).await;
    }

    async fn press(&self, keys: &str) {
        let steps = keys.chars().flat_map(|key| ["keyDown", "keyUp"].map(|what| json!({"type": what, "value": key})));
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": steps.collect::<Vec<_>>()});
        self.call(Method::POST, "/actions", &json!({"actions": [keyboard]})).await;
    }

    async fn quit(self) {
        self.call(Method::DELETE, "", &json!({})).await;
    }
}

/// Contract: live 33, 35. What the browser shows is drawn there, and a finger and a keyboard reach it.
#[tokio::test]
async fn chromium_shows_a_session_and_acts_in_it() {
    let scene = Scene::start().await;
    let html = "<style>body { margin: 0; background: rgb(0, 128, 0) } input { position: fixed; inset: 40% 10%; font-size: 30px }</style>
        <input onfocus=\"document.title = 'focused'\" oninput=\"document.title = value\">";
    scene.show(html).await;
    let path = format!("/v1/sessions/{}/live-tickets", scene.session);
    let ticket = scene.client.post(&path, json!({"role": "controller"})).await.expect(201).body;
    let chromium = Chromium::start().await;
    chromium.open(ticket["page_url"].as_str().expect("an address")).await;
    let acting = "return document.querySelector('#view.acting') !== null && document.querySelector('#message').hidden";
    chromium.until(acting, &json!(true)).await;
    let green = "const view = document.querySelector('#view');
        const [red, green, blue] = view.getContext('2d').getImageData(view.width / 2, 40, 1, 1).data;
        return red < 40 && green > 100 && green < 160 && blue < 40";
    chromium.until(green, &json!(true)).await;
    let middle = "const box = document.querySelector('#view').getBoundingClientRect();
        return [Math.round(box.left + box.width / 2), Math.round(box.top + box.height / 2)]";
    let middle: [i64; 2] = serde_json::from_value(chromium.asked(middle).await).expect("a place");
    chromium.touch(middle).await;
    let title = "return document.querySelector('#title').textContent";
    chromium.until(title, &json!("focused")).await;
    chromium.press("Zulu").await;
    chromium.until(title, &json!("Zulu")).await;
    chromium.quit().await;
    tokio::time::timeout(Duration::from_secs(10), until_status(&scene.client, &scene.session, "ready"))
        .await
        .expect("ready");
    scene.assert_ready().await;
    scene.app.stop().await;
}
