//! Targets: elements located by role, name, label, text and placeholder.

use serde_json::{Value, json};

use crate::webkit::Scene;

/// Controls that log the tapped element.
const CONTROLS: &str = "<p id=log></p><button>Sign   In</button><button hidden>Sign in</button><a href='#x'>Sign in later</a>
    <label for=mail>E-mail   address</label><input id=mail><input aria-label='Second field'><span id=l>Third</span><input aria-labelledby=l>
    <input placeholder='Find shoes'><div><p>Some <b>bold words</b> here</p></div><input type=button value='Push me'>
    <div role=checkbox aria-label=Fancy tabindex=0>o</div><script>addEventListener('click', event => {
    document.querySelector('#log').textContent = event.target.value || event.target.id || event.target.getAttribute('aria-label') || event.target.getAttribute('aria-labelledby')
    || event.target.placeholder || event.target.textContent })</script>";

/// Contract: operations 29, 30. The text of a target matches a part of the compared text, ignoring case and white space.
#[tokio::test]
async fn target_matches_role_name_label_and_text() {
    let scene = Scene::start().await;
    scene.show(CONTROLS).await;
    for (target, tapped) in [
        (json!({"role": "button", "name": "sign in"}), "Sign In"),
        (json!({"role": "button", "name": "SIGN  IN"}), "Sign In"),
        (json!({"role": "link"}), "Sign in later"),
        (json!({"role": "link", "name": "later"}), "Sign in later"),
        (json!({"role": "checkbox", "name": "fan"}), "Fancy"),
        (json!({"label": "e-mail address"}), "mail"),
        (json!({"label": "second"}), "Second field"),
        (json!({"label": "Third"}), "l"),
        (json!({"placeholder": "SHOES"}), "Find shoes"),
        (json!({"text": "bold words"}), "bold words"),
        (json!({"text": "some bold words here"}), "Some bold words here"),
        (json!({"text": "Push"}), "Push me"),
        (json!({"selector": "#mail"}), "mail"),
    ] {
        let told = scene.act(json!({"kind": "tap", "target": target})).await;
        assert_eq!(told.status, 200, "{target}: {}", told.body);
        let log = scene.text("#log").await;
        assert_eq!(
            log.as_str().map(|log| log.split_whitespace().collect::<Vec<_>>().join(" ")).as_deref(),
            Some(tapped),
            "{target}"
        );
    }
    scene.act(json!({"kind": "type", "target": {"label": "e-mail"}, "text": "ada"})).await.expect(200);
    assert!(scene.snapshot().await["snapshot"].as_str().is_some_and(|text| text.contains("[value=\"ada\"]")));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 31. When several elements match, no action is performed. The 400 lists up to five candidates, each with a
/// selector that matches only it.
#[tokio::test]
async fn ambiguous_target_is_400_with_candidates() {
    let scene = Scene::start().await;
    scene
        .show(
            "<p id=log></p><button id='odd id&quot;'>Save</button><button name=second>Save as</button><div><button>Save</button></div>
             <div><button>Save</button></div><div id=here><button>Save</button></div><button>Save</button><button style='display:none'>Save</button>
             <div id=host></div><iframe srcdoc='<button>Save</button>'></iframe><script>
             host.attachShadow({mode: 'open'}).innerHTML = '<button>Save</button>'; onclick = () => { log.textContent = 'tapped' }</script>",
        )
        .await;
    for action in [
        json!({"kind": "tap", "target": {"role": "button", "name": "save"}}),
        json!({"kind": "type", "target": {"text": "save"}, "text": "x"}),
        json!({"kind": "scroll", "target": {"selector": "button"}, "delta_y": 1}),
        json!({"kind": "select", "target": {"role": "button"}, "option": "x"}),
    ] {
        let refused = scene.act(action.clone()).await.invalid("action.target");
        let candidates = refused.body["candidates"].as_array().expect("candidates");
        assert_eq!(candidates.len(), 5, "{action}: {}", refused.body);
        assert_eq!(candidates[0]["description"], "button \"Save\"");
        assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains(" match")), "{}", refused.body);
        for candidate in candidates {
            let only = json!({"extractions": [{"name": "it", "selector": candidate["selector"], "type": "list"}]});
            let read = scene.operate("extract", only).await.expect(200);
            assert_eq!(read.body["value"]["it"].as_array().map(Vec::len), Some(1), "{candidate}");
        }
    }
    assert_eq!(scene.text("#log").await, "");
    scene.assert_ready().await;
    // Elements in a shadow root and in a frame can be selected as well: a caller can send the selector of a candidate.
    for (root, selector) in [("#host", "#host >>> button"), ("iframe", "iframe >>> button")] {
        scene.act(json!({"kind": "tap", "selector": selector})).await.expect(200);
        let read = json!({"extractions": [{"name": "it", "selector": selector, "type": "text"}]});
        assert_eq!(scene.operate("extract", read).await.expect(200).body["value"]["it"], "Save", "{root}");
    }
    scene.act(json!({"kind": "tap", "selector": "#host >>> ]["})).await.invalid("action.selector");
    scene.act(json!({"kind": "tap", "target": {"selector": "]["}})).await.invalid("action.target.selector");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 31. The service waits for an element that does not match yet, as with a selector.
