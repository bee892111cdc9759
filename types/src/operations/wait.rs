use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::{
    AnsweredDialog, DialogMembers, Element, Interruption, OnTimeout, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, Parameters, Secrets, UsageKind, WaitUntil, parse_timeout,
};
use crate::files::DownloadRef;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

const SCRIPT_CHARS: usize = 65_536;

const STATUSES: std::ops::RangeInclusive<u16> = 100..=599;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wait {
    pub condition: Condition,
    pub timeout: Duration,
    pub on_timeout: OnTimeout,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    Selector {
        element: Element,
    },
    /// No element matches, or the match is invisible.
    SelectorHidden {
        element: Element,
    },
    UrlMatches {
        /// Regular expression that matches anywhere in the address.
        pattern: String,
    },
    Text {
        /// Compared as those of a target.
        text: String,
    },
    /// A script of the page's own world returns something truthy.
    Function {
        /// Body of an async function, sealed during transfer.
        script: ScriptText,
    },
    /// A page has received a response since the previous operation began, or receives one.
    Response {
        /// Regular expression for the address, as in `UrlMatches`.
        url_pattern: String,
        /// `None` for any.
        status: Option<u16>,
    },
    LoadState {
        state: WaitUntil,
    },
    Time {
        ms: u64,
    },
    /// A page that was opened since the previous operation began.
    Page,
    /// A download has begun since the previous operation began, and has ended or takes long.
    Download,
}

impl Condition {
    #[must_use]
    pub fn kind(&self) -> ConditionKind {
        match self {
            Self::Selector { .. } => ConditionKind::Selector,
            Self::SelectorHidden { .. } => ConditionKind::SelectorHidden,
            Self::UrlMatches { .. } => ConditionKind::UrlMatches,
            Self::Text { .. } => ConditionKind::Text,
            Self::Function { .. } => ConditionKind::Function,
            Self::Response { .. } => ConditionKind::Response,
            Self::LoadState { .. } => ConditionKind::LoadState,
            Self::Time { .. } => ConditionKind::Time,
            Self::Page => ConditionKind::Page,
            Self::Download => ConditionKind::Download,
        }
    }

    /// Regular expression of the condition, with its field of the request. It is compiled only for a caller with a ready session.
    #[must_use]
    pub fn pattern(&self) -> Option<(&str, &'static str)> {
        match self {
            Self::UrlMatches { pattern } => Some((pattern.as_str(), "condition.pattern")),
            Self::Response { url_pattern, .. } => Some((url_pattern.as_str(), "condition.url_pattern")),
            _ => None,
        }
    }
}

/// The text never reaches a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScriptText(pub String);

impl fmt::Debug for ScriptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptText")
    }
}

impl Parameters for Wait {
    const SPEC: OperationSpec =
        OperationSpec { kind: "wait", route: Some("wait"), usage: Some(UsageKind::Wait), ..OperationSpec::READS };

    fn spec(&self) -> OperationSpec {
        // A script can load another page.
        OperationSpec { may_load: matches!(self.condition, Condition::Function { .. }), ..Self::SPEC }
    }

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let Interruption { dialog, dialogs, url, duration_ms } = by;
        let kind = self.condition.kind();
        let dialog = Some(dialog);
        Some(OperationResult::Wait(Waited { dialogs, dialog, ..Waited::of(kind, false, duration_ms, url) }))
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let Condition::Function { script: ScriptText(script) } = &mut self.condition else { return None };
        Some(Secrets { typed: Some(std::mem::take(script)), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        if let Condition::Function { script: ScriptText(script) } = &mut self.condition {
            *script = secrets.typed.unwrap_or_default();
        }
    }
}

impl OperationOutput for Waited {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }
}

