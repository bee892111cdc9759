//! Actor of one session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::archetypes;
use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::metrics::{Counter, Histogram};
use kitfleet_domain::recordings::RecordMode;
use kitfleet_domain::sealing::NotSealedForUs;
use kitfleet_domain::sessions::dialogs::{self, DialogChange};
use kitfleet_domain::sessions::intents::{IntentEnding, OpenRequest};
use kitfleet_domain::sessions::profile_lease::{self, HeldProfile, Reason};
use kitfleet_domain::sessions::{EndReason, failures};
use kitfleet_egress::EgressRoute;
use kitfleet_profiles::{SaveError, Saved};
use kitfleet_types::ids::{IntentId, SessionId, StoreId};
use kitfleet_types::operations::{Failure, FailureClass, OpenDialog, Operation, OperationDescription, Outcome};
use kitfleet_types::timestamp::Timestamp;
use serde_json::Map;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::outcomes::{WriteOutcome, failed, finish};
use super::registry::{Handle, HeldClaim, LiveHandle, Order, PageRead, note_count};
use super::watch::Watch;
use crate::Context;
use crate::browser::{Browser, Cause, ChallengeScan, NotSaved, OperationEnd};
use crate::egress_routes;
use crate::recorder::{self, EndedOperation, SessionRecorder};

pub(crate) const BROWSER_DEATHS: Counter<1> =
    Counter::new("service_browser_death_total", "Browsers of sessions that ended by themselves, by cause.", ["cause"])
        .starting_with(|| Cause::ALL.iter().map(|cause| [cause.name()]).collect());

pub(crate) const OPERATION_TIME: Histogram<1> = Histogram::new(
    "service_session_operation_duration_seconds",
    "Time in the browser per operation in seconds, by kind of operation.",
    ["operation"],
);

/// The browser normally ends the operation itself, with a more precise error.
const GRACE: Duration = Duration::from_secs(3);
/// Between checks whether the previous session has released the profile.
const LEASE_POLL: Duration = Duration::from_millis(20);
const SAVE_WITHIN: Duration = Duration::from_secs(30);
/// The worker waits slightly longer than this for its actors.
const SAVE_BEFORE_THE_END: Duration = Duration::from_secs(8);

struct Actor {
    context: Arc<Context>,
    session: SessionId,
    inbox: mpsc::Receiver<Order>,
    waiting_reads: mpsc::Receiver<PageRead>,
    faults: mpsc::Sender<Failure>,
    faulted: mpsc::Receiver<Failure>,
    claim: HeldClaim,
    close: CancellationToken,
    last: Option<IntentId>,
    has_profile: bool,
    /// State of the profile when the session leased it.
    held: Option<HeldProfile>,
    /// Repeated measurement of the session's proxy, if it has one.
    measuring: Option<AbortOnDropHandle<()>>,
    watch: Option<Watch>,
    /// Dialog in the session's row.
    dialog: Option<OpenDialog>,
    recorder: Option<SessionRecorder>,
}

enum NextAction {
    Continue,
    /// Close, because the session has ended. Its browser may still be alive.
    Close,
    Fail,
}

/// The request comes with its sealed secrets.
pub(super) fn open(
    context: &Arc<Context>,
    intent: IntentId,
    session: SessionId,
    wanted: (OpenRequest, Option<Vec<u8>>),
    span: tracing::Span,
) {
    let ((orders, inbox), (page_reads, waiting_reads)) = (mpsc::channel(1), mpsc::channel(1));
    let (faults, faulted) = mpsc::channel(1);
    let close = CancellationToken::new();
    {
        let mut live = context.sessions.lock();
        if live.contains_key(&session) {
            return;
        }
        live.insert(session, Handle { orders, page_reads, close: close.clone(), live: None });
        note_count(live.len());
    }
    let mut actor = Actor {
        context: Arc::clone(context),
        session,
        inbox,
        waiting_reads,
        faults,
        faulted,
        claim: HeldClaim::default(),
        close,
        last: None,
        has_profile: false,
        held: None,
        measuring: None,
        watch: wanted.0.detect_challenges.then(|| Watch::new(session, context.config.challenge_confidence)),
        dialog: None,
        recorder: None,
    };
    context.sessions.spawn(async move {
        if let Some(browser) = actor.open(intent, wanted).instrument(span).await {
            actor.run(browser).instrument(tracing::info_span!("actor", %session)).await;
        }
    });
}

impl Drop for Actor {
    fn drop(&mut self) {
        {
            let mut live = self.context.sessions.lock();
            live.remove(&self.session);
            note_count(live.len());
        }
        // No other process releases the leases of a live worker.
        if self.has_profile && std::thread::panicking() {
            let (context, session) = (Arc::clone(&self.context), self.session);
            tokio::spawn(async move { release_profile(&context, session).await });
        }
    }
}

