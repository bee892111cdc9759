//! What else happens when something happens to an account: to its sessions, and in its mailbox.

use kitfleet_domain::accounts::{self, Tier};
use kitfleet_domain::agents::{self, CloseReason};
use kitfleet_domain::areas;
use kitfleet_domain::audit::Actor;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::sessions::{self, Cause, Destroyed};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::{browser, emails};

/// Stops an account from acting, and reclaims its live sessions (contract: accounts 7; sessions 19). Answers how many; `None`
/// when there is no such account.
///
/// # Errors
/// When the database fails.
pub async fn suspend(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<u64>> {
    let mut tx = conn.begin().await?;
    // The account's row stays locked: a create that comes meanwhile waits, and then finds the account suspended.
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

/// Lets a suspended account act again. `false` when there is no such account.
///
/// # Errors
/// When the database fails.
pub async fn reactivate(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<bool> {
    Ok(accounts::set_suspended(conn, account, false).await?.is_some())
}

/// Deletes an account for good, and with it its live sessions, and whatever it has of each area: passwords, second factors, web
/// sessions, links, memberships, keys, OAuth clients and identities, its profiles, which are purged soon
/// ([`kitfleet_domain::profiles::due_for_purge`]), and at last its webhook endpoints, which hear no more of any of this
/// (contract: accounts 9). `false` when it was deleted before.
///
/// # Errors
/// When the database fails.
pub async fn delete(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<bool> {
    // The account's row stays locked, as for a suspension.
    if !accounts::delete(&mut *conn, account).await? {
        return Ok(false);
    }
    areas::on_account_delete(&mut *conn, account, actor).await?;
    let cause = Cause::Customer(actor.clone());
    for session in sessions::live_of(&mut *conn, account).await? {
        browser::destroy(&mut *conn, account, session, &cause).await?;
    }
    areas::lose_the_last(conn, account, actor).await?;
    Ok(true)
}

/// Moves an account to another tier, and tells its owner. It is nobody's to take back. Answers the tier before; `None` when there is
/// no such account.
///
/// # Errors
/// When the database fails.
pub async fn set_tier(conn: &mut PgConnection, account: AccountId, tier: Tier) -> sqlx::Result<Option<Tier>> {
    change_tier(conn, account, tier, None).await
}

/// The same, by whoever takes it back when it ends: a subscription, or an order, of this id.
///
/// # Errors
/// When the database fails.
pub async fn give_tier(
    conn: &mut PgConnection,
    account: AccountId,
    tier: Tier,
    giver: &str,
) -> sqlx::Result<Option<Tier>> {
    change_tier(conn, account, tier, Some(giver)).await
}

/// Every change of a tier goes this way.
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
