//! Timeline of a recording (contract: recordings), as pages or as a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use kitfleet_domain::recordings::{self, streams};
use kitfleet_recording::events::{Event, EventBody, TraceDetails};
use kitfleet_recording::{ReadError, Reader};
use kitfleet_types::ids::{AccountId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use super::operations::READ_STATE;
use super::recordings::{event_page, note_pictures, require_session};
use crate::http::auth::{self, Caller};
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::{ListItem, Page, Paging, Query};
use crate::http::openapi::{AnotherStream, InvalidQuery, NoSession, ReadingRecording, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Interval in which a stream looks for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time a stream continues before its credential is checked again.
const ADMITTED_FOR: Duration = Duration::from_secs(5);
/// A process that stops waits for it.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub fn routes() -> Routes {
    // A recording has the content of pages, so it is read as the state is.
    Routes::new().allow(READ_STATE, routes!(timeline)).never_stored()
}

/// Event of a timeline
///
/// Members other than `seq`, `at` and `type` depend on the type. Clients must tolerate unknown types and members.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "seq": 7, "at": "2026-11-20T18:05:01.100Z", "type": "frame", "operation_id": "op_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f61",
    "width": 393, "height": 659,
}))]
struct TimelineEvent {
    /// Number of the event; later events have higher numbers
    seq: u64,
    /// Time of the event
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Type: `operation`, `console`, `request`, `dialog`, `page`, `download`, `frame`, `control`, `challenge` or `recording`
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    #[serde(flatten)]
    #[schema(ignore)]
    members: Value,
}

impl From<Event> for TimelineEvent {
    fn from(Event { seq, at, body }: Event) -> Self {
        let body = without_internals(body);
        let kind = body.kind().name();
        let mut members = serde_json::to_value(body).unwrap_or_default();
        if let Value::Object(members) = &mut members {
            members.shift_remove("type");
        }
        Self { seq, at, kind, members }
    }
}

/// Removes what only traces and HAR files contain.
fn without_internals(mut body: EventBody) -> EventBody {
    match &mut body {
        EventBody::Operation(operation) => operation.trace = TraceDetails::default(),
        EventBody::Request(request) => {
            request.request_headers.clear();
            request.response_headers.clear();
        }
        _ => {}
    }
    body
}

type Timeline = Page<TimelineEvent>;

impl ListItem for TimelineEvent {
    const LIST: &'static str = "Timeline";
    const MEANING: &'static str = "A page of events, oldest first";
}

/// Get the timeline
///
/// Returns the events of a recording, oldest first. With `Accept: text/event-stream` it sends them as server-sent events, with
/// `event` (the type), `id` (the number) and JSON `data`, and new ones while the session lives. `Last-Event-ID` continues after an
/// event. After the last event of an ended session comes `event: end`, and the stream closes. An account can have at most 16 streams
/// of timelines at a time. Without a recording the list is empty.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/timeline", tag = "Sessions", operation_id = "getSessionTimeline",
    params(
        IdPath<SessionId>, Paging,
        ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event the client received"),
    ),
    responses(
        (status = 200, description = "A page, or a stream of events",
         content((Timeline = "application/json"), (String = "text/event-stream"))),
        Restricted, InvalidQuery, NoSession, AnotherStream, ReadingRecording,
    ),
)]
async fn timeline(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response> {
    let session = path.id()?;
    require_session(&app, &caller, session).await?;
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if !accepted.contains("text/event-stream") {
        let page = event_page(&app, &query, (caller.account_id, session), "timeline", |_| true).await?;
        return Ok(Answer(page.map(TimelineEvent::from)).into_response());
    }
    let since = headers.get(LAST_EVENT_ID).and_then(|since| since.to_str().ok()).and_then(|since| since.parse().ok());
    let following = OpenTimeline {
        ended: app.streams.ended(),
        _lease: StreamLease::open(&app, caller.account_id).await?,
        app,
        session,
        reader: None,
        sent: since.unwrap_or_default(),
        page: VecDeque::new(),
        credential: auth::credential_headers(&headers),
        admitted_until: Instant::now() + ADMITTED_FOR,
        is_over: false,
    };
    let events = stream::unfold(following, async |mut following| {
        let next = following.next().await?;
        Some((Ok::<_, Infallible>(next), following))
    });
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response())
}

