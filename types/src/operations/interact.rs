use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::keys::require_chord;
use super::locators::require_element;
use super::{
    AnsweredDialog, DialogMembers, Element, Interruption, OnTimeout, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, Parameters, Secrets, UsageKind, parse_timeout,
};
use crate::files::{FileName, MAX_FILES, UploadedFile};
use crate::ids::UploadId;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interact {
    pub action: Action,
    pub timeout: Duration,
    pub on_timeout: OnTimeout,
    /// Holds back form submissions until another interaction allows them. Internal to agent sessions.
    #[serde(default)]
    pub hold_submissions: bool,
    /// The customer has approved the interaction: one form may be submitted although submissions are held, or an
    /// earlier submission repeated.
    #[serde(default)]
    pub approved: bool,
    /// The action was already performed; only its held submission is to be released.
    #[serde(default)]
    pub release_submission: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, strum::EnumDiscriminants)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum_discriminants(name(ActionKind), derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
#[strum_discriminants(doc = "Kind of an action.")]
pub enum Action {
    Tap {
        /// `None` only together with `at`.
        element: Option<Element>,
        /// Point to tap, from the top left corner of the element or of the viewport. `None` for any point of the element.
        at: Option<Point>,
        count: u8,
        hold_ms: Option<u64>,
    },
    /// Move a mouse to an element or a point, without a press.
    Hover {
        element: Option<Element>,
        at: Option<Point>,
    },
    /// Swipe with a finger on the page or an element.
    Swipe {
        element: Option<Element>,
        direction: Direction,
        distance: Option<u32>,
        duration_ms: u64,
    },
    Drag {
        /// `None` only together with a path of the viewport.
        element: Option<Element>,
        course: DragCourse,
        duration_ms: u64,
        pointer: PointerKind,
    },
    Check {
        element: Element,
        checked: bool,
    },
    Clear {
        element: Element,
    },
    Type {
        element: Element,
        /// Sealed during transfer whatever `sensitive` says.
        text: String,
        /// Milliseconds between keys; `None` uses the behavioral profile.
        delay_ms: Option<u64>,
        /// Keeps the text out of all logs.
        sensitive: bool,
    },
    Fill {
        element: Element,
        /// Sealed during transfer. Fields with a picker take values in the form of HTML.
        value: String,
    },
    Scroll {
        /// `None` scrolls the page.
        element: Option<Element>,
        /// CSS pixels to the right.
        delta_x: i32,
        /// CSS pixels down.
        delta_y: i32,
    },
    Press {
        /// Character, or key name such as `Enter`.
        key: String,
    },
    Select {
        element: Element,
        /// Values or labels. Several replace the selection of a menu with multiple selection.
        options: Vec<String>,
        is_list: bool,
    },
    Dialog {
        accept: bool,
        /// Sealed during transfer; `None` for the prompt's default value.
        text: Option<String>,
    },
    /// Give files to a file input, or to the file chooser that an element opens.
    Upload {
        /// `None` for the chooser that the last tap has opened.
        element: Option<Element>,
        /// ID by which the worker knows the files.
        upload: UploadId,
        /// An API process sends them to the worker before it stores the operation.
        #[serde(skip)]
        files: Vec<UploadedFile>,
        /// A file attached to the session, instead of files of this request. Internal to agent sessions.
        #[serde(default)]
        attached: Option<FileName>,
    },
    Back,
    Forward,
    Reload,
}

/// Direction of a finger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Up,
    Down,
    Left,
    Right,
}

/// Pointing device of a drag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PointerKind {
    #[default]
    Touch,
    Mouse,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DragCourse {
    /// Points from the top left corner of the element, or of the viewport.
    Path(Vec<Point>),
    To {
        element: Element,
        /// `None` for any point.
        at: Option<Point>,
    },
}

pub const PATH_POINTS: std::ops::RangeInclusive<usize> = 2..=200;
/// Duration of a drag or a swipe without one in the request.
pub const DEFAULT_DRAG_MS: u64 = 300;
const TAP_COUNT: std::ops::RangeInclusive<u8> = 1..=3;
const MAX_HOLD_MS: u64 = 5_000;
const DRAG_MS: std::ops::RangeInclusive<u64> = 50..=10_000;
const SWIPE_MS: std::ops::RangeInclusive<u64> = 50..=5_000;
const SWIPE_DISTANCE: std::ops::RangeInclusive<u32> = 10..=5_000;
const SELECT_OPTIONS: std::ops::RangeInclusive<usize> = 1..=100;

/// Point in CSS pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Point", example = json!({"x": 10, "y": 10}))]
pub struct Point {
    #[schema(minimum = 0)]
    pub x: f64,
    #[schema(minimum = 0)]
    pub y: f64,
}

