use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use chrono::DateTime;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_host_protocol::{self as protocol, HostCommand, HostError, Lifecycle, PictureFormat, Region};
use kitfleet_types::json_size::json_bytes;
use kitfleet_types::operations::{
    Capture, CaptureKind, CaptureScale, Captured, Cookie, Element, Extract, Extracted, Extraction, ImageFormat,
    Margins, OpenDialog, OperationResult, PageStanding, PageState, Paper, PdfLayout, Refusal, SessionState,
    SubExtraction, Take, Transform,
};
use kitfleet_types::timestamp::Timestamp;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::time::sleep;

use super::OperationEnd;
use super::host::{CallError, driver_failure};
use super::numbers::{self, Separators};
use super::page::{self, POLL, PageQuery};
use super::page_errors::page_error;
use super::webkit::{Webkit, milliseconds};

const CAPTURE: &str = "capture";

/// For an element that a picture is to show.
const ELEMENT_WITHIN: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Storage {
    entries: Vec<(String, String)>,
    truncated: bool,
}

#[derive(Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum PicturePlace {
    Absent,
    Hidden,
    Ready { x: f64, y: f64, width: f64, height: f64 },
    Done,
}

#[derive(Deserialize)]
struct Dom {
    bytes: u64,
    html: Option<String>,
}

