//! Deliveries of events to endpoints. The row of a delivery is also the schedule of its attempts.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, DeliveryId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use strum::VariantArray as _;
use uuid::Uuid;

use super::endpoints::{self, ChangeError};
use crate::audit::{self, Actor, Entry};
use crate::cursors::id_bounds;
use crate::events::{self, EventType};

/// The last three are terminal.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    InFlight,
    Delivered,
    Failed,
    Dlq,
}

impl DeliveryStatus {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Counted by `service_webhook_delivery_terminal_total`.
    pub const COUNTED: [Self; 2] = [Self::Delivered, Self::Dlq];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone)]
pub struct Delivery {
    pub id: DeliveryId,
    pub endpoint_id: WebhookId,
    pub event_id: Uuid,
    pub event_type: String,
    pub status: DeliveryStatus,
    pub attempts: i32,
    pub next_attempt_at: Option<Timestamp>,
    pub last_response_status: Option<i32>,
    pub last_response_excerpt: Option<String>,
    pub last_error: Option<String>,
    pub duration_ms: Option<i64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub delivered_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub endpoint: Option<WebhookId>,
    pub status: Option<DeliveryStatus>,
    /// One of [`EventType::NAMES`].
    pub event_type: Option<&'static str>,
    /// Inclusive, and exclusive.
    pub created: (Option<Timestamp>, Option<Timestamp>),
    pub after: Option<DeliveryId>,
}

