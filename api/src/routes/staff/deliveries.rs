//! Webhook deliveries of all customers, and requeueing of dead letters.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::webhooks::deliveries::DeliveryStatus;
use kitfleet_domain::webhooks::inspection;
use kitfleet_domain::webhooks::requeues::{self, DeadLetterFilter};
use kitfleet_jobs::staff;
use kitfleet_types::ids::{AccountId, DeliveryId, RequeueId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{ReasonBody, StaffAction, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::json::Unchecked;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoRequeue, OutOfPlace, Unauthorized, named, one_of};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum number of deliveries named in one request.
const MAX_NAMED: usize = 1_000;
/// Maximum number of characters of a part of an error.
const ERROR_CHARS: usize = 200;

pub fn routes() -> Routes {
    Routes::new()
        .for_staff(routes!(list))
        .for_staff(routes!(requeue))
        .for_staff(routes!(list_requeues))
        .for_staff(routes!(get_requeue))
        .for_staff(routes!(pause_requeue))
        .for_staff(routes!(resume_requeue))
        .for_staff(routes!(list_endpoints))
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
        ("error" = Option<String>, Query, description = "Part of the last error or of `HTTP` and the last status; only with `status`"),
        ("since" = Option<String>, Query, format = DateTime, description = "Earliest creation time; only with `status`"),
    ),
    responses((status = 200, description = "A page", body = AnyDeliveryList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<AnyDeliveryList>> {
    let named = |text: &str| DeliveryStatus::ALL.iter().copied().find(|status| status.name() == text);
    let status = filter(&query, "status", named);
    let endpoint = filter(&query, "endpoint_id", |text| text.parse().ok());
    let account = filter(&query, "account_id", |text| text.parse().ok());
    let since = with_status(&query, "since", query.time("since"));
    let error = with_status(&query, "error", query.parsed("error", error_part));
    let wanted = both(both(both(status, endpoint), account), both(error, since));
    let (((status, endpoint), account), (error, since)) = query.filters(wanted, &app.config.limits)?;
    let mut filters = [None; 5];
    for (value, name) in filters.iter_mut().zip(["status", "endpoint_id", "account_id", "error", "since"]) {
        *value = query.text(name)?;
    }
    let id_of = |row: &dead_letters::DeliveryRow| row.id.as_uuid();
    let page =
        lists::page(&app, &query, cursors("customers_deliveries", &filters), id_of, async |conn, before, limit| {
            let before = before.map(DeliveryId::from);
            dead_letters::list(conn, &dead_letters::Filter { status, endpoint, account, error, since, before, limit })
                .await
        });
    Ok(Answer(page.await?.map(AnyDelivery::from)))
}

/// Only the dead letters of an endpoint can be found fast enough for these filters.
fn with_status<T>(query: &Query, name: &'static str, read: Result<Option<T>, Invalid>) -> Result<Option<T>, Invalid> {
    let found = read?;
    if found.is_some() && query.text("status")?.is_none() {
        return Err(Invalid::field(name, "is allowed only with status"));
    }
    Ok(found)
}

fn error_part(text: &str) -> Result<String, Invalid> {
    let text = text.trim();
    let mut rules = Rules::default();
    rules.length(text, 1, ERROR_CHARS, "error");
    rules.check().map(|()| text.to_owned())
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
    /// Part of the last error, or of `HTTP` and the last status; only with `endpoint_id` or `account_id`
    #[schema(min_length = 1, max_length = 200)]
    error: Option<String>,
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
    "endpoint_id": null, "since": null, "error": null, "total": 100_000, "requeued": 41_000,
    "created_at": "2026-11-20T18:05:00.123Z", "paused_at": null, "done_at": null,
    "outcome": {"waiting": 900, "delivered": 40_000, "failed": 100},
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
    /// Part of the last error of the deliveries; null for all
    #[schema(required = true)]
    error: Option<String>,
    /// Number of dead letters at the time of the request
    total: i64,
    /// Number of deliveries requeued so far
    requeued: i64,
    /// Time the requeue was requested
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the requeue was paused; null unless it is paused
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    paused_at: Option<Timestamp>,
    /// Time the requeue finished; null while it is running
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    done_at: Option<Timestamp>,
    /// What became of the requeued deliveries; null in lists and at the start
    #[schema(required = true)]
    outcome: Option<RequeueOutcome>,
}

/// Requeued deliveries by their present state, except those that another requeue sent again
#[derive(Serialize, ToSchema)]
struct RequeueOutcome {
    /// Deliveries that wait for an attempt
    waiting: i64,
    /// Deliveries that have arrived
    delivered: i64,
    /// Deliveries that are dead letters again, or were given up
    failed: i64,
}

impl From<requeues::Outcome> for RequeueOutcome {
    fn from(outcome: requeues::Outcome) -> Self {
        let requeues::Outcome { waiting, delivered, failed } = outcome;
        Self { waiting, delivered, failed }
    }
}

impl From<requeues::Requeue> for RequeueProgress {
    fn from(requeue: requeues::Requeue) -> Self {
        Self {
            id: requeue.id,
            account_id: requeue.account_id,
            endpoint_id: requeue.endpoint_id,
            since: requeue.since,
            error: requeue.error,
            total: requeue.total,
            requeued: requeue.requeued,
            created_at: requeue.created_at,
            paused_at: requeue.paused_at,
            done_at: requeue.done_at,
            outcome: None,
        }
    }
}

type RequeueList = Page<RequeueProgress>;

impl ListItem for RequeueProgress {
    const LIST: &'static str = "RequeueList";
    const MEANING: &'static str = "A page of requeues, newest first";
}

/// Dead letters that a body selects.
enum DeadLetterSelection {
    Named(Vec<DeliveryId>),
    All(DeadLetterFilter),
}

impl RequeueDeliveries {
    fn check(&self) -> Result<(), Invalid> {
        let mut rules = Rules::default();
        let named = self.delivery_ids.as_ref().map(Vec::len);
        let selectors = [named.is_some(), self.endpoint_id.is_some(), self.account_id.is_some()];
        let message = "must have exactly one of delivery_ids, endpoint_id and account_id";
        rules.require(selectors.into_iter().filter(|given| *given).count() == 1, "body", message);
        for (name, is_given) in [("since", self.since.is_some()), ("error", self.error.is_some())] {
            rules.require(named.is_none() || !is_given, name, "is allowed only with endpoint_id or account_id");
        }
        if let Some(error) = &self.error {
            rules.length(error.trim(), 1, ERROR_CHARS, "error");
        }
        let is_bounded = named.is_none_or(|number| (1..=MAX_NAMED).contains(&number));
        rules.require(is_bounded, "delivery_ids", format!("must have 1 to {MAX_NAMED} entries"));
        rules.check()
    }

    fn wanted(&self) -> Result<DeadLetterSelection> {
        match (&self.delivery_ids, &self.endpoint_id, &self.account_id) {
            (Some(ids), _, _) => Ok(DeadLetterSelection::Named(named_deliveries(ids)?)),
            (None, Some(id), _) => {
                let endpoint = id.parse().map_err(|_| not_found::<WebhookId>())?;
                Ok(DeadLetterSelection::All(DeadLetterFilter::Endpoint(endpoint)))
            }
            (None, None, Some(id)) => {
                let account = id.parse().map_err(|_| not_found::<AccountId>())?;
                Ok(DeadLetterSelection::All(DeadLetterFilter::Account(account)))
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
        DeadLetterSelection::All(whose) => {
            let which = (body.since, body.error.as_deref().map(str::trim));
            let begun = staff::requeue_all(&mut conn, whose, which, &by).await?;
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
    shown(&app, &mut *app.db.acquire().await?, path.id()?).await
}

async fn shown(app: &App, conn: &mut PgConnection, id: RequeueId) -> Result<Answer<RequeueProgress>> {
    let found = requeues::find(&mut *conn, id).await?.ok_or_else(not_found::<RequeueId>)?;
    let outcome = Some(app.requeue_outcomes.of(conn, id).await?.into());
    Ok(Answer(RequeueProgress { outcome, ..found.into() }))
}

/// List requeues of deliveries
#[utoipa::path(
    get, path = "/v1/admin/webhook-deliveries/requeues", tag = "Staff", operation_id = "listRequeues", params(Paging),
    responses((status = 200, description = "A page", body = RequeueList), Unauthorized, InvalidQuery, Database),
)]
async fn list_requeues(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<RequeueList>> {
    let id_of = |requeue: &requeues::Requeue| requeue.id.as_uuid();
    let page = lists::page(&app, &query, cursors("requeues", &[]), id_of, async |conn, before, limit| {
        requeues::list(conn, before.map(RequeueId::from), limit).await
    });
    Ok(Answer(page.await?.map(RequeueProgress::from)))
}

/// Pause a requeue
///
/// The batch in progress is still requeued.
#[utoipa::path(
    post, path = "/v1/admin/webhook-deliveries/requeues/{id}/pause", tag = "Staff", operation_id = "pauseRequeue",
    params(IdPath<RequeueId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The progress of the requeue", body = RequeueProgress),
        Unauthorized, Body, NoRequeue, OutOfPlace, Database,
    ),
)]
async fn pause_requeue(
    State(app): State<App>,
    StaffAction { id, by }: StaffAction<RequeueId>,
) -> Result<Answer<RequeueProgress>> {
    let mut conn = app.db.acquire().await?;
    staff::pause_requeue(&mut conn, id, &by).await?;
    shown(&app, &mut conn, id).await
}

/// Resume a requeue
#[utoipa::path(
    post, path = "/v1/admin/webhook-deliveries/requeues/{id}/resume", tag = "Staff", operation_id = "resumeRequeue",
    params(IdPath<RequeueId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The progress of the requeue", body = RequeueProgress),
        Unauthorized, Body, NoRequeue, OutOfPlace, Database,
    ),
)]
async fn resume_requeue(
    State(app): State<App>,
    StaffAction { id, by }: StaffAction<RequeueId>,
) -> Result<Answer<RequeueProgress>> {
    let mut conn = app.db.acquire().await?;
    staff::resume_requeue(&mut conn, id, &by).await?;
    shown(&app, &mut conn, id).await
}

/// Webhook endpoint of any account, without its address
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "account_email": "ada@example.com", "host": "hooks.example.com", "is_active": true,
    "disabled_at": "2026-11-20T18:05:00.123Z", "consecutive_failures": 50, "delivered": 1200, "dead_letters": 50,
    "last_success_at": "2026-11-19T08:00:00.000Z", "last_failure_at": "2026-11-20T18:05:00.123Z", "last_error": "HTTP 500",
    "created_at": "2026-10-01T10:00:00.000Z",
}))]
struct AnyEndpoint {
    /// ID of the endpoint
    #[schema(value_type = String)]
    id: WebhookId,
    /// Account that owns the endpoint
    #[schema(value_type = String)]
    account_id: AccountId,
    /// E-mail address of the account
    account_email: String,
    /// Host and port of its address
    host: String,
    /// False while its owner has paused it
    is_active: bool,
    /// Time the service disabled it; null unless it is disabled
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    disabled_at: Option<Timestamp>,
    /// Failed attempts since the last success
    consecutive_failures: i32,
    /// Number of delivered events
    delivered: i64,
    /// Number of dead letters
    dead_letters: i64,
    /// Time of the last success
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_success_at: Option<Timestamp>,
    /// Time of the last failure
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_failure_at: Option<Timestamp>,
    /// Error of the newest dead letter
    #[schema(required = true)]
    last_error: Option<String>,
    /// Time the endpoint was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<inspection::EndpointRow> for AnyEndpoint {
    fn from(row: inspection::EndpointRow) -> Self {
        Self {
            id: row.id,
            account_id: row.account_id,
            account_email: row.account_email,
            host: row.host,
            is_active: row.is_active,
            disabled_at: row.disabled_at,
            consecutive_failures: row.consecutive_failures,
            delivered: row.delivered,
            dead_letters: row.dead_letters,
            last_success_at: row.last_success_at,
            last_failure_at: row.last_failure_at,
            last_error: row.last_error,
            created_at: row.created_at,
        }
    }
}

