use serde::Serialize;

/// Token counts of a request by price category. Each token counts in exactly one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Neither read from the cache nor written to it.
    pub input: u32,
    /// Includes reasoning.
    pub output: u32,
    pub cache_write: u32,
    pub cache_read: u32,
}

impl Usage {
    /// Counts against a budget.
    #[must_use]
    pub fn total(self) -> u64 {
        [self.input, self.output, self.cache_write, self.cache_read].map(u64::from).iter().sum()
    }
}

/// Cents per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    pub input: f64,
    pub output: f64,
    pub cache_write: f64,
    pub cache_read: f64,
}

/// Cost in cents, with fractions: a request seldom costs a whole cent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Cost(f64);

impl Cost {
    /// Cost in cents, rounded to a ten-thousandth.
    #[must_use]
    pub fn cents(self) -> f64 {
        self.0
    }
}

impl Prices {
    #[must_use]
    pub fn cost(&self, usage: Usage) -> Cost {
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_write, self.cache_write),
            (usage.cache_read, self.cache_read),
        ];
        let cents: f64 = parts.iter().map(|(tokens, price)| f64::from(*tokens) * price / 1e6).sum();
        Cost((cents * 1e4).round() / 1e4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: byok 15.
    #[test]
    fn tokens_are_charged_by_category() {
        let prices = Prices { input: 300.0, output: 1_500.0, cache_write: 375.0, cache_read: 30.0 };
        let usage = Usage { input: 1_000, output: 200, cache_write: 2_000, cache_read: 10_000 };
        assert_eq!(usage.total(), 13_200);
        assert!((prices.cost(usage).cents() - (0.3 + 0.3 + 0.75 + 0.3)).abs() < 1e-9);
        assert_eq!(prices.cost(Usage::default()).cents().to_bits(), 0_f64.to_bits());
        let max = Usage { input: u32::MAX, output: u32::MAX, cache_write: u32::MAX, cache_read: u32::MAX };
        assert_eq!(max.total(), 4 * u64::from(u32::MAX));
        assert!(prices.cost(max).cents().is_finite());
        assert_eq!(
            serde_json::to_string(&prices.cost(Usage { input: 7, ..Usage::default() })).ok().as_deref(),
            Some("0.0021")
        );
    }
}
