//! Kitfleet's HTTP interface: routes, wire types and who may call them.
//!
//! A handler authenticates, parses, stores what was asked for, enqueues what has to be done about it, commits and
//! answers. What crosses all routes is a layer, outermost first: `own_task`, `observe`, `deprecation`, `problems`, `pulse`,
//! `rate_limits`, `unknown_fields`, `auth`. Rules and SQL live in `kitfleet-domain`; nothing here touches a browser.

mod accounts;
mod api_keys;
mod archetypes;
mod audit_log;
mod auth;
mod body;
mod client;
mod connections;
mod deprecation;
mod devices;
mod docs;
mod document;
mod emails;
mod error;
mod hashing;
mod health;
mod identities;
mod impatient;
mod json;
mod kinds;
mod last_used;
mod lists;
mod malformed;
mod metrics;
mod mfa;
mod oauth;
mod observe;
mod openapi;
mod own_task;
mod pages;
mod path;
pub mod permissions;
mod problems;
mod profiles;
mod pulse;
mod rate_limits;
mod replies;
mod request_id;
mod rescue;
mod router;
mod server;
mod sessions;
mod sign_ins;
mod state;
mod teams;
mod unknown_fields;
mod usage;
mod web_sessions;
mod webhooks;

pub use connections::ConnectionLimits;
pub use identities::ProviderConfig;
pub use rate_limits::RateLimits;
pub use router::openapi;
pub use server::{ServeError, serve, serve_health};
pub use state::{ApiConfig, AuthConfig};
