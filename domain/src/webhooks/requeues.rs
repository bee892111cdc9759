//! Bulk requeue of dead letters (contract: staff 12), of an endpoint or an account, in batches of limited size.
//!
//! A requeue has a filter and the last requeued delivery. The process that works on the next batch locks the row: one
//! process at a time works on it, and another continues after a failure. A delivery that becomes a dead letter again is
//! not requeued again.
//!
//! Requeued deliveries are attempted like all others, so the pace of the batches protects the others. A batch of the
//! scheduled job is small, all requeues take turns, and an endpoint never has more than a few requeued deliveries that
//! are due or in flight. New deliveries to the same endpoint therefore do not wait behind a hundred thousand old ones,
//! and an endpoint that takes long for each request delays only its own requeue.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, DeliveryId, RequeueId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::dead_letters::{self, Refusal, RequeueError};

/// Size of one batch. Changes of its endpoints and results of attempts to reach them wait for its transaction.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Maximum number of deliveries.
    pub deliveries: i64,
    /// Maximum number of deliveries of an endpoint that are due or in flight after the batch, including those that were not requeued.
    /// `None` for no limit.
    pub of_endpoint: Option<i64>,
}

impl BatchLimits {
    /// For an operator who waits for the end, possibly while no worker runs.
    pub const COMMAND: Self = Self { deliveries: 200, of_endpoint: None };
    /// For the scheduled job, with a [`PAUSE`] after each batch. An endpoint has 32 concurrent attempts at a worker, and claims skip it
    /// when more than half of them run: the other half is free for new deliveries.
    pub const JOB: Self = Self { deliveries: 4, of_endpoint: Some(16) };
}

/// Pause of the scheduled job after each batch, which limits all requeues together to 40 deliveries a second. Attempts of more deliveries
/// would slow those of other deliveries down on a machine with two processors.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Result of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// Deliveries were requeued, or the requeue is done.
    Requeued,
    /// The endpoints of all remaining deliveries have enough to do.
    Waiting,
}

#[derive(Debug, Clone, Serialize)]
pub struct Requeue {
    pub id: RequeueId,
    pub account_id: AccountId,
    /// `None` for all endpoints of the account.
    pub endpoint_id: Option<WebhookId>,
    /// Earliest creation time; `None` for all.
    pub since: Option<Timestamp>,
    /// Part of the last error; `None` for all.
    pub error: Option<String>,
    /// Number of dead letters when the requeue was requested.
    pub total: i64,
    pub requeued: i64,
    pub created_at: Timestamp,
    pub paused_at: Option<Timestamp>,
    pub done_at: Option<Timestamp>,
}

/// Deliveries of a requeue, except those that another requeue has sent again since.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Outcome {
    pub waiting: i64,
    pub delivered: i64,
    /// Deliveries that are dead letters again, or were given up because their endpoint went away.
    pub failed: i64,
}

#[derive(Debug, Clone, Copy)]
pub enum DeadLetterFilter {
    Endpoint(WebhookId),
    /// Dead letters of an account, except those of its disabled endpoints.
    Account(AccountId),
}

