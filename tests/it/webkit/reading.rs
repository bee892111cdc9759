//! `state` and `extract`.

use serde_json::{Map, Value, json};

use crate::support::App;
use crate::webkit::Scene;

/// Contract: operations 18. The state has the URL, title, cookies of every kind and local storage of the page.
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

/// Contract: operations 19. The size of the state is limited, and `truncated` reports the limit.
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

/// An extraction above the size limit is a 502 without a value, like a capture (contract: operations 24). The limit counts the
/// names of a list's members once per match.
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
