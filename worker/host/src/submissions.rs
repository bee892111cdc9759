//! Keeping pages from submitting forms, while nobody has said that they may.
//!
//! A listener in our own world, in every frame, stops a form before the page hears of it, which may send it by a script. What is
//! submitted without that event, or in a frame of another site, WebKit asks leave for as for any load, and does not get it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use webkit2gtk::{
    NavigationAction, NavigationType, UserContentInjectedFrames, UserContentManagerExt, UserScript,
    UserScriptInjectionTime,
};

use crate::browser::Browser;
use crate::{navigation, script};

/// How the listener reports a form.
const HELD: &str = "held";

/// Stops forms while the page at the top says so, in our world, where no page can say it. The event of a form in a shadow root stays
/// in there, so that it is listened for where somebody has just touched.
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
  event.preventDefault();
  event.stopImmediatePropagation();
  webkit.messageHandlers.kitfleet.postMessage('held');
};
const everywhere = (event) => {
  for (const node of event.composedPath()) {
    if (node.nodeType === 11) node.addEventListener('submit', hold, true);
  }
};
addEventListener('submit', hold, true);
for (const type of ['touchstart', 'mousedown', 'keydown', 'click']) addEventListener(type, everywhere, { capture: true, passive: true });
";

/// What says in the page at the top that forms are held, or not.
fn say(hold: bool) -> String {
    format!("globalThis[Symbol.for('kitfleet.holding')] = {hold};")
}

/// Whether pages may submit forms, and whether one has tried.
#[derive(Default)]
pub struct Submissions {
    /// While there is one, it says in each page that comes that forms are held.
    holding: RefCell<Option<UserScript>>,
    held: Cell<bool>,
}

impl Submissions {
    /// Hears of a form that the listener has stopped.
    pub fn note(&self, report: &str) {
        if report == HELD {
            self.held.set(true);
        }
    }

    /// Whether a load is that of a form which may not be submitted.
    pub fn stop(&self, action: &NavigationAction) -> bool {
        let submits =
            matches!(action.navigation_type(), NavigationType::FormSubmitted | NavigationType::FormResubmitted);
        let stopped = submits && self.holding.borrow().is_some();
        self.held.set(self.held.get() || stopped);
        stopped
    }
}

/// Lets pages submit forms, or not, from now on.
pub async fn hold(browser: &Rc<Browser>, hold: bool) {
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
    if let Some(before) = browser.submissions.holding.replace(script) {
        browser.content.remove_script(&before);
    }
    browser.submissions.held.set(false);
    // A page that goes away meanwhile is followed by one that was told as it came.
    let _ = script::evaluate(browser, &say(hold)).await;
}

/// Whether a page was kept from submitting a form since this was last asked, or is in a moment.
pub async fn held(browser: &Rc<Browser>) -> bool {
    navigation::give_a_turn(browser).await;
    browser.submissions.held.take()
}
