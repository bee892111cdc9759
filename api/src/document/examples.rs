//! Examples of bodies. A schema can have its own example. Otherwise the example is composed of those of its members.

use serde_json::{Map, Value};

use super::schemas::{holders, is, resolved};

const MOMENT: &str = "2026-11-20T18:05:00.123Z";

/// The schema has none of its own.
pub fn add(schemas: &mut Map<String, Value>, operations: &mut [&mut Value]) {
    for operation in operations {
        for holder in holders(operation) {
            let name = holder["schema"]["$ref"].as_str().and_then(|to| Some(to.rsplit_once('/')?.1.to_owned()));
            let Some(name) = name else { continue };
            if schemas.get(&name).is_some_and(|schema| own_example(schema).is_none() && is_composed(schema))
                && let Some(example) = (Composer { schemas }).compose(&schemas[&name])
            {
                schemas[&name]["example"] = example;
            }
        }
    }
}

/// A plain text needs no example.
fn is_composed(schema: &Value) -> bool {
    ["properties", "allOf", "oneOf"].iter().any(|keyword| schema.get(keyword).is_some())
}

fn own_example(schema: &Value) -> Option<&Value> {
    schema.get("example").or_else(|| schema.get("examples")?.get(0))
}

struct Composer<'a> {
    schemas: &'a Map<String, Value>,
}

impl Composer<'_> {
    /// `None` if a required part has no example.
    fn compose(&self, schema: &Value) -> Option<Value> {
        if let Some(own) = own_example(schema).or_else(|| schema.get("const")) {
            return Some(own.clone());
        }
        if schema.get("$ref").is_some() {
            return self.compose(resolved(schema, self.schemas));
        }
        if let Some(values) = schema["enum"].as_array().or_else(|| schema["x-extensible-enum"].as_array()) {
            return values.first().cloned();
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts: Option<Vec<_>> = parts.iter().map(|part| self.compose(part)).collect();
            return Some(parts?.into_iter().filter_map(into_object).flatten().collect::<Map<_, _>>().into());
        }
        if let Some(variants) = schema["oneOf"].as_array() {
            return variants.iter().find_map(|variant| self.compose(variant));
        }
        if let Some(properties) = schema["properties"].as_object() {
            return self.compose_object(properties, &schema["required"]);
        }
        if let Some(items) = schema.get("items") {
            return Some(vec![self.compose(items)?].into());
        }
        match (is(schema, "boolean"), schema["format"].as_str()) {
            (true, _) => Some(true.into()),
            (_, Some("date-time")) => Some(MOMENT.into()),
            _ => None,
        }
    }

    fn compose_object(&self, properties: &Map<String, Value>, required: &Value) -> Option<Value> {
        let mut object = Map::new();
        for (name, property) in properties {
            let required = required.as_array().is_some_and(|names| names.contains(&name.as_str().into()));
            match self.compose(property) {
                Some(example) => object.insert(name.clone(), example),
                None if required && can_be_null(property) => object.insert(name.clone(), Value::Null),
                None if required => return None,
                None => continue,
            };
        }
        Some(object.into())
    }
}

fn can_be_null(schema: &Value) -> bool {
    let variants = schema["oneOf"].as_array();
    is(schema, "null") || variants.is_some_and(|variants| variants.iter().any(|variant| is(variant, "null")))
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}
