//! `/app/`: the dashboard, a single-page application (`web/`) that uses the public interface only. Its built files are part of the
//! program. Every address below `/app/` that names no file answers the same page, which reads the address itself. `/staff/` is
//! the board of staff, a second page of the same build (contract: staff 29).

use axum::extract::{RawPathParams, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};
use tower_http::compression::CompressionLayer;

use crate::http::auth::staff::refuse_others;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::routing::Routes;
use crate::http::state::App;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Built;

const PAGE: &str = "index.html";
const STAFF_PAGE: &str = "staff.html";
/// The names of these files contain a hash of their content.
const HASHED: &str = "assets/";
/// Files that only the board of staff uses.
const STAFF_FILES: &str = "assets/staff/";

/// Not part of the contract.
pub fn routes() -> Routes {
    Routes::new()
        .assets("/", get(root))
        .assets("/app", get(|| async { Redirect::permanent("/app/") }))
        .assets("/app/", get(page).layer(CompressionLayer::new()))
        .assets("/app/{*path}", get(file).layer(CompressionLayer::new()))
        .assets("/staff", get(staff_root))
        .assets("/staff/", get(staff_page).layer(CompressionLayer::new()))
        .assets("/staff/{*path}", get(staff_page).layer(CompressionLayer::new()))
}

/// Browsers find the dashboard. Other clients get the 404 of an unknown path.
async fn root(headers: HeaderMap) -> Result<Response> {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if accepted.split(',').any(|range| range.trim().starts_with("text/html")) {
        return Ok((StatusCode::FOUND, [(LOCATION, "/app/")]).into_response());
    }
    Err(Problem::no_such_route())
}

async fn page(State(app): State<App>) -> Result<Response> {
    show(&app, PAGE)
}

async fn staff_root(State(app): State<App>, headers: HeaderMap) -> Result<Response> {
    refuse_others(&app, &headers).await?;
    Ok(Redirect::permanent("/staff/").into_response())
}

async fn staff_page(State(app): State<App>, headers: HeaderMap) -> Result<Response> {
    refuse_others(&app, &headers).await?;
    show(&app, STAFF_PAGE)
}

fn show(app: &App, page: &str) -> Result<Response> {
    let page = Built::get(page).ok_or_else(missing)?;
    let mut response = respond(page, "no-cache");
    if let Ok(policy) = HeaderValue::try_from(policy(&app.config.base_url)) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

async fn file(State(app): State<App>, params: RawPathParams, headers: HeaderMap) -> Result<Response> {
    let path = params.iter().next().map(|(_, path)| path).unwrap_or_default();
    if path.starts_with(STAFF_FILES) {
        refuse_others(&app, &headers).await?;
    }
    if !path.starts_with(HASHED) {
        return show(&app, PAGE);
    }
    // A shared cache would serve files of staff to every credential.
    let scope = if path.starts_with(STAFF_FILES) { "private" } else { "public" };
    Ok(respond(Built::get(path).ok_or_else(missing)?, &format!("{scope}, max-age=31536000, immutable")))
}

fn respond(file: EmbeddedFile, caching: &str) -> Response {
    let media_type = file.metadata.mimetype().to_owned();
    let media_type = if media_type == "text/html" { "text/html; charset=utf-8".to_owned() } else { media_type };
    ([(CONTENT_TYPE, media_type), (CACHE_CONTROL, caching.to_owned())], file.data).into_response()
}

fn missing() -> Problem {
    Problem::new(&kinds::NOT_FOUND, "no such file")
}

/// Scripts come from this service only and write no HTML, except for the templates of Svelte, which contain no data. The `WebSocket`
/// origin is listed explicitly because not every browser counts it as `'self'`.
fn policy(base_url: &str) -> String {
    let socket = base_url.replacen("http", "ws", 1);
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {socket}; img-src 'self' data: blob:; \
         form-action 'none'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; \
         trusted-types svelte-trusted-html"
    )
}
