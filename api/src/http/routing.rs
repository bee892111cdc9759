//! Registers handlers, each with who gets in. There is no way to register one without saying that; callers are admitted by it,
//! and the contract is written from it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::MethodRouter;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::PathItem;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::http::permissions::{Access, Deprecation, OnRefusal, Route, Rule};
use crate::http::state::App;

/// Routes of an area, or of all of them.
#[derive(Default)]
pub struct Routes {
    router: OpenApiRouter<App>,
    rows: Vec<Route>,
    /// How many rows there were before the last handlers came.
    older: usize,
}

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Handlers for whoever shows a credential that satisfies `rule`.
    pub fn allow(self, rule: Rule, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Account(rule), handlers)
    }

    /// Handlers for anybody.
    pub fn public(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Public, handlers)
    }

    /// Handlers for whoever has the deployment's metrics token.
    pub fn with_metrics_token(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::MetricsToken, handlers)
    }

    /// Handlers for staff.
    pub fn for_staff(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Staff, handlers)
    }

    /// What the pages of people are made of besides themselves: anybody may have it, and it is no part of the contract.
    pub fn assets(self, path: &str, handler: MethodRouter<App>) -> Self {
        Self { router: self.router.route(path, handler), ..self }
    }

    /// Announces the end of what was registered last (contract: versioning 4).
    #[cfg_attr(not(test), expect(dead_code, reason = "no route will go at the moment"))]
    pub fn deprecated(mut self, deprecation: Deprecation) -> Self {
        self.rows[self.older..].iter_mut().for_each(|route| route.deprecation = Some(deprecation));
        self
    }

    /// Counts callers of what was registered last who are refused before its handler runs.
    pub fn on_refusal(mut self, count: OnRefusal) -> Self {
        self.rows[self.older..].iter_mut().for_each(|route| route.on_refusal = Some(count));
        self
    }

    /// The routes so far, whose answers hold what must not stay in anybody's cache.
    pub fn never_stored(self) -> Self {
        Self { router: self.router.layer(map_response(forbid_storing)), ..self }
    }

    pub fn merge(mut self, others: Self) -> Self {
        self.older = self.rows.len();
        self.rows.extend(others.rows);
        Self { router: self.router.merge(others.router), ..self }
    }

    /// Every route, in the order of registration.
    pub fn into_rows(self) -> Vec<Route> {
        self.rows
    }

    /// What serves the routes, what they say of themselves, and who gets in.
    pub fn split(self) -> (Router<App>, OpenApi, Rows) {
        let (router, described) = self.router.split_for_parts();
        (router, described, self.rows.into_iter().collect())
    }

    fn register(mut self, access: Access, handlers: UtoipaMethodRouter<App>) -> Self {
        self.older = self.rows.len();
        let (_, paths, _) = &handlers;
        let routes =
            paths.paths.iter().flat_map(|(path, item)| methods(item).map(move |method| (method, path.clone())));
        self.rows.extend(routes.map(|(method, path)| Route {
            method,
            path,
            access,
            deprecation: None,
            on_refusal: None,
        }));
        Self { router: self.router.routes(handlers), ..self }
    }
}

fn methods(item: &PathItem) -> impl Iterator<Item = Method> {
    let operations = [
        (Method::POST, &item.post),
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    operations.into_iter().filter(|(_, operation)| operation.is_some()).map(|(method, _)| method)
}

async fn forbid_storing(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The rows of routes, by path and method.
#[derive(Debug, Clone)]
pub struct Rows(Arc<HashMap<String, HashMap<Method, Route>>>);

impl Rows {
    /// The row of a route, if there is such a route.
    pub fn find(&self, method: &Method, path: &str) -> Option<&Route> {
        // What answers GET answers HEAD.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(path)?.get(method)
    }
}

impl FromIterator<Route> for Rows {
    fn from_iter<T: IntoIterator<Item = Route>>(routes: T) -> Self {
        let mut rows = HashMap::<_, HashMap<_, _>>::new();
        for route in routes {
            rows.entry(route.path.clone()).or_default().insert(route.method.clone(), route);
        }
        Self(Arc::new(rows))
    }
}
