//! Drag of a page.

use std::cell::{Cell, RefCell};

use gtk::prelude::*;

#[derive(Default)]
pub struct Drags {
    pub(super) injections: Cell<u32>,
    /// GTK's drag.
    pub(super) current: RefCell<Option<gdk::DragContext>>,
    /// Over the view.
    pub(super) over: Cell<Option<(i32, i32)>>,
}

impl Drags {
    pub(super) fn is_under_way(&self) -> bool {
        self.current.borrow().is_some()
    }

    pub fn cancel(&self) {
        let current = self.current.borrow().clone();
        if let Some(context) = current {
            context.drag_cancel();
        }
    }
}
