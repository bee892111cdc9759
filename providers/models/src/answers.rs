//! Parses a model's answer: one call of one tool.
//!
//! The tool's schema tells the model the allowed steps, but the answer is not trusted. A step of an unknown kind, or
//! with an unknown member such as a selector or a script, makes the whole answer invalid. Only refs of the page's
//! snapshot name elements, so only existing elements can be named. The resulting operations check the limits of texts
//! and times.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Deref;

use kitfleet_domain::blocking::run_blocking;
use kitfleet_types::commands::Degrees;
use kitfleet_types::operations::{CaptureKind, Direction};
use kitfleet_types::validation::has_nul;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::addresses::ExpectedDocuments;
use crate::prompts::{ConversationRole, Prompt};

pub const TOOL: &str = "answer";
pub const PURPOSE: &str = "Say what is to be done for the person. Every answer is one call of this.";
const MAX_REPLY_CHARS: usize = 2_000;
/// Member that a model may add to each step.
const APPROVAL: &str = "ask_approval";

#[derive(Debug, Clone, PartialEq)]
pub enum ModelAnswer {
    Plan {
        /// Empty if the reply is the whole answer.
        steps: Vec<Step>,
        reply: String,
        /// True when the model must see the page after the steps in order to continue.
        look_again: bool,
    },
    Clarify {
        reply: String,
    },
    Refuse {
        reply: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub action: Action,
    /// The model requests approval, or the address is unexpected. The executor adds its own reasons; none is ever
    /// removed.
    pub needs_approval: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Ref(pub String);

/// Variants without members have braces, so that serde rejects unknown members for them too.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    Navigate {
        url: String,
    },
    Tap {
        #[serde(rename = "ref")]
        target: Ref,
    },
    DoubleTap {
        #[serde(rename = "ref")]
        target: Ref,
    },
    LongPress {
        #[serde(rename = "ref")]
        target: Ref,
    },
    Check {
        #[serde(rename = "ref")]
        target: Ref,
        checked: bool,
    },
    Fill {
        #[serde(rename = "ref")]
        target: Ref,
        value: String,
    },
    Upload {
        /// File input, or element that opens a chooser.
        #[serde(rename = "ref")]
        target: Ref,
        file: String,
    },
    /// Drags an element to another one, or by a distance.
    Drag {
        #[serde(rename = "ref")]
        target: Ref,
        #[serde(default)]
        to: Option<Ref>,
        /// CSS pixels to the right.
        #[serde(default)]
        delta_x: i32,
        /// CSS pixels down.
        #[serde(default)]
        delta_y: i32,
    },
    Swipe {
        direction: Direction,
        /// CSS pixels; by default a part of the page or the element.
        #[serde(default)]
        distance: Option<u32>,
        /// By default the page.
        #[serde(default, rename = "ref")]
        target: Option<Ref>,
    },
    Hover {
        #[serde(rename = "ref")]
        target: Ref,
    },
    Dialog {
        accept: bool,
        #[serde(default)]
        text: Option<String>,
    },
    SwitchPage {
        page: usize,
    },
    ClosePage {
        /// By default the active one.
        #[serde(default)]
        page: Option<usize>,
    },
    SetLocation {
        latitude: f64,
        longitude: f64,
    },
    Type {
        #[serde(rename = "ref")]
        target: Ref,
        value: String,
    },
    Press {
        /// Key, such as `Enter`.
        key: String,
    },
    Select {
        #[serde(rename = "ref")]
        target: Ref,
        option: String,
    },
    /// Scrolls by CSS pixels.
    Scroll {
        #[serde(default)]
        delta_x: i64,
        #[serde(default)]
        delta_y: i64,
        /// By default the page.
        #[serde(default, rename = "ref")]
        target: Option<Ref>,
    },
    Wait {
        condition: Condition,
    },
    Capture {
        capture: CaptureKind,
    },
    Extract {
        items: Vec<Item>,
    },
    Back {},
    Forward {},
    Reload {},
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    Visible {
        #[serde(rename = "ref")]
        target: Ref,
    },
    Hidden {
        #[serde(rename = "ref")]
        target: Ref,
    },
    Url {
        pattern: String,
    },
    Time {
        ms: u64,
    },
    Download {},
    Page {},
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub name: String,
    #[serde(rename = "ref")]
    pub target: Ref,
    /// By default the text.
    #[serde(default)]
    pub attribute: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("it is not one call of the tool")]
    NoCall,
    #[error("it does not have the requested form")]
    Form,
    #[error("it has {0} steps, which is too many, or none and no reply")]
    Steps(usize),
    #[error("step {0} is not a valid step")]
    Step(usize),
    #[error("step {0} names an element that is not on the page")]
    NoElement(usize),
    #[error("step {0} names a page that the browser does not have")]
    NoPage(usize),
    #[error("step {0} does not go to an http or https address")]
    Address(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    kind: Kind,
    #[serde(default)]
    reply: String,
    #[serde(default)]
    steps: Vec<Map<String, Value>>,
    #[serde(default)]
    look_again: bool,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Plan,
    Clarify,
    Refuse,
}

