//! Recordings of real pages (contract: recordings).

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use crate::support::commands::run;
use crate::support::eventually;
use crate::support::live::Viewer;
use crate::webkit::{Scene, until_status};

/// Longer than the time between two reads of events, and than the time until they are stored.
const SETTLED: Duration = Duration::from_secs(5);

/// Fields are black, so that a grey pixel is a covered one.
const STYLE: &str =
    "<style>body { margin: 0; background: white } input, [contenteditable] { position: absolute; left: 20px;
    width: 150px; height: 30px; margin: 0; padding: 0; border: 0; background: black; color: black }</style>";

const BLACK: [u8; 3] = [0, 0, 0];
const GREY: [u8; 3] = [128, 128, 128];
const WHITE: [u8; 3] = [255, 255, 255];

struct Frame {
    width: usize,
    pixels: Vec<u8>,
}

impl Frame {
    fn shows(&self, (x, y): (usize, usize), colour: [u8; 3]) -> bool {
        let at = (y * self.width + x) * 3;
        self.pixels[at..at + 3].iter().zip(colour).all(|(seen, wanted)| seen.abs_diff(wanted) < 24)
    }
}

impl Scene {
    async fn recorded() -> Self {
        let mut scene = Self::start().await;
        scene.session = scene.client.session_with(json!({"record": "steps"})).await;
        scene
    }

    async fn events(&self) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/sessions/{}/timeline?limit=100{after}", self.session);
            let page = self.client.get(&path).await.expect(200).body;
            events.extend(page["data"].as_array().expect("a list").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(cursor) => after = format!("&cursor={cursor}"),
                None => return events,
            }
        }
    }

    async fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().await.into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Waits for the picture of the last operation.
    async fn frame(&self) -> Frame {
        let event = eventually(Duration::from_secs(10), "a picture of the last operation", async || {
            // The list of operations has those whose events are not stored yet.
            let path = format!("/v1/sessions/{}/operations?limit=1", self.session);
            let operation = self.client.get(&path).await.expect(200).body["data"][0]["id"].clone();
            let events = self.events().await;
            let is_its = |event: &&Value| event["type"] == "frame" && event["operation_id"] == operation;
            events.iter().rev().find(is_its).cloned()
        })
        .await;
        let path = format!("/v1/sessions/{}/frames/{}", self.session, event["seq"]);
        let response = self.client.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{event}");
        let bytes = response.bytes().await.expect("a whole body");
        let mut decoder = JpegDecoder::new(ZCursor::new(&bytes[..]));
        let pixels = decoder.decode().expect("a JPEG");
        let (width, height) = decoder.dimensions().expect("a size");
        assert_eq!((json!(width), json!(height)), (event["width"].clone(), event["height"].clone()));
        Frame { width, pixels }
    }

    async fn assert_not_recorded(&self, secrets: &[&str]) {
        sleep(SETTLED).await;
        let events = json!(self.events().await).to_string();
        for secret in secrets {
            assert!(!events.contains(secret), "{secret} is in {events}");
        }
    }
}

/// Contract: recordings 10. The field that is not secret is shown.
#[tokio::test]
async fn secret_fields_are_covered() {
    let scene = Scene::recorded().await;
    let fields = "<input type=password style='top: 20px'><input autocomplete='section-pay cc-number' style='top: 70px'>
        <input autocomplete=one-time-code style='top: 120px'><input id=sensitive style='top: 170px'>
        <div id=editor contenteditable style='top: 220px'></div><input id=plain style='top: 270px'>";
    scene.show(&format!("{STYLE}{fields}")).await;
    for selector in ["#sensitive", "#editor"] {
        let typed = json!({"kind": "type", "selector": selector, "text": "correct-horse", "sensitive": true});
        scene.act(typed).await.expect(200);
    }
    scene.act(json!({"kind": "type", "selector": "#plain", "text": "battery-staple"})).await.expect(200);
    let frame = scene.frame().await;
    for top in [20, 70, 120, 170, 220] {
        for at in [(22, top + 2), (95, top + 15), (168, top + 28)] {
            assert!(frame.shows(at, GREY), "{at:?} is not covered");
        }
    }
    assert!(frame.shows((95, 285), BLACK), "the plain field is not shown");
    assert!(frame.shows((300, 35), WHITE), "the page is not shown");
    scene.assert_not_recorded(&["correct-horse", "battery-staple"]).await;
    scene.app.stop().await;
}

