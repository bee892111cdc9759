//! Device authorization for desktop apps (contract: devices).

use axum::Json as Answer;
use axum::extract::{RawPathParams, State};
use kitfleet_domain::api_keys::{self, MintError, Scopes};
use kitfleet_domain::crockford;
use kitfleet_domain::devices::{self, BindError, Exchange, NewDevice};
use kitfleet_types::ids::AccountId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{OpenJson, OpenUnchecked, Unchecked};
use crate::http::kinds;
use crate::http::openapi::{Body, Database, Full, NoDevice, RateLimited, Restricted, grantable_scopes, or_null};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .allow(Rule::person(), routes!(bind))
        .allow(Rule::person(), routes!(waiting))
        .public(routes!(initiate))
        .public(routes!(exchange))
        .never_stored()
}

/// Request body of a device code request
#[derive(Deserialize, ToSchema)]
#[schema(as = InitiateDevice, example = json!({"state": "b0fd8fce1d7f4e53", "client_label": "Kitfleet for Mac"}))]
struct Initiate {
    /// Random nonce chosen by the app
    #[schema(min_length = 16, max_length = 128)]
    state: String,
    /// Name of the app
    #[schema(max_length = 120)]
    client_label: Option<String>,
}

/// A device code
#[derive(Serialize, ToSchema)]
#[schema(as = InitiatedDevice, example = json!({
    "code": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "user_code": "4T2Z-9QX1",
    "browser_url": "https://kitfleet.example/activate?user_code=4T2Z-9QX1",
}))]
struct Initiated {
    /// Code that the app exchanges for its key, once
    code: String,
    /// Code that the app shows to the user
    user_code: String,
    /// Page where the user enters `user_code`
    browser_url: String,
}

/// Request a device code
///
/// The app shows `user_code`, opens `browser_url`, and polls the exchange every two seconds.
#[utoipa::path(
    post, path = "/v1/auth/cli-authorize/initiate", tag = "Devices", operation_id = "initiateDeviceCode",
    request_body = Initiate,
    responses((status = 200, description = "The device code", body = Initiated), Body, RateLimited, Database),
)]
async fn initiate(
    State(app): State<App>,
    client: ClientInfo,
    OpenUnchecked(body): OpenUnchecked<Initiate>,
) -> Result<Answer<Initiated>> {
    let new = body.check(|Initiate { state, client_label }| {
        NewDevice::parse(&state, client_label.as_deref(), &app.config.limits)
    })?;
    app.rate_limits.check(Bucket::DeviceInitiate, &client).await?;
    let mut conn = app.db.acquire().await?;
    let initiated = devices::initiate(&mut conn, &new, &client.origin(), app.config.auth.device_code_ttl).await?;
    let browser_url = format!("{}/activate?user_code={}", app.config.base_url, initiated.user_code);
    Ok(Answer(Initiated { code: initiated.code.reveal().to_owned(), user_code: initiated.user_code, browser_url }))
}

/// An app that waits for authorization
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "client_label": "Kitfleet for Mac", "state": "b0fd8fce1d7f4e53", "ip_address": "203.0.113.9",
    "created_at": "2026-11-20T18:05:00.123Z", "expires_at": "2026-11-20T18:15:00.123Z",
}))]
struct WaitingDevice {
    /// Name of the app
    #[schema(required = true)]
    client_label: Option<String>,
    /// Nonce of the app; send it back unchanged
    state: String,
    /// IP address of the app's request
    #[schema(required = true)]
    ip_address: Option<String>,
    /// Time of the app's request (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the code expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Get a waiting app
///
/// Lets a person check the app before authorizing it.
#[utoipa::path(
    get, path = "/v1/auth/cli-authorize/{user_code}", tag = "Devices", operation_id = "getWaitingDevice",
    params(("user_code" = String, Path, description = "Code that the app shows", example = "4T2Z-9QX1")),
    responses((status = 200, description = "The waiting app", body = WaitingDevice), Restricted, NoDevice, RateLimited, Database),
)]
async fn waiting(
    _caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    params: RawPathParams,
) -> Result<Answer<WaitingDevice>> {
    app.rate_limits.check(Bucket::DeviceBind, &client).await?;
    let user_code = params.iter().next().map(|(_, code)| code.to_owned()).filter(|code| !code.contains('\0'));
    let waiting = match user_code {
        Some(code) => devices::find_waiting(&mut *app.db.acquire().await?, &code).await?,
        None => None,
    };
    let waiting = waiting.ok_or_else(device_not_found)?;
    Ok(Answer(WaitingDevice {
        client_label: waiting.client_label,
        state: waiting.state,
        ip_address: waiting.ip_address,
        created_at: waiting.created_at,
        expires_at: waiting.expires_at,
    }))
}

fn device_not_found() -> Problem {
    Problem::new(&kinds::NOT_FOUND, "no device waits for this code; the code may have expired or been used")
}

