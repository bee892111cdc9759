//! Request bodies, read permissively as to what they hold and strictly as to what they are.
//!
//! A body is parsed twice: into a JSON value, which proves that it is JSON and tells which fields it has, and from that
//! into the type the handler wants. The second step starts again behind each field it refuses, so that the caller hears
//! of all of them at once.

mod exact;
mod typed;

use std::convert::Infallible;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kitfleet_domain::heavy::heavy;
use kitfleet_domain::validation::{FieldError, Invalid, nul_in};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_json::{Map, Value};

use crate::http::error::{Problem, Result};
use crate::http::state::{ApiConfig, App};
use crate::http::{body, kinds, unknown_fields};

use typed::Mistake;

/// Objects and arrays in each other, at most.
const MAX_DEPTH: usize = 128;

/// A JSON object of the type `T`; an empty body counts as an empty one.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, &app.config).await?;
        heavy(bytes.len(), || {
            let object = object(&parts.headers, &bytes)?;
            note_unknown(&parts.extensions, &object, field_names::<T>());
            Ok(Self(declared(object, &bytes)?))
        })
    }
}

/// The same of somebody who was not authenticated, who is not told of unknown fields (contract: requests 8).
pub struct OpenJson<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for OpenJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, &app.config).await?;
        heavy(bytes.len(), || Ok(Self(declared(object(&parts.headers, &bytes)?, &bytes)?)))
    }
}

fn declared<T: DeserializeOwned>(object: Map<String, Value>, bytes: &[u8]) -> Result<T> {
    let known = field_names::<T>();
    refuse_nul(&object, known)?;
    refuse_rounded(bytes, known)?;
    Ok(typed(object, "")?)
}

/// A body that the route has no use for. Its fields are all unknown; whatever else may be wrong with it harms nobody.
pub struct Unused;

impl FromRequest<App> for Unused {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        if let Ok(bytes) = read(body, &app.config).await
            && let Ok(object) = heavy(bytes.len(), || object(&parts.headers, &bytes))
        {
            note_unknown(&parts.extensions, &object, &[]);
        }
        Ok(Self)
    }
}

/// A whole body, within the limits of size and time.
///
/// # Errors
/// When it is too large, too slow, or breaks off.
pub async fn read(body: Body, config: &ApiConfig) -> Result<Bytes> {
    let limit = config.max_body_bytes;
    let too_large = || {
        let detail = format!("the request's body has more than {limit} bytes");
        Problem::new(&kinds::PAYLOAD_TOO_LARGE, detail).with("limit_bytes", limit)
    };
    // The declared length is known before a byte of the body is.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(config.body_timeout, Limited::new(body, limit).collect()).await;
    match collected.map_err(|_| Problem::body_too_slow())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) if body::is_of_stopping(&*error) => Err(Problem::stopping()),
        Err(_) => Err(Problem::bad_request("the request's body broke off")),
    }
}

fn object(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    require_json(headers)?;
    if depth(bytes) > MAX_DEPTH {
        return Err(Problem::bad_request(format!("the request's body is nested deeper than {MAX_DEPTH}")));
    }
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    parser.disable_recursion_limit();
    let parsed = Value::deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    match parsed.map_err(|error| Problem::bad_request(format!("the request's body is not JSON: {error}")))? {
        Value::Object(object) => Ok(object),
        _ => Err(Problem::invalid("body", "must be a JSON object")),
    }
}

/// # Errors
/// When a request does not declare its body as JSON.
pub fn require_json(headers: &HeaderMap) -> Result<()> {
    if is_json(headers) {
        return Ok(());
    }
    let detail = "the request's body must be declared as application/json, without a content encoding";
    Err(Problem::new(&kinds::UNSUPPORTED_MEDIA_TYPE, detail))
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let essence = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let encoded = text(CONTENT_ENCODING).is_some_and(|value| !value.eq_ignore_ascii_case("identity"));
    !encoded && (essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json"))
}

/// How deeply brackets nest, outside of strings. Exact for JSON; for anything else the parser has the last word.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn note_unknown(extensions: &Extensions, object: &Map<String, Value>, known: &[&str]) {
    let unknown = object.keys().map(String::as_str).filter(|name| !known.contains(name));
    unknown_fields::note(extensions, unknown);
}

/// The database stores no U+0000, and no selector, label or text needs one. Unknown fields are as if absent here too.
fn refuse_nul(object: &Map<String, Value>, known: &[&str]) -> Result<(), Invalid> {
    let declared = object.iter().filter(|(name, _)| known.contains(&name.as_str()));
    match declared.into_iter().find_map(|(name, value)| nul_in(value, name)) {
        Some(field) => Err(Invalid::field(field, "must not contain the character U+0000")),
        None => Ok(()),
    }
}

/// What is kept is kept exactly, and nobody's integer becomes another one.
fn refuse_rounded(bytes: &[u8], known: &[&str]) -> Result<(), Invalid> {
    match exact::rounded(bytes).into_iter().find(|name| known.contains(&name.as_str())) {
        Some(field) => Err(Invalid::field(field, "must not hold an integer that 64 bits do not: it would be rounded")),
        None => Ok(()),
    }
}

