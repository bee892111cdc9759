//! Writing of a recording: numbering, quotas, and segments that are stored in the background.
//!
//! Appending never waits. The task stores what was appended at most 2 s later. While the storage is not available, the recorder
//! keeps a few megabytes: first it drops pictures, then events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use kitfleet_domain::database::{begin, is_transient};
use kitfleet_domain::notifications;
use kitfleet_domain::recordings::{self, BeginOutcome, NewSegment, QuotaState, RecordingLimits, SegmentKind};
use kitfleet_profiles::PlaceConfig;
use kitfleet_types::ids::{AccountId, OperationId, SessionId};
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use uuid::Uuid;

use crate::events::{Event, EventBody, FrameEvent, RecordingEvent, RecordingReason, RecordingState, SNAPSHOT_BYTES};
use crate::redact::{SecretHeaders, redact};
use crate::segment::{Record, RecordKind, SEGMENT_BYTES, SegmentKey, SegmentPlace};
use crate::{Recordings, Snapshot};

/// Maximum number of events of a session.
pub const MAX_EVENTS: u32 = 10_000;

/// Maximum time from an event to the attempt to store it.
const FLUSH_AFTER: Duration = Duration::from_secs(2);
const FLUSH_WITHIN: Duration = Duration::from_secs(5);
const FINISH_WITHIN: Duration = Duration::from_secs(8);
const RETRY: Duration = Duration::from_millis(200);
const MAX_RETRY: Duration = Duration::from_secs(5);
/// Maximum size of records in memory that are not being stored.
const MAX_PENDING: usize = 4 * 1024 * 1024;
/// Upper bound of a picture's event and of the headers of both records.
const FRAME_EVENT_BYTES: usize = 512;
/// Stored bytes between two checks of the account's quota.
const QUOTA_CHECK_BYTES: u64 = 1024 * 1024;

/// Records one session. Clones record the same session. The recording ends when the last clone is dropped, or by
/// [`Recorder::finish`].
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
    _end: Arc<EndGuard>,
}

/// Stores the records of a [`Recorder`].
#[must_use]
pub struct RecorderTask {
    inner: Arc<Inner>,
    recordings: Recordings,
    session: SessionId,
    key: SegmentKey,
    sealed_key: Vec<u8>,
    /// Account of the session, once the recording has a row.
    account: Option<AccountId>,
    checked_bytes: u64,
    stored: watch::Sender<u64>,
    failures: LogThrottle,
}

/// Totals of a recording, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderTotals {
    pub stored_bytes: u64,
    pub events: u64,
    pub pictures: u64,
    pub dropped_events: u64,
    pub dropped_pictures: u64,
}

struct Inner {
    state: Mutex<State>,
    wake: Notify,
    stored: watch::Receiver<u64>,
    limits: RecordingLimits,
}

