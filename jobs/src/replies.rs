//! Waiting for the outcome of an intent, and for the end of other work, which a worker of another process may write.
//!
//! Each process that waits listens on one channel of its own, and the outcome comes as a wake-up on it. Wake-ups can be lost; the row
//! cannot. So whatever is waited for longer than a moment is also looked up in the database, and a lost wake-up costs a
//! second at most.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::account_share;
use kitfleet_domain::answer_budget::{AnswerBudget, Reservation, UNCOUNTED};
use kitfleet_domain::database::is_transient;
use kitfleet_domain::ids::{AccountId, IntentId, ProxyCheckId, TurnId};
use kitfleet_domain::log_throttle::LogThrottle;
use kitfleet_domain::operations::{Outcome, StoredResult};
use kitfleet_domain::sessions::intents::{self, IntentEnding, ReplyTo, StoredEnding};
use kitfleet_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgPool;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::traces;
use crate::wakeups::Wakeups;

/// How often rows are looked up, and how long a waiter waits before its own is.
const REREAD: Duration = Duration::from_millis(500);
/// What an outcome may take beyond the operation's own time: the worker enforces that, and a worker that dies is
/// noticed well within this.
const GRACE: Duration = Duration::from_secs(30);

/// Where a process waits; its clones are the same place.
#[derive(Clone)]
pub struct Replies(Arc<Shared>);

struct Shared {
    channel: String,
    db: PgPool,
    wakeups: Wakeups,
    waiting: Mutex<HashMap<IntentId, PendingOutcome>>,
    works: Mutex<HashMap<Work, Arc<Notify>>>,
    /// Nobody is to wait any longer.
    patience_ended: CancellationToken,
}

struct PendingOutcome {
    since: Instant,
    sender: oneshot::Sender<ReplySource>,
}

enum ReplySource {
    Reply(IntentEnding),
    /// It is in the row: it did not fit into the wake-up.
    InRow,
}

/// What was heard of an intent.
#[derive(Debug)]
pub enum AwaitedOutcome {
    /// It ended. What it came to is counted for as long as the reservation is there.
    Ended(Box<IntentEnding>, Reservation),
    /// It ended, and what it came to is larger than what may be under way in addition.
    Crowded(AcquireTimeout),
    /// Nothing.
    Nothing,
}

impl Replies {
    /// A place of its own.
    #[must_use]
    pub fn new(db: PgPool, wakeups: Wakeups) -> Self {
        let channel = format!("replies_{}", Uuid::now_v7().simple());
        Self(Arc::new(Shared {
            channel,
            db,
            wakeups,
            waiting: Mutex::default(),
            works: Mutex::default(),
            patience_ended: CancellationToken::new(),
        }))
    }

    /// Where outcomes of `request` have to go, which the caller's span asks for.
    #[must_use]
    pub fn address<'a>(&'a self, request_id: &'a str) -> ReplyTo<'a> {
        ReplyTo { channel: &self.0.channel, request_id, trace_parent: traces::here() }
    }

    /// Call this before the intent is committed: from then on its outcome may come at any time.
    #[must_use]
    pub fn expect(&self, intent: IntentId) -> Waiter {
        let (sender, receiver) = oneshot::channel();
        self.with_waiting(|waiting| waiting.insert(intent, PendingOutcome { since: Instant::now(), sender }));
        Waiter { intent, receiver, replies: self.clone() }
    }

    /// The same of other work.
    #[must_use]
    pub fn expect_end(&self, work: Work) -> WorkWaiter {
        let told = Arc::new(Notify::new());
        self.with_works(|works| works.insert(work, Arc::clone(&told)));
        WorkWaiter { work, told, replies: self.clone() }
    }

    /// Ends all waiting, as if its time had run out: this process stops.
    pub fn end_patience(&self) {
        self.0.patience_ended.cancel();
    }

