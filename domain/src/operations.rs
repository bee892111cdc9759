//! What a browser can be told to do, parsed once (interface, "Sessions"): whoever holds one of these types holds the
//! proof that its bounds were checked. Whether a selector or a key exists only the engine can tell, later.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::addresses::{Destinations, Distance};
use crate::limits::Limits;
use crate::validation::{FieldError, Invalid, Rules};

/// One operation on one session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Load a page.
    Navigate(Navigate),
    /// Tap, type, scroll or press.
    Interact(Interact),
    /// Wait for a condition.
    Wait(Wait),
    /// Read the state.
    StateCapture,
    /// Take a screenshot, the DOM or a PDF.
    Capture(Capture),
    /// Read values out of the page.
    Extract(Extract),
    /// Fill in and submit a search form.
    Search(Search),
    /// Fill in and submit a login form.
    Login(Login),
}

impl Operation {
    /// As `session.failed` names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Navigate(_) => "navigate",
            Self::Interact(_) => "interact",
            Self::Wait(_) => "wait",
            Self::StateCapture => "state_capture",
            Self::Capture(_) => "capture",
            Self::Extract(_) => "extract",
            Self::Search(_) => "search",
            Self::Login(_) => "login",
        }
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
            Self::StateCapture | Self::Capture(_) | Self::Extract(_) => READ_BUDGET,
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

/// The time reads of a page may take; the interface lets no caller choose it. A PDF of a monstrous page needs it.
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

/// An address a browser may be sent to: http or https, and not literally a private host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BrowserUrl(Url);

impl BrowserUrl {
    /// # Errors
    /// On field `url`, when it is no absolute http or https URL, or names an address outright that the deployment does
    /// not allow. A name that resolves to one is the egress guard's business, and so is what is near a worker.
    pub fn parse(text: &str, destinations: &Destinations) -> Result<Self, Invalid> {
        let url =
            Url::parse(text.trim()).map_err(|e| Invalid::field("url", format!("must be an absolute URL: {e}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Invalid::field("url", "must be an http or https URL"));
        }
        let permitted = match url.host() {
            Some(Host::Ipv4(v4)) => destinations.permit(v4.into(), Distance::Far),
            Some(Host::Ipv6(v6)) => destinations.permit(v6.into(), Distance::Far),
            Some(Host::Domain(_)) => true,
            None => return Err(Invalid::field("url", "must name a host")),
        };
        if !permitted {
            return Err(Invalid::field("url", "must not be a private address"));
        }
        Ok(Self(url))
    }

    /// The address, normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// How far a page has to come before a navigation is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    /// The `load` event.
    #[default]
    Load,
    /// The `DOMContentLoaded` event.
    DomContentLoaded,
    /// No requests for half a second after `load`.
    NetworkIdle,
}

/// `POST /v1/sessions/:id/navigate`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Navigate {
    /// As the caller wrote it: the answer repeats it.
    pub requested_url: String,
    /// Where to.
    pub url: BrowserUrl,
    /// How far the page has to come.
    pub wait_until: WaitUntil,
    /// Until then, or the session errors.
    pub timeout: Duration,
}

impl Navigate {
    /// # Errors
    /// On `url` or `timeout_ms`.
    pub fn parse(
        url: String,
        wait_until: WaitUntil,
        timeout_ms: Option<u64>,
        destinations: &Destinations,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let timeout = parse_timeout(timeout_ms, Duration::from_secs(30), limits)?;
        let mut rules = Rules::default();
        rules.length(&url, 0, limits.url_chars, "url");
        rules.check()?;
        let target = BrowserUrl::parse(&url, destinations)?;
        Ok(Self { requested_url: url, url: target, wait_until, timeout })
    }
}

/// What happens when an interaction or a wait runs out of its time (decisions D5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// 504, and the session errors.
    #[default]
    Fail,
    /// 200 that says it did not happen, and the session stays.
    Return,
}

/// `POST /v1/sessions/:id/interact`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Interact {
    /// What to do.
    pub action: Action,
    /// Until then.
    pub timeout: Duration,
    /// And when not.
    pub on_timeout: OnTimeout,
}

/// One act of a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// A finger on an element.
    Tap {
        /// CSS.
        selector: String,
    },
    /// Text into an element.
    Type {
        /// CSS.
        selector: String,
        /// Sealed on its way, whatever `sensitive` says.
        text: String,
        /// Milliseconds between keys; `None` leaves it to the behavioural profile.
        delay_ms: Option<u64>,
        /// Never logged.
        sensitive: bool,
    },
    /// The page, or an element that scrolls.
    Scroll {
        /// CSS; `None` is the page.
        selector: Option<String>,
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
}

