//! Workers that die in a turn (contract: agents 25, 30).

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::id_of;
use crate::support::{App, Role, eventually};

/// Contract: agents 25; workers 4. What was done is done, of what was under way nobody knows, and the rest is left out; the agent session is
/// told so, and can be closed.
#[tokio::test]
async fn a_worker_that_dies_in_a_turn_leaves_the_truth() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let made = client.agent_session(json!({})).await;
    let (agent, path) = (id_of(&made), format!("/v1/agent-sessions/{}", id_of(&made)));
    let said = {
        let (client, agent) = (client.clone(), agent.clone());
        let body = json!({"message": "wait 1 second, wait 40 seconds, tap 'Next'"});
        tokio::spawn(async move { client.tell(&agent, "message", body).await })
    };
    eventually(Duration::from_secs(20), "the second step is under way", async || {
        let under_way = "select count(*) from intents where kind = 'wait' and status = 'running'
                         and exists (select from intents where kind = 'wait' and status = 'done')";
        (app.count(under_way).await > 0).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    let turn = said.await.expect("a task").expect(200).body;
    let statuses: Vec<_> = turn["intents"].as_array().expect("steps").iter().map(|step| &step["status"]).collect();
    assert_eq!(statuses, ["done", "failed", "skipped"], "{turn}");
    assert!(turn["intents"][1]["error"].is_string(), "{turn}");
    let told = client.get(&format!("{path}/transcript")).await.expect(200).body;
    assert_eq!(told["data"][1]["intents"], turn["intents"]);
    assert_eq!(told["data"][1]["decomposer"], Value::Null);

    // Its browser may have done what nobody knows of, so that it takes nothing any more, and says so.
    assert!(turn["reply"].as_str().is_some_and(|reply| reply.contains("close this agent session")), "{turn}");
    client.tell(&agent, "message", json!({"message": "tap 'Next'"})).await.problem(409, "conflict");
    client.delete(&path).await.expect(204);
    let next = client.post("/v1/agent-sessions", json!({})).await;
    assert_eq!(next.status, 503, "{}", next.body);
    app.start(Role::Worker);
    app.ready().await;
    let agent = eventually(Duration::from_secs(30), "there is a worker", async || {
        let made = client.post("/v1/agent-sessions", json!({})).await;
        (made.status == 201).then(|| id_of(&made.body))
    })
    .await;
    let turn = client.tell(&agent, "message", json!({"message": "tap 'Next'"})).await.expect(200).body;
    assert_eq!(turn["intents"][0]["status"], "done");
    app.stop().await;
}