/// Row of an open stream. Dropping it closes the stream.
struct StreamLease {
    app: App,
    id: Uuid,
    /// Renews the row also while the client does not read, when nothing polls the stream.
    renewal: AbortHandle,
}

impl StreamLease {
    async fn open(app: &App, account: AccountId) -> Result<Self> {
        let max = app.config.timeline_streams;
        let mut tx = app.db.begin().await?;
        let opened = streams::open(&mut tx, account, max).await?;
        tx.commit().await?;
        let id = opened.ok_or_else(|| {
            let detail = format!("the account has reached its limit of {max} timeline streams; close a stream first");
            Problem::new(&kinds::STREAM_LIMIT, detail).with("limit", max)
        })?;
        let renewal = tokio::spawn(renew_lease(app.db.clone(), id)).abort_handle();
        Ok(Self { app: app.clone(), id, renewal })
    }
}

async fn renew_lease(db: PgPool, id: Uuid) {
    loop {
        sleep(streams::LEASE / 3).await;
        let renewed = async { streams::renew(&mut *db.acquire().await?, id).await };
        if let Err(error) = renewed.await {
            tracing::debug!(%error, "cannot renew the lease of a timeline stream: trying again");
        }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.renewal.abort();
        let Ok(runtime) = Handle::try_current() else { return };
        let (db, id) = (self.app.db.clone(), self.id);
        let close = async move {
            let closed = async { streams::close(&mut *db.acquire().await?, id).await };
            // Otherwise it stays open until its lease expires.
            if let Ok(Err(error)) = timeout(CLOSED_WITHIN, closed).await {
                tracing::debug!(%error, "cannot close a timeline stream");
            }
        };
        self.app.handlers.spawn_on(close, &runtime);
    }
}

struct OpenTimeline {
    app: App,
    _lease: StreamLease,
    session: SessionId,
    reader: Option<Reader>,
    sent: u64,
    /// Events that were read but not sent yet.
    page: VecDeque<sse::Event>,
    credential: HeaderMap,
    admitted_until: Instant,
    ended: CancellationToken,
    is_over: bool,
}

impl OpenTimeline {
    /// `None` at the end of the stream.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if self.ended.is_cancelled() {
                return None;
            }
            if self.admitted_until <= Instant::now() {
                if !auth::still_admits(&self.app, &self.credential, READ_STATE).await {
                    return None;
                }
                self.admitted_until = Instant::now() + ADMITTED_FOR;
            }
            if let Some(event) = self.page.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            match self.read().await {
                Ok(()) => {}
                Err(error) => {
                    // A client that reconnects continues after the last event it received.
                    tracing::warn!(session = %self.session, %error, "closing a timeline stream: cannot read the recording");
                    return None;
                }
            }
            if self.page.is_empty() {
                tokio::select! {
                    () = self.ended.cancelled() => return None,
                    () = sleep(POLL_INTERVAL) => {}
                }
            }
        }
    }

    async fn read(&mut self) -> Result<(), ReadError> {
        // Looked up first: events that were stored before the end are then read below.
        let has_ended = recordings::has_ended(&mut *self.app.db.acquire().await?, self.session).await?;
        if self.reader.is_none() {
            self.reader = self.app.recordings().await?.reader(self.session).await?;
        }
        let batch = match &self.reader {
            Some(reader) => reader.events_after(self.sent).await?,
            None => None,
        };
        if let Some(mut batch) = batch {
            note_pictures(&self.app, self.session, &mut batch.events).await?;
            self.sent = batch.last_seq;
            for event in batch.events {
                let event = TimelineEvent::from(event);
                let data = serde_json::to_string(&event).unwrap_or_default();
                self.page.push_back(sse::Event::default().id(event.seq.to_string()).event(event.kind).data(data));
            }
        } else if has_ended {
            self.is_over = true;
            self.page.push_back(sse::Event::default().event("end").data("{}"));
        }
        Ok(())
    }
}
