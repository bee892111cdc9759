use std::fs;
use std::io;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta};
use flate2::read::DeflateDecoder;
use kitfleet_domain::actors::{OperationActor, OperationActorKind};
use kitfleet_types::ids::IntentId;
use kitfleet_types::operations::{OperationDescription, Point};
use kitfleet_types::timestamp::Timestamp;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;
use crate::Snapshot;
use crate::events::{ConsoleEvent, ConsoleLevel, ConsoleSource, RequestEvent, TraceDetails};
use crate::reader::ReadError;
use crate::source::broken;

/// Picture of 393 by 659 pixels.
const JPEG: &[u8] = include_bytes!("page.jpeg");

#[derive(Default)]
struct Recorded {
    events: Vec<Event>,
    attachments: Vec<(u64, Bytes, Option<Snapshot>)>,
    is_deleted: bool,
}

impl Source for Recorded {
    /// In pieces of three events.
    async fn events_after(&self, after: u64) -> io::Result<Option<(Vec<Event>, u64)>> {
        let events: Vec<_> = self.events.iter().filter(|event| event.seq > after).take(3).cloned().collect();
        Ok(events.last().map(|last| last.seq).map(|last| (events, last)))
    }

    async fn attachments_after(&self, after: u64) -> io::Result<Option<(Vec<(u64, Attachment)>, u64)>> {
        let next = self.attachments.iter().find(|(seq, ..)| *seq > after);
        Ok(next.map(|(seq, jpeg, snapshot)| {
            let attachment = match snapshot {
                Some(snapshot) => Attachment::Snapshot(snapshot.clone()),
                None => Attachment::Frame(jpeg.clone()),
            };
            (vec![(*seq, attachment)], *seq)
        }))
    }

    async fn check_exists(&self) -> io::Result<()> {
        if self.is_deleted { Err(broken(ReadError::Deleted)) } else { Ok(()) }
    }
}

/// Contract: recordings 20.
#[tokio::test]
async fn trace_of_a_recording_that_was_deleted_meanwhile_is_an_error() {
    let recorded = Recorded { is_deleted: true, ..recorded() };
    let (sink, mut chunks) = mpsc::channel(2);
    let write = write_from(&recorded, TraceFormat::V9, "ses_1", &sink);
    let read = async { while chunks.recv().await.is_some() {} };
    let error = tokio::select! { written = write => written.expect_err("an incomplete file"), () = read => unreachable!("the sink is open") };
    assert!(matches!(error.get_ref().and_then(|cause| cause.downcast_ref()), Some(ReadError::Deleted)));
}

impl Recorded {
    fn add(&mut self, at_ms: i64, body: EventBody) -> u64 {
        let seq = self.events.len() as u64 * 2 + 1;
        self.events.push(Event { seq, at: at(at_ms), body });
        seq
    }

    fn operate(&mut self, at_ms: i64, action: &str, words: &str, outcome: OperationOutcome, trace: TraceDetails) {
        let operation_id = OperationId::from(IntentId::from(Uuid::from_u128(at_ms.unsigned_abs().into())));
        let described = OperationDescription {
            kind: "interact".to_owned(),
            action: action.to_owned(),
            description: words.to_owned(),
        };
        let frame = FrameEvent { operation_id: Some(operation_id), width: 393, height: 659 };
        let body = EventBody::Operation(Box::new(OperationEvent {
            operation_id,
            described,
            outcome,
            error: outcome.is_error().then(|| "no element matches\0".to_owned()),
            url: Some("https://shop.example/".to_owned()),
            actor: Some(OperationActor { kind: OperationActorKind::ApiKey, id: Some("key_1".to_owned()) }),
            started_at: at(at_ms),
            ended_at: at(at_ms + 200),
            duration_ms: 200,
            has_frames: true,
            trace,
        }));
        self.add(at_ms + 200, body);
        let seq = self.add(at_ms + 250, EventBody::Frame(frame));
        self.attachments.push((seq, Bytes::from_static(JPEG), None));
        let snapshot = Snapshot { operation_id, text: "- button \"Send\"".to_owned() };
        self.attachments.push((seq + 1, Bytes::new(), Some(snapshot)));
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp(DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_790_000_000_000 + ms))
}

fn recorded() -> Recorded {
    let mut recorded = Recorded::default();
    let send = Element::Target(Target::Role { role: "button".to_owned(), name: Some("Send \"now\"".to_owned()) });
    recorded.operate(
        0,
        "navigate",
        "Navigate to https://shop.example/",
        OperationOutcome::Done,
        TraceDetails::default(),
    );
    recorded.add(
        300,
        EventBody::Console(ConsoleEvent {
            level: ConsoleLevel::Error,
            source: ConsoleSource::Script,
            text: "TypeError: x is undefined".to_owned(),
            url: Some("https://shop.example/app.js".to_owned()),
            line: Some(12),
        }),
    );
    recorded.add(
        310,
        EventBody::Request(Box::new(RequestEvent {
            method: "GET".to_owned(),
            url: "https://shop.example/../a\0b.js?q=1".to_owned(),
            resource_type: "script".to_owned(),
            status: Some(404),
            mime_type: Some("text/javascript".to_owned()),
            response_bytes: Some(12),
            duration_ms: Some(20),
            ..RequestEvent::default()
        })),
    );
    let trace = TraceDetails { locator: Some(send), point: Some(Point { x: 200.0, y: 500.0 }) };
    recorded.operate(500, "tap", "Tap button \"Send\"", OperationOutcome::Done, trace);
    recorded.operate(1_000, "wait", "Wait for ../../etc", OperationOutcome::Timeout, TraceDetails::default());
    recorded
}

