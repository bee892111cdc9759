//! Detection of callers who hang up. Handlers run to their end regardless; handlers that only wait can stop early.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::{CancellationToken, DropGuard};

/// For a handler that can stop early.
#[derive(Debug, Clone, Default)]
pub struct ClientDisconnect(CancellationToken);

impl ClientDisconnect {
    /// Creates a signal that fires when the guard is dropped.
    pub fn watch() -> (Self, DropGuard) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    pub async fn happens(&self) {
        self.0.cancelled().await;
    }
}

impl<S: Sync> FromRequestParts<S> for ClientDisconnect {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