#[tokio::test]
async fn target_without_match_is_waited_for() {
    let scene = Scene::start().await;
    scene.show("<button style='display:none'>Later</button><script>setTimeout(() => { document.querySelector('button').style.display = '' }, 300)</script>").await;
    let tapped =
        scene.act(json!({"kind": "tap", "target": {"role": "button", "name": "later"}})).await.expect(200).body;
    assert_eq!(tapped["ok"], true);
    let never =
        json!({"action": {"kind": "tap", "target": {"text": "nowhere"}}, "timeout_ms": 300, "on_timeout": "return"});
    assert_eq!(scene.operate("interact", never).await.expect(200).body["ok"], false);
    scene.assert_ready().await;
    for (kind, text) in [("selector", "later"), ("selector_hidden", "nowhere")] {
        let waited = scene.wait(json!({"kind": kind, "target": {"text": text}})).await.expect(200).body;
        assert_eq!((&waited["matched"], &waited["kind"]), (&json!(true), &json!(kind)));
    }
    scene.app.stop().await;
}

/// Contract: operations 31. An extraction uses the first match, and a list uses all matches.
#[tokio::test]
async fn extraction_by_target_uses_matches() {
    let scene = Scene::start().await;
    scene.visit("/list").await;
    let wanted = json!([
        {"name": "first", "target": {"role": "link"}, "type": "text"},
        {"name": "href", "target": {"role": "link", "name": "second"}, "type": "attribute", "attribute": "href"},
        {"name": "all", "target": {"role": "link"}, "type": "list"},
        {"name": "items", "target": {"role": "listitem"}, "type": "list", "extract": {"name": {"type": "text", "selector": "b"}}},
        {"name": "price", "target": {"text": "price:"}, "type": "text", "transform": "number"},
        {"name": "none", "target": {"role": "button"}, "type": "text"},
        {"name": "nothing", "target": {"role": "button"}, "type": "list"},
    ]);
    let value = scene.operate("extract", json!({"extractions": wanted})).await.expect(200).body["value"].clone();
    let expected = json!({
        "first": "first", "href": "/b", "all": ["first", "second"], "items": [{"name": "one"}, {"name": "two"}], "price": 1234.5,
        "none": Value::Null, "nothing": [],
    });
    assert_eq!(value, expected);
    scene.app.stop().await;
}

/// Locating a target on an extremely large page ends in time.
#[tokio::test]
async fn target_is_found_on_a_huge_page() {
    let scene = Scene::start().await;
    scene
        .show(
            "<script>onload = () => { document.body.innerHTML = Array.from({length: 30_000}, (_, i) => `<button>Button ${i}</button>`).join('')
             + '<p>' + 'word '.repeat(2e5) + 'needle</p>' }</script>",
        )
        .await;
    for target in [
        json!({"role": "button", "name": "Button 27777"}),
        json!({"text": "button 18888"}),
        json!({"text": "word needle"}),
    ] {
        let body = json!({"extractions": [{"name": "it", "target": target, "type": "attribute", "attribute": "none"}]});
        scene.operate("extract", body).await.expect(200);
    }
    let several = json!({"action": {"kind": "tap", "target": {"text": "button"}}, "timeout_ms": 60_000});
    let refused = scene.operate("interact", several).await.invalid("action.target");
    assert_eq!(refused.body["candidates"].as_array().map(Vec::len), Some(5));
    scene.assert_ready().await;
    scene.app.stop().await;
}
