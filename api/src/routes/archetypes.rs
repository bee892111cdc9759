//! Catalogue of devices (contract: archetypes 1, 2).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use kitfleet_domain::archetypes;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::openapi::one_of;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().public(routes!(list))
}

/// Device, with its operating system and browser
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"id": "iphone-16-ios-18", "display_label": "iPhone 16, iOS 18", "device": "iPhone 16",
    "ios_version": "18.5", "safari_version": "18.5", "canvas_family": "a18", "status": "launch", "is_default": true}))]
struct Archetype {
    /// Value accepted as `archetype`
    id: &'static str,
    /// Human-readable name
    display_label: &'static str,
    device: &'static str,
    ios_version: &'static str,
    safari_version: &'static str,
    /// Family of devices with the same canvas rendering
    canvas_family: &'static str,
    /// Status; `launch` marks the default
    #[schema(schema_with = status)]
    status: &'static str,
    /// True if this is the default archetype of a create
    is_default: bool,
}

fn status() -> RefOr<Schema> {
    one_of(&["launch", "available"], None)
}

impl From<&'static archetypes::Archetype> for Archetype {
    fn from(archetype: &'static archetypes::Archetype) -> Self {
        Self {
            id: &archetype.id,
            display_label: &archetype.display_label,
            device: &archetype.device,
            ios_version: &archetype.ios_version,
            safari_version: &archetype.safari_version,
            canvas_family: &archetype.canvas_family,
            status: archetype.status.name(),
            is_default: archetype.id == archetypes::launch().id,
        }
    }
}

/// Archetype catalogue
#[derive(Serialize, ToSchema)]
struct ArchetypeList {
    /// Default archetype of a create
    #[schema(example = "iphone-16-ios-18")]
    default_archetype_id: &'static str,
    data: Vec<Archetype>,
}

/// List archetypes
///
/// Returns every device that a session can emulate. No credential is needed.
#[utoipa::path(
    get, path = "/v1/archetypes", tag = "Archetypes", operation_id = "listArchetypes",
    responses((status = 200, description = "The catalogue", body = ArchetypeList,
               headers(("Cache-Control" = String, description = "public, max-age=300")))),
)]
async fn list(State(app): State<App>) -> ([(HeaderName, String); 1], Answer<ArchetypeList>) {
    let data = archetypes::all().iter().map(Archetype::from).collect();
    let catalogue = ArchetypeList { default_archetype_id: &archetypes::launch().id, data };
    let caching = format!("public, max-age={}", app.config.limits.archetypes_max_age.as_secs());
    ([(CACHE_CONTROL, caching)], Answer(catalogue))
}
