//! Mouse that accompanies the fingers of a page.

use std::cell::Cell;
use std::time::Instant;

#[derive(Default)]
pub struct Pointer {
    pub(super) finger: Cell<Option<usize>>,
    /// Time at which that finger touched the screen.
    pub(super) began: Cell<Option<Instant>>,
    /// True when the last finger may have been a long press, after which WebKit considers a button pressed.
    pub(super) is_stuck: Cell<bool>,
}
