//! What each route asks of its caller (contract: authorization 4 to 14): one table, from which callers are admitted, the
//! contract describes it, and the tests know what to expect.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::{HeaderName, Method};
use chrono::{NaiveDate, NaiveTime};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;

/// A route's row.
#[derive(Debug)]
pub struct Route {
    /// Its verb.
    pub method: Method,
    /// As the router spells it, such as `/v1/sessions/{id}`.
    pub path: &'static str,
    /// Who gets in.
    pub access: Access,
    /// Since when, and until when, it is there for old clients only.
    pub deprecation: Option<Deprecation>,
}

impl Route {
    /// Announces its end (contract: versioning 4).
    #[must_use]
    pub const fn deprecated(mut self, deprecation: Deprecation) -> Self {
        self.deprecation = Some(deprecation);
        self
    }
}

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
#[derive(Debug)]
pub enum Access {
    /// Anybody.
    Public,
    /// Whoever has the deployment's metrics token.
    MetricsToken,
    /// Whoever shows a credential of an account.
    Account(Rule),
}

/// What a credential has to be.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What the caller's credential has to satisfy on the caller's own account.
    pub scope: Scope,
    /// What it has to satisfy instead, and what the caller has to be on the owner's team, where `X-Service-Account` names
    /// another account. `None` where that header is ignored.
    pub team: Option<TeamRule>,
    /// Whether only somebody who signed in may do it.
    pub web_session_only: bool,
    /// Whether a second-factor proof has to be fresh, of whoever has a second factor.
    pub step_up: bool,
    /// Whether a desktop app's credential may do it on the free tier.
    pub open_to_free_devices: bool,
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
    const fn scope(scope: Scope) -> Self {
        Self { scope, team: None, web_session_only: false, step_up: false, open_to_free_devices: false }
    }

    /// For what only the person themself may do.
    const fn person() -> Self {
        Self { web_session_only: true, ..Self::scope(Scope::AccountOwner) }
    }

    const fn for_team(self, role: Role) -> Self {
        Self { team: Some(TeamRule { scope: self.scope, role }), ..self }
    }

    const fn for_team_with(self, scope: Scope, role: Role) -> Self {
        Self { team: Some(TeamRule { scope, role }), ..self }
    }

    const fn after_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }

    const fn open_to_free_devices(self) -> Self {
        Self { open_to_free_devices: true, ..self }
    }
}

const fn route_for(access: Access, method: Method, path: &'static str) -> Route {
    Route { method, path, access, deprecation: None }
}

const fn public(method: Method, path: &'static str) -> Route {
    route_for(Access::Public, method, path)
}

const fn get(path: &'static str, rule: Rule) -> Route {
    route_for(Access::Account(rule), Method::GET, path)
}

const fn post(path: &'static str, rule: Rule) -> Route {
    route_for(Access::Account(rule), Method::POST, path)
}

const fn put(path: &'static str, rule: Rule) -> Route {
    route_for(Access::Account(rule), Method::PUT, path)
}

const fn patch(path: &'static str, rule: Rule) -> Route {
    route_for(Access::Account(rule), Method::PATCH, path)
}

const fn delete(path: &'static str, rule: Rule) -> Route {
    route_for(Access::Account(rule), Method::DELETE, path)
}

const READ_SESSIONS: Rule = Rule::scope(Scope::ReadSessions).for_team(Role::Member).open_to_free_devices();
const WRITE_SESSIONS: Rule = Rule::scope(Scope::WriteSessions).for_team(Role::Admin).open_to_free_devices();
/// It shows cookies, and occupies the session: a reader of somebody else's sessions may not.
const READ_STATE: Rule =
    Rule::scope(Scope::ReadSessions).for_team_with(Scope::WriteSessions, Role::Admin).open_to_free_devices();
const READ_PROFILES: Rule = Rule::scope(Scope::ReadProfiles).for_team(Role::Member).open_to_free_devices();
const WRITE_PROFILES: Rule = Rule::scope(Scope::WriteProfiles).for_team(Role::Admin).open_to_free_devices();
/// Snapshots have routes that are not among those of desktop apps on the free tier.
const WRITE_SNAPSHOTS: Rule = Rule::scope(Scope::WriteProfiles).for_team(Role::Admin);
const READ_ACCOUNT: Rule = Rule::scope(Scope::Read).open_to_free_devices();
const READ_TEAM: Rule = Rule::scope(Scope::Read);
const OWN_ACCOUNT: Rule = Rule::scope(Scope::AccountOwner);
const READ_KEYS: Rule = Rule::scope(Scope::Read).for_team(Role::Member);
const CHANGE_KEYS: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);
const READ_EMAIL_PREFERENCES: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Member);
const CHANGE_EMAIL_PREFERENCES: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);
const READ_AUDIT_LOG: Rule = Rule::scope(Scope::ReadAudit).for_team(Role::Member);
const READ_USAGE: Rule = Rule::scope(Scope::ReadUsage).for_team(Role::Member).open_to_free_devices();
const READ_WEBHOOKS: Rule = Rule::scope(Scope::ReadWebhooks).for_team(Role::Member);
const CHANGE_WEBHOOKS: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);

