//! Webhook endpoints and their deliveries (contract: webhooks 1 to 14, 20).

pub mod events;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::events::EventType;
use kitfleet_domain::ids::{DeliveryId, WebhookId};
use kitfleet_domain::teams::Role;
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::{Invalid, Rules, both};
use kitfleet_domain::webhooks::deliveries::{self, Asked, DeliveryStatus, ReplayError};
use kitfleet_domain::webhooks::endpoints::{self, ChangeError, Changes, CreateError, NewEndpoint};
use kitfleet_domain::webhooks::{Subscriptions, WebhookUrl};
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;
use uuid::Uuid;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{Unchecked, Unused, given};
use crate::http::kinds;
use crate::http::lists::{self, List, Listed, Page, Paging, Query};
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
        .allow(CHANGE_WEBHOOKS, routes!(replay))
        .never_stored()
}

/// Where an account is told of events
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookEndpoint, example = json!({
    "id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "url": "https://example.com/hooks/kitfleet",
    "secret_prefix": "whsec_h3Xz0a", "prev_secret_prefix": null, "rotation_grace_expires_at": null,
    "events": ["session.completed", "session.failed"], "description": "Production", "active": true,
    "consecutive_failures": 0, "last_success_at": "2026-11-20T18:06:00.123Z", "last_failure_at": null, "disabled_at": null,
    "delivery_counts": {"delivered": 12, "failed": 0, "dlq": 0}, "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct Endpoint {
    /// Its id
    #[schema(value_type = String)]
    id: WebhookId,
    /// Where deliveries go
    url: String,
    /// How the secret begins that deliveries are signed with
    secret_prefix: String,
    /// How the secret before begins, while that signs too
    #[schema(required = true)]
    prev_secret_prefix: Option<String>,
    /// Until when it does
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    rotation_grace_expires_at: Option<Timestamp>,
    /// What it is told of
    #[schema(schema_with = subscriptions)]
    events: Vec<String>,
    /// What its owner says of it
    #[schema(required = true)]
    description: Option<String>,
    /// Whether it is told; false while it is paused, and once it is disabled
    active: bool,
    /// Deliveries in a row that ended in the dead-letter state
    consecutive_failures: i32,
    /// When a delivery last arrived
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_success_at: Option<Timestamp>,
    /// When an attempt last failed
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_failure_at: Option<Timestamp>,
    /// Since when it is told of nothing, for good
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    disabled_at: Option<Timestamp>,
    /// How its deliveries ended
    delivery_counts: DeliveryCounts,
    /// When it was made
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// How deliveries ended
#[derive(Serialize, ToSchema)]
struct DeliveryCounts {
    /// They arrived
    delivered: i64,
    /// The endpoint went away
    failed: i64,
    /// All of their attempts failed
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

/// Body of an endpoint's creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"url": "https://example.com/hooks/kitfleet", "events": ["session.completed", "session.failed"]}))]
struct CreateWebhook {
    /// Where deliveries go: https, without user and password
    #[schema(max_length = 2_048)]
    url: String,
    /// What it is told of
    #[schema(schema_with = subscriptions)]
    events: Vec<String>,
    /// What its owner says of it
    #[schema(max_length = 1000)]
    description: Option<String>,
}

/// A webhook endpoint with its signing secret, shown this once
#[derive(Serialize, ToSchema)]
struct CreatedWebhook {
    #[serde(flatten)]
    endpoint: Endpoint,
    /// The secret: the key of the HMAC, as it stands here
    #[schema(example = "whsec_…")]
    secret: String,
}

/// Create a webhook endpoint
///
/// It is told of events that happen from now on. An account has at most ten that are not disabled.
#[utoipa::path(
    post, path = "/v1/webhooks", tag = "Webhooks", operation_id = "createWebhook",
    request_body = CreateWebhook,
    responses(
        (status = 201, description = "The endpoint, and its secret this once", body = CreatedWebhook,
         headers(("Location" = String, description = "The endpoint's path"))),
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

impl Listed for Endpoint {
    const LIST: &'static str = "WebhookList";
    const MEANING: &'static str = "Webhook endpoints, newest first";
}

/// List webhook endpoints
///
/// All of them, newest first, but for those that were deleted.
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
/// A deleted one too.
#[utoipa::path(
    get, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "getWebhook",
    params(IdPath<WebhookId>),
    responses((status = 200, description = "The endpoint", body = Endpoint), Restricted, NoWebhook, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<WebhookId>) -> Result<Answer<Endpoint>> {
    let found = endpoints::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<WebhookId>)?.into()))
}

/// Body of an endpoint's change: any of its fields, but at least one
#[derive(Deserialize, ToSchema)]
#[schema(min_properties = 1, example = json!({"active": false}))]
struct UpdateWebhook {
    /// Where deliveries go
    #[schema(max_length = 2_048)]
    url: Option<String>,
    /// What it is told of, of what happens from now on
    #[schema(schema_with = subscriptions_or_null)]
    events: Option<Vec<String>>,
    /// What its owner says of it; null for nothing
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 1000)]
    description: Option<Words>,
    /// Whether it is told; false pauses it
    active: Option<bool>,
}

