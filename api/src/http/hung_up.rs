//! Callers who hang up. Handlers run to their end all the same; those that only wait may want to know.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Whether whoever asked is gone, for a handler that has nothing better to do than to stop.
#[derive(Debug, Clone, Default)]
pub struct HungUp(CancellationToken);

impl HungUp {
    /// Happens when the guard goes.
    pub fn watch() -> (Self, DropGuard) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    /// Returns when it is so.
    pub async fn happens(&self) {
        self.0.cancelled().await;
    }
}

impl<S: Sync> FromRequestParts<S> for HungUp {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
