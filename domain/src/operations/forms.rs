//! Filling in forms that are found by their looks: search and login.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// `POST /v1/sessions/:id/search`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    /// What to type.
    pub query: String,
    /// CSS; found by its looks when absent.
    pub search_selector: Option<String>,
    /// Whether to submit.
    pub submit: bool,
    /// CSS that shows the results are there.
    pub wait_for_results_selector: Option<String>,
    /// How long to look for the fields, and for the results.
    pub step_timeout: Duration,
    /// All of the browser work.
    pub work: Duration,
}

/// `POST /v1/sessions/:id/login`
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// Sealed on its way.
    pub username: String,
    /// Sealed on its way.
    pub password: String,
    /// CSS that shows the login worked.
    pub success_selector: Option<String>,
    /// CSS; found by its looks when absent.
    pub username_selector: Option<String>,
    /// CSS; found by its looks when absent.
    pub password_selector: Option<String>,
    /// CSS; found by its looks when absent.
    pub submit_selector: Option<String>,
    /// How long to look for the fields, and for the outcome.
    pub step_timeout: Duration,
    /// All of the browser work.
    pub work: Duration,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// What search and login have in common: selectors of the caller's, each of which may be absent.
pub fn require_selectors<const N: usize>(rules: &mut Rules, selectors: [(&str, &Option<String>); N], limits: &Limits) {
    for (field, selector) in selectors {
        rules.length(selector.as_deref().unwrap_or_default(), 0, limits.selector_chars, field);
    }
}

/// And the seconds they are given.
///
/// # Errors
/// On `timeout_seconds`.
pub fn parse_form_timeout(timeout_seconds: Option<u64>, limits: &Limits) -> Result<Duration, Invalid> {
    let Some(seconds) = timeout_seconds else {
        return Ok(limits.default_form_timeout.min(limits.max_form_timeout));
    };
    let max = limits.max_form_timeout.as_secs();
    if (1..=max).contains(&seconds) {
        Ok(Duration::from_secs(seconds))
    } else {
        Err(Invalid::field("timeout_seconds", format!("must be 1 to {max}")))
    }
}