/// What its owner says of an endpoint, which may be nothing.
#[derive(Deserialize)]
#[serde(transparent)]
struct Words(Option<String>);

/// Change a webhook endpoint
///
/// What waits for a paused endpoint is sent when it is active again; nothing that happens meanwhile is.
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
            let message = "must have at least one of url, events, description and active";
            return Err(Invalid::field("body", message));
        }
        let url = url.as_deref().map(WebhookUrl::parse).transpose();
        let events = events.as_deref().map(|events| Subscriptions::parse(events, &app.config.limits)).transpose();
        let mut rules = Rules::default();
        check_description(&mut rules, description.as_ref().and_then(|Words(words)| words.as_deref()), &app);
        both(both(url, events), rules.check()).map(|((url, events), ())| (url, events, description, active))
    })?;
    let description = description.as_ref().map(|Words(words)| endpoints::Words(words.as_deref()));
    let changes = Changes { url, events, description, active };
    let id = path.id()?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let endpoint = endpoints::update(&mut tx, caller.account_id, id, &changes, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(endpoint.into()))
}

/// Delete a webhook endpoint
///
/// What waits for it fails. Once more changes nothing.
#[utoipa::path(
    delete, path = "/v1/webhooks/{id}", tag = "Webhooks", operation_id = "deleteWebhook",
    params(IdPath<WebhookId>),
    responses((status = 204, description = "It is deleted, or was before"), Restricted, NoWebhook, Database),
)]
async fn delete(caller: Caller, State(app): State<App>, path: IdPath<WebhookId>, _body: Unused) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let known = endpoints::delete(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<WebhookId>()) }
}

/// A delivery that is on its way
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "delivery_id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "event_id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2",
    "event_type": "test.ping",
}))]
struct SentDelivery {
    /// The delivery
    #[schema(value_type = String)]
    delivery_id: DeliveryId,
    /// Its event
    event_id: Uuid,
    /// What kind of event that is
    #[schema(schema_with = event_type)]
    event_type: String,
}

impl From<Asked> for SentDelivery {
    fn from(Asked { delivery, event, event_type }: Asked) -> Self {
        Self { delivery_id: delivery, event_id: event, event_type }
    }
}

/// Test a webhook endpoint
///
/// Sends it a `test.ping`, whatever it subscribed to.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/test", tag = "Webhooks", operation_id = "testWebhook",
    params(IdPath<WebhookId>),
    responses((status = 202, description = "It is on its way", body = SentDelivery), Restricted, NoWebhook, Database),
)]
async fn test(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    _body: Unused,
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

/// A webhook endpoint's new secret, shown this once
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "secret": "whsec_…", "secret_prefix": "whsec_h3Xz0a",
    "prev_secret_prefix": "whsec_Qw9_xB", "grace_expires_at": "2026-11-21T18:05:00.123Z",
}))]
struct RotatedSecret {
    /// The endpoint
    #[schema(value_type = String)]
    id: WebhookId,
    /// The secret
    secret: String,
    /// How it begins
    secret_prefix: String,
    /// How the one before begins
    prev_secret_prefix: String,
    /// Until when both sign
    #[schema(value_type = String, format = DateTime)]
    grace_expires_at: Timestamp,
}

