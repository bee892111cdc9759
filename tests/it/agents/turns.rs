//! Messages and their turns (contract: agents 15 to 26).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use super::{driver_of, id_of};
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, eventually, members, unknown_id};

async fn send_message(client: &Client, agent: &str, message: &str) -> Value {
    client.post_to_agent(agent, "message", json!({"message": message})).await.expect(200).body
}

/// Kind and status of each step of a turn.
fn step_statuses(turn: &Value) -> Vec<(&str, &str)> {
    let intents = turn["intents"].as_array().expect("intents").iter();
    intents.map(|step| (step["kind"].as_str().expect("a kind"), step["status"].as_str().expect("a status"))).collect()
}

fn step_id(turn: &Value, at: usize) -> String {
    turn["intents"][at]["id"].as_str().expect("an id").to_owned()
}

/// Contract: agents 15, 16, 17, 22. Each step is an ordinary operation and counts as one.
#[tokio::test]
async fn message_runs_its_steps_as_operations() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let made = client.agent_session(json!({})).await;
    let agent = id_of(&made);
    let turn =
        send_message(&client, &agent, "open https://example.com, tap the 'Next' button, type 'hunter2' into 'Name'")
            .await;
    assert_eq!(members(&turn), BTreeSet::from(["turn_id", "kind", "reply", "intents", "tokens_used"]));
    assert!(turn["turn_id"].as_str().is_some_and(|id| id.starts_with("turn_")), "{turn}");
    assert_eq!((&turn["kind"], &turn["tokens_used"]), (&json!("plan"), &json!(0)));
    assert_eq!(step_statuses(&turn), [("navigate", "done"), ("tap", "done"), ("type", "done")]);
    let [load, tap, typed] = [0, 1, 2].map(|at| turn["intents"][at].clone());
    assert_eq!(load["url"], "https://example.com");
    assert_eq!(load["result"]["status"], 200);
    assert_eq!(tap["target"]["description"], "button \"Next\"");
    assert!(tap["target"]["selector"].is_string(), "{tap}");
    assert_eq!((&tap["needs_approval"], &tap["error"]), (&json!(false), &Value::Null));
    assert_eq!(tap["result"]["kind"], "tap");
    assert_eq!(typed["value"], "•••");
    assert!(!turn.to_string().contains("hunter2"), "{turn}");
    let mut kinds: Vec<_> = app.intents(&driver_of(&made)).await.into_iter().map(|intent| intent.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["interact", "interact", "navigate", "open"]);
    assert_eq!(app.tables_with("hunter2").await, <[&str; 0]>::default());

    let picture = send_message(&client, &agent, "take a screenshot").await;
    let step = &picture["intents"][0];
    assert_eq!((&step["kind"], &step["capture"]), (&json!("capture"), &json!("screenshot")));
    assert!(step["result"]["content"].as_str().is_some_and(|content| content.starts_with("iVBORw0KGgo")), "{step}");
    let nonsense = send_message(&client, &agent, "make me a sandwich").await;
    assert_eq!((&nonsense["kind"], &nonsense["intents"]), (&json!("clarify"), &json!([])));
    let refused = send_message(&client, &agent, "open file:///etc/passwd").await;
    assert_eq!(refused["kind"], "refuse", "{refused}");

    let rows = app.audited(account, "agent.decompose.deterministic").await;
    let kinds: Vec<_> = rows.iter().map(|row| row.payload["result_kind"].clone()).collect();
    assert_eq!(kinds, ["plan", "plan", "clarify", "refuse"]);
    assert!(rows.iter().all(|row| row.actor_type == "system"));
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let text = scraper.request(reqwest::Method::GET, "/metrics").send().await.expect("metrics").text().await;
    let text = text.expect("text");
    for (kind, count) in [("plan", 2), ("clarify", 1), ("refuse", 1)] {
        let series = format!("service_agent_decompose_total{{result_kind=\"{kind}\"}} {count}");
        assert!(text.contains(&series), "{series}");
    }
    app.stop().await;
}

