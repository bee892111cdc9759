//! What happens to what an account has, for whoever follows it (contract: notifications).
//!
//! A notification is written by the transaction of what happened, and numbered when somebody asks, under the lock of the account's
//! reader. Whatever has a number was committed before any higher one was given, so that who has read up to one has missed none below;
//! and what happens waits for no lock of an account.

use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::{Connection as _, PgConnection};

use crate::area::{Area, Bound, Purge};
use crate::ids::{AccountId, NotificationStreamId};
use crate::timestamp::Timestamp;

pub(crate) const AREA: Area = Area {
    kept: &[("notification_readers", "one an account")],
    purges: &[
        Purge::new("notifications", "notification_streams", |conn, _, limit| Box::pin(purge_streams(conn, limit))),
        Purge::new("notifications", "notifications", |conn, terms, limit| {
            Box::pin(purge(conn, terms.notifications, limit))
        }),
    ],
    losses: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
    bounds: &[
        ("notifications", Bound::Term("`retention.notifications` (24 h)")),
        ("notification_readers", Bound::Account("1")),
        ("notification_streams", Bound::Account("`notifications.max_streams` open ones")),
    ],
    ..Area::named("notifications")
};

/// Where processes are told that an account has notifications without a number; what is told is the account's id, without a prefix.
pub const CHANNEL: &str = "notifications";

/// How long a stream counts as open without its process saying so.
pub const STREAM_LEASE: Duration = Duration::from_secs(30);

/// How much of it an account may follow, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Streams of an account that may be open at a time.
    pub max_streams: u32,
    /// How long notifications are kept.
    pub retention: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_streams: 16, retention: Duration::from_hours(24) }
    }
}

/// Something that happened.
#[derive(Debug)]
pub struct Notification {
    /// Higher than those of all that its account's readers were told before.
    pub number: i64,
    /// What.
    pub event: String,
    /// Its details, as an object.
    pub data: Box<RawValue>,
    /// When.
    pub created_at: Timestamp,
}

/// From where somebody reads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPosition {
    /// Behind this number, and nothing was missed.
    Behind(i64),
    /// Behind this number, the highest: what came before is not known any more.
    Reset(i64),
}

/// What somebody asks for who wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    /// What happens from now on.
    Now,
    /// What came behind this number; `None`: behind what is no number of the account's.
    After(Option<i64>),
}

/// Why no stream was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There are as many as there may be.
    #[error("the account has reached its limit of {limit} notification streams; close a stream first")]
    TooMany {
        /// As many.
        limit: u32,
    },
    /// The account is deleted.
    #[error("the account does not exist any more")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Opens a stream of the account (contract: notifications 3, 7, 9), and answers where it begins.
///
/// # Errors
/// When the account has too many, or the database fails.
pub async fn open_stream(
    conn: &mut PgConnection,
    account: AccountId,
    stream: NotificationStreamId,
    since: StartPosition,
    settings: Settings,
) -> Result<StreamPosition, OpenError> {
    let place = find_place(&mut *conn, account, since, settings.retention).await?;
    let mut tx = conn.begin().await?;
    if !ask(&mut tx, account, settings.retention).await? {
        return Err(OpenError::NoAccount);
    }
    // The lock of the reader's row, which comes first, lets one count after the other.
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
    Ok(match (place, since) {
        (Some(number), _) => StreamPosition::Behind(number),
        (None, StartPosition::Now) => StreamPosition::Behind(highest),
        (None, StartPosition::After(_)) => StreamPosition::Reset(highest),
    })
}

/// The number behind which nothing was missed, if `since` names one: since it was given the account's operations have been written
/// down, and what came behind it is still kept.
async fn find_place(
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

/// Has the account's operations written down for the retention (contract: notifications 7). `false` when the account is deleted.
async fn ask(conn: &mut PgConnection, account: AccountId, retention: Duration) -> sqlx::Result<bool> {
    let asked = sqlx::query!(
        "insert into notification_readers (account_id, until)
         select id, now() + make_interval(secs => $2) from accounts where id = $1 and status <> 'deleted'
         on conflict (account_id) do update set until = excluded.until",
        account as _,
        retention.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(asked.rows_affected() == 1)
}

/// Gives numbers to what has none, and answers the highest. `None` when nobody has asked for the account's notifications yet.
///
/// # Errors
/// When the database fails.
pub async fn number(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!("select number_notifications($1)", account as _).fetch_one(conn).await
}

/// What has a number above `after`, up to `limit`, the oldest first.
///
/// # Errors
/// When the database fails.
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

/// The account's notifications below a number, the newest first (contract: notifications 8).
///
/// # Errors
/// When the database fails.
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    below: Option<i64>,
    limit: i64,
    retention: Duration,
) -> sqlx::Result<Vec<Notification>> {
    ask(&mut *conn, account, retention).await?;
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

/// How far the notifications of an account that is followed have come.
#[derive(Debug)]
pub struct Progress {
    /// Whose.
    pub account: AccountId,
    /// The highest number that was given.
    pub highest: i64,
    /// Whether there are some without one.
    pub waiting: bool,
}

/// How far those of these accounts have come, for whoever was told of nothing.
///
/// # Errors
/// When the database fails.
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

/// Says that these streams are open still.
///
/// # Errors
/// When the database fails.
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

/// Says that these streams are closed.
///
/// # Errors
/// When the database fails.
pub async fn close_streams(conn: &mut PgConnection, streams: &[NotificationStreamId]) -> sqlx::Result<()> {
    sqlx::query!("delete from notification_streams where id = any($1)", streams as _).execute(conn).await?;
    Ok(())
}

async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from notification_readers where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// Deletes notifications that are older than `age`, up to `limit`. Answers how many.
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

/// Deletes the streams of processes that died, up to `limit`. Answers how many.
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
