//! Reading of a recording, also while it is written. At most one segment is in memory.

use std::io;

use bytes::Bytes;
use kitfleet_domain::recordings::{self, Recording, SegmentKind};
use kitfleet_types::ids::SessionId;

use crate::events::{Event, EventBody};
use crate::segment::{Record, RecordKind, SegmentKey, SegmentPlace};
use crate::{Recordings, Snapshot};

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The configured keys do not open the recording's key.
    #[error("the recording's key cannot be opened with the configured keys")]
    Sealed,
    #[error("the recording is damaged")]
    Damaged,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The bucket is not available.
    #[error("the recording cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Deleted since it was opened.
    #[error("the recording was deleted while it was read")]
    Deleted,
}

/// Reads one recording.
#[derive(Clone)]
pub struct Reader {
    recordings: Recordings,
    session: SessionId,
    key: SegmentKey,
}

/// Events of one segment.
#[derive(Debug)]
pub struct EventBatch {
    pub events: Vec<Event>,
    /// Number to continue after.
    pub last_seq: u64,
}

#[derive(Debug)]
pub struct EventPage {
    pub events: Vec<Event>,
    pub has_more: bool,
}

/// A picture or a snapshot.
#[derive(Debug)]
pub enum Attachment {
    Frame(Bytes),
    Snapshot(Snapshot),
}

impl Reader {
    pub(crate) fn new(recordings: Recordings, recording: &Recording) -> Result<Self, ReadError> {
        let key = recordings.key(recording).ok_or(ReadError::Sealed)?;
        Ok(Self { recordings, session: recording.session, key })
    }

    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Fails if the recording was deleted. A deleted recording has no more events, as one that was read to its end.
    pub async fn check_exists(&self) -> Result<(), ReadError> {
        let mut conn = self.recordings.0.db.acquire().await?;
        let account = recordings::account_of(&mut conn, self.session).await?;
        account.map(drop).ok_or(ReadError::Deleted)
    }

    /// Events after this number, of one segment. `None` if no more are stored.
    pub async fn events_after(&self, after: u64) -> Result<Option<EventBatch>, ReadError> {
        let Some((last_seq, records)) = self.segment_after(SegmentKind::Events, after).await? else { return Ok(None) };
        let events = records.iter().filter(|record| record.kind == RecordKind::Event && record.seq > after);
        let events = events.map(|record| serde_json::from_slice(&record.payload)).collect::<Result<_, _>>();
        Ok(Some(EventBatch { events: events.map_err(|_| ReadError::Damaged)?, last_seq }))
    }

    /// Up to `limit` events after this number for which `is_wanted` is true.
    pub async fn page(
        &self,
        mut after: u64,
        limit: usize,
        is_wanted: impl Fn(&EventBody) -> bool + Send,
    ) -> Result<EventPage, ReadError> {
        let mut events = Vec::new();
        while let Some(batch) = self.events_after(after).await? {
            after = batch.last_seq;
            for event in batch.events {
                if !is_wanted(&event.body) {
                    continue;
                }
                if events.len() == limit {
                    return Ok(EventPage { events, has_more: true });
                }
                events.push(event);
            }
        }
        Ok(EventPage { events, has_more: false })
    }

    /// JPEG of a picture. `None` if there is none with this number.
    pub async fn frame(&self, seq: u64) -> Result<Option<Bytes>, ReadError> {
        let Some(before) = seq.checked_sub(1) else { return Ok(None) };
        let Some((_, records)) = self.segment_after(SegmentKind::Pictures, before).await? else { return Ok(None) };
        let frame = records.into_iter().find(|record| record.kind == RecordKind::Frame && record.seq == seq);
        Ok(frame.map(|record| record.payload))
    }

    /// Pictures and snapshots after this number, of one segment, and the number to continue after. `None` if no more are stored.
    pub async fn attachments_after(&self, after: u64) -> Result<Option<(Vec<(u64, Attachment)>, u64)>, ReadError> {
        let Some((last_seq, records)) = self.segment_after(SegmentKind::Pictures, after).await? else {
            return Ok(None);
        };
        let read = |record: Record| {
            let attachment = match record.kind {
                RecordKind::Frame => Attachment::Frame(record.payload),
                RecordKind::Snapshot => {
                    Attachment::Snapshot(serde_json::from_slice(&record.payload).map_err(|_| ReadError::Damaged)?)
                }
                RecordKind::Event => return Err(ReadError::Damaged),
            };
            Ok((record.seq, attachment))
        };
        let attachments = records.into_iter().filter(|record| record.seq > after).map(read);
        Ok(Some((attachments.collect::<Result<_, _>>()?, last_seq)))
    }

    async fn segment_after(&self, kind: SegmentKind, after: u64) -> Result<Option<(u64, Vec<Record>)>, ReadError> {
        let number = i64::try_from(after).map_err(|_| ReadError::Damaged)?;
        let mut conn = self.recordings.0.db.acquire().await?;
        let segment = recordings::segment_after(&mut conn, self.session, kind, number).await?;
        // A slow bucket must not hold the connection.
        drop(conn);
        let Some(segment) = segment else { return Ok(None) };
        let first_seq = u64::try_from(segment.first_seq).map_err(|_| ReadError::Damaged)?;
        let last_seq = u64::try_from(segment.last_seq).map_err(|_| ReadError::Damaged)?;
        let place = SegmentPlace { session: self.session, kind, first_seq };
        let sealed = self.recordings.load(place, segment.content).await?;
        let open = || self.key.open(&place, &sealed);
        let records = kitfleet_domain::blocking::run_blocking(sealed.len(), open).map_err(|_| ReadError::Damaged)?;
        Ok(Some((last_seq, records)))
    }
}
