//! Source of the files that are written from a recording.

use std::io;

use crate::events::Event;
use crate::reader::{Attachment, ReadError, Reader};

/// Attachments with their numbers, and the number to continue after.
type NumberedAttachments = (Vec<(u64, Attachment)>, u64);

/// Source of a trace or a HAR file. A reader, or a list in tests.
pub(crate) trait Source {
    /// Events after this number, and the number to continue after.
    fn events_after(&self, after: u64) -> impl Future<Output = io::Result<Option<(Vec<Event>, u64)>>> + Send;

    fn attachments_after(&self, after: u64) -> impl Future<Output = io::Result<Option<NumberedAttachments>>> + Send;

    /// An error if the source was deleted meanwhile, so that an incomplete file does not look complete.
    fn check_exists(&self) -> impl Future<Output = io::Result<()>> + Send;
}

impl Source for Reader {
    async fn events_after(&self, after: u64) -> io::Result<Option<(Vec<Event>, u64)>> {
        let batch = Reader::events_after(self, after).await.map_err(broken)?;
        Ok(batch.map(|batch| (batch.events, batch.last_seq)))
    }

    async fn attachments_after(&self, after: u64) -> io::Result<Option<NumberedAttachments>> {
        Reader::attachments_after(self, after).await.map_err(broken)
    }

    async fn check_exists(&self) -> io::Result<()> {
        Reader::check_exists(self).await.map_err(broken)
    }
}

pub(crate) fn broken(error: ReadError) -> io::Error {
    match error {
        ReadError::Io(error) => error,
        other => io::Error::other(other),
    }
}
