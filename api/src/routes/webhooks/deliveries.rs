//! Deliveries to webhook endpoints, and those that customers request (contract: webhooks).

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::events::EventType;
use kitfleet_domain::webhooks::deliveries::{self, DeliveryStatus, ReplayError, RequestedDelivery};
use kitfleet_domain::webhooks::endpoints::{self, ChangeError};
use kitfleet_types::ids::{DeliveryId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;
use uuid::Uuid;

use super::{CHANGE_WEBHOOKS, READ_WEBHOOKS, event_type};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::lists::{self, CreatedWithin, ListItem, Page, Paging, Query};
use crate::http::openapi::{Database, InvalidQuery, NoWebhook, Restricted, WebhookAtRest, named, one_of, query};
use crate::http::path::{IdPath, not_found};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

pub(super) fn routes() -> Routes {
    Routes::new()
        .allow(CHANGE_WEBHOOKS, routes!(test))
        .allow(READ_WEBHOOKS, routes!(list_deliveries))
        .allow(READ_WEBHOOKS, routes!(list_account_deliveries))
        .allow(READ_WEBHOOKS, routes!(get_delivery))
        .allow(CHANGE_WEBHOOKS, routes!(replay))
}

/// A delivery of an event to a webhook endpoint
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookDelivery, example = json!({
    "id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a0",
    "event_id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "event_type": "session.completed", "status": "pending", "attempts": 1,
    "next_attempt_at": "2026-11-20T18:06:00.123Z", "last_response_status": 503, "last_response_excerpt": "try later",
    "last_error": null, "duration_ms": 41, "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.164Z",
    "delivered_at": null,
}))]
struct Delivery {
    /// Delivery ID
    #[schema(value_type = String)]
    id: DeliveryId,
    /// Target endpoint
    #[schema(value_type = String)]
    endpoint_id: WebhookId,
    /// Event ID
    event_id: Uuid,
    /// Type of the event
    #[schema(schema_with = event_type)]
    event_type: String,
    /// Status of the delivery
    #[schema(schema_with = delivery_status)]
    status: DeliveryStatus,
    /// Number of completed attempts
    attempts: i32,
    /// Time the next attempt is due (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    next_attempt_at: Option<Timestamp>,
    /// HTTP status of the endpoint's last response
    #[schema(required = true)]
    last_response_status: Option<i32>,
    /// Beginning of the body of the endpoint's last response
    #[schema(required = true)]
    last_response_excerpt: Option<String>,
    /// Reason the last attempt got no response
    #[schema(required = true)]
    last_error: Option<String>,
    /// Duration of the last attempt in milliseconds
    #[schema(required = true)]
    duration_ms: Option<i64>,
    /// Time the delivery was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time the delivery succeeded (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    delivered_at: Option<Timestamp>,
}

fn delivery_status() -> RefOr<Schema> {
    named("WebhookDeliveryStatus", one_of(DeliveryStatus::NAMES, None))
}

/// Status filter of a list, as documented in the contract.
struct ByStatus;

impl IntoParams for ByStatus {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![query("status", "Filter by status", delivery_status()).build()]
    }
}

impl From<deliveries::Delivery> for Delivery {
    fn from(delivery: deliveries::Delivery) -> Self {
        Self {
            id: delivery.id,
            endpoint_id: delivery.endpoint_id,
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            status: delivery.status,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            last_response_status: delivery.last_response_status,
            last_response_excerpt: delivery.last_response_excerpt,
            last_error: delivery.last_error,
            duration_ms: delivery.duration_ms,
            created_at: delivery.created_at,
            updated_at: delivery.updated_at,
            delivered_at: delivery.delivered_at,
        }
    }
}

type DeliveryList = Page<Delivery>;

impl ListItem for Delivery {
    const LIST: &'static str = "DeliveryList";
    const MEANING: &'static str = "A page of deliveries, newest first";
}

