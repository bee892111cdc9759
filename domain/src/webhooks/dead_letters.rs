//! Deliveries as operators see them, and the requeue of dead letters (contract: webhooks 21).

use std::collections::{BTreeMap, HashMap};

use kitfleet_types::ids::{AccountId, DeliveryId, RequeueId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::deliveries::DeliveryStatus;

/// Delivery as operators see it, without the request and response bodies, which belong to the customer.
#[derive(Debug, Serialize)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    pub account_id: AccountId,
    pub endpoint_id: WebhookId,
    pub event_type: String,
    pub status: DeliveryStatus,
    pub attempts: i32,
    pub last_response_status: Option<i32>,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Debug)]
pub struct Filter {
    pub status: Option<DeliveryStatus>,
    pub endpoint: Option<WebhookId>,
    pub account: Option<AccountId>,
    /// Part of the last error, in any case, of the newest [`SEARCHED`] deliveries that the rest of the filter selects. Only with a
    /// status.
    pub error: Option<String>,
    /// Earliest creation time. Only with a status.
    pub since: Option<Timestamp>,
    pub before: Option<DeliveryId>,
    pub limit: i64,
}

/// An error that no delivery has would otherwise be compared with those of all.
pub const SEARCHED: i64 = 10_000;

pub async fn list(conn: &mut PgConnection, filter: &Filter) -> sqlx::Result<Vec<DeliveryRow>> {
    if let Some(error) = &filter.error {
        return search(conn, filter, error).await;
    }
    sqlx::query_as!(
        DeliveryRow,
        r#"select id, account_id, endpoint_id, event_type, status as "status: _", attempts, last_response_status, last_error,
                  created_at
           from webhook_deliveries where id = any(array(
               (select id from webhook_deliveries
                where $1::text is null and $2::uuid is null and $4::uuid is null and id < $5 order by id desc limit $3)
               union all
               (select d.id from webhook_endpoints e
                cross join lateral (
                    select id from webhook_deliveries where endpoint_id = e.id and id < $5 order by id desc limit $3
                ) d
                where $1 is null and (e.id = $2 or $2 is null and $4 is not null) and ($4 is null or e.account_id = $4)
                order by d.id desc limit $3)
               union all
               -- Dead letters of all endpoints have an index.
               (select id from webhook_deliveries
                where $1 = 'dlq' and $2 is null and $4 is null and status = 'dlq' and id < $5
                  and ($6::timestamptz is null or created_at >= $6)
                order by id desc limit $3)
               union all
               -- The newest of each endpoint, of which an index has them by status, and of these the newest.
               (select d.id from webhook_endpoints e
                cross join lateral (
                    select id from webhook_deliveries
                    where endpoint_id = e.id and status = $1 and id < $5 and ($6 is null or created_at >= $6)
                    order by id desc limit $3
                ) d
                where $1 is not null and ($1 <> 'dlq' or $2 is not null or $4 is not null) and ($2 is null or e.id = $2) and ($4 is null or e.account_id = $4)
                order by d.id desc limit $3)
           )) order by id desc limit $3"#,
        filter.status.map(DeliveryStatus::name),
        filter.endpoint as _,
        filter.limit,
        filter.account as _,
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        filter.since as _,
    )
    .fetch_all(conn)
    .await
}

