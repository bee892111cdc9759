//! Counts of this process: one limiter of the governor crate per bucket, in bounded memory.

use std::convert::Infallible;

use governor::clock::{Clock, Reference};
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};

use super::{Key, LimitedRequest, Verdict};

/// Distinct keys of a bucket, about 10 MiB with the map's overhead. During a flood, additional keys share 65,536 counts.
const MAX_KEYS: usize = 200_000;

pub struct Local<C: Clock>(RateLimiter<LimitedRequest, Counts, C, StateInformationMiddleware>);

impl<C: Clock> Local<C> {
    pub fn new(quota: Quota, clock: C) -> Self {
        Self(RateLimiter::new(quota, Counts::default(), clock))
    }

    pub fn visit(&self, visit: LimitedRequest) -> Verdict {
        match self.0.check_key(&visit) {
            Ok(state) => Verdict::Within { remaining: state.remaining_burst_capacity() },
            Err(not_yet) => {
                let (now, then) = (self.0.clock().now(), not_yet.earliest_possible());
                Verdict::Exceeded { wait: then.duration_since(now).into() }
            }
        }
    }

    pub fn remove_idle(&self) {
        self.0.retain_recent();
        self.0.shrink_to_fit();
    }
}

#[derive(Default)]
struct Counts(DashMapStateStore<Key>);

impl Counts {
    fn place_of(&self, key: Key) -> Key {
        if self.0.contains_key(&key) || self.0.len() < MAX_KEYS { key } else { key.folded() }
    }
}

impl Key {
    /// To two bytes.
    fn folded(self) -> Self {
        let mut folded = [0; 16];
        folded[..2].copy_from_slice(&self.0[..2]);
        Self(folded)
    }
}

impl StateStore for Counts {
    type Key = LimitedRequest;

    fn measure_and_replace<T, F, E>(&self, visit: &LimitedRequest, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let key = self.place_of(visit.key);
        if visit.takes {
            return self.0.measure_and_replace(&key, measure);
        }
        // The measurement is the same, but returning an error keeps the map unchanged, and a check adds no key.
        let peek = |state| measure(state).map(|(found, _)| found);
        if !self.0.contains_key(&key) {
            return peek(None);
        }
        match self.0.measure_and_replace(&key, |state| Err::<(Infallible, Nanos), _>(peek(state))) {
            Err(found) => found,
            Ok(never) => match never {},
        }
    }
}

impl ShrinkableKeyedStateStore<LimitedRequest> for Counts {
    fn retain_recent(&self, drop_below: Nanos) {
        self.0.retain_recent(drop_below);
    }

    fn shrink_to_fit(&self) {
        self.0.shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    fn a_minute(requests: u32) -> (Local<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let quota = Quota::per_minute(NonZeroU32::new(requests).expect("nonzero"));
        (Local::new(quota, clock.clone()), clock)
    }

    fn take(key: &str) -> LimitedRequest {
        LimitedRequest { key: key.into(), takes: true }
    }

    #[test]
    fn bucket_starts_full_and_refills_evenly() {
        let (local, clock) = a_minute(3);
        for remaining in [2, 1, 0] {
            assert_eq!(local.visit(take("a")), Verdict::Within { remaining });
        }
        assert_eq!(local.visit(take("a")), Verdict::Exceeded { wait: Duration::from_secs(20) });
        clock.advance(Duration::from_millis(19_999));
        assert_eq!(local.visit(take("a")), Verdict::Exceeded { wait: Duration::from_millis(1) });
        clock.advance(Duration::from_millis(1));
        assert_eq!(local.visit(take("a")), Verdict::Within { remaining: 0 });
        clock.advance(Duration::from_hours(1));
        assert_eq!(local.visit(take("a")), Verdict::Within { remaining: 2 }, "it holds no more than its quota");
    }

    #[test]
    fn full_buckets_are_removed() {
        let (local, clock) = a_minute(3);
        for key in ["a", "b", "b", "b"] {
            local.visit(take(key));
        }
        local.visit(LimitedRequest { key: "c".into(), takes: false });
        assert_eq!(local.0.len(), 2, "looking leaves nothing behind");
        clock.advance(Duration::from_secs(41));
        local.remove_idle();
        assert_eq!(local.0.len(), 1);
        assert_eq!(local.visit(take("b")), Verdict::Within { remaining: 1 });
        clock.advance(Duration::from_mins(2));
        local.remove_idle();
        assert_eq!(local.0.len(), 0);
    }

    #[test]
    fn flood_of_addresses_is_bounded_in_memory_and_still_limited() {
        let (local, clock) = a_minute(1);
        local.visit(take("known"));
        for stranger in 0..MAX_KEYS + 50_000 {
            local.visit(take(&stranger.to_string()));
        }
        assert!(local.0.len() <= MAX_KEYS + 65_536, "{}", local.0.len());
        assert!(matches!(local.visit(take("known")), Verdict::Exceeded { .. }));
        assert!(matches!(local.visit(take("249999")), Verdict::Exceeded { .. }));
        clock.advance(Duration::from_mins(2));
        local.remove_idle();
        assert_eq!(local.0.len(), 0);
    }
}
