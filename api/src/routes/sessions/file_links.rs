//! Connections to a session's worker for transfers of files (contract: files). This module decides which caller may transfer
//! which file; the worker has the files.

use std::time::Duration;

use kitfleet_domain::files::access::FileAccess;
use kitfleet_domain::files::{MOST_UPLOAD_BYTES, UploadedFile};
use kitfleet_domain::ids::{SessionId, UploadId};
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_domain::workers;
use kitfleet_live::files::{FileReply, OfferedFile, UploadOffer, receive, send};
use kitfleet_live::link::{self, ConnectError, Greeting, NotAdmitted, Stream};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::dispatch::{not_ready, worker_silent};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::path::not_found;
use crate::http::state::App;

/// Maximum time for sending the files of an upload to the worker.
const SENT_WITHIN: Duration = Duration::from_secs(30);

/// Opens a connection for one transfer, which does not claim the session.
///
/// # Errors
/// The caller has no such session, it has ended, or its worker cannot be reached.
pub async fn open(app: &App, caller: &Caller, session: SessionId, access: FileAccess) -> Result<Box<dyn Stream>> {
    require_live(app, caller, session).await?;
    let end = workers::live_end(&mut *app.db.acquire().await?, session).await?.ok_or_else(worker_gone)?;
    let ticket = app.file_tickets().await?.issue(session, access).map_err(|error| Problem::internal(&error))?;
    let error = match link::connect(&end, &Greeting { session_id: session, ticket }).await {
        Ok(stream) => return Ok(stream),
        Err(error) => error,
    };
    match error {
        ConnectError::NotAdmitted(NotAdmitted::Session) => {
            // The session may have ended since it was read.
            require_live(app, caller, session).await?;
            Err(not_open())
        }
        ConnectError::NotAdmitted(NotAdmitted::Full) => {
            Err(Problem::new(&kinds::CONFLICT, "the session has too many transfers of files"))
        }
        ConnectError::NotAdmitted(NotAdmitted::Ticket | NotAdmitted::Unavailable) | ConnectError::Unreachable(_) => {
            tracing::warn!(%error, %session, "cannot open a transfer of files at the worker");
            Err(worker_silent())
        }
    }
}

async fn require_live(app: &App, caller: &Caller, session: SessionId) -> Result<()> {
    let found = sessions::find(&mut *app.db.acquire().await?, caller.account_id, session).await?;
    match found.ok_or_else(not_found::<SessionId>)?.status {
        SessionStatus::Ready | SessionStatus::Busy => Ok(()),
        status => Err(not_ready(status)),
    }
}

/// Problem for a worker that was declared dead.
fn worker_gone() -> Problem {
    Problem::new(&kinds::DRIVER_ERROR, "the session's worker died, and the files of the session with it")
}

/// Problem for a browser that is not open any more, or not yet.
pub fn not_open() -> Problem {
    Problem::new(&kinds::CONFLICT, "the session's browser is not open")
}

/// Files of an upload at the worker, which removes them when this is dropped, unless their operation has taken them.
pub struct DeliveredFiles {
    _stream: Box<dyn Stream>,
}

/// Fails if files are larger than an upload may be.
///
/// # Errors
/// 413 with the limit.
pub fn require_size(files: &[UploadedFile]) -> Result<()> {
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    if bytes <= MOST_UPLOAD_BYTES {
        return Ok(());
    }
    let detail = format!("the files have more than {MOST_UPLOAD_BYTES} bytes");
    Err(Problem::new(&kinds::PAYLOAD_TOO_LARGE, detail).with("limit_bytes", MOST_UPLOAD_BYTES))
}

/// Sends the files of an upload to the session's worker, before the operation that names them is stored.
///
/// # Errors
/// Those of [`open`], or the worker cannot store the files.
pub async fn deliver(
    app: &App,
    caller: &Caller,
    session: SessionId,
    upload: UploadId,
    files: Vec<UploadedFile>,
) -> Result<DeliveredFiles> {
    let mut stream = open(app, caller, session, FileAccess::Upload { upload }).await?;
    transmit(&mut stream, session, &files).await?;
    Ok(DeliveredFiles { _stream: stream })
}

/// Sends a file to the session's worker that stays with the session.
///
/// # Errors
/// Those of [`open`], the session has too many files, or the worker cannot store it.
pub async fn attach(app: &App, caller: &Caller, session: SessionId, file: UploadedFile) -> Result<()> {
    let mut stream = open(app, caller, session, FileAccess::Attach).await?;
    transmit(&mut stream, session, &[file]).await
}

async fn transmit(stream: &mut Box<dyn Stream>, session: SessionId, files: &[UploadedFile]) -> Result<()> {
    let sending = async {
        let offered =
            files.iter().map(|file| OfferedFile { name: file.name.clone(), bytes: file.content.len() as u64 });
        send(stream, &UploadOffer { files: offered.collect() }).await?;
        for file in files {
            stream.write_all(&file.content).await?;
        }
        stream.flush().await?;
        receive::<FileReply>(stream).await
    };
    let reply = timeout(SENT_WITHIN, sending).await.map_err(std::io::Error::from).flatten();
    match reply {
        Ok(FileReply::Received) => Ok(()),
        Ok(FileReply::Full) => Err(Problem::new(&kinds::CONFLICT, "the session has too many attached files")),
        Ok(other) => {
            tracing::warn!(?other, %session, "worker cannot store files");
            Err(Problem::unavailable_for_now("the worker cannot store the files; try again later"))
        }
        Err(error) => {
            tracing::warn!(%error, %session, "cannot send files to the worker");
            Err(worker_silent())
        }
    }
}
