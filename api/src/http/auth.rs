//! Authentication and authorization of callers (contract: authorization). No handler can omit the check, and a handler of a
//! public route has no [`Caller`].

pub mod staff;

use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use kitfleet_domain::accounts::AccountStatus;
use kitfleet_domain::actors::{OperationActor, OperationActorKind};
use kitfleet_domain::api_keys::{KeyKind, Scope, Scopes};
use kitfleet_domain::audit::{Actor, Origin};
use kitfleet_domain::credentials::{self, Bearer, Credential, TeamMaker};
use kitfleet_domain::teams::{self, Role};
use kitfleet_types::ids::{AccountId, ApiKeyId, WebSessionId};

use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::metrics::{self, AuthOutcome};
use crate::http::permissions::{Access, Route, Rule, TeamRule};
use crate::http::request_id::RequestId;
use crate::http::routing::Rows;
use crate::http::state::App;

/// The caller of a slower response is checked again before it is sent (contract: authorization 16).
const ADMITTED_FOR: Duration = Duration::from_secs(1);

const ACCOUNT_HEADER: &str = "x-service-account";

#[derive(Debug, Clone)]
pub struct Caller {
    /// The caller's own, or one whose team the caller is a member of.
    pub account_id: AccountId,
    pub credential: Credential,
    pub scopes: Scopes,
    /// In the team of the account; `None` on the caller's own.
    role: Option<Role>,
    pub actor: Actor,
    /// For the logs of other processes.
    pub request_id: String,
}

impl Caller {
    pub fn api_key_id(&self) -> Option<ApiKeyId> {
        self.credential.api_key()
    }

    /// Actor of an operation that the caller requests over HTTP.
    pub fn operation_actor(&self) -> OperationActor {
        let (kind, id) = match self.credential {
            Credential::Key { id, .. } => (OperationActorKind::ApiKey, id.to_string()),
            Credential::WebSession { id, .. } => (OperationActorKind::WebSession, id.to_string()),
            Credential::OauthToken { client, .. } => (OperationActorKind::ApiKey, client.to_string()),
        };
        OperationActor { kind, id: Some(id) }
    }

    pub fn web_session(&self) -> Result<WebSessionId> {
        self.credential.web_session().ok_or_else(Problem::web_session_needed)
    }

    /// For a scope that only some requests require.
    pub fn require_scope(&self, scope: Scope) -> Result<()> {
        require(&self.scopes, scope)
    }

    /// On a route that another scope also opens.
    pub fn require_scope_of(&self, rule: Rule) -> Result<()> {
        let scope = rule.team.filter(|_| self.role.is_some()).map_or(rule.scope, |team| team.scope);
        require(&self.scopes, scope)
    }

    /// The request names the resource (contract: authorization 15).
    pub fn require_right(&self, right: TeamRule) -> Result<()> {
        require(&self.scopes, right.scope)?;
        self.role.map_or(Ok(()), |role| check_role(role, right.role)).map_err(|refused| refused.problem)
    }

    /// Contract: mfa 12.
    pub fn require_step_up(&self, fresh_for: Duration) -> Result<()> {
        match self.credential {
            Credential::WebSession { proof_age: Some(age), .. } if age < fresh_for => Ok(()),
            Credential::WebSession { proof_age: Some(_), .. } => Err(Problem::step_up_required("expired")),
            Credential::WebSession { proof_age: None, .. } => Err(Problem::step_up_required("never_satisfied")),
            // Programs have no second factor.
            Credential::Key { .. } | Credential::OauthToken { .. } => Ok(()),
        }
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        parts
            .extensions
            .get()
            .cloned()
            .ok_or_else(|| Problem::internal(&"the rule of this route does not require a caller"))
    }
}