/// Contract: agents 15. A 404 for the agent session has precedence.
#[tokio::test]
async fn invalid_messages_are_400() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let long = |chars: usize| json!({"message": "ü".repeat(chars)});
    for (bad, field) in [
        (json!({}), "message"),
        (json!({"message": ""}), "message"),
        (json!({"message": 1}), "message"),
        (long(10_001), "message"),
        (json!({"message": "a", "approvals": "x"}), "approvals"),
        (json!({"message": "a", "approvals": vec!["x"; 101]}), "approvals"),
        (json!({"message": "a", "approvals": ["x".repeat(129)]}), "approvals"),
    ] {
        client.post_to_agent(&agent, "message", bad.clone()).await.invalid(field);
        client.post_to_agent(&unknown_id("agt"), "message", bad.clone()).await.problem(404, "not-found");
        app.client().await.post_to_agent(&agent, "message", bad).await.problem(404, "not-found");
    }
    let turn = client.post_to_agent(&agent, "message", long(10_000)).await.expect(200).body;
    assert_eq!(turn["kind"], "clarify");
    app.stop().await;
}

/// Contract: agents 18. The remaining steps are skipped.
#[tokio::test]
async fn missing_or_ambiguous_element_is_a_question() {
    let app = App::simulated().set("agents.locate_timeout", "100ms").start().await;
    let client = app.client().await;
    let made = client.agent_session(json!({})).await;
    let agent = id_of(&made);
    let turn = send_message(&client, &agent, "tap 'Next' then tap 'several' then tap 'Next'").await;
    assert_eq!(turn["kind"], "clarify");
    assert_eq!(step_statuses(&turn), [("tap", "done"), ("tap", "skipped"), ("tap", "skipped")]);
    let candidates = turn["candidates"].as_array().expect("candidates");
    assert_eq!(candidates.len(), 5);
    assert!(candidates.iter().all(|one| members(one) == BTreeSet::from(["description", "selector"])), "{candidates:?}");
    let turn = send_message(&client, &agent, "tap 'nothing'").await;
    assert_eq!((&turn["kind"], turn.get("candidates")), (&json!("clarify"), None));
    assert_eq!(client.status(&driver_of(&made)).await, "ready");
    app.stop().await;
}

/// Contract: agents 19, 20. After the approval the turn continues with the plan that was shown.
#[tokio::test]
async fn step_that_submits_data_waits_for_approval() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let made = client.agent_session(json!({})).await;
    let agent = id_of(&made);
    let asked = send_message(&client, &agent, "tap 'Next', tap 'Pay now', type 'x' into 'Name'").await;
    assert_eq!(asked["kind"], "plan");
    assert_eq!(step_statuses(&asked), [("tap", "done"), ("tap", "needs_approval"), ("type", "planned")]);
    assert_eq!(asked["intents"][1]["needs_approval"], true);
    let id = step_id(&asked, 1);
    assert!(asked["reply"].as_str().is_some_and(|reply| reply.contains(&id)), "{asked}");

    // Rejected: steps of another turn, steps that have run, steps that were not shown, and invalid ids.
    for approvals in [vec![unknown_id("step")], vec![step_id(&asked, 0), step_id(&asked, 2)], vec!["x".to_owned()]] {
        let body = json!({"message": "approved", "approvals": approvals});
        let turn = client.post_to_agent(&agent, "message", body).await.expect(200).body;
        assert_eq!((&turn["kind"], &turn["intents"]), (&json!("clarify"), &json!([])), "{approvals:?}");
    }
    // Further ids beside the right one are ignored.
    let approve = json!({"message": "approved", "approvals": [step_id(&asked, 2), id]});
    let done = client.post_to_agent(&agent, "message", approve.clone()).await.expect(200).body;
    assert_eq!(done["kind"], "plan", "{done}");
    assert_eq!(step_statuses(&done), [("tap", "done"), ("type", "done")]);
    assert_eq!(step_id(&done, 0), id);
    let again = client.post_to_agent(&agent, "message", approve).await.expect(200).body;
    assert_eq!((&again["kind"], &again["intents"]), (&json!("clarify"), &json!([])));
    assert_eq!(app.audited(account, "agent.decompose.deterministic").await.len(), 1);

    let asked = send_message(&client, &agent, "press Enter").await;
    assert_eq!(step_statuses(&asked), [("press", "needs_approval")]);
    // A message that is not understood does not replace the plan.
    for word in ["approved", "hm?"] {
        assert_eq!(send_message(&client, &agent, word).await["kind"], "clarify");
    }
    let approve = json!({"message": "approved", "approvals": [step_id(&asked, 0)]});
    let done = client.post_to_agent(&agent, "message", approve).await.expect(200).body;
    assert_eq!(step_statuses(&done), [("press", "done")]);
    // A new plan replaces the one that waits for approval.
    let asked = send_message(&client, &agent, "press Enter").await;
    send_message(&client, &agent, "tap 'Next'").await;
    let late = json!({"message": "approved", "approvals": [step_id(&asked, 0)]});
    assert_eq!(client.post_to_agent(&agent, "message", late).await.expect(200).body["kind"], "clarify");

    let asked = send_message(&client, &agent, "tap 'Delete the changing one', tap 'Next'").await;
    let stale = json!({"message": "approved", "approvals": [step_id(&asked, 0)]});
    let stale = client.post_to_agent(&agent, "message", stale).await.expect(200).body;
    assert_eq!(stale["kind"], "clarify", "{stale}");
    assert_eq!(step_statuses(&stale), [("tap", "skipped"), ("tap", "skipped")]);
    app.stop().await;
}

