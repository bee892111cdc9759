//! Signed-in devices (contract: web-sessions 2 to 4).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::web_sessions;
use kitfleet_types::ids::WebSessionId;
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::lists::{ListItem, Page, Query};
use crate::http::openapi::{Database, InvalidQuery, NoWebSession, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::{OWN_ACCOUNT, Rule};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(list))
        .allow(Rule::person(), routes!(revoke_others))
        .allow(OWN_ACCOUNT, routes!(revoke))
}

/// A signed-in device
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "wsess_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "created_at": "2026-11-20T18:05:00.123Z",
    "last_used_at": "2026-11-20T18:07:10.002Z", "expires_at": "2026-12-20T18:05:00.123Z", "ip_address": "203.0.113.9",
    "user_agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)", "current": true,
}))]
struct SignedInDevice {
    /// Web session ID
    #[schema(value_type = String)]
    id: WebSessionId,
    /// Time of the sign-in (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last request (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    last_used_at: Timestamp,
    /// Time the session expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// IP address of the sign-in
    #[schema(required = true)]
    ip_address: Option<String>,
    /// User agent of the sign-in
    #[schema(required = true)]
    user_agent: Option<String>,
    /// True for the session of this request
    current: bool,
}

type SignedInDevices = Page<SignedInDevice>;

impl ListItem for SignedInDevice {
    const LIST: &'static str = "SignedInDevices";
    const MEANING: &'static str = "Signed-in devices, newest first";
}

/// List signed-in devices
#[utoipa::path(
    get, path = "/v1/account/web-sessions", tag = "Account", operation_id = "listWebSessions",
    responses((status = 200, description = "The signed-in devices", body = SignedInDevices), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<SignedInDevices>> {
    let current = caller.credential.web_session();
    app.last_used.write_now(&app.db).await?;
    let sessions = web_sessions::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    let devices = sessions.into_iter().map(|session| SignedInDevice {
        id: session.id,
        created_at: session.created_at,
        last_used_at: session.last_used_at,
        expires_at: session.expires_at,
        ip_address: session.ip_address,
        user_agent: session.user_agent,
        current: current == Some(session.id),
    });
    Ok(Answer(devices.collect()))
}

/// Sign out a device
#[utoipa::path(
    delete, path = "/v1/account/web-sessions/{id}", tag = "Account", operation_id = "revokeWebSession",
    params(IdPath<WebSessionId>),
    responses((status = 204, description = "The device is signed out"), Restricted, NoWebSession, Database),
)]
async fn revoke(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<WebSessionId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    if !web_sessions::revoke(&mut tx, caller.account_id, path.id()?, &caller.actor).await? {
        return Err(not_found::<WebSessionId>());
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Result of signing out all other devices
#[derive(Serialize, ToSchema)]
#[schema(as = RevokedWebSessions, example = json!({"revoked": 2}))]
struct Revoked {
    /// Number of devices signed out
    revoked: u64,
}

/// Sign out all other devices
#[utoipa::path(
    delete, path = "/v1/account/web-sessions", tag = "Account", operation_id = "revokeOtherWebSessions",
    params(("keep" = String, Query, description = "The literal `current`: the session of this request is kept", pattern = "^current$", example = "current")),
    responses((status = 200, description = "The other devices are signed out", body = Revoked), Restricted, InvalidQuery, Database),
)]
async fn revoke_others(
    caller: Caller,
    State(app): State<App>,
    query: Query,
    _body: IgnoredBody,
) -> Result<Answer<Revoked>> {
    if query.text("keep")? != Some("current") {
        return Err(Problem::invalid("keep", "must be current"));
    }
    let current = caller.web_session()?;
    let mut tx = app.db.begin().await?;
    let revoked = web_sessions::revoke_others(&mut tx, caller.account_id, current, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(Revoked { revoked }))
}
