//! Elements located by role, name, label, text and placeholder.

use serde_json::{Value, json};

use crate::webkit::Scene;

/// They log the tapped element.
const CONTROLS: &str = "<p id=log></p><button>Sign   In</button><button hidden>Sign in</button><a href='#x'>Sign in later</a>
    <label for=mail>E-mail   address</label><input id=mail><input aria-label='Second field'><span id=l>Third</span><input aria-labelledby=l>
    <input placeholder='Find shoes'><div><p>Some <b>bold words</b> here</p></div><input type=button value='Push me'>
    <div role=checkbox aria-label=Fancy tabindex=0>o</div><script>addEventListener('click', event => {
    document.querySelector('#log').textContent = event.target.value || event.target.id || event.target.getAttribute('aria-label') || event.target.getAttribute('aria-labelledby')
    || event.target.placeholder || event.target.textContent })</script>";

/// Contract: operations 29, 30. A part of the text matches, ignoring case and white space.
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

/// Contract: operations 30.
#[tokio::test]
async fn words_match_in_every_unicode_form() {
    let scene = Scene::start().await;
    scene
        .show(
            "<p>Straße</p><p>Cafe\u{301} Zo\u{eb}</p><p>İstanbul IĞDIR</p><p>ΟΔΟΣ</p><p>co\u{ad}op\u{ad}eration</p><p>zero\u{200b}width\u{2060}joiner</p>
             <p>ﬁne Ｆｕｌｌ</p><p>non\u{2011}breaking</p><p>❤\u{fe0f} love</p><p>\u{200e}left\u{200f} mark</p><p>a<b>\u{ad}</b>fter <i>\u{200b}</i>word</p>
             <button aria-label='Schließen'>x</button><label>E\u{2011}Mail\u{a0}Adresse <input></label><input placeholder='Größe'>",
        )
        .await;
    let matched = async |target: &Value| {
        let body = json!({"extractions": [{"name": "it", "target": target, "type": "list"}]});
        scene.operate("extract", body).await.expect(200).body["value"]["it"].as_array().map(Vec::len)
    };
    for target in [
        json!({"text": "STRASSE"}),
        json!({"text": "straße"}),
        json!({"text": "café zoë"}),
        json!({"text": "istanbul iğdır"}),
        json!({"text": "İSTANBUL"}),
        json!({"text": "οδος"}),
        json!({"text": "cooperation"}),
        json!({"text": "co\u{ad}operation"}),
        json!({"text": "zerowidthjoiner"}),
        json!({"text": "Fine FULL"}),
        json!({"text": "non-breaking"}),
        json!({"text": "❤ love"}),
        json!({"text": "left mark"}),
        json!({"text": "after word"}),
        json!({"role": "button", "name": "SCHLIESSEN"}),
        json!({"label": "e-mail adresse"}),
        json!({"placeholder": "GRÖSSE"}),
    ] {
        assert_eq!(matched(&target).await, Some(1), "{target}");
    }
    // Accents count, and words that are not shown match nothing.
    for target in [
        json!({"text": "cafe"}),
        json!({"text": "\u{200b}"}),
        json!({"label": "\u{ad}"}),
        json!({"placeholder": "\u{2060}"}),
    ] {
        assert_eq!(matched(&target).await, Some(0), "{target}");
    }
    // Long sequences of marks take linear time.
    let marks = "\u{301}\u{323}".repeat(499);
    scene.show("<p id=p></p><script>p.textContent = 'a' + '\\u0301\\u0323'.repeat(499) + ' end'</script>").await;
    assert_eq!(matched(&json!({"text": format!("a{marks}")})).await, Some(1));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// With the target that each matches, and whether a selector finds it visible.
const BOXLESS: [(&str, &str, bool); 14] = [
    ("<button id=it style='display:contents'><span>Go</span></button>", "button", true),
    ("<a id=it href='#x' style='display:contents'>Go</a>", "link", true),
    ("<a id=it href='#x'><span style='float:left'>Go</span></a>", "link", true),
    ("<a id=it href='#x'><b style='position:absolute'>Go</b></a>", "link", true),
    (
        "<img src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'/>\" usemap='#m'>
         <map name=m><area id=it shape=circle coords='40,40,20' href='#x' alt=Go></map>",
        "link",
        true,
    ),
    ("<select size=3 aria-label=List><option>Other<option id=it>Go</select>", "option", true),
    (
        "<svg width=90 height=90><a id=it href='#x' aria-label=Go><line x1=5 y1=50 x2=80 y2=50 stroke=red stroke-width=8 /></a></svg>",
        "link",
        true,
    ),
    (
        "<input id=it type=checkbox checked style='opacity:0;position:absolute'><label for=it>Go</label>",
        "checkbox",
        true,
    ),
    (
        "<input id=it type=checkbox checked style='position:absolute;width:1px;height:1px;clip:rect(0 0 0 0)'><label for=it>Go</label>",
        "checkbox",
        true,
    ),
    (
        "<input id=it type=checkbox checked style='appearance:none;width:0;height:0;margin:0;border:0'><label for=it>Go</label>",
        "checkbox",
        false,
    ),
    ("<input id=it type=checkbox checked hidden><label for=it>Go</label>", "checkbox", false),
    ("<label><input id=it type=radio checked style='visibility:hidden'>Go</label>", "radio", false),
    (
        "<label style='display:block;width:0;height:0'><input id=it type=radio checked hidden><i style='float:left'>Go</i></label>",
        "radio",
        false,
    ),
    (
        "<input id=it type=checkbox checked hidden><label for=it aria-label=Go></label>
         <style>label::before { content: ''; display: inline-block; width: 20px; height: 20px }</style>",
        "checkbox",
        false,
    ),
];

/// Contract: operations 16, 30, 34. A hidden toggle is visible for targets, and for selectors it is not.
#[tokio::test]
async fn elements_without_a_box_match_and_are_shown() {
    let scene = Scene::start().await;
    let waits = async |condition: Value, matches: bool| {
        let timeout_ms = if matches { 5_000 } else { 300 };
        let body = json!({"condition": condition, "timeout_ms": timeout_ms, "on_timeout": "return"});
        assert_eq!(scene.operate("wait", body).await.expect(200).body["matched"], matches, "{condition}");
    };
    for (html, role, is_visible) in BOXLESS {
        scene.show(html).await;
        let target = json!({"role": role, "name": "go"});
        let body = json!({"extractions": [{"name": "it", "target": target, "type": "attribute", "attribute": "id"}]});
        assert_eq!(scene.operate("extract", body).await.expect(200).body["value"]["it"], "it", "{html}");
        waits(json!({"kind": "selector", "target": target}), true).await;
        waits(json!({"kind": "selector_hidden", "target": target}), false).await;
        waits(json!({"kind": "selector", "selector": "#it"}), is_visible).await;
        let snapshot = scene.snapshot().await["snapshot"].as_str().expect("text").to_owned();
        let line = snapshot.lines().find(|line| line.trim().starts_with(&format!("{role} \"Go\"")));
        let line = line.unwrap_or_else(|| panic!("{html}: {snapshot}"));
        assert_eq!(line.contains("[checked]"), html.contains("checked"), "{html}: {line}");
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 16, 30.
#[tokio::test]
async fn hidden_elements_without_a_box_do_not_match() {
    let scene = Scene::start().await;
    for (html, role) in [
        ("<a href='#x' style='display:block;height:0;overflow:hidden'>Go</a>", "link"),
        ("<div style='display:none'><a href='#x' style='display:contents'>Go</a></div>", "link"),
        ("<a href='#x' style='display:contents;visibility:hidden'>Go</a>", "link"),
        ("<a href='#x' aria-label=Go><span style='float:left;width:0'></span></a>", "link"),
        ("<input type=checkbox id=c hidden><label for=c style='display:none'>Go</label>", "checkbox"),
        ("<input type=checkbox hidden aria-label=Go>", "checkbox"),
        ("<input id=t hidden aria-label=Go><label for=t>Go</label>", "textbox"),
        ("<img usemap='#m' hidden><map name=m><area coords='0,0,9,9' href='#x' alt=Go></map>", "link"),
        ("<map name=m><area coords='0,0,9,9' href='#x' alt=Go></map>", "link"),
        ("<select><option>Go</select>", "option"),
    ] {
        scene.show(html).await;
        let target = json!({"role": role, "name": "go"});
        let body = json!({"extractions": [{"name": "it", "target": target, "type": "list"}]});
        assert_eq!(scene.operate("extract", body).await.expect(200).body["value"]["it"], json!([]), "{html}");
        scene.wait(json!({"kind": "selector_hidden", "target": target})).await.expect(200);
    }
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 31. The 400 lists up to five candidates, each with a selector that matches only it.
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

/// Contract: operations 31.
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

/// Contract: operations 31. A list uses all matches.
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
