//! Agent sessions over video (contract: livekit).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitfleet_domain::livekit::{self, NewMacNode};
use kitfleet_domain::vault::Vault;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::support::app::Builder;
use crate::support::people::ENCRYPTION_KEY;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, members, unknown_id};

pub const SEALS: [u8; 32] = *b"Kitfleet keeps second factors...";
const KEY: &str = "APInode";
const SECRET: &str = "a-secret-of-LiveKit-that-is-shown-to-nobody";

fn with_encryption_key() -> Builder {
    App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).set("metrics.scrape_token", "scrape")
}

impl Client {
    async fn livekit_token(&self, agent: &str, role: &str) -> Answer {
        self.get(&format!("/v1/agent-sessions/{agent}/livekit-token?role={role}")).await
    }
}

impl App {
    /// The secret is encrypted with this key. Returns true when the machine is new.
    pub async fn register(&self, name: &str, api_secret: &str, capacity: Option<i32>, key: [u8; 32]) -> bool {
        let livekit_url = format!("wss://{name}.example.com");
        let new = NewMacNode { name, livekit_url: &livekit_url, api_key: KEY, api_secret, capacity };
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let checked = new.check().expect("a valid node");
        livekit::register(&mut conn, &checked, &Vault::new(key, &[])).await.expect("a node").1
    }

    async fn registered(&self, outcome: &str) -> u64 {
        self.sample(&format!("service_mac_node_livekit_register_total{{outcome=\"{outcome}\"}} ")).await
    }

    async fn minted(&self, role: &str, outcome: &str) -> u64 {
        self.sample(&format!("service_livekit_token_mint_total{{role=\"{role}\",outcome=\"{outcome}\"}} ")).await
    }

    async fn sample(&self, series: &str) -> u64 {
        let scraper = Client::new(&self.base_url, Some("scrape"));
        let text = scraper.request(Method::GET, "/metrics").send().await.expect("metrics").text().await.expect("text");
        text.lines().find_map(|line| line.strip_prefix(series)?.parse().ok()).expect("a series that starts at zero")
    }
}

/// From LiveKit's token verifier.
async fn read(tokens: &[(&str, &str, &str)]) -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/livekit/read.py");
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("livekit/bin/python");
    let mut command = Command::new(python);
    command.arg(root).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let mut program = command.spawn().expect("Python");
    let lines: Vec<_> = tokens.iter().map(|(key, secret, token)| format!("{key}\t{secret}\t{token}\n")).collect();
    let lines = lines.concat();
    let mut input = program.stdin.take().expect("its input");
    input.write_all(lines.as_bytes()).await.expect("a write to its input");
    drop(input);
    let output = program.wait_with_output().await.expect("its output");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The signature is not checked.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("JSON")
}

/// Contract: livekit 4, 5. The secret is that of the token's machine.
#[tokio::test]
async fn livekit_verifier_accepts_tokens() {
    let app = with_encryption_key().start().await;
    assert!(app.register("mac-1", SECRET, None, SEALS).await);
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    let [viewer, controller] =
        [client.livekit_token(&agent, "viewer").await, client.livekit_token(&agent, "controller").await];
    let mut tokens = Vec::new();
    for answer in [viewer, controller] {
        assert_eq!(answer.headers["cache-control"], "no-store");
        let body = answer.expect(200).body;
        assert_eq!(members(&body), ["expires_at", "room", "token", "url"].into());
        assert_eq!((&body["room"], &body["url"]), (&json!(agent), &json!("wss://mac-1.example.com")));
        assert_timestamp(&body["expires_at"]);
        let token = body["token"].as_str().expect("a token").to_owned();
        let claims = claims(&token);
        assert_eq!(claims["exp"].as_i64().expect("a time") - claims["nbf"].as_i64().expect("a time"), 600);
        let until = humantime::parse_rfc3339(body["expires_at"].as_str().expect("a time")).expect("a time");
        let until = until.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        assert_eq!(claims["exp"], until);
        tokens.push(token);
    }
    let (first, last) = tokens[0].rsplit_once('.').expect("a signature");
    let forged = format!("{first}.{}", last.chars().rev().collect::<String>());
    let read = read(&[
        (KEY, SECRET, &tokens[0]),
        (KEY, SECRET, &tokens[1]),
        (KEY, "another-secret-of-LiveKit-of-32-bytes", &tokens[0]),
        ("APIother", SECRET, &tokens[0]),
        (KEY, SECRET, &forged),
    ])
    .await;
    for (read, role) in read.iter().zip(["viewer", "controller"]) {
        let video = &read["video"];
        assert_eq!(
            (&video["room_join"], &video["room"], &video["can_subscribe"]),
            (&json!(true), &json!(agent), &json!(true))
        );
        assert_eq!((&video["can_publish"], &video["can_publish_data"]), (&json!(false), &json!(role == "controller")));
        assert!(!video["room_admin"].as_bool().unwrap_or_default());
        assert_eq!(read["metadata"], json!({"role": role}).to_string());
    }
    assert_ne!(read[0]["identity"], read[1]["identity"]);
    assert_eq!(read[2]["refused"], "InvalidSignatureError");
    assert_eq!(read[3]["refused"], "InvalidIssuerError");
    assert!(read[4]["refused"].is_string(), "{}", read[4]);
    assert_eq!((app.minted("viewer", "ok").await, app.minted("controller", "ok").await), (1, 1));
    app.stop().await;
}

