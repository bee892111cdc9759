//! What a session's proxy can do, as its worker has measured it (contract: egress 17).

use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::events::{self, EventType};
use crate::ids::{AccountId, SessionId};

/// Writes what the proxy of a session that lives can do, and tells of it (`session.egress_capability_changed`), when that is something
/// else than what was known. `conn` is in a transaction. `false` when there is nothing new, or nobody any more whom it concerns.
///
/// # Errors
/// When the database fails.
pub async fn report(
    conn: &mut PgConnection,
    session: SessionId,
    capabilities: &Value,
    report: &Value,
) -> sqlx::Result<bool> {
    let changed = sqlx::query_scalar!(
        r#"update sessions set egress_capabilities = $2, egress_capability_report = $3, updated_at = now()
           where id = $1 and live and egress_capabilities is distinct from $2
           returning account_id as "account_id: AccountId""#,
        session as _,
        capabilities,
        report,
    );
    let Some(account) = changed.fetch_optional(&mut *conn).await? else { return Ok(false) };
    let data = json!({"session_id": session, "egress_capabilities": capabilities});
    events::record(conn, account, EventType::SessionEgressCapabilityChanged, data).await?;
    Ok(true)
}
