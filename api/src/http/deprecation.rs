//! Announces that a route will go (contract: versioning 4): every answer of a route whose row says so, also one that refuses,
//! tells it.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use chrono::{NaiveDate, NaiveTime};

use crate::http::permissions::Route;

/// The announcement of a route's end.
#[derive(Debug, Clone, Copy)]
pub struct Deprecation {
    /// The day it was announced.
    pub since: NaiveDate,
    /// The day from which the route may be missing: 90 days later or more.
    pub sunset: NaiveDate,
    /// What to use instead, for people.
    pub replacement: &'static str,
}

impl Deprecation {
    /// What tells of it: RFC 9745 wants a structured date, RFC 8594 an HTTP date.
    #[must_use]
    pub fn headers(&self) -> [(HeaderName, String); 2] {
        let since = self.since.and_time(NaiveTime::MIN).and_utc().timestamp();
        let sunset = self.sunset.format("%a, %d %b %Y 00:00:00 GMT").to_string();
        [(HeaderName::from_static("deprecation"), format!("@{since}")), (HeaderName::from_static("sunset"), sunset)]
    }
}

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
    use chrono::TimeDelta;

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
