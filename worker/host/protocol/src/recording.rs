use serde::{Deserialize, Serialize};

use crate::dialogs::{Dialog, ShownDialog};
use crate::files::DownloadEntry;

/// Maximum number of characters of a recorded address.
pub const RECORDED_URI_CHARS: usize = 2_048;

/// Maximum number of characters of a recorded console line.
pub const CONSOLE_CHARS: usize = 2_000;

/// Maximum number of headers of a recorded request, and of its response.
pub const RECORDED_HEADERS: usize = 64;

/// Maximum number of characters of a header's value.
pub const RECORDED_HEADER_CHARS: usize = 1_024;

/// Maximum number of bytes of all headers of a request, and of its response.
pub const RECORDED_HEADERS_BYTES: usize = 8 * 1024;

/// Maximum number of boxes that a recorded picture covers.
pub const MOST_COVERS: usize = 500;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEvents {
    /// Oldest first, within each kind.
    pub events: Vec<PageEvent>,
    /// Number of events that were dropped before these.
    pub dropped: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEvent {
    /// Microseconds since 1970.
    pub at_us: u64,
    pub body: PageEventBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageEventBody {
    Console(ConsoleLine),
    Request(RequestEntry),
    /// It is held open.
    DialogOpened(Dialog),
    DialogAnswered(ShownDialog),
    PageOpened {
        page: u32,
        uri: String,
        opener: Option<u32>,
    },
    PageActivated {
        page: u32,
        uri: String,
    },
    PageClosed {
        page: u32,
    },
    DownloadStarted(DownloadEntry),
    /// Complete or failed.
    DownloadEnded(DownloadEntry),
}

/// A call of `console`, an uncaught error, or a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLine {
    pub level: ConsoleLevel,
    pub source: ConsoleSource,
    /// Truncated. The first argument of a call of `console`.
    pub text: String,
    /// Truncated. Empty when there is none.
    pub address: String,
    /// Starts at 1. 0 when there is none.
    pub line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleLevel {
    Info,
    Log,
    Warning,
    /// Also an uncaught error.
    Error,
    Debug,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleSource {
    /// Uncaught errors.
    Script,
    /// Failed requests.
    Network,
    Console,
    Security,
    Other,
}

/// A request that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEntry {
    pub method: String,
    /// Truncated, as all texts of it.
    pub uri: String,
    /// `document`, `stylesheet`, `script`, `image`, `font`, `media`, `xhr` or `other`.
    pub resource_type: String,
    pub status: Option<u16>,
    pub mime_type: Option<String>,
    /// Names and values, which may be secrets.
    pub request_headers: Vec<(String, String)>,
    pub response_headers: Vec<(String, String)>,
    /// `None` if the length of the body is not known.
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
    pub duration_ms: u64,
    /// Document that has sent the request. Its origin only if it has another origin than the page.
    pub frame_uri: Option<String>,
    pub error: Option<String>,
}

/// The visible page, painted for a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaintedPage {
    /// False when it looks as in the last recorded picture. It is then discarded.
    pub changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPicture {
    /// In pixels, of which each is a CSS pixel.
    pub width: u32,
    pub height: u32,
    /// JPEG in base64.
    pub jpeg: String,
}
