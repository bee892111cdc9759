//! How operations end.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::validation::FieldError;

/// How an operation ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Outcome {
    /// Done; the session is ready again. What came of it stands beside this.
    Done,
    /// The engine refused the input; the session is ready again.
    Invalid {
        /// What was wrong with it.
        errors: Vec<FieldError>,
        /// Further members of the problem document: what the caller could have meant.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        members: Map<String, Value>,
    },
    /// Done, but the result is not to be had; the session is ready again.
    Withheld {
        /// Why.
        detail: String,
        /// Further members of the problem document.
        members: Map<String, Value>,
    },
    /// The browser failed; the session is errored.
    Failed {
        /// How.
        failure: Failure,
    },
    /// DELETE won the race; the session is destroyed.
    Destroyed,
    /// The worker died with the operation under way: nobody knows what it did. The session stays busy until it is destroyed
    /// (contract: workers 4).
    Unknown,
}

/// Why a session errored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// As `session.failed` classes it.
    pub class: FailureClass,
    /// For the caller's eyes.
    pub detail: String,
}

/// The closed set of `session.failed` error names (contract: events 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Out of time: 504.
    #[strum(serialize = "SessionTimeoutError")]
    Timeout,
    /// The browser failed: 502.
    #[strum(serialize = "DriverError")]
    Driver,
    /// There is no browser: 503.
    #[strum(serialize = "DriverNotIntegratedError")]
    NotIntegrated,
    /// Anything else: 502.
    #[strum(serialize = "UnknownError")]
    Unknown,
}

impl FailureClass {
    /// `error_name`
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// `error_message`
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Timeout => "The session operation timed out.",
            Self::Driver => "The browser operation failed.",
            Self::NotIntegrated => "The browser driver was unavailable.",
            Self::Unknown => "The session operation failed.",
        }
    }
}
