//! Filling in forms that are found by their looks: search and login.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{OperationOutput, OperationSpec, Parameters, Secrets};
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

impl Parameters for Search {
    const SPEC: OperationSpec = OperationSpec { kind: "search", route: Some("search"), ..OperationSpec::ACTS };

    fn budget(&self) -> Duration {
        self.work
    }
}

impl OperationOutput for SearchResult {}

/// What became of a search
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"submitted": true, "query_truncated": false, "results_visible": true, "duration_ms": 1240}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct SearchResult {
    pub submitted: bool,
    /// True when typing hit its safety bound; then nothing was submitted
    pub query_truncated: bool,
    /// With `wait_for_results_selector`: whether it showed in time
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub results_visible: Option<bool>,
    pub duration_ms: u64,
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

impl Parameters for Login {
    const SPEC: OperationSpec = OperationSpec { kind: "login", route: Some("login"), ..OperationSpec::ACTS };

    fn budget(&self) -> Duration {
        self.work
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let (username, password) = (std::mem::take(&mut self.username), std::mem::take(&mut self.password));
        Some(Secrets { username: Some(username), password: Some(password), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        self.username = secrets.username.unwrap_or_default();
        self.password = secrets.password.unwrap_or_default();
    }
}

impl OperationOutput for LoginResult {}

/// What became of a login
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"submitted": true, "credentials_truncated": false, "logged_in": true,
    "post_login_url": "https://example.com/home", "duration_ms": 2310}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct LoginResult {
    pub submitted: bool,
    /// True when typing hit its safety bound; then nothing was submitted
    pub credentials_truncated: bool,
    /// An assessment, not proof
    pub logged_in: bool,
    /// Absent when nothing was submitted
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub post_login_url: Option<String>,
    pub duration_ms: u64,
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
