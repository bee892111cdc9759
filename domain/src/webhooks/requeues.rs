//! Bulk requeue of dead letters (contract: staff 12), of an endpoint or an account, in batches of limited size.
//!
//! A requeue has a filter and the last requeued delivery. The process that works on the next batch locks the row: one
//! process at a time works on it, and another continues after a failure. A delivery that becomes a dead letter again is
//! not requeued again.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, DeliveryId, RequeueId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::dead_letters::{self, Refusal, RequeueError};

/// Changes of the endpoint and results of attempts to reach it wait for the transaction.
pub const AT_ONCE: i64 = 200;

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
#[derive(Debug, Clone, Serialize)]
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

/// Requeues the next `limit` dead letters of the oldest requeue that no other process works on. Returns false when
/// there is none.
pub async fn go_on(conn: &mut PgConnection, limit: i64) -> sqlx::Result<bool> {
    let open = sqlx::query!(
        r#"select id as "id: RequeueId", account_id, endpoint_id, since, error, after as "after: DeliveryId", created_at
           from delivery_requeues where done_at is null and paused_at is null order by id limit 1 for update skip locked"#,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(open) = open else { return Ok(false) };
    // Lock endpoints before deliveries and in the order of their ids, as in every requeue.
    let endpoints = sqlx::query_scalar!(
        r#"select id as "id: Uuid" from webhook_endpoints
           where account_id = $1 and disabled_at is null and ($2::uuid is null or id = $2) order by id for no key update"#,
        open.account_id as _,
        open.endpoint_id as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    let next = sqlx::query_scalar!(
        r#"select d.id as "id: DeliveryId" from unnest($1::uuid[]) e (id)
           cross join lateral (
               select id from webhook_deliveries
               where endpoint_id = e.id and status = 'dlq' and id > $2
                 and ($3::timestamptz is null or created_at >= $3) and created_at <= $4
                 and ($6::text is null or strpos(lower(delivery_error(last_error, last_response_status)), lower($6)) > 0)
               order by id limit $5
           ) d
           order by d.id limit $5"#,
        &endpoints,
        // Must not be null, because it is the start of an index range, which skips the rows requeued before.
        open.after.map_or(Uuid::nil(), |after| after.as_uuid()),
        open.since as _,
        open.created_at as _,
        limit,
        open.error,
    )
    .fetch_all(&mut *conn)
    .await?;
    let requeued =
        if next.is_empty() { 0 } else { dead_letters::send_again(&mut *conn, &next, Some(open.id)).await?.len() };
    sqlx::query!(
        "update delivery_requeues
         set requeued = requeued + $2, after = coalesce($3, after), done_at = case when $3::uuid is null then now() end
         where id = $1",
        open.id as _,
        i64::try_from(requeued).unwrap_or(i64::MAX),
        next.last().copied() as _,
    )
    .execute(conn)
    .await?;
    Ok(true)
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
