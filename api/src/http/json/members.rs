//! Members of an object; only the requested ones are kept.
//!
//! The whole text is validated as strictly as if all members were kept.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

#[derive(Debug, Default)]
pub struct Members {
    pub known: Map<String, Value>,
    /// In the order of the text, each once; only the first ones.
    pub unknown: Vec<String>,
}

/// The caller has bounded the nesting depth. `None` for any other value than an object.
pub fn read(text: &[u8], known: &[&str], max_unknown: usize) -> serde_json::Result<Option<Members>> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    parser.disable_recursion_limit();
    let members = Reader { known, max_unknown }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(members)
}

struct Reader<'a> {
    known: &'a [&'a str],
    max_unknown: usize,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Option<Members>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! kept_nowhere {
    ($nothing:expr) => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a value")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<Discarded>()?.is_some() {}
            Ok($nothing)
        }
    };
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Option<Members>;

    kept_nowhere!(None);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members::default();
        while let Some(name) = map.next_key::<String>()? {
            if self.known.contains(&name.as_str()) {
                members.known.insert(name, map.next_value()?);
                continue;
            }
            map.next_value::<Discarded>()?;
            if members.unknown.len() < self.max_unknown && !members.unknown.contains(&name) {
                members.unknown.push(name);
            }
        }
        Ok(Some(members))
    }
}

/// Validated and discarded. serde's own type does not validate texts.
struct Discarded;

impl<'de> Deserialize<'de> for Discarded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Discarded {
    type Value = Self;

    kept_nowhere!(Self);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_known_members_are_kept() {
        let text = r#"{"b": 1, "x": [{"b": "\u00e9", "c": [null, -1, 1.5, true]}], "a": {"x": []}, "x": 2, "y": 3, "z": 4, "b": 5}"#;
        let members = read(text.as_bytes(), &["a", "b"], 2).expect("JSON").expect("an object");
        assert_eq!(Value::Object(members.known), json!({"b": 5, "a": {"x": []}}));
        assert_eq!(members.unknown, ["x", "y"]);
        for other in ["1", "-1", "1.5", "null", "true", "\"a\"", "[[], {}]"] {
            assert!(read(other.as_bytes(), &[], 1).expect("JSON").is_none(), "{other}");
        }
    }

    #[test]
    fn ignored_members_are_parsed_as_strictly() {
        let bad = [
            "",
            "{",
            "{} {}",
            "{1: 2}",
            r#"{"a": 1e400}"#,
            r#"{"a": "\ud800"}"#,
            r#"{"a": [tru]}"#,
            "{\"a\": {\"\u{1}\": 1}}",
        ];
        for text in bad {
            assert!(read(text.as_bytes(), &[], 1).is_err(), "{text}");
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
        assert!(read(b"{\"a\": \"\xff\"}", &[], 1).is_err());
    }
}
