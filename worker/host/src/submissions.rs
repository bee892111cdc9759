//! Prevents pages from submitting forms without approval.
//!
//! A listener in the isolated world of every frame stops a form before the page's own listeners. Submissions without that
//! event, or in a frame of another site, are rejected by a policy decision. A load is judged by its method as well as by its
//! kind: moves in the history and reloads send a form again, and WebKit does not always mark them.
//!
//! The object that all frames of the isolated world share (`extension/frames.rs`) remembers the form that was stopped last, so
//! that it can be submitted later without repeating the step.
//!
//! A script can also send data by a request of its own. From an unapproved input until the end of its operation, the
//! web-process extension cancels such requests (`extension/requests.rs`). They cannot be repeated for a page, so that an
//! approval repeats the input.

pub mod state;

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use kitfleet_host_protocol::{Held, HostError, SubmissionRule};
use serde_json::json;
use webkit2gtk::{
    NavigationAction, NavigationType, URIRequest, URIRequestExt, UserContentInjectedFrames, UserContentManagerExt,
    UserMessage, UserScript, UserScriptInjectionTime, WebViewExt,
};

use self::state::{RequestHold, StoppedSubmission};
use crate::browser::{Browser, Page};
use crate::navigation::decisions;
use crate::script;
use crate::script::state::WORLD;

/// Maximum wait until a page has set whether forms are held.
const SET_FLAG_WITHIN: Duration = Duration::from_millis(50);

/// For a form that a tap submits by a timer. WebKit attributes a timer to the user's gesture for the same time.
const FORM_WITHIN: Duration = Duration::from_secs(1);

/// For the reports of a page. Only a page whose main thread is busy reaches it.
const SETTLES_WITHIN: Duration = Duration::from_millis(500);

