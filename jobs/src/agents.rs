//! Turns of agent sessions as jobs, and closing of agent sessions.

use kitfleet_domain::agents::{self, CloseReason};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_types::ids::{AccountId, AgentSessionId, TurnId, WorkerId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::queues::Queue;
use crate::wakeups::{self, Wakeups};

/// One turn, for the worker incarnation that owns the driver session's browser. A turn runs once: a second job for it finds
/// that it has begun.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnJob {
    pub worker: WorkerId,
    pub turn: TurnId,
}

impl TurnJob {
    pub const QUEUE: Queue = Queue::of_each_worker("turns");
}

impl Job for TurnJob {
    fn queue(&self) -> String {
        Self::QUEUE.name_at(self.worker)
    }
}

/// Enqueues a turn in the transaction that stores the message, without a wake-up. The caller calls [`wake`] after the commit.
pub async fn enqueue_without_wakeup(conn: &mut PgConnection, job: &TurnJob) -> sqlx::Result<()> {
    crate::push(conn, job).await
}

pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.send(&wakeups::channel(&TurnJob::QUEUE.name_at(worker)), String::new());
}

/// Destroys the driver session too, in the caller's transaction. The caller sends the notices of the returned
/// [`Destroyed`] after the commit.
pub async fn close(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    actor: &Actor,
) -> sqlx::Result<Option<Option<Destroyed>>> {
    if !agents::close_if_ended(&mut *conn, account, id).await?
        && let Some(driver) = agents::close(&mut *conn, account, id, CloseReason::Customer, actor).await?
    {
        let cause = Cause::Customer(actor.clone());
        return Ok(Some(sessions::destroy(conn, account, driver, &cause).await?));
    }
    Ok(agents::exists(conn, account, id).await?.then_some(None))
}