impl Wait {
    pub fn parse(
        condition: Condition,
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        let mut default_timeout = Duration::from_secs(30);
        match &condition {
            Condition::Selector { element } | Condition::SelectorHidden { element } => {
                require_element(&mut rules, element, limits, "condition");
            }
            Condition::UrlMatches { pattern } => rules.length(pattern, 0, limits.pattern_chars, "condition.pattern"),
            Condition::Text { text } => {
                rules.length(text, 0, limits.locator_chars, "condition.text");
                rules.require(!text.trim().is_empty(), "condition.text", "must not be empty");
            }
            Condition::Function { script: ScriptText(script) } => {
                rules.length(script, 1, SCRIPT_CHARS, "condition.script");
            }
            Condition::Response { url_pattern, status } => {
                rules.length(url_pattern, 0, limits.pattern_chars, "condition.url_pattern");
                let is_status = status.is_none_or(|status| STATUSES.contains(&status));
                rules.require(is_status, "condition.status", "must be 100 to 599");
            }
            Condition::Time { ms } => {
                let max = limits.max_time_wait.as_millis();
                rules.require(u128::from(*ms) <= max, "condition.ms", format!("must be 0 to {max}"));
                default_timeout = Duration::from_millis((*ms).min(u64::from(u32::MAX))) + Duration::from_secs(5);
            }
            Condition::LoadState { .. } | Condition::Page | Condition::Download => {}
        }
        let ((), timeout) = both(rules.check(), parse_timeout(timeout_ms, default_timeout, limits))?;
        Ok(Self { condition, timeout, on_timeout })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionKind {
    Selector,
    SelectorHidden,
    UrlMatches,
    Text,
    Function,
    Response,
    LoadState,
    Time,
    Page,
    Download,
}

/// Outcome of a wait
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"matched": true, "kind": "selector", "duration_ms": 412, "url": "https://example.com/"}))]
pub struct Waited {
    /// False only if the wait timed out with `on_timeout: return`, or if a dialog ended it
    pub matched: bool,
    /// Kind of the condition
    #[schema(value_type = String)]
    pub kind: ConditionKind,
    pub duration_ms: u64,
    /// Address of the page after the wait
    pub url: String,
    /// Download that was waited for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub download: Option<DownloadRef>,
    /// Response that was waited for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response: Option<PageResponse>,
    /// Exception of the last run of the script, if the wait timed out and that run threw one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exception: Option<WaitException>,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}

impl Waited {
    #[must_use]
    pub fn of(kind: ConditionKind, matched: bool, duration_ms: u64, url: String) -> Self {
        Self {
            matched,
            kind,
            duration_ms,
            url,
            download: None,
            response: None,
            exception: None,
            dialogs: Vec::new(),
            dialog: None,
        }
    }
}

/// Response that a page has received
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"url": "https://example.com/api/orders", "status": 201}))]
pub struct PageResponse {
    /// Address, limited to its first 32,768 characters
    pub url: String,
    /// HTTP status of the response
    pub status: u16,
}

/// Exception of a script that is waited for
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "TypeError", "message": "undefined is not an object (evaluating 'app.ready')"}))]
pub struct WaitException {
    /// Name of the error, limited to its first 100 characters; `Error` for a thrown value that has no name
    pub name: String,
    /// Message of the error, or the thrown value as text, limited to its first 1,000 characters
    pub message: String,
}

/// Prints nothing, because the text may contain values of the page.
impl fmt::Debug for WaitException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitException")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(condition: Condition) -> Result<Wait, Vec<String>> {
        let parsed = Wait::parse(condition, None, OnTimeout::Fail, &Limits::default());
        parsed.map_err(|Invalid(errors)| errors.into_iter().map(|error| error.field).collect())
    }

    fn function(script: &str) -> Condition {
        Condition::Function { script: ScriptText(script.to_owned()) }
    }

    fn response(url_pattern: &str, status: Option<u16>) -> Condition {
        Condition::Response { url_pattern: url_pattern.to_owned(), status }
    }

    #[test]
    fn conditions_have_bounds() {
        let text = |text: &str| Condition::Text { text: text.to_owned() };
        for good in [
            text("a"),
            text(&"é".repeat(1_000)),
            function(&"é".repeat(SCRIPT_CHARS)),
            response("", None),
            response("/orders$", Some(599)),
            Condition::LoadState { state: WaitUntil::NetworkIdle },
        ] {
            assert!(parsed(good.clone()).is_ok(), "{good:?}");
        }
        for (bad, field) in [
            (text(" "), "condition.text"),
            (text(&"a".repeat(1_001)), "condition.text"),
            (function(""), "condition.script"),
            (function(&"x".repeat(SCRIPT_CHARS + 1)), "condition.script"),
            (response(&"a".repeat(1_001), None), "condition.url_pattern"),
            (response("a", Some(99)), "condition.status"),
            (response("a", Some(600)), "condition.status"),
        ] {
            assert_eq!(parsed(bad).err(), Some(vec![field.to_owned()]), "{field}");
        }
    }

    #[test]
    fn script_is_taken_out_and_put_back() {
        let mut wait = parsed(function("return 'secret'")).expect("a wait");
        assert!(!format!("{wait:?}").contains("secret"));
        let secrets = wait.take_secrets().expect("secrets");
        let stored = serde_json::to_string(&wait).expect("JSON");
        assert!(!stored.contains("secret"), "{stored}");
        let mut restored: Wait = serde_json::from_str(&stored).expect("the same type");
        restored.restore_secrets(secrets);
        let Condition::Function { script } = restored.condition else { panic!("another condition") };
        assert_eq!(script.0, "return 'secret'");
        assert!(parsed(response("a", None)).expect("a wait").take_secrets().is_none());
    }
}
