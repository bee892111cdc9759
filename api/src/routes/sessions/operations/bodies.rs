//! Bodies of operations.

use std::collections::BTreeMap;

use kitfleet_domain::limits::Limits;
use kitfleet_domain::operations::{
    Action, CaptureKind, Condition, Element, Extract, Extraction, Interact, Login, OnTimeout, Search, SubExtraction,
    Take, Transform, Wait, WaitUntil, parse_form_timeout, parse_timeout, require_selectors,
};
use kitfleet_domain::validation::{Invalid, Rules, both};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::json::Unchecked;
use crate::http::openapi::{named, one_of, or_null, tagged};

use super::targets::{self, TargetBody, element, element_if_any};

/// Body of `navigate`
#[derive(Deserialize, ToSchema)]
#[schema(as = Navigate, example = json!({"url": "https://example.com/", "wait_until": "load"}))]
pub struct NavigateBody {
    /// An http or https address
    #[schema(max_length = 32_768)]
    pub url: String,
    /// Load state to wait for
    #[schema(schema_with = wait_until)]
    pub wait_until: Option<WaitUntil>,
    /// Timeout in milliseconds
    #[schema(minimum = 100, maximum = 120_000, default = 30_000)]
    pub timeout_ms: Option<u64>,
}

fn wait_until() -> RefOr<Schema> {
    or_null(named("WaitUntil", one_of(&["load", "domcontentloaded", "networkidle"], Some("load"))))
}

fn on_timeout() -> RefOr<Schema> {
    or_null(named("OnTimeout", one_of(&["fail", "return"], Some("fail"))))
}

/// Body of `interact`
#[derive(Deserialize, ToSchema)]
#[schema(as = Interact, example = json!({"action": {"kind": "type", "selector": "#q", "text": "shoes"}}))]
pub struct InteractBody {
    /// Action to perform
    #[schema(schema_with = action_schema)]
    pub action: Map<String, Value>,
    /// Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to
    /// the maximum
    #[schema(minimum = 100, maximum = 120_000, default = 10_000)]
    pub timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns `ok: false` and keeps the session
    #[schema(schema_with = on_timeout)]
    pub on_timeout: Option<OnTimeout>,
}

/// Tap on an element
#[derive(Deserialize, ToSchema)]
struct Tap {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
}

/// Type text into an element
#[derive(Deserialize, ToSchema)]
struct Type {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    #[schema(max_length = 10_000)]
    text: String,
    /// Milliseconds between keys. The delays of the whole text must not exceed the maximum `timeout_ms`
    #[schema(maximum = 500)]
    delay_ms: Option<u64>,
    /// True to treat the text as sensitive. Text typed into a password field is always sensitive
    #[schema(default = false)]
    sensitive: Option<bool>,
}

/// Scroll the page or a scrollable element
#[derive(Deserialize, ToSchema)]
struct Scroll {
    /// CSS selector; alternative to `target`. If both are absent, the page scrolls
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Pixels to the right
    #[schema(default = 0)]
    delta_x: Option<i32>,
    /// Pixels down
    #[schema(default = 0)]
    delta_y: Option<i32>,
}

/// Press a key
#[derive(Deserialize, ToSchema)]
struct Press {
    /// Character, or key name such as `Enter`
    #[schema(min_length = 1, max_length = 20)]
    key: String,
}

/// Select an option of a `<select>` element
#[derive(Deserialize, ToSchema)]
struct Select {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Value or label of the option
    #[schema(max_length = 1_000)]
    option: String,
}

/// Go back to the previous page
#[derive(Deserialize, ToSchema)]
struct Back {}

/// Reload the page
#[derive(Deserialize, ToSchema)]
struct Reload {}

fn action_schema() -> RefOr<Schema> {
    let variants = [
        ("tap", Tap::schema()),
        ("type", Type::schema()),
        ("scroll", Scroll::schema()),
        ("press", Press::schema()),
        ("select", Select::schema()),
        ("back", Back::schema()),
        ("reload", Reload::schema()),
    ];
    tagged("Action", variants)
}

