//! Events for webhooks (interface, "Events"): an outbox, written in the transaction of what happened.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::ids::AccountId;

/// Writes an event of `account`.
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, account: AccountId, event_type: &str, data: Value) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into events (id, account_id, type, data) values ($1, $2, $3, $4)",
        Uuid::now_v7(),
        account as _,
        event_type,
        data,
    )
    .execute(conn)
    .await?;
    Ok(())
}
