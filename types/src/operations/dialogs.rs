//! Dialogs of pages: `alert`, `confirm`, `prompt`, and the confirmation that a page may be left.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::results::in_place;

/// Handling of dialogs that no person sees. Fixed for the lifetime of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogPolicy {
    /// A page can still be left.
    #[default]
    Dismiss,
    /// A prompt is answered with its default value.
    Accept,
    /// Hold each one open until the caller answers it.
    Hold,
}

/// Type of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, strum::IntoStaticStr)]
#[schema(title = "DialogType")]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DialogType {
    /// `alert`.
    Alert,
    /// `confirm`.
    Confirm,
    /// `prompt`.
    Prompt,
    /// Confirmation that the page may be left.
    BeforeUnload,
}

impl DialogType {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Dialog that a page showed and that was answered
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"type": "confirm", "message": "Delete the draft?", "accepted": false}))]
pub struct AnsweredDialog {
    /// Type of the dialog.
    #[serde(rename = "type")]
    #[schema(schema_with = in_place::<DialogType>)]
    pub kind: DialogType,
    /// Message, limited to its first 1,024 characters
    pub message: String,
    /// True if the dialog was accepted
    pub accepted: bool,
}

/// Dialog that waits for an answer
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"type": "prompt", "message": "Your name?", "default_value": "Ada"}))]
pub struct OpenDialog {
    /// Type of the dialog.
    #[serde(rename = "type")]
    #[schema(schema_with = in_place::<DialogType>)]
    pub kind: DialogType,
    /// Message, limited to its first 1,024 characters
    pub message: String,
    /// Default value of a prompt, limited to its first 1,024 characters; null for other types
    #[schema(required = true)]
    pub default_value: Option<String>,
}

/// Dialog that ended an operation early, and facts that are known without the page, which the dialog blocks.
#[derive(Debug, Clone)]
pub struct Interruption {
    pub dialog: OpenDialog,
    /// Dialogs that were answered before it.
    pub dialogs: Vec<AnsweredDialog>,
    pub url: String,
    pub duration_ms: u64,
}
