//! Implements each operation with commands of the host.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::{OptionFuture, join};
use kitfleet_domain::archetypes::{Archetype, Size};
use kitfleet_domain::machine::DiskSpace;
use kitfleet_domain::patterns::{PatternError, Patterns};
use kitfleet_domain::sessions::BehavioralProfile;
use kitfleet_domain::sessions::profile_lease::HeldProfile;
use kitfleet_egress::{EgressRoute, Guard, Rules};
use kitfleet_host_protocol::{
    self as protocol, Cookie, Device, DownloadLimits, EGRESS_PORT, EGRESS_SOCKET, HostCommand, HostError,
    MAX_SHOWN_DIALOGS, Page, PageError, PageErrorKind, ShownDialog, SubmissionRule, WaitUntil,
};
use kitfleet_profiles::{Dump, SaveError, Saved, Stores};
use kitfleet_types::emulation::Emulation;
use kitfleet_types::files::DownloadRef;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{
    self, ActionKind, AnsweredDialog, CaptureResult, Condition, DialogPolicy, Element, Evaluated, Failure,
    FailureClass, Interruption, Navigate, Navigated, Obstacle, OnFailure, OnTimeout, OpenDialog, Operation,
    OperationOutput as _, OperationResult, Refusal, Wait, WaitException, Waited,
};
use kitfleet_types::validation::Invalid;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::cause::Cause;
use super::challenges::{ChallengeScan, SYSTEMS, ScanResult};
use super::confinement::Confinement;
use super::device::{DeviceSizes, emulation_for_host};
use super::dialogs::{HeldDialogs, answered_dialog, policy_for_host};
use super::files::{self, Files, HandedUploads, POLL_PAUSES};
use super::host::{CallError, Host, driver_failure};
use super::newest_pages::NewestPages;
use super::pace::InputTiming;
use super::page::{self, POLL, PageQuery};
use super::page_errors::page_error;
use super::sites;
use super::view::{SharedSize, View};
use super::{NotSaved, OperationEnd};

/// A page cannot keep the host busy.
const ADDRESS_WITHIN: Duration = Duration::from_secs(2);

/// It takes some seconds if a site has set ten thousand.
const COOKIES_WITHIN: Duration = Duration::from_secs(15);
/// For a page to store data as it is left.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);
/// Time after which a wait for a download returns although the download has not ended.
const DOWNLOAD_WITHIN: Duration = Duration::from_secs(2);
/// From the start of a download to its name.
const NAMED_WITHIN: Duration = Duration::from_secs(1);
/// Before a failed upload is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Minimum for a save.
const ROOM: u64 = 4 * 1024 * 1024;

pub struct Webkit {
    pub(super) host: Host,
    pub(super) pace: InputTiming,
    pub(super) limits: Limits,
    /// For the error when the time limit is reached.
    pub(super) obstacle: &'static str,
    /// Member of the result.
    pub(super) reason: Option<Obstacle>,
    /// Of the last run of a script that is waited for.
    pub(super) exception: Option<WaitException>,
    pub(super) touched: (f64, f64),
    /// Element of the last interaction, if that was a tap.
    pub(super) tapped: Option<Element>,
    /// The text of the current operation must not be shown by recorded pictures.
    pub(super) is_sensitive: bool,
    pub(super) touched_at: Option<tokio::time::Instant>,
    /// The page has received input of the current interaction.
    pub(super) delivered: bool,
    /// Of a menu that lacks the option of the current interaction.
    pub(super) options: Option<Value>,
    /// On all pages. A ref is never reused.
    pub(super) refs: u64,
    pub(super) holds_submissions: bool,
    pub(super) viewport: Size,
    pub(super) shared_viewport: SharedSize,
    pub(super) sizes: DeviceSizes,
    pub(super) emulation: Emulation,
    pub(super) dialogs: HeldDialogs,
    pub(super) newest_pages: NewestPages,
    /// Evaluates regular expressions, one at a time.
    pub(super) patterns: Patterns,
    pub(super) guard: Guard,
    pub(super) confinement: Confinement,
    pub(super) files: Files,
    pub(super) uploads: HandedUploads,
    /// Start of the previous and the current operation, in microseconds since 1970.
    pub(super) began_us: [u64; 2],
}

