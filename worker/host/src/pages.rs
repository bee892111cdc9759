//! Views, the active page, and windows that pages open.
//!
//! A window of a page is a related view: it shares the process of its opener, so that both can use each other. The settings,
//! scripts and rules of all pages are the same, and in force before the first script of a page runs. Inactive pages are hidden,
//! as on a phone: their timers are throttled, and they paint nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use glib::translate::ToGlibPtr;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, MAX_PAGES, Page as PageState, PageEntry, PageEventBody};
use webkit2gtk::{
    BackForwardListExt, BackForwardListItemExt, ColorChooserRequestExt, GeolocationPermissionRequest, NavigationAction,
    OptionMenu, PermissionRequestExt, URIRequestExt, UserContentInjectedFrames, UserContentManager,
    UserContentManagerExt, UserScript, UserScriptInjectionTime, UserStyleLevel, UserStyleSheet,
    WebProcessTerminationReason, WebView, WebViewExt,
};

use crate::acknowledgement::{self, Acknowledgements};
use crate::browser::Browser;
use crate::drag::{self, Drags};
use crate::live::{self, asked};
use crate::navigation::{self, Navigation};
use crate::pointer::Pointer;
use crate::script::{self, Scripts};
use crate::{choosers, dialogs, emulation, extension, failure, submissions};

/// Windows that pages open within [`WINDOW`]. A tap on a phone opens one or two.
const MAX_WINDOWS: usize = 16;

const WINDOW: Duration = Duration::from_secs(2);

const SCRIPT: &str = "javascript:";

const TITLE_WITHIN: Duration = Duration::from_millis(100);

const CLOSE_WITHIN: Duration = Duration::from_millis(500);

const BLANK_WITHIN: Duration = Duration::from_secs(10);

/// A phone does not have them, and they would receive taps for the page: scroll bars lie over the content, and the buttons of a
/// narrow number field cover it.
const DESKTOP_PARTS: &str = "
::-webkit-scrollbar { display: none !important; }
::-webkit-inner-spin-button, ::-webkit-outer-spin-button { display: none !important; }
";

#[derive(Default)]
pub struct Pages {
    /// Oldest first. Never empty after the start.
    open: RefCell<Vec<Rc<Page>>>,
    active: RefCell<Option<Rc<Page>>>,
    last_id: Cell<u32>,
    /// Times at which pages have opened windows, within [`WINDOW`].
    windows: RefCell<VecDeque<Instant>>,
}

pub struct Page {
    pub browser: Rc<Browser>,
    pub id: u32,
    /// May be closed.
    opener: Option<u32>,
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
    lost: RefCell<Option<String>>,
    /// True while WebKit reports the address of a load that was refused when the page asked whether it may be left.
    pub has_stayed: Cell<bool>,
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
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

    fn is_full(&self) -> bool {
        self.open.borrow().len() >= MAX_PAGES
    }

    /// Pages refer to their browser.
    pub fn clear(&self) {
        self.active.take();
        self.open.take();
    }

