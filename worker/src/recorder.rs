//! Recordings of sessions (contract: recordings): the records that the actor of a session adds, and their times.
//!
//! No caller waits for a recording. An operation's event is appended when its outcome is stored, and its picture is taken while
//! the session is idle: the next operation, or the end of the session, abandons it. Events of pages are read by a task of their
//! own. While a person drives there are no pictures, console lines or requests.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::metrics::Counter;
use kitfleet_recording::events::{
    ChallengeEvent, ChallengeProgress, ControlEvent, ControlState, EventBody, OperationEvent, TraceDetails, URL_CHARS,
};
use kitfleet_recording::{Recorder, RecorderTotals};
use kitfleet_types::ids::{IntentId, OperationId, SessionId};
use kitfleet_types::operations::{
    Action, Change, Emulate, Interact, Operation, OperationDescription, OperationOutcome, Outcome,
};
use kitfleet_types::timestamp::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::Context;
use crate::browser::{Browser, Look, PageEvents, Wanted};

pub(crate) const RECORDED_BYTES: Counter =
    Counter::new("service_recording_bytes_total", "Stored bytes of recordings of this worker's sessions.", [])
        .starting_at_zero();

pub(crate) const RECORDED_PICTURES: Counter =
    Counter::new("service_recording_pictures_total", "Pictures in recordings of this worker's sessions.", [])
        .starting_at_zero();

pub(crate) const RECORDING_LOSSES: Counter<1> = Counter::new(
    "service_recording_dropped_total",
    "Pictures and events that are missing in recordings, because of a quota, a limit or an unavailable storage.",
    ["kind"],
)
.starting_with(|| vec![["picture"], ["event"]]);

/// A caller that sends one operation after the other sends the next one within this time.
const PICTURE_AFTER: Duration = Duration::from_millis(20);

/// Between two texts of the page, which cost as much as the picture. An operation that failed does not wait for its text.
const TEXT_EVERY: Duration = Duration::from_secs(6);

/// Between two reads of events while the session is idle.
const READ_EVERY: Duration = Duration::from_secs(2);

/// For the last events of a browser.
const LAST_EVENTS_WITHIN: Duration = Duration::from_millis(200);

/// Times at which a person drove, for events that are read later.
const MOST_DRIVES: usize = 32;

/// Of the actor of a session.
pub(crate) struct SessionRecorder {
    log: RecordingLog,
    source: PageEvents,
    /// The last operation, until its picture and its text are taken.
    due: Option<DueLook>,
    /// Hash of the last snapshot.
    snapshot: Option<u64>,
    next_text: Instant,
    reading: Option<AbortOnDropHandle<()>>,
    has_operation: Arc<Notify>,
    reported: RecorderTotals,
}

#[derive(Clone, Copy)]
struct DueLook {
    operation: OperationId,
    is_pictured: bool,
    text_at: Instant,
}

/// Clones append to the same recording. The recording does not end before the last one is dropped.
#[derive(Clone)]
pub(crate) struct RecordingLog {
    recorder: Recorder,
    control: Arc<Control>,
}

#[derive(Default)]
struct Control {
    /// A person holds the session's claim.
    has_claim: AtomicBool,
    /// Client that has the lane of an agent session.
    driver: Mutex<Option<String>>,
    /// Start and end. The last one may have no end yet.
    drives: Mutex<VecDeque<(Timestamp, Option<Timestamp>)>>,
}

/// An operation that has ended.
pub(crate) struct EndedOperation<'a> {
    pub(crate) intent: IntentId,
    pub(crate) described: OperationDescription,
    pub(crate) operation: Option<&'a Operation>,
    pub(crate) actor: Option<OperationActor>,
    pub(crate) started_at: Timestamp,
    pub(crate) outcome: &'a Outcome,
    /// Of the page, after the operation.
    pub(crate) url: Option<String>,
}

