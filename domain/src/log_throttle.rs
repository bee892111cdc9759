//! Log lines of loops: what fails again and again is said once a minute.
//!
//! A loop that tries again five times a second would fill a disk with the news that the disk is full.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pause between two lines of one cause.
const PAUSE: Duration = Duration::from_mins(1);

/// A line that a loop may repeat. It belongs to the loop, or is a `static` beside it.
#[derive(Debug)]
pub struct LogThrottle(Mutex<Option<LastLine>>);

#[derive(Debug)]
struct LastLine {
    at: Instant,
    held_back: u64,
}

impl LogThrottle {
    /// A line that was never said.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default is not const, and these are statics")]
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Says the line when it is due, and how often it was held back since it was last said.
    pub fn say(&self, line: impl FnOnce(u64)) {
        if let Some(held_back) = self.is_due_at(Instant::now()) {
            line(held_back);
        }
    }

    fn is_due_at(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *said {
            Some(said) if now.saturating_duration_since(said.at) < PAUSE => {
                said.held_back += 1;
                None
            }
            before => {
                let held_back = before.as_ref().map_or(0, |said| said.held_back);
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
    fn a_line_is_said_once_a_minute_and_tells_how_often_it_was_not() {
        let (line, start) = (LogThrottle::new(), Instant::now());
        assert_eq!(line.is_due_at(start), Some(0));
        for millis in [0, 200, 59_999] {
            assert_eq!(line.is_due_at(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(line.is_due_at(start + PAUSE), Some(3));
        assert_eq!(line.is_due_at(start + PAUSE * 2), Some(0));
    }
}
