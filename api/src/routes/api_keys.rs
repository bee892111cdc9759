//! API keys (contract: api-keys): create, list, rotate and revoke.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::api_keys::{self, KeyLimitError, NewKey, RotateError, Scopes, Secret};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{AccountId, ApiKeyId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::both;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Unchecked};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, Full, InvalidQuery, NoKey, Restricted, Rotating, grantable_scopes};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_KEYS: Rule = Rule::scope(Scope::Read).for_team(Role::Member);
const CHANGE_KEYS: Rule = Rule::scope(Scope::AccountOwner).for_team(Role::Admin);

pub fn routes() -> Routes {
    Routes::new()
        .allow(CHANGE_KEYS, routes!(create))
        .allow(READ_KEYS, routes!(list))
        .allow(READ_KEYS, routes!(get))
        .allow(CHANGE_KEYS, routes!(rename))
        .allow(CHANGE_KEYS, routes!(revoke))
        .allow(CHANGE_KEYS, routes!(rotate))
        .never_stored()
}

/// An API key
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "name": "CI", "scopes": ["read", "write:sessions"], "key_prefix": "svc_live_0b7",
    "created_by_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "created_at": "2026-11-20T18:05:00.123Z",
    "last_used_at": null, "expires_at": null, "revoked_at": null,
}))]
struct ApiKey {
    /// API key ID
    #[schema(value_type = String)]
    id: ApiKeyId,
    /// Account that owns the key
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Name of the key
    name: String,
    /// Scopes of the key
    scopes: Vec<String>,
    /// First 12 characters of the key
    key_prefix: String,
    /// Account that created the key; null when staff created it
    #[schema(value_type = Option<String>, required = true)]
    created_by_account_id: Option<AccountId>,
    /// Time the key was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the key was last used (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_used_at: Option<Timestamp>,
    /// Time the key expires (RFC 3339); null when it does not expire
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    expires_at: Option<Timestamp>,
    /// Time the key was revoked (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    revoked_at: Option<Timestamp>,
}

impl From<api_keys::ApiKey> for ApiKey {
    fn from(key: api_keys::ApiKey) -> Self {
        Self {
            id: key.id,
            account_id: key.account_id,
            name: key.name,
            scopes: key.scopes,
            key_prefix: key.key_prefix,
            created_by_account_id: key.created_by_account_id,
            created_at: key.created_at,
            last_used_at: key.last_used_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// An API key with its secret, which is returned only once
#[derive(Serialize, ToSchema)]
struct MintedKey {
    #[serde(flatten)]
    record: ApiKey,
    /// The secret key
    #[schema(example = "svc_live_…")]
    key: String,
    /// The key that this key replaces
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    rotated_from: Option<ApiKeyId>,
}

type Minted = (StatusCode, [(HeaderName, String); 1], Answer<MintedKey>);

fn minted((record, secret): (api_keys::ApiKey, Secret), rotated_from: Option<ApiKeyId>) -> Minted {
    let location = [(LOCATION, format!("/v1/api-keys/{}", record.id))];
    let key = MintedKey { record: record.into(), key: secret.reveal().to_owned(), rotated_from };
    (StatusCode::CREATED, location, Answer(key))
}

/// Request body of an API key creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "CI", "scopes": ["read", "write:sessions"]}))]
struct CreateKey {
    /// Name of the key
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    #[schema(schema_with = grantable_scopes)]
    scopes: Vec<String>,
    /// Time the key expires (RFC 3339); a key without it does not expire
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// Create an API key
#[utoipa::path(
    post, path = "/v1/api-keys", tag = "API keys", operation_id = "createApiKey",
    request_body = CreateKey,
    responses(
        (status = 201, description = "The key with its secret, returned only once", body = MintedKey,
         headers(("Location" = String, description = "Path of the key"))),
        Restricted, Body, Full, Database,
    ),
)]
async fn create(caller: Caller, State(app): State<App>, body: Unchecked<CreateKey>) -> Result<Minted> {
    let (name, scopes, expires_at) = body.check(|CreateKey { name, scopes, expires_at }| {
        let (_, scopes) = both(api_keys::check_name(&name), Scopes::grantable(&scopes, &caller.scopes))?;
        Ok((name, scopes, expires_at))
    })?;
    let new = NewKey { expires_at, ..NewKey::customer(&name, &scopes) };
    let mut tx = app.begin_change(caller.account_id).await?;
    api_keys::require_below_limit(&mut tx, caller.account_id, app.config.limits.api_keys).await?;
    let key = api_keys::mint(&mut tx, caller.account_id, &caller.actor, new).await?;
    tx.commit().await?;
    Ok(minted(key, None))
}

type ApiKeyList = Page<ApiKey>;

impl ListItem for ApiKey {
    const LIST: &'static str = "ApiKeyList";
    const MEANING: &'static str = "A page of API keys, newest first";
}

/// List API keys
///
/// Includes revoked and expired keys.
#[utoipa::path(
    get, path = "/v1/api-keys", tag = "API keys", operation_id = "listApiKeys",
    params(Paging),
    responses((status = 200, description = "A page of the list", body = ApiKeyList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<ApiKeyList>> {
    app.last_used.write_now(&app.db).await?;
    let account = caller.account_id;
    let scope = CursorScope { account, list: "api_keys", filters: &[] };
    let id_of = |key: &api_keys::ApiKey| key.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        api_keys::list(conn, account, after.map(ApiKeyId::from), limit).await
    });
    Ok(Answer(page.await?.map(ApiKey::from)))
}

/// Get an API key
#[utoipa::path(
    get, path = "/v1/api-keys/{id}", tag = "API keys", operation_id = "getApiKey",
    params(IdPath<ApiKeyId>),
    responses((status = 200, description = "The key, without its secret", body = ApiKey), Restricted, NoKey, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<ApiKeyId>) -> Result<Answer<ApiKey>> {
    app.last_used.write_now(&app.db).await?;
    let found = api_keys::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<ApiKeyId>)?.into()))
}