pub fn read(call: Value, ask: &Prompt<'_>) -> Result<ModelAnswer, AnswerError> {
    if has_nul(&call) {
        return Err(AnswerError::Form);
    }
    let Call { kind, reply, steps, look_again } = serde_json::from_value(call).map_err(|_| AnswerError::Form)?;
    let reply: String = reply.trim().chars().take(MAX_REPLY_CHARS).collect();
    if kind != Kind::Plan {
        if reply.is_empty() || !steps.is_empty() {
            return Err(AnswerError::Form);
        }
        return Ok(if kind == Kind::Clarify { ModelAnswer::Clarify { reply } } else { ModelAnswer::Refuse { reply } });
    }
    // A plan without steps is an answer: the requested information is on the page, or the task is done.
    if steps.is_empty() && reply.is_empty() || steps.len() > ask.max_steps {
        return Err(AnswerError::Steps(steps.len()));
    }
    let refs = ask.page.map(|page| refs(page.snapshot)).unwrap_or_default();
    // The messages are parsed once, however many addresses there are to check.
    let expected = LazyCell::new(|| run_blocking(usize::MAX, || expected(ask)));
    let steps = steps.into_iter().enumerate().map(|(index, step)| {
        let step = read_step(index + 1, step, &expected, &refs);
        step.and_then(|step| check(index + 1, &step.action, ask).map(|()| step))
    });
    Ok(ModelAnswer::Plan { steps: steps.collect::<Result<_, _>>()?, reply, look_again })
}

fn read_step(
    number: usize,
    mut step: Map<String, Value>,
    expected: &impl Deref<Target = ExpectedDocuments>,
    refs: &HashSet<&str>,
) -> Result<Step, AnswerError> {
    let asked = match step.shift_remove(APPROVAL) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(asked)) => asked,
        Some(_) => return Err(AnswerError::Step(number)),
    };
    let action: Action = serde_json::from_value(step.into()).map_err(|_| AnswerError::Step(number))?;
    if !action.targets().iter().all(|target| refs.contains(target.0.as_str())) {
        return Err(AnswerError::NoElement(number));
    }
    // The snapshot already contains field values, except passwords.
    let reads_a_field =
        |item: &Item| item.attribute.as_ref().is_some_and(|name| name.trim().eq_ignore_ascii_case("value"));
    if matches!(&action, Action::Extract { items } if items.iter().any(reads_a_field)) {
        return Err(AnswerError::Step(number));
    }
    let unexpected = match &action {
        Action::Navigate { url } => {
            let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            !expected.has(&url.ok_or(AnswerError::Address(number))?)
        }
        _ => false,
    };
    Ok(Step { action, needs_approval: asked || unexpected })
}

