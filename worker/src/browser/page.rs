//! Asking the page: scripts of ours, run in a world of our own.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitfleet_domain::operations::{Element, ROLES, Target};
use kitfleet_domain::validation::Invalid;
use kitfleet_host_protocol::{HostCommand, HostError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::OperationEnd;
use super::host::{CallError, Host, driver_failure};

/// How often a page is asked whether something has come about.
pub const POLL: Duration = Duration::from_millis(50);

/// How long a question is waited for before it is put again. A page that is busy longer answers all of them late.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often in a row a script that only reads may fail. A page that navigates fails it once or twice.
const MAX_FAILURES: u32 = 60;

/// A question to the page.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    name: &'static str,
    own: &'static str,
    library: Library,
}

/// What a script needs besides what all need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Library {
    Nothing,
    Words,
    Looks,
}

impl Library {
    const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Words => concat!(include_str!("scripts/accessible.js"), include_str!("scripts/targets.js")),
            Self::Looks => include_str!("scripts/looks.js"),
        }
    }
}

impl Script {
    const fn of(name: &'static str, own: &'static str) -> Self {
        Self { name, own, library: Library::Nothing }
    }

    const fn of_all_elements(name: &'static str, own: &'static str) -> Self {
        Self { name, own, library: Library::Words }
    }

    /// The same about what is told by more than a selector, if this is.
    pub fn about(self, sought: PageQuery<'_>) -> Self {
        match sought {
            PageQuery::Selector { .. } => self,
            PageQuery::Target { .. } => Self { library: Library::Words, ..self },
            PageQuery::Looks { .. } => Self { library: Library::Looks, ..self },
        }
    }

    /// What the page knows it by.
    fn key(self) -> String {
        format!("{} {:?}", self.name, self.library)
    }
}

/// Finds out where a finger reaches an element.
pub const REACH: Script = Script::of("reach", include_str!("scripts/reach.js"));
/// Chooses an option of a menu.
pub const CHOOSE: Script = Script::of("choose", include_str!("scripts/choose.js"));
/// Focuses a field.
pub const FOCUS: Script = Script::of("focus", include_str!("scripts/focus.js"));
/// Scrolls.
pub const SCROLL: Script = Script::of("scroll", include_str!("scripts/scroll.js"));
/// Looks for something visible.
pub const VISIBLE: Script = Script::of("visible", include_str!("scripts/visible.js"));
/// Reads the local storage.
pub const STORAGE: Script = Script::of("storage", include_str!("scripts/storage.js"));
/// Reads the document.
pub const DOM: Script = Script::of("dom", include_str!("scripts/dom.js"));
/// Reads values.
pub const EXTRACT: Script = Script::of("extract", include_str!("scripts/extract.js"));
/// Reads what the page shows.
pub const SNAPSHOT: Script = Script::of_all_elements("snapshot", include_str!("scripts/snapshot.js"));
/// Finds out who it is that words mean.
pub const FIND: Script = Script::of_all_elements("find", include_str!("scripts/find.js"));
/// Looks for challenges.
pub const CHALLENGES: Script = Script::of("challenges", include_str!("scripts/challenges.js"));

const PRELUDE: &str = include_str!("scripts/page.js");

/// An element that is meant.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum PageQuery<'a> {
    /// By a selector of the caller's.
    Selector {
        /// CSS.
        selector: &'a str,
        /// Where the caller wrote it.
        field: &'a str,
    },
    /// By what it is.
    Target {
        /// What.
        target: &'a Target,
        /// Where the caller wrote it.
        field: &'a str,
    },
    /// By its looks.
    Looks {
        /// What it is for.
        looks: Use,
    },
}

/// What a field of a form is for.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Search terms go here.
    Search,
    /// Who logs in.
    Username,
    /// And proves it.
    Password,
    /// Sends the form.
    Submit,
}

