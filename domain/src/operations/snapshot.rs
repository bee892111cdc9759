//! Reading what a page shows, as those who cannot see it are told.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{OperationOutput, OperationSpec, Parameters};

/// `POST /v1/sessions/:id/snapshot`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Whether it is also told where the links lead, for those who act for a customer: no caller asks for that.
    #[serde(default)]
    pub links: bool,
}

/// What a page shows
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "snapshot": "heading \"Log in\" [ref=e1] [level=1]\ntextbox \"E-mail\" [ref=e2] [required]\nbutton \"Sign in\" [ref=e3]",
    "nodes": 3, "truncated": false, "url": "https://example.com/login", "duration_ms": 14,
}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct PageSnapshot {
    /// A line for each element that means something, and for each text: indented by two spaces for each element that it is in.
    /// A name, a text and a value are JSON texts. At most 40,000 characters
    pub snapshot: String,
    /// How many lines there are
    pub nodes: u64,
    /// Whether there was more on the page
    pub truncated: bool,
    /// The page's address
    pub url: String,
    pub duration_ms: u64,
    /// Where its links lead, each once: addresses of the web of at most 2,048 characters, of which there are 500 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(ignore)]
    pub links: Vec<String>,
}

impl Parameters for Snapshot {
    const SPEC: OperationSpec = OperationSpec { route: Some("snapshot"), ..OperationSpec::READS };
}

impl OperationOutput for PageSnapshot {
    fn weight(&self) -> usize {
        self.snapshot.len() + self.links.iter().map(String::len).sum::<usize>()
    }
}
