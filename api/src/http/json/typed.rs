//! Deserializer for typed request bodies.
//!
//! A type requests a value by the deserializer method it calls, and reports an error by the constructor of the error type. Both
//! are implemented here, so that messages use JSON types and do not depend on serde's wording.
//!
//! A rejected body is read again by [`mistakes`], which reports all its errors. In this mode, a [`Part`] with the wrong type
//! records the error in the [`Report`] and supplies an empty value of the right type, so that reading continues. Two errors
//! still abort a reading: a missing required member, which only serde's error reveals, and a value that the type's own code
//! rejects.
//!
//! Types that serde buffers first (`flatten`, `tag`, `untagged`) deserialize from the buffer, which has no paths and no JSON
//! types. Request bodies use none; unions with a `kind` are parsed by hand.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;

use kitfleet_types::validation::{FieldError, join_path};
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::{Map, Value, map};

const WHOLE: &str = "a whole number";
const REQUIRED: &str = "is required";
const NOT_NEGATIVE: &str = "a whole number that is not negative";

pub const MAX_MISTAKES: usize = 100;
/// Each reading but the last learns a required member or a value that the type's own code rejects, and bodies have few of both.
const MAX_READINGS: usize = 32;

pub fn read<T: DeserializeOwned>(body: &Value) -> Result<T, MemberError> {
    T::deserialize(Part::of(body))
}

/// Up to [`MAX_MISTAKES`] errors, and the struct with substitutes. Without a struct, the type does not accept a substitute.
pub fn mistakes<T: DeserializeOwned>(body: &Value) -> (Option<T>, Vec<FieldError>) {
    let (mut learnt, mut errors) = (TypeCache::default(), Vec::new());
    for _ in 0..MAX_READINGS {
        let report = Report { learnt: RefCell::new(learnt), ..Report::default() };
        let read = T::deserialize(Part { report: Some(&report), ..Part::of(body) });
        let Report { learnt: now, errors: found, .. } = report;
        errors = found.into_inner();
        match read {
            Ok(read) => return (Some(read), errors),
            Err(MemberError { learnt: true, .. }) if errors.len() < MAX_MISTAKES => learnt = now.into_inner(),
            Err(_) => return (None, errors),
        }
    }
    (None, errors)
}

#[derive(Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct MemberError {
    pub field: String,
    pub message: String,
    /// The missing required member, if that is the error.
    missing: Option<&'static str>,
    learnt: bool,
}

impl MemberError {
    fn here(message: String) -> Self {
        Self { field: String::new(), message, missing: None, learnt: false }
    }

    fn other(found: Unexpected<'_>, expected: &dyn Display) -> Self {
        Self::here(format!("must be {}, not {}", in_json_types(&expected.to_string()), described(found)))
    }

    fn none_of(names: &[&str]) -> Self {
        Self::here(match names {
            [one, other] => format!("must be {one} or {other}"),
            [_, _, ..] => format!("must be one of {}", names.join(", ")),
            _ => format!("must be {}", names.concat()),
        })
    }

    fn inside(self, name: &str) -> Self {
        Self { field: join_path(name, &self.field), ..self }
    }
}

impl From<MemberError> for FieldError {
    fn from(MemberError { field, message, .. }: MemberError) -> Self {
        Self { field, message }
    }
}

