//! `state` and `extract`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::support::{App, eventually};
use crate::webkit::Scene;

/// Contract: operations 18. Cookies are of every kind.
#[tokio::test]
async fn state_has_url_title_cookies_and_storage() {
    let scene = Scene::start().await;
    let session = async || scene.client.get(&format!("/v1/sessions/{}", scene.session)).await.expect(200).body;
    let blank = scene.state().await;
    assert_eq!(blank["page_state"], Value::Null, "a page state although no page was loaded");
    assert_eq!((&blank["cookies"], &blank["local_storage"]), (&json!([]), &json!({})));

    scene.visit("/cookies").await;
    scene.visit("/").await;
    let before = session().await["last_state_at"].clone();
    assert!(before.is_string(), "the first read did not update last_state_at");
    let state = scene.state().await;
    assert_eq!(state["url"], scene.site.url("/"));
    assert_eq!(state["title"], "Home");
    assert_eq!(state["page_state"], json!({"state": "loaded"}));
    assert_eq!(state["local_storage"], json!({"colour": "green"}));
    assert_eq!(state["truncated"], Value::Null, "the state was truncated");
    assert!(state["captured_at"].as_str().is_some_and(|at| at.len() == 24 && at.ends_with('Z')), "{state}");
    let after = session().await;
    assert!(after["last_state_at"].as_str() > before.as_str());
    assert_eq!(after["status"], "ready");

    let mut cookies: Vec<_> = state["cookies"].as_array().expect("cookies").clone();
    cookies.sort_by_key(|cookie| cookie["name"].as_str().map(ToOwned::to_owned));
    let named: Vec<_> = cookies.iter().map(|cookie| (&cookie["name"], &cookie["value"])).collect();
    let expected = [("hidden", "2"), ("page", "home"), ("plain", "1")].map(|(name, value)| (json!(name), json!(value)));
    assert_eq!(named, expected.iter().map(|(name, value)| (name, value)).collect::<Vec<_>>());
    let [hidden, page, plain] = &cookies[..] else { unreachable!("there are three") };
    for cookie in [hidden, page, plain] {
        assert_eq!((&cookie["domain"], &cookie["path"]), (&json!("127.0.0.1"), &json!("/")));
        assert_eq!(cookie["secure"], false);
    }
    assert_eq!((&hidden["http_only"], &hidden["same_site"]), (&json!(true), &json!("Strict")));
    assert!(hidden["expires"].is_string(), "{hidden}");
    assert_eq!((&plain["http_only"], &plain["expires"]), (&json!(false), &Value::Null));

    scene.visit("/untitled").await;
    assert!(matches!(&scene.state().await["title"], Value::Null | Value::String(_)));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 19. `truncated` reports the limit.
#[tokio::test]
async fn state_above_the_size_limit_is_truncated() {
    let limits = App::webkit().set("limits.state_storage_bytes", "10000").set("limits.state_cookies", "3");
    let scene = Scene::of(limits.start().await).await;
    scene.visit("/storage?n=5000").await;
    let state = scene.state().await;
    assert_eq!(state["local_storage"]["large"].as_str().map(str::len), Some(5_000));
    assert_eq!(state["truncated"], Value::Null);

    scene.visit("/storage?n=50000").await;
    let state = scene.state().await;
    assert_eq!(state["truncated"], true);
    assert!(state["local_storage"].to_string().len() <= 10_100);

    scene.visit("/storage?n=1").await;
    scene.visit("/many-cookies?n=3").await;
    let state = scene.state().await;
    assert_eq!((state["cookies"].as_array().map(Vec::len), &state["truncated"]), (Some(3), &Value::Null));
    scene.visit("/many-cookies?n=4").await;
    let state = scene.state().await;
    assert_eq!((state["cookies"].as_array().map(Vec::len), &state["truncated"]), (Some(3), &json!(true)));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 24. The limit counts the names of a list's members once per match.
#[tokio::test]
async fn extraction_above_the_size_limit_is_502() {
    let scene = Scene::start().await;
    let refused = async |extraction: Value| {
        let answer = scene.operate("extract", json!({"extractions": [extraction]})).await.problem(502, "driver-error");
        assert_eq!(answer.body["value"], Value::Null);
        scene.assert_ready().await;
        answer.body
    };
    scene.visit("/many?n=10000").await;
    let part = json!({"selector": "b", "type": "text"});
    let parts: Map<String, Value> = (0..32).map(|i| (format!("{i:0>120}"), part.clone())).collect();
    let mut list = json!({"name": "items", "selector": "i", "type": "list"});
    let all = scene.operate("extract", json!({"extractions": [list.clone()]})).await.expect(200);
    assert_eq!(all.body["value"]["items"].as_array().map(Vec::len), Some(10_000));
    list["extract"] = parts.into();
    let told = refused(list.clone()).await;
    assert_eq!(told["limit_bytes"], 8 * 1024 * 1024);
    assert!(told["bytes"].as_u64() > told["limit_bytes"].as_u64(), "{told}");

    scene.visit("/many?n=10001").await;
    let told = refused(json!({"name": "items", "selector": "i", "type": "list"})).await;
    assert_eq!((&told["matches"], &told["limit_matches"]), (&json!(10_001), &json!(10_000)));

    // One long text, and one whose JSON form has six times its length.
    for (page, selector) in [("/long?n=8500000", "p"), ("/long?n=1500000&control", "p")] {
        scene.visit(page).await;
        let told = refused(json!({"name": "text", "selector": selector, "type": "text"})).await;
        assert!(told["bytes"].as_u64() > told["limit_bytes"].as_u64(), "{page}: {told}");
        let dom = scene.operate("capture", json!({"kind": "dom_snapshot"})).await.problem(502, "driver-error");
        assert!(dom.body["bytes"].as_u64() > dom.body["limit_bytes"].as_u64(), "{page}: {}", dom.body);
        scene.assert_ready().await;
    }
    scene.app.stop().await;
}

/// Contract: operations 20, 21.
#[tokio::test]
async fn extractions_return_texts_attributes_and_lists() {
    let scene = Scene::start().await;
    scene.visit("/list").await;
    let extractions = json!([
        {"name": "price", "selector": "#price", "type": "text"},
        {"name": "amount", "selector": "#price", "type": "text", "transform": "number"},
        {"name": "no amount", "selector": "#none", "type": "text", "transform": "number"},
        {"name": "href", "selector": "li a", "type": "attribute", "attribute": "href"},
        {"name": "no attribute", "selector": "li a", "type": "attribute", "attribute": "title"},
        {"name": "names", "selector": "li b", "type": "list"},
        {"name": "items", "selector": "li", "type": "list", "extract": {
            "name": {"type": "text", "selector": "b"},
            "link": {"type": "attribute", "selector": "a", "attribute": "href"},
            "none": {"type": "text", "selector": "i"},
        }},
        {"name": "script", "selector": "#script", "type": "text"},
        {"name": "absent text", "selector": "#nowhere", "type": "text"},
        {"name": "absent attribute", "selector": "#nowhere", "type": "attribute", "attribute": "href"},
        {"name": "absent list", "selector": "#nowhere", "type": "list"},
    ]);
    let answer = scene.operate("extract", json!({"extractions": extractions})).await.expect(200);
    let expected = json!({
        "price": "Price: $1,234.50",
        "amount": 1234.5,
        "no amount": null,
        "href": "/a",
        "no attribute": null,
        "names": ["one", "two"],
        "items": [{"name": "one", "link": "/a", "none": null}, {"name": "two", "link": "/b", "none": null}],
        "script": "'); document.title = 'pwned'; ('",
        "absent text": null,
        "absent attribute": null,
        "absent list": [],
    });
    assert_eq!(answer.body["value"], expected);

    // Text is trimmed.
    scene.visit("/").await;
    assert_eq!(scene.text("#title").await, "Home");
    let refused = json!({"extractions": [
        {"name": "good", "selector": "h1", "type": "text"},
        {"name": "bad", "selector": "'); document.title = 'pwned'; ('", "type": "text"},
    ]});
    scene.operate("extract", refused).await.invalid("extractions.1.selector");
    scene.assert_ready().await;
    assert_eq!(scene.state().await["title"], "Home");
    scene.app.stop().await;
}

/// Contract: operations 20. The content is far from the viewport.
#[tokio::test]
async fn skipped_content_is_extracted_unnoticed() {
    let scene = Scene::start().await;
    scene
        .show(
            "<style>.c { content-visibility: auto; contain-intrinsic-size: auto 200px; height: 200px }</style><script>
             changes = 0; new MutationObserver(() => changes++).observe(document, {subtree: true, childList: true, attributes: true});
             document.addEventListener('contentvisibilityautostatechange', () => changes++, true);
             onload = () => setTimeout(() => { changes = 0; setTimeout(() => { document.title = `${changes} changes` }, 1_500) }, 500)</script>
             <div id=all><script>for (let i = 0; i < 30; i++) document.write(`<div class=c><h3>Item ${i}</h3><p>One <b>two</b></p>
             <span class=p>$${i}.50</span><i style='text-transform:uppercase'>new</i><i hidden>no</i></div>`)</script></div>
             <p id=leaf class=c>Leaf</p><div id=host></div><div id=hidden style='content-visibility:hidden'><b>never</b></div>
             <div style='display:contents' id=contents>Con<b>tents</b><script>1</script></div><script>
             host.attachShadow({mode: 'open'}).innerHTML = '<div style=\"content-visibility:auto\"><b>Shadow</b></div>'</script>",
        )
        .await;
    let list = |name: &str, selector: &str| json!({"name": name, "selector": selector, "type": "list"});
    let mut prices = list("prices", ".p");
    prices["transform"] = json!("number");
    let mut items = list("items", ".c:nth-child(n+31)");
    items["extract"] = json!({"title": {"type": "text", "selector": "h3"}, "text": {"type": "text", "selector": "p"}});
    let extractions = json!([
        list("names", "h3"),
        prices,
        items,
        list("leaf", "#leaf"),
        list("shadow", "#host >>> b"),
        list("hidden", "#hidden"),
        list("contents", "#contents"),
        list("whole", ".c:nth-child(31)")
    ]);
    let value = scene.operate("extract", json!({"extractions": extractions})).await.expect(200).body["value"].clone();
    assert_eq!(value["names"], json!((0..30).map(|i| format!("Item {i}")).collect::<Vec<_>>()));
    assert_eq!(value["prices"], json!((0..30).map(|i| f64::from(i) + 0.5).collect::<Vec<_>>()));
    assert_eq!(value["items"], json!([{"title": "Item 29", "text": "One two"}]));
    assert_eq!(value["whole"], json!(["Item 29\n\nOne two\n\n$29.50NEW"]));
    let others = ["leaf", "shadow", "hidden", "contents"].map(|name| value[name][0].as_str().unwrap_or_default());
    assert_eq!(others, ["Leaf", "Shadow", "", "Contents"]);

    let snapshot = scene.snapshot().await["snapshot"].to_string();
    assert!(snapshot.contains("Item 29") && !snapshot.contains("never"), "{snapshot}");
    for text in ["item 29", "$29.50"] {
        scene.wait(json!({"kind": "selector", "target": {"text": text}})).await.expect(200);
    }
    scene.wait(json!({"kind": "selector_hidden", "target": {"text": "never"}})).await.expect(200);
    let title = async || (scene.state().await["title"] == "0 changes").then_some(());
    eventually(Duration::from_secs(10), "the page notices nothing", title).await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 20. The language decides only if several readings are possible.
#[tokio::test]
async fn number_follows_separators_and_language() {
    let scene = Scene::start().await;
    let numbers = async |html: &str| {
        scene.show(html).await;
        let all = json!({"name": "it", "selector": "p", "type": "list", "transform": "number"});
        scene.operate("extract", json!({"extractions": [all]})).await.expect(200).body["value"]["it"].clone()
    };
    let page = "<p>0,750 kg<p>−0,004<p>1234,567<p>1 299,000 BYN<p>,89 €<p>1\u{2009}234,50<p>–5 °C<p>‑5<p>－5<p>1,2,3<p>12.05.2024
        <p>Version 17.5.1<p>192.168.0.1<p>iPhone 16 128 GB<p>٣ items 12<p>１２３<p>none";
    let expected =
        json!([0.75, -0.004, 1234.567, 1299, 0.89, 1234.5, -5, -5, -5, 1, 12, 17, 192, 16, 3, 123, Value::Null]);
    assert_eq!(numbers(page).await, expected);

    let languages = ["en", "de", "de-CH", "de_AT", "fr", "pt-BR", "ar", "fa", "hi", "xx", "", "not a language"];
    let parts: Vec<_> =
        languages.iter().map(|language| format!("<div lang='{language}'><p><i>1.234</i></p></div>")).collect();
    let page = parts.concat();
    let expected = json!([1.234, 1234, 1.234, 1234, 1234, 1234, 1.234, 1.234, 1.234, 1.234, 1.234, 1.234]);
    assert_eq!(numbers(&page).await, expected);

    // Spaces group in Swedish. The nearest language counts, through shadow roots and without those of other documents.
    let page = "<html lang=sv><p>Modell 16 128<p lang=en>Model 16 128<p lang=en><b>1.234</b></html>";
    assert_eq!(numbers(page).await, json!([16128, 16, 1.234]));
    let page = "<meta http-equiv=Content-Language content=de><p>1.234<p lang=en>1.234";
    assert_eq!(numbers(page).await, json!([1234, 1.234]));

    scene
        .show(
            "<div lang=de id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = '<p>1.234</p>'</script>",
        )
        .await;
    let one = json!({"name": "it", "selector": "#host >>> p", "type": "text", "transform": "number"});
    let value = scene.operate("extract", json!({"extractions": [one]})).await.expect(200).body["value"]["it"].clone();
    assert_eq!(value, 1234);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Field names shadow the properties of the form.
#[tokio::test]
async fn text_of_a_form_with_shadowing_fields_is_extracted() {
    let scene = Scene::start().await;
    scene.show("<form>Words<input name=innerText><input name=textContent><input name=namespaceURI></form>").await;
    assert_eq!(scene.text("form").await, "Words");
    scene.app.stop().await;
}
