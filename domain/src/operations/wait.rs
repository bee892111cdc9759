//! Waiting for something to come about.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{Element, OnTimeout, OperationOutput, OperationSpec, Parameters, parse_timeout};
use crate::limits::Limits;
use crate::usage::Record;
use crate::validation::{Invalid, Rules, both};

/// `POST /v1/sessions/:id/wait`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wait {
    /// What for.
    pub condition: Condition,
    /// Until then.
    pub timeout: Duration,
    /// And when not.
    pub on_timeout: OnTimeout,
}

/// What to wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// An element that is visible.
    Selector {
        /// Which.
        element: Element,
    },
    /// No element, or an invisible one.
    SelectorHidden {
        /// Which.
        element: Element,
    },
    /// The address.
    UrlMatches {
        /// See [`crate::patterns::Pattern`]; found anywhere in the address.
        pattern: String,
    },
    /// Just time.
    Time {
        /// Milliseconds.
        ms: u64,
    },
}

impl Condition {
    /// Which of them it is.
    #[must_use]
    pub fn kind(&self) -> ConditionKind {
        match self {
            Self::Selector { .. } => ConditionKind::Selector,
            Self::SelectorHidden { .. } => ConditionKind::SelectorHidden,
            Self::UrlMatches { .. } => ConditionKind::UrlMatches,
            Self::Time { .. } => ConditionKind::Time,
        }
    }
}

impl Parameters for Wait {
    const SPEC: OperationSpec =
        OperationSpec { kind: "wait", route: Some("wait"), usage: Some(Record::Wait), ..OperationSpec::READS };

    fn budget(&self) -> Duration {
        self.timeout
    }
}

impl OperationOutput for Waited {}

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
            // Whether it is a regular expression is not asked of somebody who has no session: see `patterns.rs`.
            Condition::UrlMatches { pattern } => rules.length(pattern, 0, limits.pattern_chars, "condition.pattern"),
            Condition::Time { ms } => {
                let max = limits.max_time_wait.as_millis();
                rules.require(u128::from(*ms) <= max, "condition.ms", format!("must be 0 to {max}"));
                default_timeout = Duration::from_millis((*ms).min(u64::from(u32::MAX))) + Duration::from_secs(5);
            }
        }
        let ((), timeout) = both(rules.check(), parse_timeout(timeout_ms, default_timeout, limits))?;
        Ok(Self { condition, timeout, on_timeout })
    }
}

/// What a condition is called.
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
}

/// What became of a wait
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"matched": true, "kind": "selector", "duration_ms": 412, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct Waited {
    /// False only with `on_timeout: return`
    pub matched: bool,
    /// The condition's kind
    #[schema(value_type = String)]
    pub kind: ConditionKind,
    pub duration_ms: u64,
    /// The page's address afterwards
    pub url: String,
}