pub async fn admit(State((app, rows)): State<(App, Rows)>, request: Request, next: Next) -> Result<Response> {
    let (mut parts, body) = request.into_parts();
    // Unknown routes are answered by the next layer.
    let Some(route) = route_of(&rows, &parts) else { return Ok(next.run(Request::from_parts(parts, body)).await) };
    admit_to(&app, route, &mut parts).await.inspect_err(|problem| {
        if let Some(count) = route.on_refusal {
            count(&parts.uri, problem.status());
        }
    })?;
    let admitted_at = Instant::now();
    let account = match route.access {
        Access::Account(rule) => Some((rule, credential_headers(&parts.headers))),
        Access::Staff | Access::Public | Access::MetricsToken => None,
    };
    let caller = parts.extensions.get::<Caller>().map(|caller| caller.account_id);
    let handler = next.run(Request::from_parts(parts, body));
    let answer = match caller {
        Some(account_id) => app.shares.run(account_id, handler).await,
        None => handler.await,
    };
    // Error responses contain no data. A 204 may belong to the request that ended the credential.
    if let Some((rule, headers)) = account
        && admitted_at.elapsed() >= ADMITTED_FOR
        && answer.status().is_success()
        && answer.status() != StatusCode::NO_CONTENT
    {
        reauthorize(&app, &headers, rule).await?;
    }
    Ok(answer)
}

pub fn credential_headers(headers: &HeaderMap) -> HeaderMap {
    let named = |name: &HeaderName| *name == AUTHORIZATION || name.as_str() == ACCOUNT_HEADER;
    headers.iter().filter(|(name, _)| named(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

async fn admit_to(app: &App, route: &Route, parts: &mut Parts) -> Result<()> {
    match route.access {
        Access::Account(rule) => {
            let caller = caller(app, parts, rule).await?;
            parts.extensions.insert(caller);
        }
        Access::Staff => {
            let caller = staff::caller(app, &parts.headers).await?;
            parts.extensions.insert(caller);
        }
        Access::Public | Access::MetricsToken => {}
    }
    Ok(())
}

fn route_of<'a>(rows: &'a Rows, parts: &Parts) -> Option<&'a Route> {
    let path = parts.extensions.get::<MatchedPath>()?;
    rows.find(&parts.method, path.as_str())
}

async fn caller(app: &App, parts: &Parts, rule: Rule) -> Result<Caller> {
    let authorized = authorize(app, &parts.headers, rule).await;
    metrics::count_auth(authorized.as_ref().map_or_else(|refused| refused.outcome, |_| AuthOutcome::Ok));
    let Authorized { bearer, account_id, role } = authorized.map_err(|refused| refused.problem)?;
    tracing::Span::current().record("account", tracing::field::display(account_id));
    app.last_used.note(bearer.credential);
    let Origin { ip_address, user_agent } = ClientInfo::of(parts, app).origin();
    let key = bearer.credential.api_key();
    // Actions of a member's key are actions of the member.
    let acting = bearer.maker.map_or(bearer.account_id, |maker| maker.account);
    Ok(Caller {
        account_id,
        credential: bearer.credential,
        scopes: bearer.scopes,
        role,
        actor: Actor::Customer { account: acting, key, ip_address, user_agent },
        request_id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
    })
}

struct Authorized {
    bearer: Bearer,
    account_id: AccountId,
    role: Option<Role>,
}

struct Refused {
    outcome: AuthOutcome,
    problem: Problem,
}

impl Refused {
    fn new(outcome: AuthOutcome, problem: Problem) -> Self {
        Self { outcome, problem }
    }

    fn unauthorized(outcome: AuthOutcome, detail: &str) -> Self {
        Self::new(outcome, Problem::unauthorized(detail))
    }

    fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(AuthOutcome::Forbidden, Problem::forbidden(detail))
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::new(AuthOutcome::Error, error.into())
    }
}

async fn authorize(app: &App, headers: &HeaderMap, rule: Rule) -> Result<Authorized, Refused> {
    let bearer = authenticate(app, headers).await?;
    let limited = app.rate_limits.check_credential(&credential_name(bearer.credential));
    limited.map_err(|problem| Refused::new(AuthOutcome::Forbidden, problem))?;
    check_access(app, headers, rule, bearer).await
}

