//! The `Idempotency-Key` header (contract: requests 17): rules per route ([`RULES`]), and responses that are stored and
//! repeated unchanged.

use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use kitfleet_domain::answer_budget::Reservation;
use serde::Serialize;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Required, Schema, Type};

use crate::http::body::counted_json;
use crate::http::error::{Problem, Result};
use crate::http::openapi::shared;
use crate::http::problems::{self, ForeignErrorFormat};
use crate::http::state::App;

const HEADER: &str = "idempotency-key";
/// Marks a repeated response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const MAX_CHARS: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let Some(value) = given.next() else { return Ok(Self(None)) };
        // With two values, the service cannot know which one the caller wants.
        if given.next().is_some() {
            return Err(Problem::invalid("Idempotency-Key", "must not be given more than once"));
        }
        parse(value).map(Self)
    }
}

/// For a key that was used before (contract: requests 17; billing 5). The OpenAPI document states it for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    #[serde(skip)]
    pub operation: &'static str,
    pub another_body: AnotherBody,
    /// With `Idempotent-Replayed: 1`.
    pub replayed_header: bool,
    pub kept: IdempotencyRecord,
}

/// Effect of a different body with a key that was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnotherBody {
    SameAnswer,
    Mismatch,
    /// The provider receives the key.
    ProviderRefuses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdempotencyRecord {
    /// As long as the created row.
    Made,
    /// As long as the target of the request and the account.
    Owner,
    /// As long as the card provider stores it.
    Provider,
    Forever,
}

pub const AGENT_SESSIONS: Rule = Rule {
    operation: "createAgentSession",
    another_body: AnotherBody::SameAnswer,
    replayed_header: false,
    kept: IdempotencyRecord::Made,
};

pub const MESSAGES: Rule = Rule {
    operation: "sendAgentMessage",
    another_body: AnotherBody::Mismatch,
    replayed_header: false,
    kept: IdempotencyRecord::Owner,
};

pub const CARD_PURCHASES: Rule = Rule {
    operation: "createCheckoutSession",
    another_body: AnotherBody::ProviderRefuses,
    replayed_header: false,
    kept: IdempotencyRecord::Provider,
};

pub const CRYPTO_PURCHASES: Rule = Rule {
    operation: "createCryptoOrder",
    another_body: AnotherBody::SameAnswer,
    replayed_header: true,
    kept: IdempotencyRecord::Forever,
};

/// Other operations ignore the key.
pub const RULES: [Rule; 4] = [AGENT_SESSIONS, MESSAGES, CARD_PURCHASES, CRYPTO_PURCHASES];

impl Rule {
    pub fn of(operation: &str) -> Option<Self> {
        RULES.into_iter().find(|rule| rule.operation == operation)
    }

    pub fn replay(self, given: StoredResponse) -> Response {
        self.marked(given.into_response())
    }

    /// The body counts as a large response.
    pub fn replay_counted(self, status: StatusCode, body: Vec<u8>, reservation: Reservation) -> Response {
        let mut response = (status, counted_json(body, reservation)).into_response();
        response.extensions_mut().insert(ForeignErrorFormat);
        self.marked(response)
    }

    fn marked(self, mut response: Response) -> Response {
        if self.replayed_header {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("1"));
        }
        response
    }
}

/// White space around a key is ignored; a key of white space only is no key.
fn parse(value: &HeaderValue) -> Result<Option<String>> {
    let malformed =
        || Problem::invalid("Idempotency-Key", "must be 1 to 255 printable ASCII characters without spaces");
    let key = value.to_str().map_err(|_| malformed())?.trim();
    if key.is_empty() {
        return Ok(None);
    }
    let fits = key.len() <= MAX_CHARS && key.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| Some(key.to_owned())).ok_or_else(malformed)
}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_CHARS));
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("Key chosen by the caller. A second request with the same key has no effect and receives the first response"))
            .schema(Some(RefOr::T(Schema::Object(text.pattern(Some("^[!-~]+$")).build()))));
        vec![shared("IdempotencyKey", key)]
    }
}

#[derive(Debug, Clone)]
pub struct StoredResponse {
    pub status: StatusCode,
    pub body: String,
}

impl StoredResponse {
    pub fn of(status: StatusCode, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_string(body).map_err(|error| Problem::internal(&error))?;
        Ok(Self { status, body })
    }

    pub fn problem(app: &App, problem: Problem, instance: &str, request_id: &str) -> Self {
        let status = problem.status();
        let body = problems::document(problem.into(), status, &app.config.errors_url, instance, Some(request_id));
        Self { status, body }
    }
}

impl IntoResponse for StoredResponse {
    fn into_response(self) -> Response {
        let media_type = if self.status.is_success() { "application/json" } else { problems::MEDIA_TYPE };
        let mut response = (self.status, [(CONTENT_TYPE, media_type)], self.body).into_response();
        response.extensions_mut().insert(ForeignErrorFormat);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> Result<Option<String>, ()> {
        parse(&HeaderValue::from_bytes(value).expect("a header")).map_err(drop)
    }

    /// Contract: requests 17.
    #[test]
    fn idempotency_key_is_printable_without_spaces() {
        let key = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(b"a"), key("a"));
        assert_eq!(read(b" \t!~0 "), key("!~0"));
        assert_eq!(read("x".repeat(255).as_bytes()), key(&"x".repeat(255)));
        assert_eq!((read(b""), read(b" \t ")), (Ok(None), Ok(None)));
        for bad in [&b"a b"[..], b"a\tb", "ü".as_bytes(), b"a\xff", "x".repeat(256).as_bytes()] {
            assert_eq!(read(bad), Err(()), "{}", String::from_utf8_lossy(bad));
        }
    }
}
