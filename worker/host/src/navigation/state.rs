//! State of the loads of a page.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use futures_channel::oneshot;
use kitfleet_host_protocol::{Lifecycle, Navigated, PageError, WaitUntil};
use url::Url;
use webkit2gtk::{BackForwardListItem, NavigationType};

use super::requests::Requests;
use crate::failure;

#[derive(Default)]
pub struct Navigation {
    pub(super) lifecycle: RefCell<Option<Lifecycle>>,
    /// Restored when a load ends without a document.
    pub(super) previous: RefCell<Option<PreviousState>>,
    /// By a command. The initial blank page does not belong to a session.
    pub(super) begun: Cell<bool>,
    pub(super) stage: Cell<LoadStage>,
    pub(super) has_document: Cell<bool>,
    /// True when the current document has fired `DOMContentLoaded`.
    pub(super) content_loaded: Cell<bool>,
    /// HTTP status of the last response for the main document.
    pub(super) status: Cell<u16>,
    pub(super) document_status: Cell<u16>,
    /// Has not led to a document yet.
    pub(super) pending_load: RefCell<Option<PendingLoad>>,
    /// Address of the last command's load that led to no document.
    pub(super) missed: RefCell<String>,
    /// Reason for which the policy ended the load.
    pub(super) refusal: RefCell<Option<&'static str>>,
    pub(super) download: Cell<Option<LoadDownload>>,
    pub(super) waiter: RefCell<Option<Waiter>>,
    pub(super) requests: RefCell<Requests>,
    pub(super) idle_timer: RefCell<Option<glib::SourceId>>,
}