    /// Returns whether the window is allowed.
    fn admit_window(&self, now: Instant) -> bool {
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

impl Page {
    /// Not visible yet. Shares the process of a related page.
    pub fn create(browser: &Rc<Browser>, related: Option<&Rc<Page>>, opener: Option<u32>) -> Rc<Self> {
        let content = UserContentManager::new();
        let view = WebView::builder().settings(&browser.settings).user_content_manager(&content);
        let view = match related {
            Some(related) => view.related_view(&related.view),
            None => view.web_context(&browser.context),
        };
        let pages = &browser.pages;
        let id = pages.last_id.get() + 1;
        pages.last_id.set(id);
        let page = Rc::new(Self {
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
        });
        page.listen();
        drag::listen(&page);
        extension::listen(&page);
        page.refuse();
        page.follow_end();
        navigation::follow(&page);
        live::follow(&page);
        let scripts =
            [browser.device_script.borrow().clone(), submissions::hold_script(browser), browser.recording.script()];
        for script in scripts.into_iter().flatten() {
            page.content.add_script(&script);
        }
        emulation::filter_requests(&page);
        page.view.show();
        browser.stack.add(&page.view);
        pages.open.borrow_mut().push(page.clone());
        browser.recording.note(PageEventBody::PageOpened { page: id, uri: page.uri().0, opener });
        page
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

    pub async fn state(self: &Rc<Self>) -> PageState {
        let (_, max) = self.browser.lengths.get();
        // WebKit receives a title slightly later than the page has it. A busy page has its previous title.
        let question =
            format!("return document.title.slice(0, {}).toWellFormed()", max.saturating_add(1).saturating_mul(2));
        let asked = Box::pin(script::evaluate(self, &question));
        let title = match select(asked, glib::timeout_future(TITLE_WITHIN)).await {
            Either::Left((Ok(title), _)) => title.as_str().map(str::to_owned),
            _ => self.title_in_engine(),
        };
        let (title, title_was_cut) = cut(title.unwrap_or_default(), max);
        let (uri, uri_was_cut) = self.uri();
        PageState {
            uri,
            title: (!title.is_empty()).then_some(title),
            truncated: title_was_cut || uri_was_cut,
            lifecycle: self.navigation.lifecycle(),
        }
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
    fn title_in_engine(&self) -> Option<String> {
        let kept = || self.view.back_forward_list()?.current_item()?.title();
        self.view.title().or_else(|| self.has_stayed.get().then(kept).flatten()).map(String::from)
    }

    fn address_in_history(&self) -> Option<String> {
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

    fn entry(&self) -> PageEntry {
        PageEntry { id: self.id, uri: self.uri().0, title: self.title(), active: self.is_active(), opener: self.opener }
    }

    /// Receives the reports of the listeners in the isolated world.
    fn listen(self: &Rc<Self>) {
        let weak = Rc::downgrade(self);
        self.content.connect_script_message_received(Some(acknowledgement::HANDLER), move |_, message| {
            if let (Some(page), Some(value)) = (weak.upgrade(), message.js_value()) {
                let report = javascriptcore::ValueExt::to_str(&value);
                submissions::note(&page, &report);
                page.acknowledgements.note(&report);
            }
        });
        self.content.register_script_message_handler_in_world(acknowledgement::HANDLER, script::WORLD);
        self.content.add_style_sheet(&UserStyleSheet::new(
            DESKTOP_PARTS,
            UserContentInjectedFrames::AllFrames,
            UserStyleLevel::User,
            &[],
            &[],
        ));
        for listeners in [acknowledgement::LISTENERS, submissions::LISTENERS] {
            self.content.add_script(&UserScript::for_world(
                listeners,
                UserContentInjectedFrames::AllFrames,
                UserScriptInjectionTime::Start,
                script::WORLD,
                &[],
                &[],
            ));
        }
    }

    /// Rejects or answers everything that would wait for a person, or affect more than the page.
    fn refuse(self: &Rc<Self>) {
        let view = &self.view;
        let weak = Rc::downgrade(self);
        view.connect_script_dialog(move |_, dialog| {
            if let Some(page) = weak.upgrade() {
                dialogs::open(&page, dialog);
            }
            true
        });
        let weak = Rc::downgrade(self);
        view.connect_permission_request(move |_, request| {
            let has_position = weak.upgrade().is_some_and(|page| page.browser.emulation.has_position());
            if has_position && request.is::<GeolocationPermissionRequest>() {
                request.allow();
            } else {
                request.deny();
            }
            true
        });
        view.connect_authenticate(|_, request| {
            // Cancelling would end the load. Without credentials the load continues to the server's error page. SAFETY:
            // the request is valid, and the call accepts null for no credentials.
            unsafe {
                webkit2gtk_sys::webkit_authentication_request_authenticate(
                    request.to_glib_none().0,
                    std::ptr::null_mut(),
                );
            }
            true
        });
        let weak = Rc::downgrade(self);
        view.connect_run_file_chooser(move |_, request| {
            if let Some(page) = weak.upgrade() {
                choosers::open(&page, request);
            }
            true
        });
        view.connect_run_color_chooser(|_, request| {
            request.cancel();
            true
        });
        // The bindings of these two signals panic when no event caused the menu.
        let weak = Rc::downgrade(self);
        view.connect_local("show-option-menu", false, move |values| {
            if let (Some(page), Ok(menu)) = (weak.upgrade(), values[1].get::<OptionMenu>()) {
                asked::open_menu(&page.browser, menu);
            }
            Some(true.to_value())
        });
        view.connect_local("context-menu", false, |_| Some(true.to_value()));
        view.connect_print(|_, _| true);
        view.connect_show_notification(|_, _| true);
        view.connect_enter_fullscreen(|_| true);
        let weak = Rc::downgrade(self);
        view.connect_create(move |_, action| open_window(&weak.upgrade()?, action));
    }

    fn follow_end(self: &Rc<Self>) {
        let weak = Rc::downgrade(self);
        self.view.connect_close(move |_| {
            if let Some(page) = weak.upgrade() {
                remove(&page);
            }
        });
        let weak = Rc::downgrade(self);
        self.view.connect_web_process_terminated(move |_, reason| {
            let Some(page) = weak.upgrade().filter(|page| !page.is_closed()) else { return };
            let is_commanded = reason == WebProcessTerminationReason::TerminatedByApi;
            dialogs::forget(&page);
            // The command goes on in a new process.
            if is_commanded && page.navigation.has_pending_load() {
                return;
            }
            page.scripts.abandon();
            if !page.is_active() {
                page.lost.replace(page.address_in_history());
            } else if !is_commanded {
                page.browser.end(&format!("{reason:?}"));
            }
        });
    }
}

/// `None` rejects the window: a phone blocks windows that no tap has opened.
fn open_window(opener: &Rc<Page>, action: &NavigationAction) -> Option<gtk::Widget> {
    let browser = &opener.browser;
    let uri = action.clone().request().and_then(|request| request.uri()).unwrap_or_default();
    // Such a script would run before those that are injected into documents.
    let is_script = uri.get(..SCRIPT.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCRIPT));
    let is_wanted = action.is_user_gesture() && !is_script && !opener.is_closed();
    if !is_wanted || !browser.pages.admit_window(Instant::now()) {
        return None;
    }
    let page = Page::create(browser, Some(opener), Some(opener.id));
    page.navigation.begin_in_window(!uri.is_empty() && uri != "about:blank");
    activate(&page);
    let view: gtk::Widget = page.view.clone().upcast();
    // SAFETY: the page holds another reference. WebKit expects a view without an owner, and never releases the reference that
    // the bindings return to it, so that this one takes its place.
    unsafe { glib::gobject_ffi::g_object_unref(view.as_ptr().cast()) };
    Some(view)
}

pub fn activate(page: &Rc<Page>) {
    let browser = &page.browser;
    if page.is_active() {
        return;
    }
    asked::choose(browser, None);
    browser.pages.active.replace(Some(page.clone()));
    browser.stack.set_visible_child(&page.view);
    page.view.grab_focus();
    live::show(page);
    browser.recording.note(PageEventBody::PageActivated { page: page.id, uri: page.uri().0 });
    let lost = page.lost.take();
    if let Some(uri) = lost {
        page.view.load_uri(&uri);
    }
}

pub fn list(browser: &Browser) -> Vec<PageEntry> {
    browser.pages.open.borrow().iter().map(|page| page.entry()).collect()
}

pub async fn open(browser: &Rc<Browser>) -> Result<PageEntry, HostError> {
    if browser.pages.is_full() {
        return Err(HostError::TooManyPages);
    }
    // A process of its own would take three times the memory.
    let related = browser.pages.active();
    let page = Page::create(browser, Some(&related), None);
    activate(&page);
    let (loaded, arrival) = oneshot::channel();
    navigation::load_blank(&page, move || {
        // The receiver may have been dropped.
        let _ = loaded.send(());
    });
    match select(arrival, glib::timeout_future(BLANK_WITHIN)).await {
        Either::Left((Ok(()), _)) => Ok(page.entry()),
        _ => Err(failure::engine("the blank page did not load")),
    }
}

/// The page can save its data, and confirm that it may be left.
pub async fn close(browser: &Rc<Browser>, id: u32) -> Result<(), HostError> {
    let page = browser.pages.find(id)?;
    if browser.pages.open.borrow().len() == 1 {
        return Err(HostError::LastPage);
    }
    page.view.try_close();
    let (closed, dialog) = (Box::pin(page.closed()), Box::pin(dialogs::held(browser)));
    let ended = select(select(closed, dialog), glib::timeout_future(CLOSE_WITHIN)).await;
    if let Either::Left((Either::Right(_), _)) = ended {
        return Err(HostError::DialogOpen);
    }
    remove(&page);
    Ok(())
}

/// Its opener becomes active, or else the newest page. The last page is replaced by a blank one.
pub fn remove(page: &Rc<Page>) {
    if page.is_closed.replace(true) {
        return;
    }
    let browser = &page.browser;
    let was_active = page.is_active();
    browser.recording.note(PageEventBody::PageClosed { page: page.id });
    browser.pages.open.borrow_mut().retain(|other| other.id != page.id);
    if was_active {
        let next = page.opener.and_then(|opener| browser.pages.find(opener).ok());
        let next = next.or_else(|| browser.pages.open.borrow().last().cloned());
        if let Some(next) = next {
            activate(&next);
        } else {
            let blank = Page::create(browser, None, None);
            activate(&blank);
            navigation::load_blank(&blank, || {});
        }
    }
    dialogs::forget(page);
    choosers::forget(page);
    page.scripts.abandon();
    page.navigation.abandon();
    page.acknowledgements.wake();
    page.drags.cancel();
    page.waiting.take();
    for handler in [acknowledgement::HANDLER, navigation::HANDLER] {
        page.content.unregister_script_message_handler_in_world(handler, script::WORLD);
    }
    let page = page.clone();
    // WebKit is still handling a signal of the view.
    glib::idle_add_local_once(move || {
        page.browser.stack.remove(&page.view);
        // SAFETY: the view has left its container, and nothing uses it any more: each use of a closed page finds no
        // window, or an error.
        unsafe { page.view.destroy() };
    });
}

pub fn close_without_document(page: &Rc<Page>) {
    if page.opener.is_some() && !page.navigation.has_document() && !page.navigation.has_pending_load() {
        remove(page);
    }
}

/// WebKit would never end the work when a dialog is held, or the page is closed.
pub async fn uninterrupted<T>(page: &Page, work: impl Future<Output = Result<T, HostError>>) -> Result<T, HostError> {
    if page.browser.dialogs.is_blocking() {
        return Err(HostError::DialogOpen);
    }
    let stopped = select(Box::pin(dialogs::held(&page.browser)), Box::pin(page.closed()));
    match select(Box::pin(work), stopped).await {
        Either::Left((result, _)) => result,
        Either::Right((Either::Left(_), _)) => Err(HostError::DialogOpen),
        Either::Right((Either::Right(_), _)) => Err(failure::engine("the page was closed")),
    }
}

/// Returns whether it was truncated.
pub fn cut(mut text: String, max: usize) -> (String, bool) {
    match text.char_indices().nth(max) {
        Some((end, _)) => {
            text.truncate(end);
            text.shrink_to_fit();
            (text, true)
        }
        None => (text, false),
    }
}
