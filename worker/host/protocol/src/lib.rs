//! Control channel between a worker and one WebKit host: one JSON document per line, over the host's standard input and output.
//!
//! The host has no accounts, jobs or deadlines: the worker kills a host that exceeds a limit. The host exits at the end of its
//! input, so a dead worker leaves no host behind.

mod recording;
mod scripts;
mod waits;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::recording::{
    CONSOLE_CHARS, MOST_COVERS, PageEvent, PageEventBody, PageEvents, PaintedPage, RECORDED_HEADER_CHARS,
    RECORDED_HEADERS, RECORDED_HEADERS_BYTES, RECORDED_URI_CHARS, RecordedPicture, RequestEntry,
};
pub use self::scripts::{ScriptEnd, ScriptException, ScriptRun, SyntaxError};
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

pub const MAX_SHOWN_DIALOGS: usize = 20;

/// The host then dismisses a dialog.
pub const DIALOG_HELD_SECS: u64 = 60;

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
        /// 1 to 100.
        quality: u8,
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionRule {
    #[default]
    AllowAll,
    HoldAll,
    /// Holds back all submissions, except for one that is already approved. Replies with `false`, so that an earlier held
    /// submission is still reported later.
    HoldUnapproved,
    /// A load that sends a form again does not count as a form.
    AllowOneForm,
    /// Allows one [`HostCommand::GoInHistory`] or [`HostCommand::Reload`] that sends a form again.
    AllowOneRepeat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Cannot be sent later: an approved step must repeat its input.
    Request,
    /// Or another load by the page that sends a form.
    Form,
    /// Would have been sent again by [`HostCommand::GoInHistory`] or [`HostCommand::Reload`].
    Resubmission,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraHeader {
    pub name: String,
    pub value: String,
    /// Such as `https://example.com`. `None` for all.
    pub origins: Option<Vec<String>>,
}

/// Prints no value, because it may be a secret.
impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraHeader").field("name", &self.name).field("origins", &self.origins).finish_non_exhaustive()
    }
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

/// The device pixel ratio is fixed at GTK's start, so it is an argument of the host (`--scale`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `innerWidth`, in CSS pixels.
    pub viewport_width: u32,
    /// `innerHeight`, in CSS pixels.
    pub viewport_height: u32,
    /// `screen.width`, in CSS pixels.
    pub screen_width: u32,
    /// `screen.height`, in CSS pixels.
    pub screen_height: u32,
    /// `navigator.userAgent`, and the header.
    pub user_agent: String,
    /// `navigator.platform`.
    pub platform: String,
    /// `navigator.maxTouchPoints`.
    pub max_touch_points: u32,
    /// `navigator.languages`.
    pub languages: Vec<String>,
    /// Has more entries than `navigator.languages`.
    pub accept_language: String,
    /// In force from the first page on. Its sizes are those of this device.
    pub emulation: Emulation,
    /// Such as `socks5://127.0.0.1:40001`.
    pub proxy: String,
    pub dialogs: DialogPolicy,
    pub downloads: DownloadLimits,
    /// Longer addresses are truncated, because a page can give itself an address of any length.
    pub uri_chars: usize,
    /// Longer ones are truncated.
    pub title_chars: usize,
    /// Collect events of pages, and remember which fields pictures do not show.
    pub is_recorded: bool,
}

/// For dialogs that no person sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogPolicy {
    /// A page can still be left.
    #[default]
    Dismiss,
    /// A prompt is answered with its default.
    Accept,
    /// Until [`HostCommand::AnswerDialog`].
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadLimits {
    pub file_bytes: u64,
    pub total_bytes: u64,
    /// Later ones are not started.
    pub files: u32,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self { file_bytes: 64 * 1024 * 1024, total_bytes: 256 * 1024 * 1024, files: 100 }
    }
}