struct EndGuard(Arc<Inner>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.state().is_finished = true;
        self.0.wake.notify_one();
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct State {
    secret_headers: SecretHeaders,
    last_seq: u64,
    pending: VecDeque<PendingRecord>,
    pending_bytes: usize,
    /// When the oldest pending record must be stored.
    due: Option<Instant>,
    /// Sealed bytes of stored segments, and the records being stored.
    stored_bytes: u64,
    events: u32,
    totals: RecorderTotals,
    /// Reason why there are no more pictures.
    stopped: Option<RecordingReason>,
    is_full: bool,
    dropped_events: u64,
    dropped_frames: u64,
    should_flush: bool,
    is_finished: bool,
    /// Nothing is recorded any more: the recording was deleted, or its task has ended.
    is_closed: bool,
    /// Reason whose notification is still to be sent.
    notify_stopped: Option<RecordingReason>,
}

struct PendingRecord {
    record: Record,
    /// Operation of a picture.
    operation: Option<OperationId>,
    is_operation: bool,
    is_frame_event: bool,
    url: Option<String>,
}

pub(crate) fn start(
    recordings: Recordings,
    session: SessionId,
    secret_headers: Vec<String>,
) -> (Recorder, RecorderTask) {
    let (stored, is_stored) = watch::channel(0);
    let limits = recordings.0.limits;
    let inner = Arc::new(Inner { state: Mutex::default(), wake: Notify::new(), stored: is_stored, limits });
    inner.state().secret_headers.add(secret_headers);
    let (key, sealed_key) = recordings.new_key(session);
    let task = RecorderTask {
        inner: Arc::clone(&inner),
        recordings,
        session,
        key,
        sealed_key,
        account: None,
        checked_bytes: 0,
        stored,
        failures: LogThrottle::new(),
    };
    (Recorder { _end: Arc::new(EndGuard(Arc::clone(&inner))), inner }, task)
}

impl Recorder {
    /// Appends events of now. Secrets are masked and long texts cut. Never waits for the storage.
    pub fn append(&self, bodies: impl IntoIterator<Item = EventBody>) {
        let now = now();
        self.append_at(bodies.into_iter().map(|body| (now, body)));
    }

    /// Appends events of an earlier time.
    pub fn append_at(&self, events: impl IntoIterator<Item = (Timestamp, EventBody)>) {
        let mut state = self.inner.state();
        for (at, mut body) in events {
            redact(&mut body, &state.secret_headers);
            if let EventBody::Request(request) = &mut body
                && state.used_bytes() > self.inner.limits.session_bytes
            {
                request.request_headers.clear();
                request.response_headers.clear();
            }
            state.append(at, body);
        }
        self.wake_if_due(state);
    }

    /// Masks the values of headers with these names from now on, besides those of earlier calls: a request that the page has sent
    /// may still be under way.
    pub fn add_secret_headers(&self, names: impl IntoIterator<Item = String>) {
        self.inner.state().secret_headers.add(names);
    }

    /// Appends a picture, and its event. Returns its number; `None` if it was dropped because of a quota.
    pub fn append_frame(&self, operation: Option<OperationId>, width: u32, height: u32, jpeg: Bytes) -> Option<u64> {
        let mut state = self.inner.state();
        let seq = state.append_frame(
            &self.inner.limits,
            operation,
            FrameEvent { operation_id: operation, width, height },
            jpeg,
        );
        self.wake_if_due(state);
        seq
    }

    /// Appends an accessibility snapshot after an operation, which only traces contain.
    pub fn append_snapshot(&self, operation: OperationId, text: &str) {
        let mut end = text.len().min(SNAPSHOT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = kitfleet_types::redaction::mask_addresses(&text[..end]).into_owned();
        let mut state = self.inner.state();
        state.append_snapshot(&self.inner.limits, &Snapshot { operation_id: operation, text });
        self.wake_if_due(state);
    }

    /// False after a quota has stopped the pictures: the caller need not take any.
    #[must_use]
    pub fn wants_pictures(&self) -> bool {
        self.inner.state().wants_pictures()
    }

    #[must_use]
    pub fn totals(&self) -> RecorderTotals {
        self.inner.state().totals
    }

    /// Waits until all appended records are stored, at most 5 s.
    pub async fn flush(&self) {
        let target = {
            let mut state = self.inner.state();
            if state.pending.is_empty() && state.last_seq == *self.inner.stored.borrow() {
                return;
            }
            state.should_flush = true;
            state.last_seq
        };
        self.inner.wake.notify_one();
        let mut stored = self.inner.stored.clone();
        let _ = timeout(FLUSH_WITHIN, stored.wait_for(|seq| *seq >= target)).await;
    }

    /// Ends the recording, and waits at most 8 s until it is stored. Records that are not stored by then are lost.
    pub async fn finish(self) {
        self.inner.state().is_finished = true;
        self.inner.wake.notify_one();
        let mut stored = self.inner.stored.clone();
        // The sender is dropped when the task ends.
        let ended = async { while stored.changed().await.is_ok() {} };
        if timeout(FINISH_WITHIN, ended).await.is_err() {
            self.inner.state().is_closed = true;
            self.inner.wake.notify_one();
        }
    }

    fn wake_if_due(&self, mut state: MutexGuard<'_, State>) {
        if state.is_closed || state.pending.is_empty() {
            return;
        }
        // The task sleeps without a deadline while nothing is pending.
        let is_first = state.due.is_none();
        if is_first {
            state.due = Some(Instant::now() + FLUSH_AFTER);
        }
        if is_first || state.pending_bytes >= SEGMENT_BYTES {
            drop(state);
            self.inner.wake.notify_one();
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the task calls it, because one waiter receives each wake-up.
    async fn closed(&self) {
        loop {
            let woken = self.wake.notified();
            if self.state().is_closed {
                return;
            }
            woken.await;
        }
    }
}

impl State {
    fn wants_pictures(&self) -> bool {
        self.stopped.is_none() && !self.is_full && !self.is_closed
    }

    /// Returns the event's number; `None` if it was dropped.
    fn append(&mut self, at: Timestamp, body: EventBody) -> Option<u64> {
        if self.is_closed || self.is_full {
            return None;
        }
        self.events += 1;
        if self.events == MAX_EVENTS {
            self.is_full = true;
            self.notify_stopped = self.notify_stopped.or(Some(RecordingReason::EventLimit));
            return self.push_event(at, EventBody::Recording(stopped(RecordingReason::EventLimit)));
        }
        self.push_event(at, body)
    }

    fn push_event(&mut self, at: Timestamp, body: EventBody) -> Option<u64> {
        let seq = self.last_seq + 1;
        let (is_operation, is_frame_event) =
            (matches!(body, EventBody::Operation(_)), matches!(body, EventBody::Frame(_)));
        let url = match &body {
            EventBody::Operation(operation) => operation.url.clone(),
            _ => None,
        };
        let payload = Bytes::from(serde_json::to_vec(&Event { seq, at, body }).ok()?);
        let record = Record { kind: RecordKind::Event, seq, payload };
        if !self.push(PendingRecord { record, operation: None, is_operation, is_frame_event, url }) {
            return None;
        }
        self.last_seq = seq;
        self.totals.events += 1;
        Some(seq)
    }

    fn append_frame(
        &mut self,
        limits: &RecordingLimits,
        operation: Option<OperationId>,
        frame: FrameEvent,
        jpeg: Bytes,
    ) -> Option<u64> {
        if !self.wants_pictures() || !self.has_room(limits, jpeg.len()) {
            return None;
        }
        // Its event must not be dropped for its own picture.
        if self.pending_bytes + jpeg.len() + FRAME_EVENT_BYTES > MAX_PENDING {
            self.drop_pictures();
            if self.pending_bytes + jpeg.len() + FRAME_EVENT_BYTES > MAX_PENDING {
                self.drop_picture();
                return None;
            }
        }
        let seq = self.append(now(), EventBody::Frame(frame))?;
        // The last event of a full recording is another one.
        if self.is_full {
            return None;
        }
        let record = Record { kind: RecordKind::Frame, seq, payload: jpeg };
        let pending = PendingRecord { record, operation, is_operation: false, is_frame_event: false, url: None };
        self.push(pending).then(|| {
            self.totals.pictures += 1;
            seq
        })
    }

    fn append_snapshot(&mut self, limits: &RecordingLimits, snapshot: &Snapshot) {
        let Ok(payload) = serde_json::to_vec(snapshot) else { return };
        if !self.wants_pictures() || !self.has_room(limits, payload.len()) {
            return;
        }
        self.last_seq += 1;
        let record = Record { kind: RecordKind::Snapshot, seq: self.last_seq, payload: payload.into() };
        self.push(PendingRecord { record, operation: None, is_operation: false, is_frame_event: false, url: None });
    }

    /// Highest number that needs no wait, after a batch with this number. Numbers of records that were dropped are never stored.
    fn stored_seq(&self, last_seq: u64) -> u64 {
        if self.pending.is_empty() { self.last_seq } else { last_seq }
    }

    fn used_bytes(&self) -> u64 {
        self.stored_bytes + self.pending_bytes as u64
    }

    /// Stops the pictures if one more of this size exceeds the quota of the session.
    fn has_room(&mut self, limits: &RecordingLimits, bytes: usize) -> bool {
        if self.used_bytes() + bytes as u64 > limits.session_bytes {
            self.stop_pictures(RecordingReason::SessionQuota);
            return false;
        }
        // A segment has at most this size.
        if bytes >= SEGMENT_BYTES {
            self.drop_picture();
            return false;
        }
        true
    }

    fn stop_pictures(&mut self, reason: RecordingReason) {
        if self.wants_pictures() {
            self.stopped = Some(reason);
            self.notify_stopped = Some(reason);
            self.append(now(), EventBody::Recording(stopped(reason)));
        }
    }

    /// While the storage is not available, drops pictures first and then the new event. Returns false if the record was dropped.
    fn push(&mut self, pending: PendingRecord) -> bool {
        if self.pending_bytes + pending.record.size() > MAX_PENDING {
            self.drop_pictures();
        }
        let fits = self.pending_bytes + pending.record.size() <= MAX_PENDING;
        if fits {
            self.pending_bytes += pending.record.size();
            self.pending.push_back(pending);
        } else if pending.record.kind == RecordKind::Event {
            self.dropped_events += 1;
            self.totals.dropped_events += 1;
        } else {
            self.drop_picture();
        }
        fits
    }

    fn drop_pictures(&mut self) {
        let pictures = |pending: &PendingRecord| pending.record.kind == RecordKind::Frame;
        let dropped = self.pending.iter().filter(|pending| pictures(pending)).count() as u64;
        self.dropped_frames += dropped;
        self.totals.dropped_pictures += dropped;
        self.pending.retain(|pending| pending.record.kind == RecordKind::Event && !pending.is_frame_event);
        self.pending_bytes = self.pending.iter().map(|pending| pending.record.size()).sum();
    }

    fn drop_picture(&mut self) {
        self.dropped_frames += 1;
        self.totals.dropped_pictures += 1;
    }

    /// Takes records for a segment of each kind. `None` if nothing is pending.
    fn take_batch(&mut self) -> Option<Batch> {
        let (mut batch, mut sizes) = (Batch::default(), [0_usize; 2]);
        while let Some(next) = self.pending.front() {
            let is_picture = usize::from(next.record.kind != RecordKind::Event);
            let size = sizes[is_picture] + next.record.size();
            if size > SEGMENT_BYTES && sizes[is_picture] > 0 {
                break;
            }
            sizes[is_picture] = size;
            self.pending_bytes -= next.record.size();
            batch.extend(self.pending.pop_front());
        }
        self.due = (!self.pending.is_empty()).then(|| Instant::now() + FLUSH_AFTER);
        // Counted here until the sealed size is known, so that pictures appended meanwhile see it.
        self.stored_bytes += sizes.iter().sum::<usize>() as u64;
        batch.clear_bytes = sizes.iter().sum::<usize>() as u64;
        (!batch.is_empty()).then_some(batch)
    }
}

fn stopped(reason: RecordingReason) -> RecordingEvent {
    RecordingEvent { state: RecordingState::Stopped, reason: Some(reason), ..RecordingEvent::default() }
}

#[expect(clippy::disallowed_methods, reason = "the time of an event is that of the worker that saw it")]
fn now() -> Timestamp {
    Timestamp(Utc::now())
}

/// Records that are stored together.
#[derive(Default)]
struct Batch {
    events: Vec<Record>,
    pictures: Vec<Record>,
    operations: Vec<Uuid>,
    operation_count: i32,
    last_url: Option<String>,
    clear_bytes: u64,
}

impl Batch {
    fn extend(&mut self, pending: Option<PendingRecord>) {
        let Some(pending) = pending else { return };
        self.operation_count += i32::from(pending.is_operation);
        self.last_url = pending.url.or(self.last_url.take());
        self.operations.extend(pending.operation.map(|operation| operation.as_uuid()));
        match pending.record.kind.segment() {
            SegmentKind::Events => self.events.push(pending.record),
            SegmentKind::Pictures => self.pictures.push(pending.record),
        }
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.pictures.is_empty()
    }

    fn last_seq(&self) -> u64 {
        let last = |records: &[Record]| records.last().map_or(0, |record| record.seq);
        last(&self.events).max(last(&self.pictures))
    }
}

/// A sealed segment, which keeps its bytes when it is written again.
struct SealedSegment {
    place: SegmentPlace,
    last_seq: u64,
    bytes: Bytes,
}

#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Bucket(#[from] std::io::Error),
}

impl StoreError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => is_transient(error),
            Self::Bucket(_) => true,
        }
    }
}