impl Webkit {
    pub async fn open(
        host: Host,
        archetype: &Archetype,
        (profile, emulation, dialogs, is_recorded): (BehavioralProfile, &Emulation, DialogPolicy, bool),
        (route, rules): (&Arc<EgressRoute>, &Rules),
        limits: Limits,
        confinement: Confinement,
    ) -> Result<Self, Failure> {
        let opening = async {
            if confinement.is_whole() {
                Guard::open_in(&host.directory().session(), EGRESS_SOCKET, Arc::clone(route), rules)
            } else {
                Guard::open(Arc::clone(route), rules).await
            }
        };
        let guard = opening.await.map_err(|error| driver_failure(format!("no egress guard: {error}")))?;
        guard.set_offline(emulation.offline);
        let sizes = DeviceSizes::of(archetype);
        let DeviceSizes { viewport, screen } = sizes.in_orientation(emulation.orientation);
        let device = Device {
            viewport_width: viewport.width,
            viewport_height: viewport.height,
            screen_width: screen.width,
            screen_height: screen.height,
            user_agent: archetype.user_agent.clone(),
            platform: archetype.platform.clone(),
            max_touch_points: archetype.max_touch_points,
            languages: vec![emulation.locale().to_owned()],
            accept_language: emulation.accept_language(),
            emulation: emulation_for_host(emulation, sizes),
            dialogs: policy_for_host(dialogs),
            downloads: DownloadLimits::default(),
            proxy: format!("socks5://{}:{}", Ipv4Addr::LOCALHOST, guard.port().unwrap_or(EGRESS_PORT)),
            uri_chars: limits.url_chars,
            title_chars: limits.title_chars,
            is_recorded,
        };
        host.call::<()>(HostCommand::Configure(device)).await.map_err(CallError::into_failure)?;
        let files = Files::of_host(host.line(), host.directory().clone());
        Ok(Self {
            dialogs: HeldDialogs::of(host.line(), dialogs),
            newest_pages: NewestPages::new(),
            host,
            pace: InputTiming::of(profile),
            limits,
            obstacle: "",
            reason: None,
            exception: None,
            touched: (0.0, 0.0),
            tapped: None,
            is_sensitive: false,
            touched_at: None,
            delivered: false,
            options: None,
            refs: 0,
            holds_submissions: false,
            viewport,
            shared_viewport: SharedSize::new(viewport),
            sizes,
            emulation: emulation.clone(),
            patterns: Patterns::new(1),
            guard,
            confinement,
            files,
            uploads: HandedUploads::default(),
            began_us: [0; 2],
        })
    }

    pub fn view(&self) -> View {
        View::of_host(self.host.line(), self.shared_viewport.clone())
    }

    pub async fn run(&mut self, operation: &Operation) -> OperationEnd {
        let started = Instant::now();
        (self.obstacle, self.reason, self.delivered, self.options) = ("", None, false, None);
        (self.exception, self.is_sensitive) = (None, false);
        if !operation.spec().allowed_with_dialog
            && let Some(dialog) = self.dialogs.open().await
        {
            return OperationEnd::Refused(Refusal::DialogOpen { dialog: Some(dialog) });
        }
        // The service's own operations are not those that a caller means.
        let is_callers = operation.spec().route.is_some()
            && !matches!(operation, Operation::Snapshot(operations::Snapshot { links: true }));
        if is_callers {
            self.began_us = [self.began_us[1], microseconds_now()];
        }
        let (death, dialogs) = (self.host.death(), self.dialogs.clone());
        let line = self.host.line();
        let counting = is_callers.then(|| self.newest_pages.begin(line));
        let work = async {
            tokio::select! {
                biased;
                ended = Box::pin(self.perform(operation, started)) => ended,
                dialog = dialogs.opened(), if ends_with_dialog(operation) => {
                    Err(OperationEnd::Refused(Refusal::DialogOpen { dialog: Some(dialog) }))
                }
                failure = death => Err(OperationEnd::Failed(failure)),
            }
        };
        // The first future is polled first.
        let work = join(OptionFuture::from(counting), work).map(|(_, ended)| ended);
        match timeout(operation.budget(), work).await {
            Ok(Ok(result)) => self.done(result).await,
            Ok(Err(OperationEnd::Refused(Refusal::DialogOpen { dialog }))) => {
                self.interrupted(operation, dialog, started).await.unwrap_or_else(|ended| ended)
            }
            Ok(Err(ended)) => ended,
            Err(_) => self.out_of_time(operation, started).await.unwrap_or_else(|ended| ended),
        }
    }

