//! Recording of a session (contract: recordings).

use std::io;

use axum::Json as Answer;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::recordings;
use kitfleet_domain::sessions;
use kitfleet_recording::events::{ConsoleEvent, Event, EventBody};
use kitfleet_recording::trace::TraceFormat;
use kitfleet_recording::{ReadError, Reader, har, trace};
use kitfleet_types::ids::{AccountId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use super::WRITE_SESSIONS;
use super::operations::READ_STATE;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::lists::{ListItem, Page, Paging, Query};
use crate::http::openapi::{Database, InvalidQuery, NoRecording, NoSession, ReadingRecording, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Chunks of a file that are in memory at once.
const CHUNKS: usize = 2;

pub fn routes() -> Routes {
    // A recording has the content of pages, so it is read as the state is.
    Routes::new()
        .allow(READ_STATE, routes!(frame))
        .allow(READ_STATE, routes!(console))
        .allow(READ_STATE, routes!(requests))
        .allow(READ_STATE, routes!(har_file))
        .allow(READ_STATE, routes!(trace_file))
        .allow(WRITE_SESSIONS, routes!(delete))
        .never_stored()
}

pub(super) async fn require_session(app: &App, caller: &Caller, session: SessionId) -> Result<()> {
    let found = sessions::find(&mut *app.db.acquire().await?, caller.account_id, session).await?;
    found.map(drop).ok_or_else(not_found::<SessionId>)
}

/// Page of events of some types.
pub(super) async fn event_page(
    app: &App,
    query: &Query,
    (account, session): (AccountId, SessionId),
    list: &'static str,
    is_wanted: impl Fn(&EventBody) -> bool + Send,
) -> Result<Page<Event>> {
    let text = session.to_string();
    let filters = [Some(text.as_str())];
    let scope = CursorScope { account, list, filters: &filters };
    let after = match query.text("cursor") {
        Ok(Some(cursor)) => app.cursors().await?.read(scope, cursor).map(Some),
        Ok(None) => Ok(None),
        Err(invalid) => Err(invalid),
    };
    let (limit, after) = both(query.limit(&app.config.limits), after)?;
    // The number fits into the UUID of a cursor.
    let after = after.map_or(0, |after| after.as_u64_pair().1);
    let Some(reader) = app.recordings().await?.reader(session).await? else { return Ok(Page::new(Vec::new(), None)) };
    let mut found = reader.page(after, limit as usize, is_wanted).await?;
    note_pictures(app, session, &mut found.events).await?;
    let next = match found.events.last() {
        Some(newest) if found.has_more => Some(app.cursors().await?.sign(scope, Uuid::from_u64_pair(0, newest.seq))),
        _ => None,
    };
    Ok(Page::new(found.events, next))
}

/// Sets `has_frames` of operations. Their events are stored before their pictures.
pub(super) async fn note_pictures(app: &App, session: SessionId, events: &mut [Event]) -> sqlx::Result<()> {
    let id_of = |event: &Event| match &event.body {
        EventBody::Operation(operation) => Some(operation.operation_id.as_uuid()),
        _ => None,
    };
    let ids: Vec<_> = events.iter().filter_map(id_of).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let pictured = recordings::with_pictures(&mut *app.db.acquire().await?, session, &ids).await?;
    for event in events {
        if let EventBody::Operation(operation) = &mut event.body {
            operation.has_frames = pictured.contains(&operation.operation_id);
        }
    }
    Ok(())
}

/// Get a picture of a recording
#[utoipa::path(
    get, path = "/v1/sessions/{id}/frames/{seq}", tag = "Sessions", operation_id = "getSessionFrame",
    params(IdPath<SessionId>, ("seq" = u64, Path, description = "Number of an event of type `frame`")),
    responses(
        (status = 200, description = "The picture, one CSS pixel a pixel", content((String = "image/jpeg", example = json!("\u{ff}\u{d8} …")))),
        Restricted, NoSession, NoRecording, ReadingRecording,
    ),
)]
async fn frame(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    params: RawPathParams,
) -> Result<Response> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let no_frame = || Problem::new(&kinds::NOT_FOUND, "the recording has no picture with this number");
    let seq = params.iter().find(|(name, _)| *name == "seq").and_then(|(_, seq)| seq.parse().ok());
    let seq: u64 = seq.ok_or_else(no_frame)?;
    let reader = require_reader(&app, session).await?;
    let jpeg = reader.frame(seq).await?.ok_or_else(no_frame)?;
    Ok(([(CONTENT_TYPE, "image/jpeg")], jpeg).into_response())
}

