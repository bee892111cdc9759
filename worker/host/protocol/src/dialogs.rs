//! Dialogs of pages.

use serde::{Deserialize, Serialize};

pub const MAX_SHOWN_DIALOGS: usize = 20;

/// The host then dismisses a dialog.
pub const DIALOG_HELD_SECS: u64 = 60;

/// For dialogs that no person sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogPolicy {
    /// A page can still be left.
    #[default]
    Dismiss,
    /// A prompt is answered with its default.
    Accept,
    /// Until [`super::HostCommand::AnswerDialog`].
    Hold,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    pub kind: DialogKind,
    pub message: String,
    pub default: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDialog {
    pub kind: DialogKind,
    pub message: String,
    pub default: Option<String>,
    pub accepted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    Alert,
    Confirm,
    Prompt,
    /// The page asks whether it may be left.
    BeforeUnload,
}
