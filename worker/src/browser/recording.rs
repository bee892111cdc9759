//! Pictures, snapshots and events of pages for the recording of a session (contract: recordings).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::DateTime;
use kitfleet_host_protocol::{self as protocol, HostCommand, MOST_COVERS, PageEventBody, PaintedPage};
use kitfleet_recording::events::{
    ConsoleEvent, ConsoleLevel, ConsoleSource, DialogEvent, DialogState, DownloadEvent, DownloadProgress, EventBody,
    Header, PageChange, PageEvent, RecordingEvent, RecordingReason, RecordingState, RequestEvent, TEXT_CHARS,
};
use kitfleet_types::files::{Download, DownloadError, DownloadStatus};
use kitfleet_types::ids::{PageId, SessionId};
use kitfleet_types::operations::Point;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::dialogs::{answered_dialog, open_dialog, storable};
use super::files::Files;
use super::host::HostHandle;
use super::page;
use super::webkit::Webkit;

/// For each step of a picture, and for a snapshot. A page that is busy for longer gets none. The next operation ends the wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Pauses before further attempts, while a field moves that the picture must not show, the page was not painted yet, or other
/// processes delay the search.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(700)];

/// Pauses before further looks at a page that looks as before: the effect of an operation may be painted late.
const LATE_PAINTS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// For the search of fields, in milliseconds.
const SEARCH_MS: u32 = 40;

const SNAPSHOT_MS: u32 = 20;
const SNAPSHOT_NODES: u32 = 1_500;
/// The rest of a longer snapshot is missing.
const SNAPSHOT_CHARS: u32 = 30_000;

/// Of a simulated browser.
const MOST_EVENTS: usize = 500;

/// The content is a JPEG.
#[derive(Debug, Clone)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub jpeg: Bytes,
}

/// What a recording keeps of the page after an operation.
#[derive(Debug, Clone, Default)]
pub struct Look {
    pub picture: Option<Picture>,
    /// Accessibility tree without values of fields.
    pub text: Option<String>,
}

/// Parts of a [`Look`].
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub picture: bool,
    pub text: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Covers {
    /// Left, top, right and bottom, in CSS pixels of the viewport.
    Known(Vec<[f64; 4]>),
    Moving,
    /// The page has too many elements.
    Unclear,
}

/// Of a search for covers, relative to the painting.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Before,
    After,
    /// Only after it. The answer is `Moving` if this does not suffice.
    Only,
}

#[derive(Debug, Deserialize)]
struct Seen {
    hidden: Option<Covers>,
    text: Option<String>,
}

impl Webkit {
    /// Has no picture when the page looks as in the last picture, or when it is not known which parts the picture must not show.
    /// A part is missing when the page does not answer. Cancellation is safe: the host then discards the picture.
    pub async fn look(&self, wanted: Wanted) -> Look {
        if wanted.picture {
            return self.take_picture(wanted.text).await.unwrap_or_default();
        }
        Look { picture: None, text: self.read_text(wanted.text).await }
    }

    async fn take_picture(&self, with_text: bool) -> Option<Look> {
        let (mut pauses, mut is_still) = ([Duration::ZERO].into_iter().chain(RETRY_AFTER), false);
        let mut late_paints = LATE_PAINTS.into_iter();
        let mut unpictured = Look::default();
        loop {
            if is_still {
                let Some(pause) = pauses.next() else { return Some(unpictured) };
                sleep(pause).await;
                match self.search_page(Some(Phase::Before), false).await?.hidden? {
                    Covers::Known(_) => {}
                    Covers::Moving | Covers::Unclear => continue,
                }
            }
            let line = self.host.line();
            let discard = DiscardOnDrop(Some(&line));
            let painting = self.host.call::<PaintedPage>(HostCommand::PaintPicture);
            if !timeout(ANSWER_WITHIN, painting).await.ok()?.ok()?.changed {
                discard.disarm();
                if let Some(pause) = late_paints.next() {
                    sleep(pause).await;
                    continue;
                }
                return Some(Look { picture: None, text: self.read_text(with_text).await });
            }
            let phase = if is_still { Phase::After } else { Phase::Only };
            let Seen { hidden, text } = self.search_page(Some(phase), with_text).await?;
            let covers = match hidden? {
                Covers::Known(covers) => covers,
                Covers::Moving | Covers::Unclear => {
                    is_still = true;
                    unpictured.text = text.or(unpictured.text.take());
                    continue;
                }
            };
            let command = HostCommand::RecordPicture { covers };
            let recording = self.host.call::<Option<protocol::RecordedPicture>>(command);
            let recorded = timeout(ANSWER_WITHIN, recording).await.ok()?.ok()?;
            discard.disarm();
            let picture = recorded.and_then(|protocol::RecordedPicture { width, height, jpeg }| {
                Some(Picture { width, height, jpeg: STANDARD.decode(jpeg).ok()?.into() })
            });
            return Some(Look { picture, text });
        }
    }