/// Line of the console
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "seq": 3, "at": "2026-11-20T18:05:01.100Z", "level": "error", "source": "script", "text": "TypeError: x is undefined",
    "url": "https://example.com/app.js", "line": 12,
}))]
struct ConsoleEntry {
    /// Number of the event
    seq: u64,
    /// Time of the line
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Level: `debug`, `info`, `log`, `warning` or `error`
    level: &'static str,
    /// Source: `console`, `script`, `network`, `security` or `other`
    source: &'static str,
    /// Text, limited to its first 2,000 characters
    text: String,
    /// Address of the script or page
    #[schema(required = true)]
    url: Option<String>,
    /// Line of the script
    #[schema(required = true)]
    line: Option<u32>,
}

type ConsoleList = Page<ConsoleEntry>;

impl ListItem for ConsoleEntry {
    const LIST: &'static str = "ConsoleList";
    const MEANING: &'static str = "A page of console lines, oldest first";
}

/// List console lines
#[utoipa::path(
    get, path = "/v1/sessions/{id}/console", tag = "Sessions", operation_id = "listSessionConsole",
    params(IdPath<SessionId>, Paging),
    responses((status = 200, description = "A page", body = ConsoleList), Restricted, InvalidQuery, NoSession, ReadingRecording),
)]
async fn console(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    query: Query,
) -> Result<Answer<ConsoleList>> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let is_console = |body: &EventBody| matches!(body, EventBody::Console(_));
    let page = event_page(&app, &query, (caller.account_id, session), "console", is_console).await?;
    let next = page.next_cursor.clone();
    let entries = page.data.into_iter().filter_map(|Event { seq, at, body }| match body {
        EventBody::Console(ConsoleEvent { level, source, text, url, line }) => {
            Some(ConsoleEntry { seq, at, level: level.into(), source: source.into(), text, url, line })
        }
        _ => None,
    });
    Ok(Answer(Page::new(entries.collect(), next)))
}

/// Request of a page
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "seq": 4, "at": "2026-11-20T18:05:01.100Z", "method": "GET", "url": "https://example.com/app.js", "resource_type": "script",
    "status": 200, "mime_type": "text/javascript", "request_bytes": 0, "response_bytes": 4821, "duration_ms": 31,
    "frame_url": "https://example.com/", "error": null,
}))]
struct RequestEntry {
    /// Number of the event
    seq: u64,
    /// Time the request ended
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    method: String,
    /// Address. Values of parameters that are named like secrets are `•••`
    url: String,
    /// Type of the resource, such as `document` or `image`
    resource_type: String,
    #[schema(required = true)]
    status: Option<u16>,
    #[schema(required = true)]
    mime_type: Option<String>,
    #[schema(required = true)]
    request_bytes: Option<u64>,
    #[schema(required = true)]
    response_bytes: Option<u64>,
    #[schema(required = true)]
    duration_ms: Option<u64>,
    /// Address of the frame that made the request
    #[schema(required = true)]
    frame_url: Option<String>,
    /// Failure of the request
    #[schema(required = true)]
    error: Option<String>,
}

type RequestList = Page<RequestEntry>;

impl ListItem for RequestEntry {
    const LIST: &'static str = "RequestList";
    const MEANING: &'static str = "A page of requests, oldest first";
}

/// List requests
///
/// Returns the requests of the session's pages. Their bodies are not recorded.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/requests", tag = "Sessions", operation_id = "listSessionRequests",
    params(IdPath<SessionId>, Paging),
    responses((status = 200, description = "A page", body = RequestList), Restricted, InvalidQuery, NoSession, ReadingRecording),
)]
async fn requests(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    query: Query,
) -> Result<Answer<RequestList>> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let is_request = |body: &EventBody| matches!(body, EventBody::Request(_));
    let page = event_page(&app, &query, (caller.account_id, session), "requests", is_request).await?;
    let next = page.next_cursor.clone();
    let entries = page.data.into_iter().filter_map(|Event { seq, at, body }| match body {
        EventBody::Request(request) => Some(RequestEntry {
            seq,
            at,
            method: request.method,
            url: request.url,
            resource_type: request.resource_type,
            status: request.status,
            mime_type: request.mime_type,
            request_bytes: request.request_bytes,
            response_bytes: request.response_bytes,
            duration_ms: request.duration_ms,
            frame_url: request.frame_url,
            error: request.error,
        }),
        _ => None,
    });
    Ok(Answer(Page::new(entries.collect(), next)))
}

