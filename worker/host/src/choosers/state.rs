//! Open file chooser of a browser.

use std::cell::RefCell;

use webkit2gtk::FileChooserRequest;

#[derive(Default)]
pub struct Choosers {
    pub(super) open: RefCell<Option<Chooser>>,
}

pub(super) struct Chooser {
    pub(super) request: FileChooserRequest,
    pub(super) page: u32,
    pub(super) timer: glib::SourceId,
}
