//! Routes of operations on a session: one file for each operation, with its body, its handler and its row.

mod capture;
mod cookies;
pub mod emulation;
mod evaluate;
mod extract;
mod interact;
mod login;
mod navigate;
mod pages;
mod search;
mod snapshot;
mod state;
mod targets;
mod wait;

use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::parse_form_timeout;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};

pub use self::interact::FileContent;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::openapi::{named, one_of, or_null};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

/// The state contains cookies and claims the session, so read access to another account's sessions does not suffice.
pub(super) const READ_STATE: Rule =
    Rule::scope(Scope::ReadSessions).for_team_with(Scope::WriteSessions, Role::Admin).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .merge(navigate::routes())
        .merge(interact::routes())
        .merge(wait::routes())
        .merge(state::routes())
        .merge(capture::routes())
        .merge(extract::routes())
        .merge(snapshot::routes())
        .merge(pages::routes())
        .merge(emulation::routes())
        .merge(evaluate::routes())
        .merge(cookies::routes())
        .merge(search::routes())
        .merge(login::routes())
}

fn on_timeout() -> RefOr<Schema> {
    or_null(named("OnTimeout", one_of(&["fail", "return"], Some("fail"))))
}

/// The `kind` that determines the other fields.
fn kind<'a>(fields: &'a Map<String, Value>, of: &str) -> Result<&'a str, Invalid> {
    let invalid = |message| Invalid::field(format!("{of}.kind"), message);
    let kind = fields.get("kind").ok_or_else(|| invalid("is required"))?;
    kind.as_str().ok_or_else(|| invalid("must be a string"))
}

/// In seconds, after the other rules.
fn checked_timeout(rules: Rules, seconds: Option<u64>, limits: &Limits) -> Result<std::time::Duration, Invalid> {
    both(rules.check(), parse_form_timeout(seconds, limits)).map(|((), timeout)| timeout)
}

/// Precedes all other checks of the request (contract: operations 25).
fn require_real_driver(app: &App) -> Result<()> {
    if app.config.direct_driver_real {
        return Ok(());
    }
    Err(Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "this deployment's direct driver does not offer search and login"))
}

#[cfg(test)]
mod tests {
    use kitfleet_types::operations::{Action, Condition, Element, Interact, OnTimeout, ROLES, Target, Wait};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::capture::CaptureBody;
    use super::extract::ExtractBody;
    use super::interact::action;
    use super::login::LoginBody;
    use super::search::SearchBody;
    use super::wait::condition;
    use super::*;
    use crate::http::json::Unchecked;

    fn fields_in_error<T>(parse: impl Fn(Map<String, Value>) -> Result<T, Invalid>, json: &str) -> Vec<String> {
        let Ok(Value::Object(fields)) = serde_json::from_str(json) else { panic!("an object") };
        parse(fields).err().map(|Invalid(errors)| errors).into_iter().flatten().map(|error| error.field).collect()
    }

    #[test]
    fn tagged_object_is_checked_by_kind_and_then_by_fields() {
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

    /// Names and some texts are those of operations.
    fn anything() -> impl Strategy<Value = Value> {
        let words = [
            "tap",
            "type",
            "scroll",
            "press",
            "select",
            "back",
            "dialog",
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
            Element::Selector(text)
            | Element::Target(Target::Selector(text))
            | Element::Exact(Target::Selector(text)) => chars(text) <= limits.selector_chars,
            Element::Target(Target::Role { role, name }) | Element::Exact(Target::Role { role, name }) => {
                ROLES.contains(&role.as_str()) && name.as_ref().is_none_or(|name| chars(name) <= limits.locator_chars)
            }
            Element::Target(Target::Label(text) | Target::Text(text) | Target::Placeholder(text))
            | Element::Exact(Target::Label(text) | Target::Text(text) | Target::Placeholder(text)) => {
                (1..=limits.locator_chars).contains(&chars(text))
            }
            Element::Target(Target::Ref(text)) | Element::Exact(Target::Ref(text)) => (2..=10).contains(&chars(text)),
        }
    }

    #[test]
    fn element_is_located_by_exactly_one_member() {
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
        fn accepted_operations_are_within_bounds(body in anything()) {
            let limits = Limits::default();
            let Value::Object(body) = body else { return Ok(()) };
            let times = limits.min_timeout..=limits.max_timeout;
            if let Ok(action) = action(body.clone())
                && let Ok(interact) = Interact::parse(action, None, OnTimeout::Fail, &limits)
            {
                prop_assert!(times.contains(&interact.timeout));
                let element = match &interact.action {
                    Action::Type { element, .. }
                    | Action::Fill { element, .. }
                    | Action::Select { element, .. }
                    | Action::Check { element, .. }
                    | Action::Clear { element } => Some(element),
                    Action::Tap { element, .. }
                    | Action::Scroll { element, .. }
                    | Action::Hover { element, .. }
                    | Action::Swipe { element, .. }
                    | Action::Drag { element, .. } => element.as_ref(),
                    _ => None,
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
            let _ = Unchecked::<CaptureBody>::at(body.clone(), "").check(|capture| capture.into_operation(&limits));
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
