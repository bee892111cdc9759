//! What else happens when something happens to an agent session.

use kitfleet_domain::agents::{self, CloseReason};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::ids::{AccountId, AgentSessionId, WorkerId};
use kitfleet_domain::sessions::{Cause, Destroyed};
use sqlx::PgConnection;

use crate::browser;

/// Closes the account's agent session because its owner wants it, and destroys its driver session, in one transaction of the
/// caller's, who wakes the worker that is answered once that is committed. `None` when the account has no such agent session.
///
/// # Errors
/// When the database fails.
pub async fn close(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    actor: &Actor,
) -> sqlx::Result<Option<Option<WorkerId>>> {
    if !agents::close_if_ended(&mut *conn, account, id).await?
        && let Some(driver) = agents::close(&mut *conn, account, id, CloseReason::Customer, actor).await?
    {
        let cause = Cause::Customer(actor.clone());
        return Ok(Some(match browser::destroy_untold(conn, account, driver, &cause).await? {
            Some(Destroyed::Now(worker)) => Some(worker),
            Some(Destroyed::Before) | None => None,
        }));
    }
    Ok(agents::exists(conn, account, id).await?.then_some(None))
}
