//! Traces for Playwright's trace viewer (contract: recordings 27 to 30).
//!
//! A trace is a ZIP file with JSON lines in `trace.trace` and `trace.network`, and pictures in `resources/`. All times are
//! milliseconds of one clock. The pictures are written first, because the lines refer to those that exist: so each segment is read
//! once and at most one is in memory. In formats before 9, the picture of a step is a frame snapshot with one image.
//!
//! Names of entries are made of numbers only, so that no text of a page becomes a path.

use std::collections::{HashMap, HashSet};
use std::io;

use bytes::Bytes;
use kitfleet_types::ids::OperationId;
use kitfleet_types::operations::{Element, OperationOutcome, Target};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::Sender;

use crate::events::{DialogState, Event, EventBody, FrameEvent, OperationEvent};
use crate::har::entry;
use crate::reader::{Attachment, Reader};
use crate::source::Source;
use crate::zip::ZipWriter;

/// Version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceFormat {
    V7 = 7,
    V8 = 8,
    V9 = 9,
}

impl TraceFormat {
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        [Self::V7, Self::V8, Self::V9].into_iter().find(|format| *format as u64 == number)
    }
}

const PAGE: &str = "page@1";
const FRAME: &str = "frame@1";
/// Time of the first event.
const START_MS: i64 = 1_000;
/// An iPhone 16, until there is a picture.
const VIEWPORT: (u32, u32) = (393, 659);
/// Host that does not exist, for pictures that older viewers look up by their address.
const PICTURES: &str = "https://recording.invalid";

/// Writes the file in chunks. An error ends it.
pub async fn write(
    reader: &Reader,
    format: TraceFormat,
    title: &str,
    sink: &Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    write_from(reader, format, title, sink).await
}

async fn write_from<S: Source + Sync>(
    source: &S,
    format: TraceFormat,
    title: &str,
    sink: &Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let mut zip = ZipWriter::new(sink);
    let (pictures, snapshots) = write_attachments(source, format, &mut zip).await?;
    let mut trace = Trace { format, wall_ms: 0, frames: Vec::new(), after: HashMap::new(), snapshots };
    trace.read_index(source, &pictures).await?;

    zip.begin("trace.trace")?;
    let mut lines = vec![trace.context(title)];
    let mut after = 0;
    while let Some((events, last_seq)) = source.events_after(after).await? {
        after = last_seq;
        for event in &events {
            trace.describe(event, &pictures, &mut lines);
            zip.write(&text_of(&mut lines)?).await?;
        }
    }
    zip.write(&text_of(&mut lines)?).await?;
    zip.end().await?;

    zip.begin("trace.network")?;
    if format < TraceFormat::V9 {
        for frame in &trace.frames {
            lines.push(trace.picture_request(frame));
            zip.write(&text_of(&mut lines)?).await?;
        }
    }
    after = 0;
    while let Some((events, last_seq)) = source.events_after(after).await? {
        after = last_seq;
        for event in &events {
            if let EventBody::Request(request) = &event.body {
                let mut har = entry(event.at, request);
                let started =
                    trace.time(event) - i64::try_from(request.duration_ms.unwrap_or_default()).unwrap_or_default();
                har["pageref"] = PAGE.into();
                har["_frameref"] = FRAME.into();
                har["_monotonicTime"] = started.into();
                lines.push(json!({"type": "resource-snapshot", "snapshot": har}));
                zip.write(&text_of(&mut lines)?).await?;
            }
        }
    }
    zip.end().await?;
    source.check_exists().await?;
    zip.finish().await
}

/// Returns the numbers of the pictures, and the numbers and operations of the snapshots.
async fn write_attachments<S: Source + Sync>(
    source: &S,
    format: TraceFormat,
    zip: &mut ZipWriter<'_>,
) -> io::Result<(HashSet<u64>, Vec<(u64, OperationId)>)> {
    let (mut pictures, mut snapshots, mut after) = (HashSet::new(), Vec::new(), 0);
    while let Some((attachments, last_seq)) = source.attachments_after(after).await? {
        after = last_seq;
        for (seq, attachment) in attachments {
            match attachment {
                Attachment::Frame(jpeg) => {
                    zip.store(&format!("resources/{}", picture_name(seq)), &jpeg).await?;
                    pictures.insert(seq);
                }
                Attachment::Snapshot(snapshot) if format >= TraceFormat::V9 => {
                    zip.begin(&snapshot_name(seq))?;
                    zip.write(snapshot.text.as_bytes()).await?;
                    zip.end().await?;
                    snapshots.push((seq, snapshot.operation_id));
                }
                Attachment::Snapshot(_) => {}
            }
        }
    }
    Ok((pictures, snapshots))
}

