//! File descriptors. Every connection takes one, and the number per process is limited.
//!
//! A process inherits a soft limit, usually 1,024 because of `select`, which Kitfleet does not use: it raises the limit
//! to the hard limit. One part of the descriptors each is for clients, for webhooks and for the process itself, and the
//! rest evenly for the sessions, so that a page which opens connections without end takes none from other sessions.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// WebKit opens 17, and the page opens further ones.
pub const MIN_SESSION_CONNECTIONS: usize = 24;
/// More connections of clients would only be idle.
const MAX_CONNECTIONS: usize = 16_384;

/// Returns the limit before and after.
pub fn raise() -> nix::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok((soft, hard))
}

pub fn limit() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
    usize::try_from(soft).unwrap_or(usize::MAX)
}

pub fn connections_that_fit(limit: usize) -> usize {
    (limit / 8).clamp(4, MAX_CONNECTIONS)
}
