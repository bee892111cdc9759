//! The page of a live view (contract: live 33 to 36), opened in our own WebKit: one session shows another.

use std::io::Cursor;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::{App, Client, Role, eventually};
use crate::webkit::{Scene, text, until_status};

/// For a change to be visible in the page.
pub const SOON: Duration = Duration::from_secs(20);

async fn text_of(client: &Client, session: &str, selector: &str) -> String {
    text(client, session, selector).await.as_str().unwrap_or_default().to_owned()
}

pub async fn until_text(client: &Client, session: &str, selector: &str, wanted: &str) {
    let said = async || (text_of(client, session, selector).await == wanted).then_some(());
    eventually(SOON, wanted, said).await;
}

async fn act(client: &Client, session: &str, action: Value) {
    client.operate(session, "interact", json!({"action": action})).await.expect(200);
}

pub async fn press(client: &Client, session: &str, keys: &[&str]) {
    for key in keys {
        act(client, session, json!({"kind": "press", "key": key})).await;
    }
}

pub async fn tap(client: &Client, session: &str, selector: &str) {
    act(client, session, json!({"kind": "tap", "selector": selector})).await;
}

/// `onlooker` opens the page with a controller ticket. Waits until the page accepts input and shows a picture.
async fn control(scene: &Scene, onlooker: &str) {
    let path = format!("/v1/sessions/{}/live-tickets", scene.session);
    let ticket = scene.client.post(&path, json!({"role": "controller"})).await.expect(201).body;
    scene.client.navigate(onlooker, ticket["page_url"].as_str().expect("an address")).await;
    let acting = json!({"condition": {"kind": "selector", "selector": "#view.acting"}, "timeout_ms": 20_000});
    scene.client.operate(onlooker, "wait", acting).await.expect(200);
    until_text(&scene.client, onlooker, "#message", "").await;
}

/// Contract: live 33 to 36. The page of a link sends no input, and says when the link is deleted.
#[tokio::test]
async fn live_page_shows_the_browser_and_ends_with_its_link() {
    let scene = Scene::start().await;
    let html = "<style>body { margin: 0; background: green } button { position: fixed; inset: 20%; font-size: 40px }</style>
                <button onclick=\"document.title = 'tapped'\">Tap</button><input autofocus oninput=\"document.title = value\">";
    scene.show(html).await;
    let client = &scene.client;
    let title = async || scene.state().await["title"].as_str().expect("a title").to_owned();
    let made = client
        .post(&format!("/v1/sessions/{}/live-links", scene.session), json!({"expires_in": 600}))
        .await
        .expect(201)
        .body;
    let onlooker = client.session().await;
    client.navigate(&onlooker, made["url"].as_str().expect("an address")).await;
    let shown = async |session: &str, selector: &str| text_of(client, session, selector).await;
    eventually(Duration::from_secs(20), "the live view shows the page", async || {
        (shown(&onlooker, "#title").await == "Written").then_some(())
    })
    .await;
    eventually(Duration::from_secs(20), "green in the page's canvas", async || {
        is_green(client, &onlooker).await.then_some(())
    })
    .await;
    client.operate(&onlooker, "interact", json!({"action": {"kind": "tap", "selector": "#view"}})).await.expect(200);
    assert_eq!(title().await, "Written", "input of a viewer reached the browser");
    client.delete(&format!("/v1/live-links/{}", made["id"].as_str().expect("an id"))).await.expect(204);
    let access_ended = async || {
        (shown(&onlooker, "#message").await == "You are not allowed to watch this session any more.").then_some(())
    };
    eventually(Duration::from_secs(10), "the page reports the end of access", access_ended).await;

    let ticket = client
        .post(&format!("/v1/sessions/{}/live-tickets", scene.session), json!({"role": "controller"}))
        .await
        .expect(201);
    client.navigate(&onlooker, ticket.body["page_url"].as_str().expect("an address")).await;
    let acting = json!({"condition": {"kind": "selector", "selector": "#view.acting"}, "timeout_ms": 20_000});
    client.operate(&onlooker, "wait", acting).await.expect(200);
    eventually(Duration::from_secs(20), "green in the page's canvas", async || {
        is_green(client, &onlooker).await.then_some(())
    })
    .await;
    client.operate(&onlooker, "interact", json!({"action": {"kind": "tap", "selector": "#view"}})).await.expect(200);
    // The session is busy during the input, and ready a second later.
    until_status(client, &scene.session, "ready").await;
    eventually(Duration::from_secs(10), "the tap", async || (title().await == "tapped").then_some(())).await;
    scene.app.stop().await;
}

