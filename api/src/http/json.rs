//! Request bodies.
//!
//! A body is parsed twice: into JSON values, and from those into the handler's type. If the second step fails, it is repeated
//! in a mode that collects every error. The readable rest is validated all the same, so that the caller sees all errors at
//! once.
//!
//! A value takes many times the memory of its text, so the values are counted before any is created.

mod exact;
mod members;
mod typed;

use std::convert::Infallible;
use std::error::Error;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, MatchedPath, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kitfleet_domain::answer_budget::Reservation;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_types::ids::AccountId;
use kitfleet_types::validation::{FieldError, Invalid, find_nuls, join_path};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde_json::{Map, Value};

use crate::http::error::{Problem, Result};
use crate::http::state::{ApiConfig, App};
use crate::http::{body, kinds, unknown_fields};

use members::Members;
use typed::MAX_MISTAKES;

/// Of objects and arrays.
const MAX_DEPTH: usize = 128;

/// An empty body counts as an empty object.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let unchecked = Unchecked::from_request(request, app).await?;
        Ok(Self(unchecked.check(Ok)?))
    }
}

/// The unauthenticated caller gets no report of unknown fields (contract: requests 8).
pub struct OpenJson<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for OpenJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let OpenUnchecked(unchecked) = OpenUnchecked::from_request(request, app).await?;
        Ok(Self(unchecked.check(Ok)?))
    }
}

/// Deserializes a member that is present, even if it is null.
///
/// # Errors
/// The member has the wrong type.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Members may be missing or have the wrong type, which is reported together with validation errors (contract: errors 4).
pub struct Unchecked<T> {
    /// With substitutes for wrong members. `None` if substitutes are not possible; then `errors` is not empty.
    body: Option<T>,
    errors: Vec<FieldError>,
}

impl<T: DeserializeOwned> FromRequest<App> for Unchecked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts, body, &app.config).await?;
        run_blocking(bytes.len(), || {
            let Members { known, unknown } = object::<T>(&parts.headers, &bytes, &app.config, Caller::Known)?;
            unknown_fields::note(&parts.extensions, unknown.iter().map(String::as_str));
            Ok(Self::declared(known, &bytes))
        })
    }
}

pub struct OpenUnchecked<T>(pub Unchecked<T>);

impl<T: DeserializeOwned> FromRequest<App> for OpenUnchecked<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts, body, &app.config).await?;
        run_blocking(bytes.len(), || {
            let Members { known, .. } = object::<T>(&parts.headers, &bytes, &app.config, Caller::Anybody)?;
            Ok(Self(Unchecked::declared(known, &bytes)))
        })
    }
}

impl<T: DeserializeOwned> Unchecked<T> {
    pub fn at(object: Map<String, Value>, at: &str) -> Self {
        let mut unchecked = Self::of(object);
        unchecked.errors.iter_mut().for_each(|error| error.field = join_path(at, &error.field));
        unchecked
    }

    fn of(object: Map<String, Value>) -> Self {
        let object = Value::Object(object);
        match typed::read(&object) {
            Ok(body) => Self { body: Some(body), errors: Vec::new() },
            Err(first) => {
                let (body, errors) = typed::mistakes(&object);
                if errors.is_empty() {
                    return Self { body: None, errors: vec![first.into()] };
                }
                Self { body, errors }
            }
        }
    }

    fn declared(known: Map<String, Value>, bytes: &[u8]) -> Self {
        let mut errors = nuls(&known);
        errors.extend(rounded(bytes, field_names::<T>()));
        let Self { body, errors: others } = Self::of(known);
        add(&mut errors, others);
        Self { body, errors }
    }

    /// Or the substitute for one of the wrong type.
    pub fn named<U>(&self, member: impl FnOnce(&T) -> Option<&U>) -> Option<&U> {
        self.body.as_ref().and_then(member)
    }

    /// For handlers that check other conditions before validation.
    ///
    /// # Errors
    ///
    /// All errors, including those of `rules`.
    pub fn typed(self, rules: impl FnOnce(&T) -> Result<(), Invalid>) -> Result<T, Invalid> {
        let is_typed = self.errors.is_empty();
        self.check(|body| if is_typed { Ok(body) } else { rules(&body).map(|()| body) })
    }

