//! The audit log (contract: audit-log 2): append-only, written in the transaction of what it records. [`log`] reads it.

pub mod log;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub use crate::actors::{Actor, Origin};
use crate::area::Area;
use crate::ids::AccountId;

pub(crate) const AREA: Area = Area { kept: &[("audit_log", "never purged")], ..Area::named("audit") };

/// What was done.
#[derive(Debug)]
pub struct Entry {
    /// One of the actions of the area that writes it.
    pub action: &'static str,
    /// The resource it was done to.
    pub target: Option<String>,
    /// Its details.
    pub payload: Value,
}

/// Writes a row into `account`'s log.
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, account: AccountId, actor: &Actor, entry: Entry) -> sqlx::Result<()> {
    let (by_account, by_key, ip_address, user_agent) = match actor {
        // Where somebody is who acts on another's account is none of its owner's business.
        Actor::Customer { account: by, key, .. } if *by != account => (Some(*by), *key, None, None),
        Actor::Customer { account: by, key, ip_address, user_agent } => {
            (Some(*by), *key, ip_address.as_deref(), user_agent.as_deref())
        }
        Actor::System => (None, None, None, None),
    };
    sqlx::query!(
        "insert into audit_log
            (id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id, payload, ip_address, user_agent)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        Uuid::now_v7(),
        account as _,
        actor.kind(),
        by_account as _,
        by_key as _,
        entry.action,
        entry.target,
        entry.payload,
        ip_address,
        user_agent,
    )
    .execute(conn)
    .await?;
    let prefix = entry.action.split('.').next().unwrap_or_default().to_owned();
    metrics::counter!("service_account_audit_emit_total", "prefix" => prefix, "actor_type" => actor.kind())
        .increment(1);
    Ok(())
}
