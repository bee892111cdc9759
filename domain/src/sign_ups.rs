//! Creation of an account with the rows that every account has.

use kitfleet_types::ids::AccountId;
use sqlx::{Connection as _, PgConnection};

use crate::accounts::{self, CreateError, NewAccount};
use crate::teams;

pub async fn create(conn: &mut PgConnection, new: NewAccount) -> Result<AccountId, CreateError> {
    let mut tx = conn.begin().await?;
    let account = accounts::create(&mut tx, new).await?;
    teams::create(&mut tx, account).await?;
    tx.commit().await?;
    Ok(account)
}
