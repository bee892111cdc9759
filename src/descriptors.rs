//! File descriptors: every connection takes one, and a process has only so many.
//!
//! A process starts with the soft limit of whoever started it, which is 1,024 nearly everywhere and the reason is `select`,
//! which we do not use. So the limit is raised to what the administrator allows, and what there is then is divided: a part
//! each for clients, for webhooks and for the process itself, and the rest for the sessions, evenly, so that a page that
//! opens connections without end takes none from others.

use kitfleet_domain::workers::Driver;
use kitfleet_jobs::webhooks;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::Config;

/// Of the process itself: its logs, timers and threads, the embedded database, Redis and what is sent by mail.
const ITS_OWN: usize = 128;
/// Of a session beside its connections: its host's pipes, its guard, its captures, and the names it looks up.
const OF_A_SESSION: usize = 24;
/// A connection of a browser has two ends here.
const ENDS: usize = 2;
/// With fewer connections a page is not itself: WebKit opens 17, and a page's sockets come on top.
pub const LEAST_SESSION_CONNECTIONS: usize = 24;
/// Further connections of clients would only be idle.
const MOST_CONNECTIONS: usize = 16_384;

/// Raises the limit as far as it goes, and returns it before and after.
///
/// # Errors
/// When the kernel refuses.
pub fn raise() -> nix::Result<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok((soft, hard))
}

/// How many files and sockets this process may have open.
pub fn limit() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1_024, 1_024));
    usize::try_from(soft).unwrap_or(usize::MAX)
}

/// Connections of clients.
pub fn connections_that_fit(limit: usize) -> usize {
    (limit / 8).clamp(4, MOST_CONNECTIONS)
}

/// What sessions get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sessions {
    /// Live ones at most.
    pub count: u32,
    /// Connections of each.
    pub connections: usize,
}

impl Sessions {
    /// As configured, as far as the limit bears that: first each session has fewer connections, and then there are fewer
    /// sessions.
    pub fn that_fit(limit: usize, config: &Config) -> Self {
        if config.worker.driver != Driver::Webkit {
            return Self { count: config.worker.max_sessions, connections: config.worker.session_connections };
        }
        // The pool, the worker's two beside it, and what waits for notifications.
        let of_database = config.database.max_connections as usize * 2 + 8;
        // A quarter of the connections may be live views, which have two ends more.
        let of_views = config.server.max_connections / 2;
        let of_connections = config.server.max_connections + of_views;
        let taken = ITS_OWN + of_database + of_connections + webhooks::attempts_that_fit(limit);
        let left = limit.saturating_sub(taken);
        let of_least = OF_A_SESSION + ENDS * LEAST_SESSION_CONNECTIONS;
        let fitting = u32::try_from(left / of_least).unwrap_or(u32::MAX);
        let count = config.worker.max_sessions.min(fitting).max(1);
        let share = (left / count as usize).saturating_sub(OF_A_SESSION) / ENDS;
        let connections = share.clamp(LEAST_SESSION_CONNECTIONS, config.worker.session_connections);
        Self { count, connections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_bears_is_divided_evenly() {
        let mut config = Config::default();
        config.worker.max_sessions = 40;
        let fit = |limit: usize| {
            let mut config = config.clone();
            config.server.max_connections = connections_that_fit(limit);
            Sessions::that_fit(limit, &config)
        };
        assert_eq!(fit(1_048_576), Sessions { count: 40, connections: 256 });
        let some = fit(8_192);
        assert!(some.count == 40 && (LEAST_SESSION_CONNECTIONS..256).contains(&some.connections), "{some:?}");
        let few = fit(2_048);
        assert!((1..40).contains(&few.count) && few.connections >= LEAST_SESSION_CONNECTIONS, "{few:?}");
        assert_eq!(fit(64), Sessions { count: 1, connections: LEAST_SESSION_CONNECTIONS });
    }
}
