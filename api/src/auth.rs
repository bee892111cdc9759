//! Who calls, and what they may do (interface, "Authentication"). A permission is an argument of the handler: one that
//! forgets it does not get at the account.

use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use kitfleet_domain::accounts::AccountStatus;
use kitfleet_domain::api_keys::{KeyKind, Scopes};
use kitfleet_domain::audit::{Actor, Origin};
use kitfleet_domain::credentials::{self, Bearer, Credential};
use kitfleet_domain::ids::{AccountId, ApiKeyId, WebSessionId};

use crate::client::ClientInfo;
use crate::error::{Problem, Result};
use crate::metrics::{self, AuthOutcome};
use crate::permissions::{Permission, Rule};
use crate::request_id::RequestId;
use crate::state::App;

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
    /// What they showed.
    pub credential: Credential,
    /// What it may do.
    pub scopes: Scopes,
    /// For the audit log.
    pub actor: Actor,
    /// For the logs of other processes.
    pub request_id: String,
}

impl Caller {
    /// The key they called with.
    pub fn api_key_id(&self) -> Option<ApiKeyId> {
        self.credential.api_key()
    }

    /// The web session they called with.
    ///
    /// # Errors
    /// Forbidden, when it was something else.
    pub fn web_session(&self) -> Result<WebSessionId> {
        self.credential.web_session().ok_or_else(Problem::web_session_needed)
    }

    /// Insists on a second-factor proof that is fresh (interface, "Authentication" 5).
    ///
    /// # Errors
    /// The step-up problem, when the last one is too old or was never given.
    pub fn require_step_up(&self, fresh_for: Duration) -> Result<()> {
        match self.credential {
            Credential::WebSession { proof_age: Some(age), .. } if age < fresh_for => Ok(()),
            Credential::WebSession { proof_age: Some(_), .. } => Err(Problem::step_up_required("expired")),
            Credential::WebSession { proof_age: None, .. } => Err(Problem::step_up_required("never_satisfied")),
            // A program has no second factor to show.
            Credential::Key { .. } | Credential::OauthToken { .. } => Ok(()),
        }
    }
}

impl<P: Permission + Send> FromRequestParts<App> for Scoped<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let authorized = authorize(parts, app, P::RULE).await;
        metrics::count_auth(authorized.as_ref().map_or_else(|refused| refused.outcome, |_| AuthOutcome::Ok));
        let bearer = authorized.map_err(|refused| refused.problem)?;
        tracing::Span::current().record("account", tracing::field::display(bearer.account_id));
        app.last_used.note(bearer.credential);
        let Origin { ip_address, user_agent } = ClientInfo::of(parts, app).origin();
        let key = bearer.credential.api_key();
        let actor = Actor::Customer { account: bearer.account_id, key, ip_address, user_agent };
        let caller = Caller {
            account_id: bearer.account_id,
            credential: bearer.credential,
            scopes: bearer.scopes,
            actor,
            request_id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
        };
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

async fn authorize(parts: &Parts, app: &App, rule: Rule) -> Result<Bearer, Refused> {
    let bearer = authenticate(parts, app).await?;
    let limited = app.rate_limits.check_credential(&credential_name(bearer.credential));
    limited.map_err(|problem| Refused::new(AuthOutcome::Forbidden, problem))?;
    check_tier(&bearer, rule)?;
    if rule.web_session_only && bearer.credential.web_session().is_none() {
        return Err(Refused::new(AuthOutcome::Forbidden, Problem::web_session_needed()));
    }
    if !bearer.scopes.satisfy(rule.scope) {
        return Err(Refused::forbidden(format!("the credential lacks the scope {}", rule.scope.name())));
    }
    if rule.honors_account_header {
        honor_account_header(parts, bearer.account_id)?;
    }
    Ok(bearer)
}

/// Keys and OAuth tokens do not work on the free tier, but for a desktop app's, which does for what the app is for
/// (interface, "Authentication" 2; decisions D4).
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

async fn authenticate(parts: &Parts, app: &App) -> Result<Bearer, Refused> {
    let token = parts.headers.get(AUTHORIZATION).and_then(bearer_token).ok_or_else(|| {
        Refused::unauthorized(AuthOutcome::Unauthorized, "send a bearer token in the Authorization header")
    })?;
    let invalid = || Refused::unauthorized(AuthOutcome::Invalid, "the bearer token is not valid");
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

/// What a credential's requests are counted under.
fn credential_name(credential: Credential) -> String {
    match credential {
        Credential::Key { id, .. } => id.to_string(),
        Credential::WebSession { id, .. } => id.to_string(),
        Credential::OauthToken { client } => client.to_string(),
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
