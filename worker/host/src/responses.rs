//! Responses that pages have received. The newest are kept for waits of the worker.
//!
//! WebKit reports the requests of a page, its frames and its workers, also those that become a download. A page can cause
//! responses without limit, so that both their number and their size are limited.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use kitfleet_host_protocol::ResponseEntry;

const MAX_RESPONSES: usize = 1_000;

/// In bytes, of the kept addresses.
const MAX_BYTES: usize = 1024 * 1024;

/// Oldest first.
#[derive(Default)]
pub struct Responses {
    entries: RefCell<VecDeque<ResponseEntry>>,
    bytes: Cell<usize>,
    last_number: Cell<u64>,
}

impl Responses {
    /// Drops the oldest ones beyond the limits.
    pub fn add(&self, uri: String, status: u16, received_us: u64) {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        let mut entries = self.entries.borrow_mut();
        let mut bytes = self.bytes.get() + uri.len();
        entries.push_back(ResponseEntry { number, uri, status, received_us });
        while entries.len() > MAX_RESPONSES || bytes > MAX_BYTES {
            let Some(oldest) = entries.pop_front() else { break };
            bytes -= oldest.uri.len();
        }
        self.bytes.set(bytes);
    }

    /// Received at this time or later, with a higher number.
    pub fn list(&self, after: u64, since_us: u64) -> Vec<ResponseEntry> {
        let entries = self.entries.borrow();
        let is_wanted = |entry: &&ResponseEntry| entry.number > after && entry.received_us >= since_us;
        entries.iter().filter(is_wanted).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(responses: &Responses, after: u64, since_us: u64) -> Vec<u64> {
        responses.list(after, since_us).iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn newest_responses_are_kept() {
        let responses = Responses::default();
        for time in 1..=5 {
            responses.add(format!("https://example.com/{time}"), 200, time * 10);
        }
        assert_eq!(numbers(&responses, 0, 0), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(&responses, 2, 40), [4, 5]);
        assert_eq!(numbers(&responses, 5, 0), [0; 0]);
        for _ in 0..MAX_RESPONSES {
            responses.add("https://example.com/".to_owned(), 200, 100);
        }
        assert_eq!(responses.list(0, 0).len(), MAX_RESPONSES);
        assert_eq!(responses.list(0, 0)[0].number, 6);
    }

    #[test]
    fn long_addresses_are_bounded() {
        let responses = Responses::default();
        for _ in 0..100 {
            responses.add("x".repeat(32 * 1024), 200, 0);
        }
        assert_eq!(responses.list(0, 0).len(), MAX_BYTES / (32 * 1024));
    }
}
