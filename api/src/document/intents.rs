//! Steps of an agent's plan, as a union with one variant for each kind of step. A step is stored with free parameters, so that its
//! type cannot declare them.

use kitfleet_domain::agents::steps::KINDS;
use serde_json::{Map, Value, json};

use super::schemas::resolved;
use crate::http::openapi::camel_case;

const INTENT: &str = "AgentIntent";
const COMMON: &str = "IntentStep";

/// Replaces the schema of a step by a union (contract: agents 16).
pub fn describe(schemas: &mut Map<String, Value>) {
    let Some(step) = schemas.get(INTENT) else { return };
    let common = step["allOf"].as_array().into_iter().flatten().map(|part| resolved(part, schemas));
    let Some(mut common) = common.into_iter().find(|part| part.get("properties").is_some()).cloned() else { return };
    let (description, example) = (step["description"].clone(), step["example"].clone());
    let (mut variants, mut mapping) = (Vec::new(), Map::new());
    for kind in KINDS {
        let name = format!("{}Intent", camel_case(kind));
        let mut own = json!({
            "type": "object", "required": ["kind"], "properties": {"kind": {"type": "string", "enum": [kind]}},
        });
        for (member, is_required, schema) in parameters(kind) {
            own["properties"][member] = schema;
            if let (true, Some(required)) = (is_required, own["required"].as_array_mut()) {
                required.push(member.into());
            }
        }
        let variant = reference(&name);
        mapping.insert(kind.to_owned(), variant["$ref"].clone());
        variants.push(variant);
        schemas.insert(name, json!({"allOf": [reference(COMMON), own]}));
    }
    let union = json!({
        "description": description, "oneOf": variants, "discriminator": {"propertyName": "kind", "mapping": mapping},
        "example": example,
    });
    schemas.insert(INTENT.to_owned(), union);
    if let Some(properties) = common["properties"].as_object_mut() {
        properties.shift_remove("kind");
    }
    if let Some(required) = common["required"].as_array_mut() {
        required.retain(|name| name != "kind");
    }
    common["description"] = "Members of every step".into();
    schemas.insert(COMMON.to_owned(), common);
    schemas.insert("IntentTarget".to_owned(), target());
    schemas.insert("IntentPage".to_owned(), page());
    schemas.insert("IntentCondition".to_owned(), condition());
    schemas.insert("IntentExtraction".to_owned(), extraction());
}

type Parameter = (&'static str, bool, Value);

/// Parameters of a kind of step, and whether they are always present.
fn parameters(kind: &str) -> Vec<Parameter> {
    let target = |required| ("target", required, reference("IntentTarget"));
    let value = ("value", true, text("Always `•••`: a text to type is never returned"));
    match kind {
        "navigate" => vec![("url", true, text("Address to open"))],
        "tap" => vec![
            target(true),
            ("count", false, integer("Number of taps; absent for one")),
            ("hold_ms", false, integer("Milliseconds that the finger stays; absent for a short tap")),
        ],
        "hover" => vec![target(true)],
        "check" => vec![target(true), ("checked", true, boolean("Wanted state"))],
        "type" | "fill" => vec![target(true), value],
        "press" => vec![("key", true, text("Key or chord")), target(false)],
        "select" => vec![target(true), ("option", true, text("Option to select"))],
        "upload" => vec![target(true), ("file", true, text("Name of the file"))],
        "drag" => vec![
            target(true),
            ("to", false, reference("IntentTarget")),
            ("delta_x", false, integer("CSS pixels to the right; absent if there is a `to`")),
            ("delta_y", false, integer("CSS pixels down; absent if there is a `to`")),
        ],
        "swipe" => vec![
            ("direction", true, reference("SwipeDirection")),
            ("distance", false, integer("CSS pixels; absent for most of the page or the element")),
            target(false),
        ],
        "scroll" => vec![
            ("delta_x", true, integer("CSS pixels to the right")),
            ("delta_y", true, integer("CSS pixels down")),
            target(false),
        ],
        "wait" => vec![("condition", true, reference("IntentCondition"))],
        "capture" => vec![("capture", true, reference("CaptureKind"))],
        "extract" => vec![("items", true, json!({"type": "array", "items": reference("IntentExtraction")}))],
        "dialog" => vec![
            ("accept", true, boolean("True to accept the dialog, false to dismiss it")),
            ("text", false, text("Always `•••`: an answer to a prompt is never returned")),
            ("dialog", false, text("Human-readable description of the dialog")),
        ],
        "activate_page" | "close_page" => vec![("page", true, reference("IntentPage"))],
        "set_location" => {
            vec![("latitude", true, number("Degrees north")), ("longitude", true, number("Degrees east"))]
        }
        _ => Vec::new(),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn integer(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn target() -> Value {
    json!({
        "type": "object", "description": "Element that a step applies to", "required": ["selector", "description"],
        "properties": {
            "selector": {"type": ["string", "null"], "description": "CSS selector; null until the element is found"},
            "description": text("Human-readable description of the element"),
        },
    })
}

fn page() -> Value {
    json!({
        "type": "object", "description": "Page of the browser", "required": ["id", "description"],
        "properties": {
            "id": {"type": ["string", "null"], "description": "Page ID; null until the page is found"},
            "description": text("Human-readable description of the page"),
        },
    })
}

fn condition() -> Value {
    let kinds = ["selector", "selector_hidden", "url_matches", "time", "download", "page"];
    json!({
        "type": "object", "description": "Condition that a step waits for", "required": ["kind"],
        "properties": {
            "kind": {"type": "string", "enum": kinds},
            "target": reference("IntentTarget"),
            "pattern": text("Regular expression, for `url_matches`"),
            "ms": integer("Milliseconds, for `time`"),
        },
    })
}

fn extraction() -> Value {
    json!({
        "type": "object", "description": "Value to extract", "required": ["name", "target", "attribute", "list"],
        "properties": {
            "name": text("Key of the value in the result"),
            "target": reference("IntentTarget"),
            "attribute": {"type": ["string", "null"], "description": "Attribute to read; the text if null"},
            "list": boolean("True to read every match"),
        },
    })
}
