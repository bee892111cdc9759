//! Who calls, and what they may do (interface, "Authentication"). A permission is an argument of the handler: one that
//! forgets it does not get at the account.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use kitfleet_domain::accounts::AccountStatus;
use kitfleet_domain::api_keys::{self, KeyRecord, Scope, Secret};
use kitfleet_domain::audit::Actor;
use kitfleet_domain::ids::{AccountId, ApiKeyId};

use crate::client;
use crate::error::{Problem, Result};
use crate::metrics::{self, AuthOutcome};
use crate::request_id::RequestId;
use crate::state::App;

/// A right a route asks for.
pub trait Permission {
    /// What the caller's own credential has to satisfy.
    const SCOPE: Scope;
}

/// Listing and reading sessions.
pub struct ReadSessions;
/// Creating, driving and destroying sessions.
pub struct WriteSessions;
/// What only the account's owner decides.
pub struct AccountOwner;

impl Permission for AccountOwner {
    const SCOPE: Scope = Scope::AccountOwner;
}

impl Permission for ReadSessions {
    const SCOPE: Scope = Scope::ReadSessions;
}

impl Permission for WriteSessions {
    const SCOPE: Scope = Scope::WriteSessions;
}

/// A caller who has the right `P`.
pub struct Scoped<P>(Caller, PhantomData<P>);

impl<P> Deref for Scoped<P> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

/// Who calls.
#[derive(Debug)]
pub struct Caller {
    /// Whose resources the request is about.
    pub account_id: AccountId,
    /// The key they called with.
    pub api_key_id: Option<ApiKeyId>,
    /// For the audit log.
    pub actor: Actor,
    /// For the logs of other processes.
    pub request_id: String,
}

impl<P: Permission + Send> FromRequestParts<App> for Scoped<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let authorized = authorize(parts, app, P::SCOPE).await;
        metrics::count_auth(authorized.as_ref().map_or_else(|refused| refused.outcome, |_| AuthOutcome::Ok));
        let key = authorized.map_err(|refused| refused.problem)?;
        tracing::Span::current().record("account", tracing::field::display(key.account_id));
        let actor = Actor::Customer {
            account: key.account_id,
            key: Some(key.id),
            ip_address: client::address(parts, &app.config.trusted_proxies).map(|address| address.to_string()),
            user_agent: client::user_agent(&parts.headers),
        };
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
        let caller = Caller { account_id: key.account_id, api_key_id: Some(key.id), actor, request_id };
        Ok(Self(caller, PhantomData))
    }
}

/// Why a caller may not.
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

async fn authorize(parts: &Parts, app: &App, needed: Scope) -> Result<KeyRecord, Refused> {
    let key = authenticate(parts, app).await?;
    let tier = key.tier;
    if !tier.has_api_access() {
        let detail = format!("the apiAccess feature is unavailable on the {tier} tier; upgrade the account to use it");
        return Err(Refused::forbidden(detail));
    }
    if !key.scopes.satisfy(needed) {
        return Err(Refused::forbidden(format!("the credential lacks the scope {}", needed.name())));
    }
    honor_account_header(parts, key.account_id)?;
    Ok(key)
}

async fn authenticate(parts: &Parts, app: &App) -> Result<KeyRecord, Refused> {
    let token = parts.headers.get(AUTHORIZATION).and_then(bearer_token).ok_or_else(|| {
        Refused::unauthorized(AuthOutcome::Unauthorized, "send a bearer token in the Authorization header")
    })?;
    let invalid = || Refused::unauthorized(AuthOutcome::Invalid, "the bearer token is not valid");
    let secret = Secret::parse(token).ok_or_else(invalid)?;
    let mut conn = app.db.acquire().await?;
    let key = api_keys::find_by_secret(&mut conn, &secret).await?.ok_or_else(invalid)?;
    if key.revoked_at.is_some() {
        return Err(Refused::unauthorized(AuthOutcome::Revoked, "the bearer token was revoked"));
    }
    if key.expired {
        return Err(Refused::unauthorized(AuthOutcome::Expired, "the bearer token has expired"));
    }
    match key.account_status {
        AccountStatus::Active => Ok(key),
        AccountStatus::Deleted => Err(invalid()),
        AccountStatus::Suspended => {
            let problem = Problem::account_suspended();
            Err(Refused::new(AuthOutcome::Forbidden, problem))
        }
    }
}

/// Every account is alone as long as there are no teams: the header may name the caller's own and no other.
fn honor_account_header(parts: &Parts, own: AccountId) -> Result<(), Refused> {
    const HEADER: &str = "x-service-account";
    let Some(value) = parts.headers.get(HEADER) else { return Ok(()) };
    let named = value.to_str().ok().and_then(|text| text.trim().parse::<AccountId>().ok());
    match named {
        Some(account) if account == own => Ok(()),
        Some(_) => Err(Refused::forbidden("the caller is not on the team of the account that X-Service-Account names")),
        None => {
            let problem = Problem::invalid("X-Service-Account", "must be an account id, acc_<uuid>");
            Err(Refused::new(AuthOutcome::Forbidden, problem))
        }
    }
}

/// The token of an `Authorization: Bearer` header. The scheme's case does not matter (RFC 9110, section 11.1).
pub fn bearer_token(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
