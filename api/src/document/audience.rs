//! The part of the contract for customers: without staff routes, webhooks of payment providers and the registration of nodes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const SECTIONS: [&str; 4] = ["schemas", "responses", "parameters", "headers"];

/// The operations that have a name in SDKs are those for customers.
pub fn for_customers(mut document: Value) -> Value {
    if let Some(paths) = document["paths"].as_object_mut() {
        for item in paths.values_mut().filter_map(Value::as_object_mut) {
            item.retain(|_, operation| operation.get("x-sdk").is_some());
        }
        paths.retain(|_, item| item.as_object().is_some_and(|item| !item.is_empty()));
    }
    remove_unused_components(&mut document);
    let operations = document["paths"].as_object().into_iter().flat_map(Map::values);
    let operations: Vec<_> = operations.filter_map(Value::as_object).flat_map(Map::values).collect();
    let tags = operations.iter().flat_map(|operation| operation["tags"].as_array().into_iter().flatten());
    let tags: BTreeSet<_> = tags.filter_map(|tag| Some(tag.as_str()?.to_owned())).collect();
    if let Some(declared) = document["tags"].as_array_mut() {
        declared.retain(|tag| tag["name"].as_str().is_some_and(|name| tags.contains(name)));
    }
    if let Some(schemes) = document["components"]["securitySchemes"].as_object_mut() {
        schemes.shift_remove("staff");
    }
    document
}

fn remove_unused_components(document: &mut Value) {
    let mut used = BTreeSet::new();
    for section in ["paths", "webhooks"] {
        note(&document[section], document, &mut used);
    }
    for section in SECTIONS {
        if let Some(components) = document["components"][section].as_object_mut() {
            components.retain(|name, _| used.contains(&format!("#/components/{section}/{name}")));
        }
    }
}

/// References, and the references of their targets.
fn note(value: &Value, document: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::String(to) if to.starts_with("#/components/") => {
            if used.insert(to.clone())
                && let Some(component) = document.pointer(to.trim_start_matches('#'))
            {
                note(component, document, used);
            }
        }
        Value::Object(members) => members.values().for_each(|member| note(member, document, used)),
        Value::Array(items) => items.iter().for_each(|item| note(item, document, used)),
        _ => {}
    }
}
