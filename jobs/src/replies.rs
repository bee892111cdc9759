//! Waits for outcomes of intents and for the end of other work, which a worker in another process may write.
//!
//! A wake-up on the channel of the waiting process carries the outcome. Wake-ups can be lost, so a waiter's row is also
//! read from the database after 500 ms: a lost wake-up costs at most 1 s.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::account_share;
use kitfleet_domain::answer_budget::{AnswerBudget, Reservation, UNCOUNTED};
use kitfleet_domain::database::is_transient;
use kitfleet_domain::sessions::intents::{self, IntentEnding, ReplyTo, StoredEnding};
use kitfleet_types::ids::{AccountId, IntentId, ProxyCheckId, TurnId};
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::operations::{Outcome, StoredResult};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgPool;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::traces;
use crate::wakeups::Wakeups;

/// Interval between reads of rows, and the time before a waiter's row is first read.
const REREAD: Duration = Duration::from_millis(500);
/// Beyond the operation's own budget, which the worker enforces. A dead worker is detected well within this time.
const GRACE: Duration = Duration::from_secs(30);

/// Clones share the same state.
#[derive(Clone)]
pub struct Replies(Arc<Shared>);

struct Shared {
    channel: String,
    db: PgPool,
    wakeups: Wakeups,
    waiting: Mutex<HashMap<IntentId, PendingOutcome>>,
    waiters: Mutex<HashMap<Work, Arc<Notify>>>,
    /// All waiting must end, because this process stops.
    waiting_stopped: CancellationToken,
}

struct PendingOutcome {
    since: Instant,
    sender: oneshot::Sender<ReplySource>,
}

enum ReplySource {
    Reply(Box<IntentEnding>),
    /// It did not fit into the wake-up.
    InRow,
}

#[derive(Debug)]
pub enum AwaitedOutcome {
    /// The reservation accounts for the result until it is dropped.
    Ended(Box<IntentEnding>, Reservation),
    /// The result exceeds the memory available for answers.
    Crowded(AcquireTimeout),
    Nothing,
}

impl Replies {
    #[must_use]
    pub fn new(db: PgPool, wakeups: Wakeups) -> Self {
        let channel = format!("replies_{}", Uuid::now_v7().simple());
        Self(Arc::new(Shared {
            channel,
            db,
            wakeups,
            waiting: Mutex::default(),
            waiters: Mutex::default(),
            waiting_stopped: CancellationToken::new(),
        }))
    }

    /// Includes the trace context of the caller's span.
    #[must_use]
    pub fn address<'a>(&'a self, request_id: &'a str) -> ReplyTo<'a> {
        ReplyTo { channel: &self.0.channel, request_id, trace_parent: traces::current() }
    }

    /// Call this before the intent is committed: its outcome may arrive at any time after that.
    #[must_use]
    pub fn expect(&self, intent: IntentId) -> Waiter {
        let (sender, receiver) = oneshot::channel();
        self.with_waiting(|waiting| waiting.insert(intent, PendingOutcome { since: Instant::now(), sender }));
        Waiter { intent, receiver, replies: self.clone() }
    }

    #[must_use]
    pub fn expect_end(&self, work: Work) -> WorkWaiter {
        let changes = Arc::new(Notify::new());
        self.with_waiters(|waiters| waiters.insert(work, Arc::clone(&changes)));
        WorkWaiter { work, changes, replies: self.clone() }
    }

    /// Ends all waiting as if it had timed out, because this process stops.
    pub fn stop_waiting(&self) {
        self.0.waiting_stopped.cancel();
    }

    pub async fn listen(self) {
        let (wakeups, channel) = (self.0.wakeups.clone(), self.0.channel.clone());
        let _listening = wakeups.listen(channel, move |payload| {
            // After an interruption the listener receives `None`; missed outcomes are read from the database soon.
            if let Some(payload) = payload {
                self.deliver(payload);
            }
        });
        pending::<()>().await;
    }

    fn deliver(&self, payload: &str) {
        #[derive(Deserialize)]
        struct Notice {
            intent: Option<IntentId>,
            ended: Option<Work>,
            outcome: Option<Outcome>,
            result: Option<Box<RawValue>>,
            browser_us: Option<u64>,
            done_at: Option<Timestamp>,
        }
        match serde_json::from_str::<Notice>(payload) {
            Ok(notice) => {
                let browser_time = notice.browser_us.map(Duration::from_micros);
                let result = notice.result.map(|json| StoredResult { json, content: None, page_url: None });
                let found = notice.outcome.map_or(ReplySource::InRow, |outcome| {
                    let done_at = notice.done_at;
                    let ending = IntentEnding { result, browser_time, done_at, ..IntentEnding::from(outcome) };
                    ReplySource::Reply(Box::new(ending))
                });
                if let Some(intent) = notice.intent {
                    self.resolve(intent, found);
                }
                if let Some(changes) = notice.ended.and_then(|work| self.with_waiters(|waiters| waiters.remove(&work)))
                {
                    changes.notify_one();
                }
            }
            // Another process may send to this channel.
            Err(error) => {
                static UNREADABLE: LogThrottle = LogThrottle::new();
                UNREADABLE
                    .log(|held_back| tracing::warn!(%error, held_back, "cannot parse a wake-up with an outcome: ignoring it"));
            }
        }
    }

