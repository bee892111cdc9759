//! Notifications about an account's resources (contract: notifications), as a stream and as a list.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, stream};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::notifications::{self, Notification, OpenError, StartPosition, StreamPosition};
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{AccountId, NotificationStreamId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::{self, Caller};
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{AnotherStream, Database, InvalidQuery, Restricted};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::streams::StreamHandle;

/// Notifications reveal events of sessions, which team members may read, and nothing of the sessions' content.
const READ_NOTIFICATIONS: Rule = Rule::scope(Scope::Read).for_team(Role::Member);

/// Interval of comments on an idle stream (contract: notifications 4).
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time a stream continues before its credential is checked again (contract: notifications 11).
const ADMITTED_FOR: Duration = Duration::from_secs(5);
/// Number of notifications read at a time.
const BATCH: i64 = 100;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub fn routes() -> Routes {
    Routes::new().allow(READ_NOTIFICATIONS, routes!(list)).allow(READ_NOTIFICATIONS, routes!(follow))
}

/// Notification
#[derive(Serialize, ToSchema)]
#[schema(as = Notification, example = json!({
    "id": "482019375620117", "event": "session.ready", "data": {"session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e"},
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct ListedNotification {
    /// Number of the notification, equal to the stream's `id`; later notifications have higher numbers
    #[schema(pattern = "^[0-9]+$")]
    id: String,
    /// Event name. Clients must tolerate unknown events
    event: String,
    /// Details of the event. Clients must tolerate unknown members
    #[schema(value_type = Object)]
    data: Box<RawValue>,
    /// Time of the event
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// A page of notifications.
type NotificationList = Page<ListedNotification>;

impl ListItem for ListedNotification {
    const LIST: &'static str = "NotificationList";
    const MEANING: &'static str = "A page of notifications, newest first";
}

impl From<Notification> for ListedNotification {
    fn from(notification: Notification) -> Self {
        let Notification { number, event, data, created_at } = notification;
        Self { id: number.to_string(), event, data, created_at }
    }
}

/// List notifications
///
/// Returns the account's notifications of the last 24 hours, newest first, in the format of the stream. Events of operations are
/// recorded only while notifications are in use: from the first request for the account's notifications until 24 hours have
/// passed without one.
#[utoipa::path(
    get, path = "/v1/account/notifications", tag = "Notifications", operation_id = "listNotifications",
    params(Paging),
    responses((status = 200, description = "A page", body = NotificationList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<NotificationList>> {
    let account = caller.account_id;
    let scope = CursorScope { account, list: "notifications", filters: &[] };
    // The number fits into the UUID of a cursor.
    let id_of = |notification: &Notification| Uuid::from_u64_pair(0, notification.number.cast_unsigned());
    let retention = app.config.notifications.retention;
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        let below = after.map(|after| after.as_u64_pair().1.cast_signed());
        notifications::list(conn, account, below, limit, retention).await
    });
    Ok(Answer(page.await?.map(ListedNotification::from)))
}

/// Stream notifications
///
/// Sends the account's notifications as they happen, as server-sent events with `id`, `event` and JSON `data`. An idle stream
/// sends a comment every 15 s. If `Last-Event-ID` contains the last `id`, the stream continues after that event without a gap. If
/// the events after it are no longer stored, the first event is `reset`. An account can have at most 16 streams at a time.
#[utoipa::path(
    get, path = "/v1/account/notifications/stream", tag = "Notifications", operation_id = "followNotifications",
    params(
        ("last_event_id" = Option<String>, Query, description = "Alternative to `Last-Event-ID`, for clients that cannot send headers"),
        ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event the client received"),
    ),
    responses(
        (status = 200, description = "Events, until the client disconnects, the credential becomes invalid, or the service stops",
         content_type = "text/event-stream", body = String),
        Restricted, InvalidQuery, AnotherStream, Database,
    ),
)]
async fn follow(
    caller: Caller,
    State(app): State<App>,
    headers: HeaderMap,
    query: Query,
) -> Result<([(HeaderName, &'static str); 1], Sse<impl Stream<Item = Result<Event, Infallible>>>)> {
    let since = match (headers.get(LAST_EVENT_ID), query.text("last_event_id")?) {
        (Some(header), _) => StartPosition::After(header.to_str().ok().and_then(read_number)),
        (None, Some(text)) => StartPosition::After(read_number(text)),
        (None, None) => StartPosition::Now,
    };
    let (account, id) = (caller.account_id, NotificationStreamId::generate());
    let opened =
        notifications::open_stream(&mut *app.db.acquire().await?, account, id, since, app.config.notifications).await?;
    let (StreamPosition::Behind(sent) | StreamPosition::Reset(sent)) = opened;
    let reset = matches!(opened, StreamPosition::Reset(_)).then(|| event("reset", sent, "{}"));
    let following = OpenStream {
        follower: app.streams.enter(account, id, sent),
        account,
        sent,
        page: reset.into_iter().collect(),
        credential: auth::credential_headers(&headers),
        admitted_until: Instant::now() + ADMITTED_FOR,
        app,
    };
    let events = stream::unfold(following, async |mut following| {
        let next = following.next().await?;
        Some((Ok(next), following))
    });
    // Buffering proxies would delay the events.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))))
}

/// Parses a number in its canonical form only.
fn read_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

fn event(name: &str, number: i64, data: &str) -> Event {
    Event::default().id(number.to_string()).event(name).data(data)
}

/// An open stream.
struct OpenStream {
    app: App,
    account: AccountId,
    follower: StreamHandle,
    /// Headers with the credential, to check it again.
    credential: HeaderMap,
    admitted_until: Instant,
    /// Number of the last notification that was read.
    sent: i64,
    /// Events that were read but not sent yet.
    page: VecDeque<Event>,
}

impl OpenStream {
    /// Returns the next event, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.follower.ended.is_cancelled() {
                return None;
            }
            if self.admitted_until <= Instant::now() {
                if !auth::still_admits(&self.app, &self.credential, READ_NOTIFICATIONS).await {
                    return None;
                }
                self.admitted_until = Instant::now() + ADMITTED_FOR;
            }
            if let Some(event) = self.page.pop_front() {
                return Some(event);
            }
            let highest = *self.follower.highest.borrow_and_update();
            if highest > self.sent {
                // A client that reconnects continues after the last event it received.
                let read = self.read(highest).await;
                read.inspect_err(
                    |error| tracing::warn!(%error, "closing a notification stream: cannot read its notifications"),
                )
                .ok()?;
                continue;
            }
            tokio::select! {
                () = self.follower.ended.cancelled() => return None,
                changed = self.follower.highest.changed() => changed.ok()?,
                () = sleep_until(self.admitted_until) => {}
            }
        }
    }

    async fn read(&mut self, highest: i64) -> sqlx::Result<()> {
        let mut conn = self.app.db.acquire().await?;
        let read = notifications::read_after(&mut conn, self.account, self.sent, BATCH).await?;
        self.sent = read.last().map_or(highest, |last| last.number);
        self.page.extend(read.iter().map(|read| event(&read.event, read.number, read.data.get())));
        Ok(())
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::TooMany { limit } => Self::new(&kinds::STREAM_LIMIT, error.to_string()).with("limit", limit),
            OpenError::NoAccount => Self::account_gone(),
            OpenError::Database(error) => error.into(),
        }
    }
}
