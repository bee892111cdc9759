//! The control channel between a worker and one WebKit host: a JSON document a line, commands on the host's
//! standard input, messages on its standard output.
//!
//! The host is the only program that links GTK and WebKit. It obeys commands and knows nothing of accounts, jobs or
//! deadlines: the worker decides how long to wait and kills the host when it has waited enough. End of input ends the
//! host, so that a dead worker leaves none behind.
//!
//! Commands run concurrently: a reply carries the id of its command, and may overtake an earlier one's.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest line of a host, in bytes. A reply that would be longer is an error instead, and a worker reads no further: a
/// page's process that somebody has taken over may say anything.
pub const MOST_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The socket of the egress guard, in the browser's folder, for a family with a network of its own.
pub const EGRESS_SOCKET: &str = "way-out";

/// The port of that network's loopback which leads to that socket.
pub const EGRESS_PORT: u16 = 1080;

/// One line to the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the worker, unique within this host's life; the reply repeats it.
    pub id: u64,
    /// What to do.
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

/// What a host can be told to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum HostCommand {
    /// Turn a blank host into a device. Sent once, before the first navigation. Replies `null`.
    Configure(Device),
    /// Load a page and reply with a [`Navigated`] when it has come as far as `until`.
    Navigate {
        /// An absolute http or https URL.
        uri: String,
        /// How far the page has to come.
        until: WaitUntil,
    },
    /// Go to a page of the history and reply with a [`Navigated`] when it has loaded.
    GoInHistory(Direction),
    /// Load the page once more and reply with a [`Navigated`] when it has loaded.
    Reload,
    /// Have pages submit forms by this rule from now on. Replies with whether the page was kept from submitting one before, which nobody
    /// has been told.
    HoldSubmissions {
        /// The rule.
        rule: SubmissionRule,
    },
    /// Give the page a moment to submit a form by what was just done to it, and reply with the [`Held`] that it was kept from submitting
    /// since this was last asked, or with `null`.
    HeldSubmission,
    /// Have the page submit the form that it was last kept from submitting, as by [`SubmissionRule::AllowOneForm`]. Replies with whether that
    /// is still there.
    ReleaseSubmission,
    /// Run the body of an async function in a world of our own, which shares the page's DOM but none of its script
    /// objects: a page cannot tamper with what we read. Replies with the value it returns, as JSON of no more than
    /// [`MOST_LINE_BYTES`].
    Evaluate {
        /// The function's body, such as `return document.title`.
        script: String,
    },
    /// Inject trusted touch events of one finger, at CSS pixels of the viewport. Replies `null` after the last.
    Touch {
        /// From the finger's landing to its lifting.
        steps: Vec<TouchStep>,
    },
    /// Inject trusted key events into whatever has the focus, as fast as the page takes them. Replies `null` after the
    /// last. Pauses between keys are the worker's business, so that an abandoned text stops.
    Keys {
        /// A key each: one character, or a name of the W3C UI Events `key` values, such as `Enter` or `ArrowLeft`.
        keys: Vec<String>,
    },
    /// Write the page as a PNG. Replies with a [`Snapshot`].
    Snapshot {
        /// The whole document instead of the viewport.
        full_page: bool,
        /// The file to write, in the browser's folder.
        file: String,
    },
    /// Write the page as a PDF. Replies `null` when the file is complete.
    Pdf {
        /// The file to write, in the browser's folder.
        file: String,
    },
    /// Reply with the browser's cookies, those of other hosts and `HttpOnly` ones too, as a list of [`Cookie`].
    Cookies {
        /// So many, if there are more; all of them, when absent.
        at_most: Option<usize>,
    },
    /// Replace every cookie of the browser by these. Replies `null` when that is done.
    ReplaceCookies {
        /// Those of all hosts, session cookies too.
        cookies: Vec<Cookie>,
    },
    /// Leave the page for a blank one, so that it can save what pages save when they are left. Replies `null` when it is
    /// gone, which a page that never yields never is.
    Leave,
    /// Reply with a [`Page`].
    Page,
    /// Wait until the browser shows something new, and reply with that as a [`Seen`]. Only now is anything painted, until
    /// [`Command::Unwatch`]. A later one ends an earlier one, which then replies with nothing new.
    Watch {
        /// All that can be seen, as soon as that may be, instead of what is new.
        whole: bool,
        /// Who watches: each has another number.
        watcher: u64,
    },
    /// Nobody watches any more, unless somebody else does by now. Replies `null`.
    Unwatch {
        /// Who has.
        watcher: u64,
    },
    /// From now on a person acts, and is asked what a page asks; or not any more: then what is open is closed as it is without a
    /// person. Replies `null`.
    GrantInput {
        /// Whether a person acts.
        lend: bool,
    },
    /// Replies when the page has handled all that a person did, or asks something, or has said nothing for a while: with whether nothing
    /// is asked.
    InputIdle,
    /// Do what a person does, and reply at once with whether the page answers; when it does not, nothing is done. What a page makes of it
    /// a person sees.
    Act {
        /// In this order.
        acts: Vec<ViewerAction>,
    },
}