/// `None` when there is no such account.
pub async fn begin(
    conn: &mut PgConnection,
    filter: DeadLetterFilter,
    since: Option<Timestamp>,
    error: Option<&str>,
) -> Result<Option<Requeue>, RequeueError> {
    let (account, endpoint) = match filter {
        DeadLetterFilter::Endpoint(id) => {
            let endpoint = sqlx::query!(
                r#"select account_id, disabled_at is not null as "disabled!" from webhook_endpoints where id = $1"#,
                id as _,
            );
            let refuse = |refusal| Err(RequeueError::Refused(vec![refusal]));
            match endpoint.fetch_optional(&mut *conn).await? {
                None => return refuse(Refusal::NoEndpoint(id)),
                Some(endpoint) if endpoint.disabled => return refuse(Refusal::Disabled(id)),
                Some(endpoint) => (endpoint.account_id, Some(id)),
            }
        }
        DeadLetterFilter::Account(id) => (id, None),
    };
    // Of concurrent requests, the later waits here and then finds the requeue of the earlier.
    sqlx::query!("select from accounts where id = $1 for no key update", account as _)
        .fetch_optional(&mut *conn)
        .await?;
    let open = sqlx::query_scalar!(
        r#"select id as "id: RequeueId" from delivery_requeues
           where done_at is null and account_id = $1 and (endpoint_id is null or $2::uuid is null or endpoint_id = $2)
           limit 1"#,
        account as _,
        endpoint as _,
    );
    if let Some(open) = open.fetch_optional(&mut *conn).await? {
        return Err(RequeueError::Refused(vec![Refusal::UnderWay(open)]));
    }
    Ok(sqlx::query_as!(
        Requeue,
        r#"insert into delivery_requeues (id, account_id, endpoint_id, since, error, total)
           select $1, a.id, $3, $4, $5,
                  (select count(*) from webhook_endpoints e join webhook_deliveries d on d.endpoint_id = e.id
                   where e.account_id = a.id and e.disabled_at is null and ($3::uuid is null or e.id = $3)
                     and d.status = 'dlq' and ($4::timestamptz is null or d.created_at >= $4)
                     and ($5::text is null
                          or strpos(lower(delivery_error(d.last_error, d.last_response_status)), lower($5)) > 0))
           from accounts a where a.id = $2
           returning id, account_id, endpoint_id, since, error, total, requeued, created_at, paused_at, done_at"#,
        RequeueId::generate() as _,
        account as _,
        endpoint as _,
        since as _,
        error,
    )
    .fetch_optional(conn)
    .await?)
}

