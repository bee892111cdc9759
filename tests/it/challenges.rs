//! Contract: challenges. The simulated browser has pages with challenges.

use std::time::Duration;

use kitfleet_domain::challenges::ChallengeType;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::agents::{driver_of, id_of};
use crate::support::records::uuid_of;
use crate::support::{App, Client, assert_timestamp, eventually, members, unknown_id};

const SOON: Duration = Duration::from_secs(10);

fn page(kind: &str) -> String {
    format!("https://challenge.simulated.example/{kind}")
}

async fn challenge(client: &Client, session: &str) -> Value {
    client.get(&format!("/v1/sessions/{session}")).await.expect(200).body["challenge"].clone()
}

pub async fn paused(client: &Client, session: &str) -> Value {
    let paused = async || Some(challenge(client, session).await).filter(|challenge| !challenge.is_null());
    eventually(SOON, "the session is paused", paused).await
}

pub async fn until_resumed(client: &Client, session: &str) {
    eventually(SOON, "the session is no longer paused", async || {
        challenge(client, session).await.is_null().then_some(())
    })
    .await;
}

pub fn resolution(session: &str, challenge: &Value) -> String {
    format!("/v1/sessions/{session}/challenges/{}/resolve", challenge["challenge_id"].as_str().expect("an id"))
}

pub async fn challenge_events(app: &App, session: &str) -> Vec<Value> {
    sqlx::query_scalar(
        "select data from events where type = 'session.challenge_detected' and data->>'session_id' = $1 order by id",
    )
    .bind(session)
    .fetch_all(&app.database.pool)
    .await
    .expect("the events")
}

/// Waits for at least one more check of the page.
async fn wait_for_a_check() {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

async fn counted(app: &App, kind: &str, outcome: &str) -> Option<String> {
    let metrics = app.stranger().request(Method::GET, "/metrics").bearer_auth("scrape");
    let metrics = metrics.send().await.expect("the metrics").text().await.expect("text");
    let series = format!("service_challenge_total{{type=\"{kind}\",outcome=\"{outcome}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
}

/// Contract: challenges 5 to 8; events 8; operators 5. Its page can be read and captured, and all other operations are 409.
#[tokio::test]
async fn challenge_pauses_session_until_it_is_resolved() {
    let app =
        App::simulated().set("metrics.scrape_token", "scrape").set("sessions.direct_driver", "real").start().await;
    let client = app.client().await;
    let session = client.session().await;
    assert_eq!(challenge(&client, &session).await, Value::Null);
    client.navigate(&session, &page("cloudflare_turnstile")).await;
    let found = paused(&client, &session).await;
    assert_eq!(members(&found), ["challenge_id", "detected_at", "type"].into());
    assert!(found["challenge_id"].as_str().is_some_and(|id| id.starts_with("chl_")), "{found}");
    assert_eq!(found["type"], "cloudflare_turnstile");
    assert_timestamp(&found["detected_at"]);
    assert_eq!(client.status(&session).await, "ready");
    let list = client.get("/v1/sessions").await.expect(200).body;
    assert_eq!(list["data"][0]["challenge"], found);

    let extraction = json!({"extractions": [{"name": "it", "selector": "h1", "type": "text"}]});
    for (operation, body) in [
        ("navigate", json!({"url": "https://example.com/"})),
        ("interact", json!({"action": {"kind": "tap", "selector": "#go"}})),
        ("interact", json!({"action": {"kind": "type", "selector": "#go", "text": "secret", "sensitive": true}})),
        ("wait", json!({"condition": {"kind": "time", "ms": 1}})),
        ("wait", json!({"condition": {"kind": "url_matches", "pattern": "x"}})),
        ("extract", extraction),
        ("snapshot", json!({})),
        ("search", json!({"query": "shoes"})),
        ("login", json!({"username": "ada", "password": "correct horse"})),
    ] {
        let refused = client.operate(&session, operation, body).await.problem(409, "conflict");
        assert_eq!(refused.body["challenge"], found, "{operation}: {}", refused.body);
        assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("paused by a challenge")));
    }
    client.get(&format!("/v1/sessions/{session}/state")).await.expect(200);
    for kind in ["screenshot", "dom_snapshot", "pdf"] {
        client.operate(&session, "capture", json!({"kind": kind})).await.expect(200);
    }
    assert_eq!(challenge(&client, &session).await, found);

    let resolved = client.post(&resolution(&session, &found), json!({})).await.expect(200).body;
    let expected = ["challenge_id", "confidence", "detail", "detected_at", "ended_at", "outcome", "session_id", "type"];
    assert_eq!(members(&resolved), expected.into());
    assert_eq!((&resolved["outcome"], &resolved["session_id"]), (&json!("resolved"), &json!(session)));
    assert_eq!((&resolved["detected_at"], &resolved["type"]), (&found["detected_at"], &found["type"]));
    assert_timestamp(&resolved["ended_at"]);
    assert_eq!(challenge(&client, &session).await, Value::Null);
    wait_for_a_check().await;
    client.operate(&session, "snapshot", json!({})).await.expect(200);
    let events = challenge_events(&app, &session).await;
    let seen = json!({"type": "cloudflare_turnstile", "confidence": 0.9, "detail": "The page says so."});
    assert_eq!(events, [json!({"session_id": session, "challenge_id": found["challenge_id"], "challenge": seen})]);
    for outcome in ["detected", "resolved"] {
        assert_eq!(counted(&app, "cloudflare_turnstile", outcome).await.as_deref(), Some("1"), "{outcome}");
    }

    client.navigate(&session, &page("cloudflare_turnstile?again")).await;
    let next = paused(&client, &session).await;
    assert_ne!(next["challenge_id"], found["challenge_id"]);
    assert_eq!(challenge_events(&app, &session).await.len(), 2);
    app.assert_events_are_promised().await;
    app.stop().await;
}