impl Action {
    /// As the caller spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tap { .. } => "tap",
            Self::Type { .. } => "type",
            Self::Scroll { .. } => "scroll",
            Self::Press { .. } => "press",
        }
    }

    /// The time that it gets when its caller names none. A text gets more the longer it takes to type.
    ///
    /// # Errors
    /// On `action.delay_ms`, when the pauses alone take longer than any operation may.
    fn default_timeout(&self, limits: &Limits) -> Result<Duration, Invalid> {
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

/// The time of an interaction whose caller names none, but for what typing adds to it.
const INTERACT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a machine that is busy may need for a key, besides the pause after it.
pub const KEY_TAKES: Duration = Duration::from_millis(5);

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
            Action::Tap { selector } => require_selector(&mut rules, selector, limits, "action.selector"),
            Action::Type { selector, text, delay_ms, .. } => {
                require_selector(&mut rules, selector, limits, "action.selector");
                rules.length(text, 0, limits.type_text_chars, "action.text");
                let max = limits.type_delay_ms;
                rules.require(delay_ms.is_none_or(|ms| ms <= max), "action.delay_ms", format!("must be 0 to {max}"));
            }
            Action::Scroll { selector, .. } => {
                if let Some(selector) = selector {
                    require_selector(&mut rules, selector, limits, "action.selector");
                }
            }
            Action::Press { key } => rules.length(key, 1, limits.press_key_chars, "action.key"),
        }
        rules.check()?;
        let timeout = parse_timeout(timeout_ms, action.default_timeout(limits)?, limits)?;
        Ok(Self { action, timeout, on_timeout })
    }
}

/// `POST /v1/sessions/:id/wait`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wait {
    /// What for.
    pub condition: Condition,
    /// Until then.
    pub timeout: Duration,
    /// And when not.
    pub on_timeout: OnTimeout,
}

/// What to wait for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// An element that is visible.
    Selector {
        /// CSS.
        selector: String,
    },
    /// No element, or an invisible one.
    SelectorHidden {
        /// CSS.
        selector: String,
    },
    /// The address.
    UrlMatches {
        /// See [`crate::patterns::Pattern`]; found anywhere in the address.
        pattern: String,
    },
    /// Just time.
    Time {
        /// Milliseconds.
        ms: u64,
    },
}

impl Condition {
    /// As the caller spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Selector { .. } => "selector",
            Self::SelectorHidden { .. } => "selector_hidden",
            Self::UrlMatches { .. } => "url_matches",
            Self::Time { .. } => "time",
        }
    }
}

impl Wait {
    /// # Errors
    /// On `timeout_ms` or a field of `condition`.
    pub fn parse(
        condition: Condition,
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        let mut default_timeout = Duration::from_secs(30);
        match &condition {
            Condition::Selector { selector } | Condition::SelectorHidden { selector } => {
                require_selector(&mut rules, selector, limits, "condition.selector");
            }
            // Whether it is a regular expression is not asked of somebody who has no session: see `patterns.rs`.
            Condition::UrlMatches { pattern } => rules.length(pattern, 0, limits.pattern_chars, "condition.pattern"),
            Condition::Time { ms } => {
                let max = limits.max_time_wait.as_millis();
                rules.require(u128::from(*ms) <= max, "condition.ms", format!("must be 0 to {max}"));
                default_timeout = Duration::from_millis((*ms).min(u64::from(u32::MAX))) + Duration::from_secs(5);
            }
        }
        rules.check()?;
        Ok(Self { condition, timeout: parse_timeout(timeout_ms, default_timeout, limits)?, on_timeout })
    }
}

/// `POST /v1/sessions/:id/capture`
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Capture {
    /// Of what.
    pub kind: CaptureKind,
    /// The whole document instead of the viewport; for screenshots.
    pub full_page: bool,
    /// Bytes the result may have.
    pub limit_bytes: Option<u64>,
}

impl Capture {
    /// A capture under the limits of its kind.
    #[must_use]
    pub fn new(kind: CaptureKind, full_page: bool, limits: &Limits) -> Self {
        let limit_bytes = match kind {
            CaptureKind::Screenshot => Some(limits.screenshot_bytes),
            CaptureKind::Pdf => Some(limits.pdf_bytes),
            CaptureKind::DomSnapshot => None,
        };
        Self { kind, full_page, limit_bytes }
    }
}

/// What a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureKind {
    /// A PNG in physical pixels.
    Screenshot,
    /// The document as HTML.
    DomSnapshot,
    /// A4 pages.
    Pdf,
}

impl CaptureKind {
    /// As the caller spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshot",
            Self::DomSnapshot => "dom_snapshot",
            Self::Pdf => "pdf",
        }
    }

    /// The content's media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Screenshot => "image/png",
            Self::DomSnapshot => "text/html; charset=utf-8",
            Self::Pdf => "application/pdf",
        }
    }
}

/// `POST /v1/sessions/:id/extract`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extract {
    /// Each under a name of its own.
    pub extractions: Vec<Extraction>,
}

/// One value to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Extraction {
    /// Its key in the answer.
    pub name: String,
    /// CSS.
    pub selector: String,
    /// What to take.
    #[serde(rename = "type")]
    pub take: Take,
    /// For `text`.
    pub transform: Option<Transform>,
    /// For `attribute`.
    pub attribute: Option<String>,
    /// For `list`: what to take of each match; its text when absent.
    pub extract: Option<Vec<SubExtraction>>,
}

