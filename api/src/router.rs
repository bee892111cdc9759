//! Every route, and what crosses them all.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::App;
use crate::{archetypes, docs, health, metrics, observe, openapi, own_task, pages, problems, sessions, unknown_fields};

/// The routes, without what crosses them.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::skeleton())
        .merge(sessions::routes())
        .merge(archetypes::routes())
        .merge(health::routes())
        .routes(routes!(metrics::scrape))
        .merge(docs::routes())
        .merge(pages::routes())
}

/// The whole service.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    // The last layer is the outermost. All of them come after routing, so that they know the route.
    router
        .layer(from_fn(observe::panics))
        .layer(from_fn(unknown_fields::report))
        .layer(from_fn_with_state(app.clone(), problems::render))
        .layer(from_fn(observe::requests))
        .layer(from_fn_with_state(app.clone(), own_task::run))
        .with_state(app)
}
