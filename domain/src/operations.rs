//! What a browser can be told to do, and what comes of it: a file a kind of operation, with the types of both.
//!
//! Operations are parsed once (contract: operations): whoever holds one of these types holds the proof that its bounds were
//! checked. Whether a selector or a key exists only the engine can tell, later. What becomes of their results,
//! `operations/results.rs` tells.

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
    /// Tap, type, choose, scroll, press, go back or load anew.
    Interact(Interact),
    /// Wait for a condition.
    Wait(Wait),
    /// Read the state.
    StateCapture,
    /// Take a screenshot, the DOM or a PDF.
    Capture(Capture),
    /// Read values out of the page.
    Extract(Extract),
    /// Read what the page shows.
    Snapshot(Snapshot),
    /// Find out which elements are meant.
    Locate(Locate),
    /// Hold back what nobody has approved of, and tell whether that has happened. For those who act for a customer: there is no route.
    Hold,
    /// Fill in and submit a search form.
    Search(Search),
    /// Fill in and submit a login form.
    Login(Login),
}

impl Operation {
    /// As `session.failed` names it and usage counts it. Those names are a closed set: what reads a page is an extraction, and
    /// what loads one a navigation, however it was asked for.
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

    /// Whether a session that is paused by a challenge takes it (contract: challenges 6): what shows the page to a person, and what a
    /// person does to it by hand. This is the one place that says so.
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

    /// Whether another page may be shown when it is done.
    #[must_use]
    pub fn may_load(&self) -> bool {
        matches!(self, Self::Navigate(_) | Self::Interact(_) | Self::Search(_) | Self::Login(_))
    }

    /// How long the operation may take in all, browser work included.
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

    /// Takes the texts that must not be stored in clear, to be sealed apart.
    ///
    /// Whether a field is a password field only the page knows, so every typed text counts as one.
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

    /// Puts back what [`Operation::take_secrets`] took.
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

/// The time reads of a page may take; the contract lets no caller choose it. A PDF of a monstrous page needs it.
const READ_BUDGET: Duration = Duration::from_secs(30);

/// What must not be stored in clear.
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

/// What happens when an interaction or a wait runs out of its time (contract: operations 3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// 504, and the session errors.
    #[default]
    Fail,
    /// 200 that says it did not happen, and the session stays.
    Return,
}

/// The time that an operation's caller gives it.
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
