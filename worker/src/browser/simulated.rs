//! A session without a browser. It returns plausible results at once, so that load tests measure everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use kitfleet_domain::archetypes::Archetype;
use kitfleet_domain::challenges::Finding;
use kitfleet_domain::emulation::Emulation;
use kitfleet_domain::files::{Download, DownloadError, DownloadRef, DownloadStatus, FileName};
use kitfleet_domain::ids::{DownloadId, UploadId};
use kitfleet_domain::operations::{
    Action, Capture, CaptureKind, CaptureResult, Captured, Condition, Extracted, Extraction, Failure, FailureClass,
    Interacted, Locate, LocateBy, Located, LoginResult, MOST_CANDIDATES, Match, Navigated, OnTimeout, Operation,
    OperationResult, PageSnapshot, PageStanding, PageState, SearchResult, SessionState, SubmissionHeld, Take, Target,
    Transform, Wait, Waited, locate,
};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_egress::EgressRoute;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::OperationEnd;
use super::challenges::ChallengeScan;
use super::emulation::DeviceSizes;
use super::files::Files;
use super::view::{SharedSize, View};
use super::webkit::milliseconds;

/// An image of one white pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\xf8\x0f\0\x01\x01\x01\0\x1b\xb6\xee\x56\0\0\0\0IEND\xaeB\x60\x82";

/// A document without pages.
const PDF: &[u8] =
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n\
    trailer<</Root 1 0 R>>\n%%EOF\n";

pub struct Simulated {
    url: String,
    /// Number of loaded pages.
    pages: u64,
    /// Number of checks of this page for challenges.
    looks: AtomicU32,
    emulation: Emulation,
    /// Sizes of the upright device.
    sizes: DeviceSizes,
    viewport: SharedSize,
    pub(super) files: Files,
    /// Number of downloads when the previous and the current operation began.
    downloads: [usize; 2],
    ends: DropGuard,
    /// Egress route, which stays open as long as the browser.
    _way: Arc<EgressRoute>,
}

impl Simulated {
    pub fn new(archetype: &Archetype, way: Arc<EgressRoute>, emulation: &Emulation) -> Self {
        let sizes = DeviceSizes::of(archetype);
        Self {
            url: "about:blank".to_owned(),
            pages: 0,
            looks: AtomicU32::new(0),
            emulation: emulation.clone(),
            sizes,
            viewport: SharedSize::new(sizes.in_orientation(emulation.orientation).viewport),
            files: Files::simulated(),
            downloads: [0; 2],
            ends: CancellationToken::new().drop_guard(),
            _way: way,
        }
    }

    pub fn view(&self) -> View {
        View::simulated(self.ends.token().clone(), self.viewport.clone())
    }

    pub async fn run(&mut self, operation: &Operation) -> OperationEnd {
        let started = Instant::now();
        if let Operation::Wait(wait) = operation
            && let Condition::Time { ms } = wait.condition
            && timeout(wait.timeout, sleep(Duration::from_millis(ms))).await.is_err()
        {
            return self.out_of_time(wait, started);
        }
        let downloads = match self.files.downloads().await {
            Ok(downloads) => downloads,
            Err(failure) => return OperationEnd::Failed(failure),
        };
        if operation.spec().route.is_some() {
            self.downloads = [self.downloads[1], downloads.len()];
        }
        if let Operation::Wait(wait) = operation
            && matches!(wait.condition, Condition::Download)
        {
            let Some(download) = downloads.get(self.downloads[0]) else {
                sleep(wait.timeout).await;
                return self.out_of_time(wait, started);
            };
            let waited = Waited { download: Some(download.reference()), ..self.waited(wait, true, started) };
            return OperationEnd::done(OperationResult::Wait(waited));
        }
        if let Operation::Interact(interact) = operation
            && let Action::Upload { upload, attached, .. } = &interact.action
            && !self.has_files(*upload, attached.as_ref()).await
        {
            return OperationEnd::invalid("action.files", "did not reach the browser: send the request again");
        }
        let mut started_download = None;
        if let Operation::Navigate(navigate) = operation {
            if let Some(download) = download(navigate.url.as_str()) {
                started_download = Some(download.reference());
                self.files.simulate(download);
            } else {
                navigate.url.as_str().clone_into(&mut self.url);
                self.pages += 1;
                self.looks = AtomicU32::new(0);
            }
        }
        if let Operation::Emulate(change) = operation {
            self.emulation = change.applied_to(&self.emulation);
            self.viewport.set(self.sizes.in_orientation(self.emulation.orientation).viewport);
        }
        OperationEnd::done(self.result(operation, started_download, started))
    }

