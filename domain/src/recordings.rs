//! Recordings of sessions (contract: recordings): rows of their sealed segments, and public links to their traces.
//!
//! `kitfleet-recording` writes and reads the content. A segment has either the events of a range of numbers, or the pictures and
//! snapshots of one.

pub mod streams;
pub mod trace_links;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, OperationId, SessionId};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge, Sealed};
use crate::audit::{self, Actor, Entry};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("recordings", "removed after `retention.recordings`, or when they are deleted"),
        ("recording_segments", "removed with their recordings"),
    ],
    purges: &[
        Purge::new(PURGE_ARM, "trace_links", |conn, _, limit| Box::pin(trace_links::purge(conn, limit))),
        Purge::new(PURGE_ARM, "timeline_streams", |conn, _, limit| Box::pin(streams::purge(conn, limit))),
    ],
    bounds: &[
        (
            "recordings",
            Bound::Account(
                "`recordings.account_bytes` (2 GiB), and each for `retention.recordings` (7 days) after its last event",
            ),
        ),
        ("recording_segments", Bound::Account("`recordings.account_bytes` (2 GiB)")),
        ("trace_links", Bound::Account("20 valid ones for each session; each is deleted a day after it expired")),
        ("timeline_streams", Bound::Account("`recordings.max_streams` (16) open ones")),
    ],
    actions: &["trace_link.created", "trace_link.revoked", "session.recording_deleted"],
    on_account_delete: &[|conn, account, _| Box::pin(delete_all(conn, account))],
    sealed: &[Sealed {
        kind: "recording_keys",
        table: "recordings",
        id: "session_id",
        part: None,
        purpose: KEY_PURPOSE,
        has_shared_key: true,
        columns: &[("sealed_key", |row| SessionId::from(row.id).to_string())],
    }],
    ..Area::named("recordings")
};

pub const KEY_PURPOSE: &str = "recordings";

/// Name under which removed recordings are counted.
pub const PURGE_ARM: &str = "recordings";

/// Time after which a live session's recording without a new segment counts as ended when its session has ended. A worker that died
/// does not mark the end.
const SILENT_END: Duration = Duration::from_secs(15);

/// Content of a session's recording.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum RecordMode {
    #[default]
    Off,
    /// A picture after each operation, and all events.
    Steps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingLimits {
    /// Maximum size of a recording. Beyond it there are no more pictures.
    pub session_bytes: u64,
    /// Maximum size of all recordings of an account.
    pub account_bytes: u64,
}

