//! Exact amounts of money.

use std::fmt;

use rust_decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Non-negative amount with at most 28 digits. It is written to JSON as a number with all its digits, and read from a
/// number or a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(Decimal);

impl Amount {
    #[must_use]
    pub fn of_cents(cents: i32) -> Self {
        Self(Decimal::new(cents.into(), 2))
    }

    /// `None` when the text is not such an amount.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let amount = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok()?;
        (!amount.is_sign_negative() || amount.is_zero()).then_some(Self(amount))
    }

    #[must_use]
    pub fn is_zero(self) -> bool {
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
    fn amounts_keep_all_digits_and_compare_by_value() {
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
