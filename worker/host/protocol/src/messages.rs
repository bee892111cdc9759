//! Messages of the host.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::pages::PageError;

/// Externally tagged JSON, like [`Outcome`], so that a result can be kept as raw text until its type is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// WebKit shows a blank page.
    Ready,
    Reply {
        id: u64,
        outcome: Outcome,
    },
    /// There is an event for [`super::HostCommand::TakeEvents`]. Sent once until that command.
    EventsWaiting,
    /// The host exits after this line.
    WebProcessTerminated {
        /// Such as `Crashed` or `ExceededMemoryLimit`.
        reason: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok(Box<RawValue>),
    Error(HostError),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostError {
    /// An HTTP error page is not an error.
    Navigation(PageError),
    /// An exception, or the page was replaced.
    Script {
        message: String,
    },
    /// The command has no page to go to.
    Nowhere,
    UnknownKey {
        key: String,
    },
    NoSuchPage,
    LastPage,
    TooManyPages,
    DialogOpen,
    Engine {
        message: String,
    },
}
