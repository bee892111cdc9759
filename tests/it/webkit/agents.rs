//! Agent sessions on real pages.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{App, Site, eventually};
use crate::webkit::Scene;

pub struct Agent {
    pub scene: Scene,
    pub id: String,
}

impl Agent {
    pub async fn start() -> Self {
        let app = App::webkit().with_second_factors().start().await;
        let (site, client) = (Site::start().await, app.client().await);
        let made = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
        let id = |of: &str| made[of].as_str().expect("an id").to_owned();
        Self { id: id("id"), scene: Scene { session: id("session_id"), app, site, client } }
    }

    pub async fn send_body(&self, body: Value) -> Value {
        self.scene.client.post(&format!("/v1/agent-sessions/{}/message", self.id), body).await.expect(200).body
    }

    pub async fn send_message(&self, message: &str) -> Value {
        self.send_body(json!({"message": message})).await
    }

    pub async fn approve(&self, asked: &Value, step: usize) -> Value {
        self.send_body(json!({"message": "approved", "approvals": [asked["intents"][step]["id"]]})).await
    }

    /// Scripts of the page run meanwhile.
    pub async fn wait_ms(&self, ms: u64) {
        self.scene.operate("wait", json!({"condition": {"kind": "time", "ms": ms}})).await.expect(200);
    }

    async fn hits(&self, hits: usize) {
        let site = &self.scene.site;
        eventually(Duration::from_secs(5), "the form is submitted", async || (site.hits() == hits).then_some(())).await;
    }
}

pub fn step_statuses(turn: &Value) -> Vec<&str> {
    turn["intents"].as_array().expect("steps").iter().map(|step| step["status"].as_str().expect("a status")).collect()
}

pub fn assert_reply_contains(turn: &Value, words: &str) {
    assert!(turn["reply"].as_str().is_some_and(|reply| reply.contains(words)), "{words}: {turn}");
}

const COUNTER: &str = "<span id=n>0</span><button onclick='n.textContent = +n.textContent + 1'>Add one</button>
    <label>Note <input></label>";