    pub fn check<U>(self, parse: impl FnOnce(T) -> Result<U, Invalid>) -> Result<U, Invalid> {
        let mut errors = self.errors;
        match self.body.map(parse) {
            Some(Ok(parsed)) if errors.is_empty() => return Ok(parsed),
            Some(Err(Invalid(broken))) => add(&mut errors, broken),
            Some(Ok(_)) | None => {}
        }
        Err(Invalid(errors))
    }
}

/// Only those that are not below a field with a known error.
fn add(errors: &mut Vec<FieldError>, others: Vec<FieldError>) {
    let known = errors.len();
    for error in others.into_iter().take(MAX_MISTAKES.saturating_sub(known)) {
        if !errors[..known].iter().any(|known| is_under(&error.field, &known.field)) {
            errors.push(error);
        }
    }
}

#[derive(Deserialize)]
struct NoFields {}

/// All its fields are unknown; other errors in it are harmless.
pub struct IgnoredBody;

impl FromRequest<App> for IgnoredBody {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        if let Ok(bytes) = read(&parts, body, &app.config).await
            && let Ok(object) =
                run_blocking(bytes.len(), || object::<NoFields>(&parts.headers, &bytes, &app.config, Caller::Known))
        {
            unknown_fields::note(&parts.extensions, object.unknown.iter().map(String::as_str));
        }
        Ok(Self)
    }
}

/// Prefix of routes without authentication, and limit in bytes (contract: requests 5).
const SMALL_BODIES: (&str, usize) = ("/v1/auth/", 16 * 1024);

fn body_limit(parts: &Parts, config: &ApiConfig) -> usize {
    let (prefix, limit) = SMALL_BODIES;
    let is_small = parts.extensions.get::<MatchedPath>().is_some_and(|path| path.as_str().starts_with(prefix));
    if is_small { config.max_body_bytes.min(limit) } else { config.max_body_bytes }
}

const LARGE_BODY: usize = 24 * 1024 * 1024;

/// Of its size: the text, its values and the parsed type.
const LARGE_BODY_FACTOR: u64 = 3;

/// On a route that also takes files. A body beyond the size of other routes reserves memory as a large response of the account
/// does, until the caller drops the reservation.
pub async fn read_large<T: DeserializeOwned>(
    request: Request,
    app: &App,
    account: AccountId,
) -> Result<(Unchecked<T>, Reservation)> {
    let (parts, body) = request.into_parts();
    // A large body takes longer to arrive.
    let reading = tokio::time::timeout(app.config.body_timeout * 2, reserve_and_read(body, app, account));
    let (bytes, reservation) = reading.await.map_err(|_| Problem::body_too_slow())??;
    let unchecked = run_blocking(bytes.len(), || {
        let Members { known, unknown } = object::<T>(&parts.headers, &bytes, &app.config, Caller::Known)?;
        unknown_fields::note(&parts.extensions, unknown.iter().map(String::as_str));
        Ok::<_, Problem>(Unchecked::declared(known, &bytes))
    })?;
    Ok((unchecked, reservation))
}

async fn reserve_and_read(body: Body, app: &App, account: AccountId) -> Result<(Vec<u8>, Reservation)> {
    let (small, limit) = (app.config.max_body_bytes, LARGE_BODY.max(app.config.max_body_bytes));
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large(limit));
    }
    let mut reservation = None;
    let mut bytes = Vec::new();
    let mut body = Limited::new(body, limit);
    loop {
        let expected = usize::try_from(announced).unwrap_or(limit).max(bytes.len());
        if expected > small && reservation.is_none() {
            // A body of unknown length may have the maximum.
            let expected = if announced > small as u64 { expected } else { limit };
            reservation = Some(app.answers.reserve(account, LARGE_BODY_FACTOR * expected as u64).await?);
            bytes.reserve_exact(expected - bytes.len());
        }
        match body.frame().await {
            None => return Ok((bytes, reservation.unwrap_or_default())),
            Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(error)) => return Err(not_read(&*error, limit)),
        }
    }
}

pub async fn read(parts: &Parts, body: Body, config: &ApiConfig) -> Result<Bytes> {
    let limit = body_limit(parts, config);
    // The declared length allows a rejection before any byte is read.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let collected = tokio::time::timeout(config.body_timeout, Limited::new(body, limit).collect()).await;
    match collected.map_err(|_| Problem::body_too_slow())? {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(not_read(&*error, limit)),
    }
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the request body has more than {limit} bytes");
    Problem::new(&kinds::PAYLOAD_TOO_LARGE, detail).with("limit_bytes", limit)
}