    /// Hears of outcomes, for ever.
    pub async fn listen(self) {
        let (wakeups, channel) = (self.0.wakeups.clone(), self.0.channel.clone());
        let _listening = wakeups.listen(channel, move |told| {
            // What nobody heard is looked up soon.
            if let Some(payload) = told {
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
                let result = notice.result.map(|json| StoredResult { json, content: None });
                let found = notice.outcome.map_or(ReplySource::InRow, |outcome| {
                    ReplySource::Reply(IntentEnding {
                        outcome,
                        result,
                        browser_time,
                        usage: None,
                        done_at: notice.done_at,
                    })
                });
                if let Some(intent) = notice.intent {
                    self.hand_over(intent, found);
                }
                if let Some(told) = notice.ended.and_then(|work| self.with_works(|works| works.remove(&work))) {
                    told.notify_one();
                }
            }
            // Somebody else may know the channel.
            Err(error) => {
                static UNREADABLE: LogThrottle = LogThrottle::new();
                UNREADABLE
                    .say(|held_back| tracing::warn!(%error, held_back, "cannot read the outcome of an operation"));
            }
        }
    }

    /// Looks up what was waited for longer than a moment, for ever.
    pub async fn reread(self) {
        loop {
            sleep(REREAD).await;
            let overdue: Vec<_> = self.with_waiting(|waiting| {
                waiting.iter().filter(|(_, one)| one.since.elapsed() >= REREAD).map(|(id, _)| *id).collect()
            });
            if let Err(error) = self.reread_once(&overdue).await {
                tracing::debug!(%error, "cannot look up outcomes of operations");
            }
        }
    }

    async fn reread_once(&self, overdue: &[IntentId]) -> sqlx::Result<()> {
        if overdue.is_empty() {
            return Ok(());
        }
        let mut conn = self.0.db.acquire().await?;
        for id in overdue {
            match intents::ending_within(&mut conn, *id, UNCOUNTED).await {
                Ok(Some(StoredEnding::Whole(reply))) => self.hand_over(*id, ReplySource::Reply(reply)),
                Ok(None) => {}
                Err(error) if is_transient(&error) => return Err(error),
                // Whoever waits for it finds out; the others are none the worse.
                Ok(Some(StoredEnding::Larger(_))) | Err(_) => self.hand_over(*id, ReplySource::InRow),
            }
        }
        Ok(())
    }

    fn hand_over(&self, intent: IntentId, found: ReplySource) {
        if let Some(waiting) = self.with_waiting(|waiting| waiting.remove(&intent)) {
            // Whoever waited may be gone meanwhile.
            let _ = waiting.sender.send(found);
        }
    }

    fn with_works<R>(&self, act: impl FnOnce(&mut HashMap<Work, Arc<Notify>>) -> R) -> R {
        act(&mut self.0.works.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with_waiting<R>(&self, act: impl FnOnce(&mut HashMap<IntentId, PendingOutcome>) -> R) -> R {
        act(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whoever waits for one intent.
pub struct Waiter {
    intent: IntentId,
    receiver: oneshot::Receiver<ReplySource>,
    replies: Replies,
}

impl Waiter {
    /// How the intent ended, which should have `budget` for it. Nothing when nothing was heard long after that, or until
    /// nobody was to wait any longer. Where `answers` counts large answers, what the intent came to is read once there is room for it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn outcome(
        &mut self,
        budget: Duration,
        answers: Option<(&AnswerBudget, AccountId)>,
    ) -> sqlx::Result<AwaitedOutcome> {
        account_share::release();
        let deadline = Instant::now() + budget + GRACE;
        let patience_ended = self.replies.0.patience_ended.clone();
        let heard = patience_ended.run_until_cancelled(timeout_at(deadline, &mut self.receiver)).await;
        if let Some(Ok(Ok(ReplySource::Reply(reply)))) = heard {
            return Ok(AwaitedOutcome::Ended(Box::new(reply), Reservation::default()));
        }
        loop {
            match self.read_row(answers).await {
                Ok(found) => return Ok(found),
                Err(error) if !is_transient(&error) || Instant::now() >= deadline || patience_ended.is_cancelled() => {
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
        let most = if answers.is_some() { UNCOUNTED } else { u64::MAX };
        let db = &self.replies.0.db;
        let bytes = match intents::ending_within(&mut *db.acquire().await?, self.intent, most).await? {
            Some(StoredEnding::Whole(ending)) => {
                return Ok(AwaitedOutcome::Ended(Box::new(ending), Reservation::default()));
            }
            Some(StoredEnding::Larger(bytes)) => bytes,
            None => return Ok(AwaitedOutcome::Nothing),
        };
        let Some((answers, account)) = answers else { return Ok(AwaitedOutcome::Nothing) };
        // A capture's content is a third longer in its answer.
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

/// What a worker has begun whose end its waiter reads from rows of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A turn of an agent session.
    Turn(TurnId),
    /// A check of a saved proxy.
    ProxyCheck(ProxyCheckId),
}

/// Tells whoever waits on `channel` that this has ended, which was committed before.
pub fn tell_of_end(wakeups: &Wakeups, channel: &str, work: Work) {
    wakeups.tell(channel, serde_json::json!({"ended": work}).to_string());
}

/// Whoever waits for the end of such work.
pub struct WorkWaiter {
    work: Work,
    told: Arc<Notify>,
    replies: Replies,
}

impl WorkWaiter {
    /// Returns when it may be worth looking whether it has ended. `false` when nobody is to wait any longer.
    pub async fn told(&self) -> bool {
        let patience_ended = &self.replies.0.patience_ended;
        patience_ended.run_until_cancelled(timeout(REREAD, self.told.notified())).await.is_some()
    }
}

impl Drop for WorkWaiter {
    fn drop(&mut self) {
        self.replies.with_works(|works| works.remove(&self.work));
    }
}
