//! `capture`: screenshots, DOM snapshots and PDFs.

use std::collections::HashSet;
use std::io::Cursor;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::App;
use crate::webkit::Scene;

struct Picture {
    width: u32,
    height: u32,
    /// Middle pixel of each row.
    column: Vec<[u8; 3]>,
    colours: HashSet<[u8; 3]>,
}

fn decode(png: &[u8]) -> Picture {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().expect("a PNG");
    let (width, height) = (reader.info().width, reader.info().height);
    let (mut column, mut colours) = (Vec::new(), HashSet::new());
    let (colour, depth) = reader.output_color_type();
    assert_eq!(depth, png::BitDepth::Eight);
    assert!(matches!(colour, png::ColorType::Rgb | png::ColorType::Rgba), "{colour:?}");
    let mut last = None;
    while let Some(row) = reader.next_row().expect("a whole PNG") {
        let pixels: Vec<[u8; 3]> =
            row.data().chunks(colour.samples()).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        column.push(pixels[pixels.len() / 2]);
        for pixel in pixels {
            if last.replace(pixel) != Some(pixel) {
                colours.insert(pixel);
            }
        }
    }
    Picture { width, height, column, colours }
}

impl Scene {
    pub(super) async fn capture(&self, body: Value) -> Vec<u8> {
        let url = self.state().await["url"].clone();
        let answer = self.operate("capture", body.clone()).await.expect(200).body;
        let content = answer["content"].as_str().expect("content");
        let (content_type, encoding) = match body["kind"].as_str().expect("a kind") {
            "screenshot" => match body["format"].as_str() {
                Some("jpeg") => ("image/jpeg", "base64"),
                Some("webp") => ("image/webp", "base64"),
                _ => ("image/png", "base64"),
            },
            "pdf" => ("application/pdf", "base64"),
            _ => ("text/html; charset=utf-8", "utf8"),
        };
        assert_eq!((&answer["kind"], &answer["encoding"]), (&body["kind"], &json!(encoding)));
        assert_eq!((&answer["content_type"], &answer["url"]), (&json!(content_type), &url));
        assert!(answer["duration_ms"].is_u64());
        let bytes = match encoding {
            "utf8" => content.as_bytes().to_vec(),
            _ => BASE64_STANDARD.decode(content).expect("base64"),
        };
        assert_eq!(answer["bytes"], bytes.len());
        bytes
    }
}

/// Contract: operations 23. Sizes are in physical pixels.
#[tokio::test]
async fn screenshot_shows_viewport_or_whole_page() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    let home = decode(&scene.capture(json!({"kind": "screenshot"})).await);
    assert_eq!((home.width, home.height), (393 * 3, 659 * 3));
    assert!(home.colours.len() > 2, "the screenshot has no text: {:?}", home.colours);

    scene.visit("/tall").await;
    let part = decode(&scene.capture(json!({"kind": "screenshot", "full_page": false})).await);
    assert_eq!((part.width, part.height), (393 * 3, 659 * 3));
    let whole = decode(&scene.capture(json!({"kind": "screenshot", "full_page": true})).await);
    assert_eq!(whole.width, 393 * 3);
    assert!((9_000..10_500).contains(&whole.height), "{}", whole.height);
    // The colours change from red to blue without a visible seam.
    let blue: Vec<u8> = whole.column[60..8_990].iter().map(|[_, _, blue]| *blue).collect();
    assert!(blue[0] < 20 && blue[blue.len() - 1] > 235, "{} to {}", blue[0], blue[blue.len() - 1]);
    assert!(blue.windows(2).all(|rows| rows[0].abs_diff(rows[1]) <= 3), "the gradient has a seam");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 23. The page is taller than WebKit's largest picture.
#[tokio::test]
async fn screenshot_of_a_very_tall_page_is_complete() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    scene.visit("/very-tall").await;
    let whole = scene.capture(json!({"kind": "screenshot", "full_page": true})).await;
    // Decoding the PNG takes longer than the service keeps an idle connection open.
    scene.assert_ready().await;
    let whole = decode(&whole);
    assert_eq!((whole.width, whole.height), (750, 34_000));
    let (red, blue) = ([255, 0, 0], [0, 0, 255]);
    assert!(whole.column[..17_000].iter().all(|pixel| *pixel == red));
    assert!(whole.column[17_000..].iter().all(|pixel| *pixel == blue));
    scene.app.stop().await;
}

