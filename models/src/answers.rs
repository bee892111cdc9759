//! What a model may answer: one call of one tool.
//!
//! The tool's schema tells the model what there is; what it answers is read here, and believed in nothing. A step of an unknown
//! kind, or with a member too many, such as a selector or a script, makes all of the answer none. Elements are
//! named by the page's own refs, and one that the page does not have cannot be named. Bounds of texts and times are those of the
//! operations that become of the steps, and are judged there.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Deref;

use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::operations::CaptureKind;
use kitfleet_domain::validation::has_nul;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::addresses::ExpectedDocuments;
use crate::prompts::{ConversationRole, Prompt};

/// The tool's name.
pub const TOOL: &str = "answer";
/// What the tool is for.
pub const PURPOSE: &str = "Say what is to be done for the person. Every answer is one call of this.";
/// Characters of a reply.
const MOST_REPLY_CHARS: usize = 2_000;
/// What a model may add to each step.
const APPROVAL: &str = "ask_approval";

/// What a model wants.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelAnswer {
    /// Something done.
    Plan {
        /// What, in this order. When there is nothing to do, or nothing any more, the reply says all.
        steps: Vec<Step>,
        /// What it says about that; may be empty.
        reply: String,
        /// Whether it has to see the page once more then, to go on.
        look_again: bool,
    },
    /// To know more.
    Clarify {
        /// What.
        reply: String,
    },
    /// To do nothing.
    Refuse {
        /// Why.
        reply: String,
    },
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What.
    pub action: Action,
    /// Whether somebody has to be asked first, because the model says so or nobody has named the address. Whoever runs the step adds
    /// what else needs that; nothing takes it away.
    pub needs_approval: bool,
}

/// An element by what the page's snapshot calls it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Ref(pub String);

/// What a step is. Also those without members are read as if they had some: of others, unknown ones would be let pass.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Goes to an address of the web.
    Navigate {
        /// Where.
        url: String,
    },
    /// Touches an element.
    Tap {
        /// Which.
        #[serde(rename = "ref")]
        target: Ref,
    },
    /// Writes into an element.
    Type {
        /// Which.
        #[serde(rename = "ref")]
        target: Ref,
        /// What.
        value: String,
    },
    /// Presses a key.
    Press {
        /// Which, such as `Enter`.
        key: String,
    },
    /// Chooses an option.
    Select {
        /// Of which element.
        #[serde(rename = "ref")]
        target: Ref,
        /// Which, by its label.
        option: String,
    },
    /// Scrolls, by CSS pixels.
    Scroll {
        /// To the right.
        #[serde(default)]
        delta_x: i64,
        /// Down.
        #[serde(default)]
        delta_y: i64,
        /// What is scrolled; else the page.
        #[serde(default, rename = "ref")]
        target: Option<Ref>,
    },
    /// Waits.
    Wait {
        /// For what.
        condition: Condition,
    },
    /// Takes a picture of the page.
    Capture {
        /// Of which kind.
        capture: CaptureKind,
    },
    /// Reads values from the page.
    Extract {
        /// Which.
        items: Vec<Item>,
    },
    /// Goes to where it was before.
    Back {},
    /// Loads the page anew.
    Reload {},
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// That an element is seen.
    Visible {
        /// Which.
        #[serde(rename = "ref")]
        target: Ref,
    },
    /// That it is not.
    Hidden {
        /// Which.
        #[serde(rename = "ref")]
        target: Ref,
    },
    /// That the address matches.
    Url {
        /// A regular expression.
        pattern: String,
    },
    /// That time passes.
    Time {
        /// How much.
        ms: u64,
    },
}

/// A value that is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it is called.
    pub name: String,
    /// Where it is.
    #[serde(rename = "ref")]
    pub target: Ref,
    /// Which attribute it is; else the text.
    #[serde(default)]
    pub attribute: Option<String>,
}

/// Why an answer is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is not a call of the tool.
    #[error("it does not say what to do")]
    NoCall,
    /// It is one that nobody understands.
    #[error("it does not have the form that was asked for")]
    Form,
    /// It wants more than one message may.
    #[error("it has {0} steps, which is nothing said or too much")]
    Steps(usize),
    /// A step is of no kind that there is, or lacks something, or has something else.
    #[error("step {0} is none that there is")]
    Step(usize),
    /// A step is about an element that is not there.
    #[error("step {0} is about an element that is not on the page")]
    NoElement(usize),
    /// A step goes where no page is.
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