pub async fn find(conn: &mut PgConnection, id: RequeueId) -> sqlx::Result<Option<Requeue>> {
    sqlx::query_as!(
        Requeue,
        "select id, account_id, endpoint_id, since, error, total, requeued, created_at, paused_at, done_at
         from delivery_requeues where id = $1",
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// The newest first.
pub async fn list(conn: &mut PgConnection, before: Option<RequeueId>, limit: i64) -> sqlx::Result<Vec<Requeue>> {
    sqlx::query_as!(
        Requeue,
        "select id, account_id, endpoint_id, since, error, total, requeued, created_at, paused_at, done_at
         from delivery_requeues where id < $1 order by id desc limit $2",
        before.map_or(Uuid::max(), |before| before.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

pub async fn outcome(conn: &mut PgConnection, id: RequeueId) -> sqlx::Result<Outcome> {
    sqlx::query_as!(
        Outcome,
        r#"select count(*) filter (where status in ('pending', 'in_flight')) as "waiting!",
                  count(*) filter (where status = 'delivered') as "delivered!",
                  count(*) filter (where status in ('dlq', 'failed')) as "failed!"
           from webhook_deliveries where requeue_id = $1"#,
        id as _,
    )
    .fetch_one(conn)
    .await
}

/// Waits for the batch that is being requeued. `None` when the requeue is done, or paused already.
pub async fn pause(conn: &mut PgConnection, id: RequeueId) -> sqlx::Result<Option<AccountId>> {
    let paused = sqlx::query_scalar!(
        r#"update delivery_requeues set paused_at = now() where id = $1 and done_at is null and paused_at is null
           returning account_id as "account: AccountId""#,
        id as _,
    );
    paused.fetch_optional(conn).await
}

/// `None` when the requeue is not paused.
pub async fn resume(conn: &mut PgConnection, id: RequeueId) -> sqlx::Result<Option<AccountId>> {
    let resumed = sqlx::query_scalar!(
        r#"update delivery_requeues set paused_at = null where id = $1 and done_at is null and paused_at is not null
           returning account_id as "account: AccountId""#,
        id as _,
    );
    resumed.fetch_optional(conn).await
}

pub async fn any_under_way(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let open = sqlx::query_scalar!(
        r#"select exists(select from delivery_requeues where done_at is null and paused_at is null) as "open!""#
    );
    open.fetch_one(conn).await
}

/// Requeues the next dead letters of a requeue, or of the one whose last batch was the longest ago. `None` when it is done
/// or paused, another process works on it, or there is none.
pub async fn requeue_batch(
    conn: &mut PgConnection,
    requeue: Option<RequeueId>,
    limits: BatchLimits,
) -> sqlx::Result<Option<Batch>> {
    let open = sqlx::query!(
        r#"select id as "id: RequeueId", account_id, endpoint_id, since, error, after as "after: DeliveryId", created_at
           from delivery_requeues
           where done_at is null and paused_at is null and ($1::uuid is null or id = $1)
           order by batch_at nulls first, id limit 1 for update skip locked"#,
        requeue as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(open) = open else { return Ok(None) };
    let next = sqlx::query!(
        r#"with candidate as materialized (
               select d.id, e.account_id, e.id as endpoint_id, row_number() over (partition by e.id order by d.id) as place
               from webhook_endpoints e
               cross join lateral (
                   select id from webhook_deliveries
                   -- Not a constant, for which the index of the dead letters of all endpoints would be scanned.
                   where endpoint_id = e.id and status = (select 'dlq') and id > $3
                     and requeue_id is distinct from $8 and ($4::timestamptz is null or created_at >= $4) and created_at <= $5
                     and ($7::text is null or strpos(lower(delivery_error(last_error, last_response_status)), lower($7)) > 0)
                   order by id limit $6
               ) d
               where e.account_id = $1 and e.disabled_at is null and ($2::uuid is null or e.id = $2)
           ), endpoint as materialized (
               select e.endpoint_id, case when $9::bigint is null then $6 else $9 - (
                          select count(*) from (
                              select from webhook_deliveries d
                              where d.account_id = e.account_id and d.endpoint_id = e.endpoint_id and d.due limit $9
                          ) due
                      ) - (
                          select count(*) from (
                              select from webhook_deliveries d
                              where d.endpoint_id = e.endpoint_id and d.status = 'in_flight' limit $9
                          ) in_flight
                      ) end as room
               from (select distinct account_id, endpoint_id from candidate) e
           )
           select c.id as "id!: DeliveryId", c.endpoint_id as "endpoint_id!: Uuid", c.place <= e.room as "has_room!",
                  bool_or(c.place > e.room) over () as "any_without_room!"
           from candidate c join endpoint e on e.endpoint_id = c.endpoint_id
           order by c.place <= e.room desc, c.id limit $6"#,
        open.account_id as _,
        open.endpoint_id as _,
        // Must not be null, because it is the start of an index range, which skips the rows requeued before.
        open.after.map_or(Uuid::nil(), |after| after.as_uuid()),
        open.since as _,
        open.created_at as _,
        limits.deliveries,
        open.error,
        open.id as _,
        limits.of_endpoint,
    )
    .fetch_all(&mut *conn)
    .await?;
    let any_without_room = next.iter().any(|row| row.any_without_room);
    let is_done = next.is_empty();
    let chosen: Vec<_> = next.iter().filter(|row| row.has_room).collect();
    // Lock endpoints before deliveries and in the order of their ids, as in every requeue.
    let endpoints = sqlx::query_scalar!(
        r#"select id as "id: Uuid" from webhook_endpoints where id = any($1) and disabled_at is null
           order by id for no key update"#,
        &chosen.iter().map(|row| row.endpoint_id).collect::<Vec<_>>(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let ids: Vec<_> = chosen.iter().filter(|row| endpoints.contains(&row.endpoint_id)).map(|row| row.id).collect();
    let requeued =
        if ids.is_empty() { 0 } else { dead_letters::send_again(&mut *conn, &ids, Some(open.id)).await?.len() };
    // Deliveries before this one may remain while their endpoint has no room.
    let after = if any_without_room { None } else { chosen.last().map(|row| row.id) };
    sqlx::query!(
        "update delivery_requeues
         set requeued = requeued + $2, after = coalesce($3, after), batch_at = clock_timestamp(),
             done_at = case when $4 then now() end
         where id = $1",
        open.id as _,
        i64::try_from(requeued).unwrap_or(i64::MAX),
        after as _,
        is_done,
    )
    .execute(conn)
    .await?;
    let is_waiting = any_without_room && chosen.is_empty();
    Ok(Some(if is_waiting { Batch::Waiting } else { Batch::Requeued }))
}

pub(crate) async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from delivery_requeues where id = any(array(
             select id from delivery_requeues
             where id < uuid_v7_of(now() - make_interval(secs => $1)) and done_at < now() - make_interval(secs => $1)
             order by id limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
