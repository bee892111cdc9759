//! Places on the screen that mark the events of a mouse.

/// Place of the window outside of the screen, in pixels of either scale.
pub const BESIDE: i32 = 1_000;

/// The place on the screen marks an event of a mouse that accompanies a touch.
pub const MARK: f64 = 1e6;

/// Marks a mouse of its own.
pub const OF_MOUSE: f64 = 2.0 * MARK;

/// Marks a mouse of which pages see nothing (`drag.rs`).
pub const UNSEEN: f64 = 3.0 * MARK;

/// Marks the movement after which the touched element has captured the pointer. Pages do not see it. WebKit captures nothing
/// while a finger touches the page.
pub const CAPTURE: f64 = 4.0 * MARK;