enum NextBatch {
    Store(Batch),
    End,
}

impl RecorderTask {
    /// Runs until the recording is finished and stored, or deleted.
    pub async fn run(mut self) {
        loop {
            let NextBatch::Store(batch) = self.next_batch().await else { break };
            let last_seq = batch.last_seq();
            if !self.store_batch(batch).await {
                break;
            }
            self.stored.send_replace(self.inner.state().stored_seq(last_seq));
            self.report_drops();
            self.notify_stopped().await;
        }
        {
            let mut state = self.inner.state();
            state.is_closed = true;
            state.pending.clear();
            state.pending_bytes = 0;
        }
        if self.account.is_some() {
            self.end().await;
        }
    }

    async fn next_batch(&self) -> NextBatch {
        loop {
            let woken = self.inner.wake.notified();
            let due = {
                let mut state = self.inner.state();
                let is_due = state.should_flush
                    || state.is_finished
                    || state.pending_bytes >= SEGMENT_BYTES
                    || state.due.is_some_and(|due| due <= Instant::now());
                if state.is_closed {
                    return NextBatch::End;
                }
                if is_due {
                    if let Some(batch) = state.take_batch() {
                        return NextBatch::Store(batch);
                    }
                    state.should_flush = false;
                    if state.is_finished {
                        return NextBatch::End;
                    }
                }
                state.due
            };
            match due {
                Some(due) => drop(timeout_at(due, woken).await),
                None => woken.await,
            }
        }
    }

