//! A turn that waits for its execution, and the reasons to stop it.

use kitfleet_types::ids::{AccountId, AgentSessionId, SessionId, TurnId};
use kitfleet_types::limits::Limits;
use serde::{Deserialize, Serialize};

use crate::trace_parent::TraceParent;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    pub message: String,
    /// They need not exist.
    pub approvals: Vec<String>,
}

#[derive(Debug)]
pub struct QueuedTurn {
    pub id: TurnId,
    pub account: AccountId,
    pub session: AgentSessionId,
    pub driver: SessionId,
    pub request: Request,
    pub request_id: String,
    pub trace_parent: Option<TraceParent>,
    pub receipt: Option<String>,
    /// Stored bytes of all the account's agent sessions.
    pub stored_bytes: i64,
}

impl QueuedTurn {
    /// Bytes of JSON for the results of the turn's steps: the rest of the account's quota, but at most `max`. With a
    /// receipt, each result is stored twice, so half of the rest.
    #[must_use]
    pub fn bytes_left(&self, max: usize, limits: &Limits) -> usize {
        let left = limits.agent_bytes_per_account.saturating_sub(u64::try_from(self.stored_bytes).unwrap_or_default());
        let left = if self.receipt.is_some() { left / 2 } else { left };
        usize::try_from(left).map_or(max, |left| left.min(max))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The agent session was closed, or its driver session has ended.
    Closed,
    /// A human drives or the mode does not allow messages, or this was so at any time during the turn.
    Driven,
    /// The credential of the message was revoked or has expired, or its account may no longer act here.
    Revoked,
}

impl StopReason {
    /// Returns a clause that follows "because".
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Closed => "the agent session was closed",
            Self::Driven => "a human has taken over or cancelled it",
            Self::Revoked => "the credential that sent the message is no longer valid",
        }
    }
}
