//! `traces.*`

use serde::{Deserialize, Serialize};
use url::Url;

use super::values::{Secret, secret};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Traces {
    /// Without it no traces are sent.
    pub url: Option<Url>,
    /// `Authorization` header of requests to the collector.
    #[serde(deserialize_with = "secret")]
    pub authorization: Option<Secret>,
    /// Share of requests that are traced, 0 to 1.
    pub ratio: f64,
}

impl Default for Traces {
    fn default() -> Self {
        Self { url: None, authorization: None, ratio: 1.0 }
    }
}
