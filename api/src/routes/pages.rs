//! HTML pages for people: problem types, the agent grammar, links in mails, device activation, team invitations, live views and
//! the service status. Those with scripts are small applications of `web/`; the others are written here in its style. A page
//! contains nothing about its viewer and is the same for every visitor.

mod agent_grammar;
mod errors;
pub mod links;
mod live;
mod status;

use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use axum::response::{Html, IntoResponse, Response};

use crate::http::error::Result;
use crate::http::routing::Routes;
use crate::http::web_build;

pub fn routes() -> Routes {
    Routes::new()
        .merge(errors::routes())
        .merge(agent_grammar::routes())
        .merge(links::routes())
        .merge(live::routes())
        .merge(status::routes())
}

/// A page without a script.
fn reading(title: &str, content: &str) -> Result<Response> {
    Ok((headers("public, max-age=300"), document(title, content)?).into_response())
}

fn document(title: &str, content: &str) -> Result<Html<String>> {
    let page = web_build::page("reading.html")?.replacen("<title>", &format!("<title>{title} · "), 1);
    Ok(Html(page.replacen("<!-- content -->", content, 1)))
}

/// The other headers are common to all pages ([`page_headers`](crate::http::page_headers)).
fn headers(caching: &'static str) -> [(HeaderName, &'static str); 1] {
    [(CACHE_CONTROL, caching)]
}
