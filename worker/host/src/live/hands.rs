//! What a person does, who sees what comes of it: nobody waits for the page.

use std::rc::Rc;

use kitfleet_host_protocol::{Act, HostError, TouchPhase};
use webkit2gtk::WebViewExt;

use super::asked;
use crate::browser::Browser;
use crate::{keys, touch};

/// Fingers of a person have other numbers than that of an operation, which WebKit would take for one of theirs.
const FIRST_FINGER: usize = 16;

/// Does it, and says whether the page answers. When it does not, nothing more is done: what waits for a page that is stuck would be done
/// long after the person has seen it.
pub fn act(browser: &Rc<Browser>, acts: Vec<Act>) -> Result<bool, HostError> {
    for act in &acts {
        if let Act::Key { key } = act {
            keys::check(key)?;
        }
    }
    for act in acts {
        let answers = asked::is_open(browser) || browser.view.is_web_process_responsive();
        match act {
            Act::Choose { index } => asked::choose(browser, index),
            Act::Answer { accept, text } => asked::answer(browser, accept, text.as_deref()),
            // What was done to a page that has answered then is ended all the same.
            Act::Touch { phase: TouchPhase::Begin | TouchPhase::Update, .. } | Act::Key { .. } | Act::Text { .. }
                if !answers =>
            {
                return Ok(false);
            }
            Act::Touch { finger, phase, x, y } => {
                touch::send(browser, FIRST_FINGER + usize::from(finger), phase, (x, y))?;
            }
            Act::Key { key } => keys::strike(browser, &key)?,
            Act::Text { text } => browser.view.execute_editing_command_with_argument("InsertText", &text),
        }
    }
    Ok(true)
}