fn check(number: usize, action: &Action, ask: &Prompt<'_>) -> Result<(), AnswerError> {
    let is_page = |page: usize| page == 1 || (1..=ask.context.pages.len()).contains(&page);
    let is_valid = match action {
        Action::SwitchPage { page } | Action::ClosePage { page: Some(page) } if !is_page(*page) => {
            return Err(AnswerError::NoPage(number));
        }
        Action::Upload { file, .. } => ask.context.files.contains(file),
        Action::Drag { to, delta_x, delta_y, .. } => to.is_some() != (*delta_x != 0 || *delta_y != 0),
        Action::SetLocation { latitude, longitude } => location(*latitude, *longitude).is_some(),
        _ => true,
    };
    if is_valid { Ok(()) } else { Err(AnswerError::Step(number)) }
}

/// `None` if it is not on Earth.
#[must_use]
pub fn location(latitude: f64, longitude: f64) -> Option<(Degrees, Degrees)> {
    let degrees = |degrees: f64, max| Degrees::parse(&degrees.to_string(), max);
    degrees(latitude, Degrees::LATITUDE).zip(degrees(longitude, Degrees::LONGITUDE))
}

/// Addresses that the customer named, or that the page links to.
fn expected(ask: &Prompt<'_>) -> ExpectedDocuments {
    let before = ask.history.iter().filter(|turn| turn.by == ConversationRole::Customer).map(|turn| turn.text);
    let here = ask.page.map(|page| page.url);
    let links = ask.page.map(|page| page.links).unwrap_or_default().iter().map(String::as_str);
    ExpectedDocuments::of(before.chain([ask.message]), links.chain(here))
}

impl Action {
    fn targets(&self) -> Vec<&Ref> {
        match self {
            Self::Tap { target }
            | Self::DoubleTap { target }
            | Self::LongPress { target }
            | Self::Check { target, .. }
            | Self::Fill { target, .. }
            | Self::Upload { target, .. }
            | Self::Hover { target }
            | Self::Type { target, .. }
            | Self::Select { target, .. }
            | Self::Wait { condition: Condition::Visible { target } | Condition::Hidden { target } } => vec![target],
            Self::Scroll { target, .. } | Self::Swipe { target, .. } => target.iter().collect(),
            Self::Drag { target, to, .. } => std::iter::once(target).chain(to).collect(),
            Self::Extract { items } => items.iter().map(|item| &item.target).collect(),
            Self::Navigate { .. }
            | Self::Press { .. }
            | Self::Wait { .. }
            | Self::Capture { .. }
            | Self::Dialog { .. }
            | Self::SwitchPage { .. }
            | Self::ClosePage { .. }
            | Self::SetLocation { .. }
            | Self::Back {}
            | Self::Forward {}
            | Self::Reload {} => Vec::new(),
        }
    }
}

/// `[ref=…]`, at most one per line, after the element's name. The quoted name is page content, so text in it is never a
/// ref.
fn refs(snapshot: &str) -> HashSet<&str> {
    snapshot.lines().filter_map(|line| unquoted_ref(line)).collect()
}

fn unquoted_ref(line: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => {
                let named = line[at..].strip_prefix("[ref=").and_then(|rest| rest.split_once(']'));
                let named = named.map(|(name, _)| name).filter(|name| is_ref(name));
                if named.is_some() {
                    return named;
                }
            }
            _ => {}
        }
    }
    None
}