/// Returns whether an admitted request would still be admitted. Checked for slow responses; true when the database fails.
pub async fn still_admits(app: &App, headers: &HeaderMap, rule: Rule) -> bool {
    reauthorize(app, headers, rule).await.is_ok()
}

/// Checks an admitted request again. The request stays admitted when the database fails.
///
/// # Errors
/// The problem that the same request would get now.
async fn reauthorize(app: &App, headers: &HeaderMap, rule: Rule) -> Result<()> {
    let judged = match authenticate(app, headers).await {
        Ok(bearer) => check_access(app, headers, rule, bearer).await,
        Err(refused) => Err(refused),
    };
    match judged {
        Err(Refused { outcome, problem }) if !matches!(outcome, AuthOutcome::Error) => Err(problem),
        _ => Ok(()),
    }
}

async fn check_access(app: &App, headers: &HeaderMap, rule: Rule, bearer: Bearer) -> Result<Authorized, Refused> {
    check_tier(&bearer, rule)?;
    if rule.web_session_only && bearer.credential.web_session().is_none() {
        return Err(Refused::new(AuthOutcome::Forbidden, Problem::web_session_needed()));
    }
    let own = bearer.account_id;
    let (account_id, team_role) = if let Some(maker) = bearer.maker {
        check_maker(&bearer, maker, rule, headers)?;
        (own, Some(maker.role))
    } else if let Some(team) = rule.team
        && let Some(owner) = named_account(headers)?.filter(|named| *named != own)
    {
        check_scope(&bearer, team.scope)?;
        (owner, Some(check_membership(app, owner, own, team.role).await?))
    } else {
        if !rule.or_scope.is_some_and(|scope| bearer.scopes.satisfy(scope)) {
            check_scope(&bearer, rule.scope)?;
        }
        (own, None)
    };
    Ok(Authorized { bearer, account_id, role: team_role })
}

/// A key has the rights that its maker has through the account header, on that account only. It opens no other routes, except
/// those that show its own account.
fn check_maker(bearer: &Bearer, maker: TeamMaker, rule: Rule, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(team) = rule.team else {
        if rule.open_to_members_keys {
            return check_scope(bearer, rule.scope);
        }
        return Err(Refused::forbidden("an API key created by a team member cannot be used on this route"));
    };
    if named_account(headers)?.is_some_and(|named| named != bearer.account_id) {
        let detail = "an API key created by a team member can act on the account it was created for only";
        return Err(Refused::forbidden(detail));
    }
    check_scope(bearer, team.scope)?;
    check_role(maker.role, team.role)
}

fn check_scope(bearer: &Bearer, scope: Scope) -> Result<(), Refused> {
    require(&bearer.scopes, scope).map_err(|problem| Refused::new(AuthOutcome::Forbidden, problem))
}

fn require(scopes: &Scopes, scope: Scope) -> Result<()> {
    if scopes.satisfy(scope) {
        return Ok(());
    }
    Err(Problem::forbidden(format!("the credential does not have the scope {}", scope.name())))
}

/// Of programs, only a desktop app's key works on the free tier, on the routes that the app needs (contract: authorization 4,
/// 5).
fn check_tier(bearer: &Bearer, rule: Rule) -> Result<(), Refused> {
    let works = match bearer.credential {
        Credential::WebSession { .. } => true,
        Credential::Key { kind: KeyKind::Device, .. } => rule.open_to_free_devices,
        Credential::Key { kind: KeyKind::Customer, .. } | Credential::OauthToken { .. } => false,
    };
    if works || bearer.tier.has_api_access() {
        return Ok(());
    }
    let tier = bearer.tier;
    let detail = format!("the apiAccess feature is unavailable on the {tier} tier; upgrade the account to use it");
    Err(Refused::forbidden(detail))
}

