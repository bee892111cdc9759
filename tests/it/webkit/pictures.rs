//! Pictures of elements, formats, scales and the layout of PDFs (contract: operations 22, 23, 50, 51).

use std::io::Cursor;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::webkit::Scene;

/// Colours of the corners and the centre.
fn png(bytes: &[u8]) -> (u32, u32, [[u8; 3]; 3]) {
    let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().expect("a PNG");
    let (width, height) = (reader.info().width, reader.info().height);
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("a whole PNG");
    let at = |x: u32, y: u32| {
        let from = ((y * width + x) * 3) as usize;
        [pixels[from], pixels[from + 1], pixels[from + 2]]
    };
    (width, height, [at(0, 0), at(width / 2, height / 2), at(width - 1, height - 1)])
}

fn jpeg_size(bytes: &[u8]) -> (u32, u32) {
    let mut decoder = zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(bytes));
    decoder.decode_headers().expect("a JPEG");
    let (width, height) = decoder.dimensions().expect("a size");
    (u32::try_from(width).expect("small"), u32::try_from(height).expect("small"))
}

fn webp_size(bytes: &[u8]) -> (u32, u32) {
    assert_eq!((&bytes[..4], &bytes[8..16]), (b"RIFF".as_slice(), b"WEBPVP8 ".as_slice()));
    let side = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]) & 0x3fff);
    (side(26), side(28))
}

const RED: [u8; 3] = [255, 0, 0];