/// List the deliveries of a webhook endpoint
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/deliveries", tag = "Webhooks", operation_id = "listWebhookDeliveries",
    params(IdPath<WebhookId>, Paging, ByStatus),
    responses(
        (status = 200, description = "A page of the list", body = DeliveryList),
        Restricted, InvalidQuery, NoWebhook, Database,
    ),
)]
async fn list_deliveries(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    query: Query,
) -> Result<Answer<DeliveryList>> {
    let status = query.filters(query.parsed("status", parse_status), &app.config.limits)?;
    let (account, endpoint) = (caller.account_id, path.id()?);
    let known = endpoints::find(&mut *app.db.acquire().await?, account, endpoint).await?;
    known.ok_or_else(not_found::<WebhookId>)?;
    let of_endpoint = endpoint.to_string();
    let filters = [Some(of_endpoint.as_str()), status.map(DeliveryStatus::name)];
    let scope = CursorScope { account, list: "webhook_deliveries", filters: &filters };
    let id_of = |delivery: &deliveries::Delivery| delivery.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        let after = after.map(DeliveryId::from);
        let filter = deliveries::Filter { endpoint: Some(endpoint), status, after, ..deliveries::Filter::default() };
        deliveries::list(conn, account, &filter, limit).await
    });
    Ok(Answer(page.await?.map(Delivery::from)))
}

/// Event type filter of a list, as documented in the contract.
struct ByEventType;

impl IntoParams for ByEventType {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![query("event_type", "Filter by event type", event_type()).build()]
    }
}

/// List the deliveries of an account
///
/// Returns the deliveries to all endpoints, newest first, including deleted endpoints.
#[utoipa::path(
    get, path = "/v1/webhook-deliveries", tag = "Webhooks", operation_id = "listAccountDeliveries",
    params(
        Paging, ByStatus,
        ("endpoint_id" = Option<String>, Query, description = "Filter by endpoint",
         example = "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1"),
        ByEventType, CreatedWithin,
    ),
    responses((status = 200, description = "A page of the list", body = DeliveryList), Restricted, InvalidQuery, Database),
)]
async fn list_account_deliveries(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<DeliveryList>> {
    let kinds = both(query.parsed("status", parse_status), query.parsed("event_type", parse_event_type));
    let created = both(query.time("created_after"), query.time("created_before"));
    let given = both(kinds, both(query.id("endpoint_id"), created));
    let ((status, event_type), (endpoint, created)) = query.filters(given, &app.config.limits)?;
    let account = caller.account_id;
    let texts = ["status", "endpoint_id", "event_type", "created_after", "created_before"];
    let filters = texts.map(|name| query.text(name).ok().flatten());
    let scope = CursorScope { account, list: "account_webhook_deliveries", filters: &filters };
    let id_of = |delivery: &deliveries::Delivery| delivery.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        let after = after.map(DeliveryId::from);
        let filter = deliveries::Filter { endpoint, status, event_type, created, after };
        deliveries::list(conn, account, &filter, limit).await
    });
    Ok(Answer(page.await?.map(Delivery::from)))
}

fn parse_event_type(text: &str) -> Result<&'static str, Invalid> {
    let known = EventType::NAMES.iter().copied().find(|name| *name == text);
    known.ok_or_else(|| Invalid::field("event_type", "must be the name of an event type"))
}

/// A delivery with its content and its attempts
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a0",
    "event_id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "event_type": "session.completed", "status": "pending", "attempts": 1,
    "next_attempt_at": "2026-11-20T18:06:00.123Z", "last_response_status": 503, "last_response_excerpt": "try later",
    "last_error": null, "duration_ms": 41, "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.164Z",
    "delivered_at": null,
    "payload": {
        "id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "type": "session.completed", "created_at": "2026-11-20T18:05:00.120Z",
        "data": {"session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "duration_ms": 61_000},
    },
    "headers": {
        "Content-Type": "application/json", "X-Service-Signature": "t=1795197900,v1=•••",
        "X-Service-Event-Id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "X-Service-Event-Type": "session.completed",
    },
    "attempts_log": [
        {"at": "2026-11-20T18:05:00.164Z", "status": 503, "duration_ms": 41, "error": null, "excerpt": "try later"},
    ],
}))]
struct WebhookDeliveryDetail {
    #[serde(flatten)]
    delivery: Delivery,
    /// Body of the requests
    #[schema(value_type = Object)]
    payload: Value,
    /// Headers of the last attempt, by name; empty before it. The values of a signature are masked while receivers accept it
    headers: BTreeMap<&'static str, String>,
    /// Last ten attempts, oldest first
    attempts_log: Vec<WebhookAttempt>,
}

