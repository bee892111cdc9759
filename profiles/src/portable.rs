//! A profile as a document that another deployment reads (docs/profile-format.md; contract: profiles 20, 21).
//!
//! Both ways it is as large as what the profile holds, and never in memory: it is written while its reader takes it, and read
//! from a file without a name, a record at a time. It holds values, which are read from WebKit's databases, and of which new
//! ones are made: never a file of WebKit's.

mod json;
mod reading;
mod values;
mod writing;

use std::io;

use kitfleet_domain::account_semaphore::{AccountPermit, AcquireTimeout};
use kitfleet_domain::ids::{AccountId, ProfileId};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::{Invalid, Rules};

pub use self::reading::{read, receive};
pub use self::writing::{write, written};
use crate::Dump;

/// `format`
const FORMAT: &str = "kitfleet.profile";
/// `version`
const VERSION: u32 = 2;
/// Sites of a document, at most, databases, and records and items of local storage in all of them.
const MAX_SITES: usize = 10_000;
const MAX_DATABASES: usize = 2_000;
const MAX_RECORDS: usize = 200_000;
/// Keys under which records are in indexes, in all of a document: each is sorted in.
const MAX_INDEX_KEYS: usize = 1_000_000;
/// Bytes of a document that are handed on at once.
const PIECE: usize = 64 * 1024;

/// The profile that a document is of.
#[derive(Debug, Clone)]
pub struct DocumentInfo {
    /// When the document is made.
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

impl DocumentInfo {
    /// For a document that nobody gets.
    pub(crate) fn nobodys() -> Self {
        Self {
            exported_at: Timestamp::EPOCH,
            profile: ProfileId::generate(),
            account: AccountId::generate(),
            name: String::new(),
            archetype: String::new(),
        }
    }
}

/// A document that was read and found good, but for what its profile is: that is for whoever knows the rules of it.
#[derive(Debug)]
pub struct Document {
    /// `source_profile_id`
    pub source_profile_id: Option<String>,
    /// `source_account_id`
    pub source_account_id: Option<String>,
    /// `name`; empty when it is missing.
    pub name: String,
    /// `archetype`; empty when it is missing.
    pub archetype: String,
    /// What else is missing.
    pub missing: Rules,
    /// What the profile held; `None` when that was nothing.
    pub dump: Option<Dump>,
    /// Its turn among those that are read at once.
    pub(crate) _turn: Option<AccountPermit>,
}

/// Why a document is not imported.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is no JSON, or none that could be a document.
    #[error("{0}")]
    Malformed(String),
    /// It is larger than a document may be.
    #[error("the document is larger than {0} bytes")]
    TooLarge(u64),
    /// It broke off.
    #[error("the document broke off: {0}")]
    Body(String),
    /// The account has too many of them under way.
    #[error(transparent)]
    NotYet(#[from] AcquireTimeout),
    /// It cannot be put on disk.
    #[error("the document cannot be put on disk: {0}")]
    Disk(io::Error),
}

/// How values are spelled, for tests.
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod spelling {
    use struson::writer::{JsonStreamWriter, JsonWriter as _};

    use super::json::Json;
    use super::values;
    use crate::webkit::values::Value;

    pub fn written(value: &Value) -> String {
        let mut text = Vec::new();
        let mut json = JsonStreamWriter::new(&mut text);
        values::write(&mut json, value).expect("a value");
        json.finish_document().expect("a value");
        String::from_utf8(text).expect("text")
    }

    pub fn read(text: &str) -> Option<Value> {
        let mut json = Json::new(text.as_bytes());
        let value = values::read(&mut json).ok()?;
        json.end().ok()?;
        Some(value)
    }
}
