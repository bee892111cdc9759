//! Connects the frames of a page in the isolated world.
//!
//! A script cannot reach the document of a frame of another origin: the engine checks the origin at `contentDocument`
//! and at each access to a window, in every world. It checks neither a document nor an element that a script already has.
//! When a frame gets a document, its world therefore registers it in an object that all frames of the page share. The
//! script of the page's main frame then finds it by the frame's window, which it may compare.
//!
//! The object is in the main frame's world, under a symbol. The maps are weak: they keep no document of a frame that is gone.

use std::ffi::CStr;

use glib::gobject_ffi::g_object_unref;
use javascriptcore_rs_sys::{
    JSCContext, JSCValue, jsc_context_evaluate, jsc_value_function_callv, jsc_value_is_function, jsc_value_is_object,
};

use crate::evaluation;
use crate::ffi::{
    WebKitFrame, WebKitScriptWorld, WebKitWebPage, webkit_frame_get_js_context_for_script_world,
    webkit_frame_is_main_frame, webkit_web_page_get_main_frame,
};

const SHARE: &CStr = c"globalThis[Symbol.for('kitfleet.shared')] ??= { documents: new WeakMap() }";

/// Function that stores the shared object in a frame, and registers the frame's document.
const JOIN: &CStr = c"(shared) => {
  globalThis[Symbol.for('kitfleet.shared')] = shared;
  shared.documents.set(globalThis, document);
}";

/// The frame has got a new document.
///
/// # Safety
/// All three are valid.
pub unsafe fn connect_frame(world: *mut WebKitScriptWorld, page: *mut WebKitWebPage, frame: *mut WebKitFrame) {
    // SAFETY: the caller guarantees the arguments. WebKit returns null for a page without a main frame.
    let main =
        unsafe { if webkit_frame_is_main_frame(frame) != 0 { frame } else { webkit_web_page_get_main_frame(page) } };
    if main.is_null() {
        return;
    }
    let (Some(main_context), Some(context)) = (Context::of(main, world), Context::of(frame, world)) else { return };
    let Some(shared) = main_context.evaluate(SHARE) else { return };
    let Some(join) = context.evaluate(JOIN) else { return };
    // SAFETY: both are valid, and the kinds of values are checked before their use.
    unsafe {
        if jsc_value_is_object(shared.0) != 0 && jsc_value_is_function(join.0) != 0 {
            let mut arguments = [shared.0];
            drop(Value::owned(jsc_value_function_callv(join.0, 1, arguments.as_mut_ptr())));
            if frame == main {
                evaluation::provide(context.0, shared.0, page);
            }
        }
    }
}

/// Dropping it releases the reference.
struct Context(*mut JSCContext);

impl Context {
    /// The frame and the world must be valid.
    fn of(frame: *mut WebKitFrame, world: *mut WebKitScriptWorld) -> Option<Self> {
        // SAFETY: the only caller guarantees it. The function returns a new reference.
        let context = unsafe { webkit_frame_get_js_context_for_script_world(frame, world) };
        (!context.is_null()).then_some(Self(context))
    }

    fn evaluate(&self, code: &CStr) -> Option<Value> {
        // SAFETY: the context is valid, and the code is a C string, which -1 means.
        Value::owned(unsafe { jsc_context_evaluate(self.0, code.as_ptr(), -1) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it owns this reference.
        unsafe { g_object_unref(self.0.cast()) }
    }
}

/// Dropping it releases the reference.
struct Value(*mut JSCValue);

impl Value {
    fn owned(value: *mut JSCValue) -> Option<Self> {
        (!value.is_null()).then_some(Self(value))
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: it owns this reference.
        unsafe { g_object_unref(self.0.cast()) }
    }
}