impl InteractBody {
    /// # Errors
    /// On a field of `action` or `timeout_ms`.
    pub fn into_operation(self, limits: &Limits) -> Result<Interact, Invalid> {
        let Self { action: fields, timeout_ms, on_timeout } = self;
        let parsed = action(fields)
            .and_then(|action| Interact::parse(action, timeout_ms, on_timeout.unwrap_or_default(), limits));
        parsed.map_err(|invalid| invalid.and(parse_timeout(timeout_ms, limits.max_timeout, limits)))
    }
}

/// # Errors
/// On `action.kind`, or a field of that kind.
pub fn action(fields: Map<String, Value>) -> Result<Action, Invalid> {
    const OF: &str = "action";
    match kind(&fields, OF)? {
        "tap" => Unchecked::at(fields, OF)
            .check(|Tap { selector, target }| Ok(Action::Tap { element: element(selector, target, OF)? })),
        "type" => Unchecked::at(fields, OF).check(|Type { selector, target, text, delay_ms, sensitive }| {
            let sensitive = sensitive.unwrap_or_default();
            Ok(Action::Type { element: element(selector, target, OF)?, text, delay_ms, sensitive })
        }),
        "scroll" => Unchecked::at(fields, OF).check(|Scroll { selector, target, delta_x, delta_y }| {
            let (delta_x, delta_y) = (delta_x.unwrap_or_default(), delta_y.unwrap_or_default());
            Ok(Action::Scroll { element: element_if_any(selector, target, OF)?, delta_x, delta_y })
        }),
        "press" => Unchecked::at(fields, OF).check(|Press { key }| Ok(Action::Press { key })),
        "select" => Unchecked::at(fields, OF).check(|Select { selector, target, option }| {
            Ok(Action::Select { element: element(selector, target, OF)?, option })
        }),
        "back" => Ok(Action::Back),
        "reload" => Ok(Action::Reload),
        _ => {
            let message = "must be one of tap, type, scroll, press, select, back, reload";
            Err(Invalid::field("action.kind", message))
        }
    }
}

/// Body of `wait`
#[derive(Deserialize, ToSchema)]
#[schema(as = Wait, example = json!({"condition": {"kind": "selector", "selector": "#results"}, "timeout_ms": 5000}))]
pub struct WaitBody {
    /// Condition to wait for
    #[schema(schema_with = condition_schema)]
    pub condition: Map<String, Value>,
    /// Timeout in milliseconds. If absent, a `time` condition has a timeout of its `ms` plus 5,000
    #[schema(minimum = 100, maximum = 120_000, default = 30_000)]
    pub timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns `matched: false` and keeps the session
    #[schema(schema_with = on_timeout)]
    pub on_timeout: Option<OnTimeout>,
}

/// Visible element
#[derive(Deserialize, ToSchema)]
struct Selector {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
}

/// Address of the page
#[derive(Deserialize, ToSchema)]
struct UrlMatches {
    /// Regular expression in the syntax of Rust's regex crate. It may match anywhere in the first 32,768 characters of the
    /// address. The compiled expression may use at most 1 MiB
    #[schema(max_length = 1_000)]
    pattern: String,
}

/// Period of time
#[derive(Deserialize, ToSchema)]
struct Time {
    /// Milliseconds to wait
    #[schema(maximum = 60_000)]
    ms: u64,
}

fn condition_schema() -> RefOr<Schema> {
    let variants = [
        ("selector", Selector::schema()),
        ("selector_hidden", Selector::schema()),
        ("url_matches", UrlMatches::schema()),
        ("time", Time::schema()),
    ];
    tagged("Condition", variants)
}

impl WaitBody {
    /// # Errors
    /// On a field of `condition` or `timeout_ms`.
    pub fn into_operation(self, limits: &Limits) -> Result<Wait, Invalid> {
        let Self { condition: fields, timeout_ms, on_timeout } = self;
        let parsed = condition(fields)
            .and_then(|condition| Wait::parse(condition, timeout_ms, on_timeout.unwrap_or_default(), limits));
        parsed.map_err(|invalid| invalid.and(parse_timeout(timeout_ms, limits.max_timeout, limits)))
    }
}

