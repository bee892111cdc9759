//! Account changes together with their effects on sessions, agent sessions and mail.

use kitfleet_domain::accounts;
use kitfleet_domain::agents::{self, CloseReason};
use kitfleet_domain::areas;
use kitfleet_domain::audit::Actor;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::{browser, emails};

/// Ends the live sessions (contract: accounts 7; sessions 19). Returns their number.
pub async fn suspend(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<u64>> {
    let mut tx = conn.begin().await?;
    // The account's row stays locked: a concurrent create waits for this transaction and then sees the suspension.
    if accounts::set_suspended(&mut tx, account, true).await?.is_none() {
        return Ok(None);
    }
    agents::close_of(&mut tx, account, CloseReason::AccountSuspended).await?;
    let mut reclaimed = 0;
    for session in sessions::live_of(&mut tx, account).await? {
        if let Some(Destroyed::Now { .. }) =
            browser::destroy(&mut tx, account, session, &Cause::AccountSuspended).await?
        {
            reclaimed += 1;
        }
    }
    tx.commit().await?;
    Ok(Some(reclaimed))
}

pub async fn reactivate(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<bool> {
    Ok(accounts::set_suspended(conn, account, false).await?.is_some())
}

/// Deletes the account's data in every area (contract: accounts 9). `false` if it was deleted before.
///
/// Profiles are purged later ([`kitfleet_domain::profiles::due_for_purge`]). Webhook endpoints are removed last, so
/// they receive no events of the removal.
pub async fn delete(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<bool> {
    // The account's row stays locked, as in `suspend`.
    if !accounts::delete(&mut *conn, account).await? {
        return Ok(false);
    }
    areas::on_account_delete(&mut *conn, account, actor).await?;
    let cause = Cause::Customer(actor.clone());
    for session in sessions::live_of(&mut *conn, account).await? {
        browser::destroy(&mut *conn, account, session, &cause).await?;
    }
    areas::delete_remaining(conn, account, actor).await?;
    Ok(true)
}

/// Mails the owner. No subscription or order revokes a tier set this way. Returns the previous tier.
pub async fn set_tier(conn: &mut PgConnection, account: AccountId, tier: Tier) -> sqlx::Result<Option<Tier>> {
    change_tier(conn, account, tier, None).await
}

/// `giver` is the subscription or order that pays for the tier, which is revoked when it ends. Returns the previous
/// tier.
pub async fn give_tier(
    conn: &mut PgConnection,
    account: AccountId,
    tier: Tier,
    giver: &str,
) -> sqlx::Result<Option<Tier>> {
    change_tier(conn, account, tier, Some(giver)).await
}

async fn change_tier(
    conn: &mut PgConnection,
    account: AccountId,
    tier: Tier,
    giver: Option<&str>,
) -> sqlx::Result<Option<Tier>> {
    let mut tx = conn.begin().await?;
    let before = accounts::set_tier(&mut tx, account, tier, giver).await?;
    if let Some(before) = before
        && before != tier
    {
        let details = json!({"from": before, "to": tier});
        emails::send(&mut tx, Template::TierChanged, Recipient::Account(account), details, NOTICE_GOOD_FOR).await?;
    }
    tx.commit().await?;
    Ok(before)
}
