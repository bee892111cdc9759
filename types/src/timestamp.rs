//! Timestamps as the contract writes them (contract: requests 2): RFC 3339 in UTC with milliseconds and `Z`.

use std::fmt;

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Time by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct Timestamp(pub DateTime<Utc>);

impl Timestamp {
    pub const EPOCH: Self = Self(DateTime::UNIX_EPOCH);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = DateTime::parse_from_rfc3339(&text).map(|instant| instant.to_utc());
        // The year must have four digits in RFC 3339, and the database supports fewer years than the calendar type.
        let known = read.ok().filter(|instant| (1..=9_999).contains(&instant.year()));
        known.map(Self).ok_or_else(|| D::Error::custom("must be a time such as 2026-11-20T18:05:00Z"))
    }
}
