//! The four routes that accept an `Idempotency-Key`, each with its rule in the contract (contract: requests 17; agents 3, 27,
//! 28; billing 5, 6, 31).

use std::collections::BTreeMap;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::card_provider::CardProvider;
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::{Answer, App, Client};

/// 32 bytes in base64.
const KEY: &str = "a2V5IGtleSBrZXkga2V5IGtleSBrZXkga2V5IGtleSE=";

struct Request {
    operation: &'static str,
    path: String,
    status: u16,
    body: Value,
    another: Value,
}

impl Request {
    async fn send(&self, client: &Client, keys: &[&str], body: &Value) -> Answer {
        let request = client.request(Method::POST, &self.path).json(body);
        client.send(keys.iter().fold(request, |request, key| request.header("idempotency-key", *key))).await
    }
}

/// For each operation that accepts a key. Messages go to this agent session.
fn requests(agent: &str) -> [Request; 4] {
    let purchase = |tier: &str| json!({"tier": tier, "success_url": "https://example.com/1", "cancel_url": "https://example.com/2"});
    [
        Request {
            operation: "createAgentSession",
            path: "/v1/agent-sessions".to_owned(),
            status: 201,
            body: json!({"label": "one"}),
            another: json!({"label": "another"}),
        },
        Request {
            operation: "sendAgentMessage",
            path: format!("/v1/agent-sessions/{agent}/message"),
            status: 200,
            body: json!({"message": "take a screenshot"}),
            another: json!({"message": "tap 'Next'"}),
        },
        Request {
            operation: "createCheckoutSession",
            path: "/v1/billing/checkout-session".to_owned(),
            status: 201,
            body: purchase("api_builder"),
            another: purchase("api_starter"),
        },
        Request {
            operation: "createCryptoOrder",
            path: "/v1/billing/crypto-checkout".to_owned(),
            status: 201,
            body: json!({"product": "api_builder"}),
            another: json!({"product": "api_starter"}),
        },
    ]
}

/// The `x-idempotency` rules in the OpenAPI document, by operation id.
async fn rules(app: &App) -> BTreeMap<String, Value> {
    let document = app.stranger().get("/openapi.json").await.expect(200).body;
    let paths = document["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|path| path.as_object().expect("operations").values());
    let mut rules = BTreeMap::new();
    for operation in operations {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let takes_a_key =
            parameters.into_iter().any(|parameter| parameter["$ref"] == "#/components/parameters/IdempotencyKey");
        assert_eq!(operation["x-idempotency"].is_object(), takes_a_key, "{}", operation["operationId"]);
        if takes_a_key {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            rules.insert(id, operation["x-idempotency"].clone());
        }
    }
    rules
}

/// Contract: requests 17; agents 3, 27, 28; billing 5, 6, 31. The rule decides about another body with the same key and about
/// `Idempotent-Replayed`.
#[tokio::test]
async fn idempotency_key_follows_the_documented_rule() {
    let (cards, processor) = (CardProvider::start().await, CryptoProcessor::start().await);
    let app = App::simulated().selling_at(&cards.base_url).paid_in_crypto_at(&processor.base_url);
    let app = app.set("mfa.encryption_key", KEY).start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let (_, other) = app.customer(Tier::Enterprise).await;
    let rules = rules(&app).await;
    let (ours, theirs) = (requests(&client.agent().await), requests(&other.agent().await));
    assert!(rules.keys().eq(["createAgentSession", "createCheckoutSession", "createCryptoOrder", "sendAgentMessage"]));

    for (request, their_request) in ours.iter().zip(&theirs) {
        let rule = &rules[request.operation];
        let about = request.operation;
        let is_marked = |answer: &Answer| answer.headers.get("idempotent-replayed").is_some_and(|header| header == "1");
        for malformed in ["a b", "ü", &"x".repeat(256)] {
            request.send(&client, &[malformed], &request.body).await.invalid("Idempotency-Key");
        }
        request.send(&client, &["a", "b"], &request.body).await.invalid("Idempotency-Key");

        let first = request.send(&client, &["once"], &request.body).await.expect(request.status);
        assert!(!is_marked(&first), "{about}");
        for key in ["once", " once\t"] {
            let again = request.send(&client, &[key], &request.body).await.expect(request.status);
            assert_eq!(again.body, first.body, "{about}");
            assert_eq!(is_marked(&again), rule["replayed_header"] == true, "{about}");
            assert_eq!(again.headers.get("location"), first.headers.get("location"), "{about}");
        }
        let another = request.send(&client, &["once"], &request.another).await;
        match rule["another_body"].as_str().expect("a word") {
            "same_answer" => {
                let another = another.expect(request.status);
                assert_eq!(another.body, first.body, "{about}");
                assert_eq!(is_marked(&another), rule["replayed_header"] == true, "{about}");
            }
            "mismatch" => {
                assert_eq!(another.problem(409, "conflict").body["idempotency_status"], "mismatch", "{about}");
            }
            "provider_refuses" => {
                assert_eq!(another.problem(502, "driver-error").body["provider_status"], 400, "{about}");
            }
            unknown => panic!("{about}: {unknown}"),
        }

        let elsewhere = their_request.send(&other, &["once"], &their_request.body).await.expect(request.status);
        assert_ne!(elsewhere.body, first.body, "{about}");
        for _ in 0..2 {
            let unnamed = request.send(&client, &["  "], &request.body).await.expect(request.status);
            assert!(unnamed.body != first.body && !is_marked(&unnamed), "{about}");
        }
    }

    // Let the keys expire.
    for old in [
        "update card_checkout_keys set created_at = created_at - interval '31 days'",
        "update crypto_orders set created_at = created_at - interval '400 days', expires_at = expires_at - interval '400 days'",
    ] {
        sqlx::query(old).execute(&app.database.pool).await.expect("a statement");
    }
    app.run(&["sweep", "retention"]).await.code(0);
    app.run(&["sweep", "idempotency"]).await.code(0);
    let keys = [
        ("createAgentSession", "select count(*) from agent_session_creates where key = 'once'", 2),
        ("sendAgentMessage", "select count(*) from agent_message_receipts where key = 'once'", 2),
        ("createCheckoutSession", "select count(*) from card_checkout_keys", 0),
        ("createCryptoOrder", "select count(*) from crypto_orders where idempotency_key = 'once'", 2),
    ];
    for (operation, count, kept) in keys {
        assert_eq!(app.count(count).await, kept, "{operation}: {}", rules[operation]["kept"]);
        assert_eq!(rules[operation]["kept"] == "provider", kept == 0);
    }
    app.stop().await;
}
