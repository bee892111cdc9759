//! Problem documents (contract: errors 1): every error response of any part of the service is one.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Map, Value};

use crate::http::error::{Parts, Problem};
use crate::http::kinds;
use crate::http::request_id::RequestId;
use crate::http::state::App;

/// The format is one of another standard (contract: oauth 4).
#[derive(Clone)]
pub struct ForeignErrorFormat;

/// RFC 9457.
pub const MEDIA_TYPE: &str = "application/problem+json";

pub async fn render(State(app): State<App>, request: Request, next: Next) -> Response {
    let instance = request.uri().path().to_owned();
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    let mut response = next.run(request).await;
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if !failed || response.extensions().get::<ForeignErrorFormat>().is_some() {
        return response;
    }
    let problem = response.extensions_mut().remove::<Problem>().unwrap_or_else(|| of_framework(response.status()));
    let status = response.status();
    let document = document(problem.into(), status, &app.config.errors_url, &instance, request_id.as_deref());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(document);
    response
}

/// Problem for an error that the framework answered.
fn of_framework(status: StatusCode) -> Problem {
    let kind = kinds::of_status(status);
    match status {
        StatusCode::NOT_FOUND => Problem::no_such_route(),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(kind, "the route does not support this method; the Allow header lists the supported ones")
        }
        _ => Problem::new(kind, kind.meaning),
    }
}

pub fn document(
    problem: Parts,
    status: StatusCode,
    errors_url: &str,
    instance: &str,
    request_id: Option<&str>,
) -> String {
    let mut document = Map::new();
    document.insert("type".to_owned(), format!("{errors_url}/{}", problem.kind.slug).into());
    document.insert("code".to_owned(), problem.kind.slug.into());
    document.insert("title".to_owned(), problem.title.into());
    document.insert("status".to_owned(), status.as_u16().into());
    document.insert("detail".to_owned(), problem.detail.into());
    document.insert("instance".to_owned(), instance.into());
    document.insert("request_id".to_owned(), request_id.into());
    for (name, value) in problem.members {
        // Additional members must not replace the standard members.
        document.entry(name).or_insert(value);
    }
    Value::Object(document).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_members_are_in_order() {
        let problem = Problem::invalid("action.text", "must be short").with("status", 200);
        let document = document(problem.into(), StatusCode::BAD_REQUEST, "https://e", "/v1/sessions", Some("r1"));
        assert_eq!(
            document,
            r#"{"type":"https://e/validation-failed","code":"validation-failed","title":"ValidationFailed","status":400,"#.to_owned()
                + r#""detail":"action.text: must be short","instance":"/v1/sessions","request_id":"r1","#
                + r#""errors":[{"field":"action.text","message":"must be short"}]}"#
        );
    }
}
