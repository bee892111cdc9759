//! The audit log (contract: audit-log 2): append-only, written in the transaction of what it records. [`log`] reads it.

pub mod actions;
pub mod log;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::ids::{AccountId, ApiKeyId};

/// Who did it.
#[derive(Debug, Clone)]
pub enum Actor {
    /// A customer's credential.
    Customer {
        /// Whose credential.
        account: AccountId,
        /// Which key; `None` for a web session.
        key: Option<ApiKeyId>,
        /// From where.
        ip_address: Option<String>,
        /// With what.
        user_agent: Option<String>,
    },
    /// The service itself.
    System,
}

/// Where a request comes from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The client's address.
    pub ip_address: Option<String>,
    /// What the client calls itself.
    pub user_agent: Option<String>,
}

impl Origin {
    /// `payload` with where it was issued from, as rows of sign-ins carry it.
    #[must_use]
    pub fn issued(&self, mut payload: Value) -> Value {
        payload["issued_from_ip"] = self.ip_address.clone().into();
        payload["user_agent"] = self.user_agent.clone().into();
        payload
    }
}

impl Actor {
    /// Somebody who acts for their own account without a key.
    #[must_use]
    pub fn person(account: AccountId, origin: &Origin) -> Self {
        let Origin { ip_address, user_agent } = origin.clone();
        Self::Customer { account, key: None, ip_address, user_agent }
    }

    /// Whose credential it is.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::Customer { account, .. } => Some(*account),
            Self::System => None,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Customer { .. } => "customer",
            Self::System => "system",
        }
    }
}

/// What was done.
#[derive(Debug)]
pub struct Entry {
    /// One of [`actions::ALL`].
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
    debug_assert!(actions::find(entry.action).is_some(), "{} is no action of the contract", entry.action);
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
