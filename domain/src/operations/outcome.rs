//! Outcomes of operations.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::validation::FieldError;

/// Outcome of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Outcome {
    /// The operation succeeded and the session is ready again. The result is stored separately.
    Done,
    /// The engine rejected the input; the session is ready again.
    Invalid {
        /// Invalid fields.
        errors: Vec<FieldError>,
        /// Additional members of the problem document, such as candidates.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        members: Map<String, Value>,
    },
    /// The operation succeeded, but its result cannot be returned; the session is ready again.
    Withheld {
        /// Reason.
        detail: String,
        /// Additional members of the problem document.
        members: Map<String, Value>,
    },
    /// The browser failed; the session is errored.
    Failed {
        /// Failure of the browser.
        failure: Failure,
    },
    /// A DELETE came first; the session is destroyed.
    Destroyed,
    /// The worker died during the operation, so its outcome is unknown. The session stays busy until it is destroyed (contract:
    /// workers 4).
    Unknown,
}

/// Reason a session errored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Class in `session.failed`.
    pub class: FailureClass,
    /// Detail for the caller.
    pub detail: String,
}

/// The closed set of `session.failed` error names (contract: events 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Timeout: 504.
    #[strum(serialize = "SessionTimeoutError")]
    Timeout,
    /// Browser failure: 502.
    #[strum(serialize = "DriverError")]
    Driver,
    /// No browser available: 503.
    #[strum(serialize = "DriverNotIntegratedError")]
    NotIntegrated,
    /// Any other failure: 502.
    #[strum(serialize = "UnknownError")]
    Unknown,
}

impl FailureClass {
    /// Value of `error_name`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Value of `error_message`.
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