    /// Retries while the storage is not available. Returns false when nothing more can be recorded.
    async fn store_batch(&mut self, batch: Batch) -> bool {
        let sealed = self.seal(&batch);
        let size: u64 = sealed.iter().map(|segment| segment.bytes.len() as u64).sum();
        let mut pause = RETRY;
        let inner = Arc::clone(&self.inner);
        loop {
            // A bucket may take longer to fail than a worker takes to stop.
            let stored = tokio::select! {
                stored = self.try_store(&batch, &sealed) => stored,
                () = inner.closed() => return false,
            };
            match stored {
                Ok(is_kept) => {
                    let mut state = self.inner.state();
                    state.stored_bytes = state.stored_bytes.saturating_sub(batch.clear_bytes) + size;
                    state.totals.stored_bytes += size;
                    return is_kept;
                }
                Err(error) if error.is_transient() => {
                    let session = self.session;
                    self.failures.log(|held_back| {
                        tracing::warn!(%session, %error, held_back, "cannot store a part of a recording: trying again");
                    });
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = inner.closed() => return false,
                    }
                    pause = (pause * 2).min(MAX_RETRY);
                }
                Err(error) => {
                    tracing::error!(session = %self.session, %error, "cannot store a part of a recording: the recording ends");
                    return false;
                }
            }
        }
    }

    fn seal(&self, batch: &Batch) -> Vec<SealedSegment> {
        // Pictures come first, so that a reader finds the picture of each event.
        let parts = [(SegmentKind::Pictures, &batch.pictures), (SegmentKind::Events, &batch.events)];
        let seal = |(kind, records): (SegmentKind, &Vec<Record>)| {
            let (first, last) = (records.first()?, records.last()?);
            let place = SegmentPlace { session: self.session, kind, first_seq: first.seq };
            // Compressing takes a few milliseconds for each megabyte.
            let bytes = kitfleet_domain::blocking::run_blocking(SEGMENT_BYTES, || self.key.seal(&place, records));
            Some(SealedSegment { place, last_seq: last.seq, bytes: bytes.into() })
        };
        parts.into_iter().filter_map(seal).collect()
    }

    async fn try_store(&mut self, batch: &Batch, sealed: &[SealedSegment]) -> Result<bool, StoreError> {
        let Some(account) = self.begin().await? else { return Ok(false) };
        self.keep_quota(account).await?;
        for segment in sealed {
            if !self.store_segment(batch, segment).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn begin(&mut self) -> Result<Option<AccountId>, StoreError> {
        if self.account.is_none() {
            let mut conn = self.recordings.0.db.acquire().await?;
            self.account = match recordings::begin(&mut conn, self.session, &self.sealed_key).await? {
                BeginOutcome::Recording(account) => Some(account),
                BeginOutcome::Deleted => None,
            };
            self.checked_bytes = u64::MAX;
        }
        Ok(self.account)
    }

    /// Deletes the account's oldest recordings, or stops the pictures.
    async fn keep_quota(&mut self, account: AccountId) -> Result<(), StoreError> {
        let stored = self.inner.state().totals.stored_bytes;
        if self.checked_bytes != u64::MAX && stored < self.checked_bytes + QUOTA_CHECK_BYTES {
            return Ok(());
        }
        let mut tx = begin(&self.recordings.0.db).await?;
        let room = recordings::make_room(&mut tx, account, self.session, self.inner.limits.account_bytes).await?;
        tx.commit().await?;
        self.checked_bytes = stored;
        if room == QuotaState::Exceeded {
            self.inner.state().stop_pictures(RecordingReason::AccountQuota);
        }
        Ok(())
    }

    async fn store_segment(&self, batch: &Batch, segment: &SealedSegment) -> Result<bool, StoreError> {
        let SealedSegment { place, last_seq, bytes } = segment;
        let objects = match &self.recordings.0.place {
            PlaceConfig::Database => None,
            PlaceConfig::Objects(objects) => Some(objects),
        };
        let number = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let is_events = place.kind == SegmentKind::Events;
        let new = NewSegment {
            session: self.session,
            kind: place.kind,
            first_seq: number(place.first_seq),
            last_seq: number(*last_seq),
            size_bytes: number(bytes.len() as u64),
            operations: if is_events { &[] } else { &batch.operations },
            content: objects.is_none().then_some(&**bytes),
            operation_count: if is_events { batch.operation_count } else { 0 },
            last_url: batch.last_url.as_deref().filter(|_| is_events),
        };
        let mut conn = self.recordings.0.db.acquire().await?;
        if !recordings::add_segment(&mut conn, &new).await? {
            return Ok(false);
        }
        if let Some(objects) = objects {
            drop(conn);
            objects.put_named(&place.object_name(), bytes.clone()).await?;
            let mut conn = self.recordings.0.db.acquire().await?;
            recordings::mark_stored(&mut conn, self.session, place.kind, new.first_seq).await?;
        }
        Ok(true)
    }

    /// After an outage, the recording reports the missing records.
    fn report_drops(&self) {
        let mut state = self.inner.state();
        let (events, frames) = (state.dropped_events, state.dropped_frames);
        if events == 0 && frames == 0 {
            return;
        }
        (state.dropped_events, state.dropped_frames) = (0, 0);
        let count = |dropped: u64| (dropped > 0).then_some(dropped);
        let event = RecordingEvent {
            state: RecordingState::Dropped,
            reason: Some(RecordingReason::Storage),
            dropped_events: count(events),
            dropped_frames: count(frames),
        };
        state.append(now(), EventBody::Recording(event));
        state.due = state.due.or(Some(Instant::now() + FLUSH_AFTER));
    }

    async fn notify_stopped(&self) {
        let Some(reason) = self.inner.state().notify_stopped.take() else { return };
        let Some(account) = self.account else { return };
        let reason: &'static str = reason.into();
        self.notify(account, "recording.stopped", json!({"session_id": self.session, "reason": reason})).await;
    }

    async fn end(&self) {
        let ended = async { recordings::finish(&mut *self.recordings.0.db.acquire().await?, self.session).await };
        match ended.await {
            Ok(Some(account)) => {
                self.notify(account, "recording.kept", json!({"session_id": self.session})).await;
            }
            Ok(None) => {}
            // Readers find the end by the session's own.
            Err(error) => tracing::warn!(session = %self.session, %error, "cannot mark the end of a recording"),
        }
    }

    async fn notify(&self, account: AccountId, event: &'static str, data: serde_json::Value) {
        let noted =
            async { notifications::record(&mut *self.recordings.0.db.acquire().await?, account, event, data).await };
        if let Err(error) = noted.await {
            tracing::debug!(session = %self.session, %error, event, "cannot write a notification");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{ConsoleEvent, ConsoleLevel, ConsoleSource};

    const LIMITS: RecordingLimits = RecordingLimits { session_bytes: 10_000, account_bytes: 10_000 };

    fn console(text: &str) -> EventBody {
        let (level, source) = (ConsoleLevel::Log, ConsoleSource::Console);
        EventBody::Console(ConsoleEvent { level, source, text: text.to_owned(), url: None, line: None })
    }

    fn frame(state: &mut State, limits: &RecordingLimits, bytes: usize) -> Option<u64> {
        let frame = FrameEvent { operation_id: None, width: 1, height: 1 };
        state.append_frame(limits, None, frame, Bytes::from(vec![0; bytes]))
    }

    fn reasons(state: &State) -> Vec<Option<RecordingReason>> {
        let events = state.pending.iter().filter(|pending| pending.record.kind == RecordKind::Event);
        let bodies =
            events.map(|pending| serde_json::from_slice::<Event>(&pending.record.payload).expect("an event").body);
        bodies
            .filter_map(|body| if let EventBody::Recording(event) = body { Some(event.reason) } else { None })
            .collect()
    }

    #[test]
    fn pictures_stop_at_the_quota_and_events_go_on() {
        let mut state = State::default();
        assert_eq!(frame(&mut state, &LIMITS, 4_000), Some(1));
        assert_eq!(frame(&mut state, &LIMITS, 4_000), Some(2));
        assert_eq!(frame(&mut state, &LIMITS, 4_000), None);
        assert_eq!(frame(&mut state, &LIMITS, 1), None);
        assert!(!state.wants_pictures());
        assert_eq!(reasons(&state), [Some(RecordingReason::SessionQuota)]);
        assert_eq!(state.append(now(), console("a")), Some(4));
    }

    #[test]
    fn events_stop_at_their_limit() {
        let mut state = State::default();
        let numbers: Vec<_> = (0..MAX_EVENTS + 5).filter_map(|_| state.append(now(), console("a"))).collect();
        assert_eq!((numbers.len(), numbers.last()), (MAX_EVENTS as usize, Some(&u64::from(MAX_EVENTS))));
        assert_eq!(reasons(&state), [Some(RecordingReason::EventLimit)]);
        assert_eq!(frame(&mut state, &RecordingLimits::default(), 1), None);
    }

    #[test]
    fn outage_drops_pictures_first_and_then_events() {
        let (mut state, limits) = (State::default(), RecordingLimits::default());
        for _ in 0..10 {
            state.append(now(), console("a"));
            frame(&mut state, &limits, 800_000);
        }
        assert!(state.pending_bytes <= MAX_PENDING);
        let (events, frames) = (state.dropped_events, state.dropped_frames);
        assert!(events == 0 && (5..=10).contains(&frames), "{events} {frames}");
        let lines =
            state.pending.iter().filter(|pending| !pending.is_frame_event && pending.record.kind == RecordKind::Event);
        assert_eq!(lines.count(), 10);
        let text = "x".repeat(2_000);
        for _ in 0..3_000 {
            state.append(now(), console(&text));
        }
        assert!(state.pending_bytes <= MAX_PENDING);
        assert!(state.dropped_events > 500);
    }

    #[test]
    fn batch_has_at_most_one_segment_of_each_kind() {
        let (mut state, limits) = (State::default(), RecordingLimits::default());
        for _ in 0..3 {
            state.append(now(), console("a"));
            frame(&mut state, &limits, 600_000);
        }
        let sizes: Vec<_> = std::iter::from_fn(|| state.take_batch()).map(|batch| batch.pictures.len()).collect();
        assert_eq!(sizes, [1, 1, 1]);
        assert_eq!(state.pending_bytes, 0);
    }

    #[test]
    fn too_large_picture_is_dropped() {
        let mut state = State::default();
        assert_eq!(frame(&mut state, &RecordingLimits::default(), SEGMENT_BYTES), None);
        assert!(state.wants_pictures());
        assert_eq!(state.dropped_frames, 1);
    }
}
