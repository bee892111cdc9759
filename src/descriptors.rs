//! File descriptors. Every connection takes one, and the number per process is limited.
//!
//! A process inherits a soft limit, usually 1,024 because of `select`, which Kitfleet does not use: it raises the limit
//! to the hard limit. One part of the descriptors each is for clients, for webhooks and for the process itself, and the
//! rest evenly for the sessions, so that a page which opens connections without end takes none from other sessions.

use kitfleet_domain::workers::Driver;
use kitfleet_jobs::webhooks;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Logs, timers, threads, the embedded database, Redis and mail.
const ITS_OWN: usize = 128;
/// Descriptors of a session besides its connections: pipes of its host, its guard, captures and name lookups.
const OF_A_SESSION: usize = 24;
const ENDS: usize = 2;
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sessions {
    pub count: u32,
    pub connections: usize,
}

impl Sessions {
    /// First lowers the connections of each session, and then the number of sessions.
    pub fn fit_to_descriptors(limit: usize, config: &Config) -> Self {
        if config.worker.driver != Driver::Webkit {
            return Self { count: config.worker.max_sessions, connections: config.worker.session_connections };
        }
        // The pool, the worker's two further connections, and the listeners.
        let of_database = config.database.max_connections as usize * 2 + 8;
        // A quarter of the connections may be live views, which take two more descriptors each.
        let of_views = config.server.max_connections / 2;
        let of_connections = config.server.max_connections + of_views;
        let taken = ITS_OWN + of_database + of_connections + webhooks::attempts_that_fit(limit);
        let left = limit.saturating_sub(taken);
        let of_least = OF_A_SESSION + ENDS * MIN_SESSION_CONNECTIONS;
        let fitting = u32::try_from(left / of_least).unwrap_or(u32::MAX);
        let count = config.worker.max_sessions.min(fitting).max(1);
        let share = (left / count as usize).saturating_sub(OF_A_SESSION) / ENDS;
        let connections = share.clamp(MIN_SESSION_CONNECTIONS, config.worker.session_connections);
        Self { count, connections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_is_divided_evenly() {
        let mut config = Config::default();
        config.worker.max_sessions = 40;
        let fit = |limit: usize| {
            let mut config = config.clone();
            config.server.max_connections = connections_that_fit(limit);
            Sessions::fit_to_descriptors(limit, &config)
        };
        assert_eq!(fit(1_048_576), Sessions { count: 40, connections: 256 });
        let some = fit(8_192);
        assert!(some.count == 40 && (MIN_SESSION_CONNECTIONS..256).contains(&some.connections), "{some:?}");
        let few = fit(2_048);
        assert!((1..40).contains(&few.count) && few.connections >= MIN_SESSION_CONNECTIONS, "{few:?}");
        assert_eq!(fit(64), Sessions { count: 1, connections: MIN_SESSION_CONNECTIONS });
    }
}