impl HostCommand {
    /// The command's name in logs and errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Configure(_) => "configure",
            Self::Navigate { .. } => "navigate",
            Self::GoInHistory(_) => "go_in_history",
            Self::Reload => "reload",
            Self::HoldSubmissions { .. } => "hold_submissions",
            Self::HeldSubmission => "held_submission",
            Self::ReleaseSubmission => "release_submission",
            Self::Evaluate { .. } => "evaluate",
            Self::Touch { .. } => "touch",
            Self::Keys { .. } => "keys",
            Self::Snapshot { .. } => "snapshot",
            Self::Pdf { .. } => "pdf",
            Self::Cookies { .. } => "cookies",
            Self::ReplaceCookies { .. } => "replace_cookies",
            Self::Leave => "leave",
            Self::Page => "page",
            Self::Watch { .. } => "watch",
            Self::Unwatch { .. } => "unwatch",
            Self::GrantInput { .. } => "grant_input",
            Self::InputIdle => "input_idle",
            Self::Act { .. } => "act",
        }
    }
}

/// What pages may submit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionRule {
    /// Everything.
    #[default]
    AllowAll,
    /// Nothing.
    HoldAll,
    /// Nothing but what was allowed once, and has not been submitted yet. Replies with `false`: what was held before is still to be reported.
    HoldUnapproved,
    /// One form, and nothing behind it. A load that sends a form again is none.
    AllowOneForm,
    /// One load by a [`Command::GoInHistory`] or [`Command::Reload`] that sends a form again, and nothing behind it.
    AllowOneRepeat,
}

/// What a page was kept from submitting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// A form of it, or whatever else it began that sends a form.
    Form,
    /// A form that was sent before: a [`Command::GoInHistory`] or [`Command::Reload`] would have sent it again.
    Resubmission,
}

/// What a page is to see. The device pixel ratio is fixed when GTK starts, so it is an argument of the host
/// (`--scale`), not part of this.
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
    /// `navigator.languages`, and the `Accept-Language` header.
    pub languages: Vec<String>,
    /// The only way out, such as `socks5://127.0.0.1:40001`.
    pub proxy: String,
    /// Characters of an address, beyond which it is cut: a page can give itself one of any length.
    pub uri_chars: usize,
    /// Characters of a title, beyond which it is cut.
    pub title_chars: usize,
}

/// How far a navigation has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitUntil {
    /// The `load` event.
    Load,
    /// The `DOMContentLoaded` event.
    DomContentLoaded,
    /// The `load` event, then half a second without a request in flight.
    NetworkIdle,
}

/// A navigation that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Navigated {
    /// Where redirects led, cut to size.
    pub final_uri: String,
    /// The HTTP status of the main document.
    pub status: u16,
}

/// One step of a finger.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TouchStep {
    /// Landing, moving or lifting.
    pub phase: TouchPhase,
    /// CSS pixels from the viewport's left edge.
    pub x: f64,
    /// CSS pixels from the viewport's top edge.
    pub y: f64,
    /// Milliseconds to wait before this step.
    pub after_ms: u64,
}

/// What a finger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TouchPhase {
    /// It lands.
    Begin,
    /// It moves.
    Update,
    /// It lifts.
    End,
    /// It is gone, without having done anything.
    Cancel,
}

/// One thing that a person does.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerAction {
    /// With one of several fingers.
    Touch {
        /// Which.
        finger: u8,
        /// What it does.
        phase: TouchPhase,
        /// CSS pixels from the viewport's left edge.
        x: f64,
        /// CSS pixels from the viewport's top edge.
        y: f64,
    },
    /// With a key, as of [`Command::Keys`].
    Key {
        /// Which.
        key: String,
    },
    /// A text that goes in as a whole, where the focus is.
    Text {
        /// Its characters.
        text: String,
    },
    /// With the open options of a `<select>`.
    Choose {
        /// From 0 on; `None` closes them.
        index: Option<u32>,
    },
    /// With the open dialog.
    Answer {
        /// Whether it is accepted.
        accept: bool,
        /// The answer to a prompt.
        text: Option<String>,
    },
}