/// An attempt to send a delivery
#[derive(Serialize, ToSchema)]
struct WebhookAttempt {
    /// Time the attempt ended (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// HTTP status of the response
    #[schema(required = true)]
    status: Option<i32>,
    /// Duration in milliseconds
    duration_ms: i64,
    /// Reason the attempt got no response
    #[schema(required = true)]
    error: Option<String>,
    /// Beginning of the body of the response
    #[schema(required = true)]
    excerpt: Option<String>,
}

impl From<deliveries::Detail> for WebhookDeliveryDetail {
    fn from(detail: deliveries::Detail) -> Self {
        let attempts = detail.attempts.into_iter().map(|attempt| WebhookAttempt {
            at: attempt.at,
            status: attempt.status,
            duration_ms: attempt.duration_ms,
            error: attempt.error,
            excerpt: attempt.excerpt,
        });
        Self {
            delivery: detail.delivery.into(),
            payload: detail.payload,
            headers: detail.headers.into_iter().collect(),
            attempts_log: attempts.collect(),
        }
    }
}

/// Get a webhook delivery
#[utoipa::path(
    get, path = "/v1/webhook-deliveries/{id}", tag = "Webhooks", operation_id = "getWebhookDelivery",
    params(IdPath<DeliveryId>),
    responses((status = 200, description = "The delivery", body = WebhookDeliveryDetail), Restricted, NoWebhook, Database),
)]
async fn get_delivery(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<DeliveryId>,
) -> Result<Answer<WebhookDeliveryDetail>> {
    let found = deliveries::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<DeliveryId>)?.into()))
}

fn parse_status(text: &str) -> Result<DeliveryStatus, Invalid> {
    let known = DeliveryStatus::ALL.iter().copied().find(|status| status.name() == text);
    known.ok_or_else(|| Invalid::field("status", "must be one of pending, in_flight, delivered, failed, dlq"))
}

/// A delivery that was created by this request
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "delivery_id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "event_id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2",
    "event_type": "test.ping",
}))]
struct SentDelivery {
    /// Delivery ID
    #[schema(value_type = String)]
    delivery_id: DeliveryId,
    /// Event ID
    event_id: Uuid,
    /// Type of the event
    #[schema(schema_with = event_type)]
    event_type: String,
}

impl From<RequestedDelivery> for SentDelivery {
    fn from(RequestedDelivery { delivery, event, event_type }: RequestedDelivery) -> Self {
        Self { delivery_id: delivery, event_id: event, event_type }
    }
}

/// Test a webhook endpoint
///
/// Sends a `test.ping` event, regardless of the subscribed event types.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/test", tag = "Webhooks", operation_id = "testWebhook",
    params(IdPath<WebhookId>),
    responses((status = 202, description = "The delivery is created", body = SentDelivery), Restricted, NoWebhook, Database),
)]
async fn test(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    _body: IgnoredBody,
) -> Result<(StatusCode, Answer<SentDelivery>)> {
    app.rate_limits.check(Bucket::WebhookSend, caller.account_id.to_string().as_str()).await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let sent = deliveries::send_test(&mut tx, caller.account_id, path.id()?, &caller.actor).await;
    let sent = sent.map_err(|error| match error {
        ChangeError::Disabled | ChangeError::Paused => Problem::invalid("id", error.to_string()),
        other => other.into(),
    })?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Answer(sent.into())))
}

/// Replay a webhook delivery
///
/// Sends the same event to the same endpoint again, as a new delivery. The original delivery must have ended.
#[utoipa::path(
    post, path = "/v1/webhook-deliveries/{id}/replay", tag = "Webhooks", operation_id = "replayWebhookDelivery",
    params(IdPath<DeliveryId>),
    responses(
        (status = 202, description = "The new delivery is created", body = SentDelivery),
        Restricted, NoWebhook, WebhookAtRest, Database,
    ),
)]
async fn replay(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<DeliveryId>,
    _body: IgnoredBody,
) -> Result<(StatusCode, Answer<SentDelivery>)> {
    app.rate_limits.check(Bucket::WebhookSend, caller.account_id.to_string().as_str()).await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let sent = deliveries::replay(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    Ok((StatusCode::ACCEPTED, Answer(sent.into())))
}

impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::NoDelivery => not_found::<DeliveryId>(),
            ReplayError::UnderWay => Self::new(&kinds::CONFLICT, error.to_string()),
            ReplayError::Endpoint(error) => error.into(),
        }
    }
}
