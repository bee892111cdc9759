//! Retention terms of ended objects (contract: retention). Each area declares which rows are purged and how
//! ([`crate::area::Purge`]).

use std::time::Duration;

/// Purges of customer data with a promised end of retention. They have a metric of their own.
const ENTRUSTED: [&str; 4] = ["byok", "proxy_secrets", "profiles", "snapshots"];

/// Result of purging a row or object past its term (contract: retention 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeOutcome {
    Purged,
    /// The database or the storage returned an error.
    Failed,
    /// It was locked or restored, and the next sweep tries again.
    Skipped,
}

impl PurgeOutcome {
    /// Returns the possible results for `arm`. For ordinary rows, locked ones are not counted.
    #[must_use]
    pub fn possible(arm: &str) -> &'static [Self] {
        if is_entrusted(arm) { &[Self::Purged, Self::Failed, Self::Skipped] } else { &[Self::Purged, Self::Failed] }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Purged => "purged",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// Returns true when `arm` purges customer data with a promised end of retention.
#[must_use]
pub fn is_entrusted(arm: &str) -> bool {
    ENTRUSTED.contains(&arm)
}

#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Finished operations and mails, like the jobs that processed them.
    pub jobs: Duration,
    /// Webhook deliveries and their events.
    pub webhooks: Duration,
    pub sessions: Duration,
    pub agent_sessions: Duration,
    pub workers: Duration,
    pub usage: Duration,
    pub notifications: Duration,
    /// Revoked OAuth clients, deleted webhook endpoints and accepted invitations.
    pub revoked: Duration,
    pub deleted_account_secrets: Duration,
}
