//! Descriptions of operations in words, for lists and recordings (contract: recordings 3).
//!
//! They contain no typed text, no script and no cookie value: also not if the operation still has its secrets.

use serde::{Deserialize, Serialize};

use super::{
    Action, CaptureKind, Condition, ConditionKind, DragCourse, Element, FailureClass, Interact, LocateBy, Operation,
    Outcome, Target, WaitUntil,
};
use crate::redaction::mask_addresses;

/// Maximum number of characters of a description. The rest is cut.
const MAX_CHARS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationDescription {
    /// As in `session.failed`, from a closed set.
    pub kind: String,
    /// Precise name, such as `tap` or `screenshot`.
    pub action: String,
    /// Words such as `Tap button "Send"`.
    pub description: String,
}

/// State of an operation in lists and recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OperationOutcome {
    /// Also if it returned `ok: false` or `matched: false`.
    Done,
    Failed,
    /// The answer was a 504.
    Timeout,
    Invalid,
    Withheld,
    Destroyed,
    Unknown,
    Running,
}

impl OperationOutcome {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Shown as an error in a trace.
    #[must_use]
    pub fn is_error(self) -> bool {
        matches!(self, Self::Failed | Self::Timeout | Self::Withheld | Self::Invalid)
    }
}

impl From<&Outcome> for OperationOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Invalid { .. } => Self::Invalid,
            Outcome::Withheld { .. } => Self::Withheld,
            Outcome::Failed { failure } if failure.class == FailureClass::Timeout => Self::Timeout,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Destroyed => Self::Destroyed,
            Outcome::Unknown => Self::Unknown,
        }
    }
}

impl Outcome {
    /// Detail of an outcome that is not [`Outcome::Done`], without secrets of addresses. `None` if there is none.
    #[must_use]
    pub fn error_detail(&self) -> Option<String> {
        let detail = match self {
            Self::Done | Self::Destroyed => return None,
            Self::Invalid { refusal: Some(refusal), .. } => refusal.to_string(),
            Self::Invalid { errors, .. } => {
                let errors: Vec<_> = errors.iter().map(|error| format!("{} {}", error.field, error.message)).collect();
                errors.join("; ")
            }
            Self::Withheld { detail, .. } => detail.clone(),
            Self::Failed { failure } => failure.detail.clone(),
            Self::Unknown => "the worker died during the operation".to_owned(),
        };
        Some(shorten(&mask_addresses(&detail), 1_000))
    }
}

impl OperationDescription {
    /// The claim of a person who sends input from a live view.
    #[must_use]
    pub fn of_live_input() -> Self {
        Self::new("gui_input", "live_input", "Input of a person")
    }

    #[must_use]
    pub fn of_open() -> Self {
        Self::new("open", "open", "Open the browser")
    }

    /// The operation of another version of this program.
    #[must_use]
    pub fn of_unknown(kind: &str) -> Self {
        Self::new(kind, kind, kind)
    }

    fn new(kind: &str, action: &str, description: &str) -> Self {
        Self { kind: kind.to_owned(), action: action.to_owned(), description: description.to_owned() }
    }
}

impl Operation {
    #[must_use]
    pub fn describe(&self) -> OperationDescription {
        let (action, words) = match self {
            Self::Navigate(navigate) => ("navigate", format!("Navigate to {}", navigate.url.as_str())),
            Self::Interact(interact) => interact.describe(),
            Self::Wait(wait) => ("wait", wait.condition.describe()),
            Self::StateCapture(_) => ("state", "Read the state".to_owned()),
            Self::Capture(capture) => match (capture.kind, &capture.element) {
                (CaptureKind::Screenshot, Some(element)) => {
                    ("screenshot", format!("Screenshot of {}", element.describe()))
                }
                (CaptureKind::Screenshot, None) if capture.full_page => {
                    ("screenshot", "Screenshot of the full page".to_owned())
                }
                (CaptureKind::Screenshot, None) => ("screenshot", "Screenshot".to_owned()),
                (CaptureKind::DomSnapshot, _) => ("dom_snapshot", "Read the DOM".to_owned()),
                (CaptureKind::Pdf, _) => ("pdf", "PDF".to_owned()),
            },
            Self::Extract(extract) => match &extract.extractions[..] {
                [one] => ("extract", format!("Extract {} from {}", quote(&one.name), one.element.describe())),
                several => ("extract", format!("Extract {} values", several.len())),
            },
            Self::Snapshot(_) => ("snapshot", "Read the accessibility tree".to_owned()),
            Self::ListPages(_) => ("list_pages", "List the pages".to_owned()),
            Self::OpenPage(page) => match &page.url {
                Some(url) => ("open_page", format!("Open page {}", url.as_str())),
                None => ("open_page", "Open a blank page".to_owned()),
            },
            Self::ActivatePage(_) => ("activate_page", "Switch to another page".to_owned()),
            Self::ClosePage(_) => ("close_page", "Close a page".to_owned()),
            Self::Emulate(_) => ("emulation", "Change the emulation".to_owned()),
            Self::Evaluate(_) => ("evaluate", "Run a script".to_owned()),
            Self::GetCookies(_) => ("get_cookies", "Read the cookies".to_owned()),
            Self::SetCookies(set) => match &set.cookies[..] {
                [one] => ("set_cookies", format!("Set cookie {}", quote(&one.name))),
                several => ("set_cookies", format!("Set {} cookies", several.len())),
            },
            Self::DeleteCookies(delete) => match &delete.name {
                Some(name) => ("delete_cookies", format!("Delete cookie {}", quote(name))),
                None => ("delete_cookies", "Delete cookies".to_owned()),
            },
            Self::Locate(locate) => ("locate", format!("Find {}", locate.sought.describe())),
            Self::Hold(_) => ("hold", "Hold submissions".to_owned()),
            Self::Search(_) => ("search", "Search".to_owned()),
            Self::Login(_) => ("login", "Log in".to_owned()),
        };
        OperationDescription::new(self.spec().kind, action, &shorten(&mask_addresses(&words), MAX_CHARS))
    }

