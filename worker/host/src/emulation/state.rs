//! Emulation that is in force.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use kitfleet_host_protocol::{Block, Geolocation};
use webkit2gtk_sys::WebKitUserContentFilter;

#[derive(Default)]
pub struct Current {
    pub(super) geolocation: Cell<Option<Geolocation>>,
    pub(super) block: RefCell<Block>,
    /// Compiled form of `block`, owned by this. `None` if nothing is blocked.
    pub(super) filter: Cell<Option<NonNull<WebKitUserContentFilter>>>,
    /// Compiled so far.
    pub(super) filters: Cell<u32>,
}

impl Current {
    pub fn has_position(&self) -> bool {
        self.geolocation.get().is_some()
    }
}