/// `object` as a `T`, which is a struct. Field names in errors begin with `prefix`.
///
/// # Errors
/// With every field of `object` that has the wrong type, or the first one that is missing.
pub fn typed<T: DeserializeOwned>(mut object: Map<String, Value>, prefix: &str) -> Result<T, Invalid> {
    let mut errors: Vec<FieldError> = Vec::new();
    loop {
        let Mistake { field, message } = match typed::read(&object) {
            Ok(typed) if errors.is_empty() => return Ok(typed),
            Ok(_) => return Err(Invalid(errors)),
            Err(mistake) => mistake,
        };
        let top = field.split('.').next().unwrap_or_default();
        let seen = errors.iter().any(|error: &FieldError| is_under(&error.field, &join(prefix, top)));
        if !seen {
            errors.push(FieldError { field: join(prefix, &field), message });
        }
        // Without the field it choked on it gets further, unless that is already gone.
        if object.shift_remove(top).is_none() {
            return Err(Invalid(errors));
        }
    }
}

fn is_under(field: &str, ancestor: &str) -> bool {
    field.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn join(parent: &str, child: &str) -> String {
    match (parent, child) {
        ("", only) | (only, "") => only.to_owned(),
        _ => format!("{parent}.{child}"),
    }
}

/// The names of the fields that `T` declares, as serde sees them.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It always fails: all it wants is to be asked.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(Self::Error::custom("only asked for its fields"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[serde(rename = "type")]
        _kind: String,
        _count: Option<u64>,
        _items: Option<Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        _name: String,
    }

    fn errors(json: &str) -> Vec<(String, String)> {
        let Ok(Value::Object(object)) = serde_json::from_str(json) else { panic!("an object") };
        let Err(Invalid(errors)) = typed::<Outer>(object, "body") else { panic!("an error") };
        errors.into_iter().map(|error| (error.field, error.message)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(field, message)| ((*field).to_owned(), (*message).to_owned())).collect()
    }

    #[test]
    fn every_wrong_field_is_named_by_its_path() {
        assert_eq!(
            errors(r#"{"type": 5, "_count": -1, "_items": [{"_name": "a"}, {}]}"#),
            pairs(&[
                ("body.type", "must be a string, not integer 5"),
                ("body._count", "must be a whole number that is not negative, not integer -1"),
                ("body._items.1._name", "is required"),
            ])
        );
        assert_eq!(
            errors(r#"{"type": "a", "_count": 1.5}"#),
            pairs(&[("body._count", "must be a whole number that is not negative, not floating point 1.5")])
        );
        assert_eq!(errors("{}"), pairs(&[("body.type", "is required")]));
        assert_eq!(errors(r#"{"_count": "1"}"#).len(), 2);
    }

    #[test]
    fn null_counts_as_absent_where_a_field_is_optional() {
        let Ok(Value::Object(object)) = serde_json::from_str(r#"{"type": "a", "_count": null}"#) else { panic!() };
        assert!(typed::<Outer>(object, "").is_ok());
        assert_eq!(errors(r#"{"type": null}"#), pairs(&[("body.type", "must be a string, not null")]));
    }

    #[test]
    fn declared_fields_are_known_by_their_wire_names() {
        assert_eq!(field_names::<Outer>(), ["type", "_count", "_items"]);
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        assert_eq!(depth(br#"{"a": [1, {"b": "[[[\"[["}]}"#), 3);
        assert_eq!(depth(br#""\\" [ "#), 1);
        assert_eq!(depth("[".repeat(10_000).as_bytes()), 10_000);
    }

    fn status(body: &[u8]) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json; charset=utf-8"));
        object(&headers, body).map_or_else(|problem| problem.parts().kind.status.as_u16(), |_| 200)
    }

    #[test]
    fn what_is_no_json_object_is_refused() {
        let nested = |n: usize| format!("{}{}", r#"{"a":"#.repeat(n), "}".repeat(n)).replace(":}", ":{}}").into_bytes();
        assert_eq!(status(b"{}"), 200);
        assert_eq!(status(b""), 200);
        assert_eq!(status(&nested(127)), 200);
        assert_eq!(status(&nested(128)), 400);
        for bad in [
            &b"{"[..],
            b"nope",
            b"[]",
            b"null",
            b"{} {}",
            b"{\"a\": 1e400}",
            b"{\"a\": \"\\ud800\"}",
            b"{\"a\": \"\xff\"}",
            b"{\"a\": \"\x01\"}",
            b"\xef\xbb\xbf{}",
        ] {
            assert_eq!(status(bad), 400, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_nul_is_found_wherever_it_hides() {
        let value = serde_json::json!({"a": {"b": ["x", {"c": "\0"}]}, "u": "\0"});
        let Value::Object(object) = value else { panic!("an object") };
        let Err(Invalid(errors)) = refuse_nul(&object, &["a"]) else { panic!("an error") };
        assert_eq!(errors[0].field, "a.b.1.c");
        assert!(refuse_nul(&object, &["other"]).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_body_or_refused(bytes in any::<Vec<u8>>()) {
            prop_assert!(matches!(status(&bytes), 200 | 400));
        }

        #[test]
        fn brackets_of_any_depth_are_a_body_or_refused(text in r#"(\{"a":|\[|\{|\]|\}|"|,|0|\\){0,600}"#) {
            prop_assert!(matches!(status(text.as_bytes()), 200 | 400));
        }
    }
}
