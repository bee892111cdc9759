//! Messages that a model interprets (contract: byok 14 to 16, 17 to 24).

use std::sync::Arc;
use std::time::{Duration, Instant};

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{driver_of, id_of};
use crate::support::app::Builder;
use crate::support::model_provider::{
    ModelProvider, Reply, anthropic_call, anthropic_error, openai_call, openai_error,
};
use crate::support::people::ENCRYPTION_KEY;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, Role, eventually};

const KEY: &str = "sk-ant-api03-for-agents-alone";
const TOKENS: i64 = 3_633;
const CENTS: f64 = 1.0738;

fn asking(provider: &ModelProvider) -> Builder {
    App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).set("metrics.scrape_token", "scrape").asking(provider)
}

struct Scene {
    provider: ModelProvider,
    app: App,
    account: AccountId,
    client: Client,
    made: Value,
    agent: String,
}

impl Scene {
    async fn start(settings: impl FnOnce(Builder) -> Builder, body: Value) -> Self {
        let provider = ModelProvider::start().await;
        let app = settings(asking(&provider)).start().await;
        let (account, client) = app.customer(Tier::Enterprise).await;
        client.set_key("anthropic", KEY).await.expect(204);
        let made = client.agent_session(body).await;
        let agent = id_of(&made);
        Self { provider, app, account, client, made, agent }
    }

    /// The double responds with these tool calls, one per request.
    async fn send_message(&self, message: &str, calls: &[Value]) -> Value {
        for call in calls {
            self.provider.answer(Reply::Json(200, anthropic_call(call)));
        }
        self.client.post_to_agent(&self.agent, "message", json!({"message": message})).await.expect(200).body
    }

    /// Returns when the double has received `times` requests in total.
    async fn begin(&self, message: &str, times: usize) -> JoinHandle<Answer> {
        let (client, agent, body) = (self.client.clone(), self.agent.clone(), json!({"message": message}));
        let said = tokio::spawn(async move { client.post_to_agent(&agent, "message", body).await });
        eventually(Duration::from_secs(20), "the model receives a request", async || {
            (self.provider.asked().len() >= times).then_some(())
        })
        .await;
        said
    }

    async fn approve(&self, turn: &Value, at: usize) -> Value {
        let body = json!({"message": "approved", "approvals": [turn["intents"][at]["id"]]});
        self.client.post_to_agent(&self.agent, "message", body).await.expect(200).body
    }

    async fn url(&self) -> Value {
        self.client.operate(&driver_of(&self.made), "snapshot", json!({})).await.expect(200).body["url"].clone()
    }

    async fn rows(&self) -> Vec<Value> {
        let rows = self.app.audited(self.account, "agent.decompose.claude").await.into_iter();
        rows.map(|row| {
            assert_eq!(row.actor_type, "system");
            assert_eq!(row.target_resource_id.as_deref(), Some(&*self.agent));
            row.payload
        })
        .collect()
    }

    async fn tokens_used(&self) -> i64 {
        self.client.get_agent(&self.agent).await["tokens_used"].as_i64().expect("a number")
    }

    fn last_request(&self) -> (String, Vec<Value>) {
        let last = self.provider.asked().pop().expect("a request");
        let mut messages = last.body["messages"].as_array().expect("messages").clone();
        let message = messages.pop().expect("a message");
        (message["content"].as_str().expect("a text").to_owned(), messages)
    }
}

impl App {
    async fn counted(&self, series: &str) -> u64 {
        let metrics = self.stranger().request(Method::GET, "/metrics").bearer_auth("scrape");
        let metrics = metrics.send().await.expect("the metrics").text().await.expect("text");
        let line = metrics.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("no {series}")).trim().parse().expect("a number")
    }
}

fn plan(steps: &Value) -> Value {
    json!({"kind": "plan", "steps": steps})
}

fn step_statuses(turn: &Value) -> Vec<(&str, &str)> {
    let intents = turn["intents"].as_array().expect("intents").iter();
    intents.map(|step| (step["kind"].as_str().expect("a kind"), step["status"].as_str().expect("a status"))).collect()
}

fn reply_of(turn: &Value) -> &str {
    turn["reply"].as_str().expect("a reply")
}