/// Reason why an action was not performed
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        self.into()
    }

    /// A control can submit its form.
    #[must_use]
    pub fn touches(&self) -> bool {
        !self.navigates() && !matches!(self, Self::Scroll { .. } | Self::Hover { .. } | Self::Swipe { .. })
    }

    /// Counts as a navigation (contract: usage 7).
    #[must_use]
    pub fn navigates(&self) -> bool {
        matches!(self, Self::Back | Self::Forward | Self::Reload)
    }

    /// 10 s, unless the action loads a page. Typing adds time for each character.
    fn default_timeout(&self, limits: &Limits) -> Result<Duration, Invalid> {
        if self.navigates() {
            return Ok(NAVIGATE_TIMEOUT);
        }
        let (text, delay_ms) = match self {
            Self::Type { text, delay_ms, .. } => (text, *delay_ms),
            Self::Fill { value, .. } => (value, None),
            Self::Drag { duration_ms, .. } | Self::Swipe { duration_ms, .. } => {
                return Ok(INTERACT_TIMEOUT.saturating_add(Duration::from_millis(*duration_ms)));
            }
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
#[allow(clippy::struct_excessive_bools, reason = "the members are independent of each other")]
pub struct Interacted {
    /// False only if the action timed out with `on_timeout: return`, or if a dialog ended it
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
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
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
        match self.action {
            Action::Back | Action::Forward | Action::Reload => {
                OperationSpec { kind: "navigate", usage: Some(UsageKind::Navigate), ..Self::SPEC }
            }
            Action::Dialog { .. } => OperationSpec { allowed_with_dialog: true, ..Self::SPEC },
            _ => Self::SPEC,
        }
    }

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let Interruption { dialog, dialogs, url, duration_ms } = by;
        Some(OperationResult::Interact(Interacted {
            ok: false,
            kind: self.action.kind(),
            duration_ms,
            url,
            reason: None,
            delivered: None,
            dialogs,
            dialog: Some(dialog),
            submission_held: false,
            request_held: false,
            page_submission_held: false,
        }))
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let typed = match &mut self.action {
            Action::Type { text, .. } | Action::Fill { value: text, .. } => Some(std::mem::take(text)),
            Action::Dialog { text, .. } => text.take(),
            _ => None,
        };
        typed.map(|typed| Secrets { typed: Some(typed), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        match &mut self.action {
            Action::Type { text, .. } | Action::Fill { value: text, .. } => *text = secrets.typed.unwrap_or_default(),
            Action::Dialog { text, .. } => *text = secrets.typed,
            _ => {}
        }
    }
}

impl OperationOutput for Interacted {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

impl Interact {
    pub fn parse(
        action: Action,
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        match &action {
            Action::Tap { element, at, count, hold_ms } => {
                require_place(&mut rules, element.as_ref(), at.as_ref(), limits);
                rules.require(TAP_COUNT.contains(count), "action.count", "must be 1 to 3");
                let is_hold = hold_ms.is_none_or(|ms| ms <= MAX_HOLD_MS);
                rules.require(is_hold, "action.hold_ms", format!("must be 0 to {MAX_HOLD_MS}"));
            }
            Action::Hover { element, at } => require_place(&mut rules, element.as_ref(), at.as_ref(), limits),
            Action::Swipe { element, distance, duration_ms, .. } => {
                require_place(&mut rules, element.as_ref(), None, limits);
                let is_distance = distance.is_none_or(|distance| SWIPE_DISTANCE.contains(&distance));
                rules.require(is_distance, "action.distance", "must be 10 to 5000");
                rules.require(SWIPE_MS.contains(duration_ms), "action.duration_ms", "must be 50 to 5000");
            }
            Action::Drag { element, course, duration_ms, .. } => {
                require_place(&mut rules, element.as_ref(), None, limits);
                rules.require(DRAG_MS.contains(duration_ms), "action.duration_ms", "must be 50 to 10000");
                match course {
                    DragCourse::Path(path) => {
                        rules.require(PATH_POINTS.contains(&path.len()), "action.path", "must have 2 to 200 points");
                        let are_finite = path.iter().all(|at| at.x.is_finite() && at.y.is_finite());
                        rules.require(are_finite, "action.path", "must have finite coordinates");
                    }
                    DragCourse::To { element, at } => {
                        require_element(&mut rules, element, limits, "action.to");
                        require_point(&mut rules, at.as_ref(), "action.to.at");
                    }
                }
            }
            Action::Check { element, .. } | Action::Clear { element } => {
                require_element(&mut rules, element, limits, "action");
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
            Action::Press { key } => require_chord(&mut rules, key, limits, "action.key"),
            Action::Select { element, options, is_list } => {
                require_element(&mut rules, element, limits, "action");
                let field = if *is_list { "action.options" } else { "action.option" };
                rules.require(SELECT_OPTIONS.contains(&options.len()), field, "must have 1 to 100 options");
                for option in options {
                    rules.length(option, 0, limits.locator_chars, field);
                }
            }
            Action::Dialog { text, .. } => {
                rules.length(text.as_deref().unwrap_or_default(), 0, limits.type_text_chars, "action.text");
            }
            Action::Upload { element, files, attached, .. } => {
                if let Some(element) = element {
                    require_element(&mut rules, element, limits, "action");
                }
                let message = format!("must be 1 to {MAX_FILES} files");
                let has_files = attached.is_some() || (1..=MAX_FILES).contains(&files.len());
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

fn require_place(rules: &mut Rules, element: Option<&Element>, at: Option<&Point>, limits: &Limits) {
    if let Some(element) = element {
        require_element(rules, element, limits, "action");
    }
    require_point(rules, at, "action.at");
}

fn require_point(rules: &mut Rules, at: Option<&Point>, field: &str) {
    let is_point = |at: &Point| [at.x, at.y].iter().all(|side| side.is_finite() && *side >= 0.0);
    rules.require(at.is_none_or(is_point), field, "must be a point of 0 or more CSS pixels");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_includes_the_typing_time() {
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
