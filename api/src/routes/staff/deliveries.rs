//! Webhook deliveries of all customers, and requeueing of dead letters.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use kitfleet_domain::ids::{AccountId, DeliveryId, RequeueId, WebhookId};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::{Invalid, Rules, both};
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::webhooks::deliveries::DeliveryStatus;
use kitfleet_domain::webhooks::requeues::{self, DeadLetterFilter};
use kitfleet_jobs::staff;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::json::Unchecked;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoRequeue, OutOfPlace, Unauthorized, named, one_of};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum number of deliveries named in one request.
const MOST_NAMED: usize = 1_000;

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(list)).for_staff(routes!(requeue)).for_staff(routes!(get_requeue))
}

/// Webhook delivery, without the request and response bodies
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "event_type": "session.completed", "status": "dlq",
    "attempts": 6, "last_response_status": 500, "last_error": null, "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct AnyDelivery {
    /// Delivery ID
    #[schema(value_type = String)]
    id: DeliveryId,
    /// Account that owns the endpoint
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Target endpoint
    #[schema(value_type = String)]
    endpoint_id: WebhookId,
    /// Type of the event
    event_type: String,
    /// Delivery status
    #[schema(schema_with = status)]
    status: DeliveryStatus,
    /// Number of finished attempts
    attempts: i32,
    /// HTTP status of the endpoint's last response
    #[schema(required = true)]
    last_response_status: Option<i32>,
    /// Reason the last attempt got no response
    #[schema(required = true)]
    last_error: Option<String>,
    /// Time the delivery was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

fn status() -> RefOr<Schema> {
    named("WebhookDeliveryStatus", one_of(DeliveryStatus::NAMES, None))
}

impl From<dead_letters::DeliveryRow> for AnyDelivery {
    fn from(row: dead_letters::DeliveryRow) -> Self {
        Self {
            id: row.id,
            account_id: row.account_id,
            endpoint_id: row.endpoint_id,
            event_type: row.event_type,
            status: row.status,
            attempts: row.attempts,
            last_response_status: row.last_response_status,
            last_error: row.last_error,
            created_at: row.created_at,
        }
    }
}

type AnyDeliveryList = Page<AnyDelivery>;

impl ListItem for AnyDelivery {
    const LIST: &'static str = "AnyDeliveryList";
    const MEANING: &'static str = "A page of webhook deliveries, newest first";
}

/// List webhook deliveries
#[utoipa::path(
    get, path = "/v1/admin/webhook-deliveries", tag = "Staff", operation_id = "listCustomersDeliveries",
    params(
        Paging,
        ("status" = Option<String>, Query, description = "Filter by status"),
        ("endpoint_id" = Option<String>, Query, description = "Filter by endpoint"),
        ("account_id" = Option<String>, Query, description = "Filter by account"),
    ),
    responses((status = 200, description = "A page", body = AnyDeliveryList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<AnyDeliveryList>> {
    let named = |text: &str| DeliveryStatus::ALL.iter().copied().find(|status| status.name() == text);
    let status = filter(&query, "status", named);
    let endpoint = filter(&query, "endpoint_id", |text| text.parse().ok());
    let account = filter(&query, "account_id", |text| text.parse().ok());
    let wanted = both(both(status, endpoint), account);
    let ((status, endpoint), account) = query.filters(wanted, &app.config.limits)?;
    let filters = [query.text("status")?, query.text("endpoint_id")?, query.text("account_id")?];
    let id_of = |row: &dead_letters::DeliveryRow| row.id.as_uuid();
    let page =
        lists::page(&app, &query, cursors("customers_deliveries", &filters), id_of, async |conn, before, limit| {
            let before = before.map(DeliveryId::from);
            dead_letters::list(conn, &dead_letters::Filter { status, endpoint, account, before, limit }).await
        });
    Ok(Answer(page.await?.map(AnyDelivery::from)))
}

/// Dead letters to requeue, selected by exactly one of the first three fields
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "reason": "their server is back"}))]
struct RequeueDeliveries {
    /// Deliveries to requeue. If one cannot be requeued, none is
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 1000)]
    delivery_ids: Option<Vec<String>>,
    /// Endpoint whose dead letters are requeued
    #[schema(value_type = Option<String>)]
    endpoint_id: Option<String>,
    /// Account whose dead letters are requeued, except those of disabled endpoints
    #[schema(value_type = Option<String>)]
    account_id: Option<String>,
    /// Earliest creation time of the deliveries; only with `endpoint_id` or `account_id`
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Reason, recorded in the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Requeued deliveries
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"requeued": ["wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1"]}))]
struct RequeuedDeliveries {
    /// IDs of the deliveries
    #[schema(value_type = Vec<String>)]
    requeued: Vec<DeliveryId>,
}

