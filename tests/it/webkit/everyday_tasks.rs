//! Errands as people do them on a phone. The last picture of each is kept in `target/tmp/pictures`, for a look at it.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::webkit::Scene;

const PAGE: &str = r#"<!DOCTYPE html><meta name=viewport content="width=device-width"><title>Errands</title>
<style>
  body { font: 16px sans-serif; margin: 16px } label { display: block; margin: 12px 0 }
  #map, #pad { width: 320px; border: 1px solid #888; border-radius: 8px; touch-action: none }
  #map { height: 180px; overflow: hidden; position: relative }
  #world { position: absolute; left: -200px; top: -150px; width: 900px; height: 700px;
    background: repeating-linear-gradient(0deg, #bcd 0 2px, transparent 2px 60px), repeating-linear-gradient(90deg, #bcd 0 2px, #eef4fa 2px 60px) }
  #pin { position: absolute; left: 470px; top: 330px; width: 16px; height: 16px; border-radius: 8px; background: #c22 }
</style>
<div id=map><div id=world><div id=pin></div></div></div>
<label>Day <input type=date id=day></label>
<label>Volume <input type=range id=volume min=0 max=100 value=10></label>
<canvas id=pad width=320 height=120></canvas>
<p id=log></p>
<script>
  const follow = (element, move) => {
    let last = null;
    element.onpointerdown = (event) => { last = event; };
    element.onpointermove = (event) => { if (last) { move(last, event); last = event; } };
    element.onpointerup = element.onpointercancel = () => { last = null; };
  };
  follow(map, (from, to) => {
    world.style.left = `${world.offsetLeft + to.clientX - from.clientX}px`;
    world.style.top = `${world.offsetTop + to.clientY - from.clientY}px`;
  });
  const ink = pad.getContext('2d');
  ink.lineWidth = 2;
  follow(pad, (from, to) => {
    ink.beginPath(); ink.moveTo(from.offsetX, from.offsetY); ink.lineTo(to.offsetX, to.offsetY); ink.stroke();
  });
  for (const field of [day, volume]) field.onchange = () => { log.textContent += ` ${field.id}=${field.value}`; };
</script>"#;

/// Keeps the picture of the viewport.
async fn keep_picture(scene: &Scene, name: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), scene.capture(json!({"kind": "screenshot", "scale": "css"})).await).expect("a file");
}

/// Contract: operations 11, 41; evaluate 1.
#[tokio::test]
async fn map_date_slider_and_signature() {
    let scene = Scene::start().await;
    scene.show(PAGE).await;
    let done = async |action: Value| {
        let result = scene.act(action).await.expect(200).body;
        assert_eq!(result["ok"], true, "{result}");
    };
    done(json!({"kind": "drag", "selector": "#map", "path": [{"x": 260, "y": 150}, {"x": 60, "y": 50}]})).await;
    done(json!({"kind": "fill", "target": {"label": "Day"}, "value": "2026-12-24"})).await;
    done(json!({"kind": "fill", "target": {"label": "Volume"}, "value": "80"})).await;
    let signature: Vec<Value> = (0..60)
        .map(|step| {
            let turn = f64::from(step) * 0.35;
            json!({"x": (30.0 + 4.2 * f64::from(step) + 14.0 * turn.cos()).round(), "y": (60.0 + 36.0 * turn.sin()).round()})
        })
        .collect();
    done(json!({"kind": "drag", "selector": "#pad", "path": signature, "duration_ms": 1_500})).await;
    let read = "const data = pad.getContext('2d').getImageData(0, 0, 320, 120).data;
        let inked = 0;
        for (let at = 3; at < data.length; at += 4) inked += data[at] > 0;
        return {left: world.offsetLeft, top: world.offsetTop, day: day.value, volume: volume.value, log: log.textContent, inked: inked > 1000}";
    let seen = scene.evaluate(read).await.expect(200).body["value"].clone();
    let expected = json!({"left": -400, "top": -250, "day": "2026-12-24", "volume": "80",
        "log": " day=2026-12-24 volume=80", "inked": true});
    assert_eq!(seen, expected);
    keep_picture(&scene, "errands.png").await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 30, 32.
#[tokio::test]
async fn card_is_typed_into_a_payment_frame() {
    let scene = Scene::start().await;
    let card =
        "<body style='font: 16px sans-serif'><label>Card number <input id=card inputmode=numeric autocomplete=cc-number
        oninput='value = value.replace(/\\D/g, &quot;&quot;).replace(/(.{4})(?=.)/g, &quot;$1 &quot;)'></label>
        <button onclick='log.textContent = `paid with …${card.value.slice(-4)}`'>Pay</button><p id=log></p>";
    scene
        .show_with_foreign_frame(
            "<meta name=viewport content='width=device-width'><h1>Shop</h1><p>1 book, 20 €</p>",
            card,
        )
        .await;
    scene.wait(json!({"kind": "selector", "selector": "#f >>> #card"})).await.expect(200);
    let typed = json!({"kind": "type", "target": {"label": "Card number"}, "text": "4242424242424242"});
    assert_eq!(scene.act(typed).await.expect(200).body["ok"], true);
    let pay = json!({"kind": "tap", "target": {"role": "button", "name": "Pay"}});
    assert_eq!(scene.act(pay).await.expect(200).body["ok"], true);
    assert_eq!(scene.text("#f >>> #log").await, "paid with …4242");
    keep_picture(&scene, "payment.png").await;
    scene.assert_ready().await;
    scene.app.stop().await;
}
