//! Number of warm browsers: the size of the largest burst of the last minutes, limited by the free sessions and the free
//! memory.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kitfleet_domain::machine::Memory;

use crate::config::WarmPool;

/// A machine can start few replacements in this time.
const BURST: Duration = Duration::from_secs(2);

/// Time a burst counts.
const REMEMBERED: Duration = Duration::from_mins(5);

/// In bytes. The first warm browser of a machine takes 204 MiB, and each further one 65 to 90 MiB, because they share
/// libraries.
const HOT: u64 = 128 * 1024 * 1024;

/// This fraction of all memory, limited to this number of bytes, is reserved for sessions.
const RESERVED_SHARE: u64 = 8;
const RESERVED_AT_MOST: u64 = 1024 * 1024 * 1024;

#[derive(Debug, Default)]
pub struct DemandHistory {
    /// Of the current burst.
    burst: VecDeque<Instant>,
    /// The largest burst, the largest one after it, and so on, each with the time at which it reached its size.
    largest: VecDeque<(Instant, usize)>,
}

impl DemandHistory {
    pub fn note(&mut self, now: Instant) {
        self.burst.push_back(now);
        drop_while(&mut self.burst, |asked| now.duration_since(*asked) >= BURST);
        let size = self.burst.len();
        // Earlier bursts of at most this size expire first and can be dropped.
        while self.largest.back().is_some_and(|(_, other)| *other <= size) {
            self.largest.pop_back();
        }
        self.largest.push_back((now, size));
    }

    /// Size of the largest recent burst, at least 1 for the next request.
    pub fn largest_burst(&mut self, now: Instant) -> usize {
        drop_while(&mut self.largest, |(then, _)| now.duration_since(*then) >= REMEMBERED);
        self.largest.front().map_or(1, |(_, size)| *size)
    }
}

fn drop_while<T>(queue: &mut VecDeque<T>, is_old: impl Fn(&T) -> bool) {
    while queue.front().is_some_and(&is_old) {
        queue.pop_front();
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WorkerLoad {
    pub hot: usize,
    /// Number of sessions that the worker can still accept.
    pub sessions_left: usize,
    /// `None` when it cannot be read.
    pub memory: Option<Memory>,
}

impl WorkerLoad {
    /// `largest_burst` is the size of the largest burst.
    pub fn target_size(&self, pool: WarmPool, max: usize) -> usize {
        match pool {
            WarmPool::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
            WarmPool::Auto => max.min(self.sessions_left).min(self.count_for_memory()),
        }
    }

    /// That fit into memory. Existing ones stay until less than half of the reserve is free, so that browsers are not started
    /// and ended alternately.
    fn count_for_memory(&self) -> usize {
        let Some(Memory { left, all }) = self.memory else { return 1 };
        let reserved = (all / RESERVED_SHARE).min(RESERVED_AT_MOST);
        let count = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let missing = (reserved / 2).saturating_sub(left);
        if missing > 0 {
            self.hot.saturating_sub(count(missing.div_ceil(HOT)))
        } else {
            self.hot.saturating_add(count(left.saturating_sub(reserved) / HOT))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    proptest! {
        /// A scan of all requests gives the same result.
        #[test]
        fn largest_recent_burst_determines_the_demand(
            gaps in prop::collection::vec(0_u64..4_000, 0..60), later in 0_u64..400_000,
        ) {
            let (mut demand, mut now, mut all) = (DemandHistory::default(), Instant::now(), Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                demand.note(now);
                all.push(now);
            }
            now += Duration::from_millis(later);
            let is_of_burst = |asked: Instant, end: Instant| asked <= end && end.duration_since(asked) < BURST;
            let burst_until = |end: Instant| all.iter().filter(|asked| is_of_burst(**asked, end)).count();
            let remembered = all.iter().filter(|asked| now.duration_since(**asked) < REMEMBERED);
            let expected = remembered.map(|end| burst_until(*end)).max().unwrap_or(1);
            prop_assert_eq!(demand.largest_burst(now), expected);
            prop_assert!(demand.largest.len() <= expected, "one for each size");
        }

        /// Warm browsers never take a session's slot or the reserved memory.
        #[test]
        fn warm_browsers_stay_within_sessions_and_memory(
            hot in 0_usize..40, sessions_left in 0_usize..40, max in 1_usize..40, left in 0_u64..32_768, all in 256_u64..32_768,
        ) {
            let memory = Some(Memory { left: left.min(all) * MIB, all: all * MIB });
            let goal = WorkerLoad { hot, sessions_left, memory }.target_size(WarmPool::Auto, max);
            prop_assert!(goal <= max && goal <= sessions_left);
            let reserved = (all * MIB / RESERVED_SHARE).min(RESERVED_AT_MOST);
            let taken = goal.saturating_sub(hot) as u64 * HOT;
            prop_assert!(goal <= hot || left.min(all) * MIB >= reserved + taken);
        }
    }

    #[test]
    fn bursts_expire_in_order() {
        let (mut demand, start) = (DemandHistory::default(), Instant::now());
        assert_eq!(demand.largest_burst(start), 1, "the next request counts as one");
        let burst = |demand: &mut DemandHistory, after: u64, size| {
            (0..size).for_each(|_| demand.note(start + Duration::from_secs(after)));
        };
        burst(&mut demand, 0, 8);
        burst(&mut demand, 60, 3);
        burst(&mut demand, 120, 5);
        let max = [119, 299, 300, 419, 420].map(|after| demand.largest_burst(start + Duration::from_secs(after)));
        assert_eq!(max, [8, 8, 5, 5, 1]);
    }

    #[test]
    fn fixed_number_ignores_memory_and_unknown_memory_allows_one() {
        let situation = |hot, memory| WorkerLoad { hot, sessions_left: 9, memory };
        let memory = |left| Some(Memory { left: left * MIB, all: 4096 * MIB });
        assert_eq!(situation(0, memory(0)).target_size(WarmPool::Exactly(3), 8), 3);
        assert_eq!(situation(0, None).target_size(WarmPool::Auto, 8), 1);
        // 512 MiB are reserved.
        assert_eq!(situation(2, memory(512 + 3 * 128)).target_size(WarmPool::Auto, 8), 5);
        assert_eq!(situation(4, memory(300)).target_size(WarmPool::Auto, 8), 4, "no browser is started or ended");
        assert_eq!(situation(4, memory(255)).target_size(WarmPool::Auto, 8), 3);
        assert_eq!(situation(4, memory(0)).target_size(WarmPool::Auto, 8), 2);
        assert_eq!(WorkerLoad { hot: 4, sessions_left: 0, memory: memory(4096) }.target_size(WarmPool::Auto, 8), 0);
    }
}
