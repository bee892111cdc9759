//! What a route may ask of its caller (contract: authorization 4 to 14). What each asks stands where its handler is registered.

use axum::http::{HeaderName, Method, StatusCode, Uri};
use chrono::{NaiveDate, NaiveTime};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;

/// A route's row.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its verb.
    pub method: Method,
    /// As the router spells it, such as `/v1/sessions/{id}`.
    pub path: String,
    /// Who gets in.
    pub access: Access,
    /// Since when, and until when, it is there for old clients only.
    pub deprecation: Option<Deprecation>,
    /// Counts a caller who is refused before the handler runs, for routes whose metric has them.
    pub on_refusal: Option<OnRefusal>,
}

/// Counts a caller who is refused before the handler runs, by the request's target and the status of the refusal.
pub type OnRefusal = fn(&Uri, StatusCode);

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

/// Who gets in.
#[derive(Debug, Clone, Copy)]
pub enum Access {
    /// Anybody.
    Public,
    /// Whoever has the deployment's metrics token.
    MetricsToken,
    /// Whoever shows a credential of an account.
    Account(Rule),
    /// Staff, whom nobody else is told of (contract: staff 3).
    Staff,
}

/// What a credential has to be.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each says something of its own, and no two are one")]
pub struct Rule {
    /// What the caller's credential has to satisfy on the caller's own account.
    pub scope: Scope,
    /// What it may satisfy instead there, where the route's handler tells by the request which of the two it needs.
    pub or_scope: Option<Scope>,
    /// What it has to satisfy instead, and what the caller has to be on the owner's team, where `X-Service-Account` names
    /// another account. `None` where that header is ignored.
    pub team: Option<TeamRule>,
    /// Whether only somebody who signed in may do it.
    pub web_session_only: bool,
    /// Whether a second-factor proof has to be fresh, of whoever has a second factor.
    pub step_up: bool,
    /// Whether a desktop app's credential may do it on the free tier.
    pub open_to_free_devices: bool,
    /// Whether a key may do it that a member of the account's team made, where the header is ignored.
    pub open_to_members_keys: bool,
}

/// What it takes to act on another account.
#[derive(Debug, Clone, Copy)]
pub struct TeamRule {
    /// What the caller's own credential has to satisfy.
    pub scope: Scope,
    /// What the caller has to be on the owner's team.
    pub role: Role,
}

impl Rule {
    /// For whoever has a credential of this scope.
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

    /// For what only the person themself may do.
    #[must_use]
    pub const fn person() -> Self {
        Self { web_session_only: true, ..Self::scope(Scope::AccountOwner) }
    }

    /// Also for those of this role on the team of the account that `X-Service-Account` names.
    #[must_use]
    pub const fn for_team(self, role: Role) -> Self {
        Self { team: Some(TeamRule { scope: self.scope, role }), ..self }
    }

    /// The same, with another scope there.
    #[must_use]
    pub const fn for_team_with(self, scope: Scope, role: Role) -> Self {
        Self { team: Some(TeamRule { scope, role }), ..self }
    }

    /// Also for whoever has a credential of another scope. The handler has to require the one that the request needs.
    #[must_use]
    pub const fn or_scope(self, scope: Scope) -> Self {
        Self { or_scope: Some(scope), ..self }
    }

    /// After a fresh second-factor proof.
    #[must_use]
    pub const fn after_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }

    /// Also for a desktop app's credential on the free tier.
    #[must_use]
    pub const fn open_to_free_devices(self) -> Self {
        Self { open_to_free_devices: true, ..self }
    }

    /// Also for a key that a member of the account's team made.
    #[must_use]
    pub const fn open_to_members_keys(self) -> Self {
        Self { open_to_members_keys: true, ..self }
    }
}

/// For what its owner decides about an account, in several areas.
pub const OWN_ACCOUNT: Rule = Rule::scope(Scope::AccountOwner);
