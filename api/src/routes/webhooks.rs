//! Webhook endpoints and their deliveries (contract: webhooks 1 to 14, 20).

pub mod events;

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::events::EventType;
use kitfleet_domain::teams::Role;
use kitfleet_domain::webhooks::deliveries::{self, DeliveryStatus, ReplayError, RequestedDelivery};
use kitfleet_domain::webhooks::endpoints::{self, ChangeError, Changes, CreateError, NewEndpoint};
use kitfleet_domain::webhooks::{Subscriptions, WebhookUrl};
use kitfleet_types::ids::{DeliveryId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Unchecked, given};
use crate::http::kinds;
use crate::http::lists::{self, CreatedWithin, List, ListItem, Page, Paging, Query};
use crate::http::openapi::{
    Body, Database, InvalidQuery, NoWebhook, Restricted, WebhookAtRest, named, one_of, or_null, query,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_WEBHOOKS: Rule = Rule::scope(Scope::ReadWebhooks).for_team(Role::Member);
const CHANGE_WEBHOOKS: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);

pub fn routes() -> Routes {
    Routes::new()
        .allow(CHANGE_WEBHOOKS, routes!(create))
        .allow(READ_WEBHOOKS, routes!(list))
        .allow(READ_WEBHOOKS, routes!(get))
        .allow(CHANGE_WEBHOOKS, routes!(update, delete))
        .allow(CHANGE_WEBHOOKS, routes!(test))
        .allow(CHANGE_WEBHOOKS, routes!(rotate_secret))
        .allow(READ_WEBHOOKS, routes!(list_deliveries))
        .allow(READ_WEBHOOKS, routes!(list_account_deliveries))
        .allow(READ_WEBHOOKS, routes!(get_delivery))
        .allow(CHANGE_WEBHOOKS, routes!(replay))
        .never_stored()
}

