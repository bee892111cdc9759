//! A live view in another browser engine (contract: live 33, 35 to 37): Chromium, controlled through `WebDriver`.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::page::SOON;
use crate::support::app::free_port;
use crate::support::{App, Site, eventually, plain_http};
use crate::webkit::{Scene, until_status};

/// Keys in the encoding of `WebDriver`.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";
const SEEN: &str =
    "return (document.querySelector('#view')?.width ?? 0) > 1 && document.querySelector('#message') === null";
const TITLE: &str = "return document.querySelector('#title').textContent";
const DRIVER: &str = "return document.querySelector('#driver').textContent";
/// Label of the button that changes control, or null when it is hidden.
const LANE: &str = "return document.querySelector('#lane')?.textContent ?? null";

/// Dropping this value ends it.
struct Chromium {
    http: reqwest::Client,
    session_url: String,
    _driver: Child,
    _folder: TempDir,
}

impl Drop for Chromium {
    /// Also after a failed test, because the browser would outlive a killed driver.
    fn drop(&mut self) {
        let end = ["--silent", "--max-time", "10", "--request", "DELETE", &self.session_url];
        let _ = std::process::Command::new("curl").args(end).stdout(Stdio::null()).status();
    }
}

impl Chromium {
    async fn start() -> Self {
        let port = free_port();
        let folder = TempDir::new().expect("a folder");
        let mut driver = Command::new("chromedriver");
        driver
            .env("TMPDIR", folder.path())
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
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
        Self { http, session_url: format!("{base_url}/session/{id}"), _driver: driver, _folder: folder }
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

    async fn asked(&self, script: &str) -> Value {
        self.call(Method::POST, "/execute/sync", &json!({"script": script, "args": []})).await
    }

    async fn until(&self, script: &str, wanted: &Value) {
        eventually(SOON, &format!("{script} is {wanted}"), async || {
            (self.asked(script).await == *wanted).then_some(())
        })
        .await;
    }

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

    async fn tab_to(&self, id: &str) {
        for _ in 0..16 {
            if self.asked("return document.activeElement.id").await == id {
                return;
            }
            self.press(TAB).await;
        }
        panic!("the Tab key does not lead to {id}");
    }

    /// With a ticket. The page shows a picture afterwards.
    async fn watch(&self, scene: &Scene, body: Value) {
        let path = format!("/v1/sessions/{}/live-tickets", scene.session);
        let ticket = scene.client.post(&path, body).await.expect(201).body;
        // A URL that differs only in its fragment would not load the page again.
        self.open("about:blank").await;
        self.open(ticket["page_url"].as_str().expect("an address")).await;
        self.until(SEEN, &json!(true)).await;
    }

    async fn quit(self) {
        self.call(Method::DELETE, "", &json!({})).await;
    }
}

/// Contract: live 33, 35.
#[tokio::test]
async fn chromium_shows_a_session_and_sends_input() {
    let scene = Scene::start().await;
    let html = "<style>body { margin: 0; background: rgb(0, 128, 0) } input { position: fixed; inset: 40% 10%; font-size: 30px }</style>
        <input onfocus=\"document.title = 'focused'\" oninput=\"document.title = value\">";
    scene.show(html).await;
    let path = format!("/v1/sessions/{}/live-tickets", scene.session);
    let ticket = scene.client.post(&path, json!({"role": "controller"})).await.expect(201).body;
    let chromium = Chromium::start().await;
    chromium.open(ticket["page_url"].as_str().expect("an address")).await;
    let acting =
        "return document.querySelector('#view.acting') !== null && document.querySelector('#message') === null";
    chromium.until(acting, &json!(true)).await;
    let green = "const view = document.querySelector('#view');
        const [red, green, blue] = view.getContext('2d').getImageData(view.width / 2, 40, 1, 1).data;
        return red < 40 && green > 100 && green < 160 && blue < 40";
    chromium.until(green, &json!(true)).await;
    let middle = "const box = document.querySelector('#view').getBoundingClientRect();
        return [Math.round(box.left + box.width / 2), Math.round(box.top + box.height / 2)]";
    let middle: [i64; 2] = serde_json::from_value(chromium.asked(middle).await).expect("a place");
    chromium.touch(middle).await;
    chromium.until(TITLE, &json!("focused")).await;
    chromium.press("Zulu").await;
    chromium.until(TITLE, &json!("Zulu")).await;
    chromium.quit().await;
    tokio::time::timeout(Duration::from_secs(10), until_status(&scene.client, &scene.session, "ready"))
        .await
        .expect("ready");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 35. The key that confirms the text may arrive after the end of the composition, as in Safari.
#[tokio::test]
async fn input_method_enters_text_without_its_keys() {
    let scene = Scene::start().await;
    let html = "<input autofocus><script>
        const input = document.querySelector('input');
        let enters = 0;
        input.onkeydown = (event) => { if (event.key === 'Enter') enters += 1 };
        input.oninput = () => { document.title = `${input.value} ${enters}` };
        </script>";
    scene.show(html).await;
    let chromium = Chromium::start().await;
    chromium.watch(&scene, json!({"role": "controller"})).await;
    chromium.until("return document.querySelector('#view.acting') !== null", &json!(true)).await;
    let compose = "const typed = document.querySelector('#typed');
        const tell = (event, more = {}) => typed.dispatchEvent(Object.defineProperties(event, more));
        const press = (key) => tell(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }), { keyCode: { value: 229 } });
        const write = (text) => {
            typed.value = text;
            tell(new InputEvent('input', { data: text, isComposing: true, bubbles: true }));
        };
        document.querySelector('#keyboard').click();
        press('n');
        tell(new CompositionEvent('compositionstart', { bubbles: true }));
        write('に');
        write('日本');
        tell(new CompositionEvent('compositionend', { data: '日本', bubbles: true }));
        press('Enter');
        return document.activeElement === typed";
    assert_eq!(chromium.asked(compose).await, true);
    chromium.until(TITLE, &json!("日本 0")).await;
    // A key outside of a composition.
    chromium.press(&format!("{ENTER}x")).await;
    chromium.until(TITLE, &json!("日本x 1")).await;
    chromium.quit().await;
    scene.app.stop().await;
}

