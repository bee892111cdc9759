//! Control channel between a worker and one WebKit host: one JSON document per line, over the host's standard input and output.
//!
//! The host has no accounts, jobs or deadlines: the worker kills a host that exceeds a limit. The host exits at the end of its
//! input, so a dead worker leaves no host behind.

mod cookies;
mod device;
mod dialogs;
mod files;
mod input;
mod live;
mod messages;
mod pages;
mod pictures;
mod recording;
mod scripts;
mod submissions;
mod waits;

use serde::{Deserialize, Serialize};

pub use self::cookies::{Cookie, CookiesSet};
pub use self::device::{
    Block, ColorScheme, Device, DownloadLimits, Emulation, ExtraHeader, Geolocation, Orientation, ResourceType,
};
pub use self::dialogs::{DIALOG_HELD_SECS, Dialog, DialogKind, DialogPolicy, MAX_SHOWN_DIALOGS, ShownDialog};
pub use self::files::{ChooserState, DownloadEntry, DownloadError, DownloadStatus, OpenChooser, SelectedFile};
pub use self::input::{
    DragOutcome, DragPoint, MouseKind, MouseStep, TouchOutcome, TouchPhase, TouchStep, ViewerAction,
};
pub use self::live::{DialogRequest, LiveEvent, MenuItem, PageInfo, Picture};
pub use self::messages::{HostError, Message, Outcome};
pub use self::pages::{Lifecycle, Navigated, Page, PageEntry, PageError, PageErrorKind, WaitUntil};
pub use self::pictures::{PdfLayout, PictureFormat, Region, Snapshot};
pub use self::recording::{
    CONSOLE_CHARS, ConsoleLevel, ConsoleLine, ConsoleSource, MOST_COVERS, PageEvent, PageEventBody, PageEvents,
    PaintedPage, RECORDED_HEADER_CHARS, RECORDED_HEADERS, RECORDED_HEADERS_BYTES, RECORDED_URI_CHARS, RecordedPicture,
    RequestEntry,
};
pub use self::scripts::{ScriptEnd, ScriptException, ScriptRun, SyntaxError};
pub use self::submissions::{Held, SubmissionRule};
pub use self::waits::{LoadProgress, ResponseEntry};

/// The host sends an error instead of a longer reply, and a worker reads no further: a compromised page process could send
/// anything.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Socket of the egress guard, for a family with its own network.
pub const EGRESS_SOCKET: &str = "way-out";

pub const EGRESS_PORT: u16 = 1080;

pub const EXTENSION: &str = "libkitfleet_extension.so";

pub const MAX_HEADERS: usize = 20;

/// Of all names and values.
pub const MAX_HEADER_BYTES: usize = 4 * 1024;

pub const MAX_PAGES: usize = 8;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// ID that the worker chooses, unique for this host.
    pub id: u64,
    pub command: HostCommand,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "direction", rename_all = "snake_case")]
pub enum Direction {
    Back,
    Forward,
}