/// Contract: agents 20, 56. The plan of a declined step ends, and a late approval has no effect.
#[tokio::test]
async fn declined_step_ends_its_plan() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    client.get("/v1/account/notifications").await.expect(200);
    let agent = id_of(&client.agent_session(json!({"mode": "pair"})).await);
    let decline =
        async |agent: &str, step: &str| client.post_to_agent(agent, &format!("steps/{step}/decline"), json!({})).await;
    let asked = send_message(&client, &agent, "tap 'Next', tap 'Pay now', type 'x' into 'Name'").await;
    let id = step_id(&asked, 1);

    decline(&agent, &unknown_id("step")).await.problem(404, "not-found");
    decline(&unknown_id("agt"), &id).await.problem(404, "not-found");
    let other = id_of(&client.agent_session(json!({})).await);
    decline(&other, &id).await.problem(404, "not-found");
    for at in [0, 2] {
        decline(&agent, &step_id(&asked, at)).await.problem(409, "conflict");
    }
    // While a person drives, no message can approve the step, but it can be declined.
    client.post_to_agent(&agent, "takeover", json!({"client_id": "ada"})).await.expect(200);
    assert_eq!(decline(&agent, &id).await.expect(200).body["id"], json!(agent));
    decline(&agent, &id).await.problem(409, "conflict");
    client.post_to_agent(&agent, "handback", json!({"client_id": "ada"})).await.expect(200);

    assert_eq!(client.get("/v1/account/approvals").await.expect(200).body["data"], json!([]));
    let transcript = client.get(&format!("/v1/agent-sessions/{agent}/transcript")).await.expect(200).body;
    let declined = &transcript["data"][1];
    assert_eq!(step_statuses(declined), [("tap", "done"), ("tap", "skipped"), ("type", "skipped")]);
    assert_eq!(declined["intents"][1]["error"], "the step was declined");
    assert!(declined["reply"].as_str().is_some_and(|reply| reply.ends_with("so the plan has ended.")), "{declined}");
    let late = json!({"message": "approved", "approvals": [id]});
    let late = client.post_to_agent(&agent, "message", late).await.expect(200).body;
    assert_eq!((&late["kind"], &late["intents"]), (&json!("clarify"), &json!([])));

    let rows = app.audited(account, "approval.decided").await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].target_resource_id.as_ref(), Some(&agent));
    assert_eq!(rows[0].payload, json!({"step_id": id, "decision": "declined"}));
    let page = client.get("/v1/account/notifications?limit=100").await.expect(200).body;
    let changes: Vec<_> = page["data"].as_array().expect("a list").iter().collect();
    let human =
        changes.iter().filter(|entry| entry["event"] == "agent_session.changed" && entry["data"]["control"] == "human");
    assert_eq!(human.count(), 2, "{page}");
    app.stop().await;
}