/// Contract: byok 17, 18, 22, 23.
#[tokio::test]
async fn model_interprets_a_message() {
    let scene = Scene::start(|app| app.set("log.filter", "trace"), json!({})).await;
    let open = json!([{"kind": "navigate", "url": "https://shop.example/"}]);
    let turn = scene.send_message("please go to shop.example", &[plan(&open)]).await;
    assert_eq!((&turn["kind"], &turn["reply"]), (&json!("plan"), &json!("Done.")), "{turn}");
    assert_eq!((step_statuses(&turn), &turn["tokens_used"]), (vec![("navigate", "done")], &json!(TOKENS)));
    let (told, before) = scene.last_request();
    assert!(told.starts_with("No page is open yet.") && told.ends_with("please go to shop.example"), "{told}");
    assert_eq!(before, Vec::<Value>::new());

    let login = json!([
        {"kind": "type", "ref": "e1", "value": "hunter2"}, {"kind": "tap", "ref": "e2"},
        {"kind": "extract", "items": [{"name": "title", "ref": "e1"}]},
    ]);
    let answer = json!({"kind": "plan", "reply": "Typed hunter2, and tapped it.", "steps": login});
    let turn = scene.send_message("log me in with the word hunter2", &[answer]).await;
    assert_eq!(step_statuses(&turn), [("type", "done"), ("tap", "done"), ("extract", "done")], "{turn}");
    assert_eq!((reply_of(&turn), &turn["intents"][0]["value"]), ("Typed •••, and tapped it.", &json!("•••")));
    assert_eq!(turn["intents"][1]["target"]["description"], "button \"Simulated\"");
    assert_eq!(turn["intents"][2]["items"][0]["target"]["description"], "button \"Simulated\"");
    let (told, before) = scene.last_request();
    assert!(told.contains("https://shop.example/") && told.contains("button \"Simulated\" [ref=e2]"), "{told}");
    assert_eq!(before[0]["content"], "please go to shop.example");
    let turn = scene.send_message("and now?", &[json!({"kind": "clarify", "reply": "And now what?"})]).await;
    assert_eq!((&turn["kind"], reply_of(&turn), &turn["intents"]), (&json!("clarify"), "And now what?", &json!([])));
    let (_, before) = scene.last_request();
    let said: Vec<_> = before.iter().filter_map(|said| said["content"].as_str()).collect();
    let word = "log me in with the word •••";
    assert_eq!(said, ["please go to shop.example", "Done.", word, "Typed •••, and tapped it."]);

    assert_eq!(scene.tokens_used().await, 3 * TOKENS);
    let rows = scene.rows().await;
    let kinds: Vec<_> = rows.iter().map(|row| row["result_kind"].clone()).collect();
    assert_eq!(kinds, ["plan", "plan", "clarify"]);
    let expected = json!({
        "agent_session_id": scene.agent, "turn_id": turn["turn_id"], "result_kind": "clarify", "provider": "anthropic",
        "model": "claude-sonnet-4-6", "input_tokens": 472, "output_tokens": 89, "cache_write_tokens": 2048,
        "cache_read_tokens": 1024, "cost_cents": CENTS,
    });
    assert_eq!(rows[2], expected);
    assert!(scene.app.audited(scene.account, "agent.decompose.deterministic").await.is_empty());
    assert_eq!(scene.app.counted("service_agent_decompose_total{result_kind=\"plan\"}").await, 2);
    let transcript = format!("/v1/agent-sessions/{}/transcript", scene.agent);
    let transcript = scene.client.get(&transcript).await.expect(200).body;
    let [said, answered] = [2, 3].map(|at| transcript["data"][at].clone());
    assert_eq!(said["message"], word);
    assert_eq!((&answered["decomposer"], &answered["tokens_used"]), (&json!("claude"), &json!(TOKENS)));
    assert!(!transcript.to_string().contains("hunter2"), "{transcript}");
    assert_eq!(scene.app.count("select count(*) from intents where kind = 'snapshot'").await, 0);
    for secret in ["hunter2", KEY] {
        assert_eq!(scene.app.tables_with(secret).await, <[&str; 0]>::default(), "{secret}");
        assert!(!scene.app.log(0).contains(secret), "the log has {secret}");
    }
    scene.app.stop().await;
}

