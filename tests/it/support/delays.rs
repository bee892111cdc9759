//! Durations of a repeated action.

use std::fmt;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Delays(Vec<Duration>);

impl Delays {
    pub async fn of<T>(&mut self, done: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = done.await;
        self.0.push(began.elapsed());
        answer
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let quantile = |percent: usize| sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)));
        let [median, late, longest] = [50, 99, 100].map(|percent| quantile(percent).copied().unwrap_or_default());
        write!(f, "median {median:.1?}, p99 {late:.1?}, longest {longest:.1?} of {}", sorted.len())
    }
}
