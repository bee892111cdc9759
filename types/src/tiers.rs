//! Tiers of accounts, and limits that replace those of a tier.

use std::str::FromStr;

use serde::Serialize;
use strum::VariantArray as _;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
pub enum Tier {
    /// Free trial without API access.
    Free,
    /// Dashboard only, for one person.
    SoloManual,
    /// Dashboard only, for a small team.
    TeamManual,
    /// Dashboard only, for a large team.
    AgencyManual,
    /// API access with the fewest sessions.
    ApiStarter,
    /// API access with a medium number of sessions.
    ApiBuilder,
    /// API access with many sessions.
    ApiScale,
    Enterprise,
}

impl Tier {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Returns true when API keys of the account work (contract: authorization 4).
    #[must_use]
    pub fn has_api_access(self) -> bool {
        self != Self::Free
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let tier = Self::ALL.iter().copied().find(|tier| tier.name() == text);
        tier.ok_or_else(|| format!("unknown tier {text:?}; the tiers are {}", Self::NAMES.join(", ")))
    }
}

/// `None`: the limit of the tier applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OwnLimits {
    pub concurrent_sessions: Option<u32>,
    pub profiles: Option<u32>,
}

impl OwnLimits {
    #[must_use]
    pub fn of_columns(concurrent_sessions: Option<i32>, profiles: Option<i32>) -> Self {
        let limit = |column: Option<i32>| column.and_then(|limit| u32::try_from(limit).ok());
        Self { concurrent_sessions: limit(concurrent_sessions), profiles: limit(profiles) }
    }
}