/// Contract: recordings 10. Its `type` has changed, in the document and in a shadow tree, and a page moves the caret to the next
/// field while it types.
#[tokio::test]
async fn field_that_was_secret_before_stays_covered() {
    let scene = Scene::recorded().await;
    let page = format!(
        "{STYLE}<input id=shown type=password style='top: 20px'><div id=host></div>
         <input id=first style='top: 120px' maxlength=1 oninput='second.focus()'><input id=second style='top: 170px'>
         <button id=show style='position: absolute; top: 300px'>show</button><script>
         shown.value = ['correct', 'horse'].join('-');
         const root = host.attachShadow({{mode: 'open'}});
         root.innerHTML = '<style>input {{ position: absolute; left: 20px; top: 70px; width: 150px; height: 30px; background: black }}</style><input type=password>';
         show.onclick = () => {{ shown.type = 'text'; root.querySelector('input').type = 'text' }};
         </script>"
    );
    scene.show(&page).await;
    scene.frame().await;
    let typed = json!({"kind": "type", "selector": "#first", "text": "12", "sensitive": true});
    scene.act(typed).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#show"})).await.expect(200);
    let frame = scene.frame().await;
    for at in [(95, 35), (95, 85), (95, 135), (95, 185)] {
        assert!(frame.shows(at, GREY), "{at:?} is not covered");
    }
    scene.assert_not_recorded(&["correct-horse"]).await;
    scene.app.stop().await;
}

/// Contract: recordings 10. The input of a closed shadow tree has no place that a script can find.
#[tokio::test]
async fn closed_shadow_tree_that_receives_text_is_covered() {
    let scene = Scene::recorded().await;
    let page = "<style>body { margin: 0 } #host { position: absolute; left: 20px; top: 20px; width: 150px; height: 30px; background: black }</style>
        <div id=host></div><script>
        const root = host.attachShadow({mode: 'closed'});
        root.innerHTML = '<input style=\"width: 100px\">';
        host.onclick = () => root.querySelector('input').focus();
        </script>";
    scene.show(page).await;
    scene.act(json!({"kind": "tap", "selector": "#host"})).await.expect(200);
    scene.act(json!({"kind": "press", "key": "a"})).await.expect(200);
    assert!(scene.frame().await.shows((160, 25), GREY));
    scene.app.stop().await;
}

/// Contract: recordings 10. The frames of another origin are transformed, zoomed and scrolled.
#[tokio::test]
async fn secret_fields_in_frames_are_covered() {
    let scene = Scene::recorded().await;
    let inner = format!("{STYLE}<body style='height: 2000px'><input autocomplete=cc-csc style='top: 40px'>");
    let inner = scene.written(&inner).replace("127.0.0.1", "localhost");
    let frames = [
        ("left: 10px; top: 20px", (100, 75)),
        ("left: 10px; top: 150px; transform: scale(.5); transform-origin: 0 0", (57, 177)),
        ("left: 250px; top: 220px; transform: rotate(90deg); transform-origin: 0 0", (195, 315)),
    ];
    let frame = |(style, _): &(&str, (usize, usize))| {
        format!(
            "<iframe src=\"{inner}\" style='position: absolute; width: 200px; height: 100px; border: 0; {style}'></iframe>"
        )
    };
    let page = frames.iter().map(frame).collect::<Vec<_>>().concat();
    scene.show(&format!("<body style='margin: 0; height: 3000px'>{page}")).await;
    let frame = scene.frame().await;
    for (style, at) in frames {
        assert!(frame.shows(at, GREY), "{style}: {at:?} is not covered");
    }
    scene.act(json!({"kind": "scroll", "delta_x": 0, "delta_y": 10})).await.expect(200);
    let frame = scene.frame().await;
    assert!(frame.shows((100, 55), GREY) || frame.shows((100, 65), GREY), "the scrolled field is not covered");
    scene.app.stop().await;
}

