//! Closing the browsers of ended sessions needs no job: a worker checks for ended sessions when it is woken and
//! whenever it renews its lease.

use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_types::ids::{AccountId, SessionId, WorkerId};
use sqlx::PgConnection;

use crate::wakeups::{self, Wakeups};

/// Queue name on which this worker incarnation receives wake-ups.
#[must_use]
pub fn queue_of(worker: WorkerId) -> String {
    format!("browser:{worker}")
}

/// Ends the account's session in the caller's transaction. The worker and the listeners are notified when it commits. Returns
/// `None` if the account has no such session.
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

/// Call it after the commit.
pub fn notify_destroyed(wakeups: &Wakeups, destroyed: Destroyed) {
    if let Destroyed::Now { worker, notice } = destroyed {
        close(wakeups, worker);
        if let Some(notice) = notice {
            wakeups.send(&notice.channel, notice.payload);
        }
    }
}

/// Call it after the commit.
pub fn close(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.send(&wakeups::channel(&queue_of(worker)), String::new());
}
