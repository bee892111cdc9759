//! Filling in forms whose fields are detected automatically: search and login.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AnsweredDialog, DialogMembers, EarlyEnd, Interruption, OpenDialog, OperationOutput, OperationResult, OperationSpec,
    Parameters, Secrets,
};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    pub query: String,
    /// Detected automatically if `None`.
    pub search_selector: Option<String>,
    pub submit: bool,
    pub wait_for_results_selector: Option<String>,
    /// Time limit for finding the fields, and for the results to appear.
    pub step_timeout: Duration,
    pub work: Duration,
}

impl Parameters for Search {
    const SPEC: OperationSpec = OperationSpec { kind: "search", route: Some("search"), ..OperationSpec::ACTS };

    fn budget(&self) -> Duration {
        self.work
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let known = [("duration_ms", by.duration_ms.into())];
        Some(EarlyEnd::result(&["submitted", "query_truncated"], &known, by))
    }
}

impl OperationOutput for SearchResult {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

/// Outcome of a search
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"submitted": true, "query_truncated": false, "results_visible": true, "duration_ms": 1240}))]
pub struct SearchResult {
    #[schema(value_type = Option<bool>, required = true)]
    pub submitted: bool,
    /// True if typing reached its safety limit; nothing was submitted then
    #[schema(value_type = Option<bool>, required = true)]
    pub query_truncated: bool,
    /// True if the element of `wait_for_results_selector` appeared in time; absent without that selector
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub results_visible: Option<bool>,
    pub duration_ms: u64,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    /// then null
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// Sealed during transfer.
    pub username: String,
    /// Sealed during transfer.
    pub password: String,
    pub success_selector: Option<String>,
    pub username_selector: Option<String>,
    pub password_selector: Option<String>,
    pub submit_selector: Option<String>,
    /// Time limit for finding the fields, and for the outcome to show.
    pub step_timeout: Duration,
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

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let known = [("duration_ms", by.duration_ms.into())];
        Some(EarlyEnd::result(&["submitted", "credentials_truncated", "logged_in"], &known, by))
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

impl OperationOutput for LoginResult {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

/// Outcome of a login
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"submitted": true, "credentials_truncated": false, "logged_in": true,
    "post_login_url": "https://example.com/home", "duration_ms": 2310}))]
pub struct LoginResult {
    #[schema(value_type = Option<bool>, required = true)]
    pub submitted: bool,
    /// True if typing reached its safety limit; nothing was submitted then
    #[schema(value_type = Option<bool>, required = true)]
    pub credentials_truncated: bool,
    /// True if the login appears to have worked; an estimate, not proof
    #[schema(value_type = Option<bool>, required = true)]
    pub logged_in: bool,
    /// Address after the login; absent if nothing was submitted
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub post_login_url: Option<String>,
    pub duration_ms: u64,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    /// then null
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}

pub fn require_selectors<const N: usize>(rules: &mut Rules, selectors: [(&str, &Option<String>); N], limits: &Limits) {
    for (field, selector) in selectors {
        rules.length(selector.as_deref().unwrap_or_default(), 0, limits.selector_chars, field);
    }
}

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