async fn search(conn: &mut PgConnection, filter: &Filter, error: &str) -> sqlx::Result<Vec<DeliveryRow>> {
    sqlx::query_as!(
        DeliveryRow,
        r#"with newest as (
               (select id, last_error, last_response_status from webhook_deliveries
                where $1 = 'dlq' and $2::uuid is null and $4::uuid is null and status = 'dlq'
                  and ($7::timestamptz is null or created_at >= $7)
                order by id desc limit $8)
               union all
               (select d.id, d.last_error, d.last_response_status from webhook_endpoints e
                cross join lateral (
                    select id, last_error, last_response_status from webhook_deliveries
                    where endpoint_id = e.id and status = $1 and ($7 is null or created_at >= $7)
                    order by id desc limit $8
                ) d
                where ($1 <> 'dlq' or $2 is not null or $4 is not null)
                  and ($2 is null or e.id = $2) and ($4 is null or e.account_id = $4)
                order by d.id desc limit $8)
           )
           select id, account_id, endpoint_id, event_type, status as "status: _", attempts, last_response_status, last_error,
                  created_at
           from webhook_deliveries where id = any(array(
               select id from newest
               where id < $5 and strpos(lower(delivery_error(last_error, last_response_status)), lower($6)) > 0
               order by id desc limit $3
           )) order by id desc"#,
        filter.status.map(DeliveryStatus::name),
        filter.endpoint as _,
        filter.limit,
        filter.account as _,
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        error,
        filter.since as _,
        SEARCHED,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no delivery {0}")]
    NoDelivery(DeliveryId),
    #[error("{0} is {1}, not dlq")]
    NotDead(DeliveryId, &'static str),
    #[error("{0} goes to {1}, which is disabled")]
    ToDisabled(DeliveryId, WebhookId),
    #[error("there is no endpoint {0}")]
    NoEndpoint(WebhookId),
    #[error("{0} is disabled")]
    Disabled(WebhookId),
    #[error("{0} requeues them already")]
    UnderWay(RequeueId),
}

impl Refusal {
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::NoDelivery(_) | Self::NoEndpoint(_))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RequeueError {
    #[error("nothing was requeued: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Refusal>),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Requeues dead letters under their ids, with their attempts reset to 0: all of them or none.
pub async fn requeue(conn: &mut PgConnection, ids: &[DeliveryId]) -> Result<Vec<DeliveryId>, RequeueError> {
    // Lock endpoints before deliveries, as at the end of an attempt, and in the order of their ids, so that concurrent
    // requeues cannot deadlock.
    sqlx::query!(
        "select from webhook_endpoints where id in (select endpoint_id from webhook_deliveries where id = any ($1))
         order by id for no key update",
        &uuids_of(ids),
    )
    .fetch_all(&mut *conn)
    .await?;
    let rows = sqlx::query!(
        r#"select d.id, d.status as "status: DeliveryStatus", d.endpoint_id, e.disabled_at is not null as "disabled!"
           from webhook_deliveries d join webhook_endpoints e on e.id = d.endpoint_id where d.id = any ($1)"#,
        &uuids_of(ids),
    )
    .fetch_all(&mut *conn)
    .await?;
    let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let refused = ids.iter().filter_map(|id| match rows.get(id) {
        None => Some(Refusal::NoDelivery(*id)),
        Some(row) if row.status != DeliveryStatus::Dlq => Some(Refusal::NotDead(*id, row.status.name())),
        Some(row) if row.disabled => Some(Refusal::ToDisabled(*id, row.endpoint_id)),
        Some(_) => None,
    });
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() { Ok(send_again(conn, ids, None).await?) } else { Err(RequeueError::Refused(refused)) }
}

pub async fn of_endpoint(conn: &mut PgConnection, endpoint: WebhookId) -> sqlx::Result<Vec<DeliveryId>> {
    sqlx::query_scalar!(
        r#"select id as "id: DeliveryId" from webhook_deliveries where endpoint_id = $1 and status = 'dlq' order by id"#,
        endpoint as _,
    )
    .fetch_all(conn)
    .await
}

pub async fn moved_since(
    conn: &mut PgConnection,
    ids: &[DeliveryId],
    since: Timestamp,
) -> sqlx::Result<Vec<DeliveryId>> {
    sqlx::query_scalar!(
        r#"select id as "id: DeliveryId" from webhook_deliveries where id = any ($1) and updated_at >= $2 order by id"#,
        &uuids_of(ids),
        since as _,
    )
    .fetch_all(conn)
    .await
}

/// The caller must hold the locks on the rows of their endpoints.
pub(super) async fn send_again(
    conn: &mut PgConnection,
    ids: &[DeliveryId],
    by: Option<RequeueId>,
) -> sqlx::Result<Vec<DeliveryId>> {
    let due = sqlx::query_scalar!(
        "with due as (
               update webhook_deliveries
               set status = 'pending', attempts = 0, next_attempt_at = now(), due = true, updated_at = now(), requeue_id = $2
               where id = any ($1) and status = 'dlq' returning id, endpoint_id
           ), counted as (
               update webhook_endpoints e set dlq = e.dlq - of_endpoint.count
               from (select endpoint_id, count(*) from due group by endpoint_id) of_endpoint
               where e.id = of_endpoint.endpoint_id
           )
           select id from due order by id",
        &uuids_of(ids),
        by as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    sqlx::query!("select pg_notify('jobs:webhooks', '')::text as notified").fetch_one(conn).await?;
    Ok(due)
}

pub async fn by_account(
    conn: &mut PgConnection,
    ids: &[DeliveryId],
) -> sqlx::Result<BTreeMap<AccountId, Vec<DeliveryId>>> {
    let owners =
        sqlx::query!("select id, account_id from webhook_deliveries where id = any ($1) order by id", &uuids_of(ids),);
    let mut accounts = BTreeMap::<_, Vec<_>>::new();
    for owner in owners.fetch_all(conn).await? {
        accounts.entry(owner.account_id).or_default().push(owner.id);
    }
    Ok(accounts)
}

fn uuids_of(ids: &[DeliveryId]) -> Vec<Uuid> {
    ids.iter().map(DeliveryId::as_uuid).collect()
}
