//! Taking a screenshot, the DOM or a PDF.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{
    Capture, CaptureKind, CaptureOptions, CaptureScale, Captured, ImageFormat, Margins, Operation, Paper,
};
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::routes;

use super::targets::{self, TargetBody, element_if_any};
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Json;
use crate::http::openapi::{Body, Driving, NoSession, Restricted, named, one_of, or_null};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(capture))
}

/// Capture a screenshot, the DOM or a PDF
///
/// Returns a picture or a PDF in base64, and the DOM as text. A result that exceeds its limit is withheld with a 502, and the
/// session stays ready.
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
    let operation = body.into_operation(&app.config.limits)?;
    dispatch::run(&app, &caller, path.id()?, Operation::Capture(operation)).await
}

/// Body of `capture`
#[derive(Deserialize, ToSchema)]
#[schema(as = Capture, example = json!({"kind": "screenshot", "full_page": false}))]
pub struct CaptureBody {
    /// Kind of capture
    #[schema(schema_with = capture_kind)]
    pub kind: CaptureKind,
    /// CSS selector of an element to capture, for screenshots; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    pub selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    pub target: Option<TargetBody>,
    /// True to capture the whole document instead of the viewport; for screenshots
    #[schema(default = false)]
    pub full_page: Option<bool>,
    /// True to scroll through the whole page first, so that lazy content loads; for screenshots with `full_page`
    #[schema(default = false)]
    pub reveal: Option<bool>,
    /// Format of a screenshot
    #[schema(schema_with = format)]
    pub format: Option<ImageFormat>,
    /// Quality of a JPEG or a WebP
    #[schema(minimum = 1, maximum = 100, default = 80)]
    pub quality: Option<u8>,
    /// Pixels of a screenshot: one for each CSS pixel, or one for each pixel of the device
    #[schema(schema_with = scale)]
    pub scale: Option<CaptureScale>,
    /// Paper of a PDF
    #[schema(schema_with = paper)]
    pub paper: Option<Paper>,
    /// True for a PDF whose long side is horizontal
    #[schema(default = false)]
    pub landscape: Option<bool>,
    /// Margins of a PDF. A side without a margin has that of the paper
    #[schema(schema_with = margins)]
    pub margins: Option<Margins>,
    /// True to print backgrounds in a PDF
    #[schema(default = true)]
    pub background: Option<bool>,
}

impl CaptureBody {
    /// Converts the body into a capture.
    ///
    /// # Errors
    /// On each invalid member.
    pub fn into_operation(self, limits: &Limits) -> Result<Capture, Invalid> {
        let options = CaptureOptions {
            full_page: self.full_page,
            reveal: self.reveal,
            element: element_if_any(self.selector, self.target, "")?,
            format: self.format,
            quality: self.quality,
            scale: self.scale,
            paper: self.paper,
            landscape: self.landscape,
            margins: self.margins,
            background: self.background,
        };
        Capture::parse(self.kind, options, limits)
    }
}

fn capture_kind() -> RefOr<Schema> {
    one_of(&["screenshot", "dom_snapshot", "pdf"], None)
}

fn format() -> RefOr<Schema> {
    or_null(named("ImageFormat", one_of(&["png", "jpeg", "webp"], Some("png"))))
}

fn scale() -> RefOr<Schema> {
    or_null(named("CaptureScale", one_of(&["css", "device"], Some("device"))))
}

fn paper() -> RefOr<Schema> {
    or_null(named("Paper", one_of(&["a4", "a5", "letter", "legal"], Some("a4"))))
}

fn margins() -> RefOr<Schema> {
    or_null(named("Margins", Margins::schema()))
}
