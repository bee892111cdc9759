//! Number of sessions, and of their connections, that fit the limit of file descriptors.

use kitfleet_domain::workers::Driver;
use kitfleet_jobs::webhooks;

use crate::config::Config;
use crate::descriptors::MIN_SESSION_CONNECTIONS;

/// Logs, timers, threads, the embedded database, Redis and mail.
const ITS_OWN: usize = 128;
/// Descriptors of a session besides its connections: pipes of its host, its guard, captures and name lookups.
const OF_A_SESSION: usize = 24;
const ENDS: usize = 2;

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
    use crate::descriptors::connections_that_fit;

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
