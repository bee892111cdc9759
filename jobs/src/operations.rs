//! Operations and browser openings as typed jobs of apalis (contract: workers 1 to 3).
//!
//! The rows of `intents` are the queue. One statement claims waiting intents, moves them to `running` and returns the
//! data that the jobs carry. The actor that runs an intent acknowledges it by ending the intent, so a job needs no
//! writes besides those of its operation.
//!
//! Claims commit without waiting for the disk. A database crash may lose some, and the same worker claims them again;
//! its actors remember the intents they ran.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::layers::Identity;
use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::task_id::TaskId;
use apalis_core::worker::context::WorkerContext;
use kitfleet_domain::database::is_transient;
use kitfleet_domain::sessions::intents::{self, StartedIntent, TakenIntent};
use kitfleet_types::ids::{IntentId, WorkerId};
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::timestamp::Timestamp;
use sqlx::{PgConnection, PgPool};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use crate::SAFETY;
use crate::backend::{RETRY, generic_plan_pool};
use crate::queues::Queue;
use crate::wakeups::{self, Wakeups};

const BATCH: i64 = 32;

#[derive(Debug)]
pub struct OperationJob {
    pub intent: IntentId,
    pub started: sqlx::Result<StartedIntent>,
}

impl OperationJob {
    pub const QUEUE: Queue = Queue::of_each_worker("operations").in_area_table();

    /// `None` if it is not a queue of operations.
    #[must_use]
    pub fn worker_of(queue: &str) -> Option<WorkerId> {
        queue.strip_prefix(Self::QUEUE.name)?.strip_prefix(':')?.parse().ok()
    }
}

pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.send(&wakeups::channel(&OperationJob::QUEUE.name_at(worker)), String::new());
}

#[derive(Debug)]
pub struct OperationBackend {
    worker: WorkerId,
    db: PgPool,
    wakeups: Receiver<()>,
    safety: Pin<Box<Sleep>>,
    /// There may be intents that were not claimed yet.
    should_poll: bool,
    handed_out: Option<Timestamp>,
    /// A claim has failed since: its transaction may have committed despite the error.
    uncertain: bool,
    claims: JoinSet<sqlx::Result<Vec<TakenIntent>>>,
    taken: VecDeque<OperationJob>,
    given_back: JoinSet<()>,
}

impl OperationBackend {
    /// See [`crate::backend::async_commit_pool`].
    #[must_use]
    pub fn new(worker: WorkerId, async_commit_pool: &PgPool, wakeups: Receiver<()>) -> Self {
        Self {
            worker,
            // One connection claims, the other releases.
            db: generic_plan_pool(async_commit_pool, 2),
            wakeups,
            safety: Box::pin(sleep(SAFETY)),
            should_poll: true,
            handed_out: None,
            uncertain: false,
            claims: JoinSet::new(),
            taken: VecDeque::new(),
            given_back: JoinSet::new(),
        }
    }

    /// Claims run one at a time; intents that arrive during a claim are left to the next.
    fn take_more(&mut self) {
        if !self.should_poll || !self.claims.is_empty() {
            return;
        }
        self.should_poll = false;
        let (db, worker) = (self.db.clone(), self.worker);
        let lost_since = self.uncertain.then_some(self.handed_out);
        self.claims.spawn(async move {
            let mut conn = db.acquire().await?;
            if let Some(since) = lost_since {
                intents::give_back_since(&mut conn, worker, since).await?;
            }
            take(&mut conn, worker).await
        });
    }

    // Each function below handles one source of events and returns whether there was one. If there was none, the source holds
    // the waker.

    fn poll_wakeups(&mut self, cx: &mut Context<'_>) -> bool {
        let mut woken = false;
        while let Poll::Ready(Some(())) = self.wakeups.poll_recv(cx) {
            woken = true;
        }
        self.should_poll |= woken;
        woken
    }