/// Contract: agents 19, 34. The form is held and reported. No step is repeated.
#[tokio::test]
async fn form_submitted_by_the_page_is_not_attributed_to_a_step() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let by_itself =
        "<form id=f method=post action=/hit></form><script>addEventListener('load', () => f.submit())</script>";
    let (by_itself, counter) = (scene.written(by_itself), scene.written(COUNTER));
    let turn = agent.send_message(&format!("open {by_itself}")).await;
    assert_eq!(step_statuses(&turn), ["done"], "{turn}");
    assert_reply_contains(&turn, "by itself");
    for step in ["tap \"Add one\"", "scroll down", "type \"x\" into Note", "go back"] {
        agent.send_message(&format!("open {by_itself}")).await;
        let turn = agent.send_message(&format!("open {counter}, {step}")).await;
        assert_eq!(step_statuses(&turn), ["done", "done"], "{step}: {turn}");
    }
    let later =
        "<form id=f method=post action=/hit></form><p id=log></p><button onclick='log.textContent += 1'>Add</button>
        <button onclick='setTimeout(() => f.submit(), 300)'>Later</button>";
    scene.show(later).await;
    let turn = agent.send_message("tap 'Later', wait 1 second, tap 'Add'").await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done"], "{turn}");
    assert_reply_contains(&turn, "by itself");
    assert_eq!((scene.text("#log").await, scene.site.hits()), (json!("1"), 0));
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 20, 31, 35; workers 2. The step that caused it is not repeated.
#[tokio::test]
async fn approval_submits_only_the_held_form() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<form id=other action=/hit method=post target=sink><input name=r required value=1></form><iframe name=sink></iframe>
        <p id=log></p><form id=evil action=/list><input name=all></form>
        <button onclick='log.textContent += 1; other.submit()'>Look</button>
        <button onclick='log.textContent += 1; other.requestSubmit()'>Glance</button>
        <button onclick='log.textContent += 1; new FormData(evil); setTimeout(() => other.submit())'>Peek</button>
        <button onclick='log.textContent += 1; other.requestSubmit(); setTimeout(() => evil.submit(), 300)'>Trap</button>
        <button onclick='other.requestSubmit(); setTimeout(() => other.remove(), 100)'>Gone</button>
        <button onclick='log.textContent += `x`'>Nothing</button>";
    for (hits, name) in ["Look", "Glance", "Peek", "Trap"].into_iter().enumerate() {
        scene.show(page).await;
        let asked = agent.send_message(&format!("tap '{name}', tap 'Nothing'")).await;
        assert_eq!(step_statuses(&asked), ["needs_approval", "planned"], "{name}: {asked}");
        assert_reply_contains(&asked, "this was done, but it would submit a form");
        assert_eq!((&asked["intents"][0]["result"]["ok"], scene.site.hits()), (&json!(true), hits), "{name}");
        agent.wait_ms(600).await;
        let done = agent.approve(&asked, 0).await;
        assert_eq!(step_statuses(&done), ["done", "done"], "{name}: {done}");
        agent.hits(hits + 1).await;
        assert_eq!(scene.text("#log").await, "1x", "{name}");
    }
    scene.show(page).await;
    let asked = agent.send_message("tap 'Gone', tap 'Nothing'").await;
    agent.wait_ms(300).await;
    let gone = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&gone), ["failed", "skipped"], "{gone}");
    assert_eq!(scene.site.hits(), 4);
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 26, 36; recipes 12, 17.
#[tokio::test]
async fn typed_text_repeated_by_the_page_is_hidden() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<form action=/submitted><label>Name <input name=name></label><label>Password <input name=secret type=password></label>
        <a id=hash href='#'>Mark</a><button id=echo type=button>Continue</button><button>Log on</button></form>
        <script>const pw = document.querySelector('[type=password]'), shown = echo;
        shown.id = ''; pw.oninput = () => { shown.textContent = `Proceed as ${pw.value}`; shown.dataset.testid = pw.value; hash.href = '#' + pw.value }</script>";
    scene.show(page).await;
    let turn = agent
        .send_message(
            "type 'ada lovelace' into Name, type 'ZEBRA-111' into Password, tap 'Proceed as', tap Mark, tap 'Log on'",
        )
        .await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done", "done", "needs_approval"], "{turn}");
    let done = agent.approve(&turn, 4).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    let later = agent
        .send_message(
            "wait for the address to contain \"submitted\", extract the text of css \"body\" as all, tap 'ZEBRA-111'",
        )
        .await;
    let (session, client) = (format!("/v1/agent-sessions/{}", agent.id), &scene.client);
    let label = json!({"agent_session_id": agent.id, "label": "x"});
    let recipe = client.post("/v1/recipes", label).await.expect(201).body["id"].clone();
    let recipe = client.get(&format!("/v1/recipes/{}", recipe.as_str().expect("an id"))).await.expect(200).body;
    let suggestion = client.get(&format!("{session}/recipe-suggestion")).await.expect(200).body;
    let transcript = client.get(&format!("{session}/transcript")).await.expect(200).body;
    let mut told = vec![turn.clone(), done, recipe.clone(), suggestion];
    told.extend([&later["reply"], &later["intents"][0], &later["intents"][2]].map(Clone::clone));
    told.push(transcript["data"][1].clone());
    for told in told {
        let told = told.to_string();
        assert!(!["ZEBRA", "ada lovelace", "ada+love"].iter().any(|typed| told.contains(typed)), "{told}");
    }
    assert_eq!(turn["intents"][2]["target"]["description"], "button \"Proceed as •••\"");
    assert!(recipe.to_string().contains("Proceed as •••"), "{recipe}");
    agent.scene.app.stop().await;
}

/// Contract: agents 19, 44. Its text names the action.
#[tokio::test]
async fn action_controls_need_approval_in_any_language_and_role() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let act = "onclick=\"fetch('/hit')\"";
    let page = format!(
        "<style>#pseudo::before {{ content: 'Eliminar cuenta' }}</style>
         <div id=tab role=tab {act}>Konto löschen</div>
         <h2 id=heading {act}>Delete account</h2>
         <div id=textbox role=textbox {act}>購入する</div>
         <div id=slider role=slider aria-label='Wire funds' {act}>Volume</div>
         <button id=labelled aria-label=Next {act}>Jetzt kostenpflichtig bestellen</button>
         <button id=titled title='Sign contract' {act}>Go</button>
         <input id=readonly readonly value=Acheter aria-label=Field {act}>
         <button {act}>Оплатить <span id=inner>now</span></button>
         <button id=hidden {act}>De\u{200b}lete</button>
         <div id=pseudo role=button {act}>&nbsp;</div>
         <button id=harmless onclick='log.textContent = 1'>Weiter</button><a id=sign href='#' onclick='log.textContent = 2'>Sign in</a><p id=log></p>"
    );
    scene.show(&page).await;
    for id in ["tab", "heading", "textbox", "slider", "labelled", "titled", "readonly", "inner", "hidden", "pseudo"] {
        let asked = agent.send_message(&format!("tap css \"#{id}\"")).await;
        assert_eq!((step_statuses(&asked), scene.site.hits()), (vec!["needs_approval"], 0), "{id}: {asked}");
    }
    for (id, log) in [("harmless", "1"), ("sign", "2")] {
        let done = agent.send_message(&format!("tap css \"#{id}\"")).await;
        assert_eq!((step_statuses(&done), scene.text("#log").await), (vec!["done"], json!(log)), "{id}: {done}");
    }
    let asked = agent.send_message("tap css \"#tab\"").await;
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    agent.hits(1).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
