//! Open streams of timelines (contract: recordings 22). Each is a row with a lease, so that the streams of all processes count.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;
use uuid::Uuid;

/// Open streams of an account, by default.
pub const MAX_STREAMS: u32 = 16;

/// A stream that its process did not renew for this time counts as closed.
pub const LEASE: Duration = Duration::from_secs(30);

/// `None` if the account has this many open streams. `conn` is in a transaction.
pub async fn open(conn: &mut PgConnection, account: AccountId, max: u32) -> sqlx::Result<Option<Uuid>> {
    // Concurrent calls of one account would not count each other.
    sqlx::query_scalar!(
        "select pg_advisory_xact_lock(hashtextextended('timeline_streams ' || $1::uuid::text, 0))::text as locked",
        account as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query_scalar!(
        "insert into timeline_streams (id, account_id, until) select $2, $1, now() + make_interval(secs => $3)
         where (select count(*) from timeline_streams where account_id = $1 and until > now()) < $4
         returning id",
        account as _,
        Uuid::now_v7(),
        LEASE.as_secs_f64(),
        i64::from(max),
    )
    .fetch_optional(conn)
    .await
}

/// Also after the lease has ended, unless the row was purged.
pub async fn renew(conn: &mut PgConnection, stream: Uuid) -> sqlx::Result<()> {
    sqlx::query!(
        "update timeline_streams set until = now() + make_interval(secs => $2) where id = $1",
        stream,
        LEASE.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn close(conn: &mut PgConnection, stream: Uuid) -> sqlx::Result<()> {
    sqlx::query!("delete from timeline_streams where id = $1", stream).execute(conn).await?;
    Ok(())
}

/// Deletes streams whose lease has ended.
pub(super) async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from timeline_streams where id = any(array(
             select id from timeline_streams where until < now() - make_interval(secs => $1)
             order by until limit $2 for update skip locked))",
        LEASE.as_secs_f64(),
        limit,
    );
    Ok(purged.execute(conn).await?.rows_affected())
}
