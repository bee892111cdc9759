//! User actions: tapping, typing, selecting, scrolling, pressing keys, going back and reloading.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{Element, OnTimeout, OperationOutput, OperationSpec, Parameters, Secrets, UsageKind, parse_timeout};
use crate::files::{FileName, MOST_FILES, UploadedFile};
use crate::ids::UploadId;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

/// `POST /v1/sessions/:id/interact`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interact {
    /// Action to perform.
    pub action: Action,
    /// Time limit of the action.
    pub timeout: Duration,
    /// Outcome of a timeout.
    pub on_timeout: OnTimeout,
    /// True to hold back form submissions until another interaction allows them. Internal to agent sessions: no caller can set
    /// it.
    #[serde(default)]
    pub hold_submissions: bool,
    /// True if the customer has approved the interaction. One form may then be submitted although submissions are held, or an
    /// earlier submission repeated.
    #[serde(default)]
    pub approved: bool,
    /// True if the action was already performed and only its held submission is to be released now.
    #[serde(default)]
    pub release_submission: bool,
}

/// A user action.
#[derive(Debug, Clone, Serialize, Deserialize, strum::EnumDiscriminants)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum_discriminants(name(ActionKind), derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
#[strum_discriminants(doc = "Kind of an action.")]
pub enum Action {
    /// Tap on an element, or on a point of the viewport.
    Tap {
        /// Element to tap. `None` only together with `at`.
        element: Option<Element>,
        /// Point to tap, from the top left corner of the element or of the viewport. `None` for any point of the element.
        at: Option<Point>,
    },
    /// Type text into an element.
    Type {
        /// Element to type into.
        element: Element,
        /// Text, sealed during transfer whatever `sensitive` says.
        text: String,
        /// Milliseconds between keys; `None` uses the behavioral profile.
        delay_ms: Option<u64>,
        /// True to keep the text out of all logs.
        sensitive: bool,
    },
    /// Replace the content of a field.
    Fill {
        /// Field to fill.
        element: Element,
        /// New content, sealed during transfer. Fields with a picker take values in the form of HTML.
        value: String,
    },
    /// Scroll the page or a scrollable element.
    Scroll {
        /// Element to scroll; `None` scrolls the page.
        element: Option<Element>,
        /// CSS pixels to the right.
        delta_x: i32,
        /// CSS pixels down.
        delta_y: i32,
    },
    /// Press a key.
    Press {
        /// Character, or key name such as `Enter`.
        key: String,
    },
    /// Select an option of a `<select>` element.
    Select {
        /// The `<select>` element.
        element: Element,
        /// Value or label of the option.
        option: String,
    },
    /// Give files to a file input, or to the file chooser that an element opens.
    Upload {
        /// File input, or element that opens a chooser when it is tapped. `None` for the chooser that the last tap has opened.
        element: Option<Element>,
        /// ID by which the worker knows the files.
        upload: UploadId,
        /// The files, which an API process sends to the worker before it stores the operation.
        #[serde(skip)]
        files: Vec<UploadedFile>,
        /// Name of a file that is attached to the session, instead of files of this request. Internal to agent sessions: no
        /// caller can set it.
        #[serde(default)]
        attached: Option<FileName>,
    },
    /// Go back to the previous page, as the browser's back button does.
    Back,
    /// Go forward to the next page, as the browser's forward button does.
    Forward,
    /// Reload the page.
    Reload,
}

/// Point in CSS pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Point", example = json!({"x": 10, "y": 10}))]
#[allow(missing_docs, reason = "a field without a description needs none in the contract")]
pub struct Point {
    #[schema(minimum = 0)]
    pub x: f64,
    #[schema(minimum = 0)]
    pub y: f64,
}

/// Reason why an action was not performed
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the contract describes the values")]
pub enum Obstacle {
    NotFound,
    NotVisible,
    Covered,
    Disabled,
    Moving,
    NotEditable,
    Outside,
    NoOption,
}

impl Action {
    /// Kind of the action.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        self.into()
    }

    /// True if the action touches a control, which can submit its form. Scrolling and loading pages cannot submit a form.
    #[must_use]
    pub fn touches(&self) -> bool {
        !self.navigates() && !matches!(self, Self::Scroll { .. })
    }

    /// True if the action loads a page and therefore counts as a navigation (contract: usage 7).
    #[must_use]
    pub fn navigates(&self) -> bool {
        matches!(self, Self::Back | Self::Forward | Self::Reload)
    }

    /// Default timeout: that of a navigation for going back and reloading, otherwise 10 s. Typing adds time for each character.
    ///
    /// # Errors
    /// On `action.delay_ms`, if the delays alone exceed the maximum timeout.
    fn default_timeout(&self, limits: &Limits) -> Result<Duration, Invalid> {
        if self.navigates() {
            return Ok(NAVIGATE_TIMEOUT);
        }
        let (text, delay_ms) = match self {
            Self::Type { text, delay_ms, .. } => (text, *delay_ms),
            Self::Fill { value, .. } => (value, None),
            _ => return Ok(INTERACT_TIMEOUT),
        };
        let keys = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let pauses = Duration::from_millis(delay_ms.unwrap_or_default()).saturating_mul(keys);
        if pauses > limits.max_timeout {
            let max = limits.max_timeout.as_millis();
            let message = format!("must allow {keys} characters to be typed within {max} ms, the maximum timeout");
            return Err(Invalid::field("action.delay_ms", message));
        }
        let typing = pauses.saturating_add(KEY_TAKES.saturating_mul(keys));
        Ok(INTERACT_TIMEOUT.saturating_add(typing).min(limits.max_timeout.max(INTERACT_TIMEOUT)))
    }
}