/// # Errors
/// On `condition.kind`, or a field of that kind.
pub fn condition(fields: Map<String, Value>) -> Result<Condition, Invalid> {
    const OF: &str = "condition";
    match kind(&fields, OF)? {
        "selector" => Unchecked::at(fields, OF)
            .check(|Selector { selector, target }| Ok(Condition::Selector { element: element(selector, target, OF)? })),
        "selector_hidden" => Unchecked::at(fields, OF).check(|Selector { selector, target }| {
            Ok(Condition::SelectorHidden { element: element(selector, target, OF)? })
        }),
        "url_matches" => {
            Unchecked::at(fields, OF).check(|UrlMatches { pattern }| Ok(Condition::UrlMatches { pattern }))
        }
        "time" => Unchecked::at(fields, OF).check(|Time { ms }| Ok(Condition::Time { ms })),
        _ => {
            let message = "must be one of selector, selector_hidden, url_matches, time";
            Err(Invalid::field("condition.kind", message))
        }
    }
}

/// The `kind` that determines the other fields.
fn kind<'a>(fields: &'a Map<String, Value>, of: &str) -> Result<&'a str, Invalid> {
    let invalid = |message| Invalid::field(format!("{of}.kind"), message);
    let kind = fields.get("kind").ok_or_else(|| invalid("is required"))?;
    kind.as_str().ok_or_else(|| invalid("must be a string"))
}

/// Body of `capture`
#[derive(Deserialize, ToSchema)]
#[schema(as = Capture, example = json!({"kind": "screenshot", "full_page": false}))]
pub struct CaptureBody {
    /// Kind of capture
    #[schema(schema_with = capture_kind)]
    pub kind: CaptureKind,
    /// True to capture the whole document instead of the viewport; for screenshots
    #[schema(default = false)]
    pub full_page: Option<bool>,
}

fn capture_kind() -> RefOr<Schema> {
    one_of(&["screenshot", "dom_snapshot", "pdf"], None)
}

/// Body of `extract`
#[derive(Deserialize, ToSchema)]
#[schema(as = Extract, example = json!({"extractions": [
    {"name": "title", "selector": "h1", "type": "text"},
    {"name": "price", "selector": ".price", "type": "text", "transform": "number"},
    {"name": "links", "selector": "nav li", "type": "list",
     "extract": {"href": {"type": "attribute", "selector": "a", "attribute": "href"}}},
]}))]
pub struct ExtractBody {
    /// Values to extract; each needs a unique name
    #[schema(min_items = 1, max_items = 100)]
    extractions: Vec<ExtractionBody>,
}

/// Value to extract
#[derive(Deserialize, ToSchema)]
#[schema(as = Extraction)]
struct ExtractionBody {
    /// Key of the value in the response
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Data to read: the trimmed text or a named attribute of the first match, or all matches
    #[serde(rename = "type")]
    #[schema(schema_with = take)]
    take: Take,
    /// Transformation for `text`: `number` keeps its numeric part
    #[schema(schema_with = transform)]
    transform: Option<Transform>,
    /// Attribute name, for `attribute`
    #[schema(max_length = 120)]
    attribute: Option<String>,
    /// Sub-fields to read from each match of a `list`; the match's text if absent. At most 32 sub-fields, with names of at most
    /// 120 characters
    extract: Option<BTreeMap<String, SubExtractionBody>>,
}

/// Value to extract from each match of a list
#[derive(Deserialize, ToSchema)]
#[schema(as = SubExtraction)]
struct SubExtractionBody {
    /// CSS selector, evaluated inside the match
    #[schema(min_length = 1, max_length = 4_096)]
    selector: String,
    /// Data to read
    #[serde(rename = "type")]
    #[schema(schema_with = take_of_match)]
    take: Take,
    /// Attribute name, for `attribute`
    #[schema(max_length = 120)]
    attribute: Option<String>,
}

fn take() -> RefOr<Schema> {
    one_of(&["text", "attribute", "list"], None)
}

fn take_of_match() -> RefOr<Schema> {
    one_of(&["text", "attribute"], None)
}

fn transform() -> RefOr<Schema> {
    or_null(named("ExtractionTransform", one_of(&["number"], None)))
}

