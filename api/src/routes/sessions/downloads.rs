//! Downloads of a session (contract: files). Reading them does not claim the session.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream as Pieces, try_unfold};
use kitfleet_domain::file_access::FileAccess;
use kitfleet_live::files::{FileReply, receive};
use kitfleet_live::link::Stream;
use kitfleet_types::files::{Download, DownloadStatus, FileName};
use kitfleet_types::ids::{DownloadId, SessionId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::file_links::{self, not_open};
use super::operations::READ_STATE;
use super::problems::worker_silent;
use crate::http::auth::Caller;
use crate::http::body::counted_json;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::openapi::{NoSession, Restricted, Transferring};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Bytes of a file that are in memory at once.
const PIECE: usize = 128 * 1024;

/// Maximum time for the worker's answer, which waits up to 30 s for the end of a download, and for each piece of a file.
const ANSWERED_WITHIN: Duration = Duration::from_secs(40);

/// Media type of a file whose own is unknown.
const UNKNOWN: &str = "application/octet-stream";

/// Characters that are escaped in an extended parameter (RFC 8187, section 3.2.1).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

pub fn routes() -> Routes {
    // Files have the content of pages, so they are read as the state is.
    Routes::new().allow(READ_STATE, routes!(list)).allow(READ_STATE, routes!(content)).never_stored()
}

/// Downloads of a session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"data": [{
    "id": "dl_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f", "url": "https://shop.example/invoice/7", "file_name": "invoice.pdf",
    "content_type": "application/pdf", "bytes": 48_213, "status": "complete", "error": null,
    "created_at": "2026-11-20T18:10:00.000Z",
}]}))]
struct DownloadList {
    /// Downloads of all pages, oldest first
    data: Vec<Download>,
}

/// List downloads
///
/// Returns the files that the session's pages have downloaded, with those in progress. They exist as long as the session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/downloads", tag = "Sessions", operation_id = "listDownloads",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The downloads", body = DownloadList), Restricted, NoSession, Transferring),
)]
async fn list(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Response> {
    let mut stream = file_links::open(&app, &caller, path.id()?, FileAccess::Downloads).await?;
    match answer(&mut stream).await? {
        FileReply::Downloads { downloads } => {
            let text =
                serde_json::to_vec(&DownloadList { data: downloads }).map_err(|error| Problem::internal(&error))?;
            let reservation = app.answers.reserve(caller.account_id, text.len() as u64).await?;
            Ok(counted_json(text, reservation))
        }
        other => Err(refusal(other)),
    }
}

/// Get the content of a download
///
/// Streams the file. A download in progress is waited for, for up to 30 s.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/downloads/{download_id}/content", tag = "Sessions",
    operation_id = "getDownloadContent", params(IdPath<SessionId>, IdPath<DownloadId>),
    responses(
        (status = 200, description = "The file", content(
             (String = "application/octet-stream", example = json!("%PDF-1.7 …")), (String = "*/*", example = json!("%PDF-1.7 …")),
         ),
         headers(("Content-Disposition" = String, description = "The file's name"))),
        Restricted, NoSession, Transferring,
    ),
)]
async fn content(
    caller: Caller,
    State(app): State<App>,
    method: Method,
    path: IdPath<SessionId>,
    download: IdPath<DownloadId>,
) -> Result<Response> {
    let (session, download) = (path.id()?, download.id()?);
    let mut stream = file_links::open(&app, &caller, session, FileAccess::Content { download }).await?;
    let (file_name, content_type, bytes) = match answer(&mut stream).await? {
        FileReply::Content { file_name, content_type, bytes } => (file_name, content_type, bytes),
        other => return Err(refusal(other)),
    };
    let media_type = content_type.and_then(|media_type| HeaderValue::try_from(media_type).ok());
    let disposition = HeaderValue::try_from(disposition(&file_name)).map_err(|error| Problem::internal(&error))?;
    let headers = [
        (CONTENT_TYPE, media_type.unwrap_or(HeaderValue::from_static(UNKNOWN))),
        (CONTENT_DISPOSITION, disposition),
        // The file is of another origin and must not act in the name of this one.
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox")),
        (CONTENT_LENGTH, HeaderValue::from(bytes)),
    ];
    let body = if method == Method::HEAD { Body::empty() } else { Body::from_stream(pieces(stream, bytes)) };
    Ok((headers, body).into_response())
}

