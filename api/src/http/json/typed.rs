//! What serde reads a body's types from.
//!
//! A type says what it wants by the method it calls of a deserializer, and what it misses by the constructor it calls of
//! its error. Both are answered here, so that callers hear of JSON's types instead of Rust's, and no message depends on how
//! serde words its own. Each array and object that a mistake passes on its way out adds its name to the mistake's path.
//!
//! Types that serde buffers before it knows them (`flatten`, `tag`, `untagged`) ask the buffer instead, which knows no path
//! and no JSON. Bodies have none: what has a `kind` is told apart by hand.

use std::fmt::Display;

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::{Map, Value, map};

use super::join;

const WHOLE: &str = "a whole number";
const NOT_NEGATIVE: &str = "a whole number that is not negative";

/// `object` as a struct.
///
/// # Errors
/// With the first mistake that serde comes upon.
pub fn read<T: DeserializeOwned>(object: &Map<String, Value>) -> Result<T, Mistake> {
    T::deserialize(MapAccessDeserializer::new(Members::of(object)))
}

/// What is wrong with a body, and where.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Mistake {
    /// Names and indexes with dots between them.
    pub field: String,
    pub message: String,
}

impl Mistake {
    fn here(message: String) -> Self {
        Self { field: String::new(), message }
    }

    fn other(found: Unexpected<'_>, expected: &dyn Display) -> Self {
        Self::here(format!("must be {expected}, not {}", described(found)))
    }

    fn none_of(names: &[&str]) -> Self {
        Self::here(match names {
            [one, other] => format!("must be {one} or {other}"),
            [_, _, ..] => format!("must be one of {}", names.join(", ")),
            _ => format!("must be {}", names.concat()),
        })
    }

    fn inside(self, name: &str) -> Self {
        Self { field: join(name, &self.field), ..self }
    }
}

impl Error for Mistake {
    /// A type's own words are for our callers already.
    fn custom<T: Display>(message: T) -> Self {
        Self::here(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::other(found, &expected)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::other(found, &expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::here(format!("must be {expected}, not of length {length}"))
    }

    fn unknown_variant(_: &str, names: &'static [&'static str]) -> Self {
        Self::none_of(names)
    }

    fn missing_field(name: &'static str) -> Self {
        Self::here("is required".to_owned()).inside(name)
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(is) => Unexpected::Bool(*is),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

fn described(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Bool(is) => format!("boolean {is}"),
        Unexpected::Unsigned(number) => format!("integer {number}"),
        Unexpected::Signed(number) => format!("integer {number}"),
        Unexpected::Float(number) => format!("floating point {}", Value::from(number)),
        Unexpected::Str(text) => format!("string {text:?}"),
        Unexpected::Seq => "sequence".to_owned(),
        Unexpected::Map => "map".to_owned(),
        other => other.to_string(),
    }
}

/// A value somewhere in a body.
struct Part<'a>(&'a Value);

impl Part<'_> {
    fn is_not(&self, expected: &str) -> Mistake {
        Mistake::other(unexpected(self.0), &expected)
    }
}