impl Error for MemberError {
    /// Messages of types are written for callers.
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
        Self { missing: Some(name), ..Self::here(REQUIRED.to_owned()).inside(name) }
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

/// Types that serde provides or derives expect the types of Rust.
fn in_json_types(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "an array",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
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
        Unexpected::Seq => "an array".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

#[derive(Clone, Copy)]
struct Part<'a, 'r> {
    /// Absent, or to be substituted.
    value: Option<&'a Value>,
    /// Without it, the first error aborts the reading.
    report: Option<&'r Report<'a>>,
    /// The error is known, so that it is not recorded again.
    quiet: bool,
}

#[derive(Default)]
struct Report<'a> {
    learnt: RefCell<TypeCache>,
    errors: RefCell<Vec<FieldError>>,
    path: RefCell<Vec<Step<'a>>>,
}

#[derive(Default)]
struct TypeCache {
    required: HashSet<(Struct, &'static str)>,
    /// By path, with the messages of the type's own code.
    refused: Vec<Refused>,
}

type Struct = (&'static str, &'static [&'static str]);

struct Refused {
    path: String,
    error: FieldError,
    /// True when the type also rejects a substitute.
    is_left_out: bool,
}

enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl Report<'_> {
    fn path(&self) -> String {
        self.path.borrow().iter().fold(String::new(), |path, step| match step {
            Step::Member(name) => join_path(&path, name),
            Step::Item(index) => join_path(&path, &index.to_string()),
        })
    }

    fn note(&self, error: FieldError) -> Result<(), MemberError> {
        let mut errors = self.errors.borrow_mut();
        errors.push(error);
        if errors.len() < MAX_MISTAKES { Ok(()) } else { Err(MemberError::here("has too many mistakes".to_owned())) }
    }

    fn leave<T>(&self, read: Result<T, MemberError>) -> Result<T, MemberError> {
        let read = read.map_err(|mistake| self.learn(mistake));
        self.path.borrow_mut().pop();
        read
    }

    /// The type's own code found it in the value at the current path.
    fn learn(&self, mistake: MemberError) -> MemberError {
        if mistake.learnt {
            return mistake;
        }
        let path = self.path();
        let mut learnt = self.learnt.borrow_mut();
        if let Some(refused) = learnt.refused.iter_mut().find(|refused| refused.path == path) {
            let is_new = !std::mem::replace(&mut refused.is_left_out, true);
            return MemberError { learnt: is_new, ..mistake };
        }
        // The type may also reject the substitute for a wrong value, but that is not the error to report.
        let field = join_path(&path, &mistake.field);
        let noted = self.errors.borrow().iter().find(|error| error.field == field).cloned();
        let error = noted.unwrap_or_else(|| FieldError { field, message: mistake.message.clone() });
        learnt.refused.push(Refused { path, error, is_left_out: false });
        MemberError { learnt: true, ..mistake }
    }

    fn learn_required(&self, of: Struct, mistake: MemberError) -> MemberError {
        let Some(missing) = mistake.missing.filter(|_| !mistake.learnt) else { return mistake };
        let is_new = self.learnt.borrow_mut().required.insert((of, missing));
        MemberError { learnt: is_new, missing: None, ..mistake }
    }

    fn requires(&self, of: Struct, field: &'static str) -> bool {
        self.learnt.borrow().required.contains(&(of, field))
    }
}

impl<'a, 'r> Part<'a, 'r> {
    fn of(value: &'a Value) -> Self {
        Self { value: Some(value), report: None, quiet: false }
    }

    /// The caller then supplies a substitute.
    fn is_not(&self, expected: &str) -> Result<(), MemberError> {
        self.is_wrong(|found| MemberError::other(unexpected(found), &expected))
    }

    fn is_wrong(&self, mistake: impl FnOnce(&Value) -> MemberError) -> Result<(), MemberError> {
        if self.quiet {
            return Ok(());
        }
        let mistake = self.value.map_or_else(|| MemberError::here(REQUIRED.to_owned()), mistake);
        match self.report {
            None => Err(mistake),
            Some(report) => report.note(FieldError { field: report.path(), message: mistake.message }),
        }
    }

    /// `None` when the type rejects any value there.
    fn enter(self, step: Step<'a>, value: Option<&'a Value>) -> Result<Option<Self>, MemberError> {
        let part = Self { value, ..self };
        let Some(report) = self.report else { return Ok(Some(part)) };
        report.path.borrow_mut().push(step);
        let learnt = report.learnt.borrow();
        // Building a path is expensive, and most bodies have no such values.
        let path = if learnt.refused.is_empty() { String::new() } else { report.path() };
        let Some(refused) = learnt.refused.iter().find(|refused| refused.path == path) else { return Ok(Some(part)) };
        if !part.quiet {
            report.note(refused.error.clone())?;
        }
        if refused.is_left_out {
            report.path.borrow_mut().pop();
            return Ok(None);
        }
        Ok(Some(part.placeholder()))
    }

    fn placeholder(self) -> Self {
        Self { value: None, quiet: true, ..self }
    }

    /// Including missing ones.
    fn members(self, of: Struct) -> Result<Members<'a, 'r>, MemberError> {
        let (object, whole) = if let Some(Value::Object(object)) = self.value {
            (Some(object), self)
        } else {
            self.is_not("an object")?;
            (None, self.placeholder())
        };
        Ok(Members { object, rest: object.map(Map::iter), of, fields: of.1.iter(), whole, member: None })
    }
}

macro_rules! numbers {
    ($($deserialize:ident: $visit:ident($read:ident as $number:ty), $expected:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
            match self.value.and_then(Value::$read).and_then(|number| <$number>::try_from(number).ok()) {
                Some(number) => visitor.$visit(number),
                None => {
                    self.is_not($expected)?;
                    visitor.$visit(<$number>::default())
                }
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Part<'de, '_> {
    type Error = MemberError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        match self.value {
            None => {
                self.is_not("anything")?;
                visitor.visit_unit()
            }
            Some(Value::Null) => visitor.visit_unit(),
            Some(Value::Bool(is)) => visitor.visit_bool(*is),
            Some(Value::Number(number)) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => self.deserialize_f64(visitor),
            },
            Some(Value::String(text)) => visitor.visit_borrowed_str(text),
            Some(Value::Array(_)) => self.deserialize_seq(visitor),
            Some(Value::Object(_)) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        if let Some(Value::Bool(is)) = self.value {
            return visitor.visit_bool(*is);
        }
        self.is_not("a boolean")?;
        visitor.visit_bool(false)
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

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        if let Some(Value::String(text)) = self.value {
            return visitor.visit_borrowed_str(text);
        }
        self.is_not("a string")?;
        visitor.visit_borrowed_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        match self.value {
            None | Some(Value::Null) => visitor.visit_none(),
            Some(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, MemberError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        if let Some(Value::Array(items)) = self.value {
            return visitor.visit_seq(Items { rest: items.iter().enumerate(), whole: self });
        }
        self.is_not("an array")?;
        visitor.visit_seq(Items { rest: [].iter().enumerate(), whole: self.placeholder() })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        visitor.visit_map(self.members(("", &[]))?)
    }

    /// serde would also accept an array of the field values, which the contract does not allow.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MemberError> {
        let read = visitor.visit_map(self.members((name, fields))?);
        match self.report {
            Some(report) => read.map_err(|mistake| report.learn_required((name, fields), mistake)),
            None => read,
        }
    }

    /// One of a few names; enums in bodies are nothing else.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, MemberError> {
        let name = match self.value {
            Some(Value::String(name)) if self.report.is_none() || names.contains(&name.as_str()) => name,
            _ => {
                self.is_wrong(|_| MemberError::none_of(names))?;
                names.first().copied().unwrap_or_default()
            }
        };
        visitor.visit_enum(name.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, MemberError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct Items<'a, 'r> {
    rest: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    whole: Part<'a, 'r>,
}

impl<'a> SeqAccess<'a> for Items<'a, '_> {
    type Error = MemberError;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, MemberError> {
        loop {
            let Some((index, item)) = self.rest.next() else { return Ok(None) };
            if let Some(part) = self.whole.enter(Step::Item(index), Some(item))? {
                let read = seed.deserialize(part).map(Some);
                return match part.report {
                    Some(report) => report.leave(read),
                    None => read.map_err(|mistake| mistake.inside(&index.to_string())),
                };
            }
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Members<'a, 'r> {
    object: Option<&'a Map<String, Value>>,
    rest: Option<map::Iter<'a>>,
    /// Name and fields of the struct, and the fields that were not read yet.
    of: Struct,
    fields: std::slice::Iter<'static, &'static str>,
    whole: Part<'a, 'r>,
    /// The member whose name was read last.
    member: Option<(&'a str, Part<'a, 'r>)>,
}

impl<'a, 'r> Members<'a, 'r> {
    /// Present, or required and missing.
    fn next(&mut self) -> Result<Option<(&'a str, Part<'a, 'r>)>, MemberError> {
        for (name, value) in self.rest.iter_mut().flatten() {
            if let Some(part) = self.whole.enter(Step::Member(name), Some(value))? {
                return Ok(Some((name, part)));
            }
        }
        let Some(report) = self.whole.report else { return Ok(None) };
        for name in self.fields.by_ref() {
            let is_there = self.object.is_some_and(|object| object.contains_key(*name));
            if !is_there
                && report.requires(self.of, name)
                && let Some(part) = self.whole.enter(Step::Member(name), None)?
            {
                return Ok(Some((name, part)));
            }
        }
        Ok(None)
    }
}

impl<'a> MapAccess<'a> for Members<'a, '_> {
    type Error = MemberError;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, MemberError> {
        self.member = self.next()?;
        self.member.map(|(name, _)| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, MemberError> {
        let (name, part) = self.member.take().ok_or_else(|| MemberError::custom("has no value"))?;
        let read = seed.deserialize(part);
        match part.report {
            Some(report) => report.leave(read),
            None => read.map_err(|mistake| mistake.inside(name)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.object.map(Map::len)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kitfleet_types::timestamp::Timestamp;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn mistake<T: DeserializeOwned>(value: Value) -> (String, String) {
        let body = Value::Object(Map::from_iter([("at".to_owned(), value)]));
        let Err(MemberError { field, message, .. }) = read::<BTreeMap<String, T>>(&body) else { panic!("a mistake") };
        // The search for all errors finds the same error.
        let (_, all) = mistakes::<BTreeMap<String, T>>(&body);
        assert_eq!(all, [FieldError { field: field.clone(), message: message.clone() }]);
        (field, message)
    }

    fn assert_says<T: DeserializeOwned>(value: Value, field: &str, message: &str) {
        assert_eq!(mistake::<T>(value), (field.to_owned(), message.to_owned()));
    }

    fn taken<T: DeserializeOwned>(value: Value) -> T {
        let body = Value::Object(Map::from_iter([("at".to_owned(), value)]));
        read::<BTreeMap<String, T>>(&body).expect("a good body").remove("at").expect("a value")
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
    fn valid_values_are_read() {
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
    fn wrong_type_error_names_found_and_expected_type() {
        assert_says::<String>(json!(5), "at", "must be a string, not integer 5");
        assert_says::<String>(json!(null), "at", "must be a string, not null");
        assert_says::<Option<String>>(json!(true), "at", "must be a string, not boolean true");
        assert_says::<bool>(
            json!("a `quoted` \"text\""),
            "at",
            r#"must be a boolean, not string "a `quoted` \"text\"""#,
        );
        assert_says::<Vec<bool>>(json!({}), "at", "must be an array, not an object");
        assert_says::<Map<String, Value>>(json!([]), "at", "must be an object, not an array");
        assert_says::<Shoe>(json!(0.5), "at", "must be an object, not floating point 0.5");
        assert_says::<Shoe>(json!([45, "red"]), "at", "must be an object, not an array");
        assert_says::<f64>(json!("1"), "at", r#"must be a number, not string "1""#);
        assert_says::<(u8, bool)>(json!([1]), "at", "must be a tuple of size 2, not of length 1");
    }

    #[test]
    fn out_of_range_number_names_the_expected_range() {
        assert_says::<u64>(json!(-1), "at", "must be a whole number that is not negative, not integer -1");
        assert_says::<u8>(json!(256), "at", "must be a whole number that is not negative, not integer 256");
        assert_says::<u32>(json!(1.0), "at", "must be a whole number that is not negative, not floating point 1.0");
        assert_says::<i32>(json!(1_u64 << 40), "at", "must be a whole number, not integer 1099511627776");
        assert_says::<i64>(json!(u64::MAX), "at", "must be a whole number, not integer 18446744073709551615");
        assert_says::<i64>(json!("1"), "at", r#"must be a whole number, not string "1""#);
    }

    #[test]
    fn invalid_enum_value_error_lists_the_names() {
        for other in [json!("Red"), json!("red, expected"), json!(5), json!(null), json!({"red": null}), json!(["red"])]
        {
            assert_says::<Colour>(other, "at", "must be one of red, dark_blue, green");
        }
        assert_says::<Side>(json!("up"), "at", "must be left or right");
        assert_says::<Only>(json!("that"), "at", "must be this");
    }

    #[test]
    fn error_has_the_path_of_its_field() {
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
    fn type_can_define_its_error_message() {
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

    #[test]
    fn rust_types_are_reported_as_json_types() {
        for (expected, message) in [
            ("struct Shoe", "must be an object, not integer 5"),
            ("a map", "must be an object, not integer 5"),
            ("a sequence", "must be an array, not integer 5"),
            ("a colour", "must be a colour, not integer 5"),
        ] {
            assert_eq!(MemberError::invalid_type(Unexpected::Unsigned(5), &expected).message, message);
        }
    }

    #[test]
    fn buffered_values_have_the_same_errors() {
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

    fn all<T: DeserializeOwned>(body: &Value) -> Vec<(String, String)> {
        let (_, errors) = mistakes::<T>(body);
        errors.into_iter().map(|FieldError { field, message }| (field, message)).collect()
    }

    fn fields<T: DeserializeOwned>(body: &Value) -> Vec<String> {
        all::<T>(body).into_iter().map(|(field, _)| field).collect()
    }

    #[derive(Debug, Deserialize)]
    struct Order {
        shoe: Shoe,
        #[serde(rename = "other")]
        _other: Option<Shoe>,
        more: Vec<Shoe>,
        note: String,
        #[serde(default)]
        count: u64,
        #[serde(rename = "until")]
        _until: Option<Timestamp>,
        #[serde(default, rename = "gift", deserialize_with = "refuse")]
        _gift: (),
    }

    fn refuse<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
        Err(D::Error::custom("is not accepted"))
    }

    /// Contract: errors 4.
    #[test]
    fn errors_are_found_at_any_depth() {
        assert_eq!(fields::<Order>(&json!({})), ["shoe", "more", "note"]);
        // A missing or wrong object has no missing members.
        assert_eq!(
            fields::<Order>(&json!({"shoe": 5, "other": [], "more": {}, "note": null})),
            ["shoe", "other", "more", "note"]
        );
        let body = json!({
            "shoe": {"colour": "pink"}, "other": {}, "more": [{}, 1, {"size": 1}, {"size": "1", "colour": 1}],
            "until": "tomorrow", "gift": null, "count": -1,
        });
        assert_eq!(
            fields::<Order>(&body),
            [
                "shoe.colour",
                "shoe.size",
                "other.size",
                "more.0.size",
                "more.1",
                "more.3.size",
                "more.3.colour",
                "until",
                "gift",
                "count",
                "note"
            ]
        );
        let (_, message) = all::<Order>(&body).swap_remove(8);
        assert_eq!(message, "is not accepted");
    }

    #[test]
    fn body_with_errors_is_read_with_placeholders() {
        let (order, errors) = mistakes::<Order>(&json!({"shoe": 1, "more": [{}], "until": 5, "gift": 1}));
        assert_eq!(errors.len(), 5);
        let order = order.expect("stand-ins");
        assert_eq!((order.shoe.size, order.more.len(), order.note.as_str(), order.count), (0, 1, "", 0));
    }

    /// Nor is the search repeated for each rejected value.
    #[test]
    fn errors_are_bounded_in_number_and_time() {
        let times: Vec<_> = (0..100_000).map(|_| json!("never")).collect();
        let started = std::time::Instant::now();
        let found = all::<BTreeMap<String, Vec<Timestamp>>>(&json!({ "at": times }));
        assert!((1..=MAX_MISTAKES).contains(&found.len()), "{}", found.len());
        let shoes: Vec<_> = (0..100_000).map(|_| json!({})).collect();
        assert_eq!(all::<BTreeMap<String, Vec<Shoe>>>(&json!({ "at": shoes })).len(), MAX_MISTAKES);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }
}
