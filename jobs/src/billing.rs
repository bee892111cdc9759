//! Effects of payment providers' events on tiers and mail.

pub mod card;
pub mod crypto;

use kitfleet_domain::billing::card as subscriptions;
use kitfleet_domain::billing::orders;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use sqlx::PgConnection;

use crate::accounts::{give_tier, set_tier};

/// The tier of the active subscription, else of an order whose period is not over, else the free tier.
async fn apply_paid_tier(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    if let Some(subscription) = subscriptions::giver(&mut *conn, account).await? {
        give_tier(conn, account, subscription.tier, &subscription.id).await?;
    } else if let Some(order) = orders::latest_unexpired(&mut *conn, account).await? {
        give_tier(conn, account, order.product, &order.id.to_string()).await?;
    } else {
        set_tier(conn, account, Tier::Free).await?;
    }
    Ok(())
}
