//! Who follows what happens, in this process (contract: notifications).
//!
//! One task a process hears that accounts have notifications, has them numbered, and says how far they have come to the streams of the
//! account, which read for themselves, as fast as their clients take it. So a client that takes nothing costs what it has not read
//! nowhere, and what is said twice costs nothing. What was told to nobody is found by a look at all accounts that are followed here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kitfleet_domain::ids::{AccountId, NotificationStreamId};
use kitfleet_domain::notifications::{self, CHANNEL, STREAM_LEASE, Settings};
use kitfleet_domain::seldom::Seldom;
use kitfleet_jobs::wakeups::Wakeups;
use sqlx::PgPool;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often accounts are looked at of which nobody was told anything.
const LOOK: Duration = Duration::from_millis(500);
/// Accounts whose notifications are numbered at once.
const AT_ONCE: usize = 8;

/// The streams of this process.
#[derive(Default)]
pub struct Streams {
    here: Arc<Here>,
    ended: CancellationToken,
}

#[derive(Default)]
struct Here {
    table: Mutex<Table>,
    /// There is something to do: an account was told of, or a stream came or went.
    changed: Notify,
}

#[derive(Default)]
struct Table {
    accounts: HashMap<AccountId, Followed>,
    /// Streams that are closed, and whose rows say that they are open.
    closed: Vec<NotificationStreamId>,
}

struct Followed {
    /// The highest number that was given.
    highest: watch::Sender<i64>,
    streams: Vec<NotificationStreamId>,
    /// Whether it may have notifications without a number.
    told: bool,
}

/// A stream's place here, which is closed when this is dropped.
pub struct Follower {
    here: Arc<Here>,
    account: AccountId,
    id: NotificationStreamId,
    /// How far the account's notifications have come.
    pub highest: watch::Receiver<i64>,
    /// When this process takes no more part.
    pub ended: CancellationToken,
}

impl Drop for Follower {
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
    /// Takes part in what is told of the account, for a stream whose row was written. It may have come further than `highest` by now,
    /// so that it is looked at.
    pub fn enter(&self, account: AccountId, id: NotificationStreamId, highest: i64) -> Follower {
        let mut table = self.here.table();
        let new = || Followed { highest: watch::Sender::new(highest), streams: Vec::new(), told: false };
        let followed = table.accounts.entry(account).or_insert_with(new);
        followed.streams.push(id);
        followed.told = true;
        let highest = followed.highest.subscribe();
        drop(table);
        self.here.changed.notify_one();
        Follower { here: Arc::clone(&self.here), account, id, highest, ended: self.ended.clone() }
    }

    /// Ends all streams, and those that are opened after this.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Serves the streams, until `end`. Nobody listens while there is none.
    pub async fn follow(&self, db: &PgPool, wakeups: &Wakeups, settings: Settings, end: &CancellationToken) {
        while end.run_until_cancelled(self.here.changed.notified()).await.is_some() {
            let here = Arc::clone(&self.here);
            let _listening = wakeups.listen(CHANNEL.to_owned(), move |told| here.note(told));
            self.here.serve(db, settings, end).await;
        }
        if let Err(error) = self.here.close(db).await {
            tracing::debug!(%error, "cannot close notification streams: they stay open until their lease expires");
        }
    }
}

impl Here {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        let table = self.table();
        table.accounts.is_empty() && table.closed.is_empty()
    }

    /// Serves the streams that are open, and closes them, until there is none or it is the end.
    async fn serve(&self, db: &PgPool, settings: Settings, end: &CancellationToken) {
        static FAILED: Seldom = Seldom::new();
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = Instant::now();
        while !self.is_idle() {
            let served = tokio::select! {
                () = end.cancelled() => return,
                () = self.changed.notified() => Ok(()),
                _ = look.tick() => self.look(db).await,
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
                FAILED.say(|held_back| tracing::warn!(%error, held_back, "cannot serve notification streams"));
            }
            self.number(db).await;
        }
    }

    /// Notes what was told on the channel; `None`: anything.
    fn note(&self, told: Option<&str>) {
        let mut table = self.table();
        let followed: Vec<_> = match told.map(Uuid::try_parse) {
            Some(told) => told.ok().and_then(|told| table.accounts.get_mut(&told.into())).into_iter().collect(),
            None => table.accounts.values_mut().collect(),
        };
        if followed.is_empty() {
            return;
        }
        for followed in followed {
            followed.told = true;
        }
        drop(table);
        self.changed.notify_one();
    }

    /// Looks at all accounts that are followed.
    async fn look(&self, db: &PgPool) -> sqlx::Result<()> {
        let accounts: Vec<_> = self.table().accounts.keys().copied().collect();
        if accounts.is_empty() {
            return Ok(());
        }
        let progress = notifications::progress(&mut *db.acquire().await?, &accounts).await?;
        let mut table = self.table();
        for found in progress {
            if let Some(followed) = table.accounts.get_mut(&found.account) {
                followed.told |= found.waiting;
                followed.reached(found.highest);
            }
        }
        Ok(())
    }

    /// Has the notifications numbered of those that were told of.
    async fn number(&self, db: &PgPool) {
        static FAILED: Seldom = Seldom::new();
        let told =
            |(account, followed): (&AccountId, &mut Followed)| std::mem::take(&mut followed.told).then_some(*account);
        let told: Vec<_> = self.table().accounts.iter_mut().filter_map(told).collect();
        let number = async |account| match number(db, account).await {
            Ok(highest) => {
                if let Some(followed) = self.table().accounts.get_mut(&account) {
                    followed.reached(highest.unwrap_or_default());
                }
            }
            // The next look finds it again.
            Err(error) => {
                FAILED.say(|held_back| tracing::warn!(%error, held_back, "cannot number notifications"));
            }
        };
        stream::iter(told).for_each_concurrent(AT_ONCE, number).await;
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

impl Followed {
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