/// Contract: operations 50. The scroll position stays.
#[tokio::test]
async fn element_is_captured_where_it_is() {
    let scene = Scene::start().await;
    let red = "<div id=e style='margin-left: 20px; width: 100px; height: 50px; background: #f00'></div>";
    let far = format!(
        "<style>body {{ margin: 0 }}</style><div style='height: 1500px'></div>{red}<div style='height: 2000px'></div>"
    );
    let boxed = format!(
        "<style>body {{ margin: 0 }}</style><div id=area style='width: 200px; height: 100px; overflow: auto'>
         <div style='height: 700px'></div>{red}<div style='height: 700px'></div></div>"
    );
    let inner = scene.written(&far);
    for (page, selector) in [
        (far.clone(), "#e"),
        (boxed, "#e"),
        (format!("<iframe id=f style='width: 300px; height: 200px' src=\"{inner}\"></iframe>"), "#f >>> #e"),
        (
            format!(
                "<iframe id=f style='width: 300px; height: 200px' src=\"{}\"></iframe>",
                inner.replace("127.0.0.1", "localhost")
            ),
            "#f >>> #e",
        ),
    ] {
        scene.show(&page).await;
        scene.wait(json!({"kind": "selector", "selector": selector})).await.expect(200);
        let before = scene.capture(json!({"kind": "screenshot"})).await;
        let (width, height, colours) = png(&scene.capture(json!({"kind": "screenshot", "selector": selector})).await);
        assert_eq!((width, height, colours), (300, 150, [RED; 3]), "{page}");
        assert_eq!(scene.capture(json!({"kind": "screenshot"})).await, before, "the page was scrolled: {page}");
    }
    let target = json!({"kind": "screenshot", "target": {"text": "word"}, "scale": "css"});
    scene.show("<p style='width: 120px; height: 40px; margin: 0; position: absolute'>word</p>").await;
    let (width, height, _) = png(&scene.capture(target).await);
    assert_eq!((width, height), (120, 40));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 50. It is taller than the viewport, or than WebKit's largest picture.
#[tokio::test]
async fn tall_element_is_complete() {
    let mut scene = Scene::start().await;
    scene.session = scene.client.session_with(json!({"archetype": "iphone-se-3-ios-18"})).await;
    for (height, rest) in [(3_000, 1_000), (9_000, 20_000)] {
        let page = format!(
            "<style>body {{ margin: 0 }}</style><div style='position: fixed; top: 0; height: 40px; width: 100%; background: #000'></div>
             <div style='height: 800px'></div><div id=e style='width: 200px; height: {height}px; background: #f00'></div>
             <div style='height: {rest}px'></div>"
        );
        scene.show(&page).await;
        let (width, rows, colours) = png(&scene.capture(json!({"kind": "screenshot", "selector": "#e"})).await);
        assert_eq!((width, rows), (400, height * 2));
        assert_eq!(colours, [RED; 3], "{height}");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 50. The error follows after a short wait and names the member.
#[tokio::test]
async fn element_without_an_area_is_400() {
    let scene = Scene::start().await;
    scene.show("<div id=empty></div><p id=gone style='display: none'>gone</p><p>one</p><p>one</p>").await;
    let started = Instant::now();
    for selector in ["#none", "#empty", "#gone"] {
        scene.operate("capture", json!({"kind": "screenshot", "selector": selector})).await.invalid("selector");
    }
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    let several = scene.operate("capture", json!({"kind": "screenshot", "target": {"text": "one"}})).await;
    assert_eq!(several.invalid("target").body["candidates"].as_array().map(Vec::len), Some(2));
    scene.operate("capture", json!({"kind": "screenshot", "selector": "p["})).await.invalid("selector");
    scene.show("<script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=late>late</p>'), 500)</script>").await;
    scene.capture(json!({"kind": "screenshot", "selector": "#late"})).await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 51.
#[tokio::test]
async fn picture_has_the_format_and_the_scale_of_the_request() {
    let scene = Scene::start().await;
    scene.visit("/list").await;
    let shot = async |mut body: Value| {
        body["kind"] = "screenshot".into();
        scene.capture(body).await
    };
    for (scale, size) in [("device", (1_179, 1_977)), ("css", (393, 659))] {
        let (width, height, _) = png(&shot(json!({"scale": scale})).await);
        assert_eq!((width, height), size);
        assert_eq!(jpeg_size(&shot(json!({"scale": scale, "format": "jpeg"})).await), size);
        assert_eq!(webp_size(&shot(json!({"scale": scale, "format": "webp"})).await), size);
    }
    for format in ["jpeg", "webp"] {
        let coarse = shot(json!({"format": format, "quality": 10})).await.len();
        let fine = shot(json!({"format": format, "quality": 95})).await.len();
        assert!(coarse < fine, "{format}: {coarse} and {fine} bytes");
    }
    scene.visit("/tall").await;
    let whole = jpeg_size(&shot(json!({"full_page": true, "format": "jpeg", "scale": "css"})).await);
    assert_eq!(whole.0, 393);
    assert!(whole.1 > 3_000, "{whole:?}");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 51. The session stays `ready`.
#[tokio::test]
async fn picture_beyond_the_sides_of_its_format_is_502() {
    let scene = Scene::start().await;
    scene.show("<style>body { margin: 0 }</style><div style='height: 7000px; background: #f00'></div>").await;
    let body = json!({"kind": "screenshot", "full_page": true, "format": "webp"});
    let refused = scene.operate("capture", body).await.problem(502, "driver-error");
    let detail = refused.body["detail"].as_str().expect("a detail");
    assert!(detail.contains("16383"), "{detail}");
    scene.assert_ready().await;
    let smaller = json!({"kind": "screenshot", "full_page": true, "format": "webp", "scale": "css"});
    assert_eq!(webp_size(&scene.capture(smaller).await), (393, 7_000));
    scene.app.stop().await;
}

/// In points.
fn page_size(pdf: &[u8]) -> (f64, f64) {
    let text = String::from_utf8_lossy(pdf);
    let from = text.find("/MediaBox").expect("a page size");
    let sides: Vec<f64> = text[from..]
        .split(|character: char| !(character.is_ascii_digit() || character == '.'))
        .filter(|word| !word.is_empty())
        .take(4)
        .map(|number| number.parse().expect("a number"))
        .collect();
    (sides[2], sides[3])
}

/// Contract: operations 51.
#[tokio::test]
async fn pdf_has_the_paper_of_the_request() {
    let scene = Scene::start().await;
    scene.visit("/list").await;
    for (body, width, height) in [
        (json!({}), 595.0, 842.0),
        (json!({"paper": "a5"}), 420.0, 595.0),
        (json!({"paper": "letter"}), 612.0, 792.0),
        (json!({"paper": "legal"}), 612.0, 1_008.0),
        (json!({"paper": "letter", "landscape": true}), 792.0, 612.0),
    ] {
        let mut request = body.clone();
        request["kind"] = "pdf".into();
        let size = page_size(&scene.capture(request).await);
        assert!((size.0 - width).abs() < 2.0 && (size.1 - height).abs() < 2.0, "{body}: {size:?}");
    }
    let filled = "<style>body { margin: 0; background: linear-gradient(90deg, #f00, #00f) }</style><p>text</p>";
    scene.show(filled).await;
    let margins = json!({"top": 50, "right": 50, "bottom": 50, "left": 50});
    let body = json!({"kind": "pdf", "margins": margins, "background": false});
    let plain = scene.capture(body).await;
    let full = scene.capture(json!({"kind": "pdf"})).await;
    assert_ne!(plain.len(), full.len());
    scene.assert_ready().await;
    scene.app.stop().await;
}