/// Contract: agents 56. A turn in progress can just be approving the step.
#[tokio::test]
async fn step_is_not_declined_during_a_turn() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = id_of(&client.agent_session(json!({})).await);
    let asked = send_message(&client, &agent, "press Enter, wait 2 seconds").await;
    let id = step_id(&asked, 0);
    let turn = tokio::spawn({
        let (client, agent, id) = (client.clone(), agent.clone(), id.clone());
        async move { client.post_to_agent(&agent, "message", json!({"message": "approved", "approvals": [id]})).await }
    });
    eventually(Duration::from_secs(5), "the turn has begun", async || {
        (app.count("select count(*) from agent_sessions where turn_id is not null").await == 1).then_some(())
    })
    .await;
    client.post_to_agent(&agent, &format!("steps/{id}/decline"), json!({})).await.problem(409, "conflict");
    let done = turn.await.expect("an answer").expect(200).body;
    assert_eq!(step_statuses(&done), [("press", "done"), ("wait", "done")]);
    app.stop().await;
}

/// Contract: agents 23. In `pair` mode during human control, and in `manual` mode, messages are rejected.
#[tokio::test]
async fn concurrent_message_is_409() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let made = client.agent_session(json!({"mode": "pair"})).await;
    let agent = id_of(&made);
    let messages = (0..8).map(|_| {
        let (client, agent) = (client.clone(), agent.clone());
        async move { client.post_to_agent(&agent, "message", json!({"message": "wait 1 second"})).await }
    });
    let answers = at_once(messages).await;
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(ran, 1);
    answers.into_iter().filter(|answer| answer.status != 200).for_each(|answer| drop(answer.problem(409, "conflict")));
    assert_eq!(app.count("select count(*) from agent_turns").await, 1);

    client.post_to_agent(&agent, "takeover", json!({"client_id": "ada"})).await.expect(200);
    let refused = |answer: Answer| drop(answer.problem(409, "conflict"));
    refused(client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await);
    client.post_to_agent(&agent, "handback", json!({"client_id": "ada"})).await.expect(200);
    client.post_to_agent(&agent, "mode", json!({"mode": "manual"})).await.expect(200);
    refused(client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await);
    client.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await.expect(200);
    send_message(&client, &agent, "tap 'Next'").await;
    client.delete(&format!("/v1/sessions/{}", driver_of(&made))).await.expect(204);
    for _ in 0..2 {
        client
            .post_to_agent(&agent, "message", json!({"message": "tap 'Next'"}))
            .await
            .problem(410, "session-destroyed");
        assert_eq!(client.get_agent(&agent).await["close_reason"], "driver_session_ended");
    }
    let closed = client.agent().await;
    client.delete(&format!("/v1/agent-sessions/{closed}")).await.expect(204);
    refused(client.post_to_agent(&closed, "message", json!({"message": "tap 'Next'"})).await);
    app.stop().await;
}

async fn start_message(app: &App, client: &Client, agent: &str, message: &str) -> tokio::task::JoinHandle<Answer> {
    let (client, agent, message) = (client.clone(), agent.to_owned(), message.to_owned());
    let said = tokio::spawn(async move { client.post_to_agent(&agent, "message", json!({"message": message})).await });
    running_wait(app).await;
    said
}

async fn running_wait(app: &App) {
    eventually(Duration::from_secs(10), "a wait runs", async || {
        (app.count("select count(*) from intents where kind = 'wait' and status = 'running'").await > 0).then_some(())
    })
    .await;
}

/// Contract: agents 24.
#[tokio::test]
async fn takeover_or_close_skips_the_remaining_steps() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = id_of(&client.agent_session(json!({"mode": "pair"})).await);
    let said = start_message(&app, &client, &agent, "wait 1 second, tap 'Next'").await;
    client.post_to_agent(&agent, "takeover", json!({"client_id": "ada"})).await.expect(200);
    let turn = said.await.expect("a task").expect(200).body;
    assert_eq!(step_statuses(&turn), [("wait", "done"), ("tap", "skipped")], "{turn}");
    client.post_to_agent(&agent, "handback", json!({"client_id": "ada"})).await.expect(200);
    // The rest is also skipped when the human hands back before the step ends.
    for (there, back) in [
        (("takeover", json!({"client_id": "ada"})), ("handback", json!({"client_id": "ada"}))),
        (("mode", json!({"mode": "manual"})), ("mode", json!({"mode": "pair"}))),
    ] {
        let said = start_message(&app, &client, &agent, "wait 1 second, tap 'Next'").await;
        for (what, body) in [there, back] {
            client.post_to_agent(&agent, what, body).await.expect(200);
        }
        let turn = said.await.expect("a task").expect(200).body;
        assert_eq!(step_statuses(&turn), [("wait", "done"), ("tap", "skipped")], "{turn}");
    }
    assert_eq!(step_statuses(&send_message(&client, &agent, "tap 'Next'").await), [("tap", "done")]);

    let made = client.agent_session(json!({})).await;
    let said = start_message(&app, &client, &id_of(&made), "wait 30 seconds, tap 'Next'").await;
    client.delete(&format!("/v1/agent-sessions/{}", id_of(&made))).await.expect(204);
    let turn = said.await.expect("a task").expect(200).body;
    assert_eq!(step_statuses(&turn), [("wait", "failed"), ("tap", "skipped")], "{turn}");
    let told = client.get(&format!("/v1/agent-sessions/{}/transcript", id_of(&made))).await.expect(200).body;
    assert_eq!(told["data"][1]["intents"], turn["intents"]);
    app.stop().await;
}