fn picture_name(seq: u64) -> String {
    format!("frame-{seq}.jpeg")
}

fn snapshot_name(seq: u64) -> String {
    format!("aria/snapshot-{seq}.yml")
}

/// One line for each value, and the values are removed.
fn text_of(lines: &mut Vec<Value>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines.drain(..) {
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    Ok(text)
}

#[derive(Debug, Clone, Copy)]
struct Picture {
    seq: u64,
    time: i64,
    frame: FrameEvent,
}

/// Facts about a recording that its events refer to.
struct Trace {
    format: TraceFormat,
    /// Time of the first event, in milliseconds since 1970.
    wall_ms: i64,
    frames: Vec<Picture>,
    /// Picture after an operation.
    after: HashMap<OperationId, Picture>,
    snapshots: Vec<(u64, OperationId)>,
}

impl Trace {
    async fn read_index<S: Source + Sync>(&mut self, source: &S, pictures: &HashSet<u64>) -> io::Result<()> {
        let (mut after, mut first) = (0, None);
        while let Some((events, last_seq)) = source.events_after(after).await? {
            after = last_seq;
            for event in &events {
                let begin = match &event.body {
                    EventBody::Operation(operation) => operation.started_at.min(event.at),
                    _ => event.at,
                };
                let begin = begin.0.timestamp_millis();
                first = Some(first.map_or(begin, |first: i64| first.min(begin)));
                if let EventBody::Frame(frame) = event.body
                    && pictures.contains(&event.seq)
                {
                    let picture = Picture { seq: event.seq, time: event.at.0.timestamp_millis(), frame };
                    self.frames.push(picture);
                    if let Some(operation) = frame.operation_id {
                        self.after.insert(operation, picture);
                    }
                }
            }
        }
        self.wall_ms = first.unwrap_or_default();
        for picture in self.frames.iter_mut().chain(self.after.values_mut()) {
            picture.time += START_MS - self.wall_ms;
        }
        Ok(())
    }

    fn time(&self, event: &Event) -> i64 {
        self.time_of(event.at)
    }

    fn time_of(&self, at: kitfleet_types::timestamp::Timestamp) -> i64 {
        at.0.timestamp_millis() - self.wall_ms + START_MS
    }

    fn context(&self, title: &str) -> Value {
        let frame = self.frames.first().map(|picture| picture.frame);
        let (width, height) = frame.map_or(VIEWPORT, |frame| (frame.width, frame.height));
        json!({
            "version": self.format as u64,
            "type": "context-options",
            "origin": "library",
            "browserName": "webkit",
            "playwrightVersion": "1.50.0",
            "platform": "linux",
            "wallTime": self.wall_ms,
            "monotonicTime": START_MS,
            "title": title,
            "sdkLanguage": "javascript",
            "options": {"viewport": {"width": width, "height": height}, "deviceScaleFactor": 3, "isMobile": true, "hasTouch": true},
        })
    }

    fn describe(&self, event: &Event, pictures: &HashSet<u64>, lines: &mut Vec<Value>) {
        let time = self.time(event);
        let note = |text: String| {
            json!({"type": "console", "time": time, "pageId": PAGE, "messageType": "info", "text": text, "args": [],
                   "location": {"url": "", "lineNumber": 0, "columnNumber": 0}})
        };
        match &event.body {
            EventBody::Operation(operation) => self.describe_operation(event.seq, operation, lines),
            EventBody::Frame(frame) if pictures.contains(&event.seq) => {
                let (member, name) = self.picture_file(event.seq);
                let mut line = json!({"type": "screencast-frame", "pageId": PAGE, "width": frame.width, "height": frame.height,
                                      "timestamp": time});
                line[member] = name.into();
                lines.push(line);
            }
            EventBody::Console(console) => {
                let level: &'static str = console.level.into();
                lines.push(json!({
                    "type": "console", "time": time, "pageId": PAGE, "messageType": level, "text": console.text, "args": [],
                    "location": {"url": console.url.as_deref().unwrap_or_default(), "lineNumber": console.line.unwrap_or_default(),
                                 "columnNumber": 0},
                }));
            }
            EventBody::Dialog(dialog) => {
                let state = match (dialog.state, dialog.accepted) {
                    (DialogState::Opened, _) => "opened",
                    (DialogState::Answered, Some(true)) => "accepted",
                    (DialogState::Answered, _) => "dismissed",
                };
                lines.push(note(format!("Dialog ({}) {state}: {}", dialog.kind.name(), dialog.message)));
            }
            EventBody::Page(page) => {
                let state = format!("{:?}", page.state).to_lowercase();
                lines.push(note(format!("Page {state}: {}", page.url.as_deref().unwrap_or("about:blank"))));
            }
            EventBody::Download(download) => {
                let state = format!("{:?}", download.state).to_lowercase();
                lines.push(note(format!("Download {state}: {}", download.file_name)));
            }
            EventBody::Control(control) => {
                lines.push(note(format!("Control by a person: {:?}", control.state).to_lowercase()));
            }
            EventBody::Challenge(challenge) => {
                lines.push(note(format!("Challenge ({}): {:?}", challenge.kind, challenge.state).to_lowercase()));
            }
            EventBody::Recording(recording) => {
                let (state, reason): (&str, Option<&str>) = (recording.state.into(), recording.reason.map(Into::into));
                lines.push(note(format!("Recording {state} ({})", reason.unwrap_or("unknown"))));
            }
            EventBody::Frame(_) | EventBody::Request(_) => {}
        }
    }

    fn describe_operation(&self, seq: u64, operation: &OperationEvent, lines: &mut Vec<Value>) {
        let call = operation.operation_id.to_string();
        let (start, end) = (self.time_of(operation.started_at), self.time_of(operation.ended_at));
        let described = &operation.described;
        let before = self
            .frames
            .iter()
            .rev()
            .find(|picture| picture.time <= start && picture.frame.operation_id != Some(operation.operation_id));
        let after = self.after.get(&operation.operation_id);
        let is_old = self.format < TraceFormat::V9;

        let mut params = Map::new();
        if let Some(element) = &operation.trace.locator {
            params.insert("selector".to_owned(), selector_of(element).into());
        }
        if described.action == "navigate" {
            let url = described.description.strip_prefix("Navigate to ").unwrap_or_default();
            params.insert("url".to_owned(), url.into());
        }
        let mut line = json!({
            "type": "before", "callId": call, "stepId": call, "startTime": start, "class": "Session", "method": described.action,
            "params": params, "pageId": PAGE,
        });
        line[if self.format == TraceFormat::V7 { "apiName" } else { "title" }] = described.description.as_str().into();
        if is_old && before.is_some() {
            line["beforeSnapshot"] = format!("before@{call}").into();
        }
        lines.push(line);
        self.show_picture(&call, "before", before, lines);
        self.show_snapshot(
            &call,
            "before",
            self.snapshots.iter().rev().find(|(at, of)| *at < seq && *of != operation.operation_id),
            lines,
        );
        if let Some(point) = operation.trace.point {
            lines.push(json!({"type": "input", "callId": call, "point": {"x": point.x, "y": point.y}}));
        }
        let outcome = operation.outcome.name();
        let actor = operation.actor.as_ref().map_or_else(String::new, |actor| {
            format!(" by {} {}", actor.kind.name(), actor.id.as_deref().unwrap_or_default())
        });
        lines.push(json!({"type": "log", "callId": call, "time": start, "message": format!("{}{actor}", described.description)}));
        lines.push(json!({"type": "log", "callId": call, "time": end, "message": format!("{outcome} after {} ms", operation.duration_ms)}));
        self.show_picture(&call, "after", after, lines);
        self.show_snapshot(&call, "after", self.snapshots.iter().find(|(_, of)| *of == operation.operation_id), lines);
        let mut line = json!({"type": "after", "callId": call, "endTime": end});
        if is_old && after.is_some() {
            line["afterSnapshot"] = format!("after@{call}").into();
        }
        if operation.outcome.is_error() {
            let message = operation.error.as_deref().unwrap_or(outcome);
            line["error"] = json!({"name": error_name(operation.outcome), "message": message});
        } else {
            line["result"] = json!({"outcome": outcome, "url": operation.url});
        }
        lines.push(line);
    }

    fn show_picture(&self, call: &str, phase: &str, picture: Option<&Picture>, lines: &mut Vec<Value>) {
        let Some(picture) = picture else { return };
        let (_, name) = self.picture_file(picture.seq);
        if self.format >= TraceFormat::V9 {
            lines.push(json!({"type": "screenshot", "callId": call, "phase": phase, "file": name}));
            return;
        }
        let FrameEvent { width, height, .. } = picture.frame;
        let url = picture_url(picture.seq);
        lines.push(json!({"type": "frame-snapshot", "snapshot": {
            "snapshotName": format!("{phase}@{call}"), "callId": call, "pageId": PAGE, "frameId": FRAME, "frameUrl": PICTURES,
            "timestamp": picture.time, "wallTime": picture.time - START_MS + self.wall_ms, "collectionTime": 1, "doctype": "html",
            "viewport": {"width": width, "height": height}, "isMainFrame": true,
            "resourceOverrides": [{"url": url, "sha1": name}],
            "html": ["HTML", {}, ["HEAD", {}], ["BODY", {"style": "margin:0"},
                ["IMG", {"src": url, "style": format!("width:{width}px;height:{height}px")}]]],
        }}));
    }

    fn show_snapshot(&self, call: &str, phase: &str, snapshot: Option<&(u64, OperationId)>, lines: &mut Vec<Value>) {
        if let Some((seq, _)) = snapshot
            && self.format >= TraceFormat::V9
        {
            lines.push(json!({"type": "aria-snapshot", "callId": call, "phase": phase, "file": snapshot_name(*seq)}));
        }
    }

    /// Member that names the file of a picture, and its value.
    fn picture_file(&self, seq: u64) -> (&'static str, String) {
        let name = picture_name(seq);
        if self.format >= TraceFormat::V9 { ("file", format!("resources/{name}")) } else { ("sha1", name) }
    }

    /// Older viewers find a picture by a request of its address that is earlier than the snapshot that shows it.
    fn picture_request(&self, picture: &Picture) -> Value {
        let started_at =
            chrono::DateTime::from_timestamp_millis(picture.time - START_MS + self.wall_ms).unwrap_or_default();
        json!({"type": "resource-snapshot", "snapshot": {
            "pageref": PAGE, "_frameref": FRAME, "_monotonicTime": 0,
            "startedDateTime": kitfleet_types::timestamp::Timestamp(started_at), "time": 0,
            "request": {"method": "GET", "url": picture_url(picture.seq), "httpVersion": "HTTP/1.1", "cookies": [], "headers": [],
                        "queryString": [], "headersSize": -1, "bodySize": 0},
            "response": {"status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "cookies": [],
                         "headers": [{"name": "content-type", "value": "image/jpeg"}],
                         "content": {"size": -1, "mimeType": "image/jpeg", "_sha1": picture_name(picture.seq)},
                         "headersSize": -1, "bodySize": -1, "redirectURL": ""},
            "cache": {}, "timings": {"send": 0, "wait": 0, "receive": 0},
        }})
    }
}

fn picture_url(seq: u64) -> String {
    format!("{PICTURES}/{}", picture_name(seq))
}

fn error_name(outcome: OperationOutcome) -> &'static str {
    match outcome {
        OperationOutcome::Timeout => "SessionTimeout",
        OperationOutcome::Invalid => "ValidationFailed",
        OperationOutcome::Withheld => "ResultWithheld",
        _ => "DriverError",
    }
}

/// Selector in the form that the viewer shows as a locator.
fn selector_of(element: &Element) -> String {
    let (target, is_exact) = match element {
        Element::Selector(selector) => return selector.clone(),
        Element::Target(target) => (target, 'i'),
        Element::Exact(target) => (target, 's'),
    };
    let quoted = |text: &str| format!("{}{is_exact}", Value::from(text));
    match target {
        Target::Selector(selector) => selector.clone(),
        Target::Role { role, name: Some(name) } => format!("internal:role={role}[name={}]", quoted(name)),
        Target::Role { role, name: None } => format!("internal:role={role}"),
        Target::Label(text) => format!("internal:label={}", quoted(text)),
        Target::Text(text) => format!("internal:text={}", quoted(text)),
        Target::Placeholder(text) => format!("internal:attr=[placeholder={}]", quoted(text)),
        Target::Ref(text) => format!("aria-ref={text}"),
    }
}

#[cfg(test)]
mod tests;
