//! Evaluates code in the page's own world for a script of the host (`../src/evaluate.js`).
//!
//! The isolated world of the main frame gets the function, which the page cannot reach. The function finds its page by the ID:
//! a reference to the page's world would keep the document alive.

use std::cell::Cell;
use std::ffi::c_char;
use std::ptr::{null_mut, without_provenance_mut};

use glib::ffi::{GType, gpointer};
use glib::gobject_ffi::{G_TYPE_NONE, G_TYPE_STRING, GCallback, g_object_unref};
use javascriptcore_rs_sys::{
    JSCContext, JSCValue, jsc_context_clear_exception, jsc_context_evaluate_with_source_uri, jsc_context_get_current,
    jsc_value_get_type, jsc_value_new_array, jsc_value_new_from_json, jsc_value_new_functionv, jsc_value_new_undefined,
    jsc_value_object_set_property,
};

use crate::ffi::{
    WebKitWebExtension, WebKitWebPage, webkit_frame_get_js_context_for_script_world, webkit_script_world_get_default,
    webkit_web_extension_get_page, webkit_web_page_get_id, webkit_web_page_get_main_frame,
};

thread_local! {
    static EXTENSION: Cell<*mut WebKitWebExtension> = const { Cell::new(null_mut()) };
}

/// Remembers the extension, which lives as long as the process.
pub fn set_extension(extension: *mut WebKitWebExtension) {
    EXTENSION.set(extension);
}

/// Adds the function to the object that a page's frames share in the isolated world of this context.
///
/// # Safety
/// All three are valid.
pub unsafe fn provide(context: *mut JSCContext, shared: *mut JSCValue, page: *mut WebKitWebPage) {
    // SAFETY: the caller guarantees the arguments. `run_in_page` has the signature that the types declare, and its only data is the
    // ID. The object takes a reference to the function.
    unsafe {
        let Ok(id) = usize::try_from(webkit_web_page_get_id(page)) else { return };
        let function: unsafe extern "C" fn(*const c_char, *const c_char, gpointer) -> *mut JSCValue = run_in_page;
        let callback: GCallback = std::mem::transmute(function);
        let (id, mut parameters): (gpointer, [GType; 2]) = (without_provenance_mut(id), [G_TYPE_STRING, G_TYPE_STRING]);
        let (returns, list) = (jsc_value_get_type(), parameters.as_mut_ptr());
        let function = jsc_value_new_functionv(context, c"runInPage".as_ptr(), callback, id, None, returns, 2, list);
        jsc_value_object_set_property(shared, c"runInPage".as_ptr(), function);
        g_object_unref(function.cast());
    }
}

/// Evaluates code in the page's own world, and converts a JSON text there. Returns a list of both values; the first is undefined
/// when the code throws.
///
/// # Safety
/// Only WebKit calls it, with two C strings and the ID of a page.
unsafe extern "C" fn run_in_page(code: *const c_char, json: *const c_char, id: gpointer) -> *mut JSCValue {
    // SAFETY: the caller guarantees the texts. There is a current context, because a script calls this function. A page, its frame
    // and its context are valid if they are found, and each value and context that a call returns is released.
    unsafe {
        let current = jsc_context_get_current();
        let page = webkit_web_extension_get_page(EXTENSION.get(), id.addr() as u64);
        let frame = if page.is_null() { null_mut() } else { webkit_web_page_get_main_frame(page) };
        if frame.is_null() {
            return jsc_value_new_undefined(current);
        }
        let context = webkit_frame_get_js_context_for_script_world(frame, webkit_script_world_get_default());
        let value = jsc_context_evaluate_with_source_uri(context, code, -1, c"evaluate".as_ptr(), 1);
        jsc_context_clear_exception(context);
        let parsed = jsc_value_new_from_json(context, json);
        let of_value = jsc_value_get_type();
        let list = jsc_value_new_array(current, of_value, value, of_value, parsed, G_TYPE_NONE);
        g_object_unref(value.cast());
        g_object_unref(parsed.cast());
        g_object_unref(context.cast());
        list
    }
}
