//! Validation of published events against the contract (contract: versioning 5), because receivers generate types from it.

use boon::{Compiler, Draft, Schemas};
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::App;

const CONTRACT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"));

const PLACE: &str = "https://kitfleet.test/openapi.json";

pub fn failed() -> Value {
    json!({
        "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "operation": "unknown",
        "error_name": "UnknownError", "error_message": "The session operation failed.",
    })
}

impl App {
    pub async fn assert_events_are_promised(&self) {
        let events: Vec<(Uuid, String, Timestamp, Value)> =
            sqlx::query_as("select id, type, created_at, data from events")
                .fetch_all(&self.database.pool)
                .await
                .expect("the events");
        if events.is_empty() {
            return;
        }
        let mut promises = Promises::read();
        for (id, kind, created_at, data) in events {
            let event = json!({"id": id, "type": kind, "created_at": created_at, "data": data});
            promises.check(&event).unwrap_or_else(|broken| panic!("{broken}\n{event}"));
        }
    }
}

pub struct Promises {
    compiler: Compiler,
    schemas: Schemas,
}

impl Promises {
    pub fn read() -> Self {
        let mut contract: Value = serde_json::from_str(CONTRACT).expect("JSON");
        let schemas = contract["components"]["schemas"].as_object_mut().expect("schemas");
        for schema in schemas.values_mut().filter(|schema| schema.get("properties").is_some()) {
            schema["additionalProperties"] = json!(false);
        }
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler.add_resource(PLACE, contract).expect("a contract");
        Self { compiler, schemas: Schemas::new() }
    }

    /// Validates an event, as it is delivered, against the schema of its type.
    pub fn check(&mut self, event: &Value) -> Result<(), String> {
        let kind = event["type"].as_str().expect("a type");
        let place = format!("{PLACE}#/webhooks/{kind}/post/requestBody/content/application~1json/schema");
        // Compiled schemas are cached.
        let schema = self.compiler.compile(&place, &mut self.schemas).map_err(|error| error.to_string())?;
        self.schemas.validate(event, schema).map_err(|error| error.to_string())
    }
}
