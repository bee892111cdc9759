//! Bearer tokens of all types (contract: authorization 1 to 3), and the identity and rights they carry.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, ApiKeyId, OauthClientId, WebSessionId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::accounts::AccountStatus;
use crate::api_keys::{self, KeyKind, Scopes, Secret};
use crate::oauth::{self, AccessToken};
pub use crate::roles::TeamMaker;
use crate::web_sessions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    Key { id: ApiKeyId, kind: KeyKind },
    WebSession { id: WebSessionId, proof_age: Option<Duration> },
    OauthToken { client: OauthClientId, expires_at: Timestamp },
}

impl Credential {
    #[must_use]
    pub fn api_key(&self) -> Option<ApiKeyId> {
        match self {
            Self::Key { id, .. } => Some(*id),
            Self::WebSession { .. } | Self::OauthToken { .. } => None,
        }
    }

    #[must_use]
    pub fn web_session(&self) -> Option<WebSessionId> {
        match self {
            Self::WebSession { id, .. } => Some(*id),
            Self::Key { .. } | Self::OauthToken { .. } => None,
        }
    }
}

/// The rights of a row's request can then be checked again later.
#[derive(Default)]
pub(crate) struct CredentialColumns {
    pub key: Option<Uuid>,
    pub web_session: Option<Uuid>,
    pub client: Option<Uuid>,
    /// Expiry of an OAuth token, whose own row may be deleted by then. The rows of keys and web sessions have their
    /// expiry.
    pub expires_at: Option<Timestamp>,
}

impl CredentialColumns {
    pub(crate) fn of(credential: Credential) -> Self {
        match credential {
            Credential::Key { id, .. } => Self { key: Some(id.as_uuid()), ..Self::default() },
            Credential::WebSession { id, .. } => Self { web_session: Some(id.as_uuid()), ..Self::default() },
            Credential::OauthToken { client, expires_at } => {
                Self { client: Some(client.as_uuid()), expires_at: Some(expires_at), ..Self::default() }
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Bearer {
    pub credential: Credential,
    pub account_id: AccountId,
    /// `None` when the credential belongs to the account itself.
    pub maker: Option<TeamMaker>,
    pub scopes: Scopes,
    pub revoked: bool,
    pub expired: bool,
    /// State of the account, or of the key's creator when only that account is not active.
    pub account_status: AccountStatus,
    pub tier: Tier,
}

/// Looks up a token. It is looked up for each request and not cached: an index lookup takes a fraction of a
/// millisecond, and a revocation, expiry, suspension or change of tier applies to the next request on every replica.
pub async fn find(conn: &mut PgConnection, token: &str) -> sqlx::Result<Option<Bearer>> {
    if token.starts_with(AccessToken::PREFIX) {
        let found = oauth::find_by_token(conn, token).await?;
        return Ok(found.map(|token| Bearer {
            credential: Credential::OauthToken { client: token.client_id, expires_at: token.expires_at },
            account_id: token.account_id,
            maker: None,
            scopes: token.scopes,
            revoked: token.revoked,
            expired: token.expired,
            account_status: token.account_status,
            tier: token.tier,
        }));
    }
    if token.starts_with("svc_") {
        let Some(secret) = Secret::parse(token) else { return Ok(None) };
        let found = api_keys::find_by_secret(conn, &secret).await?;
        return Ok(found.map(|key| Bearer {
            credential: Credential::Key { id: key.id, kind: key.kind },
            account_id: key.account_id,
            maker: key.maker,
            scopes: key.scopes,
            revoked: key.revoked,
            expired: key.expired,
            account_status: key.account_status,
            tier: key.tier,
        }));
    }
    let found = web_sessions::find_by_token(conn, token).await?;
    Ok(found.map(|session| Bearer {
        credential: Credential::WebSession { id: session.id, proof_age: session.proof_age },
        account_id: session.account_id,
        maker: None,
        scopes: Scopes::account_owner(),
        revoked: session.revoked,
        expired: session.expired,
        account_status: session.account_status,
        tier: session.tier,
    }))
}
