//! Closing the browsers of sessions that have ended. It needs no job: a worker looks which of its sessions have ended, when it is
//! woken and whenever it renews its lease.

use kitfleet_domain::ids::{AccountId, SessionId, WorkerId};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use sqlx::PgConnection;

use crate::wakeups::{self, Wakeups};

/// What this incarnation of a worker listens to.
#[must_use]
pub fn queue_of(worker: WorkerId) -> String {
    format!("browser:{worker}")
}

/// Ends the account's session in a transaction of the caller's, which tells whoever is concerned when it commits. `None` when the
/// account has no such session.
///
/// # Errors
/// When the database fails.
pub async fn destroy(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    cause: &Cause,
) -> sqlx::Result<Option<Destroyed>> {
    let destroyed = sessions::destroy(&mut *conn, account, session, cause).await?;
    if let Some(Destroyed::Now { worker, notice }) = &destroyed {
        wakeups::wake(&mut *conn, &queue_of(*worker)).await?;
        if let Some(notice) = notice {
            wakeups::notify(conn, &notice.channel, &notice.payload).await?;
        }
    }
    Ok(destroyed)
}

/// Tells whoever is concerned that a session was destroyed, which was committed before.
pub fn tell(wakeups: &Wakeups, destroyed: Destroyed) {
    if let Destroyed::Now { worker, notice } = destroyed {
        close(wakeups, worker);
        if let Some(notice) = notice {
            wakeups.tell(&notice.channel, notice.payload);
        }
    }
}

/// Has a worker close the browsers of sessions that have ended, which was committed before.
pub fn close(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.tell(&wakeups::channel(&queue_of(worker)), String::new());
}