    /// Withholds a result that is too large.
    async fn done(&self, mut result: OperationResult) -> OperationEnd {
        if let Some((dialogs, dialog)) = result.dialogs_mut() {
            match self.answered_dialogs().await {
                Ok(answered) => *dialogs = answered,
                Err(ended) => return ended,
            }
            *dialog = self.dialogs.open().await;
        }
        // The page's handlers are blocked, and whether the input was reported before is a matter of chance.
        if let OperationResult::Interact(interacted) = &mut result
            && interacted.dialog.is_some()
            && interacted.kind != ActionKind::Dialog
        {
            interacted.ok = false;
        }
        self.within_limit(result)
    }

    /// Before a dialog is answered. `None` when only the page's process is known to be blocked.
    async fn interrupted(
        &self,
        operation: &Operation,
        dialog: Option<OpenDialog>,
        started: Instant,
    ) -> Result<OperationEnd, OperationEnd> {
        let dialog = match dialog {
            Some(dialog) => Some(dialog),
            None => self.dialogs.open().await,
        };
        let refused = |dialog| OperationEnd::Refused(Refusal::DialogOpen { dialog });
        let Some(dialog) = dialog else { return Ok(refused(None)) };
        let (dialogs, url) = (self.answered_dialogs().await?, self.address().await?);
        let by = Interruption { dialog: dialog.clone(), dialogs, url, duration_ms: milliseconds(started) };
        Ok(operation.interrupted(by).map_or_else(|| refused(Some(dialog)), |result| self.within_limit(result)))
    }

    async fn answered_dialogs(&self) -> Result<Vec<AnsweredDialog>, OperationEnd> {
        let shown: Vec<ShownDialog> = self.ask_host(HostCommand::TakeDialogs).await?;
        Ok(shown.iter().take(MAX_SHOWN_DIALOGS).map(answered_dialog).collect())
    }

    /// Returns the dialog that is open, if the browser holds dialogs.
    pub async fn dialog(&self) -> Option<OpenDialog> {
        self.dialogs.open().await
    }

    /// Cancellation is safe.
    pub async fn dialog_changed(&self, known: Option<&OpenDialog>) -> Option<OpenDialog> {
        self.dialogs.changed(known).await
    }

    async fn perform(&mut self, operation: &Operation, started: Instant) -> Result<OperationResult, OperationEnd> {
        Ok(match operation {
            Operation::Navigate(navigate) => OperationResult::Navigate(self.navigate(navigate, started).await?),
            Operation::Interact(interact) => OperationResult::Interact(self.interact(interact, started).await?),
            Operation::Wait(wait) => OperationResult::Wait(self.wait(wait, started).await?),
            Operation::StateCapture(_) => OperationResult::StateCapture(self.state().await?),
            Operation::Capture(capture) => {
                let (captured, content) = self.capture_unless_blocked(capture, started).await?;
                OperationResult::Capture(CaptureResult { captured, content })
            }
            Operation::Extract(extract) => OperationResult::Extract(self.extract(extract).await?),
            Operation::Snapshot(wanted) => OperationResult::Snapshot(self.snapshot(wanted, started).await?),
            Operation::ListPages(list) => OperationResult::ListPages(self.pages(list.session).await?),
            Operation::OpenPage(open) => OperationResult::OpenPage(self.open_page(open).await?),
            Operation::ActivatePage(activate) => OperationResult::ActivatePage(self.activate_page(activate).await?),
            Operation::ClosePage(close) => OperationResult::ClosePage(self.close_page(close).await?),
            Operation::Emulate(change) => OperationResult::Emulate(self.emulate(change).await?),
            Operation::Evaluate(evaluate) => OperationResult::Evaluate(self.evaluate(evaluate, started).await?),
            Operation::GetCookies(_) => OperationResult::GetCookies(self.cookies().await?),
            Operation::SetCookies(set) => OperationResult::SetCookies(self.set_cookies(set).await?),
            Operation::DeleteCookies(delete) => OperationResult::DeleteCookies(self.delete_cookies(delete).await?),
            Operation::Locate(locate) => OperationResult::Locate(self.find(locate).await?),
            Operation::Hold(_) => OperationResult::Hold(self.hold().await?),
            Operation::Search(search) => OperationResult::Search(self.search(search, started).await?),
            Operation::Login(login) => OperationResult::Login(self.login(login, started).await?),
        })
    }

