//! Errors of handlers: problems (RFC 9457).
//!
//! A handler states the error; the layer in [`crate::http::problems`], which knows the request, writes the document.

use std::fmt::Display;
use std::time::Duration;

use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::database::is_transient;
use kitfleet_domain::encryption_key::KeyStatus;
use kitfleet_domain::patterns::PatternError;
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::operations::{Failure, FailureClass};
use kitfleet_types::validation::Invalid;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::http::kinds::{self, Kind};

pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// Without the members that depend on the request.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
pub struct Parts {
    pub kind: &'static Kind,
    pub title: &'static str,
    pub detail: String,
    pub members: Map<String, Value>,
    headers: HeaderMap,
}

impl Problem {
    pub fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        let (title, detail) = (kind.title, detail.into());
        Self(Box::new(Parts { kind, title, detail, members: Map::new(), headers: HeaderMap::new() }))
    }

    /// For a route that does not exist, or that is hidden from the caller. The two must not differ.
    pub fn no_such_route() -> Self {
        Self::new(&kinds::NOT_FOUND, "no such route")
    }

    pub fn titled(mut self, title: &'static str) -> Self {
        self.0.title = title;
        self
    }

    /// Returns whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        self.0.headers.contains_key(RETRY_AFTER)
    }

    pub fn status(&self) -> StatusCode {
        self.0.kind.status
    }

    pub fn with(mut self, member: &str, value: impl Serialize) -> Self {
        self.0.members.insert(member.to_owned(), serde_json::json!(value));
        self
    }

    pub fn with_members(mut self, members: Map<String, Value>) -> Self {
        self.0.members.extend(members);
        self
    }

    fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.0.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(&kinds::UNAUTHORIZED, detail).with_header(WWW_AUTHENTICATE, "Bearer")
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(&kinds::FORBIDDEN, detail)
    }

    /// Contract: accounts 6.
    pub fn account_suspended() -> Self {
        Self::forbidden("the account is suspended").titled("AccountSuspended")
    }

    /// The credential was valid a moment ago.
    pub fn account_gone() -> Self {
        Self::unauthorized("the account does not exist any more")
    }

    /// The route accepts web sessions only.
    pub fn web_session_needed() -> Self {
        Self::forbidden("this route requires a web session; API keys and OAuth tokens are not accepted")
    }

    /// Contract: errors 6.
    pub fn step_up_required(reason: &'static str) -> Self {
        let detail =
            "the operation requires a recent second-factor proof; post a code to /v1/auth/mfa/step-up and try again";
        Self::new(&kinds::MFA_STEP_UP_REQUIRED, detail).with("requires_mfa_step_up", true).with("reason", reason)
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(&kinds::BAD_REQUEST, detail)
    }

    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Invalid::field(field, message).into()
    }

    /// The token of a mailed link is invalid.
    pub fn bad_link() -> Self {
        Self::invalid("token", "is not valid; the link may have expired or been used")
    }

    /// The connection is closed, because the body blocks it.
    pub fn body_too_slow() -> Self {
        Self::new(&kinds::REQUEST_TIMEOUT, "the request body did not arrive in time").with_header(CONNECTION, "close")
    }

    /// Probably not for long.
    pub fn unavailable_for_now(detail: impl Into<String>) -> Self {
        Self::new(&kinds::FEATURE_UNAVAILABLE, detail).with_header(RETRY_AFTER, "1")
    }

    /// Of this process. Another process may have the deployment's key.
    pub fn wrong_encryption_key(status: KeyStatus) -> Self {
        let detail = "the encryption key of this process is not the deployment's, so nothing was sealed or opened";
        Self::unavailable_for_now(format!("{detail}: {}", status.description())).with("encryption_key", status)
    }

    /// The process does not wait for the rest of the body (contract: workers 10).
    pub fn stopping() -> Self {
        Self::unavailable_for_now("the service is stopping and did not wait for the rest of the request body")
            .with_header(CONNECTION, "close")
    }

    /// All browsers are in use (contract: sessions 23).
    pub fn capacity_exhausted(detail: impl Into<String>) -> Self {
        Self::new(&kinds::CAPACITY_EXHAUSTED, detail).with_header(RETRY_AFTER, "5")
    }

    /// After this many seconds the next request is allowed.
    pub fn rate_limited(seconds: u64) -> Self {
        Self::rate_limited_by("too many requests", Duration::from_secs(seconds))
    }

    pub fn rate_limited_by(limit: impl Display, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let mut problem = Self::new(&kinds::RATE_LIMITED, format!("{limit}; try again in {seconds} s"));
        problem.0.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        problem
    }

    /// The log has the cause; the response does not reveal it.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "request failed with an internal error");
        Self::new(&kinds::INTERNAL, "internal error; the operator can find the cause in the logs by request_id")
    }

    /// The operation was executed.
    pub fn withheld(detail: String, members: Map<String, Value>) -> Self {
        Self::new(&kinds::DRIVER_ERROR, detail).with_members(members)
    }

    #[cfg(test)]
    pub fn parts(&self) -> &Parts {
        &self.0
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let headers = std::mem::take(&mut self.0.headers);
        let mut response = (self.0.kind.status, headers).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Problem> for Parts {
    fn from(problem: Problem) -> Self {
        *problem.0
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::new(&kinds::VALIDATION_FAILED, invalid.to_string()).with("errors", invalid.0)
    }
}

impl From<AcquireTimeout> for Problem {
    fn from(not_yet: AcquireTimeout) -> Self {
        Self::unavailable_for_now(not_yet.to_string())
    }
}

impl From<PatternError> for Problem {
    fn from(error: PatternError) -> Self {
        match error {
            PatternError::Invalid(invalid) => invalid.into(),
            PatternError::Thread(error) => Self::internal(&error),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let kind = match failure.class {
            FailureClass::Timeout => &kinds::SESSION_TIMEOUT,
            FailureClass::Driver | FailureClass::Unknown => &kinds::DRIVER_ERROR,
            FailureClass::NotIntegrated => &kinds::DRIVER_NOT_INTEGRATED,
        };
        Self::new(kind, failure.detail)
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        if is_transient(&error) {
            // The error can affect very many callers, so the log line is throttled.
            static UNAVAILABLE: LogThrottle = LogThrottle::new();
            UNAVAILABLE.log(
                |held_back| tracing::warn!(%error, held_back, "database is unavailable: answering requests with 503"),
            );
            Self::unavailable_for_now("the database is unavailable")
        } else {
            Self::internal(&error)
        }
    }
}
