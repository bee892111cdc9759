//! Text messages of the live view (contract: live 18 to 20).

use kitfleet_domain::ids::SessionId;
use serde::{Deserialize, Serialize};

/// Maximum size of a viewer's message in bytes (contract: live 14).
pub const MESSAGE_BYTES: usize = 64 * 1024;

pub use kitfleet_domain::live::Role;
pub use kitfleet_domain::live::driving::Change;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToViewer {
    /// First message.
    Hello {
        session_id: SessionId,
        role: Role,
    },
    /// The page's address or title has changed.
    Page {
        url: String,
        /// Title, truncated, if the page has one.
        title: Option<String>,
    },
    /// The driver, or the viewer's permission to act, has changed.
    Control {
        driver: Driver,
        /// True when this viewer's input is executed.
        may_act: bool,
        /// Change of the driver that this viewer may make, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offers: Option<Change>,
    },
    /// The option list of a `<select>` was opened or closed.
    Menu {
        /// All options; `None` when the list is closed.
        items: Option<Vec<MenuItem>>,
    },
    /// A dialog of the page was opened or closed.
    Dialog {
        dialog: Option<Dialog>,
    },
    /// The viewer's input was not executed.
    Refused {
        reason: Refusal,
        /// Reason as a text.
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
    /// The session does not belong to an agent session, so it has no driver.
    Nobody,
}

/// One option of a `<select>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    pub label: String,
    /// True when the option can be chosen.
    pub enabled: bool,
    /// True when the option is selected.
    pub selected: bool,
    /// True for the heading of the options that follow.
    pub group: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    pub kind: DialogKind,
    /// Text of the page, truncated.
    pub message: String,
    /// Default text of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// `alert`; it can only be accepted.
    Alert,
    /// `confirm`.
    Confirm,
    /// `prompt`.
    Prompt,
    /// Confirmation before leaving the page.
    BeforeUnload,
}

/// Reason why input was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The viewer may only watch.
    Viewer,
    /// The viewer may not change the driver.
    Forbidden,
    /// Another client or the agent drives.
    NotDriving,
    /// An operation is running, or another person acts.
    Busy,
    /// The input violates a limit.
    Invalid,
    /// The input rate is too high.
    TooFast,
    /// The page does not respond.
    Unresponsive,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromViewer {
    Ack {
        seq: u32,
    },
    Input {
        /// Events in order.
        events: Vec<Event>,
    },
    /// The viewer's client takes over the lane.
    #[serde(rename = "takeover")]
    TakeOver,
    /// The viewer's client hands back the lane.
    #[serde(rename = "handback")]
    HandBack,
}

/// One input event. Not `Debug`, because typed text must not be logged (contract: live 15).
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
    /// Key press: one character, or a `key` value of W3C UI Events, optionally after modifiers and `+`.
    Key {
        /// For example `a`, `Enter` or `Control+a`.
        key: String,
    },
    /// Text that is inserted as a whole.
    Text {
        text: String,
    },
    /// Choice of an option of the open `<select>`.
    Choose {
        /// Index from 0; `None` closes the list.
        index: Option<u32>,
    },
    Answer {
        /// True to accept the dialog.
        accept: bool,
        /// Text for a prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The finger touches the screen.
    Begin,
    Update,
    End,
    /// The touch is cancelled without an effect.
    Cancel,
}

/// Reason why a connection is closed (contract: live 20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    Ended,
    /// The viewer's access was withdrawn.
    Withdrawn,
    /// The viewer sent an invalid message.
    Unreadable,
    /// The viewer sent nothing for too long.
    Silent,
    /// The viewer sent too many messages.
    Flooding,
    Stopping,
}

impl Closing {
    /// WebSocket status code.
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

    /// Reason as a text.
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
