//! Runs every request in a task of its own.
//!
//! hyper drops a handler's future when the client hangs up. A transaction whose `begin` is dropped midway goes back to
//! the pool still open, and later requests would lose their commits in it; a claim whose waiter is gone would answer
//! nobody. In a task of its own a handler always runs to its end.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

use crate::http::error::Problem;
use crate::http::state::App;

pub async fn run(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let hung_up = CancellationToken::new();
    request.extensions_mut().insert(HungUp(hung_up.clone()));
    let _told = hung_up.drop_guard();
    let handler = app.handlers.spawn(next.run(request));
    handler.await.unwrap_or_else(|error| Problem::internal(&error).into_response())
}

/// Whether whoever asked is gone, for a handler that has nothing better to do than to stop.
#[derive(Debug, Clone, Default)]
pub struct HungUp(CancellationToken);

impl HungUp {
    /// Returns when it is so.
    pub async fn happens(&self) {
        self.0.cancelled().await;
    }

    /// Whether it is so.
    pub fn has_happened(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl FromRequestParts<App> for HungUp {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
