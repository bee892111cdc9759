//! Writing of a recording: numbering, quotas, and segments that are stored in the background.
//!
//! Appending never waits. The task stores what was appended at most 2 s later. While the storage is not available, the recorder
//! keeps a few megabytes: first it drops pictures, then events.

pub(super) mod state;
pub(super) mod task;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use kitfleet_types::ids::{OperationId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use self::state::{FLUSH_AFTER, Inner, RecorderTotals, State, now};
use self::task::RecorderTask;
use crate::events::{EventBody, FrameEvent, SNAPSHOT_BYTES};
use crate::redact::redact;
use crate::segment::SEGMENT_BYTES;
use crate::{Recordings, Snapshot};

const FLUSH_WITHIN: Duration = Duration::from_secs(5);
const FINISH_WITHIN: Duration = Duration::from_secs(8);

/// Records one session. Clones record the same session. The recording ends when the last clone is dropped, or by
/// [`Recorder::finish`].
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
    _end: Arc<EndGuard>,
}

struct EndGuard(Arc<Inner>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.state().is_finished = true;
        self.0.wake.notify_one();
    }
}

pub(crate) fn start(
    recordings: Recordings,
    session: SessionId,
    secret_headers: Vec<String>,
) -> (Recorder, RecorderTask) {
    let (stored, is_stored) = watch::channel(0);
    let limits = recordings.0.limits;
    let inner = Arc::new(Inner::new(is_stored, limits));
    inner.state().secret_headers.add(secret_headers);
    let task = RecorderTask::new(Arc::clone(&inner), recordings, session, stored);
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
