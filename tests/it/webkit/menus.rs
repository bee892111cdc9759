//! The action `select`.

use serde_json::json;

use crate::webkit::Scene;

const MENU: &str = "<label>Size <select id=size><option value=''>Choose<option value=s>Small<option value=m>Medium   size<optgroup label=Large>
    <option value=l>Large<option value=xl disabled>Huge</optgroup></select></label><select id=many multiple aria-label=Many><option>a<option>b<option>c</select>
    <select id=off disabled><option>x</select><p id=log></p><script>for (const type of ['input', 'change']) addEventListener(type, event => {
    document.querySelector('#log').textContent += `${event.type}:${[...event.target.selectedOptions].map(o => o.value)}${event.bubbles ? '' : '!'} ` })</script>";

/// Contract: operations 36. The events are those of a user's choice.
#[tokio::test]
async fn option_is_selected_by_value_or_label() {
    let scene = Scene::start().await;
    scene.show(MENU).await;
    let choose = async |element: (&str, serde_json::Value), option: &str| {
        let (by, value) = element;
        scene.act(json!({"kind": "select", by: value, "option": option})).await
    };
    let chosen = choose(("selector", json!("#size")), "m").await.expect(200).body;
    assert_eq!((&chosen["ok"], &chosen["kind"]), (&json!(true), &json!("select")));
    choose(("target", json!({"label": "size"})), "Small").await.expect(200);
    choose(("target", json!({"role": "combobox", "name": "size"})), "Medium size").await.expect(200);
    choose(("selector", json!("#size")), "m").await.expect(200);
    assert_eq!(
        scene.text("#log").await,
        "input:m change:m input:s change:s input:m change:m",
        "selecting the selected option fired events"
    );
    choose(("target", json!({"label": "many"})), "b").await.expect(200);
    choose(("target", json!({"label": "many"})), "c").await.expect(200);
    assert!(
        scene.text("#log").await.as_str().is_some_and(|log| log.ends_with("input:b change:b input:b,c change:b,c"))
    );
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: operations 36.
#[tokio::test]
async fn unknown_option_is_400_with_available_options() {
    let scene = Scene::start().await;
    scene.show(MENU).await;
    let refused = scene.act(json!({"kind": "select", "selector": "#size", "option": "medium size"})).await;
    let refused = refused.invalid("action.option");
    let options = refused.body["options"].as_array().expect("options");
    assert_eq!(options.len(), 5);
    assert_eq!(options[2], json!({"value": "m", "label": "Medium size"}));
    scene.act(json!({"kind": "select", "selector": "#log", "option": "x"})).await.invalid("action.selector");
    scene.act(json!({"kind": "select", "selector": "#size"})).await.invalid("action.option");
    // The service waits for options that a user could not select at present.
    for (selector, option) in [("#size", "xl"), ("#off", "x"), ("#nowhere", "x")] {
        let action = json!({"kind": "select", "selector": selector, "option": option});
        let told =
            scene.operate("interact", json!({"action": action, "timeout_ms": 300, "on_timeout": "return"})).await;
        assert_eq!(told.expect(200).body["ok"], false, "{selector}");
    }
    // The error lists at most 100 of ten thousand options.
    scene.show("<select id=s></select><script>s.innerHTML = Array.from({length: 1e4}, (_, i) => `<option>${'o'.repeat(300)}${i}`).join('')</script>").await;
    let refused = scene.act(json!({"kind": "select", "selector": "#s", "option": "x"})).await.invalid("action.option");
    assert_eq!(refused.body["options"].as_array().map(Vec::len), Some(100));
    scene.assert_ready().await;
    assert_eq!(scene.text("#log").await, serde_json::Value::Null);
    scene.app.stop().await;
}
