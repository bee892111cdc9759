//! Registration of handlers, each with its access rule. A handler cannot be registered without an access rule. Callers are
//! admitted by the rule, and the OpenAPI document shows it.

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

#[derive(Default)]
pub struct Routes {
    router: OpenApiRouter<App>,
    rows: Vec<Route>,
    /// Number of rows before the last registration.
    older: usize,
}

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn allow(self, rule: Rule, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Account(rule), handlers)
    }

    pub fn public(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Public, handlers)
    }

    pub fn with_metrics_token(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::MetricsToken, handlers)
    }

    pub fn for_staff(self, handlers: UtoipaMethodRouter<App>) -> Self {
        self.register(Access::Staff, handlers)
    }

    /// Not part of the contract.
    pub fn assets(self, path: &str, handler: MethodRouter<App>) -> Self {
        Self { router: self.router.route(path, handler), ..self }
    }

    /// Of the routes registered last (contract: versioning 4).
    #[cfg_attr(not(test), expect(dead_code, reason = "no route is deprecated at present"))]
    pub fn deprecated(mut self, deprecation: Deprecation) -> Self {
        self.rows[self.older..].iter_mut().for_each(|route| route.deprecation = Some(deprecation));
        self
    }

    pub fn on_refusal(mut self, count: OnRefusal) -> Self {
        self.rows[self.older..].iter_mut().for_each(|route| route.on_refusal = Some(count));
        self
    }

    /// Responses of the routes so far hold secrets or personal data.
    pub fn never_stored(self) -> Self {
        Self { router: self.router.layer(map_response(forbid_storing)), ..self }
    }

    pub fn merge(mut self, others: Self) -> Self {
        self.older = self.rows.len();
        self.rows.extend(others.rows);
        Self { router: self.router.merge(others.router), ..self }
    }

    /// In order of registration.
    pub fn into_rows(self) -> Vec<Route> {
        self.rows
    }

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

#[derive(Debug, Clone)]
pub struct Rows(Arc<HashMap<String, HashMap<Method, Route>>>);

impl Rows {
    pub fn find(&self, method: &Method, path: &str) -> Option<&Route> {
        // GET handlers also answer HEAD.
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
