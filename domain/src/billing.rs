//! What a customer pays, and what payment providers tell of it.

pub mod card_signature;
pub mod ipn_signature;

use std::collections::BTreeMap;

use crate::accounts::Tier;

/// What a month of each tier costs, in cents. A tier without a price cannot be bought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(pub BTreeMap<Tier, u32>);

impl Prices {
    /// What a month of `tier` costs, in cents.
    #[must_use]
    pub fn of(&self, tier: Tier) -> Option<u32> {
        self.0.get(&tier).copied()
    }
}
