//! The interface's Limits table, as configuration (decisions D2: every value there can be changed).

use std::time::Duration;

/// Bounds of requests and results. [`Limits::default`] is the interface's table.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Characters of a session's label.
    pub label_chars: usize,
    /// Characters a `type` action may type.
    pub type_text_chars: usize,
    /// Milliseconds between typed keys.
    pub type_delay_ms: u64,
    /// Characters of a key's name.
    pub press_key_chars: usize,
    /// Shortest time an operation may be given.
    pub min_timeout: Duration,
    /// Longest time an operation may be given.
    pub max_timeout: Duration,
    /// Longest `time` condition.
    pub max_time_wait: Duration,
    /// Extractions in one batch.
    pub extractions: usize,
    /// Characters of a search query, and of each credential of a login.
    pub query_chars: usize,
    /// Longest `timeout_seconds` of search and login.
    pub max_form_timeout: Duration,
    /// Browser work of a whole search or login.
    pub form_work: Duration,
    /// Bytes of a screenshot.
    pub screenshot_bytes: u64,
    /// Bytes of a PDF.
    pub pdf_bytes: u64,
    /// Bytes of local storage in a state read.
    pub state_storage_bytes: usize,
    /// Cookies in a state read.
    pub state_cookies: usize,
    /// Entries of a page of a list, when the request names no number.
    pub page_default: u32,
    /// Entries of a page of a list, at most.
    pub page_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            label_chars: 120,
            type_text_chars: 10_000,
            type_delay_ms: 500,
            press_key_chars: 20,
            min_timeout: Duration::from_millis(100),
            max_timeout: Duration::from_mins(2),
            max_time_wait: Duration::from_mins(1),
            extractions: 100,
            query_chars: 10_000,
            max_form_timeout: Duration::from_mins(2),
            form_work: Duration::from_mins(10),
            screenshot_bytes: 4 * 1024 * 1024,
            pdf_bytes: 8 * 1024 * 1024,
            state_storage_bytes: 1024 * 1024,
            state_cookies: 1_000,
            page_default: 50,
            page_max: 100,
        }
    }
}