    /// True when the files of an upload have arrived, which it uses up, or when such a file is attached.
    async fn has_files(&self, upload: UploadId, attached: Option<&FileName>) -> bool {
        match attached {
            Some(name) => self.files.copy_attached(name).await.is_ok_and(|copy| copy.is_some()),
            None => self.files.take(upload).is_some(),
        }
    }

    /// Simulates challenges. A page of `challenge.simulated.example` shows the challenge that its path names, such as
    /// `/hcaptcha`. The query parameters `confidence` and `looks` set the confidence and the number of checks for which
    /// it is shown.
    pub fn look_for_challenges(&self) -> ChallengeScan {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        ChallengeScan { document: self.pages, found: challenge(&self.url, looks).into_iter().collect() }
    }

    fn out_of_time(&self, wait: &Wait, started: Instant) -> OperationEnd {
        match wait.on_timeout {
            OnTimeout::Fail => {
                let detail = "The operation reached its time limit.".to_owned();
                OperationEnd::Failed(Failure { class: FailureClass::Timeout, detail })
            }
            OnTimeout::Return => OperationEnd::done(OperationResult::Wait(self.waited(wait, false, started))),
        }
    }

    fn result(&self, operation: &Operation, download: Option<DownloadRef>, started: Instant) -> OperationResult {
        let url = self.url.clone();
        let duration_ms = milliseconds(started);
        match operation {
            Operation::Navigate(navigate) => OperationResult::Navigate(Navigated {
                url: navigate.requested_url.clone(),
                status: Some(200),
                final_url: url,
                duration_ms,
                error: None,
                timed_out: false,
                download,
                page_submission_held: false,
            }),
            Operation::Interact(interact) => OperationResult::Interact(Interacted {
                ok: true,
                kind: interact.action.kind(),
                duration_ms,
                url,
                reason: None,
                delivered: None,
                submission_held: false,
                request_held: false,
                page_submission_held: false,
            }),
            Operation::Wait(wait) => OperationResult::Wait(self.waited(wait, true, started)),
            Operation::StateCapture(_) => OperationResult::StateCapture(SessionState {
                url,
                title: Some("Simulated".to_owned()),
                cookies: Vec::new(),
                local_storage: std::iter::empty().collect(),
                captured_at: Timestamp(SystemTime::now().into()),
                page_state: Some(PageState { state: PageStanding::Loaded, error: None }),
                truncated: false,
            }),
            Operation::Capture(capture) => self.capture(*capture, started),
            Operation::Extract(extract) => {
                let value = extract.extractions.iter().map(|item| (item.name.clone(), found(item))).collect();
                OperationResult::Extract(Extracted { value })
            }
            Operation::Snapshot(wanted) => OperationResult::Snapshot(PageSnapshot {
                snapshot: "heading \"Simulated\" [ref=e1] [level=1]\nbutton \"Simulated\" [ref=e2]".to_owned(),
                nodes: 2,
                truncated: false,
                url,
                duration_ms,
                links: if wanted.links { vec!["https://linked.simulated.example/".to_owned()] } else { Vec::new() },
                foreign: String::new(),
            }),
            Operation::Emulate(_) => OperationResult::Emulate(self.emulation.state()),
            Operation::Locate(locate) => OperationResult::Locate(self.locate(locate)),
            Operation::Hold(_) => OperationResult::Hold(SubmissionHeld { held: false }),
            Operation::Search(search) => OperationResult::Search(SearchResult {
                submitted: search.submit,
                query_truncated: false,
                results_visible: search.wait_for_results_selector.is_some().then_some(true),
                duration_ms,
            }),
            Operation::Login(_) => OperationResult::Login(LoginResult {
                submitted: true,
                credentials_truncated: false,
                logged_in: true,
                post_login_url: Some(url),
                duration_ms,
            }),
        }
    }

    fn waited(&self, wait: &Wait, matched: bool, started: Instant) -> Waited {
        let (kind, duration_ms) = (wait.condition.kind(), milliseconds(started));
        Waited { matched, kind, duration_ms, url: self.url.clone(), download: None }
    }

