//! How an account begins: with its row, and with all that no account is without.

use sqlx::{Connection as _, PgConnection};

use crate::accounts::{self, CreateError, NewAccount};
use crate::ids::AccountId;
use crate::teams;

/// Makes an account, and its team.
///
/// # Errors
/// When a field breaks a rule, or the address has an account.
pub async fn create(conn: &mut PgConnection, new: NewAccount) -> Result<AccountId, CreateError> {
    let mut tx = conn.begin().await?;
    let account = accounts::create(&mut tx, new).await?;
    teams::create(&mut tx, account).await?;
    tx.commit().await?;
    Ok(account)
}
