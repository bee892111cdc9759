//! Responses that pages have received. The newest are kept for waits of the worker.
//!
//! WebKit reports the requests of a page, its frames and its workers, also those that become a download. A page can cause
//! responses without limit, so that both their number and their size are limited.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use glib::prelude::*;
use kitfleet_host_protocol::ResponseEntry;
use webkit2gtk::{URIResponse, URIResponseExt, WebResource, WebResourceExt};

use crate::pages::Page;

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
    fn add(&self, uri: String, status: u16, received_us: u64) {
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

/// Responses that are not HTTP, such as those of `blob:`, are not recorded.
fn note(page: &Page, response: &URIResponse) {
    let Ok(status @ 100..=599) = u16::try_from(response.status_code()) else { return };
    let is_http = |uri: &glib::GString| uri.starts_with("http:") || uri.starts_with("https:");
    let Some(uri) = response.uri().filter(is_http) else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let received_us = u64::try_from(now.as_micros()).unwrap_or_default();
    page.browser.responses.add(page.browser.short_uri(uri.into()), status, received_us);
}

/// Redirects, and the last response.
pub fn follow(page: &Rc<Page>, resource: &WebResource) {
    let weak = Rc::downgrade(page);
    resource.connect_response_notify(move |resource| {
        if let Some(page) = weak.upgrade()
            && let Some(response) = resource.response()
        {
            note(&page, &response);
        }
    });
    let weak = Rc::downgrade(page);
    // The binding of this signal does not expect a request that is not redirected.
    resource.connect_local("sent-request", false, move |values| {
        let redirect = values.get(2).and_then(|value| value.get::<Option<URIResponse>>().ok().flatten());
        if let (Some(page), Some(redirect)) = (weak.upgrade(), redirect) {
            note(&page, &redirect);
        }
        None
    });
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
