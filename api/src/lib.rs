//! Kitfleet's HTTP interface: routes, wire types and who may call them.
//!
//! What every route uses is in `http`, which knows no route. What a customer calls is in `routes`, an area a module. Above both are
//! `router`, which brings them together, and `document`, which makes the contract of them.
//!
//! A handler authenticates, parses, stores what was asked for, enqueues what has to be done about it, commits and
//! answers. What crosses all routes is a layer, outermost first: `own_task`, `observe`, `cors`, `board`, `deprecation`, `problems`, `pulse`,
//! `rate_limits`, `unknown_fields`, `auth`. Rules and SQL live in `kitfleet-domain`; nothing here touches a browser.

mod document;
mod http;
pub mod permissions;
#[cfg(test)]
mod rooms;
mod router;
mod routes;

pub use http::connections::ConnectionLimits;
pub use http::metrics::install as install_metrics;
pub use http::providers::ProviderConfig;
pub use http::rate_limits::RateLimits;
pub use http::state::{ApiConfig, AuthConfig, DocumentConfig, LiveConfig, ServeError};
pub use router::{openapi, serve, serve_health};
