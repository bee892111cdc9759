//! Draining (contract: workers 10, 20 to 23). A draining worker receives no more sessions, and serves its live sessions until
//! they end or the deadline passes.
//!
//! An operator's command drains a worker through its row, which the worker reads as it renews its lease; the worker then keeps
//! running. A stop signal drains the worker and then ends it.

use std::io;
use std::time::Duration;

use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::sessions::recovery;
use kitfleet_domain::workers::{self, Lease};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::Context;

/// For live sessions.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for recording the end of the remaining sessions.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Accept no more sessions. Stop when the live ones have ended or the drain timeout passes.
    pub drain: CancellationToken,
    /// Live sessions are not waited for.
    pub now: CancellationToken,
}

#[derive(Debug, Default)]
pub(crate) struct DrainState {
    begun: bool,
    empty: bool,
}

impl DrainState {
    /// The state is in the lease. After a database error the next heartbeat retries.
    pub(crate) async fn apply_lease(&mut self, lease: Lease, context: &Context) -> sqlx::Result<()> {
        if !lease.draining {
            if self.begun {
                tracing::info!(worker = %context.id, "returned to service: this worker receives sessions again");
                context.browsers.resume();
                *self = Self::default();
            }
            return Ok(());
        }
        if !self.begun {
            tracing::info!(worker = %context.id, "draining: this worker receives no more sessions");
            context.browsers.stop_refilling();
            self.begun = true;
        }
        // Since the last heartbeat the worker may have returned to service, received sessions and begun to drain again.
        let mut is_empty = is_empty(context).await?;
        if lease.overdue && !is_empty {
            let ended = end_overdue(context).await?;
            if ended > 0 {
                tracing::warn!(worker = %context.id, ended, "ended sessions that were still live at the drain deadline");
            }
            is_empty = self::is_empty(context).await?;
        }
        if is_empty && !self.empty {
            tracing::info!(worker = %context.id, "drained: this worker has no live session");
        }
        self.empty = is_empty;
        Ok(())
    }
}

/// Fails the sessions that are live after the drain timeout. Transient database errors do not end the wait.
pub(crate) async fn drain(context: &Context, now: &CancellationToken) {
    let limit = context.config.drain_timeout;
    tracing::info!(worker = %context.id, drain_timeout = ?limit, "draining before stopping");
    context.browsers.stop_refilling();
    let emptied = async {
        persist("begin to drain", || record_drain(context)).await?;
        while !persist("count live sessions", || is_empty(context)).await? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    };
    let waited: sqlx::Result<()> = tokio::select! {
        waited = timeout(limit, emptied) => waited.unwrap_or(Ok(())),
        () = now.cancelled() => Ok(()),
    };
    if let Err(error) = waited {
        tracing::error!(%error, worker = %context.id, "cannot wait for live sessions: ending them");
    }
    let ending = persist("end the remaining sessions", || drain_and_end_all(context));
    match timeout(ENDED_WITHIN, ending).await.map_err(|late| sqlx::Error::Io(io::Error::from(late))) {
        Ok(Ok(0)) => {}
        Ok(Ok(ended)) => {
            tracing::warn!(worker = %context.id, ended, "ended sessions that were still live when the worker stopped");
        }
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, worker = %context.id, "cannot end the remaining sessions: recovery ends them");
        }
    }
}

async fn record_drain(context: &Context) -> sqlx::Result<()> {
    workers::begin_stop(&mut *context.db.acquire().await?, context.id).await
}

async fn is_empty(context: &Context) -> sqlx::Result<bool> {
    workers::is_empty(&mut *context.async_commit_pool.acquire().await?, context.id).await
}

/// Also records the drain, because an earlier attempt may not have reached the database.
async fn drain_and_end_all(context: &Context) -> sqlx::Result<usize> {
    record_drain(context).await?;
    end_live_sessions(context).await
}

/// Of a drain deadline, unless the worker has returned to service since the lease was read.
async fn end_overdue(context: &Context) -> sqlx::Result<usize> {
    let mut tx = begin(&context.db).await?;
    if !workers::hold_drain(&mut tx, context.id).await? {
        return Ok(0);
    }
    let ended = recovery::fail_sessions_of(&mut tx, context.id).await?;
    tx.commit().await?;
    Ok(ended)
}

async fn end_live_sessions(context: &Context) -> sqlx::Result<usize> {
    let mut tx = begin(&context.db).await?;
    let ended = recovery::fail_sessions_of(&mut tx, context.id).await?;
    tx.commit().await?;
    Ok(ended)
}
