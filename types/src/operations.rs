//! Operations of a session and their results, one file for each.
//!
//! A value of one of these types proves that its bounds were checked (contract: operations). Only the engine can tell
//! later whether a selector or a key exists. `operations/results.rs` describes the path of a result.

mod capture;
mod cookies;
mod describe;
mod dialogs;
mod emulate;
mod evaluate;
mod extract;
mod forms;
mod interact;
mod keys;
pub mod locate;
mod locators;
mod navigate;
mod outcome;
mod pages;
mod results;
mod snapshot;
mod spec;
mod state;
mod wait;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::capture::{
    Capture, CaptureKind, CaptureOptions, CaptureResult, CaptureScale, Captured, Encoding, ImageFormat, Margins, Paper,
    PdfLayout,
};
pub use self::cookies::{
    BrowserCookie, BrowserCookies, CookieParams, CookiesChanged, DeleteCookies, GetCookies, SameSite, SetCookies,
};
pub use self::describe::{OperationDescription, OperationOutcome};
pub use self::dialogs::{AnsweredDialog, DialogPolicy, DialogType, Interruption, OpenDialog};
pub use self::emulate::{Change, Emulate};
pub use self::evaluate::{Evaluate, Evaluated, ScriptException, ScriptValue};
pub use self::extract::{Extract, Extracted, Extraction, SubExtraction, Take, Transform};
pub use self::forms::{Login, LoginResult, Search, SearchResult, parse_form_timeout, require_selectors};
pub use self::interact::{
    Action, ActionKind, DEFAULT_DRAG_MS, Direction, DragCourse, Interact, Interacted, KEY_TAKES, Obstacle, Point,
    PointerKind,
};
pub use self::locate::{Hold, Locate, LocateBy, Located, Match, SubmissionHeld};
pub use self::locators::{Candidate, Element, MAX_CANDIDATES, ROLES, Target, member_of};
pub use self::navigate::{BrowserUrl, Navigate, Navigated, OnFailure, WaitUntil};
pub use self::outcome::{Failure, FailureClass, Outcome, Refusal};
pub use self::pages::{ActivatePage, BrowserPage, BrowserPages, ClosePage, ListPages, OpenPage, PageClosed};
pub use self::results::{EarlyEnd, StoredResult};
pub use self::snapshot::{PageSnapshot, Snapshot};
pub use self::spec::{DialogMembers, OperationOutput, OperationSpec, Parameters, Secrets, UsageKind};
pub use self::state::{Cookie, PageError, PageErrorKind, PageStanding, PageState, SessionState, StateCapture};
pub use self::wait::{Condition, ConditionKind, PageResponse, ScriptText, Wait, WaitException, Waited};
use crate::emulation::EmulationState;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// Declares all operations: the variant of both enums, the parameters and the result.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($parameters:ty) -> $output:ty;)+) => {
        /// One operation on one session.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[serde(tag = "operation", rename_all = "snake_case")]
        pub enum Operation {
            $($(#[$doc])* $name($parameters),)+
        }

        /// Result of an operation that was done. As JSON it is only its members: the reader knows the operation.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum OperationResult {
            $($(#[$doc])* $name($output),)+
            /// A dialog that is held open ended an operation whose own result cannot say so.
            EndedEarly(EarlyEnd),
        }

        impl Operation {
            /// Facts about every operation.
            pub const SPECS: &[OperationSpec] = &[$(<$parameters as Parameters>::SPEC),+];

            /// Facts about this operation.
            #[must_use]
            pub fn spec(&self) -> OperationSpec {
                match self { $(Self::$name(parameters) => parameters.spec(),)+ }
            }

            /// Time that the operation may take, browser work included.
            #[must_use]
            pub fn budget(&self) -> Duration {
                match self { $(Self::$name(parameters) => parameters.budget(),)+ }
            }

            /// Result when a dialog that is held open ends the operation early. `None` for an operation that has no such result.
            #[must_use]
            pub fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
                match self { $(Self::$name(parameters) => parameters.interrupted(by),)+ }
            }

            /// Removes the texts that must not be stored in clear, so that they can be sealed.
            ///
            /// Only the page knows which field is a password field, so every typed text is a secret.
            #[must_use]
            pub fn take_secrets(&mut self) -> Option<Secrets> {
                match self { $(Self::$name(parameters) => parameters.take_secrets(),)+ }
            }

            /// Puts back the texts that [`Operation::take_secrets`] removed.
            pub fn restore_secrets(&mut self, secrets: Secrets) {
                match self { $(Self::$name(parameters) => parameters.restore_secrets(secrets),)+ }
            }
        }

        impl OperationOutput for OperationResult {
            fn weight(&self) -> usize {
                match self {
                    $(Self::$name(output) => output.weight(),)+
                    Self::EndedEarly(output) => output.weight(),
                }
            }

            fn into_content(self) -> Option<Vec<u8>> {
                match self {
                    $(Self::$name(output) => output.into_content(),)+
                    Self::EndedEarly(output) => output.into_content(),
                }
            }

            fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
                match self {
                    $(Self::$name(output) => output.dialogs_mut(),)+
                    Self::EndedEarly(output) => output.dialogs_mut(),
                }
            }
        }
    };
}

operations! {
    /// Loads a page.
    Navigate(Navigate) -> Navigated;
    /// Taps, types, selects, scrolls, presses a key, answers a dialog, goes back or reloads.
    Interact(Interact) -> Interacted;
    /// Waits for a condition.
    Wait(Wait) -> Waited;
    /// Reads the state.
    StateCapture(StateCapture) -> SessionState;
    /// Takes a screenshot, the DOM or a PDF.
    Capture(Capture) -> CaptureResult;
    /// Reads values from the page.
    Extract(Extract) -> Extracted;
    /// Reads the accessibility tree of the page.
    Snapshot(Snapshot) -> PageSnapshot;
    /// Lists the pages.
    ListPages(ListPages) -> BrowserPages;
    /// Opens a page.
    OpenPage(OpenPage) -> BrowserPage;
    /// Makes a page the active one.
    ActivatePage(ActivatePage) -> BrowserPage;
    /// Closes a page.
    ClosePage(ClosePage) -> PageClosed;
    /// Changes the emulation.
    Emulate(Emulate) -> EmulationState;
    /// Runs a script.
    Evaluate(Evaluate) -> Evaluated;
    /// Reads the cookies.
    GetCookies(GetCookies) -> BrowserCookies;
    /// Adds or replaces cookies.
    SetCookies(SetCookies) -> CookiesChanged;
    /// Deletes cookies.
    DeleteCookies(DeleteCookies) -> CookiesChanged;
    /// Finds the elements that a description matches.
    Locate(Locate) -> Located;
    /// Holds submissions that nothing has approved, and reports held ones.
    Hold(Hold) -> SubmissionHeld;
    /// Fills in and submits a search form.
    Search(Search) -> SearchResult;
    /// Fills in and submits a login form.
    Login(Login) -> LoginResult;
}

/// Outcome of a navigation, an interaction or a wait that times out (contract: operations 3).
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
