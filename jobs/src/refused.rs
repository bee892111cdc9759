//! Reasons why an operation of staff or of the operators' command is refused.

use kitfleet_domain::webhooks::dead_letters::{self, RequeueError};

#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("no resource has this ID")]
    Unknown,
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl Refused {
    pub(crate) fn conflict(what: impl Into<String>) -> Self {
        Self::Conflict(what.into())
    }
}

impl From<RequeueError> for Refused {
    fn from(error: RequeueError) -> Self {
        match error {
            RequeueError::Database(error) => error.into(),
            RequeueError::Refused(ref refusals) if refusals.iter().any(dead_letters::Refusal::is_unknown) => {
                Self::Unknown
            }
            refused @ RequeueError::Refused(_) => Self::conflict(refused.to_string()),
        }
    }
}
