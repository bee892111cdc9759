//! Access rules of routes (contract: authorization 4 to 14). Each rule is declared where the handler is registered.

use axum::http::{HeaderName, Method, StatusCode, Uri};
use chrono::{NaiveDate, NaiveTime};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;

/// A route and its access rule.
#[derive(Debug, Clone)]
pub struct Route {
    /// HTTP method.
    pub method: Method,
    /// Path template of the router, such as `/v1/sessions/{id}`.
    pub path: String,
    /// Access rule.
    pub access: Access,
    /// Announcement of the route's removal, if it is deprecated.
    pub deprecation: Option<Deprecation>,
    /// Counts a caller who is rejected before the handler runs, for routes with such a metric.
    pub on_refusal: Option<OnRefusal>,
}

/// Counts a caller who is rejected before the handler runs, by request target and response status.
pub type OnRefusal = fn(&Uri, StatusCode);

/// Announcement of a route's removal.
#[derive(Debug, Clone, Copy)]
pub struct Deprecation {
    /// Date of the announcement.
    pub since: NaiveDate,
    /// Date from which the route may be removed, at least 90 days later.
    pub sunset: NaiveDate,
    /// Replacement of the route, for people.
    pub replacement: &'static str,
}

impl Deprecation {
    /// Headers of the announcement: RFC 9745 uses a structured date, RFC 8594 an HTTP date.
    #[must_use]
    pub fn headers(&self) -> [(HeaderName, String); 2] {
        let since = self.since.and_time(NaiveTime::MIN).and_utc().timestamp();
        let sunset = self.sunset.format("%a, %d %b %Y 00:00:00 GMT").to_string();
        [(HeaderName::from_static("deprecation"), format!("@{since}")), (HeaderName::from_static("sunset"), sunset)]
    }
}

/// Access rule of a route.
#[derive(Debug, Clone, Copy)]
pub enum Access {
    /// Any caller.
    Public,
    /// Callers with the deployment's metrics token.
    MetricsToken,
    /// Callers with a credential of an account.
    Account(Rule),
    /// Staff; for other callers the route does not exist (contract: staff 3).
    Staff,
}

/// Requirements for a credential.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub struct Rule {
    /// Scope required on the caller's own account.
    pub scope: Scope,
    /// Alternative scope on the caller's own account, if the handler determines the required scope from the request.
    pub or_scope: Option<Scope>,
    /// Scope and team role required if `X-Service-Account` names another account. `None` if the route ignores that header.
    pub team: Option<TeamRule>,
    /// True when only a signed-in person is allowed.
    pub web_session_only: bool,
    /// True when callers with a second factor need a recent proof.
    pub step_up: bool,
    /// True when a desktop app's credential is allowed on the free tier.
    pub open_to_free_devices: bool,
    /// True when a key made by a team member is allowed although the route ignores the account header.
    pub open_to_members_keys: bool,
}

/// Requirements for acting on another account.
#[derive(Debug, Clone, Copy)]
pub struct TeamRule {
    /// Scope required of the caller's own credential.
    pub scope: Scope,
    /// Role required in the owner's team.
    pub role: Role,
}

impl Rule {
    /// Allows credentials with this scope.
    #[must_use]
    pub const fn scope(scope: Scope) -> Self {
        Self {
            scope,
            or_scope: None,
            team: None,
            web_session_only: false,
            step_up: false,
            open_to_free_devices: false,
            open_to_members_keys: false,
        }
    }

    /// Allows only the person, not programs.
    #[must_use]
    pub const fn person() -> Self {
        Self { web_session_only: true, ..Self::scope(Scope::AccountOwner) }
    }

    /// Also allows members with this role in the team of the account in `X-Service-Account`.
    #[must_use]
    pub const fn for_team(self, role: Role) -> Self {
        Self { team: Some(TeamRule { scope: self.scope, role }), ..self }
    }

    /// Same, with another scope for the team.
    #[must_use]
    pub const fn for_team_with(self, scope: Scope, role: Role) -> Self {
        Self { team: Some(TeamRule { scope, role }), ..self }
    }

    /// Also allows credentials with another scope. The handler must check the scope that the request requires.
    #[must_use]
    pub const fn or_scope(self, scope: Scope) -> Self {
        Self { or_scope: Some(scope), ..self }
    }

    /// Requires a recent second-factor proof.
    #[must_use]
    pub const fn after_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }

    /// Also allows a desktop app's credential on the free tier.
    #[must_use]
    pub const fn open_to_free_devices(self) -> Self {
        Self { open_to_free_devices: true, ..self }
    }

    /// Also allows a key made by a team member.
    #[must_use]
    pub const fn open_to_members_keys(self) -> Self {
        Self { open_to_members_keys: true, ..self }
    }
}

/// Rule for decisions of the account owner about the account, in several areas.
pub const OWN_ACCOUNT: Rule = Rule::scope(Scope::AccountOwner);
