//! Kitfleet's HTTP interface: routes, wire types and who may call them.
//!
//! A handler authenticates, parses, stores what was asked for, enqueues what has to be done about it, commits and
//! answers. What crosses all routes is a layer, outermost first: `own_task`, `observe`, `problems`,
//! `unknown_fields`. Rules and SQL live in `kitfleet-domain`; nothing here touches a browser.

mod archetypes;
mod auth;
mod body;
mod client;
mod docs;
mod emails;
mod error;
mod health;
mod json;
mod kinds;
mod lists;
mod malformed;
mod metrics;
mod observe;
mod openapi;
mod own_task;
mod pages;
mod problems;
mod replies;
mod request_id;
mod rescue;
mod router;
mod server;
mod sessions;
mod state;
mod unknown_fields;

pub use openapi::openapi;
pub use server::{ServeError, serve};
pub use state::ApiConfig;
