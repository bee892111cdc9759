//! Saved proxies: customers' own egress routes (contract: proxies).

mod checking;
mod wire;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::proxies::{self, ChangeError, Checks, CreateError};
use kitfleet_domain::vault::{UnsealError, Vault};
use kitfleet_types::ids::{AgentSessionId, ProxyId};
use utoipa_axum::routes;

use self::wire::{NewProxy, SavedProxy, SavedProxyList, read_config};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json};
use crate::http::kinds;
use crate::http::openapi::{AnotherProxy, Body, Database, NoProxy, ProxyInUse, Restricted, Sealing};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(create, list))
        .allow(OWN_ACCOUNT, routes!(get, replace, delete))
        .merge(checking::routes())
}

fn vault(app: &App) -> Result<&Vault> {
    app.own_vault("saved proxies")
}

fn checks(app: &App) -> Checks<'_> {
    Checks { destinations: &app.config.upstreams, read_config }
}

/// Problem for a proxy that a live session uses.
pub fn proxy_in_use(error: &impl ToString, user: AgentSessionId) -> Problem {
    Problem::new(&kinds::CONFLICT, error.to_string()).with("agent_session_id", user)
}

/// Problem for a proxy whose secrets were sealed with a key that this deployment does not have.
pub fn sealed_elsewhere(error: UnsealError) -> Problem {
    tracing::error!(%error, "saved proxy was sealed with another key: see mfa.retired_encryption_keys");
    Problem::new(&kinds::FEATURE_UNAVAILABLE, "this deployment lacks the key that the saved proxy was sealed with")
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::TooMany { current, limit } => {
                Self::new(&kinds::PROXY_LIMIT, error.to_string()).with("current_proxies", current).with("limit", limit)
            }
            CreateError::NoAccount => Self::account_gone(),
            CreateError::Invalid(invalid) => invalid.into(),
            CreateError::Database(error) => error.into(),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NoProxy => not_found::<ProxyId>(),
            ChangeError::InUse(user) => proxy_in_use(&error, user),
            ChangeError::Invalid(invalid) => invalid.into(),
            ChangeError::Database(error) => error.into(),
        }
    }
}

/// Save a proxy
///
/// Saves an egress route for agent sessions: a `socks5` or `http` proxy at a `host` and `port`, or a `wireguard` or `openvpn`
/// tunnel to the server in its `config`. Passwords and configurations are sealed and never returned.
#[utoipa::path(
    post, path = "/v1/account/me/proxies", tag = "Proxies", operation_id = "createProxy",
    request_body = NewProxy,
    responses(
        (status = 201, description = "The proxy", body = SavedProxy,
         headers(("Location" = String, description = "The proxy's path"))),
        Restricted, Body, AnotherProxy, Sealing,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    Json(body): Json<NewProxy>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<SavedProxy>)> {
    let vault = vault(&app)?;
    let new = body.wanted().check(None, checks(&app))?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let max = app.config.limits.proxies;
    let saved = proxies::create(&mut tx, caller.account_id, &new, vault, max, &caller.actor).await?;
    tx.commit().await?;
    let location = [(LOCATION, format!("/v1/account/me/proxies/{}", saved.id))];
    Ok((StatusCode::CREATED, location, Answer(saved.into())))
}

/// List saved proxies
///
/// Returns the account's saved proxies, newest first.
#[utoipa::path(
    get, path = "/v1/account/me/proxies", tag = "Proxies", operation_id = "listProxies",
    responses((status = 200, description = "All saved proxies", body = SavedProxyList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<SavedProxyList>> {
    let saved = proxies::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(saved.into_iter().map(SavedProxy::from).collect()))
}

/// Get a saved proxy
#[utoipa::path(
    get, path = "/v1/account/me/proxies/{id}", tag = "Proxies", operation_id = "getProxy",
    params(IdPath<ProxyId>),
    responses((status = 200, description = "The proxy", body = SavedProxy), Restricted, NoProxy, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<ProxyId>) -> Result<Answer<SavedProxy>> {
    Ok(Answer(read(&app, &caller, path.id()?).await?.into()))
}

async fn read(app: &App, caller: &Caller, id: ProxyId) -> Result<proxies::SavedProxy> {
    let found = proxies::find(&mut *app.db.acquire().await?, caller.account_id, id).await?;
    found.ok_or_else(not_found::<ProxyId>)
}

/// Replace a saved proxy
///
/// Accepts the same body as its creation; `scheme` cannot change. An absent secret is kept, and `null` removes it. If the host,
/// port or configuration changes, a stored password must be sent again. Sessions that already use the proxy keep the old
/// settings.
#[utoipa::path(
    put, path = "/v1/account/me/proxies/{id}", tag = "Proxies", operation_id = "replaceProxy",
    params(IdPath<ProxyId>), request_body = NewProxy,
    responses((status = 200, description = "The changed proxy", body = SavedProxy), Restricted, Body, NoProxy, Sealing),
)]
async fn replace(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProxyId>,
    Json(body): Json<NewProxy>,
) -> Result<Answer<SavedProxy>> {
    let (vault, id) = (vault(&app)?, path.id()?);
    let before = read(&app, &caller, id).await?.scheme;
    let new = body.wanted().check(Some(before), checks(&app))?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let saved = proxies::replace(&mut tx, caller.account_id, id, &new, vault, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(saved.into()))
}

/// Delete a saved proxy
///
/// Deletes the proxy and its secrets permanently. Fails while a live session uses the proxy.
#[utoipa::path(
    delete, path = "/v1/account/me/proxies/{id}", tag = "Proxies", operation_id = "deleteProxy",
    params(IdPath<ProxyId>),
    responses((status = 204, description = "The proxy is deleted"), Restricted, NoProxy, ProxyInUse, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProxyId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    proxies::delete(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