/// Outcome of an interaction
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "a field without a description needs none in the contract")]
#[allow(clippy::struct_excessive_bools, reason = "the members are independent of each other")]
pub struct Interacted {
    /// False only if the action timed out with `on_timeout: return`
    pub ok: bool,
    /// Kind of the action
    #[schema(value_type = String)]
    pub kind: ActionKind,
    pub duration_ms: u64,
    /// Address of the page after the action
    pub url: String,
    /// With `ok: false`, the reason, if it is known: no element matches, or the element is not visible, covered by another one,
    /// disabled, moving, not editable, outside of the part of the page that can be scrolled to, or has no such option
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Obstacle>,
    /// With `ok: false`, true if the page has received input, such as a part of the text
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivered: Option<bool>,
    /// True if the action would have submitted a form and the submission was held: see [`Interact::hold_submissions`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub submission_held: bool,
    /// True if the held submission is a request of a script, so that an approval must repeat the action.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub request_held: bool,
    /// True if the page tried to submit a form by itself and the submission was held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub page_submission_held: bool,
}

/// Default timeout of a page load.
pub(super) const NAVIGATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Default timeout of other interactions, without the time for typing.
const INTERACT_TIMEOUT: Duration = Duration::from_secs(10);

/// Additional time for each key on a busy machine, besides the delay between keys.
pub const KEY_TAKES: Duration = Duration::from_millis(5);

impl Parameters for Interact {
    const SPEC: OperationSpec = OperationSpec {
        kind: "interact",
        route: Some("interact"),
        usage: Some(UsageKind::Interact),
        ..OperationSpec::ACTS
    };

    fn spec(&self) -> OperationSpec {
        if self.action.navigates() {
            return OperationSpec { kind: "navigate", usage: Some(UsageKind::Navigate), ..Self::SPEC };
        }
        Self::SPEC
    }

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let (Action::Type { text, .. } | Action::Fill { value: text, .. }) = &mut self.action else { return None };
        Some(Secrets { typed: Some(std::mem::take(text)), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        if let Action::Type { text, .. } | Action::Fill { value: text, .. } = &mut self.action {
            *text = secrets.typed.unwrap_or_default();
        }
    }
}

impl OperationOutput for Interacted {}

impl Interact {
    /// # Errors
    /// On `timeout_ms` or a field of `action`.
    pub fn parse(
        action: Action,
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        match &action {
            Action::Tap { element, at } => {
                if let Some(element) = element {
                    require_element(&mut rules, element, limits, "action");
                }
                let is_point = |at: &Point| [at.x, at.y].iter().all(|side| side.is_finite() && *side >= 0.0);
                rules.require(at.as_ref().is_none_or(is_point), "action.at", "must be a point of 0 or more CSS pixels");
            }
            Action::Fill { element, value } => {
                require_element(&mut rules, element, limits, "action");
                rules.length(value, 0, limits.type_text_chars, "action.value");
            }
            Action::Type { element, text, delay_ms, .. } => {
                require_element(&mut rules, element, limits, "action");
                rules.length(text, 0, limits.type_text_chars, "action.text");
                let max = limits.type_delay_ms;
                rules.require(delay_ms.is_none_or(|ms| ms <= max), "action.delay_ms", format!("must be 0 to {max}"));
            }
            Action::Scroll { element, .. } => {
                if let Some(element) = element {
                    require_element(&mut rules, element, limits, "action");
                }
            }
            Action::Press { key } => rules.length(key, 1, limits.press_key_chars, "action.key"),
            Action::Select { element, option } => {
                require_element(&mut rules, element, limits, "action");
                rules.length(option, 0, limits.locator_chars, "action.option");
            }
            Action::Upload { element, files, attached, .. } => {
                if let Some(element) = element {
                    require_element(&mut rules, element, limits, "action");
                }
                let message = format!("must be 1 to {MOST_FILES} files");
                let has_files = attached.is_some() || (1..=MOST_FILES).contains(&files.len());
                rules.require(has_files, "action.files", message);
            }
            Action::Back | Action::Forward | Action::Reload => {}
        }
        let default = action.default_timeout(limits);
        let timeout = parse_timeout(timeout_ms, INTERACT_TIMEOUT, limits);
        let ((), (default, timeout)) = both(rules.check(), both(default, timeout))?;
        let timeout = if timeout_ms.is_some() { timeout } else { default };
        Ok(Self { action, timeout, on_timeout, hold_submissions: false, approved: false, release_submission: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_time_that_it_takes_to_type() {
        let timeout = |chars: usize, delay_ms, timeout_ms| {
            let (element, text) = ("#a".to_owned().into(), "x".repeat(chars));
            let action = Action::Type { element, text, delay_ms, sensitive: false };
            let parsed = Interact::parse(action, timeout_ms, OnTimeout::Fail, &Limits::default());
            parsed.map(|interact| interact.timeout).map_err(|Invalid(errors)| errors[0].field.clone())
        };
        assert_eq!(timeout(0, None, None), Ok(Duration::from_secs(10)));
        assert_eq!(timeout(100, Some(100), None), Ok(Duration::from_millis(20_500)));
        assert_eq!(timeout(10_000, None, None), Ok(Duration::from_mins(1)));
        assert_eq!(timeout(10_000, Some(10), None), Ok(Duration::from_mins(2)));
        assert_eq!(timeout(10_000, None, Some(3_000)), Ok(Duration::from_secs(3)));
        for named in [None, Some(120_000)] {
            assert_eq!(timeout(10_000, Some(13), named), Err("action.delay_ms".to_owned()));
        }
    }
}
