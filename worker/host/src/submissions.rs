//! Keeping pages from submitting forms, while nobody has said that they may.
//!
//! A listener in our own world, in every frame, stops a form before the page hears of it, which may send it by a script. What is
//! submitted without that event, or in a frame of another site, WebKit asks leave for as for any load, and does not get it. A load is judged
//! by its method as well as by its kind: going back, going forward and reloading send a form again under other names, and WebKit does not
//! always say so.
//!
//! The page at the top remembers, in our world, which form was stopped last. So it can be submitted later, without doing once more
//! whatever had led to that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use webkit2gtk::{
    NavigationAction, NavigationType, URIRequest, URIRequestExt, UserContentInjectedFrames, UserContentManagerExt,
    UserScript, UserScriptInjectionTime,
};

use kitfleet_host_protocol::{Held, HostError, SubmissionRule};
use serde_json::json;

use crate::browser::Browser;
use crate::{navigation, script};

/// How long is waited for a page to hear whether forms are held.
const TELL_WITHIN: Duration = Duration::from_millis(50);

/// How long an approved step waits for the form that its tap submits by a timer. WebKit takes a timer for the user's doing for as long.
const FORM_WITHIN: Duration = Duration::from_secs(1);

/// How often it looks whether that form was submitted.
const LOOK_AFTER: Duration = Duration::from_millis(20);

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
/// that of which it has just gathered what it is made of, if it goes where what was stopped was to go. Of a load that is no form of the page
/// there is nothing to keep.
const KEEP: &str = "
const [stopped, gathered, kept] = ['stopped', 'gathered', 'kept'].map((name) => Symbol.for(`kitfleet.${name}`));
const bare = (text) => text.split(/[?#]/)[0];
const action = Object.getOwnPropertyDescriptor(HTMLFormElement.prototype, 'action').get;
const goes = (form) => bare(action.call(form)) === bare(address);
const found = globalThis[address === null ? stopped : gathered];
globalThis[kept] = isForm && found && (address === null || goes(found.form)) ? found : null;
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
    rule: Cell<SubmissionRule>,
    /// While there is one, it tells each new page that forms are held.
    script: RefCell<Option<UserScript>>,
    /// The last attempt that was stopped and not reported yet.
    stopped: RefCell<Option<StoppedSubmission>>,
    /// Whether our own script submits the approved form, without a gesture.
    releases: Cell<bool>,
    /// Where a form goes whose load was allowed in another window: that load begins anew in this one.
    in_place: RefCell<Option<String>>,
}

/// An attempt that was stopped.
enum StoppedSubmission {
    /// A form, by the listener.
    Event,
    /// A form that a script has submitted, to this address.
    Form(String),
    /// A load that would have sent a form again, which the page began.
    Repeat,
    /// The same, which a command began. What the page does meanwhile does not replace it.
    OwnRepeat,
}

/// What WebKit asks leave for.
pub struct Attempt<'a> {
    pub action: &'a mut NavigationAction,
    pub request: &'a URIRequest,
    /// Whether it is for another window.
    pub is_for_new_window: bool,
    /// Whether it belongs to a command that goes through the history or reloads.
    pub is_own_repeat: bool,
}

impl Submissions {
    /// Hears of a form that the listener has stopped.
    pub fn note(&self, report: &str) {
        if report == HELD {
            self.note_stopped(StoppedSubmission::Event);
        }
    }

    fn note_stopped(&self, what: StoppedSubmission) {
        let mut stopped = self.stopped.borrow_mut();
        if !matches!(*stopped, Some(StoppedSubmission::OwnRepeat)) {
            *stopped = Some(what);
        }
    }

    /// Whether a command was kept from sending a form again, and that was not reported yet.
    pub fn has_stopped_own(&self) -> bool {
        matches!(*self.stopped.borrow(), Some(StoppedSubmission::OwnRepeat))
    }

    /// Whether one was stopped that was not reported yet. From now on it is.
    fn take_stopped(&self) -> bool {
        self.stopped.take().is_some()
    }
}

/// Whether a load sends what nobody has approved of, and must not begin. Uses up the approval of one that may.
pub fn stops(browser: &Rc<Browser>, attempt: Attempt<'_>) -> bool {
    let Attempt { action, request, is_for_new_window, is_own_repeat } = attempt;
    let submissions = &browser.submissions;
    let kind = action.navigation_type();
    let is_form = kind == NavigationType::FormSubmitted;
    let sends = request.http_method().is_some_and(|method| !matches!(method.as_str(), "GET" | "HEAD"));
    // What a server sends on is a part of the load that was allowed. No page can make one of these.
    if !(is_form || sends || kind == NavigationType::FormResubmitted) || action.is_redirect() {
        return false;
    }
    let address = request.uri().map(String::from).unwrap_or_default();
    let is_allowed = match submissions.rule.get() {
        SubmissionRule::AllowAll => return false,
        // What a frame or a timer of the page submits by itself has no gesture, and is not what was approved.
        SubmissionRule::AllowOneForm => is_form && (submissions.releases.get() || action.is_user_gesture()),
        SubmissionRule::AllowOneRepeat => is_own_repeat,
        SubmissionRule::HoldAll | SubmissionRule::HoldUnapproved => {
            kind == NavigationType::Other && submissions.in_place.borrow_mut().take_if(|to| *to == address).is_some()
        }
    };
    if is_allowed {
        if is_form && is_for_new_window {
            submissions.in_place.replace(Some(address));
        }
        use_up(browser);
        return false;
    }
    submissions.note_stopped(match () {
        () if is_own_repeat => StoppedSubmission::OwnRepeat,
        () if is_form => StoppedSubmission::Form(address),
        () => StoppedSubmission::Repeat,
    });
    true
}

