//! Live views of real WebKit and input to it (contract: live).

mod acting;
mod chromium;
mod page;
mod recording;

use std::time::Duration;

use kitfleet_live::link::{ConnectError, NotAdmitted};
use reqwest::Method;
use serde_json::json;

use crate::support::live::{Viewer, show_ticket, ticket};
use crate::support::{App, eventually};
use crate::webkit::Scene;

const WHITE: [u8; 3] = [255, 255, 255];
const GREEN: [u8; 3] = [0, 128, 0];
const RED: [u8; 3] = [255, 0, 0];

/// The box's class sets its colour.
const BOX: &str = "<style>body { margin: 0; background: white } #box { position: absolute; left: 40px; top: 60px;
    width: 80px; height: 80px; background: green } #box.red { background: red }</style><div id=box></div>";

/// Contract: live 1, 2, 4, 17, 18. The first picture is the whole view.
#[tokio::test]
async fn view_sends_changes_and_then_a_sharp_picture() {
    let scene = Scene::start().await;
    scene.show(&format!("{BOX}<script>box.onclick = () => box.classList.add('red')</script>")).await;
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    let first = viewer.until("a picture", |viewer| viewer.last).await.0;
    assert_eq!((first.base, first.rect), (0, [0, 0, first.view[0], first.view[1]]));
    let as_written = |viewer: &Viewer| {
        viewer.shows((80, 100), GREEN) && viewer.shows((20, 20), WHITE) && viewer.shows((200, 400), WHITE)
    };
    viewer.until("the page", |viewer| as_written(viewer).then_some(())).await;
    let hello = json!({"type": "hello", "session_id": scene.session, "role": "viewer"});
    assert_eq!(viewer.messages[0], hello);
    let page = viewer.wait_for_message("page", 0).await;
    assert_eq!(
        (&page["title"], page["url"].as_str().map(|url| url.contains("/written"))),
        (&json!("Written"), Some(true))
    );
    let control = viewer.wait_for_message("control", 0).await;
    assert_eq!(control, json!({"type": "control", "driver": "nobody", "may_act": false}));

    viewer.until("a sharp picture", |viewer| viewer.last.filter(|(picture, _)| picture.sharp)).await;
    scene.act(json!({"kind": "tap", "selector": "#box"})).await.expect(200);
    viewer.until("red", |viewer| viewer.shows((80, 100), RED).then_some(())).await;
    let (patch, bytes) = viewer.last.expect("a picture");
    let [left, top, width, height] = patch.rect;
    assert!(patch.base != 0 && left <= 40 && top <= 60 && width < 200 && height < 200, "{patch:?}");
    assert!(bytes < 8_000, "{bytes}");

    // An unchanged page is sent once more as a sharp picture, and then no more.
    viewer.until("a sharp picture", |viewer| viewer.last.filter(|(picture, _)| picture.sharp)).await;
    let mut had = (0, 0);
    for second in 0.. {
        assert!(second < 10, "{} pictures without a pause", viewer.pictures);
        viewer.read_for(Duration::from_secs(1)).await;
        if had == (viewer.pictures, viewer.messages.len()) {
            break;
        }
        had = (viewer.pictures, viewer.messages.len());
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: live 1.
#[tokio::test]
async fn captures_do_not_change_while_watched() {
    let scene = Scene::start().await;
    let page = format!("{BOX}<p style='margin-top: 200px; font: 16px serif'>The quick brown fox</p>");
    scene.show(&page).await;
    let capture = async || {
        let captured = scene.operate("capture", json!({"kind": "screenshot"})).await.expect(200).body;
        captured["content"].clone()
    };
    let before = capture().await;
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("a sharp picture", |viewer| viewer.last.filter(|(picture, _)| picture.sharp)).await;
    assert!(before.is_string() && capture().await == before);
    drop(viewer);
    assert!(capture().await == before);
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("green", |viewer| viewer.shows((80, 100), GREEN).then_some(())).await;
    scene.app.stop().await;
}

/// Contract: live 3. It receives two pictures.
#[tokio::test]
async fn stalled_viewer_does_not_slow_others() {
    let scene = Scene::start().await;
    scene
        .show(
            "<style>body { margin: 0 }</style><div id=box style='width: 100px; height: 100px'></div>
        <script>let hue = 0; setInterval(() => box.style.background = `hsl(${hue += 5} 90% 50%)`, 20)</script>",
        )
        .await;
    let mut stalled = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    stalled.acknowledges = false;
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("twenty pictures", |viewer| (viewer.pictures >= 20).then_some(())).await;
    stalled.read_for(Duration::from_millis(200)).await;
    assert_eq!(stalled.pictures, 2);
    stalled.acknowledges = true;
    let last = stalled.last.expect("a picture").0.seq;
    stalled.send(json!({"type": "ack", "seq": last})).await;
    let next =
        stalled.until("a later picture", |stalled| stalled.last.filter(|(picture, _)| picture.seq != last)).await;
    assert!(next.0.seq > last + 10 && next.0.base == 0, "{next:?}");
    scene.app.stop().await;
}

/// Contract: live 6, 20.
#[tokio::test]
async fn view_ends_with_its_session() {
    let mut scene = Scene::start().await;
    scene.show(BOX).await;
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("a picture", |viewer| viewer.last).await;
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    assert_eq!(viewer.until_closed().await, Some(4000));

    scene.session = scene.client.session().await;
    scene.show(BOX).await;
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("a picture", |viewer| viewer.last).await;
    let used = ticket(&scene.client, &scene.session, "viewer", None).await;
    kill_page(&scene.app);
    assert_eq!(viewer.until_closed().await, Some(4000));
    eventually(Duration::from_secs(5), "tickets are rejected", async || {
        matches!(
            show_ticket(&scene.app, &scene.session, &used).await,
            Err(ConnectError::NotAdmitted(NotAdmitted::Session))
        )
        .then_some(())
    })
    .await;
    scene.app.stop().await;
}

pub fn kill_page(app: &App) {
    for pid in app.processes("WebKitWebProces") {
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("a process");
    }
}

/// Contract: live 1, 3. The last picture stays. Input is rejected as `unresponsive`.
#[tokio::test]
async fn hanging_page_stays_visible() {
    let scene = Scene::start().await;
    scene
        .show(&format!("{BOX}<script>box.onclick = () => {{ setTimeout(() => {{ while (true) {{}} }}, 50) }}</script>"))
        .await;
    let mut viewer = Viewer::control(&scene.app, &scene.client, &scene.session, None).await;
    viewer.until("green", |viewer| viewer.shows((80, 100), GREEN).then_some(())).await;
    viewer.tap(80, 100).await;
    let from = viewer.messages.len();
    // WebKit detects the hang after some seconds of input without a response.
    let refused = async {
        loop {
            viewer.tap(300, 500).await;
            viewer.read_for(Duration::from_millis(250)).await;
            if let Some(refused) = viewer.messages.iter().skip(from).find(|said| said["type"] == "refused") {
                break refused["reason"].clone();
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(45), refused).await.expect("refused");
    assert_eq!(refused, "unresponsive");
    let mut other = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    other.until("green", |viewer| viewer.shows((80, 100), GREEN).then_some(())).await;
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    assert_eq!(other.until_closed().await, Some(4000));
    scene.app.stop().await;
}

/// Contract: live 5, 20, 27. A view counts as a connection of its address, and a viewer that floods it is disconnected.
#[tokio::test]
async fn viewers_leave_capacity_for_controllers() {
    let app = App::webkit().set("server.max_connections", "64").set("server.max_connections_per_address", "8");
    let scene = Scene::of(app.start().await).await;
    let mut there = Vec::new();
    for _ in 0..64 {
        there.push(Viewer::watch(&scene.app, &scene.client, &scene.session).await);
    }
    let late = ticket(&scene.client, &scene.session, "viewer", None).await;
    let refused = show_ticket(&scene.app, &scene.session, &late).await.err();
    assert!(matches!(refused, Some(ConnectError::NotAdmitted(NotAdmitted::Full))), "{refused:?}");
    Viewer::control(&scene.app, &scene.client, &scene.session, None).await;
    drop(there);

    let mut views = Vec::new();
    for _ in 0..8 {
        let ticket = ticket(&scene.client, &scene.session, "viewer", None).await;
        views.push(Viewer::through_the_api(&scene.app, &scene.session, &ticket).await);
    }
    let another = || scene.app.stranger().request(Method::GET, "/healthz").send();
    let refused = async || another().await.is_err().then_some(());
    eventually(Duration::from_secs(10), "no more connections of this address", refused).await;
    let mut flooding = views.pop().expect("a viewer");
    let free = async || another().await.is_ok().then_some(());
    for _ in 0..3_000 {
        flooding.send_raw(r#"{"type":"ack","seq":1}"#).await;
    }
    assert_eq!(flooding.until_closed().await, Some(4004));
    drop(flooding);
    eventually(Duration::from_secs(10), "a connection", free).await;
    scene.app.stop().await;
}
