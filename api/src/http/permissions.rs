//! Access rules of routes (contract: authorization 4 to 14). Each rule is declared where the handler is registered.

use axum::http::{HeaderName, Method, StatusCode, Uri};
use chrono::{NaiveDate, NaiveTime};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;

#[derive(Debug, Clone)]
pub struct Route {
    pub method: Method,
    /// Of the router, such as `/v1/sessions/{id}`.
    pub path: String,
    pub access: Access,
    /// Set if the route is deprecated.
    pub deprecation: Option<Deprecation>,
    pub on_refusal: Option<OnRefusal>,
}

pub type OnRefusal = fn(&Uri, StatusCode);

#[derive(Debug, Clone, Copy)]
pub struct Deprecation {
    pub since: NaiveDate,
    /// At least 90 days later.
    pub sunset: NaiveDate,
    /// For people.
    pub replacement: &'static str,
}

impl Deprecation {
    /// RFC 9745 uses a structured date, RFC 8594 an HTTP date.
    #[must_use]
    pub fn headers(&self) -> [(HeaderName, String); 2] {
        let since = self.since.and_time(NaiveTime::MIN).and_utc().timestamp();
        let sunset = self.sunset.format("%a, %d %b %Y 00:00:00 GMT").to_string();
        [(HeaderName::from_static("deprecation"), format!("@{since}")), (HeaderName::from_static("sunset"), sunset)]
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Access {
    Public,
    MetricsToken,
    Account(Rule),
    /// For other callers the route does not exist (contract: staff 3).
    Staff,
}

#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub struct Rule {
    /// On the caller's own account.
    pub scope: Scope,
    /// The handler then determines the required scope from the request.
    pub or_scope: Option<Scope>,
    /// Required if `X-Service-Account` names another account. `None` if the route ignores that header.
    pub team: Option<TeamRule>,
    pub web_session_only: bool,
    /// Callers with a second factor need a recent proof.
    pub step_up: bool,
    /// A desktop app's credential works on the free tier.
    pub open_to_free_devices: bool,
    /// A key made by a team member works although the route ignores the account header.
    pub open_to_members_keys: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct TeamRule {
    pub scope: Scope,
    pub role: Role,
}

impl Rule {
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

    #[must_use]
    pub const fn person() -> Self {
        Self { web_session_only: true, ..Self::scope(Scope::AccountOwner) }
    }

    /// In the team of the account in `X-Service-Account`.
    #[must_use]
    pub const fn for_team(self, role: Role) -> Self {
        Self { team: Some(TeamRule { scope: self.scope, role }), ..self }
    }

    #[must_use]
    pub const fn for_team_with(self, scope: Scope, role: Role) -> Self {
        Self { team: Some(TeamRule { scope, role }), ..self }
    }

    /// The handler must check the scope that the request requires.
    #[must_use]
    pub const fn or_scope(self, scope: Scope) -> Self {
        Self { or_scope: Some(scope), ..self }
    }

    #[must_use]
    pub const fn after_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }

    #[must_use]
    pub const fn open_to_free_devices(self) -> Self {
        Self { open_to_free_devices: true, ..self }
    }

    #[must_use]
    pub const fn open_to_members_keys(self) -> Self {
        Self { open_to_members_keys: true, ..self }
    }
}

/// Decisions of the account owner, in several areas.
pub const OWN_ACCOUNT: Rule = Rule::scope(Scope::AccountOwner);
