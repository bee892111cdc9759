//! Control channel between a worker and one WebKit host: one JSON document per line, with commands on the host's
//! standard input and messages on its standard output.
//!
//! The host is the only program that links GTK and WebKit. It runs commands and has no accounts, jobs or deadlines: the
//! worker enforces time limits and kills a host that exceeds them. The host exits at the end of its input, so a dead
//! worker leaves no host behind.
//!
//! Commands run concurrently. A reply carries the ID of its command, and replies may arrive in another order.

mod scripts;
mod waits;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::scripts::{ScriptEnd, ScriptException, ScriptRun, SyntaxError};
pub use self::waits::{LoadProgress, ResponseEntry};

/// Maximum length of a line from a host, in bytes. The host sends an error instead of a longer reply, and a worker reads
/// no further, because a compromised page process could send anything.
pub const MOST_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Socket of the egress guard in the browser's folder, for a family with its own network.
pub const EGRESS_SOCKET: &str = "way-out";

/// Port on the loopback of that network that forwards to the socket.
pub const EGRESS_PORT: u16 = 1080;

/// File name of the web-process extension.
pub const EXTENSION: &str = "libkitfleet_extension.so";

/// Maximum number of [`ExtraHeader`].
pub const MOST_HEADERS: usize = 20;

/// Maximum size of all names and values of [`ExtraHeader`], in bytes.
pub const MOST_HEADER_BYTES: usize = 4 * 1024;

/// Maximum number of open pages.
pub const MOST_PAGES: usize = 8;

/// Maximum number of [`ShownDialog`] that a host keeps.
pub const MOST_SHOWN_DIALOGS: usize = 20;

/// Maximum number of seconds that a dialog is held. The host then dismisses it.
pub const DIALOG_HELD_SECS: u64 = 60;

/// One line to the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// ID that the worker chooses, unique for this host. The reply repeats it.
    pub id: u64,
    /// Command to run.
    pub command: HostCommand,
}

/// Direction in the history.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "direction", rename_all = "snake_case")]
pub enum Direction {
    /// To the previous page.
    Back,
    /// To the page from which the browser went back.
    Forward,
}