/// Contract: byok 16, 17. A key that cannot be decrypted is an error and is not treated as absent.
#[tokio::test]
async fn own_key_precedes_deployment_key_and_grammar() {
    let provider = ModelProvider::start().await;
    let app = asking(&provider)
        .set("agents.bundled.provider", "openai")
        .set("agents.bundled.api_key", "sk-of-the-deployment")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    let send_message =
        async || client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.expect(200).body;
    let header = |name: &str| provider.asked().pop().map(|asked| asked.header(name).to_owned()).unwrap_or_default();
    let missing = "service_bundled_llm_error_total{kind=\"consent_missing\"}";
    assert_eq!(send_message().await["kind"], "plan");
    assert_eq!((provider.asked().len(), app.counted(missing).await), (0, 1));

    client.consent(json!({"consented": true})).await.expect(200);
    let turn = send_message().await;
    assert_eq!((&turn["kind"], reply_of(&turn), &turn["tokens_used"]), (&json!("refuse"), "No.", &json!(3_414)));
    assert_eq!(header("authorization"), "Bearer sk-of-the-deployment");
    assert_eq!(app.counted("service_bundled_llm_request_total{outcome=\"ok\"}").await, 1);
    for (provider, name, value) in
        [("openai", "authorization", format!("Bearer {KEY}-2")), ("anthropic", "x-api-key", format!("{KEY}-2"))]
    {
        client.set_key(provider, &format!("{KEY}-2")).await.expect(204);
        assert_eq!(send_message().await["kind"], "refuse");
        assert_eq!(header(name), value);
    }
    assert_eq!(provider.asked().len(), 3);

    app.execute("update byok_keys set sealed_key = '\\x00' where account_id = $1", account.as_uuid()).await;
    let turn = send_message().await;
    assert_eq!((&turn["kind"], &turn["intents"]), (&json!("clarify"), &json!([])), "{turn}");
    assert!(reply_of(&turn).contains("cannot open the account's key"), "{turn}");
    for provider in ["anthropic", "openai"] {
        client.clear_key(provider).await.expect(204);
    }
    client.consent(json!({"consented": false})).await.expect(200);
    assert_eq!(send_message().await["kind"], "plan");
    assert_eq!((provider.asked().len(), app.counted(missing).await), (3, 2));
    let rows = app.audited(account, "agent.decompose.claude").await;
    let by: Vec<_> = rows.iter().map(|row| row.payload["provider"].clone()).collect();
    assert_eq!(by, ["openai", "openai", "anthropic", "anthropic"]);
    assert_eq!(app.audited(account, "agent.decompose.deterministic").await.len(), 2);
    app.stop().await;
}

/// Contract: operators 5.
#[tokio::test]
async fn outcomes_with_the_deployment_key_are_counted() {
    let provider = ModelProvider::start().await;
    let app = asking(&provider)
        .set("agents.bundled.provider", "anthropic")
        .set("agents.bundled.api_key", "sk-of-the-deployment")
        .set("agents.model_timeout", "2s")
        .start()
        .await;
    let client = app.client().await;
    client.consent(json!({"consented": true})).await.expect(200);
    let agent = client.agent().await;
    let error = |kind: &str| anthropic_error(kind, "no");
    let counted =
        async |outcome: &str| app.counted(&format!("service_bundled_llm_request_total{{outcome=\"{outcome}\"}}")).await;
    for (reply, outcome) in [
        (Reply::Json(200, anthropic_call(&json!({"kind": "refuse", "reply": "No."}))), "ok"),
        (Reply::Json(401, error("authentication_error")), "key_refused"),
        (Reply::Json(402, error("billing_error")), "quota_exceeded"),
        (Reply::Later(429, "30", error("rate_limit_error")), "busy"),
        (Reply::Hang, "late"),
        (Reply::Text(200, "{\"content\": ["), "provider_error"),
        (Reply::Json(200, anthropic_call(&plan(&json!([])))), "unusable"),
    ] {
        assert_eq!(counted(outcome).await, 0, "{outcome}");
        provider.answer(reply);
        client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.expect(200);
        assert_eq!(counted(outcome).await, 1, "{outcome}");
    }
    assert_eq!(counted("unreachable").await, 0);
    drop(provider);
    client.post_to_agent(&agent, "message", json!({"message": "tap 'Next'"})).await.expect(200);
    assert_eq!(counted("unreachable").await, 1);
    app.stop().await;
}

/// Contract: byok 27. The limit is per account and month, also across deleted agent sessions.
#[tokio::test]
async fn monthly_spending_of_the_deployment_key_is_limited() {
    let provider = ModelProvider::start().await;
    let app = asking(&provider)
        .set("agents.bundled.provider", "anthropic")
        .set("agents.bundled.api_key", "sk-of-the-deployment")
        .set("agents.bundled.monthly_cents_per_account", "2")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (_, other) = app.customer(Tier::Enterprise).await;
    for client in [&client, &other] {
        client.consent(json!({"consented": true})).await.expect(200);
    }
    let send_message = async |client: &Client, agent: &str| {
        let turn = client.post_to_agent(agent, "message", json!({"message": "tap 'Next'"})).await.expect(200).body;
        (reply_of(&turn).to_owned(), turn["tokens_used"].clone(), provider.asked().len())
    };
    let no = |asked: usize| ("No.".to_owned(), json!(TOKENS), asked);
    let agent = client.agent().await;
    assert_eq!(send_message(&client, &agent).await, no(1));
    assert_eq!(send_message(&client, &agent).await, no(2));
    app.execute("delete from agent_sessions where id = $1", uuid_of(&agent)).await;
    let agent = client.agent().await;
    let exhausted = "service_bundled_llm_error_total{kind=\"budget_exhausted\"}";
    for times in 1..=2 {
        let (reply, tokens, asked) = send_message(&client, &agent).await;
        assert!(reply.starts_with("Nothing was done") && reply.contains("has spent the 2 cents"), "{reply}");
        assert_eq!((tokens, asked, app.counted(exhausted).await), (json!(0), 2, times));
    }
    assert_eq!(send_message(&other, &other.agent().await).await, no(3));

    client.set_key("anthropic", KEY).await.expect(204);
    assert_eq!(send_message(&client, &agent).await, no(4));
    client.clear_key("anthropic").await.expect(204);
    assert!(send_message(&client, &agent).await.0.contains("has spent"));
    let before = "update bundled_model_spending set month = month - interval '1 month' where account_id = $1";
    app.execute(before, account.as_uuid()).await;
    assert_eq!(send_message(&client, &agent).await, no(5));
    // Two rows have the cost of one response: this account in the present month, and the other account.
    let (spent, all) = ("select count(*) from bundled_model_spending where round(cost_cents::numeric, 4) = 1.0738", 2);
    assert_eq!(app.count(spent).await, all);
    app.stop().await;
}

