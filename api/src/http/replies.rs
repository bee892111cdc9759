//! Waiting for the outcome of an intent, which a worker of another process writes.
//!
//! Each API process listens on one channel of its own, and the outcome comes as a notification on it. Notifications can
//! be lost, when the connection breaks; the row cannot. So whatever is waited for longer than a moment is also looked
//! up in the database, and a lost notification costs a second at most.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::database::may_pass;
use kitfleet_domain::ids::IntentId;
use kitfleet_domain::operations::{Outcome, StoredResult};
use kitfleet_domain::sessions::intents::{self, Ending, ReplyTo};
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire, Connection, PgPool};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::http::error::Result;

/// How often rows are looked up, and how long a waiter waits before its own is.
const REREAD: Duration = Duration::from_millis(500);
/// How long the connection may be silent before it is asked whether it still stands.
const QUIET: Duration = Duration::from_secs(10);
/// How long it may take to answer that.
const PING: Duration = Duration::from_secs(5);
/// What an outcome may take beyond the operation's own time: the worker enforces that, and a worker that dies is
/// noticed well within this.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Replies(Arc<Shared>);

struct Shared {
    channel: String,
    db: PgPool,
    waiting: Mutex<HashMap<IntentId, Waiting>>,
    /// Nobody is to wait any longer.
    patience_ended: CancellationToken,
}

struct Waiting {
    since: Instant,
    sender: oneshot::Sender<Found>,
}

enum Found {
    Reply(Ending),
    /// It is in the row: it did not fit into the notification.
    InRow,
}

impl Replies {
    pub fn new(db: PgPool) -> Self {
        let channel = format!("replies_{}", Uuid::now_v7().simple());
        Self(Arc::new(Shared { channel, db, waiting: Mutex::default(), patience_ended: CancellationToken::new() }))
    }

    /// Where outcomes of `request` have to go.
    pub fn address<'a>(&'a self, request_id: &'a str) -> ReplyTo<'a> {
        ReplyTo { channel: &self.0.channel, request_id }
    }

    /// Call this before the intent is committed: from then on its outcome may come at any time.
    pub fn expect(&self, intent: IntentId) -> Waiter {
        let (sender, receiver) = oneshot::channel();
        self.with_waiting(|waiting| waiting.insert(intent, Waiting { since: Instant::now(), sender }));
        Waiter { intent, receiver, replies: self.clone() }
    }

    /// Ends all waiting, as if its time had run out: this process stops.
    pub fn end_patience(&self) {
        self.0.patience_ended.cancel();
    }

    /// Receives notifications, for ever.
    pub async fn listen(self) {
        loop {
            let Err(error) = self.listen_on_one_connection().await;
            tracing::warn!(%error, "the connection that receives outcomes was lost; reconnecting");
            sleep(REREAD).await;
        }
    }

    async fn listen_on_one_connection(&self) -> sqlx::Result<std::convert::Infallible> {
        // A pool of its own: the shared one must not lose a connection for good.
        let options = self.0.db.connect_options().as_ref().clone();
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PING).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(&self.0.channel).await?;
        loop {
            match timeout(QUIET, listener.try_recv()).await {
                Ok(Ok(Some(notification))) => self.deliver(notification.payload()),
                Ok(Ok(None)) => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let connection = listener.acquire().await?;
                    timeout(PING, connection.ping()).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
                }
            }
        }
    }

    fn deliver(&self, payload: &str) {
        #[derive(Deserialize)]
        struct Notice {
            intent: IntentId,
            outcome: Option<Outcome>,
            result: Option<Box<RawValue>>,
            browser_us: Option<u64>,
        }
        match serde_json::from_str::<Notice>(payload) {
            Ok(notice) => {
                let browser_time = notice.browser_us.map(Duration::from_micros);
                let result = notice.result.map(|json| StoredResult { json, content: None });
                let found = notice
                    .outcome
                    .map_or(Found::InRow, |outcome| Found::Reply(Ending { outcome, result, browser_time }));
                self.hand_over(notice.intent, found);
            }
            Err(error) => tracing::warn!(%error, "an outcome could not be read"),
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
                tracing::debug!(%error, "outcomes could not be looked up");
            }
        }
    }

    async fn reread_once(&self, overdue: &[IntentId]) -> sqlx::Result<()> {
        if overdue.is_empty() {
            return Ok(());
        }
        let mut conn = self.0.db.acquire().await?;
        for id in overdue {
            match intents::ending(&mut conn, *id).await {
                Ok(Some(reply)) => self.hand_over(*id, Found::Reply(reply)),
                Ok(None) => {}
                Err(error) if may_pass(&error) => return Err(error),
                // Whoever waits for it finds out; the others are none the worse.
                Err(_) => self.hand_over(*id, Found::InRow),
            }
        }
        Ok(())
    }

    fn hand_over(&self, intent: IntentId, found: Found) {
        if let Some(waiting) = self.with_waiting(|waiting| waiting.remove(&intent)) {
            // Whoever waited may be gone meanwhile.
            let _ = waiting.sender.send(found);
        }
    }

    fn with_waiting<R>(&self, act: impl FnOnce(&mut HashMap<IntentId, Waiting>) -> R) -> R {
        act(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whoever waits for one intent.
pub struct Waiter {
    intent: IntentId,
    receiver: oneshot::Receiver<Found>,
    replies: Replies,
}

impl Waiter {
    /// How the intent ended, which should have `budget` for it. `None` when nothing was heard long after that, or until
    /// nobody was to wait any longer.
    pub async fn outcome(&mut self, budget: Duration) -> Result<Option<Ending>> {
        let deadline = Instant::now() + budget + GRACE;
        let patience_ended = self.replies.0.patience_ended.clone();
        let heard = patience_ended.run_until_cancelled(timeout_at(deadline, &mut self.receiver)).await;
        if let Some(Ok(Ok(Found::Reply(reply)))) = heard {
            return Ok(Some(reply));
        }
        loop {
            match self.read_row().await {
                Ok(found) => return Ok(found),
                Err(error) if !may_pass(&error) || Instant::now() >= deadline || patience_ended.is_cancelled() => {
                    return Err(error.into());
                }
                Err(error) => {
                    tracing::warn!(%error, intent = %self.intent, "an outcome could not be read; trying again");
                    sleep(REREAD).await;
                }
            }
        }
    }

    async fn read_row(&self) -> sqlx::Result<Option<Ending>> {
        let mut conn = self.replies.0.db.acquire().await?;
        intents::ending(&mut conn, self.intent).await
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.replies.with_waiting(|waiting| waiting.remove(&self.intent));
    }
}