async fn answer(stream: &mut Box<dyn Stream>) -> Result<FileReply> {
    let reply = timeout(ANSWERED_WITHIN, receive(stream)).await.map_err(io::Error::from).flatten();
    reply.map_err(|error| {
        tracing::warn!(%error, "worker does not answer about files");
        worker_silent()
    })
}

/// The bytes of a file, read from the worker as fast as the client takes them.
fn pieces(stream: Box<dyn Stream>, bytes: u64) -> impl Pieces<Item = io::Result<Vec<u8>>> {
    try_unfold((stream, bytes), |(mut stream, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let max = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let mut piece = Vec::with_capacity(max);
        let reading = timeout(ANSWERED_WITHIN, (&mut stream).take(max as u64).read_buf(&mut piece)).await;
        match reading.map_err(io::Error::from)?? {
            // The client must not take a part for the whole.
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            read => Ok(Some((piece, (stream, left - read as u64)))),
        }
    })
}

/// Problem for an answer of the worker that is no success.
fn refusal(reply: FileReply) -> Problem {
    match reply {
        FileReply::NoSuchDownload => not_found::<DownloadId>(),
        FileReply::Incomplete { status: DownloadStatus::Failed, error } => {
            Problem::new(&kinds::CONFLICT, "the download has failed")
                .with("download_status", DownloadStatus::Failed)
                .with("error", error)
        }
        FileReply::Incomplete { status, .. } => {
            Problem::new(&kinds::CONFLICT, "the download is still in progress").with("download_status", status)
        }
        FileReply::Gone => not_open(),
        FileReply::Failed { detail } => {
            tracing::warn!(detail, "worker cannot read a download");
            Problem::new(&kinds::DRIVER_ERROR, "the file cannot be read")
        }
        FileReply::Downloads { .. } | FileReply::Content { .. } | FileReply::Received | FileReply::Full => {
            Problem::internal(&"the worker sent another answer about files than was asked for")
        }
    }
}

/// Value of `Content-Disposition` (RFC 6266), with a name in ASCII for old clients.
fn disposition(name: &FileName) -> String {
    let plain = |character: char| match character {
        '"' | '\\' | '%' => '_',
        ' '..='~' => character,
        _ => '_',
    };
    let ascii: String = name.as_str().chars().map(plain).collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(name.as_str(), ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: files 11.
    #[test]
    fn any_file_name_has_a_valid_content_disposition() {
        for (name, value) in [
            ("invoice 7.pdf", r#"attachment; filename="invoice 7.pdf"; filename*=UTF-8''invoice%207.pdf"#),
            ("a\"b\\c%.txt", r#"attachment; filename="c_.txt"; filename*=UTF-8''c%25.txt"#),
            ("é\u{202E}.txt", r#"attachment; filename="_.txt"; filename*=UTF-8''%C3%A9.txt"#),
            ("a\"b.txt", r#"attachment; filename="a_b.txt"; filename*=UTF-8''a%22b.txt"#),
            (
                "../x\r\nSet-Cookie: a=b",
                r#"attachment; filename="xSet-Cookie: a=b"; filename*=UTF-8''xSet-Cookie%3A%20a%3Db"#,
            ),
        ] {
            assert_eq!(disposition(&FileName::of(name)), value);
        }
    }

    #[tokio::test]
    async fn file_that_ends_early_is_an_error() {
        use futures_util::TryStreamExt as _;

        let whole: Vec<_> = pieces(Box::new(tokio::io::join(&b"hello, world"[..], tokio::io::sink())), 5)
            .try_collect()
            .await
            .expect("five bytes");
        assert_eq!(whole.concat(), b"hello");
        let short = pieces(Box::new(tokio::io::join(&b"hello"[..], tokio::io::sink())), 6);
        assert!(short.try_collect::<Vec<_>>().await.is_err());
    }
}