/// Contract: byok 19. Steps are part of the plan before they run.
#[tokio::test]
async fn model_receives_the_results_of_its_steps() {
    let bounds = |app: Builder| app.set("agents.max_model_calls_per_turn", "3").set("agents.max_steps_per_turn", "4");
    let scene = Scene::start(bounds, json!({})).await;
    let open = json!([{"kind": "navigate", "url": "https://shop.example/"}]);
    let look = |steps: Value| json!({"kind": "plan", "reply": "One moment.", "steps": steps, "look_again": true});
    let extract = json!([{"kind": "extract", "items": [{"name": "price", "ref": "e1"}]}]);
    let answer = json!({"kind": "plan", "reply": "It costs 3 €."});
    let turn = scene.send_message("what is it at shop.example?", &[look(open.clone()), look(extract), answer]).await;
    assert_eq!((&turn["kind"], reply_of(&turn)), (&json!("plan"), "It costs 3 €."), "{turn}");
    assert_eq!(step_statuses(&turn), [("navigate", "done"), ("extract", "done")]);
    assert_eq!((&turn["tokens_used"], scene.tokens_used().await), (&json!(3 * TOKENS), 3 * TOKENS));
    let (told, _) = scene.last_request();
    for done in ["navigate to https://shop.example/: done", "extract button \"Simulated\": {\"value\":{\"price\""] {
        assert!(told.contains(done), "{told}");
    }
    let asked: Vec<_> = scene.provider.asked().into_iter().map(|asked| asked.body).collect();
    let max = |asked: &Value| asked["tools"][0]["input_schema"]["properties"]["steps"]["maxItems"].clone();
    assert_eq!(asked.iter().map(max).collect::<Vec<_>>(), [4, 3, 2]);
    assert_eq!(scene.rows().await[0]["cost_cents"], json!(3.2214));

    // A message is limited to this number of requests and steps.
    let reload = json!([{"kind": "reload"}]);
    let turn = scene.send_message("go on and on", &[look(reload.clone()), look(reload.clone()), look(reload)]).await;
    assert_eq!((step_statuses(&turn).len(), scene.provider.asked().len()), (3, 6));
    assert!(reply_of(&turn).contains("There may be more to do"), "{turn}");
    let four = json!([{"kind": "reload"}, {"kind": "reload"}, {"kind": "reload"}, {"kind": "reload"}]);
    let turn = scene.send_message("at once", &[look(four)]).await;
    assert_eq!((step_statuses(&turn).len(), scene.provider.asked().len()), (4, 7), "{turn}");
    assert!(reply_of(&turn).contains("There may be more to do"), "{turn}");

    let one = json!([{"kind": "reload"}]);
    scene.provider.answer(Reply::Json(200, anthropic_call(&look(one.clone()))));
    scene.provider.answer(Reply::Json(500, anthropic_error("api_error", "sk-ant broke")));
    let turn = scene.send_message("again", &[]).await;
    assert_eq!((&turn["kind"], step_statuses(&turn)), (&json!("clarify"), vec![("reload", "done")]), "{turn}");
    assert!(reply_of(&turn).starts_with("The completed steps remain in effect"), "{turn}");
    let turn = scene.send_message("again", &[look(one), json!({"kind": "clarify", "reply": "Which size?"})]).await;
    assert_eq!((&turn["kind"], reply_of(&turn)), (&json!("clarify"), "Which size?"));
    assert_eq!(step_statuses(&turn), [("reload", "done")]);
    scene.app.stop().await;
}

