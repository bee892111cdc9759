//! Dialogs, pages, fields and gestures of agent sessions on real pages.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::agents::{Agent, assert_reply_contains, step_statuses};

const ASKS: &str = "<title>Asks</title><p id=log></p><form id=f action=/hit method=post></form>
    <button onclick='log.textContent += confirm(`sure?`)'>Ask</button>
    <button onclick='if (confirm(`Go on?`)) f.submit()'>Forth</button>
    <button onclick='if (confirm(`Send it?`)) fetch(`/hit`, {method: `POST`})'>Fetch</button>
    <button onclick='alert(`hello`); log.textContent += 1'>Greet</button>
    <button onclick='log.textContent += prompt(`name?`)'>Name</button>";

/// Contract: agents 48, 49, 52. To dismiss it needs no approval.
#[tokio::test]
async fn confirmation_is_accepted_after_approval() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show(ASKS).await;
    let asked = agent.send_message("tap 'Ask', tap 'Greet'").await;
    assert_eq!(step_statuses(&asked), ["done", "skipped"], "{asked}");
    assert_reply_contains(&asked, "a dialog");
    let dialog = json!({"type": "confirm", "message": "sure?", "default_value": null});
    assert_eq!(asked["dialog"], dialog);
    let waits = agent.send_message("accept the dialog").await;
    assert_eq!(step_statuses(&waits), ["needs_approval"], "{waits}");
    assert_reply_contains(&waits, "sure?");
    assert_eq!(waits["intents"][0]["dialog"], "confirm dialog \"sure?\"", "{waits}");
    let done = agent.approve(&waits, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    let answered = json!([{"type": "confirm", "message": "sure?", "accepted": true}]);
    assert_eq!((&done["dialogs"], done.get("dialog")), (&answered, None), "{done}");

    agent.send_message("tap 'Ask'").await;
    let dismissed = agent.send_message("dismiss the dialog").await;
    assert_eq!(step_statuses(&dismissed), ["done"], "{dismissed}");
    assert_eq!(scene.text("#log").await, "truefalse");
    let path = format!("/v1/agent-sessions/{}/transcript", agent.id);
    let entries = scene.client.get(&path).await.expect(200).body["data"].clone();
    assert_eq!((&entries[1]["dialog"], &entries[5]["dialogs"]), (&dialog, &answered), "{entries}");
    let nothing = agent.send_message("accept the dialog").await;
    assert_eq!((&nothing["kind"], step_statuses(&nothing)), (&json!("clarify"), vec!["skipped"]), "{nothing}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 20, 49. It covers no other dialog.
#[tokio::test]
async fn approval_of_an_answer_covers_one_form() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show(ASKS).await;
    agent.send_message("tap 'Forth'").await;
    let waits = agent.send_message("accept the dialog").await;
    assert_eq!((step_statuses(&waits), scene.site.hits()), (vec!["needs_approval"], 0), "{waits}");
    // Another dialog opens meanwhile.
    scene.act(json!({"kind": "dialog", "accept": false})).await.expect(200);
    let ask = json!({"kind": "tap", "target": {"role": "button", "name": "ask"}});
    scene.act(ask).await.expect(200);
    let changed = agent.approve(&waits, 0).await;
    assert_eq!(changed["kind"], "clarify", "{changed}");
    scene.act(json!({"kind": "dialog", "accept": false})).await.expect(200);

    agent.send_message("tap 'Forth'").await;
    let waits = agent.send_message("accept the dialog").await;
    let done = agent.approve(&waits, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    let site = &scene.site;
    eventually(Duration::from_secs(5), "the form is submitted", async || (site.hits() == 1).then_some(())).await;

    scene.show(ASKS).await;
    agent.send_message("tap 'Fetch'").await;
    let waits = agent.send_message("accept the dialog").await;
    assert_eq!(scene.site.hits(), 1);
    let done = agent.approve(&waits, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    eventually(Duration::from_secs(5), "the request is sent", async || (site.hits() == 2).then_some(())).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 48, 50. The answer is hidden as typed text is.
#[tokio::test]
async fn alerts_close_and_prompts_are_answered() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show(ASKS).await;
    let greeted = agent.send_message("tap 'Greet', tap 'Greet', accept the dialog, tap 'Name'").await;
    assert_eq!(step_statuses(&greeted), ["done", "done", "done", "done"], "{greeted}");
    let hello = json!({"type": "alert", "message": "hello", "accepted": true});
    assert_eq!(greeted["dialogs"], json!([hello, hello]), "{greeted}");
    let answered = agent.send_message("answer the dialog with 'Ada Lovelace'").await;
    assert_eq!(step_statuses(&answered), ["done"], "{answered}");
    assert_eq!(answered["intents"][0]["text"], "•••", "{answered}");
    assert_eq!(scene.text("#log").await, "11Ada Lovelace");
    let path = format!("/v1/agent-sessions/{}/transcript", agent.id);
    let transcript = scene.client.get(&path).await.expect(200).body.to_string();
    assert!(!transcript.contains("Lovelace"), "{transcript}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 51; agent-grammar 17.
#[tokio::test]
async fn pages_are_switched_and_closed() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show("<title>First page</title>").await;
    let second = scene.written("<title>Second page</title>");
    scene.operate("pages", json!({"url": second})).await.expect(201);
    for (message, title) in [
        ("switch to the page 'first'", "First page"),
        ("go to the other tab", "Second page"),
        ("go to the other tab", "First page"),
    ] {
        let turn = agent.send_message(message).await;
        assert_eq!(step_statuses(&turn), ["done"], "{turn}");
        assert_eq!(scene.state().await["title"], title, "{message}");
    }
    scene.operate("pages", json!({"url": second})).await.expect(201);
    let several = agent.send_message("switch to the page 'second'").await;
    assert_eq!((&several["kind"], several["candidates"].as_array().map(Vec::len)), (&json!("clarify"), Some(2)));
    assert_eq!(agent.send_message("switch to the page 'third'").await["kind"], "clarify");
    let closed = agent.send_message("close this page, close the page 'second', close this page").await;
    assert_eq!(step_statuses(&closed), ["done", "done", "failed"], "{closed}");
    assert_reply_contains(&closed, "last page");
    let page = &closed["intents"][1]["page"];
    assert!(page["id"].as_str().is_some_and(|id| id.starts_with("page_")), "{page}");
    assert_eq!(scene.state().await["title"], "First page");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 52. Earlier downloads are not listed.
#[tokio::test]
async fn turn_lists_its_downloads() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show("<a href='/attachment?bytes=5'>Statement</a>").await;
    let turn = agent.send_message("tap 'Statement', wait for the download").await;
    assert_eq!(step_statuses(&turn), ["done", "done"], "{turn}");
    let download = &turn["downloads"][0];
    assert_eq!((&download["bytes"], &download["status"]), (&json!(5), &json!("complete")), "{turn}");
    assert_eq!(download["id"], turn["intents"][1]["result"]["download"]["id"], "{turn}");
    assert!(download["file_name"].is_string(), "{turn}");
    assert_eq!(agent.send_message("scroll down").await.get("downloads"), None);
    let path = format!("/v1/agent-sessions/{}/transcript", agent.id);
    let entries = scene.client.get(&path).await.expect(200).body["data"].clone();
    assert_eq!((&entries[1]["downloads"], entries[3].get("downloads")), (&turn["downloads"], None), "{entries}");
    agent.scene.app.stop().await;
}

const FIELDS: &str = "<meta name=viewport content='width=device-width'><style>#box { width: 60px; height: 60px; position: absolute; left: 50px; top: 400px }
    #goal { width: 80px; height: 80px; position: absolute; left: 200px; top: 500px; background: #ccc }</style>
    <label>Name <input id=name value=old></label><label>Day <input id=day type=date></label>
    <label>Volume <input id=volume type=range min=0 max=100 value=10></label><label><input id=news type=checkbox>News</label>
    <button id=twice ondblclick='say(`twice`)'>Twice</button><button id=long>Long</button><p id=log></p>
    <div id=box role=img aria-label=Box style='background: #888; touch-action: none'></div><div id=goal role=img aria-label=Goal></div><script>
    const say = text => { log.textContent += text + ' ' };
    let begun = 0;
    long.ontouchstart = () => { begun = Date.now() };
    long.ontouchend = () => say(Date.now() - begun > 600 ? 'long' : 'short');
    let from;
    box.ontouchstart = event => { from = event.touches[0] };
    box.ontouchend = event => { const to = event.changedTouches[0]; say([to.clientX - from.clientX, to.clientY - from.clientY].map(Math.round)) };
    </script>";

/// Contract: agents 53; agent-grammar 5, 7, 15, 16.
#[tokio::test]
async fn messages_fill_fields_and_make_gestures() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show(FIELDS).await;
    let turn = agent
        .send_message("fill 'Name' with 'new'; set the date 'Day' to 24 December 2026; set 'Volume' to '70'; turn on 'News'; turn on 'News'")
        .await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done", "done", "skipped"], "{turn}");
    assert_eq!((&turn["intents"][0]["value"], &turn["intents"][3]["checked"]), (&json!("•••"), &json!(true)), "{turn}");
    let snapshot = scene.snapshot().await["snapshot"].as_str().expect("a snapshot").to_owned();
    for value in ["[value=\"new\"]", "[value=\"2026-12-24\"]", "[value=\"70\"]", "[checked]"] {
        assert!(snapshot.contains(value), "{value} in {snapshot}");
    }
    let turn = agent
        .send_message(
            "long press 'Long'; drag the 'Box' image right by 90 down by 40; drag the 'Box' image to the 'Goal' image",
        )
        .await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done"], "{turn}");
    eventually(Duration::from_secs(5), "the gestures are seen", async || {
        let log = scene.text("#log").await;
        log.as_str().is_some_and(|log| log.starts_with("long 90,40 ") && log.matches(',').count() == 2).then_some(())
    })
    .await;
    let turn = agent.send_message("set the location to 52.52, 13.40").await;
    assert_eq!(step_statuses(&turn), ["done"], "{turn}");
    let session = scene.client.get(&format!("/v1/sessions/{}", scene.session)).await.expect(200).body;
    let expected = json!({"latitude": 52.52, "longitude": 13.4, "accuracy": 10.0});
    assert_eq!(session["emulation"]["geolocation"], expected, "{session}");

    let label = json!({"agent_session_id": agent.id, "label": "x"});
    let recipe = scene.client.post("/v1/recipes", label).await.expect(201).body["id"].clone();
    let path = format!("/v1/recipes/{}", recipe.as_str().expect("an id"));
    let steps = scene.client.get(&path).await.expect(200).body["intent_log"].clone();
    let kinds: Vec<_> = steps.as_array().expect("steps").iter().map(|step| step["kind"].clone()).collect();
    assert_eq!(kinds, ["fill", "fill", "fill", "check", "tap", "drag", "drag", "set_location"], "{steps}");
    assert_eq!((&steps[0]["sensitive"], steps[0].get("value")), (&json!(true), None::<&Value>), "{steps}");
    let path = &steps[5]["path"];
    assert_eq!(path, &json!([{"x": 30.0, "y": 30.0}, {"x": 120.0, "y": 70.0}]), "{steps}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
