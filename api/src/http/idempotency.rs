//! The header `Idempotency-Key` (contract: requests 17), what each route makes of it ([`RULES`]), and answers that are given once and
//! repeated word for word.

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
use crate::http::problems::{self, Untouched};
use crate::http::state::App;

const HEADER: &str = "idempotency-key";
/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Characters of a key.
const MOST_CHARS: usize = 255;

/// The caller's key for the request, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let mut given = parts.headers.get_all(HEADER).iter();
        let Some(value) = given.next() else { return Ok(Self(None)) };
        // Whichever counted, the other may be the one that was meant.
        if given.next().is_some() {
            return Err(Problem::invalid("Idempotency-Key", "must not be given more than once"));
        }
        parse(value).map(Self)
    }
}

/// What a route makes of a key that was used before (contract: requests 17; billing 5). The contract says it of each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The operation, as the contract calls it.
    #[serde(skip)]
    pub operation: &'static str,
    /// What comes of another body.
    pub another_body: AnotherBody,
    /// Whether a replay says that it is one, by `Idempotent-Replayed: 1`.
    pub replayed_header: bool,
    /// How long the key is good.
    pub kept: Kept,
}

/// What comes of another body under a key that was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnotherBody {
    /// It is not looked at: the answer is that of the first.
    SameAnswer,
    /// It is a 409.
    Mismatch,
    /// The card provider, which is sent the key, refuses it.
    ProviderRefuses,
}

/// How long a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// As long as the row of what was made.
    Made,
    /// As long as the rows of what it was sent to and of the account.
    Owner,
    /// As long as the card provider keeps it.
    Provider,
    /// It is never forgotten.
    Forever,
}

/// Of creates of agent sessions.
pub const AGENT_SESSIONS: Rule = Rule {
    operation: "createAgentSession",
    another_body: AnotherBody::SameAnswer,
    replayed_header: false,
    kept: Kept::Made,
};

/// Of messages to agent sessions.
pub const MESSAGES: Rule = Rule {
    operation: "sendAgentMessage",
    another_body: AnotherBody::Mismatch,
    replayed_header: false,
    kept: Kept::Owner,
};

/// Of purchases by card.
pub const CARD_PURCHASES: Rule = Rule {
    operation: "createCheckoutSession",
    another_body: AnotherBody::ProviderRefuses,
    replayed_header: false,
    kept: Kept::Provider,
};

/// Of purchases with crypto currencies.
pub const CRYPTO_PURCHASES: Rule = Rule {
    operation: "createCryptoOrder",
    another_body: AnotherBody::SameAnswer,
    replayed_header: true,
    kept: Kept::Forever,
};

/// Each of them: no other operation looks at a key.
pub const RULES: [Rule; 4] = [AGENT_SESSIONS, MESSAGES, CARD_PURCHASES, CRYPTO_PURCHASES];

impl Rule {
    /// That of the operation of this id, if it takes a key.
    pub fn of(operation: &str) -> Option<Self> {
        RULES.into_iter().find(|rule| rule.operation == operation)
    }

    /// What was answered before, once more.
    pub fn replay(self, given: Given) -> Response {
        self.marked(given.into_response())
    }

    /// The same of a success whose body is counted as a large answer.
    pub fn replay_counted(self, status: StatusCode, body: Vec<u8>, reservation: Reservation) -> Response {
        let mut response = (status, counted_json(body, reservation)).into_response();
        response.extensions_mut().insert(Untouched);
        self.marked(response)
    }

    fn marked(self, mut response: Response) -> Response {
        if self.replayed_header {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("1"));
        }
        response
    }
}

/// White space around a key does not count; nothing but white space is no key.
fn parse(value: &HeaderValue) -> Result<Option<String>> {
    let malformed =
        || Problem::invalid("Idempotency-Key", "must be 1 to 255 printable ASCII characters without spaces");
    let key = value.to_str().map_err(|_| malformed())?.trim();
    if key.is_empty() {
        return Ok(None);
    }
    let fits = key.len() <= MOST_CHARS && key.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| Some(key.to_owned())).ok_or_else(malformed)
}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MOST_CHARS));
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("A name of the caller's for this request: the second request of one name does nothing, and is answered as the first was"))
            .schema(Some(RefOr::T(Schema::Object(text.pattern(Some("^[!-~]+$")).build()))));
        vec![shared("IdempotencyKey", key)]
    }
}

/// An answer as it was, or will be, given each time.
#[derive(Debug, Clone)]
pub struct Given {
    pub status: StatusCode,
    pub body: String,
}

impl Given {
    /// An answer of this status.
    ///
    /// # Errors
    /// When the body cannot be written.
    pub fn of(status: StatusCode, body: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_string(body).map_err(|error| Problem::internal(&error))?;
        Ok(Self { status, body })
    }

    /// The document of a problem that the request of this id to `instance` ran into.
    pub fn problem(app: &App, problem: Problem, instance: &str, request_id: &str) -> Self {
        let status = problem.status();
        let body = problems::document(problem.into(), status, &app.config.errors_url, instance, Some(request_id));
        Self { status, body }
    }
}

impl IntoResponse for Given {
    fn into_response(self) -> Response {
        let media_type = if self.status.is_success() { "application/json" } else { problems::MEDIA_TYPE };
        let mut response = (self.status, [(CONTENT_TYPE, media_type)], self.body).into_response();
        response.extensions_mut().insert(Untouched);
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
    fn a_key_is_printable_and_has_no_spaces() {
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
