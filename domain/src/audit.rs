//! The audit log (contract: audit-log 2): append-only, written in the transaction of what it records. [`log`] reads it.

pub mod changes;
pub mod log;

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

pub use crate::actors::{Actor, Origin};
use crate::area::{Area, Bound};
use crate::ids::AccountId;

pub(crate) const AREA: Area = Area {
    kept: &[("audit_log", "never purged"), ("audited_changes", "one an account")],
    bounds: &[
        (
            "audit_log",
            Bound::Account(
                "`limits.audited_changes_per_hour` rows of changes an hour (1,000); a row or two for each session, agent session, message and sign-in",
            ),
        ),
        ("audited_changes", Bound::Account("1")),
    ],
    ..Area::named("audit")
};

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

/// A row that is written by a statement, or by [`record`].
#[derive(Debug)]
pub struct AuditRow {
    /// What the function `write_audit` of the database takes: all columns but the time.
    pub columns: Value,
    actor: &'static str,
    action: &'static str,
}

impl AuditRow {
    /// A row of `account`'s log.
    #[must_use]
    pub fn new(account: AccountId, actor: &Actor, entry: Entry) -> Self {
        let (by_account, by_key, ip_address, user_agent) = match actor {
            // Where somebody is who acts on another's account is none of its owner's business.
            Actor::Customer { account: by, key, .. } if *by != account => (Some(*by), *key, None, None),
            Actor::Customer { account: by, key, ip_address, user_agent } => {
                (Some(*by), *key, ip_address.as_deref(), user_agent.as_deref())
            }
            // Which of the staff it was, and where they are, their own log says.
            Actor::Staff(_) | Actor::System => (None, None, None, None),
        };
        let Entry { action, target, payload } = entry;
        let mut columns = json!({
            "id": Uuid::now_v7(),
            "account_id": account.as_uuid(),
            "actor_type": actor.kind(),
            "actor_account_id": by_account.map(|by| by.as_uuid()),
            "actor_key_id": by_key.map(|key| key.as_uuid()),
            "action": action,
            "target_resource_id": target,
            "ip_address": ip_address,
            "user_agent": user_agent,
        });
        columns["payload"] = payload;
        Self { columns, actor: actor.kind(), action }
    }

    /// Counts it, which was written.
    pub fn count(&self) {
        let prefix = self.action.split('.').next().unwrap_or_default().to_owned();
        metrics::counter!("service_account_audit_emit_total", "prefix" => prefix, "actor_type" => self.actor)
            .increment(1);
    }
}

/// Writes a row into `account`'s log.
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, account: AccountId, actor: &Actor, entry: Entry) -> sqlx::Result<()> {
    let line = AuditRow::new(account, actor, entry);
    sqlx::query_scalar!("select write_audit($1)", line.columns).fetch_one(conn).await?;
    line.count();
    Ok(())
}