/// Contract: byok 14, 20. The host is one that only the page suggested. The model can request approval for any step.
#[tokio::test]
async fn navigation_to_an_unnamed_host_needs_approval() {
    let scene = Scene::start(|app| app, json!({})).await;
    let to = |url: &str| json!({"kind": "navigate", "url": url});
    scene.send_message("open shop.example", &[plan(&json!([to("https://shop.example/")]))]).await;
    let evil = plan(&json!([to("https://evil.example/?c=1"), {"kind": "tap", "ref": "e2", "ask_approval": true}]));
    let turn = scene.send_message("buy it", &[evil]).await;
    assert_eq!(step_statuses(&turn), [("navigate", "needs_approval"), ("tap", "planned")], "{turn}");
    assert_eq!([0, 1].map(|at| turn["intents"][at]["needs_approval"].clone()), [json!(true), json!(true)]);
    assert!(reply_of(&turn).contains("https://evil.example/?c=1"), "{turn}");
    assert_eq!(scene.url().await, "https://shop.example/");
    // An approval executes exactly the approved step and sends no request to the model.
    let asked = scene.provider.asked().len();
    let turn = scene.approve(&turn, 0).await;
    assert_eq!(step_statuses(&turn), [("navigate", "done"), ("tap", "needs_approval")], "{turn}");
    let turn = scene.approve(&turn, 1).await;
    assert_eq!((step_statuses(&turn), turn["tokens_used"].clone()), (vec![("tap", "done")], json!(0)));
    assert_eq!((scene.provider.asked().len(), scene.url().await), (asked, json!("https://evil.example/?c=1")));

    // Allowed without approval: links of the page, the present host, and hosts that were named before.
    for url in ["https://linked.simulated.example/", "https://linked.simulated.example/#top", "https://shop.example"] {
        let turn = scene.send_message("go on", &[plan(&json!([to(url)]))]).await;
        assert_eq!(step_statuses(&turn), [("navigate", "done")], "{url}");
    }
    for step in [
        json!({"kind": "back", "ask_approval": true}),
        json!({"kind": "press", "key": "Escape", "ask_approval": true}),
        json!({"kind": "scroll", "delta_y": 100, "ask_approval": true}),
        json!({"kind": "capture", "capture": "pdf", "ask_approval": true}),
        json!({"kind": "wait", "condition": {"kind": "time", "ms": 1}, "ask_approval": true}),
    ] {
        let turn = scene.send_message("do it", &[plan(&json!([step]))]).await;
        assert_eq!(turn["intents"][0]["status"], "needs_approval", "{turn}");
        let turn = scene.approve(&turn, 0).await;
        assert_eq!(turn["intents"][0]["status"], "done", "{turn}");
    }
    // As with the grammar, a plan waits for approval until the model returns another plan, whatever other responses it returns.
    let buy = plan(&json!([{"kind": "tap", "ref": "e2", "ask_approval": true}]));
    let turn = scene.send_message("buy it", std::slice::from_ref(&buy)).await;
    scene.send_message("is it cheap?", &[json!({"kind": "refuse", "reply": "I cannot tell."})]).await;
    let done = scene.approve(&turn, 0).await;
    assert_eq!(step_statuses(&done), [("tap", "done")], "{done}");
    let turn = scene.send_message("buy it", &[buy]).await;
    scene.send_message("no, reload it", &[plan(&json!([{"kind": "reload"}]))]).await;
    let late = scene.approve(&turn, 0).await;
    assert_eq!((&late["kind"], &late["intents"]), (&json!("clarify"), &json!([])));
    // Only web addresses that the deployment permits.
    let turn = scene.send_message("open http://127.0.0.1/", &[plan(&json!([to("http://127.0.0.1/")]))]).await;
    assert_eq!(step_statuses(&turn), [("navigate", "failed")], "{turn}");
    scene.app.stop().await;
}

