//! The apalis backend of deliveries: decides when to claim and handles the results of claims.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::task_id::TaskId;
use apalis_core::worker::context::WorkerContext;
use kitfleet_domain::webhooks::attempts::{self, Attempt};
use kitfleet_types::ids::DeliveryId;
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::PgPool;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use super::acknowledgement::Acknowledge;
use super::attempt_slots::Report;
use super::fair_queue::{Bounds, FairQueue, recipient_of};
use super::results::Results;
use super::{AttemptJob, Settings};
use crate::backend::{RETRY, generic_plan_pool};

#[derive(Debug)]
pub struct DeliveryBackend {
    settings: Settings,
    claiming: PgPool,
    acknowledge: Acknowledge,
    wakeups: Receiver<()>,
    /// Deliveries may be due without a wake-up.
    due: Receiver<()>,
    reports: UnboundedReceiver<Report>,
    queue: FairQueue,
    tick: Pin<Box<Sleep>>,
    ticks: JoinSet<sqlx::Result<Option<Vec<DeliveryId>>>>,
    claims: JoinSet<sqlx::Result<(Vec<Attempt>, Bounds)>>,
    claimed: VecDeque<AttemptJob>,
    given_back: JoinSet<()>,
}

impl DeliveryBackend {
    /// Claims use `async_commit_pool`, whose commits do not wait for the disk ([`crate::backend::async_commit_pool`]);
    /// results are written through `db`. `due` signals that the table may hold due deliveries without a wake-up.
    #[must_use]
    pub fn new(
        db: PgPool,
        async_commit_pool: &PgPool,
        settings: Settings,
        wakeups: Receiver<()>,
        due: Receiver<()>,
    ) -> Self {
        let (reporter, reports) = unbounded_channel();
        Self {
            // Claims run one at a time; a check for due deliveries may run beside one.
            claiming: generic_plan_pool(async_commit_pool, 2),
            acknowledge: Acknowledge::new(Results::new(db, settings.clone()), reporter),
            wakeups,
            due,
            reports,
            queue: FairQueue::new(&settings),
            settings,
            tick: Box::pin(sleep(Duration::ZERO)),
            ticks: JoinSet::new(),
            claims: JoinSet::new(),
            claimed: VecDeque::new(),
            given_back: JoinSet::new(),
        }
    }

    /// Starts a claim if deliveries may be due and there is room for attempts.
    fn claim_more(&mut self) {
        if !self.claims.is_empty() {
            return;
        }
        let Some((wanted, bounds)) = self.queue.wanted() else { return };
        let (claiming, lease) = (self.claiming.clone(), self.settings.lease());
        self.claims.spawn(async move {
            let attempts = attempts::claim(&mut *claiming.acquire().await?, &wanted, lease).await?;
            Ok((attempts, bounds))
        });
    }

    /// If any deliveries have become due, also looks for those to endpoints that do not answer.
    fn poll_queue(&mut self) {
        if !self.ticks.is_empty() {
            return;
        }
        let (wanted, claiming) = (self.queue.wanted_of_slow(Instant::now().into_std()), self.claiming.clone());
        self.ticks.spawn(async move {
            let mut conn = claiming.acquire().await?;
            if !attempts::wake(&mut conn).await? {
                return Ok(None);
            }
            let slow = !wanted.accounts.is_empty();
            Ok(Some(if slow { attempts::due_to_slow(&mut conn, &wanted).await? } else { Vec::new() }))
        });
    }

    // Each function below handles one source of events and returns whether there was one. If there was none, the source holds
    // the waker.

