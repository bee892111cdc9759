//! The catalogue of devices (contract: archetypes).

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{App, members};

/// Contract: archetypes 1 to 3. The catalogue is public and can be cached for 5 min.
#[tokio::test]
async fn every_listed_archetype_can_create_a_session() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let listed = stranger.get("/v1/archetypes").await.expect(200);
    assert_eq!(listed.headers["cache-control"], "public, max-age=300");
    assert_eq!(members(&listed.body), BTreeSet::from(["default_archetype_id", "data"]));
    assert_eq!(listed.body["default_archetype_id"], "iphone-16-ios-18");
    let garbled = stranger.request(Method::GET, "/v1/archetypes").bearer_auth("svc_live_garbled");
    assert_eq!(stranger.send(garbled).await.expect(200).body, listed.body);

    let archetypes = listed.body["data"].as_array().expect("data");
    assert!(archetypes.len() >= 8, "contract: archetypes 3");
    let client = app.client().await;
    let mut ids = BTreeSet::new();
    for archetype in archetypes {
        let names =
            ["id", "display_label", "device", "ios_version", "safari_version", "canvas_family", "status", "is_default"];
        assert_eq!(members(archetype), BTreeSet::from(names));
        for text in &names[..7] {
            assert!(archetype[*text].as_str().is_some_and(|text| !text.is_empty()), "{text} of {archetype}");
        }
        let default = archetype["id"] == listed.body["default_archetype_id"];
        assert_eq!(archetype["is_default"], default);
        assert!(matches!(archetype["status"].as_str(), Some("launch" | "available")));
        assert_eq!(archetype["status"] == "launch", default);
        assert!(ids.insert(archetype["id"].as_str().expect("an id")), "{archetype} is listed twice");

        let created = client.post("/v1/sessions", json!({"archetype": archetype["id"]})).await.expect(201);
        assert_eq!(created.body["archetype"], archetype["id"]);
        client.delete(&format!("/v1/sessions/{}", created.body["id"].as_str().expect("an id"))).await.expect(204);
    }
    assert_eq!(archetypes.iter().filter(|archetype| archetype["is_default"] == Value::Bool(true)).count(), 1);
    app.stop().await;
}
