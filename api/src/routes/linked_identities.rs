//! Accounts at identity providers that are linked to the caller's account (contract: identities 10).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::identities;
use kitfleet_types::ids::IdentityId;
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::IgnoredBody;
use crate::http::lists::{List, ListItem};
use crate::http::openapi::{Database, NoIdentity, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().allow(OWN_ACCOUNT, routes!(list)).allow(OWN_ACCOUNT, routes!(remove))
}

/// An account at an identity provider that can sign in to the caller's account
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "idn_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "provider": "google", "display_name": "Google",
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct LinkedIdentity {
    /// ID of the link
    #[schema(value_type = String)]
    id: IdentityId,
    /// Name of the provider in addresses
    provider: String,
    /// Name of the provider for people; null if the deployment no longer has the provider
    #[schema(required = true)]
    display_name: Option<String>,
    /// Time the identity was linked (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

type LinkedIdentityList = List<LinkedIdentity>;

impl ListItem for LinkedIdentity {
    const LIST: &'static str = "LinkedIdentityList";
    const MEANING: &'static str = "Linked identities, newest first";
}

/// List linked identities
#[utoipa::path(
    get, path = "/v1/account/identities", tag = "Account", operation_id = "listIdentities",
    responses((status = 200, description = "The linked identities", body = LinkedIdentityList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<LinkedIdentityList>> {
    let found = identities::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    let shown = found.into_iter().map(|identity| LinkedIdentity {
        id: identity.id,
        display_name: app.providers.get(&identity.provider).map(|provider| provider.config.display_name.clone()),
        provider: identity.provider,
        created_at: identity.created_at,
    });
    Ok(Answer(shown.collect()))
}

/// Remove a linked identity
///
/// It can no longer sign in. The account owner can still sign in with a password or a mailed link.
#[utoipa::path(
    delete, path = "/v1/account/identities/{id}", tag = "Account", operation_id = "removeIdentity",
    params(IdPath<IdentityId>),
    responses((status = 204, description = "The identity is removed"), Restricted, NoIdentity, Database),
)]
async fn remove(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<IdentityId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let removed = identities::unlink(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    if removed { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<IdentityId>()) }
}