impl ExtractBody {
    /// # Errors
    /// On `extractions`, or a field of one of them.
    pub fn into_operation(self, limits: &Limits) -> Result<Extract, Invalid> {
        let mut rules = Rules::default();
        // Check at most one extraction above the limit, so that the error list of an oversized request stays short.
        let extractions = self.extractions.into_iter().take(limits.extractions.saturating_add(1)).enumerate();
        let extractions = extractions.map(|(i, body)| body.into_extraction(i, &mut rules)).collect();
        both(rules.check(), Extract::parse(extractions, limits)).map(|((), extract)| extract)
    }
}

impl ExtractionBody {
    fn into_extraction(self, i: usize, rules: &mut Rules) -> Extraction {
        let Self { name, selector, target, take, transform, attribute, extract } = self;
        let element = element(selector, target, &format!("extractions.{i}")).unwrap_or_else(|invalid| {
            rules.note(Some(invalid));
            // Continue with a placeholder, so that errors in the other fields are reported, too.
            Element::from("*".to_owned())
        });
        let extract = extract.map(|fields| {
            let subs = fields.into_iter().map(|(name, sub)| {
                let SubExtractionBody { selector, take, attribute } = sub;
                SubExtraction { name, selector, take, attribute }
            });
            subs.collect()
        });
        Extraction { name, element, take, transform, attribute, extract }
    }
}

/// Body of `snapshot`, which has no fields
#[derive(Deserialize, ToSchema)]
#[schema(as = PageSnapshotRequest, example = json!({}))]
pub struct SnapshotBody {}

/// Body of `search`
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionSearch, example = json!({"query": "running shoes"}))]
pub struct SearchBody {
    /// Text to search for
    #[schema(min_length = 1, max_length = 10_000)]
    query: String,
    /// CSS selector of the search field; detected automatically if absent
    #[schema(max_length = 4_096)]
    search_selector: Option<String>,
    /// True to submit the form
    #[schema(default = true)]
    submit: Option<bool>,
    /// CSS selector of an element that appears with the results
    #[schema(max_length = 4_096)]
    wait_for_results_selector: Option<String>,
    /// Timeout of each step in seconds
    #[schema(minimum = 1, maximum = 120, default = 10)]
    timeout_seconds: Option<u64>,
}

impl SearchBody {
    /// # Errors
    /// On `query`, a selector or `timeout_seconds`.
    pub fn into_operation(self, limits: &Limits) -> Result<Search, Invalid> {
        let mut rules = Rules::default();
        rules.length(&self.query, 1, limits.query_chars, "query");
        let selectors = [
            ("search_selector", &self.search_selector),
            ("wait_for_results_selector", &self.wait_for_results_selector),
        ];
        require_selectors(&mut rules, selectors, limits);
        let step_timeout = checked_timeout(rules, self.timeout_seconds, limits)?;
        Ok(Search {
            query: self.query,
            search_selector: self.search_selector,
            submit: self.submit.unwrap_or(true),
            wait_for_results_selector: self.wait_for_results_selector,
            step_timeout,
            work: limits.form_work,
        })
    }
}

/// Body of `login`
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionLogin, example = json!({"username": "ada@example.com", "password": "…"}))]
pub struct LoginBody {
    #[schema(max_length = 10_000)]
    username: String,
    #[schema(max_length = 10_000, format = Password)]
    password: String,
    /// CSS selector of an element that appears after a successful login
    #[schema(max_length = 4_096)]
    success_selector: Option<String>,
    /// CSS selector of the user name field; detected automatically if absent
    #[schema(max_length = 4_096)]
    username_selector: Option<String>,
    /// CSS selector of the password field; detected automatically if absent
    #[schema(max_length = 4_096)]
    password_selector: Option<String>,
    /// CSS selector of the submit button; detected automatically if absent
    #[schema(max_length = 4_096)]
    submit_selector: Option<String>,
    /// Timeout of each step in seconds
    #[schema(minimum = 1, maximum = 120, default = 10)]
    timeout_seconds: Option<u64>,
}

