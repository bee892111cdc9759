//! A session without a browser. It returns plausible results at once, so that load tests measure everything else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use kitfleet_domain::archetypes::Archetype;
use kitfleet_domain::challenges::Finding;
use kitfleet_egress::EgressRoute;
use kitfleet_host_protocol::{DIALOG_HELD_SECS, MAX_PAGES, MAX_SHOWN_DIALOGS};
use kitfleet_recording::events::{
    ConsoleEvent, ConsoleLevel, ConsoleSource, DialogEvent, DialogState, EventBody, PageChange, RequestEvent,
};
use kitfleet_types::emulation::Emulation;
use kitfleet_types::files::{Download, DownloadError, DownloadRef, DownloadStatus, FileName};
use kitfleet_types::ids::{DownloadId, PageId, SessionId, UploadId};
use kitfleet_types::operations::{
    Action, AnsweredDialog, BrowserCookie, BrowserCookies, BrowserPage, BrowserPages, Capture, CaptureKind,
    CaptureResult, Captured, Condition, CookiesChanged, DialogPolicy, DialogType, Evaluated, Extracted, Extraction,
    Failure, FailureClass, ImageFormat, Interact, Interacted, Interruption, Locate, LocateBy, Located, LoginResult,
    MAX_CANDIDATES, Match, Navigated, OnTimeout, OpenDialog, Operation, OperationOutput as _, OperationResult,
    PageClosed, PageResponse, PageSnapshot, PageStanding, PageState, Refusal, ScriptValue, SearchResult, SessionState,
    SubmissionHeld, Take, Target, Transform, Wait, Waited, locate,
};
use kitfleet_types::timestamp::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::OperationEnd;
use super::challenges::ChallengeScan;
use super::cookies::check_expiry;
use super::device::DeviceSizes;
use super::files::Files;
use super::recording::{self, Look, PageEvents, Picture, SimulatedEvent, SimulatedEvents, Wanted};
use super::view::{SharedSize, View};
use super::webkit::milliseconds;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\xf8\x0f\0\x01\x01\x01\0\x1b\xb6\xee\x56\0\0\0\0IEND\xaeB\x60\x82";

const JPEG: &[u8] = b"\
    \xff\xd8\xff\xdb\0C\0\x03\x02\x02\x02\x02\x02\x03\x02\x02\x02\x03\x03\x03\x03\x04\x06\x04\x04\x04\x04\x04\
    \x08\x06\x06\x05\x06\x09\x08\x0a\x0a\x09\x08\x09\x09\x0a\x0c\x0f\x0c\x0a\x0b\x0e\x0b\x09\x09\x0d\x11\x0d\x0e\x0f\
    \x10\x10\x11\x10\x0a\x0c\x12\x13\x12\x10\x13\x0f\x10\x10\x10\xff\xc9\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\
    \xff\xcc\0\x06\0\x10\x10\x05\xff\xda\0\x08\x01\x01\0\0?\0\xd2\xcf \xff\xd9";

/// Grey, 8 by 8 pixels.
const GREY: &[u8] = b"\
    \xff\xd8\xff\xdb\0\x43\0\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\
    \x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\xff\xc0\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0\
    \xff\xc4\0\x14\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xc4\0\x14\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \xff\xda\0\x08\x01\x01\0\0\x3f\0\x3f\xff\xd9";

const WEBP: &[u8] = b"\
    RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\x10\x07\x10\x11\
    \x11\x88\x88\xfe\x07\0";

const PDF: &[u8] =
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n\
    trailer<</Root 1 0 R>>\n%%EOF\n";

const DIALOG_HELD: Duration = Duration::from_secs(DIALOG_HELD_SECS);

#[derive(Clone)]
struct SimulatedPage {
    number: u32,
    url: String,
    opener: Option<u32>,
}

pub struct Simulated {
    /// Oldest first. There is at least one.
    pages: Vec<SimulatedPage>,
    active: u32,
    newest: u32,
    /// At the begin of the previous operation, and of this one.
    newest_at_begin: (u32, u32),
    dialogs: DialogPolicy,
    /// Dialogs that were answered since the last result.
    answered: Vec<AnsweredDialog>,
    /// Dialog that is held open, and the time at which it is dismissed.
    open: Option<(OpenDialog, tokio::time::Instant)>,
    loads: u64,
    /// Checks of this page for challenges.
    looks: AtomicU32,
    emulation: Emulation,
    cookies: Vec<BrowserCookie>,
    holds_submissions: bool,
    sizes: DeviceSizes,
    viewport: SharedSize,
    pub(super) files: Files,
    /// When the previous and the current operation began.
    downloads: [usize; 2],
    /// For a recording. `None` if the session is not recorded.
    events: Option<Arc<SimulatedEvents>>,
    /// State of the last recorded picture.
    pictured: Mutex<Option<(u32, u64, String)>>,
    ends: DropGuard,
    /// Open as long as the browser.
    _route: Arc<EgressRoute>,
}