/// The newest first. There is a part for each combination of an endpoint and a status, which scans one index, whatever plan the
/// database selects.
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    filter: &Filter,
    limit: i64,
) -> sqlx::Result<Vec<Delivery>> {
    let (first, end) = id_bounds(filter.created, filter.after.map(|after| after.as_uuid()));
    sqlx::query_as!(
        Delivery,
        r#"select id, endpoint_id, event_id, event_type, status as "status: _", attempts,
                  case when status = 'pending' then next_attempt_at end as next_attempt_at, last_response_status,
                  last_response_excerpt, last_error, duration_ms, created_at, updated_at, delivered_at
           from webhook_deliveries where id = any(array(
               (select id from webhook_deliveries
                where $2::uuid is null and ($3::text is null or $3 = 'delivered') and account_id = $1
                  and ($3 is null or status = $3) and ($7::text is null or event_type = $7) and id < $4 and id >= $6
                  and created_at >= coalesce($8::timestamptz, '-infinity') and created_at < coalesce($9::timestamptz, 'infinity')
                order by id desc limit $5)
               union all
               (select id from webhook_deliveries
                where $2 is null and $3 <> 'delivered' and account_id = $1 and status = $3 and status <> 'delivered'
                  and ($7 is null or event_type = $7) and id < $4 and id >= $6
                  and created_at >= coalesce($8, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $5)
               union all
               (select id from webhook_deliveries
                where $3 is null and endpoint_id = $2 and account_id = $1
                  and ($7 is null or event_type = $7) and id < $4 and id >= $6
                  and created_at >= coalesce($8, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $5)
               union all
               (select id from webhook_deliveries
                where status = $3 and endpoint_id = $2 and account_id = $1
                  and ($7 is null or event_type = $7) and id < $4 and id >= $6
                  and created_at >= coalesce($8, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $5)
           )) order by id desc limit $5"#,
        account as _,
        filter.endpoint as _,
        filter.status.map(DeliveryStatus::name),
        end,
        limit,
        first,
        filter.event_type,
        filter.created.0 as _,
        filter.created.1 as _,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug)]
pub struct Detail {
    pub delivery: Delivery,
    /// Body of the requests.
    pub payload: Value,
    /// Headers of the last attempt; empty before it.
    pub headers: Vec<(&'static str, String)>,
    /// The oldest attempt is first.
    pub attempts: Vec<LoggedAttempt>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct LoggedAttempt {
    pub at: Timestamp,
    pub status: Option<i32>,
    pub duration_ms: i64,
    pub error: Option<String>,
    pub excerpt: Option<String>,
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: DeliveryId) -> sqlx::Result<Option<Detail>> {
    let row = sqlx::query!(
        r#"select d.id as "id: DeliveryId", d.endpoint_id as "endpoint_id: WebhookId", d.event_id, d.event_type,
                  d.status as "status: DeliveryStatus", d.attempts,
                  case when d.status = 'pending' then d.next_attempt_at end as "next_attempt_at: Timestamp",
                  d.last_response_status, d.last_response_excerpt, d.last_error, d.duration_ms,
                  d.created_at as "created_at: Timestamp", d.updated_at as "updated_at: Timestamp",
                  d.delivered_at as "delivered_at: Timestamp", d.attempts_log as "attempts_log: Json<Vec<LoggedAttempt>>",
                  d.last_signature, v.created_at as "event_created_at: Timestamp", v.data,
                  extract(epoch from now())::bigint as "now!"
           from webhook_deliveries d join events v on v.id = d.event_id where d.id = $1 and d.account_id = $2"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        let signature = row.last_signature.map(|signature| mask_recent(&signature, row.now));
        let headers = signature.map(|signature| headers(row.event_id, &row.event_type, signature).into());
        Detail {
            payload: body(row.event_id, &row.event_type, row.event_created_at, &row.data),
            headers: headers.unwrap_or_default(),
            attempts: row.attempts_log.map(|Json(log)| log).unwrap_or_default(),
            delivery: Delivery {
                id: row.id,
                endpoint_id: row.endpoint_id,
                event_id: row.event_id,
                event_type: row.event_type,
                status: row.status,
                attempts: row.attempts,
                next_attempt_at: row.next_attempt_at,
                last_response_status: row.last_response_status,
                last_response_excerpt: row.last_response_excerpt,
                last_error: row.last_error,
                duration_ms: row.duration_ms,
                created_at: row.created_at,
                updated_at: row.updated_at,
                delivered_at: row.delivered_at,
            },
        }
    }))
}

pub(super) fn body(event: Uuid, event_type: &str, created_at: Timestamp, data: &Value) -> Value {
    json!({"id": event, "type": event_type, "created_at": created_at, "data": data})
}

/// Headers of an attempt that are specific to a delivery, in the order of the contract (webhooks 16).
#[must_use]
pub fn headers(event: Uuid, event_type: &str, signature: String) -> [(&'static str, String); 4] {
    [
        ("Content-Type", "application/json".to_owned()),
        ("X-Service-Signature", signature),
        ("X-Service-Event-Id", event.to_string()),
        ("X-Service-Event-Type", event_type.to_owned()),
    ]
}

/// Receivers accept a signature for this long, so that a reader of the delivery could send it again.
const SIGNATURE_SECONDS: i64 = 300;

/// Masks the values of a signature that receivers still accept.
fn mask_recent(signature: &str, now: i64) -> String {
    let time = signature.strip_prefix("t=").and_then(|rest| rest.split(',').next()?.parse::<i64>().ok());
    if time.is_some_and(|time| now - time > SIGNATURE_SECONDS) {
        return signature.to_owned();
    }
    let masked = signature.split(',').map(|part| if part.starts_with("v1=") { "v1=•••" } else { part });
    masked.collect::<Vec<_>>().join(",")
}

#[derive(Debug, Clone)]
pub struct RequestedDelivery {
    pub delivery: DeliveryId,
    pub event: Uuid,
    pub event_type: String,
}

/// Sends a `test.ping` to an endpoint, regardless of its subscriptions, and writes `webhook_delivery.replayed`.
pub async fn send_test(
    conn: &mut PgConnection,
    account: AccountId,
    endpoint: WebhookId,
    actor: &Actor,
) -> Result<RequestedDelivery, ChangeError> {
    endpoints::require_active(&mut *conn, account, endpoint).await?;
    let triggered_by = actor.account().unwrap_or(account);
    let data = json!({
        "message": "This is a test of your webhook endpoint.",
        "endpoint_id": endpoint,
        "triggered_by_account_id": triggered_by,
    });
    let event = events::record(&mut *conn, account, EventType::TestPing, data).await?;
    let requested =
        insert_requested(&mut *conn, account, endpoint, event, EventType::TestPing.name().to_owned()).await?;
    let payload = json!({
        "via": "send_test_event",
        "endpoint_id": endpoint,
        "event_id": event,
        "event_type": requested.event_type,
    });
    record_replay(conn, account, actor, &requested, payload).await?;
    Ok(requested)
}

async fn insert_requested(
    conn: &mut PgConnection,
    account: AccountId,
    endpoint: WebhookId,
    event: Uuid,
    event_type: String,
) -> sqlx::Result<RequestedDelivery> {
    let delivery = DeliveryId::generate();
    sqlx::query_scalar!(
        r#"with made as (
               insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type) values ($1, $2, $3, $4, $5)
           )
           select pg_notify('jobs:webhooks', '')::text as notified"#,
        delivery as _,
        account as _,
        endpoint as _,
        event,
        event_type,
    )
    .fetch_one(conn)
    .await?;
    Ok(RequestedDelivery { delivery, event, event_type })
}

async fn record_replay(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    requested: &RequestedDelivery,
    payload: Value,
) -> sqlx::Result<()> {
    let entry = Entry { action: "webhook_delivery.replayed", target: Some(requested.delivery.to_string()), payload };
    audit::record(conn, account, actor, entry).await
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the delivery does not exist")]
    NoDelivery,
    #[error("the delivery has not ended yet")]
    UnderWay,
    #[error(transparent)]
    Endpoint(#[from] ChangeError),
}

impl From<sqlx::Error> for ReplayError {
    fn from(error: sqlx::Error) -> Self {
        Self::Endpoint(error.into())
    }
}

/// Sends the event of a completed delivery again, as a new delivery, and writes `webhook_delivery.replayed`.
pub async fn replay(
    conn: &mut PgConnection,
    account: AccountId,
    id: DeliveryId,
    actor: &Actor,
) -> Result<RequestedDelivery, ReplayError> {
    let original = sqlx::query!(
        r#"select endpoint_id, event_id, event_type, status as "status: DeliveryStatus" from webhook_deliveries
           where account_id = $1 and id = $2"#,
        account as _,
        id as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(ReplayError::NoDelivery)?;
    if matches!(original.status, DeliveryStatus::Pending | DeliveryStatus::InFlight) {
        return Err(ReplayError::UnderWay);
    }
    endpoints::require_active(&mut *conn, account, original.endpoint_id).await?;
    let requested =
        insert_requested(&mut *conn, account, original.endpoint_id, original.event_id, original.event_type).await?;
    let payload = json!({
        "via": "replay",
        "endpoint_id": original.endpoint_id,
        "replayed_delivery_id": id,
        "event_id": original.event_id,
        "event_type": requested.event_type,
    });
    record_replay(conn, account, actor, &requested, payload).await?;
    Ok(requested)
}

/// Contract: retention 4.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from webhook_deliveries where id = any(array(
             select id from webhook_deliveries
             where id < uuid_v7_of(now() - make_interval(secs => $1)) and next_attempt_at is null order by id limit $2
             for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Such deliveries then wait with the others.
pub async fn put_back_paused(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let put_back = sqlx::query!(
        "update webhook_deliveries d set status = 'pending', updated_at = now()
         from webhook_endpoints e
         where e.id = d.endpoint_id and not e.active and e.disabled_at is null
           and d.status = 'in_flight' and d.next_attempt_at <= now()",
    )
    .execute(conn)
    .await?;
    Ok(put_back.rows_affected())
}

/// Includes deliveries whose attempt was lost.
pub async fn give_up(conn: &mut PgConnection) -> sqlx::Result<i64> {
    // Lock endpoints before their deliveries, as everywhere.
    sqlx::query_scalar!(
        r#"with disabled as materialized (
               select e.id, e.account_id from webhook_endpoints e
               where e.disabled_at is not null
                 and exists (select from webhook_deliveries d
                             where d.endpoint_id = e.id and d.status in ('pending', 'in_flight'))
               order by e.id for no key update
           ), given_up as (
               update webhook_deliveries d
               set status = 'failed', next_attempt_at = null, due = false, updated_at = now(),
                   last_error = 'the endpoint was disabled'
               from disabled e
               where d.endpoint_id = e.id and d.status in ('pending', 'in_flight')
                 and (d.status = 'pending' or d.next_attempt_at <= now())
               returning d.endpoint_id
           ), counted as (
               update webhook_endpoints e set failed = e.failed + g.count
               from (select endpoint_id, count(*) from given_up group by endpoint_id) g where e.id = g.endpoint_id
           )
           select count(*) as "count!" from given_up"#,
    )
    .fetch_one(conn)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_signature_is_masked() {
        let signature = "t=1700000000,v1=35495024,v1=b4";
        assert_eq!(mask_recent(signature, 1_700_000_300), "t=1700000000,v1=•••,v1=•••");
        assert_eq!(mask_recent(signature, 1_700_000_301), signature);
        assert_eq!(mask_recent("t=x,v1=35", 1_700_000_301), "t=x,v1=•••");
    }
}