/// Progress of a requeue
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "rqu_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "endpoint_id": null, "since": null, "total": 100_000, "requeued": 41_000, "created_at": "2026-11-20T18:05:00.123Z",
    "done_at": null,
}))]
struct RequeueProgress {
    /// Requeue ID
    #[schema(value_type = String)]
    id: RequeueId,
    /// Account that owns the deliveries
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Target endpoint of the deliveries; null for all endpoints of the account
    #[schema(value_type = Option<String>, required = true)]
    endpoint_id: Option<WebhookId>,
    /// Earliest creation time of the deliveries; null for all
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    since: Option<Timestamp>,
    /// Number of dead letters at the time of the request
    total: i64,
    /// Number of deliveries requeued so far
    requeued: i64,
    /// Time the requeue was requested
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the requeue finished; null while it is running
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    done_at: Option<Timestamp>,
}

impl From<requeues::Requeue> for RequeueProgress {
    fn from(requeue: requeues::Requeue) -> Self {
        let requeues::Requeue { id, account_id, endpoint_id, since, total, requeued, created_at, done_at } = requeue;
        Self { id, account_id, endpoint_id, since, total, requeued, created_at, done_at }
    }
}

/// Dead letters that a body selects.
enum DeadLetterSelection {
    Named(Vec<DeliveryId>),
    All(DeadLetterFilter, Option<Timestamp>),
}

impl RequeueDeliveries {
    fn check(&self) -> Result<(), Invalid> {
        let mut rules = Rules::default();
        let named = self.delivery_ids.as_ref().map(Vec::len);
        let ways = [named.is_some(), self.endpoint_id.is_some(), self.account_id.is_some()];
        let message = "must have exactly one of delivery_ids, endpoint_id and account_id";
        rules.require(ways.into_iter().filter(|given| *given).count() == 1, "body", message);
        let is_alone = named.is_none() || self.since.is_none();
        rules.require(is_alone, "since", "is allowed only with endpoint_id or account_id");
        let is_bounded = named.is_none_or(|number| (1..=MOST_NAMED).contains(&number));
        rules.require(is_bounded, "delivery_ids", format!("must have 1 to {MOST_NAMED} entries"));
        rules.check()
    }

    fn wanted(&self) -> Result<DeadLetterSelection> {
        let since = self.since;
        match (&self.delivery_ids, &self.endpoint_id, &self.account_id) {
            (Some(ids), _, _) => Ok(DeadLetterSelection::Named(named_deliveries(ids)?)),
            (None, Some(id), _) => {
                let endpoint = id.parse().map_err(|_| not_found::<WebhookId>())?;
                Ok(DeadLetterSelection::All(DeadLetterFilter::Endpoint(endpoint), since))
            }
            (None, None, Some(id)) => {
                let account = id.parse().map_err(|_| not_found::<AccountId>())?;
                Ok(DeadLetterSelection::All(DeadLetterFilter::Account(account), since))
            }
            (None, None, None) => Err(Problem::internal(&"a validated body names no deliveries")),
        }
    }
}

fn named_deliveries(ids: &[String]) -> Result<Vec<DeliveryId>> {
    ids.iter().map(|id| id.parse().map_err(|_| not_found::<DeliveryId>())).collect()
}

/// Requeue dead letters
///
/// Sends dead letters again under their own IDs and resets their attempt counts. Requeueing all of an endpoint or account takes a
/// while: the response is then 202, and `GET /v1/admin/webhook-deliveries/requeues/{id}` returns the progress.
#[utoipa::path(
    post, path = "/v1/admin/webhook-deliveries/requeue", tag = "Staff", operation_id = "requeueDeliveries",
    request_body = RequeueDeliveries,
    responses(
        (status = 200, description = "The named deliveries are requeued", body = RequeuedDeliveries),
        (status = 202, description = "The requeue has started", body = RequeueProgress),
        Unauthorized, Body, NoRequeue, OutOfPlace, Database,
    ),
)]
async fn requeue(staff: Staff, State(app): State<App>, body: Unchecked<RequeueDeliveries>) -> Result<Response> {
    let (body, by) = body.check(|body| {
        let by = both(staff.because(&body.reason), body.check());
        by.map(|(by, ())| (body, by))
    })?;
    let wanted = body.wanted()?;
    let mut conn = app.db.acquire().await?;
    Ok(match wanted {
        DeadLetterSelection::Named(ids) => {
            let requeued = staff::requeue(&mut conn, &ids, &by).await?;
            Answer(RequeuedDeliveries { requeued }).into_response()
        }
        DeadLetterSelection::All(whose, since) => {
            let begun = staff::requeue_all(&mut conn, whose, since, &by).await?;
            (StatusCode::ACCEPTED, Answer(RequeueProgress::from(begun))).into_response()
        }
    })
}

/// Get a requeue
#[utoipa::path(
    get, path = "/v1/admin/webhook-deliveries/requeues/{id}", tag = "Staff", operation_id = "getRequeue",
    params(IdPath<RequeueId>),
    responses((status = 200, description = "The progress of the requeue", body = RequeueProgress), Unauthorized, NoRequeue, Database),
)]
async fn get_requeue(_: Staff, State(app): State<App>, path: IdPath<RequeueId>) -> Result<Answer<RequeueProgress>> {
    let found = requeues::find(&mut *app.db.acquire().await?, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<RequeueId>)?.into()))
}
