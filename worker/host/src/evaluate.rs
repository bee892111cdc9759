//! Scripts of the customer, which run in the page's own world.
//!
//! The isolated world starts the scripts by a function of the extension (`extension/evaluation.rs`), and converts their values,
//! so that a page that has replaced `JSON` or `Promise` cannot change or stop the answer.

use std::rc::Rc;

use kitfleet_host_protocol::{HostError, ScriptEnd, ScriptException, ScriptRun};

use crate::browser::{Browser, Page};
use crate::channel::json;
use crate::script;

const EVALUATE: &str = include_str!("evaluate.js");

/// `arguments` is a JSON array. Its value has at most `limit_bytes` as JSON. A condition returns only whether the value is
/// truthy.
pub async fn run(
    page: &Rc<Page>,
    body: &str,
    arguments: &str,
    (limit_bytes, as_condition): (u64, bool),
) -> Result<ScriptRun, HostError> {
    let (body, arguments) = (json(&body), json(&arguments));
    let function = format!(
        "'use strict';\nconst script = {}, args = {}, limit = {limit_bytes}, asCondition = {as_condition};\n{EVALUATE}",
        body.get(),
        arguments.get()
    );
    let end = match script::call(page, &function).await {
        Ok(Some(text)) => serde_json::from_str(&text).map_err(|error| script::no_json(&error))?,
        Ok(None) => ScriptEnd::Replaced,
        // The script has broken its page, for example by using all of its memory for scripts.
        Err(HostError::Script { message }) => {
            ScriptEnd::Exception(ScriptException { name: "Error".to_owned(), message, line: None })
        }
        Err(error) => return Err(error),
    };
    Ok(ScriptRun { uri: active_uri(&page.browser), end })
}

/// The page may have been closed.
fn active_uri(browser: &Browser) -> String {
    browser.pages.active().uri().0
}