/// Command to a host. It applies to the active page, unless it says otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum HostCommand {
    /// Configure a blank host as a device. Sent once, before the first navigation. Replies `null`.
    Configure(Device),
    /// Load a page and reply with a [`Navigated`] when it has reached `until`, or when it is known that there is no page.
    Navigate {
        /// An absolute http or https URL.
        uri: String,
        /// State of the load that ends the command.
        until: WaitUntil,
    },
    /// Stop waiting for a navigation, whose load continues. Replies with what is known of it, a [`Navigated`].
    EndNavigation,
    /// Go to a page of the history and reply with a [`Navigated`] when it has loaded.
    GoInHistory(Direction),
    /// Reload the page and reply with a [`Navigated`] when it has loaded.
    Reload,
    /// Set the rule for submissions of pages. Replies with whether an earlier submission was held back that has not been
    /// reported.
    HoldSubmissions {
        rule: SubmissionRule,
        /// True to hold back requests of scripts too, from the next input until [`HostCommand::HeldSubmission`] or
        /// another rule. Only requests to the site of the page are held, and none with the method `GET` or `HEAD`.
        requests: bool,
    },
    /// Wait briefly for a submission that the last input caused. Reply with the [`Held`] submission since the last call,
    /// or with `null`.
    HeldSubmission,
    /// Submit the form that was held back last, as under [`SubmissionRule::AllowOneForm`]. Replies with whether the form
    /// still exists.
    ReleaseSubmission,
    /// Set headers of all later requests of pages, which replace those set before. At most [`MOST_HEADERS`], and
    /// [`MOST_HEADER_BYTES`] in all. Replies `null`.
    SetHeaders { headers: Vec<ExtraHeader> },
    /// Reply with the [`ConsoleLines`] of pages since the last call.
    TakeConsole,
    /// Run the body of an async function in an isolated world. It shares the page's DOM but none of its script objects,
    /// so that the page cannot tamper with results. Replies with the returned value as JSON of at most
    /// [`MOST_LINE_BYTES`].
    Evaluate {
        /// Body of the function, such as `return document.title`.
        script: String,
    },
    /// Run the body of an async function in the page's own world, and reply with a [`ScriptRun`] when it has ended.
    RunScript {
        /// Body of the function.
        script: String,
        /// JSON array, which the function gets as `args`.
        arguments: String,
        /// Maximum size of the value as JSON, in bytes.
        limit_bytes: u64,
        /// True to reply with `true` or `false` instead of the value, as a condition judges it.
        as_condition: bool,
    },
    /// Inject trusted touch events of one finger, at CSS pixels of the viewport. Replies with a [`TouchOutcome`] after the
    /// last one.
    Touch {
        /// Steps from the first contact to the lift.
        steps: Vec<TouchStep>,
        /// True to cancel the touch unless it reaches the node that a script has marked in the isolated world.
        aimed: bool,
    },
    /// Inject trusted mouse events, at CSS pixels of the viewport. Replies `null` when the page has handled them.
    Mouse {
        /// Steps in order.
        steps: Vec<MouseStep>,
    },
    /// Inject a drag along points, with the drag and drop of HTML if the page has it. A finger lifts an element with
    /// `draggable` by a long press. Replies with a [`DragOutcome`] when the page has handled it.
    Drag {
        /// True for a finger, false for a mouse.
        has_finger: bool,
        /// Points in order, at CSS pixels of the viewport. The pause of the first one is not used.
        points: Vec<DragPoint>,
    },
    /// Inject trusted key events into the focused element, as fast as the page handles them. Replies `null` after the
    /// last one. The worker adds pauses between keys by separate commands, so that an abandoned text stops.
    Keys {
        /// Keys: one character each, or a name of the W3C UI Events `key` values, such as `Enter` or `ArrowLeft`. The
        /// character U+0009 is inserted as text, whereas `Tab` is the key.
        keys: Vec<String>,
    },
    /// Replace the selected text of the focused element. Replies `null` when the page has handled it.
    InsertText {
        /// New text. Empty to delete the selected text.
        text: String,
    },
    /// Write a picture of the page. Replies with a [`Snapshot`]. While a dialog is held open, a picture of the viewport is
    /// the last one that the page has painted.
    Snapshot {
        /// Part of the page.
        region: Region,
        /// True to scroll through the whole document first, so that lazy content loads.
        reveal: bool,
        format: PictureFormat,
        /// True for one pixel for each CSS pixel, false for physical pixels.
        css_pixels: bool,
        /// File to write, in the browser's folder.
        file: String,
    },
    /// Write the page as a PDF. Replies `null` when the file is complete.
    Pdf {
        /// Layout of the pages.
        layout: PdfLayout,
        /// File to write, in the browser's folder.
        file: String,
    },
    /// Reply with the browser's cookies as a list of [`Cookie`], including those of other hosts and `HttpOnly` ones.
    Cookies {
        /// Maximum number of cookies. Absent for all.
        at_most: Option<usize>,
    },
    /// Replace all cookies of the browser. Replies `null` when it is done.
    ReplaceCookies {
        /// Cookies of all hosts, including session cookies.
        cookies: Vec<Cookie>,
    },
    /// Add cookies, or replace those with the same name, domain and path. Replies with a [`CookiesSet`].
    SetCookies {
        /// Cookies in order.
        cookies: Vec<Cookie>,
    },
    /// Delete the cookies that match all members. Replies `null` when they are deleted.
    DeleteCookies {
        /// Name.
        cookie: Option<String>,
        /// Domain. Without a leading dot, cookies with one match as well.
        domain: Option<String>,
        path: Option<String>,
    },
    /// Change the emulation, of the current page too. Replies `null` when it is in force.
    Emulate {
        /// The complete emulation.
        emulation: Emulation,
    },
    /// Leave the page for a blank one, so that its handlers for leaving can save data. Replies `null` when the page is
    /// gone. A page that blocks its main thread delays the reply without limit.
    Leave,
    /// Reply with a [`Page`].
    Page,
    /// Reply with all open pages as a list of [`PageEntry`], oldest first.
    Pages,
    /// Open a blank page, make it the active one, and reply with its [`PageEntry`].
    OpenPage,
    /// Make another page the active one. Replies `null`.
    ActivatePage {
        /// ID of the page.
        page: u32,
    },
    /// Close a page. Its opener becomes the active page, or else the newest one, if it was active. Replies `null`.
    ClosePage {
        /// ID of the page.
        page: u32,
    },
    /// Reply with the dialogs of all pages that were shown and answered since the last call, as a list of
    /// [`ShownDialog`]. Only the first [`MOST_SHOWN_DIALOGS`] are kept.
    TakeDialogs,
    /// Wait until a dialog is held open, and reply with it as a [`Dialog`]. Replies at once if one is open.
    AwaitDialog,
    /// Reply with the [`Dialog`] that is held open, or with `null`.
    OpenDialog,
    /// Answer the dialog that is held open. Replies with whether one was open.
    AnswerDialog {
        /// True to accept it.
        accept: bool,
        /// Answer to a prompt. `None` for its default.
        text: Option<String>,
    },
    /// Reply with the [`OpenChooser`] of the last input, or with `null`. A chooser is closed by the next input, and after
    /// 10 s.
    ChooserOpen,
    /// Give files to the open chooser. Replies with a [`ChooserState`].
    SelectFiles {
        /// At least one file.
        files: Vec<SelectedFile>,
    },
    /// Reply with the downloads of all pages as a list of [`DownloadEntry`], oldest first.
    Downloads,
    /// Reply with the [`LoadProgress`] of the page.
    LoadProgress,
    /// Reply with the newest responses that pages have received, as a list of [`ResponseEntry`], oldest first.
    Responses {
        /// Number of the last response that is known.
        after: u64,
        /// Earliest time of a response, in microseconds since 1970.
        since_us: u64,
    },
    /// Wait until the browser shows a change, and reply with it as a [`LiveEvent`]. The browser paints only from this
    /// command until [`HostCommand::Unwatch`]. A later `Watch` ends an earlier one, which then replies with an empty
    /// event.
    Watch {
        /// True to get the complete state as soon as possible instead of a change.
        whole: bool,
        /// Number of the viewer. Each viewer has another one.
        watcher: u64,
    },
    /// Stop painting for this viewer, unless another viewer has taken over. Replies `null`.
    Unwatch {
        /// Number of the viewer.
        watcher: u64,
    },
    /// Grant input to a person, who then receives the page's dialogs, or revoke it. Revoking closes open dialogs in the
    /// same way as without a person. Replies `null`.
    GrantInput {
        /// True to grant, false to revoke.
        lend: bool,
    },
    /// Wait until the page has handled the person's input, opens a dialog, or a time limit passes. Replies with whether
    /// no dialog or menu is open.
    InputIdle,
    /// Perform a person's input, and reply at once with whether the page answers. If it does not answer, the input has
    /// no effect. The person sees the effect in the picture.
    Act {
        /// Input in order.
        acts: Vec<ViewerAction>,
    },
}