/// Contract: recordings 9.
#[tokio::test]
async fn console_lines_errors_and_requests_are_recorded() {
    let scene = Scene::recorded().await;
    scene
        .show(
            "<script>console.warn('careful'); Promise.reject(new Error('rejected'));
             setTimeout(() => { throw new Error('thrown') }); fetch('/missing-file?token=' + ['correct', 'horse'].join('-')); fetch('http://127.0.0.1:65530/');</script>",
        )
        .await;
    let seen = eventually(Duration::from_secs(10), "console lines and requests", async || {
        let events = scene.events().await;
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
        let (console, requests) = (of("console"), of("request"));
        let has = |text: &str| console.iter().any(|line| line["text"].as_str().is_some_and(|line| line.contains(text)));
        let are_there = ["careful", "rejected", "thrown"].into_iter().all(has) && requests.len() >= 3;
        are_there.then_some((console, requests))
    })
    .await;
    let (console, requests) = seen;
    let careful = console.iter().find(|line| line["text"] == "careful").expect("a line");
    assert_eq!((&careful["level"], &careful["source"]), (&json!("warning"), &json!("console")));
    let thrown = console.iter().find(|line| line["text"].as_str().is_some_and(|text| text.contains("thrown")));
    assert_eq!(thrown.map(|line| &line["source"]), Some(&json!("script")));
    let of = |part: &str| requests.iter().find(|request| request["url"].as_str().is_some_and(|url| url.contains(part)));
    let document = of("/written").expect("the document");
    assert_eq!(
        (&document["method"], &document["status"], &document["resource_type"]),
        (&json!("GET"), &json!(200), &json!("document"))
    );
    assert_eq!(of("/missing-file").map(|request| &request["status"]), Some(&json!(404)));
    assert!(of("127.0.0.1:65530/").is_some_and(|request| request["error"].is_string()), "{requests:?}");
    scene.assert_not_recorded(&["correct-horse"]).await;
    scene.app.stop().await;
}

/// Contract: recordings 13, 16, 26. Also after a change of the emulation.
#[tokio::test]
async fn headers_of_requests_are_recorded_without_secrets() {
    let mut scene = Scene::start().await;
    let header = |name: &str| json!([{"name": name, "value": "correct-horse"}]);
    scene.session = scene.client.session_with(json!({"record": "steps", "extra_headers": header("X-Preview")})).await;
    let secret = "['correct', 'horse'].join('-')";
    scene.show(&format!("<script>document.cookie = 'secret=' + {secret}</script>")).await;
    let emulation = format!("/v1/sessions/{}/emulation", scene.session);
    scene.client.patch(&emulation, json!({"extra_headers": header("X-Later")})).await.expect(200);
    scene
        .show(&format!("<script>fetch('/list', {{headers: {{'X-Api-Key': {secret}, 'X-Plain': 'plain'}}}})</script>"))
        .await;
    let har = eventually(Duration::from_secs(10), "the request", async || {
        let har = scene.client.get(&format!("/v1/sessions/{}/har", scene.session)).await;
        let is_there = har.status == 200 && har.body.to_string().contains("/list");
        is_there.then_some(har.body)
    })
    .await;
    assert!(!har.to_string().contains("correct-horse"), "{har}");
    let entries = har["log"]["entries"].as_array().expect("entries");
    let is_list = |entry: &&Value| entry["request"]["url"].as_str().is_some_and(|url| url.ends_with("/list"));
    let list = entries.iter().find(is_list).expect("the request");
    let value = |part: &str, name: &str| {
        let headers = list[part]["headers"].as_array().expect("headers");
        let is_it = |header: &&Value| header["name"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name));
        headers.iter().find(is_it).and_then(|header| header["value"].as_str()).map(str::to_owned)
    };
    assert_eq!(value("request", "x-plain").as_deref(), Some("plain"), "{list}");
    assert_eq!(value("request", "x-api-key").as_deref(), Some("•••"), "{list}");
    assert!(value("request", "user-agent").is_some_and(|agent| agent.contains("iPhone")), "{list}");
    assert!(value("response", "content-type").is_some(), "{list}");
    assert_eq!(list["request"]["bodySize"], 0);
    let requests = scene.events_of("request").await;
    assert!(requests.iter().all(|request| request.get("request_headers").is_none() && request["request_bytes"] == 0));
    scene.app.stop().await;
}

