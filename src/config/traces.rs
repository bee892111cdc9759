//! `traces.*`

use serde::{Deserialize, Serialize};
use url::Url;

use super::values::{Secret, secret};

/// Traces of what is done, and for whom they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Traces {
    /// Where they are sent; by default nowhere.
    pub url: Option<Url>,
    /// What proves that they are ours.
    #[serde(deserialize_with = "secret")]
    pub authorization: Option<Secret>,
    /// Of how many requests, 0 to 1.
    pub ratio: f64,
}

impl Default for Traces {
    fn default() -> Self {
        Self { url: None, authorization: None, ratio: 1.0 }
    }
}
