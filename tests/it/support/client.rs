use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Sends its key with every request.
#[derive(Clone)]
pub struct Client {
    pub base_url: String,
    pub key: Option<String>,
    pub http: reqwest::Client,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

/// Without TLS certificates of the machine, because loading them takes longer than most requests.
pub fn plain_http() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_built_in_root_certs(false)
}

impl Client {
    pub fn new(base_url: &str, key: Option<&str>) -> Self {
        // The service closes connections that are idle for 10 s. A slow test could otherwise send a request on a connection that
        // is about to be closed.
        let idle = Duration::from_secs(4);
        let http = plain_http().pool_idle_timeout(idle).build().expect("an HTTP client");
        Self { base_url: base_url.to_owned(), key: key.map(ToOwned::to_owned), http }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base_url));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.expect("the service answers");
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await.expect("a whole answer");
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, headers, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    /// The text is JSON.
    pub async fn post_raw(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        self.send(self.request(Method::POST, path).header("content-type", "application/json").body(body)).await
    }

    pub async fn session(&self) -> String {
        self.session_with(json!({})).await
    }

    pub async fn session_with(&self, body: Value) -> String {
        let created = self.post("/v1/sessions", body).await;
        assert_eq!(created.status, 201, "{:?}", created.body);
        created.body["id"].as_str().expect("an id").to_owned()
    }

    pub async fn profile(&self) -> String {
        let created = self.post("/v1/profiles", json!({"name": "Shop"})).await.expect(201);
        created.body["id"].as_str().expect("an id").to_owned()
    }

    pub async fn operate(&self, session: &str, operation: &str, body: Value) -> Answer {
        self.post(&format!("/v1/sessions/{session}/{operation}"), body).await
    }

    pub async fn navigate(&self, session: &str, url: &str) -> Answer {
        self.operate(session, "navigate", json!({"url": url})).await.expect(200)
    }

    pub async fn status(&self, session: &str) -> String {
        let answer = self.get(&format!("/v1/sessions/{session}")).await;
        answer.body["status"].as_str().unwrap_or_default().to_owned()
    }
}

impl Answer {
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    /// Contract: errors 1.
    pub fn problem(self, status: u16, slug: &str) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let kind = self.body["type"].as_str().expect("a type");
        assert!(kind.ends_with(&format!("/errors/{slug}")), "{kind} is not {slug}: {}", self.body);
        assert_eq!((&self.body["status"], &self.body["code"]), (&status.into(), &slug.into()));
        assert_eq!(self.body["request_id"], self.headers["x-request-id"].to_str().expect("text"));
        for member in ["title", "detail", "instance"] {
            assert!(self.body[member].is_string(), "{member} of {}", self.body);
        }
        self
    }

    /// A `validation-failed` problem on this field.
    pub fn invalid(self, field: &str) -> Self {
        let answer = self.problem(400, "validation-failed");
        assert_eq!(answer.body["title"], "ValidationFailed");
        let errors = answer.body["errors"].as_array().expect("errors");
        assert!(errors.iter().any(|error| error["field"] == field), "no {field} in {}", answer.body);
        answer
    }
}