    async fn read_text(&self, is_wanted: bool) -> Option<String> {
        if is_wanted { self.search_page(None, true).await?.text } else { None }
    }

    /// For covers, and for the text of the page. `None` when the page does not answer.
    async fn search_page(&self, phase: Option<Phase>, with_text: bool) -> Option<Seen> {
        let snapshot = with_text.then(|| {
            json!({
                "plain": true, "links": false, "refs": self.refs, "within_ms": SNAPSHOT_MS,
                "nodes": SNAPSHOT_NODES, "characters": SNAPSHOT_CHARS,
            })
        });
        let input = json!({ "phase": phase, "within_ms": SEARCH_MS, "most": MOST_COVERS, "snapshot": snapshot });
        timeout(ANSWER_WITHIN, page::ask_once(&self.host, page::RECORDED, &input)).await.ok()?.ok()?
    }

    pub fn page_events(&self, session: SessionId) -> PageEvents {
        PageEvents { source: Source::Host(self.host.line()), files: self.files.clone(), session }
    }

    /// Point of the last touch.
    pub fn touched(&self) -> Point {
        let (x, y) = self.touched;
        Point { x, y }
    }
}

/// Otherwise the host would regard a picture as recorded that the worker has not received.
struct DiscardOnDrop<'a>(Option<&'a HostHandle>);

impl DiscardOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for DiscardOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.0 {
            line.post(HostCommand::DiscardPicture);
        }
    }
}

/// Does not keep the browser running.
#[derive(Clone)]
pub struct PageEvents {
    source: Source,
    files: Files,
    session: SessionId,
}

#[derive(Clone)]
enum Source {
    Host(HostHandle),
    Simulated(Arc<SimulatedEvents>),
}

impl PageEvents {
    pub(super) fn simulated(events: Arc<SimulatedEvents>, files: Files, session: SessionId) -> Self {
        Self { source: Source::Simulated(events), files, session }
    }

    /// Waits until there are events. Cancellation is safe.
    pub async fn waiting(&self) {
        match &self.source {
            Source::Host(line) => line.events_waiting().await,
            Source::Simulated(events) => events.waiting().await,
        }
    }

    /// Since the last call, oldest first. `None` when the browser has ended.
    pub async fn take(&self) -> Option<Vec<(Timestamp, EventBody)>> {
        match &self.source {
            Source::Host(line) => {
                let taken = line.take_events().await.ok()?;
                let first = taken.events.first().map_or_else(now, |event| time(event.at_us));
                let dropped = (taken.dropped > 0).then(|| (first, overflow(taken.dropped)));
                let events = taken.events.into_iter().map(|event| (time(event.at_us), self.event(event.body)));
                Some(dropped.into_iter().chain(events).collect())
            }
            Source::Simulated(events) => Some(events.take(self.session)),
        }
    }

    fn event(&self, body: PageEventBody) -> EventBody {
        match body {
            PageEventBody::Console(line) => EventBody::Console(console(&line)),
            PageEventBody::Request(request) => EventBody::Request(Box::new(self::request(request))),
            PageEventBody::DialogOpened(dialog) => {
                let dialog = open_dialog(dialog);
                let (state, message) = (DialogState::Opened, short(&dialog.message));
                EventBody::Dialog(DialogEvent { state, kind: dialog.kind, message, accepted: None })
            }
            PageEventBody::DialogAnswered(dialog) => {
                let dialog = answered_dialog(&dialog);
                let (state, message) = (DialogState::Answered, short(&dialog.message));
                EventBody::Dialog(DialogEvent { state, kind: dialog.kind, message, accepted: Some(dialog.accepted) })
            }
            PageEventBody::PageOpened { page, uri, opener } => {
                let opener_id = opener.map(|opener| PageId::of(self.session, opener));
                page_change(PageChange::Opened, PageId::of(self.session, page), &uri, opener_id)
            }
            PageEventBody::PageActivated { page, uri } => {
                page_change(PageChange::Activated, PageId::of(self.session, page), &uri, None)
            }
            PageEventBody::PageClosed { page } => {
                page_change(PageChange::Closed, PageId::of(self.session, page), "", None)
            }
            PageEventBody::DownloadStarted(entry) => download(&self.files.identify(&entry), true),
            PageEventBody::DownloadEnded(entry) => download(&self.files.identify(&entry), false),
        }
    }
}

