//! The files that the build of `web/` writes. They are part of the program.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use html_escape::encode_double_quoted_attribute;
use rust_embed::RustEmbed;
use serde_json::json;

use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::state::App;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Built;

/// Element of a page with a sign-in. `web/src/lib/service.ts` reads it.
const SERVICE: &str = "<meta name=\"service\" content=\"{}\">";

/// A file whose name contains a hash of its content.
pub fn file(path: &str, caching: &str) -> Result<Response> {
    let file = Built::get(path).ok_or_else(missing)?;
    let headers = [(CONTENT_TYPE, file.metadata.mimetype().to_owned()), (CACHE_CONTROL, caching.to_owned())];
    Ok((headers, file.data).into_response())
}

pub fn page(name: &str) -> Result<String> {
    let file = Built::get(name).ok_or_else(missing)?;
    String::from_utf8(file.data.into_owned()).map_err(|error| Problem::internal(&error))
}

/// A page that can ask for a sign-in. It is told the identity providers of the deployment and the rule for passwords.
pub fn page_with_sign_in(app: &App, name: &str) -> Result<String> {
    let provider = |name: &str, display_name: &str| json!({"name": name, "display_name": display_name});
    let providers: Vec<_> = app.providers.iter().map(|one| provider(&one.name, &one.config.display_name)).collect();
    let service = json!({"providers": providers, "password_min_chars": app.config.limits.password_min_chars});
    let service = service.to_string();
    let element = format!("<meta name=\"service\" content=\"{}\">", encode_double_quoted_attribute(&service));
    Ok(page(name)?.replacen(SERVICE, &element, 1))
}

fn missing() -> Problem {
    Problem::new(&kinds::NOT_FOUND, "no such file")
}
