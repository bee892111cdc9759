//! Service status for programs, and subscriptions to incidents (contract: status).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_domain::status::components::{Component, Measured};
use kitfleet_domain::status::history::{Day, DayOfComponent};
use kitfleet_domain::status::incidents::{self, Impact, Status};
use kitfleet_jobs::status::subscribe as subscribe_address;
use kitfleet_types::ids::IncidentId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::client::ClientInfo;
use crate::http::error::Result;
use crate::http::json::OpenJson;
use crate::http::openapi::{Body, Database, RateLimited, named, one_of};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::status_cache::CachedStatus;

pub fn routes() -> Routes {
    Routes::new().public(routes!(show)).public(routes!(subscribe))
}

/// State of a component that was not measured.
pub const UNKNOWN: &str = "unknown";
/// States of a component.
const STATES: [&str; 5] = ["operational", "degraded_performance", "partial_outage", "major_outage", UNKNOWN];

fn state() -> RefOr<Schema> {
    named("ComponentState", one_of(&STATES, None))
}

fn component() -> RefOr<Schema> {
    named("Component", one_of(&Component::NAMES, None))
}

pub fn impact() -> RefOr<Schema> {
    named("IncidentImpact", one_of(&Impact::NAMES, None))
}

pub fn incident_status() -> RefOr<Schema> {
    named("IncidentStatus", one_of(&Status::NAMES, None))
}

/// Status of the service
#[derive(Serialize, ToSchema)]
#[schema(as = ServiceStatus, example = json!({
    "status": "operational", "measured_at": "2026-11-20T18:05:00.123Z",
    "components": [{"name": "api", "state": "operational"}], "incidents": [],
    "history": [{"date": "2026-11-20", "components": [
        {"name": "api", "state": "operational", "uptime": 1.0, "samples": 1440},
    ]}],
}))]
struct PublicStatus {
    /// State of the worst component
    #[schema(schema_with = state)]
    status: &'static str,
    /// Time the components were measured (RFC 3339); null when this process has not measured them yet
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    measured_at: Option<Timestamp>,
    /// Components of the service
    components: Vec<ShownComponent>,
    /// Open incidents, newest first
    incidents: Vec<Incident>,
    /// Last 90 days in UTC, newest first
    history: Vec<ShownDay>,
}

/// A component of the service
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"name": "webhooks", "state": "operational"}))]
struct ShownComponent {
    /// Name of the component
    #[schema(schema_with = component)]
    name: &'static str,
    /// State of the component; `unknown` when it cannot be measured
    #[schema(schema_with = state)]
    state: &'static str,
}

impl From<Measured> for ShownComponent {
    fn from(measured: Measured) -> Self {
        Self { name: measured.component.name(), state: measured.state.map_or(UNKNOWN, |state| state.name()) }
    }
}

/// A day of the history
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"date": "2026-11-20", "components": [
    {"name": "api", "state": "operational", "uptime": 1.0, "samples": 1440},
]}))]
struct ShownDay {
    /// Date in UTC
    #[schema(format = Date)]
    date: String,
    /// Components of the service on that day
    components: Vec<ShownDayOfComponent>,
}

/// A component of the service on one day
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"name": "mail", "state": "partial_outage", "uptime": 0.9931, "samples": 1440}))]
struct ShownDayOfComponent {
    /// Name of the component
    #[schema(schema_with = component)]
    name: &'static str,
    /// Worst state measured on that day; `unknown` without samples
    #[schema(schema_with = state)]
    state: &'static str,
    /// Fraction of the samples without an outage; null without samples
    #[schema(required = true)]
    uptime: Option<f64>,
    /// Number of samples on that day, normally one per minute
    samples: i32,
}

impl From<DayOfComponent> for ShownDayOfComponent {
    fn from(day: DayOfComponent) -> Self {
        Self {
            name: day.component.name(),
            state: day.state.map_or(UNKNOWN, |state| state.name()),
            uptime: day.uptime,
            samples: day.samples,
        }
    }
}

impl From<Day> for ShownDay {
    fn from(day: Day) -> Self {
        let components = day.components.into_iter().map(ShownDayOfComponent::from).collect();
        Self { date: day.date.to_string(), components }
    }
}

