//! Webhook endpoints (contract: webhooks).

mod deliveries;
pub mod events;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::events::EventType;
use kitfleet_domain::teams::Role;
use kitfleet_domain::webhooks::endpoints::{self, ChangeError, Changes, CreateError, NewEndpoint};
use kitfleet_domain::webhooks::{Subscriptions, WebhookUrl};
use kitfleet_types::ids::WebhookId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Unchecked, given};
use crate::http::kinds;
use crate::http::lists::{List, ListItem};
use crate::http::openapi::{Body, Database, NoWebhook, Restricted, WebhookAtRest, named, one_of, or_null};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
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
        .allow(CHANGE_WEBHOOKS, routes!(rotate_secret))
        .merge(deliveries::routes())
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