    fn poll_reports(&mut self, cx: &mut Context<'_>) -> bool {
        let mut changed = false;
        while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
            match report {
                Report::Went(recipient, outcome) => self.queue.note(recipient, outcome, Instant::now().into_std()),
                Report::Over(recipient) => self.queue.release(recipient),
            }
            changed = true;
        }
        changed
    }

    fn poll_wakeups(&mut self, cx: &mut Context<'_>) -> bool {
        let mut woken = false;
        while let Poll::Ready(Some(())) = self.wakeups.poll_recv(cx) {
            self.queue.request_poll();
            woken = true;
        }
        woken
    }

    fn poll_tick(&mut self, cx: &mut Context<'_>) -> bool {
        let is_due = matches!(self.due.poll_recv(cx), Poll::Ready(Some(())));
        if self.tick.as_mut().poll(cx).is_pending() && !is_due {
            return false;
        }
        self.tick.as_mut().reset(Instant::now() + self.queue.pause());
        self.poll_queue();
        true
    }

    fn poll_ticks(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(ticked)) = self.ticks.poll_join_next(cx) else { return false };
        match ticked {
            Ok(Ok(Some(besides))) => self.queue.found(besides),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                static FAILED: LogThrottle = LogThrottle::new();
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "cannot look for webhook deliveries"));
                self.tick.as_mut().reset(Instant::now() + RETRY);
            }
            Err(panic) => tracing::error!(%panic, "looking for webhook deliveries panicked"),
        }
        true
    }

    fn poll_claims(&mut self, cx: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(claimed)) = self.claims.poll_join_next(cx) else { return false };
        match claimed {
            Ok(Ok((attempts, bounds))) => self.claimed.extend(self.queue.begin(attempts, bounds)),
            Ok(Err(error)) => {
                static FAILED: LogThrottle = LogThrottle::new();
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "cannot claim webhook deliveries"));
                self.tick.as_mut().reset(Instant::now() + RETRY);
            }
            Err(panic) => tracing::error!(%panic, "claiming webhook deliveries panicked"),
        }
        true
    }

    fn poll_given_back(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(self.given_back.poll_join_next(cx), Poll::Ready(Some(_)))
    }

    /// So that the deliveries do not wait until the claim expires.
    fn give_back(&mut self) {
        let mut claims = Vec::new();
        for AttemptJob { attempt, .. } in self.claimed.drain(..) {
            self.queue.release(recipient_of(&attempt));
            claims.push((attempt.id, attempt.claimed_until));
        }
        let claiming = self.claiming.clone();
        self.given_back.spawn(async move {
            let give_back = async { attempts::give_back(&mut *claiming.acquire().await?, &claims).await };
            if let Err(error) = give_back.await {
                tracing::warn!(%error, "cannot release webhook deliveries: they are sent after their claims expire");
            }
        });
    }
}

/// No error ends this backend.
impl Backend for DeliveryBackend {
    type Task = Task<AttemptJob>;
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        _: &WorkerContext,
    ) -> Poll<Option<Result<Task<AttemptJob>, Infallible>>> {
        loop {
            self.claim_more();
            if let Some(job) = self.claimed.pop_front() {
                let id = TaskId::from_string(job.attempt.id.to_string());
                return Poll::Ready(Some(Ok(TaskBuilder::new(job).task_id(id).build())));
            }
            let moved = self.poll_reports(cx)
                || self.poll_wakeups(cx)
                || self.poll_tick(cx)
                || self.poll_ticks(cx)
                || self.poll_claims(cx);
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Releases attempts that a running claim still returns, and waits until the results of ended attempts are written;
    /// no attempt is running at this point.
    fn poll_close(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        loop {
            if !self.claimed.is_empty() {
                self.give_back();
            }
            if !(self.poll_reports(cx) || self.poll_claims(cx) || self.poll_given_back(cx)) {
                break;
            }
        }
        if self.claims.is_empty() && self.given_back.is_empty() && self.queue.is_idle() {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }
}

impl BackendConfig for DeliveryBackend {
    type Args = AttemptJob;
    type Id = DeliveryId;
    /// Tasks need no codec: they live only in this process and no longer than their claims.
    type Kind = Ephemeral;
    type Config = Settings;
    type Layer = Acknowledge;

    fn config(&self) -> &Settings {
        &self.settings
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Acknowledge {
        self.acknowledge.clone()
    }
}