    async fn navigate(&mut self, navigate: &Navigate, started: Instant) -> Result<Navigated, OperationEnd> {
        let until = match navigate.wait_until {
            operations::WaitUntil::Load => WaitUntil::Load,
            operations::WaitUntil::DomContentLoaded => WaitUntil::DomContentLoaded,
            operations::WaitUntil::NetworkIdle => WaitUntil::NetworkIdle,
        };
        let held_before = navigate.hold_submissions && self.hold_submissions(SubmissionRule::HoldAll).await?;
        let command = HostCommand::Navigate { uri: navigate.url.as_str().to_owned(), until };
        let protocol::Navigated { final_uri, status, error, download } = self.load(command).await?;
        let error = match error {
            Some(error) if navigate.on_failure == OnFailure::Fail => return Err(self.not_loaded(&error)),
            Some(error) => Some(PageError { message: self.explain(&error), ..error }),
            None => None,
        };
        let held_meanwhile = if navigate.hold_submissions {
            self.held_submission().await?.is_some()
        } else {
            // Submissions of the page that was left do not belong to the next operation.
            self.hold_submissions(SubmissionRule::AllowAll).await?;
            false
        };
        Ok(Navigated {
            url: navigate.requested_url.clone(),
            status,
            final_url: final_uri,
            duration_ms: milliseconds(started),
            error: error.map(page_error),
            timed_out: false,
            dialogs: Vec::new(),
            dialog: None,
            download: self.download(download).await?,
            page_submission_held: held_before || held_meanwhile,
        })
    }

    /// Ends a navigation that has reached its time limit. Its load continues.
    async fn end_navigation(&self, navigate: &Navigate, started: Instant) -> Result<Navigated, OperationEnd> {
        let known: protocol::Navigated = self.ask_host(HostCommand::EndNavigation).await?;
        let returns_error = navigate.on_timeout == OnTimeout::Fail;
        let error = || operations::PageError {
            kind: operations::PageErrorKind::Timeout,
            http_status: None,
            message: "the page did not load within the time limit".to_owned(),
        };
        Ok(Navigated {
            url: navigate.requested_url.clone(),
            status: known.status.filter(|_| !returns_error),
            final_url: known.final_uri,
            duration_ms: milliseconds(started),
            error: returns_error.then(error),
            timed_out: true,
            dialogs: Vec::new(),
            dialog: None,
            download: self.download(known.download).await?,
            page_submission_held: false,
        })
    }