/// Holds what comes after the one load that was approved.
fn use_up(browser: &Rc<Browser>) {
    if browser.submissions.rule.replace(SubmissionRule::HoldAll) == SubmissionRule::AllowOneForm {
        tell_new_pages(browser, true);
        glib::MainContext::default().spawn_local(tell_page(browser.clone(), true));
    }
}

/// Has each page that comes told whether forms are held.
fn tell_new_pages(browser: &Rc<Browser>, hold: bool) {
    let script = hold.then(|| {
        let top = UserContentInjectedFrames::TopFrame;
        UserScript::for_world(&say(true), top, UserScriptInjectionTime::Start, script::WORLD, &[], &[])
    });
    if let Some(script) = &script {
        browser.content.add_script(script);
    }
    if let Some(before) = browser.submissions.script.replace(script) {
        browser.content.remove_script(&before);
    }
}

/// Tells the page that is there whether forms are held. One that is busy hears of it before anything that is done to it later. A page that
/// goes away meanwhile is followed by one that was told as it came.
async fn tell_page(browser: Rc<Browser>, hold: bool) {
    let (words, told) = (say(hold), glib::timeout_future(TELL_WITHIN));
    select(Box::pin(script::evaluate(&browser, &words)), told).await;
}

/// Has pages submit forms by this rule from now on. Answers whether the page was kept from submitting one before: what it had begun then
/// has had its moment.
pub async fn follow(browser: &Rc<Browser>, rule: SubmissionRule) -> bool {
    let submissions = &browser.submissions;
    let before = submissions.rule.get();
    if rule == SubmissionRule::HoldUnapproved && before != SubmissionRule::AllowAll {
        return false;
    }
    if before == SubmissionRule::HoldAll && rule != SubmissionRule::AllowAll {
        navigation::wait_for_policy_decisions(browser).await;
    }
    let held = submissions.take_stopped();
    submissions.in_place.take();
    submissions.rule.set(if rule == SubmissionRule::HoldUnapproved { SubmissionRule::HoldAll } else { rule });
    let holds_events = !matches!(rule, SubmissionRule::AllowAll | SubmissionRule::AllowOneForm);
    if holds_events != submissions.script.borrow().is_some() {
        tell_new_pages(browser, holds_events);
        tell_page(browser.clone(), holds_events).await;
    }
    held
}

/// Ends the approval of the step that was just done: nothing that the page submits later is covered by it.
async fn end_approval(browser: &Rc<Browser>) {
    let submissions = &browser.submissions;
    let mut waited = Duration::ZERO;
    while submissions.rule.get() == SubmissionRule::AllowOneForm && waited < FORM_WITHIN {
        glib::timeout_future(LOOK_AFTER).await;
        waited += LOOK_AFTER;
    }
    if matches!(submissions.rule.get(), SubmissionRule::AllowOneForm | SubmissionRule::AllowOneRepeat) {
        use_up(browser);
    }
    submissions.releases.set(false);
}

/// What a page was kept from submitting since this was last asked, or is in a moment.
pub async fn held(browser: &Rc<Browser>) -> Option<Held> {
    navigation::wait_for_policy_decisions(browser).await;
    end_approval(browser).await;
    let stopped = browser.submissions.stopped.take()?;
    let (address, is_form) = match &stopped {
        StoppedSubmission::Event => (None, true),
        StoppedSubmission::Form(address) => (Some(address), true),
        StoppedSubmission::Repeat | StoppedSubmission::OwnRepeat => (None, false),
    };
    let keep = format!("const address = {}, isForm = {is_form};\n{KEEP}", json!(address));
    // A page that has gone away has no form to keep.
    let _ = script::evaluate(browser, &keep).await;
    Some(if matches!(stopped, StoppedSubmission::OwnRepeat) { Held::Resubmission } else { Held::Form })
}

/// Has the page submit the form that it was last kept from submitting, and no other. Answers whether that is still there.
///
/// # Errors
/// When the page cannot be asked.
pub async fn release(browser: &Rc<Browser>) -> Result<bool, HostError> {
    follow(browser, SubmissionRule::AllowOneForm).await;
    browser.submissions.releases.set(true);
    let released = script::evaluate(browser, RELEASE).await;
    navigation::give_a_moment(browser).await;
    Ok(released? == json!(true))
}
