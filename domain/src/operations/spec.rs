//! Facts about an operation. Routes, usage, retry hints, pauses and metrics follow from them, so that no other place lists the operations.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AnsweredDialog, Interruption, OpenDialog, OperationResult};

/// Time that reading a page may take. No caller can choose it. A PDF of a very large page needs it.
const READ_BUDGET: Duration = Duration::from_secs(30);

/// Facts about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the facts are independent of each other")]
pub struct OperationSpec {
    /// Name in the event `session.failed` and in metrics, from a closed set: an operation that reads a page is an `extract`, one that loads
    /// a page is a `navigate`, and one that fits no other name is `unknown`.
    pub kind: &'static str,
    /// End of its route, after the session. `None` for an operation that only the service itself runs, or whose route has another
    /// operation with other facts.
    pub route: Option<&'static str>,
    pub usage: Option<UsageKind>,
    /// True when an equal second request has no further effect.
    pub retryable: bool,
    /// True when a session that a challenge pauses accepts it (contract: challenges 6).
    pub allowed_while_paused: bool,
    /// True when a session whose page shows a dialog accepts it (contract: operations 47).
    pub allowed_with_dialog: bool,
    /// True when the session may show another page afterwards.
    pub may_load: bool,
}

impl OperationSpec {
    /// An operation that reads the page and leaves it as it is.
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

    /// Facts about this operation, where they depend on the parameters.
    fn spec(&self) -> OperationSpec {
        Self::SPEC
    }

    /// Time that the operation may take, browser work included.
    fn budget(&self) -> Duration {
        READ_BUDGET
    }

    /// Result when a dialog that is held open ends the operation early. `None` for an operation that has no such result.
    fn interrupted(&self, _: Interruption) -> Option<OperationResult> {
        None
    }

    /// Removes the texts that must not be stored in clear, so that they can be sealed.
    fn take_secrets(&mut self) -> Option<Secrets> {
        None
    }

    /// Puts back the texts that [`Parameters::take_secrets`] removed.
    fn restore_secrets(&mut self, _: Secrets) {}
}

/// Members of a result for dialogs: those that were answered, and the one that is open.
pub type DialogMembers<'a> = (&'a mut Vec<AnsweredDialog>, &'a mut Option<OpenDialog>);

pub trait OperationOutput: Serialize {
    /// Approximate number of bytes that a page has put into it. Other members, such as addresses, are bounded.
    fn weight(&self) -> usize {
        0
    }

    /// Members for dialogs. `None` for a result without them.
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

/// Texts that must not be stored in clear.
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
    pub(crate) fn of_headers(values: Vec<String>) -> Self {
        Self { header_values: Some(values), ..Self::default() }
    }

    pub(crate) fn into_header_values(self) -> Vec<String> {
        self.header_values.unwrap_or_default()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum UsageKind {
    /// Minute of a live session.
    SessionMinute,
    Navigate,
    Interact,
    Wait,
    StateCapture,
    ScreenshotCapture,
}