impl Simulated {
    pub fn new(
        archetype: &Archetype,
        route: Arc<EgressRoute>,
        (emulation, dialogs, is_recorded): (&Emulation, DialogPolicy, bool),
    ) -> Self {
        let sizes = DeviceSizes::of(archetype);
        Self {
            pages: vec![SimulatedPage { number: 1, url: "about:blank".to_owned(), opener: None }],
            active: 1,
            newest: 1,
            newest_at_begin: (1, 1),
            dialogs,
            answered: Vec::new(),
            open: None,
            loads: 0,
            looks: AtomicU32::new(0),
            emulation: emulation.clone(),
            cookies: Vec::new(),
            holds_submissions: false,
            sizes,
            viewport: SharedSize::new(sizes.in_orientation(emulation.orientation).viewport),
            files: Files::simulated(),
            downloads: [0; 2],
            events: is_recorded.then(Arc::default),
            pictured: Mutex::default(),
            ends: CancellationToken::new().drop_guard(),
            _route: route,
        }
    }

    pub fn view(&self) -> View {
        View::simulated(self.ends.token().clone(), self.viewport.clone())
    }

    pub async fn run(&mut self, operation: &Operation) -> OperationEnd {
        let started = Instant::now();
        if let Some(dialog) = self.dialog()
            && !operation.spec().allowed_with_dialog
        {
            return OperationEnd::Refused(Refusal::DialogOpen { dialog: Some(dialog) });
        }
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
            self.newest_at_begin = (self.newest_at_begin.1, self.newest);
            self.downloads = [self.downloads[1], downloads.len()];
        }
        let mut download = None;
        if let Operation::Wait(wait @ Wait { condition: Condition::Download, .. }) = operation {
            let Some(wanted) = downloads.get(self.downloads[0]) else {
                sleep(wait.timeout).await;
                return self.out_of_time(wait, started);
            };
            download = Some(wanted.reference());
        }
        if let Operation::Interact(Interact { action: Action::Upload { upload, attached, .. }, .. }) = operation
            && !self.has_files(*upload, attached.as_ref()).await
        {
            return OperationEnd::invalid("action.files", "did not reach the browser: send the request again");
        }
        if let Operation::SetCookies(set) = operation
            && let Err(ended) = check_expiry(set)
        {
            return ended;
        }
        let opened_before = self.open.as_ref().map(|(_, until)| *until);
        match self.act(operation) {
            Ok(begun) => download = download.or(begun),
            Err(refusal) => return OperationEnd::Refused(refusal),
        }
        if let Operation::Wait(wait @ Wait { condition: Condition::Page, .. }) = operation
            && self.newest <= self.newest_at_begin.0
        {
            sleep(wait.timeout).await;
            return self.out_of_time(wait, started);
        }
        let dialog = self.dialog();
        if let Some(dialog) = &dialog
            && self.open.as_ref().map(|(_, until)| *until) != opened_before
        {
            let (dialogs, url) = (std::mem::take(&mut self.answered), self.url().to_owned());
            let by = Interruption { dialog: dialog.clone(), dialogs, url, duration_ms: milliseconds(started) };
            if let Some(result) = operation.interrupted(by) {
                return OperationEnd::done(result);
            }
        }
        let mut result = self.result(operation, download, started);
        if let Some((dialogs, open)) = result.dialogs_mut() {
            *dialogs = std::mem::take(&mut self.answered);
            *open = dialog;
        }
        OperationEnd::done(result)
    }

    /// Uses up an upload that has arrived. An attached file stays.
    async fn has_files(&self, upload: UploadId, attached: Option<&FileName>) -> bool {
        match attached {
            Some(name) => self.files.copy_attached(name).await.is_ok_and(|copy| copy.is_some()),
            None => self.files.take(upload).is_some(),
        }
    }

    /// As an operation does. Returns the download that it has begun.
    fn act(&mut self, operation: &Operation) -> Result<Option<DownloadRef>, Refusal> {
        match operation {
            Operation::Navigate(navigate) => self.holds_submissions = navigate.hold_submissions,
            // The rule stays that of the interaction that led to the dialog.
            Operation::Interact(Interact { action: Action::Dialog { .. }, .. }) => {}
            Operation::Interact(interact) => self.holds_submissions = interact.hold_submissions,
            Operation::Hold(_) | Operation::Locate(_) => self.holds_submissions = true,
            Operation::Search(_) | Operation::Login(_) => self.holds_submissions = false,
            _ => {}
        }
        match operation {
            Operation::Evaluate(_) if self.holds_submissions => return Err(Refusal::SubmissionsHeld),
            Operation::SetCookies(set) => {
                for cookie in &set.cookies {
                    self.cookies.retain(|other| !other.replaces(cookie));
                    self.cookies.push(cookie.clone());
                }
            }
            Operation::DeleteCookies(delete) => self.cookies.retain(|cookie| !delete.matches(cookie)),
            Operation::Navigate(navigate) => return Ok(self.load(navigate.url.as_str())),
            Operation::Interact(Interact { action: Action::Dialog { accept, .. }, .. }) => {
                let dialog = self.dialog().ok_or(Refusal::NoDialog)?;
                self.open = None;
                self.answer(dialog, *accept);
            }
            Operation::Capture(capture) if !capture.is_of_viewport() => {
                if let Some(dialog) = self.dialog() {
                    return Err(Refusal::DialogOpen { dialog: Some(dialog) });
                }
            }
            Operation::OpenPage(open) => {
                self.open_page(None)?;
                if let Some(url) = &open.url {
                    self.load(url.as_str());
                }
            }
            Operation::ActivatePage(activate) => {
                let number = self.find(activate.page, activate.session)?.number;
                if self.active != number {
                    self.active = number;
                    self.note_page(PageChange::Activated, number, None);
                }
            }
            Operation::ClosePage(close) => {
                let page = self.find(close.page, close.session)?.clone();
                if self.pages.len() == 1 {
                    return Err(Refusal::LastPage);
                }
                self.pages.retain(|other| other.number != page.number);
                self.note_page(PageChange::Closed, page.number, None);
                if self.active == page.number {
                    let opener = self.pages.iter().find(|other| Some(other.number) == page.opener);
                    self.active = opener.or(self.pages.last()).map_or(self.active, |page| page.number);
                    self.note_page(PageChange::Activated, self.active, None);
                }
            }
            Operation::Emulate(change) => {
                self.emulation = change.applied_to(&self.emulation);
                self.viewport.set(self.sizes.in_orientation(self.emulation.orientation).viewport);
            }
            _ => {}
        }
        Ok(None)
    }

    /// A page of `console.simulated.example` logs the query parameter `text`, with the level that its path names, such as `/error`.
    /// A page of `popup.simulated.example` opens another one. A page of `dialog.simulated.example` shows the dialog that its
    /// path names, such as `/confirm`, with the query parameters `message` and `default`. It is held for `for_ms`.
    fn load(&mut self, address: &str) -> Option<DownloadRef> {
        if let Some(download) = download(address) {
            let reference = download.reference();
            self.note_other(|| recording::download(&download, true));
            if download.status != DownloadStatus::InProgress {
                self.note_other(|| recording::download(&download, false));
            }
            self.files.simulate(download);
            return Some(reference);
        }
        let active = self.active;
        if let Some(page) = self.pages.iter_mut().find(|page| page.number == active) {
            address.clone_into(&mut page.url);
        }
        self.loads += 1;
        self.note_load(address);
        self.looks = AtomicU32::new(0);
        let url = Url::parse(address).ok()?;
        match url.host_str() {
            // A page that cannot open another one gets null.
            Some("popup.simulated.example") => drop(self.open_page(Some(active))),
            Some("dialog.simulated.example") => self.show_dialog(&url),
            Some("console.simulated.example") => self.log(&url),
            _ => {}
        }
        None
    }

    fn open_page(&mut self, opener: Option<u32>) -> Result<(), Refusal> {
        if self.pages.len() >= MAX_PAGES {
            return Err(Refusal::TooManyPages);
        }
        self.newest += 1;
        self.active = self.newest;
        self.pages.push(SimulatedPage { number: self.newest, url: "about:blank".to_owned(), opener });
        self.note_page(PageChange::Opened, self.newest, opener);
        self.note_page(PageChange::Activated, self.newest, None);
        Ok(())
    }

    fn show_dialog(&mut self, url: &Url) {
        let kind = match url.path() {
            "/alert" => DialogType::Alert,
            "/confirm" => DialogType::Confirm,
            "/prompt" => DialogType::Prompt,
            "/beforeunload" => DialogType::BeforeUnload,
            _ => return,
        };
        let message = parameter(url, "message").unwrap_or_default();
        let dialog = OpenDialog { kind, message, default_value: parameter(url, "default") };
        match self.dialogs {
            DialogPolicy::Hold => {
                let held = parameter(url, "for_ms").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
                let until = tokio::time::Instant::now() + held.unwrap_or(DIALOG_HELD).min(DIALOG_HELD);
                self.note_dialog(&dialog, None);
                self.open = Some((dialog, until));
            }
            policy => {
                let accepted = policy == DialogPolicy::Accept || kind == DialogType::BeforeUnload;
                self.answer(dialog, accepted);
            }
        }
    }

    fn answer(&mut self, dialog: OpenDialog, accepted: bool) {
        self.note_dialog(&dialog, Some(accepted));
        let OpenDialog { kind, message, .. } = dialog;
        if self.answered.len() < MAX_SHOWN_DIALOGS {
            self.answered.push(AnsweredDialog { kind, message, accepted });
        }
    }

    /// There is no picture when it is in the state of the last one.
    pub fn look(&self, wanted: Wanted) -> Look {
        let text = wanted.text.then(|| format!("heading {:?} [level=1]\nbutton \"Simulated\"", self.url()));
        if !wanted.picture {
            return Look { picture: None, text };
        }
        let state = (self.active, self.loads, self.url().to_owned());
        let mut pictured = self.pictured.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = pictured.replace(state.clone()) != Some(state);
        Look { picture: has_changed.then(|| Picture { width: 8, height: 8, jpeg: GREY.into() }), text }
    }

    pub fn page_events(&self, session: SessionId) -> PageEvents {
        PageEvents::simulated(self.events.clone().unwrap_or_default(), self.files.clone(), session)
    }

    fn note_other(&self, event: impl FnOnce() -> EventBody) {
        if let Some(events) = &self.events {
            events.add(SimulatedEvent::Other(event()));
        }
    }

    fn note_page(&self, state: PageChange, number: u32, opener: Option<u32>) {
        if let Some(events) = &self.events {
            let page = self.pages.iter().find(|page| page.number == number);
            let url = page.map(|page| page.url.clone()).unwrap_or_default();
            events.add(SimulatedEvent::Page { state, number, url, opener });
        }
    }

    fn note_dialog(&self, dialog: &OpenDialog, accepted: Option<bool>) {
        let state = if accepted.is_some() { DialogState::Answered } else { DialogState::Opened };
        let message = || dialog.message.clone();
        self.note_other(|| EventBody::Dialog(DialogEvent { state, kind: dialog.kind, message: message(), accepted }));
    }

    fn note_load(&self, address: &str) {
        self.note_other(|| {
            EventBody::Request(Box::new(RequestEvent {
                method: "GET".to_owned(),
                url: address.to_owned(),
                resource_type: "document".to_owned(),
                status: Some(200),
                mime_type: Some("text/html".to_owned()),
                response_bytes: Some(0),
                duration_ms: Some(0),
                ..RequestEvent::default()
            }))
        });
    }

    fn log(&self, url: &Url) {
        let level = match url.path() {
            "/debug" => ConsoleLevel::Debug,
            "/info" => ConsoleLevel::Info,
            "/warning" => ConsoleLevel::Warning,
            "/error" => ConsoleLevel::Error,
            _ => ConsoleLevel::Log,
        };
        let text = parameter(url, "text").unwrap_or_default();
        let line =
            ConsoleEvent { level, source: ConsoleSource::Console, text, url: Some(url.to_string()), line: Some(1) };
        self.note_other(|| EventBody::Console(line));
    }

    pub fn dialog(&self) -> Option<OpenDialog> {
        let (dialog, until) = self.open.as_ref()?;
        (*until > tokio::time::Instant::now()).then(|| dialog.clone())
    }

    /// Between operations the dialog can only expire.
    pub async fn dialog_changed(&self, known: Option<&OpenDialog>) -> Option<OpenDialog> {
        loop {
            let open = self.dialog();
            if open.as_ref() != known {
                return open;
            }
            match &self.open {
                Some((_, until)) if open.is_some() => sleep_until(*until).await,
                _ => std::future::pending().await,
            }
        }
    }

    fn find(&self, page: PageId, session: SessionId) -> Result<&SimulatedPage, Refusal> {
        let number = page.number_in(session).ok_or(Refusal::NoPage)?;
        self.pages.iter().find(|page| page.number == number).ok_or(Refusal::NoPage)
    }

    fn shape(&self, page: &SimulatedPage, session: SessionId) -> BrowserPage {
        BrowserPage {
            id: PageId::of(session, page.number),
            url: page.url.clone(),
            title: Some("Simulated".to_owned()),
            active: page.number == self.active,
            opener_id: page.opener.map(|opener| PageId::of(session, opener)),
        }
    }

    fn active(&self) -> &SimulatedPage {
        self.pages.iter().find(|page| page.number == self.active).unwrap_or(&self.pages[0])
    }

    fn url(&self) -> &str {
        &self.active().url
    }

    /// A page of `challenge.simulated.example` shows the challenge that its path names, such as `/hcaptcha`. The query
    /// parameters `confidence` and `looks` set the confidence and the number of checks for which it is shown.
    pub fn look_for_challenges(&self) -> ChallengeScan {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        ChallengeScan { document: self.loads, found: challenge(self.url(), looks).into_iter().collect() }
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
        let url = self.url().to_owned();
        let duration_ms = milliseconds(started);
        match operation {
            Operation::Navigate(navigate) => OperationResult::Navigate(Navigated {
                url: navigate.requested_url.clone(),
                status: Some(200),
                final_url: url,
                duration_ms,
                error: None,
                timed_out: false,
                dialogs: Vec::new(),
                dialog: None,
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
                dialogs: Vec::new(),
                dialog: None,
                submission_held: false,
                request_held: false,
                page_submission_held: false,
            }),
            Operation::Wait(wait) => OperationResult::Wait(Waited { download, ..self.waited(wait, true, started) }),
            Operation::StateCapture(_) => OperationResult::StateCapture(SessionState {
                url,
                title: Some("Simulated".to_owned()),
                cookies: Vec::new(),
                local_storage: self.dialog().is_none().then(|| std::iter::empty().collect()),
                captured_at: Timestamp(SystemTime::now().into()),
                page_state: Some(PageState { state: PageStanding::Loaded, error: None }),
                truncated: false,
            }),
            Operation::Capture(capture) => self.capture(capture, started),
            Operation::Extract(extract) => {
                let value = extract.extractions.iter().map(|item| (item.name.clone(), found(item))).collect();
                OperationResult::Extract(Extracted { value, dialogs: Vec::new(), dialog: None })
            }
            Operation::Snapshot(wanted) => OperationResult::Snapshot(PageSnapshot {
                snapshot: "heading \"Simulated\" [ref=e1] [level=1]\nbutton \"Simulated\" [ref=e2]".to_owned(),
                nodes: 2,
                truncated: false,
                url,
                duration_ms,
                dialogs: Vec::new(),
                dialog: None,
                links: if wanted.links { vec!["https://linked.simulated.example/".to_owned()] } else { Vec::new() },
                foreign: String::new(),
            }),
            Operation::ListPages(list) => {
                let data = self.pages.iter().map(|page| self.shape(page, list.session)).collect();
                OperationResult::ListPages(BrowserPages { data })
            }
            Operation::OpenPage(open) => OperationResult::OpenPage(self.shape(self.active(), open.session)),
            Operation::ActivatePage(activate) => {
                OperationResult::ActivatePage(self.shape(self.active(), activate.session))
            }
            Operation::ClosePage(_) => OperationResult::ClosePage(PageClosed {}),
            Operation::Evaluate(evaluate) => {
                let value = returned(&evaluate.script).unwrap_or_else(ScriptValue::null);
                OperationResult::Evaluate(Evaluated { value, ..Evaluated::without_value(duration_ms, url) })
            }
            Operation::GetCookies(_) => OperationResult::GetCookies(BrowserCookies { data: self.cookies.clone() }),
            Operation::SetCookies(_) => OperationResult::SetCookies(CookiesChanged {}),
            Operation::DeleteCookies(_) => OperationResult::DeleteCookies(CookiesChanged {}),
            Operation::Emulate(_) => OperationResult::Emulate(self.emulation.state()),
            Operation::Locate(locate) => OperationResult::Locate(self.locate(locate)),
            Operation::Hold(_) => OperationResult::Hold(SubmissionHeld { held: false }),
            Operation::Search(search) => OperationResult::Search(SearchResult {
                submitted: search.submit,
                query_truncated: false,
                results_visible: search.wait_for_results_selector.is_some().then_some(true),
                duration_ms,
                dialogs: Vec::new(),
                dialog: None,
            }),
            Operation::Login(_) => OperationResult::Login(LoginResult {
                submitted: true,
                credentials_truncated: false,
                logged_in: true,
                post_login_url: Some(url),
                duration_ms,
                dialogs: Vec::new(),
                dialog: None,
            }),
        }
    }

    fn waited(&self, wait: &Wait, matched: bool, started: Instant) -> Waited {
        let (kind, duration_ms) = (wait.condition.kind(), milliseconds(started));
        let response = match (&wait.condition, matched) {
            (Condition::Response { status, .. }, true) => {
                Some(PageResponse { url: self.url().to_owned(), status: status.unwrap_or(200) })
            }
            _ => None,
        };
        Waited { response, ..Waited::of(kind, matched, duration_ms, self.url().to_owned()) }
    }

    /// Returns one match for any query, except for the names `nothing` and `several` and for names that contain `changing`. The
    /// selector contains the name. The name of a checkbox determines its state.
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
            size: [100, 40],
        };
        let total = match name {
            "nothing" => 0,
            "several" => 7,
            _ => 1,
        };
        let matches = (1..=total).take(MAX_CANDIDATES).map(found).collect();
        let origin = Url::parse(self.url()).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Located { matches, total: total as u64, origin }
    }

    fn capture(&self, capture: &Capture, started: Instant) -> OperationResult {
        let content: &[u8] = match capture.kind {
            CaptureKind::Screenshot => match capture.format {
                ImageFormat::Png => PNG,
                ImageFormat::Jpeg => JPEG,
                ImageFormat::Webp => WEBP,
            },
            CaptureKind::Pdf => PDF,
            CaptureKind::DomSnapshot => b"<!DOCTYPE html>\n<html><title>Simulated</title></html>",
        };
        let duration_ms = milliseconds(started);
        let captured = Captured::without_content(capture, content.len(), duration_ms, self.url().to_owned());
        OperationResult::Capture(CaptureResult { captured, content: content.to_vec() })
    }
}

