//! What may be asked of a session that is to be (contract: sessions).

use std::time::Duration;

use serde_json::{Map, Value};

use crate::archetypes;
use crate::blocking::json_bytes;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// The purpose of every customer's session.
const CUSTOMER_PURPOSE: &str = "production_customer";
/// Purposes of sessions that operators make.
const RESERVED_PURPOSES: [&str; 2] = ["cumulative_rig_validation", "test_domain_probe"];

/// What a customer may choose of a session.
#[derive(Debug, Clone, Copy)]
pub struct CreateParams<'a> {
    /// An id of the catalogue.
    pub archetype: Option<&'a str>,
    /// What it is for.
    pub purpose: Option<&'a str>,
    /// The customer's words.
    pub label: Option<&'a str>,
    /// The customer's data.
    pub metadata: Option<&'a Map<String, Value>>,
    /// How many milliseconds a browser may take to become free.
    pub wait_timeout_ms: Option<u64>,
}

impl<'a> CreateParams<'a> {
    /// What the session is for.
    #[must_use]
    pub fn purpose(&self) -> &'a str {
        self.purpose.unwrap_or(CUSTOMER_PURPOSE)
    }

    /// How long to wait for a browser to become free; `None` for not at all.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.wait_timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// # Errors
    /// On `purpose`, `label`, `metadata`, `wait_timeout_ms` or `archetype`.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        let purpose = self.purpose();
        let reserved = RESERVED_PURPOSES.contains(&purpose);
        let mut rules = Rules::default();
        rules.require(!reserved, "purpose", "is reserved for internal operations");
        rules.require(reserved || purpose == CUSTOMER_PURPOSE, "purpose", format!("must be {CUSTOMER_PURPOSE}"));
        rules.length(self.label.unwrap_or_default(), 0, limits.label_chars, "label");
        let most = limits.metadata_bytes;
        let fits = self.metadata.is_none_or(|data| json_bytes(data) <= most);
        rules.require(fits, "metadata", format!("must have at most {most} bytes as JSON"));
        let (min, max) = (limits.min_timeout, limits.max_timeout);
        let bounded = self.patience().is_none_or(|patience| (min..=max).contains(&patience));
        let bounds = format!("must be 0, or {} to {}", min.as_millis(), max.as_millis());
        rules.require(bounded, "wait_timeout_ms", bounds);
        rules.note(self.archetype.and_then(|id| archetypes::check(id).err()));
        rules.check()
    }
}
