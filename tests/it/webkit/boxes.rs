//! Boxes of elements and values of fields.

use serde_json::{Value, json};

use crate::webkit::Scene;

impl Scene {
    async fn read(&self, kind: &str, selector: &str) -> Value {
        let body = json!({"extractions": [{"name": "it", "selector": selector, "type": kind}]});
        self.operate("extract", body).await.expect(200).body["value"]["it"].clone()
    }
}

/// Contract: operations 20. This holds through frames of any origin, transforms, zoom and scrolling.
#[tokio::test]
async fn box_is_in_pixels_of_the_viewport() {
    let scene = Scene::start().await;
    let inner = scene.written(
        "<body style='margin:0'><i id=d style='position:absolute;left:20px;top:30px;width:50px;height:40px'></i>",
    );
    let foreign = inner.replace("127.0.0.1", "localhost");
    let page = format!(
        "<meta name=viewport content='width=device-width'><body style='margin:0;height:3000px'>
        <style>body > * {{ position: absolute }}</style>
        <iframe id=own src=\"{inner}\" style='left:10px;top:100px;width:200px;height:150px;border:5px solid;transform:rotate(90deg)'></iframe>
        <iframe id=other src=\"{foreign}\" style='left:30px;top:300px;width:200px;height:150px;border:0'></iframe>
        <b id=zoomed style='zoom:2;left:10px;top:5px;width:20px;height:10px'></b>
        <b id=scaled style='left:100px;top:0;width:40px;height:20px;transform:scale(2) translate(5px, 0)'></b>
        <b id=none style='display:none'>x</b><b id=half style='left:0.5px;top:0;width:10px;height:10px'></b>
        <u id=contents style='display:contents'><b style='position:absolute;left:300px;top:10px;width:30px;height:20px'>b</b></u>"
    );
    scene.show(&page).await;
    scene.wait(json!({"kind": "selector", "selector": "#other >>> #d"})).await.expect(200);
    let of = |x: f64, y: f64, width: f64, height: f64| [x, y, width, height];
    for (selector, expected) in [
        ("#own >>> #d", of(120.0, 100.0, 40.0, 50.0)),
        ("#other >>> #d", of(50.0, 330.0, 50.0, 40.0)),
        ("#zoomed", of(20.0, 10.0, 40.0, 20.0)),
        ("#scaled", of(90.0, -10.0, 80.0, 40.0)),
        ("#half", of(0.5, 0.0, 10.0, 10.0)),
        ("#contents", of(300.0, 10.0, 30.0, 20.0)),
    ] {
        let found = scene.read("box", selector).await;
        let sides = ["x", "y", "width", "height"].map(|side| found[side].as_f64().expect("a number"));
        let is_near = sides.iter().zip(expected).all(|(side, expected)| (side - expected).abs() < 0.1);
        assert!(is_near, "{selector}: {found}");
    }
    for selector in ["#none", "#nowhere"] {
        assert_eq!(scene.read("box", selector).await, Value::Null);
    }
    scene.act(json!({"kind": "scroll", "delta_y": 50})).await.expect(200);
    assert_eq!(scene.read("box", "#scaled").await["y"].as_f64(), Some(-60.0));
    assert_eq!(scene.read("box", "#zoomed").await["y"].as_f64(), Some(-40.0));
    scene.app.stop().await;
}

/// Contract: operations 20, 21. A password is never read, also when the page shows it.
#[tokio::test]
async fn value_is_what_a_field_holds_now() {
    let scene = Scene::start().await;
    let inner = scene.written("<input id=f value=inner>").replace("127.0.0.1", "localhost");
    let page = format!(
        "<form><input id=name name=value value=old><input id=day type=date><input id=slider type=range value=30>
        <input id=off type=checkbox><input id=on type=checkbox value=yes checked><textarea id=area>one\ntwo</textarea>
        <select id=menu><option value=1>one<option value=2 selected>two</select>
        <select id=many multiple><option selected>x<option>y<option selected>z</select>
        <div id=editor contenteditable>rich <b>text</b></div><label id=label>Label <input value=labelled></label>
        <input id=secret type=password value=hidden-1><input id=known autocomplete='section-a current-password' value=hidden-2>
        <input id=dots style='-webkit-text-security:disc' value=hidden-3>
        <button type=button id=show onclick=\"secret.type = 'text'\">show</button></form><p id=text>text</p>
        <ul><li><input value=a></li><li><input value=b></li></ul><iframe id=frame src=\"{inner}\"></iframe>"
    );
    scene.show(&page).await;
    scene.act(json!({"kind": "fill", "selector": "#name", "value": "new"})).await.expect(200);
    scene.act(json!({"kind": "fill", "selector": "#day", "value": "2026-12-24"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "#frame >>> #f"})).await.expect(200);
    for (selector, expected) in [
        ("#name", json!("new")),
        ("#day", json!("2026-12-24")),
        ("#slider", json!("30")),
        ("#off", Value::Null),
        ("#on", json!("yes")),
        ("#area", json!("one\ntwo")),
        ("#menu", json!("2")),
        ("#many", json!("x\nz")),
        ("#editor", json!("rich text")),
        ("#label", json!("labelled")),
        ("#frame >>> #f", json!("inner")),
        ("#secret", Value::Null),
        ("#known", Value::Null),
        ("#dots", Value::Null),
        ("#text", Value::Null),
        ("#nowhere", Value::Null),
    ] {
        assert_eq!(scene.read("value", selector).await, expected, "{selector}");
    }
    scene.act(json!({"kind": "tap", "selector": "#show"})).await.expect(200);
    scene.wait(json!({"kind": "selector", "selector": "#secret[type=text]"})).await.expect(200);
    assert_eq!(scene.read("value", "#secret").await, Value::Null);

    // The parts of a list, of which `:scope` is the match.
    let list = json!({"extractions": [{"name": "rows", "selector": "li", "type": "list", "extract": {
        "box": {"type": "box", "selector": ":scope"}, "held": {"type": "value", "selector": "input"},
        "none": {"type": "value", "selector": ":scope"}, "text": {"type": "text", "selector": "b"},
    }}]});
    let rows = scene.operate("extract", list).await.expect(200).body["value"]["rows"].clone();
    assert_eq!(
        (&rows[0]["held"], &rows[1]["held"], &rows[0]["none"], &rows[0]["text"]),
        (&json!("a"), &json!("b"), &Value::Null, &Value::Null)
    );
    let below = |row: &Value| row["box"]["y"].as_f64().expect("a number");
    assert!(below(&rows[1]) > below(&rows[0]) && rows[0]["box"]["width"].as_f64() > Some(0.0), "{rows}");
    scene.app.stop().await;
}
