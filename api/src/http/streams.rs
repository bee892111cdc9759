//! Notification streams of this process (contract: notifications).
//!
//! One task per process numbers the notifications of signalled accounts, and publishes the highest number to the account's
//! streams. The streams read the notifications themselves, so a slow client causes no buffering, and a repeated signal has no
//! cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kitfleet_domain::notifications::{self, CHANNEL, STREAM_LEASE, Settings};
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_types::ids::{AccountId, NotificationStreamId};
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::PgPool;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Polls all accounts with streams.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Their notifications are numbered concurrently.
const AT_ONCE: usize = 8;

#[derive(Default)]
pub struct Streams {
    here: Arc<StreamRegistry>,
    ended: CancellationToken,
}

#[derive(Default)]
struct StreamRegistry {
    table: Mutex<Table>,
    /// An account was signalled, or a stream was opened or closed.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    accounts: HashMap<AccountId, FollowedAccount>,
    /// Their rows are still open.
    closed: Vec<NotificationStreamId>,
}

struct FollowedAccount {
    /// Assigned so far.
    highest: watch::Sender<i64>,
    streams: Vec<NotificationStreamId>,
    /// The account may have notifications without a number.
    is_marked: bool,
}

/// Closed on drop.
pub struct StreamHandle {
    here: Arc<StreamRegistry>,
    account: AccountId,
    id: NotificationStreamId,
    /// Of the account's notifications.
    pub highest: watch::Receiver<i64>,
    /// Cancelled when this process ends its streams.
    pub ended: CancellationToken,
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let mut table = self.here.table();
        if let Some(followed) = table.accounts.get_mut(&self.account) {
            followed.streams.retain(|stream| *stream != self.id);
            if followed.streams.is_empty() {
                table.accounts.remove(&self.account);
            }
        }
        table.closed.push(self.id);
        drop(table);
        self.here.changed.notify_one();
    }
}

impl Streams {
    /// The stream's row was written. The account may have passed `highest` already, so it is marked for a check.
    pub fn enter(&self, account: AccountId, id: NotificationStreamId, highest: i64) -> StreamHandle {
        let mut table = self.here.table();
        let new = || FollowedAccount { highest: watch::Sender::new(highest), streams: Vec::new(), is_marked: false };
        let followed = table.accounts.entry(account).or_insert_with(new);
        followed.streams.push(id);
        followed.is_marked = true;
        let highest = followed.highest.subscribe();
        drop(table);
        self.here.changed.notify_one();
        StreamHandle { here: Arc::clone(&self.here), account, id, highest, ended: self.ended.clone() }
    }

    /// Cancelled when this process ends its streams.
    pub fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Ends all streams, and those opened later.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Until `end`. The process listens only while it has streams.
    pub async fn follow(&self, db: &PgPool, wakeups: &Wakeups, settings: Settings, end: &CancellationToken) {
        while end.run_until_cancelled(self.here.changed.notified()).await.is_some() {
            let here = Arc::clone(&self.here);
            let _listening = wakeups.listen(CHANNEL.to_owned(), move |account| here.note(account));
            self.here.serve(db, settings, end).await;
        }
        if let Err(error) = self.here.close(db).await {
            tracing::debug!(%error, "cannot close notification streams: they stay open until their lease expires");
        }
    }
}

impl StreamRegistry {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        let table = self.table();
        table.accounts.is_empty() && table.closed.is_empty()
    }

    /// Serves the open streams and closes them, until none is left or `end`.
    async fn serve(&self, db: &PgPool, settings: Settings, end: &CancellationToken) {
        static FAILED: LogThrottle = LogThrottle::new();
        let mut interval = interval(POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = Instant::now();
        while !self.is_idle() {
            let served = tokio::select! {
                () = end.cancelled() => return,
                () = self.changed.notified() => Ok(()),
                _ = interval.tick() => self.check_progress(db).await,
            };
            let served = match served {
                Ok(()) if renewed.elapsed() > STREAM_LEASE / 3 => {
                    renewed = Instant::now();
                    self.renew(db, settings.retention).await
                }
                served => served,
            };
            let served = match served {
                Ok(()) => self.close(db).await,
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "cannot serve notification streams"));
            }
            self.number(db).await;
        }
    }

    /// `None` marks all accounts.
    fn note(&self, account: Option<&str>) {
        let mut table = self.table();
        let followed: Vec<_> = match account.map(Uuid::try_parse) {
            Some(id) => id.ok().and_then(|id| table.accounts.get_mut(&id.into())).into_iter().collect(),
            None => table.accounts.values_mut().collect(),
        };
        if followed.is_empty() {
            return;
        }
        for followed in followed {
            followed.is_marked = true;
        }
        drop(table);
        self.changed.notify_one();
    }

    async fn check_progress(&self, db: &PgPool) -> sqlx::Result<()> {
        let accounts: Vec<_> = self.table().accounts.keys().copied().collect();
        if accounts.is_empty() {
            return Ok(());
        }
        let progress = notifications::progress(&mut *db.acquire().await?, &accounts).await?;
        let mut table = self.table();
        for found in progress {
            if let Some(followed) = table.accounts.get_mut(&found.account) {
                followed.is_marked |= found.waiting;
                followed.reached(found.highest);
            }
        }
        Ok(())
    }

    /// Assigns numbers to the notifications of marked accounts.
    async fn number(&self, db: &PgPool) {
        static FAILED: LogThrottle = LogThrottle::new();
        let take_mark = |(account, followed): (&AccountId, &mut FollowedAccount)| {
            std::mem::take(&mut followed.is_marked).then_some(*account)
        };
        let marked: Vec<_> = self.table().accounts.iter_mut().filter_map(take_mark).collect();
        let number = async |account| match number(db, account).await {
            Ok(highest) => {
                if let Some(followed) = self.table().accounts.get_mut(&account) {
                    followed.reached(highest.unwrap_or_default());
                }
            }
            // The next poll finds the account again.
            Err(error) => {
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "cannot number notifications"));
            }
        };
        stream::iter(marked).for_each_concurrent(AT_ONCE, number).await;
    }

    async fn renew(&self, db: &PgPool, retention: Duration) -> sqlx::Result<()> {
        let open: Vec<_> = self.table().accounts.values().flat_map(|followed| &followed.streams).copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        notifications::renew_streams(&mut *db.acquire().await?, &open, retention).await
    }

    async fn close(&self, db: &PgPool) -> sqlx::Result<()> {
        let closed = std::mem::take(&mut self.table().closed);
        if closed.is_empty() {
            return Ok(());
        }
        let done = async { notifications::close_streams(&mut *db.acquire().await?, &closed).await }.await;
        if done.is_err() {
            self.table().closed.extend(closed);
        }
        done
    }
}

impl FollowedAccount {
    fn reached(&self, number: i64) {
        self.highest.send_if_modified(|highest| {
            let further = number > *highest;
            *highest = number.max(*highest);
            further
        });
    }
}

async fn number(db: &PgPool, account: AccountId) -> sqlx::Result<Option<i64>> {
    notifications::number(&mut *db.acquire().await?, account).await
}