/// Contract: challenges 1, 8. When the challenge disappears from the page, the session continues.
#[tokio::test]
async fn session_continues_when_its_challenge_disappears() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, &page("hcaptcha?looks=2")).await;
    let found = paused(&client, &session).await;
    until_resumed(&client, &session).await;
    let ended = client.post(&resolution(&session, &found), json!({})).await.expect(200).body;
    assert_eq!(ended["outcome"], "disappeared", "{ended}");
    assert_eq!(counted(&app, "hcaptcha", "disappeared").await.as_deref(), Some("1"));
    assert_eq!(counted(&app, "hcaptcha", "resolved").await.as_deref(), Some("0"));
    for kind in ChallengeType::NAMES {
        client.navigate(&session, &page(kind)).await;
        let found = paused(&client, &session).await;
        assert_eq!(found["type"], *kind);
        client.post(&resolution(&session, &found), json!({})).await.expect(200);
    }
    assert_eq!(challenge_events(&app, &session).await.len(), ChallengeType::NAMES.len() + 1);
    app.assert_events_are_promised().await;
    app.stop().await;
}

/// Contract: challenges 3, 11.
#[tokio::test]
async fn disabled_or_doubtful_detection_does_not_pause() {
    let app = App::simulated().set("sessions.challenge_confidence", "0.5").start().await;
    let client = app.client().await;
    let (doubtful, sure) = (client.session().await, client.session().await);
    let without = client.session_with(json!({"detect_challenges": false})).await;
    let profile = client.profile().await;
    let launched = client.post(&format!("/v1/profiles/{profile}/launch"), json!({"detect_challenges": false})).await;
    let launched = launched.expect(201).body["id"].as_str().expect("an id").to_owned();
    let agent = client.post("/v1/agent-sessions", json!({"detect_challenges": false})).await.expect(201).body;
    client.post("/v1/sessions", json!({"detect_challenges": "no"})).await.invalid("detect_challenges");
    client.navigate(&doubtful, &page("generic?confidence=0.49")).await;
    for session in [&without, &launched, &driver_of(&agent)] {
        client.navigate(session, &page("generic")).await;
    }
    client.navigate(&sure, &page("generic?confidence=0.5")).await;
    paused(&client, &sure).await;
    wait_for_a_check().await;
    for session in [&doubtful, &without, &launched, &driver_of(&agent)] {
        assert_eq!(challenge(&client, session).await, Value::Null);
        assert_eq!(challenge_events(&app, session).await, [] as [Value; 0]);
    }
    app.stop().await;

    let app = App::simulated().set("sessions.detect_challenges", "false").start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"detect_challenges": true})).await;
    client.navigate(&session, &page("generic")).await;
    wait_for_a_check().await;
    assert_eq!(challenge(&client, &session).await, Value::Null);
    app.stop().await;
}

