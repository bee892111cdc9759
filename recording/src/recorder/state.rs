//! Records of a session that are not stored yet, their numbers, and the quota of the session.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use kitfleet_domain::recordings::{RecordingLimits, SegmentKind};
use kitfleet_types::ids::OperationId;
use kitfleet_types::timestamp::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Snapshot;
use crate::events::{Event, EventBody, FrameEvent, RecordingEvent, RecordingReason, RecordingState};
use crate::redact::SecretHeaders;
use crate::segment::{Record, RecordKind, SEGMENT_BYTES};

/// Maximum number of events of a session.
const MAX_EVENTS: u32 = 10_000;

/// Maximum time from an event to the attempt to store it.
pub(super) const FLUSH_AFTER: Duration = Duration::from_secs(2);
/// Maximum size of records in memory that are not being stored.
const MAX_PENDING: usize = 4 * 1024 * 1024;
/// Upper bound of a picture's event and of the headers of both records.
const FRAME_EVENT_BYTES: usize = 512;

/// Totals of a recording, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderTotals {
    pub stored_bytes: u64,
    pub events: u64,
    pub pictures: u64,
    pub dropped_events: u64,
    pub dropped_pictures: u64,
}

pub(super) struct Inner {
    state: Mutex<State>,
    pub(super) wake: Notify,
    pub(super) stored: watch::Receiver<u64>,
    pub(super) limits: RecordingLimits,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
pub(super) struct State {
    pub(super) secret_headers: SecretHeaders,
    pub(super) last_seq: u64,
    pub(super) pending: VecDeque<PendingRecord>,
    pub(super) pending_bytes: usize,
    /// When the oldest pending record must be stored.
    pub(super) due: Option<Instant>,
    /// Sealed bytes of stored segments, and the records being stored.
    pub(super) stored_bytes: u64,
    events: u32,
    pub(super) totals: RecorderTotals,
    /// Reason why there are no more pictures.
    stopped: Option<RecordingReason>,
    is_full: bool,
    pub(super) dropped_events: u64,
    pub(super) dropped_frames: u64,
    pub(super) should_flush: bool,
    pub(super) is_finished: bool,
    /// Nothing is recorded any more: the recording was deleted, or its task has ended.
    pub(super) is_closed: bool,
    /// Reason whose notification is still to be sent.
    pub(super) notify_stopped: Option<RecordingReason>,
}

pub(super) struct PendingRecord {
    record: Record,
    /// Operation of a picture.
    operation: Option<OperationId>,
    is_operation: bool,
    is_frame_event: bool,
    url: Option<String>,
}

impl Inner {
    pub(super) fn new(stored: watch::Receiver<u64>, limits: RecordingLimits) -> Self {
        Self { state: Mutex::default(), wake: Notify::new(), stored, limits }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the task calls it, because one waiter receives each wake-up.
    pub(super) async fn closed(&self) {
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
    pub(super) fn wants_pictures(&self) -> bool {
        self.stopped.is_none() && !self.is_full && !self.is_closed
    }

    /// Returns the event's number; `None` if it was dropped.
    pub(super) fn append(&mut self, at: Timestamp, body: EventBody) -> Option<u64> {
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

    pub(super) fn append_frame(
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

    pub(super) fn append_snapshot(&mut self, limits: &RecordingLimits, snapshot: &Snapshot) {
        let Ok(payload) = serde_json::to_vec(snapshot) else { return };
        if !self.wants_pictures() || !self.has_room(limits, payload.len()) {
            return;
        }
        self.last_seq += 1;
        let record = Record { kind: RecordKind::Snapshot, seq: self.last_seq, payload: payload.into() };
        self.push(PendingRecord { record, operation: None, is_operation: false, is_frame_event: false, url: None });
    }

    /// Highest number that needs no wait, after a batch with this number. Numbers of records that were dropped are never stored.
    pub(super) fn stored_seq(&self, last_seq: u64) -> u64 {
        if self.pending.is_empty() { self.last_seq } else { last_seq }
    }

    pub(super) fn used_bytes(&self) -> u64 {
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

    pub(super) fn stop_pictures(&mut self, reason: RecordingReason) {
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
    pub(super) fn take_batch(&mut self) -> Option<Batch> {
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
pub(super) fn now() -> Timestamp {
    Timestamp(Utc::now())
}

/// Records that are stored together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Record>,
    pub(super) pictures: Vec<Record>,
    pub(super) operations: Vec<Uuid>,
    pub(super) operation_count: i32,
    pub(super) last_url: Option<String>,
    pub(super) clear_bytes: u64,
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

    pub(super) fn last_seq(&self) -> u64 {
        let last = |records: &[Record]| records.last().map_or(0, |record| record.seq);
        last(&self.events).max(last(&self.pictures))
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
