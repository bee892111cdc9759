//! Newest page of the browser, for a wait for a new page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kitfleet_host_protocol::{HostCommand, PageEntry};

use super::host::HostHandle;

const FIRST_PAGE: u32 = 1;

/// At the begin of the last two operations.
pub struct NewestPages {
    before: u32,
    now: Arc<AtomicU32>,
}

impl NewestPages {
    pub fn new() -> Self {
        Self { before: FIRST_PAGE, now: Arc::new(AtomicU32::new(FIRST_PAGE)) }
    }

    /// The future reads the newest page, and must be polled before the operation.
    pub fn begin(&mut self, line: HostHandle) -> impl Future<Output = ()> + Send + use<> {
        self.before = self.now.load(Ordering::Relaxed);
        let now = Arc::clone(&self.now);
        async move {
            // An error means that the browser has ended, which the operation notices.
            if let Ok(pages) = line.call::<Vec<PageEntry>>(HostCommand::Pages).await {
                now.fetch_max(newest(&pages), Ordering::Relaxed);
            }
        }
    }

    /// Also a page that was open when this operation began.
    pub fn has_new(&self, pages: &[PageEntry]) -> bool {
        newest(pages).max(self.now.load(Ordering::Relaxed)) > self.before
    }
}

fn newest(pages: &[PageEntry]) -> u32 {
    pages.iter().map(|page| page.id).max().unwrap_or_default()
}
