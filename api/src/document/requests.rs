//! Optional members of requests. The service takes null as absent, but an SDK with one way to leave out a member is easier to use.
//! In the body of a PATCH null removes a value, and a few other members declare that null means something to them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::schemas::{parts, resolved};

/// Members for which null has a meaning outside PATCH: it removes a stored secret.
const NULL_REMOVES: [(&str, &str); 2] = [("ProxySave", "password"), ("ProxySave", "config")];

/// Schemas that responses or events use, too, are unchanged.
pub fn remove_nulls(schemas: &mut Map<String, Value>, operations: &[&mut Value], methods: &[String]) {
    let (mut requested, mut patched, mut answered) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (operation, method) in operations.iter().zip(methods) {
        note(&operation["responses"], schemas, &mut answered);
        if method == EVENT {
            note(&operation["requestBody"], schemas, &mut answered);
            continue;
        }
        note(&operation["requestBody"], schemas, &mut requested);
        if method == "patch" {
            let contents = operation["requestBody"]["content"].as_object().into_iter().flat_map(Map::values);
            patched.extend(contents.filter_map(|content| name_of(&content["schema"])));
        }
    }
    for name in requested.iter().filter(|name| !answered.contains(*name) && !patched.contains(*name)) {
        if let Some(schema) = schemas.get_mut(name) {
            strip(schema, name);
        }
    }
}

/// Stands for the method of an operation that the service calls.
pub const EVENT: &str = "event";

fn name_of(schema: &Value) -> Option<String> {
    Some(schema["$ref"].as_str()?.strip_prefix("#/components/schemas/")?.to_owned())
}

fn note(value: &Value, schemas: &Map<String, Value>, names: &mut BTreeSet<String>) {
    if let Some(name) = name_of(value)
        && names.insert(name)
    {
        note(resolved(value, schemas), schemas, names);
    }
    match value {
        Value::Object(members) => members.values().for_each(|member| note(member, schemas, names)),
        Value::Array(items) => items.iter().for_each(|item| note(item, schemas, names)),
        _ => {}
    }
}

fn strip(schema: &mut Value, name: &str) {
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect();
    for (member, part) in parts(schema) {
        if let Some(member) = &member
            && !required.contains(member)
            && !NULL_REMOVES.contains(&(name, member.as_str()))
        {
            remove_null(part);
        }
        strip(part, name);
    }
}

fn remove_null(schema: &mut Value) {
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = if let [only] = kinds.as_slice() { only.clone() } else { kinds.into() };
    }
    let variants = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let only = match variants {
        [only, null] | [null, only] if *null == json!({"type": "null"}) => only.clone(),
        _ => return,
    };
    if let (Value::Object(keywords), Value::Object(only)) = (schema, only) {
        keywords.shift_remove("oneOf");
        keywords.extend(only);
    }
}
