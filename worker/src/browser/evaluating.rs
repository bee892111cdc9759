//! Scripts of the customer in the page's own world.

use std::time::{Duration, Instant};

use kitfleet_domain::blocking::run_blocking;
use kitfleet_host_protocol::{self as protocol, HostCommand, HostError, ScriptEnd, ScriptRun, SyntaxError};
use kitfleet_types::operations::{Evaluate, Evaluated, Refusal, ScriptException, ScriptValue};
use serde_json::Value;
use tokio::time::timeout;

use super::OperationEnd;
use super::host::CallError;
use super::reading::too_large;
use super::webkit::{Webkit, milliseconds};

/// For the page's answer, after a script has reached its time limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

impl Webkit {
    pub(super) async fn evaluate(&mut self, evaluate: &Evaluate, started: Instant) -> Result<Evaluated, OperationEnd> {
        if self.holds_submissions {
            return Err(OperationEnd::Refused(Refusal::SubmissionsHeld));
        }
        let limit = self.limits.result_bytes as u64;
        let (script, arguments) = (evaluate.script.clone(), evaluate.arguments.clone());
        let command = HostCommand::RunScript { script, arguments, limit_bytes: limit, as_condition: false };
        let ScriptRun { uri, end } = self.host.call(command).await?;
        let evaluated = Evaluated::without_value(milliseconds(started), uri);
        let threw = |name: &str, message: &str| {
            let exception = ScriptException { name: name.to_owned(), message: message.to_owned(), line: None };
            Ok(Evaluated { exception: Some(exception), ..evaluated.clone() })
        };
        match end {
            ScriptEnd::Value(json) => match run_blocking(json.get().len(), || ScriptValue::new(json)) {
                Some(value) => Ok(Evaluated { value, ..evaluated }),
                None => threw("RangeError", "the value is nested too deeply"),
            },
            ScriptEnd::TooLarge(bytes) => Err(too_large("value", bytes, limit)),
            ScriptEnd::Exception(protocol::ScriptException { name, message, line }) => {
                Ok(Evaluated { exception: Some(ScriptException { name, message, line }), ..evaluated })
            }
            ScriptEnd::SyntaxError(error) => Err(OperationEnd::invalid("script", syntax_message(&error))),
            ScriptEnd::Replaced => threw("AbortError", "the page was replaced or closed while the script ran"),
        }
    }

    pub(super) async fn page_answers(&self) -> bool {
        let asked = self.host.call::<Value>(HostCommand::Evaluate { script: "return null".to_owned() });
        // A page that was replaced meanwhile answers as well.
        matches!(timeout(ANSWER_WITHIN, asked).await, Ok(Ok(_) | Err(CallError::Refused(HostError::Script { .. }))))
    }
}

/// Without text of the script.
pub(super) fn syntax_message(SyntaxError { message, line }: &SyntaxError) -> String {
    let line = line.map(|line| format!(" in line {line}")).unwrap_or_default();
    format!("must be the body of an async function: {message}{line}")
}