/// Contract: live 35.
#[tokio::test]
async fn keyboard_reaches_every_field_and_option() {
    let scene = Scene::start().await;
    let html = "<input id=first><input id=second><select onchange=\"document.title = value\"><option>one<option selected>two<option>three</select>
        <script>
        addEventListener('focusin', (event) => { document.title = event.target.id || event.target.localName });
        addEventListener('input', (event) => { if (event.target.id) document.title = event.target.value });
        </script>";
    scene.show(html).await;
    let chromium = Chromium::start().await;
    chromium.watch(&scene, json!({"role": "controller"})).await;
    chromium.until("return document.querySelector('#view.acting') !== null", &json!(true)).await;
    chromium.tab_to("next").await;
    for field in ["first", "second"] {
        chromium.press(ENTER).await;
        chromium.until(TITLE, &json!(field)).await;
    }
    chromium.tab_to("previous").await;
    chromium.press(ENTER).await;
    chromium.until(TITLE, &json!("first")).await;
    chromium.tab_to("view").await;
    chromium.press("Ada").await;
    chromium.until(TITLE, &json!("Ada")).await;

    chromium.tab_to("next").await;
    for field in ["second", "select"] {
        chromium.press(ENTER).await;
        chromium.until(TITLE, &json!(field)).await;
    }
    chromium.tab_to("view").await;
    chromium.press(" ").await;
    let here = "return document.activeElement.role === 'option' ? document.activeElement.textContent : null";
    chromium.until(here, &json!("two")).await;
    let marked = "return getComputedStyle(document.activeElement).boxShadow !== 'none'";
    assert_eq!(chromium.asked(marked).await, true, "the selected option is not marked");
    chromium.press(DOWN).await;
    chromium.until(here, &json!("three")).await;
    assert_eq!(chromium.asked(marked).await, false);
    // There is no further option.
    chromium.press(DOWN).await;
    chromium.until(here, &json!("three")).await;
    chromium.press(ENTER).await;
    chromium.until(TITLE, &json!("three")).await;
    chromium.until("return document.activeElement.id", &json!("view")).await;
    chromium.quit().await;
    scene.app.stop().await;
}

