//! Messages with idempotency keys (contract: agents 27 to 30).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_domain::agents::receipts;
use kitfleet_domain::vault::Vault;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use super::driver_of;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, unknown_id};

/// 32 bytes in base64.
const KEY: &str = "a2V5IGtleSBrZXkga2V5IGtleSBrZXkga2V5IGtleSE=";

async fn send_message(client: &Client, agent: &str, key: &str, body: &Value) -> Answer {
    let path = format!("/v1/agent-sessions/{agent}/message");
    client.send(client.request(Method::POST, &path).header("idempotency-key", key).json(body)).await
}

fn message(text: &str) -> Value {
    json!({"message": text})
}

fn status_of(answer: Answer, status: &str) {
    let answer = answer.problem(409, "conflict");
    assert_eq!(answer.body["idempotency_status"], status, "{}", answer.body);
}

/// Contract: agents 27, 28. It executes nothing. A different message with the key is a mismatch.
#[tokio::test]
async fn message_with_a_used_key_returns_the_stored_response() {
    let app = App::simulated().set("mfa.encryption_key", KEY).start().await;
    let client = app.client().await;
    let made = client.agent_session(json!({})).await;
    let agent = super::id_of(&made);
    let first = send_message(&client, &agent, "k", &message("take a screenshot")).await.expect(200);
    let done = app.intents(&driver_of(&made)).await.len();
    assert_eq!(send_message(&client, &agent, " k ", &message("take a screenshot")).await.expect(200).body, first.body);
    let other = client.agent().await;
    status_of(send_message(&client, &other, "k", &message("take a screenshot")).await, "mismatch");
    status_of(send_message(&client, &agent, "k", &message("take a screenshot ")).await, "mismatch");
    let approving = json!({"message": "take a screenshot", "approvals": ["a"]});
    status_of(send_message(&client, &agent, "k", &approving).await, "mismatch");
    // Malformed requests, and requests for an unknown agent session, are checked before the key.
    send_message(&client, &agent, "k", &message("")).await.invalid("message");
    send_message(&client, &agent, "k k", &message("a")).await.invalid("Idempotency-Key");
    send_message(&client, &unknown_id("agt"), "k", &message("take a screenshot")).await.problem(404, "not-found");
    let (stranger, theirs) = (app.client().await, "tap 'Next'");
    let elsewhere = stranger.agent().await;
    send_message(&stranger, &elsewhere, "k", &message(theirs)).await.expect(200);

    // The receipt does not depend on the lane or on the status of the agent session.
    client.post_to_agent(&agent, "mode", json!({"mode": "manual"})).await.expect(200);
    send_message(&client, &agent, "refused", &message("tap 'Next'")).await.problem(409, "conflict");
    assert_eq!(send_message(&client, &agent, "k", &message("take a screenshot")).await.expect(200).body, first.body);
    client.post_to_agent(&agent, "mode", json!({"mode": "ai"})).await.expect(200);
    send_message(&client, &agent, "refused", &message("tap 'Next'")).await.expect(200);
    assert_eq!(app.intents(&driver_of(&made)).await.len(), done + 1);
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    assert_eq!(send_message(&client, &agent, "k", &message("take a screenshot")).await.expect(200).body, first.body);
    assert_eq!(app.tables_with("iVBORw0KGgo").await, <[&str; 0]>::default());
    app.stop().await;
}

/// Contract: agents 27, 28. The others return `in_progress` or its response.
#[tokio::test]
async fn one_of_64_concurrent_messages_with_one_key_runs() {
    let app = App::simulated().set("mfa.encryption_key", KEY).start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let says = (0..64).map(|_| {
        let (client, agent) = (client.clone(), agent.clone());
        async move { send_message(&client, &agent, "k", &message("tap 'Next'")).await }
    });
    let mut answers = Vec::new();
    for answer in at_once(says).await {
        if answer.status == 200 {
            answers.push(answer.body);
        } else {
            status_of(answer, "in_progress");
        }
    }
    assert!(!answers.is_empty());
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(app.count("select count(*) from agent_turns").await, 1);
    assert_eq!(app.count("select count(*) from intents where kind = 'interact'").await, 1);
    app.stop().await;
}

