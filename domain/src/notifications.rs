//! Changes to an account's objects, for clients that follow them (contract: notifications).
//!
//! The transaction of a change writes its notification without a number. A reader assigns the numbers later, under the
//! lock of the account's reader row. So a notification with a number was committed before a higher number was assigned,
//! and a client that has read up to a number has missed none below it. The change itself waits for no lock of the
//! account.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, NotificationStreamId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    kept: &[("notification_readers", "one for each account")],
    purges: &[
        Purge::new("notifications", "notification_streams", |conn, _, limit| Box::pin(purge_streams(conn, limit))),
        Purge::new("notifications", "notifications", |conn, terms, limit| {
            Box::pin(purge(conn, terms.notifications, limit))
        }),
    ],
    on_account_delete: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
    bounds: &[
        ("notifications", Bound::Term("`retention.notifications` (24 h)")),
        ("notification_readers", Bound::Account("1")),
        ("notification_streams", Bound::Account("`notifications.max_streams` open ones")),
    ],
    ..Area::named("notifications")
};

/// The payload is the account's id without its prefix.
pub const CHANNEL: &str = "notifications";

/// A stream that its process did not renew for this time counts as closed.
pub const STREAM_LEASE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub max_streams: u32,
    pub retention: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_streams: 16, retention: Duration::from_hours(24) }
    }
}

