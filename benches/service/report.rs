//! Samples, and the printed table.

use std::time::Duration;

#[derive(Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index into a few thousand samples"
        )]
        let index = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
        sorted.get(index).map_or(f64::NAN, |sample| sample.as_secs_f64() * 1e3)
    }
}

pub fn heading(title: &str) {
    println!("\n{title}\n{:<44} {:>8} {:>8} {:>8} {:>8} {:>6}  bound", "", "min", "median", "p99", "max", "n");
}

/// In milliseconds, with optional bounds of the median and of the p99.
pub fn durations(name: &str, samples: &Samples, median_bound: Option<f64>, p99_bound: Option<f64>) {
    let (median, p99) = (samples.quantile(0.5), samples.quantile(0.99));
    let verdict = |figure: f64, bound: f64| if figure <= bound { "ok" } else { "MISSED" };
    let judge = |name: &str, figure: f64, bound: f64| format!("{name} ≤ {bound} ms: {}", verdict(figure, bound));
    let bounds: Vec<_> = [("median", median, median_bound), ("p99", p99, p99_bound)]
        .into_iter()
        .filter_map(|(name, figure, bound)| Some(judge(name, figure, bound?)))
        .collect();
    println!(
        "{name:<44} {:>8.2} {median:>8.2} {p99:>8.2} {:>8.2} {:>6}  {bounds}",
        samples.quantile(0.0),
        samples.quantile(1.0),
        samples.len(),
        bounds = bounds.join(", "),
    );
}

/// With its bound.
pub fn figure(name: &str, value: f64, unit: &str, bound: &str, holds: bool) {
    println!("{name:<44} {value:>8.1} {unit:<28} {bound}: {}", if holds { "ok" } else { "MISSED" });
}