impl SessionRecorder {
    /// `secret_headers` are the names of the session's `extra_headers`.
    pub(crate) fn start(context: &Context, session: SessionId, secret_headers: Vec<String>, browser: &Browser) -> Self {
        let (recorder, task) = context.recordings.record(session, secret_headers);
        context.sessions.spawn(task.run());
        let log = RecordingLog { recorder, control: Arc::default() };
        let (source, has_operation) = (browser.page_events(session), Arc::<Notify>::default());
        let reading = read_events(source.clone(), log.clone(), Arc::clone(&has_operation));
        let reading = Some(AbortOnDropHandle::new(tokio::spawn(reading)));
        let (next_text, reported) = (Instant::now(), RecorderTotals::default());
        Self { log, source, due: None, snapshot: None, next_text, reading, has_operation, reported }
    }

    pub(crate) fn log(&self) -> RecordingLog {
        self.log.clone()
    }

    /// The picture of the previous operation is not taken any more. Headers that the operation sets are masked before it sets them.
    pub(crate) fn begin_operation(&mut self, operation: &Operation) {
        self.due = None;
        if let Operation::Emulate(Emulate { extra_headers: Change::Set(headers), .. }) = operation {
            self.log.recorder.add_secret_headers(headers.iter().map(|header| header.name.clone()));
        }
    }

    /// A picture follows if the operation may have changed the page.
    pub(crate) fn end_operation(&mut self, ended: EndedOperation<'_>, browser: Option<&Browser>) {
        let EndedOperation { intent, described, operation, actor, started_at, outcome, url } = ended;
        if operation.is_some_and(Operation::is_internal) {
            return;
        }
        let ended_at = now();
        let is_done = matches!(outcome, Outcome::Done);
        let point = operation.filter(|operation| is_done && taps(operation)).and(browser).and_then(Browser::touched);
        let event = OperationEvent {
            operation_id: intent.into(),
            described,
            outcome: outcome.into(),
            // The exception of a caller's script may contain values of the page.
            error: outcome.error_detail().filter(|_| !operation.is_some_and(Operation::error_shows_page)),
            url: url.map(|url| url.chars().take(URL_CHARS).collect()),
            actor,
            started_at,
            ended_at,
            duration_ms: u64::try_from((ended_at.0 - started_at.0).num_milliseconds()).unwrap_or_default(),
            has_frames: false,
            trace: TraceDetails { locator: operation.and_then(Operation::element).cloned(), point },
        };
        self.log.recorder.append([EventBody::Operation(Box::new(event))]);
        let is_over = matches!(OperationOutcome::from(outcome), OperationOutcome::Destroyed | OperationOutcome::Failed);
        let text_at = if is_done { self.next_text } else { Instant::now() };
        let look = DueLook { operation: intent.into(), is_pictured: false, text_at };
        self.due = operation.filter(|_| !is_over).map(|_| look);
        self.has_operation.notify_one();
    }

    /// Takes the picture and the text after the last operation. Never resolves when there is none to take. Cancellation is safe: the
    /// next call begins again.
    pub(crate) async fn take_look(&mut self, browser: &Browser) {
        let Some(due) = self.due else { return std::future::pending().await };
        if due.is_pictured {
            sleep_until(due.text_at).await;
            self.look(browser, Wanted { picture: false, text: true }, due.operation).await;
            self.due = None;
        } else {
            sleep(PICTURE_AFTER).await;
            let wanted = Wanted { picture: self.log.recorder.wants_pictures(), text: due.text_at <= Instant::now() };
            self.look(browser, wanted, due.operation).await;
            self.due = (!wanted.text).then_some(DueLook { is_pictured: true, ..due });
        }
        self.report();
    }

    async fn look(&mut self, browser: &Browser, wanted: Wanted, operation: OperationId) {
        if self.log.is_driven() {
            return;
        }
        let Look { picture, text } = browser.look(wanted).await;
        if self.log.is_driven() {
            return;
        }
        if let Some(picture) = picture {
            self.log.recorder.append_frame(Some(operation), picture.width, picture.height, picture.jpeg);
        }
        if let Some(text) = text {
            self.next_text = Instant::now() + TEXT_EVERY;
            let hash = hash(&text);
            if self.snapshot.replace(hash) != Some(hash) {
                self.log.recorder.append_snapshot(operation, &text);
            }
        }
    }

