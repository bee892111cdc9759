//! Rate limits (contract: rate-limits).
//!
//! Each [`Bucket`] counts by a [`Key`]: a client's address, a credential, an e-mail address or a code. With Redis, all replicas
//! share the counts ([`shared`]); otherwise, or when Redis does not respond immediately, the counts are those of this process
//! ([`local`]).
//!
//! The [`Bucket::Credential`] limit always stays in the process: it protects the process itself, is generous, and would cost
//! every authenticated request a round trip.

pub mod headers;
mod local;
mod shared;

use std::time::Duration;

use governor::Quota;
use governor::clock::MonotonicClock;
use redis::RedisResult;
use sha2::{Digest, Sha256};

use self::headers::LimitState;
use self::local::Local;
use self::shared::Shared;
use crate::http::error::{Problem, Result};
use crate::http::metrics::{self, LimitOutcome};

pub use crate::http::buckets::{Bucket, RateLimits};

/// Between removals of full buckets.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// As a hash: it is small however long its text is, and neither memory nor Redis reveals addresses and codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 16]);

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(text).into();
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        Self(half)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LimitedRequest {
    key: Key,
    /// False to check only.
    takes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Number of requests that could follow immediately.
    Within { remaining: u32 },
    /// The next request is allowed after `wait`.
    Exceeded { wait: Duration },
}

pub struct RateLimiter {
    quotas: Vec<Quota>,
    local: Vec<Local<MonotonicClock>>,
    shared: Option<Shared>,
}

impl RateLimiter {
    /// # Errors
    pub fn new(limits: &RateLimits, redis: Option<&redis::Client>) -> RedisResult<Self> {
        let quotas: Vec<_> = Bucket::ALL.into_iter().map(|bucket| bucket.quota(limits)).collect();
        let local = quotas.iter().map(|quota| Local::new(*quota, MonotonicClock)).collect();
        Ok(Self { quotas, local, shared: redis.map(Shared::new).transpose()? })
    }

    /// The problem states when the next request is allowed.
    pub async fn check(&self, bucket: Bucket, key: impl Into<Key>) -> Result<()> {
        let verdict = self.visit(bucket, LimitedRequest { key: key.into(), takes: true }).await;
        self.note(bucket, verdict);
        refuse_if_exceeded(bucket, verdict)
    }

    /// In this process alone.
    pub fn check_credential(&self, credential: &str) -> Result<()> {
        let bucket = Bucket::Credential;
        let verdict = self.local[bucket as usize].visit(LimitedRequest { key: credential.into(), takes: true });
        self.note(bucket, verdict);
        refuse_if_exceeded(bucket, verdict)
    }

    /// Checks the count of [`RateLimiter::record`]. The response does not show the count, because other clients may have caused
    /// it.
    pub async fn peek(&self, bucket: Bucket, key: impl Into<Key>) -> Result<()> {
        let verdict = self.visit(bucket, LimitedRequest { key: key.into(), takes: false }).await;
        if let Verdict::Exceeded { .. } = verdict {
            self.note(bucket, verdict);
        }
        refuse_if_exceeded(bucket, verdict)
    }

    /// Counts it when it `takes`. The response reveals nothing about the limit.
    pub async fn is_within(&self, bucket: Bucket, key: impl Into<Key>, takes: bool) -> bool {
        let verdict = self.visit(bucket, LimitedRequest { key: key.into(), takes }).await;
        refuse_if_exceeded(bucket, verdict).is_ok()
    }

    pub async fn record(&self, bucket: Bucket, key: impl Into<Key>) {
        self.visit(bucket, LimitedRequest { key: key.into(), takes: true }).await;
    }

    pub async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.local.iter().for_each(Local::remove_idle);
        }
    }

    async fn visit(&self, bucket: Bucket, visit: LimitedRequest) -> Verdict {
        if let Some(shared) = &self.shared {
            if let Some(verdict) = shared.visit(bucket.label(), self.quotas[bucket as usize], visit).await {
                return verdict;
            }
            metrics::count_limit_fallback(bucket);
        }
        self.local[bucket as usize].visit(visit)
    }

    fn note(&self, bucket: Bucket, verdict: Verdict) {
        headers::note(LimitState::of(self.quotas[bucket as usize], verdict));
    }
}

fn refuse_if_exceeded(bucket: Bucket, verdict: Verdict) -> Result<()> {
    match verdict {
        Verdict::Within { .. } => {
            metrics::count_limit(bucket, LimitOutcome::Allowed);
            Ok(())
        }
        Verdict::Exceeded { wait } => {
            metrics::count_limit(bucket, LimitOutcome::Exceeded);
            Err(Problem::rate_limited_by(bucket.exceeded_message(), wait))
        }
    }
}

/// Rounded up, so that waiting for this long is sufficient.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::http::client::ClientInfo;

    fn client(ip: &str) -> ClientInfo {
        ClientInfo { ip: Some(ip.parse().expect("an address")), user_agent: None }
    }

    fn three_a_minute() -> RateLimiter {
        RateLimiter::new(&RateLimits::default(), None).expect("there is no Redis to fail")
    }

    /// Contract: rate-limits 3.
    #[tokio::test]
    async fn address_can_request_3_mails_a_minute_per_route() {
        let limiter = three_a_minute();
        let (here, there) = (client("192.0.2.1"), client("192.0.2.2"));
        for bucket in [Bucket::SendVerification, Bucket::SendMagicLink, Bucket::SendPasswordReset] {
            for _ in 0..3 {
                limiter.check(bucket, &here).await.expect("within the limit");
            }
            let problem = limiter.check(bucket, &here).await.expect_err("the limit is exceeded");
            assert_eq!((problem.parts().kind.slug, problem.parts().title), ("rate-limited", "RateLimited"));
            limiter.check(bucket, &there).await.expect("another address has its own");
        }
    }

    #[tokio::test]
    async fn ipv6_prefix_counts_as_one_address() {
        let limiter = three_a_minute();
        for ip in ["2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:1::3"] {
            limiter.check(Bucket::SendMagicLink, &client(ip)).await.expect("within the limit");
        }
        limiter.check(Bucket::SendMagicLink, &client("2001:db8:0:1::4")).await.expect_err("the same network");
        limiter.check(Bucket::SendMagicLink, &client("2001:db8:0:2::1")).await.expect("another network");
    }

    #[tokio::test]
    async fn only_recorded_failures_count() {
        let limits =
            RateLimits { login_failures_per_hour: NonZeroU32::new(2).expect("nonzero"), ..RateLimits::default() };
        let limiter = RateLimiter::new(&limits, None).expect("there is no Redis to fail");
        let peek = async || limiter.peek(Bucket::LoginFailures, "ada@example.com").await;
        for _ in 0..2 {
            for _ in 0..5 {
                peek().await.expect("looking takes nothing");
            }
            limiter.record(Bucket::LoginFailures, "ada@example.com").await;
        }
        peek().await.expect_err("there were two failures");
        limiter.peek(Bucket::LoginFailures, "bob@example.com").await.expect("another address");
    }

    #[test]
    fn buckets_are_in_the_order_of_their_numbers() {
        for (index, bucket) in Bucket::ALL.into_iter().enumerate() {
            assert_eq!(bucket as usize, index);
        }
    }

    #[test]
    fn retry_after_is_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(20)), 20);
        assert_eq!(whole_seconds(Duration::from_millis(20_001)), 21);
    }
}
