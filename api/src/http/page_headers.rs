//! Headers that protect pages (contract: pages 3, 7). A page that needs another policy sets its own `Content-Security-Policy`,
//! to which the layer adds only a missing rule about frames.

use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, Entry, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;

const FRAME_ANCESTORS: &str = "frame-ancestors";

/// Policy of a page with scripts of `web/`: only resources of this service. Scripts write no HTML, except for the templates of
/// Svelte, which contain no data. Browsers never submit its forms natively, because that would put a password into a URL if a
/// script failed to load.
pub fn policy(images: &str, connections: &str, ancestors: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src {connections}; img-src {images}; \
         form-action 'none'; {FRAME_ANCESTORS} {ancestors}; base-uri 'none'; require-trusted-types-for 'script'; \
         trusted-types svelte-trusted-html"
    )
}

/// Sources of a page that opens a `WebSocket`, whose origin is listed explicitly because not every browser counts it as `'self'`.
pub fn own_connections(base_url: &str) -> String {
    format!("'self' {}", base_url.replacen("http", "ws", 1))
}

pub async fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_page(headers) {
        protect_page(headers);
    }
    response
}

fn is_page(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let begins = |with: &[u8]| media_type.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    begins(b"text/html") || begins(b"application/xhtml")
}

fn protect_page(headers: &mut HeaderMap) {
    if let Entry::Vacant(vacant) = headers.entry(REFERRER_POLICY) {
        vacant.insert(HeaderValue::from_static("no-referrer"));
    }
    let given = headers.get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
    let policy = match given {
        None => policy("'self'", "'self'", "'none'"),
        Some(policy) if frame_ancestors(policy).is_some() => policy.to_owned(),
        Some(policy) => format!("{policy}; {FRAME_ANCESTORS} 'none'"),
    };
    // For browsers without support for the policy. This header cannot list several origins.
    if frame_ancestors(&policy) == Some("'none'") {
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
}

fn frame_ancestors(policy: &str) -> Option<&str> {
    let mut directives = policy.split(';').map(str::trim);
    directives.find_map(|directive| directive.strip_prefix(FRAME_ANCESTORS)).map(str::trim)
}
