//! Keeping pages from submitting forms, while nobody has said that they may.
//!
//! A listener in our own world, in every frame, stops a form before the page hears of it, which may send it by a script. What is
//! submitted without that event, or in a frame of another site, WebKit asks leave for as for any load, and does not get it.
//!
//! The page at the top remembers, in our world, which form was stopped last. So it can be submitted later, without doing once more
//! whatever had led to that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use webkit2gtk::{
    NavigationAction, NavigationType, URIRequestExt, UserContentInjectedFrames, UserContentManagerExt, UserScript,
    UserScriptInjectionTime,
};

use kitfleet_host_protocol::{Held, HostError};
use serde_json::json;

use crate::browser::Browser;
use crate::{navigation, script};

/// How the listener reports a form.
const HELD: &str = "held";

/// Stops forms while the page at the top says so, in our world, where no page can say it. The event of a form in a shadow root stays
/// in there, so that it is listened for where somebody has just touched. A form that a script submits says nothing but what it is made of.
pub const LISTENERS: &str = "
const holding = () => {
  try {
    return top[Symbol.for('kitfleet.holding')] === true;
  } catch {
    return false;
  }
};
const hold = (event) => {
  if (!holding()) return;
  top[Symbol.for('kitfleet.stopped')] = { form: event.target, submitter: event.submitter };
  event.preventDefault();
  event.stopImmediatePropagation();
  webkit.messageHandlers.kitfleet.postMessage('held');
};
const gather = (event) => {
  if (holding()) top[Symbol.for('kitfleet.gathered')] = { form: event.target };
};
const listen = (node) => {
  node.addEventListener('submit', hold, true);
  node.addEventListener('formdata', gather, true);
};
const everywhere = (event) => {
  for (const node of event.composedPath()) {
    if (node.nodeType === 11) listen(node);
  }
};
listen(window);
for (const type of ['touchstart', 'mousedown', 'keydown', 'click']) addEventListener(type, everywhere, { capture: true, passive: true });
";

/// What says in the page at the top that forms are held, or not.
fn say(hold: bool) -> String {
    format!("globalThis[Symbol.for('kitfleet.holding')] = {hold};")
}

/// Keeps the form that was stopped last: others may be stopped before somebody has approved of this one. One that a script submits is
/// that of which it has just gathered what it is made of, if it goes where what was stopped was to go.
const KEEP: &str = "
const [stopped, gathered, kept] = ['stopped', 'gathered', 'kept'].map((name) => Symbol.for(`kitfleet.${name}`));
const bare = (text) => text.split(/[?#]/)[0];
const action = Object.getOwnPropertyDescriptor(HTMLFormElement.prototype, 'action').get;
const goes = (form) => bare(action.call(form)) === bare(address);
const found = globalThis[address === null ? stopped : gathered];
globalThis[kept] = found && (address === null || goes(found.form)) ? found : null;
delete globalThis[stopped];
delete globalThis[gathered];
";

/// Submits the form that was kept, if the page still has it.
const RELEASE: &str = "
const kept = Symbol.for('kitfleet.kept');
const { form, submitter } = globalThis[kept] ?? {};
delete globalThis[kept];
if (!form?.isConnected) return false;
const submit = submitter === undefined ? 'submit' : 'requestSubmit';
HTMLFormElement.prototype[submit].call(form, submitter);
return true;
";

/// Whether pages may submit forms, and whether one has tried.
#[derive(Default)]
pub struct Submissions {
    /// While there is one, it says in each page that comes that forms are held.
    holding: RefCell<Option<UserScript>>,
    /// What one has tried to submit, of which nobody was told.
    held: Cell<Option<Held>>,
    /// Where the last of them was to go, if a script has submitted it.
    address: RefCell<Option<String>>,
}

impl Submissions {
    /// Hears of a form that the listener has stopped.
    pub fn note(&self, report: &str) {
        if report == HELD {
            self.held.set(Some(Held::Form));
            self.address.take();
        }
    }

    /// Whether a load is that of a form which may not be submitted.
    pub fn stop(&self, action: &NavigationAction) -> bool {
        let submits = match action.navigation_type() {
            NavigationType::FormSubmitted => Held::Form,
            NavigationType::FormResubmitted => Held::Resubmission,
            _ => return false,
        };
        let stopped = self.holding.borrow().is_some();
        if stopped {
            self.held.set(Some(submits));
            let request = action.clone().request();
            self.address.replace(request.and_then(|request| request.uri()).map(String::from));
        }
        stopped
    }
}

/// Lets pages submit forms, or not, from now on. Answers whether the page was kept from submitting one before: what it had begun then has
/// had its moment.
pub async fn hold(browser: &Rc<Browser>, hold: bool) -> bool {
    let submissions = &browser.submissions;
    if hold && submissions.holding.borrow().is_some() {
        navigation::give_a_turn(browser).await;
        return submissions.held.take().is_some();
    }
    let script = hold.then(|| {
        UserScript::for_world(
            &say(true),
            UserContentInjectedFrames::TopFrame,
            UserScriptInjectionTime::Start,
            script::WORLD,
            &[],
            &[],
        )
    });
    if let Some(script) = &script {
        browser.content.add_script(script);
    }
    if let Some(before) = submissions.holding.replace(script) {
        browser.content.remove_script(&before);
    }
    // A page that goes away meanwhile is followed by one that was told as it came.
    let _ = script::evaluate(browser, &say(hold)).await;
    submissions.held.take().is_some()
}

/// What a page was kept from submitting since this was last asked, or is in a moment.
pub async fn held(browser: &Rc<Browser>) -> Option<Held> {
    navigation::give_a_turn(browser).await;
    let held = browser.submissions.held.take()?;
    let address = json!(browser.submissions.address.take());
    // A page that has gone away has no form to keep.
    let _ = script::evaluate(browser, &format!("const address = {address};\n{KEEP}")).await;
    Some(held)
}

/// Lets pages submit forms, and has the page submit the one that it was last kept from submitting. Answers whether that is still there.
///
/// # Errors
/// When the page cannot be asked.
pub async fn release(browser: &Rc<Browser>) -> Result<bool, HostError> {
    hold(browser, false).await;
    let released = script::evaluate(browser, RELEASE).await;
    navigation::give_a_moment(browser).await;
    Ok(released? == json!(true))
}
