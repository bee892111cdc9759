//! Amounts of money, exactly as they were written.

use std::fmt;

use rust_decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// An amount, of 28 digits at most and not less than nothing. In JSON it is a number, of which no digit is lost; a text is read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(Decimal);

impl Amount {
    /// So many hundredths.
    #[must_use]
    pub fn of_cents(cents: i32) -> Self {
        Self(Decimal::new(cents.into(), 2))
    }

    /// `None` when it is no number, less than nothing, or has more digits than are kept.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let amount = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok()?;
        (!amount.is_sign_negative() || amount.is_zero()).then_some(Self(amount))
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.0.is_zero()
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Box::<RawValue>::deserialize(deserializer)?;
        let text = written.get().trim_matches('"');
        Self::parse(text).ok_or_else(|| D::Error::custom("not an amount of money"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digit_is_lost_and_the_same_amount_is_equal_however_it_is_written() {
        let read = |text: &str| serde_json::from_str::<Amount>(text).ok();
        assert_eq!(serde_json::to_string(&read("0.123456789012345678")).expect("JSON"), "0.123456789012345678");
        assert_eq!(read("1e-7"), read("\"0.00000010\""));
        assert_eq!(read("99"), Some(Amount::of_cents(9_900)));
        assert!(read("0.30000000000000000001") > read("0.3"));
        for none in ["-1", "\"-0.1\"", "NaN", "\"NaN\"", "\"\"", "\"0x1\"", "1e99", "true", "[]", "null"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