fn not_read(error: &(dyn Error + Send + Sync + 'static), limit: usize) -> Problem {
    if error.is::<LengthLimitError>() {
        too_large(limit)
    } else if body::is_of_stopping(error) {
        Problem::stopping()
    } else {
        Problem::bad_request("the request body was cut off")
    }
}

#[derive(Debug, Clone, Copy)]
enum Caller {
    Anybody,
    Known,
}

fn object<T: DeserializeOwned>(
    headers: &HeaderMap,
    bytes: &[u8],
    config: &ApiConfig,
    caller: Caller,
) -> Result<Members> {
    if bytes.is_empty() {
        return Ok(Members::default());
    }
    require_json(headers)?;
    let max_values = match caller {
        Caller::Anybody => config.limits.open_body_values,
        Caller::Known => config.limits.body_values,
    };
    require_few_values(bytes, max_values)?;
    let object = members::read(bytes, field_names::<T>(), config.limits.unknown_fields);
    let object = object.map_err(|error| Problem::bad_request(format!("the request body is not JSON: {error}")))?;
    object.ok_or_else(|| Problem::invalid("body", "must be a JSON object"))
}

/// Without much memory (contract: requests 3, 18).
pub fn require_few_values(bytes: &[u8], max: usize) -> Result<()> {
    let JsonStructure { depth, values } = shape(bytes);
    if depth > MAX_DEPTH {
        return Err(Problem::bad_request(format!("the request body is nested deeper than {MAX_DEPTH} levels")));
    }
    if values > max {
        let message = format!("must not have more than {max} values and member names");
        return Err(Problem::invalid("body", message));
    }
    Ok(())
}

pub fn require_json(headers: &HeaderMap) -> Result<()> {
    if is_json(headers) {
        return Ok(());
    }
    let detail = "the content type must be application/json, without a content encoding";
    Err(Problem::new(&kinds::UNSUPPORTED_MEDIA_TYPE, detail))
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let essence = text(CONTENT_TYPE).and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let encoded = text(CONTENT_ENCODING).is_some_and(|value| !value.eq_ignore_ascii_case("identity"));
    !encoded && (essence == "application/json" || essence.starts_with("application/") && essence.ends_with("+json"))
}

struct JsonStructure {
    /// Of objects and arrays.
    depth: usize,
    values: usize,
}

/// Exact for valid JSON; the parser rejects everything else.
fn shape(bytes: &[u8]) -> JsonStructure {
    let (mut depth, mut deepest, mut values) = (0_usize, 0, 0);
    let (mut in_string, mut escaped, mut in_scalar) = (false, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                values += usize::from(!in_string);
                in_string = !in_string;
                in_scalar = false;
            }
            _ if in_string => {}
            b'{' | b'[' => {
                values += 1;
                depth += 1;
                deepest = deepest.max(depth);
                in_scalar = false;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                in_scalar = false;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => in_scalar = false,
            _ => {
                values += usize::from(!in_scalar);
                in_scalar = true;
            }
        }
    }
    JsonStructure { depth: deepest, values }
}

/// The database cannot store U+0000, and no selector, label or text needs it.
fn nuls(known: &Map<String, Value>) -> Vec<FieldError> {
    let mut fields = Vec::new();
    known.iter().for_each(|(name, value)| find_nuls(value, name, MAX_MISTAKES, &mut fields));
    let message = "must not contain the character U+0000";
    fields.into_iter().map(|field| FieldError { field, message: message.to_owned() }).collect()
}

/// Stored values are exact, so integers that would be rounded are rejected.
fn rounded(bytes: &[u8], known: &[&str]) -> Vec<FieldError> {
    let fields = exact::rounded(bytes, known).into_iter();
    let message = "must not contain an integer outside the 64-bit range: it would be rounded";
    fields.map(|field| FieldError { field, message: message.to_owned() }).collect()
}

