//! Waiting for a condition.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{
    AnsweredDialog, DialogMembers, Element, Interruption, OnTimeout, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, Parameters, UsageKind, parse_timeout,
};
use crate::files::DownloadRef;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

/// `POST /v1/sessions/:id/wait`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wait {
    /// Condition to wait for.
    pub condition: Condition,
    /// Time limit of the wait.
    pub timeout: Duration,
    /// Outcome of a timeout.
    pub on_timeout: OnTimeout,
}

/// Condition to wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// An element is visible.
    Selector {
        /// Element query.
        element: Element,
    },
    /// No element matches, or the match is invisible.
    SelectorHidden {
        /// Element query.
        element: Element,
    },
    /// The page's address matches a pattern.
    UrlMatches {
        /// Regular expression, which may match anywhere in the address: see [`crate::patterns::Pattern`].
        pattern: String,
    },
    /// A period of time.
    Time {
        /// Milliseconds.
        ms: u64,
    },
    /// A page that was opened since the previous operation began.
    Page,
    /// A download has begun since the previous operation began, and has ended or takes long.
    Download,
}

impl Condition {
    /// Kind of the condition.
    #[must_use]
    pub fn kind(&self) -> ConditionKind {
        match self {
            Self::Selector { .. } => ConditionKind::Selector,
            Self::SelectorHidden { .. } => ConditionKind::SelectorHidden,
            Self::UrlMatches { .. } => ConditionKind::UrlMatches,
            Self::Time { .. } => ConditionKind::Time,
            Self::Page => ConditionKind::Page,
            Self::Download => ConditionKind::Download,
        }
    }
}

impl Parameters for Wait {
    const SPEC: OperationSpec =
        OperationSpec { kind: "wait", route: Some("wait"), usage: Some(UsageKind::Wait), ..OperationSpec::READS };

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let Interruption { dialog, dialogs, url, duration_ms } = by;
        let kind = self.condition.kind();
        let dialog = Some(dialog);
        Some(OperationResult::Wait(Waited { matched: false, kind, duration_ms, url, dialogs, dialog, download: None }))
    }
}

impl OperationOutput for Waited {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

impl Wait {
    /// # Errors
    /// On `timeout_ms` or a field of `condition`.
    pub fn parse(
        condition: Condition,
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        let mut default_timeout = Duration::from_secs(30);
        match &condition {
            Condition::Selector { element } | Condition::SelectorHidden { element } => {
                require_element(&mut rules, element, limits, "condition");
            }
            // The pattern is compiled only for a caller with a ready session: see `patterns.rs`.
            Condition::UrlMatches { pattern } => rules.length(pattern, 0, limits.pattern_chars, "condition.pattern"),
            Condition::Time { ms } => {
                let max = limits.max_time_wait.as_millis();
                rules.require(u128::from(*ms) <= max, "condition.ms", format!("must be 0 to {max}"));
                default_timeout = Duration::from_millis((*ms).min(u64::from(u32::MAX))) + Duration::from_secs(5);
            }
            Condition::Page | Condition::Download => {}
        }
        let ((), timeout) = both(rules.check(), parse_timeout(timeout_ms, default_timeout, limits))?;
        Ok(Self { condition, timeout, on_timeout })
    }
}

/// Kind of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionKind {
    /// [`Condition::Selector`]
    Selector,
    /// [`Condition::SelectorHidden`]
    SelectorHidden,
    /// [`Condition::UrlMatches`]
    UrlMatches,
    /// [`Condition::Time`]
    Time,
    /// [`Condition::Page`]
    Page,
    /// [`Condition::Download`]
    Download,
}

/// Outcome of a wait
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"matched": true, "kind": "selector", "duration_ms": 412, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "a field without a description needs none in the contract")]
pub struct Waited {
    /// False only if the wait timed out with `on_timeout: return`, or if a dialog ended it
    pub matched: bool,
    /// Kind of the condition
    #[schema(value_type = String)]
    pub kind: ConditionKind,
    pub duration_ms: u64,
    /// Address of the page after the wait
    pub url: String,
    /// Download that was waited for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub download: Option<DownloadRef>,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}
