//! The browser and its pages, with the state of all modules.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, MAX_PAGES, Message, PageEntry};
use webkit2gtk::{
    BackForwardListExt, BackForwardListItem, BackForwardListItemExt, Settings, UserContentManager, UserScript,
    WebContext, WebView, WebViewExt,
};

use crate::acknowledgement::state::Acknowledgements;
use crate::channel::Output;
use crate::choosers::state::Choosers;
use crate::dialogs::state::Dialogs;
use crate::downloads::state::Downloads;
use crate::drag::state::Drags;
use crate::emulation::state::Current;
use crate::extension::Extension;
use crate::live::state::Live;
use crate::navigation::state::Navigation;
use crate::pointer::state::Pointer;
use crate::recording::Recording;
use crate::responses::Responses;
use crate::script::state::Scripts;
use crate::submissions::state::Submissions;
use crate::text::cut;

/// Windows that pages open within [`WINDOW`]. A tap on a phone opens one or two.
const MAX_WINDOWS: usize = 16;

const WINDOW: Duration = Duration::from_secs(2);

/// Used on the main loop only.
pub struct Browser {
    pub pages: Pages,
    pub emulation: Current,
    pub submissions: Submissions,
    pub extension: Extension,
    pub dialogs: Dialogs,
    pub choosers: Choosers,
    pub downloads: Downloads,
    pub responses: Responses,
    pub recording: Recording,
    pub live: Live,
    /// The browser writes nowhere else.
    pub directory: PathBuf,
    pub window: gtk::Window,
    /// Shows the active page.
    pub stack: gtk::Stack,
    pub context: WebContext,
    pub settings: Settings,
    /// Overrides properties in each document. `None` before the browser is configured.
    pub device_script: RefCell<Option<UserScript>>,
    pub configured: Cell<bool>,
    /// Of an address and of a title, in characters.
    pub lengths: Cell<(usize, usize)>,
    pub output: Output,
}

impl Browser {
    /// Reports that the process of the active page has ended, and ends the host.
    pub fn end(&self, reason: &str) {
        self.output.send(&Message::WebProcessTerminated { reason: reason.to_owned() });
        gtk::main_quit();
    }

    /// Before that there is no egress route.
    pub fn is_configured(&self) -> bool {
        self.configured.get()
    }

    pub fn short_uri(&self, uri: String) -> String {
        let (max, _) = self.lengths.get();
        cut(uri, max).0
    }

    pub fn surface(&self) -> Option<gdk::Window> {
        self.window.window()
    }
}

#[derive(Default)]
pub struct Pages {
    /// Oldest first. Never empty after the start.
    open: RefCell<Vec<Rc<Page>>>,
    active: RefCell<Option<Rc<Page>>>,
    last_id: Cell<u32>,
    /// Times at which pages have opened windows, within [`WINDOW`].
    windows: RefCell<VecDeque<Instant>>,
}

impl Pages {
    pub fn active(&self) -> Rc<Page> {
        self.active.borrow().clone().expect("a browser opens its first page at its start, and always keeps one")
    }

    pub fn all(&self) -> Vec<Rc<Page>> {
        self.open.borrow().clone()
    }

    pub fn find(&self, id: u32) -> Result<Rc<Page>, HostError> {
        self.open.borrow().iter().find(|page| page.id == id).cloned().ok_or(HostError::NoSuchPage)
    }

    pub fn of_view(&self, view: &WebView) -> Option<Rc<Page>> {
        self.open.borrow().iter().find(|page| page.view == *view).cloned()
    }

    pub fn newest(&self) -> Option<Rc<Page>> {
        self.open.borrow().last().cloned()
    }

    pub fn add(&self, page: Rc<Page>) {
        self.open.borrow_mut().push(page);
    }

    pub fn remove(&self, id: u32) {
        self.open.borrow_mut().retain(|page| page.id != id);
    }

    pub fn set_active(&self, page: &Rc<Page>) {
        self.active.replace(Some(page.clone()));
    }

    pub fn is_full(&self) -> bool {
        self.open.borrow().len() >= MAX_PAGES
    }

    /// Pages refer to their browser.
    pub fn clear(&self) {
        self.active.take();
        self.open.take();
    }