/// Every route there is.
pub static ROUTES: &[Route] = &[
    // Sessions
    post("/v1/sessions", WRITE_SESSIONS),
    get("/v1/sessions", READ_SESSIONS),
    get("/v1/sessions/{id}", READ_SESSIONS),
    delete("/v1/sessions/{id}", WRITE_SESSIONS),
    post("/v1/sessions/{id}/navigate", WRITE_SESSIONS),
    post("/v1/sessions/{id}/interact", WRITE_SESSIONS),
    post("/v1/sessions/{id}/wait", WRITE_SESSIONS),
    get("/v1/sessions/{id}/state", READ_STATE),
    post("/v1/sessions/{id}/capture", WRITE_SESSIONS),
    post("/v1/sessions/{id}/extract", WRITE_SESSIONS),
    post("/v1/sessions/{id}/search", WRITE_SESSIONS),
    post("/v1/sessions/{id}/login", WRITE_SESSIONS),
    // Profiles
    post("/v1/profiles", WRITE_PROFILES),
    get("/v1/profiles", READ_PROFILES),
    get("/v1/profiles/{id}", READ_PROFILES),
    patch("/v1/profiles/{id}", WRITE_PROFILES),
    delete("/v1/profiles/{id}", WRITE_PROFILES),
    post("/v1/profiles/{id}/restore", WRITE_PROFILES),
    delete("/v1/profiles/{id}/purge", WRITE_PROFILES),
    post("/v1/profiles/{id}/clone", WRITE_PROFILES),
    post("/v1/profiles/{id}/launch", WRITE_PROFILES),
    get("/v1/profiles/{id}/snapshots", READ_PROFILES),
    post("/v1/profiles/{id}/snapshots", WRITE_PROFILES),
    post("/v1/profile-snapshots/{id}/restore", WRITE_SNAPSHOTS),
    delete("/v1/profile-snapshots/{id}", WRITE_SNAPSHOTS),
    // It hands out cookies: a reader of somebody else's profiles may not.
    get("/v1/profiles/{id}/export", WRITE_PROFILES),
    post("/v1/profiles/import", WRITE_PROFILES),
    // One's own account
    get("/v1/account/me", READ_ACCOUNT),
    patch("/v1/account/me", OWN_ACCOUNT),
    delete("/v1/account/me", Rule::person().after_step_up()),
    get("/v1/account/web-sessions", OWN_ACCOUNT),
    delete("/v1/account/web-sessions", Rule::person()),
    delete("/v1/account/web-sessions/{id}", OWN_ACCOUNT),
    get("/v1/account/email-preferences", READ_EMAIL_PREFERENCES),
    put("/v1/account/email-preferences", CHANGE_EMAIL_PREFERENCES),
    // Second factors
    get("/v1/account/mfa", Rule::scope(Scope::Read)),
    delete("/v1/account/mfa", Rule::person().after_step_up()),
    post("/v1/account/mfa/enroll", Rule::person()),
    post("/v1/account/mfa/verify", Rule::person()),
    post("/v1/account/mfa/disable", Rule::person().after_step_up()),
    post("/v1/account/mfa/recovery-codes/regenerate", Rule::person().after_step_up()),
    post("/v1/auth/mfa/step-up", Rule::person()),
    // Credentials of programs
    post("/v1/api-keys", CHANGE_KEYS),
    get("/v1/api-keys", READ_KEYS),
    get("/v1/api-keys/{id}", READ_KEYS),
    delete("/v1/api-keys/{id}", CHANGE_KEYS),
    post("/v1/api-keys/{id}/rotate", CHANGE_KEYS),
    post("/v1/oauth/clients", OWN_ACCOUNT),
    get("/v1/oauth/clients", OWN_ACCOUNT),
    delete("/v1/oauth/clients/{id}", OWN_ACCOUNT),
    post("/v1/auth/cli-authorize/bind-device-code", Rule::person()),
    get("/v1/auth/cli-authorize/{user_code}", Rule::person()),
    // Teams
    post("/v1/team/invites", OWN_ACCOUNT),
    get("/v1/team/invites", READ_TEAM),
    post("/v1/team/invites/accept", OWN_ACCOUNT),
    get("/v1/team/members", READ_TEAM),
    delete("/v1/team/members/{id}", OWN_ACCOUNT),
    get("/v1/team/owners", READ_TEAM),
    get("/v1/teams", READ_TEAM),
    patch("/v1/teams/{id}", OWN_ACCOUNT),
    // Webhooks
    post("/v1/webhooks", CHANGE_WEBHOOKS),
    get("/v1/webhooks", READ_WEBHOOKS),
    get("/v1/webhooks/{id}", READ_WEBHOOKS),
    patch("/v1/webhooks/{id}", CHANGE_WEBHOOKS),
    delete("/v1/webhooks/{id}", CHANGE_WEBHOOKS),
    post("/v1/webhooks/{id}/test", CHANGE_WEBHOOKS),
    post("/v1/webhooks/{id}/rotate-secret", CHANGE_WEBHOOKS),
    get("/v1/webhooks/{id}/deliveries", READ_WEBHOOKS),
    post("/v1/webhook-deliveries/{id}/replay", CHANGE_WEBHOOKS),
    // Proving who calls
    public(Method::POST, "/v1/auth/cli-authorize/initiate"),
    public(Method::POST, "/v1/auth/cli-authorize/exchange"),
    public(Method::POST, "/v1/auth/signup"),
    public(Method::POST, "/v1/auth/verify-email"),
    public(Method::POST, "/v1/auth/resend-verification"),
    public(Method::POST, "/v1/auth/login"),
    public(Method::POST, "/v1/auth/mfa/challenge"),
    public(Method::POST, "/v1/auth/magic-link/request"),
    public(Method::POST, "/v1/auth/magic-link/consume"),
    public(Method::POST, "/v1/auth/password-reset/request"),
    public(Method::POST, "/v1/auth/password-reset/confirm"),
    public(Method::POST, "/v1/auth/refresh"),
    public(Method::POST, "/v1/auth/logout"),
    public(Method::GET, "/v1/auth/oauth/{provider}/start"),
    public(Method::GET, "/v1/auth/oauth/{provider}/callback"),
    public(Method::POST, "/v1/auth/oauth/confirm"),
    public(Method::POST, "/v1/oauth/token"),
    // What was done
    get("/v1/account/audit-log", READ_AUDIT_LOG),
    get("/v1/account/audit-log/export", READ_AUDIT_LOG),
    get("/v1/usage", READ_USAGE),
    get("/v1/usage/series", READ_USAGE),
    // What everybody may know
    public(Method::GET, "/v1/archetypes"),
    public(Method::GET, "/openapi.json"),
    public(Method::GET, "/docs"),
    public(Method::GET, "/errors"),
    public(Method::GET, "/errors/{slug}"),
    public(Method::GET, "/healthz"),
    public(Method::GET, "/readyz"),
    route_for(Access::MetricsToken, Method::GET, "/metrics"),
    // Pages
    public(Method::GET, "/activate"),
    public(Method::GET, "/verify-email"),
    public(Method::GET, "/magic-link"),
    public(Method::GET, "/reset-password"),
    public(Method::GET, "/confirm-sign-in"),
    public(Method::GET, "/team/accept"),
];

/// The row of a route, if there is such a route.
#[must_use]
pub fn route(method: &Method, path: &str) -> Option<&'static Route> {
    static BY_NAME: LazyLock<HashMap<(&str, &str), &Route>> =
        LazyLock::new(|| ROUTES.iter().map(|route| ((route.method.as_str(), route.path), route)).collect());
    // What answers GET answers HEAD.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    BY_NAME.get(&(method.as_str(), path)).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::router;

    #[test]
    fn every_route_has_one_row() {
        let described = router::routes().into_openapi().paths.paths;
        let served: BTreeSet<_> = described
            .iter()
            .flat_map(|(path, item)| {
                let methods = [("GET", &item.get), ("PUT", &item.put), ("POST", &item.post), ("DELETE", &item.delete)];
                let methods = methods.into_iter().chain([("PATCH", &item.patch)]);
                methods.filter(|(_, operation)| operation.is_some()).map(move |(method, _)| (method, path.as_str()))
            })
            .collect();
        let rows: Vec<_> = ROUTES.iter().map(|route| (route.method.as_str(), route.path)).collect();
        assert_eq!(rows.len(), rows.iter().collect::<BTreeSet<_>>().len(), "a route has two rows");
        assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), served);
    }
}
