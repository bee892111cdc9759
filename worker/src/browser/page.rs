use std::time::Duration;

use kitfleet_host_protocol::{HostCommand, HostError};
use kitfleet_types::operations::{Element, ROLES, Target};
use kitfleet_types::validation::Invalid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::OperationEnd;
use super::host::{CallError, Host, driver_failure};
use super::loaded_scripts::Library;

/// Between checks of a page for a condition.
pub const POLL: Duration = Duration::from_millis(50);

/// The script is then sent again. A page that is busy for longer answers each of them late.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Of a script that only reads. A navigation causes one or two failures.
const MAX_FAILURES: u32 = 60;

#[derive(Debug, Clone, Copy)]
pub struct Script {
    name: &'static str,
    own: &'static str,
    library: Library,
}

impl Script {
    const fn of(name: &'static str, own: &'static str) -> Self {
        Self { name, own, library: Library::Nothing }
    }

    const fn of_all_elements(name: &'static str, own: &'static str) -> Self {
        Self { name, own, library: Library::Words }
    }

    pub fn about(self, sought: PageQuery<'_>) -> Self {
        match sought {
            PageQuery::Selector { .. } => self,
            PageQuery::Target { .. } => Self { library: Library::Words, ..self },
            PageQuery::Looks { .. } => Self { library: Library::Looks, ..self },
        }
    }

    fn key(self) -> String {
        format!("{} {:?}", self.name, self.library)
    }
}

/// Position of an element where it can be tapped.
pub const REACH: Script = Script::of("reach", include_str!("scripts/reach.js"));
pub const CHOOSE: Script = Script::of("choose", include_str!("scripts/choose.js"));
pub const FILL: Script = Script::of("fill", include_str!("scripts/fill.js"));
pub const CHECKED: Script = Script::of("checked", include_str!("scripts/checked.js"));
pub const UPLOAD: Script = Script::of("upload", include_str!("scripts/upload.js"));
pub const FOCUS: Script = Script::of("focus", include_str!("scripts/focus.js"));
pub const SCROLL: Script = Script::of("scroll", include_str!("scripts/scroll.js"));
pub const VISIBLE: Script = Script::of("visible", include_str!("scripts/visible.js"));
/// Scrolls an element into view for a picture, and returns its box.
pub const PICTURE: Script = Script::of("picture", include_str!("scripts/picture.js"));
pub const STORAGE: Script = Script::of("storage", include_str!("scripts/storage.js"));
pub const DOM: Script = Script::of("dom", include_str!("scripts/dom.js"));
pub const EXTRACT: Script = Script::of("extract", include_str!("scripts/extract.js"));
pub const SNAPSHOT: Script = Script::of_all_elements("snapshot", include_str!("scripts/snapshot.js"));
pub const FIND: Script = Script::of_all_elements("find", include_str!("scripts/find.js"));
/// Boxes that a recorded picture must not show, and the text of the page.
pub const RECORDED: Script = Script::of_all_elements(
    "recorded",
    concat!(
        "const covers = async (input) => {\n",
        include_str!("scripts/covers.js"),
        "};\nconst snapshot = async (input) => {\n",
        include_str!("scripts/snapshot.js"),
        "};\n",
        include_str!("scripts/recorded.js")
    ),
);
pub const CHALLENGES: Script = Script::of("challenges", include_str!("scripts/challenges.js"));

const PRELUDE: &str = include_str!("scripts/page.js");

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum PageQuery<'a> {
    Selector {
        selector: &'a str,
        field: &'a str,
    },
    Target {
        target: &'a Target,
        field: &'a str,
        /// Words must be the whole text, in the same case.
        exact: bool,
    },
    Looks {
        looks: Use,
    },
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    Search,
    Username,
    Password,
    Submit,
}

impl<'a> PageQuery<'a> {
    /// Returns the caller's selector, or a query by appearance.
    pub fn chosen(selector: Option<&'a str>, field: &'a str, looks: Use) -> Self {
        selector.map_or(Self::Looks { looks }, |selector| Self::Selector { selector, field })
    }

