//! What nobody's cache may keep.

use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::Response;

/// Answers that hold tokens must not stay in anybody's cache.
pub async fn forbid_storing(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
