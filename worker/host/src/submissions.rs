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

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use webkit2gtk::{
    NavigationAction, NavigationType, URIRequest, URIRequestExt, UserContentInjectedFrames, UserContentManagerExt,
    UserScript, UserScriptInjectionTime,
};

use kitfleet_host_protocol::{Held, HostError, SubmissionRule};
use serde_json::json;

use crate::browser::Browser;
use crate::pages::Page;
use crate::{extension, navigation, script};

/// Maximum wait until a page has set whether forms are held.
const SET_FLAG_WITHIN: Duration = Duration::from_millis(50);

/// For a form that a tap submits by a timer. WebKit attributes a timer to the user's gesture for the same time.
const FORM_WITHIN: Duration = Duration::from_secs(1);

/// Interval of the checks whether that form was submitted.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Report of the listener for a stopped form.
const HELD: &str = "held";

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

#[derive(Default)]
pub struct Submissions {
    rule: Cell<SubmissionRule>,
    requests: Cell<RequestHold>,
    /// Present while forms are held.
    script: RefCell<Option<UserScript>>,
    stopped: RefCell<Option<(StoppedSubmission, Rc<Page>)>>,
    /// Page that has the form that was held back last.
    kept_by: RefCell<Option<Rc<Page>>>,
    /// [`release`] submits without a user gesture.
    releases: Cell<bool>,
    /// Address and page. The load needs another decision in the window.
    in_window: RefCell<Option<(String, u32)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RequestHold {
    #[default]
    Off,
    /// They are held from the next input.
    Armed,
    /// They are held until the operation ends.
    Open,
}

enum StoppedSubmission {
    /// An approval repeats the input, which submits the form again too, so that no form replaces it.
    Request,
    /// A form, stopped by the listener.
    Event,
    /// A form that a script submitted to this address.
    Form(String),
    /// Would have sent a form again.
    Repeat,
    /// The same by a command. Attempts of the page do not replace it.
    OwnRepeat,
}

pub struct Attempt<'a> {
    pub action: &'a mut NavigationAction,
    pub request: &'a URIRequest,
    pub is_for_new_window: bool,
    pub is_own_repeat: bool,
}

impl Submissions {
    fn note_stopped(&self, what: StoppedSubmission, page: &Rc<Page>) {
        let mut stopped = self.stopped.borrow_mut();
        if !matches!(*stopped, Some((StoppedSubmission::OwnRepeat | StoppedSubmission::Request, _))) {
            *stopped = Some((what, page.clone()));
        }
    }

    pub fn has_stopped_own(&self) -> bool {
        matches!(*self.stopped.borrow(), Some((StoppedSubmission::OwnRepeat, _)))
    }

    fn take_stopped(&self) -> bool {
        self.stopped.take().is_some()
    }
}

pub fn note(page: &Rc<Page>, report: &str) {
    if report == HELD {
        page.browser.submissions.note_stopped(StoppedSubmission::Event, page);
    }
}

/// A report at another time is forged.
pub fn note_held_request(page: &Rc<Page>) {
    let submissions = &page.browser.submissions;
    if submissions.requests.get() == RequestHold::Open {
        submissions.note_stopped(StoppedSubmission::Request, page);
    }
}

/// `None` while forms are allowed.
pub fn hold_script(browser: &Browser) -> Option<UserScript> {
    browser.submissions.script.borrow().clone()
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
    submissions.note_stopped(what, page);
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
        UserScript::for_world(&hold_flag_script(true), top, UserScriptInjectionTime::Start, script::WORLD, &[], &[])
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
        extension::settle(browser).await;
    }
    requests.set(RequestHold::Off);
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
        navigation::wait_for_all_policy_decisions(browser).await;
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
    navigation::wait_for_all_policy_decisions(browser).await;
    end_request_hold(browser).await;
    end_approval(browser).await;
    let (stopped, page) = browser.submissions.stopped.take()?;
    let (address, is_form) = match &stopped {
        StoppedSubmission::Event => (None, true),
        StoppedSubmission::Form(address) => (Some(address), true),
        StoppedSubmission::Request | StoppedSubmission::Repeat | StoppedSubmission::OwnRepeat => (None, false),
    };
    let keep = format!("const address = {}, isForm = {is_form};\n{KEEP}", json!(address));
    // A page that was replaced has no form to keep.
    let _ = script::evaluate(&page, &keep).await;
    browser.submissions.kept_by.replace(Some(page));
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
    let Some(page) = browser.submissions.kept_by.take().filter(|page| !page.is_closed()) else { return Ok(false) };
    let released = script::evaluate(&page, RELEASE).await;
    navigation::wait_for_decision(&page).await;
    Ok(released? == json!(true))
}
