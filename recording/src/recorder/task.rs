//! Storing of a recording in segments, in the background.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kitfleet_domain::database::{begin, is_transient};
use kitfleet_domain::notifications;
use kitfleet_domain::recordings::{self, BeginOutcome, NewSegment, QuotaState, SegmentKind};
use kitfleet_profiles::PlaceConfig;
use kitfleet_types::ids::{AccountId, SessionId};
use kitfleet_types::log_throttle::LogThrottle;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::state::{Batch, FLUSH_AFTER, Inner, now};
use crate::Recordings;
use crate::events::{EventBody, RecordingEvent, RecordingReason, RecordingState};
use crate::segment::{Record, SEGMENT_BYTES, SegmentKey, SegmentPlace};

const RETRY: Duration = Duration::from_millis(200);
const MAX_RETRY: Duration = Duration::from_secs(5);
/// Stored bytes between two checks of the account's quota.
const QUOTA_CHECK_BYTES: u64 = 1024 * 1024;

/// Stores the records of a [`super::Recorder`].
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
    pub(super) fn new(
        inner: Arc<Inner>,
        recordings: Recordings,
        session: SessionId,
        stored: watch::Sender<u64>,
    ) -> Self {
        let (key, sealed_key) = recordings.new_key(session);
        Self {
            inner,
            recordings,
            session,
            key,
            sealed_key,
            account: None,
            checked_bytes: 0,
            stored,
            failures: LogThrottle::new(),
        }
    }

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
