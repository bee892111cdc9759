//! How many browsers are to be hot: as many as the largest burst of the last minutes asked for, as far as there are sessions left
//! to take them and memory to hold them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kitfleet_domain::machine::Memory;

use crate::config::WarmPool;

/// Browsers that are asked for within so long of each other are one burst: no machine starts many others meanwhile.
const BURST: Duration = Duration::from_secs(2);

/// How long a burst is remembered.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Memory that a hot browser takes, in bytes: the first of a machine 204 MiB, and others 65 to 90, because they share libraries.
const HOT: u64 = 128 * 1024 * 1024;

/// What stays free of all memory for what sessions take besides: this part of it, and no more than so many bytes.
const RESERVED_SHARE: u64 = 8;
const RESERVED_AT_MOST: u64 = 1024 * 1024 * 1024;

/// Remembers when browsers were asked for.
#[derive(Debug, Default)]
pub struct DemandHistory {
    /// Those of the burst under way.
    burst: VecDeque<Instant>,
    /// The largest burst, the largest since that one, and so on, each with the moment at which it had become so large.
    largest: VecDeque<(Instant, usize)>,
}

impl DemandHistory {
    /// A browser is asked for.
    pub fn note(&mut self, now: Instant) {
        self.burst.push_back(now);
        drop_while(&mut self.burst, |asked| now.duration_since(*asked) >= BURST);
        let size = self.burst.len();
        // Whoever came before and asked for no more is forgotten first in any case.
        while self.largest.back().is_some_and(|(_, other)| *other <= size) {
            self.largest.pop_back();
        }
        self.largest.push_back((now, size));
    }

    /// How many the largest burst asked for. The next customer is a burst of one.
    pub fn most(&mut self, now: Instant) -> usize {
        drop_while(&mut self.largest, |(then, _)| now.duration_since(*then) >= REMEMBERED);
        self.largest.front().map_or(1, |(_, size)| *size)
    }
}

fn drop_while<T>(queue: &mut VecDeque<T>, is_old: impl Fn(&T) -> bool) {
    while queue.front().is_some_and(&is_old) {
        queue.pop_front();
    }
}

/// What there is of a worker at one moment.
#[derive(Debug, Clone, Copy)]
pub struct WorkerLoad {
    /// Browsers that are hot.
    pub hot: usize,
    /// Sessions that can still come.
    pub sessions_left: usize,
    /// What the machine has; `None` when it does not say.
    pub memory: Option<Memory>,
}

impl WorkerLoad {
    /// How many browsers are to be hot, of which the largest burst has asked for `most`.
    pub fn goal(&self, pool: WarmPool, most: usize) -> usize {
        match pool {
            WarmPool::Exactly(count) => usize::try_from(count).unwrap_or(usize::MAX),
            WarmPool::Auto => most.min(self.sessions_left).min(self.bearable()),
        }
    }

    /// How many memory can hold. Those that are there stay until half of what is reserved is gone, so that none is started and
    /// ended by turns.
    fn bearable(&self) -> usize {
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
        /// What is remembered says the same as looking at everything that was ever asked for.
        #[test]
        fn the_largest_burst_of_the_last_minutes_counts(
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
            prop_assert_eq!(demand.most(now), expected);
            prop_assert!(demand.largest.len() <= expected, "one for each size");
        }

        /// Hot browsers leave sessions their slots and their memory, and never make room for others of their own kind.
        #[test]
        fn hot_browsers_never_take_more_than_there_is(
            hot in 0_usize..40, sessions_left in 0_usize..40, most in 1_usize..40, left in 0_u64..32_768, all in 256_u64..32_768,
        ) {
            let memory = Some(Memory { left: left.min(all) * MIB, all: all * MIB });
            let goal = WorkerLoad { hot, sessions_left, memory }.goal(WarmPool::Auto, most);
            prop_assert!(goal <= most && goal <= sessions_left);
            let reserved = (all * MIB / RESERVED_SHARE).min(RESERVED_AT_MOST);
            let taken = goal.saturating_sub(hot) as u64 * HOT;
            prop_assert!(goal <= hot || left.min(all) * MIB >= reserved + taken);
        }
    }

    #[test]
    fn bursts_are_forgotten_one_after_the_other() {
        let (mut demand, start) = (DemandHistory::default(), Instant::now());
        assert_eq!(demand.most(start), 1, "somebody will come");
        let burst = |demand: &mut DemandHistory, after: u64, size| {
            (0..size).for_each(|_| demand.note(start + Duration::from_secs(after)));
        };
        burst(&mut demand, 0, 8);
        burst(&mut demand, 60, 3);
        burst(&mut demand, 120, 5);
        let most = [119, 299, 300, 419, 420].map(|after| demand.most(start + Duration::from_secs(after)));
        assert_eq!(most, [8, 8, 5, 5, 1]);
    }

    #[test]
    fn a_number_is_kept_whatever_happens_and_what_is_unknown_is_not_spent() {
        let situation = |hot, memory| WorkerLoad { hot, sessions_left: 9, memory };
        let memory = |left| Some(Memory { left: left * MIB, all: 4096 * MIB });
        assert_eq!(situation(0, memory(0)).goal(WarmPool::Exactly(3), 8), 3);
        assert_eq!(situation(0, None).goal(WarmPool::Auto, 8), 1);
        // A half of a gigabyte is reserved.
        assert_eq!(situation(2, memory(512 + 3 * 128)).goal(WarmPool::Auto, 8), 5);
        assert_eq!(situation(4, memory(300)).goal(WarmPool::Auto, 8), 4, "none starts, and none ends");
        assert_eq!(situation(4, memory(255)).goal(WarmPool::Auto, 8), 3);
        assert_eq!(situation(4, memory(0)).goal(WarmPool::Auto, 8), 2);
        assert_eq!(WorkerLoad { hot: 4, sessions_left: 0, memory: memory(4096) }.goal(WarmPool::Auto, 8), 0);
    }
}
