//! Sample requests of all routes, for rules that apply to every route.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::{Answer, Client};
use super::unknown_id;

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

    fn put(path: String, body: Value) -> Self {
        Self { method: Method::PUT, path, body: Some(body) }
    }

    fn patch(path: String, body: Value) -> Self {
        Self { method: Method::PATCH, path, body: Some(body) }
    }
}

/// It changes nothing for any caller, because its resource does not exist or its body is invalid.
#[expect(clippy::match_same_arms, reason = "an arm tells of an area")]
pub fn sample(method: &Method, template: &str) -> Route {
    let with = |path: String, body: Value| {
        let body = (*method != Method::GET).then_some(body);
        Route { method: method.clone(), path, body }
    };
    let of = |prefix: &str| template.replace("{id}", &unknown_id(prefix));
    let segments: Vec<_> = template.split('/').skip(1).collect();
    match segments[..] {
        ["v1", "sessions"] => with(of(""), json!({"proxy": 1})),
        ["v1", "sessions", _, "challenges", ..] => {
            with(of("ses").replace("{challenge_id}", &unknown_id("chl")), json!({}))
        }
        ["v1", "sessions", _, "pages", _, ..] => with(of("ses").replace("{page_id}", &unknown_id("page")), json!({})),
        ["v1", "sessions", _, "downloads", ..] => {
            with(of("ses").replace("{download_id}", &unknown_id("dl")), json!({}))
        }
        ["v1", "sessions", _, "live"] => with(of("ses"), json!({})),
        ["v1", "sessions", _, "live-links"] => with(of("ses"), json!({"expires_in": 60})),
        ["v1", "sessions", _, "trace-links"] => with(of("ses"), json!({"expires_in": 60})),
        ["v1", "trace-links", ..] => with(of("trl"), json!({})),
        ["traces", ..] => with(of("").replace("{secret}", "none"), json!({})),
        ["v1", "sessions", _, "frames", ..] => with(of("ses").replace("{seq}", "1"), json!({})),
        ["v1", "sessions", _, "operations" | "timeline" | "console" | "requests" | "har" | "trace" | "recording"] => {
            with(of("ses"), json!({}))
        }
        ["v1", "live-links", "follow"] => with(of(""), json!({"link": "x"})),
        ["v1", "live-links", ..] => with(of("lnk"), json!({})),
        ["live", ..] => with(of("ses"), json!({})),
        ["v1", "sessions", _, ..] => {
            let path = of("ses");
            let session = path.split('/').nth(3).unwrap_or_default();
            let same = |route: &Route| route.method == *method && route.path == path;
            session_routes(session).into_iter().find(same).unwrap_or_else(|| panic!("no sample of {method} {path}"))
        }
        ["v1", "agent-sessions"] => with(of(""), json!({"mode": "none"})),
        ["v1", "agent-sessions", _, "steps", ..] => {
            with(of("agt").replace("{step_id}", &unknown_id("step")), json!({}))
        }
        ["v1", "agent-sessions", ..] => with(of("agt"), json!({})),
        ["v1", "recipes", ..] => with(of("rec"), json!({})),
        // The archetype is not in the catalogue, so that nothing is created.
        ["v1", "profiles"] => with(of(""), json!({"name": "matrix", "archetype": "none"})),
        ["v1", "profiles", ..] => with(of("prof"), json!({})),
        ["v1", "profile-snapshots", ..] => with(of("psnap"), json!({})),
        ["v1", "api-keys", ..] => with(of("key"), json!({})),
        ["v1", "oauth", "clients", ..] => with(of("ocl"), json!({})),
        ["v1", "account", "web-sessions"] if *method == Method::DELETE => {
            with(format!("{template}?keep=none"), json!({}))
        }
        ["v1", "account", "web-sessions", ..] => with(of("wsess"), json!({})),
        ["v1", "account", "email-preferences" | "audit-log"] | ["v1", "usage", ..] => with(of(""), json!({})),
        ["v1", "account", "audit-log", "export"] => with(format!("{template}?format=none"), json!({})),
        // A rejected request ends, unlike an open stream.
        ["v1", "account", "notifications", "stream"] => {
            with(format!("{template}?last_event_id=1&last_event_id=2"), json!({}))
        }
        ["v1", "account", "notifications" | "approvals" | "email" | "password"] => with(of(""), json!({})),
        ["v1", "account", "email", "confirm"] => with(of(""), json!({"token": "none"})),
        ["v1", "account", "identities", ..] => with(of("idn"), json!({})),
        ["v1", "account", "mfa", "verify"] | ["v1", "auth", "mfa", "step-up"] => with(of(""), json!({"code": "no"})),
        ["v1", "account", "me" | "mfa"] if *method == Method::DELETE => with(of(""), json!({"confirm": "no"})),
        ["v1", "account", "mfa", "disable"] => with(of(""), json!({"confirm": "no"})),
        ["v1", "account", "me", "proxies", ..] => with(of("prx"), json!({})),
        ["v1", "account", "me" | "mfa", ..] => with(of(""), json!({})),
        ["v1", "webhooks", ..] => with(of("whk"), json!({})),
        ["v1", "webhook-deliveries", ..] => with(of("wdl"), json!({})),
        ["v1", "admin", "accounts", ..] => with(of("acc"), json!({})),
        ["v1", "admin", "webhook-deliveries", ..] => with(of("rqu"), json!({})),
        ["v1", "admin", "jobs", ..] => with(of("wdl"), json!({})),
        ["v1", "admin", "sessions", ..] => with(of("ses"), json!({})),
        ["v1", "admin", "usage" | "samples" | "storage" | "capacity" | "webhook-endpoints", ..] => {
            with(of(""), json!({}))
        }
        ["v1", "admin", "workers", ..] => with(of("wrk"), json!({})),
        ["v1", "admin", "incidents", ..] => with(of("inc"), json!({})),
        ["v1", "mac-nodes", "register"] => with(of(""), json!({})),
        ["v1", "admin", "crypto-orders", ..] => with(of("ord"), json!({})),
        ["v1", "billing", ..] => with(of("ord"), json!({})),
        ["v1", "team", "members", ..] => with(of("mem"), json!({})),
        ["v1", "team", ..] => with(of("inv"), json!({})),
        ["v1", "teams", ..] => with(of("team"), json!({})),
        ["team", "accept"] | ["v1", "status", ..] | ["status", ..] => with(of(""), json!({})),
        ["v1", "auth", "cli-authorize", "{user_code}"] => with(template.replace("{user_code}", "0000-0000"), json!({})),
        ["v1", "auth", "oauth", "{provider}", ..] => with(template.replace("{provider}", "nobody"), json!({})),
        ["v1", "auth", ..] | ["v1", "oauth", "token"] | ["v1", "archetypes"] => with(of(""), json!({})),
        ["errors", "{slug}"] => with("/errors/forbidden".to_owned(), json!({})),
        ["openapi.json" | "errors" | "healthz" | "readyz" | "metrics"] | ["docs", ..] => with(of(""), json!({})),
        ["activate" | "verify-email" | "magic-link" | "reset-password" | "confirm-sign-in" | "confirm-email"] => {
            with(of(""), json!({}))
        }
        _ => panic!("no sample of {method} {template}: add one"),
    }
}