/// `None` before the first navigation.
pub(super) struct PreviousState(pub(super) Option<Lifecycle>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LoadStage {
    /// Signals that arrive now belong to another load.
    Requested,
    /// The next load that starts is this one.
    Allowed,
    Started,
    Committed,
    #[default]
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadDownload {
    /// Not reported yet.
    Expected,
    Started(u32),
}

#[derive(Clone)]
pub(super) struct PendingLoad {
    pub(super) target: Url,
    /// Redirects change it.
    pub(super) uri: String,
    pub(super) by: LoadTrigger,
    pub(super) attempts: u32,
    /// The current page has tried to load something else.
    pub(super) hindered: bool,
    pub(super) found: LoadTarget,
}

impl PendingLoad {
    pub(super) fn new(target: Url, by: LoadTrigger) -> Self {
        Self { uri: target.to_string(), by, attempts: 1, hindered: false, found: LoadTarget::Nothing, target }
    }

    pub(super) fn again(self) -> Self {
        Self { attempts: self.attempts + 1, hindered: self.hindered, ..Self::new(self.target, self.by) }
    }
}

#[derive(Clone)]
pub enum LoadTrigger {
    Address,
    History(BackForwardListItem),
    Reload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadTarget {
    Nothing,
    Page,
    NoPage,
    /// The policy has rejected an address.
    Rejected,
}

pub(super) struct Waiter {
    pub(super) until: WaitUntil,
    /// True when the command requires a response of a server.
    pub(super) wants_answer: bool,
    pub(super) reply: oneshot::Sender<Result<Navigated, PageError>>,
}

impl Navigation {
    /// `None` before the first navigation.
    pub fn lifecycle(&self) -> Option<Lifecycle> {
        self.lifecycle.borrow().clone()
    }

    pub fn has_begun(&self) -> bool {
        self.begun.get()
    }

    /// Registers a command that waits for its load. It supersedes the previous one.
    pub(super) fn expect(
        &self,
        until: WaitUntil,
        wants_answer: bool,
    ) -> oneshot::Receiver<Result<Navigated, PageError>> {
        self.reply(Err(failure::net("superseded by another navigation")));
        let (reply, arrival) = oneshot::channel();
        self.waiter.replace(Some(Waiter { until, wants_answer, reply }));
        self.refusal.take();
        self.pending_load.take();
        self.missed.take();
        self.download.take();
        arrival
    }

    /// `loads` is true when a load follows.
    pub fn begin_in_window(&self, loads: bool) {
        self.begun.set(true);
        self.lifecycle.replace(Some(if loads { Lifecycle::Loading } else { Lifecycle::Loaded }));
    }

    pub fn has_document(&self) -> bool {
        self.has_document.get()
    }

    pub fn has_pending_load(&self) -> bool {
        self.pending_load.borrow().is_some()
    }

    /// Ends the command that waits for a load, because the page was closed.
    pub fn abandon(&self) {
        self.pending_load.take();
        self.reply(Err(failure::net("the page was closed")));
    }

    /// Ends a load that a person or the worker has refused when the page asked whether it may be left.
    pub fn cancel_load(&self) {
        self.pending_load.take();
        if self.stage.get() != LoadStage::Committed && self.lifecycle() == Some(Lifecycle::Loading) {
            self.keep_document();
        }
    }

    pub fn note_download(&self, uri: &str, id: u32) {
        if self.download.get() == Some(LoadDownload::Expected)
            && self.replaced_or_pending_uri().is_some_and(|expected| same(&expected, uri))
        {
            self.download.set(Some(LoadDownload::Started(id)));
        }
    }

    pub(super) fn replaced_or_pending_uri(&self) -> Option<String> {
        let departing = self.pending_load.borrow().as_ref().map(|pending_load| pending_load.uri.clone());
        departing.or_else(|| Some(self.missed.borrow().clone()).filter(|uri| !uri.is_empty()))
    }

    pub(super) fn fail(&self, error: PageError) {
        self.stage.set(LoadStage::Done);
        self.end_pending_load();
        if self.begun.get() {
            self.lifecycle.replace(Some(Lifecycle::Errored { error: error.clone() }));
        }
        self.reply(Err(error));
    }

    pub(super) fn begin_loading(&self) {
        let before = self.lifecycle.replace(Some(Lifecycle::Loading));
        if before != Some(Lifecycle::Loading) {
            self.previous.replace(Some(PreviousState(before)));
        }
    }

    /// Ends a load that has no document, such as a file. The previous document stays.
    pub(super) fn keep_document(&self) {
        self.stage.set(LoadStage::Done);
        self.status.set(self.document_status.get());
        if let Some(PreviousState(previous)) = self.previous.take() {
            self.lifecycle.replace(previous);
        }
    }

    /// Returns false if there was none.
    pub(super) fn end_pending_load(&self) -> bool {
        let pending_load = self.pending_load.take();
        let departed = pending_load.is_some();
        if let Some(pending_load) = pending_load {
            self.missed.replace(pending_load.uri);
        }
        departed
    }

    /// True when the page has begun a request less than 500 ms ago that is still in flight.
    pub fn has_recent_requests(&self) -> bool {
        self.requests.borrow().is_busy(Instant::now())
    }

    pub fn has_missed(&self) -> bool {
        !self.missed.borrow().is_empty()
    }

    pub(super) fn has_started_load_of(&self, uri: &str) -> bool {
        let pending_load = self.pending_load.borrow();
        self.stage.get() == LoadStage::Started
            && pending_load.as_ref().is_some_and(|pending_load| same(&pending_load.uri, uri))
    }

    /// True when a command's load was repeated, and this is its address.
    pub(super) fn is_repeated_load_of(&self, uri: &str) -> bool {
        let pending_load = self.pending_load.borrow();
        pending_load.as_ref().is_some_and(|pending_load| pending_load.attempts > 1 && same(&pending_load.uri, uri))
    }

    /// True when the failed load was begun by the current page, and is not the command's load.
    pub(super) fn is_from_current_page(&self, uri: &str, error: &glib::Error) -> bool {
        let pending_load = self.pending_load.borrow();
        pending_load.as_ref().is_some_and(|pending_load| {
            (pending_load.hindered || failure::is_interruption(error)) && !same(&pending_load.uri, uri)
        })
    }

    /// Interrupted without a fault of its own. WebKit reports the failure of another load of the page for the load that
    /// replaced it. Until a page is in the response, the current page can begin another load, or move within its document,
    /// which needs no policy decision.
    pub(super) fn was_superseded(&self) -> bool {
        self.pending_load
            .borrow()
            .as_ref()
            .is_some_and(|pending_load| matches!(pending_load.found, LoadTarget::Nothing | LoadTarget::Page))
    }

    pub(super) fn note_rejected(&self) {
        if let Some(pending_load) = &mut *self.pending_load.borrow_mut() {
            pending_load.found = LoadTarget::Rejected;
        }
    }

    pub(super) fn is_repeating(&self, kind: NavigationType) -> bool {
        let by = self.pending_load.borrow().as_ref().map(|pending_load| pending_load.by.clone());
        matches!(by, Some(LoadTrigger::History(_) | LoadTrigger::Reload))
            && matches!(kind, NavigationType::BackForward | NavigationType::FormResubmitted | NavigationType::Reload)
    }

    pub(super) fn note_answered(&self, uri: &str, found: LoadTarget) {
        if let Some(pending_load) = &mut *self.pending_load.borrow_mut()
            && same(&pending_load.uri, uri)
        {
            pending_load.found = found;
        }
    }

    pub(super) fn reply(&self, result: Result<Navigated, PageError>) {
        self.stop_idle_timer();
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.reply.send(result);
        }
    }

    pub(super) fn awaits(&self, until: WaitUntil) -> bool {
        self.waiter.borrow().as_ref().is_some_and(|waiter| waiter.until == until)
    }

    pub(super) fn stop_idle_timer(&self) {
        if let Some(timer) = self.idle_timer.take() {
            timer.remove();
        }
    }
}

pub(super) fn same(one: &str, other: &str) -> bool {
    one == other || matches!((Url::parse(one), Url::parse(other)), (Ok(one), Ok(other)) if one == other)
}
