//! How long what has ended is kept (contract: retention). What ends, and how it is deleted, is said by the area whose it is
//! ([`crate::area::Purge`]).

use std::time::Duration;

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