/// Supported by every deployment.
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
        Route::post(at("snapshot"), json!({})),
        Route::get(at("pages")),
        Route::post(at("pages"), json!({})),
        Route::patch(at("emulation"), json!({"offline": false})),
        Route::post(at("evaluate"), json!({"script": "return 0"})),
        Route::get(at("cookies")),
        Route::put(at("cookies"), json!({"cookies": [{"name": "a", "value": "1", "domain": "example.com"}]})),
        Route { method: Method::DELETE, path: at("cookies"), body: None },
    ]
}

/// Operations that require a real direct driver.
pub fn direct_operations(session: &str) -> Vec<Route> {
    let at = |operation: &str| format!("/v1/sessions/{session}/{operation}");
    vec![
        Route::post(at("search"), json!({"query": "shoes"})),
        Route::post(at("login"), json!({"username": "ada@example.com", "password": "correct horse"})),
    ]
}

pub fn session_routes(session: &str) -> Vec<Route> {
    let itself = format!("/v1/sessions/{session}");
    let mut routes = operations(session);
    routes.extend(direct_operations(session));
    routes.push(Route::get(itself.clone()));
    routes.push(Route::post(format!("{itself}/live-tickets"), json!({"role": "viewer"})));
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

    /// In the background.
    pub fn waiting(&self, session: &str, ms: u64) -> JoinHandle<Answer> {
        let (client, session) = (self.clone(), session.to_owned());
        let body = json!({"condition": {"kind": "time", "ms": ms}});
        tokio::spawn(async move { client.operate(&session, "wait", body).await })
    }
}
