//! Names for nested schemas. SDK generators choose poor names for unnamed schemas, and an enumeration or a variant that is used
//! twice should be one type.

use serde_json::{Map, Value, json};

use super::schemas::{holders, is, parts};
use crate::http::openapi::camel_case;

/// References replace them.
pub fn give(schemas: &mut Map<String, Value>, operations: &mut [&mut Value]) {
    for name in schemas.keys().cloned().collect::<Vec<_>>() {
        // The schema remains in the map meanwhile, so that no nested schema can take its name.
        let mut schema = schemas[&name].clone();
        give_inside(&mut schema, &name, schemas);
        schemas[&name] = schema;
    }
    for operation in operations {
        let place = camel_case(operation["operationId"].as_str().unwrap_or_default());
        for holder in holders(operation) {
            give_inside(holder, &place, schemas);
        }
    }
}

fn give_inside(schema: &mut Value, place: &str, schemas: &mut Map<String, Value>) {
    for (member, part) in parts(schema) {
        let place = member.map_or_else(|| place.to_owned(), |member| format!("{place}{}", camel_case(&member)));
        give_inside(part, &place, schemas);
        let Some(name) = name_of(part, place) else { continue };
        let mut reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let mut named = part.clone();
        if is_free_object(part) && is(part, "null") {
            reference = json!({"oneOf": [reference, {"type": "null"}]});
            named["type"] = "object".into();
        }
        if let Value::Object(keywords) = &mut named {
            keywords.shift_remove("title");
            // A default belongs to the field, not to the type.
            if let Some(default) = keywords.shift_remove("default") {
                reference["default"] = default;
            }
        }
        // A different schema with the same name keeps the name.
        if schemas.get(&name).is_none_or(|other| *other == named) {
            schemas.insert(name, named);
            *part = reference;
        }
    }
}

fn name_of(schema: &Value, place: String) -> Option<String> {
    let title = schema["title"].as_str().map(str::to_owned);
    let is_set = schema["enum"].as_array().is_some_and(|values| values.len() > 1);
    title.or_else(|| (is_set || is_free_object(schema)).then_some(place))
}

/// Generators number the types of free objects that have no name and can be null.
fn is_free_object(schema: &Value) -> bool {
    is(schema, "object") && schema.get("properties").is_none()
}