impl HostCommand {
    /// Name of the command in logs and errors.
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
            Self::TakeConsole => "take_console",
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

/// Rule for submissions of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionRule {
    #[default]
    AllowAll,
    /// Hold back all submissions.
    HoldAll,
    /// Hold back all submissions, except for one that is already approved and not yet submitted. Replies with `false`,
    /// so that an earlier held submission is still reported later.
    HoldUnapproved,
    /// Allow one form, and hold back everything after it. A load that sends a form again does not count as a form.
    AllowOneForm,
    /// Allow one [`HostCommand::GoInHistory`] or [`HostCommand::Reload`] that sends a form again, and hold back
    /// everything after it.
    AllowOneRepeat,
}

/// Submission that was held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// A request of a script, which cannot be sent later. An approved step must repeat its input.
    Request,
    /// A form of the page, or another load by the page that sends a form.
    Form,
    /// A form that was already sent, which a [`HostCommand::GoInHistory`] or [`HostCommand::Reload`] would have sent
    /// again.
    Resubmission,
}

/// Header that is set on requests of pages.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraHeader {
    pub name: String,
    pub value: String,
    /// Origins whose requests receive the header, such as `https://example.com`. `None` for all.
    pub origins: Option<Vec<String>>,
}

/// Prints no value, because it may be a secret.
impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraHeader").field("name", &self.name).field("origins", &self.origins).finish_non_exhaustive()
    }
}

