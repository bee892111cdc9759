//! Retention terms of ended objects (contract: retention). Each area declares which rows are purged and how
//! ([`crate::area::Purge`]).

use std::time::Duration;

/// Customer data with a promised end of retention. These purges have a metric of their own.
const ENTRUSTED: [&str; 4] = ["byok", "proxy_secrets", "profiles", "snapshots"];

/// Contract: retention 15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeOutcome {
    Purged,
    /// The database or the storage returned an error.
    Failed,
    /// Locked or restored; the next sweep tries again.
    Skipped,
}

impl PurgeOutcome {
    /// Locked ordinary rows are not counted.
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

#[must_use]
pub fn is_entrusted(arm: &str) -> bool {
    ENTRUSTED.contains(&arm)
}

#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Finished operations and mails, like the jobs that processed them.
    pub jobs: Duration,
    pub webhooks: Duration,
    pub sessions: Duration,
    pub agent_sessions: Duration,
    pub workers: Duration,
    pub usage: Duration,
    pub notifications: Duration,
    /// After their last event.
    pub recordings: Duration,
    /// OAuth clients, webhook endpoints and accepted invitations.
    pub revoked: Duration,
    pub deleted_account_secrets: Duration,
}