/// Applies to the active page, unless it says otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum HostCommand {
    /// Sent once to a blank host, before the first navigation. Replies `null`.
    Configure(Device),
    /// Replies with a [`Navigated`] at `until`, or when it is known that there is no page.
    Navigate {
        /// Absolute http or https URL.
        uri: String,
        until: WaitUntil,
    },
    /// The load continues. Replies with its state so far, a [`Navigated`].
    EndNavigation,
    /// Replies with a [`Navigated`] after the load.
    GoInHistory(Direction),
    /// Replies with a [`Navigated`] after the load.
    Reload,
    /// Replies with whether an earlier submission was held back that has not been reported.
    HoldSubmissions {
        rule: SubmissionRule,
        /// Hold back requests of scripts too, from the next input until [`HostCommand::HeldSubmission`] or another rule. Only
        /// requests to the page's site are held, and none with `GET` or `HEAD`.
        requests: bool,
    },
    /// Waits briefly. Replies with the [`Held`] submission since the last call, or `null`.
    HeldSubmission,
    /// Submits the form that was held back last, as under [`SubmissionRule::AllowOneForm`]. Replies with whether it still
    /// exists.
    ReleaseSubmission,
    /// Replaces the headers set before. Replies `null`.
    SetHeaders { headers: Vec<ExtraHeader> },
    /// Paints the visible page for a recorded picture. Replies with a [`PaintedPage`].
    PaintPicture,
    /// Encodes the page of the last [`HostCommand::PaintPicture`] as JPEG. Replies with a [`RecordedPicture`], or with `null` when
    /// there is none.
    RecordPicture {
        /// Parts that the picture does not show: left, top, right and bottom, in CSS pixels of the viewport.
        covers: Vec<[f64; 4]>,
    },
    /// Discards the painted page. Replies `null`.
    DiscardPicture,
    /// Replies with the [`PageEvents`] since the last call. A browser that is not recorded has none.
    TakeEvents,
    /// Runs the body of an async function in an isolated world, which shares the page's DOM but no script objects: the page
    /// cannot tamper with results. Replies with the value as JSON.
    Evaluate { script: String },
    /// Runs the body of an async function in the page's own world. Replies with a [`ScriptRun`].
    RunScript {
        script: String,
        /// JSON array, the function's `args`.
        arguments: String,
        /// Of the value as JSON.
        limit_bytes: u64,
        /// Reply with `true` or `false` instead of the value.
        as_condition: bool,
    },
    /// Trusted touch events of one finger, at CSS pixels of the viewport. Replies with a [`TouchOutcome`].
    Touch {
        steps: Vec<TouchStep>,
        /// Cancel the touch unless it reaches the node that a script has marked in the isolated world.
        aimed: bool,
    },
    /// Trusted mouse events, at CSS pixels of the viewport. Replies `null` when the page has handled them.
    Mouse { steps: Vec<MouseStep> },
    /// Drags with HTML drag and drop if the page has it; a finger lifts a `draggable` element by a long press. Replies with a
    /// [`DragOutcome`].
    Drag {
        /// True for a finger, false for a mouse.
        has_finger: bool,
        /// CSS pixels of the viewport. The first pause is not used.
        points: Vec<DragPoint>,
    },
    /// Trusted key events into the focused element. Replies `null` after the last one. The worker sends paused keys one by one,
    /// so that an abandoned text stops.
    Keys {
        /// One character each, or a `key` value of W3C UI Events, such as `Enter`. U+0009 is inserted as text, whereas `Tab` is
        /// the key.
        keys: Vec<String>,
    },
    /// Replaces the selected text of the focused element. Replies `null` when the page has handled it.
    InsertText {
        /// Empty to delete the selection.
        text: String,
    },
    /// Replies with a [`Snapshot`]. While a dialog is held open, a picture of the viewport is the last one that was painted.
    Snapshot {
        region: Region,
        /// Scroll through the whole document first, so that lazy content loads.
        reveal: bool,
        format: PictureFormat,
        /// One pixel for each CSS pixel instead of physical pixels.
        css_pixels: bool,
        /// In the browser's folder.
        file: String,
    },
    /// Replies `null` when the file is complete.
    Pdf {
        layout: PdfLayout,
        /// File to write, in the browser's folder.
        file: String,
    },
    /// Replies with a list of [`Cookie`], including `HttpOnly` ones.
    Cookies { at_most: Option<usize> },
    /// Replaces all cookies of the browser. Replies `null`.
    ReplaceCookies {
        /// Includes session cookies.
        cookies: Vec<Cookie>,
    },
    /// Adds cookies, or replaces those with the same name, domain and path. Replies with a [`CookiesSet`].
    SetCookies { cookies: Vec<Cookie> },
    /// Deletes the cookies that match all members. Replies `null`.
    DeleteCookies {
        cookie: Option<String>,
        /// Without a leading dot, cookies with one match as well.
        domain: Option<String>,
        path: Option<String>,
    },
    /// Applies to the current page too. Replies `null`.
    Emulate { emulation: Emulation },
    /// Leaves the page for a blank one, so that its handlers can save data. Replies `null`. A page that blocks its main thread
    /// delays the reply without limit.
    Leave,
    /// Replies with a [`Page`].
    Page,
    /// Replies with a list of [`PageEntry`], oldest first.
    Pages,
    /// Opens a blank page and makes it active. Replies with its [`PageEntry`].
    OpenPage,
    /// Replies `null`.
    ActivatePage { page: u32 },
    /// An active page is followed by its opener, or else by the newest page. Replies `null`.
    ClosePage { page: u32 },
    /// Replies with the first [`MAX_SHOWN_DIALOGS`] dialogs that were shown and answered since the last call, a list of
    /// [`ShownDialog`].
    TakeDialogs,
    /// Waits until a dialog is held open, and replies with it as a [`Dialog`].
    AwaitDialog,
    /// Replies with the [`Dialog`] that is held open, or `null`.
    OpenDialog,
    /// Replies with whether a dialog was open.
    AnswerDialog {
        accept: bool,
        /// Answer to a prompt. `None` for its default.
        text: Option<String>,
    },
    /// Replies with the [`OpenChooser`] of the last input, or `null`. The next input closes a chooser, and 10 s do too.
    ChooserOpen,
    /// Replies with a [`ChooserState`].
    SelectFiles {
        /// At least one file.
        files: Vec<SelectedFile>,
    },
    /// Replies with a list of [`DownloadEntry`], oldest first.
    Downloads,
    /// Replies with the [`LoadProgress`].
    LoadProgress,
    /// Replies with the newest responses, a list of [`ResponseEntry`], oldest first.
    Responses {
        after: u64,
        /// Microseconds since 1970.
        since_us: u64,
    },
    /// Waits for a change, and replies with a [`LiveEvent`]. The browser paints only from here until [`HostCommand::Unwatch`].
    /// A later `Watch` ends an earlier one, which replies with an empty event.
    Watch {
        /// Get the complete state instead of a change.
        whole: bool,
        watcher: u64,
    },
    /// Has no effect after another viewer has taken over. Replies `null`.
    Unwatch { watcher: u64 },
    /// Grants input to a person, who then receives the page's dialogs. Revoking closes open dialogs. Replies `null`.
    GrantInput { lend: bool },
    /// Waits until the page has handled the person's input, opens a dialog, or a time limit passes. Replies with whether no
    /// dialog or menu is open.
    InputIdle,
    /// Replies at once with whether the page answers. If not, the input has no effect.
    Act { acts: Vec<ViewerAction> },
}