impl Actor {
    /// `None` when the browser did not open, or the session ended meanwhile.
    async fn open(&mut self, intent: IntentId, wanted: (OpenRequest, Option<Vec<u8>>)) -> Option<Browser> {
        let (context, close) = (Arc::clone(&self.context), self.close.clone());
        let started_at = recorder::now();
        let headers = &wanted.0.emulation.extra_headers;
        let secret_headers = || -> Vec<String> { headers.iter().map(|header| header.name.clone()).collect() };
        let recorded = (wanted.0.record == RecordMode::Steps).then(secret_headers);
        let opened = tokio::select! {
            opened = timeout(context.config.open_timeout, self.open_browser(wanted)) => opened,
            () = close.cancelled() => {
                self.release_profile().await;
                return None;
            }
        };
        let outcome = match opened {
            Ok(Ok(browser)) => {
                self.recorder =
                    recorded.map(|headers| SessionRecorder::start(&context, self.session, headers, &browser));
                self.publish_live_handle(&browser);
                if finish(&context, intent, &Outcome::Done.into()).await == WriteOutcome::AsItIs {
                    self.begin_recording(intent, started_at);
                    return Some(browser);
                }
                browser.close().await;
                self.release_profile().await;
                return None;
            }
            Ok(Err(failure)) => Outcome::Failed { failure },
            Err(_) => failed(FailureClass::Timeout, "the browser did not open in time"),
        };
        finish(&context, intent, &outcome.into()).await;
        self.release_profile().await;
        None
    }