/// A webhook endpoint
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEndpoint, example = json!({
    "id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "url": "https://example.com/hooks/kitfleet",
    "secret_prefix": "whsec_h3Xz0a", "prev_secret_prefix": null, "rotation_grace_expires_at": null,
    "events": ["session.completed", "session.failed"], "description": "Production", "active": true,
    "consecutive_failures": 0, "last_success_at": "2026-11-20T18:06:00.123Z", "last_failure_at": null, "disabled_at": null,
    "delivery_counts": {"delivered": 12, "failed": 0, "dlq": 0}, "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct Endpoint {
    /// Webhook endpoint ID
    #[schema(value_type = String)]
    id: WebhookId,
    /// URL that deliveries are sent to
    url: String,
    /// First characters of the signing secret
    secret_prefix: String,
    /// First characters of the previous secret, while it still signs deliveries
    #[schema(required = true)]
    prev_secret_prefix: Option<String>,
    /// Time the previous secret stops signing (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    rotation_grace_expires_at: Option<Timestamp>,
    /// Event types that are delivered
    #[schema(schema_with = subscriptions)]
    events: Vec<String>,
    /// Description by the account owner
    #[schema(required = true)]
    description: Option<String>,
    /// True when events are delivered; false while the endpoint is paused and after it was disabled
    active: bool,
    /// Number of consecutive deliveries that ended in the dead-letter state
    consecutive_failures: i32,
    /// Time of the last successful delivery (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_success_at: Option<Timestamp>,
    /// Time of the last failed attempt (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_failure_at: Option<Timestamp>,
    /// Time the endpoint was disabled permanently (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    disabled_at: Option<Timestamp>,
    /// Number of ended deliveries by result
    delivery_counts: DeliveryCounts,
    /// Time the endpoint was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// Number of ended deliveries by result
#[derive(Serialize, ToSchema)]
struct DeliveryCounts {
    /// Successful deliveries
    delivered: i64,
    /// Deliveries that ended because the endpoint was deleted or disabled
    failed: i64,
    /// Deliveries whose attempts all failed (dead letters)
    dlq: i64,
}

fn subscriptions() -> RefOr<Schema> {
    let event = named("SubscribableEventType", one_of(&EventType::subscribable_names(), None));
    utoipa::openapi::ArrayBuilder::new().items(event).min_items(Some(1)).max_items(Some(10)).into()
}

fn subscriptions_or_null() -> RefOr<Schema> {
    or_null(subscriptions())
}

fn event_type() -> RefOr<Schema> {
    named("EventType", one_of(EventType::NAMES, None))
}

impl From<endpoints::Endpoint> for Endpoint {
    fn from(endpoint: endpoints::Endpoint) -> Self {
        Self {
            id: endpoint.id,
            url: endpoint.url,
            secret_prefix: endpoint.secret_prefix,
            prev_secret_prefix: endpoint.prev_secret_prefix,
            rotation_grace_expires_at: endpoint.rotation_grace_expires_at,
            events: endpoint.events,
            description: endpoint.description,
            active: endpoint.active,
            consecutive_failures: endpoint.consecutive_failures,
            last_success_at: endpoint.last_success_at,
            last_failure_at: endpoint.last_failure_at,
            disabled_at: endpoint.disabled_at,
            delivery_counts: DeliveryCounts {
                delivered: endpoint.delivered,
                failed: endpoint.failed,
                dlq: endpoint.dlq,
            },
            created_at: endpoint.created_at,
        }
    }
}

/// Request body of a webhook endpoint creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"url": "https://example.com/hooks/kitfleet", "events": ["session.completed", "session.failed"]}))]
struct CreateWebhook {
    /// URL that deliveries are sent to: https, without user name and password
    #[schema(max_length = 2_048)]
    url: String,
    /// Event types to deliver
    #[schema(schema_with = subscriptions)]
    events: Vec<String>,
    /// Description by the account owner
    #[schema(max_length = 1000)]
    description: Option<String>,
}

/// A webhook endpoint with its signing secret, which is returned only once
#[derive(Serialize, ToSchema)]
struct CreatedWebhook {
    #[serde(flatten)]
    endpoint: Endpoint,
    /// Signing secret: the HMAC key is exactly this text
    #[schema(example = "whsec_…")]
    secret: String,
}

/// Create a webhook endpoint
///
/// The endpoint receives events created after this call. An account has at most ten endpoints that are not disabled.
#[utoipa::path(
    post, path = "/v1/webhooks", tag = "Webhooks", operation_id = "createWebhook",
    request_body = CreateWebhook,
    responses(
        (status = 201, description = "The endpoint with its secret, returned only once", body = CreatedWebhook,
         headers(("Location" = String, description = "Path of the endpoint"))),
        Restricted, Body, WebhookAtRest, Database,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    body: Unchecked<CreateWebhook>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<CreatedWebhook>)> {
    let limits = &app.config.limits;
    let (url, events, description) = body.check(|CreateWebhook { url, events, description }| {
        let mut rules = Rules::default();
        check_description(&mut rules, description.as_deref(), &app);
        let parsed = both(WebhookUrl::parse(&url), Subscriptions::parse(&events, limits));
        both(parsed, rules.check()).map(|((url, events), ())| (url, events, description))
    })?;
    let new = NewEndpoint { url: &url, events: &events, description: description.as_deref() };
    let vault = app.webhook_vault().await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let created =
        endpoints::create(&mut tx, caller.account_id, new, limits.webhook_endpoints, vault, &caller.actor).await;
    let (endpoint, secret) = created?;
    tx.commit().await?;
    let location = [(LOCATION, format!("/v1/webhooks/{}", endpoint.id))];
    let created = CreatedWebhook { endpoint: endpoint.into(), secret: secret.reveal().to_owned() };
    Ok((StatusCode::CREATED, location, Answer(created)))
}

fn check_description(rules: &mut Rules, description: Option<&str>, app: &App) {
    if let Some(description) = description {
        rules.length(description, 0, app.config.limits.webhook_description_chars, "description");
    }
}

type WebhookList = List<Endpoint>;

impl ListItem for Endpoint {
    const LIST: &'static str = "WebhookList";
    const MEANING: &'static str = "Webhook endpoints, newest first";
}

/// List webhook endpoints
///
/// Returns all endpoints except deleted ones, newest first.
#[utoipa::path(
    get, path = "/v1/webhooks", tag = "Webhooks", operation_id = "listWebhooks",
    responses((status = 200, description = "The endpoints", body = WebhookList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<WebhookList>> {
    let found = endpoints::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(found.into_iter().map(Endpoint::from).collect()))
}

/// Get a webhook endpoint
///
/// Also returns a deleted endpoint.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "getWebhook",
    params(IdPath<WebhookId>),
    responses((status = 200, description = "The endpoint", body = Endpoint), Restricted, NoWebhook, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<WebhookId>) -> Result<Answer<Endpoint>> {
    let found = endpoints::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<WebhookId>)?.into()))
}

/// Request body of a webhook endpoint update; at least one field is required
#[derive(Deserialize, ToSchema)]
#[schema(min_properties = 1, example = json!({"active": false}))]
struct UpdateWebhook {
    /// URL that deliveries are sent to
    #[schema(max_length = 2_048)]
    url: Option<String>,
    /// Event types to deliver; applies to events created after this call
    #[schema(schema_with = subscriptions_or_null)]
    events: Option<Vec<String>>,
    /// Description by the account owner; null removes it
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 1000)]
    description: Option<DescriptionBody>,
    /// True to deliver events, false to pause the endpoint
    active: Option<bool>,
}