fn is_under(field: &str, ancestor: &str) -> bool {
    field.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Always fails; it only records the field names.
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
        Err(Self::Error::custom("only records the field names"))
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
        let Err(Invalid(errors)) = Unchecked::<Outer>::at(object, "body").check(Ok) else { panic!("an error") };
        errors.into_iter().map(|error| (error.field, error.message)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(field, message)| ((*field).to_owned(), (*message).to_owned())).collect()
    }

    #[test]
    fn each_invalid_field_is_named_by_its_path() {
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
        assert_eq!(
            errors(r#"{"_items": [{}, 5, {"_name": 1}, {"_name": "a"}], "_count": 1.5}"#),
            pairs(&[
                ("body._items.0._name", "is required"),
                ("body._items.1", "must be an object, not integer 5"),
                ("body._items.2._name", "must be a string, not integer 1"),
                ("body._count", "must be a whole number that is not negative, not floating point 1.5"),
                ("body.type", "is required"),
            ])
        );
    }

    #[test]
    fn null_counts_as_absent_where_a_field_is_optional() {
        let Ok(Value::Object(object)) = serde_json::from_str(r#"{"type": "a", "_count": null}"#) else { panic!() };
        assert!(Unchecked::<Outer>::at(object, "").check(Ok).is_ok());
        assert_eq!(errors(r#"{"type": null}"#), pairs(&[("body.type", "must be a string, not null")]));
    }

    #[test]
    fn declared_fields_are_known_by_their_wire_names() {
        assert_eq!(field_names::<Outer>(), ["type", "_count", "_items"]);
    }

    #[test]
    fn depth_and_values_are_counted_outside_of_strings() {
        let counted = |text: &str| {
            let JsonStructure { depth, values } = shape(text.as_bytes());
            (depth, values)
        };
        assert_eq!(counted(r#"{"a": [1, {"b": "[[[\"[["}]}"#), (3, 7));
        assert_eq!(counted(r#""\\" [ "#), (1, 2));
        assert_eq!(counted(&"[".repeat(10_000)), (10_000, 10_000));
        assert_eq!(counted("[[],[],-1e5,true , null\n,{}]"), (2, 7));
    }

    /// Contract: requests 18.
    #[test]
    fn body_with_too_many_values_is_refused() {
        for value in ["[]", "{}", "null", "1", "\"\"", "{\"a\":{}}", "[[[]]]"] {
            let body = |count: usize| format!("{{\"a\":[{}]}}", vec![value; count].join(","));
            let max = shape(body(1_000).as_bytes()).values;
            assert!(require_few_values(body(1_000).as_bytes(), max).is_ok(), "{value}");
            assert!(require_few_values(body(1_001).as_bytes(), max).is_err(), "{value}");
        }
    }

    /// Contract: limits 5. Ten times as many rounded members take about ten times as long.
    #[test]
    fn search_for_rounded_integers_is_linear_in_the_body() {
        let time = |members: usize| {
            let members: Vec<_> = (0..members).map(|at| format!("\"{at}\":99999999999999999999")).collect();
            let (body, begun) = (format!("{{{}}}", members.join(",")), std::time::Instant::now());
            assert_eq!(exact::rounded(body.as_bytes(), &["0", "9999"]), ["0", "9999"]);
            begun.elapsed()
        };
        let times = [10_000, 100_000].map(|members| (0..3).map(|_| time(members)).min().unwrap_or_default());
        assert!(times[1] < times[0] * 40, "{times:?}");
    }

    fn status(body: &[u8]) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json; charset=utf-8"));
        let read = || {
            require_json(&headers)?;
            require_few_values(body, 10_000)?;
            let object =
                members::read(body, &["known"], 10).map_err(|error| Problem::bad_request(error.to_string()))?;
            object.ok_or_else(|| Problem::invalid("body", "must be a JSON object"))
        };
        let read = if body.is_empty() { Ok(Members::default()) } else { read() };
        read.map_or_else(|problem| problem.parts().kind.status.as_u16(), |_| 200)
    }

    #[test]
    fn body_that_is_not_an_object_is_refused() {
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
    fn nul_is_found_at_any_depth() {
        let value = serde_json::json!({"u": "", "a": {"b": ["x", {"c": "\0"}]}});
        let Value::Object(object) = value else { panic!("an object") };
        assert_eq!(nuls(&object)[0].field, "a.b.1.c");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_or_refused(bytes in any::<Vec<u8>>()) {
            prop_assert!(matches!(status(&bytes), 200 | 400));
        }

        #[test]
        fn brackets_of_any_depth_are_parsed_or_refused(text in r#"(\{"a":|\[|\{|\]|\}|"|,|0|\\){0,600}"#) {
            prop_assert!(matches!(status(text.as_bytes()), 200 | 400));
        }
    }
}
