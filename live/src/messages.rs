//! Text messages of the live view (contract: live 18 to 20).

use kitfleet_types::ids::SessionId;
use serde::{Deserialize, Serialize};

/// Maximum size of a viewer's message in bytes (contract: live 14).
pub const MESSAGE_BYTES: usize = 64 * 1024;

pub use kitfleet_domain::live::Role;
pub use kitfleet_domain::live::driving::Change;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToViewer {
    Hello {
        session_id: SessionId,
        role: Role,
    },
    Page {
        url: String,
        title: Option<String>,
    },
    Control {
        driver: Driver,
        /// This viewer's input is executed.
        may_act: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offers: Option<Change>,
    },
    Menu {
        items: Option<Vec<MenuItem>>,
    },
    Dialog {
        dialog: Option<Dialog>,
    },
    Refused {
        reason: Refusal,
        detail: String,
    },
}

/// Driver of a session from the perspective of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// The viewer's own client, or in `manual` mode any controller.
    You,
    Agent,
    /// A person at another client.
    Other,
    /// The session has no driver, because it does not belong to an agent session.
    Nobody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    pub label: String,
    pub enabled: bool,
    pub selected: bool,
    /// Heading of the options that follow.
    pub group: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    pub kind: DialogKind,
    /// Text of the page, truncated.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// Can only be accepted.
    Alert,
    Confirm,
    Prompt,
    /// Confirmation before leaving the page.
    BeforeUnload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    Viewer,
    Forbidden,
    /// Another client or the agent drives.
    NotDriving,
    Busy,
    Invalid,
    TooFast,
    Unresponsive,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromViewer {
    Ack {
        seq: u32,
    },
    Input {
        events: Vec<Event>,
    },
    #[serde(rename = "takeover")]
    TakeOver,
    #[serde(rename = "handback")]
    HandBack,
}

/// Not `Debug`, because typed text must not be logged (contract: live 15).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    Touch {
        /// Finger, from 0 to 9.
        finger: u8,
        phase: Phase,
        /// CSS pixels from the viewport's left edge.
        x: f64,
        /// CSS pixels from the viewport's top edge.
        y: f64,
    },
    Wheel {
        /// Pointer position: CSS pixels from the viewport's left edge.
        x: f64,
        /// Pointer position: CSS pixels from the viewport's top edge.
        y: f64,
        /// CSS pixels to the right.
        delta_x: f64,
        /// CSS pixels down.
        delta_y: f64,
    },
    Key {
        /// For example `a`, `Enter` or `Control+a`.
        key: String,
    },
    Text {
        text: String,
    },
    Choose {
        /// Index from 0; `None` closes the list.
        index: Option<u32>,
    },
    Answer {
        accept: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Begin,
    Update,
    End,
    Cancel,
}

/// Reason why a connection is closed (contract: live 20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    Ended,
    Withdrawn,
    Unreadable,
    Silent,
    Flooding,
    Stopping,
}

impl Closing {
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Ended => 4000,
            Self::Withdrawn => 4001,
            Self::Unreadable => 4002,
            Self::Silent => 4003,
            Self::Flooding => 4004,
            Self::Stopping => 1001,
        }
    }

    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ended => "the session has ended",
            Self::Withdrawn => "this view was withdrawn",
            Self::Unreadable => "this is no message of the protocol",
            Self::Silent => "nothing was heard for too long",
            Self::Flooding => "more than a thousand messages a second",
            Self::Stopping => "the worker stops",
        }
    }
}
