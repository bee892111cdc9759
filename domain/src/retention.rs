//! How long what has ended is kept (contract: retention). What ends, and how it is deleted, is said by the area whose it is
//! ([`crate::area::Purge`]).

use std::time::Duration;

/// What customers entrusted to us, and are promised the end of: how that goes is counted for itself.
const ENTRUSTED: [&str; 4] = ["byok", "proxy_secrets", "profiles", "snapshots"];

/// What became of something that had reached its term (contract: retention 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeOutcome {
    /// It is gone.
    Purged,
    /// The database, or where it is kept, refused.
    Failed,
    /// Somebody had it in hand, or took it back: the next sweep looks again.
    Skipped,
}

impl PurgeOutcome {
    /// What can become of `arm`. Of rows that are merely old nobody counts those that somebody has in hand.
    #[must_use]
    pub fn possible(arm: &str) -> &'static [Self] {
        if ENTRUSTED.contains(&arm) {
            &[Self::Purged, Self::Failed, Self::Skipped]
        } else {
            &[Self::Purged, Self::Failed]
        }
    }

    /// As metrics spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Purged => "purged",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// The metric that counts what became of `arm`.
    #[must_use]
    pub fn metric(arm: &str) -> &'static str {
        if ENTRUSTED.contains(&arm) { "service_retention_purge_total" } else { "service_rows_purge_total" }
    }
}

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Operations and mails, as the jobs that saw to them.
    pub jobs: Duration,
    /// Webhook deliveries, and their events.
    pub webhooks: Duration,
    /// Sessions.
    pub sessions: Duration,
    /// Agent sessions, with all that was said in them.
    pub agent_sessions: Duration,
    /// Incarnations of workers.
    pub workers: Duration,
    /// What was counted on a day.
    pub usage: Duration,
    /// Notifications.
    pub notifications: Duration,
    /// OAuth clients that are revoked, webhook endpoints that are deleted, and invitations that were accepted.
    pub revoked: Duration,
    /// The secrets of accounts that are deleted.
    pub deleted_account_secrets: Duration,
}