impl LoginBody {
    /// # Errors
    /// On `username`, `password`, a selector or `timeout_seconds`.
    pub fn into_operation(self, limits: &Limits) -> Result<Login, Invalid> {
        let mut rules = Rules::default();
        rules.length(&self.username, 0, limits.query_chars, "username");
        rules.length(&self.password, 0, limits.query_chars, "password");
        let selectors = [
            ("success_selector", &self.success_selector),
            ("username_selector", &self.username_selector),
            ("password_selector", &self.password_selector),
            ("submit_selector", &self.submit_selector),
        ];
        require_selectors(&mut rules, selectors, limits);
        let step_timeout = checked_timeout(rules, self.timeout_seconds, limits)?;
        Ok(Login {
            username: self.username,
            password: self.password,
            success_selector: self.success_selector,
            username_selector: self.username_selector,
            password_selector: self.password_selector,
            submit_selector: self.submit_selector,
            step_timeout,
            work: limits.form_work,
        })
    }
}

/// Validates the timeout in seconds, after the other rules.
fn checked_timeout(rules: Rules, seconds: Option<u64>, limits: &Limits) -> Result<std::time::Duration, Invalid> {
    both(rules.check(), parse_form_timeout(seconds, limits)).map(|((), timeout)| timeout)
}

#[cfg(test)]
mod tests {
    use kitfleet_domain::operations::{ROLES, Target};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn fields_in_error<T>(parse: impl Fn(Map<String, Value>) -> Result<T, Invalid>, json: &str) -> Vec<String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(json) else { panic!("an object") };
        parse(fields).err().map(|Invalid(errors)| errors).into_iter().flatten().map(|error| error.field).collect()
    }

    #[test]
    fn a_tagged_object_is_told_by_its_kind_and_then_by_its_fields() {
        assert_eq!(fields_in_error(action, "{}"), ["action.kind"]);
        assert_eq!(fields_in_error(action, r#"{"kind": "swim"}"#), ["action.kind"]);
        assert_eq!(fields_in_error(action, r#"{"kind": 1}"#), ["action.kind"]);
        assert_eq!(fields_in_error(action, r#"{"kind": "tap"}"#), ["action.selector"]);
        // Contract: errors 4.
        assert_eq!(fields_in_error(action, r#"{"kind": "type"}"#), ["action.text", "action.selector"]);
        let wrong = r#"{"kind": "type", "selector": "a", "text": 1, "delay_ms": 1.5}"#;
        assert_eq!(fields_in_error(action, wrong), ["action.text", "action.delay_ms"]);
        // Fields of other kinds are unknown here, and ignored whatever they hold.
        assert!(fields_in_error(action, r#"{"kind": "tap", "selector": "a", "text": 5}"#).is_empty());
        assert!(fields_in_error(action, r#"{"kind": "scroll", "delta_x": null}"#).is_empty());
        assert_eq!(fields_in_error(condition, r#"{"kind": "time", "ms": "5"}"#), ["condition.ms"]);
        assert_eq!(fields_in_error(condition, r#"{"kind": "load"}"#), ["condition.kind"]);
    }

    /// Arbitrary JSON whose names and some of whose texts are those of operations.
    fn anything() -> impl Strategy<Value = Value> {
        let words = [
            "tap",
            "type",
            "scroll",
            "press",
            "select",
            "back",
            "button",
            "e12",
            "selector",
            "url_matches",
            "time",
            "text",
            "attribute",
            "list",
            "number",
            "a",
        ];
        let text = prop_oneof![select(words.to_vec()).prop_map(str::to_owned), ".{0,40}", "x{100,5000}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0..200_000_u64).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 96, 40, |inner| {
            let names = [
                "action",
                "condition",
                "extractions",
                "extract",
                "kind",
                "selector",
                "target",
                "role",
                "label",
                "placeholder",
                "ref",
                "option",
                "text",
                "delay_ms",
                "delta_x",
                "key",
                "pattern",
                "ms",
                "timeout_ms",
                "on_timeout",
                "name",
                "type",
                "attribute",
                "transform",
                "url",
                "query",
                "username",
                "password",
            ];
            let name = prop_oneof![4 => select(names.to_vec()).prop_map(str::to_owned), 1 => ".{0,200}"];
            prop_oneof![
                vec(inner.clone(), 0..40).prop_map(Value::from),
                vec((name, inner), 0..12).prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn chars(text: &str) -> usize {
        text.chars().count()
    }

    fn is_within(element: &Element, limits: &Limits) -> bool {
        match element {
            Element::Selector(text) | Element::Target(Target::Selector(text)) => chars(text) <= limits.selector_chars,
            Element::Target(Target::Role { role, name }) => {
                ROLES.contains(&role.as_str()) && name.as_ref().is_none_or(|name| chars(name) <= limits.locator_chars)
            }
            Element::Target(Target::Label(text) | Target::Text(text) | Target::Placeholder(text)) => {
                (1..=limits.locator_chars).contains(&chars(text))
            }
            Element::Target(Target::Ref(text)) => (2..=10).contains(&chars(text)),
        }
    }

    #[test]
    fn an_element_is_told_by_one_thing() {
        let tap = |target: &str| fields_in_error(action, &format!(r#"{{"kind": "tap", "target": {target}}}"#));
        for good in
            [r#"{"selector": "a"}"#, r#"{"role": "button"}"#, r#"{"role": "button", "name": "A"}"#, r#"{"ref": "e1"}"#]
        {
            assert!(tap(good).is_empty(), "{good}");
        }
        for none in ["{}", r#"{"selector": "a", "text": "b"}"#, r#"{"label": null}"#] {
            assert_eq!(tap(none), ["action.target"], "{none}");
        }
        assert_eq!(tap(r#"{"name": "A", "text": "A"}"#), ["action.target.name"]);
        assert_eq!(tap(r#"{"role": 1}"#), ["action.target.role"]);
        assert_eq!(tap("[]"), ["action.target"]);
        let both = r#"{"kind": "tap", "selector": "a", "target": {"text": "a"}}"#;
        assert_eq!(fields_in_error(action, both), ["action.target"]);
        assert_eq!(fields_in_error(condition, r#"{"kind": "selector"}"#), ["condition.selector"]);
        assert!(fields_in_error(action, r#"{"kind": "scroll"}"#).is_empty());
        assert!(fields_in_error(action, r#"{"kind": "back", "selector": "ignored"}"#).is_empty());
    }

    proptest! {
        #[test]
        fn whatever_is_taken_is_within_its_bounds(body in anything()) {
            let limits = Limits::default();
            let Value::Object(body) = body else { return Ok(()) };
            let times = limits.min_timeout..=limits.max_timeout;
            if let Ok(action) = action(body.clone())
                && let Ok(interact) = Interact::parse(action, None, OnTimeout::Fail, &limits)
            {
                prop_assert!(times.contains(&interact.timeout));
                let element = match &interact.action {
                    Action::Tap { element } | Action::Type { element, .. } | Action::Select { element, .. } => Some(element),
                    Action::Scroll { element, .. } => element.as_ref(),
                    Action::Press { .. } | Action::Back | Action::Reload => None,
                };
                prop_assert!(element.is_none_or(|element| is_within(element, &limits)));
            }
            if let Ok(condition) = condition(body.clone())
                && let Ok(wait) = Wait::parse(condition, None, OnTimeout::Fail, &limits)
            {
                prop_assert!(times.contains(&wait.timeout));
                if let Condition::UrlMatches { pattern } = &wait.condition {
                    prop_assert!(chars(pattern) <= limits.pattern_chars);
                }
            }
            let _ = Unchecked::<CaptureBody>::at(body.clone(), "").check(Ok);
            let _ = Unchecked::<SearchBody>::at(body.clone(), "").check(|search| search.into_operation(&limits));
            let _ = Unchecked::<LoginBody>::at(body.clone(), "").check(|login| login.into_operation(&limits));
            if let Ok(extract) = Unchecked::<ExtractBody>::at(body, "").check(|extract| extract.into_operation(&limits)) {
                prop_assert!(extract.extractions.len() <= limits.extractions);
                for item in &extract.extractions {
                    let subs = item.extract.as_deref().unwrap_or_default();
                    prop_assert!(subs.len() <= limits.sub_extractions);
                    let names = subs.iter().map(|sub| &sub.name).chain([&item.name]).chain(&item.attribute);
                    prop_assert!(names.clone().all(|name| chars(name) <= limits.extraction_name_chars));
                    prop_assert!(subs.iter().all(|sub| chars(&sub.selector) <= limits.selector_chars));
                    prop_assert!(is_within(&item.element, &limits));
                }
            }
        }
    }
}