/// Contract: livekit 4, 6, 7.
#[tokio::test]
async fn token_rejections_have_a_reason_and_are_counted() {
    let app = with_encryption_key().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    for role in ["", "admin", "Viewer", "viewer&role=viewer"] {
        client.livekit_token(&agent, role).await.invalid("role");
    }
    client.get(&format!("/v1/agent-sessions/{agent}/livekit-token")).await.invalid("role");
    client.livekit_token(&agent, "viewer").await.problem(503, "feature-unavailable");
    assert_eq!(app.minted("viewer", "no_mac").await, 1);
    app.register("mac-1", SECRET, None, [7; 32]).await;
    let unreadable = client.livekit_token(&agent, "controller").await.problem(503, "feature-unavailable");
    assert!(!unreadable.body.to_string().contains(SECRET));
    assert_eq!(app.minted("controller", "secret_unreadable").await, 1);
    // No room was placed on a machine whose secret cannot be decrypted. A machine that is registered later is used.
    assert_eq!(app.count("select count(*) from livekit_rooms").await, 0);
    app.register("mac-2", SECRET, None, SEALS).await;
    let placed = client.livekit_token(&agent, "controller").await.expect(200).body;
    assert_eq!(placed["url"], "wss://mac-2.example.com");
    assert!(!app.register("mac-2", SECRET, None, [7; 32]).await);
    client.livekit_token(&agent, "controller").await.problem(503, "feature-unavailable");
    assert!(!app.register("mac-1", SECRET, None, SEALS).await && !app.register("mac-2", SECRET, None, SEALS).await);
    let placed = client.livekit_token(&agent, "controller").await.expect(200).body;
    assert_eq!(placed["url"], "wss://mac-2.example.com");

    let reader = app.client_of(account, &["read:agents"]).await;
    reader.livekit_token(&agent, "viewer").await.expect(200);
    let refused = reader.livekit_token(&agent, "controller").await.problem(403, "forbidden");
    assert!(refused.body["detail"].as_str().expect("text").contains("write:agents"));
    assert_eq!(app.minted("controller", "forbidden").await, 1);
    app.client_of(account, &["write:agents"]).await.livekit_token(&agent, "controller").await.problem(403, "forbidden");
    assert_eq!(app.minted("controller", "forbidden").await, 2);
    for unknown in [unknown_id("agt"), "x".to_owned()] {
        client.livekit_token(&unknown, "viewer").await.problem(404, "not-found");
    }
    app.client().await.livekit_token(&agent, "viewer").await.problem(404, "not-found");
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    client.livekit_token(&agent, "viewer").await.problem(409, "conflict");
    assert_eq!(app.minted("viewer", "not_found").await, 4);
    app.stop().await;
}

