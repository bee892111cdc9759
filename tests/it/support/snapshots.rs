//! Values in snapshots.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The parts of a text that differ between runs. Their format is part of the contract: requests 1, 2.
static VARYING: LazyLock<[(Regex, &str); 2]> = LazyLock::new(|| {
    let id = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
    let time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z";
    [(id, "[uuid]"), (time, "[time]")].map(|(shape, name)| (Regex::new(shape).expect("an expression"), name))
});

/// Replaces UUIDs of version 7 and timestamps, and sorts the members of objects.
pub fn stable(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().map(|(name, member)| (name.clone(), stable(member))).collect();
            sorted.into_iter().collect()
        }
        Value::Array(items) => items.iter().map(stable).collect(),
        Value::String(text) => {
            let replace = |text: String, (shape, name): &(Regex, &str)| shape.replace_all(&text, *name).into_owned();
            VARYING.iter().fold(text.clone(), replace).into()
        }
        other => other.clone(),
    }
}