impl<'a> PageQuery<'a> {
    /// The caller's selector if there is one, or else what looks like it.
    pub fn chosen(selector: Option<&'a str>, field: &'a str, looks: Use) -> Self {
        selector.map_or(Self::Looks { looks }, |selector| Self::Selector { selector, field })
    }

    /// The caller's element, which stands in this field.
    pub fn written(element: &'a Element, field: &'a str) -> Self {
        match element {
            Element::Selector(selector) => Self::Selector { selector, field },
            Element::Target(target) => Self::Target { target, field },
        }
    }

    /// Where the caller wrote it.
    pub fn field(self) -> &'a str {
        match self {
            Self::Selector { field, .. } | Self::Target { field, .. } => field,
            Self::Looks { .. } => "selector",
        }
    }
}

/// What a script of ours returns.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Value(T),
    /// The page does not know the script: another was loaded meanwhile.
    Unknown,
    Refused {
        field: String,
        message: String,
        members: Map<String, Value>,
    },
}

/// Which scripts the page was told, so that it need not read them anew.
#[derive(Default)]
pub struct LoadedScripts(Mutex<HashSet<(&'static str, Library)>>);

impl LoadedScripts {
    /// Forgets them, since another page is about to come.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(&'static str, Library)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a script once. `None` when the page went away under it.
pub async fn ask_once<T: DeserializeOwned>(
    host: &Host,
    script: Script,
    input: &impl Serialize,
) -> Result<Option<T>, OperationEnd> {
    let id = (script.name, script.library);
    if host.told().lock().contains(&id) {
        let answer = host.call(HostCommand::Evaluate { script: recall(script, input) }).await;
        if !matches!(answer, Ok(Answer::<T>::Unknown)) {
            return hear(answer);
        }
        host.told().forget();
    }
    let answer = host.call(HostCommand::Evaluate { script: tell(script, input) }).await;
    if answer.is_ok() {
        host.told().lock().insert(id);
    }
    hear(answer)
}

fn hear<T>(answer: Result<Answer<T>, CallError>) -> Result<Option<T>, OperationEnd> {
    match answer {
        Ok(Answer::Value(value)) => Ok(Some(value)),
        Ok(Answer::Unknown) => Ok(None),
        Ok(Answer::Refused { field, message, members }) => {
            Err(OperationEnd::Invalid { invalid: Invalid::field(field, message), members })
        }
        Err(CallError::Refused(HostError::Script { message })) => {
            tracing::debug!(message, "script did not finish");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs a script that may run twice. `None` when the page went away under it, or is too busy to answer.
pub async fn ask<T: DeserializeOwned>(
    host: &Host,
    script: Script,
    input: &impl Serialize,
) -> Result<Option<T>, OperationEnd> {
    timeout(ANSWER_WITHIN, ask_once(host, script, input)).await.unwrap_or(Ok(None))
}

/// Runs a script that only reads, again if the page goes away under it. A page that hangs is waited for.
pub async fn read<T: DeserializeOwned>(host: &Host, script: Script, input: &impl Serialize) -> Result<T, OperationEnd> {
    for _ in 0..MAX_FAILURES {
        if let Some(answer) = ask_once(host, script, input).await? {
            return Ok(answer);
        }
        sleep(POLL).await;
    }
    Err(OperationEnd::Failed(driver_failure("the page could not be read")))
}

/// Has the page run a script that it was told. A caller's text gets into a script as a string of a string: nothing in it can be code.
fn recall(script: Script, input: &impl Serialize) -> String {
    let (name, input) = (quoted(&script.key()), quoted(&inputs(input)));
    format!(
        "const script = globalThis[Symbol.for('kitfleet.scripts')]?.get({name});\n\
         return script ? await script(JSON.parse({input})) : 'unknown';"
    )
}

/// Tells the page a script, and has it run that. It keeps the script for as long as it is there, so that it reads and compiles it once.
fn tell(script: Script, input: &impl Serialize) -> String {
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