    fn begin_recording(&mut self, intent: IntentId, started_at: Timestamp) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(watch) = &mut self.watch {
            watch.record(recorder.log());
        }
        let (described, outcome) = (OperationDescription::of_open(), &Outcome::Done);
        let opened = EndedOperation { intent, described, operation: None, actor: None, started_at, outcome, url: None };
        recorder.end_operation(opened, None);
    }

    fn publish_live_handle(&self, browser: &Browser) {
        let (view, files) = (browser.view(), browser.files());
        let (claim, faults) = (Arc::clone(&self.claim), self.faults.clone());
        let live_handle =
            LiveHandle { view, files, claim, faults, recording: self.recorder.as_ref().map(SessionRecorder::log) };
        if let Some(handle) = self.context.sessions.lock().get_mut(&self.session) {
            handle.live = Some(live_handle);
        }
    }

    async fn open_browser(&mut self, (mut wanted, sealed): (OpenRequest, Option<Vec<u8>>)) -> Result<Browser, Failure> {
        let unavailable = |detail: String| Failure { class: FailureClass::NotIntegrated, detail };
        // A profile's archetype may have been removed from the catalogue since the profile was created.
        let archetype = archetypes::find(&wanted.archetype)
            .or_else(|| wanted.profile_id.is_some().then(archetypes::launch))
            .ok_or_else(|| unavailable(format!("this worker does not know the archetype {}", wanted.archetype)))?;
        self.has_profile = wanted.profile_id.is_some();
        if self.has_profile {
            self.held = Some(self.take_profile().await.map_err(|error| unavailable(error.to_string()))?);
        }
        if let Some(sealed) = sealed {
            let secrets = self.context.opener.open(&sealed);
            let failed = |error: NotSealedForUs| Failure { class: FailureClass::Driver, detail: error.to_string() };
            wanted.restore_secrets(secrets.map_err(failed)?);
        }
        let route = Arc::new(match wanted.proxy_id {
            Some(_) => Box::pin(egress_routes::open(&self.context, self.session)).await?,
            None => EgressRoute::direct(self.context.browsers.rules()),
        });
        let is_recorded = wanted.record == RecordMode::Steps;
        let opening = self.context.browsers.open(
            archetype,
            wanted.behavioral_profile,
            &route,
            (&wanted.emulation, wanted.dialogs, is_recorded),
        );
        let measuring = async { Ok(Box::pin(egress_routes::measure(&self.context, &route)).await?) };
        let (mut browser, measured) = tokio::try_join!(opening, measuring)?;
        if let Some(held) = &self.held {
            browser.restore(&self.context.stores, held).await?;
        }
        if let Some(measured) = measured {
            egress_routes::report(&self.context, self.session, &measured).await?;
            let measuring = egress_routes::keep_measuring(Arc::clone(&self.context), self.session, route);
            self.measuring = Some(AbortOnDropHandle::new(tokio::spawn(measuring)));
        }
        Ok(browser)
    }

    /// Leases the session's profile, after the previous session has released it.
    async fn take_profile(&self) -> sqlx::Result<HeldProfile> {
        let take = || async { profile_lease::take(&mut *self.context.db.acquire().await?, self.session).await };
        loop {
            if let Some(held) = persist("lease a profile", take).await? {
                return Ok(held);
            }
            sleep(LEASE_POLL).await;
        }
    }

    async fn run(mut self, mut browser: Browser) {
        let after = loop {
            let order = tokio::select! {
                biased;
                () = self.close.cancelled() => break NextAction::Close,
                order = self.inbox.recv() => order,
                Some(read) = self.waiting_reads.recv() => match self.read_page(&mut browser, read).await {
                    Some(after) => break after,
                    None => continue,
                },
                failure = browser.died() => break self.fail_idle(failure).await,
                seen = scan_for_challenges(self.watch.as_mut(), &browser) => match self.note(seen).await {
                    Some(after) => break after,
                    None => continue,
                },
                Some(failure) = self.faulted.recv() => break self.fail_idle(failure).await,
                open = browser.dialog_changed(self.dialog.as_ref()) => match self.store_dialog(open).await {
                    Some(after) => break after,
                    None => continue,
                },
                () = take_due_picture(self.recorder.as_mut(), &browser) => continue,
            };
            let Some(order) = order else { break NextAction::Close };
            // The start of an intent is committed without waiting for the disk. A database crash can lose it, and the intent is
            // then dispatched again, but only to this worker.
            if self.last.replace(order.intent) == Some(order.intent) {
                continue;
            }
            let span = order.span.clone();
            match self.run_operation(&mut browser, order).instrument(span).await {
                NextAction::Continue => {}
                after => break after,
            }
        };
        if let Some(recorder) = self.recorder.take() {
            self.context.sessions.spawn(recorder.end().await);
        }
        if let (NextAction::Close, Some(held)) = (after, self.held.take()) {
            self.save_and_close(browser, &held).await;
        } else {
            if let Some(cause) = browser.cause_of_death() {
                BROWSER_DEATHS.with([cause.name()]).increment(1);
            }
            browser.close().await;
            self.release_profile().await;
        }
    }

    /// A browser that fails the read is treated as dead.
    async fn read_page(&mut self, browser: &mut Browser, read: PageRead) -> Option<NextAction> {
        let PageRead { operation, begun, answer } = read;
        if begun.send(()).is_err() {
            return None;
        }
        let ended = tokio::select! {
            ended = timeout(operation.budget() + GRACE, browser.run(&operation)) => ended,
            () = self.close.cancelled() => return Some(NextAction::Close),
        };
        // A read that times out has changed nothing, and the browser is still usable.
        let failure = match &ended {
            Ok(OperationEnd::Failed(failure)) if failure.class != FailureClass::Timeout => Some(failure.clone()),
            Ok(_) => None,
            Err(_) => Some(out_of_time()),
        };
        let ended = ended.unwrap_or_else(|_| OperationEnd::Failed(out_of_time()));
        let _ = answer.send(ended);
        match failure {
            Some(failure) => Some(self.fail_idle(failure).await),
            None => None,
        }
    }

    /// Records the challenges that were found, unless the session ends meanwhile.
    async fn note(&mut self, seen: Option<ChallengeScan>) -> Option<NextAction> {
        let (watch, seen) = (self.watch.as_mut()?, seen?);
        tokio::select! {
            () = watch.record_scan(&self.context, seen) => None,
            () = self.close.cancelled() => Some(NextAction::Close),
        }
    }

    /// Stores the dialog that is open between operations, unless the session ends meanwhile.
    async fn store_dialog(&mut self, open: Option<OpenDialog>) -> Option<NextAction> {
        self.dialog = open;
        let (context, session, dialog) = (&self.context, self.session, self.dialog.as_ref());
        let store = || async { dialogs::store(&mut *context.db.acquire().await?, context.id, session, dialog).await };
        tokio::select! {
            stored = persist("record a dialog", store) => {
                if let Err(error) = stored {
                    tracing::error!(%error, %session, "cannot record a dialog");
                }
                None
            }
            () = self.close.cancelled() => Some(NextAction::Close),
        }
    }

    async fn run_operation(&mut self, browser: &mut Browser, order: Order) -> NextAction {
        let Order { intent, operation, actor, .. } = order;
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_operation(&operation);
        }
        let started_at = recorder::now();
        let grace = match operation {
            Operation::Search(_) | Operation::Login(_) => self.context.config.limits.form_teardown,
            _ => GRACE,
        };
        let limit = operation.budget() + grace;
        let started = Instant::now();
        let ended = tokio::select! {
            ended = timeout(limit, browser.run(&operation)) => ended,
            () = self.close.cancelled() => {
                let ended = (&Outcome::Destroyed, None, started_at);
                self.record((intent, actor), &operation, ended, None);
                return NextAction::Close;
            }
        };
        OPERATION_TIME.with([operation.spec().kind]).record(started.elapsed());
        let (outcome, result) = match ended {
            Ok(OperationEnd::Done(result)) => (Outcome::Done, Some(result)),
            Ok(OperationEnd::Invalid { invalid, members }) => {
                (Outcome::Invalid { errors: invalid.0, members, refusal: None }, None)
            }
            Ok(OperationEnd::Refused(refusal)) => {
                (Outcome::Invalid { errors: Vec::new(), members: Map::new(), refusal: Some(refusal) }, None)
            }
            Ok(OperationEnd::Withheld { detail, members }) => (Outcome::Withheld { detail, members }, None),
            Ok(OperationEnd::Failed(failure)) => (Outcome::Failed { failure }, None),
            Err(_) => (Outcome::Failed { failure: out_of_time() }, None),
        };
        if let Outcome::Failed { failure } = &outcome {
            // The exception of a caller's script may contain values of the page.
            let detail = Some(failure.detail.as_str()).filter(|_| !operation.error_shows_page());
            tracing::info!(class = failure.class.name(), detail, "operation failed");
        }
        if let Some(watch) = &mut self.watch {
            watch.after(&operation);
        }
        let url = result.as_ref().and_then(|result| result.page_url.clone());
        let (browser_time, usage) = (Some(started.elapsed()), operation.spec().usage);
        let sets_emulation = matches!(operation, Operation::Emulate(_));
        let reads_state = matches!(operation, Operation::StateCapture(_));
        let dialog = self.dialog_change(browser).await;
        let ending = IntentEnding {
            url,
            result,
            browser_time,
            usage,
            sets_emulation,
            reads_state,
            dialog,
            ..IntentEnding::from(outcome)
        };
        let written = finish(&self.context, intent, &ending).await;
        let recorded = if written == WriteOutcome::TooLate { &Outcome::Destroyed } else { &ending.outcome };
        self.record((intent, actor), &operation, (recorded, ending.url.clone(), started_at), Some(&*browser));
        match written {
            WriteOutcome::AsItIs if matches!(ending.outcome, Outcome::Failed { .. }) => NextAction::Fail,
            WriteOutcome::AsItIs => NextAction::Continue,
            WriteOutcome::AsFailure => NextAction::Fail,
            WriteOutcome::TooLate => NextAction::Close,
        }
    }

    fn record(
        &mut self,
        (intent, actor): (IntentId, Option<OperationActor>),
        operation: &Operation,
        (outcome, url, started_at): (&Outcome, Option<String>, Timestamp),
        browser: Option<&Browser>,
    ) {
        if let Some(recorder) = &mut self.recorder {
            let described = operation.describe();
            let operation = Some(operation);
            let ended = EndedOperation { intent, described, operation, actor, started_at, outcome, url };
            recorder.end_operation(ended, browser);
        }
    }

    async fn dialog_change(&mut self, browser: &Browser) -> DialogChange {
        let open = tokio::select! {
            open = browser.dialog() => open,
            _ = browser.died() => None,
        };
        let change = DialogChange::between(self.dialog.as_ref(), open.as_ref());
        self.dialog = open;
        change
    }

    /// Saves the profile, and releases it.
    async fn save_and_close(&self, browser: Browser, held: &HeldProfile) {
        let started = Instant::now();
        let too_late = async {
            let stopping = async {
                self.context.stopping.cancelled().await;
                sleep(SAVE_BEFORE_THE_END).await;
            };
            // A session that is created meanwhile waits for the save within its own opening time, and must then still open its
            // browser.
            let _ = timeout(SAVE_WITHIN.min(self.context.config.open_timeout * 2 / 3), stopping).await;
        };
        let mut saved = tokio::select! {
            saved = browser.save(&self.context.stores, held) => saved,
            () = too_late => Err(SaveError::Upload("the save took too long".to_owned()).into()),
        };
        let unneeded = loop {
            let settle = || async { self.settle(held, &saved).await };
            match persist("record the saved state of a profile", settle).await {
                Ok(unneeded) => break unneeded,
                Err(error) => {
                    tracing::error!(%error, session = %self.session, "cannot record the saved state of a profile");
                }
            }
            // The profile keeps its previous state. After a failed save the release at least is attempted.
            if saved.is_err() {
                self.release_profile().await;
                break None;
            }
            saved = Err(SaveError::Upload("the database rejects it".to_owned()).into());
        };
        let profile = held.profile;
        match &saved {
            Ok(_) => tracing::debug!(%profile, took = ?started.elapsed(), "saved the profile of a session"),
            Err(error) => tracing::warn!(%error, %profile, "cannot save the profile of a session"),
        }
        if let Some(store) = unneeded
            && let Err(error) = self.context.stores.remove(store).await
        {
            tracing::warn!(%error, %store, "cannot remove a profile store: trying again later");
        }
    }

    /// Returns a store that is no longer referenced.
    async fn settle(
        &self,
        held: &HeldProfile,
        saved: &Result<Option<Saved>, NotSaved>,
    ) -> sqlx::Result<Option<StoreId>> {
        let mut tx = begin(&self.context.db).await?;
        let unneeded = match saved {
            Ok(Some(saved)) => {
                profile_lease::replace(&mut tx, held, saved.id, saved.size_bytes, &self.context.config.limits).await?
            }
            Err(error) if !(held.store.is_none() && matches!(error, NotSaved::Store(SaveError::Empty))) => {
                profile_lease::fail(&mut tx, held, reason(error)).await?;
                None
            }
            // There was no state before and there is none now, or the browser is simulated.
            Ok(None) | Err(_) => {
                profile_lease::release(&mut tx, self.session).await?;
                None
            }
        };
        tx.commit().await?;
        Ok(unneeded)
    }

    /// Releases the session's profile, which keeps its state.
    async fn release_profile(&self) {
        if self.has_profile {
            release_profile(&self.context, self.session).await;
        }
    }

    /// The failure goes to the claim of a person who sends input, or to an operation that was claimed at the same time.
    async fn fail_idle(&mut self, failure: Failure) -> NextAction {
        tracing::warn!(session = %self.session, detail = failure.detail, "browser died");
        let claim = Arc::clone(&self.claim);
        let mut acting = claim.lock().await;
        if let Some(intent) = acting.take()
            && finish(&self.context, intent, &Outcome::Failed { failure: failure.clone() }.into()).await
                != WriteOutcome::TooLate
        {
            return NextAction::Fail;
        }
        let fail = || async {
            let mut tx = begin(&self.context.db).await?;
            let errored =
                failures::fail_idle(&mut tx, self.context.id, self.session, "unknown", &failure, EndReason::Failed)
                    .await?;
            tx.commit().await?;
            Ok::<_, sqlx::Error>(errored)
        };
        let mut errored = persist("record a browser's death", fail).await.unwrap_or_else(|error| {
            tracing::error!(%error, session = %self.session, "cannot record a browser's death: the next operation records it");
            true
        });
        self.inbox.close();
        while let Some(order) = self.inbox.recv().await {
            let outcome =
                finish(&self.context, order.intent, &Outcome::Failed { failure: failure.clone() }.into()).await;
            errored |= outcome != WriteOutcome::TooLate;
        }
        if errored { NextAction::Fail } else { NextAction::Close }
    }
}

