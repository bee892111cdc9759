//! Taking a screenshot, the DOM or a PDF.

use axum::extract::State;
use kitfleet_domain::ids::SessionId;
use kitfleet_domain::operations::{Capture, CaptureKind, Captured, Operation};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Json;
use crate::http::openapi::{Body, Driving, NoSession, Restricted, one_of};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(capture))
}

/// Capture a screenshot, the DOM or a PDF
#[utoipa::path(
    post, path = "/v1/sessions/{id}/capture", tag = "Sessions", operation_id = "captureInSession",
    params(IdPath<SessionId>), request_body = CaptureBody,
    responses((status = 200, description = "The capture", body = Captured), Restricted, Body, NoSession, Driving),
)]
async fn capture(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    Json(body): Json<CaptureBody>,
) -> Result<Done> {
    let operation = Capture::new(body.kind, body.full_page.unwrap_or_default(), &app.config.limits)
        .revealing(body.reveal.unwrap_or_default())?;
    dispatch::run(&app, &caller, path.id()?, Operation::Capture(operation)).await
}

/// Body of `capture`
#[derive(Deserialize, ToSchema)]
#[schema(as = Capture, example = json!({"kind": "screenshot", "full_page": false}))]
pub struct CaptureBody {
    /// Kind of capture
    #[schema(schema_with = capture_kind)]
    pub kind: CaptureKind,
    /// True to capture the whole document instead of the viewport; for screenshots
    #[schema(default = false)]
    pub full_page: Option<bool>,
    /// True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page`
    #[schema(default = false)]
    pub reveal: Option<bool>,
}

fn capture_kind() -> RefOr<Schema> {
    one_of(&["screenshot", "dom_snapshot", "pdf"], None)
}