/// Contract: challenges 7, 9; retention 6. A challenge of another account or session is a 404. A challenge whose session has
/// ended cannot be resolved.
#[tokio::test]
async fn challenge_is_resolved_once_and_only_by_its_owner() {
    let app = App::simulated().start().await;
    let (client, stranger) = (app.client().await, app.client().await);
    let (session, other) = (client.session().await, client.session().await);
    client.navigate(&session, &page("datadome")).await;
    let found = paused(&client, &session).await;
    stranger.post(&resolution(&session, &found), json!({})).await.problem(404, "not-found");
    client.post(&resolution(&other, &found), json!({})).await.problem(404, "not-found");
    for unknown in [unknown_id("chl"), "chl_none".to_owned()] {
        let path = resolution(&session, &json!({"challenge_id": unknown}));
        client.post(&path, json!({})).await.problem(404, "not-found");
    }
    assert_eq!(challenge(&client, &session).await, found);

    let tries = (0..16).map(|_| {
        let (client, path) = (client.clone(), resolution(&session, &found));
        tokio::spawn(async move { client.post(&path, json!({})).await.expect(200).body })
    });
    let mut ends = Vec::new();
    for one in tries.collect::<Vec<_>>() {
        ends.push(one.await.expect("an answer"));
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");

    client.navigate(&session, &page("imperva")).await;
    let open = paused(&client, &session).await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(challenge(&client, &session).await, Value::Null);
    client.post(&resolution(&session, &open), json!({})).await.problem(410, "session-destroyed");
    client.post(&resolution(&session, &found), json!({})).await.expect(200);
    client.operate(&session, "snapshot", json!({})).await.problem(410, "session-destroyed");

    app.execute("update sessions set ended_at = now() - interval '91 days' where id = $1", uuid_of(&session)).await;
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from challenges").await, 0);
    app.stop().await;
}

/// Contract: challenges 9. Further ones do not pause it.
#[tokio::test]
async fn challenges_above_the_limit_do_not_pause() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for number in 0..100 {
        client.navigate(&session, &page(&format!("generic?{number}"))).await;
        let found = paused(&client, &session).await;
        client.post(&resolution(&session, &found), json!({})).await.expect(200);
    }
    client.navigate(&session, &page("generic?beyond")).await;
    wait_for_a_check().await;
    assert_eq!(challenge(&client, &session).await, Value::Null);
    client.operate(&session, "snapshot", json!({})).await.expect(200);
    assert_eq!(challenge_events(&app, &session).await.len(), 100);
    app.stop().await;
}

/// Contract: challenges 5, 6. An operation after it is rejected.
#[tokio::test]
async fn running_operation_completes_during_a_challenge() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    let running = client.waiting(&session, 1_000);
    eventually(SOON, "the operation runs", async || (client.status(&session).await == "busy").then_some(())).await;
    let pause = "update sessions set challenge = jsonb_build_object('challenge_id', 'chl_' || $1::uuid, 'type', 'akamai', 'detected_at', now())
                 where id = $1::uuid";
    app.execute(pause, uuid_of(&session)).await;
    running.await.expect("an answer").expect(200);
    let refused = client.operate(&session, "snapshot", json!({})).await.problem(409, "conflict");
    assert_eq!(refused.body["challenge"]["type"], "akamai");
    app.stop().await;
}

/// Contract: challenges 10; agents 21. After the resolution the agent can continue.
#[tokio::test]
async fn turn_of_an_agent_ends_at_a_challenge() {
    let app = App::simulated().with_second_factors().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let made = client.agent_session(json!({})).await;
    let (agent, driver) = (id_of(&made), driver_of(&made));
    let send_message = async |message: &str| {
        client.post_to_agent(&agent, "message", json!({"message": message})).await.expect(200).body
    };
    send_message(&format!("open {}", page("kasada"))).await;
    let found = paused(&client, &driver).await;
    for message in ["scroll down, press Tab", "tap 'nothing', scroll down"] {
        let turn = send_message(message).await;
        let (step, next) = (&turn["intents"][0], &turn["intents"][1]);
        assert_eq!((&step["status"], &next["status"]), (&json!("failed"), &json!("skipped")), "{turn}");
        assert!(step["error"].as_str().is_some_and(|error| error.contains("paused by a challenge (kasada)")), "{step}");
    }
    let picture = send_message("take a screenshot").await;
    assert_eq!(picture["intents"][0]["status"], "done", "{picture}");
    client.post(&resolution(&driver, &found), json!({})).await.expect(200);
    let turn = send_message("open https://example.com, scroll down").await;
    assert_eq!(
        (&turn["intents"][0]["status"], &turn["intents"][1]["status"]),
        (&json!("done"), &json!("done")),
        "{turn}"
    );
    app.stop().await;
}