    /// Reads the rows of waiters that have waited longer than 500 ms; never returns.
    pub async fn poll_overdue(self) {
        loop {
            sleep(REREAD).await;
            let overdue: Vec<_> = self.with_waiting(|waiting| {
                waiting.iter().filter(|(_, one)| one.since.elapsed() >= REREAD).map(|(id, _)| *id).collect()
            });
            if let Err(error) = self.read_overdue(&overdue).await {
                tracing::debug!(%error, "cannot look up outcomes of operations");
            }
        }
    }

    async fn read_overdue(&self, overdue: &[IntentId]) -> sqlx::Result<()> {
        if overdue.is_empty() {
            return Ok(());
        }
        let mut conn = self.0.db.acquire().await?;
        for id in overdue {
            match intents::ending_within(&mut conn, *id, UNCOUNTED).await {
                Ok(Some(StoredEnding::Whole(reply))) => self.resolve(*id, ReplySource::Reply(reply)),
                Ok(None) => {}
                Err(error) if is_transient(&error) => return Err(error),
                // That waiter gets the error when it reads the row; the other waiters are not affected.
                Ok(Some(StoredEnding::Larger(_))) | Err(_) => self.resolve(*id, ReplySource::InRow),
            }
        }
        Ok(())
    }

    fn resolve(&self, intent: IntentId, found: ReplySource) {
        if let Some(waiting) = self.with_waiting(|waiting| waiting.remove(&intent)) {
            // The waiter may be gone.
            let _ = waiting.sender.send(found);
        }
    }

    fn with_waiters<R>(&self, act: impl FnOnce(&mut HashMap<Work, Arc<Notify>>) -> R) -> R {
        act(&mut self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_waiting<R>(&self, act: impl FnOnce(&mut HashMap<IntentId, PendingOutcome>) -> R) -> R {
        act(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct Waiter {
    intent: IntentId,
    receiver: oneshot::Receiver<ReplySource>,
    replies: Replies,
}

impl Waiter {
    /// [`AwaitedOutcome::Nothing`] when no outcome arrived within `budget` and 30 s, or when the process stops. If
    /// `answers` is set, a large result is read only once its memory is reserved.
    pub async fn outcome(
        &mut self,
        budget: Duration,
        answers: Option<(&AnswerBudget, AccountId)>,
    ) -> sqlx::Result<AwaitedOutcome> {
        account_share::release();
        let deadline = Instant::now() + budget + GRACE;
        let waiting_stopped = self.replies.0.waiting_stopped.clone();
        let reply = waiting_stopped.run_until_cancelled(timeout_at(deadline, &mut self.receiver)).await;
        if let Some(Ok(Ok(ReplySource::Reply(reply)))) = reply {
            return Ok(AwaitedOutcome::Ended(reply, Reservation::default()));
        }
        loop {
            match self.read_row(answers).await {
                Ok(found) => return Ok(found),
                Err(error) if !is_transient(&error) || Instant::now() >= deadline || waiting_stopped.is_cancelled() => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(%error, intent = %self.intent, "cannot read the outcome of an operation: trying again");
                    sleep(REREAD).await;
                }
            }
        }
    }

    async fn read_row(&self, answers: Option<(&AnswerBudget, AccountId)>) -> sqlx::Result<AwaitedOutcome> {
        let max = if answers.is_some() { UNCOUNTED } else { u64::MAX };
        let db = &self.replies.0.db;
        let bytes = match intents::ending_within(&mut *db.acquire().await?, self.intent, max).await? {
            Some(StoredEnding::Whole(ending)) => {
                return Ok(AwaitedOutcome::Ended(ending, Reservation::default()));
            }
            Some(StoredEnding::Larger(bytes)) => bytes,
            None => return Ok(AwaitedOutcome::Nothing),
        };
        let Some((answers, account)) = answers else { return Ok(AwaitedOutcome::Nothing) };
        // A capture's base64 content is a third longer in the answer.
        let reservation = match answers.reserve(account, bytes.saturating_mul(4) / 3).await {
            Ok(reservation) => reservation,
            Err(not_yet) => return Ok(AwaitedOutcome::Crowded(not_yet)),
        };
        let ending = intents::ending(&mut *db.acquire().await?, self.intent).await?;
        Ok(ending.map_or(AwaitedOutcome::Nothing, |ending| AwaitedOutcome::Ended(Box::new(ending), reservation)))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.replies.with_waiting(|waiting| waiting.remove(&self.intent));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    Turn(TurnId),
    ProxyCheck(ProxyCheckId),
}

/// Call it after the commit.
pub fn notify_ended(wakeups: &Wakeups, channel: &str, work: Work) {
    wakeups.send(channel, serde_json::json!({"ended": work}).to_string());
}

pub struct WorkWaiter {
    work: Work,
    changes: Arc<Notify>,
    replies: Replies,
}

impl WorkWaiter {
    /// Waits until the work may have ended, at most 500 ms. Returns `false` when the process stops and waiting must end.
    pub async fn changed(&self) -> bool {
        account_share::release();
        let waiting_stopped = &self.replies.0.waiting_stopped;
        waiting_stopped.run_until_cancelled(timeout(REREAD, self.changes.notified())).await.is_some()
    }
}

impl Drop for WorkWaiter {
    fn drop(&mut self) {
        self.replies.with_waiters(|waiters| waiters.remove(&self.work));
    }
}