type AnyEndpointList = Page<AnyEndpoint>;

impl ListItem for AnyEndpoint {
    const LIST: &'static str = "AnyEndpointList";
    const MEANING: &'static str = "A page of webhook endpoints, newest first";
}

/// List webhook endpoints
#[utoipa::path(
    get, path = "/v1/admin/webhook-endpoints", tag = "Staff", operation_id = "listCustomersEndpoints",
    params(
        Paging,
        ("disabled" = Option<bool>, Query, description = "Only endpoints that the service has disabled"),
        ("account_id" = Option<String>, Query, description = "Filter by account"),
    ),
    responses((status = 200, description = "A page", body = AnyEndpointList), Unauthorized, InvalidQuery, Database),
)]
async fn list_endpoints(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<AnyEndpointList>> {
    let disabled = filter(&query, "disabled", |text| text.parse::<bool>().ok());
    let account = filter(&query, "account_id", |text| text.parse().ok());
    let (disabled, account) = query.filters(both(disabled, account), &app.config.limits)?;
    let filters = [query.text("disabled")?, query.text("account_id")?];
    let only_disabled = disabled.unwrap_or_default();
    let id_of = |row: &inspection::EndpointRow| row.id.as_uuid();
    let page =
        lists::page(&app, &query, cursors("customers_endpoints", &filters), id_of, async |conn, before, limit| {
            let before = before.map(WebhookId::from);
            inspection::list(conn, inspection::Filter { only_disabled, account, before, limit }).await
        });
    Ok(Answer(page.await?.map(AnyEndpoint::from)))
}
