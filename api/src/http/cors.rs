//! Cross-origin requests (contract: requests 19 to 21). Pages of the configured origins may call the API with an API key or an
//! OAuth token. Everything else stays closed to other origins.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN, RETRY_AFTER,
    VARY,
};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use tower::{Layer, ServiceExt};
use tower_http::cors::CorsLayer;

use crate::http::auth::bearer_token;
use crate::http::rate_limits::headers::{LIMIT, REMAINING, RESET};
use crate::http::request_id;

/// For a browser to keep the answer to a preflight request.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Of API keys and OAuth tokens. Tokens of web sessions do not have it.
const TOKEN_PREFIX: &str = "svc_";

/// Below `/v1`; closed to other origins.
const CLOSED: [&str; 3] = ["/v1/auth", "/v1/admin", "/v1/mac-nodes"];

#[derive(Clone)]
pub struct CorsRules {
    origins: Vec<HeaderValue>,
    layer: CorsLayer,
}

impl CorsRules {
    /// `None` without origins: no answer has a header of CORS then.
    pub fn new(origins: &[String]) -> Option<Self> {
        let origins: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
        let sent = [
            ACCEPT,
            AUTHORIZATION,
            CONTENT_TYPE,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("last-event-id"),
            HeaderName::from_static(request_id::HEADER),
            HeaderName::from_static("x-service-account"),
        ];
        let exposed = [HeaderName::from_static(request_id::HEADER), RETRY_AFTER, LIMIT, REMAINING, RESET];
        let layer = CorsLayer::new()
            .allow_origin(origins.clone())
            .allow_methods([Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(sent)
            .expose_headers(exposed)
            .max_age(MAX_AGE)
            .vary([ORIGIN]);
        (!origins.is_empty()).then_some(Self { origins, layer })
    }

    /// The request is a preflight request or has no token of a web session.
    fn admit(&self, request: &Request) -> bool {
        let headers = request.headers();
        let is_listed = headers.get(ORIGIN).is_some_and(|origin| self.origins.contains(origin));
        let is_preflight = headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        is_listed && if request.method() == Method::OPTIONS { is_preflight } else { !has_web_session(headers) }
    }
}

pub async fn apply(State(rules): State<Option<CorsRules>>, request: Request, next: Next) -> Response {
    let Some(rules) = rules.filter(|_| is_open(request.uri().path())) else { return next.run(request).await };
    if rules.admit(&request) {
        let Ok(response) = rules.layer.layer(next).oneshot(request).await;
        return response;
    }
    let mut response = next.run(request).await;
    // A cache must not return this answer to a configured origin.
    response.headers_mut().append(VARY, ORIGIN.into());
    response
}

fn has_web_session(headers: &HeaderMap) -> bool {
    let token = headers.get(AUTHORIZATION).and_then(bearer_token);
    token.is_some_and(|token| !token.starts_with(TOKEN_PREFIX))
}

fn is_open(path: &str) -> bool {
    let is_below =
        |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (path == "/openapi.json" || is_below("/v1")) && !CLOSED.iter().any(|closed| is_below(closed))
}

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn cors_excludes_sign_ins_staff_routes_and_pages() {
        for open in ["/v1/sessions", "/v1/authors", "/v1/account/me", "/openapi.json", "/v1"] {
            assert!(is_open(open), "{open}");
        }
        for closed in [
            "/v1/auth",
            "/v1/auth/login",
            "/v1/admin/accounts",
            "/v1/mac-nodes/register",
            "/mcp",
            "/webdriver/session",
            "/wd/hub/session",
            "/",
            "/docs",
            "/metrics",
            "/v10/sessions",
        ] {
            assert!(!is_open(closed), "{closed}");
        }
    }
}
