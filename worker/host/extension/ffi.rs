//! Interfaces of web processes in `libwebkit2gtk-4.1`. The crate `webkit2gtk-sys` declares those of hosts only.

use std::ffi::{CStr, c_char, c_void};

use gio::ffi::{GAsyncReadyCallback, GCancellable};
use glib::ffi::gpointer;
use glib::gobject_ffi::{GCallback, GObject, g_signal_connect_data};
use javascriptcore_rs_sys::JSCContext;
use webkit2gtk_sys::WebKitUserMessage;

/// Declares types of which only pointers are used.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(WebKitConsoleMessage, WebKitFrame, WebKitScriptWorld, WebKitWebExtension, WebKitWebPage);

#[link(name = "webkit2gtk-4.1")]
unsafe extern "C" {
    pub fn webkit_console_message_get_level(message: *mut WebKitConsoleMessage) -> u32;
    pub fn webkit_console_message_get_line(message: *mut WebKitConsoleMessage) -> u32;
    pub fn webkit_console_message_get_source(message: *mut WebKitConsoleMessage) -> u32;
    pub fn webkit_console_message_get_source_id(message: *mut WebKitConsoleMessage) -> *const c_char;
    pub fn webkit_console_message_get_text(message: *mut WebKitConsoleMessage) -> *const c_char;
    pub fn webkit_frame_get_js_context_for_script_world(
        frame: *mut WebKitFrame,
        world: *mut WebKitScriptWorld,
    ) -> *mut JSCContext;
    pub fn webkit_frame_is_main_frame(frame: *mut WebKitFrame) -> i32;
    pub fn webkit_script_world_get_default() -> *mut WebKitScriptWorld;
    pub fn webkit_script_world_new_with_name(name: *const c_char) -> *mut WebKitScriptWorld;
    pub fn webkit_web_extension_get_page(extension: *mut WebKitWebExtension, id: u64) -> *mut WebKitWebPage;
    pub fn webkit_web_extension_send_message_to_context(
        extension: *mut WebKitWebExtension,
        message: *mut WebKitUserMessage,
        cancellable: *mut GCancellable,
        callback: GAsyncReadyCallback,
        user_data: gpointer,
    );
    pub fn webkit_web_page_get_id(page: *mut WebKitWebPage) -> u64;
    pub fn webkit_web_page_get_main_frame(page: *mut WebKitWebPage) -> *mut WebKitFrame;
    pub fn webkit_web_page_get_uri(page: *mut WebKitWebPage) -> *const c_char;
    pub fn webkit_web_page_send_message_to_view(
        page: *mut WebKitWebPage,
        message: *mut WebKitUserMessage,
        cancellable: *mut GCancellable,
        callback: GAsyncReadyCallback,
        user_data: gpointer,
    );
}

/// For the life of the object.
///
/// # Safety
/// `object` is valid, and `handler` is a function with the signature of the signal.
pub unsafe fn connect(object: *mut GObject, signal: &CStr, handler: *const c_void) {
    // SAFETY: GLib calls the handler with the signature of the signal, which the caller guarantees. A function pointer
    // has the representation of a `GCallback`.
    unsafe {
        let handler: GCallback = std::mem::transmute(handler);
        g_signal_connect_data(object, signal.as_ptr(), handler, std::ptr::null_mut(), None, 0);
    }
}
