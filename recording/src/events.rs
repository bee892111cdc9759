//! Events of a timeline (contract: recordings 8 to 12).

use kitfleet_domain::actors::OperationActor;
use kitfleet_types::ids::{AccountId, DownloadId, OperationId, PageId};
use kitfleet_types::operations::{DialogType, Element, OperationDescription, OperationOutcome, Point};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum number of characters of a console line or a message. The rest is cut.
pub const TEXT_CHARS: usize = 2_000;

/// Maximum number of characters of an address.
pub const URL_CHARS: usize = 2_048;

/// Maximum number of bytes of an accessibility snapshot. The rest is cut.
pub const SNAPSHOT_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The first event of a recording has the number 1.
    pub seq: u64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub body: EventBody,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::EnumDiscriminants)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum_discriminants(name(EventKind), derive(strum::IntoStaticStr), strum(serialize_all = "snake_case"))]
#[strum_discriminants(doc = "Type of an event.")]
pub enum EventBody {
    Operation(Box<OperationEvent>),
    Console(ConsoleEvent),
    Request(Box<RequestEvent>),
    Dialog(DialogEvent),
    Page(PageEvent),
    Download(DownloadEvent),
    /// Only a recorder makes it: its picture is a record of its own.
    Frame(FrameEvent),
    Control(ControlEvent),
    Challenge(ChallengeEvent),
    Recording(RecordingEvent),
}

impl EventBody {
    #[must_use]
    pub fn kind(&self) -> EventKind {
        self.into()
    }
}

impl EventKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationEvent {
    pub operation_id: OperationId,
    #[serde(flatten)]
    pub described: OperationDescription,
    pub outcome: OperationOutcome,
    /// Detail of a failure.
    pub error: Option<String>,
    /// Address of the page after the operation.
    pub url: Option<String>,
    pub actor: Option<OperationActor>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub duration_ms: u64,
    pub has_frames: bool,
    /// Left out of answers of the API.
    #[serde(default, skip_serializing_if = "TraceDetails::is_empty")]
    pub trace: TraceDetails,
}

/// Facts about an operation that only traces contain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceDetails {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locator: Option<Element>,
    /// Point of the tap, in CSS pixels of the viewport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<Point>,
}

impl TraceDetails {
    fn is_empty(&self) -> bool {
        self.locator.is_none() && self.point.is_none()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleEvent {
    pub level: ConsoleLevel,
    pub source: ConsoleSource,
    pub text: String,
    pub url: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ConsoleLevel {
    Debug,
    Info,
    Log,
    Warning,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ConsoleSource {
    Console,
    Script,
    Network,
    Security,
    Other,
}

/// A request that has ended. Its [`Event::at`] is the time of its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEvent {
    pub method: String,
    pub url: String,
    /// As [`kitfleet_types::emulation`] names types: `document`, `image`, `script`, `xhr` and so on.
    pub resource_type: String,
    pub status: Option<u16>,
    pub mime_type: Option<String>,
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
    pub duration_ms: Option<u64>,
    pub frame_url: Option<String>,
    pub error: Option<String>,
    /// Left out of answers of the API, and shown in HAR files and traces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<Header>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<Header>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// The text that answers a prompt is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogEvent {
    pub state: DialogState,
    pub kind: DialogType,
    pub message: String,
    /// `None` while it is open.
    pub accepted: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogState {
    Opened,
    Answered,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEvent {
    pub state: PageChange,
    pub page_id: PageId,
    pub url: Option<String>,
    pub opener_id: Option<PageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageChange {
    Opened,
    Activated,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadEvent {
    pub state: DownloadProgress,
    pub download_id: DownloadId,
    pub url: String,
    pub file_name: String,
    pub bytes: Option<u64>,
    /// `too_large`, `network`, `cancelled` or `disk`.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadProgress {
    Started,
    Complete,
    Failed,
}

/// Its picture has the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameEvent {
    /// Operation after which the picture was taken.
    pub operation_id: Option<OperationId>,
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlEvent {
    pub state: ControlState,
    /// Acting account of the person.
    pub account_id: Option<AccountId>,
    /// Client that took control of an agent session.
    pub client_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlState {
    /// A person sends input.
    Taken,
    Returned,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChallengeEvent {
    pub state: ChallengeProgress,
    pub challenge_id: String,
    pub kind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeProgress {
    Detected,
    Resolved,
}

/// A change of the recording itself. A recorder writes it, except for [`RecordingState::Dropped`] of the browser's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingEvent {
    pub state: RecordingState,
    pub reason: Option<RecordingReason>,
    /// Number of events that are missing before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_events: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_frames: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RecordingState {
    /// No more pictures, or with `event_limit` no more events.
    Stopped,
    /// Some events are missing.
    #[default]
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RecordingReason {
    SessionQuota,
    AccountQuota,
    EventLimit,
    /// The storage was not available.
    Storage,
    /// The page produced more than the browser keeps.
    Overflow,
}
