//! Transfers of files between API processes and the browsers of this worker (contract: files).
//!
//! An API process opens a connection for each transfer, with a ticket (`kitfleet_domain::file_access`), on the listener of
//! viewers. Each side reads a file in pieces and at the pace of the other side, so that a transfer takes little memory.

use std::io;
use std::time::Duration;

use kitfleet_domain::file_access::{AccessTickets, FileAccess};
use kitfleet_live::files::{FileReply, PIECE, UploadOffer, receive, send};
use kitfleet_live::link::{Greeting, NotAdmitted, Stream};
use kitfleet_types::files::{MAX_FILES, MAX_UPLOAD_BYTES};
use kitfleet_types::ids::{DownloadId, UploadId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::Context;
use crate::browser::{Files, NotOpened, OpenDownload, UploadGuard};

/// For the files of an upload. The API process has them in memory.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// The operation that uses the files has 2 minutes at most.
const KEPT_FOR: Duration = Duration::from_mins(5);

pub(crate) struct Transfer {
    files: Files,
    access: FileAccess,
    _slot: OwnedSemaphorePermit,
}

pub(crate) async fn admit(greeting: &Greeting, context: &Context) -> Result<Transfer, NotAdmitted> {
    let session = greeting.session_id;
    if context.stopping.is_cancelled() {
        return Err(NotAdmitted::Unavailable);
    }
    let tickets = tickets(context).await.map_err(|error| {
        tracing::warn!(%error, %session, "cannot check the ticket of a transfer of files");
        NotAdmitted::Unavailable
    })?;
    let access = tickets.open(session, &greeting.ticket).ok_or(NotAdmitted::Ticket)?;
    let live_handle = context.sessions.live_handle(session).ok_or(NotAdmitted::Session)?;
    let slot = live_handle.files.slot().ok_or(NotAdmitted::Full)?;
    Ok(Transfer { files: live_handle.files, access, _slot: slot })
}

async fn tickets(context: &Context) -> sqlx::Result<&AccessTickets> {
    let vault = context.config.webhooks.vault.as_ref();
    let fetch = async || AccessTickets::fetch(&mut *context.db.acquire().await?, vault).await;
    context.file_tickets.get_or_try_init(fetch).await
}

impl Transfer {
    /// An error means that the API process has closed the connection.
    pub(crate) async fn run(self, mut stream: Box<dyn Stream>) -> io::Result<()> {
        match self.access {
            FileAccess::Downloads => {
                let reply = match self.files.downloads().await {
                    Ok(downloads) => FileReply::Downloads { downloads },
                    Err(_) => FileReply::Gone,
                };
                send(&mut stream, &reply).await
            }
            FileAccess::Content { download } => self.send_content(download, &mut stream).await,
            FileAccess::Attach => self.receive_attachment(&mut stream).await,
            FileAccess::Upload { upload } => self.receive_upload(upload, &mut stream).await,
        }
    }

    async fn send_content(&self, download: DownloadId, stream: &mut Box<dyn Stream>) -> io::Result<()> {
        let opened = match self.files.open(download).await {
            Ok(opened) => opened,
            Err(error) => return send(stream, &refusal(&error)).await,
        };
        let OpenDownload { file_name, content_type, bytes, content } = opened;
        send(stream, &FileReply::Content { file_name, content_type, bytes }).await?;
        // The file may have grown since.
        copy_buf(&mut BufReader::with_capacity(PIECE, content.take(bytes)), stream).await?;
        stream.shutdown().await
    }

    /// The operation takes the files before the API process closes the connection.
    async fn receive_upload(&self, upload: UploadId, stream: &mut Box<dyn Stream>) -> io::Result<()> {
        let guard = match self.receive(upload, stream).await {
            Ok(guard) => guard,
            Err(error) => return send(stream, &FileReply::Failed { detail: error.to_string() }).await,
        };
        send(stream, &FileReply::Received).await?;
        // The API process sends no more bytes.
        let _ = timeout(KEPT_FOR, stream.read_u8()).await;
        drop(guard);
        Ok(())
    }

    /// Receives a file that stays with the session.
    async fn receive_attachment(&self, stream: &mut Box<dyn Stream>) -> io::Result<()> {
        let reply = match self.receive(UploadId::generate(), stream).await {
            Ok(guard) if self.files.attach(&guard) => FileReply::Received,
            Ok(_) => FileReply::Full,
            Err(error) => FileReply::Failed { detail: error.to_string() },
        };
        send(stream, &reply).await
    }

    async fn receive(&self, upload: UploadId, stream: &mut Box<dyn Stream>) -> io::Result<UploadGuard> {
        let arriving = async {
            let offer: UploadOffer = receive(stream).await?;
            if !is_within_limits(&offer) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.files.receive(upload, offer, stream).await
        };
        timeout(ARRIVES_WITHIN, arriving).await.map_err(io::Error::from).flatten()
    }
}

fn is_within_limits(offer: &UploadOffer) -> bool {
    let total = offer.files.iter().try_fold(0_u64, |total, file| total.checked_add(file.bytes));
    (1..=MAX_FILES).contains(&offer.files.len()) && total.is_some_and(|total| total <= MAX_UPLOAD_BYTES as u64)
}

fn refusal(error: &NotOpened) -> FileReply {
    match error {
        NotOpened::NoSuchDownload => FileReply::NoSuchDownload,
        NotOpened::Incomplete(status, error) => FileReply::Incomplete { status: *status, error: *error },
        NotOpened::Browser(failure) => {
            tracing::debug!(detail = failure.detail, "cannot list the downloads of a browser");
            FileReply::Gone
        }
        NotOpened::File(error) => FileReply::Failed { detail: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use kitfleet_live::files::OfferedFile;
    use kitfleet_types::files::FileName;

    use super::*;

    #[test]
    fn offer_has_limits() {
        let offer = |sizes: &[u64]| UploadOffer {
            files: sizes.iter().map(|bytes| OfferedFile { name: FileName::of("a"), bytes: *bytes }).collect(),
        };
        let max = MAX_UPLOAD_BYTES as u64;
        for good in [&[0][..], &[max], &[1; MAX_FILES]] {
            assert!(is_within_limits(&offer(good)), "{good:?}");
        }
        for bad in [&[0; 0][..], &[max, 1], &[u64::MAX, 1], &[0; MAX_FILES + 1]] {
            assert!(!is_within_limits(&offer(bad)), "{bad:?}");
        }
    }
}
