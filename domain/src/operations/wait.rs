//! Waiting for something to come about.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{OnTimeout, parse_timeout, require_selector};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

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
        /// CSS.
        selector: String,
    },
    /// No element, or an invisible one.
    SelectorHidden {
        /// CSS.
        selector: String,
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
    /// As the caller spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Selector { .. } => "selector",
            Self::SelectorHidden { .. } => "selector_hidden",
            Self::UrlMatches { .. } => "url_matches",
            Self::Time { .. } => "time",
        }
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
            Condition::Selector { selector } | Condition::SelectorHidden { selector } => {
                require_selector(&mut rules, selector, limits, "condition.selector");
            }
            // Whether it is a regular expression is not asked of somebody who has no session: see `patterns.rs`.
            Condition::UrlMatches { pattern } => rules.length(pattern, 0, limits.pattern_chars, "condition.pattern"),
            Condition::Time { ms } => {
                let max = limits.max_time_wait.as_millis();
                rules.require(u128::from(*ms) <= max, "condition.ms", format!("must be 0 to {max}"));
                default_timeout = Duration::from_millis((*ms).min(u64::from(u32::MAX))) + Duration::from_secs(5);
            }
        }
        rules.check()?;
        Ok(Self { condition, timeout: parse_timeout(timeout_ms, default_timeout, limits)?, on_timeout })
    }
}
