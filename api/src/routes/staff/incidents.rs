//! Incidents on the status page (contract: staff 16; status 10 to 14).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::status::incidents::{self, Filter, IncidentMail, Message, NewIncident, Status};
use kitfleet_domain::status::notices::Kind;
use kitfleet_domain::status::subscribers;
use kitfleet_jobs::status;
use kitfleet_types::ids::IncidentId;
use kitfleet_types::validation::{Invalid, both};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoIncident, OutOfPlace, Unauthorized, named, one_of};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::status::{Incident, impact, incident_status};

pub fn routes() -> Routes {
    Routes::new()
        .for_staff(routes!(post, list))
        .for_staff(routes!(preview))
        .for_staff(routes!(update))
        .for_staff(routes!(resolve))
}

fn open_status() -> RefOr<Schema> {
    named("OpenIncidentStatus", one_of(&Status::OPEN, None))
}

/// Body of a new incident
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "title": "Mails are late", "message": "We look into it.", "impact": "minor", "components": ["mail"],
    "reason": "alert 4711",
}))]
struct IncidentToPost {
    /// Title of the incident
    #[schema(min_length = 1, max_length = 120)]
    title: String,
    /// First message
    #[schema(min_length = 1, max_length = 5000)]
    message: String,
    /// Severity of the incident
    #[schema(schema_with = impact)]
    impact: String,
    /// Affected components: `api`, `workers`, `webhooks`, `mail` and `database`
    #[schema(max_items = 5)]
    components: Option<Vec<String>>,
    /// Reason, recorded in the log
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Body of an update of an incident
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message": "We know why.", "status": "identified", "reason": "found by Grace"}))]
struct IncidentNews {
    /// Message of the update
    #[schema(min_length = 1, max_length = 5000)]
    message: String,
    /// New status of the incident
    #[schema(schema_with = open_status)]
    status: String,
    /// Reason, recorded in the log
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Body of an incident's resolution
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message": "It was a full disk.", "reason": "fixed by Grace"}))]
struct IncidentSolution {
    /// Final message. A standard message by default
    #[schema(min_length = 1, max_length = 5000)]
    message: Option<String>,
    /// Reason, recorded in the log
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// Post an incident
///
/// Shows the incident on the status page and mails every subscriber.
#[utoipa::path(
    post, path = "/v1/admin/incidents", tag = "Staff", operation_id = "createIncident", request_body = IncidentToPost,
    responses((status = 201, description = "The incident", body = Incident), Unauthorized, Body, Database),
)]
async fn post(
    staff: Staff,
    State(app): State<App>,
    body: Unchecked<IncidentToPost>,
) -> Result<(StatusCode, Answer<Incident>)> {
    let (new, by) = body.check(|IncidentToPost { title, message, impact, components, reason }| {
        let new = NewIncident::parse(&title, &message, &impact, &components.unwrap_or_default());
        both(new, staff.because(&reason))
    })?;
    let id = status::post(&mut *app.db.acquire().await?, new, &by).await?;
    Ok((StatusCode::CREATED, shown(&app, id).await?))
}

/// Notice that would be mailed
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "title": "Mails are late", "message": "We know why.", "impact": "minor", "components": ["mail"], "status": "identified",
    "is_new": false,
}))]
struct IncidentDraft {
    /// Title of the incident
    #[schema(min_length = 1, max_length = 120)]
    title: String,
    /// Message of the notice; the standard message for a resolution by default
    #[schema(min_length = 1, max_length = 5000)]
    message: Option<String>,
    /// Severity of the incident
    #[schema(schema_with = impact)]
    impact: String,
    /// Components that are affected
    #[schema(max_items = 5)]
    components: Option<Vec<String>>,
    /// Status of the incident after the notice
    #[schema(schema_with = incident_status)]
    status: String,
    /// True for a new incident, whose status is `investigating`
    is_new: bool,
}

/// Mail to subscribers of the status page
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "subject": "[Kitfleet] Update: Mails are late",
    "paragraphs": ["Status: identified. Impact: minor. Affected: mail.", "We know why.", "Service status: https://example.com/status"],
    "subscribers": 214,
}))]
struct IncidentPreview {
    /// Subject of the mail
    subject: String,
    /// Text of the mail
    paragraphs: Vec<String>,
    /// Number of subscribers at present
    subscribers: i64,
}

