//! Redis as transport of wake-ups: publish and subscribe.
//!
//! `PUBLISH` returns the number of receivers. A wake-up without a receiver is sent through PostgreSQL, so a lost subscription
//! does not lose wake-ups.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kitfleet_types::log_throttle::LogThrottle;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, RedisError, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

use super::connections::{ChannelSubscriptions, ConnectionLog};
use super::{Hub, WakeUp, WakeupTransport};

/// Maximum time wake-ups wait for an answer of Redis before PostgreSQL is used.
const ANSWER_WITHIN: Duration = Duration::from_millis(25);
/// A Redis that did not answer is not used for this time.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which a connection is dead if the other machine acknowledges nothing.
const DEAD_AFTER: Duration = Duration::from_secs(5);
/// Time without a message after which the connection is pinged.
const QUIET: Duration = Duration::from_secs(10);

/// The prefix separates Kitfleet from other users of the same Redis.
fn key(channel: &str) -> String {
    format!("kitfleet:wakeups:{channel}")
}

pub(super) struct Publisher {
    connection: ConnectionManager,
    resting_until: Option<Instant>,
}

impl Publisher {
    pub(super) fn new(client: &Client) -> RedisResult<Self> {
        let info = client.get_connection_info().clone();
        let client = Client::open(info.set_tcp_settings(TcpSettings::default().set_user_timeout(DEAD_AFTER)))?;
        let config = ConnectionManagerConfig::new().set_max_delay(PAUSE).set_connection_timeout(Some(DEAD_AFTER));
        let publisher =
            Self { connection: ConnectionManager::new_lazy_with_config(client, config)?, resting_until: None };
        publisher.reach();
        Ok(publisher)
    }

    /// The manager connects only while a request waits, and publishing times out too early for that.
    fn reach(&self) {
        let mut connection = self.connection.clone();
        tokio::spawn(async move { redis::cmd("PING").exec_async(&mut connection).await });
    }

    /// Returns the wake-ups that are not known to have a receiver.
    pub(super) async fn publish(&mut self, wakeups: Vec<WakeUp>) -> Vec<WakeUp> {
        static FAILED: LogThrottle = LogThrottle::new();
        if self.resting_until.is_some_and(|until| Instant::now() < until) {
            return wakeups;
        }
        let mut all = redis::pipe();
        for WakeUp { channel, payload } in &wakeups {
            all.publish(key(channel), payload);
        }
        let reason = match timeout(ANSWER_WITHIN, all.query_async::<Vec<u64>>(&mut self.connection)).await {
            Ok(Ok(counts)) => {
                self.resting_until = None;
                let published = wakeups.len();
                let undelivered = wakeups.into_iter().zip(counts).filter(|(_, receivers)| *receivers == 0);
                let undelivered: Vec<_> = undelivered.map(|(wakeup, _)| wakeup).collect();
                WakeupTransport::Redis.count(published - undelivered.len());
                return undelivered;
            }
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        FAILED.log(|held_back| {
            tracing::warn!(reason, held_back, "Redis does not answer in time: sending wake-ups through PostgreSQL");
        });
        self.resting_until = Some(Instant::now() + PAUSE);
        self.reach();
        wakeups
    }
}

pub(super) async fn listen(hub: Arc<Hub>, client: Client, mut wanted: watch::Receiver<HashSet<String>>) {
    let line = ConnectionLog::new("Redis subscription failed: receiving wake-ups through PostgreSQL");
    loop {
        if let Err(error) = listen_on_one_connection(&hub, &client, &mut wanted, &line).await {
            line.is_lost(&error);
        }
        sleep(PAUSE).await;
    }
}

async fn listen_on_one_connection(
    hub: &Hub,
    client: &Client,
    wanted: &mut watch::Receiver<HashSet<String>>,
    line: &ConnectionLog,
) -> RedisResult<()> {
    let keys = |channels: &[String]| -> Vec<_> { channels.iter().map(|channel| key(channel)).collect() };
    let late = |late: Elapsed| RedisError::from(io::Error::from(late));
    let connected = timeout(DEAD_AFTER, client.get_async_pubsub()).await;
    let (mut sink, mut messages) = connected.map_err(late)??.split();
    line.note_connected();
    let mut subscribed = ChannelSubscriptions::default();
    wanted.mark_changed();
    loop {
        tokio::select! {
            Ok(()) = wanted.changed() => {
                let (added, removed) = subscribed.become_as(&wanted.borrow_and_update());
                if !added.is_empty() {
                    timeout(DEAD_AFTER, sink.subscribe(keys(&added))).await.map_err(late)??;
                }
                if !removed.is_empty() {
                    timeout(DEAD_AFTER, sink.unsubscribe(keys(&removed))).await.map_err(late)??;
                }
                hub.notify_missed(&added);
            }
            message = timeout(QUIET, messages.next()) => match message {
                Ok(Some(message)) => {
                    // Messages of other channels, or that are not text, come from other users of this Redis.
                    if let (Some(channel), Ok(payload)) =
                        (message.get_channel_name().strip_prefix(&key("")), message.get_payload::<String>())
                    {
                        hub.dispatch(channel, Some(&payload));
                    }
                }
                Ok(None) => return Ok(()),
                Err(_) => drop(timeout(DEAD_AFTER, sink.ping::<Value>()).await.map_err(late)??),
            },
        }
    }
}
