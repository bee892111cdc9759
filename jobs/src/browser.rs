//! Jobs of the worker that owns a browser.

use std::time::Duration;

use kitfleet_domain::ids::{AccountId, SessionId, WorkerId};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::wakeups::{self, Wakeups};

/// A job for one incarnation of a worker: the queue carries its id, so that a worker that restarts never finds the
/// jobs of browsers it no longer has. What opens browsers and drives them are jobs of their own ([`crate::operations`]).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BrowserJob {
    /// The owner.
    pub worker: WorkerId,
    /// What it has to do.
    pub task: BrowserTask,
}

/// What the owner of a browser has to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrowserTask {
    /// Close a session's browser: the session is destroyed already.
    Close(SessionId),
}

impl BrowserJob {
    /// The queue of this incarnation.
    #[must_use]
    pub fn queue_of(worker: WorkerId) -> String {
        format!("browser:{worker}")
    }

    /// The incarnation whose queue this is, if it is one's.
    #[must_use]
    pub fn worker_of(queue: &str) -> Option<WorkerId> {
        queue.strip_prefix("browser:")?.parse().ok()
    }
}

impl Job for BrowserJob {
    fn queue(&self) -> String {
        Self::queue_of(self.worker)
    }

    /// A worker looks by itself which of its sessions have ended.
    const SAFETY: Duration = crate::SELDOM;
}

/// Ends the account's session, and has its browser closed, in one transaction of the caller's, which tells the worker when it
/// commits. `None` when the account has no such session.
///
/// # Errors
/// When the database fails.
pub async fn destroy(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    cause: &Cause,
) -> sqlx::Result<Option<Destroyed>> {
    let destroyed = destroy_untold(&mut *conn, account, session, cause).await?;
    if let Some(Destroyed::Now(worker)) = destroyed {
        wakeups::wake(conn, &BrowserJob::queue_of(worker)).await?;
    }
    Ok(destroyed)
}

/// [`destroy`], but the caller [`wake`]s the worker once it has committed, so that nobody's commit waits for this one.
///
/// # Errors
/// When the database fails.
pub async fn destroy_untold(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    cause: &Cause,
) -> sqlx::Result<Option<Destroyed>> {
    let destroyed = sessions::destroy(&mut *conn, account, session, cause).await?;
    if let Some(Destroyed::Now(worker)) = destroyed {
        crate::push(conn, &BrowserJob { worker, task: BrowserTask::Close(session) }).await?;
    }
    Ok(destroyed)
}

/// Has a worker look for the browsers that it is to close.
pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.tell(&wakeups::channel(&BrowserJob::queue_of(worker)), String::new());
}