    pub(super) async fn load(&mut self, command: HostCommand) -> Result<protocol::Navigated, OperationEnd> {
        self.guard.take_refusal();
        self.host.loaded_scripts().forget();
        match self.host.call(command).await {
            Ok(navigated) => Ok(navigated),
            Err(CallError::Refused(HostError::Navigation(error))) => Err(self.not_loaded(&error)),
            Err(CallError::Refused(HostError::Nowhere)) => {
                Err(OperationEnd::invalid("action.kind", "the history has no page to go to"))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn not_loaded(&self, error: &PageError) -> OperationEnd {
        let layer = match error.kind {
            PageErrorKind::Http => "HTTP",
            PageErrorKind::Tls => "TLS",
            PageErrorKind::Dns => "DNS",
            PageErrorKind::Net => "network",
            PageErrorKind::Timeout => "timeout",
        };
        let reason = self.explain(error);
        let detail = format!("The page did not load ({layer}): {}.", reason.trim_end_matches('.'));
        OperationEnd::Failed(driver_failure(detail))
    }

    /// For a failed connection the guard has a more precise reason than WebKit.
    fn explain(&self, error: &PageError) -> String {
        let refusal = self.guard.take_refusal();
        let below_tls = matches!(error.kind, PageErrorKind::Dns | PageErrorKind::Net);
        refusal.filter(|_| below_tls).map_or_else(|| error.message.clone(), |refusal| refusal.to_string())
    }

    async fn wait(&mut self, wait: &Wait, started: Instant) -> Result<Waited, OperationEnd> {
        match &wait.condition {
            Condition::Selector { element } => self.wait_for(element, true).await?,
            Condition::SelectorHidden { element } => self.wait_for(element, false).await?,
            Condition::UrlMatches { pattern } => self.wait_for_address(pattern).await?,
            Condition::Text { text } => self.wait_for_text(text).await?,
            Condition::Function { script } => self.wait_for_script(script).await?,
            Condition::Response { url_pattern, status } => {
                let response = self.wait_for_response(url_pattern, *status).await?;
                return Ok(Waited { response: Some(response), ..self.waited(wait, true, started).await? });
            }
            Condition::LoadState { state } => self.wait_for_load(*state).await?,
            Condition::Time { ms } => sleep(Duration::from_millis(*ms)).await,
            Condition::Page => self.wait_for_page().await?,
            Condition::Download => {
                let download = self.wait_for_download().await?;
                return Ok(Waited { download: Some(download), ..self.waited(wait, true, started).await? });
            }
        }
        self.waited(wait, true, started).await
    }

    /// Begun since the previous operation began. A long one is not waited for to its end.
    async fn wait_for_download(&self) -> Result<DownloadRef, OperationEnd> {
        let line = self.host.line();
        let mut pause = POLL_PAUSES[0];
        loop {
            let entries = files::entries(&line).await.map_err(OperationEnd::Failed)?;
            let long_ago =
                microseconds_now().saturating_sub(DOWNLOAD_WITHIN.as_micros().try_into().unwrap_or(u64::MAX));
            let is_wanted = |entry: &protocol::DownloadEntry| {
                let has_ended = entry.status != protocol::DownloadStatus::InProgress;
                entry.created_us >= self.began_us[0] && (has_ended || entry.created_us <= long_ago)
            };
            if let Some(wanted) = entries.iter().position(is_wanted) {
                return Ok(self.files.describe(&entries)[wanted].reference());
            }
            sleep(pause).await;
            pause = POLL_PAUSES[1].min(pause * 2);
        }
    }

    /// A download has a name soon after its start.
    async fn download(&self, number: Option<u32>) -> Result<Option<DownloadRef>, OperationEnd> {
        let Some(number) = number else { return Ok(None) };
        let (line, given_up) = (self.host.line(), Instant::now() + NAMED_WITHIN);
        loop {
            let entries = files::entries(&line).await.map_err(OperationEnd::Failed)?;
            let Some(found) = entries.iter().position(|entry| entry.id == number) else { return Ok(None) };
            let has_name = !entries[found].file_name.is_empty();
            let has_ended = entries[found].status != protocol::DownloadStatus::InProgress;
            if has_name || has_ended || Instant::now() >= given_up {
                return Ok(Some(self.files.describe(&entries)[found].reference()));
            }
            sleep(POLL_PAUSES[0]).await;
        }
    }

    async fn wait_for_address(&self, pattern: &str) -> Result<(), OperationEnd> {
        let pattern = self.patterns.compile(pattern, "condition.pattern").await?;
        let mut seen = None;
        loop {
            let address = self.address().await?;
            if seen.as_ref() != Some(&address) {
                if self.patterns.is_match(&pattern, &address).await? {
                    return Ok(());
                }
                seen = Some(address);
            }
            sleep(POLL).await;
        }
    }

    async fn wait_for(&mut self, element: &Element, visible: bool) -> Result<(), OperationEnd> {
        let field = element.field("condition");
        self.wait_for_query(PageQuery::written(element, &field), visible).await
    }

    /// `None` while the page does not answer.
    pub(super) async fn shows(&mut self, target: PageQuery<'_>) -> Result<Option<bool>, OperationEnd> {
        page::ask(&self.host, page::VISIBLE.about(target), &json!({ "target": target })).await
    }

    /// The number of refs distinguishes an unknown ref from an element that is gone.
    pub(super) fn input(&self, mut input: Value) -> Value {
        input["refs"] = self.refs.into();
        input
    }

    async fn waited(&self, wait: &Wait, matched: bool, started: Instant) -> Result<Waited, OperationEnd> {
        let url = self.address().await?;
        let (kind, duration_ms) = (wait.condition.kind(), milliseconds(started));
        Ok(Waited::of(kind, matched, duration_ms, url))
    }

    async fn out_of_time(&mut self, operation: &Operation, started: Instant) -> Result<OperationEnd, OperationEnd> {
        if self.holds_submissions {
            // Ends the hold of requests, which does not outlast its operation.
            self.hold_submissions(SubmissionRule::HoldUnapproved).await?;
        }
        let result = match operation {
            Operation::Navigate(navigate)
                if navigate.on_timeout == OnTimeout::Return || navigate.on_failure == OnFailure::Return =>
            {
                OperationResult::Navigate(self.end_navigation(navigate, started).await?)
            }
            Operation::Interact(interact) if interact.on_timeout == OnTimeout::Return => {
                if interact.action.navigates() {
                    let _: protocol::Navigated = self.ask_host(HostCommand::EndNavigation).await?;
                }
                OperationResult::Interact(self.interacted(interact, false, started).await?)
            }
            Operation::Wait(wait) if wait.on_timeout == OnTimeout::Return => {
                let exception = self.exception.take();
                OperationResult::Wait(Waited { exception, ..self.waited(wait, false, started).await? })
            }
            Operation::Evaluate(evaluate) if evaluate.on_timeout == OnTimeout::Return && self.page_answers().await => {
                let evaluated = Evaluated::without_value(milliseconds(started), self.address().await?);
                OperationResult::Evaluate(Evaluated { timed_out: true, ..evaluated })
            }
            // The caller learns which options there are.
            Operation::Interact(_) if self.reason == Some(Obstacle::NoOption) => {
                let message = "must be the value or the label of one of its options";
                let members = Map::from_iter(self.options.take().map(|options| ("options".to_owned(), options)));
                return Ok(OperationEnd::Invalid { invalid: Invalid::field("action.option", message), members });
            }
            _ => {
                let reason = match &self.exception {
                    Some(WaitException { name, message }) => format!(": the script last threw {name}: {message}"),
                    None if self.obstacle.is_empty() => String::new(),
                    None => format!(": {}", self.obstacle),
                };
                let detail = format!("The operation reached its time limit{reason}.");
                return Ok(OperationEnd::Failed(Failure { class: FailureClass::Timeout, detail }));
            }
        };
        Ok(self.done(result).await)
    }

    pub(super) async fn address(&self) -> Result<String, OperationEnd> {
        Ok(self.page().await?.uri)
    }

    /// Does not ask the page.
    pub(super) async fn page(&self) -> Result<Page, OperationEnd> {
        self.ask_host(HostCommand::Page).await
    }

    /// Does not ask the page.
    pub(super) async fn ask_host<T: DeserializeOwned>(&self, command: HostCommand) -> Result<T, OperationEnd> {
        match timeout(ADDRESS_WITHIN, self.host.call(command)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(OperationEnd::Failed(driver_failure("the browser does not answer"))),
        }
    }

    pub async fn restore(&mut self, stores: &Stores, held: &HeldProfile) -> Result<(), Failure> {
        let Some(store) = held.store else { return Ok(()) };
        let (session, kept) = (self.host.directory().session(), self.host.directory().kept());
        let failed = |error: io::Error| driver_failure(format!("the profile cannot be restored: {error}"));
        tokio::fs::create_dir(&kept).await.map_err(failed)?;
        let cookies = stores.restore(held.profile, &held.sealed_key, store, &kept).await;
        let cookies = cookies.map_err(|error| driver_failure(format!("the profile cannot be restored: {error}")))?;
        self.confinement.hand_over(&kept, self.host.directory()).map_err(failed)?;
        sites::move_all(&kept, &session).await.map_err(failed)?;
        tokio::fs::remove_dir_all(kept).await.map_err(failed)?;
        let cookies = cookies.into_iter().map(sites::to_browser).collect();
        self.host.call::<()>(HostCommand::ReplaceCookies { cookies }).await.map_err(CallError::into_failure)
    }

    /// A failed upload is retried until the caller cancels, because the store may be briefly unreachable, such as during a
    /// restart of the database.
    pub async fn save(self, stores: &Stores, held: &HeldProfile) -> Result<Saved, NotSaved> {
        // A page that blocks, or shows a dialog, is not waited for. Data that it stored before is in the network process.
        if let Ok(Err(error @ CallError::Dead(_))) =
            timeout(LEAVE_WITHIN, self.host.call::<()>(HostCommand::Leave)).await
        {
            return Err(NotSaved::Browser(error.into_failure()));
        }
        let wanted = HostCommand::Cookies { at_most: None };
        let cookies = match timeout(COOKIES_WITHIN, self.host.call::<Vec<Cookie>>(wanted)).await {
            Ok(cookies) => cookies.map_err(CallError::into_failure),
            Err(_) => Err(driver_failure("the browser does not answer")),
        };
        let cookies: Vec<_> = cookies.map_err(NotSaved::Browser)?.into_iter().map(sites::of_browser).collect();
        let remains = self.host.end_in_order().await.map_err(NotSaved::Browser)?;
        let (session, kept) = (remains.directory().session(), remains.directory().kept());
        require_free_space(&session).map_err(SaveError::Serialize)?;
        sites::move_all(&session, &kept).await.map_err(SaveError::Serialize)?;
        loop {
            let dump = Dump { cookies: cookies.clone(), files: kept.clone().into() };
            match stores.save(held.profile, &held.sealed_key, dump).await {
                Err(SaveError::Upload(error)) => {
                    tracing::warn!(error, profile = %held.profile, "cannot save the profile of a session: trying again");
                }
                saved => return Ok(saved?),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// `None` when the page is replaced meanwhile, or the browser has died. Does not resolve while a page hangs.
    pub async fn look_for_challenges(&self) -> Option<ChallengeScan> {
        let looked: ScanResult = page::ask_once(&self.host, page::CHALLENGES, &*SYSTEMS).await.ok()??;
        Some(looked.judged())
    }

    pub async fn died(&self) -> Failure {
        self.host.died().await
    }

    pub fn cause_of_death(&self) -> Option<Cause> {
        self.host.cause_of_death()
    }

    pub async fn close(self) {
        self.host.end().await;
    }
}

/// The other operations end without the page, or know what to do.
fn ends_with_dialog(operation: &Operation) -> bool {
    !operation.spec().allowed_with_dialog
        && !matches!(
            operation,
            Operation::ListPages(_)
                | Operation::OpenPage(_)
                | Operation::ActivatePage(_)
                | Operation::ClosePage(_)
                | Operation::Emulate(_)
                | Operation::GetCookies(_)
                | Operation::SetCookies(_)
                | Operation::DeleteCookies(_)
        )
}

/// On a full disk, a browser also loses data that it had already stored.
fn require_free_space(folder: &Path) -> io::Result<()> {
    if DiskSpace::on(folder)?.left < ROOM { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

impl CallError {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Dead(failure) => failure,
            Self::Refused(error) => driver_failure(match error {
                HostError::Navigation(error) => error.message,
                HostError::Script { message } | HostError::Engine { message } => message,
                HostError::UnknownKey { .. } => "no such key".to_owned(),
                HostError::Nowhere | HostError::NoSuchPage => "there is no such page".to_owned(),
                HostError::LastPage => "the last page cannot be closed".to_owned(),
                HostError::TooManyPages => "there are too many pages".to_owned(),
                HostError::DialogOpen => "the page shows a dialog".to_owned(),
            }),
        }
    }
}

impl From<PatternError> for OperationEnd {
    fn from(error: PatternError) -> Self {
        match error {
            PatternError::Invalid(invalid) => Self::Invalid { invalid, members: Map::new() },
            PatternError::Thread(error) => Self::Failed(driver_failure(error.to_string())),
        }
    }
}

impl From<CallError> for OperationEnd {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(HostError::DialogOpen) => Self::Refused(Refusal::DialogOpen { dialog: None }),
            CallError::Refused(HostError::NoSuchPage) => Self::Refused(Refusal::NoPage),
            CallError::Refused(HostError::LastPage) => Self::Refused(Refusal::LastPage),
            CallError::Refused(HostError::TooManyPages) => Self::Refused(Refusal::TooManyPages),
            error => Self::Failed(error.into_failure()),
        }
    }
}

/// By the clock of this machine and its browsers.
fn microseconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

pub fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
