//! Web-process extension of a browser. WebKit loads it into each web process before the first page.
//!
//! It runs inside a process that a hostile page may control, so it holds no secret except for the headers that the customer
//! set, and the host treats its messages as untrusted.
//!
//! Rust needs no second compiler, and the host's dependencies already declare the C interfaces. The safe bindings would require
//! a process that has initialized GTK, and would add their code to each web process.
//!
//! WebKit calls everything here on its main thread.

mod console;
mod evaluation;
mod ffi;
mod frames;
mod messages;
mod network;
mod requests;

use std::ffi::{c_char, c_void};

use glib::ffi::{GVariant, gpointer};
use webkit2gtk_sys::WebKitUserMessage;

use ffi::{WebKitFrame, WebKitScriptWorld, WebKitWebExtension, WebKitWebPage, connect};

/// The host's scripts run in a world of the same name, and WebKit makes both one world.
const WORLD: &std::ffi::CStr = c"kitfleet";

/// The variant is the state that the host set for new processes.
///
/// # Safety
/// Only WebKit calls it, on its main thread, with a valid extension and a variant or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn webkit_web_extension_initialize_with_user_data(
    extension: *mut WebKitWebExtension,
    state: *mut GVariant,
) {
    // SAFETY: the name is a C string. The handlers have the signatures of their signals, and `extension` and the world
    // live as long as the process.
    unsafe {
        messages::apply_state(state);
        evaluation::set_extension(extension);
        // This reference is never released.
        let world = ffi::webkit_script_world_new_with_name(WORLD.as_ptr());
        connect(world.cast(), c"window-object-cleared", on_window_object_cleared as *const c_void);
        connect(extension.cast(), c"page-created", on_page_created as *const c_void);
        connect(extension.cast(), c"user-message-received", on_message as *const c_void);
        messages::send_ready(extension);
    }
}

unsafe extern "C" fn on_page_created(_: *mut WebKitWebExtension, page: *mut WebKitWebPage, _: gpointer) {
    // SAFETY: the page is valid during the signal, and the handlers have the signatures of their signals.
    unsafe {
        connect(page.cast(), c"console-message-sent", console::on_console_message as *const c_void);
        connect(page.cast(), c"send-request", requests::on_send_request as *const c_void);
        connect(page.cast(), c"user-message-received", on_page_message as *const c_void);
    }
}

unsafe extern "C" fn on_window_object_cleared(
    world: *mut WebKitScriptWorld,
    page: *mut WebKitWebPage,
    frame: *mut WebKitFrame,
    _: gpointer,
) {
    // SAFETY: all three are valid during the signal.
    unsafe { frames::connect_frame(world, page, frame) }
}

unsafe extern "C" fn on_message(_: *mut WebKitWebExtension, message: *mut WebKitUserMessage, _: gpointer) -> i32 {
    // SAFETY: the message is valid during the signal.
    unsafe { messages::receive(message) }
}

unsafe extern "C" fn on_page_message(_: *mut WebKitWebPage, message: *mut WebKitUserMessage, _: gpointer) -> i32 {
    // SAFETY: the message is valid during the signal.
    unsafe { messages::answer(message) }
}

/// `None` for null, and for text that is not UTF-8.
///
/// # Safety
/// `text` is null or a valid C string.
unsafe fn copied(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_str().ok().map(str::to_owned)
}