/// An address of `download.simulated.example` is a download, named by its path. The query parameters `name`, `bytes`, `type`
/// and `status` set another name, the size, the media type and the progress.
fn download(url: &str) -> Option<Download> {
    let url = Url::parse(url).ok().filter(|url| url.host_str() == Some("download.simulated.example"))?;
    let parameter = |name: &str| parameter(&url, name);
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

/// The script only returns JSON, such as `return 0`.
fn returned(script: &str) -> Option<ScriptValue> {
    let json = script.strip_prefix("return ")?.trim_end_matches(';');
    ScriptValue::new(RawValue::from_string(json.to_owned()).ok()?)
}

fn challenge(url: &str, looks: u32) -> Option<Finding> {
    let url = Url::parse(url).ok().filter(|url| url.host_str() == Some("challenge.simulated.example"))?;
    let max = parameter(&url, "looks").and_then(|looks| looks.parse().ok()).unwrap_or(u32::MAX);
    let confidence = parameter(&url, "confidence").and_then(|confidence| confidence.parse().ok()).unwrap_or(0.9);
    let kind = url.path().trim_start_matches('/').parse().ok()?;
    (looks < max).then(|| Finding { kind, confidence, detail: "The page says so.".to_owned() })
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn called(selector: &str) -> Option<(&str, &str)> {
    let (role, rest) = selector.split_once("[name=")?;
    Some((role, rest.split_once(']')?.0))
}

fn found(item: &Extraction) -> Value {
    match (item.take, item.transform) {
        (Take::List, _) => Value::Array(Vec::new()),
        (Take::Text, Some(Transform::Number)) => 1.into(),
        (Take::Box, _) => json!({ "x": 0, "y": 0, "width": 1, "height": 1 }),
        _ => "simulated".into(),
    }
}