/// Contract: live 35. The field for a phone's keyboard sends keys too.
#[tokio::test]
async fn live_page_sends_keys_dialogs_and_options() {
    let scene = Scene::start().await;
    let html = "<style>input, select { position: fixed; inset: 0; font-size: 40px } select { inset: 40% 10% }</style>
        <input autofocus><script>
        const input = document.querySelector('input');
        input.oninput = () => {
            document.title = input.value;
            if (input.value.endsWith('!')) setTimeout(() => {
                document.body.innerHTML = '<select onchange=\"document.title = value\"><option>one<option>two</select>';
                document.title = confirm('sure?');
            });
        };
        </script>";
    scene.show(html).await;
    let client = &scene.client;
    let onlooker = client.session().await;
    control(&scene, &onlooker).await;
    let title = async |wanted: &str| until_text(client, &onlooker, "#title", wanted).await;
    tap(client, &onlooker, "#view").await;
    press(client, &onlooker, &["Z", "u"]).await;
    title("Zu").await;
    tap(client, &onlooker, "#keyboard").await;
    press(client, &onlooker, &["l", "x", "Shift+ArrowLeft", "u"]).await;
    title("Zulu").await;

    press(client, &onlooker, &["!"]).await;
    let asked = json!({"condition": {"kind": "selector", "selector": "#accept"}, "timeout_ms": 20_000});
    client.operate(&onlooker, "wait", asked).await.expect(200);
    assert_eq!(text_of(client, &onlooker, "#asked").await, "sure?");
    tap(client, &onlooker, "#accept").await;
    title("true").await;
    tap(client, &onlooker, "#view").await;
    let options = json!({"condition": {"kind": "selector", "selector": "[role=option]"}, "timeout_ms": 20_000});
    client.operate(&onlooker, "wait", options).await.expect(200);
    tap(client, &onlooker, "[role=option]:nth-child(2)").await;
    title("two").await;
    until_status(client, &scene.session, "ready").await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 33. It reports the loss when no worker serves the session.
#[tokio::test]
async fn live_page_reconnects_after_a_restart() {
    let app = App::webkit().roles(&[Role::Api, Role::Worker, Role::Worker]).start().await;
    eventually(SOON, "both workers", async || {
        (app.count("select count(*) from workers where status = 'active'").await == 2).then_some(())
    })
    .await;
    let mut scene = Scene::of(app).await;
    let onlooker = scene.client.session().await;
    let worker = scene.app.worker_of(&scene.session).await;
    assert_ne!(scene.app.worker_of(&onlooker).await, worker, "both sessions are on the same worker");
    scene.show("<script>document.title = 'Before'</script>").await;
    let path = format!("/v1/sessions/{}/live-links", scene.session);
    let link = scene.client.post(&path, json!({"expires_in": 600})).await.expect(201).body;
    scene.client.navigate(&onlooker, link["url"].as_str().expect("an address")).await;
    until_text(&scene.client, &onlooker, "#title", "Before").await;

    scene.app.signal(0, Signal::SIGKILL).await;
    scene.app.start(Role::Api);
    let ready = async || scene.client.request(reqwest::Method::GET, "/readyz").send().await.ok();
    eventually(SOON, "the API responds again", ready).await;
    scene.show("<script>document.title = 'After'</script>").await;
    until_text(&scene.client, &onlooker, "#title", "After").await;
    until_text(&scene.client, &onlooker, "#message", "").await;

    let shown = (1..=2).find(|process| scene.app.log(*process).contains(&uuid_of(&worker).to_string()));
    scene.app.signal(shown.expect("a log with the worker's id"), Signal::SIGKILL).await;
    until_text(&scene.client, &onlooker, "#message", "The connection was lost. Trying again…").await;
    scene.app.stop().await;
}

/// A screenshot has many green pixels.
async fn is_green(client: &Client, session: &str) -> bool {
    let capture = client.operate(session, "capture", json!({"kind": "screenshot"})).await.expect(200).body;
    let png = BASE64_STANDARD.decode(capture["content"].as_str().expect("a picture")).expect("base64");
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("a PNG");
    let samples = reader.output_color_type().0.samples();
    let mut green = 0;
    while let Some(row) = reader.next_row().expect("a whole PNG") {
        let is_green = |pixel: &&[u8]| pixel[0] < 40 && (100..160).contains(&pixel[1]) && pixel[2] < 40;
        green += row.data().chunks(samples).filter(is_green).count();
    }
    green > 10_000
}