fn is_ref(name: &str) -> bool {
    !name.is_empty() && name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// JSON Schema of the tool's arguments.
pub fn schema(max_steps: usize) -> Value {
    // The rules describe refs and approvals once, because the schema is part of every request.
    let text = json!({"type": "string"});
    let element = text.clone();
    let attribute = json!({"type": "string", "description": "Any but value, which the snapshot has"});
    let step = |kind: &str, members: Value, required: &[&str]| {
        let mut properties = json!({"kind": {"const": kind}});
        if let (Some(properties), Value::Object(members)) = (properties.as_object_mut(), members) {
            properties.extend(members);
            properties.insert(APPROVAL.to_owned(), json!({"type": "boolean"}));
        }
        let required: Vec<_> = ["kind"].iter().chain(required).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let condition = |kind: &str, member: &str, schema: &Value| {
        let properties = json!({"kind": {"const": kind}, member: schema});
        json!({"type": "object", "properties": properties, "required": ["kind", member], "additionalProperties": false})
    };
    let happens = |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"], "additionalProperties": false});
    let pixels = json!({"type": "integer"});
    let page = json!({"type": "integer", "minimum": 1, "description": "Number of a page of the browser"});
    let conditions = [
        condition("visible", "ref", &element),
        condition("hidden", "ref", &element),
        condition("url", "pattern", &text),
        condition("time", "ms", &json!({"type": "integer", "minimum": 0, "maximum": 60_000})),
        happens("download"),
        happens("page"),
    ];
    let item = json!({
        "type": "object",
        "properties": {"name": text, "ref": element, "attribute": attribute},
        "required": ["name", "ref"],
        "additionalProperties": false,
    });
    let steps = [
        step("navigate", json!({"url": text}), &["url"]),
        step("tap", json!({"ref": element}), &["ref"]),
        step("type", json!({"ref": element, "value": text}), &["ref", "value"]),
        step("press", json!({"key": text}), &["key"]),
        step("select", json!({"ref": element, "option": text}), &["ref", "option"]),
        step("scroll", json!({"delta_x": {"type": "integer"}, "delta_y": {"type": "integer"}, "ref": element}), &[]),
        step("wait", json!({"condition": {"anyOf": conditions}}), &["condition"]),
        step("capture", json!({"capture": {"enum": ["screenshot", "dom_snapshot", "pdf"]}}), &["capture"]),
        step("extract", json!({"items": {"type": "array", "items": item, "minItems": 1}}), &["items"]),
        step("double_tap", json!({"ref": element}), &["ref"]),
        step("long_press", json!({"ref": element}), &["ref"]),
        step("check", json!({"ref": element, "checked": {"type": "boolean"}}), &["ref", "checked"]),
        step("fill", json!({"ref": element, "value": text}), &["ref", "value"]),
        step("upload", json!({"ref": element, "file": text}), &["ref", "file"]),
        step("drag", json!({"ref": element, "to": element, "delta_x": pixels, "delta_y": pixels}), &["ref"]),
        step(
            "swipe",
            json!({"direction": {"enum": ["up", "down", "left", "right"]}, "distance": pixels, "ref": element}),
            &["direction"],
        ),
        step("hover", json!({"ref": element}), &["ref"]),
        step("dialog", json!({"accept": {"type": "boolean"}, "text": text}), &["accept"]),
        step("switch_page", json!({"page": page}), &["page"]),
        step("close_page", json!({"page": page}), &[]),
        step(
            "set_location",
            json!({"latitude": {"type": "number"}, "longitude": {"type": "number"}}),
            &["latitude", "longitude"],
        ),
        step("back", json!({}), &[]),
        step("forward", json!({}), &[]),
        step("reload", json!({}), &[]),
    ];
    json!({
        "type": "object",
        "properties": {
            "kind": {
                "enum": ["plan", "clarify", "refuse"],
                "description": "plan: do the steps, or without any say in reply what came of it; clarify: ask the person; refuse: do \
                                nothing, and say why",
            },
            "reply": {"type": "string", "description": "A sentence for the person; needed unless kind is plan"},
            "steps": {"type": "array", "items": {"anyOf": steps}, "maxItems": max_steps},
            "look_again": {
                "type": "boolean",
                "description": "True when the page has to be seen once more after the steps, to go on",
            },
        },
        "required": ["kind"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompts::{ConversationTurn, MAX_ANSWER, Page, PromptContext};

    const SNAPSHOT: &str = "document \"Shop\"\n  button \"Sign in\" [ref=e1]\n  textbox \"Name [ref=e9]\" [required] [ref=e2]\n  \
                            link \"a \\\" [ref=e8]\" [ref=e3]\n  text \"[ref=e7]\"\n  combobox \"Size\" [ref=e4]";

    fn ask<'a>(message: &'a str, links: &'a [String]) -> Prompt<'a> {
        let page = Page { url: "https://shop.example/", snapshot: SNAPSHOT, links };
        let context = PromptContext::default();
        Prompt { message, history: &[], page: Some(page), done: &[], max_steps: 3, max_tokens: MAX_ANSWER, context }
    }

    fn plan(steps: &Value) -> Value {
        json!({"kind": "plan", "steps": steps})
    }

    fn step(step: &Value) -> Result<Step, AnswerError> {
        let (pages, files) = (["page \"A\"".to_owned(), "page \"B\"".to_owned()], ["cv.pdf".to_owned()]);
        let context = PromptContext { dialog: None, pages: &pages, files: &files };
        match read(plan(&json!([step])), &Prompt { context, ..ask("open shop.example", &[]) }) {
            Ok(ModelAnswer::Plan { mut steps, .. }) => Ok(steps.remove(0)),
            Ok(other) => panic!("{other:?}"),
            Err(unusable) => Err(unusable),
        }
    }

    /// Contract: byok 13.
    #[test]
    fn every_kind_of_step_is_parsed_as_its_schema_defines() {
        let steps = [
            json!({"kind": "navigate", "url": "https://shop.example/"}),
            json!({"kind": "tap", "ref": "e1"}),
            json!({"kind": "type", "ref": "e2", "value": "Ada"}),
            json!({"kind": "press", "key": "Enter"}),
            json!({"kind": "select", "ref": "e4", "option": "Large"}),
            json!({"kind": "scroll", "delta_y": 400}),
            json!({"kind": "wait", "condition": {"kind": "hidden", "ref": "e3"}}),
            json!({"kind": "capture", "capture": "screenshot"}),
            json!({"kind": "extract", "items": [{"name": "price", "ref": "e3", "attribute": "href"}]}),
            json!({"kind": "double_tap", "ref": "e1"}),
            json!({"kind": "long_press", "ref": "e1"}),
            json!({"kind": "check", "ref": "e1", "checked": true}),
            json!({"kind": "fill", "ref": "e2", "value": "2026-12-24"}),
            json!({"kind": "upload", "ref": "e1", "file": "cv.pdf"}),
            json!({"kind": "drag", "ref": "e1", "delta_x": -40}),
            json!({"kind": "swipe", "direction": "left"}),
            json!({"kind": "hover", "ref": "e3"}),
            json!({"kind": "dialog", "accept": true, "text": "Ada"}),
            json!({"kind": "switch_page", "page": 2}),
            json!({"kind": "close_page"}),
            json!({"kind": "set_location", "latitude": 52.52, "longitude": 13.4}),
            json!({"kind": "back"}),
            json!({"kind": "forward"}),
            json!({"kind": "reload"}),
        ];
        let schema = schema(20);
        let described = schema["properties"]["steps"]["items"]["anyOf"].as_array().expect("kinds");
        assert_eq!(described.len(), steps.len());
        for (described, given) in described.iter().zip(&steps) {
            assert_eq!(described["properties"]["kind"]["const"], given["kind"]);
            for member in described["required"].as_array().expect("names") {
                let mut lacking = given.clone();
                lacking.as_object_mut().expect("an object").shift_remove(member.as_str().expect("a name"));
                assert_eq!(step(&lacking), Err(AnswerError::Step(1)), "{lacking}");
            }
            let read = step(given).unwrap_or_else(|unusable| panic!("{given}: {unusable}"));
            assert!(!read.needs_approval, "{given}");
            let mut asking = given.clone();
            asking["ask_approval"] = true.into();
            assert!(step(&asking).expect("a step").needs_approval, "{asking}");
        }
        let condition = &described[6]["properties"]["condition"]["anyOf"];
        for (condition, given) in condition.as_array().expect("kinds").iter().zip([
            json!({"kind": "visible", "ref": "e1"}),
            json!({"kind": "hidden", "ref": "e1"}),
            json!({"kind": "url", "pattern": "cart$"}),
            json!({"kind": "time", "ms": 500}),
            json!({"kind": "download"}),
            json!({"kind": "page"}),
        ]) {
            assert_eq!(condition["properties"]["kind"]["const"], given["kind"]);
            step(&json!({"kind": "wait", "condition": given})).expect("a step");
        }
    }

    /// Contract: byok 13. Only refs name elements: selectors, scripts, and text on the page that looks like a ref are invalid.
    #[test]
    fn invalid_step_makes_the_answer_invalid() {
        for (given, why) in [
            (json!({"kind": "tap", "selector": "#buy"}), AnswerError::Step(1)),
            (json!({"kind": "tap", "ref": "e1", "selector": "#buy"}), AnswerError::Step(1)),
            (json!({"kind": "tap", "ref": "e1", "needs_approval": false}), AnswerError::Step(1)),
            (json!({"kind": "tap", "ref": "e1", "ask_approval": "no"}), AnswerError::Step(1)),
            (
                json!({"kind": "extract", "items": [{"name": "a", "ref": "e2", "attribute": "Value"}]}),
                AnswerError::Step(1),
            ),
            (json!({"kind": "script", "source": "alert(1)"}), AnswerError::Step(1)),
            (json!({"kind": "back", "script": "alert(1)"}), AnswerError::Step(1)),
            (json!({"kind": "upload", "ref": "e1"}), AnswerError::Step(1)),
            (json!({"kind": "upload", "ref": "e1", "file": "passwords.txt"}), AnswerError::Step(1)),
            (json!({"kind": "drag", "ref": "e1"}), AnswerError::Step(1)),
            (json!({"kind": "drag", "ref": "e1", "to": "e2", "delta_x": 5}), AnswerError::Step(1)),
            (json!({"kind": "drag", "ref": "e1", "to": "e99"}), AnswerError::NoElement(1)),
            (json!({"kind": "swipe", "direction": "sideways"}), AnswerError::Step(1)),
            (json!({"kind": "dialog", "accept": true, "ref": "e1"}), AnswerError::Step(1)),
            (json!({"kind": "switch_page", "page": 3}), AnswerError::NoPage(1)),
            (json!({"kind": "close_page", "page": 0}), AnswerError::NoPage(1)),
            (json!({"kind": "set_location", "latitude": 91, "longitude": 0}), AnswerError::Step(1)),
            (json!({"kind": "wait", "condition": {"kind": "download", "ref": "e1"}}), AnswerError::Step(1)),
            (json!({"kind": "tap", "ref": 1}), AnswerError::Step(1)),
            (json!({}), AnswerError::Step(1)),
            (json!({"kind": "tap", "ref": "#buy"}), AnswerError::NoElement(1)),
            (json!({"kind": "tap", "ref": "e5"}), AnswerError::NoElement(1)),
            (json!({"kind": "tap", "ref": "e7"}), AnswerError::NoElement(1)),
            (json!({"kind": "tap", "ref": "e8"}), AnswerError::NoElement(1)),
            (json!({"kind": "type", "ref": "e9", "value": "x"}), AnswerError::NoElement(1)),
            (json!({"kind": "scroll", "ref": "e99"}), AnswerError::NoElement(1)),
            (json!({"kind": "wait", "condition": {"kind": "visible", "ref": "e99"}}), AnswerError::NoElement(1)),
            (json!({"kind": "extract", "items": [{"name": "x", "ref": "e99"}]}), AnswerError::NoElement(1)),
            (json!({"kind": "navigate", "url": "javascript:alert(1)"}), AnswerError::Address(1)),
            (json!({"kind": "navigate", "url": "file:///etc/passwd"}), AnswerError::Address(1)),
            (json!({"kind": "navigate", "url": "shop.example"}), AnswerError::Address(1)),
        ] {
            assert_eq!(step(&given), Err(why), "{given}");
        }
        let ask_without_page = Prompt { page: None, ..ask("x", &[]) };
        let tap = plan(&json!([{"kind": "tap", "ref": "e1"}]));
        assert_eq!(read(tap, &ask_without_page), Err(AnswerError::NoElement(1)));
        let tap = json!({"kind": "tap", "ref": "e1"});
        assert_eq!(read(plan(&json!([tap, tap, tap, tap])), &ask("x", &[])), Err(AnswerError::Steps(4)));
        assert_eq!(read(plan(&json!([])), &ask("x", &[])), Err(AnswerError::Steps(0)));
        for call in [
            json!(null),
            json!("plan"),
            json!({"kind": "do"}),
            json!({"steps": []}),
            json!({"kind": "plan", "steps": "tap"}),
            json!({"kind": "refuse", "reply": "a\0"}),
            plan(&json!([{"kind": "navigate", "url": "https://shop.example/\0"}])),
            json!({"kind": "plan", "steps": [tap], "approve": true}),
            json!({"kind": "clarify"}),
            json!({"kind": "refuse", "reply": "  "}),
            json!({"kind": "clarify", "reply": "Which?", "steps": [tap]}),
        ] {
            assert_eq!(read(call.clone(), &ask("x", &[])), Err(AnswerError::Form), "{call}");
        }
    }

    /// Contract: byok 14. A model can add a request for approval but cannot remove one.
    #[test]
    fn unexpected_address_needs_approval() {
        let links = ["https://shop.example/cart".to_owned()];
        let history = [
            ConversationTurn { by: ConversationRole::Agent, text: "I could open https://agent.example/ too" },
            ConversationTurn { by: ConversationRole::Customer, text: "look at before.example first" },
        ];
        let ask = Prompt { history: &history, ..ask("open named.example", &links) };
        let needs = |url: &str, asked: bool| {
            let step = json!({"kind": "navigate", "url": url, "ask_approval": asked});
            match read(plan(&json!([step])), &ask) {
                Ok(ModelAnswer::Plan { steps, .. }) => steps[0].needs_approval,
                other => panic!("{other:?}"),
            }
        };
        for expected in [
            "https://named.example/",
            "https://shop.example/cart",
            "https://before.example/",
            "https://shop.example/#a",
        ] {
            assert!(!needs(expected, false), "{expected}");
            assert!(needs(expected, true), "{expected}");
        }
        for other in ["https://evil.example/", "https://agent.example/", "https://shop.example/cart?s=1"] {
            assert!(needs(other, false), "{other}");
        }
    }

    #[test]
    fn long_reply_is_truncated_and_a_plan_needs_none() {
        let long = "x".repeat(3_000);
        let read = |call| read(call, &ask("x", &[]));
        assert_eq!(
            read(json!({"kind": "refuse", "reply": long})),
            Ok(ModelAnswer::Refuse { reply: "x".repeat(2_000) })
        );
        assert_eq!(
            read(json!({"kind": "clarify", "reply": " Which? "})),
            Ok(ModelAnswer::Clarify { reply: "Which?".to_owned() })
        );
        let back = json!({"kind": "plan", "steps": [{"kind": "back"}], "look_again": true});
        let steps = vec![Step { action: Action::Back {}, needs_approval: false }];
        assert_eq!(read(back), Ok(ModelAnswer::Plan { steps, reply: String::new(), look_again: true }));
        let answer = ModelAnswer::Plan { steps: Vec::new(), reply: "It costs 3 €.".to_owned(), look_again: false };
        assert_eq!(read(json!({"kind": "plan", "reply": "It costs 3 €."})), Ok(answer));
    }
}