/// An incident
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "inc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "title": "Mails are late", "impact": "minor", "status": "investigating",
    "components": ["mail"], "created_at": "2026-11-20T18:05:00.123Z", "updated_at": "2026-11-20T18:05:00.123Z",
    "resolved_at": null,
    "updates": [{"status": "investigating", "message": "We look into it.", "created_at": "2026-11-20T18:05:00.123Z"}],
}))]
pub struct Incident {
    /// Incident ID
    #[schema(value_type = String)]
    id: IncidentId,
    /// Title of the incident
    title: String,
    /// Severity of the incident
    #[schema(schema_with = impact)]
    impact: &'static str,
    /// Progress of the resolution
    #[schema(schema_with = incident_status)]
    status: &'static str,
    /// Affected components
    components: Vec<String>,
    /// Time the incident was posted (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last update (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time the incident was resolved (RFC 3339); null while it is open
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    resolved_at: Option<Timestamp>,
    /// Updates, newest first
    updates: Vec<IncidentUpdate>,
}

/// An update of an incident
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "status": "identified", "message": "We know why.", "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct IncidentUpdate {
    /// Progress of the resolution at that time
    #[schema(schema_with = incident_status)]
    status: &'static str,
    /// Text of the update
    message: String,
    /// Time of the update (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<incidents::Incident> for Incident {
    fn from(incident: incidents::Incident) -> Self {
        let updates = incident.updates.into_iter().map(|update| IncidentUpdate {
            status: update.status.name(),
            message: update.message,
            created_at: update.created_at,
        });
        Self {
            id: incident.id,
            title: incident.title,
            impact: incident.impact.name(),
            status: incident.status.name(),
            components: incident.components,
            created_at: incident.created_at,
            updated_at: incident.updated_at,
            resolved_at: incident.resolved_at,
            updates: updates.collect(),
        }
    }
}

impl From<&CachedStatus> for PublicStatus {
    fn from(seen: &CachedStatus) -> Self {
        let look = seen.page.as_deref().cloned();
        let (incidents, history, measured_at) = match look {
            Some(look) => (look.incidents, look.history, Some(look.at)),
            None => (Vec::new(), Vec::new(), None),
        };
        Self {
            status: seen.worst().name(),
            measured_at,
            components: seen.components().into_iter().map(ShownComponent::from).collect(),
            incidents: incidents.into_iter().map(Incident::from).collect(),
            history: history.into_iter().map(ShownDay::from).collect(),
        }
    }
}

/// Get the status of the service
///
/// Responds within a second, even if the database does not respond.
#[utoipa::path(
    get, path = "/v1/status", tag = "Status", operation_id = "getStatus",
    responses((status = 200, description = "The status of the service", body = PublicStatus)),
)]
async fn show(State(app): State<App>) -> ([(HeaderName, &'static str); 1], Answer<PublicStatus>) {
    let seen = app.status_cache.get(&app.db).await;
    ([(CACHE_CONTROL, "public, max-age=3")], Answer(PublicStatus::from(&seen)))
}

/// Request body of a subscription
#[derive(Deserialize, ToSchema)]
#[schema(as = StatusSubscription, example = json!({"email": "ada@example.com"}))]
struct Subscription {
    /// E-mail address to notify of incidents
    #[schema(format = Email)]
    email: String,
}

/// Response to a subscription; it is the same for every address
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"sent": true, "expires_at": "2026-11-21T18:05:00.123Z"}))]
struct SubscriptionAsked {
    /// Always true
    sent: bool,
    /// Time the mailed link expires (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    expires_at: Option<Timestamp>,
}

/// Subscribe to incidents
///
/// Mails a confirmation link to the address. The subscription begins when the link is followed. The response is the same whether
/// or not the address is already subscribed.
#[utoipa::path(
    post, path = "/v1/status/subscribers", tag = "Status", operation_id = "createStatusSubscription",
    request_body = Subscription,
    responses(
        (status = 200, description = "A confirmation link is mailed unless the address is already subscribed", body = SubscriptionAsked),
        Body, RateLimited, Database,
    ),
)]
async fn subscribe(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<Subscription>,
) -> Result<Answer<SubscriptionAsked>> {
    let email = EmailAddress::parse(&body.email)?;
    app.rate_limits.check(Bucket::StatusSubscription, &client).await?;
    app.rate_limits.check(Bucket::StrangerMail, client.network()).await?;
    let mut conn = app.db.acquire().await?;
    let expires_at = subscribe_address(&mut conn, &email, app.config.status.confirm_ttl).await?;
    Ok(Answer(SubscriptionAsked { sent: true, expires_at }))
}
