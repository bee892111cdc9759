//! Wake-ups: messages that tell a process to look at its rows (contract: workers 12).
//!
//! A wake-up carries nothing that a row does not contain, and rows are polled in any case: a lost wake-up delays work
//! until the next poll, and a duplicate or late one is harmless. The sender never waits for delivery, and sends after
//! the commit of the change.
//!
//! Each process has one hub, with three transports to the listeners of a channel:
//!
//! - memory, if the listener is in this process;
//! - Redis, if it is configured, which wakes only the process that subscribes to the channel;
//! - PostgreSQL, which wakes every listening process. It is used without Redis, if no client subscribes at Redis, or if Redis
//!   does not answer in time.
//!
//! A listener uses all three. The listeners of a process share one connection per transport.

mod connections;
mod listening;
mod postgres;
mod redis;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::{Client, RedisResult};
use kitfleet_domain::metrics::Counter;
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use listening::Listeners;

pub(crate) const WAKEUPS: Counter<1> =
    Counter::new("service_wakeup_total", "Wake-ups sent to processes, by carrier.", ["carrier"])
        .starting_with(|| WakeupTransport::ALL.map(|carrier| [carrier.name()]).into());

/// Further wake-ups are dropped.
const OUTBOX: usize = 4_096;
const BATCH: usize = 256;
/// Notifications through PostgreSQL wake every listening process.
const BATCH_DELAY: Duration = Duration::from_millis(1);
/// Maximum time [`Wakeups::serve`] waits until PostgreSQL listens to its channels.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn channel(queue: &str) -> String {
    format!("jobs:{queue}")
}

/// Wakes the server of `queue` when the transaction commits. For callers without a hub, or whose wake-up is not urgent.
pub(crate) async fn wake(conn: &mut PgConnection, queue: &str) -> sqlx::Result<()> {
    notify(conn, &channel(queue), "").await
}

pub(crate) async fn notify(conn: &mut PgConnection, channel: &str, payload: &str) -> sqlx::Result<()> {
    sqlx::query("select pg_notify($1, $2)").bind(channel).bind(payload).execute(conn).await?;
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub enum WakeupTransport {
    Memory,
    Redis,
    Postgres,
    None,
}

impl WakeupTransport {
    pub const ALL: [Self; 4] = [Self::Memory, Self::Redis, Self::Postgres, Self::None];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::None => "none",
        }
    }

    fn count(self, wakeups: usize) {
        let wakeups = u64::try_from(wakeups).unwrap_or(u64::MAX);
        WAKEUPS.with([self.name()]).increment(wakeups);
    }
}

/// `None`: messages may have been lost.
type Listener = Arc<dyn Fn(Option<&str>) + Send + Sync>;

