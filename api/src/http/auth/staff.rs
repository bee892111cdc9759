//! Authentication of staff (contract: staff 2 to 4). No other route accepts a staff credential.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use kitfleet_domain::staff::{self, Reason, StaffActor};
use kitfleet_types::ids::StaffCredentialId;
use kitfleet_types::validation::Invalid;

use super::{Refused, authenticate, credential_name, token_of};
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::metrics::{self, AuthOutcome};
use crate::http::state::App;

#[derive(Debug, Clone, Copy)]
pub struct Staff {
    pub credential: StaffCredentialId,
}

impl Staff {
    /// 1 to 500 characters.
    pub fn because(self, reason: &str) -> Result<StaffActor, Invalid> {
        Ok(StaffActor { credential: self.credential, reason: Reason::parse(reason)? })
    }
}

impl FromRequestParts<App> for Staff {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        parts
            .extensions
            .get()
            .copied()
            .ok_or_else(|| Problem::internal(&"the rule of this route does not require staff"))
    }
}

/// Browsers request pages without a credential. A request with any other credential than one of staff is refused.
pub async fn refuse_others(app: &App, headers: &HeaderMap) -> Result<()> {
    if headers.contains_key(AUTHORIZATION) {
        caller(app, headers).await?;
    }
    Ok(())
}

pub(super) async fn caller(app: &App, headers: &HeaderMap) -> Result<Staff> {
    let authorized = authorize(app, headers).await;
    metrics::count_auth(authorized.as_ref().map_or_else(|refused| refused.outcome, |_| AuthOutcome::Ok));
    authorized.map_err(|refused| refused.problem)
}

async fn authorize(app: &App, headers: &HeaderMap) -> Result<Staff, Refused> {
    let token = token_of(headers)?;
    let found = staff::find(&mut *app.db.acquire().await?, token).await?;
    let Some(bearer) = found else { return Err(unknown(app, headers).await) };
    if bearer.revoked {
        return Err(Refused::unauthorized(AuthOutcome::Revoked, "the bearer token was revoked"));
    }
    let limited = app.rate_limits.check_credential(&bearer.id.to_string());
    limited.map_err(|problem| Refused::new(AuthOutcome::Forbidden, problem))?;
    Ok(Staff { credential: bearer.id })
}

/// A valid credential gets the same 404 as an unknown route, and the request counts against its rate limit.
async fn unknown(app: &App, headers: &HeaderMap) -> Refused {
    match authenticate(app, headers).await {
        Err(refused) if refused.problem.status() != kinds::FORBIDDEN.status => return refused,
        Ok(bearer) => {
            if let Err(limited) = app.rate_limits.check_credential(&credential_name(bearer.credential)) {
                return Refused::new(AuthOutcome::Forbidden, limited);
            }
        }
        Err(_) => {}
    }
    Refused::new(AuthOutcome::Forbidden, Problem::no_such_route())
}
