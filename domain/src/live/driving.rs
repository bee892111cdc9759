//! Changes of control over the live view (contract: live 36). They have the effect of the routes and act for the
//! account that requested the ticket.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use super::withdrawn;
use crate::actors::Actor;
use crate::agents::lanes::{self, ClientId, LaneError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    TakeOver,
    HandBack,
}

/// Changes the lane on behalf of the viewer admitted by this ticket. `conn` is in a transaction. The caller must commit it even
/// after a refusal, so that a lane that was found expired is stored as expired; only a database error requires a rollback.
pub async fn change(
    conn: &mut PgConnection,
    admission: Uuid,
    change: Change,
    patience: Duration,
    changes_per_hour: NonZeroU32,
) -> Result<(), LaneError> {
    if !withdrawn(&mut *conn, &[admission]).await?.is_empty() {
        return Err(LaneError::NoSession);
    }
    let found = sqlx::query!(
        r#"select a.id as "id: AgentSessionId", a.account_id as "account: AccountId", t.client_id as "client_id!",
                  t.acting_account_id as "acting: AccountId", t.api_key_id as "key: ApiKeyId", t.ip_address, t.user_agent
           from live_tickets t join agent_sessions a on a.session_id = t.session_id and a.status = 'active'
           where t.id = $1 and t.takes_over and t.client_id is not null"#,
        admission,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(LaneError::NoSession)?;
    // The name was validated when the ticket was issued.
    let client = ClientId::parse(found.client_id).map_err(|_| LaneError::NotDriving)?;
    let (ip_address, user_agent) = (found.ip_address, found.user_agent);
    let actor = Actor::Customer { account: found.acting, key: found.key, ip_address, user_agent };
    let agent_session = (found.account, found.id);
    match change {
        Change::TakeOver => lanes::take_over(conn, agent_session, &client, patience, changes_per_hour, &actor).await,
        Change::HandBack => lanes::hand_back(conn, agent_session, &client, patience, &actor).await,
    }
}
