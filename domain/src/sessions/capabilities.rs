//! Capabilities of a session's proxy, as measured by its worker (contract: egress 17).

use kitfleet_types::ids::{AccountId, SessionId};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::events::{self, EventType};

/// Records `session.egress_capability_changed`. `false` if the capabilities are equal to the stored ones or the session
/// has ended. `conn` is in a transaction.
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
