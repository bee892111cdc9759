//! Checks of saved proxies as jobs.

use kitfleet_domain::ids::{ProxyCheckId, WorkerId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::wakeups::{self, Wakeups};

/// A check for the one worker to whose key the proxy's secrets were sealed. It is done once: a second job for it finds that it has
/// begun.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CheckProxy {
    /// Whose it is.
    pub worker: WorkerId,
    /// The check.
    pub check: ProxyCheckId,
}

impl CheckProxy {
    /// What the queues of all workers are called together.
    pub const QUEUES: &'static str = "proxy_checks";

    /// The queue of this incarnation.
    #[must_use]
    pub fn queue_of(worker: WorkerId) -> String {
        format!("{}:{worker}", Self::QUEUES)
    }
}

impl Job for CheckProxy {
    fn queue(&self) -> String {
        Self::queue_of(self.worker)
    }
}

/// Gives a worker a check, in the transaction that writes it. The caller [`wake`]s the worker once that has committed.
///
/// # Errors
/// When the database fails.
pub async fn enqueue_untold(conn: &mut PgConnection, job: &CheckProxy) -> sqlx::Result<()> {
    crate::push(conn, job).await
}

/// Has a worker look for checks.
pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.tell(&wakeups::channel(&CheckProxy::queue_of(worker)), String::new());
}