macro_rules! numbers {
    ($($deserialize:ident: $visit:ident($read:ident as $number:ty), $expected:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            match self.0.$read().and_then(|number| <$number>::try_from(number).ok()) {
                Some(number) => visitor.$visit(number),
                None => Err(self.is_not($expected)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => self.deserialize_f64(visitor),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::Bool(is) => visitor.visit_bool(*is),
            _ => Err(self.is_not("a boolean")),
        }
    }

    numbers! {
        deserialize_u8: visit_u8(as_u64 as u8), NOT_NEGATIVE;
        deserialize_u16: visit_u16(as_u64 as u16), NOT_NEGATIVE;
        deserialize_u32: visit_u32(as_u64 as u32), NOT_NEGATIVE;
        deserialize_u64: visit_u64(as_u64 as u64), NOT_NEGATIVE;
        deserialize_i8: visit_i8(as_i64 as i8), WHOLE;
        deserialize_i16: visit_i16(as_i64 as i16), WHOLE;
        deserialize_i32: visit_i32(as_i64 as i32), WHOLE;
        deserialize_i64: visit_i64(as_i64 as i64), WHOLE;
        deserialize_f64: visit_f64(as_f64 as f64), "a number";
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::String(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.is_not("a string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            _ => Err(self.is_not("an array")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::Object(members) => visitor.visit_map(Members::of(members)),
            _ => Err(self.is_not("an object")),
        }
    }

    /// serde would take an array of the fields' values too, of which the contract says nothing.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_map(visitor)
    }

    /// One of a few names, which is all that enums are in bodies.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            _ => Err(Mistake::none_of(names)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Value>>);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Part(item)).map(Some).map_err(|mistake| mistake.inside(&index.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Members<'a> {
    rest: map::Iter<'a>,
    /// Whose name was read last.
    member: Option<(&'a str, &'a Value)>,
}

impl<'a> Members<'a> {
    fn of(object: &'a Map<String, Value>) -> Self {
        Self { rest: object.iter(), member: None }
    }
}

impl<'a> MapAccess<'a> for Members<'a> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        self.member = self.rest.next().map(|(name, value)| (name.as_str(), value));
        self.member.map(|(name, _)| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Mistake> {
        let (name, value) = self.member.take().ok_or_else(|| Mistake::custom("has no value to read"))?;
        seed.deserialize(Part(value)).map_err(|mistake| mistake.inside(name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// What a field of the type `T` says of `value`, as its path and its message.
    fn mistake<T: DeserializeOwned>(value: Value) -> (String, String) {
        let object = Map::from_iter([("at".to_owned(), value)]);
        let Err(Mistake { field, message }) = read::<BTreeMap<String, T>>(&object) else { panic!("a mistake") };
        (field, message)
    }

    fn assert_says<T: DeserializeOwned>(value: Value, field: &str, message: &str) {
        assert_eq!(mistake::<T>(value), (field.to_owned(), message.to_owned()));
    }

    fn taken<T: DeserializeOwned>(value: Value) -> T {
        let object = Map::from_iter([("at".to_owned(), value)]);
        read::<BTreeMap<String, T>>(&object).expect("a good body").remove("at").expect("a value")
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Shoe {
        size: u8,
        colour: Option<Colour>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        Red,
        DarkBlue,
        Green,
    }

    #[derive(Debug, Deserialize)]
    enum Side {
        #[serde(rename = "left")]
        _Left,
        #[serde(rename = "right")]
        _Right,
    }

    #[derive(Debug, Deserialize)]
    enum Only {
        #[serde(rename = "this")]
        _This,
    }

    #[test]
    fn what_fits_is_read() {
        assert_eq!(
            taken::<Shoe>(json!({"size": 45, "colour": "dark_blue"})),
            Shoe { size: 45, colour: Some(Colour::DarkBlue) }
        );
        assert_eq!(taken::<Vec<Shoe>>(json!([{"size": 1, "more": [1]}])), [Shoe { size: 1, colour: None }]);
        assert_eq!(taken::<(i8, f32, Option<bool>)>(json!([-128, 1, null])), (-128, 1.0, None));
        let anything = json!({"a": [null, true, -1, u64::MAX, 0.5, "text", {}], "b": {"c": []}});
        assert_eq!(taken::<Value>(anything.clone()), anything);
        assert_eq!(taken::<Map<String, Value>>(json!({"z": 1, "a": 2})).keys().collect::<Vec<_>>(), ["z", "a"]);
    }

    #[test]
    fn another_type_is_told_from_what_was_asked_for() {
        assert_says::<String>(json!(5), "at", "must be a string, not integer 5");
        assert_says::<String>(json!(null), "at", "must be a string, not null");
        assert_says::<Option<String>>(json!(true), "at", "must be a string, not boolean true");
        assert_says::<bool>(
            json!("a `quoted` \"text\""),
            "at",
            r#"must be a boolean, not string "a `quoted` \"text\"""#,
        );
        assert_says::<Vec<bool>>(json!({}), "at", "must be an array, not map");
        assert_says::<Map<String, Value>>(json!([]), "at", "must be an object, not sequence");
        assert_says::<Shoe>(json!(0.5), "at", "must be an object, not floating point 0.5");
        assert_says::<Shoe>(json!([45, "red"]), "at", "must be an object, not sequence");
        assert_says::<f64>(json!("1"), "at", r#"must be a number, not string "1""#);
        assert_says::<(u8, bool)>(json!([1]), "at", "must be a tuple of size 2, not of length 1");
    }

    #[test]
    fn a_number_that_does_not_fit_is_told_from_its_kind() {
        assert_says::<u64>(json!(-1), "at", "must be a whole number that is not negative, not integer -1");
        assert_says::<u8>(json!(256), "at", "must be a whole number that is not negative, not integer 256");
        assert_says::<u32>(json!(1.0), "at", "must be a whole number that is not negative, not floating point 1.0");
        assert_says::<i32>(json!(1_u64 << 40), "at", "must be a whole number, not integer 1099511627776");
        assert_says::<i64>(json!(u64::MAX), "at", "must be a whole number, not integer 18446744073709551615");
        assert_says::<i64>(json!("1"), "at", r#"must be a whole number, not string "1""#);
    }

    #[test]
    fn a_choice_lists_its_names_whatever_stands_there() {
        for other in [json!("Red"), json!("red, expected"), json!(5), json!(null), json!({"red": null}), json!(["red"])]
        {
            assert_says::<Colour>(other, "at", "must be one of red, dark_blue, green");
        }
        assert_says::<Side>(json!("up"), "at", "must be left or right");
        assert_says::<Only>(json!("that"), "at", "must be this");
    }

    #[test]
    fn a_mistake_is_named_by_its_path() {
        assert_says::<Shoe>(json!({}), "at.size", "is required");
        assert_says::<Vec<Shoe>>(json!([{"size": 1}, {"colour": "red"}]), "at.1.size", "is required");
        let lists = json!({"a": [], "b": [null, {"size": 1, "colour": "pink"}]});
        assert_says::<BTreeMap<String, Vec<Option<Shoe>>>>(
            lists,
            "at.b.1.colour",
            "must be one of red, dark_blue, green",
        );
    }

    #[test]
    fn a_type_may_have_words_of_its_own() {
        #[derive(Debug)]
        struct Even;

        impl<'de> Deserialize<'de> for Even {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = u64::deserialize(deserializer)?;
                if number % 2 == 0 { Ok(Self) } else { Err(D::Error::custom("missing field `half`")) }
            }
        }

        assert_says::<Vec<Even>>(json!([2, 3]), "at.1", "missing field `half`");
        assert_says::<Even>(json!("2"), "at", r#"must be a whole number that is not negative, not string "2""#);
    }

    /// Nothing of a body is buffered. Whoever begins to loses the path and no more.
    #[test]
    fn what_serde_buffers_is_refused_in_the_same_form() {
        #[derive(Debug, Deserialize)]
        #[serde(tag = "kind")]
        enum Tagged {
            #[serde(rename = "text")]
            _Text { _text: String },
        }

        assert_says::<Tagged>(json!({"kind": "text", "_text": 5}), "at", "must be a string, not integer 5");
        assert_says::<Tagged>(json!({"kind": "text"}), "at._text", "is required");
        assert_says::<Tagged>(json!({"kind": "other"}), "at.kind", "must be text");
        assert_says::<Tagged>(json!({}), "at.kind", "is required");
    }
}