/// Console lines of pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLines {
    /// Newest lines, oldest first.
    pub lines: Vec<ConsoleLine>,
    /// Number of lines that were dropped, because there were too many.
    pub dropped: u64,
}

/// Line of a page's console: a call of `console`, an uncaught error, or a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLine {
    pub level: ConsoleLevel,
    /// Part of the browser that wrote the line.
    pub source: ConsoleSource,
    /// Text, truncated. Of a call of `console` it is the first argument.
    pub text: String,
    /// Address of the script, truncated. Empty when there is none.
    pub address: String,
    /// Line of the script, starting at 1. 0 when there is none.
    pub line: u32,
}

/// Level of a console line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleLevel {
    /// `console.info`.
    Info,
    /// `console.log`.
    Log,
    /// `console.warn`.
    Warning,
    /// `console.error`, or an uncaught error.
    Error,
    /// `console.debug`.
    Debug,
}

/// Part of a browser that writes console lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleSource {
    /// The script engine, for uncaught errors.
    Script,
    /// The network, for failed requests.
    Network,
    /// A call of `console`.
    Console,
    /// A policy of the page or the browser.
    Security,
    /// Another part.
    Other,
}

/// Properties of the device that pages see. The device pixel ratio is fixed at GTK's start, so it is an argument of the
/// host (`--scale`).
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
    /// The `Accept-Language` header. It has more entries than `navigator.languages`.
    pub accept_language: String,
    /// Emulation that is in force from the first page on. Its sizes are those of this device.
    pub emulation: Emulation,
    /// URL of the proxy, such as `socks5://127.0.0.1:40001`. It is the only egress route.
    pub proxy: String,
    /// Handling of dialogs.
    pub dialogs: DialogPolicy,
    pub downloads: DownloadLimits,
    /// Maximum length of an address in characters. Longer ones are truncated, because a page can give itself an address
    /// of any length.
    pub uri_chars: usize,
    /// Maximum length of a title in characters. Longer ones are truncated.
    pub title_chars: usize,
}

/// Handling of dialogs that no person sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogPolicy {
    /// Dismiss them. A page can still be left.
    #[default]
    Dismiss,
    /// Accept them. A prompt is answered with its default.
    Accept,
    /// Hold each one open until [`HostCommand::AnswerDialog`].
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadLimits {
    /// Maximum size of a file, in bytes.
    pub file_bytes: u64,
    /// Maximum size of all files, in bytes.
    pub total_bytes: u64,
    /// Maximum number of downloads. Later ones are not started.
    pub files: u32,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self { file_bytes: 64 * 1024 * 1024, total_bytes: 256 * 1024 * 1024, files: 100 }
    }
}

/// Emulation of a session that can change while its browser is open. A time zone cannot change, so it is an environment
/// variable of the host (`TZ`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Emulation {
    /// Position that the Geolocation API reports to secure origins. `None` denies the permission.
    pub geolocation: Option<Geolocation>,
    /// `prefers-color-scheme`.
    pub color_scheme: ColorScheme,
    /// `screen.orientation`.
    pub orientation: Orientation,
    /// `innerWidth` and `innerHeight` in this orientation, in CSS pixels.
    pub viewport: [u32; 2],
    /// `screen.width` and `screen.height` in this orientation, in CSS pixels.
    pub screen: [u32; 2],
    /// Headers that are added to requests.
    pub extra_headers: Vec<ExtraHeader>,
    /// `!navigator.onLine`. The egress guard cuts the connections.
    pub offline: bool,
    /// Requests that are not sent.
    pub block: Block,
}

/// Position on the globe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Geolocation {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// Accuracy in meters.
    pub accuracy: f64,
}

/// Value of `prefers-color-scheme`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorScheme {
    /// Dark text on a light background.
    #[default]
    Light,
    /// Light text on a dark background.
    Dark,
}

