//! Connections to a session's worker for transfers of files (contract: files).

use std::time::Duration;

use kitfleet_domain::file_access::FileAccess;
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_domain::workers;
use kitfleet_live::files::{FileReply, OfferedFile, UploadOffer, receive, send};
use kitfleet_live::link::{self, ConnectError, Greeting, NotAdmitted, Stream};
use kitfleet_types::files::{MAX_UPLOAD_BYTES, UploadedFile};
use kitfleet_types::ids::{SessionId, UploadId};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::problems::{not_ready, worker_silent};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::path::not_found;
use crate::http::state::App;

/// For the files of an upload.
const SENT_WITHIN: Duration = Duration::from_secs(30);

/// The transfer does not claim the session.
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

/// The worker was declared dead.
fn worker_gone() -> Problem {
    Problem::new(&kinds::DRIVER_ERROR, "the session's worker died, and the files of the session with it")
}

/// Not any more, or not yet.
pub fn not_open() -> Problem {
    Problem::new(&kinds::CONFLICT, "the session's browser is not open")
}

/// The worker removes the files when this is dropped, unless their operation has taken them.
pub struct DeliveredFiles {
    _stream: Box<dyn Stream>,
}

/// 413 with the limit.
pub fn require_size(files: &[UploadedFile]) -> Result<()> {
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    if bytes <= MAX_UPLOAD_BYTES {
        return Ok(());
    }
    let detail = format!("the files have more than {MAX_UPLOAD_BYTES} bytes");
    Err(Problem::new(&kinds::PAYLOAD_TOO_LARGE, detail).with("limit_bytes", MAX_UPLOAD_BYTES))
}

/// Before the operation that names the files is stored.
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

/// The file stays with the session.
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
