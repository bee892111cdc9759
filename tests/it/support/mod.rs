//! A service with its own database, clients, and a web site to visit.

pub mod app;
pub mod card_provider;
pub mod client;
pub mod commands;
pub mod crypto_processor;
pub mod database;
pub mod delays;
pub mod events;
pub mod here;
pub mod identity_provider;
pub mod live;
pub mod live_socket;
pub mod mail;
pub mod model_provider;
pub mod names;
pub mod namespaces;
pub mod people;
pub mod pooler;
pub mod postgres;
pub mod postmark;
pub mod proxy;
pub mod raw;
pub mod records;
pub mod redis;
pub mod routes;
pub mod s3;
pub mod sink;
pub mod site;
pub mod smtp;
pub mod snapshots;
pub mod statements;
pub mod storage;
pub mod walk;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::{Duration, Instant};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub use app::{App, Builder, Role};
pub use client::{Answer, Client, plain_http};
pub use redis::Redis;
pub use site::Site;
pub use snapshots::stable;

/// Panics after `limit`.
pub async fn eventually<T>(limit: Duration, what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// On a free port. Returns the base URL, and a handle that stops the server when it is dropped.
pub async fn serve(router: Router) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base_url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    (base_url, AbortOnDropHandle::new(serving))
}

pub fn given<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// In no particular order.
pub async fn at_once<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    futures.into_iter().collect::<JoinSet<_>>().join_all().await
}

pub fn members(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// The format is that of every timestamp (contract: requests 2).
pub fn assert_timestamp(value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{value}");
}

/// No resource has it.
pub fn unknown_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::now_v7())
}
