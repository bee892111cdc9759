//! Reports console lines of pages to the host: calls of `console`, uncaught errors, and failed requests.
//!
//! The reports are limited in size and number. The host has limits of its own, because a compromised process can ignore these.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::time::{Duration, Instant};

use glib::Variant;
use glib::ffi::gpointer;
use glib::prelude::*;

use crate::ffi::{
    WebKitConsoleMessage, WebKitWebPage, webkit_console_message_get_level, webkit_console_message_get_line,
    webkit_console_message_get_source, webkit_console_message_get_source_id, webkit_console_message_get_text,
};
use crate::messages::{send_console, with_state};

/// Maximum number of characters of a text.
const MAX_CHARS: usize = 2_000;

/// Of an address.
const MAX_ADDRESS_CHARS: usize = 1_024;

/// Reports in [`WINDOW`]. Further lines are only counted.
const MAX_LINES: u32 = 100;

const WINDOW: Duration = Duration::from_secs(1);

thread_local! {
    static BUDGET: Budget = const { Budget { since: Cell::new(None), sent: Cell::new(0), dropped: Cell::new(0) } };
}

struct Budget {
    since: Cell<Option<Instant>>,
    sent: Cell<u32>,
    /// Not reported yet. The next report contains their number.
    dropped: Cell<u32>,
}

impl Budget {
    /// Number of lines that were dropped before this one. `None` when this one must be dropped too.
    fn take_line(&self) -> Option<u32> {
        let now = Instant::now();
        if self.since.get().is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.since.set(Some(now));
            self.sent.set(0);
        }
        if self.sent.get() >= MAX_LINES {
            self.dropped.set(self.dropped.get().saturating_add(1));
            return None;
        }
        self.sent.set(self.sent.get() + 1);
        Some(self.dropped.take())
    }
}

pub unsafe extern "C" fn on_console_message(page: *mut WebKitWebPage, line: *mut WebKitConsoleMessage, _: gpointer) {
    if !with_state(|state| state.records) {
        return;
    }
    let Some(dropped) = BUDGET.with(Budget::take_line) else { return };
    // SAFETY: the page and the line are valid during the signal, and the texts belong to the line.
    unsafe {
        let parameters: Variant = (
            webkit_console_message_get_level(line),
            webkit_console_message_get_source(line),
            shortened(webkit_console_message_get_text(line), MAX_CHARS),
            shortened(webkit_console_message_get_source_id(line), MAX_ADDRESS_CHARS),
            webkit_console_message_get_line(line),
            dropped,
        )
            .to_variant();
        send_console(page, &parameters);
    }
}

/// The beginning only. Empty for null.
///
/// # Safety
/// `text` is null or a valid C string.
unsafe fn shortened(text: *const c_char, max: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    // A character has at most 4 bytes.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * max)]);
    text.chars().take(max).collect()
}
