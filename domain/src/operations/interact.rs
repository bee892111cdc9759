//! Acting as a user does: tapping, typing, choosing, scrolling, pressing keys, going back and loading anew.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{Element, OnTimeout, OperationOutput, OperationSpec, Parameters, Secrets, parse_timeout};
use crate::limits::Limits;
use crate::usage::Record;
use crate::validation::{Invalid, Rules, both};

/// `POST /v1/sessions/:id/interact`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interact {
    /// What to do.
    pub action: Action,
    /// Until then.
    pub timeout: Duration,
    /// And when not.
    pub on_timeout: OnTimeout,
    /// Whether no form may be submitted until another interaction allows it. For those who act for a customer: no caller sends it.
    #[serde(default)]
    pub hold_submissions: bool,
    /// Whether its customer has approved of it: then one form may be submitted although they are held, or one that was sent before again.
    #[serde(default)]
    pub approved: bool,
    /// Whether it was done already, and only the form that it would have submitted, which was held, is to be submitted now.
    #[serde(default)]
    pub release_submission: bool,
}

/// One act of a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// A finger on an element.
    Tap {
        /// Which.
        element: Element,
    },
    /// Text into an element.
    Type {
        /// Which.
        element: Element,
        /// Sealed on its way, whatever `sensitive` says.
        text: String,
        /// Milliseconds between keys; `None` leaves it to the behavioural profile.
        delay_ms: Option<u64>,
        /// Never logged.
        sensitive: bool,
    },
    /// The page, or an element that scrolls.
    Scroll {
        /// Which; `None` is the page.
        element: Option<Element>,
        /// CSS pixels to the right.
        delta_x: i32,
        /// CSS pixels down.
        delta_y: i32,
    },
    /// One key.
    Press {
        /// A character, or a name such as `Enter`.
        key: String,
    },
    /// An option of a menu of the page.
    Select {
        /// Which menu.
        element: Element,
        /// The option's value, or its label.
        option: String,
    },
    /// The page before, as a browser's button goes there.
    Back,
    /// The page once more.
    Reload,
}

impl Action {
    /// Which of them it is.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Tap { .. } => ActionKind::Tap,
            Self::Type { .. } => ActionKind::Type,
            Self::Scroll { .. } => ActionKind::Scroll,
            Self::Press { .. } => ActionKind::Press,
            Self::Select { .. } => ActionKind::Select,
            Self::Back => ActionKind::Back,
            Self::Reload => ActionKind::Reload,
        }
    }

    /// Whether it touches a control, which can submit its form. What only moves or loads the page submits nothing itself.
    #[must_use]
    pub fn touches(&self) -> bool {
        !self.navigates() && !matches!(self, Self::Scroll { .. })
    }

    /// Whether it loads a page, and so counts as a navigation (contract: usage 7).
    #[must_use]
    pub fn navigates(&self) -> bool {
        matches!(self, Self::Back | Self::Reload)
    }

    /// The time that it gets when its caller names none: that of a navigation for one, and for a text the more the longer it
    /// takes to type.
    ///
    /// # Errors
    /// On `action.delay_ms`, when the pauses alone take longer than any operation may.
    fn default_timeout(&self, limits: &Limits) -> Result<Duration, Invalid> {
        if self.navigates() {
            return Ok(NAVIGATE_TIMEOUT);
        }
        let Self::Type { text, delay_ms, .. } = self else { return Ok(INTERACT_TIMEOUT) };
        let keys = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let pauses = Duration::from_millis(delay_ms.unwrap_or_default()).saturating_mul(keys);
        if pauses > limits.max_timeout {
            let max = limits.max_timeout.as_millis();
            let message =
                format!("must leave a text of {keys} characters within {max} ms, the longest timeout there is");
            return Err(Invalid::field("action.delay_ms", message));
        }
        let typing = pauses.saturating_add(KEY_TAKES.saturating_mul(keys));
        Ok(INTERACT_TIMEOUT.saturating_add(typing).min(limits.max_timeout.max(INTERACT_TIMEOUT)))
    }
}

/// What an act is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// [`Action::Tap`]
    Tap,
    /// [`Action::Type`]
    Type,
    /// [`Action::Scroll`]
    Scroll,
    /// [`Action::Press`]
    Press,
    /// [`Action::Select`]
    Select,
    /// [`Action::Back`]
    Back,
    /// [`Action::Reload`]
    Reload,
}

/// What became of an interaction
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct Interacted {
    /// False only with `on_timeout: return`
    pub ok: bool,
    /// The action's kind
    #[schema(value_type = String)]
    pub kind: ActionKind,
    pub duration_ms: u64,
    /// The page's address afterwards
    pub url: String,
    /// Whether a form would have been submitted by it, and was not: see [`Interact::hold_submissions`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub submission_held: bool,
    /// Whether the page would have submitted a form by itself, and did not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(ignore)]
    pub page_submission_held: bool,
}

/// The time of a page to load when its caller names none.
pub(super) const NAVIGATE_TIMEOUT: Duration = Duration::from_secs(30);

/// The time of any other interaction whose caller names none, but for what typing adds to it.
const INTERACT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a machine that is busy may need for a key, besides the pause after it.
pub const KEY_TAKES: Duration = Duration::from_millis(5);

impl Parameters for Interact {
    const SPEC: OperationSpec = OperationSpec {
        kind: "interact",
        route: Some("interact"),
        usage: Some(Record::Interact),
        ..OperationSpec::ACTS
    };

    fn spec(&self) -> OperationSpec {
        if self.action.navigates() {
            return OperationSpec { kind: "navigate", usage: Some(Record::Navigate), ..Self::SPEC };
        }
        Self::SPEC
    }

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let Action::Type { text, .. } = &mut self.action else { return None };
        Some(Secrets { typed: Some(std::mem::take(text)), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        if let Action::Type { text, .. } = &mut self.action {
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
            Action::Tap { element } => require_element(&mut rules, element, limits, "action"),
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
            Action::Back | Action::Reload => {}
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
