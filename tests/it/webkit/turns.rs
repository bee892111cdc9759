//! Turns of agent sessions on real pages.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{App, Site, eventually};
use crate::webkit::Scene;

/// An agent session, whose driver session is the scene's.
struct Agent {
    scene: Scene,
    id: String,
}

impl Agent {
    async fn start() -> Self {
        let app = App::webkit().start().await;
        let (site, client) = (Site::start().await, app.client().await);
        let made = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
        let id = |of: &str| made[of].as_str().expect("an id").to_owned();
        Self { id: id("id"), scene: Scene { session: id("session_id"), app, site, client } }
    }

    async fn tell(&self, body: Value) -> Value {
        self.scene.client.post(&format!("/v1/agent-sessions/{}/message", self.id), body).await.expect(200).body
    }

    async fn say(&self, message: &str) -> Value {
        self.tell(json!({"message": message})).await
    }
}

fn stands(turn: &Value) -> Vec<&str> {
    turn["intents"].as_array().expect("steps").iter().map(|step| step["status"].as_str().expect("a status")).collect()
}

/// Contract: agents 19, 20, 21, 31. However a script submits a form behind a harmless tap, it is held back and asked about; approved of
/// it goes through.
#[tokio::test]
async fn a_form_behind_a_harmless_tap_waits_for_approval() {
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
        let asked = agent.say(&format!("tap '{name}', tap 'Nothing'")).await;
        assert_eq!(stands(&asked), ["needs_approval", "planned"], "{name}: {asked}");
        assert_eq!(asked["intents"][0]["needs_approval"], true);
        assert_eq!((scene.site.hits(), &scene.state().await["url"]), (hits, &address), "{name}");
        agent.tell(json!({"message": "approved", "approvals": [asked["intents"][0]["id"]]})).await;
        eventually(Duration::from_secs(5), "it is sent", async || (scene.site.hits() == hits + 1).then_some(())).await;
    }
    // One that takes its time is held as well, and told of with what is done next.
    scene.show(page).await;
    let hits = scene.site.hits();
    let late = agent.say("tap 'Later', wait 1 second, tap 'Nothing'").await;
    assert_eq!(stands(&late), ["done", "done", "needs_approval"], "{late}");
    assert_eq!(scene.site.hits(), hits);
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agent-grammar 7. A box that stands as it should is left as it is, and what follows goes on.
#[tokio::test]
async fn a_box_that_is_checked_stays_so() {
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
    let turn = agent.say("check 'News', check 'Terms', check 'Terms', uncheck 'Sound', uncheck 'Sound'").await;
    assert_eq!(stands(&turn), ["skipped", "done", "skipped", "done", "skipped"], "{turn}");
    assert_eq!((turn["reply"].as_str(), scene.text("#log").await), (Some("Done, all 5 steps."), json!("23")));
    assert_eq!((&turn["intents"][0]["kind"], &turn["intents"][0]["result"]), (&json!("tap"), &Value::Null));
    let turn = agent.say("uncheck 'News', check 'Sound', extract the href of all links as addresses").await;
    assert_eq!(stands(&turn), ["done", "done", "done"], "{turn}");
    assert_eq!(scene.text("#log").await, "2313");
    assert_eq!(turn["intents"][2]["result"]["value"]["addresses"], json!(["/a", "/b"]), "{turn}");
    agent.scene.app.stop().await;
}

/// Contract: agents 17, 18. A page may name more than anybody looks through: a turn ends all the same, and the next one begins.
#[tokio::test]
async fn a_page_of_very_many_controls_is_no_end() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<script>document.write(Array.from({length: 100000}, (_, i) => `<button>Button ${i}</button>`).join(``))</script>";
    scene.client.navigate(&scene.session, &scene.written(page)).await.expect(200);
    let turn = agent.say("tap 'Button 77777'").await;
    assert_eq!(stands(&turn), ["done"], "{turn}");
    let turn = agent.say("tap 'Button'").await;
    assert_eq!((&turn["kind"], turn["candidates"].as_array().map(Vec::len)), (&json!("clarify"), Some(5)), "{turn}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
