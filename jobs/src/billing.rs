//! What payment providers tell, and what comes of it.

pub mod card;
pub mod crypto;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::billing::card as subscriptions;
use kitfleet_domain::billing::orders;
use kitfleet_domain::ids::AccountId;
use sqlx::PgConnection;

use crate::accounts::{give_tier, set_tier};

/// Moves an account whose tier somebody takes back to what a subscription pays for, or else an order whose period is not over, or
/// else to the free tier.
async fn take_back(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    if let Some(other) = subscriptions::newest_live(&mut *conn, account).await? {
        give_tier(conn, account, other.tier, &other.id).await?;
    } else if let Some(other) = orders::newest_lasting(&mut *conn, account).await? {
        give_tier(conn, account, other.product, &other.id.to_string()).await?;
    } else {
        set_tier(conn, account, Tier::Free).await?;
    }
    Ok(())
}