/// Checks for challenges at the next due time. Never resolves without a watch.
async fn scan_for_challenges(watch: Option<&mut Watch>, browser: &Browser) -> Option<ChallengeScan> {
    match watch {
        Some(watch) => watch.scan(browser).await,
        None => std::future::pending().await,
    }
}

/// The picture after the last operation. Never resolves without a recorder.
async fn take_due_picture(recorder: Option<&mut SessionRecorder>, browser: &Browser) {
    match recorder {
        Some(recorder) => recorder.take_look(browser).await,
        None => std::future::pending().await,
    }
}

/// Retries until the database is reachable.
async fn release_profile(context: &Context, session: SessionId) {
    let release_profile = || async { profile_lease::release(&mut *context.db.acquire().await?, session).await };
    if let Err(error) = persist("release a profile", release_profile).await {
        tracing::error!(%error, %session, "cannot release a profile");
    }
}

fn reason(error: &NotSaved) -> Reason {
    match error {
        NotSaved::Browser(_) | NotSaved::Store(SaveError::Serialize(_)) => Reason::SerializeFailed,
        NotSaved::Store(SaveError::Empty) => Reason::DegenerateDump,
        NotSaved::Store(SaveError::Seal) => Reason::SealFailed,
        NotSaved::Store(SaveError::TooLarge(_)) => Reason::TooLarge,
        NotSaved::Store(SaveError::Upload(_)) => Reason::UploadFailed,
    }
}

fn out_of_time() -> Failure {
    Failure { class: FailureClass::Timeout, detail: "the operation did not end in time".to_owned() }
}