    fn report(&mut self) {
        let (before, now) = (self.reported, self.log.recorder.totals());
        RECORDED_BYTES.series().increment(now.stored_bytes.saturating_sub(before.stored_bytes));
        RECORDED_PICTURES.series().increment(now.pictures.saturating_sub(before.pictures));
        RECORDING_LOSSES.with(["picture"]).increment(now.dropped_pictures.saturating_sub(before.dropped_pictures));
        RECORDING_LOSSES.with(["event"]).increment(now.dropped_events.saturating_sub(before.dropped_events));
        self.reported = now;
    }

    /// Reads the last events. The rest, which may take seconds, does not need the browser.
    pub(crate) async fn end(mut self) -> impl Future<Output = ()> + Send + use<> {
        self.reading.take();
        if let Ok(Some(events)) = timeout(LAST_EVENTS_WITHIN, self.source.take()).await {
            self.log.append_events(events);
        }
        async move {
            self.log.recorder.clone().finish().await;
            self.report();
        }
    }
}

impl RecordingLog {
    /// A person begins to send input.
    pub(crate) fn take_claim(&self, client: Option<&str>) {
        self.change(client, |control| control.has_claim.store(true, Ordering::Release));
    }

    pub(crate) fn return_claim(&self) {
        self.change(None, |control| control.has_claim.store(false, Ordering::Release));
    }

    /// Client that has the lane of the agent session. `None` for the AI.
    pub(crate) fn set_driver(&self, client: Option<&str>) {
        if lock(&self.control.driver).as_deref() != client {
            self.change(client, |control| *lock(&control.driver) = client.map(str::to_owned));
        }
    }

    fn change(&self, client: Option<&str>, change: impl FnOnce(&Control)) {
        let state = {
            let mut drives = lock(&self.control.drives);
            let was_driven = self.is_driven();
            change(&self.control);
            match (was_driven, self.is_driven()) {
                (false, true) => {
                    drives.push_back((now(), None));
                    if drives.len() > MOST_DRIVES {
                        drives.pop_front();
                    }
                    ControlState::Taken
                }
                (true, false) => {
                    if let Some((_, end)) = drives.back_mut() {
                        *end = Some(now());
                    }
                    ControlState::Returned
                }
                _ => return,
            }
        };
        let control = ControlEvent { state, account_id: None, client_id: client.map(str::to_owned) };
        self.recorder.append([EventBody::Control(control)]);
    }

    fn is_driven(&self) -> bool {
        self.control.has_claim.load(Ordering::Acquire) || lock(&self.control.driver).is_some()
    }

    pub(crate) fn challenge(&self, state: ChallengeProgress, id: &str, kind: &str) {
        let (challenge_id, kind) = (id.to_owned(), kind.to_owned());
        self.recorder.append([EventBody::Challenge(ChallengeEvent { state, challenge_id, kind })]);
    }

    /// Without console lines and requests of the time in which a person drove.
    fn append_events(&self, events: Vec<(Timestamp, EventBody)>) {
        let drives = lock(&self.control.drives).clone();
        let is_driven =
            |at: &Timestamp| drives.iter().any(|(start, end)| start.0 <= at.0 && end.is_none_or(|end| at.0 <= end.0));
        let is_shown = |(at, body): &(Timestamp, EventBody)| {
            !(matches!(body, EventBody::Console(_) | EventBody::Request(_)) && is_driven(at))
        };
        self.recorder.append_at(events.into_iter().filter(is_shown));
    }
}

/// Reads the events of pages: at once after an operation, and else seldom. Asks the browser only while it has some.
async fn read_events(source: PageEvents, log: RecordingLog, has_operation: Arc<Notify>) {
    let mut read_at: Option<Instant> = None;
    loop {
        source.waiting().await;
        if let Some(at) = read_at {
            // The time is over, or an operation has ended.
            let _ = timeout(READ_EVERY.saturating_sub(at.elapsed()), has_operation.notified()).await;
        }
        read_at = Some(Instant::now());
        let Some(events) = source.take().await else { return };
        log.append_events(events);
    }
}

fn taps(operation: &Operation) -> bool {
    matches!(operation, Operation::Interact(Interact { action: Action::Tap { .. } | Action::Check { .. }, .. }))
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Timestamp {
    Timestamp(std::time::SystemTime::now().into())
}
