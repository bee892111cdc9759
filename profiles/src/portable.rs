//! Profiles as documents, which another deployment can import (docs/profile-format.md; contract: profiles 20, 21).
//!
//! A document is written while its reader reads it, and is read from a temporary file record by record. It contains
//! values, which are read from WebKit's databases and written to new databases, and never WebKit's files.

mod json;
mod reading;
mod values;
mod writing;

use std::io;

use kitfleet_domain::account_semaphore::{AccountPermit, AcquireTimeout};
use kitfleet_types::ids::{AccountId, ProfileId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};

pub use self::reading::{read, receive};
pub use self::writing::{write, written};
use crate::Dump;

const FORMAT: &str = "kitfleet.profile";
const VERSION: u32 = 2;
/// Records and local storage items count together.
const MAX_SITES: usize = 10_000;
const MAX_DATABASES: usize = 2_000;
const MAX_RECORDS: usize = 200_000;
/// Each key is inserted in order.
const MAX_INDEX_KEYS: usize = 1_000_000;
/// Bytes that are passed on together.
const PIECE: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub struct DocumentInfo {
    pub exported_at: Timestamp,
    pub profile: ProfileId,
    pub account: AccountId,
    pub name: String,
    pub archetype: String,
}

impl DocumentInfo {
    /// The document is not returned to a client.
    pub(crate) fn anonymous() -> Self {
        Self {
            exported_at: Timestamp::EPOCH,
            profile: ProfileId::generate(),
            account: AccountId::generate(),
            name: String::new(),
            archetype: String::new(),
        }
    }
}

/// Validated, except for the name and the archetype, which the caller checks.
#[derive(Debug)]
pub struct Document {
    pub source_profile_id: Option<String>,
    pub source_account_id: Option<String>,
    /// Empty if it is missing.
    pub name: String,
    /// Empty if it is missing.
    pub archetype: String,
    /// Other missing members.
    pub missing: Rules,
    /// `None` if it is empty.
    pub dump: Option<Dump>,
    pub(crate) _turn: Option<AccountPermit>,
}

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The document is not JSON, or not in the form of a document.
    #[error("{0}")]
    Malformed(String),
    #[error("the document is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the document is incomplete: {0}")]
    Body(String),
    #[error(transparent)]
    NotYet(#[from] AcquireTimeout),
    #[error("the document cannot be written to disk: {0}")]
    Disk(io::Error),
}

/// Writes and reads single values, for tests.
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
