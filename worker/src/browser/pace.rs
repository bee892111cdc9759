use std::ops::RangeInclusive;
use std::time::Duration;

use kitfleet_domain::sessions::BehavioralProfile;
use rand::random_range;

/// Both vary, as with human input.
#[derive(Debug, Clone)]
pub struct InputTiming {
    key: Duration,
    hold_ms: RangeInclusive<u64>,
}

impl InputTiming {
    /// Human, but as fast as plausible.
    pub fn of(profile: BehavioralProfile) -> Self {
        let (key_ms, hold_ms) = match profile {
            BehavioralProfile::Casual => (60, 60..=90),
            BehavioralProfile::Regular => (25, 40..=50),
            BehavioralProfile::PowerUser => (8, 10..=14),
        };
        Self { key: Duration::from_millis(key_ms), hold_ms }
    }

    pub fn hold_ms(&self) -> u64 {
        random_range(self.hold_ms.clone())
    }

    /// At most `allowance` in total.
    pub fn typing(&self, keys: usize, allowance: Duration) -> KeyDelays {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX).max(1);
        let mean = self.key.min(allowance / keys);
        // Timers have a resolution of 1 ms.
        if mean < Duration::from_millis(2) { KeyDelays::None } else { KeyDelays::Around(mean) }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum KeyDelays {
    None,
    Exactly(Duration),
    /// Up to a third shorter or longer than the mean.
    Around(Duration),
}

impl KeyDelays {
    /// Chosen by the caller.
    pub fn exactly(ms: u64) -> Self {
        if ms == 0 { Self::None } else { Self::Exactly(Duration::from_millis(ms)) }
    }

    pub fn next(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Exactly(pause) => pause,
            Self::Around(mean) => mean.mul_f64(random_range(0.67..1.33)),
        }
    }
}