    pub fn written(element: &'a Element, field: &'a str) -> Self {
        match element {
            Element::Selector(selector) => Self::Selector { selector, field },
            Element::Target(target) => Self::Target { target, field, exact: false },
            Element::Exact(target) => Self::Target { target, field, exact: true },
        }
    }

    pub fn field(self) -> &'a str {
        match self {
            Self::Selector { field, .. } | Self::Target { field, .. } => field,
            Self::Looks { .. } => "selector",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Value(T),
    /// Another page was loaded meanwhile.
    Unknown,
    Refused {
        field: String,
        message: String,
        members: Map<String, Value>,
    },
}

/// `None` when the page was replaced meanwhile.
pub async fn ask_once<T: DeserializeOwned>(
    host: &Host,
    script: Script,
    input: &impl Serialize,
) -> Result<Option<T>, OperationEnd> {
    let id = (script.name, script.library);
    if host.loaded_scripts().lock().contains(&id) {
        let answer = host.call(HostCommand::Evaluate { script: loaded_script(script, input) }).await;
        if !matches!(answer, Ok(Answer::<T>::Unknown)) {
            return read_answer(answer);
        }
        host.loaded_scripts().forget();
    }
    let answer = host.call(HostCommand::Evaluate { script: full_script(script, input) }).await;
    if answer.is_ok() {
        host.loaded_scripts().lock().insert(id);
    }
    read_answer(answer)
}

fn read_answer<T>(answer: Result<Answer<T>, CallError>) -> Result<Option<T>, OperationEnd> {
    match answer {
        Ok(Answer::Value(value)) => Ok(Some(value)),
        Ok(Answer::Unknown) => Ok(None),
        Ok(Answer::Refused { field, message, members }) => {
            Err(OperationEnd::Invalid { invalid: Invalid::field(field, message), members })
        }
        Err(CallError::Refused(HostError::Script { message })) => {
            tracing::debug!(detail = message, "script in a page did not finish");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The script may run twice. `None` when the page was replaced meanwhile, or is too busy to answer.
pub async fn ask<T: DeserializeOwned>(
    host: &Host,
    script: Script,
    input: &impl Serialize,
) -> Result<Option<T>, OperationEnd> {
    timeout(ANSWER_WITHIN, ask_once(host, script, input)).await.unwrap_or(Ok(None))
}

/// Repeats the script if the page is replaced meanwhile. Waits for a page that hangs.
pub async fn read<T: DeserializeOwned>(host: &Host, script: Script, input: &impl Serialize) -> Result<T, OperationEnd> {
    for _ in 0..MAX_FAILURES {
        if let Some(answer) = ask_once(host, script, input).await? {
            return Ok(answer);
        }
        sleep(POLL).await;
    }
    Err(OperationEnd::Failed(driver_failure("the page could not be read")))
}

/// The caller's text is a JSON string within a string literal, so it cannot become code.
fn loaded_script(script: Script, input: &impl Serialize) -> String {
    let (name, input) = (quoted(&script.key()), quoted(&inputs(input)));
    format!(
        "const script = globalThis[Symbol.for('kitfleet.scripts')]?.get({name});\n\
         return script ? await script(JSON.parse({input})) : 'unknown';"
    )
}

/// The page keeps the compiled script for later runs.
fn full_script(script: Script, input: &impl Serialize) -> String {
    let (own, library) = (script.own, script.library.text());
    let (name, input) = (quoted(&script.key()), quoted(&inputs(input)));
    let roles = json!(ROLES);
    format!(
        "const script = async (input) => {{\nconst ROLES = new Set({roles});\n{PRELUDE}\n{library}\n\
         try {{\n  return {{ value: await (async () => {{\n{own}\n}})() ?? null }};\n}} \
         catch (error) {{\n  if (!(error instanceof Refusal)) throw error;\n  \
         return {{ refused: {{ field: error.field, message: error.message, members: error.members }} }};\n}}\n}};\n\
         (globalThis[Symbol.for('kitfleet.scripts')] ??= new Map()).set({name}, script);\n\
         return await script(JSON.parse({input}));"
    )
}

fn inputs(input: &impl Serialize) -> String {
    serde_json::to_string(input).expect("inputs have string keys")
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}
