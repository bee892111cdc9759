//! `/app/`: the dashboard, a single-page application (`web/`) that uses the public interface only. Its built files are part of the
//! program. Every address below `/app/` that names no file answers the same page, which reads the address itself. `/staff/` is
//! the board of staff, a second page of the same build (contract: staff 29).

use axum::extract::{RawPathParams, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::routing::get;
use tower_http::compression::CompressionLayer;

use crate::http::auth::staff::refuse_others;
use crate::http::error::{Problem, Result};
use crate::http::page_headers::{own_connections, policy};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::web_build;

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
    let page = web_build::page_with_sign_in(app, page)?;
    let mut response = ([(CACHE_CONTROL, "no-cache")], Html(page)).into_response();
    // The application shows pictures that it loads with the person's credential.
    let policy = policy("'self' data: blob:", &own_connections(&app.config.base_url), "'none'");
    if let Ok(policy) = HeaderValue::try_from(policy) {
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
    web_build::file(path, &format!("{scope}, max-age=31536000, immutable"))
}
