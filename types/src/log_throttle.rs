//! A repeated failure is logged once a minute.
//!
//! A loop that retries five times a second could otherwise fill a disk, for example with lines about a full disk.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between two lines of one cause.
const PAUSE: Duration = Duration::from_mins(1);

/// A local of the loop or a `static` beside it.
#[derive(Debug)]
pub struct LogThrottle(Mutex<Option<LastLine>>);

#[derive(Debug)]
struct LastLine {
    at: Instant,
    held_back: u64,
}

impl LogThrottle {
    /// The first line is logged at once.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default is not const, and these are statics")]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Calls `line` if it is due, with the number of lines suppressed since the last one.
    pub fn log(&self, line: impl FnOnce(u64)) {
        if let Some(held_back) = self.is_due_at(Instant::now()) {
            line(held_back);
        }
    }

    fn is_due_at(&self, now: Instant) -> Option<u64> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some(last) if now.saturating_duration_since(last.at) < PAUSE => {
                last.held_back += 1;
                None
            }
            before => {
                let held_back = before.as_ref().map_or(0, |last| last.held_back);
                *before = Some(LastLine { at: now, held_back: 0 });
                Some(held_back)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_logged_once_a_minute_with_the_suppressed_count() {
        let (line, start) = (LogThrottle::new(), Instant::now());
        assert_eq!(line.is_due_at(start), Some(0));
        for millis in [0, 200, 59_999] {
            assert_eq!(line.is_due_at(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(line.is_due_at(start + PAUSE), Some(3));
        assert_eq!(line.is_due_at(start + PAUSE * 2), Some(0));
    }
}