/// Contract: agents 41; authorization 16. The caller receives an error and none of the later results.
#[tokio::test]
async fn revoked_credential_skips_the_remaining_steps() {
    let app = App::simulated().start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let members_key = async |name: &str| {
        let answer = owner.post("/v1/api-keys", json!({"name": name, "scopes": ["account_owner"]})).await.expect(201);
        let id = answer.body["id"].as_str().expect("an id").to_owned();
        (id, Client::new(&app.base_url, answer.body["key"].as_str()))
    };
    let transcript = async |agent: &str| {
        eventually(Duration::from_secs(20), "the turn ends", async || {
            let told = owner.get(&format!("/v1/agent-sessions/{agent}/transcript")).await.expect(200).body;
            told["data"].as_array().filter(|entries| entries.len() == 2).map(|entries| entries[1].clone())
        })
        .await
    };
    let stopped = "the credential that sent the message is no longer valid";

    let (id, key) = members_key("short-lived").await;
    let agent = id_of(&owner.agent_session(json!({})).await);
    let said = start_message(&app, &key, &agent, "wait 4 seconds, extract the heading as secret").await;
    owner.delete(&format!("/v1/api-keys/{id}")).await.expect(204);
    said.await.expect("a task").problem(401, "unauthorized");
    let turn = transcript(&agent).await;
    assert_eq!(step_statuses(&turn), [("wait", "done"), ("extract", "skipped")], "{turn}");
    assert!(turn["reply"].as_str().is_some_and(|reply| reply.contains(stopped)), "{turn}");

    let admin = app.person(Tier::Free).await;
    app.join_team(account, admin.account, "admin").await;
    let agent = id_of(&owner.agent_session(json!({})).await);
    let request = admin.client.request(Method::POST, &format!("/v1/agent-sessions/{agent}/message"));
    let request = request.header("x-service-account", account.to_string());
    let request = request.json(&json!({"message": "wait 4 seconds, extract the heading as secret"}));
    let said = tokio::spawn({
        let client = admin.client.clone();
        async move { client.send(request).await }
    });
    running_wait(&app).await;
    app.execute("delete from team_members where owner_account_id = $1", account.as_uuid()).await;
    said.await.expect("a task").problem(403, "forbidden");
    assert_eq!(step_statuses(&transcript(&agent).await), [("wait", "done"), ("extract", "skipped")]);

    // The result of a running operation is not returned to a caller whose key was revoked.
    let (id, key) = members_key("of operations").await;
    let session = owner.session().await;
    let waiting = tokio::spawn({
        let (key, session) = (key.clone(), session.clone());
        async move { key.operate(&session, "wait", json!({"condition": {"kind": "time", "ms": 4_000}})).await }
    });
    running_wait(&app).await;
    owner.delete(&format!("/v1/api-keys/{id}")).await.expect(204);
    waiting.await.expect("a task").problem(401, "unauthorized");
    assert_eq!(owner.status(&session).await, "ready");
    app.stop().await;
}

