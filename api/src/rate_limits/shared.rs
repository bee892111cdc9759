//! The counts of all replicas, in Redis: one short script a visit, by Redis's clock.
//!
//! A request waits for Redis no longer than [`ANSWER_WITHIN`]. When that was in vain nobody asks for [`PAUSE`], and then
//! one request tries again: a Redis that is dead, frozen or slow costs one request a second those milliseconds, and the
//! others nothing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::Quota;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, RedisResult, Script};
use tokio::time::timeout;

use super::{Key, Verdict, Visit};

/// What a request may lose to Redis.
const ANSWER_WITHIN: Duration = Duration::from_millis(25);
/// How long a Redis that did not answer is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// When a connection whose other end acknowledges nothing is dead: its machine went away without a word.
const DEAD_AFTER: Duration = Duration::from_secs(5);

pub struct Shared {
    connection: ConnectionManager,
    script: Script,
    breaker: Breaker,
}

impl Shared {
    pub fn new(client: &Client) -> RedisResult<Self> {
        let info = client.get_connection_info().clone();
        let client = Client::open(info.set_tcp_settings(TcpSettings::default().set_user_timeout(DEAD_AFTER)))?;
        let config = ConnectionManagerConfig::new().set_max_delay(PAUSE).set_connection_timeout(Some(DEAD_AFTER));
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        // The manager connects while somebody waits for it, and no request waits for long enough.
        let mut first = connection.clone();
        tokio::spawn(async move { redis::cmd("PING").exec_async(&mut first).await });
        Ok(Self { connection, script: Script::new(include_str!("shared.lua")), breaker: Breaker::default() })
    }

    /// `None` when Redis did not say in time.
    pub async fn visit(&self, bucket: &str, quota: Quota, visit: Visit) -> Option<Verdict> {
        if !self.breaker.lets_through() {
            return None;
        }
        match timeout(ANSWER_WITHIN, self.ask(bucket, quota, visit)).await {
            Ok(Ok(verdict)) => {
                self.breaker.close();
                Some(verdict)
            }
            Ok(Err(error)) => {
                self.breaker.open(&error);
                None
            }
            Err(late) => {
                self.breaker.open(&late);
                None
            }
        }
    }

    async fn ask(&self, bucket: &str, quota: Quota, visit: Visit) -> RedisResult<Verdict> {
        let mut connection = self.connection.clone();
        let fills_in = u64::try_from(quota.burst_size_replenished_in().as_micros()).unwrap_or(u64::MAX);
        let mut call = self.script.key(format!("kitfleet:rate_limits:{bucket}:{}", visit.key.hex()));
        call.arg(quota.burst_size().get()).arg(fills_in).arg(u8::from(visit.takes));
        let (remaining, wait): (u32, u64) = call.invoke_async(&mut connection).await?;
        Ok(match wait {
            0 => Verdict::Within { remaining },
            micros => Verdict::Exceeded { wait: Duration::from_micros(micros) },
        })
    }
}

impl Key {
    fn hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Open while Redis is left alone: until when.
#[derive(Default)]
struct Breaker(Mutex<Option<Instant>>);

impl Breaker {
    /// Closed, or the first to try after a pause.
    fn lets_through(&self) -> bool {
        let mut open_until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = *open_until else { return true };
        let now = Instant::now();
        if now < until {
            return false;
        }
        *open_until = Some(now + PAUSE);
        true
    }

    fn open(&self, reason: &dyn std::error::Error) {
        let mut open_until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open_until.replace(Instant::now() + PAUSE).is_none() {
            tracing::warn!(%reason, "Redis does not answer in time: rate limits are each process's own for now");
        }
    }

    fn close(&self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("Redis answers again: rate limits are shared");
        }
    }
}