/// Rotate a webhook endpoint's secret
///
/// Both secrets sign for 24 hours, the new one first.
#[utoipa::path(
    post, path = "/v1/webhooks/{id}/rotate-secret", tag = "Webhooks", operation_id = "rotateWebhookSecret",
    params(IdPath<WebhookId>),
    responses(
        (status = 200, description = "The new secret, this once", body = RotatedSecret),
        Restricted, NoWebhook, WebhookAtRest, Database,
    ),
)]
async fn rotate_secret(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebhookId>,
    _body: Unused,
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

/// An event on its way to a webhook endpoint
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookDelivery, example = json!({
    "id": "wdl_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a0",
    "event_id": "019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "event_type": "session.completed", "status": "pending", "attempts": 1,
    "next_attempt_at": "2026-11-20T18:06:00.123Z", "last_response_status": 503, "last_response_excerpt": "try later",
    "last_error": null, "duration_ms": 41, "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.164Z",
    "delivered_at": null,
}))]
struct Delivery {
    /// Its id
    #[schema(value_type = String)]
    id: DeliveryId,
    /// To whom
    #[schema(value_type = String)]
    endpoint_id: WebhookId,
    /// Of which event
    event_id: Uuid,
    /// Of what kind that is
    #[schema(schema_with = event_type)]
    event_type: String,
    /// Where it stands
    #[schema(schema_with = delivery_status)]
    status: DeliveryStatus,
    /// Attempts that ended
    attempts: i32,
    /// When the next one is due
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    next_attempt_at: Option<Timestamp>,
    /// The status of the endpoint's last answer
    #[schema(required = true)]
    last_response_status: Option<i32>,
    /// How its body began
    #[schema(required = true)]
    last_response_excerpt: Option<String>,
    /// Why there was none
    #[schema(required = true)]
    last_error: Option<String>,
    /// How long the last attempt took
    #[schema(required = true)]
    duration_ms: Option<i64>,
    /// When it was made
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// When it arrived
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    delivered_at: Option<Timestamp>,
}

fn delivery_status() -> RefOr<Schema> {
    named("WebhookDeliveryStatus", one_of(DeliveryStatus::NAMES, None))
}

/// The filter of a list, for the contract.
struct ByStatus;

impl IntoParams for ByStatus {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![query("status", "Only those that stand there", delivery_status()).build()]
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

impl Listed for Delivery {
    const LIST: &'static str = "DeliveryList";
    const MEANING: &'static str = "A page of deliveries, newest first";
}

/// List a webhook endpoint's deliveries
#[utoipa::path(
    get, path = "/v1/webhooks/{id}/deliveries", tag = "Webhooks", operation_id = "listWebhookDeliveries",
    params(IdPath<WebhookId>, Paging, ByStatus),
    responses(
        (status = 200, description = "A page", body = DeliveryList),
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
        deliveries::list(conn, endpoint, status, after.map(DeliveryId::from), limit).await
    });
    Ok(Answer(page.await?.map(Delivery::from)))
}

fn parse_status(text: &str) -> Result<DeliveryStatus, Invalid> {
    let known = DeliveryStatus::ALL.iter().copied().find(|status| status.name() == text);
    known.ok_or_else(|| Invalid::field("status", "must be one of pending, in_flight, delivered, failed, dlq"))
}

/// Replay a webhook delivery
///
/// Sends the same event to the same endpoint once more, as a delivery of its own. The first has to have ended.
#[utoipa::path(
    post, path = "/v1/webhook-deliveries/{id}/replay", tag = "Webhooks", operation_id = "replayWebhookDelivery",
    params(IdPath<DeliveryId>),
    responses(
        (status = 202, description = "It is on its way", body = SentDelivery),
        Restricted, NoWebhook, WebhookAtRest, Database,
    ),
)]
async fn replay(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<DeliveryId>,
    _body: Unused,
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