/// Contract: recordings 9, 13. 100,000 lines a second, and lines of 10 MB.
#[tokio::test]
async fn flood_of_console_lines_is_bounded() {
    let scene = Scene::recorded().await;
    scene
        .show(
            "<script>const long = 'x'.repeat(10 << 20);
             setInterval(() => { for (let i = 0; i < 10_000; i++) console.log(i) }, 100);
             setInterval(() => console.log(long), 500);</script><button id=b>b</button>",
        )
        .await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    }
    sleep(SETTLED).await;
    let events = scene.events().await;
    let console: Vec<_> = events.iter().filter(|event| event["type"] == "console").collect();
    // 100 a second.
    assert!((100..3_000).contains(&console.len()), "{} lines", console.len());
    assert!(console.iter().all(|line| line["text"].as_str().is_some_and(|text| text.chars().count() <= 2_000)));
    let is_dropped = |event: &Value| event["type"] == "recording" && event["state"] == "dropped";
    assert!(events.iter().any(is_dropped), "no event says that lines were dropped");
    let bytes = scene.app.count("select sum(bytes)::bigint from recordings").await;
    assert!(bytes < 4 << 20, "{bytes} bytes are stored");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: recordings 10. Control is recorded.
#[tokio::test]
async fn page_is_not_recorded_during_human_control() {
    let scene = Scene::recorded().await;
    let page = "<style>body { margin: 0 } button { position: absolute; left: 20px; top: 20px; width: 200px; height: 40px }</style>
        <button onclick=\"console.log('while driven'); fetch('/driven'); document.body.style.background = 'black'\">b</button>";
    scene.show(page).await;
    scene.frame().await;
    let mut viewer = Viewer::control(&scene.app, &scene.client, &scene.session, None).await;
    viewer.until("a picture", |viewer| viewer.last).await;
    let frames = scene.events_of("frame").await.len();
    viewer.tap(100, 40).await;
    until_status(&scene.client, &scene.session, "busy").await;
    until_status(&scene.client, &scene.session, "ready").await;
    sleep(SETTLED).await;
    let states: Vec<_> = scene.events_of("control").await.iter().map(|event| event["state"].clone()).collect();
    assert_eq!(states, ["taken", "returned"]);
    assert_eq!(scene.events_of("frame").await.len(), frames);
    scene.assert_not_recorded(&["while driven", "/driven"]).await;
    // Afterwards, the page is recorded again.
    scene.act(json!({"kind": "press", "key": "Escape"})).await.expect(200);
    assert!(scene.frame().await.shows((300, 300), BLACK));
    scene.app.stop().await;
}

/// Means of squares of 8 pixels, in which the artifacts of a JPEG hardly show.
fn squares(width: usize, pixels: &[u8]) -> Vec<[usize; 3]> {
    let height = pixels.len() / 3 / width;
    let pixel = |x: usize, y: usize| &pixels[(y * width + x) * 3..][..3];
    let mean = |left: usize, top: usize| {
        let mut sums = [0; 3];
        for at in 0..64 {
            let values = pixel(left + at % 8, top + at / 8);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += usize::from(*value);
            }
        }
        sums.map(|sum| sum / 64)
    };
    let columns = (0..width - 7).step_by(8);
    (0..height - 7).step_by(8).flat_map(|top| columns.clone().map(move |left| mean(left, top))).collect()
}

