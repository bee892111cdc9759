//! Wake-ups: telling a process that there is something for it (contract: workers 12).
//!
//! A wake-up says no more than what stands in a row, and that row is looked at now and then whatever anybody was told. So one
//! that is lost costs a look, one that comes twice or late costs nothing, and nobody has to wait until one has arrived. It is
//! sent after what it tells of was committed, never before.
//!
//! A process has one hub, and three ways lead to whoever listens on a channel: memory, when that is this process; Redis, where
//! there is one, which wakes that process and no other; and PostgreSQL, which wakes everybody who listens to anything. The
//! last is the way also when nobody listens at Redis, or Redis does not answer in time. Who listens does so on all three, and
//! all who do in a process share one connection to each.

mod listening;
mod postgres;
mod redis;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::{Client, RedisResult};
use kitfleet_domain::log_throttle::LogThrottle;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use listening::Listeners;

/// Wake-ups that wait for their carrier; more are lost.
const OUTBOX: usize = 4_096;
/// Wake-ups that are sent together.
const BATCH: usize = 256;
/// The least pause between two notifications by PostgreSQL, which wake everybody.
const GATHERED_FOR: Duration = Duration::from_millis(1);
/// How long somebody who wants to hear everything waits for the connection.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);

/// The channel on which `queue` is woken.
pub(crate) fn channel(queue: &str) -> String {
    format!("jobs:{queue}")
}

/// Has whoever serves `queue` look at it, when the transaction commits: for whoever has no hub, or nothing that has to be quick.
pub(crate) async fn wake(conn: &mut PgConnection, queue: &str) -> sqlx::Result<()> {
    notify(conn, &channel(queue), "").await
}

/// Tells whoever listens on a channel of PostgreSQL's, when the transaction commits.
pub(crate) async fn notify(conn: &mut PgConnection, channel: &str, payload: &str) -> sqlx::Result<()> {
    sqlx::query("select pg_notify($1, $2)").bind(channel).bind(payload).execute(conn).await?;
    Ok(())
}

/// How a wake-up was sent.
#[derive(Debug, Clone, Copy)]
pub enum WakeupTransport {
    /// Within the process.
    Memory,
    /// By Redis.
    Redis,
    /// By PostgreSQL.
    Postgres,
    /// Not at all: it was lost.
    None,
}

impl WakeupTransport {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Redis, Self::Postgres, Self::None];

    /// As metrics spell it.
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
        metrics::counter!("service_wakeup_total", "carrier" => self.name()).increment(wakeups);
    }
}

/// Hears what was told on a channel. `None`: something may have been told that nobody heard.
type Listener = Arc<dyn Fn(Option<&str>) + Send + Sync>;

struct WakeUp {
    channel: String,
    payload: String,
}

/// The hub of a process, cheap to clone.
#[derive(Clone)]
pub struct Wakeups(Arc<Hub>);

struct Hub {
    /// How a connection is made that listens.
    listening: PgConnectOptions,
    redis: Option<Client>,
    listeners: Mutex<HashMap<String, Listener>>,
    ears: Mutex<Weak<Listeners>>,
    outbox: mpsc::Sender<WakeUp>,
}