/// Contract: operations 23.
#[tokio::test]
async fn screenshot_of_thirty_thousand_points_is_complete() {
    let mut scene = Scene::of(App::webkit().set("worker.session_memory_bytes", "1000000000").start().await).await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    scene.visit("/tower").await;
    let whole = decode(&scene.capture(json!({"kind": "screenshot", "full_page": true})).await);
    assert_eq!((whole.width, whole.height), (750, 60_000));
    assert!(whole.column[..30_000].iter().all(|pixel| *pixel == [255, 0, 0]));
    assert!(whole.column[30_000..].iter().all(|pixel| *pixel == [0, 0, 255]));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// A page of 18 sections, each with a sticky heading and ten rows, below a fixed header and above a fixed footer. It has 18,480 points
/// and, at a device pixel ratio of 2, more rows than one picture of WebKit. Its title is `Changed` when an element has changed
/// since it has loaded.
const FRAMED: &str = "<style>body { margin: 0 } #header, #footer { position: fixed; left: 0; right: 0; height: 60px; z-index: 9;
transition: all 0.4s } #header { top: 0; background: #f00 } #footer { bottom: 0; background: #0f0 } h2 { position: sticky; top: 60px; height: 20px;
margin: 0; background: #ff0 } .row { height: 100px }</style><div id=header></div><div style='padding: 60px 0'><script>
for (let section = 0; section < 18; section++) { let html = '<h2></h2>'; for (let row = 0; row < 10; row++) html +=
`<div class=row style='background: rgb(${10 * section}, ${20 * row}, 255)'></div>`; document.write(`<section>${html}</section>`) }
</script></div><div id=footer></div><script>new MutationObserver(() => { document.title = 'Changed' })
.observe(document.body, { subtree: true, childList: true, attributes: true })</script>";

/// From top to bottom at a device pixel ratio of 2, with the number of rows of each colour.
fn framed_rows() -> Vec<([u8; 3], usize)> {
    let mut rows = vec![([255, 0, 0], 120)];
    for section in 0..18 {
        rows.push(([255, 255, 0], 40));
        rows.extend((0..10).map(|row| ([10 * section, 20 * row, 255], 200)));
    }
    rows.push(([0, 255, 0], 120));
    rows
}

/// From top to bottom, with the number of rows of each.
fn runs(column: &[[u8; 3]]) -> Vec<([u8; 3], usize)> {
    let same = column.chunk_by(|one, other| one == other);
    same.map(|run| (run[0], run.len())).collect()
}

/// Contract: operations 23. Each row is visible. Afterwards the page is as before.
#[tokio::test]
async fn fixed_and_sticky_elements_appear_once_in_a_very_tall_picture() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    scene.show(FRAMED).await;
    scene.act(json!({"kind": "scroll", "delta_x": 0, "delta_y": 900})).await.expect(200);
    let before = decode(&scene.capture(json!({"kind": "screenshot"})).await);
    let whole = scene.capture(json!({"kind": "screenshot", "full_page": true})).await;
    let after = decode(&scene.capture(json!({"kind": "screenshot"})).await);
    assert_eq!(scene.state().await["title"], "Written");
    scene.assert_ready().await;
    assert_eq!(runs(&decode(&whole).column), framed_rows());
    // A transition of the header or the footer would have begun when the page was restored.
    assert_eq!(runs(&after.column), runs(&before.column));
    scene.app.stop().await;
}

/// The script may hide the header, attach elements or make the page longer as it scrolls.
async fn assert_each_row_is_in_the_picture(script: &str) {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    scene.show(&format!("{FRAMED}<script>{script}</script>")).await;
    let whole = scene.capture(json!({"kind": "screenshot", "full_page": true})).await;
    scene.assert_ready().await;
    assert_eq!(runs(&decode(&whole).column), framed_rows());
    scene.app.stop().await;
}

/// Contract: operations 23.
#[tokio::test]
async fn very_tall_picture_of_a_page_that_hides_its_header_has_each_row() {
    assert_each_row_is_in_the_picture(
        "let last = 0;
         onscroll = () => { header.style.transform = scrollY > last ? 'translateY(-60px)' : 'none'; last = scrollY }",
    )
    .await;
}

