//! Announces that a route will go (contract: versioning 4): every answer of a route whose row says so, also one that refuses,
//! tells it.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::http::permissions::{Deprecation, Route};

/// Finds a route's row.
pub type Rows = fn(&Method, &str) -> Option<&'static Route>;

pub async fn announce(State(rows): State<Rows>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let deprecation = path.and_then(|path| rows(request.method(), path.as_str())?.deprecation);
    let mut response = next.run(request).await;
    for (name, value) in deprecation.iter().flat_map(Deprecation::headers) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use chrono::{NaiveDate, TimeDelta};

    use super::*;
    use crate::http::permissions::ROUTES;

    /// Contract: versioning 4. At least 90 days between announcement and removal.
    fn is_fair(deprecation: &Deprecation) -> bool {
        deprecation.sunset - deprecation.since >= TimeDelta::days(90)
    }

    #[test]
    fn an_end_is_announced_ninety_days_before() {
        let day = |month, day| NaiveDate::from_ymd_opt(2027, month, day).expect("a day");
        let fair = Deprecation { since: day(1, 15), sunset: day(4, 15), replacement: "another" };
        assert!(is_fair(&fair));
        assert!(!is_fair(&Deprecation { sunset: day(4, 14), ..fair }));
        for route in ROUTES {
            assert!(route.deprecation.is_none_or(|deprecation| is_fair(&deprecation)), "{} goes too soon", route.path);
        }
    }
}