/// Contract: byok 21. Tokens count also when the response is unusable.
#[tokio::test]
async fn exhausted_token_budget_ends_the_turn() {
    let scene = Scene::start(|app| app.set("agents.bundled.api_key", "sk-of-the-deployment"), json!({})).await;
    let counted = "service_bundled_llm_error_total{kind=\"budget_exhausted\"}";
    let poor = id_of(&scene.client.agent_session(json!({"token_budget": 3_000})).await);
    let post_body = async |agent: &str| {
        scene.client.post_to_agent(agent, "message", json!({"message": "tap 'Next'"})).await.expect(200).body
    };
    let turn = post_body(&poor).await;
    assert_eq!((&turn["kind"], &turn["intents"], &turn["tokens_used"]), (&json!("refuse"), &json!([]), &json!(0)));
    assert!(reply_of(&turn).contains("token_budget has 3000 left"), "{turn}");
    assert!(scene.provider.asked().is_empty());
    assert_eq!(scene.app.counted(counted).await, 0, "a request with the account's own key was counted");
    let rows = scene.app.audited(scene.account, "agent.decompose.claude").await;
    let row = &rows[0].payload;
    assert_eq!(
        (&row["result_kind"], &row["input_tokens"], &row["cost_cents"]),
        (&json!("refuse"), &json!(0), &json!(0.0))
    );

    // Two responses fit the budget, whether or not they are usable, and the third does not.
    let made = scene.client.agent_session(json!({"token_budget": 10_000})).await;
    let modest = id_of(&made);
    let nowhere = plan(&json!([{"kind": "tap", "ref": "e99"}]));
    scene.provider.answer(Reply::Json(200, anthropic_call(&nowhere)));
    let turn = post_body(&modest).await;
    assert_eq!((&turn["kind"], &turn["tokens_used"]), (&json!("clarify"), &json!(TOKENS)), "{turn}");
    let again = json!({"kind": "plan", "steps": [{"kind": "reload"}], "look_again": true});
    scene.provider.answer(Reply::Json(200, anthropic_call(&again)));
    let turn = post_body(&modest).await;
    assert_eq!((&turn["kind"], step_statuses(&turn)), (&json!("refuse"), vec![("reload", "done")]), "{turn}");
    assert_eq!(scene.client.get_agent(&modest).await["tokens_used"], 2 * TOKENS);
    let asked = scene.provider.asked();
    let max: Vec<_> = asked.iter().map(|asked| asked.body["max_tokens"].as_i64().expect("a number")).collect();
    assert!((6_000..8_000).contains(&max[0]) && (2_000..4_400).contains(&max[1]), "{max:?}");
    assert_eq!(asked.len(), 2);

    let mut cut = anthropic_call(&plan(&json!([{"kind": "reload"}])));
    cut["stop_reason"] = json!("max_tokens");
    for (budget, kind, why) in [(7_000, "refuse", "token_budget"), (200_000, "clarify", "was cut off")] {
        let agent = id_of(&scene.client.agent_session(json!({"token_budget": budget})).await);
        scene.provider.answer(Reply::Json(200, cut.clone()));
        let turn = post_body(&agent).await;
        assert_eq!((&turn["kind"], &turn["intents"], &turn["tokens_used"]), (&json!(kind), &json!([]), &json!(TOKENS)));
        assert!(reply_of(&turn).contains(why), "{turn}");
    }

    scene.client.clear_key("anthropic").await.expect(204);
    scene.client.consent(json!({"consented": true})).await.expect(200);
    assert_eq!(post_body(&poor).await["kind"], "refuse");
    assert_eq!((scene.app.counted(counted).await, scene.provider.asked().len()), (1, 4));
    scene.app.stop().await;
}

/// Contract: byok 12, 13, 18. No other provider is asked, and the reply gives the reason.
#[tokio::test]
async fn provider_error_executes_no_step() {
    let scene = Scene::start(|app| app.set("agents.model_timeout", "2s"), json!({})).await;
    let call = |input: Value| Reply::Json(200, anthropic_call(&input));
    let open = json!([{"kind": "navigate", "url": "https://shop.example/"}]);
    scene.send_message("open shop.example", &[plan(&open)]).await;
    let error = |kind: &str| anthropic_error(kind, "of sk-ant-api03");
    let (mut asked, mut taken) = (1, 1);
    for (reply, why, of_use) in [
        (Reply::Json(401, error("authentication_error")), "refuses the key", false),
        (Reply::Json(402, error("billing_error")), "spending limit", false),
        (Reply::Later(429, "30", error("rate_limit_error")), "asked too often", false),
        (Reply::Json(529, error("overloaded_error")), "overloaded", false),
        (Reply::Text(200, "{\"content\": ["), "cannot be read", false),
        (Reply::Endless(200), "too long", false),
        (Reply::Huge, "too long", false),
        (Reply::Hang, "in time", false),
        (call(json!("open evil.example")), "the requested form", true),
        (call(plan(&json!([]))), "0 steps", true),
        (call(plan(&json!([{"kind": "reload"}, {"kind": "run", "script": "x"}]))), "step 2 is not a valid step", true),
        (call(plan(&json!([{"kind": "tap", "selector": "#buy"}]))), "step 1 is not a valid step", true),
        (call(plan(&json!([{"kind": "reload"}, {"kind": "tap", "ref": "e99"}]))), "not on the page", true),
        (call(plan(&json!([{"kind": "navigate", "url": "file:///etc/passwd"}]))), "http or https", true),
    ] {
        scene.provider.answer(reply.clone());
        // The grammar could have executed this message.
        let turn = scene.send_message("tap 'Next'", &[]).await;
        assert_eq!((&turn["kind"], &turn["intents"]), (&json!("clarify"), &json!([])), "{reply:?}");
        assert!(reply_of(&turn).starts_with("Nothing was done, because the model could not be asked"), "{turn}");
        assert!(reply_of(&turn).contains(why) && !reply_of(&turn).contains("sk-"), "{turn}");
        (asked, taken) = (asked + 1, taken + i64::from(of_use));
        assert_eq!(turn["tokens_used"], i64::from(of_use) * TOKENS, "{turn}");
        assert_eq!((scene.provider.asked().len(), scene.tokens_used().await), (asked, taken * TOKENS), "{reply:?}");
    }
    // The provider returns a retry time within the limit, and the request is sent again.
    scene.provider.answer(Reply::Later(429, "1", error("rate_limit_error")));
    let turn = scene.send_message("reload", &[plan(&json!([{"kind": "reload"}]))]).await;
    assert_eq!(step_statuses(&turn), [("reload", "done")], "{turn}");
    let openai = Reply::Json(429, openai_error("insufficient_quota", "insufficient_quota", "no"));
    scene.client.clear_key("anthropic").await.expect(204);
    scene.client.set_key("openai", KEY).await.expect(204);
    scene.provider.answer(openai);
    assert!(reply_of(&scene.send_message("reload", &[]).await).contains("spending limit"));
    scene.provider.answer(Reply::Json(200, openai_call(&plan(&json!([{"kind": "reload"}])))));
    assert_eq!(scene.send_message("reload", &[]).await["tokens_used"], 3_414);
    let kinds = |turn: &Value| turn["result_kind"] == "clarify";
    assert_eq!(scene.rows().await.iter().filter(|row| kinds(row)).count(), 15);
    assert!(scene.app.audited(scene.account, "agent.decompose.deterministic").await.is_empty());
    let loads = scene.app.intents(&driver_of(&scene.made)).await;
    assert_eq!(loads.iter().filter(|intent| intent.kind == "navigate").count(), 3, "an unexpected page was opened");
    assert!(!scene.app.log(0).contains("sk-ant"), "the log has a part of a key");
    scene.app.stop().await;
}

