//! Times of events.

/// X's clock wraps around every seven weeks.
pub fn milliseconds() -> u32 {
    let wrapped = (glib::monotonic_time() / 1000) & i64::from(u32::MAX);
    u32::try_from(wrapped).unwrap_or_default()
}