async fn zip_of(recorded: &Recorded, format: TraceFormat) -> Vec<u8> {
    let (sink, mut chunks) = mpsc::channel::<io::Result<Bytes>>(2);
    let collect = async {
        let mut zip = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            zip.extend_from_slice(&chunk.expect("a chunk"));
        }
        zip
    };
    let write = async {
        write_from(recorded, format, "ses_1", &sink).await.expect("a trace");
        drop(sink);
    };
    tokio::join!(write, collect).1
}

/// Entries of the central directory.
fn entries_of(zip: &[u8]) -> HashMap<String, Vec<u8>> {
    let short = |at: usize| usize::from(u16::from_le_bytes(zip[at..at + 2].try_into().expect("2 bytes")));
    let long = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().expect("4 bytes")) as usize;
    let end = zip.len() - 22;
    assert_eq!(&zip[end..end + 4], b"PK\x05\x06");
    let (count, mut at, mut entries) = (short(end + 10), long(end + 16), HashMap::new());
    for _ in 0..count {
        assert_eq!(&zip[at..at + 4], b"PK\x01\x02");
        let (method, crc, compressed, size) = (short(at + 10), long(at + 16), long(at + 20), long(at + 24));
        let (name_length, local) = (short(at + 28), long(at + 42));
        let name = String::from_utf8(zip[at + 46..at + 46 + name_length].to_vec()).expect("a name");
        let begin = local + 30 + short(local + 26) + short(local + 28);
        let bytes = &zip[begin..begin + compressed];
        let mut content = Vec::new();
        match method {
            0 => content.extend_from_slice(bytes),
            _ => drop(DeflateDecoder::new(bytes).read_to_end(&mut content).expect("deflated bytes")),
        }
        assert_eq!((content.len(), crc32fast::hash(&content) as usize), (size, crc));
        assert!(entries.insert(name, content).is_none());
        at += 46 + name_length;
    }
    entries
}

fn content_of(entries: &HashMap<String, Vec<u8>>, name: &str) -> String {
    let text = String::from_utf8(entries[name].clone()).expect("text");
    assert!(!text.contains('\0'));
    text
}

fn lines_of(entries: &HashMap<String, Vec<u8>>, name: &str) -> Vec<Value> {
    content_of(entries, name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[tokio::test]
async fn trace_has_actions_pictures_and_requests() {
    let entries = entries_of(&zip_of(&recorded(), TraceFormat::V9).await);
    // The first action has no picture before it.
    insta::assert_snapshot!("trace", content_of(&entries, "trace.trace"));
    for line in lines_of(&entries, "trace.trace").iter().filter(|line| line.get("file").is_some()) {
        assert!(entries.contains_key(line["file"].as_str().expect("a name")), "{line}");
    }
    insta::assert_snapshot!("requests", content_of(&entries, "trace.network"));
    assert!(entries.keys().all(|name| !name.contains("..")));
}

#[tokio::test]
async fn older_formats_have_snapshots_of_one_image() {
    for (format, title) in [(TraceFormat::V8, "title"), (TraceFormat::V7, "apiName")] {
        let entries = entries_of(&zip_of(&recorded(), format).await);
        let lines = lines_of(&entries, "trace.trace");
        assert_eq!(lines[0]["version"], format as u64);
        assert!(of_type(&lines, "before")[0].get(title).is_some());
        let snapshots = of_type(&lines, "frame-snapshot");
        assert_eq!(snapshots.len(), 5);
        let named: Vec<_> =
            of_type(&lines, "before").iter().filter_map(|line| line["beforeSnapshot"].as_str()).collect();
        assert_eq!(named.len(), 2);
        let requests = lines_of(&entries, "trace.network");
        for snapshot in snapshots {
            let picture = &snapshot["snapshot"]["resourceOverrides"][0];
            let file = format!("resources/{}", picture["sha1"].as_str().expect("a name"));
            assert_eq!(entries.get(&file).map(Vec::as_slice), Some(JPEG));
            assert!(requests.iter().any(|request| request["snapshot"]["request"]["url"] == picture["url"]));
        }
    }
}

#[tokio::test]
async fn recording_without_events_is_a_trace() {
    let entries = entries_of(&zip_of(&Recorded::default(), TraceFormat::V9).await);
    assert_eq!(lines_of(&entries, "trace.trace").len(), 1);
    assert!(lines_of(&entries, "trace.network").is_empty());
}

/// Samples to open in a viewer: `target/tmp/sample-trace.zip`, and one for each older format.
#[tokio::test]
async fn samples_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tmp");
    fs::create_dir_all(&folder).expect("a folder");
    for (format, name) in
        [(TraceFormat::V9, "sample-trace"), (TraceFormat::V8, "sample-trace-8"), (TraceFormat::V7, "sample-trace-7")]
    {
        let path = folder.join(format!("{name}.zip"));
        fs::write(&path, zip_of(&recorded(), format).await).expect("a file");
        assert_is_read_by_python(&path);
    }
}

/// A second reader of the format, where there is one.
fn assert_is_read_by_python(path: &Path) {
    let check = Command::new("python3").arg("-").arg(path).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut check) = check else { return };
    let script = b"import sys, zipfile\nassert zipfile.ZipFile(sys.argv[1]).testzip() is None\n";
    check.stdin.take().expect("a pipe").write_all(script).expect("a script");
    assert!(check.wait().expect("an end").success());
}
