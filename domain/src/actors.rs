//! Actors of audited changes, and the origin of a request.

use serde_json::Value;

use crate::ids::{AccountId, ApiKeyId, StaffCredentialId};
use crate::networks::Network;

#[derive(Debug, Clone)]
pub enum Actor {
    Customer {
        account: AccountId,
        /// `None` for a web session.
        key: Option<ApiKeyId>,
        ip_address: Option<String>,
        user_agent: Option<String>,
    },
    Staff(StaffCredentialId),
    System,
}

#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub ip_address: Option<String>,
    pub user_agent: Option<String>,
}

impl Origin {
    /// `None` when the address of the client is unknown.
    #[must_use]
    pub fn network(&self) -> Option<Network> {
        self.ip_address.as_deref()?.parse().ok().map(Network::of)
    }

    /// Adds the IP address and the user agent to `payload`, under the names that sign-in entries use.
    #[must_use]
    pub fn issued(&self, mut payload: Value) -> Value {
        payload["issued_from_ip"] = self.ip_address.clone().into();
        payload["user_agent"] = self.user_agent.clone().into();
        payload
    }
}

impl Actor {
    /// Returns an account owner who acts without an API key.
    #[must_use]
    pub fn person(account: AccountId, origin: &Origin) -> Self {
        let Origin { ip_address, user_agent } = origin.clone();
        Self::Customer { account, key: None, ip_address, user_agent }
    }

    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::Customer { account, .. } => Some(*account),
            Self::Staff(_) | Self::System => None,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Customer { .. } => "customer",
            Self::Staff(_) => "staff",
            Self::System => "system",
        }
    }
}
