//! Counts of all replicas in Redis: one short script per check, by the clock of Redis.
//!
//! A request waits for Redis at most [`ANSWER_WITHIN`]. After a timeout, Redis is not used for [`PAUSE`]; then one request
//! tries again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use governor::Quota;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, RedisResult, Script};
use tokio::time::timeout;

use super::{Key, LimitedRequest, Verdict};

/// For Redis.
const ANSWER_WITHIN: Duration = Duration::from_millis(25);
/// After Redis did not respond.
const PAUSE: Duration = Duration::from_secs(1);
/// An unacknowledged connection then counts as dead: its machine went away silently.
const DEAD_AFTER: Duration = Duration::from_secs(5);

pub struct Shared {
    connection: ConnectionManager,
    script: Script,
    breaker: Breaker,
    patience: Duration,
}

impl Shared {
    pub fn new(client: &Client) -> RedisResult<Self> {
        let info = client.get_connection_info().clone();
        let client = Client::open(info.set_tcp_settings(TcpSettings::default().set_user_timeout(DEAD_AFTER)))?;
        let config = ConnectionManagerConfig::new().set_max_delay(PAUSE).set_connection_timeout(Some(DEAD_AFTER));
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        // The manager connects only while a caller waits, and requests do not wait long enough.
        let mut first = connection.clone();
        tokio::spawn(async move { redis::cmd("PING").exec_async(&mut first).await });
        let script = Script::new(include_str!("shared.lua"));
        Ok(Self { connection, script, breaker: Breaker::default(), patience: ANSWER_WITHIN })
    }