/// Contract: operations 23.
#[tokio::test]
async fn very_tall_picture_of_a_page_that_becomes_longer_has_each_row() {
    assert_each_row_is_in_the_picture(
        "onscroll = () => { if (document.querySelectorAll('.more').length < 5) footer.insertAdjacentHTML('beforebegin',
            \"<div class=more style='height: 500px'></div>\") }",
    )
    .await;
}

/// Contract: operations 23.
#[tokio::test]
async fn very_tall_picture_has_the_footer_of_a_shadow_root_once() {
    assert_each_row_is_in_the_picture(
        "const host = document.createElement('div'); document.body.append(host); host.attachShadow({ mode: 'open' }).innerHTML =
            '<div style=\"position: fixed; bottom: 0; width: 100%; height: 60px; background: #0f0; z-index: 10\"></div>'; footer.remove()",
    )
    .await;
}

/// Contract: operations 23.
#[tokio::test]
async fn very_tall_picture_has_a_header_that_is_attached_late_once() {
    assert_each_row_is_in_the_picture(
        "header.style.position = 'absolute'; onscroll = () => { header.style.position = scrollY > 0 ? 'fixed' : 'absolute' }",
    )
    .await;
}

/// Contract: operations 23. A held element has its place between the rows, and a fixed background has no seams.
#[tokio::test]
async fn very_tall_picture_has_held_elements_at_their_place() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    let rows = "<div style='height: 9000px'></div>";
    let held = "<div style='height: 100px; transform: translateX(0)'><div style='position: fixed; inset: 0; background: #f00'></div></div>";
    let inner = "<div style='height: 100px; overflow: auto'><div style='height: 50px'></div><div style='position: sticky; top: 0; height: 50px;
        background: #0f0'></div><div style='height: 900px; background: #fff'></div></div>";
    let body = "<style>body { margin: 0; background: linear-gradient(#000, #00f) fixed }</style>";
    scene.show(&format!("{body}{rows}{held}{inner}{rows}")).await;
    let whole = decode(&scene.capture(json!({"kind": "screenshot", "full_page": true})).await).column;
    assert_eq!(whole.len(), 36_400);
    assert!(whole[18_000..18_200].iter().all(|pixel| *pixel == [255, 0, 0]));
    assert!(whole[18_300..18_400].iter().all(|pixel| *pixel == [0, 255, 0]));
    for part in [&whole[..18_000], &whole[18_400..]] {
        assert!(part.windows(2).all(|rows| rows[1][2].abs_diff(rows[0][2]) <= 3), "the background has a seam");
    }
    assert!(whole[0][2] < 5 && whole[36_399][2] > 250);
    scene.app.stop().await;
}