fn token_of(headers: &HeaderMap) -> Result<&str, Refused> {
    headers.get(AUTHORIZATION).and_then(bearer_token).ok_or_else(|| {
        Refused::unauthorized(AuthOutcome::Unauthorized, "send a bearer token in the Authorization header")
    })
}

async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Bearer, Refused> {
    let token = token_of(headers)?;
    let invalid = || Refused::unauthorized(AuthOutcome::Invalid, "the bearer token is invalid");
    let mut conn = app.db.acquire().await?;
    let bearer = credentials::find(&mut conn, token).await?.ok_or_else(invalid)?;
    if bearer.revoked {
        return Err(Refused::unauthorized(AuthOutcome::Revoked, "the bearer token was revoked"));
    }
    if bearer.expired {
        return Err(Refused::unauthorized(AuthOutcome::Expired, "the bearer token has expired"));
    }
    match bearer.account_status {
        AccountStatus::Active => Ok(bearer),
        AccountStatus::Deleted => Err(invalid()),
        AccountStatus::Suspended => {
            let problem = Problem::account_suspended();
            Err(Refused::new(AuthOutcome::Forbidden, problem))
        }
    }
}

fn credential_name(credential: Credential) -> String {
    match credential {
        Credential::Key { id, .. } => id.to_string(),
        Credential::WebSession { id, .. } => id.to_string(),
        Credential::OauthToken { client, .. } => client.to_string(),
    }
}

/// Contract: authorization 9, 12.
fn named_account(headers: &HeaderMap) -> Result<Option<AccountId>, Refused> {
    let malformed = |rule: &'static str| {
        let problem = Problem::invalid("X-Service-Account", rule);
        Refused::new(AuthOutcome::Forbidden, problem)
    };
    let mut lines = headers.get_all(ACCOUNT_HEADER).iter();
    let Some(value) = lines.next() else { return Ok(None) };
    // With two values, the service cannot know which one the caller wants.
    if lines.next().is_some() {
        return Err(malformed("must not be given more than once"));
    }
    let named = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    named.map(Some).ok_or_else(|| malformed("must be an account ID, acc_<uuid>"))
}

/// The response does not reveal whether an unknown owner exists.
async fn check_membership(app: &App, owner: AccountId, member: AccountId, needed: Role) -> Result<Role, Refused> {
    let membership = teams::membership(&mut *app.db.acquire().await?, owner, member).await?;
    let Some(membership) = membership else {
        let detail = "the caller is not a member of the team of the account in X-Service-Account";
        return Err(Refused::forbidden(detail));
    };
    check_role(membership.role, needed)?;
    if membership.owner_status != AccountStatus::Active {
        return Err(Refused::new(AuthOutcome::Forbidden, Problem::account_suspended()));
    }
    Ok(membership.role)
}

fn check_role(role: Role, needed: Role) -> Result<(), Refused> {
    if role >= needed {
        return Ok(());
    }
    Err(Refused::forbidden(format!("this operation requires the role {} in the owner's team", needed.name())))
}

/// The scheme is case-insensitive (RFC 9110, section 11.1).
pub fn bearer_token(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: authorization 15. Whatever the scopes of the member.
    #[test]
    fn right_to_use_a_resource_requires_scope_and_role() {
        let caller = |scopes: &[&str], role| Caller {
            account_id: AccountId::generate(),
            credential: Credential::Key { id: ApiKeyId::generate(), kind: KeyKind::Customer },
            scopes: Scopes::parse(scopes).expect("known scopes"),
            role,
            actor: Actor::System,
            request_id: String::new(),
        };
        let right = TeamRule { scope: Scope::WriteProfiles, role: Role::Admin };
        let may = |scopes: &[&str], role| caller(scopes, role).require_right(right).is_ok();
        for role in [None, Some(Role::Admin)] {
            assert!(may(&["write:profiles"], role) && may(&["write"], role) && may(&["account_owner"], role));
            assert!(!may(&["write:sessions", "write:agents", "read"], role));
        }
        assert!(!may(&["account_owner"], Some(Role::Member)));
    }
}