/// Request body of an API key update
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "CI on main"}))]
struct UpdateKey {
    /// Name of the key
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Rename an API key
///
/// Revoked and expired keys can be renamed, too.
#[utoipa::path(
    patch, path = "/v1/api-keys/{id}", tag = "API keys", operation_id = "updateApiKey",
    params(IdPath<ApiKeyId>), request_body = UpdateKey,
    responses((status = 200, description = "The key, without its secret", body = ApiKey), Restricted, Body, NoKey, Database),
)]
async fn rename(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ApiKeyId>,
    body: Unchecked<UpdateKey>,
) -> Result<Answer<ApiKey>> {
    let name = body.check(|UpdateKey { name }| Ok(api_keys::check_name(&name)?.to_owned()))?;
    app.last_used.write_now(&app.db).await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let renamed = api_keys::rename(&mut tx, caller.account_id, path.id()?, &name, &caller.actor).await?;
    let key = renamed.ok_or_else(not_found::<ApiKeyId>)?;
    tx.commit().await?;
    Ok(Answer(key.into()))
}

/// Revoke an API key
///
/// The next request with the key fails. Revoking a revoked key has no effect.
#[utoipa::path(
    delete, path = "/v1/api-keys/{id}", tag = "API keys", operation_id = "revokeApiKey",
    params(IdPath<ApiKeyId>),
    responses((status = 204, description = "The key is revoked, or was already revoked"), Restricted, NoKey, Database),
)]
async fn revoke(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ApiKeyId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let known = api_keys::revoke(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<ApiKeyId>()) }
}

/// Rotate an API key
///
/// Creates a successor; the rotated key keeps working for 24 hours. A key has one successor: to rotate again, rotate the
/// successor.
#[utoipa::path(
    post, path = "/v1/api-keys/{id}/rotate", tag = "API keys", operation_id = "rotateApiKey",
    params(IdPath<ApiKeyId>),
    responses(
        (status = 201, description = "The successor with its secret, returned only once", body = MintedKey,
         headers(("Location" = String, description = "Path of the successor"))),
        Restricted, NoKey, Rotating, Database,
    ),
)]
async fn rotate(caller: Caller, State(app): State<App>, path: IdPath<ApiKeyId>, _body: IgnoredBody) -> Result<Minted> {
    let old = path.id()?;
    let mut tx = app.begin_change(caller.account_id).await?;
    // Keys can be rotated at the account's key limit: both keys exist during the grace period.
    api_keys::require_below_limit(&mut tx, caller.account_id, app.config.limits.api_keys.saturating_mul(2)).await?;
    let grace = app.config.auth.rotation_grace;
    let successor = api_keys::rotate(&mut tx, caller.account_id, old, &caller.actor, grace).await?;
    tx.commit().await?;
    Ok(minted(successor, Some(old)))
}

impl From<KeyLimitError> for Problem {
    fn from(error: KeyLimitError) -> Self {
        match error {
            KeyLimitError::Full(max) => Self::new(&kinds::CONFLICT, error.to_string()).with("limit", max),
            KeyLimitError::Database(error) => error.into(),
        }
    }
}

impl From<RotateError> for Problem {
    fn from(error: RotateError) -> Self {
        match error {
            RotateError::NoKey => not_found::<ApiKeyId>(),
            RotateError::Worthless | RotateError::RotatedBefore => Self::new(&kinds::CONFLICT, error.to_string()),
            RotateError::NotAdmin => Self::forbidden(error.to_string()),
            RotateError::Database(error) => error.into(),
        }
    }
}
