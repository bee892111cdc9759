//! Operations, and the opening of browsers, as typed jobs of apalis (contract: workers 1 to 3).
//!
//! The rows of `intents` are the queue, and [`OperationBackend`] serves those of one worker to it. To fetch is to start: one
//! statement takes what waits and moves it to `running`, and what it returned is what the job carries. To acknowledge is to
//! end an intent, which whoever carries it out does. So nothing is written for a job besides what is written for its
//! operation.
//!
//! Starts are committed without waiting for the disk. A crash of the database may forget some, and they are handed out again,
//! but only to the worker that had them, whose actors remember what they carried out.

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
use kitfleet_domain::ids::{IntentId, WorkerId};
use kitfleet_domain::log_throttle::LogThrottle;
use kitfleet_domain::sessions::intents::{self, StartedIntent, TakenIntent};
use kitfleet_domain::timestamp::Timestamp;
use sqlx::{PgConnection, PgPool};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use crate::SAFETY;
use crate::backend::{RETRY, planned_once};
use crate::wakeups::{self, Wakeups};

/// Intents taken at once.
const BATCH: i64 = 32;

/// What a caller wanted of a browser, taken by its worker.
#[derive(Debug)]
pub struct OperationJob {
    /// The intent.
    pub intent: IntentId,
    /// What is to be carried out, or why it cannot be.
    pub started: sqlx::Result<StartedIntent>,
}

impl OperationJob {
    /// What the queues of all workers are called together.
    pub const QUEUES: &'static str = "operations";

    /// The queue of this incarnation of a worker.
    #[must_use]
    pub fn queue_of(worker: WorkerId) -> String {
        format!("{}:{worker}", Self::QUEUES)
    }

    /// The incarnation whose queue this is, if it is one's.
    #[must_use]
    pub fn worker_of(queue: &str) -> Option<WorkerId> {
        queue.strip_prefix(Self::QUEUES)?.strip_prefix(':')?.parse().ok()
    }
}

/// Has a worker look for what waits for it, which was committed before.
pub fn wake(wakeups: &Wakeups, worker: WorkerId) {
    wakeups.tell(&wakeups::channel(&OperationJob::queue_of(worker)), String::new());
}

/// Serves what waits for one worker to it.
#[derive(Debug)]
pub struct OperationBackend {
    worker: WorkerId,
    db: PgPool,
    wakeups: Receiver<()>,
    safety: Pin<Box<Sleep>>,
    /// Whether there may be something that was not taken yet.
    look: bool,
    /// When the last of what was handed out was taken.
    handed_out: Option<Timestamp>,
    /// Whether a claim failed since: it may have been committed all the same.
    uncertain: bool,
    claims: JoinSet<sqlx::Result<Vec<TakenIntent>>>,
    /// What was taken and is not handed out yet.
    taken: VecDeque<OperationJob>,
    given_back: JoinSet<()>,
}

impl OperationBackend {
    /// Serves `worker`. `async_commit_pool` is a pool whose commits do not wait for the disk ([`crate::backend::async_commit_pool`]).
    #[must_use]
    pub fn new(worker: WorkerId, async_commit_pool: &PgPool, wakeups: Receiver<()>) -> Self {
        Self {
            worker,
            // One claims, and one gives back.
            db: planned_once(async_commit_pool, 2),
            wakeups,
            safety: Box::pin(sleep(SAFETY)),
            look: true,
            handed_out: None,
            uncertain: false,
            claims: JoinSet::new(),
            taken: VecDeque::new(),
            given_back: JoinSet::new(),
        }
    }

    /// Takes what waits, if there may be some. One claim is made after the other: what comes meanwhile is the next one's.
    fn take_more(&mut self) {
        if !self.look || !self.claims.is_empty() {
            return;
        }
        self.look = false;
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

    // Each of these goes on from something that has happened. When nothing has, it leaves the waker where it will.

    fn poll_wakeups(&mut self, cx: &mut Context<'_>) -> bool {
        let mut woken = false;
        while let Poll::Ready(Some(())) = self.wakeups.poll_recv(cx) {
            woken = true;
        }
        self.look |= woken;
        woken
    }

    fn poll_safety(&mut self, cx: &mut Context<'_>) -> bool {
        if self.safety.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.safety.as_mut().reset(Instant::now() + SAFETY);
        self.look = true;
        true
    }

    fn poll_claims(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(claimed)) = self.claims.poll_join_next(cx) else { return false };
        match claimed {
            Ok(Ok(taken)) => {
                self.uncertain = false;
                self.look |= i64::try_from(taken.len()).is_ok_and(|taken| taken >= BATCH);
                self.handed_out = taken.iter().filter_map(|taken| taken.at).max().or(self.handed_out);
                self.taken.extend(
                    taken.into_iter().map(|TakenIntent { intent, started, .. }| OperationJob { intent, started }),
                );
            }
            Ok(Err(error)) => {
                static FAILED: LogThrottle = LogThrottle::new();
                FAILED.say(|held_back| tracing::warn!(%error, held_back, "cannot claim operations"));
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

    /// Gives back what nobody is handed any more: whoever ends it knows that it was not begun.
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

/// Takes what waits. When the database refuses to start one, it refuses all that are taken with it: then each is taken alone.
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

/// Nothing that fails ends it: what fails is said, and tried again.
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
            // Wake-ups are noticed before the table is looked at, never after, so that none falls between.
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

    /// Nothing is taken any more. What is still on its way here goes back.
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
    /// An intent's end is its acknowledgement, and its actor writes it.
    type Layer = Identity;

    fn config(&self) -> &WorkerId {
        &self.worker
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Identity {
        Identity::new()
    }
}
