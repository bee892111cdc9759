//! Examples of bodies. A type may have one of its own; where it has none, one is composed of those of its fields, so that
//! they are written once, beside what they are examples of.

use serde_json::{Map, Value};
use utoipa::openapi::{Content, OpenApi, RefOr};

use super::operations;

/// When everything happens.
const MOMENT: &str = "2026-11-20T18:05:00.123Z";

/// Puts an example beside every body that has none yet.
pub fn add(document: &mut OpenApi) {
    let components = serde_json::to_value(&document.components).unwrap_or_default();
    let composer = Composer { schemas: &components["schemas"] };
    for item in document.paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            let asked = operation.request_body.iter_mut().filter_map(inline).flat_map(|body| &mut body.content);
            let answers = operation.responses.responses.values_mut().filter_map(inline);
            for (media_type, content) in asked.chain(answers.flat_map(|answer| &mut answer.content)) {
                let Some(content) = inline(content) else { continue };
                if !media_type.starts_with("text/") && content.example.is_none() && content.examples.is_empty() {
                    content.example = composer.example_of(content);
                }
            }
        }
    }
}

fn inline<T>(this: &mut RefOr<T>) -> Option<&mut T> {
    match this {
        RefOr::T(this) => Some(this),
        RefOr::Ref(_) => None,
    }
}

struct Composer<'a> {
    schemas: &'a Value,
}

impl Composer<'_> {
    fn example_of(&self, content: &Content) -> Option<Value> {
        self.compose(&serde_json::to_value(content.schema.as_ref()?).ok()?)
    }

    /// `None` when something that has to be there has no example.
    fn compose(&self, schema: &Value) -> Option<Value> {
        if let Some(own) = schema.get("example").or_else(|| schema.get("examples")?.get(0)) {
            return Some(own.clone());
        }
        if let Some(reference) = schema["$ref"].as_str() {
            return self.compose(&self.schemas[reference.rsplit('/').next()?]);
        }
        if let Some(values) = schema["enum"].as_array() {
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
                None if required && is(property, "null") => object.insert(name.clone(), Value::Null),
                None if required => return None,
                None => continue,
            };
        }
        Some(object.into())
    }
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Whether a schema allows this type.
fn is(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()))
}
