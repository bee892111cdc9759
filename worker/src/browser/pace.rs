//! How fast a user's fingers are.

use std::ops::RangeInclusive;
use std::time::Duration;

use kitfleet_domain::sessions::BehavioralProfile;
use rand::random_range;

/// The timing of taps and keys. No two of a person's are alike, so both vary.
#[derive(Debug, Clone)]
pub struct InputTiming {
    key: Duration,
    hold_ms: RangeInclusive<u64>,
}

impl InputTiming {
    /// That of a behavioural profile: human, but no slower than it has to be.
    pub fn of(profile: BehavioralProfile) -> Self {
        let (key_ms, hold_ms) = match profile {
            BehavioralProfile::Casual => (60, 60..=90),
            BehavioralProfile::Regular => (25, 40..=50),
            BehavioralProfile::PowerUser => (8, 40..=40),
        };
        Self { key: Duration::from_millis(key_ms), hold_ms }
    }

    /// Milliseconds a finger rests on the glass.
    pub fn hold_ms(&self) -> u64 {
        random_range(self.hold_ms.clone())
    }

    /// The pauses between the keys of a text, which take no more than `allowance` in all.
    pub fn typing(&self, keys: usize, allowance: Duration) -> KeyDelays {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX).max(1);
        let mean = self.key.min(allowance / keys);
        // Timers count milliseconds.
        if mean < Duration::from_millis(2) { KeyDelays::None } else { KeyDelays::Around(mean) }
    }
}

/// The pauses between keys.
#[derive(Debug, Clone, Copy)]
pub enum KeyDelays {
    /// None at all.
    None,
    /// The same every time.
    Exactly(Duration),
    /// Up to a third more or less.
    Around(Duration),
}

impl KeyDelays {
    /// What a caller chose.
    pub fn exactly(ms: u64) -> Self {
        if ms == 0 { Self::None } else { Self::Exactly(Duration::from_millis(ms)) }
    }

    /// The next one.
    pub fn next(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Exactly(pause) => pause,
            Self::Around(mean) => mean.mul_f64(random_range(0.67..1.33)),
        }
    }
}
