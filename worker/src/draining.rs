//! Going out of service (contract: workers 10, 20 to 23): a worker that drains is given no more sessions and serves those that it
//! has, until they have ended, or their time is over.
//!
//! An operator's command drains a worker by its row, of which the worker hears as it renews its lease; it then stays, until it is
//! told to stop. A signal drains it and ends it.

use std::io;
use std::time::Duration;

use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::sessions::recovery;
use kitfleet_domain::workers::{self, Lease};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::Context;

/// How often a worker that stops looks whether a session still lives on it.
const LOOK: Duration = Duration::from_millis(100);

/// How long it may take to write that what is left was ended.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// Tells a worker to stop.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Take no more sessions, and stop when those that live have ended, or have had their time.
    pub drain: CancellationToken,
    /// Give them no more time.
    pub now: CancellationToken,
}

/// What a worker has made of being drained by its row.
#[derive(Debug, Default)]
pub(crate) struct DrainState {
    begun: bool,
    empty: bool,
}

impl DrainState {
    /// Does what the lease asks for.
    ///
    /// # Errors
    /// When the database fails. The next heartbeat tries it again.
    pub(crate) async fn heed(&mut self, lease: Lease, context: &Context) -> sqlx::Result<()> {
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
            context.browsers.wind_down();
            self.begun = true;
        }
        // It may have returned to service, taken sessions and drained again since the last heartbeat.
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

/// Takes no more sessions, serves those that live until they have ended, and fails those that are left when their time is over. A
/// connection that breaks meanwhile is no reason to leave any.
pub(crate) async fn drain(context: &Context, now: &CancellationToken) {
    let limit = context.config.drain_timeout;
    tracing::info!(worker = %context.id, ?limit, "draining before stopping");
    context.browsers.wind_down();
    let emptied = async {
        persist("begin to drain", || begin_to_drain(context)).await?;
        while !persist("count live sessions", || is_empty(context)).await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    let waited: sqlx::Result<()> = tokio::select! {
        waited = timeout(limit, emptied) => waited.unwrap_or(Ok(())),
        () = now.cancelled() => Ok(()),
    };
    if let Err(error) = waited {
        tracing::error!(%error, "cannot wait for live sessions: ending them");
    }
    let ending = persist("end the remaining sessions", || end_for_good(context));
    match timeout(ENDED_WITHIN, ending).await.map_err(|late| sqlx::Error::Io(io::Error::from(late))) {
        Ok(Ok(0)) => {}
        Ok(Ok(ended)) => {
            tracing::warn!(worker = %context.id, ended, "ended sessions that were still live when the worker stopped")
        }
        Ok(Err(error)) | Err(error) => {
            tracing::error!(%error, "cannot end the remaining sessions: recovery ends them");
        }
    }
}

async fn begin_to_drain(context: &Context) -> sqlx::Result<()> {
    workers::begin_stop(&mut *context.db.acquire().await?, context.id).await
}

async fn is_empty(context: &Context) -> sqlx::Result<bool> {
    workers::is_empty(&mut *context.async_commit_pool.acquire().await?, context.id).await
}

/// It may be that nobody could be told yet that this worker drains.
async fn end_for_good(context: &Context) -> sqlx::Result<usize> {
    begin_to_drain(context).await?;
    end_what_lives(context).await
}

/// Ends the sessions of a worker whose deadline has passed, unless it has returned to service since the lease was renewed.
async fn end_overdue(context: &Context) -> sqlx::Result<usize> {
    let mut tx = begin(&context.db).await?;
    if !workers::hold_drain(&mut tx, context.id).await? {
        return Ok(0);
    }
    let ended = recovery::fail_sessions_of(&mut tx, context.id).await?;
    tx.commit().await?;
    Ok(ended)
}

async fn end_what_lives(context: &Context) -> sqlx::Result<usize> {
    let mut tx = begin(&context.db).await?;
    let ended = recovery::fail_sessions_of(&mut tx, context.id).await?;
    tx.commit().await?;
    Ok(ended)
}
