//! | from | name | parameters | meaning |
//! |---|---|---|---|
//! | host | `state` | `(bbba(ssas))` | whether to hold requests, whether pages are offline, whether to report console lines, and the headers to set |
//! | host | `settle` | | asks a page for an answer, which follows all its earlier reports |
//! | extension | `ready` | | it is loaded |
//! | extension | `held` | | it has held a request |
//! | extension | `console` | `(uussuu)` | level, source, text, address and line of a console line, and the lines dropped before |
//!
//! New processes receive the state when they start.

use std::cell::RefCell;
use std::ffi::CStr;
use std::ptr::null_mut;

use glib::Variant;
use glib::ffi::GVariant;
use glib::translate::from_glib_none;
use webkit2gtk_sys::{
    WebKitUserMessage, webkit_user_message_get_name, webkit_user_message_get_parameters, webkit_user_message_new,
    webkit_user_message_send_reply,
};

use crate::ffi::{
    WebKitWebExtension, WebKitWebPage, webkit_web_extension_send_message_to_context,
    webkit_web_page_send_message_to_view,
};
use crate::{copied, network};

#[derive(Default)]
pub struct State {
    pub holds: bool,
    pub records: bool,
    /// Name, value, and the origins that receive it; none means all.
    pub headers: Vec<(String, String, Vec<String>)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub fn with_state<T>(read: impl FnOnce(&State) -> T) -> T {
    STATE.with_borrow(read)
}

/// Ignores a variant of another type, which no host of this version sends.
///
/// # Safety
/// `state` is null or a valid variant.
pub unsafe fn apply_state(state: *mut GVariant) {
    if state.is_null() {
        return;
    }
    // SAFETY: the caller guarantees it. The wrapper takes a reference of its own.
    let state: Variant = unsafe { from_glib_none(state) };
    if let Some((holds, is_offline, records, headers)) = state.get() {
        STATE.replace(State { holds, records, headers });
        network::set_offline(is_offline);
    }
}

/// Returns whether the message is known.
///
/// # Safety
/// The message is valid.
pub unsafe fn receive(message: *mut WebKitUserMessage) -> i32 {
    // SAFETY: the caller guarantees it. The parameters belong to the message.
    unsafe {
        let is_state = copied(webkit_user_message_get_name(message)).as_deref() == Some("state");
        if is_state {
            apply_state(webkit_user_message_get_parameters(message));
        }
        i32::from(is_state)
    }
}

/// Returns whether the message is known.
///
/// # Safety
/// The message is valid.
pub unsafe fn answer(message: *mut WebKitUserMessage) -> i32 {
    // SAFETY: the caller guarantees it. WebKit takes the floating reference of the reply.
    unsafe {
        let is_settle = copied(webkit_user_message_get_name(message)).as_deref() == Some("settle");
        if is_settle {
            webkit_user_message_send_reply(message, empty(c"settled"));
        }
        i32::from(is_settle)
    }
}

/// # Safety
/// The extension is valid.
pub unsafe fn send_ready(extension: *mut WebKitWebExtension) {
    // SAFETY: the caller guarantees it. Without a callback no answer is awaited.
    unsafe {
        webkit_web_extension_send_message_to_context(extension, empty(c"ready"), null_mut(), None, null_mut());
    }
}

/// # Safety
/// The page is valid.
pub unsafe fn send_held(page: *mut WebKitWebPage) {
    // SAFETY: the caller guarantees it. Without a callback no answer is awaited.
    unsafe { webkit_web_page_send_message_to_view(page, empty(c"held"), null_mut(), None, null_mut()) }
}

/// # Safety
/// The page is valid.
pub unsafe fn send_console(page: *mut WebKitWebPage, line: &Variant) {
    // SAFETY: the caller guarantees the page, and the message takes a reference to the line.
    unsafe {
        let message = webkit_user_message_new(c"console".as_ptr(), line.as_ptr());
        webkit_web_page_send_message_to_view(page, message, null_mut(), None, null_mut());
    }
}

/// The receiver takes the floating reference.
fn empty(name: &CStr) -> *mut WebKitUserMessage {
    // SAFETY: the name is a C string, and there may be no parameters.
    unsafe { webkit_user_message_new(name.as_ptr(), null_mut()) }
}