impl Default for RecordingLimits {
    fn default() -> Self {
        Self { session_bytes: 20 * 1024 * 1024, account_bytes: 2 * 1024 * 1024 * 1024 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SegmentKind {
    Events,
    Pictures,
}

impl SegmentKind {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug)]
pub struct NewSegment<'a> {
    pub session: SessionId,
    pub kind: SegmentKind,
    pub first_seq: i64,
    pub last_seq: i64,
    pub size_bytes: i64,
    /// Operations that have a picture in it.
    pub operations: &'a [Uuid],
    /// `None` if it is written to a bucket afterwards.
    pub content: Option<&'a [u8]>,
    /// Number of operations in it.
    pub operation_count: i32,
    /// Last address of the page in it.
    pub last_url: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginOutcome {
    Recording(AccountId),
    /// It was deleted, or the session does not exist.
    Deleted,
}

/// May be repeated with the same key.
pub async fn begin(conn: &mut PgConnection, session: SessionId, sealed_key: &[u8]) -> sqlx::Result<BeginOutcome> {
    let account = sqlx::query_scalar!(
        r#"with account as (
               select account_id from sessions where id = $1
           ), added as (
               insert into recordings (session_id, account_id, sealed_key)
               select $1, account_id, $2 from account on conflict (session_id) do nothing
           )
           select a.account_id as "account_id: AccountId" from account a
           where not exists (select from recordings where session_id = $1 and (removable_at is not null or sealed_key <> $2))"#,
        session as _,
        sealed_key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(account.map_or(BeginOutcome::Deleted, BeginOutcome::Recording))
}

/// Returns false when the recording was deleted. May be repeated.
pub async fn add_segment(conn: &mut PgConnection, new: &NewSegment<'_>) -> sqlx::Result<bool> {
    let added = sqlx::query_scalar!(
        r#"with recording as materialized (
               select session_id from recordings where session_id = $1 and removable_at is null for no key update
           ), segment as (
               insert into recording_segments (session_id, kind, first_seq, last_seq, operations, content, is_stored)
               select session_id, $2, $3, $4, $5, $6, $6::bytea is not null from recording
               on conflict do nothing returning session_id
           ), counted as (
               update recordings r set bytes = r.bytes + $7, operation_count = r.operation_count + $8,
                      last_url = coalesce($9, r.last_url), updated_at = now()
               from segment where r.session_id = segment.session_id
           )
           select exists (select from recording) as "exists!""#,
        new.session as _,
        new.kind as _,
        new.first_seq,
        new.last_seq,
        new.operations,
        new.content,
        new.size_bytes,
        new.operation_count,
        new.last_url,
    );
    added.fetch_one(conn).await
}

/// The bucket has the segment.
pub async fn mark_stored(
    conn: &mut PgConnection,
    session: SessionId,
    kind: SegmentKind,
    first_seq: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update recording_segments set is_stored = true where session_id = $1 and kind = $2 and first_seq = $3",
        session as _,
        kind as _,
        first_seq,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the account of a recording that was not deleted, if this call marked its end.
pub async fn finish(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(
        r#"update recordings set ended_at = now() where session_id = $1 and ended_at is null and removable_at is null
           returning account_id as "account_id: AccountId""#,
        session as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Clone)]
pub struct Recording {
    pub session: SessionId,
    pub sealed_key: Vec<u8>,
    pub bytes: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// `None` if nothing is recorded, or if the recording was deleted.
pub async fn find(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<Recording>> {
    sqlx::query_as!(
        Recording,
        "select session_id as session, sealed_key, bytes, created_at, updated_at from recordings
         where session_id = $1 and removable_at is null",
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// Account of a recording that was not deleted.
pub async fn account_of(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(
        r#"select account_id as "account_id: AccountId" from recordings where session_id = $1 and removable_at is null"#,
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// True if no event will follow: the session has ended, and so has its recording, which may begin to be stored only after the session has
/// ended. Also true for a session that is not recorded.
pub async fn has_ended(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<bool> {
    let ended = sqlx::query_scalar!(
        r#"select (not s.live and (r.ended_at is not null or greatest(r.updated_at, s.updated_at) < now() - make_interval(secs => $2)))
                  or (s.record = 'off' and r.session_id is null) or r.removable_at is not null as "ended!"
           from sessions s left join recordings r on r.session_id = s.id where s.id = $1"#,
        session as _,
        SILENT_END.as_secs_f64(),
    );
    Ok(ended.fetch_optional(conn).await?.unwrap_or(true))
}

/// A segment as it is stored.
#[derive(Debug)]
pub struct Segment {
    pub first_seq: i64,
    pub last_seq: i64,
    /// `None` if it is in a bucket.
    pub content: Option<Vec<u8>>,
}

/// The first completely stored segment that ends after `seq`. `None` also when the recording was deleted meanwhile.
pub async fn segment_after(
    conn: &mut PgConnection,
    session: SessionId,
    kind: SegmentKind,
    seq: i64,
) -> sqlx::Result<Option<Segment>> {
    sqlx::query_as!(
        Segment,
        "select first_seq, last_seq, content from recording_segments
         where session_id = $1 and kind = $2 and is_stored and last_seq > $3
           and first_seq >= coalesce((select max(first_seq) from recording_segments
                                      where session_id = $1 and kind = $2 and first_seq <= $3 + 1), 0)
           and exists (select from recordings where session_id = $1 and removable_at is null)
         order by first_seq limit 1",
        session as _,
        kind as _,
        seq,
    )
    .fetch_optional(conn)
    .await
}

/// Those of the given operations that have a picture.
pub async fn with_pictures(
    conn: &mut PgConnection,
    session: SessionId,
    operations: &[Uuid],
) -> sqlx::Result<Vec<OperationId>> {
    sqlx::query_scalar!(
        r#"select o.id as "id!: OperationId" from recording_segments g join recordings r using (session_id),
                  unnest(g.operations) as o (id)
           where g.session_id = $1 and g.kind = 'pictures' and g.is_stored and g.operations && $2 and r.removable_at is null
             and o.id = any($2)"#,
        session as _,
        operations,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaState {
    Fits,
    /// Only recordings of live sessions are left.
    Exceeded,
}

/// Deletes the oldest recordings of the account that have ended, other than `session`'s, until the others have at most `quota`
/// bytes. `conn` is in a transaction.
pub async fn make_room(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    quota: u64,
) -> sqlx::Result<QuotaState> {
    let quota = i64::try_from(quota).unwrap_or(i64::MAX);
    // Concurrent calls of one account would each delete as much.
    sqlx::query_scalar!(
        "select pg_advisory_xact_lock(hashtextextended('recordings ' || $1::uuid::text, 0))::text as locked",
        account as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    let left = sqlx::query_scalar!(
        r#"with kept as (
               select session_id, bytes, created_at, ended_at is not null or updated_at < now() - interval '1 hour' as ended
               from recordings where account_id = $1 and removable_at is null
           ), oldest as (
               select session_id, bytes, sum(bytes) over (order by created_at, session_id) - bytes as freed_before
               from kept where ended and session_id <> $2
           ), removed as (
               update recordings r set removable_at = now() from oldest o
               where r.session_id = o.session_id and r.removable_at is null
                 and ((select coalesce(sum(bytes), 0) from kept) - o.freed_before)::bigint > $3
               returning r.bytes
           )
           select ((select coalesce(sum(bytes), 0) from kept) - (select coalesce(sum(bytes), 0) from removed))::bigint as "left!""#,
        account as _,
        session as _,
        quota,
    )
    .fetch_one(conn)
    .await?;
    Ok(if left > quota { QuotaState::Exceeded } else { QuotaState::Fits })
}

/// Deletes a recording for the customer: from then on it is not shown. `false` if there is none. `conn` is in a transaction. The
/// links to its trace are revoked.
pub async fn delete(
    conn: &mut PgConnection,
    account: AccountId,
    session: SessionId,
    actor: &Actor,
) -> sqlx::Result<bool> {
    let deleted = sqlx::query!(
        "update recordings set removable_at = now() where session_id = $1 and account_id = $2 and removable_at is null",
        session as _,
        account as _,
    );
    if deleted.execute(&mut *conn).await?.rows_affected() == 0 {
        return Ok(false);
    }
    trace_links::revoke_all(&mut *conn, session).await?;
    let entry = Entry {
        action: "session.recording_deleted",
        target: Some(session.to_string()),
        payload: serde_json::json!({"session_id": session}),
    };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!(
        "update recordings set removable_at = now() where account_id = $1 and removable_at is null",
        account as _,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "update trace_links l set revoked_at = now() from sessions s
         where s.id = l.session_id and s.account_id = $1 and l.revoked_at is null",
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes recordings without an event for the time. A recording of a live session is kept as long as the session. Returns their
/// number.
pub async fn expire(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let expired = sqlx::query!(
        "update recordings set removable_at = now() where session_id = any(array(
             select r.session_id from recordings r
             where r.removable_at is null and r.updated_at < now() - make_interval(secs => $1)
               and not exists (select from sessions s where s.id = r.session_id and s.live)
             order by r.updated_at limit $2 for update of r skip locked))",
        age.as_secs_f64(),
        limit,
    );
    Ok(expired.execute(conn).await?.rows_affected())
}

/// The deleted recording that has waited longest; its row is locked until the transaction ends.
pub async fn take_removable(conn: &mut PgConnection) -> sqlx::Result<Option<SessionId>> {
    sqlx::query_scalar!(
        r#"select session_id as "session_id: SessionId" from recordings where removable_at <= now()
           order by removable_at limit 1 for update skip locked"#,
    )
    .fetch_optional(conn)
    .await
}

/// As [`take_removable`], for one recording.
pub async fn take_if_removable(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<bool> {
    let taken = sqlx::query_scalar!(
        r#"select session_id as "session_id: SessionId" from recordings
           where session_id = $1 and removable_at <= now() for update skip locked"#,
        session as _,
    );
    Ok(taken.fetch_optional(conn).await?.is_some())
}

/// Segments of a recording that may be in a bucket.
pub async fn objects(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Vec<(SegmentKind, i64)>> {
    let rows = sqlx::query!(
        r#"select kind as "kind: SegmentKind", first_seq from recording_segments where session_id = $1 and content is null"#,
        session as _,
    );
    Ok(rows.fetch_all(conn).await?.into_iter().map(|row| (row.kind, row.first_seq)).collect())
}

/// Removes a recording whose objects are gone from the bucket.
///
/// The row of a live session's recording stays without its segments, so that its worker does not record it anew.
pub async fn remove(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<()> {
    sqlx::query!("delete from recording_segments where session_id = $1", session as _).execute(&mut *conn).await?;
    let kept = sqlx::query!(
        "update recordings set removable_at = now() + interval '1 hour', bytes = 0, last_url = null
         where session_id = $1 and exists (select from sessions where id = $1 and live)",
        session as _,
    );
    if kept.execute(&mut *conn).await?.rows_affected() == 0 {
        sqlx::query!("delete from recordings where session_id = $1", session as _).execute(conn).await?;
    }
    Ok(())
}

/// Tries the removal again in 5 min, so that other recordings come first.
pub async fn postpone_removal(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<()> {
    sqlx::query!(
        "update recordings set removable_at = now() + interval '5 minutes' where session_id = $1 and removable_at is not null",
        session as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}