/// One value to read of each match of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubExtraction {
    /// Its key in the match's object.
    pub name: String,
    /// CSS, inside the match.
    pub selector: String,
    /// Text or attribute.
    #[serde(rename = "type")]
    pub take: Take,
    /// For `attribute`.
    pub attribute: Option<String>,
}

/// What to take of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// Its text, trimmed.
    Text,
    /// A named attribute.
    Attribute,
    /// All matches.
    List,
}

/// What to make of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// Its numeric part.
    Number,
}

impl Extract {
    /// # Errors
    /// On `extractions`, or a field of one of them.
    pub fn parse(extractions: Vec<Extraction>, limits: &Limits) -> Result<Self, Invalid> {
        let max = limits.extractions;
        if !(1..=max).contains(&extractions.len()) {
            // Whoever sends a million is not told what is wrong with each.
            return Err(Invalid::field("extractions", format!("must have 1 to {max} items")));
        }
        let mut rules = Rules::default();
        let mut names = HashSet::new();
        for (i, item) in extractions.iter().enumerate() {
            let at = |field: &str| format!("extractions.{i}.{field}");
            rules.length(&item.name, 1, limits.extraction_name_chars, &at("name"));
            rules.require(names.insert(item.name.as_str()), &at("name"), "must not stand twice");
            require_selector(&mut rules, &item.selector, limits, &at("selector"));
            require_attribute(&mut rules, item.take, item.attribute.as_deref(), limits, &at("attribute"));
            for sub in require_subs(&mut rules, item, limits, &at("extract")) {
                let at = |field: &str| format!("extractions.{i}.extract.{}.{field}", sub.name);
                require_selector(&mut rules, &sub.selector, limits, &at("selector"));
                rules.require(sub.take != Take::List, &at("type"), "must be text or attribute");
                require_attribute(&mut rules, sub.take, sub.attribute.as_deref(), limits, &at("attribute"));
            }
        }
        rules.check()?;
        Ok(Self { extractions })
    }
}

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

fn parse_timeout(timeout_ms: Option<u64>, default: Duration, limits: &Limits) -> Result<Duration, Invalid> {
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

fn require_attribute(rules: &mut Rules, take: Take, attribute: Option<&str>, limits: &Limits, field: &str) {
    let named = attribute.is_some_and(|name| !name.is_empty());
    rules.require(take != Take::Attribute || named, field, "must name the attribute");
    rules.length(attribute.unwrap_or_default(), 0, limits.extraction_name_chars, field);
}

/// The sub-fields of a list, each of which can be named in an error. There are none when there are too many, or their names
/// are too long: they stand in the answer once a match.
fn require_subs<'a>(rules: &mut Rules, item: &'a Extraction, limits: &Limits, field: &str) -> &'a [SubExtraction] {
    let subs = item.extract.as_deref().unwrap_or_default();
    let (most, chars) = (limits.sub_extractions, limits.extraction_name_chars);
    let too_long = subs.iter().any(|sub| sub.name.chars().count() > chars);
    rules.require(subs.len() <= most, field, format!("must have at most {most} members"));
    rules.require(!too_long, field, format!("must have names of at most {chars} characters"));
    if too_long || subs.len() > most { &[] } else { subs }
}

/// How an operation ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "snake_case")]
pub enum Outcome {
    /// Done; the session is ready again.
    Done {
        /// The answer's body, but for a capture's content.
        value: Value,
    },
    /// The engine refused the input; the session is ready again.
    Invalid {
        /// What was wrong with it.
        errors: Vec<FieldError>,
    },
    /// Done, but the result is not to be had; the session is ready again.
    Withheld {
        /// Why.
        detail: String,
        /// Further members of the problem document.
        members: Map<String, Value>,
    },
    /// The browser failed; the session is errored.
    Failed {
        /// How.
        failure: Failure,
    },
    /// DELETE won the race; the session is destroyed.
    Destroyed,
    /// The worker died with the operation under way: nobody knows what it did. The session stays busy until it is
    /// destroyed (interface, "Driver session").
    Unknown,
}

/// Why a session errored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// As `session.failed` classes it.
    pub class: FailureClass,
    /// For the caller's eyes.
    pub detail: String,
}

/// The closed set of `session.failed` error names (interface, "Event payloads").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Out of time: 504.
    Timeout,
    /// The browser failed: 502.
    Driver,
    /// There is no browser: 503.
    NotIntegrated,
    /// Anything else: 502.
    Unknown,
}

impl FailureClass {
    /// `error_name`
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "SessionTimeoutError",
            Self::Driver => "DriverError",
            Self::NotIntegrated => "DriverNotIntegratedError",
            Self::Unknown => "UnknownError",
        }
    }

    /// `error_message`
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Timeout => "The session operation timed out.",
            Self::Driver => "The browser operation failed.",
            Self::NotIntegrated => "The browser driver was unavailable.",
            Self::Unknown => "The session operation failed.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_time_that_it_takes_to_type() {
        let timeout = |chars: usize, delay_ms, timeout_ms| {
            let (selector, text) = ("#a".to_owned(), "x".repeat(chars));
            let action = Action::Type { selector, text, delay_ms, sensitive: false };
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
