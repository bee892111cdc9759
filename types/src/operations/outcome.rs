use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OpenDialog;
use crate::validation::FieldError;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Outcome {
    /// The result is stored separately.
    Done,
    /// The session is ready again.
    Invalid {
        errors: Vec<FieldError>,
        /// Additional members of the problem document, such as candidates.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        members: Map<String, Value>,
        /// Reason other than an invalid field. There are no `errors` then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<Refusal>,
    },
    /// The result cannot be returned; the session is ready again.
    Withheld {
        detail: String,
        /// Additional members of the problem document.
        members: Map<String, Value>,
    },
    /// The session is errored.
    Failed { failure: Failure },
    /// A DELETE came first.
    Destroyed,
    /// The worker died during the operation. The session stays busy until it is destroyed (contract: workers 4).
    Unknown,
}

/// The state of the browser does not allow an operation. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the page shows a dialog that waits for an answer")]
    DialogOpen {
        /// `None` if it was answered in the meantime.
        dialog: Option<OpenDialog>,
    },
    #[error("no dialog waits for an answer")]
    NoDialog,
    #[error("there is no page with this id")]
    NoPage,
    /// The only page cannot be closed.
    #[error("the last page of a session cannot be closed")]
    LastPage,
    /// A script could make a submission that was not approved.
    #[error("the session holds back submissions that are not approved, so that no script can run")]
    SubmissionsHeld,
    #[error("the session has the maximum number of pages")]
    TooManyPages,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Class in `session.failed`.
    pub class: FailureClass,
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
