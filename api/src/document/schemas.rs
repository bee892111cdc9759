//! Completes schemas with information that SDK generators need and the derive macros omit.

use serde_json::{Map, Value, json};

/// Free-form objects, discriminators of unions, and whether a body is required.
pub fn complete(schemas: &mut Map<String, Value>, operations: &mut [&mut Value]) {
    open_sets(schemas);
    let known = schemas.clone();
    let finish = |schema: &mut Value| {
        open_free_object(schema);
        add_discriminators(schema, &known);
    };
    for schema in schemas.values_mut() {
        visit(schema, &finish);
    }
    for operation in operations {
        for holder in holders(operation) {
            visit(holder, &finish);
        }
        if let Some(body) = operation.get_mut("requestBody") {
            let mut contents = body["content"].as_object().into_iter().flat_map(Map::values);
            let required = contents.all(|content| asks_for_something(resolved(&content["schema"], &known)));
            body["required"] = required.into();
        }
    }
}

/// Sets in responses that can grow. Generated types that know only the present values would fail on a new one.
const OPEN_SETS: [&str; 11] = [
    "AgentSessionCloseReason",
    "AuditAction",
    "ChallengeType",
    "Component",
    "DownloadError",
    "EventType",
    "Obstacle",
    "ProfileSaveFailure",
    "ReadinessEncryptionKey",
    "ReadinessWorkers",
    "SessionWaitsFor",
];

fn open_sets(schemas: &mut Map<String, Value>) {
    for name in OPEN_SETS {
        let Some(Value::Object(set)) = schemas.get_mut(name) else { continue };
        let Some(values) = set.shift_remove("enum") else { continue };
        set.insert("x-extensible-enum".to_owned(), values);
        let before = set.get("description").and_then(Value::as_str).map(|text| format!("{text}. ")).unwrap_or_default();
        set.insert("description".to_owned(), format!("{before}Clients must accept unknown values").into());
    }
}

fn open_free_object(schema: &mut Value) {
    if is(schema, "object") && schema.get("properties").is_none() && schema.get("additionalProperties").is_none() {
        schema["additionalProperties"] = json!(true);
    }
}

/// Its variants have a member with one constant text that differs in each variant.
fn add_discriminators(schema: &mut Value, known: &Map<String, Value>) {
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let members = variants.iter().filter_map(|variant| resolved(variant, known)["properties"].as_object());
    let names: Vec<_> = members.flat_map(Map::keys).cloned().collect();
    for name in names {
        let tags = variants.iter().map(|variant| {
            let tag = only_text(&resolved(variant, known)["properties"][&name])?;
            Some((tag.to_owned(), variant.get("$ref")?.clone()))
        });
        if let Some(mapping) = tags.collect::<Option<Map<_, _>>>() {
            schema["discriminator"] = json!({"propertyName": name, "mapping": mapping});
            return;
        }
    }
}

fn only_text(schema: &Value) -> Option<&str> {
    match schema["enum"].as_array()?.as_slice() {
        [only] => only.as_str(),
        _ => None,
    }
}

/// An empty object is not a valid body: a request without a body counts as one (see [`crate::http::json::Json`]).
fn asks_for_something(schema: &Value) -> bool {
    schema.get("required").is_some() || schema.get("minProperties").is_some()
}

/// Other schemas are returned unchanged.
pub fn resolved<'a>(schema: &'a Value, known: &'a Map<String, Value>) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
    name.and_then(|name| known.get(name)).unwrap_or(schema)
}

pub fn is(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
}

/// Parameters and contents.
pub fn holders(operation: &mut Value) -> Vec<&mut Value> {
    let Value::Object(operation) = operation else { return Vec::new() };
    let mut holders = Vec::new();
    for (name, value) in operation {
        match (name.as_str(), value) {
            ("parameters", Value::Array(parameters)) => holders.extend(parameters),
            ("requestBody", body) => holders.extend(contents(body)),
            ("responses", Value::Object(responses)) => holders.extend(responses.values_mut().flat_map(contents)),
            _ => {}
        }
    }
    holders
}

/// By media type.
fn contents(body: &mut Value) -> impl Iterator<Item = &mut Value> {
    body.get_mut("content").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
}

/// With all nested schemas.
fn visit(schema: &mut Value, change: &impl Fn(&mut Value)) {
    change(schema);
    for (_, part) in parts(schema) {
        visit(part, change);
    }
}

/// With the name of the member of each.
pub fn parts(schema: &mut Value) -> Vec<(Option<String>, &mut Value)> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut parts = Vec::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(members)) => {
                parts.extend(members.iter_mut().map(|(name, part)| (Some(name.clone()), part)));
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => parts.extend(all.iter_mut().map(|part| (None, part))),
            ("items" | "additionalProperties" | "schema", part) => parts.push((None, part)),
            _ => {}
        }
    }
    parts
}
