//! Stylesheets and scripts. The name of their folder is a hash of their content, so that browsers can cache them indefinitely
//! and never run an old script with a new page.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::extract::RawPathParams;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::routing::Routes;

const ASSETS: [(&str, &str); 10] = [
    ("page.css", include_str!("assets/page.css")),
    ("arrival.js", include_str!("assets/arrival.js")),
    ("activate.js", include_str!("assets/activate.js")),
    ("invitation.js", include_str!("assets/invitation.js")),
    ("link.js", include_str!("assets/link.js")),
    ("live.js", include_str!("assets/live.js")),
    ("pending.js", include_str!("assets/pending.js")),
    ("service.js", include_str!("assets/service.js")),
    ("sign-in.js", include_str!("assets/sign-in.js")),
    ("steps.js", include_str!("assets/steps.js")),
];

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    ASSETS.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// Assets are not part of the contract.
pub fn routes() -> Routes {
    Routes::new().assets("/assets/{version}/{file}", get(asset))
}

/// Scripts import each other from the same folder.
pub fn path(file: &str) -> String {
    format!("/assets/{}/{file}", *VERSION)
}

async fn asset(params: RawPathParams) -> Result<Response> {
    let mut params = params.iter().map(|(_, value)| value);
    let (version, file) = (params.next().unwrap_or_default(), params.next().unwrap_or_default());
    let (_, text) = ASSETS
        .into_iter()
        .find(|(name, _)| *name == file)
        .ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "no such file"))?;
    let media_type = match file.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    // During a rolling deployment, the page and its script can come from processes of different versions.
    let caching = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-store" };
    let headers = [(CONTENT_TYPE, media_type), (CACHE_CONTROL, caching)];
    Ok((headers, text).into_response())
}