/// Orientation of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    /// Upright.
    #[default]
    Portrait,
    /// On its side.
    Landscape,
}

/// Requests that are not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Types of requests.
    pub resource_types: Vec<ResourceType>,
    /// Hosts in the form that URLs have them. Each covers its subdomains.
    pub hosts: Vec<String>,
}

/// Type of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// Picture.
    Image,
    /// Audio or video.
    Media,
    Font,
    /// Style sheet.
    Stylesheet,
    Script,
    Websocket,
    /// Request of a script, by `XMLHttpRequest` or `fetch`.
    Xhr,
}

/// State of a load that ends a navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    /// The `load` event.
    Load,
    /// The `DOMContentLoaded` event.
    DomContentLoaded,
    /// The `load` event, then 500 ms without a request in flight. Event streams, beacons, and a request that has been in flight
    /// for 500 ms, do not count.
    NetworkIdle,
}

/// Result of a navigation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Navigated {
    /// Address after redirects, truncated to the device's limit.
    pub final_uri: String,
    /// HTTP status of the response. `None` when there is none. The previous document stays after a response without a
    /// document, such as a download.
    pub status: Option<u16>,
    /// Error of a [`HostCommand::Navigate`] whose load failed.
    pub error: Option<PageError>,
    /// ID of the download that the load has turned into. The previous document stays, and there is no error.
    pub download: Option<u32>,
}

/// An open page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEntry {
    /// ID, never used again in a browser. The first page is 1.
    pub id: u32,
    /// Address, truncated to the device's limit.
    pub uri: String,
    /// Title, truncated to the device's limit. `None` when the document has none.
    pub title: Option<String>,
    /// True for the page that commands apply to.
    pub active: bool,
    /// ID of the page that opened it, also with `noopener`. That page may be closed.
    pub opener: Option<u32>,
}

/// File chooser that a page has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChooser {
    /// True when it takes several files.
    pub multiple: bool,
}

/// File for a chooser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedFile {
    /// Path of the file, below the browser's folder.
    pub path: String,
    /// Name that the page sees. It must be the last part of the path, because WebKit takes the name from there.
    pub name: String,
}

/// Result of [`HostCommand::SelectFiles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChooserState {
    /// The page has received the files.
    Selected,
    /// No chooser is open.
    NoChooser,
    /// There are several files, and the chooser takes one. It stays open.
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadEntry {
    /// ID, never used again in a browser. The first download is 1.
    pub id: u32,
    /// Address, truncated to the device's limit.
    pub uri: String,
    /// Name that the page or the server suggests, truncated. It is text only: no file has this name.
    pub file_name: String,
    /// Media type of the response, truncated.
    pub content_type: Option<String>,
    /// Received bytes.
    pub bytes: u64,
    /// Progress.
    pub status: DownloadStatus,
    /// Error of a failed download.
    pub error: Option<DownloadError>,
    /// Path of the file, below the browser's folder. The file exists for the status `complete` only.
    pub path: String,
    /// Time of the start, in microseconds since 1970.
    pub created_us: u64,
}

