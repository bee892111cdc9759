//! Times of events.

use std::time::{SystemTime, UNIX_EPOCH};

/// X's clock wraps around every seven weeks.
pub fn milliseconds() -> u32 {
    let wrapped = (glib::monotonic_time() / 1000) & i64::from(u32::MAX);
    u32::try_from(wrapped).unwrap_or_default()
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}
