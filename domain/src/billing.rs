//! Prices, payments and the events of payment providers.

pub mod amounts;
pub mod card;
pub mod card_events;
pub mod card_signature;
pub mod ipn;
pub mod ipn_signature;
pub mod orders;

use std::collections::BTreeMap;

use kitfleet_types::tiers::Tier;

use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("card_events", "a repeated event is recognized by its row at any later time"),
        ("card_customers", "a few for each account: the customers it pays as"),
        ("card_subscriptions", "a subscription that ended must not become active again"),
        ("card_notices", "each mail is sent once"),
        ("crypto_order_flags", "few orders need a check by staff"),
    ],
    purges: &[
        Purge::new("billing", "card_checkout_keys", |conn, _, limit| Box::pin(card::purge_keys(conn, limit))),
        Purge::new("billing", "crypto_orders", |conn, _, limit| Box::pin(orders::purge_unanswered(conn, limit))),
    ],
    scheduled_jobs: &[orders::SWEEP],
    mails: &["payment_receipt", "payment_failed", "renewal_reminder"],
    bounds: &[
        ("card_events", Bound::Operator("one for each event of the card provider")),
        ("card_customers", Bound::Account("1 for each customer at the card provider")),
        ("card_subscriptions", Bound::Account("1 for each paid subscription")),
        ("card_notices", Bound::Account("1 for each kind of mail about a subscription")),
        ("card_checkout_keys", Bound::Term("30 days")),
        ("crypto_orders", Bound::Account("20 payable ones; `rate_limits.billing_per_minute` (30) new ones a minute")),
        ("crypto_order_flags", Bound::Account("1 for each crypto order")),
    ],
    ..Area::named("billing")
};

pub const CURRENCY: &str = "usd";

/// Cents for a month. A tier without a price cannot be bought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(pub BTreeMap<Tier, u32>);

impl Prices {
    #[must_use]
    pub fn of(&self, tier: Tier) -> Option<u32> {
        self.0.get(&tier).copied()
    }
}