    /// `None` when Redis did not respond in time.
    pub async fn visit(&self, bucket: &str, quota: Quota, visit: LimitedRequest) -> Option<Verdict> {
        if !self.breaker.allows_attempt() {
            return None;
        }
        match timeout(self.patience, self.ask(bucket, quota, visit)).await {
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

    async fn ask(&self, bucket: &str, quota: Quota, visit: LimitedRequest) -> RedisResult<Verdict> {
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

/// Open until the stored time.
#[derive(Default)]
struct Breaker(Mutex<Option<Instant>>);

impl Breaker {
    /// Closed, or the first attempt after a pause.
    fn allows_attempt(&self) -> bool {
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
            tracing::warn!(%reason, "Redis does not answer in time: each process counts rate limits on its own");
        }
    }

    fn close(&self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!("Redis answers again: processes share rate limits");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::num::NonZeroU32;
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::super::{Bucket, RateLimiter, RateLimits};
    use super::*;
    use crate::http::metrics;

    /// With a margin for a busy machine.
    const AT_ONCE: Duration = Duration::from_millis(200);
    /// For a healthy Redis on a busy machine.
    const PATIENT: Duration = Duration::from_secs(5);

    struct Redis {
        port: u16,
        process: Child,
    }

    impl Redis {
        fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("an address").port();
            drop(listener);
            Self { port, process: Self::spawn(port) }
        }

        fn spawn(port: u16) -> Child {
            let mut command = Command::new("redis-server");
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.stdout(Stdio::null()).spawn().expect("ops/setup installs redis-server")
        }

        /// Like that of a replica: two recorded failures per hour.
        fn limiter(&self) -> RateLimiter {
            let two = NonZeroU32::new(2).expect("nonzero");
            let limits = RateLimits { login_failures_per_hour: two, signup_per_minute: two, ..RateLimits::default() };
            let client = Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a URL");
            let mut limiter = RateLimiter::new(&limits, Some(&client)).expect("a limiter");
            set_timeout(&mut limiter, PATIENT);
            limiter
        }

        fn signal(&self, signal: Signal) {
            kill_process(Pid::from_child(&self.process), signal).expect("it runs");
        }

        fn kill(&mut self) {
            self.process.kill().expect("it runs");
            self.process.wait().expect("it is ours");
        }
    }

    impl Drop for Redis {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    fn set_timeout(limiter: &mut RateLimiter, patience: Duration) {
        limiter.shared.as_mut().expect("a Redis").patience = patience;
    }

    async fn connected(limiter: &RateLimiter) {
        let shared = limiter.shared.as_ref().expect("a Redis");
        let quota = Quota::per_minute(NonZeroU32::MIN);
        let visit = LimitedRequest { key: "anybody".into(), takes: false };
        let answers = async {
            while shared.visit("test", quota, visit).await.is_none() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), answers).await.expect("Redis answers");
    }

    /// As often as the local limit allows. Redis delays no check.
    async fn works_without_redis(limiter: &mut RateLimiter, email: &str) {
        set_timeout(limiter, ANSWER_WITHIN);
        let before = fallbacks();
        for _ in 0..2 {
            let asked = Instant::now();
            limiter.peek(Bucket::LoginFailures, email).await.expect("this process knows of none");
            limiter.record(Bucket::LoginFailures, email).await;
            assert!(asked.elapsed() < 2 * AT_ONCE, "{:?}", asked.elapsed());
        }
        limiter.peek(Bucket::LoginFailures, email).await.expect_err("two failures are too many here, too");
        assert_eq!(fallbacks() - before, 5);
        set_timeout(limiter, PATIENT);
    }

    fn fallbacks() -> u64 {
        let text = metrics::install(&[]).expect("the recorder is ours").render();
        let series = r#"service_rate_limit_store_fallback_total{limiter="login_failures"} "#;
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.parse().ok())
            .expect("the series is there from the start")
    }

    /// Contract: rate-limits 8. A frozen or dead Redis neither fails nor delays requests, and fallbacks are counted.
    #[tokio::test]
    async fn replicas_share_a_limit_until_redis_is_down() {
        let mut redis = Redis::start();
        let (mut one, other) = (redis.limiter(), redis.limiter());
        metrics::install(&[]).expect("the recorder is ours");
        connected(&one).await;
        connected(&other).await;

        one.record(Bucket::LoginFailures, "ada").await;
        other.record(Bucket::LoginFailures, "ada").await;
        for limiter in [&one, &other] {
            limiter.peek(Bucket::LoginFailures, "ada").await.expect_err("two failures, one at each");
            limiter.peek(Bucket::LoginFailures, "bob").await.expect("somebody else has none");
        }
        assert_eq!(fallbacks(), 0);

        redis.signal(Signal::STOP);
        works_without_redis(&mut one, "frozen").await;
        redis.signal(Signal::CONT);
        connected(&one).await;
        one.peek(Bucket::LoginFailures, "ada").await.expect_err("Redis knows both failures still");

        redis.kill();
        works_without_redis(&mut one, "dead").await;
        redis.process = Redis::spawn(redis.port);
        connected(&one).await;
        connected(&other).await;
        one.record(Bucket::LoginFailures, "eve").await;
        other.record(Bucket::LoginFailures, "eve").await;
        one.peek(Bucket::LoginFailures, "eve").await.expect_err("they share again");
    }

    #[tokio::test]
    async fn redis_script_refills_the_bucket_evenly() {
        let redis = Redis::start();
        let limiter = redis.limiter();
        connected(&limiter).await;
        let shared = limiter.shared.as_ref().expect("a Redis");
        let ask = async |bucket: &str, each: Duration, takes| {
            let quota = Quota::with_period(each).expect("a quota").allow_burst(NonZeroU32::new(3).expect("some"));
            shared.visit(bucket, quota, LimitedRequest { key: "a".into(), takes }).await.expect("an answer")
        };

        let each = Duration::from_mins(20);
        assert_eq!(ask("slow", each, false).await, Verdict::Within { remaining: 3 });
        for remaining in [2, 1, 0] {
            assert_eq!(ask("slow", each, true).await, Verdict::Within { remaining });
        }
        for takes in [true, false, true] {
            let Verdict::Exceeded { wait } = ask("slow", each, takes).await else { panic!("it is empty") };
            assert!(wait <= each && wait > Duration::from_mins(19), "{wait:?}");
        }

        let each = Duration::from_millis(100);
        ask("fast", each, true).await;
        let fills_up = async { while ask("fast", each, false).await != (Verdict::Within { remaining: 3 }) {} };
        timeout(Duration::from_secs(20), fills_up).await.expect("it is full again");
        assert_eq!(ask("fast", each, true).await, Verdict::Within { remaining: 2 }, "it holds no more than its quota");
    }
}
