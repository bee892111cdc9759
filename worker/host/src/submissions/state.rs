//! Approval of submissions, and the submission that was stopped last.

use std::cell::{Cell, RefCell};

use kitfleet_host_protocol::SubmissionRule;
use webkit2gtk::UserScript;

/// Report of the listener for a stopped form.
const HELD: &str = "held";

#[derive(Default)]
pub struct Submissions {
    pub(super) rule: Cell<SubmissionRule>,
    pub(super) requests: Cell<RequestHold>,
    /// Present while forms are held.
    pub(super) script: RefCell<Option<UserScript>>,
    /// With its page.
    pub(super) stopped: RefCell<Option<(StoppedSubmission, u32)>>,
    /// Page that has the form that was held back last.
    pub(super) kept_by: Cell<Option<u32>>,
    /// [`super::release`] submits without a user gesture.
    pub(super) releases: Cell<bool>,
    /// Address and page. The load needs another decision in the window.
    pub(super) in_window: RefCell<Option<(String, u32)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RequestHold {
    #[default]
    Off,
    /// They are held from the next input.
    Armed,
    /// They are held until the operation ends.
    Open,
}

pub(super) enum StoppedSubmission {
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

impl Submissions {
    pub(super) fn note_stopped(&self, what: StoppedSubmission, page: u32) {
        let mut stopped = self.stopped.borrow_mut();
        if !matches!(*stopped, Some((StoppedSubmission::OwnRepeat | StoppedSubmission::Request, _))) {
            *stopped = Some((what, page));
        }
    }

    pub fn has_stopped_own(&self) -> bool {
        matches!(*self.stopped.borrow(), Some((StoppedSubmission::OwnRepeat, _)))
    }

    pub(super) fn take_stopped(&self) -> bool {
        self.stopped.take().is_some()
    }

    pub fn note(&self, page: u32, report: &str) {
        if report == HELD {
            self.note_stopped(StoppedSubmission::Event, page);
        }
    }

    /// A report at another time is forged.
    pub fn note_held_request(&self, page: u32) {
        if self.requests.get() == RequestHold::Open {
            self.note_stopped(StoppedSubmission::Request, page);
        }
    }

    /// `None` while forms are allowed.
    pub fn hold_script(&self) -> Option<UserScript> {
        self.script.borrow().clone()
    }
}