#[derive(Debug)]
pub struct Notification {
    /// Higher than those of all notifications that readers of the account received before.
    pub number: i64,
    pub event: String,
    pub data: Box<RawValue>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPosition {
    /// Position after this number; no notification was missed.
    Behind(i64),
    /// After this number, the highest; earlier notifications may have been missed.
    Reset(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    Now,
    /// `None` if the client sent something other than a number of the account.
    After(Option<i64>),
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the account has reached its limit of {limit} notification streams; close a stream first")]
    TooMany { limit: u32 },
    #[error("the account does not exist any more")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Contract: notifications 3, 7, 9. Returns the position where the stream begins.
pub async fn open_stream(
    conn: &mut PgConnection,
    account: AccountId,
    stream: NotificationStreamId,
    since: StartPosition,
    settings: Settings,
) -> Result<StreamPosition, OpenError> {
    let position = find_position(&mut *conn, account, since, settings.retention).await?;
    let mut tx = conn.begin().await?;
    if !record_changes(&mut tx, account, settings.retention).await? {
        return Err(OpenError::NoAccount);
    }
    // The lock on the reader's row, which is taken first, makes concurrent calls count one after another.
    sqlx::query!(
        "update notification_readers set streamed_until = greatest(streamed_until, now() + make_interval(secs => $2))
         where account_id = $1",
        account as _,
        STREAM_LEASE.as_secs_f64(),
    )
    .execute(&mut *tx)
    .await?;
    let open = sqlx::query_scalar!(
        r#"select count(*) as "open!" from notification_streams where account_id = $1 and until > now()"#,
        account as _,
    )
    .fetch_one(&mut *tx)
    .await?;
    if open >= i64::from(settings.max_streams) {
        return Err(OpenError::TooMany { limit: settings.max_streams });
    }
    sqlx::query!(
        "insert into notification_streams (id, account_id, until) values ($1, $2, now() + make_interval(secs => $3))",
        stream as _,
        account as _,
        STREAM_LEASE.as_secs_f64(),
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    let highest = number(&mut *conn, account).await?.ok_or(OpenError::NoAccount)?;
    Ok(match (position, since) {
        (Some(number), _) => StreamPosition::Behind(number),
        (None, StartPosition::Now) => StreamPosition::Behind(highest),
        (None, StartPosition::After(_)) => StreamPosition::Reset(highest),
    })
}

/// Returns the number in `since` if the account's changes have been recorded since then, and the notifications after it
/// are still kept.
async fn find_position(
    conn: &mut PgConnection,
    account: AccountId,
    since: StartPosition,
    retention: Duration,
) -> sqlx::Result<Option<i64>> {
    let StartPosition::After(Some(number)) = since else { return Ok(None) };
    sqlx::query_scalar!(
        "select $2::bigint from notification_readers r
         where r.account_id = $1 and r.until > now() and (r.last_number = $2 or exists (
             select from notifications n
             where n.account_id = $1 and n.number = $2 and n.created_at > now() - make_interval(secs => $3)))",
        account as _,
        number,
        retention.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
    .map(Option::flatten)
}

/// Records changes for the retention time from now (contract: notifications 7). Returns false when the account is
/// deleted.
async fn record_changes(conn: &mut PgConnection, account: AccountId, retention: Duration) -> sqlx::Result<bool> {
    let recorded = sqlx::query!(
        "insert into notification_readers (account_id, until)
         select id, now() + make_interval(secs => $2) from accounts where id = $1 and status <> 'deleted'
         on conflict (account_id) do update set until = excluded.until",
        account as _,
        retention.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(recorded.rows_affected() == 1)
}

/// Writes a notification of an event that no other table records. Nothing is written when no client follows the account.
pub async fn record(conn: &mut PgConnection, account: AccountId, event: &str, data: Value) -> sqlx::Result<()> {
    sqlx::query_scalar!(
        "select write_notification($1, $2, $3::jsonb::json)::text as written",
        account as _,
        event,
        data,
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Returns the highest number; `None` when no client has requested the account's notifications yet.
pub async fn number(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!("select number_notifications($1)", account as _).fetch_one(conn).await
}

pub async fn read_after(
    conn: &mut PgConnection,
    account: AccountId,
    after: i64,
    limit: i64,
) -> sqlx::Result<Vec<Notification>> {
    let rows = sqlx::query_as!(
        Row,
        r#"select number as "number!", event, data::text as "data!", created_at from notifications
           where account_id = $1 and number > $2 order by number limit $3"#,
        account as _,
        after,
        limit,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

/// The newest first (contract: notifications 8).
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    below: Option<i64>,
    limit: i64,
    retention: Duration,
) -> sqlx::Result<Vec<Notification>> {
    record_changes(&mut *conn, account, retention).await?;
    number(&mut *conn, account).await?;
    let rows = sqlx::query_as!(
        Row,
        r#"select number as "number!", event, data::text as "data!", created_at from notifications
           where account_id = $1 and number < $2 and created_at > now() - make_interval(secs => $4)
           order by number desc limit $3"#,
        account as _,
        below.unwrap_or(i64::MAX),
        limit,
        retention.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::read).collect()
}

struct Row {
    number: i64,
    event: String,
    data: String,
    created_at: Timestamp,
}

impl Row {
    fn read(self) -> sqlx::Result<Notification> {
        let data = RawValue::from_string(self.data).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok(Notification { number: self.number, event: self.event, data, created_at: self.created_at })
    }
}

#[derive(Debug)]
pub struct Progress {
    pub account: AccountId,
    pub highest: i64,
    /// True when there are notifications without a number.
    pub waiting: bool,
}

/// Returns the progress of these accounts, for a process that may have missed an announcement.
pub async fn progress(conn: &mut PgConnection, accounts: &[AccountId]) -> sqlx::Result<Vec<Progress>> {
    sqlx::query_as!(
        Progress,
        r#"select r.account_id as account, r.last_number as highest,
                  exists (select from notifications n where n.account_id = r.account_id and n.number is null) as "waiting!"
           from notification_readers r where r.account_id = any($1)"#,
        accounts as _,
    )
    .fetch_all(conn)
    .await
}

pub async fn renew_streams(
    conn: &mut PgConnection,
    streams: &[NotificationStreamId],
    retention: Duration,
) -> sqlx::Result<()> {
    sqlx::query!(
        "with renewed as (
             update notification_streams set until = now() + make_interval(secs => $2) where id = any($1)
             returning account_id
         )
         update notification_readers
         set streamed_until = now() + make_interval(secs => $2), until = now() + make_interval(secs => $3)
         where account_id in (select account_id from renewed)",
        streams as _,
        STREAM_LEASE.as_secs_f64(),
        retention.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn close_streams(conn: &mut PgConnection, streams: &[NotificationStreamId]) -> sqlx::Result<()> {
    sqlx::query!("delete from notification_streams where id = any($1)", streams as _).execute(conn).await?;
    Ok(())
}

async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from notification_readers where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from notifications where place = any(array(
             select place from notifications where created_at < now() - make_interval(secs => $1)
             order by created_at limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn purge_streams(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from notification_streams where id = any(array(
             select id from notification_streams where until < now() - make_interval(secs => $1) limit $2 for update skip locked))",
        STREAM_LEASE.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
