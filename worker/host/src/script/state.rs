//! World and running scripts of a page.

use std::cell::{Cell, RefCell};

use futures_channel::oneshot;

/// Shares the page's DOM and none of its script objects, so that a page can neither see nor change it.
pub const WORLD: &str = "kitfleet";

/// Ended when their document is replaced.
#[derive(Default)]
pub struct Scripts {
    pub(super) under_way: RefCell<Vec<oneshot::Sender<()>>>,
    /// Documents replaced so far.
    documents: Cell<usize>,
}

impl Scripts {
    /// WebKit would never answer the scripts of a replaced document.
    pub fn abandon(&self) {
        self.documents.set(self.documents.get() + 1);
        self.under_way.take();
    }

    /// Documents replaced so far.
    pub fn documents(&self) -> usize {
        self.documents.get()
    }
}
