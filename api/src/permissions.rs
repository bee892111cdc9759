//! Access rules of all routes, for tests of the service against the contract.

use std::sync::LazyLock;

use crate::router;

pub use crate::http::permissions::{Access, Deprecation, OnRefusal, Route, Rule, TeamRule};

pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| router::routes().into_rows());

#[cfg(test)]
mod tests {
    use chrono::{NaiveDate, TimeDelta};

    use super::*;

    /// Contract: versioning 4. Announcement and removal are at least 90 days apart.
    fn is_fair(deprecation: &Deprecation) -> bool {
        deprecation.sunset - deprecation.since >= TimeDelta::days(90)
    }

    #[test]
    fn removal_is_announced_90_days_before() {
        let day = |month, day| NaiveDate::from_ymd_opt(2027, month, day).expect("a day");
        let fair = Deprecation { since: day(1, 15), sunset: day(4, 15), replacement: "another" };
        assert!(is_fair(&fair));
        assert!(!is_fair(&Deprecation { sunset: day(4, 14), ..fair }));
        for route in ROUTES.iter() {
            assert!(route.deprecation.is_none_or(|deprecation| is_fair(&deprecation)), "{} goes too soon", route.path);
        }
    }
}
