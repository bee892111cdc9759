//! Contract: versioning 5.

use std::path::Path;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::App;
use crate::support::card_provider::CardProvider;
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::model_provider::ModelProvider;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract/schemathesis.toml");

/// The generated requests are valid or not. No answer is a 500 or lacks a documented status, media type, headers and body.
#[tokio::test]
async fn service_follows_its_openapi_document() {
    // Key tests call a local double of the model providers.
    let models = ModelProvider::start().await;
    let (cards, crypto) = (CardProvider::start().await, CryptoProcessor::start().await);
    cards.forget_keys();
    let app = App::simulated()
        .with_second_factors()
        .asking(&models)
        .selling_at(&cards.base_url)
        .paid_in_crypto_at(&crypto.base_url)
        // Disabled features and rate limits would hide most answers.
        .set("sessions.direct_driver", "real")
        .set("metrics.scrape_token", "the deployment's")
        .set("auth.send_rate_per_minute", "100000")
        .set("rate_limits.credential_per_minute", "1000000")
        .set("limits.max_time_wait", "100ms")
        .start()
        .await;
    let ada = app.person(Tier::Enterprise).await;
    app.device_of(ada.account).await;
    let node = json!({"name": "mac-1", "livekit_url": "wss://mac-1.example.com", "api_key": "APInode", "api_secret": "a-secret"});
    app.staff().await.post("/v1/mac-nodes/register", node).await.expect(201);
    let devices = ada.client.get("/v1/account/web-sessions").await.expect(200);
    let mut devices = devices.body["data"].as_array().expect("a list").iter();
    let other = devices.find(|device| device["current"] == false).expect("another device");

    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schemathesis/bin/schemathesis");
    assert!(program.exists(), "./ops/test installs schemathesis");
    let mut command = Command::new(program);
    command.args(["--config-file", CONFIG, "run", &format!("{}/openapi.json", app.base_url)]);
    command.current_dir(app.data_dir.path()).env_clear().kill_on_drop(true);
    command.env("HOME", app.data_dir.path()).env("LANG", "C.UTF-8");
    command.env("KITFLEET_TOKEN", ada.token()).env("KITFLEET_ACCOUNT", ada.account.to_string());
    command.env("KITFLEET_OTHER_DEVICE", other["id"].as_str().expect("an id"));
    let output = command.output().await.expect("schemathesis runs");
    eprintln!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the service violates its OpenAPI document");
    ada.client.get("/v1/account/me").await.expect(200);
    app.stop().await;
}

/// Contract: requests 15. For any other field null is a 400 that names it.
#[tokio::test]
async fn null_is_accepted_only_for_nullable_fields() {
    let app = App::simulated()
        .with_second_factors()
        .set("sessions.direct_driver", "real")
        .set("auth.send_rate_per_minute", "100000")
        .set("rate_limits.credential_per_minute", "1000000")
        .start()
        .await;
    let client = app.person(Tier::Enterprise).await.client;
    // The session must exist, because it is looked up before the message is validated.
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let agent = agent["id"].as_str().expect("an id");
    let staff = app.staff().await;
    let node = json!({"name": "mac-1", "livekit_url": "wss://mac-1.example.com", "api_key": "APInode", "api_secret": "a-secret"});
    staff.post("/v1/mac-nodes/register", node).await.expect(201);
    let contract = client.get("/openapi.json").await.expect(200).body;
    let resolved = |schema: &Value| match schema["$ref"].as_str() {
        Some(to) => contract.pointer(to.trim_start_matches('#')).expect("the referenced schema").clone(),
        None => schema.clone(),
    };
    let is_null = |schema: &Value| schema["type"] == "null";
    let mut tried = 0;
    for (path, operations) in contract["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let content = &operation["requestBody"]["content"]["application/json"];
            let schema = resolved(&content["schema"]);
            let Some(properties) = schema["properties"].as_object() else { continue };
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            // Signed requests are rejected by their signature first.
            if path.starts_with("/v1/billing/") && path.ends_with("-webhook") {
                continue;
            }
            let example = content.get("example").unwrap_or(&schema["example"]);
            let id = if path.starts_with("/v1/agent-sessions/") { agent } else { "x" };
            let (method, path) = (method.to_uppercase(), path.replace("{id}", id));
            let client = if ["/v1/admin/", "/v1/mac-nodes/"].iter().any(|staffs| path.starts_with(staffs)) {
                &staff
            } else {
                &client
            };
            let send = async |body: &Value| {
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let answer = client.send(client.request(method, &path).json(body)).await;
                // A session that runs counts against the account's limit.
                if answer.status == 201 && ["/v1/sessions", "/v1/agent-sessions"].contains(&path.as_str()) {
                    let created = answer.body["id"].as_str().expect("an id");
                    client.delete(&format!("{path}/{created}")).await;
                }
                answer
            };
            for (name, property) in properties {
                let property = resolved(property);
                let types = property["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
                let either = property["oneOf"].as_array().is_some_and(|either| either.iter().any(is_null));
                let mut body = example.clone();
                body[name] = Value::Null;
                let answer = send(&body).await;
                tried += 1;
                let is_optional = !required.iter().any(|required| required == name.as_str());
                // Outside of PATCH, null means the same as an absent member, also where the schema does not offer it.
                if types || either || (is_optional && method != "PATCH") {
                    body.as_object_mut().expect("an object").remove(name);
                    let absent = send(&body).await;
                    assert_eq!(answer.status, absent.status, "{method} {path}, {name}: {}", answer.body);
                } else {
                    let named = |error: &Value| error["field"] == name.as_str();
                    let is_named = answer.body["errors"].as_array().is_some_and(|errors| errors.iter().any(named));
                    assert!(answer.status == 400 && is_named, "{method} {path}, {name}: {}", answer.body);
                }
            }
        }
    }
    assert!(tried > 60, "only {tried} fields were tried");
    app.stop().await;
}