    fn poll_safety(&mut self, cx: &mut Context<'_>) -> bool {
        if self.safety.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.safety.as_mut().reset(Instant::now() + SAFETY);
        self.should_poll = true;
        true
    }

    fn poll_claims(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(claimed)) = self.claims.poll_join_next(cx) else { return false };
        match claimed {
            Ok(Ok(taken)) => {
                self.uncertain = false;
                self.should_poll |= i64::try_from(taken.len()).is_ok_and(|taken| taken >= BATCH);
                self.handed_out = taken.iter().filter_map(|taken| taken.at).max().or(self.handed_out);
                self.taken.extend(
                    taken.into_iter().map(|TakenIntent { intent, started, .. }| OperationJob { intent, started }),
                );
            }
            Ok(Err(error)) => {
                static FAILED: LogThrottle = LogThrottle::new();
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "cannot claim operations"));
                self.try_again();
            }
            Err(panic) => {
                tracing::error!(%panic, "claiming operations panicked");
                self.try_again();
            }
        }
        true
    }

    fn try_again(&mut self) {
        self.uncertain = true;
        self.safety.as_mut().reset(Instant::now() + RETRY);
    }

    fn poll_given_back(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(self.given_back.poll_join_next(cx), Poll::Ready(Some(_)))
    }

    /// They count as not started.
    fn give_back(&mut self) {
        let intents: Vec<_> = self.taken.drain(..).map(|job| job.intent).collect();
        let db = self.db.clone();
        self.given_back.spawn(async move {
            let give_back = async { intents::give_back(&mut *db.acquire().await?, &intents).await };
            if let Err(error) = give_back.await {
                tracing::warn!(%error, "cannot release claimed operations: recovery treats them as started");
            }
        });
    }
}

/// If the database rejects the start of one intent, the whole batch fails; each intent is then claimed on its own.
async fn take(conn: &mut PgConnection, worker: WorkerId) -> sqlx::Result<Vec<TakenIntent>> {
    match intents::take(&mut *conn, worker, None, BATCH).await {
        Err(error) if !is_transient(&error) => {}
        taken => return taken,
    }
    let mut taken = Vec::new();
    for intent in intents::queued(&mut *conn, worker).await? {
        match intents::take(&mut *conn, worker, Some(intent), 1).await {
            Ok(one) => taken.extend(one),
            Err(error) if is_transient(&error) => return Err(error),
            Err(error) => taken.push(TakenIntent { intent, at: None, started: Err(error) }),
        }
    }
    Ok(taken)
}

/// No error ends this backend.
impl Backend for OperationBackend {
    type Task = Task<OperationJob>;
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Task<OperationJob>, Infallible>>> {
        loop {
            // A wake-up is consumed before the table is polled, never after, so that none is lost.
            let moved = self.poll_wakeups(cx) || self.poll_safety(cx);
            self.take_more();
            if let Some(job) = self.taken.pop_front() {
                let id = TaskId::from_string(job.intent.to_string());
                return Poll::Ready(Some(Ok(TaskBuilder::new(job).task_id(id).build())));
            }
            if !(self.poll_claims(cx) || moved) {
                return Poll::Pending;
            }
        }
    }

    /// Releases intents that a running claim still returns.
    fn poll_close(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        loop {
            if !self.taken.is_empty() {
                self.give_back();
            }
            if !(self.poll_claims(cx) || self.poll_given_back(cx)) {
                break;
            }
        }
        if self.claims.is_empty() && self.given_back.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl BackendConfig for OperationBackend {
    type Args = OperationJob;
    type Id = IntentId;
    /// Tasks need no codec: they never leave the process.
    type Kind = Ephemeral;
    type Config = WorkerId;
    /// The end of an intent is its acknowledgement, and its actor writes it.
    type Layer = Identity;

    fn config(&self) -> &WorkerId {
        &self.worker
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Identity {
        Identity::new()
    }
}