/// Contract: agents 25.
#[tokio::test]
async fn turn_of_a_disconnected_caller_completes() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    start_message(&app, &client, &agent, "wait 1 second, tap 'Next'").await.abort();
    let transcript = eventually(Duration::from_secs(20), "the turn has ended", async || {
        let told = client.get(&format!("/v1/agent-sessions/{agent}/transcript")).await.expect(200).body;
        (told["data"].as_array()?.len() == 2).then_some(told)
    })
    .await;
    assert_eq!(step_statuses(&transcript["data"][1]), [("wait", "done"), ("tap", "done")]);
    app.stop().await;
}

/// Contract: agents 26; lists 1. The transcript is ordered and paged.
#[tokio::test]
async fn transcript_contains_everything_but_typed_text() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    for message in ["type 'hunter2' into 'Password'", "take a screenshot", "please type hunter2 sometime", "tap 'Next'"]
    {
        send_message(&client, &agent, message).await;
    }
    let path = format!("/v1/agent-sessions/{agent}/transcript");
    let whole = client.get(&path).await.expect(200).body;
    let said: Vec<_> = whole["data"].as_array().expect("entries").iter().map(|entry| entry["role"].clone()).collect();
    assert_eq!(said, ["user", "agent"].repeat(4));
    assert!(!whole.to_string().contains("hunter2"), "{whole}");
    assert_eq!(whole["data"][0]["message"], "type '•••' into 'Password'");
    assert_eq!(whole["data"][1]["decomposer"], "deterministic");
    assert_eq!(whole["data"][3]["intents"][0]["result"]["content"], "");
    assert_eq!((&whole["has_more"], &whole["next_cursor"]), (&json!(false), &Value::Null));
    for limit in [1, 2, 3, 5] {
        let (mut pages, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("{path}?limit={limit}{cursor}")).await.expect(200).body;
            let entries = page["data"].as_array().expect("entries").clone();
            assert!(entries.len() <= limit, "{page}");
            pages.extend(entries);
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(json!(pages), whole["data"], "{limit}");
    }
    client.get(&format!("{path}?cursor=x")).await.invalid("cursor");
    app.client().await.get(&path).await.problem(404, "not-found");
    app.execute("update agent_sessions set updated_at = now() where id = $1", uuid_of(&agent)).await;
    app.stop().await;
}

/// Contract: agents 32. A receipt still returns its response.
#[tokio::test]
async fn messages_and_bytes_of_an_agent_session_are_limited() {
    let app = App::simulated().with_second_factors().set("agents.max_turns", "2").start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let path = format!("/v1/agent-sessions/{agent}/message");
    let keyed = || {
        let request = client.request(reqwest::Method::POST, &path).header("idempotency-key", "k");
        client.send(request.json(&json!({"message": "tap 'Next'"})))
    };
    let first = keyed().await.expect(200).body;
    send_message(&client, &agent, "make me a sandwich").await;
    let full =
        client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.problem(409, "conflict").body;
    assert_eq!((&full["current_turns"], &full["limit"]), (&json!(2), &json!(2)));
    assert_eq!(keyed().await.expect(200).body, first);
    assert_eq!(client.get_agent(&agent).await["status"], "active");
    send_message(&client, &client.agent().await, "tap 'Next'").await;
    app.stop().await;

    let app = App::simulated().set("agents.max_transcript_bytes", "300").start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    send_message(&client, &agent, "tap 'Next'").await;
    let full =
        client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.problem(409, "conflict").body;
    assert!(full["current_bytes"].as_i64().is_some_and(|bytes| bytes >= 300), "{full}");
    assert_eq!(full["limit"], 300);
    let kept = "select sum(coalesce(length(t.sealed_said), 0)) + (select sum(coalesce(length(s.sealed_shown), 0) + coalesce(length(s.sealed_result), 0))
                from agent_steps s)::bigint from agent_turns t";
    assert_eq!(app.count(kept).await, full["current_bytes"].as_i64().expect("a number"));
    app.stop().await;
}