/// Description of an endpoint; may be null.
#[derive(Deserialize)]
#[serde(transparent)]
struct DescriptionBody(Option<String>);

/// Update a webhook endpoint
///
/// Deliveries that are pending when an endpoint is paused are sent when it is active again. Events that occur during the pause
/// are not delivered.
#[utoipa::path(
    patch, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "updateWebhook",
    params(IdPath<WebhookId>), request_body = UpdateWebhook,
    responses(
        (status = 200, description = "The endpoint", body = Endpoint),
        Restricted, Body, NoWebhook, WebhookAtRest, Database,
    ),
)]
async fn update(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    body: Unchecked<UpdateWebhook>,
) -> Result<Answer<Endpoint>> {
    let (url, events, description, active) = body.check(|UpdateWebhook { url, events, description, active }| {
        if url.is_none() && events.is_none() && description.is_none() && active.is_none() {
            let message = "must have at least one of the members url, events, description and active";
            return Err(Invalid::field("body", message));
        }
        let url = url.as_deref().map(WebhookUrl::parse).transpose();
        let events = events.as_deref().map(|events| Subscriptions::parse(events, &app.config.limits)).transpose();
        let mut rules = Rules::default();
        check_description(&mut rules, description.as_ref().and_then(|DescriptionBody(text)| text.as_deref()), &app);
        both(both(url, events), rules.check()).map(|((url, events), ())| (url, events, description, active))
    })?;
    let description = description.as_ref().map(|DescriptionBody(text)| endpoints::EndpointDescription(text.as_deref()));
    let changes = Changes { url, events, description, active };
    let id = path.id()?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let endpoint = endpoints::update(&mut tx, caller.account_id, id, &changes, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(endpoint.into()))
}

/// Delete a webhook endpoint
///
/// Pending deliveries fail. Deleting a deleted endpoint has no effect.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "deleteWebhook",
    params(IdPath<WebhookId>),
    responses((status = 204, description = "The endpoint is deleted, or was already deleted"), Restricted, NoWebhook, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let known = endpoints::delete(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<WebhookId>()) }
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

/// A new signing secret, returned only once
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "secret": "whsec_…", "secret_prefix": "whsec_h3Xz0a",
    "prev_secret_prefix": "whsec_Qw9_xB", "grace_expires_at": "2026-11-21T18:05:00.123Z",
}))]
struct RotatedSecret {
    /// Webhook endpoint ID
    #[schema(value_type = String)]
    id: WebhookId,
    /// New signing secret
    secret: String,
    /// First characters of the new secret
    secret_prefix: String,
    /// First characters of the previous secret
    prev_secret_prefix: String,
    /// Time the previous secret stops signing (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    grace_expires_at: Timestamp,
}

/// Rotate the secret of a webhook endpoint
///
/// Deliveries are signed with both secrets for 24 hours, the new one first.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/rotate-secret", tag = "Webhooks", operation_id = "rotateWebhookSecret",
    params(IdPath<WebhookId>),
    responses(
        (status = 200, description = "The new secret, returned only once", body = RotatedSecret),
        Restricted, NoWebhook, WebhookAtRest, Database,
    ),
)]
async fn rotate_secret(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    _body: IgnoredBody,
) -> Result<Answer<RotatedSecret>> {
    let (id, vault) = (path.id()?, app.webhook_vault().await?);
    let grace = app.config.webhook_secret_grace;
    let mut tx = app.begin_change(caller.account_id).await?;
    let rotated = endpoints::rotate_secret(&mut tx, caller.account_id, id, grace, vault, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(RotatedSecret {
        id,
        secret_prefix: rotated.secret.shown_prefix().to_owned(),
        secret: rotated.secret.reveal().to_owned(),
        prev_secret_prefix: rotated.prev_secret_prefix,
        grace_expires_at: rotated.grace_expires_at,
    }))
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

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::TooMany(_) => Self::new(&kinds::CONFLICT, error.to_string()),
            CreateError::NoAccount => Self::account_gone(),
            CreateError::Database(error) => error.into(),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NoEndpoint => not_found::<WebhookId>(),
            ChangeError::Disabled | ChangeError::Paused => Self::new(&kinds::CONFLICT, error.to_string()),
            ChangeError::Database(error) => error.into(),
        }
    }
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