/// Reads what the tool was called with.
pub fn read(call: Value, ask: &Prompt<'_>) -> Result<ModelAnswer, AnswerError> {
    if has_nul(&call) {
        return Err(AnswerError::Form);
    }
    let Call { kind, reply, steps, look_again } = serde_json::from_value(call).map_err(|_| AnswerError::Form)?;
    let reply: String = reply.trim().chars().take(MOST_REPLY_CHARS).collect();
    if kind != Kind::Plan {
        if reply.is_empty() || !steps.is_empty() {
            return Err(AnswerError::Form);
        }
        return Ok(if kind == Kind::Clarify { ModelAnswer::Clarify { reply } } else { ModelAnswer::Refuse { reply } });
    }
    // Without steps it is an answer: what was asked for is on the page, or done already.
    if steps.is_empty() && reply.is_empty() || steps.len() > ask.most_steps {
        return Err(AnswerError::Steps(steps.len()));
    }
    let refs = ask.page.map(|page| refs(page.snapshot)).unwrap_or_default();
    // All that was said is looked at once, however many addresses there are to judge.
    let expected = LazyCell::new(|| run_blocking(usize::MAX, || expected(ask)));
    let steps = steps.into_iter().enumerate().map(|(index, step)| read_step(index + 1, step, &expected, &refs));
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
    // What fields hold, the page's snapshot has already, but for passwords.
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

/// Where the customer's own words, or the page's links, lead.
fn expected(ask: &Prompt<'_>) -> ExpectedDocuments {
    let before = ask.history.iter().filter(|said| said.by == ConversationRole::Customer).map(|said| said.text);
    let here = ask.page.map(|page| page.url);
    let links = ask.page.map(|page| page.links).unwrap_or_default().iter().map(String::as_str);
    ExpectedDocuments::of(before.chain([ask.message]), links.chain(here))
}

impl Action {
    /// The elements that it is about.
    fn targets(&self) -> Vec<&Ref> {
        match self {
            Self::Tap { target }
            | Self::Type { target, .. }
            | Self::Select { target, .. }
            | Self::Wait { condition: Condition::Visible { target } | Condition::Hidden { target } } => vec![target],
            Self::Scroll { target, .. } => target.iter().collect(),
            Self::Extract { items } => items.iter().map(|item| &item.target).collect(),
            Self::Navigate { .. }
            | Self::Press { .. }
            | Self::Wait { .. }
            | Self::Capture { .. }
            | Self::Back {}
            | Self::Reload {} => Vec::new(),
        }
    }
}

/// The refs of a snapshot, `[ref=…]`, of which a line has one at most, behind the element's name. What stands in the quoted name is the
/// page's, and whatever it looks like it is no ref.
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

/// What the tool takes, as JSON Schema.
pub fn schema(most_steps: usize) -> Value {
    let element = json!({"type": "string", "description": "The ref of an element of the snapshot, such as e12"});
    let text = json!({"type": "string"});
    let attribute = json!({"type": "string", "description": "Any but value, which the snapshot has"});
    let step = |kind: &str, members: Value, required: &[&str]| {
        let mut properties = json!({"kind": {"const": kind}});
        if let (Some(properties), Value::Object(members)) = (properties.as_object_mut(), members) {
            properties.extend(members);
            properties.insert(APPROVAL.to_owned(), json!({
                "type": "boolean",
                "description": "True when a person should agree first: it pays, sends, publishes, deletes or confirms something",
            }));
        }
        let required: Vec<_> = ["kind"].iter().chain(required).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let condition = |kind: &str, member: &str, schema: &Value| {
        let properties = json!({"kind": {"const": kind}, member: schema});
        json!({"type": "object", "properties": properties, "required": ["kind", member], "additionalProperties": false})
    };
    let conditions = [
        condition("visible", "ref", &element),
        condition("hidden", "ref", &element),
        condition("url", "pattern", &text),
        condition("time", "ms", &json!({"type": "integer", "minimum": 0, "maximum": 60_000})),
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
        step("back", json!({}), &[]),
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
            "steps": {"type": "array", "items": {"anyOf": steps}, "maxItems": most_steps},
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
    use crate::prompts::{ConversationTurn, MOST_ANSWER, Page};

    const SNAPSHOT: &str = "document \"Shop\"\n  button \"Sign in\" [ref=e1]\n  textbox \"Name [ref=e9]\" [required] [ref=e2]\n  \
                            link \"a \\\" [ref=e8]\" [ref=e3]\n  text \"[ref=e7]\"\n  combobox \"Size\" [ref=e4]";

    fn ask<'a>(message: &'a str, links: &'a [String]) -> Prompt<'a> {
        let page = Page { url: "https://shop.example/", snapshot: SNAPSHOT, links };
        Prompt { message, history: &[], page: Some(page), done: &[], most_steps: 3, most_tokens: MOST_ANSWER }
    }

    fn plan(steps: &Value) -> Value {
        json!({"kind": "plan", "steps": steps})
    }

    fn step(step: &Value) -> Result<Step, AnswerError> {
        match read(plan(&json!([step])), &ask("open shop.example", &[])) {
            Ok(ModelAnswer::Plan { mut steps, .. }) => Ok(steps.remove(0)),
            Ok(other) => panic!("{other:?}"),
            Err(unusable) => Err(unusable),
        }
    }

    /// Contract: byok 13.
    #[test]
    fn every_kind_of_step_is_read_as_its_schema_has_it() {
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
            json!({"kind": "back"}),
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
        ]) {
            assert_eq!(condition["properties"]["kind"]["const"], given["kind"]);
            step(&json!({"kind": "wait", "condition": given})).expect("a step");
        }
    }

    /// Contract: byok 13. Refs only: neither selectors nor scripts, nor anything that the page only says is a ref.
    #[test]
    fn a_step_that_is_not_in_the_tool_makes_the_answer_none() {
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

    /// Contract: byok 14. A mark that somebody has to agree can be added, and by nobody taken away.
    #[test]
    fn an_address_that_nobody_named_needs_approval() {
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
    fn a_reply_is_cut_and_a_plan_may_have_none() {
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
