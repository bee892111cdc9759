//! `/errors/<slug>`: the page that a problem's `type` links to.

use axum::extract::RawPathParams;
use axum::response::Response;
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::kinds::{self, Kind};
use crate::http::openapi::NoPage;
use crate::http::routing::Routes;
use crate::routes::pages::reading;

pub fn routes() -> Routes {
    Routes::new().public(routes!(index)).public(routes!(explain))
}

/// List all problem types
#[utoipa::path(
    get, path = "/errors", tag = "Pages", operation_id = "listErrors",
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn index() -> Result<Response> {
    let entries: Vec<_> = kinds::ALL
        .into_iter()
        .map(|Kind { slug, status, meaning, .. }| {
            let status = status.as_u16();
            format!("<h2>{status} <a href=\"/errors/{slug}\">{slug}</a></h2><p>{meaning}")
        })
        .collect();
    let intro = "Every error response is a problem document (RFC 9457) of one of these types.";
    reading("Errors", &format!("<h1>Errors</h1><p>{intro}{}", entries.concat()))
}

/// Explain a problem type
#[utoipa::path(
    get, path = "/errors/{slug}", tag = "Pages", operation_id = "explainError",
    params(("slug" = String, Path, description = "The last segment of a problem's `type`", example = "validation-failed")),
    responses(
        (status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8"),
        NoPage,
    ),
)]
async fn explain(params: RawPathParams) -> Result<Response> {
    let kind = params.iter().next().and_then(|(_, slug)| kinds::find(slug));
    let kind = kind.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "no such problem type"))?;
    let Kind { slug, title, status, meaning, remedy } = kind;
    let content = format!(
        "<p><a href=\"/errors\">All errors</a><h1>{title}</h1>\
         <p><code>{slug}</code> · HTTP {status}<h2>What it means</h2><p>{meaning}<h2>What to do</h2><p>{remedy}"
    );
    reading(title, &content)
}
