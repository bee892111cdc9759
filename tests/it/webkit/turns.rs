use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{App, eventually};
use crate::webkit::agents::{Agent, assert_reply_contains, step_statuses};

/// Contract: agents 19, 20, 21, 31, 34. A script submits the form, in several ways.
#[tokio::test]
async fn form_behind_a_harmless_tap_waits_for_approval() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<form id=other action=/hit><input name=r></form><p id=log></p>
        <button onclick='other.submit()'>Look</button>
        <button onclick='other.requestSubmit()'>Glance</button>
        <button onclick='setTimeout(() => other.submit())'>Peek</button>
        <button onclick='Promise.resolve().then(() => other.submit())'>Glimpse</button>
        <button onclick='log.textContent += `x`'>Nothing</button>
        <button onclick='setTimeout(() => other.submit(), 300)'>Later</button>";
    for (hits, name) in ["Look", "Glance", "Peek", "Glimpse"].into_iter().enumerate() {
        scene.show(page).await;
        let address = scene.state().await["url"].clone();
        let asked = agent.send_message(&format!("tap '{name}'")).await;
        assert_eq!(step_statuses(&asked), ["needs_approval"], "{name}: {asked}");
        assert_eq!(asked["intents"][0]["needs_approval"], true);
        assert_eq!((scene.site.hits(), &scene.state().await["url"]), (hits, &address), "{name}");
        assert_eq!(step_statuses(&agent.approve(&asked, 0).await), ["done"], "{name}");
        eventually(Duration::from_secs(5), "the form is submitted", async || {
            (scene.site.hits() == hits + 1).then_some(())
        })
        .await;
    }
    // A delayed submission is held as well. The next step reports it without being blamed for it.
    scene.show(page).await;
    let hits = scene.site.hits();
    let late = agent.send_message("tap 'Later', wait 1 second, tap 'Nothing'").await;
    assert_eq!(step_statuses(&late), ["done", "done", "done"], "{late}");
    assert_reply_contains(&late, "by itself");
    assert_eq!(scene.site.hits(), hits);
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agent-grammar 7.
#[tokio::test]
async fn checkbox_with_the_requested_state_is_unchanged() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene
        .show(
            "<p id=log></p><label><input type=checkbox checked onchange='log.textContent += 1'>News</label>
             <input type=checkbox aria-label=Terms onchange='log.textContent += 2'>
             <div role=switch aria-checked=true tabindex=0 onclick='this.ariaChecked = this.ariaChecked !== `true`; log.textContent += 3'>Sound</div>
             <a href=/a>A</a><a href=/b>B</a><a>C</a>",
        )
        .await;
    let turn = agent.send_message("check 'News', check 'Terms', check 'Terms', uncheck 'Sound', uncheck 'Sound'").await;
    assert_eq!(step_statuses(&turn), ["skipped", "done", "skipped", "done", "skipped"], "{turn}");
    assert_eq!((turn["reply"].as_str(), scene.text("#log").await), (Some("Done, all 5 steps."), json!("23")));
    assert_eq!((&turn["intents"][0]["kind"], &turn["intents"][0]["result"]), (&json!("check"), &Value::Null));
    let turn = agent.send_message("uncheck 'News', check 'Sound', extract the href of all links as addresses").await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done"], "{turn}");
    assert_eq!(scene.text("#log").await, "2313");
    assert_eq!(turn["intents"][2]["result"]["value"]["addresses"], json!(["/a", "/b"]), "{turn}");
    agent.scene.app.stop().await;
}

/// Contract: agents 17, 33. The next agent session works.
#[tokio::test]
async fn page_with_very_many_controls_ends_the_turn() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<script>document.write(Array.from({length: 100000}, (_, i) => `<button>Button ${i}</button>`).join(``))</script>";
    scene.client.navigate(&scene.session, &scene.written(page)).await.expect(200);
    let turn = agent.send_message("tap 'Button'").await;
    assert_eq!(step_statuses(&turn), ["skipped"], "{turn}");
    scene.client.delete(&format!("/v1/agent-sessions/{}", agent.id)).await.expect(204);
    let next = scene.client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let path = format!("/v1/agent-sessions/{}/message", next["id"].as_str().expect("an id"));
    let turn = scene.client.post(&path, json!({"message": "open http://welcome.kitfleet.internal/"})).await.expect(200);
    assert_eq!(step_statuses(&turn.body), ["done"], "{}", turn.body);
    agent.scene.app.stop().await;
}

/// The commands are those of the section on agent sessions.
#[tokio::test]
async fn readme_commands_of_agent_sessions_print_their_output() {
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("\n## An agent session\n").expect("a section");
    let block = |kind: &str| {
        section.split_once(&format!("```{kind}\n")).expect("a block").1.split("```").next().expect("its end")
    };
    let app = App::webkit().with_second_factors().start().await;
    let (client, folder) = (app.client().await, tempfile::tempdir().expect("a folder"));
    let call = "call() { curl -fsS -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \"$@\"; }\n";
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-euc", &format!("{call}{}", block("sh"))]).current_dir(folder.path());
    shell.env("URL", &client.base_url).env("KEY", client.key.as_ref().expect("a key")).env("NO_PROXY", "*");
    let ran = shell.output().await.expect("a shell");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let step = said.split("step_").nth(1).and_then(|rest| rest.get(..36)).expect("a step");
    assert_eq!(said.replace(step, "…"), block("text"));
    app.stop().await;
}
