//! Snapshots of a page, as assistive technology presents it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    AnsweredDialog, DialogMembers, EarlyEnd, Interruption, OpenDialog, OperationOutput, OperationResult, OperationSpec,
    Parameters,
};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Includes the targets of links. Internal to agent sessions.
    #[serde(default)]
    pub links: bool,
}

/// Snapshot of a page
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "snapshot": "heading \"Log in\" [ref=e1] [level=1]\ntextbox \"E-mail\" [ref=e2] [required]\nbutton \"Sign in\" [ref=e3]",
    "nodes": 3, "truncated": false, "url": "https://example.com/login", "duration_ms": 14,
}))]
pub struct PageSnapshot {
    /// One line for each meaningful element and each text, indented by two spaces for each enclosing element. Names, texts and
    /// values are JSON strings. At most 40,000 characters
    #[schema(value_type = Option<String>, required = true)]
    pub snapshot: String,
    /// Number of lines
    #[schema(value_type = Option<u64>, required = true)]
    pub nodes: u64,
    /// True if the snapshot omits part of the page
    #[schema(value_type = Option<bool>, required = true)]
    pub truncated: bool,
    /// Address of the page
    pub url: String,
    pub duration_ms: u64,
    /// Dialogs that the page showed since the last result, at most 20, and their answers; absent if there was none
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<AnsweredDialog>,
    /// Dialog that is open and waits for an answer, with `dialogs: hold`; absent otherwise. The members that are not known are
    /// then null
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dialog: Option<OpenDialog>,
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

    fn interrupted(&self, by: Interruption) -> Option<OperationResult> {
        let known = [("url", Value::from(by.url.clone())), ("duration_ms", by.duration_ms.into())];
        Some(EarlyEnd::result(&["snapshot", "nodes", "truncated"], &known, by))
    }
}

impl OperationOutput for PageSnapshot {
    fn dialogs_mut(&mut self) -> Option<DialogMembers<'_>> {
        Some((&mut self.dialogs, &mut self.dialog))
    }

    fn weight(&self) -> usize {
        self.snapshot.len() + self.foreign.len() + self.links.iter().map(String::len).sum::<usize>()
    }
}
