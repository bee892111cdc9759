//! Who does something, and from where.

use serde_json::Value;

use crate::ids::{AccountId, ApiKeyId, StaffCredentialId};
use crate::networks::Network;

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
    /// Whoever runs the service.
    Staff(StaffCredentialId),
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
    /// The network that the client is in. `None` when its address is not known.
    #[must_use]
    pub fn network(&self) -> Option<Network> {
        self.ip_address.as_deref()?.parse().ok().map(Network::of)
    }

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
            Self::Staff(_) | Self::System => None,
        }
    }

    /// What the log calls such an actor.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Customer { .. } => "customer",
            Self::Staff(_) => "staff",
            Self::System => "system",
        }
    }
}
