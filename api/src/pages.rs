//! `/errors/<slug>`: what a problem's `type` leads to.

use axum::extract::RawPathParams;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::response::{Html, IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{Problem, Result};
use crate::kinds::{self, Kind};
use crate::openapi::NoPage;
use crate::state::App;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(index)).routes(routes!(explain))
}

/// All kinds of problems
#[utoipa::path(
    get, path = "/errors", tag = "Contract", operation_id = "listErrors",
    responses((status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8")),
    security(()),
)]
async fn index() -> Response {
    let rows: Vec<_> = kinds::ALL
        .into_iter()
        .map(|Kind { slug, status, meaning, .. }| {
            let status = status.as_u16();
            format!("<tr><td>{status}<td><a href=\"/errors/{slug}\">{slug}</a><td>{meaning}")
        })
        .collect();
    let intro = "Every answer that is no success is a problem document (RFC 9457) of one of these kinds.";
    let rows = rows.concat();
    page("Errors", &format!("<h1>Errors</h1><p>{intro}<table><tr><th>Status<th>Kind<th>Meaning{rows}</table>"))
}

/// What a kind of problem means
#[utoipa::path(
    get, path = "/errors/{slug}", tag = "Contract", operation_id = "explainError",
    params(("slug" = String, Path, description = "The last segment of a problem's `type`", example = "validation-failed")),
    responses(
        (status = 200, description = "A page", body = String, content_type = "text/html; charset=utf-8"),
        NoPage,
    ),
    security(()),
)]
async fn explain(params: RawPathParams) -> Result<Response> {
    let kind = params.iter().next().and_then(|(_, slug)| kinds::find(slug));
    let kind = kind.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "there is no such kind of problem"))?;
    let Kind { slug, title, status, meaning, remedy } = kind;
    let content = format!(
        "<p><a href=\"/errors\">All errors</a><h1>{title}</h1>\
         <p><code>{slug}</code> · HTTP {status}<h2>What it means</h2><p>{meaning}<h2>What to do</h2><p>{remedy}"
    );
    Ok(page(title, &content))
}

/// Both pages are made of texts of ours alone, so that nothing needs escaping.
fn page(title: &str, content: &str) -> Response {
    let style = "body{font:16px/1.6 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem;color:#1c2430;\
                 background:#fbfbfa}h1{line-height:1.2;margin-bottom:.3rem}h2{font-size:1.1rem;margin:1.6rem 0 0}\
                 p{margin:.3rem 0 1rem}code{background:#eceff3;border-radius:4px;padding:.1rem .4rem}a{color:#0b62d6}\
                 table{border-collapse:collapse}td,th{text-align:left;vertical-align:top;padding:.4rem .8rem .4rem 0;\
                 border-bottom:1px solid #e2e5ea}td:nth-child(2){white-space:nowrap}\
                 @media(prefers-color-scheme:dark){body{color:#dfe5ec;background:#14181d}code{background:#262c34}\
                 a{color:#79b0ff}td,th{border-color:#2d343d}}";
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title} · Kitfleet</title><style>{style}</style>{content}"
    );
    let headers = [
        (CACHE_CONTROL, "public, max-age=300"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
    ];
    (headers, Html(page)).into_response()
}