/// Request body of an authorization
#[derive(Deserialize, ToSchema)]
#[schema(as = BindDevice, example = json!({"user_code": "4T2Z-9QX1", "state": "b0fd8fce1d7f4e53"}))]
struct Bind {
    /// Code that the app shows
    user_code: String,
    /// Nonce of the app
    state: String,
    /// Scopes of the key; all scopes when absent
    #[schema(schema_with = grantable_scopes_or_null)]
    scopes: Option<Vec<String>>,
}

fn grantable_scopes_or_null() -> RefOr<Schema> {
    or_null(grantable_scopes())
}

/// Result of an authorization
#[derive(Serialize, ToSchema)]
#[schema(as = BoundDevice, example = json!({"bound": true, "client_label": "Kitfleet for Mac"}))]
struct Bound {
    /// Always true
    bound: bool,
    /// Name of the app
    #[schema(required = true)]
    client_label: Option<String>,
}

/// Authorize an app
///
/// Creates an API key on the caller's account. The app must collect it within two minutes.
#[utoipa::path(
    post, path = "/v1/auth/cli-authorize/bind-device-code", tag = "Devices", operation_id = "bindDeviceCode",
    request_body = Bind,
    responses((status = 200, description = "The app can collect its key", body = Bound), Restricted, Body, NoDevice, Full, RateLimited, Database),
)]
async fn bind(
    caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    body: Unchecked<Bind>,
) -> Result<Answer<Bound>> {
    let (body, scopes) = body.check(|body| {
        let scopes = match &body.scopes {
            Some(names) => Scopes::grantable(names, &caller.scopes)?,
            None => Scopes::account_owner(),
        };
        Ok((body, scopes))
    })?;
    app.rate_limits.check(Bucket::DeviceBind, &client).await?;
    app.rate_limits.check(Bucket::DeviceBind, crockford::normalized(&body.user_code).as_str()).await?;
    let by = (caller.account_id, &caller.actor);
    let mut tx = app.begin_change(caller.account_id).await?;
    api_keys::require_below_limit(&mut tx, caller.account_id, app.config.limits.api_keys).await?;
    let held_for = app.config.auth.device_bound_ttl;
    let client_label = devices::bind(&mut tx, by, &body.user_code, &body.state, &scopes, held_for).await?;
    tx.commit().await?;
    Ok(Answer(Bound { bound: true, client_label }))
}

/// Request body of an exchange
#[derive(Deserialize, ToSchema)]
#[schema(as = ExchangeDeviceCode, example = json!({"code": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "state": "b0fd8fce1d7f4e53"}))]
struct ExchangeCode {
    /// `code` of the device code response
    code: String,
    /// Nonce of the app
    state: String,
}

/// State of an app's request
#[derive(Serialize, ToSchema)]
#[schema(as = DeviceExchange)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Exchanged {
    /// No person has authorized the app yet
    #[schema(title = "DeviceExchangePending")]
    Pending,
    /// The API key, returned only once
    #[schema(title = "DeviceExchangeBound")]
    Bound {
        /// The secret key
        api_key: String,
        /// Account that owns the key
        #[schema(value_type = String)]
        account_id: AccountId,
    },
    /// The code is unknown, expired or already exchanged
    #[schema(title = "DeviceExchangeExpired")]
    Expired,
}

/// Exchange a device code for an API key
#[utoipa::path(
    post, path = "/v1/auth/cli-authorize/exchange", tag = "Devices", operation_id = "exchangeDeviceCode",
    request_body = ExchangeCode,
    responses((status = 200, description = "The state of the request", body = Exchanged), Body, RateLimited, Database),
)]
async fn exchange(
    State(app): State<App>,
    client: ClientInfo,
    OpenJson(body): OpenJson<ExchangeCode>,
) -> Result<Answer<Exchanged>> {
    app.rate_limits.check(Bucket::DeviceExchange, &client).await?;
    app.rate_limits.check(Bucket::DeviceExchange, body.code.as_str()).await?;
    let mut tx = app.db.begin().await?;
    let exchanged = devices::exchange(&mut tx, &body.code, &body.state).await?;
    tx.commit().await?;
    Ok(Answer(match exchanged {
        Exchange::Pending => Exchanged::Pending,
        Exchange::Bound { key, account } => Exchanged::Bound { api_key: key.reveal().to_owned(), account_id: account },
        Exchange::Expired => Exchanged::Expired,
    }))
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Self {
        match error {
            BindError::NoDevice => device_not_found(),
            BindError::OtherState => Self::invalid("state", "does not match the state of the device's request"),
            BindError::Mint(error) => error.into(),
            BindError::Database(error) => error.into(),
        }
    }
}

impl From<MintError> for Problem {
    fn from(error: MintError) -> Self {
        match error {
            MintError::Invalid(invalid) => invalid.into(),
            // The caller's credential was valid a moment ago.
            MintError::NoAccount => Self::unauthorized("the account was deleted"),
            MintError::NotAdmin => Self::forbidden(error.to_string()),
            MintError::Database(error) => error.into(),
        }
    }
}
