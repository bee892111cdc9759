//! The HTTP API: routes, wire types and access rules.
//!
//! `http` has what every route uses, and knows no route. `routes` has one module for each area. `router` combines them, and
//! `document` generates the OpenAPI document.
//!
//! A handler parses, stores the request, enqueues the work, commits and answers. Layers apply to all routes, outermost first:
//! `own_task`, `observe`, `cors`, `page_headers`, `status_cache`, `deprecation`, `problems`, `database_probe`, `rate_limits`,
//! `unknown_fields`, `auth`. Rules and SQL live in `kitfleet-domain`; nothing here touches a browser.

mod document;
mod http;
#[cfg(test)]
mod module_cycles;
pub mod permissions;
mod router;
mod routes;

pub use http::connections::ConnectionLimits;
pub use http::metrics::install as install_metrics;
pub use http::providers::ProviderConfig;
pub use http::rate_limits::RateLimits;
pub use http::state::{ApiConfig, AuthConfig, DocumentConfig, LiveConfig, ServeError};
pub use router::{openapi, serve, serve_health};
