//! Checks of saved proxies as jobs.

use kitfleet_types::ids::{ProxyCheckId, WorkerId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::queues::Queue;
use crate::wakeups::{self, Wakeups};

/// A check by the one worker that can read the proxy's sealed secrets. A check runs once: a second job for it finds that it has
/// begun.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CheckProxy {
    pub worker: WorkerId,
    pub check: ProxyCheckId,
}

impl CheckProxy {
    pub const QUEUE: Queue = Queue::of_each_worker("proxy_checks");
}

impl Job for CheckProxy {
    fn queue(&self) -> String {
        Self::QUEUE.name_at(self.worker)
    }
}

/// Enqueues a check in the transaction that writes it, without a wake-up. The caller calls [`wake`] after the commit.
pub async fn enqueue_without_wakeup(conn: &mut PgConnection, job: &CheckProxy) -> sqlx::Result<()> {
    crate::push(conn, job).await
}

pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.send(&wakeups::channel(&CheckProxy::QUEUE.name_at(worker)), String::new());
}
