//! What happens to what an account has (contract: notifications): as a stream, and as a list.

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
use kitfleet_domain::ids::{AccountId, NotificationStreamId};
use kitfleet_domain::notifications::{self, Notification, OpenError, Place, Since};
use kitfleet_domain::teams::Role;
use kitfleet_domain::timestamp::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::{self, Caller};
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::lists::{self, Listed, Page, Paging, Query};
use crate::http::openapi::{AnotherStream, Database, InvalidQuery, Restricted};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::streams::Follower;

/// They say what happens to sessions, which members of a team may read, and nothing of what is in them.
const READ_NOTIFICATIONS: Rule = Rule::scope(Scope::Read).for_team(Role::Member);

/// How often somebody who says nothing is sent a comment (contract: notifications 4).
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a stream goes on without its credential being looked at again (contract: notifications 11).
const ADMITTED_FOR: Duration = Duration::from_secs(5);
/// Notifications that are read at once.
const BATCH: i64 = 100;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub fn routes() -> Routes {
    Routes::new().allow(READ_NOTIFICATIONS, routes!(list)).allow(READ_NOTIFICATIONS, routes!(follow))
}

/// Something that happened
#[derive(Serialize, ToSchema)]
#[schema(as = Notification, example = json!({
    "id": "482019375620117", "event": "session.ready", "data": {"session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e"},
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct ListedNotification {
    /// Its number, as the stream's `id`: later ones have higher numbers
    #[schema(pattern = "^[0-9]+$")]
    id: String,
    /// What happened. Clients must expect events that they do not know
    event: String,
    /// The details. Clients must expect members that they do not know
    #[schema(value_type = Object)]
    data: Box<RawValue>,
    /// When
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// A page of them.
type NotificationList = Page<ListedNotification>;

impl Listed for ListedNotification {
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
/// What happened on the account within the last 24 hours, newest first, as the stream tells it. Operations are told of since somebody has
/// first asked for the account's notifications, and until nobody has for 24 hours.
#[utoipa::path(
    get, path = "/v1/account/notifications", tag = "Notifications", operation_id = "listNotifications",
    params(Paging),
    responses((status = 200, description = "A page", body = NotificationList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<NotificationList>> {
    let account = caller.account_id;
    let scope = CursorScope { account, list: "notifications", filters: &[] };
    // A cursor has room for a UUID, and a number fits in.
    let id_of = |notification: &Notification| Uuid::from_u64_pair(0, notification.number.cast_unsigned());
    let retention = app.config.notifications.retention;
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        let below = after.map(|after| after.as_u64_pair().1.cast_signed());
        notifications::list(conn, account, below, limit, retention).await
    });
    Ok(Answer(page.await?.map(ListedNotification::from)))
}

/// Follow notifications
///
/// What happens on the account, while it happens, as server-sent events: `id`, `event` and JSON `data`, and a comment when nothing has
/// happened for 15 seconds. With the last `id` in `Last-Event-ID` it goes on behind that, and nothing is missed; where what came behind it
/// is not known any more, the first event is `reset`. An account is followed 16 times at once at most.
#[utoipa::path(
    get, path = "/v1/account/notifications/stream", tag = "Notifications", operation_id = "followNotifications",
    params(
        ("last_event_id" = Option<String>, Query, description = "The same as `Last-Event-ID`, for clients that cannot send headers"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received"),
    ),
    responses(
        (status = 200, description = "Events, until the client hangs up, the credential ends, or the service stops",
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
        (Some(header), _) => Since::After(header.to_str().ok().and_then(read_number)),
        (None, Some(text)) => Since::After(read_number(text)),
        (None, None) => Since::Now,
    };
    let (account, id) = (caller.account_id, NotificationStreamId::generate());
    let opened =
        notifications::open_stream(&mut *app.db.acquire().await?, account, id, since, app.config.notifications).await?;
    let (Place::Behind(sent) | Place::Reset(sent)) = opened;
    let reset = matches!(opened, Place::Reset(_)).then(|| event("reset", sent, "{}"));
    let following = Following {
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
    // Proxies that gather answers would keep events back.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))))
}

/// A number as it was sent, and nothing else.
fn read_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}

fn event(name: &str, number: i64, data: &str) -> Event {
    Event::default().id(number.to_string()).event(name).data(data)
}

/// A stream that is open.
struct Following {
    app: App,
    account: AccountId,
    follower: Follower,
    /// What it opened with, to be judged again.
    credential: HeaderMap,
    admitted_until: Instant,
    /// The last number that was read.
    sent: i64,
    /// What was read, and not sent yet.
    page: VecDeque<Event>,
}

impl Following {
    /// The next event; `None` when there is to be none.
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
                // Who is cut off goes on behind the last that arrived.
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