/// Contract: operations 23. The scroll position stays.
#[tokio::test]
async fn revealed_screenshot_has_lazy_content() {
    let scene = Scene::start().await;
    let page = "<style>body { margin: 0 } .gap { height: 2500px; background: linear-gradient(#000, #fff) } #late, img { display: block; width: 100%; height: 100px }</style>
        <div class=gap>top</div><div id=late></div><img loading=lazy src='/picture?ms=700'><div id=more></div><script>
        new IntersectionObserver(entries => { if (entries.some(entry => entry.isIntersecting)) late.style.background = '#0f0' }).observe(late);
        let pieces = 0; onscroll = () => { if (pieces < 2 && scrollY + innerHeight > document.body.scrollHeight - 10) { pieces++;
        setTimeout(() => more.insertAdjacentHTML('beforeend', '<div style=\"height: 700px\"></div><div style=\"height: 50px; background: #f00\"></div>'), 100) } }
        </script>";
    scene.show(page).await;
    let shot = async |reveal: bool| {
        let body = json!({"kind": "screenshot", "full_page": true, "reveal": reveal});
        decode(&scene.capture(body).await)
    };
    let (green, blue, red) = ([0, 255, 0], [0, 0, 255], [255, 0, 0]);
    let count = |picture: &Picture, colour: [u8; 3]| picture.column.iter().filter(|pixel| **pixel == colour).count();
    let hidden = shot(false).await;
    assert_eq!((count(&hidden, green), count(&hidden, red)), (0, 0));
    scene.act(json!({"kind": "scroll", "delta_x": 0, "delta_y": 300})).await.expect(200);
    let before = scene.capture(json!({"kind": "screenshot"})).await;
    let shown = shot(true).await;
    assert_eq!((count(&shown, green), count(&shown, blue), count(&shown, red)), (300, 300, 300));
    assert_eq!(shown.height, (2_700 + 1_500) * 3);
    assert_eq!(scene.capture(json!({"kind": "screenshot"})).await, before);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 23. The session stays `ready`.
#[tokio::test]
async fn screenshot_above_the_pixel_limit_is_502() {
    let scene = Scene::start().await;
    scene.visit("/wide").await;
    let refused = scene.operate("capture", json!({"kind": "screenshot", "full_page": true})).await;
    let refused = refused.problem(502, "driver-error");
    let detail = refused.body["detail"].as_str().expect("a detail");
    assert!(detail.contains("pixels"), "{detail}");
    scene.assert_ready().await;
    let part = decode(&scene.capture(json!({"kind": "screenshot"})).await);
    assert_eq!((part.width, part.height), (393 * 3, 659 * 3));
    scene.app.stop().await;
}

/// Contract: operations 22.
#[tokio::test]
async fn dom_snapshot_and_pdf_are_captured() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    scene.act(json!({"kind": "tap", "selector": "#button"})).await.expect(200);
    assert_eq!(scene.text("#button").await, "trusted");
    let html = scene.capture(json!({"kind": "dom_snapshot"})).await;
    let html = String::from_utf8(html).expect("UTF-8");
    assert!(html.contains("<h1 id=\"title\">  Home  </h1>"), "{html}");
    assert!(html.contains(">trusted</button>"), "the capture is not the present document: {html}");

    let pdf = scene.capture(json!({"kind": "pdf"})).await;
    assert!(pdf.starts_with(b"%PDF-"));
    assert!(pdf.trim_ascii_end().ends_with(b"%%EOF"), "the PDF is incomplete");
    scene.visit("/tall").await;
    let longer = scene.capture(json!({"kind": "pdf", "full_page": true})).await;
    assert!(longer.starts_with(b"%PDF-"));
    assert_eq!(scene.text("#end").await, "end", "the page no longer works");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 24. The error has `bytes` and `limit_bytes`, and the session stays `ready`.
#[tokio::test]
async fn capture_above_its_size_limit_is_502() {
    let limits = App::webkit().set("limits.screenshot_bytes", "300000").set("limits.pdf_bytes", "2000000");
    let scene = Scene::of(limits.start().await).await;
    scene.visit("/list").await;
    for kind in ["screenshot", "pdf"] {
        assert!(!scene.capture(json!({"kind": kind})).await.is_empty(), "a small capture was rejected");
    }
    scene.visit("/noise").await;
    for (kind, limit) in [("screenshot", 300_000), ("pdf", 2_000_000)] {
        let withheld = scene.operate("capture", json!({"kind": kind})).await.problem(502, "driver-error");
        assert_eq!(withheld.body["limit_bytes"], limit);
        assert!(withheld.body["bytes"].as_u64() > Some(limit), "{}", withheld.body);
        assert_eq!(withheld.body["content"], Value::Null);
        scene.assert_ready().await;
    }
    scene.app.stop().await;
}

/// The worker itself serves the page.
#[tokio::test]
async fn welcome_page_loads_without_network() {
    let scene = Scene::start().await;
    let welcome = "http://welcome.kitfleet.internal/";
    let arrived = scene.client.navigate(&scene.session, welcome).await.body;
    assert_eq!((&arrived["final_url"], &arrived["status"]), (&json!(welcome), &json!(200)));
    let state = scene.state().await;
    assert_eq!((&state["title"], &state["page_state"]), (&json!("Welcome to Kitfleet"), &json!({"state": "loaded"})));
    let picture = decode(&scene.capture(json!({"kind": "screenshot"})).await);
    assert_eq!(picture.width, 1179);
    assert!(picture.colours.len() > 2, "{:?}", picture.colours);
    let elsewhere = scene.client.navigate(&scene.session, &format!("{welcome}other")).await.body;
    assert_eq!(elsewhere["status"], 404);
    scene.app.stop().await;
}