/// Interval of the checks whether that form was submitted.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The flag is in the shared object of the isolated world, which pages cannot set. A submit event in a shadow root does not
/// leave it, so each input adds listeners to the shadow roots on its path. A form that is submitted by script only emits
/// `formdata`.
pub const LISTENERS: &str = "
const shared = () => globalThis[Symbol.for('kitfleet.shared')];
const holding = () => shared()?.holding === true;
const hold = (event) => {
  if (!holding()) return;
  shared().stopped = { form: event.target, submitter: event.submitter };
  event.preventDefault();
  event.stopImmediatePropagation();
  webkit.messageHandlers.kitfleet.postMessage('held');
};
const gather = (event) => {
  if (holding()) shared().gathered = { form: event.target };
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

/// Script of the main frame that sets the flag.
fn hold_flag_script(hold: bool) -> String {
    format!("globalThis[Symbol.for('kitfleet.shared')].holding = {hold};")
}

/// Others may be stopped before this form is approved. A form that was submitted by script is the one that emitted `formdata`
/// last, if its action matches the stopped address.
const KEEP: &str = "
const shared = globalThis[Symbol.for('kitfleet.shared')];
const bare = (text) => text.split(/[?#]/)[0];
const action = Object.getOwnPropertyDescriptor(HTMLFormElement.prototype, 'action').get;
const goes = (form) => bare(action.call(form)) === bare(address);
const found = address === null ? shared.stopped : shared.gathered;
shared.kept = isForm && found && (address === null || goes(found.form)) ? found : null;
delete shared.stopped;
delete shared.gathered;
";

/// Submits the kept form if it is still in the page.
const RELEASE: &str = "
const shared = globalThis[Symbol.for('kitfleet.shared')];
const { form, submitter } = shared.kept ?? {};
delete shared.kept;
if (!form?.isConnected) return false;
const submit = submitter === undefined ? 'submit' : 'requestSubmit';
HTMLFormElement.prototype[submit].call(form, submitter);
return true;
";

pub struct Attempt<'a> {
    pub action: &'a mut NavigationAction,
    pub request: &'a URIRequest,
    pub is_for_new_window: bool,
    pub is_own_repeat: bool,
}

/// Consumes the approval of an allowed load.
pub fn stops(page: &Rc<Page>, attempt: Attempt<'_>) -> bool {
    let Attempt { action, request, is_for_new_window, is_own_repeat } = attempt;
    let browser = &page.browser;
    let submissions = &browser.submissions;
    let kind = action.navigation_type();
    let is_form = kind == NavigationType::FormSubmitted;
    let sends = request.http_method().is_some_and(|method| !matches!(method.as_str(), "GET" | "HEAD"));
    // A redirect by a server is part of the allowed load. Pages cannot cause one.
    if !(is_form || sends || kind == NavigationType::FormResubmitted) || action.is_redirect() {
        return false;
    }
    let address = request.uri().map(String::from).unwrap_or_default();
    let is_allowed = match submissions.rule.get() {
        SubmissionRule::AllowAll => return false,
        // A submission by a frame or a timer of the page has no gesture, and no approval.
        SubmissionRule::AllowOneForm => is_form && (submissions.releases.get() || action.is_user_gesture()),
        SubmissionRule::AllowOneRepeat => is_own_repeat,
        SubmissionRule::HoldAll | SubmissionRule::HoldUnapproved => {
            submissions.in_window.borrow_mut().take_if(|(to, by)| *to == address && page.is_opened_by(*by)).is_some()
        }
    };
    if is_allowed {
        if is_form && is_for_new_window {
            submissions.in_window.replace(Some((address, page.id)));
        }
        use_up(browser);
        return false;
    }
    let what = match () {
        () if is_own_repeat => StoppedSubmission::OwnRepeat,
        () if is_form => StoppedSubmission::Form(address),
        () => StoppedSubmission::Repeat,
    };
    submissions.note_stopped(what, page.id);
    true
}

/// Holds back everything after the approved load.
fn use_up(browser: &Rc<Browser>) {
    if browser.submissions.rule.replace(SubmissionRule::HoldAll) == SubmissionRule::AllowOneForm {
        set_hold_flag_of_new_pages(browser, true);
        glib::MainContext::default().spawn_local(set_hold_flag(browser.clone(), true));
    }
}

fn set_hold_flag_of_new_pages(browser: &Rc<Browser>, hold: bool) {
    let script = hold.then(|| {
        let top = UserContentInjectedFrames::TopFrame;
        UserScript::for_world(&hold_flag_script(true), top, UserScriptInjectionTime::Start, WORLD, &[], &[])
    });
    let before = browser.submissions.script.replace(script.clone());
    for page in browser.pages.all() {
        if let Some(script) = &script {
            page.content.add_script(script);
        }
        if let Some(before) = &before {
            page.content.remove_script(before);
        }
    }
}

/// A busy page handles it before any later input. A document that replaces one meanwhile has the flag from its start.
async fn set_hold_flag(browser: Rc<Browser>, hold: bool) {
    let (script, limit) = (hold_flag_script(hold), glib::timeout_future(SET_FLAG_WITHIN));
    let pages = browser.pages.all();
    let flags_set = join_all(pages.iter().map(|page| script::evaluate(page, &script)));
    select(Box::pin(flags_set), limit).await;
}

/// Begins to hold requests of scripts, if the rule says so. Called before each input of an operation.
pub fn begin_input(browser: &Rc<Browser>) {
    let requests = &browser.submissions.requests;
    if requests.get() == RequestHold::Armed {
        requests.set(RequestHold::Open);
        browser.extension.hold(true);
    }
}

/// A page handles the end of the hold before it answers, so that each cancelled request is reported afterwards. While a dialog
/// blocks the page, the hold stays: the page would only learn of its end after the answer, and cancel a request whose report is
/// then no longer expected.
async fn end_request_hold(browser: &Rc<Browser>) {
    if browser.dialogs.is_blocking() {
        return;
    }
    let requests = &browser.submissions.requests;
    if requests.get() == RequestHold::Open {
        browser.extension.hold(false);
        settle(browser).await;
    }
    requests.set(RequestHold::Off);
}

/// All pages have then sent their reports about requests so far.
async fn settle(browser: &Rc<Browser>) {
    let pages = browser.pages.all();
    let ask = |page: &Rc<Page>| page.view.send_message_to_page_future(&UserMessage::new("settle", None));
    let answers = join_all(pages.iter().map(ask));
    select(answers, glib::timeout_future(SETTLES_WITHIN)).await;
}

/// Waits for submissions that are under way. Returns whether a submission was held back that has not been reported.
pub async fn follow(browser: &Rc<Browser>, rule: SubmissionRule, requests: bool) -> bool {
    let submissions = &browser.submissions;
    end_request_hold(browser).await;
    let before = submissions.rule.get();
    if rule == SubmissionRule::HoldUnapproved && before != SubmissionRule::AllowAll {
        return false;
    }
    if before == SubmissionRule::HoldAll && rule != SubmissionRule::AllowAll {
        decisions::wait_for_all_policy_decisions(browser).await;
    }
    let held = submissions.take_stopped();
    submissions.in_window.take();
    if requests {
        submissions.requests.set(RequestHold::Armed);
    }
    submissions.rule.set(if rule == SubmissionRule::HoldUnapproved { SubmissionRule::HoldAll } else { rule });
    let holds_events = !matches!(rule, SubmissionRule::AllowAll | SubmissionRule::AllowOneForm);
    if holds_events != submissions.script.borrow().is_some() {
        set_hold_flag_of_new_pages(browser, holds_events);
        set_hold_flag(browser.clone(), holds_events).await;
    }
    held
}

/// Ends the approval of the last step, so that it does not cover later submissions of the page.
async fn end_approval(browser: &Rc<Browser>) {
    let submissions = &browser.submissions;
    let mut waited = Duration::ZERO;
    while submissions.rule.get() == SubmissionRule::AllowOneForm && waited < FORM_WITHIN {
        glib::timeout_future(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
    if matches!(submissions.rule.get(), SubmissionRule::AllowOneForm | SubmissionRule::AllowOneRepeat) {
        use_up(browser);
    }
    submissions.releases.set(false);
}

/// Waits shortly for pending ones.
pub async fn held(browser: &Rc<Browser>) -> Option<Held> {
    decisions::wait_for_all_policy_decisions(browser).await;
    end_request_hold(browser).await;
    end_approval(browser).await;
    let (stopped, page) = browser.submissions.stopped.take()?;
    let (address, is_form) = match &stopped {
        StoppedSubmission::Event => (None, true),
        StoppedSubmission::Form(address) => (Some(address), true),
        StoppedSubmission::Request | StoppedSubmission::Repeat | StoppedSubmission::OwnRepeat => (None, false),
    };
    let keep = format!("const address = {}, isForm = {is_form};\n{KEEP}", json!(address));
    if let Ok(page) = browser.pages.find(page) {
        // A page that was replaced has no form to keep.
        let _ = script::evaluate(&page, &keep).await;
    }
    browser.submissions.kept_by.set(Some(page));
    Some(match stopped {
        StoppedSubmission::Request => Held::Request,
        StoppedSubmission::OwnRepeat => Held::Resubmission,
        StoppedSubmission::Event | StoppedSubmission::Form(_) | StoppedSubmission::Repeat => Held::Form,
    })
}

/// Returns whether the form still exists.
pub async fn release(browser: &Rc<Browser>) -> Result<bool, HostError> {
    follow(browser, SubmissionRule::AllowOneForm, false).await;
    browser.submissions.releases.set(true);
    let kept_by = browser.submissions.kept_by.take();
    let Some(page) = kept_by.and_then(|page| browser.pages.find(page).ok()) else { return Ok(false) };
    let released = script::evaluate(&page, RELEASE).await;
    decisions::wait_for_decision(&page).await;
    Ok(released? == json!(true))
}