/// Contract: livekit 7. They are rejected before the look-up of the agent session.
#[tokio::test]
async fn token_without_scope_or_role_is_counted_as_forbidden() {
    let app = with_encryption_key().start().await;
    let (owner, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    let (member, by_team) = app.customer(Tier::Enterprise).await;
    app.join_team(owner, member, "member").await;
    let (downgraded, free) = app.customer(Tier::Enterprise).await;
    app.run(&["account", "set-tier", &downgraded.to_string(), "free"]).await.code(0);
    let narrow = app.client_of(owner, &["read:sessions"]).await;
    let path = |role: &str| format!("/v1/agent-sessions/{agent}/livekit-token?role={role}");
    for role in ["viewer", "controller"] {
        assert_eq!(app.minted(role, "forbidden").await, 0);
        narrow.get(&path(role)).await.problem(403, "forbidden");
        assert_eq!(app.minted(role, "forbidden").await, 1, "scope");
        let request = by_team.request(Method::GET, &path(role)).header("x-service-account", owner.to_string());
        by_team.send(request).await.problem(403, "forbidden");
        assert_eq!(app.minted(role, "forbidden").await, 2, "role");
        free.get(&path(role)).await.problem(403, "forbidden");
        assert_eq!(app.minted(role, "forbidden").await, 3, "tier");
        app.stranger().get(&path(role)).await.problem(401, "unauthorized");
        narrow.get(&path("admin")).await.problem(403, "forbidden");
        assert_eq!(app.minted(role, "forbidden").await, 3, "{role}");
    }
    app.stop().await;
}

/// Contract: livekit 6. The capacity is never exceeded.
#[tokio::test]
async fn rooms_are_distributed_by_machine_capacity() {
    let app = with_encryption_key().set("worker.max_sessions", "8").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    app.register("mac-1", SECRET, Some(1), SEALS).await;
    app.register("mac-2", SECRET, Some(3), SEALS).await;
    let mut agents = Vec::new();
    for _ in 0..5 {
        agents.push(client.agent().await);
    }
    let asked = agents.iter().flat_map(|agent| [agent; 4]).map(|agent| {
        let (client, agent) = (client.clone(), agent.clone());
        async move { (agent.clone(), client.livekit_token(&agent, "viewer").await) }
    });
    let mut rooms = BTreeMap::new();
    for (agent, answer) in at_once(asked.collect::<Vec<_>>()).await {
        let place = (answer.status.as_u16(), answer.body["url"].as_str().unwrap_or_default().to_owned());
        assert_eq!(rooms.entry(agent).or_insert_with(|| place.clone()), &place);
    }
    let count = |url: &str| rooms.values().filter(|(_, at)| at == url).count();
    assert_eq!((count("wss://mac-1.example.com"), count("wss://mac-2.example.com"), count("")), (1, 3, 1));
    let full = rooms.iter().find(|(_, (status, _))| *status == 503).expect("one without a room").0;
    let other = rooms.iter().find(|(_, (status, _))| *status == 200).expect("one with a room").0;
    client.delete(&format!("/v1/agent-sessions/{other}")).await.expect(204);
    client.livekit_token(full, "viewer").await.expect(200);
    app.stop().await;
}

/// Contract: livekit 1 to 3; staff 2.
#[tokio::test]
async fn registration_of_machines_is_staff_only_and_counted() {
    let app = with_encryption_key().start().await;
    let (staff, customer) = (app.staff().await, app.client().await);
    let path = "/v1/mac-nodes/register";
    let body = json!({"name": "mac-1", "livekit_url": "wss://mac-1.example.com", "api_key": KEY, "api_secret": SECRET, "capacity": 2});
    let made = staff.post(path, body.clone()).await.expect(201).body;
    assert_eq!(members(&made), BTreeSet::from(["id", "name", "livekit_url", "created_at"]));
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("mac_")), "{made}");
    assert_timestamp(&made["created_at"]);
    let mut other = body.clone();
    other["livekit_url"] = "wss://other.example.com".into();
    let replaced = staff.post(path, other).await.expect(200).body;
    assert_eq!((&replaced["id"], &replaced["livekit_url"]), (&made["id"], &json!("wss://other.example.com")));
    for (field, value) in [
        ("name", json!("")),
        ("livekit_url", json!("https://mac-1.example.com")),
        ("api_key", json!("with space")),
        ("api_secret", json!("")),
        ("capacity", json!(0)),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value;
        let refused = staff.post(path, wrong).await.invalid(field);
        assert!(!refused.body.to_string().contains(SECRET));
    }
    customer.post(path, body.clone()).await.problem(404, "not-found");
    app.stranger().post(path, body.clone()).await.problem(401, "unauthorized");

    let agent = customer.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let token = customer.livekit_token(agent["id"].as_str().expect("an id"), "viewer").await.expect(200).body;
    assert_eq!(token["url"], "wss://other.example.com");
    assert_eq!(claims(token["token"].as_str().expect("a token"))["iss"], KEY);
    app.execute_all("alter table mac_nodes rename to away").await;
    staff.post(path, body.clone()).await.problem(500, "internal");
    app.execute_all("alter table away rename to mac_nodes").await;
    for (outcome, count) in [("ok", 2), ("validation", 5), ("encryption_error", 0), ("not_found", 1), ("unknown", 1)] {
        assert_eq!(app.registered(outcome).await, count, "{outcome}");
    }
    app.stop().await;

    let keyless = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    keyless.staff().await.post(path, body).await.problem(503, "feature-unavailable");
    assert_eq!(keyless.registered("encryption_error").await, 1);
    keyless.stop().await;
}