struct WakeUp {
    channel: String,
    payload: String,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Wakeups(Arc<Hub>);

struct Hub {
    listening: PgConnectOptions,
    redis: Option<Client>,
    listeners: Mutex<HashMap<String, Listener>>,
    shared_listeners: Mutex<Weak<Listeners>>,
    outbox: mpsc::Sender<WakeUp>,
}

impl Wakeups {
    /// Connects to PostgreSQL when the first wake-up needs it. Opens a `listening` connection, which must bypass a
    /// connection pooler, when the first listener registers.
    ///
    /// An unreachable Redis is not an error.
    pub fn start(db: &PgPool, listening: PgConnectOptions, redis: Option<Client>) -> RedisResult<Self> {
        let publisher = redis.as_ref().map(redis::Publisher::new).transpose()?;
        let (outbox, waiting) = mpsc::channel(OUTBOX);
        tokio::spawn(forward(waiting, publisher, postgres::Notifier::new(db)));
        let (listeners, shared_listeners) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Hub { listening, redis, listeners, shared_listeners, outbox })))
    }

    /// Drops the wake-up if the outbox is full. Never waits.
    pub fn send(&self, channel: &str, payload: String) {
        if self.0.dispatch(channel, Some(&payload)) {
            WakeupTransport::Memory.count(1);
        } else if self.0.outbox.try_send(WakeUp { channel: channel.to_owned(), payload }).is_err() {
            WakeupTransport::None.count(1);
        }
    }

    /// Sends a wake-up to the listeners of this channel in every process. Like [`Self::send`], it never waits.
    pub fn broadcast(&self, channel: &str, payload: String) {
        if self.0.dispatch(channel, Some(&payload)) {
            WakeupTransport::Memory.count(1);
        }
        if self.0.outbox.try_send(WakeUp { channel: channel.to_owned(), payload }).is_err() {
            WakeupTransport::None.count(1);
        }
    }

    /// Calls `listener` with each message of this channel until the returned guard is dropped.
    pub fn listen(&self, channel: String, listener: impl Fn(Option<&str>) + Send + Sync + 'static) -> Listening {
        self.listen_on(HashMap::from([(channel, Arc::new(listener) as Listener)]))
    }

    /// No wake-up is lost after this returns, until the guard is dropped.
    pub async fn serve(&self, queues: &[&str]) -> sqlx::Result<(Listening, HashMap<String, mpsc::Receiver<()>>)> {
        let (mut listeners, mut receivers) = (HashMap::new(), HashMap::new());
        for queue in queues {
            // A capacity of 1 is enough: one pending wake-up has the same effect as many.
            let (sender, receiver) = mpsc::channel(1);
            let listener: Listener = Arc::new(move |_| {
                let _ = sender.try_send(());
            });
            listeners.insert(channel(queue), listener);
            receivers.insert((*queue).to_owned(), receiver);
        }
        let listening = self.listen_on(listeners);
        let mut subscribed_channels = listening.shared_listeners.subscribed_channels.clone();
        let includes_all = |subscribed_channels: &HashSet<String>| listening.channels.is_subset(subscribed_channels);
        let subscribed = timeout(LISTENS_WITHIN, subscribed_channels.wait_for(includes_all)).await;
        subscribed.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::WorkerCrashed)?;
        Ok((listening, receivers))
    }

    fn listen_on(&self, listeners: HashMap<String, Listener>) -> Listening {
        let channels: HashSet<_> = listeners.keys().cloned().collect();
        self.0.listeners().extend(listeners);
        let shared_listeners = Hub::shared_listeners(&self.0);
        shared_listeners.wanted.send_modify(|wanted| wanted.extend(channels.iter().cloned()));
        Listening { hub: Arc::clone(&self.0), channels, shared_listeners }
    }
}

impl Hub {
    fn listeners(&self) -> MutexGuard<'_, HashMap<String, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dispatch(&self, channel: &str, payload: Option<&str>) -> bool {
        let listener = self.listeners().get(channel).cloned();
        listener.is_some_and(|listener| {
            listener(payload);
            true
        })
    }

    /// Calls the listeners without a payload, because messages may have been lost.
    fn notify_missed(&self, channels: &[String]) {
        for channel in channels {
            self.dispatch(channel, None);
        }
    }

    fn shared_listeners(hub: &Arc<Self>) -> Arc<Listeners> {
        let mut shared_listeners = hub.shared_listeners.lock().unwrap_or_else(PoisonError::into_inner);
        shared_listeners.upgrade().unwrap_or_else(|| {
            let opened = Arc::new(Listeners::open(hub));
            *shared_listeners = Arc::downgrade(&opened);
            opened
        })
    }
}

#[must_use]
pub struct Listening {
    hub: Arc<Hub>,
    channels: HashSet<String>,
    shared_listeners: Arc<Listeners>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.listeners().retain(|channel, _| !self.channels.contains(channel));
        self.shared_listeners.wanted.send_modify(|wanted| wanted.retain(|channel| !self.channels.contains(channel)));
    }
}

/// Sends wake-ups to other processes until the hub is dropped.
async fn forward(
    mut waiting: mpsc::Receiver<WakeUp>,
    mut redis: Option<redis::Publisher>,
    postgres: postgres::Notifier,
) {
    static LOST: LogThrottle = LogThrottle::new();
    let (mut batch, mut notified) = (Vec::new(), Instant::now());
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        if let Some(redis) = &mut redis {
            batch = redis.publish(batch).await;
            if batch.is_empty() {
                continue;
            }
        } else {
            // Sends immediately unless a notification was sent within the interval.
            sleep_until(notified + BATCH_DELAY).await;
            while batch.len() < BATCH
                && let Ok(more) = waiting.try_recv()
            {
                batch.push(more);
            }
        }
        let carrier = match postgres.notify(&batch).await {
            Ok(()) => WakeupTransport::Postgres,
            Err(error) => {
                LOST.log(
                    |held_back| tracing::warn!(%error, held_back, "cannot send wake-ups: recipients fall back to polling"),
                );
                WakeupTransport::None
            }
        };
        carrier.count(batch.len());
        batch.clear();
        notified = Instant::now();
    }
}
