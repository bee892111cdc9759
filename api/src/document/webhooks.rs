//! Outgoing webhooks: one operation of the contract for each event type (contract: events).

use kitfleet_domain::events::EventType;
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};

use crate::http::openapi::camel_case;
use crate::routes::webhooks::events::Payload;

pub fn section() -> (Map<String, Value>, Map<String, Value>) {
    let (mut operations, mut schemas, mut variants) = (Map::new(), Map::new(), Vec::new());
    for &event in EventType::ALL {
        let name = camel_case(event.name());
        let payload = Payload::of(event);
        let envelope = json!({"$ref": format!("#/components/schemas/{name}Event")});
        let operation = json!({
            "tags": ["Webhooks"], "summary": payload.summary, "operationId": format!("receive{name}"),
            "parameters": HEADERS.map(|(name, ..)| json!({"$ref": format!("#/components/parameters/{name}")})),
            "requestBody": {"required": true, "content": {"application/json": {"schema": envelope}}},
            "responses": {"2XX": {"description": "The event was received. Any other response, or none within 10 s, causes a retry"}},
            "security": [],
        });
        operations.insert(event.name().to_owned(), json!({"post": operation}));
        schemas.insert(format!("{name}Event"), enveloped(event, payload.summary, &payload.data));
        schemas.extend(payload.schemas.into_iter().map(|(name, schema)| (name, json!(schema))));
        variants.push(envelope);
    }
    let any = json!({
        "description": "Event sent to a webhook endpoint. Clients must ignore unknown types", "oneOf": variants,
    });
    schemas.insert("WebhookEvent".to_owned(), any);
    (operations, schemas)
}

fn enveloped(event: EventType, summary: &str, data: &RefOr<Schema>) -> Value {
    json!({
        "type": "object", "description": summary, "required": ["id", "type", "created_at", "data"],
        "properties": {
            "id": {
                "type": "string", "format": "uuid", "example": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2",
                "description": "Event ID; it is the same in every attempt",
            },
            "type": {"type": "string", "enum": [event.name()]},
            "created_at": {"type": "string", "format": "date-time", "description": "Time of the event"},
            "data": data,
        },
    })
}

pub fn headers() -> impl Iterator<Item = (String, Value)> {
    let header = |(name, header, what)| {
        (
            name,
            json!({"name": header, "in": "header", "required": true, "description": what, "schema": {"type": "string"}}),
        )
    };
    HEADERS.map(|(name, header, what)| (name.to_owned(), header, what)).into_iter().map(header)
}

const HEADERS: [(&str, &str, &str); 3] = [
    (
        "EventSignature",
        "X-Service-Signature",
        "`t=<seconds>,v1=<hex>`: HMAC-SHA256 of `<t>.<body>` with the endpoint's secret; two `v1` for 24 hours after a rotation",
    ),
    ("EventId", "X-Service-Event-Id", "Event `id`"),
    ("EventType", "X-Service-Event-Type", "Event `type`"),
];
