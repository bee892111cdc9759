//! Validation of the parameters of a new session (contract: sessions).

use std::time::Duration;

use kitfleet_types::json_size::json_bytes;
use kitfleet_types::limits::Limits;
use kitfleet_types::validation::{Invalid, Rules};
use serde_json::{Map, Value};

use crate::archetypes;

const CUSTOMER_PURPOSE: &str = "production_customer";
const RESERVED_PURPOSES: [&str; 2] = ["cumulative_rig_validation", "test_domain_probe"];

#[derive(Debug, Clone, Copy)]
pub struct CreateParams<'a> {
    pub archetype: Option<&'a str>,
    pub purpose: Option<&'a str>,
    pub label: Option<&'a str>,
    pub metadata: Option<&'a Map<String, Value>>,
    /// Maximum time to wait for a free browser, in milliseconds.
    pub wait_timeout_ms: Option<u64>,
}

impl<'a> CreateParams<'a> {
    #[must_use]
    pub fn purpose(&self) -> &'a str {
        self.purpose.unwrap_or(CUSTOMER_PURPOSE)
    }

    /// `None` if the request does not wait.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.wait_timeout_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        let purpose = self.purpose();
        let reserved = RESERVED_PURPOSES.contains(&purpose);
        let mut rules = Rules::default();
        rules.require(!reserved, "purpose", "is reserved for internal operations");
        rules.require(reserved || purpose == CUSTOMER_PURPOSE, "purpose", format!("must be {CUSTOMER_PURPOSE}"));
        rules.length(self.label.unwrap_or_default(), 0, limits.label_chars, "label");
        let max = limits.metadata_bytes;
        let fits = self.metadata.is_none_or(|data| json_bytes(data) <= max);
        rules.require(fits, "metadata", format!("must have at most {max} bytes as JSON"));
        let (min, max) = (limits.min_timeout, limits.max_timeout);
        let bounded = self.patience().is_none_or(|patience| (min..=max).contains(&patience));
        let bounds = format!("must be 0, or {} to {}", min.as_millis(), max.as_millis());
        rules.require(bounded, "wait_timeout_ms", bounds);
        rules.note(self.archetype.and_then(|id| archetypes::check(id).err()));
        rules.check()
    }
}