/// Progress of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadStatus {
    /// Bytes are still expected.
    InProgress,
    /// The file is complete.
    Complete,
    /// It has ended with an error, and there is no file.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadError {
    /// The file, or all files together, are larger than allowed.
    TooLarge,
    /// The network or the server failed.
    Network,
    /// The page has ended it.
    Cancelled,
    /// The file cannot be written.
    Disk,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TouchStep {
    pub phase: TouchPhase,
    /// CSS pixels from the viewport's left edge.
    pub x: f64,
    /// CSS pixels from the viewport's top edge.
    pub y: f64,
    /// Milliseconds to wait before this step.
    pub after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MouseStep {
    /// What the mouse does.
    pub kind: MouseKind,
    /// CSS pixels from the viewport's left edge.
    pub x: f64,
    /// CSS pixels from the viewport's top edge.
    pub y: f64,
    /// Milliseconds to wait before this step.
    pub after_ms: u64,
}

/// What a mouse does in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MouseKind {
    /// It moves without a pressed button.
    Move,
    /// Its first button is pressed.
    Press,
    /// It moves with the button pressed.
    Drag,
    /// The button is released.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DragPoint {
    /// CSS pixels from the viewport's left edge.
    pub x: f64,
    /// CSS pixels from the viewport's top edge.
    pub y: f64,
    /// Milliseconds to wait before this point.
    pub after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DragOutcome {
    /// The page has received it to its end.
    Done,
    /// The drag of an element did not end after its release.
    Unfinished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TouchOutcome {
    /// The page has received it.
    Done,
    /// It did not reach its node, which has moved or is covered. The page has received no click.
    Missed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TouchPhase {
    /// The finger touches the screen.
    Begin,
    /// The finger moves.
    Update,
    /// The finger lifts.
    End,
    /// The touch is cancelled without an effect.
    Cancel,
}

/// One input of a person.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerAction {
    /// Touch with one of several fingers.
    Touch {
        /// Number of the finger.
        finger: u8,
        phase: TouchPhase,
        /// CSS pixels from the viewport's left edge.
        x: f64,
        /// CSS pixels from the viewport's top edge.
        y: f64,
    },
    /// Press of a key, as in [`HostCommand::Keys`].
    Key {
        /// Name of the key.
        key: String,
    },
    /// Text that is inserted as a whole into the focused element.
    Text {
        /// Characters of the text.
        text: String,
    },
    /// Choice of an option of the open `<select>`.
    Choose {
        /// Index of the option. `None` closes the menu.
        index: Option<u32>,
    },
    /// Answer to the open dialog.
    Answer {
        /// True when the dialog is accepted.
        accept: bool,
        /// Answer to a prompt.
        text: Option<String>,
    },
}

/// Prints no content, so that typed text never reaches a log.
impl fmt::Debug for ViewerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an input of a person")
    }
}

/// Changes since the last event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveEvent {
    /// Newly painted part.
    pub picture: Option<Picture>,
    /// Address and title, when one of them has changed.
    pub page: Option<PageInfo>,
    /// Open dialog and menu, when they have changed.
    pub asked: Option<DialogRequest>,
}

/// A painted part of the viewport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Number of the picture, starting at 1.
    pub seq: u32,
    /// Number of the picture that this one is drawn over. 0 for the whole viewport.
    pub base: u32,
    /// True when no sharper version will follow.
    pub sharp: bool,
    /// Width and height of the viewport, in CSS pixels.
    pub view: [u16; 2],
    /// Left, top, width and height of the painted part, in CSS pixels.
    pub rect: [u16; 4],
    /// Time of the picture, in microseconds since 1970.
    pub taken_us: u64,
    /// JPEG in base64.
    pub jpeg: String,
}

/// Address and title of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    /// Address, truncated to the device's limit.
    pub uri: String,
    /// Title, truncated to the device's limit. `None` when the document has none.
    pub title: Option<String>,
}

/// Dialog and menu that wait for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogRequest {
    /// Options of an open `<select>`.
    pub menu: Option<Vec<MenuItem>>,
    /// An open dialog.
    pub dialog: Option<Dialog>,
}

/// One option of a `<select>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    /// Label, truncated.
    pub label: String,
    /// True when the option can be chosen.
    pub enabled: bool,
    /// True when the option is chosen now.
    pub selected: bool,
    /// True when this is the heading of the following options.
    pub group: bool,
}

/// Dialog of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    pub kind: DialogKind,
    /// Message, truncated.
    pub message: String,
    /// Default answer of a prompt, truncated.
    pub default: Option<String>,
}

/// Dialog that was shown and answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDialog {
    pub kind: DialogKind,
    /// Message, truncated.
    pub message: String,
    /// Default answer of a prompt, truncated.
    pub default: Option<String>,
    /// True when it was accepted.
    pub accepted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// `alert`.
    Alert,
    /// `confirm`.
    Confirm,
    /// `prompt`.
    Prompt,
    /// Confirmation that the page may be left.
    BeforeUnload,
}

/// Size of a written picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Width in pixels of the picture.
    pub width: u32,
    /// Height in pixels of the picture.
    pub height: u32,
}