/// What is typed is in no log.
impl fmt::Debug for ViewerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an act of a person")
    }
}

/// What is new.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveEvent {
    /// What was painted.
    pub picture: Option<Picture>,
    /// The page, when its address or its title has changed.
    pub page: Option<PageInfo>,
    /// What is asked now, when that has changed.
    pub asked: Option<DialogRequest>,
}

/// What was painted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its number, from 1 on.
    pub seq: u32,
    /// The number of the one that it is drawn over; 0 when it is of the whole viewport.
    pub base: u32,
    /// Whether it will not be replaced by a sharper one.
    pub sharp: bool,
    /// The viewport's width and height, in CSS pixels.
    pub view: [u16; 2],
    /// Left, top, width and height of what it shows, in CSS pixels.
    pub rect: [u16; 4],
    /// When it was taken, in microseconds since 1970.
    pub taken_us: u64,
    /// In base64.
    pub jpeg: String,
}

/// Address and title of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    /// Cut to size.
    pub uri: String,
    /// Cut to size; `None` when the document has none.
    pub title: Option<String>,
}

/// What a person is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogRequest {
    /// The options of an open `<select>`.
    pub menu: Option<Vec<MenuItem>>,
    /// An open dialog.
    pub dialog: Option<Dialog>,
}

/// One option of a `<select>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    /// Cut to size.
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
    /// Cut to size.
    pub message: String,
    /// What a prompt suggests, cut to size.
    pub default: Option<String>,
}

/// How a page asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// `alert`.
    Alert,
    /// `confirm`.
    Confirm,
    /// `prompt`.
    Prompt,
    /// Whether the page may be left.
    BeforeUnload,
}

/// A written PNG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// In physical pixels.
    pub width: u32,
    /// In physical pixels.
    pub height: u32,
}

/// One cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host, with a leading dot when it is valid for subdomains.
    pub domain: String,
    /// The path it is sent to.
    pub path: String,
    /// Unix seconds; `None` for a session cookie.
    pub expires: Option<i64>,
    /// Sent over TLS only.
    pub secure: bool,
    /// Hidden from scripts.
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// What the browser shows now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The address, cut to size.
    pub uri: String,
    /// Cut to size; `None` when the document has none.
    pub title: Option<String>,
    /// Whether either was cut.
    pub truncated: bool,
    /// `None` before the first navigation.
    pub lifecycle: Option<Lifecycle>,
}

/// How the main document fares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Lifecycle {
    /// Under way.
    Loading,
    /// The `load` event has fired.
    Loaded,
    /// It failed, or is an HTTP error page.
    Errored {
        /// Why.
        error: PageError,
    },
}

/// Why a main document failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageError {
    /// The layer that failed.
    pub kind: PageErrorKind,
    /// For `http`: 400 or above.
    pub http_status: Option<u16>,
    /// WebKit's words.
    pub message: String,
}

/// The layer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageErrorKind {
    /// An HTTP status of 400 or above.
    Http,
    /// The certificate or the handshake.
    Tls,
    /// The name does not resolve.
    Dns,
    /// Anything below HTTP: refused, reset, redirect loop, blocked, a download instead of a page.
    Net,
    /// The load took too long.
    Timeout,
}

/// One line from the host.
///
/// The tags of this type and of [`Outcome`] stand outside of what they tag, so that a result can be kept as the text it is until
/// somebody knows what to make of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// WebKit runs and shows a blank page: the host takes commands.
    Ready,
    /// The answer to a command.
    Reply {
        /// The command's id.
        id: u64,
        /// Its result.
        outcome: Outcome,
    },
    /// The web process died; the host ends itself after this line.
    WebProcessTerminated {
        /// WebKit's reason, such as `Crashed` or `ExceededMemoryLimit`.
        reason: String,
    },
}

/// How a command ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Ok(Box<RawValue>),
    /// Not done.
    Error(HostError),
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostError {
    /// A navigation did not arrive. An HTTP error page is not that: it arrives.
    Navigation(PageError),
    /// The script threw, or the page went away under it.
    Script {
        /// The exception's message.
        message: String,
    },
    /// There is no page that the command could lead to.
    Nowhere,
    /// No such key.
    UnknownKey {
        /// As it was sent.
        key: String,
    },
    /// WebKit refused.
    Engine {
        /// Its words.
        message: String,
    },
}