impl Wakeups {
    /// Begins to carry. PostgreSQL is connected to when there is first something that it has to carry, and for `listening` when
    /// somebody listens, by a connection that no pooler takes back.
    ///
    /// # Errors
    /// When the connection to Redis could never be set up. One that is away is no reason.
    pub fn start(db: &PgPool, listening: PgConnectOptions, redis: Option<Client>) -> RedisResult<Self> {
        let publisher = redis.as_ref().map(redis::Publisher::new).transpose()?;
        let (outbox, waiting) = mpsc::channel(OUTBOX);
        tokio::spawn(carry(waiting, publisher, postgres::Notifier::new(db)));
        let (listeners, ears) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Hub { listening, redis, listeners, ears, outbox })))
    }

    /// Tells whoever listens on this channel, if that can be done. It waits for nothing.
    pub fn tell(&self, channel: &str, payload: String) {
        if self.0.hear(channel, Some(&payload)) {
            WakeupTransport::Memory.count(1);
        } else if self.0.outbox.try_send(WakeUp { channel: channel.to_owned(), payload }).is_err() {
            WakeupTransport::None.count(1);
        }
    }

    /// Tells whoever listens on this channel in any process, as [`Self::tell`] does where there is one.
    pub fn tell_all(&self, channel: &str, payload: String) {
        if self.0.hear(channel, Some(&payload)) {
            WakeupTransport::Memory.count(1);
        }
        if self.0.outbox.try_send(WakeUp { channel: channel.to_owned(), payload }).is_err() {
            WakeupTransport::None.count(1);
        }
    }

    /// Has `listener` called with what is told on this channel, until the answer is dropped.
    pub fn listen(&self, channel: String, listener: impl Fn(Option<&str>) + Send + Sync + 'static) -> Listening {
        self.listen_on(HashMap::from([(channel, Arc::new(listener) as Listener)]))
    }

    /// The wake-ups of queues, as long as the first part of the answer lives. From here on none is lost.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn serve(&self, queues: &[&str]) -> sqlx::Result<(Listening, HashMap<String, mpsc::Receiver<()>>)> {
        let (mut listeners, mut receivers) = (HashMap::new(), HashMap::new());
        for queue in queues {
            // One that was not noticed yet says as much as many.
            let (sender, receiver) = mpsc::channel(1);
            let listener: Listener = Arc::new(move |_| {
                let _ = sender.try_send(());
            });
            listeners.insert(channel(queue), listener);
            receivers.insert((*queue).to_owned(), receiver);
        }
        let listening = self.listen_on(listeners);
        let mut standing = listening.ears.standing.clone();
        let all_stand = |standing: &HashSet<String>| listening.channels.is_subset(standing);
        let stands = timeout(LISTENS_WITHIN, standing.wait_for(all_stand)).await;
        stands.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::WorkerCrashed)?;
        Ok((listening, receivers))
    }

    fn listen_on(&self, listeners: HashMap<String, Listener>) -> Listening {
        let channels: HashSet<_> = listeners.keys().cloned().collect();
        self.0.listeners().extend(listeners);
        let ears = Hub::ears(&self.0);
        ears.wanted.send_modify(|wanted| wanted.extend(channels.iter().cloned()));
        Listening { hub: Arc::clone(&self.0), channels, ears }
    }
}

impl Hub {
    fn listeners(&self) -> MutexGuard<'_, HashMap<String, Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what was told on a channel. `false` when nobody listens to it in this process.
    fn hear(&self, channel: &str, payload: Option<&str>) -> bool {
        let listener = self.listeners().get(channel).cloned();
        listener.is_some_and(|listener| {
            listener(payload);
            true
        })
    }

    /// Says that something may have been told that nobody heard.
    fn look(&self, channels: &[String]) {
        for channel in channels {
            self.hear(channel, None);
        }
    }

    /// Those that hear at present, or others, when nobody listened any more.
    fn ears(hub: &Arc<Self>) -> Arc<Listeners> {
        let mut ears = hub.ears.lock().unwrap_or_else(PoisonError::into_inner);
        ears.upgrade().unwrap_or_else(|| {
            let opened = Arc::new(Listeners::open(hub));
            *ears = Arc::downgrade(&opened);
            opened
        })
    }
}

/// Listens until it is dropped.
#[must_use]
pub struct Listening {
    hub: Arc<Hub>,
    channels: HashSet<String>,
    ears: Arc<Listeners>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.hub.listeners().retain(|channel, _| !self.channels.contains(channel));
        self.ears.wanted.send_modify(|wanted| wanted.retain(|channel| !self.channels.contains(channel)));
    }
}

/// Carries wake-ups to other processes, until nobody can tell any more.
async fn carry(mut waiting: mpsc::Receiver<WakeUp>, mut redis: Option<redis::Publisher>, postgres: postgres::Notifier) {
    static LOST: LogThrottle = LogThrottle::new();
    let (mut batch, mut notified) = (Vec::new(), Instant::now());
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        if let Some(redis) = &mut redis {
            batch = redis.publish(batch).await;
            if batch.is_empty() {
                continue;
            }
        } else {
            // At once, when it has been quiet.
            sleep_until(notified + GATHERED_FOR).await;
            while batch.len() < BATCH
                && let Ok(more) = waiting.try_recv()
            {
                batch.push(more);
            }
        }
        let carrier = match postgres.notify(&batch).await {
            Ok(()) => WakeupTransport::Postgres,
            Err(error) => {
                LOST.say(
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
