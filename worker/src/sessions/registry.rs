//! Registry of the sessions on this worker, and the handles of their actors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::metrics::Gauge;
use kitfleet_domain::sessions as rows;
use kitfleet_types::ids::{IntentId, SessionId};
use kitfleet_types::operations::{Failure, Operation};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Context;
use crate::browser::{Files, OperationEnd, View};
use crate::recorder::RecordingLog;

pub(crate) const WORKER_SESSIONS: Gauge = Gauge::new("service_worker_sessions", "Live sessions of this worker.", []);

#[derive(Default)]
pub(crate) struct Sessions {
    live: Mutex<HashMap<SessionId, Handle>>,
    actors: TaskTracker,
}

#[derive(Clone)]
pub(super) struct Handle {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) page_reads: mpsc::Sender<PageRead>,
    pub(super) close: CancellationToken,
    /// Set once the browser is open.
    pub(super) live: Option<LiveHandle>,
}

#[derive(Clone)]
pub(crate) struct LiveHandle {
    pub(crate) view: View,
    pub(crate) files: Files,
    /// Claim of the person who sends input.
    pub(crate) claim: HeldClaim,
    /// Errors of a browser that fails while a person sends input.
    pub(crate) faults: mpsc::Sender<Failure>,
    /// `None` if the session is not recorded.
    pub(crate) recording: Option<RecordingLog>,
}

/// Exists before a person asks for it. The lock is held during each request and release of the claim, so that a browser failure
/// in that time fails either that person's claim or none.
pub(crate) type HeldClaim = Arc<tokio::sync::Mutex<Option<IntentId>>>;

pub(super) struct Order {
    pub(super) intent: IntentId,
    pub(super) operation: Operation,
    pub(super) actor: Option<OperationActor>,
    pub(super) span: tracing::Span,
}

/// Changes nothing, is no operation, holds no claim, and runs between two operations.
pub(super) struct PageRead {
    pub(super) operation: Operation,
    /// The read is skipped when the receiver is gone.
    pub(super) begun: oneshot::Sender<()>,
    pub(super) answer: oneshot::Sender<OperationEnd>,
}

impl Sessions {
    pub(super) fn get(&self, session: SessionId) -> Option<Handle> {
        self.lock().get(&session).cloned()
    }

    /// Returns at once, also during an operation.
    pub(crate) fn close(&self, session: SessionId) {
        if let Some(handle) = self.get(session) {
            handle.close.cancel();
        }
    }

    /// `None` when the session has no actor here, ends meanwhile, or is busy for longer than `patience`.
    pub(crate) async fn read_page(
        &self,
        session: SessionId,
        operation: Operation,
        patience: Duration,
    ) -> Option<OperationEnd> {
        let page_reads = self.get(session)?.page_reads;
        let ((begun, has_begun), (answer, answered)) = (oneshot::channel(), oneshot::channel());
        let asking = async {
            page_reads.send(PageRead { operation, begun, answer }).await.ok()?;
            has_begun.await.ok()
        };
        timeout(patience, asking).await.ok()??;
        answered.await.ok()
    }

    /// `None` when the browser is not open, or not on this worker.
    pub(crate) fn live_handle(&self, session: SessionId) -> Option<LiveHandle> {
        self.get(session)?.live
    }

    /// Sessions whose end this worker was not notified of.
    pub(crate) async fn close_ended(&self, context: &Context) -> sqlx::Result<()> {
        let open: Vec<_> = self.lock().keys().copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        for session in rows::ended_among(&mut *context.async_commit_pool.acquire().await?, context.id, &open).await? {
            self.close(session);
        }
        Ok(())
    }

    /// Closes every browser and waits until they are gone.
    pub(crate) async fn close_all(&self) {
        self.lock().values().for_each(|handle| handle.close.cancel());
        self.actors.close();
        self.actors.wait().await;
    }

    /// The worker waits for the task before it ends.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.actors.spawn(task);
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Handle>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Callers hold the lock, so that the last value is the current one.
pub(crate) fn note_count(sessions: usize) {
    WORKER_SESSIONS.series().set(u32::try_from(sessions).unwrap_or(u32::MAX));
}
