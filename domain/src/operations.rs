//! Operations of a browser and their results: one file for each kind of operation, with the types of both.
//!
//! Operations are parsed once (contract: operations), so a value of these types proves that its bounds were checked. Only the
//! engine can tell later if a selector or a key exists. Results are stored and returned by `operations/results.rs`.

mod capture;
mod extract;
mod forms;
mod interact;
pub mod locate;
mod locators;
mod navigate;
mod outcome;
mod results;
mod snapshot;
mod state;
mod wait;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::capture::{Capture, CaptureKind, Captured, Encoding};
pub use self::extract::{Extract, Extracted, Extraction, SubExtraction, Take, Transform};
pub use self::forms::{Login, LoginResult, Search, SearchResult, parse_form_timeout, require_selectors};
pub use self::interact::{Action, ActionKind, Interact, Interacted, KEY_TAKES};
pub use self::locate::{Locate, LocateBy, Located, Match, SubmissionHeld};
pub use self::locators::{Candidate, Element, MOST_CANDIDATES, ROLES, Target};
pub use self::navigate::{BrowserUrl, Navigate, Navigated, WaitUntil};
pub use self::outcome::{Failure, FailureClass, Outcome};
pub use self::results::{OperationResult, StoredResult};
pub use self::snapshot::{PageSnapshot, Snapshot};
pub use self::state::{Cookie, PageError, PageErrorKind, PageStanding, PageState, SessionState};
pub use self::wait::{Condition, ConditionKind, Wait, Waited};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// One operation on one session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Load a page.
    Navigate(Navigate),
    /// Tap, type, select, scroll, press a key, go back or reload.
    Interact(Interact),
    /// Wait for a condition.
    Wait(Wait),
    /// Read the state.
    StateCapture,
    /// Capture a screenshot, the DOM or a PDF.
    Capture(Capture),
    /// Extract values from the page.
    Extract(Extract),
    /// Take a snapshot of the page.
    Snapshot(Snapshot),
    /// Find the elements that a query matches.
    Locate(Locate),
    /// Hold back form submissions that no person has approved, and report if one was held. Internal to agent sessions: no route
    /// offers it.
    Hold,
    /// Fill in and submit a search form.
    Search(Search),
    /// Fill in and submit a login form.
    Login(Login),
}

impl Operation {
    /// Name of the operation in `session.failed` and in usage. The names are a closed set: every read of a page is an extraction,
    /// and every page load a navigation.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Navigate(_) => "navigate",
            Self::Interact(interact) if interact.action.navigates() => "navigate",
            Self::Interact(_) => "interact",
            Self::Wait(_) => "wait",
            Self::StateCapture => "state_capture",
            Self::Capture(_) => "capture",
            Self::Extract(_) | Self::Snapshot(_) | Self::Locate(_) | Self::Hold => "extract",
            Self::Search(_) => "search",
            Self::Login(_) => "login",
        }
    }

    /// True if a session that a challenge pauses accepts the operation (contract: challenges 6): operations that show the page to
    /// a person, and manual input. No other place decides this.
    #[must_use]
    pub fn goes_on_while_paused(&self) -> bool {
        match self {
            Self::StateCapture | Self::Capture(_) => true,
            Self::Navigate(_)
            | Self::Interact(_)
            | Self::Wait(_)
            | Self::Extract(_)
            | Self::Snapshot(_)
            | Self::Locate(_)
            | Self::Hold
            | Self::Search(_)
            | Self::Login(_) => false,
        }
    }

    /// True if the operation may load another page.
    #[must_use]
    pub fn may_load(&self) -> bool {
        matches!(self, Self::Navigate(_) | Self::Interact(_) | Self::Search(_) | Self::Login(_))
    }

    /// Maximum time of the operation, browser work included.
    #[must_use]
    pub fn budget(&self) -> Duration {
        match self {
            Self::Navigate(navigate) => navigate.timeout,
            Self::Interact(interact) => interact.timeout,
            Self::Wait(wait) => wait.timeout,
            Self::Search(search) => search.work,
            Self::Login(login) => login.work,
            Self::StateCapture
            | Self::Capture(_)
            | Self::Extract(_)
            | Self::Snapshot(_)
            | Self::Locate(_)
            | Self::Hold => READ_BUDGET,
        }
    }

    /// Takes out the texts that must not be stored in plain text, to seal them separately.
    ///
    /// Only the page knows if a field is a password field, so every typed text counts as a secret.
    #[must_use]
    pub fn take_secrets(&mut self) -> Option<Secrets> {
        match self {
            Self::Interact(Interact { action: Action::Type { text, .. }, .. }) => {
                Some(Secrets { typed: Some(std::mem::take(text)), ..Secrets::default() })
            }
            Self::Login(login) => Some(Secrets {
                username: Some(std::mem::take(&mut login.username)),
                password: Some(std::mem::take(&mut login.password)),
                ..Secrets::default()
            }),
            _ => None,
        }
    }

    /// Puts back the texts that [`Operation::take_secrets`] took out.
    pub fn restore_secrets(&mut self, secrets: Secrets) {
        match self {
            Self::Interact(Interact { action: Action::Type { text, .. }, .. }) => {
                *text = secrets.typed.unwrap_or_default();
            }
            Self::Login(login) => {
                login.username = secrets.username.unwrap_or_default();
                login.password = secrets.password.unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// Maximum time of a read, which no caller can change. A PDF of a very large page needs it.
const READ_BUDGET: Duration = Duration::from_secs(30);

/// Texts that must not be stored in plain text.
#[derive(Default, Serialize, Deserialize)]
pub struct Secrets {
    #[serde(skip_serializing_if = "Option::is_none")]
    typed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// Outcome of an interaction or a wait that times out (contract: operations 3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// Return 504 and error the session.
    #[default]
    Fail,
    /// Return 200 with a negative result and keep the session.
    Return,
}

/// Validates the caller's timeout.
///
/// # Errors
/// On `timeout_ms`.
pub fn parse_timeout(timeout_ms: Option<u64>, default: Duration, limits: &Limits) -> Result<Duration, Invalid> {
    let Some(ms) = timeout_ms else { return Ok(default) };
    let timeout = Duration::from_millis(ms);
    if (limits.min_timeout..=limits.max_timeout).contains(&timeout) {
        return Ok(timeout);
    }
    let (min, max) = (limits.min_timeout.as_millis(), limits.max_timeout.as_millis());
    Err(Invalid::field("timeout_ms", format!("must be {min} to {max}")))
}

fn require_selector(rules: &mut Rules, selector: &str, limits: &Limits, field: &str) {
    rules.require(!selector.trim().is_empty(), field, "must not be empty");
    rules.length(selector, 0, limits.selector_chars, field);
}