/// Contract: agents 29, 30. A receipt with an unknown outcome stays `in_progress`.
#[tokio::test]
async fn receipt_requires_deployment_key_and_can_stay_unknown() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    send_message(&client, &agent, "k", &message("tap 'Next'")).await.problem(503, "feature-unavailable");
    send_message(&client, &agent, "k k", &message("tap 'Next'")).await.invalid("Idempotency-Key");
    assert_eq!(app.count("select count(*) from agent_turns").await, 0);
    client.post_to_agent(&agent, "message", message("tap 'Next'")).await.expect(200);
    app.stop().await;

    let app = App::simulated().set("mfa.encryption_key", KEY).start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    send_message(&client, &agent, "k", &message("tap 'Next'")).await.expect(200);
    let crash = "update agent_message_receipts
                 set status = 'in_progress', http_status = null, sealed_body = null, completed_at = null where session_id = $1";
    app.execute(crash, crate::support::records::uuid_of(&agent)).await;
    status_of(send_message(&client, &agent, "k", &message("tap 'Next'")).await, "in_progress");
    assert_eq!(app.count("select count(*) from agent_turns").await, 1);
    app.stop().await;
}

/// Contract: limits 9. It counts towards a limit of its account until it is sent. Above the limit, further large responses are
/// a 503 with Retry-After, before any of their data is read.
#[tokio::test]
async fn unread_large_response_blocks_only_its_account() {
    let app = App::simulated().set("mfa.encryption_key", KEY).set("limits.answer_bytes_per_account", "1048576");
    let app = app.start().await;
    let key: [u8; 32] = STANDARD.decode(KEY).expect("base64").try_into().expect("32 bytes");
    let vault = Vault::new(key, &[]);
    let large = json!({"reply": "x".repeat(12 * 1024 * 1024)});
    let enlarge = async |account, agent: &str| {
        let sealed = receipts::seal(&vault, account, "k", large.to_string().as_bytes());
        let id = uuid_of(agent);
        app.execute_all(&format!(
            "update agent_message_receipts set sealed_body = decode('{}', 'hex') where session_id = '{id}'",
            hex::encode(sealed)
        ))
        .await;
    };
    let ((account, client), (another, other)) =
        (app.customer(Tier::Enterprise).await, app.customer(Tier::Enterprise).await);
    let (agent, theirs) = (client.agent().await, other.agent().await);
    for (account, client, agent) in [(account, &client, &agent), (another, &other, &theirs)] {
        send_message(client, agent, "k", &message("make me a sandwich")).await.expect(200);
        enlarge(account, agent).await;
    }
    let body = message("make me a sandwich").to_string();
    let request = format!(
        "POST /v1/agent-sessions/{agent}/message HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        client.key.clone().expect("a key"),
        body.len(),
    );
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let address = app.base_url.strip_prefix("http://").expect("plain HTTP").parse().expect("an address");
    let mut slow = socket.connect(address).await.expect("the service listens");
    slow.write_all(request.as_bytes()).await.expect("a request");
    // The response has started.
    slow.read_exact(&mut [0; 12]).await.expect("a status");

    let refused = send_message(&client, &agent, "k", &message("make me a sandwich")).await;
    assert!(refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
    refused.problem(503, "feature-unavailable");
    assert_eq!(send_message(&other, &theirs, "k", &message("make me a sandwich")).await.expect(200).body, large);
    client.get("/v1/agent-sessions").await.expect(200);
    drop(slow);
    assert_eq!(send_message(&client, &agent, "k", &message("make me a sandwich")).await.expect(200).body, large);
    app.stop().await;
}