/// Part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    Viewport,
    /// The whole document.
    Document,
    /// A rectangle, which may reach beyond the viewport: left, top, width and height in CSS pixels of the viewport.
    Clip([f64; 4]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    Png,
    /// JPEG with a quality of 1 to 100.
    Jpeg(u8),
    /// WebP with a quality of 1 to 100.
    Webp(u8),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdfLayout {
    /// Name of the paper in PWG 5101.1, such as `iso_a4`.
    pub paper: String,
    /// True if the long side is horizontal.
    pub landscape: bool,
    /// Margins at the top, right, bottom and left in millimetres. `None` for that of the paper.
    pub margins: [Option<f64>; 4],
    /// True to print backgrounds.
    pub background: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// Host, with a leading dot when the cookie is valid for subdomains.
    pub domain: String,
    /// Path that the cookie is sent to.
    pub path: String,
    /// Expiry in Unix seconds. `None` for a session cookie.
    pub expires: Option<i64>,
    /// True when the cookie is sent over TLS only.
    pub secure: bool,
    /// True when the cookie is hidden from scripts.
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// Result of [`HostCommand::SetCookies`]. Without members all cookies are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookiesSet {
    /// Indexes of cookies whose domain is a public suffix, such as `com`. If there is one, no cookie is set.
    pub public_suffixes: Vec<usize>,
    /// Indexes of cookies that WebKit has not kept.
    pub dropped: Vec<usize>,
}

/// Current state of the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Address, truncated to the device's limit.
    pub uri: String,
    /// Title, truncated to the device's limit. `None` when the document has none.
    pub title: Option<String>,
    /// True when the address or the title was truncated.
    pub truncated: bool,
    /// State of the main document. `None` before the first navigation.
    pub lifecycle: Option<Lifecycle>,
}

/// State of the main document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Lifecycle {
    /// The load is in progress.
    Loading,
    /// The `load` event has fired.
    Loaded,
    /// The load failed, or the document is an HTTP error page.
    Errored {
        /// Error of the load.
        error: PageError,
    },
}

/// Error of a main document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageError {
    /// The layer that failed.
    pub kind: PageErrorKind,
    /// HTTP status of 400 or above, for the kind `http`.
    pub http_status: Option<u16>,
    /// Message of WebKit.
    pub message: String,
}

/// The layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    /// An HTTP status of 400 or above.
    Http,
    /// Error of the certificate or the handshake.
    Tls,
    /// The name does not resolve.
    Dns,
    /// Anything below HTTP: refused, reset, redirect loop, blocked, closed page.
    Net,
    /// The load timed out.
    Timeout,
}

/// One line from the host.
///
/// This type and [`Outcome`] use externally tagged JSON, so that a result can be kept as raw text until its type is
/// known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// WebKit runs and shows a blank page. The host accepts commands.
    Ready,
    /// Reply to a command.
    Reply {
        /// ID of the command.
        id: u64,
        /// Result of the command.
        outcome: Outcome,
    },
    /// The web process has ended. The host exits after this line.
    WebProcessTerminated {
        /// Reason of WebKit, such as `Crashed` or `ExceededMemoryLimit`.
        reason: String,
    },
}

/// Result of a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The command is done.
    Ok(Box<RawValue>),
    /// The command failed.
    Error(HostError),
}

/// Error of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostError {
    /// A move in the history or a reload failed. An HTTP error page is not an error.
    Navigation(PageError),
    /// The script threw an exception, or its page was replaced.
    Script {
        /// Message of the exception.
        message: String,
    },
    /// The command has no page to go to.
    Nowhere,
    /// The key does not exist.
    UnknownKey {
        /// The key that was sent.
        key: String,
    },
    /// There is no page with this ID.
    NoSuchPage,
    /// The only page cannot be closed.
    LastPage,
    /// [`MOST_PAGES`] pages are open.
    TooManyPages,
    /// The command needs the page, which waits for the answer to a dialog.
    DialogOpen,
    /// WebKit rejected the command.
    Engine {
        /// Message of WebKit.
        message: String,
    },
}
