//! Emulation of a session: sizes, and properties that pages and requests show.

pub mod state;

use std::path::Path;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use gio::ffi::GAsyncResult;
use glib::ffi::gpointer;
use glib::gobject_ffi::GObject;
use glib::translate::{FromGlibPtrFull, ToGlibPtr};
use gtk::prelude::*;
use kitfleet_host_protocol::{Block, ColorScheme, Emulation, Geolocation, HostError, ResourceType};
use serde_json::{Value, json};
use webkit2gtk::{GeolocationManagerExt, GeolocationPosition, WebContextExt};
use webkit2gtk_sys::{
    WebKitUserContentFilter, webkit_user_content_filter_store_new, webkit_user_content_filter_store_save,
    webkit_user_content_filter_store_save_finish, webkit_user_content_filter_unref,
    webkit_user_content_manager_add_filter, webkit_user_content_manager_remove_all_filters,
};

use crate::browser::{Browser, Page};
use crate::{failure, screen, script};

const LAYOUT_WITHIN: Duration = Duration::from_secs(2);

/// There is no other source of a position.
pub fn provide_position(browser: &Rc<Browser>) {
    let Some(manager) = browser.context.geolocation_manager() else { return };
    let weak = Rc::downgrade(browser);
    manager.connect_start(move |manager| {
        let position = weak.upgrade().and_then(|browser| browser.emulation.geolocation.get());
        match position {
            Some(position) => manager.update_position(&mut position_of(position)),
            None => manager.failed("there is no position"),
        }
        true
    });
}

fn position_of(at: Geolocation) -> GeolocationPosition {
    GeolocationPosition::new(at.latitude, at.longitude, at.accuracy)
}

/// Puts the emulation in force, for the current pages too.
pub async fn apply(browser: &Rc<Browser>, emulation: &Emulation) -> Result<(), HostError> {
    browser.extension.set_headers(emulation.extra_headers.clone())?;
    browser.extension.set_offline(emulation.offline);
    set_position(browser, emulation.geolocation);
    if let Some(settings) = gtk::Settings::default() {
        // WebKit derives `prefers-color-scheme` from GTK's theme.
        settings.set_gtk_application_prefer_dark_theme(emulation.color_scheme == ColorScheme::Dark);
    }
    set_block(browser, &emulation.block).await?;
    resize(browser, emulation).await
}

fn set_position(browser: &Rc<Browser>, at: Option<Geolocation>) {
    if browser.emulation.geolocation.replace(at) == at {
        return;
    }
    if let (Some(at), Some(manager)) = (at, browser.context.geolocation_manager()) {
        manager.update_position(&mut position_of(at));
    }
}

/// The content filter also covers requests without a page, and replaces the previous one.
async fn set_block(browser: &Rc<Browser>, block: &Block) -> Result<(), HostError> {
    if *browser.emulation.block.borrow() == *block {
        return Ok(());
    }
    let rules = rules_of(block);
    let filter = if rules.is_empty() {
        None
    } else {
        let number = browser.emulation.filters.get() + 1;
        browser.emulation.filters.set(number);
        let folder = browser.directory.join("filters");
        let text = serde_json::to_vec(&rules).map_err(failure::engine)?;
        NonNull::new(compile_filter(&folder, &format!("block-{number}"), &text).await?)
    };
    let previous = browser.emulation.filter.replace(filter);
    for page in browser.pages.all() {
        filter_requests(&page);
    }
    if let Some(previous) = previous {
        // SAFETY: the reference is owned, and is not used any more. Pages had references of their own.
        unsafe { webkit_user_content_filter_unref(previous.as_ptr()) };
    }
    browser.emulation.block.replace(block.clone());
    Ok(())
}

pub fn filter_requests(page: &Page) {
    let manager = page.content.as_ptr();
    // SAFETY: both objects are valid, and the manager takes a reference of its own to the filter.
    unsafe {
        webkit_user_content_manager_remove_all_filters(manager);
        if let Some(filter) = page.browser.emulation.filter.get() {
            webkit_user_content_manager_add_filter(manager, filter.as_ptr());
        }
    }
}

