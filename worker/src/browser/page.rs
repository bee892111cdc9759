//! Asking the page: scripts of ours, run in a world of our own.

use std::time::Duration;

use kitfleet_domain::validation::Invalid;
use kitfleet_host_protocol::{Command, HostError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::Ended;
use super::host::{CallError, Host, driver_failure};

/// How often a page is asked whether something has come about.
pub const POLL: Duration = Duration::from_millis(50);

/// How long a question is waited for before it is put again. A page that is busy longer answers all of them late.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often in a row a script that only reads may fail. A page that navigates fails it once or twice.
const MAX_FAILURES: u32 = 60;

/// Finds what a target means and where a finger reaches it.
pub const LOCATE: &str = include_str!("scripts/locate.js");
/// Focuses a field.
pub const FOCUS: &str = include_str!("scripts/focus.js");
/// Scrolls.
pub const SCROLL: &str = include_str!("scripts/scroll.js");
/// Looks for something visible.
pub const VISIBLE: &str = include_str!("scripts/visible.js");
/// Reads the local storage.
pub const STORAGE: &str = include_str!("scripts/storage.js");
/// Reads the document.
pub const DOM: &str = include_str!("scripts/dom.js");
/// Reads values.
pub const EXTRACT: &str = include_str!("scripts/extract.js");

const PRELUDE: &str = include_str!("scripts/page.js");

/// An element that is meant.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Target<'a> {
    /// By a selector of the caller's.
    Selector {
        /// CSS.
        selector: &'a str,
        /// Where the caller wrote it.
        field: &'a str,
    },
    /// By its looks.
    Role {
        /// What it is for.
        role: Role,
    },
}

/// What a field of a form is for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Search terms go here.
    Search,
    /// Who logs in.
    Username,
    /// And proves it.
    Password,
    /// Sends the form.
    Submit,
}

impl<'a> Target<'a> {
    /// The caller's selector if there is one, or else what looks like it.
    pub fn chosen(selector: Option<&'a str>, field: &'a str, role: Role) -> Self {
        selector.map_or(Self::Role { role }, |selector| Self::Selector { selector, field })
    }
}

/// What a script of ours returns.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Value(T),
    Refused { field: String, message: String },
}

/// Runs a script once. `None` when the page went away under it.
pub async fn ask_once<T: DeserializeOwned>(
    host: &Host,
    script: &str,
    input: &impl Serialize,
) -> Result<Option<T>, Ended> {
    match host.call(Command::Evaluate { script: assemble(script, input) }).await {
        Ok(Answer::Value(value)) => Ok(Some(value)),
        Ok(Answer::Refused { field, message }) => Err(Ended::Invalid(Invalid::field(field, message))),
        Err(CallError::Refused(HostError::Script { message })) => {
            tracing::debug!(message, "a script did not finish");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs a script that may run twice. `None` when the page went away under it, or is too busy to answer.
pub async fn ask<T: DeserializeOwned>(host: &Host, script: &str, input: &impl Serialize) -> Result<Option<T>, Ended> {
    timeout(ANSWER_WITHIN, ask_once(host, script, input)).await.unwrap_or(Ok(None))
}

/// Runs a script that only reads, again if the page goes away under it. A page that hangs is waited for.
pub async fn read<T: DeserializeOwned>(host: &Host, script: &str, input: &impl Serialize) -> Result<T, Ended> {
    for _ in 0..MAX_FAILURES {
        if let Some(answer) = ask_once(host, script, input).await? {
            return Ok(answer);
        }
        sleep(POLL).await;
    }
    Err(Ended::Failed(driver_failure("the page could not be read")))
}

/// A caller's text gets into a script as a string of a string: nothing in it can be code.
fn assemble(script: &str, input: &impl Serialize) -> String {
    let quoted = |text: &str| serde_json::to_string(text).expect("a string is JSON");
    let input = quoted(&serde_json::to_string(input).expect("inputs have string keys"));
    format!(
        "const input = JSON.parse({input});\n{PRELUDE}\n\
         try {{\n  return {{ value: await (async () => {{\n{script}\n}})() ?? null }};\n}} \
         catch (error) {{\n  if (!(error instanceof Refusal)) throw error;\n  \
         return {{ refused: {{ field: error.field, message: error.message }} }};\n}}"
    )
}
