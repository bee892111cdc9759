//! Audit log (contract: audit-log 2): append-only, and written in the transaction of the change.

pub mod changes;
pub mod log;

use kitfleet_types::ids::AccountId;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

pub use crate::actors::{Actor, Origin};
use crate::area::{Area, Bound};
use crate::metrics::Counter;

pub(crate) const AREA: Area = Area {
    kept: &[("audit_log", "never purged"), ("audited_changes", "one for each account")],
    bounds: &[
        (
            "audit_log",
            Bound::Account(
                "`limits.audited_changes_per_hour` rows of changes an hour (1,000); a row or two for each session, agent session, message and sign-in",
            ),
        ),
        ("audited_changes", Bound::Account("1")),
    ],
    metrics: &[&WRITTEN_ROWS],
    ..Area::named("audit")
};

const WRITTEN_ROWS: Counter<2> = Counter::new(
    "service_account_audit_emit_total",
    "Written rows of the audit log, by prefix of the action and type of the actor.",
    ["prefix", "actor_type"],
)
.starting_with(|| {
    vec![
        ["session", "customer"],
        ["session", "system"],
        ["profile", "customer"],
        ["account", "customer"],
        ["api_key", "customer"],
        ["api_key", "system"],
        ["subscription", "system"],
        ["team", "customer"],
        ["webhook_endpoint", "customer"],
        ["webhook_delivery", "customer"],
        ["admin", "staff"],
    ]
});

#[derive(Debug)]
pub struct Entry {
    /// One of the actions of the area that writes the entry.
    pub action: &'static str,
    pub target: Option<String>,
    pub payload: Value,
}

/// A statement or [`record`] inserts it.
#[derive(Debug)]
pub struct AuditRow {
    /// Argument of the database function `write_audit`: all columns except the time.
    pub columns: Value,
    actor: &'static str,
    action: &'static str,
}

impl AuditRow {
    #[must_use]
    pub fn new(account: AccountId, actor: &Actor, entry: Entry) -> Self {
        let (by_account, by_key, ip_address, user_agent) = match actor {
            // The account owner must not see the location of another account's user.
            Actor::Customer { account: by, key, .. } if *by != account => (Some(*by), *key, None, None),
            Actor::Customer { account: by, key, ip_address, user_agent } => {
                (Some(*by), *key, ip_address.as_deref(), user_agent.as_deref())
            }
            // The staff log records which staff member acted and from which address.
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

    pub fn count(&self) {
        let prefix = self.action.split('.').next().unwrap_or_default();
        WRITTEN_ROWS.with([prefix, self.actor]).increment(1);
    }
}

pub async fn record(conn: &mut PgConnection, account: AccountId, actor: &Actor, entry: Entry) -> sqlx::Result<()> {
    let row = AuditRow::new(account, actor, entry);
    sqlx::query_scalar!("select write_audit($1)", row.columns).fetch_one(conn).await?;
    row.count();
    Ok(())
}