/// Preview the mail about an incident
///
/// Changes nothing.
#[utoipa::path(
    post, path = "/v1/admin/incidents/preview", tag = "Staff", operation_id = "previewIncident", request_body = IncidentDraft,
    responses((status = 200, description = "The mail", body = IncidentPreview), Unauthorized, Body, Database),
)]
async fn preview(_: Staff, State(app): State<App>, body: Unchecked<IncidentDraft>) -> Result<Answer<IncidentPreview>> {
    let (draft, kind) = body.check(|IncidentDraft { title, message, impact, components, status, is_new }| {
        let status = Status::named(&status)
            .ok_or_else(|| Invalid::field("status", format!("must be one of {}", Status::NAMES.join(", "))));
        let message = message.unwrap_or_else(|| match status {
            Ok(Status::Resolved) => Message::of_solution().into(),
            _ => String::new(),
        });
        let incident = NewIncident::parse(&title, &message, &impact, &components.unwrap_or_default());
        both(incident, status).map(|(incident, status)| {
            let kind = match (is_new, status) {
                (true, _) => Kind::Posted,
                (false, Status::Resolved) => Kind::Resolved,
                (false, _) => Kind::Updated,
            };
            (IncidentMail::draft(incident, if is_new { Status::Investigating } else { status }), kind)
        })
    })?;
    let subscribers = subscribers::count(&mut *app.db.acquire().await?).await?;
    let paragraphs = draft.paragraphs(&app.config.base_url);
    Ok(Answer(IncidentPreview { subject: draft.subject(kind), paragraphs, subscribers }))
}

type IncidentList = Page<Incident>;

impl ListItem for Incident {
    const LIST: &'static str = "IncidentList";
    const MEANING: &'static str = "A page of incidents, newest first";
}

/// List incidents
///
/// Returns all incidents, including resolved ones.
#[utoipa::path(
    get, path = "/v1/admin/incidents", tag = "Staff", operation_id = "listIncidents",
    params(Paging, ("status" = Option<String>, Query, description = "Only incidents with this status")),
    responses((status = 200, description = "A page", body = IncidentList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<IncidentList>> {
    let status = query.filters(filter(&query, "status", Status::named), &app.config.limits)?;
    let filters = [query.text("status")?];
    let id_of = |incident: &incidents::Incident| incident.id.as_uuid();
    let page = lists::page(&app, &query, cursors("incidents", &filters), id_of, async |conn, before, limit| {
        incidents::list(conn, Filter { status, before: before.map(IncidentId::from), limit }).await
    });
    Ok(Answer(page.await?.map(Incident::from)))
}

/// Update an incident
///
/// Adds a message to the incident. Each subscriber receives the newest message at most once an hour.
#[utoipa::path(
    post, path = "/v1/admin/incidents/{id}/updates", tag = "Staff", operation_id = "updateIncident",
    params(IdPath<IncidentId>), request_body = IncidentNews,
    responses(
        (status = 200, description = "The incident", body = Incident),
        Unauthorized, Body, NoIncident, OutOfPlace, Database,
    ),
)]
async fn update(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<IncidentId>,
    body: Unchecked<IncidentNews>,
) -> Result<Answer<Incident>> {
    let ((message, new), by) = body.check(|IncidentNews { message, status, reason }| {
        let news = both(Message::parse(&message), incidents::parse_open_status(&status));
        both(news, staff.because(&reason))
    })?;
    let id = path.id()?;
    status::update(&mut *app.db.acquire().await?, id, new, message, &by).await?;
    shown(&app, id).await
}

/// Resolve an incident
///
/// Removes the incident from the status page and mails every subscriber.
#[utoipa::path(
    post, path = "/v1/admin/incidents/{id}/resolve", tag = "Staff", operation_id = "resolveIncident",
    params(IdPath<IncidentId>), request_body = IncidentSolution,
    responses(
        (status = 200, description = "The incident", body = Incident),
        Unauthorized, Body, NoIncident, OutOfPlace, Database,
    ),
)]
async fn resolve(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<IncidentId>,
    body: Unchecked<IncidentSolution>,
) -> Result<Answer<Incident>> {
    let (message, by) = body.check(|IncidentSolution { message, reason }| {
        both(message.as_deref().map(Message::parse).transpose(), staff.because(&reason))
    })?;
    let id = path.id()?;
    let message = message.unwrap_or_else(Message::of_solution);
    status::resolve(&mut *app.db.acquire().await?, id, message, &by).await?;
    shown(&app, id).await
}

async fn shown(app: &App, id: IncidentId) -> Result<Answer<Incident>> {
    let incident = incidents::find(&mut *app.db.acquire().await?, id).await?;
    Ok(Answer(incident.ok_or_else(not_found::<IncidentId>)?.into()))
}
