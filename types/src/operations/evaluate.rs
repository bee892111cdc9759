use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    AnsweredDialog, DialogMembers, Interruption, OnTimeout, OpenDialog, OperationOutput, OperationResult,
    OperationSpec, Parameters, Secrets, UsageKind, parse_timeout,
};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules, both};

const SCRIPT_CHARS: usize = 65_536;
const ARGUMENT_BYTES: usize = 64 * 1024;
/// The database and many clients read no deeper JSON.
const VALUE_DEPTH: usize = 500;

#[derive(Clone, Serialize, Deserialize)]
pub struct Evaluate {
    /// Body of an async function, sealed during transfer.
    pub script: String,
    /// JSON array, sealed during transfer.
    pub arguments: String,
    pub timeout: Duration,
    pub on_timeout: OnTimeout,
}

/// Prints neither the script nor its arguments, so that they never reach a log.
impl fmt::Debug for Evaluate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluate").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Parameters for Evaluate {
    const SPEC: OperationSpec = OperationSpec {
        kind: "interact",
        route: Some("evaluate"),
        usage: Some(UsageKind::Interact),
        ..OperationSpec::ACTS
    };

    fn budget(&self) -> Duration {
        self.timeout
    }

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let Interruption { dialog, dialogs, url, duration_ms } = by;
        let dialog = Some(dialog);
        Some(OperationResult::Evaluate(Evaluated { dialogs, dialog, ..Evaluated::without_value(duration_ms, url) }))
    }

    fn take_secrets(&mut self) -> Option<Secrets> {
        let (script, arguments) = (std::mem::take(&mut self.script), std::mem::take(&mut self.arguments));
        Some(Secrets { typed: Some(script), arguments: Some(arguments), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        self.script = secrets.typed.unwrap_or_default();
        self.arguments = secrets.arguments.unwrap_or_default();
    }
}

impl Evaluate {
    pub fn parse(
        script: String,
        arguments: &[Value],
        timeout_ms: Option<u64>,
        on_timeout: OnTimeout,
        limits: &Limits,
    ) -> Result<Self, Invalid> {
        let arguments = Value::from(arguments).to_string();
        let mut rules = Rules::default();
        rules.length(&script, 1, SCRIPT_CHARS, "script");
        let message = format!("must have at most {ARGUMENT_BYTES} bytes as JSON");
        rules.require(arguments.len() <= ARGUMENT_BYTES, "args", message);
        let ((), timeout) = both(rules.check(), parse_timeout(timeout_ms, Duration::from_secs(30), limits))?;
        Ok(Self { script, arguments, timeout, on_timeout })
    }
}

/// Outcome of a script
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "value": {"title": "Shoes", "items": 3}, "exception": null, "duration_ms": 4, "url": "https://example.com/",
}))]
pub struct Evaluated {
    /// JSON of the returned value, as `JSON.stringify` makes it. `undefined`, functions and symbols are null, and an element is
    /// `{}`. A value of more than 8 MiB is not returned: the request fails with 502 `driver-error`, with `bytes` and `limit_bytes`,
    /// and the session stays ready
    #[schema(value_type = serde_json::Value)]
    pub value: ScriptValue,
    /// Exception that ended the script; null if there was none
    #[schema(required = true)]
    pub exception: Option<ScriptException>,
    pub duration_ms: u64,
    /// Address of the page after the script
    pub url: String,
    /// True if the script timed out with `on_timeout: return`; it may still be running
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. `value` is then null
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
}

impl Evaluated {
    #[must_use]
    pub fn without_value(duration_ms: u64, url: String) -> Self {
        Self {
            value: ScriptValue::null(),
            exception: None,
            duration_ms,
            url,
            timed_out: false,
            dialogs: Vec::new(),
            dialog: None,
        }
    }
}

impl OperationOutput for Evaluated {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }

    fn weight(&self) -> usize {
        self.value.0.get().len()
    }
}

/// Exception of a script
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"name": "TypeError", "message": "null is not an object (evaluating 'null.x')", "line": 2}))]
pub struct ScriptException {
    /// Name of the error, such as `TypeError`; `Error` for a thrown value that has no name
    pub name: String,
    /// Message of the error, or the thrown value as text, limited to its first 4,096 characters
    pub message: String,
    /// Line of the script, starting at 1; null if the exception is from no line of the script
    #[schema(required = true)]
    pub line: Option<u32>,
}

/// Prints no message, because it may contain values of the page.
impl fmt::Debug for ScriptException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptException").field("line", &self.line).finish_non_exhaustive()
    }
}

/// JSON text that is never parsed, so that a number keeps its digits and a text its surrogates.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScriptValue(Box<RawValue>);

impl ScriptValue {
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// `None` if it is nested too deeply.
    #[must_use]
    pub fn new(json: Box<RawValue>) -> Option<Self> {
        (depth(json.get()) <= VALUE_DEPTH).then_some(Self(json))
    }
}

/// Prints no content, so that it never reaches a log.
impl fmt::Debug for ScriptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptValue")
    }
}

impl PartialEq for ScriptValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

fn depth(json: &str) -> usize {
    let (mut deepest, mut now, mut in_text, mut is_escaped) = (0_usize, 0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !in_text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(script: &str, arguments: &Value) -> Result<Evaluate, Vec<String>> {
        let arguments = arguments.as_array().expect("a list");
        Evaluate::parse(script.to_owned(), arguments, None, OnTimeout::Fail, &Limits::default())
            .map_err(|Invalid(errors)| errors.into_iter().map(|error| error.field).collect())
    }

    #[test]
    fn script_and_arguments_have_bounds() {
        assert!(parsed(&"é".repeat(SCRIPT_CHARS), &json!([])).is_ok());
        for script in [String::new(), "x".repeat(SCRIPT_CHARS + 1)] {
            assert_eq!(parsed(&script, &json!([])).err(), Some(vec!["script".to_owned()]));
        }
        // The brackets and quotes count.
        assert!(parsed("x", &json!(["y".repeat(ARGUMENT_BYTES - 4)])).is_ok());
        assert_eq!(parsed("x", &json!(["y".repeat(ARGUMENT_BYTES - 3)])).err(), Some(vec!["args".to_owned()]));
    }

    #[test]
    fn script_and_arguments_are_taken_and_restored() {
        let mut evaluate = parsed("return 'secret'", &json!(["secret"])).expect("a script");
        let secrets = evaluate.take_secrets().expect("secrets");
        let stored = serde_json::to_string(&evaluate).expect("JSON");
        assert!(!stored.contains("secret"), "{stored}");
        let mut restored: Evaluate = serde_json::from_str(&stored).expect("the same type");
        restored.restore_secrets(secrets);
        assert_eq!((restored.script.as_str(), restored.arguments.as_str()), ("return 'secret'", r#"["secret"]"#));
        assert!(!format!("{restored:?}").contains("secret"));
    }

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        for (json, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{}],"b":[]}"#, 3), (r#"["[[\"[[\\",[]]"#, 2)] {
            assert_eq!(depth(json), expected, "{json}");
        }
        let raw = |depth: usize| RawValue::from_string("[".repeat(depth) + &"]".repeat(depth)).expect("JSON");
        assert!(ScriptValue::new(raw(VALUE_DEPTH)).is_some());
        assert!(ScriptValue::new(raw(VALUE_DEPTH + 1)).is_none());
    }
}