/// Events of a simulated browser. The newest are kept.
#[derive(Default)]
pub struct SimulatedEvents {
    events: Mutex<VecDeque<(Timestamp, SimulatedEvent)>>,
    added: Notify,
}

pub enum SimulatedEvent {
    Page { state: PageChange, number: u32, url: String, opener: Option<u32> },
    Other(EventBody),
}

impl SimulatedEvents {
    pub fn add(&self, event: SimulatedEvent) {
        let mut events = self.lock();
        events.push_back((now(), event));
        if events.len() > MOST_EVENTS {
            events.pop_front();
        }
        self.added.notify_one();
    }

    async fn waiting(&self) {
        while self.lock().is_empty() {
            self.added.notified().await;
        }
    }

    fn take(&self, session: SessionId) -> Vec<(Timestamp, EventBody)> {
        let events = std::mem::take(&mut *self.lock());
        let body = |event| match event {
            SimulatedEvent::Page { state, number, url, opener } => {
                let opener = opener.map(|opener| PageId::of(session, opener));
                page_change(state, PageId::of(session, number), &url, opener)
            }
            SimulatedEvent::Other(body) => body,
        };
        events.into_iter().map(|(at, event)| (at, body(event))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Timestamp, SimulatedEvent)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn page_change(state: PageChange, page_id: PageId, url: &str, opener_id: Option<PageId>) -> EventBody {
    EventBody::Page(PageEvent { state, page_id, url: text(url), opener_id })
}

/// At its start, or at its end.
pub(super) fn download(download: &Download, is_start: bool) -> EventBody {
    let state = match download.status {
        _ if is_start => DownloadProgress::Started,
        DownloadStatus::Complete => DownloadProgress::Complete,
        DownloadStatus::InProgress | DownloadStatus::Failed => DownloadProgress::Failed,
    };
    EventBody::Download(DownloadEvent {
        state,
        download_id: download.id,
        url: download.url.clone(),
        file_name: download.file_name.to_string(),
        bytes: (!is_start).then_some(download.bytes),
        error: download.error.filter(|_| !is_start).map(|error| {
            let name = match error {
                DownloadError::TooLarge => "too_large",
                DownloadError::Network => "network",
                DownloadError::Cancelled => "cancelled",
                DownloadError::Disk => "disk",
            };
            name.to_owned()
        }),
    })
}

fn console(line: &protocol::ConsoleLine) -> ConsoleEvent {
    ConsoleEvent {
        level: match line.level {
            protocol::ConsoleLevel::Info => ConsoleLevel::Info,
            protocol::ConsoleLevel::Log => ConsoleLevel::Log,
            protocol::ConsoleLevel::Warning => ConsoleLevel::Warning,
            protocol::ConsoleLevel::Error => ConsoleLevel::Error,
            protocol::ConsoleLevel::Debug => ConsoleLevel::Debug,
        },
        source: match line.source {
            protocol::ConsoleSource::Script => ConsoleSource::Script,
            protocol::ConsoleSource::Network => ConsoleSource::Network,
            protocol::ConsoleSource::Console => ConsoleSource::Console,
            protocol::ConsoleSource::Security => ConsoleSource::Security,
            protocol::ConsoleSource::Other => ConsoleSource::Other,
        },
        text: storable(&line.text),
        url: text(&line.address),
        line: (line.line > 0).then_some(line.line),
    }
}

fn request(request: protocol::RequestEntry) -> RequestEvent {
    RequestEvent {
        method: storable(&request.method),
        url: storable(&request.uri),
        resource_type: request.resource_type,
        status: request.status,
        mime_type: request.mime_type.as_deref().map(storable),
        request_bytes: request.request_bytes,
        response_bytes: request.response_bytes,
        duration_ms: Some(request.duration_ms),
        frame_url: request.frame_uri.as_deref().map(storable),
        error: request.error.as_deref().map(storable),
        request_headers: headers(request.request_headers),
        response_headers: headers(request.response_headers),
    }
}

fn headers(headers: Vec<(String, String)>) -> Vec<Header> {
    headers.into_iter().map(|(name, value)| Header { name: storable(&name), value: storable(&value) }).collect()
}

fn overflow(events: u64) -> EventBody {
    EventBody::Recording(RecordingEvent {
        state: RecordingState::Dropped,
        reason: Some(RecordingReason::Overflow),
        dropped_events: Some(events),
        dropped_frames: None,
    })
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| storable(text))
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

fn time(microseconds: u64) -> Timestamp {
    let at = i64::try_from(microseconds).ok().and_then(DateTime::from_timestamp_micros);
    at.map_or_else(now, Timestamp)
}

fn now() -> Timestamp {
    Timestamp(std::time::SystemTime::now().into())
}
