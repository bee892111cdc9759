//! A profile as a document that another deployment reads (decisions D8; docs/profile-format.md).

use kitfleet_domain::ids::{AccountId, ProfileId};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::Invalid;

use crate::Dump;

/// The profile that a document is of.
#[derive(Debug, Clone)]
pub struct About {
    /// When the document was made.
    pub exported_at: Timestamp,
    /// The profile.
    pub profile: ProfileId,
    /// Whose it is.
    pub account: AccountId,
    /// What it is called.
    pub name: String,
    /// What it is.
    pub archetype: String,
}

/// A document that was read and found good, but for its name and archetype: those are for whoever knows their rules.
#[derive(Debug)]
pub struct Document {
    /// `source_profile_id`
    pub source_profile_id: String,
    /// `source_account_id`
    pub source_account_id: String,
    /// `name`
    pub name: String,
    /// `archetype`
    pub archetype: String,
    /// What the profile held; `None` when that was nothing.
    pub dump: Option<Dump>,
}

/// Why a document is not imported.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is larger than a document may be.
    #[error("the document is larger than {0} bytes")]
    TooLarge(u64),
    /// It broke off.
    #[error("the document broke off: {0}")]
    Body(String),
    /// It cannot be put on disk.
    #[error("the document cannot be put on disk: {0}")]
    Disk(std::io::Error),
}
