//! Request ID, span, log line and counters of every request.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use kitfleet_jobs::traces;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::http::error::Problem;
use crate::http::metrics;
use crate::http::request_id::{self, RequestId};

pub async fn requests(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = RequestId::of(request.headers());
    request.extensions_mut().insert(id.clone());
    let method = method_label(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let span = tracing::info_span!("request", request_id = %id.0, method, route, trace_id = Empty, account = Empty, session = Empty, profile = Empty);
    traces::name(&span);

    let mut response = next.run(request).instrument(span.clone()).await;

    let status = response.status();
    let elapsed = started.elapsed();
    metrics::count_request(method, route, status, elapsed);
    let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    log(&span, route, status.as_u16(), duration_ms);
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(request_id::HEADER, value);
    }
    response
}

/// With a 500, like any other defect.
pub async fn panics(request: Request, next: Next) -> Response {
    let caught = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        metrics::count_panic();
        // The panic hook has already logged the message and its location.
        Problem::internal(&"a handler panicked").into_response()
    })
}

/// Probes and scrapes arrive every few seconds, so their log lines would drown the others.
fn log(span: &Span, route: &str, status: u16, duration_ms: u64) {
    span.in_scope(|| match route {
        "/healthz" | "/readyz" | "/metrics" => tracing::debug!(status, duration_ms, "request answered"),
        _ => tracing::info!(status, duration_ms, "request answered"),
    });
}

/// Clients can invent methods, which must not become labels or log fields.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    /// Contract: operators 5.
    #[tokio::test]
    async fn panicking_handler_is_counted() {
        let rendered = metrics::install(&[]).expect("a recorder");
        let defect = async || -> StatusCode { panic!("a defect") };
        let routes = Router::new().route("/", get(defect)).layer(from_fn(panics));
        assert!(rendered.render().contains("\nservice_unhandled_rejection_total 0\n"), "{}", rendered.render());
        let answer = routes.oneshot(Request::new(Body::empty())).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(rendered.render().contains("\nservice_unhandled_rejection_total 1\n"), "{}", rendered.render());
    }
}
