//! Reading the accessibility tree of a page.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Operation, PageSnapshot, Snapshot};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Json;
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(snapshot))
}

/// Take a snapshot of the page
///
/// Returns the page as assistive technology presents it: roles, names, states, and a `ref` that operations can use to address an
/// element. The value of a password field is never included.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/snapshot", tag = "Sessions", operation_id = "snapshotPageInSession",
    params(IdPath<SessionId>), request_body = SnapshotBody,
    responses((status = 200, description = "The snapshot", body = PageSnapshot), Restricted, Body, NoSession, Driving),
)]
async fn snapshot(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(SnapshotBody {}): Json<SnapshotBody>,
) -> Result<Done> {
    dispatch::run(&app, &caller, path.id()?, Operation::Snapshot(Snapshot::default())).await
}

/// Body of `snapshot`, which has no fields
#[derive(Deserialize, ToSchema)]
#[schema(as = PageSnapshotRequest, example = json!({}))]
pub struct SnapshotBody {}