/// Contract: agents 26; agent-grammar 8. The text may have been meant for typing.
#[tokio::test]
async fn message_that_was_not_understood_reveals_no_secrets() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    for message in [
        "typ \"SEC-1\" into Password",
        "use “SEC-2” as the password",
        "login as ada with SEC-3",
        "Passwort 'SEC-4' eintippen",
        "select \"SEC-5\" into Password",
        "code SEC-6",
        "send SEC-7 to the field",
        "tap Login; SEC-8",
        "wait for the sms; SEC-9",
        "tap 'OK', SEC-10",
    ] {
        let turn = send_message(&client, &agent, message).await;
        assert!(!turn.to_string().contains("SEC-"), "{message}: {turn}");
    }
    let told = client.get(&format!("/v1/agent-sessions/{agent}/transcript?limit=100")).await.expect(200).body;
    assert_eq!(told["data"].as_array().map(Vec::len), Some(20));
    assert!(!told.to_string().contains("SEC-"), "{told}");
    assert_eq!(told["data"][14]["message"], "tap Login; •••");
    app.stop().await;
}

/// Contract: agents 36, 45; limits 5.
#[tokio::test]
async fn transcript_with_much_typed_text_delays_no_request() {
    const LETTERS: usize = 9_000;
    const MESSAGES: usize = 30;
    let app = App::simulated().start().await;
    let (client, other) = (app.client().await, app.client().await);
    let agent = client.agent().await;
    let session = other.session().await;
    for at in 0..MESSAGES {
        let typed = format!("{}{at:04}", "a".repeat(LETTERS));
        send_message(&client, &agent, &format!("type '{typed}' into 'Name'")).await;
        // Many positions of the text begin like all of the typed texts, but none matches one completely.
        send_message(
            &client,
            &agent,
            &format!("open https://example.com/?q={}", format!("{}b", "a".repeat(24)).repeat(LETTERS / 25)),
        )
        .await;
    }
    let path = format!("/v1/agent-sessions/{agent}/transcript?limit=100");
    let begun = Instant::now();
    let reading = at_once((0..4).map(|_| {
        let (client, path) = (client.clone(), path.clone());
        async move { client.get(&path).await }
    }));
    let (read, ()) = tokio::join!(reading, async {
        for _ in 0..10 {
            let begun = Instant::now();
            other
                .post(
                    &format!("/v1/sessions/{session}/interact"),
                    json!({"action": {"kind": "scroll", "delta_x": 0, "delta_y": 1}}),
                )
                .await
                .expect(200);
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    for page in read {
        let text = page.expect(200).body.to_string();
        assert!(text.contains("https://example.com/?q=•••b"), "{}", &text[..2_000]);
        assert!(!text.contains("aaaa"));
    }
    app.stop().await;
}

/// Contract: agents 45. This hides all text that a page can influence.
#[tokio::test]
async fn text_of_pages_is_hidden_above_the_search_limit() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let typed = |at: usize| format!("type '{at:03}{}' into 'Name'", "🦀".repeat(9_900));
    let tap = send_message(&client, &agent, "tap the 'Next' button").await;
    assert_eq!(tap["intents"][0]["target"]["description"], "button \"Next\"");
    for at in 0..27 {
        send_message(&client, &agent, &typed(at)).await;
    }
    let tap = send_message(&client, &agent, "tap the 'Next' button").await;
    assert_eq!(
        (&tap["intents"][0]["target"]["description"], &tap["intents"][0]["status"]),
        (&json!("•••"), &json!("done"))
    );
    let told = client.get(&format!("/v1/agent-sessions/{agent}/transcript")).await.expect(200).body;
    assert_eq!((&told["data"][0]["message"], &told["data"][1]["reply"]), (&json!("•••"), &json!("•••")));
    assert!(!told.to_string().contains("Next"), "{told}");
    app.stop().await;
}

/// Contract: agents 26.
#[tokio::test]
async fn transcript_page_ends_with_the_turn_that_fills_it() {
    let app = App::simulated().set("limits.page_bytes", "1").start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    for message in ["tap the 'Next' button", "make me a sandwich", "take a screenshot"] {
        send_message(&client, &agent, message).await;
    }
    let (mut path, mut turns) = (format!("/v1/agent-sessions/{agent}/transcript?limit=100"), Vec::new());
    loop {
        let page = client.get(&path).await.expect(200).body;
        assert_eq!(page["data"].as_array().map(Vec::len), Some(2), "{page}");
        turns.push(page["data"][0]["message"].clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/agent-sessions/{agent}/transcript?limit=100&cursor={cursor}");
    }
    assert_eq!(turns, ["tap the 'Next' button", "make me a sandwich", "take a screenshot"]);
    app.stop().await;
}
