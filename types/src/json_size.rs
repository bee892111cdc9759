//! Sizes of values as JSON, which decide whether work on them may run on a thread of the async runtime.

use std::io;

use serde::Serialize;
use serde_json::Value;

/// Up to this size, work takes less time than moving the other tasks of the thread.
pub const SMALL: usize = 64 * 1024;

/// Counts during serialization without storing the bytes. `usize::MAX` for a value that cannot be serialized.
#[must_use]
pub fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An estimate. It stops counting above [`SMALL`].
#[must_use]
pub fn weight(value: &Value) -> usize {
    let mut bytes = 0;
    add_weight(value, &mut bytes);
    bytes
}

fn add_weight(value: &Value, bytes: &mut usize) {
    *bytes += match value {
        Value::String(text) => text.len() + 2,
        _ => 4,
    };
    match value {
        Value::Array(items) => {
            for item in items {
                if *bytes > SMALL {
                    return;
                }
                add_weight(item, bytes);
            }
        }
        Value::Object(members) => {
            for (name, item) in members {
                if *bytes > SMALL {
                    return;
                }
                *bytes += name.len() + 4;
                add_weight(item, bytes);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_bytes_equals_the_serialized_length() {
        for value in [json!(null), json!({"ä": ["\n", 1.5, true, {"b": "\u{1}"}]}), json!(["x".repeat(SMALL)])] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }

    #[test]
    fn weight_stops_counting_at_the_limit() {
        assert!((10..40).contains(&weight(&json!({"a": [1, "two", null]}))));
        assert!(weight(&json!("x".repeat(SMALL))) > SMALL);
        let many = json!(vec![0; 10 * SMALL]);
        assert!((SMALL..SMALL + 100).contains(&weight(&many)));
    }
}