impl HostCommand {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Configure(_) => "configure",
            Self::Navigate { .. } => "navigate",
            Self::EndNavigation => "end_navigation",
            Self::GoInHistory(_) => "go_in_history",
            Self::Reload => "reload",
            Self::HoldSubmissions { .. } => "hold_submissions",
            Self::HeldSubmission => "held_submission",
            Self::ReleaseSubmission => "release_submission",
            Self::SetHeaders { .. } => "set_headers",
            Self::PaintPicture => "paint_picture",
            Self::RecordPicture { .. } => "record_picture",
            Self::DiscardPicture => "discard_picture",
            Self::TakeEvents => "take_events",
            Self::Evaluate { .. } => "evaluate",
            Self::RunScript { .. } => "run_script",
            Self::Touch { .. } => "touch",
            Self::Mouse { .. } => "mouse",
            Self::Drag { .. } => "drag",
            Self::Keys { .. } => "keys",
            Self::InsertText { .. } => "insert_text",
            Self::Snapshot { .. } => "snapshot",
            Self::Pdf { .. } => "pdf",
            Self::Cookies { .. } => "cookies",
            Self::ReplaceCookies { .. } => "replace_cookies",
            Self::SetCookies { .. } => "set_cookies",
            Self::DeleteCookies { .. } => "delete_cookies",
            Self::Emulate { .. } => "emulate",
            Self::Leave => "leave",
            Self::Page => "page",
            Self::Pages => "pages",
            Self::OpenPage => "open_page",
            Self::ActivatePage { .. } => "activate_page",
            Self::ClosePage { .. } => "close_page",
            Self::TakeDialogs => "take_dialogs",
            Self::AwaitDialog => "await_dialog",
            Self::OpenDialog => "open_dialog",
            Self::AnswerDialog { .. } => "answer_dialog",
            Self::ChooserOpen => "chooser_open",
            Self::SelectFiles { .. } => "select_files",
            Self::Downloads => "downloads",
            Self::LoadProgress => "load_progress",
            Self::Responses { .. } => "responses",
            Self::Watch { .. } => "watch",
            Self::Unwatch { .. } => "unwatch",
            Self::GrantInput { .. } => "grant_input",
            Self::InputIdle => "input_idle",
            Self::Act { .. } => "act",
        }
    }
}
