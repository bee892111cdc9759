//! Snapshots of a page, as assistive technology presents it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{OperationOutput, OperationSpec, Parameters};

/// `POST /v1/sessions/:id/snapshot`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// True to include the targets of links. Internal to agent sessions: no caller can set it.
    #[serde(default)]
    pub links: bool,
}

/// Snapshot of a page
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "snapshot": "heading \"Log in\" [ref=e1] [level=1]\ntextbox \"E-mail\" [ref=e2] [required]\nbutton \"Sign in\" [ref=e3]",
    "nodes": 3, "truncated": false, "url": "https://example.com/login", "duration_ms": 14,
}))]
#[allow(missing_docs, reason = "a field without a description needs none in the contract")]
pub struct PageSnapshot {
    /// One line for each meaningful element and each text, indented by two spaces for each enclosing element. Names, texts and
    /// values are JSON strings. At most 40,000 characters
    pub snapshot: String,
    /// Number of lines
    pub nodes: u64,
    /// True if the snapshot omits part of the page
    pub truncated: bool,
    /// Address of the page
    pub url: String,
    pub duration_ms: u64,
    /// Distinct link targets: http and https addresses of at most 2,048 characters, at most 500 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(ignore)]
    pub links: Vec<String>,
    /// Lines of the snapshot that are in frames of other origins. Set with `links` only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(ignore)]
    pub foreign: String,
}

impl Parameters for Snapshot {
    const SPEC: OperationSpec = OperationSpec { route: Some("snapshot"), ..OperationSpec::READS };
}

impl OperationOutput for PageSnapshot {
    fn weight(&self) -> usize {
        self.snapshot.len() + self.foreign.len() + self.links.iter().map(String::len).sum::<usize>()
    }
}
