//! Actors of audited changes, and the origin of a request.

use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, StaffCredentialId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Origin of an operation (contract: recordings 4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationActor {
    #[serde(rename = "type")]
    pub kind: OperationActorKind,
    /// Public id of the credential, agent session or account.
    pub id: Option<String>,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum OperationActorKind {
    /// Also an OAuth token, whose id is that of its client.
    ApiKey,
    WebSession,
    Agent,
    /// A person who sends input from a live view.
    Person,
    Webdriver,
    Mcp,
}

impl OperationActorKind {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl OperationActor {
    /// Stored columns; both are null in rows of the previous version.
    #[must_use]
    pub fn of_columns(kind: Option<&str>, id: Option<String>) -> Option<Self> {
        Some(Self { kind: kind?.parse().ok()?, id })
    }

    #[must_use]
    pub fn agent(session: AgentSessionId) -> Self {
        Self { kind: OperationActorKind::Agent, id: Some(session.to_string()) }
    }
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
