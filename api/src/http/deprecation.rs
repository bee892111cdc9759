//! Announces the removal of a route (contract: versioning 4): every response of a deprecated route, also an error, has the
//! headers.

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use crate::http::permissions::Deprecation;
use crate::http::routing::Rows;

pub async fn announce(State(rows): State<Rows>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let deprecation = path.and_then(|path| rows.find(request.method(), path.as_str())?.deprecation);
    let mut response = next.run(request).await;
    for (name, value) in deprecation.iter().flat_map(Deprecation::headers) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
