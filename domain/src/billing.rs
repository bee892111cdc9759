//! What a customer pays, and what payment providers tell of it.

pub mod amounts;
pub mod card;
pub mod card_events;
pub mod card_signature;
pub mod ipn;
pub mod ipn_signature;
pub mod orders;

use std::collections::BTreeMap;

use crate::accounts::Tier;
use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("card_events", "an event that came before changes nothing, whenever it comes again"),
        ("card_customers", "a few an account, as whom it pays"),
        ("card_subscriptions", "one that has ended stays so"),
        ("card_notices", "nobody is mailed of the same twice"),
        ("crypto_order_flags", "a few of those orders that staff are to look at"),
    ],
    purges: &[
        Purge::new("billing", "card_checkout_keys", |conn, _, limit| Box::pin(card::purge_keys(conn, limit))),
        Purge::new("billing", "crypto_orders", |conn, _, limit| Box::pin(orders::purge_unanswered(conn, limit))),
    ],
    events: &["crypto.order.paid", "crypto.order.failed"],
    chains: &[orders::SWEEP],
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

/// In what prices are.
pub const CURRENCY: &str = "usd";

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