    /// Part of another operation of an agent. It is not listed, and not recorded.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Locate(_) | Self::Hold(_))
    }

    /// The detail of a failure is the exception of a caller's script, which may contain values of the page.
    #[must_use]
    pub fn error_shows_page(&self) -> bool {
        matches!(self, Self::Wait(wait) if wait.condition.kind() == ConditionKind::Function)
    }

    /// Element that the operation acts on or waits for.
    #[must_use]
    pub fn element(&self) -> Option<&Element> {
        match self {
            Self::Interact(interact) => interact.action.element(),
            Self::Wait(wait) => match &wait.condition {
                Condition::Selector { element } | Condition::SelectorHidden { element } => Some(element),
                _ => None,
            },
            Self::Capture(capture) => capture.element.as_ref(),
            Self::Extract(extract) => match &extract.extractions[..] {
                [one] => Some(&one.element),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Action {
    #[must_use]
    pub fn element(&self) -> Option<&Element> {
        match self {
            Self::Tap { element, .. }
            | Self::Hover { element, .. }
            | Self::Swipe { element, .. }
            | Self::Drag { element, .. }
            | Self::Scroll { element, .. }
            | Self::Upload { element, .. } => element.as_ref(),
            Self::Check { element, .. }
            | Self::Clear { element }
            | Self::Type { element, .. }
            | Self::Fill { element, .. }
            | Self::Select { element, .. } => Some(element),
            Self::Press { .. } | Self::Dialog { .. } | Self::Back | Self::Forward | Self::Reload => None,
        }
    }
}

impl Interact {
    fn describe(&self) -> (&'static str, String) {
        let on = |verb: &str, element: Option<&Element>, at: Option<&super::Point>| match (element, at) {
            (Some(element), _) => format!("{verb} {}", element.describe()),
            (None, Some(at)) => format!("{verb} at {:.0}, {:.0}", at.x, at.y),
            (None, None) => format!("{verb} the page"),
        };
        match &self.action {
            Action::Tap { element, at, count, hold_ms } => {
                let verb = match (count, hold_ms) {
                    (_, Some(1..)) => "Long press",
                    (2, _) => "Double tap",
                    (3, _) => "Triple tap",
                    _ => "Tap",
                };
                ("tap", on(verb, element.as_ref(), at.as_ref()))
            }
            Action::Hover { element, at } => ("hover", on("Hover over", element.as_ref(), at.as_ref())),
            Action::Swipe { element, direction, .. } => {
                let direction = format!("{direction:?}").to_lowercase();
                ("swipe", on(&format!("Swipe {direction} on"), element.as_ref(), None))
            }
            Action::Drag { element, course, .. } => {
                let dragged = on("Drag", element.as_ref(), None);
                match course {
                    DragCourse::To { element, .. } => ("drag", format!("{dragged} to {}", element.describe())),
                    DragCourse::Path(_) => ("drag", dragged),
                }
            }
            Action::Check { element, checked: true } => ("check", format!("Check {}", element.describe())),
            Action::Check { element, checked: false } => ("check", format!("Uncheck {}", element.describe())),
            Action::Clear { element } => ("clear", format!("Clear {}", element.describe())),
            Action::Type { element, .. } => ("type", format!("Type into {}", element.describe())),
            Action::Fill { element, .. } => ("fill", format!("Fill {}", element.describe())),
            Action::Scroll { element, delta_x, delta_y } => {
                let direction = match (*delta_x, *delta_y) {
                    (0, ..=-1) => " up",
                    (0, 1..) => " down",
                    (..=-1, 0) => " left",
                    (1.., 0) => " right",
                    _ => "",
                };
                ("scroll", format!("{}{direction}", on("Scroll", element.as_ref(), None)))
            }
            // A single character may be part of a text that is typed key by key.
            Action::Press { key } if has_typed_character(key) => ("press", "Press a key".to_owned()),
            Action::Press { key } => ("press", format!("Press {key}")),
            Action::Select { element, .. } => ("select", format!("Select an option of {}", element.describe())),
            Action::Dialog { accept: true, .. } => ("dialog", "Accept the dialog".to_owned()),
            Action::Dialog { accept: false, .. } => ("dialog", "Dismiss the dialog".to_owned()),
            Action::Upload { element, .. } => match element {
                Some(element) => ("upload", format!("Upload files to {}", element.describe())),
                None => ("upload", "Upload files".to_owned()),
            },
            Action::Back => ("back", "Go back".to_owned()),
            Action::Forward => ("forward", "Go forward".to_owned()),
            Action::Reload => ("reload", "Reload the page".to_owned()),
        }
    }
}

/// A character alone or with Shift is typed; with another modifier it is a shortcut.
fn has_typed_character(key: &str) -> bool {
    key.strip_prefix("Shift+").unwrap_or(key).chars().count() == 1
}

impl Condition {
    fn describe(&self) -> String {
        match self {
            Self::Selector { element } => format!("Wait for {}", element.describe()),
            Self::SelectorHidden { element } => format!("Wait until {} is hidden", element.describe()),
            Self::UrlMatches { pattern } => format!("Wait for address {pattern}"),
            Self::Text { text } => format!("Wait for text {}", quote(text)),
            Self::Function { .. } => "Wait for a condition of a script".to_owned(),
            Self::Response { url_pattern, .. } => format!("Wait for response {url_pattern}"),
            Self::LoadState { state } => {
                let state = match state {
                    WaitUntil::Load => "load",
                    WaitUntil::DomContentLoaded => "domcontentloaded",
                    WaitUntil::NetworkIdle => "networkidle",
                };
                format!("Wait for load state {state}")
            }
            Self::Time { ms } => format!("Wait for {ms} ms"),
            Self::Page => "Wait for a new page".to_owned(),
            Self::Download => "Wait for a download".to_owned(),
        }
    }
}

impl LocateBy {
    fn describe(&self) -> String {
        match self {
            Self::Target(target) => target.describe(),
            Self::Described { role: Some(role), words } if !words.is_empty() => format!("{role} {}", quote(words)),
            Self::Described { role: Some(role), .. } => role.clone(),
            Self::Described { role: None, words } => quote(words),
            Self::Focused => "the focused element".to_owned(),
        }
    }
}

impl Element {
    /// Words such as `button "Send"`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Selector(selector) => selector.clone(),
            Self::Target(target) | Self::Exact(target) => target.describe(),
        }
    }
}

impl Target {
    fn describe(&self) -> String {
        match self {
            Self::Selector(selector) => selector.clone(),
            Self::Role { role, name: Some(name) } => format!("{role} {}", quote(name)),
            Self::Role { role, name: None } => role.clone(),
            Self::Label(text) => format!("field {}", quote(text)),
            Self::Text(text) => format!("text {}", quote(text)),
            Self::Placeholder(text) => format!("placeholder {}", quote(text)),
            Self::Ref(text) => format!("element {text}"),
        }
    }
}

fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::operations::OnTimeout;

    fn described(action: Action) -> String {
        let interact = Interact::parse(action, None, OnTimeout::Fail, &Limits::default()).expect("an action");
        Operation::Interact(interact).describe().description
    }

    fn send() -> Element {
        Element::Target(Target::Role { role: "button".to_owned(), name: Some("Send".to_owned()) })
    }

    #[test]
    fn descriptions_are_words() {
        let tap = |count| Action::Tap { element: Some(send()), at: None, count, hold_ms: None };
        assert_eq!(described(tap(1)), "Tap button \"Send\"");
        assert_eq!(described(tap(2)), "Double tap button \"Send\"");
        assert_eq!(described(Action::Press { key: "Enter".to_owned() }), "Press Enter");
        assert_eq!(described(Action::Press { key: "Control+a".to_owned() }), "Press Control+a");
    }

    #[test]
    fn typed_values_do_not_appear() {
        let element = || Element::from("#name".to_owned());
        let (text, value) = ("hunter2".to_owned(), "hunter2".to_owned());
        let typed = [
            Action::Type { element: element(), text, delay_ms: None, sensitive: false },
            Action::Fill { element: element(), value },
            Action::Select { element: element(), options: vec!["hunter2".to_owned()], is_list: false },
            Action::Dialog { accept: true, text: Some("hunter2".to_owned()) },
        ];
        for action in typed {
            assert!(!described(action).contains("hunter2"));
        }
        assert_eq!(described(Action::Press { key: "h".to_owned() }), "Press a key");
        assert_eq!(described(Action::Press { key: "Shift+H".to_owned() }), "Press a key");
    }

    #[test]
    fn long_descriptions_are_cut() {
        let action = Action::Clear { element: Element::from("é".repeat(900)) };
        assert_eq!(described(action).chars().count(), MAX_CHARS + 1);
    }
}