    /// Returns one match for any query, except for the names `nothing` and `several` and for names that contain
    /// `changing`. The selector contains the name, so that a search for the selector returns the same element. The name
    /// of a checkbox determines its state.
    fn locate(&self, locate: &Locate) -> Located {
        let (role, name) = match &locate.sought {
            LocateBy::Target(Target::Role { role, name }) => (role.as_str(), name.as_deref().unwrap_or("Simulated")),
            LocateBy::Target(Target::Label(name) | Target::Placeholder(name)) => ("textbox", name.as_str()),
            LocateBy::Target(Target::Text(name)) => ("generic", name.as_str()),
            LocateBy::Target(Target::Selector(selector)) => called(selector).unwrap_or(("button", "Simulated")),
            LocateBy::Described { role, words } => (role.as_deref().unwrap_or("button"), words.as_str()),
            LocateBy::Target(Target::Ref(_)) => ("button", "Simulated"),
            LocateBy::Focused => ("textbox", "Simulated"),
        };
        let moment =
            if name.contains("changing") { Timestamp(SystemTime::now().into()).to_string() } else { String::new() };
        let found = |number: usize| Match {
            selector: if number == 1 {
                format!("{role}[name={name}]")
            } else {
                format!("{role}[name={name}]:nth({number})")
            },
            description: format!("{role} {}", Value::from(name)),
            role: role.to_owned(),
            name: name.to_owned(),
            text: String::new(),
            submits: name.contains("submits"),
            form_field: role == "textbox",
            checked: (role == "checkbox").then(|| name.starts_with("checked")),
            fingerprint: locate::fingerprint(&[role.to_owned(), name.to_owned(), moment.clone()]),
        };
        let total = match name {
            "nothing" => 0,
            "several" => 7,
            _ => 1,
        };
        let matches = (1..=total).take(MOST_CANDIDATES).map(found).collect();
        let origin = Url::parse(&self.url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Located { matches, total: total as u64, origin }
    }

    fn capture(&self, capture: Capture, started: Instant) -> OperationResult {
        let content: &[u8] = match capture.kind {
            CaptureKind::Screenshot => PNG,
            CaptureKind::Pdf => PDF,
            CaptureKind::DomSnapshot => b"<!DOCTYPE html>\n<html><title>Simulated</title></html>",
        };
        let duration_ms = milliseconds(started);
        let captured = Captured::without_content(capture.kind, content.len(), duration_ms, self.url.clone());
        OperationResult::Capture(CaptureResult { captured, content: content.to_vec() })
    }
}

/// Simulates downloads. An address of `download.simulated.example` is a download, named by its path. The query parameters
/// `name`, `bytes`, `type` and `status` set another name, the size, the media type and the progress.
fn download(url: &str) -> Option<Download> {
    let url = Url::parse(url).ok().filter(|url| url.host_str() == Some("download.simulated.example"))?;
    let parameter = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let status = match parameter("status").as_deref() {
        Some("in_progress") => DownloadStatus::InProgress,
        Some("failed") => DownloadStatus::Failed,
        _ => DownloadStatus::Complete,
    };
    Some(Download {
        id: DownloadId::generate(),
        url: url.to_string(),
        file_name: FileName::of(&parameter("name").unwrap_or_else(|| url.path().to_owned())),
        content_type: parameter("type"),
        bytes: parameter("bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(9),
        status,
        error: (status == DownloadStatus::Failed).then_some(DownloadError::TooLarge),
        created_at: Timestamp(SystemTime::now().into()),
    })
}

fn challenge(url: &str, looks: u32) -> Option<Finding> {
    let url = Url::parse(url).ok().filter(|url| url.host_str() == Some("challenge.simulated.example"))?;
    let parameter = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let most = parameter("looks").and_then(|looks| looks.parse().ok()).unwrap_or(u32::MAX);
    let confidence = parameter("confidence").and_then(|confidence| confidence.parse().ok()).unwrap_or(0.9);
    let kind = url.path().trim_start_matches('/').parse().ok()?;
    (looks < most).then(|| Finding { kind, confidence, detail: "The page says so.".to_owned() })
}

/// Returns the role and the name in a selector of [`Simulated::locate`].
fn called(selector: &str) -> Option<(&str, &str)> {
    let (role, rest) = selector.split_once("[name=")?;
    Some((role, rest.split_once(']')?.0))
}

fn found(item: &Extraction) -> Value {
    match (item.take, item.transform) {
        (Take::List, _) => Value::Array(Vec::new()),
        (Take::Text, Some(Transform::Number)) => 1.into(),
        _ => "simulated".into(),
    }
}
