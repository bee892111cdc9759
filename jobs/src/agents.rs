//! Turns of agent sessions as jobs, and what else happens when something happens to an agent session.

use kitfleet_domain::agents::{self, CloseReason};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::ids::{AccountId, AgentSessionId, TurnId, WorkerId};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::Job;
use crate::wakeups::{self, Wakeups};

/// A turn for the incarnation of a worker that has the driver session's browser, so that its steps find everything beside each
/// other. It is carried out once: a second job for it finds that it has begun.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnJob {
    /// Whose it is.
    pub worker: WorkerId,
    /// The turn.
    pub turn: TurnId,
}

impl TurnJob {
    /// What the queues of all workers are called together.
    pub const QUEUES: &'static str = "turns";

    /// The queue of this incarnation.
    #[must_use]
    pub fn queue_of(worker: WorkerId) -> String {
        format!("{}:{worker}", Self::QUEUES)
    }
}

impl Job for TurnJob {
    fn queue(&self) -> String {
        Self::queue_of(self.worker)
    }
}

/// Gives a worker a turn, in the transaction that takes the message. The caller [`wake`]s the worker once it has committed.
///
/// # Errors
/// When the database fails.
pub async fn enqueue_untold(conn: &mut PgConnection, job: &TurnJob) -> sqlx::Result<()> {
    crate::push(conn, job).await
}

/// Has a worker look for turns.
pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.tell(&wakeups::channel(&TurnJob::queue_of(worker)), String::new());
}

/// Closes the account's agent session because its owner wants it, and destroys its driver session, in one transaction of the
/// caller's, who tells of what is answered once that is committed. `None` when the account has no such agent session.
///
/// # Errors
/// When the database fails.
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
