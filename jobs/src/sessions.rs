//! Ends a session of any account (contract: staff 18; command-line 19).

use kitfleet_domain::sessions::{Cause, Destroyed, inspection, profile_lease};
use kitfleet_types::ids::{AccountId, SessionId};
use sqlx::{Connection as _, PgConnection};

use crate::browser;
use crate::refused::Refused;

/// Ends a live session as its owner's DELETE does, and returns the account that owns it. Works even if the worker is dead: the
/// slot and the profile are freed, and the session's unsaved profile changes are lost.
pub async fn destroy(conn: &mut PgConnection, session: SessionId) -> Result<AccountId, Refused> {
    let mut tx = conn.begin().await?;
    let account = inspection::account_of(&mut tx, session).await?.ok_or(Refused::Unknown)?;
    match browser::destroy(&mut tx, account, session, &Cause::Staff).await?.ok_or(Refused::Unknown)? {
        Destroyed::Now { .. } => {}
        Destroyed::Before => return Err(Refused::Conflict("the session has ended".to_owned())),
    }
    profile_lease::release_dead_leases(&mut tx, Some(session), 1).await?;
    tx.commit().await?;
    Ok(account)
}
