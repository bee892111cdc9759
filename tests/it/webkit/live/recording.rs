//! Creates the pictures of docs/live.md: a person watches an agent in a live view, takes over, types, and hands back.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;
use std::{fs, mem};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::page::{press, tap, until_text};
use crate::support::{App, Client, Site, eventually};
use crate::webkit::{Scene, until_status};

/// In each direction.
const SMALLER: usize = 3;

/// The PIN field is in the middle, where a tap on the picture goes.
const FORM: &str = "<style>body { font: 18px sans-serif; margin: 24px; background: #f4f1ea } h1 { font-size: 26px }
    body > * { position: fixed; left: 24px; width: 300px; box-sizing: border-box; margin: 0 } label { font-size: 15px }
    input { font: inherit; height: 48px; padding: 10px; border: 1px solid #888; border-radius: 8px }
    button { font: inherit; width: 120px; height: 48px; border: 0; border-radius: 8px; background: #145c4a; color: white }
    #pin { top: calc(50% - 24px) } label[for=pin] { top: calc(50% - 48px) } #card { top: calc(50% - 124px) }
    label[for=card] { top: calc(50% - 148px) } h1 { top: calc(50% - 210px) } button { top: calc(50% + 48px) }
    p { top: calc(50% + 112px); color: #145c4a }</style>
    <h1>Harbour Library</h1>
    <label for=card>Card number</label><input id=card><label for=pin>PIN</label><input id=pin type=password>
    <button onclick=\"welcome.textContent = pin.value ? 'Welcome, reader ' + card.value : 'Enter your PIN.'\">Sign in</button>
    <p id=welcome></p><script>document.title = 'Harbour Library'; history.replaceState(null, '', '/sign-in')</script>";

#[tokio::test]
#[ignore = "writes pictures: ./ops/test records_pictures_of_a_takeover --run-ignored only"]
async fn records_pictures_of_a_takeover() {
    let app = App::webkit().start().await;
    let client = app.client().await;
    let agent = client.post("/v1/agent-sessions", json!({"mode": "pair"})).await.expect(201).body;
    let id = |of: &str| agent[of].as_str().expect("an id").to_owned();
    let (agent, session) = (id("id"), id("session_id"));
    let scene = Scene { site: Site::start().await, client, session, app };
    let client = &scene.client;
    let onlooker = client.session().await;
    scene.show(FORM).await;
    let send_message = async |message: &str| {
        let path = format!("/v1/agent-sessions/{agent}/message");
        client.post(&path, json!({"message": message})).await.expect(200);
    };
    let path = format!("/v1/sessions/{}/live-tickets", scene.session);
    let ticket = client.post(&path, json!({"role": "controller", "client_id": "ada"})).await.expect(201).body;
    client.navigate(&onlooker, ticket["page_url"].as_str().expect("an address")).await;
    until_text(client, &onlooker, "#driver", "The agent drives.").await;
    until_text(client, &onlooker, "#message", "").await;

    send_message("type \"4711\" into \"Card number\"").await;
    keep(client, &onlooker, "1-the-agent-drives").await;
    tap(client, &onlooker, "#lane").await;
    until_text(client, &onlooker, "#driver", "You drive.").await;
    keep(client, &onlooker, "2-taken-over").await;
    tap(client, &onlooker, "#view").await;
    press(client, &onlooker, &["2", "0", "2", "6"]).await;
    keep(client, &onlooker, "3-typed").await;
    tap(client, &onlooker, "#lane").await;
    until_text(client, &onlooker, "#driver", "The agent drives.").await;
    until_status(client, &scene.session, "ready").await;
    send_message("tap \"Sign in\"").await;
    assert_eq!(scene.text("#welcome").await, "Welcome, reader 4711");
    keep(client, &onlooker, "4-handed-back").await;
    scene.app.stop().await;
}

/// Waits until the screen no longer changes, and stores it as a picture with this name.
async fn keep(client: &Client, session: &str, name: &str) {
    let screen = async || {
        let capture = client.operate(session, "capture", json!({"kind": "screenshot"})).await.expect(200).body;
        BASE64_STANDARD.decode(capture["content"].as_str().expect("a picture")).expect("base64")
    };
    let mut before = screen().await;
    let still = eventually(Duration::from_secs(20), "the screen no longer changes", async || {
        let now = screen().await;
        (now == mem::replace(&mut before, now.clone())).then_some(now)
    });
    let (pixels, [width, height]) = smaller(&still.await);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/live").join(format!("{name}.png"));
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let mut encoder = png::Encoder::new(fs::File::create(file).expect("a file"), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header().expect("a header").write_image_data(&pixels).expect("pixels");
}

/// Each pixel is the mean of several.
fn smaller(png: &[u8]) -> (Vec<u8>, [u32; 2]) {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut pixels).expect("a whole PNG");
    let samples = info.color_type.samples();
    let (width, height) = (info.width as usize / SMALLER, info.height as usize / SMALLER);
    let mut small = Vec::with_capacity(width * height * 3);
    let places = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |channel| (y, x, channel))));
    for (y, x, channel) in places {
        let sum: usize = (0..SMALLER * SMALLER)
            .map(|at| {
                let (row, column) = (y * SMALLER + at / SMALLER, x * SMALLER + at % SMALLER);
                usize::from(pixels[row * info.line_size + column * samples + channel])
            })
            .sum();
        small.push(u8::try_from(sum / (SMALLER * SMALLER)).expect("a mean"));
    }
    (small, [width, height].map(|length| u32::try_from(length).expect("a length")))
}
