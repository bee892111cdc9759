//! Bearer tokens of every kind (contract: authorization 1 to 3): what the token says of who sends it.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::accounts::{AccountStatus, Tier};
use crate::api_keys::{self, KeyKind, Scopes, Secret};
use crate::ids::{AccountId, ApiKeyId, OauthClientId, WebSessionId};
use crate::oauth::{self, AccessToken};
pub use crate::roles::TeamMaker;
use crate::timestamp::Timestamp;
use crate::web_sessions;

/// What a bearer showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// An API key.
    Key {
        /// Which.
        id: ApiKeyId,
        /// Of what kind.
        kind: KeyKind,
    },
    /// A web session's token.
    WebSession {
        /// Which.
        id: WebSessionId,
        /// How long ago its last second-factor proof was given.
        proof_age: Option<Duration>,
    },
    /// An OAuth access token.
    OauthToken {
        /// Whose.
        client: OauthClientId,
        /// Until when it is good.
        expires_at: Timestamp,
    },
}

impl Credential {
    /// The API key, if it is one.
    #[must_use]
    pub fn api_key(&self) -> Option<ApiKeyId> {
        match self {
            Self::Key { id, .. } => Some(*id),
            Self::WebSession { .. } | Self::OauthToken { .. } => None,
        }
    }

    /// The web session, if it is one.
    #[must_use]
    pub fn web_session(&self) -> Option<WebSessionId> {
        match self {
            Self::WebSession { id, .. } => Some(*id),
            Self::Key { .. } | Self::OauthToken { .. } => None,
        }
    }
}

/// A credential as columns of what was asked for with it, so that it can be judged again later.
#[derive(Default)]
pub(crate) struct CredentialColumns {
    pub key: Option<Uuid>,
    pub web_session: Option<Uuid>,
    pub client: Option<Uuid>,
    /// Expiry of an OAuth token, whose own row may be gone by then. The rows of keys and web sessions have their expiry.
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

/// Who sends a token that is known.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// What they showed.
    pub credential: Credential,
    /// On whose account it acts.
    pub account_id: AccountId,
    /// Which member of that account's team made it; `None` when it is the account's own.
    pub maker: Option<TeamMaker>,
    /// What it may do.
    pub scopes: Scopes,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether its time is over.
    pub expired: bool,
    /// Whether its account may act, and its maker's.
    pub account_status: AccountStatus,
    /// What its account pays for.
    pub tier: Tier,
}

/// Looks a token up. It is asked for each request instead of being remembered: one look at an index costs a fraction of
/// a millisecond, and whatever was revoked, expired, suspended or downgraded is so for the very next request, on every
/// replica.
///
/// # Errors
/// When the database fails.
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