/// Contract: live 33, 36, 37. A viewer without that right has no button for it.
#[tokio::test]
async fn person_takes_over_and_hands_back_in_the_page() {
    let app = App::webkit().start().await;
    let client = app.client().await;
    let agent = client.post("/v1/agent-sessions", json!({"mode": "pair"})).await.expect(201).body;
    let session = agent["session_id"].as_str().expect("an id").to_owned();
    let scene = Scene { site: Site::start().await, client, session, app };
    scene.show("<input autofocus oninput=\"document.title = value\">").await;
    let chromium = Chromium::start().await;
    for body in [json!({"role": "controller"}), json!({"role": "viewer", "client_id": "ada"})] {
        chromium.watch(&scene, body).await;
        chromium.until(DRIVER, &json!("The agent drives.")).await;
        assert_eq!(chromium.asked(LANE).await, Value::Null);
    }
    chromium.watch(&scene, json!({"role": "controller", "client_id": "ada"})).await;
    chromium.until(LANE, &json!("Take over")).await;
    chromium.tab_to("lane").await;
    chromium.press(ENTER).await;
    chromium.until(DRIVER, &json!("You drive.")).await;
    chromium.until(LANE, &json!("Hand back")).await;
    // The picture has the focus after the takeover.
    chromium.press("Ada").await;
    chromium.until(TITLE, &json!("Ada")).await;
    let path = format!("/v1/agent-sessions/{}", agent["id"].as_str().expect("an id"));
    assert_eq!(scene.client.get(&path).await.expect(200).body["control"], "human");
    let button = "const box = document.querySelector('#lane').getBoundingClientRect();
        return [Math.round(box.left + box.width / 2), Math.round(box.top + box.height / 2)]";
    let button: [i64; 2] = serde_json::from_value(chromium.asked(button).await).expect("a place");
    chromium.touch(button).await;
    chromium.until(DRIVER, &json!("The agent drives.")).await;
    chromium.until(LANE, &json!("Take over")).await;
    assert_eq!(scene.client.get(&path).await.expect(200).body["control"], "ai");
    scene.assert_ready().await;
    chromium.quit().await;
    scene.app.stop().await;
}

/// Contract: live 34. Another browser engine blocks the frame too.
#[tokio::test]
async fn only_configured_origins_can_frame_the_view() {
    let (site, foreign) = (Site::start().await, Site::start().await);
    let app = App::webkit().set("live.origins", &site.base_url).start().await;
    let scene = Scene { site, ..Scene::of(app).await };
    scene.show("<h1>Here</h1>").await;
    let path = format!("/v1/sessions/{}/live-links", scene.session);
    let link = scene.client.post(&path, json!({})).await.expect(201).body;
    let frame = format!("<iframe src=\"{}\"></iframe>", link["url"].as_str().expect("an address"));
    let seen = "const view = document.querySelector('#view');
        return view !== null && view.width > 1 && document.querySelector('#message') === null";
    let nothing = "return location.protocol === 'chrome-error:' && document.querySelector('#view') === null";
    let chromium = Chromium::start().await;
    for (site, shown) in [(&scene.site, seen), (&foreign, nothing), (&scene.site, seen)] {
        chromium.open(&site.written(&frame)).await;
        chromium.call(Method::POST, "/frame", &json!({"id": 0})).await;
        chromium.until(shown, &json!(true)).await;
    }
    chromium.quit().await;
    scene.app.stop().await;
}

/// Contract: live 6, 20, 33. The page does not reconnect.
#[tokio::test]
async fn page_reports_the_end_of_the_session() {
    let scene = Scene::start().await;
    scene.show("<h1>Here</h1>").await;
    let chromium = Chromium::start().await;
    let path = format!("/v1/sessions/{}/live-links", scene.session);
    let link = scene.client.post(&path, json!({"expires_in": 600})).await.expect(201).body;
    chromium.open(link["url"].as_str().expect("an address")).await;
    chromium.until(SEEN, &json!(true)).await;
    for host in scene.app.processes("kitfleet-host") {
        kill(host, Signal::SIGKILL).expect("a process");
    }
    let message = "return document.querySelector('#message')?.textContent ?? ''";
    chromium.until(message, &json!("The session has ended.")).await;
    until_status(&scene.client, &scene.session, "errored").await;
    chromium.open("about:blank").await;
    chromium.open(link["url"].as_str().expect("an address")).await;
    chromium.until(message, &json!("This link is not valid any more.")).await;
    chromium.quit().await;
    scene.app.stop().await;
}
