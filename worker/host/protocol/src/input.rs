//! Touches, mouse events, drags and keys.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TouchStep {
    pub phase: TouchPhase,
    /// CSS pixels from the viewport's left edge.
    pub x: f64,
    pub y: f64,
    /// Wait before this step.
    pub after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MouseStep {
    pub kind: MouseKind,
    pub x: f64,
    pub y: f64,
    pub after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MouseKind {
    Move,
    Press,
    Drag,
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DragPoint {
    pub x: f64,
    pub y: f64,
    pub after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DragOutcome {
    Done,
    /// The drag of an element did not end after its release.
    Unfinished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TouchOutcome {
    Done,
    /// The node has moved or is covered. The page has received no click.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TouchPhase {
    Begin,
    Update,
    End,
    /// The touch is cancelled without an effect.
    Cancel,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerAction {
    Touch {
        finger: u8,
        phase: TouchPhase,
        /// CSS pixels from the viewport's left edge.
        x: f64,
        y: f64,
    },
    /// Press of a key, as in [`super::HostCommand::Keys`].
    Key {
        key: String,
    },
    /// Text that is inserted as a whole into the focused element.
    Text {
        text: String,
    },
    Choose {
        /// `None` closes the menu.
        index: Option<u32>,
    },
    Answer {
        accept: bool,
        text: Option<String>,
    },
}

/// Prints no content, so that typed text never reaches a log.
impl fmt::Debug for ViewerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an input of a person")
    }
}
