//! Views, the active page, and windows that pages open.
//!
//! A window of a page is a related view: it shares the process of its opener, so that both can use each other. The settings,
//! scripts and rules of all pages are the same, and in force before the first script of a page runs. Inactive pages are hidden,
//! as on a phone: their timers are throttled, and they paint nothing.

use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use glib::translate::ToGlibPtr;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, Page as PageState, PageEntry, PageEventBody};
use webkit2gtk::{
    ColorChooserRequestExt, GeolocationPermissionRequest, NavigationAction, OptionMenu, PermissionRequestExt,
    URIRequestExt, UserContentInjectedFrames, UserContentManagerExt, UserMessageExt, UserScript,
    UserScriptInjectionTime, UserStyleLevel, UserStyleSheet, WebProcessTerminationReason, WebViewExt,
};

use crate::browser::{Browser, Page};
use crate::live::asked;
use crate::script::state::WORLD;
use crate::text::cut;
use crate::{acknowledgement, choosers, dialogs, drag, emulation, failure, live, navigation, script, submissions};

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

/// Not visible yet. Shares the process of a related page.
pub fn create(browser: &Rc<Browser>, related: Option<&Rc<Page>>, opener: Option<u32>) -> Rc<Page> {
    let page = Page::new(browser, related, opener);
    listen(&page);
    drag::listen(&page);
    listen_to_extension(&page);
    refuse(&page);
    follow_end(&page);
    navigation::follow(&page);
    live::follow(&page);
    let scripts =
        [browser.device_script.borrow().clone(), browser.submissions.hold_script(), browser.recording.script()];
    for script in scripts.into_iter().flatten() {
        page.content.add_script(&script);
    }
    emulation::filter_requests(&page);
    page.view.show();
    browser.stack.add(&page.view);
    browser.pages.add(page.clone());
    browser.recording.note(PageEventBody::PageOpened { page: page.id, uri: page.uri().0, opener });
    page
}

pub async fn state(page: &Rc<Page>) -> PageState {
    let (_, max) = page.browser.lengths.get();
    // WebKit receives a title slightly later than the page has it. A busy page has its previous title.
    let question =
        format!("return document.title.slice(0, {}).toWellFormed()", max.saturating_add(1).saturating_mul(2));
    let asked = Box::pin(script::evaluate(page, &question));
    let title = match select(asked, glib::timeout_future(TITLE_WITHIN)).await {
        Either::Left((Ok(title), _)) => title.as_str().map(str::to_owned),
        _ => page.title_in_engine(),
    };
    let (title, title_was_cut) = cut(title.unwrap_or_default(), max);
    let (uri, uri_was_cut) = page.uri();
    PageState {
        uri,
        title: (!title.is_empty()).then_some(title),
        truncated: title_was_cut || uri_was_cut,
        lifecycle: page.navigation.lifecycle(),
    }
}

/// Receives the reports of the listeners in the isolated world.
fn listen(page: &Rc<Page>) {
    let weak = Rc::downgrade(page);
    page.content.connect_script_message_received(Some(acknowledgement::HANDLER), move |_, message| {
        if let (Some(page), Some(value)) = (weak.upgrade(), message.js_value()) {
            let report = javascriptcore::ValueExt::to_str(&value);
            page.browser.submissions.note(page.id, &report);
            page.acknowledgements.note(&report);
        }
    });
    page.content.register_script_message_handler_in_world(acknowledgement::HANDLER, WORLD);
    page.content.add_style_sheet(&UserStyleSheet::new(
        DESKTOP_PARTS,
        UserContentInjectedFrames::AllFrames,
        UserStyleLevel::User,
        &[],
        &[],
    ));
    for listeners in [acknowledgement::LISTENERS, submissions::LISTENERS] {
        page.content.add_script(&UserScript::for_world(
            listeners,
            UserContentInjectedFrames::AllFrames,
            UserScriptInjectionTime::Start,
            WORLD,
            &[],
            &[],
        ));
    }
}

/// Rejects or answers everything that would wait for a person, or affect more than the page.
fn refuse(page: &Rc<Page>) {
    let view = &page.view;
    let weak = Rc::downgrade(page);
    view.connect_script_dialog(move |_, dialog| {
        if let Some(page) = weak.upgrade() {
            dialogs::open(&page, dialog);
        }
        true
    });
    let weak = Rc::downgrade(page);
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
            webkit2gtk_sys::webkit_authentication_request_authenticate(request.to_glib_none().0, std::ptr::null_mut());
        }
        true
    });
    let weak = Rc::downgrade(page);
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
    let weak = Rc::downgrade(page);
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
    let weak = Rc::downgrade(page);
    view.connect_create(move |_, action| open_window(&weak.upgrade()?, action));
}

fn follow_end(page: &Rc<Page>) {
    let weak = Rc::downgrade(page);
    page.view.connect_close(move |_| {
        if let Some(page) = weak.upgrade() {
            remove(&page);
        }
    });
    let weak = Rc::downgrade(page);
    page.view.connect_web_process_terminated(move |_, reason| {
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

/// Receives the reports of the web-process extension.
fn listen_to_extension(page: &Rc<Page>) {
    let weak = Rc::downgrade(page);
    page.view.connect_user_message_received(move |_, message| {
        let Some(page) = weak.upgrade() else { return false };
        match message.name().as_deref() {
            Some("held") => page.browser.submissions.note_held_request(page.id),
            Some("console") => page.browser.recording.note_console(message.parameters().as_ref()),
            _ => return false,
        }
        true
    });
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
    let page = create(browser, Some(opener), Some(opener.id));
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
    browser.pages.set_active(page);
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
    browser.pages.all().iter().map(|page| page.entry()).collect()
}

pub async fn open(browser: &Rc<Browser>) -> Result<PageEntry, HostError> {
    if browser.pages.is_full() {
        return Err(HostError::TooManyPages);
    }
    // A process of its own would take three times the memory.
    let related = browser.pages.active();
    let page = create(browser, Some(&related), None);
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
    if browser.pages.all().len() == 1 {
        return Err(HostError::LastPage);
    }
    page.view.try_close();
    let (closed, dialog) = (Box::pin(page.closed()), Box::pin(browser.dialogs.wait_for_held()));
    let ended = select(select(closed, dialog), glib::timeout_future(CLOSE_WITHIN)).await;
    if let Either::Left((Either::Right(_), _)) = ended {
        return Err(HostError::DialogOpen);
    }
    remove(&page);
    Ok(())
}

/// Its opener becomes active, or else the newest page. The last page is replaced by a blank one.
pub fn remove(page: &Rc<Page>) {
    if !page.close() {
        return;
    }
    let browser = &page.browser;
    let was_active = page.is_active();
    browser.recording.note(PageEventBody::PageClosed { page: page.id });
    browser.pages.remove(page.id);
    if was_active {
        let next = page.opener.and_then(|opener| browser.pages.find(opener).ok());
        let next = next.or_else(|| browser.pages.newest());
        if let Some(next) = next {
            activate(&next);
        } else {
            let blank = create(browser, None, None);
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
    for handler in [acknowledgement::HANDLER, navigation::HANDLER] {
        page.content.unregister_script_message_handler_in_world(handler, WORLD);
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
    let stopped = select(Box::pin(page.browser.dialogs.wait_for_held()), Box::pin(page.closed()));
    match select(Box::pin(work), stopped).await {
        Either::Left((result, _)) => result,
        Either::Right((Either::Left(_), _)) => Err(HostError::DialogOpen),
        Either::Right((Either::Right(_), _)) => Err(failure::engine("the page was closed")),
    }
}