/// Get the HAR file
///
/// Streams the requests of a recording as HAR 1.2, without bodies.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/har", tag = "Sessions", operation_id = "getSessionHar",
    params(IdPath<SessionId>),
    responses(
        (status = 200, description = "The file", content((Value = "application/json", example = json!({"log": {
            "version": "1.2", "creator": {"name": "Kitfleet", "version": "0.1.0"}, "pages": [], "entries": [],
        }}))), headers(("Content-Disposition" = String, description = "The file's name"))),
        Restricted, NoSession, NoRecording, ReadingRecording,
    ),
)]
async fn har_file(caller: Caller, State(app): State<App>, method: Method, path: IdPath<SessionId>) -> Result<Response> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let reader = require_reader(&app, session).await?;
    let body = streamed(&method, move |sink| async move { har::write(&reader, &sink).await });
    Ok((file_headers("application/json", &format!("{session}.har")), body).into_response())
}

/// Get the trace
///
/// Streams the recording as a ZIP file for Playwright's trace viewer: `npx playwright show-trace`, or a trace link at
/// `https://trace.playwright.dev`. Viewers before 1.63 need `format=8`, and before 1.53 `format=7`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/trace", tag = "Sessions", operation_id = "getSessionTrace",
    params(IdPath<SessionId>, ("format" = Option<u32>, Query, description = "Version of the format: 9 (default), 8 or 7", minimum = 7, maximum = 9)),
    responses(
        (status = 200, description = "The file", content((String = "application/zip", example = json!("PK …"))),
         headers(("Content-Disposition" = String, description = "The file's name"))),
        Restricted, InvalidQuery, NoSession, NoRecording, ReadingRecording,
    ),
)]
async fn trace_file(
    caller: Caller,
    State(app): State<App>,
    method: Method,
    path: IdPath<SessionId>,
    query: Query,
) -> Result<Response> {
    let session = path.id()?;
    let format = parse_format(&query)?;
    require_session(&app, &caller, session).await?;
    trace_response(&app, &method, session, format).await
}

pub fn parse_format(query: &Query) -> Result<TraceFormat, Invalid> {
    let format = query.parsed("format", |text| {
        let format = text.parse().ok().and_then(TraceFormat::of);
        format.ok_or_else(|| Invalid::field("format", "must be 9, 8 or 7"))
    })?;
    Ok(format.unwrap_or(TraceFormat::V9))
}

pub async fn trace_response(app: &App, method: &Method, session: SessionId, format: TraceFormat) -> Result<Response> {
    let reader = require_reader(app, session).await?;
    let title = session.to_string();
    let file_name = format!("{session}.zip");
    let body = streamed(method, move |sink| async move { trace::write(&reader, format, &title, &sink).await });
    Ok((file_headers("application/zip", &file_name), body).into_response())
}

fn file_headers(media_type: &'static str, file_name: &str) -> [(HeaderName, String); 2] {
    [(CONTENT_TYPE, media_type.to_owned()), (CONTENT_DISPOSITION, format!("attachment; filename=\"{file_name}\""))]
}

/// Body that a task writes as fast as the client reads it. An error ends the body before its end, which the client notices.
fn streamed<W>(method: &Method, write: impl FnOnce(mpsc::Sender<io::Result<Bytes>>) -> W + Send + 'static) -> Body
where
    W: Future<Output = io::Result<()>> + Send + 'static,
{
    if method == Method::HEAD {
        return Body::empty();
    }
    let (sink, chunks) = mpsc::channel(CHUNKS);
    tokio::spawn(async move {
        if let Err(error) = write(sink.clone()).await
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
            if !matches!(cause, Some(ReadError::Deleted)) {
                tracing::warn!(%error, "cannot write a recording to its reader");
            }
            let _ = sink.send(Err(error)).await;
        }
    });
    Body::from_stream(stream::unfold(chunks, async |mut chunks| {
        let chunk = chunks.recv().await?;
        Some((chunk, chunks))
    }))
}

async fn require_reader(app: &App, session: SessionId) -> Result<Reader> {
    let reader = app.recordings().await?.reader(session).await?;
    reader.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "the session has no recording"))
}

/// Delete the recording
///
/// Removes it at once, and revokes the links to its trace. A live session is not recorded any more.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/recording", tag = "Sessions", operation_id = "deleteSessionRecording",
    params(IdPath<SessionId>),
    responses((status = 204, description = "There is no recording any more"), Restricted, NoSession, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let mut tx = app.db.begin().await?;
    let is_deleted = recordings::delete(&mut tx, caller.account_id, session, &caller.actor).await?;
    tx.commit().await?;
    if is_deleted {
        app.recordings().await?.remove(session).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Database(error) => error.into(),
            ReadError::Sealed => Self::new(&kinds::FEATURE_UNAVAILABLE, error.to_string()),
            ReadError::Io(_) => {
                tracing::warn!(%error, "cannot read a recording");
                Self::unavailable_for_now("the recording cannot be read now; try again")
            }
            ReadError::Deleted => Self::new(&kinds::NOT_FOUND, "the session has no recording"),
            ReadError::Damaged => Self::internal(&error),
        }
    }
}
