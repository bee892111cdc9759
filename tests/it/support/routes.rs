//! The routes of sessions, for rules that hold on all of them.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::{Answer, Client};

/// A request that its route takes.
#[derive(Debug, Clone)]
pub struct Route {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
}

impl Route {
    fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: None }
    }

    fn post(path: String, body: Value) -> Self {
        Self { method: Method::POST, path, body: Some(body) }
    }
}

/// The operations every deployment has.
pub fn operations(session: &str) -> Vec<Route> {
    let at = |operation: &str| format!("/v1/sessions/{session}/{operation}");
    let extraction = json!({"name": "title", "selector": "h1", "type": "text"});
    vec![
        Route::post(at("navigate"), json!({"url": "https://example.com/"})),
        Route::post(at("interact"), json!({"action": {"kind": "tap", "selector": "#button"}})),
        Route::post(at("wait"), json!({"condition": {"kind": "selector", "selector": "h1"}})),
        Route::get(at("state")),
        Route::post(at("capture"), json!({"kind": "dom_snapshot"})),
        Route::post(at("extract"), json!({"extractions": [extraction]})),
    ]
}

/// The operations that only a real direct driver does.
pub fn direct_operations(session: &str) -> Vec<Route> {
    let at = |operation: &str| format!("/v1/sessions/{session}/{operation}");
    vec![
        Route::post(at("search"), json!({"query": "shoes"})),
        Route::post(at("login"), json!({"username": "ada@example.com", "password": "correct horse"})),
    ]
}

/// Every route of one session.
pub fn session_routes(session: &str) -> Vec<Route> {
    let itself = format!("/v1/sessions/{session}");
    let mut routes = operations(session);
    routes.extend(direct_operations(session));
    routes.push(Route::get(itself.clone()));
    routes.push(Route { method: Method::DELETE, path: itself, body: None });
    routes
}

impl Client {
    pub fn request_of(&self, route: &Route) -> reqwest::RequestBuilder {
        let request = self.request(route.method.clone(), &route.path);
        match &route.body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    pub async fn call(&self, route: &Route) -> Answer {
        self.send(self.request_of(route)).await
    }

    /// A wait for nothing but time, under way in the background.
    pub fn waiting(&self, session: &str, ms: u64) -> JoinHandle<Answer> {
        let (client, session) = (self.clone(), session.to_owned());
        let body = json!({"condition": {"kind": "time", "ms": ms}});
        tokio::spawn(async move { client.operate(&session, "wait", body).await })
    }
}