/// Contract: agents 24; byok 24. No step is executed, and its tokens count.
#[tokio::test]
async fn model_response_after_takeover_or_close_is_dropped() {
    let scene = Scene::start(|app| app, json!({"mode": "pair"})).await;
    let steps = plan(&json!([{"kind": "navigate", "url": "https://shop.example/"}]));
    for (times, what) in [(1, "takeover"), (2, "takeover and handback"), (3, "close")] {
        let held = Arc::new(Notify::new());
        scene.provider.answer(Reply::When(Arc::clone(&held), anthropic_call(&steps)));
        let said = scene.begin("open shop.example", times).await;
        scene.client.post_to_agent(&scene.agent, "message", json!({"message": "x"})).await.problem(409, "conflict");
        if what != "close" {
            scene.client.post_to_agent(&scene.agent, "takeover", json!({"client_id": "ada"})).await.expect(200);
        }
        if what == "takeover and handback" {
            scene.client.post_to_agent(&scene.agent, "handback", json!({"client_id": "ada"})).await.expect(200);
        }
        if what == "close" {
            scene.client.delete(&format!("/v1/agent-sessions/{}", scene.agent)).await.expect(204);
        }
        held.notify_one();
        let turn = said.await.expect("a task").expect(200).body;
        assert_eq!(
            (step_statuses(&turn), &turn["tokens_used"]),
            (vec![("navigate", "skipped")], &json!(TOKENS)),
            "{turn}"
        );
        assert_eq!(scene.tokens_used().await, i64::try_from(times).expect("few") * TOKENS);
        if what != "close" {
            assert!(reply_of(&turn).contains("a human has taken over"), "{turn}");
            assert_eq!(scene.url().await, "about:blank");
        }
        if what == "takeover" {
            scene.client.post_to_agent(&scene.agent, "handback", json!({"client_id": "ada"})).await.expect(200);
        }
    }
    assert_eq!(scene.rows().await.len(), 3);
    scene.app.stop().await;
}

