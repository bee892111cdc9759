//! The headers `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` on every response of a limited route.
//!
//! If several limits were checked, the one that will be exceeded first is reported.

use std::cell::Cell;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use governor::Quota;

use super::{Verdict, whole_seconds};

pub const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
pub const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
pub const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

tokio::task_local! {
    static TIGHTEST: Cell<Option<LimitState>>;
}

#[derive(Clone, Copy)]
pub struct LimitState {
    limit: u32,
    remaining: u32,
    /// Until the limit is fully restored or, when it is exceeded, until the next request is allowed, as in `Retry-After`.
    reset: u64,
}

impl LimitState {
    pub(super) fn of(quota: Quota, verdict: Verdict) -> Self {
        let limit = quota.burst_size().get();
        match verdict {
            Verdict::Within { remaining } => {
                let full_in: Duration = quota.replenish_interval() * (limit - remaining.min(limit));
                Self { limit, remaining, reset: whole_seconds(full_in) }
            }
            Verdict::Exceeded { wait } => Self { limit, remaining: 0, reset: whole_seconds(wait) },
        }
    }
}

/// Has no effect outside a request.
pub(super) fn note(state: LimitState) {
    let _ = TIGHTEST.try_with(|tightest| {
        if tightest.get().is_none_or(|noted| state.remaining <= noted.remaining) {
            tightest.set(Some(state));
        }
    });
}

pub async fn report(request: Request, next: Next) -> Response {
    let answer = async {
        let mut response = next.run(request).await;
        if let Some(state) = TIGHTEST.with(Cell::get) {
            let headers = response.headers_mut();
            headers.insert(LIMIT, HeaderValue::from(state.limit));
            headers.insert(REMAINING, HeaderValue::from(state.remaining));
            headers.insert(RESET, HeaderValue::from(state.reset));
        }
        response
    };
    TIGHTEST.scope(Cell::new(None), answer).await
}
