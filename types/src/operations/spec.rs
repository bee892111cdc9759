//! Facts about an operation. Routes, usage, retry hints, pauses and metrics follow from them, so that no other place lists the operations.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AnsweredDialog, Interruption, OpenDialog, OperationResult};

/// No caller can choose it. A PDF of a very large page needs it.
const READ_BUDGET: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the facts are independent of each other")]
pub struct OperationSpec {
    /// For `session.failed` and metrics, from a closed set: an operation that reads a page is an `extract`, one that
    /// loads a page is a `navigate`, and one that fits no other name is `unknown`.
    pub kind: &'static str,
    /// End of its route, after the session. `None` for an operation that only the service itself runs, or whose route has another
    /// operation with other facts.
    pub route: Option<&'static str>,
    pub usage: Option<UsageKind>,
    /// An equal second request has no further effect.
    pub retryable: bool,
    /// Contract: challenges 6.
    pub allowed_while_paused: bool,
    /// Contract: operations 47.
    pub allowed_with_dialog: bool,
    pub may_load: bool,
}

impl OperationSpec {
    pub(super) const READS: Self = Self {
        kind: "extract",
        route: None,
        usage: None,
        retryable: true,
        allowed_while_paused: false,
        allowed_with_dialog: false,
        may_load: false,
    };

    pub(super) const ACTS: Self = Self { retryable: false, may_load: true, ..Self::READS };
}

pub trait Parameters {
    const SPEC: OperationSpec;

    /// Where they depend on the parameters.
    fn spec(&self) -> OperationSpec {
        Self::SPEC
    }

    /// Includes browser work.
    fn budget(&self) -> Duration {
        READ_BUDGET
    }

    /// Result when a dialog that is held open ends the operation early. `None` for an operation that has no such result.
    fn interrupted(&self, _: Interruption) -> Option<OperationResult> {
        None
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        None
    }

    /// Counterpart of [`Parameters::take_secrets`].
    fn restore_secrets(&mut self, _: Secrets) {}
}

/// The dialogs that were answered, and the one that is open.
pub type DialogMembers<'a> = (&'a mut Vec<AnsweredDialog>, &'a mut Option<OpenDialog>);

pub trait OperationOutput: Serialize {
    /// Bytes from a page. Other members, such as addresses, are bounded.
    fn weight(&self) -> usize {
        0
    }

    /// `None` for a result without them.
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        None
    }

    /// Bytes that travel beside the JSON.
    fn into_content(self) -> Option<Vec<u8>>
    where
        Self: Sized,
    {
        None
    }
}

/// They must not be stored in clear.
#[derive(Default, Serialize, Deserialize)]
pub struct Secrets {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) typed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) header_values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cookie_values: Option<Vec<String>>,
}

impl Secrets {
    #[must_use]
    pub fn of_headers(values: Vec<String>) -> Self {
        Self { header_values: Some(values), ..Self::default() }
    }

    #[must_use]
    pub fn into_header_values(self) -> Vec<String> {
        self.header_values.unwrap_or_default()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum UsageKind {
    SessionMinute,
    Navigate,
    Interact,
    Wait,
    StateCapture,
    ScreenshotCapture,
}