    /// Returns whether the window is allowed.
    pub fn admit_window(&self, now: Instant) -> bool {
        let mut windows = self.windows.borrow_mut();
        while windows.front().is_some_and(|time| now.duration_since(*time) >= WINDOW) {
            windows.pop_front();
        }
        let is_allowed = windows.len() < MAX_WINDOWS && !self.is_full();
        if is_allowed {
            windows.push_back(now);
        }
        is_allowed
    }
}

pub struct Page {
    pub browser: Rc<Browser>,
    pub id: u32,
    /// May be closed.
    pub opener: Option<u32>,
    pub view: WebView,
    /// Each page has its own list of the same scripts, so that a report shows its page.
    pub content: UserContentManager,
    pub navigation: Navigation,
    pub scripts: Scripts,
    pub acknowledgements: Acknowledgements,
    pub pointer: Pointer,
    pub drags: Drags,
    is_closed: Cell<bool>,
    /// Its process has ended. It is loaded again when the page becomes active.
    pub lost: RefCell<Option<String>>,
    /// True while WebKit reports the address of a load that was refused when the page asked whether it may be left.
    pub has_stayed: Cell<bool>,
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

impl Page {
    /// Not in the list of pages yet. Shares the process of a related page.
    pub fn new(browser: &Rc<Browser>, related: Option<&Rc<Self>>, opener: Option<u32>) -> Rc<Self> {
        let content = UserContentManager::new();
        let view = WebView::builder().settings(&browser.settings).user_content_manager(&content);
        let view = match related {
            Some(related) => view.related_view(&related.view),
            None => view.web_context(&browser.context),
        };
        let pages = &browser.pages;
        let id = pages.last_id.get() + 1;
        pages.last_id.set(id);
        Rc::new(Self {
            browser: browser.clone(),
            id,
            opener,
            view: view.build(),
            content,
            navigation: Navigation::default(),
            scripts: Scripts::default(),
            acknowledgements: Acknowledgements::default(),
            pointer: Pointer::default(),
            drags: Drags::default(),
            is_closed: Cell::new(false),
            lost: RefCell::default(),
            has_stayed: Cell::new(false),
            waiting: RefCell::default(),
        })
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    pub async fn closed(&self) {
        if self.is_closed() {
            return;
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting.borrow_mut();
            waiting.retain(|sender| !sender.is_canceled());
            waiting.push(sender);
        }
        let _ = receiver.await;
    }

    /// Returns whether it was truncated.
    pub fn uri(&self) -> (String, bool) {
        let (max, _) = self.browser.lengths.get();
        cut(self.address().unwrap_or_default(), max)
    }

    pub fn address(&self) -> Option<String> {
        let lost = self.lost.borrow().clone();
        let kept = || self.has_stayed.get().then(|| self.address_in_history()).flatten();
        lost.or_else(kept).or_else(|| self.view.uri().map(String::from))
    }

    /// WebKit has forgotten the title when a load was refused.
    pub fn title_in_engine(&self) -> Option<String> {
        let kept = || self.view.back_forward_list()?.current_item()?.title();
        self.view.title().or_else(|| self.has_stayed.get().then(kept).flatten()).map(String::from)
    }

    pub fn address_in_history(&self) -> Option<String> {
        let item = self.view.back_forward_list()?.current_item()?;
        item.uri().map(String::from)
    }

    pub fn short_uri(&self, uri: String) -> String {
        self.browser.short_uri(uri)
    }

    pub fn title(&self) -> Option<String> {
        let (_, max) = self.browser.lengths.get();
        let (title, _) = cut(self.title_in_engine().unwrap_or_default(), max);
        (!title.is_empty()).then_some(title)
    }

    pub fn is_active(&self) -> bool {
        self.browser.pages.active.borrow().as_ref().is_some_and(|active| active.id == self.id)
    }

    pub fn is_opened_by(&self, id: u32) -> bool {
        self.opener == Some(id)
    }

    pub fn entry(&self) -> PageEntry {
        PageEntry { id: self.id, uri: self.uri().0, title: self.title(), active: self.is_active(), opener: self.opener }
    }

    pub fn is_at(&self, item: &BackForwardListItem) -> bool {
        self.view.back_forward_list().and_then(|list| list.current_item()).as_ref() == Some(item)
    }

    /// Wakes the tasks that wait for it. Returns false if the page was closed already.
    pub fn close(&self) -> bool {
        self.waiting.take();
        !self.is_closed.replace(true)
    }
}