/// It has no names: a compromised page process must not make the worker hold much more data than it sends.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadMatch {
    Values(Vec<Answer>),
    TooLarge { bytes: u64 },
    TooMany { matches: u64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    One(Option<String>),
    List(Vec<Option<String>>),
    Number(Option<NumberText>),
    Numbers(Vec<Option<NumberText>>),
    Box(Option<Rectangle>),
    Objects(Vec<Vec<PartAnswer>>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PartAnswer {
    Box(Rectangle),
    Text(Option<String>),
}

/// In CSS pixels of the viewport.
#[derive(Deserialize, Serialize)]
struct Rectangle {
    x: Number,
    y: Number,
    width: Number,
    height: Number,
}

#[derive(Deserialize)]
struct NumberText {
    text: String,
    #[serde(flatten)]
    separators: Separators,
}

impl Webkit {
    pub(super) async fn state(&mut self) -> Result<SessionState, OperationEnd> {
        let max = self.limits.result_bytes;
        let input = json!({ "limit": self.limits.state_storage_bytes, "most": max / 2 });
        let storage = self.storage(&input).await?;
        // One more than the limit shows that there are more.
        let wanted = HostCommand::Cookies { at_most: Some(self.limits.state_cookies.saturating_add(1)) };
        let listed: Vec<protocol::Cookie> = self.host.call(wanted).await?;
        let (listed_bytes, there_are) = (listed.len().saturating_mul(COOKIE_BYTES), listed.len());
        let page = self.page().await?;
        let entries = storage.as_ref().map(|storage| storage.entries.as_slice()).unwrap_or_default();
        let storage_bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        let storage_truncated = storage.as_ref().is_some_and(|storage| storage.truncated);
        let mut state = SessionState {
            url: page.uri,
            title: page.title.map(|title| title.replace('\0', "\u{FFFD}")),
            cookies: Vec::new(),
            local_storage: storage.map(|storage| storage.entries.into_iter().collect()),
            captured_at: Timestamp(SystemTime::now().into()),
            page_state: page.lifecycle.map(page_state),
            // Ensures that there is room for the value `true`.
            truncated: true,
        };
        state.cookies = run_blocking(listed_bytes.saturating_add(storage_bytes), || {
            let cookies = listed.into_iter().take(self.limits.state_cookies).map(cookie);
            let within = cookies.scan(json_bytes(&state), |bytes, cookie| {
                *bytes += json_bytes(&cookie) + 1;
                (*bytes <= max).then_some(cookie)
            });
            within.collect()
        });
        state.truncated = page.truncated || storage_truncated || state.cookies.len() < there_are;
        Ok(state)
    }

    /// `None` while a dialog blocks the page.
    async fn storage(&self, input: &Value) -> Result<Option<Storage>, OperationEnd> {
        if self.dialogs.open().await.is_some() {
            return Ok(None);
        }
        let read = tokio::select! {
            read = page::read(&self.host, page::STORAGE, input) => read,
            _ = self.dialogs.opened() => return Ok(None),
        };
        match read {
            Ok(storage) => Ok(Some(storage)),
            Err(OperationEnd::Refused(Refusal::DialogOpen { .. })) => Ok(None),
            Err(ended) => Err(ended),
        }
    }

    /// A page with a dialog has only the last picture of the viewport.
    pub(super) async fn capture_unless_blocked(
        &mut self,
        capture: &Capture,
        started: Instant,
    ) -> Result<(Captured, Vec<u8>), OperationEnd> {
        if let Some(dialog) = self.dialogs.open().await {
            return self.capture_blocked(capture, started, dialog).await;
        }
        let dialogs = self.dialogs.clone();
        let dialog = tokio::select! {
            captured = self.capture(capture, started) => match captured {
                Err(OperationEnd::Refused(Refusal::DialogOpen { dialog: None })) => dialogs.open().await,
                captured => return captured,
            },
            dialog = dialogs.opened() => Some(dialog),
        };
        match dialog {
            Some(dialog) => self.capture_blocked(capture, started, dialog).await,
            None => Err(OperationEnd::Refused(Refusal::DialogOpen { dialog: None })),
        }
    }

    /// `None` if that picture is not wanted.
    async fn capture_blocked(
        &mut self,
        capture: &Capture,
        started: Instant,
        dialog: OpenDialog,
    ) -> Result<(Captured, Vec<u8>), OperationEnd> {
        let refused = || OperationEnd::Refused(Refusal::DialogOpen { dialog: Some(dialog) });
        if !capture.is_of_viewport() {
            return Err(refused());
        }
        match self.capture(capture, started).await {
            Err(OperationEnd::Refused(Refusal::DialogOpen { .. })) => Err(refused()),
            captured => captured,
        }
    }

    async fn capture(&mut self, capture: &Capture, started: Instant) -> Result<(Captured, Vec<u8>), OperationEnd> {
        let content = match capture.kind {
            CaptureKind::DomSnapshot => self.dom(capture.limit_bytes).await?,
            CaptureKind::Screenshot | CaptureKind::Pdf => self.capture_file(capture).await?,
        };
        let duration_ms = milliseconds(started);
        let captured = Captured::without_content(capture, content.len(), duration_ms, self.address().await?);
        Ok((captured, content))
    }

    async fn dom(&mut self, limit: Option<u64>) -> Result<Vec<u8>, OperationEnd> {
        let limit = limit.unwrap_or(self.limits.result_bytes as u64);
        let dom: Dom = page::read(&self.host, page::DOM, &json!({ "limit": limit })).await?;
        match dom.html {
            Some(html) => Ok(html.into_bytes()),
            None => Err(too_large("document", dom.bytes, limit)),
        }
    }

    async fn capture_file(&mut self, capture: &Capture) -> Result<Vec<u8>, OperationEnd> {
        let written = match (&capture.element, capture.kind) {
            (_, CaptureKind::Pdf) => {
                let layout = layout_for_host(&capture.layout);
                self.write_picture(capture, HostCommand::Pdf { layout, file: CAPTURE.to_owned() }).await
            }
            (Some(element), _) => self.write_element(capture, element).await,
            (None, _) => {
                let region = if capture.full_page { Region::Document } else { Region::Viewport };
                self.write_picture(capture, snapshot_command(capture, region)).await
            }
        };
        written?;
        let failed = |error| OperationEnd::Failed(driver_failure(format!("a capture could not be read: {error}")));
        let (file, bytes) = open_capture(&self.host.directory().session().join(CAPTURE)).await.map_err(failed)?;
        match capture.limit_bytes {
            Some(limit) if bytes > limit => Err(too_large(capture.kind.name(), bytes, limit)),
            _ => {
                let mut content = Vec::new();
                // The file may have grown since.
                file.take(bytes).read_to_end(&mut content).await.map_err(failed)?;
                Ok(content)
            }
        }
    }

    /// Waits briefly for the element, and restores the scroll position.
    async fn write_element(&mut self, capture: &Capture, element: &Element) -> Result<(), OperationEnd> {
        let field = element.field("");
        let target = PageQuery::written(element, &field);
        let script = page::PICTURE.about(target);
        let input = self.input(json!({ "target": target, "ends": false }));
        let given_up = Instant::now() + ELEMENT_WITHIN;
        let region = loop {
            let message = match page::ask(&self.host, script, &input).await? {
                Some(PicturePlace::Ready { x, y, width, height }) => break Region::Clip([x, y, width, height]),
                Some(PicturePlace::Absent) => "matches no element",
                Some(PicturePlace::Hidden) => "matches an element that is not visible, or has no area",
                Some(PicturePlace::Done) | None => "matches no element of a page that answers",
            };
            if Instant::now() >= given_up {
                return Err(OperationEnd::invalid(target.field(), message));
            }
            sleep(POLL).await;
        };
        let written = self.write_picture(capture, snapshot_command(capture, region)).await;
        let input = self.input(json!({ "target": target, "ends": true }));
        // A page that was replaced meanwhile has its own scroll position.
        let _: Option<PicturePlace> = page::ask(&self.host, script, &input).await?;
        written
    }

    async fn write_picture(&self, capture: &Capture, command: HostCommand) -> Result<(), OperationEnd> {
        match self.host.call::<Value>(command).await {
            // The browser still works, but its engine cannot draw this page.
            Err(CallError::Refused(HostError::Engine { message })) => {
                let detail = format!("The {} could not be taken: {message}.", capture.kind.name());
                Err(OperationEnd::Withheld { detail, members: Map::new() })
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    pub(super) async fn extract(&mut self, extract: &Extract) -> Result<Extracted, OperationEnd> {
        let (limit, max) = (self.limits.result_bytes, self.limits.list_matches);
        let questions: Vec<Value> = extract.extractions.iter().enumerate().map(question).collect();
        let input = self.input(json!({ "extractions": questions, "limit": limit, "matches": max }));
        let elements = extract.extractions.iter().map(|item| PageQuery::written(&item.element, ""));
        let script = elements.fold(page::EXTRACT, page::Script::about);
        match page::read(&self.host, script, &input).await? {
            ReadMatch::Values(answers) => Ok(run_blocking(limit, || {
                let named = extract.extractions.iter().zip(answers);
                let value = named.map(|(item, answer)| (item.name.clone(), shape(item, answer))).collect();
                Extracted { value, dialogs: Vec::new(), dialog: None }
            })),
            ReadMatch::TooLarge { bytes } => Err(too_large("result", bytes, limit as u64)),
            ReadMatch::TooMany { matches } => {
                let detail = format!("A list has {matches} matches; the limit is {max}.");
                let members = json_map(json!({ "matches": matches, "limit_matches": max }));
                Err(OperationEnd::Withheld { detail, members })
            }
        }
    }

    pub(super) fn within_limit(&self, result: OperationResult) -> OperationEnd {
        let limit = self.limits.result_bytes;
        match OperationEnd::done(result) {
            OperationEnd::Done(result) if result.json.get().len() > limit => {
                too_large("result", result.json.get().len() as u64, limit as u64)
            }
            ended => ended,
        }
    }
}

fn snapshot_command(capture: &Capture, region: Region) -> HostCommand {
    let format = match capture.format {
        ImageFormat::Png => PictureFormat::Png,
        ImageFormat::Jpeg => PictureFormat::Jpeg(capture.quality),
        ImageFormat::Webp => PictureFormat::Webp(capture.quality),
    };
    let css_pixels = capture.scale == CaptureScale::Css;
    HostCommand::Snapshot { region, reveal: capture.reveal, format, css_pixels, file: CAPTURE.to_owned() }
}

fn layout_for_host(layout: &PdfLayout) -> protocol::PdfLayout {
    let paper = match layout.paper {
        Paper::A4 => "iso_a4",
        Paper::A5 => "iso_a5",
        Paper::Letter => "na_letter",
        Paper::Legal => "na_legal",
    };
    let Margins { top, right, bottom, left } = layout.margins;
    protocol::PdfLayout {
        paper: paper.to_owned(),
        landscape: layout.landscape,
        margins: [top, right, bottom, left],
        background: layout.background,
    }
}

/// Approximate, for cookies that browsers accept.
const COOKIE_BYTES: usize = 4_096;

/// A year in RFC 3339 has four digits.
pub(super) const LAST_SECOND: i64 = 253_402_300_799;

/// Also returns its size. Rejects links, because a compromised browser could create one to a file of the worker.
async fn open_capture(path: &Path) -> io::Result<(File, u64)> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = File::options().read(true).custom_flags(flags).open(path).await?;
    let metadata = file.metadata().await?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn question((i, item): (usize, &Extraction)) -> Value {
    let part = |part: &SubExtraction| {
        json!({
            "name_bytes": name_bytes(&part.name),
            "selector": part.selector,
            "field": format!("extractions.{i}.extract.{}.selector", part.name),
            "take": part.take,
            "attribute": part.attribute,
        })
    };
    json!({
        "name_bytes": name_bytes(&item.name),
        "target": PageQuery::written(&item.element, &item.element.field(&format!("extractions.{i}"))),
        "take": item.take,
        "attribute": item.attribute,
        "number": has_number(item),
        "parts": item.extract.as_ref().map(|parts| parts.iter().map(part).collect::<Vec<_>>()),
    })
}

fn name_bytes(name: &str) -> usize {
    Value::from(name).to_string().len() + 2
}

fn has_number(item: &Extraction) -> bool {
    item.transform == Some(Transform::Number) && matches!(item.take, Take::Text | Take::List) && item.extract.is_none()
}

/// Adds the names to the values, and converts numbers.
fn shape(item: &Extraction, answer: Answer) -> Value {
    match answer {
        Answer::One(text) => text.into(),
        Answer::List(texts) => texts.into_iter().map(Value::from).collect(),
        Answer::Number(text) => number(text),
        Answer::Box(rectangle) => json!(rectangle),
        Answer::Numbers(texts) => texts.into_iter().map(number).collect(),
        Answer::Objects(matches) => {
            let parts = item.extract.as_deref().unwrap_or_default();
            matches.into_iter().map(|answers| shape_match(parts, answers)).collect()
        }
    }
}

fn shape_match(parts: &[SubExtraction], answers: Vec<PartAnswer>) -> Value {
    let shape = |answer| match answer {
        PartAnswer::Box(rectangle) => json!(rectangle),
        PartAnswer::Text(text) => text.into(),
    };
    parts.iter().zip(answers).map(|(part, answer)| (part.name.clone(), shape(answer))).collect()
}

fn number(text: Option<NumberText>) -> Value {
    text.map_or(Value::Null, |NumberText { text, separators }| numbers::numeric_part(&text, &separators))
}

fn cookie(cookie: protocol::Cookie) -> Cookie {
    let protocol::Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    let expires = expires.and_then(|seconds| DateTime::from_timestamp(seconds.min(LAST_SECOND), 0)).map(Timestamp);
    Cookie { name, value, domain, path, expires, http_only, secure, same_site }
}

fn page_state(lifecycle: Lifecycle) -> PageState {
    let (state, error) = match lifecycle {
        Lifecycle::Loading => (PageStanding::Loading, None),
        Lifecycle::Loaded => (PageStanding::Loaded, None),
        Lifecycle::Errored { error } => (PageStanding::Errored, Some(page_error(error))),
    };
    PageState { state, error }
}

pub(super) fn too_large(what: &str, bytes: u64, limit: u64) -> OperationEnd {
    let detail = format!("The {what} has {bytes} bytes; the limit is {limit}.");
    OperationEnd::Withheld { detail, members: json_map(json!({ "bytes": bytes, "limit_bytes": limit })) }
}

fn json_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[tokio::test]
    async fn open_capture_accepts_only_regular_files() {
        let folder = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
        fs::create_dir(&folder).expect("a folder");
        let (file, link, pipe) = (folder.join("file"), folder.join("link"), folder.join("pipe"));
        fs::write(&file, "picture").expect("a file");
        symlink(&file, &link).expect("a link");
        mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
        let (_, bytes) = open_capture(&file).await.expect("a capture");
        assert_eq!(bytes, 7);
        for path in [link, pipe, folder.clone()] {
            assert!(open_capture(&path).await.is_err(), "{}", path.display());
        }
        fs::remove_dir_all(folder).expect("it is removed");
    }
}
