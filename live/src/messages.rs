//! The text messages of a live view (contract: live 18 to 20).

use kitfleet_domain::ids::SessionId;
use serde::{Deserialize, Serialize};

/// Bytes of a viewer's message at most (contract: live 14).
pub const MESSAGE_BYTES: usize = 64 * 1024;

pub use kitfleet_domain::live::Role;
pub use kitfleet_domain::live::driving::Change;

/// What a worker tells a viewer besides pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToViewer {
    /// The first word.
    Hello {
        /// What is watched.
        session_id: SessionId,
        /// As what.
        role: Role,
    },
    /// What the browser shows has another address or title.
    Page {
        /// The address, cut to size.
        url: String,
        /// The title, cut to size, if the page has one.
        title: Option<String>,
    },
    /// Somebody else drives, or the viewer may act, or not any more.
    Control {
        /// Who drives.
        driver: Driver,
        /// Whether what this viewer sends is carried out.
        may_act: bool,
        /// How this viewer may change who drives, if they may.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offers: Option<Change>,
    },
    /// The options of a `<select>` are open, or not any more.
    Menu {
        /// From the first on.
        items: Option<Vec<MenuItem>>,
    },
    /// The page asks something, or not any more.
    Dialog {
        /// What.
        dialog: Option<Dialog>,
    },
    /// What the viewer sent was not carried out.
    Refused {
        /// Why.
        reason: Refusal,
        /// The same in words.
        detail: String,
    },
}

/// Who drives a session, seen from one of its viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// The viewer's own client, or in `manual` mode whoever controls.
    You,
    /// The AI.
    Agent,
    /// Another client's human.
    Other,
    /// Nobody: the session is no agent session's.
    Nobody,
}

/// One option of a `<select>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    /// As the page shows it.
    pub label: String,
    /// Whether it can be chosen.
    pub enabled: bool,
    /// Whether it is chosen now.
    pub selected: bool,
    /// Whether it is the heading of those that follow.
    pub group: bool,
}

/// What a page asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    /// How.
    pub kind: DialogKind,
    /// In its words, cut to size.
    pub message: String,
    /// What a prompt suggests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// How a page asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// `alert`, to which there is one answer.
    Alert,
    /// `confirm`.
    Confirm,
    /// `prompt`.
    Prompt,
    /// Whether the page may be left.
    BeforeUnload,
}

/// Why input was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Who sent it may only look.
    Viewer,
    /// Who sent it may not change who drives.
    Forbidden,
    /// Somebody else drives.
    NotDriving,
    /// An operation is under way, or another person acts.
    Busy,
    /// It does not keep to the bounds.
    Invalid,
    /// It is too much.
    TooFast,
    /// The page does not answer.
    Unresponsive,
}

/// What a viewer tells a worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromViewer {
    /// A picture was drawn.
    Ack {
        /// Its number.
        seq: u32,
    },
    /// What a person does.
    Input {
        /// In this order.
        events: Vec<Event>,
    },
    /// The viewer's client wants the lane.
    #[serde(rename = "takeover")]
    TakeOver,
    /// It gives the lane back.
    #[serde(rename = "handback")]
    HandBack,
}

/// One thing that a person does. It has no `Debug`: what is typed is in no log (contract: live 15).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// With a finger.
    Touch {
        /// Which of ten, from 0 on.
        finger: u8,
        /// What it does.
        phase: Phase,
        /// CSS pixels from the viewport's left edge.
        x: f64,
        /// CSS pixels from the viewport's top edge.
        y: f64,
    },
    /// With a wheel, or two fingers on a touchpad.
    Wheel {
        /// Where the pointer is: CSS pixels from the viewport's left edge.
        x: f64,
        /// CSS pixels from the viewport's top edge.
        y: f64,
        /// CSS pixels to the right.
        delta_x: f64,
        /// CSS pixels down.
        delta_y: f64,
    },
    /// With a key: one character, or a name of the W3C UI Events `key` values, either after modifiers and `+`.
    Key {
        /// Such as `a`, `Enter` or `Control+a`.
        key: String,
    },
    /// A text that goes in as a whole.
    Text {
        /// Its characters.
        text: String,
    },
    /// With the options of a `<select>` that are open.
    Choose {
        /// From 0 on; `None` closes them.
        index: Option<u32>,
    },
    /// With a dialog that is open.
    Answer {
        /// Whether it is accepted.
        accept: bool,
        /// The answer to a prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
}

/// What a finger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It lands.
    Begin,
    /// It moves.
    Update,
    /// It lifts.
    End,
    /// It is gone, without having done anything.
    Cancel,
}

/// Why a connection is closed (contract: live 20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The session has ended.
    Ended,
    /// The viewer may not see it any more.
    Withdrawn,
    /// It said something that is no message.
    Unreadable,
    /// It was not heard of.
    Silent,
    /// It said more than anybody would.
    Flooding,
    /// The worker stops.
    Stopping,
}

impl Closing {
    /// The WebSocket's status code.
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

    /// In words.
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