/// Can change while the browser is open. A time zone cannot, so it is an environment variable of the host (`TZ`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Emulation {
    /// Reported to secure origins. `None` denies the permission.
    pub geolocation: Option<Geolocation>,
    /// `prefers-color-scheme`.
    pub color_scheme: ColorScheme,
    /// `screen.orientation`.
    pub orientation: Orientation,
    /// In this orientation, in CSS pixels.
    pub viewport: [u32; 2],
    /// In this orientation, in CSS pixels.
    pub screen: [u32; 2],
    pub extra_headers: Vec<ExtraHeader>,
    /// `!navigator.onLine`. The egress guard cuts the connections.
    pub offline: bool,
    pub block: Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Geolocation {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    pub accuracy: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorScheme {
    #[default]
    Light,
    Dark,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    #[default]
    Portrait,
    Landscape,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub resource_types: Vec<ResourceType>,
    /// As URLs spell them. Each covers its subdomains.
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    Image,
    Media,
    Font,
    Stylesheet,
    Script,
    Websocket,
    Xhr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    Load,
    DomContentLoaded,
    /// `load`, then 500 ms without a request in flight. Event streams, beacons, and a request that has been in flight for 500
    /// ms, do not count.
    NetworkIdle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Navigated {
    /// After redirects, truncated.
    pub final_uri: String,
    /// `None` without a response. After a response without a document, such as a download, the previous document stays.
    pub status: Option<u16>,
    pub error: Option<PageError>,
    /// The load has turned into it: the previous document stays, and there is no error.
    pub download: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEntry {
    /// Never used again in a browser.
    pub id: u32,
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
    pub active: bool,
    /// Also with `noopener`. That page may be closed.
    pub opener: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChooser {
    pub multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedFile {
    /// Below the browser's folder.
    pub path: String,
    /// The last part of the path, because WebKit takes the name from there.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChooserState {
    Selected,
    NoChooser,
    /// The chooser takes one file, and stays open.
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadEntry {
    /// Never used again in a browser.
    pub id: u32,
    pub uri: String,
    /// Suggested by the page or the server, truncated. No file has this name.
    pub file_name: String,
    pub content_type: Option<String>,
    pub bytes: u64,
    pub status: DownloadStatus,
    pub error: Option<DownloadError>,
    /// Below the browser's folder. The file exists for the status `complete` only.
    pub path: String,
    /// Microseconds since 1970.
    pub created_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadStatus {
    InProgress,
    Complete,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadError {
    /// Of the file, or of all files together.
    TooLarge,
    Network,
    Cancelled,
    Disk,
}

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
    /// Press of a key, as in [`HostCommand::Keys`].
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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveEvent {
    pub picture: Option<Picture>,
    /// Address and title, when one of them has changed.
    pub page: Option<PageInfo>,
    pub asked: Option<DialogRequest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub seq: u32,
    /// Picture that this one is drawn over. 0 for the whole viewport.
    pub base: u32,
    /// No sharper version will follow.
    pub sharp: bool,
    pub view: [u16; 2],
    /// Left, top, width and height, in CSS pixels.
    pub rect: [u16; 4],
    /// Microseconds since 1970.
    pub taken_us: u64,
    /// JPEG in base64.
    pub jpeg: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogRequest {
    pub menu: Option<Vec<MenuItem>>,
    pub dialog: Option<Dialog>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    pub label: String,
    pub enabled: bool,
    pub selected: bool,
    /// Heading of the following options.
    pub group: bool,
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

/// Size of a written picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    Viewport,
    Document,
    /// Left, top, width and height in CSS pixels of the viewport; may reach beyond it.
    Clip([f64; 4]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    Png,
    Jpeg(u8),
    Webp(u8),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdfLayout {
    /// PWG 5101.1, such as `iso_a4`.
    pub paper: String,
    pub landscape: bool,
    /// Top, right, bottom and left, in millimetres. `None` for that of the paper.
    pub margins: [Option<f64>; 4],
    pub background: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// Leading dot when the cookie is valid for subdomains.
    pub domain: String,
    pub path: String,
    /// Unix seconds. `None` for a session cookie.
    pub expires: Option<i64>,
    pub secure: bool,
    pub http_only: bool,
    pub same_site: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookiesSet {
    /// Indexes of cookies whose domain is a public suffix. If there is one, no cookie is set.
    pub public_suffixes: Vec<usize>,
    /// Indexes of cookies that WebKit has not kept.
    pub dropped: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
    pub truncated: bool,
    /// Of the main document. `None` before the first navigation.
    pub lifecycle: Option<Lifecycle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Lifecycle {
    Loading,
    Loaded,
    /// The load failed, or the document is an HTTP error page.
    Errored {
        error: PageError,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageError {
    pub kind: PageErrorKind,
    pub http_status: Option<u16>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    Http,
    /// Error of the certificate or the handshake.
    Tls,
    Dns,
    /// Refused, reset, redirect loop, blocked, closed page.
    Net,
    Timeout,
}

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
    /// There is an event for [`HostCommand::TakeEvents`]. Sent once until that command.
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
