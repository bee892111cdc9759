//! HTML pages for people: problem types, the agent grammar, links in mails, device activation, team invitations, live views and
//! the service status. Plain documents with first-party scripts, without frameworks or third-party content. A page contains
//! nothing about its viewer and is the same for every visitor.

mod activation;
mod agent_grammar;
pub mod arrival;
mod assets;
mod errors;
mod invitation;
mod links;
mod live;
mod status;

use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use axum::response::{Html, IntoResponse, Response};
use html_escape::encode_text;

use crate::http::providers::Provider;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .merge(errors::routes())
        .merge(agent_grammar::routes())
        .merge(activation::routes())
        .merge(links::routes())
        .merge(live::routes())
        .merge(invitation::routes())
        .merge(status::routes())
        .merge(assets::routes())
}

/// The page is never cached or referred, because its URL may hold a token.
fn card(title: &str, script: &str, main: &str) -> Response {
    let script = assets::path(script);
    let head = format!("<script type=module src=\"{script}\"></script>");
    let noscript = "<noscript><p>This page needs JavaScript.</p></noscript>";
    let body = format!(
        "<body>\n<div class=brand>Kitfleet</div>\n{main}\n\
         <footer><span id=signed-in-as hidden><span id=who></span> \
         <button id=sign-out type=button class=quiet>Sign out</button></span>{noscript}</footer>"
    );
    (headers("no-store"), Html(document(title, &head, &body))).into_response()
}

/// A password, and the identity providers of the deployment.
fn sign_in(app: &App) -> String {
    let provider = |provider: &Provider| {
        let (name, display_name) = (&provider.name, encode_text(&provider.config.display_name));
        format!("<a class=\"button second\" href=\"/v1/auth/oauth/{name}/start\">Continue with {display_name}</a>\n")
    };
    let providers: String = app.providers.iter().map(provider).collect();
    include_str!("pages/sign-in.html").replace("<!-- providers -->\n", &providers)
}

fn reading(title: &str, content: &str) -> Response {
    let body = format!("<body class=reading>\n<div class=brand>Kitfleet</div>\n<main>{content}</main>");
    (headers("public, max-age=300"), Html(document(title, "", &body))).into_response()
}

fn document(title: &str, head: &str, body: &str) -> String {
    let style = assets::path("page.css");
    format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>{title} · Kitfleet</title>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<link rel=icon href=\"{ICON}\">\n\
         <link rel=stylesheet href=\"{style}\">\n{head}\n{body}\n</html>\n"
    )
}

/// Rounded corners, in the colour of the buttons.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
                    %3Crect width='16' height='16' rx='4' fill='%231f5bd8'/%3E\
                    %3Cpath d='M5.5 3.5v9M10.5 3.5 5.5 8l5 4.5' stroke='white' stroke-width='2' fill='none'/%3E%3C/svg%3E";

/// The other headers are common to all pages ([`page_headers`](crate::http::page_headers)).
fn headers(caching: &'static str) -> [(HeaderName, &'static str); 1] {
    [(CACHE_CONTROL, caching)]
}