/// Contract: recordings 8. Small changes, changes of the scroll position, of layers, of frames and of pages, also while somebody
/// watches.
#[tokio::test]
async fn each_picture_shows_the_page_after_its_operation() {
    let scene = Scene::recorded().await;
    let page = "<style>body { margin: 0; height: 5000px; background: repeating-linear-gradient(#fff 0 90px, #cde 90px 200px) }
        #b { position: fixed; right: 0; bottom: 0; width: 60px; height: 40px; padding: 0; border: 0; background: #888 }
        div, iframe { position: absolute; width: 24px; height: 24px; border: 0; background: #000 } #layer { will-change: transform }</style>
        <div id=corner style='left: 0; top: 0'></div><div id=edge style='left: 200px; top: 116px'></div>
        <div id=layer style='left: 100px; top: 300px'></div><iframe style='left: 100px; top: 500px' srcdoc='<body>'></iframe>
        <p id=text style='position: absolute; top: 400px; font-size: 40px'>MMM</p><button id=b></button><script>
        const steps = [() => { corner.style.background = '#f00' }, () => { edge.style.background = '#0a0' }, () => scrollTo(0, 40),
          () => scrollTo(0, 47), () => { layer.style.transform = 'translate(60px, 90px)' }, () => { text.textContent = 'MIM' },
          () => { document.querySelector('iframe').contentDocument.body.style.background = '#00f' }, () => scrollTo(0, 3000),
          () => scrollTo(0, 0), () => { edge.remove() }, () => { document.body.style.background = '#fee' }];
        b.onclick = () => steps.shift()?.()</script>";
    let check = async |what: &str| {
        let frame = scene.frame().await;
        let png = scene.capture(json!({"kind": "screenshot", "scale": "css"})).await;
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("a picture");
        assert_eq!((info.color_type, info.width as usize), (png::ColorType::Rgb, frame.width), "{what}");
        let (seen, shown) = (squares(frame.width, &frame.pixels), squares(frame.width, &pixels));
        assert_eq!(seen.len(), shown.len(), "{what}");
        for (number, (seen, shown)) in seen.iter().zip(&shown).enumerate() {
            let differs = seen.iter().zip(shown).any(|(seen, shown)| seen.abs_diff(*shown) > 32);
            assert!(!differs, "{what}: square {number} has {seen:?} instead of {shown:?}");
        }
    };
    let tap = async || scene.act(json!({"kind": "tap", "selector": "#b"})).await.expect(200);
    scene.show(page).await;
    check("the page").await;
    for step in 1..=5 {
        tap().await;
        check(&format!("step {step}")).await;
    }
    let mut viewer = Viewer::watch(&scene.app, &scene.client, &scene.session).await;
    viewer.until("a picture", |viewer| viewer.last).await;
    for step in 6..=7 {
        tap().await;
        check(&format!("step {step}, watched")).await;
    }
    tap().await;
    // The viewer receives this change, and no check follows.
    tap().await;
    viewer.read_for(Duration::from_millis(500)).await;
    drop(viewer);
    for step in 10..=11 {
        tap().await;
        check(&format!("step {step}, after a viewer")).await;
    }
    let window = scene.written("<body style='background: #345'>");
    scene
        .show(&format!("<body style='background: #eef'><button id=b onclick=\"window.open('{window}')\">open</button>"))
        .await;
    check("another page").await;
    tap().await;
    check("a new window").await;
    scene.app.stop().await;
}

/// Contract: recordings 11. Neither does an operation that changes nothing cost a picture.
#[tokio::test]
async fn page_at_rest_costs_nothing() {
    let scene = Scene::recorded().await;
    scene.show("<p>rest</p>").await;
    scene.frame().await;
    sleep(SETTLED).await;
    let size = async || -> i64 {
        let stored = "select bytes from recordings where session_id = $1";
        let session: kitfleet_types::ids::SessionId = scene.session.parse().expect("an id");
        sqlx::query_scalar(stored).bind(session).fetch_one(&scene.app.database.pool).await.expect("a size")
    };
    let before = size().await;
    sleep(2 * SETTLED).await;
    assert_eq!(size().await, before);
    scene.state().await;
    sleep(SETTLED).await;
    assert_eq!(scene.events_of("frame").await.len(), 1);
    scene.app.stop().await;
}

/// Contract: recordings 11. The picture under way is abandoned.
#[tokio::test]
async fn next_operation_does_not_wait_for_a_picture() {
    let scene = Scene::start().await;
    let page = "<button id=b onclick='document.body.append(Math.random())'>b</button>";
    let mut medians = Vec::new();
    for record in ["off", "steps"] {
        let session = scene.client.session_with(json!({"record": record})).await;
        scene.client.navigate(&session, &scene.written(page)).await;
        let mut times = Vec::new();
        for _ in 0..60 {
            let started = Instant::now();
            let action = json!({"action": {"kind": "tap", "selector": "#b"}});
            scene.client.operate(&session, "interact", action).await.expect(200);
            times.push(started.elapsed());
        }
        times.sort();
        medians.push(times[times.len() / 2]);
        scene.client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    // A picture alone takes at least 30 ms.
    assert!(medians[1] < medians[0] + Duration::from_millis(15), "{medians:?}");
    scene.app.stop().await;
}

/// Contract: recordings 10. A field that moves has no place that is known.
#[tokio::test]
async fn page_with_a_moving_secret_field_has_no_picture() {
    let scene = Scene::recorded().await;
    scene
        .show(
            "<style>@keyframes m { from { left: 0 } to { left: 200px } } input { position: absolute; animation: m .3s linear infinite alternate }</style>
             <input type=password>",
        )
        .await;
    sleep(SETTLED).await;
    assert_eq!(scene.events_of("frame").await, Vec::<Value>::new());
    assert_eq!(scene.events_of("operation").await.len(), 2, "the opening and the navigation");
    scene.app.stop().await;
}

/// Contract: recordings 9.
#[tokio::test]
async fn dialogs_pages_and_downloads_are_recorded() {
    let scene = Scene::recorded().await;
    scene
        .show(
            "<button id=ask onclick='confirm(\"sure?\")'>ask</button><button id=open onclick='window.open(\"/list\")'>open</button>
             <a id=file href='/attachment?bytes=5'>file</a>",
        )
        .await;
    scene.act(json!({"kind": "tap", "selector": "#ask"})).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#file"})).await.expect(200);
    scene.act(json!({"kind": "tap", "selector": "#open"})).await.expect(200);
    let events = eventually(Duration::from_secs(10), "all events", async || {
        let events = scene.events().await;
        let has = |kind: &str, state: &str| events.iter().any(|event| event["type"] == kind && event["state"] == state);
        let all = has("dialog", "answered") && has("page", "opened") && has("page", "activated");
        (all && has("download", "started") && has("download", "complete")).then_some(events)
    })
    .await;
    let dialog = events.iter().find(|event| event["type"] == "dialog").expect("a dialog");
    assert_eq!(
        (&dialog["kind"], &dialog["message"], &dialog["accepted"]),
        (&json!("confirm"), &json!("sure?"), &json!(false))
    );
    scene.app.stop().await;
}

async fn save(scene: &Scene, path: &str, file: &Path) {
    let path = format!("/v1/sessions/{}/{path}", scene.session);
    let response = scene.client.request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    fs::write(file, response.bytes().await.expect("a whole body")).expect("a file");
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A program of `tests/dashboard`, which `./ops/test` installs the packages of.
fn program(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard").join(name));
    command
}

/// Contract: recordings 27 to 30. The viewers of the present version and of 1.50 open the trace. The picture of the first is that of
/// `docs/recordings.md`.
#[tokio::test]
async fn trace_opens_in_playwrights_viewer() {
    let scene = Scene::recorded().await;
    scene.client.navigate(&scene.session, "http://welcome.kitfleet.internal/").await;
    scene.frame().await;
    scene.act(json!({"kind": "type", "target": {"label": "Your name"}, "text": "Ada"})).await.expect(200);
    scene.act(json!({"kind": "tap", "target": {"role": "button", "name": "Send"}})).await.expect(200);
    scene.frame().await;
    scene.show("<button onclick='console.error(\"it broke\"); append(\" now\")'>Pay</button>").await;
    scene.act(json!({"kind": "tap", "target": {"role": "button", "name": "Pay"}})).await.expect(200);
    scene.frame().await;
    let (folder, pictures) = (folder("traces"), folder("pictures"));
    for (format, viewer) in [(9, "playwright-core"), (8, "playwright-core"), (7, "playwright-core-1.50")] {
        let file = folder.join(format!("{format}.zip"));
        save(&scene, &format!("trace?format={format}"), &file).await;
        let picture = if format == 9 { pictures.join("trace.png") } else { folder.join(format!("{format}.png")) };
        let mut command = program("trace.mjs");
        command.arg(viewer).arg(&file).arg(picture).args(["Tap button", "Type into", "Navigate"]);
        run(command, "").await.code(0);
    }
    scene.app.stop().await;
}

/// Contract: recordings 26. The file follows the schema of HAR 1.2, and Playwright answers a page's requests from it.
#[tokio::test]
async fn har_opens_in_other_tools() {
    let scene = Scene::recorded().await;
    let page = scene.written("<link rel=stylesheet href='/style.css?version=a'><img src='/missing.png'><form action='/list' method=post><button>b</button></form>");
    scene.client.navigate(&scene.session, &page).await;
    scene.act(json!({"kind": "tap", "selector": "button"})).await.expect(200);
    scene.client.navigate(&scene.session, &page).await;
    eventually(Duration::from_secs(10), "all requests", async || {
        (scene.events_of("request").await.len() >= 5).then_some(())
    })
    .await;
    let file = folder("traces").join("requests.har");
    save(&scene, "har", &file).await;
    let mut command = program("har.mjs");
    command.arg(&file).arg(&page);
    run(command, "").await.code(0);
    scene.app.stop().await;
}