/// Contract: agents 24; byok 24. The turn ends by its timeout.
#[tokio::test]
async fn hanging_provider_delays_neither_turn_nor_shutdown() {
    let scene = Scene::start(|app| app.set("agents.turn_timeout", "1s"), json!({})).await;
    scene.provider.answer(Reply::Stall);
    let begun = Instant::now();
    let turn = scene.send_message("open shop.example", &[]).await;
    assert_eq!((&turn["kind"], &turn["intents"]), (&json!("clarify"), &json!([])), "{turn}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    scene.app.stop().await;

    let scene = Scene::start(|app| app, json!({})).await;
    scene.provider.answer(Reply::Hang);
    let _said = scene.begin("open shop.example", 1).await;
    let begun = Instant::now();
    scene.app.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Contract: agents 25; byok 22, 24. The request is not sent again.
#[tokio::test]
async fn worker_death_during_model_request_is_recorded() {
    let mut scene = Scene::start(|app| app.roles(&[Role::Api, Role::Worker]), json!({})).await;
    let look = json!({"kind": "plan", "steps": [{"kind": "reload"}], "look_again": true});
    scene.provider.answer(Reply::Json(200, anthropic_call(&look)));
    scene.provider.answer(Reply::Hang);
    let said = scene.begin("reload, and see", 2).await;
    scene.app.signal(1, Signal::SIGKILL).await;
    let turn = said.await.expect("a task").expect(200).body;
    assert_eq!((&turn["kind"], step_statuses(&turn)), (&json!("plan"), vec![("reload", "done")]), "{turn}");
    assert!(reply_of(&turn).contains("died"), "{turn}");
    assert_eq!((&turn["tokens_used"], scene.tokens_used().await), (&json!(TOKENS), TOKENS));
    let rows = scene.rows().await;
    assert_eq!((rows.len(), &rows[0]["result_kind"], &rows[0]["output_tokens"]), (1, &json!("plan"), &json!(89)));
    let path = format!("/v1/agent-sessions/{}/transcript", scene.agent);
    let told = scene.client.get(&path).await.expect(200).body;
    assert_eq!(told["data"][1]["decomposer"], "claude");
    scene.app.start(Role::Worker);
    scene.app.ready().await;
    assert_eq!(scene.provider.asked().len(), 2);
    assert_eq!(scene.rows().await.len(), 1);
    scene.app.stop().await;
}

/// Contract: agents 27; byok 17. The account's key may have changed meanwhile.
#[tokio::test]
async fn repeated_message_sends_no_model_request() {
    let scene = Scene::start(|app| app, json!({})).await;
    scene.provider.answer(Reply::Json(200, anthropic_call(&plan(&json!([{"kind": "reload"}])))));
    let send = async || {
        let request = scene.client.request(Method::POST, &format!("/v1/agent-sessions/{}/message", scene.agent));
        let request = request.header("idempotency-key", "once").json(&json!({"message": "reload"}));
        scene.client.send(request).await.expect(200).body
    };
    let first = send().await;
    scene.client.set_key("anthropic", &format!("{KEY}-2")).await.expect(204);
    assert_eq!(send().await, first);
    scene.client.clear_key("anthropic").await.expect(204);
    assert_eq!(send().await, first);
    assert_eq!((scene.provider.asked().len(), scene.rows().await.len()), (1, 1));
    assert_eq!(first["tokens_used"], TOKENS);
    scene.app.execute("delete from agent_sessions where id = $1", uuid_of(&scene.agent)).await;
    assert_eq!(scene.app.count("select count(*) from agent_model_uses").await, 0);
    scene.app.stop().await;
}

/// Contract: agents 36; byok 18, 23.
#[tokio::test]
async fn typed_text_is_hidden_from_later_model_requests() {
    let scene = Scene::start(|app| app, json!({})).await;
    scene
        .send_message("open shop.example", &[plan(&json!([{"kind": "navigate", "url": "https://shop.example/"}]))])
        .await;
    scene
        .send_message("my word is hunter2", &[plan(&json!([{"kind": "type", "ref": "e1", "value": "hunter2"}]))])
        .await;
    let tap = json!({"kind": "plan", "reply": "Tapped “Hi Hunter2”.", "steps": [{"kind": "tap", "ref": "e2"}]});
    let turn = scene.send_message("tap what has come, Hi Hunter2", &[tap]).await;
    assert_eq!((step_statuses(&turn), reply_of(&turn)), (vec![("tap", "done")], "Tapped “Hi •••”."));
    scene.send_message("and now?", &[json!({"kind": "clarify", "reply": "And now what?"})]).await;
    let (_, before) = scene.last_request();
    let said: Vec<_> = before.iter().filter_map(|said| said["content"].as_str()).collect();
    assert_eq!(said[2..], ["my word is •••", "Done.", "tap what has come, Hi •••", "Tapped “Hi •••”."]);
    scene.app.stop().await;
}

/// Contract: agents 16; recipes 5.
#[tokio::test]
async fn recipe_of_model_steps_has_no_refs() {
    let scene = Scene::start(|app| app, json!({})).await;
    scene
        .send_message("open shop.example", &[plan(&json!([{"kind": "navigate", "url": "https://shop.example/"}]))])
        .await;
    let steps = json!([
        {"kind": "type", "ref": "e1", "value": "hunter2"}, {"kind": "tap", "ref": "e2"},
        {"kind": "wait", "condition": {"kind": "visible", "ref": "e2"}},
        {"kind": "extract", "items": [{"name": "title", "ref": "e1"}]}, {"kind": "scroll", "delta_y": 1, "ref": "e1"},
    ]);
    let turn = scene.send_message("do all of it", &[plan(&steps)]).await;
    assert_eq!(turn["intents"][2]["condition"]["target"]["description"], "button \"Simulated\"", "{turn}");
    let recipe = json!({"agent_session_id": scene.agent, "label": "All of it"});
    let recipe = scene.client.post("/v1/recipes", recipe).await.expect(201).body;
    let path = format!("/v1/recipes/{}", recipe["id"].as_str().expect("an id"));
    let log = scene.client.get(&path).await.expect(200).body["intent_log"].to_string();
    assert_eq!(log.matches("button[name=Simulated]").count(), 5, "{log}");
    assert!(!log.contains("hunter2") && !log.contains("\"e1\""), "{log}");
    scene.app.stop().await;
}