fn rules_of(block: &Block) -> Vec<Value> {
    let rule = |trigger: Value| json!({ "trigger": trigger, "action": { "type": "block" } });
    let kind = |kind: &ResourceType| match kind {
        ResourceType::Image => &["image", "svg-document"][..],
        ResourceType::Media => &["media"],
        ResourceType::Font => &["font"],
        ResourceType::Stylesheet => &["style-sheet"],
        ResourceType::Script => &["script"],
        ResourceType::Websocket => &["websocket"],
        ResourceType::Xhr => &["fetch"],
    };
    let kinds: Vec<&str> = block.resource_types.iter().flat_map(kind).copied().collect();
    let by_kind = (!kinds.is_empty()).then(|| rule(json!({ "url-filter": ".*", "resource-type": kinds })));
    // A name can have any case in a filter. Its dots are the only characters with a meaning.
    let host = |host: &String| {
        let name = host.replace('.', "\\.").replace('[', "\\[").replace(']', "\\]");
        rule(json!({ "url-filter": format!("^[a-z]+://([^/:]+\\.)?{name}[:/]") }))
    };
    by_kind.into_iter().chain(block.hosts.iter().map(host)).collect()
}

/// Compiles a content filter. The caller owns the returned reference.
async fn compile_filter(folder: &Path, name: &str, rules: &[u8]) -> Result<*mut WebKitUserContentFilter, HostError> {
    type Reply = oneshot::Sender<Result<*mut WebKitUserContentFilter, String>>;

    unsafe extern "C" fn done(store: *mut GObject, result: *mut GAsyncResult, reply: gpointer) {
        let mut error = ptr::null_mut();
        // SAFETY: WebKit passes the store, its result and the pointer of the call below, each of them once.
        let (filter, reply) = unsafe {
            let filter = webkit_user_content_filter_store_save_finish(store.cast(), result, &raw mut error);
            (filter, Box::from_raw(reply.cast::<Reply>()))
        };
        let outcome = if filter.is_null() {
            // SAFETY: an error is set if there is no filter, and is freed by its wrapper.
            Err(unsafe { glib::Error::from_glib_full(error) }.message().to_owned())
        } else {
            Ok(filter)
        };
        // The receiver may have been dropped with its command.
        let _ = reply.send(outcome);
    }

    let folder = folder.to_str().ok_or_else(|| failure::engine("the folder is not UTF-8"))?;
    let (reply, outcome) = oneshot::channel();
    let reply: *mut Reply = Box::into_raw(Box::new(reply));
    let rules = glib::Bytes::from(rules);
    // SAFETY: the texts and the bytes are valid during the call, which copies them. The store is referenced by the running
    // operation, so that it can be released here.
    unsafe {
        let store = webkit_user_content_filter_store_new(folder.to_glib_none().0);
        webkit_user_content_filter_store_save(
            store,
            name.to_glib_none().0,
            rules.to_glib_none().0,
            ptr::null_mut(),
            Some(done),
            reply.cast(),
        );
        glib::gobject_ffi::g_object_unref(store.cast());
    }
    outcome.await.map_err(failure::engine)?.map_err(failure::engine)
}

/// Waits until the page has the sizes.
async fn resize(browser: &Rc<Browser>, emulation: &Emulation) -> Result<(), HostError> {
    let Emulation { viewport, screen, .. } = emulation;
    let size = |[width, height]: [u32; 2]| {
        let side = |side: u32| i32::try_from(side).map_err(|_| failure::engine("the size is out of range"));
        Ok::<_, HostError>((side(width)?, side(height)?))
    };
    let (width, height) = size(*viewport)?;
    if browser.window.size() == (width, height) {
        return Ok(());
    }
    screen::resize(size(*screen)?);
    browser.window.resize(width, height);
    let wanted = json!([viewport, screen]);
    let start = Instant::now();
    loop {
        let question = "return [[innerWidth, innerHeight], [screen.width, screen.height]]";
        let sizes = script::evaluate(&browser.pages.active(), question).await?;
        if sizes == wanted {
            return Ok(());
        }
        if start.elapsed() > LAYOUT_WITHIN {
            return Err(failure::engine(format!("the page is {sizes} instead of {wanted}")));
        }
        glib::timeout_future(Duration::from_millis(2)).await;
    }
}
