//! Proxy of a session: a copy of a saved proxy, whose secrets are sealed to the one worker that owns the session's
//! browser.
//!
//! The copy is created with the session. A trigger deletes it when the session ends, for any reason.

use std::fmt;

use kitfleet_types::ids::{AccountId, ProxyId, SessionId, WorkerId};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use url::Host;
use zeroize::Zeroizing;

use super::{Part, Scheme, open};
use crate::sealing::{self, NotSealedForUs, Opener};
use crate::vault::{UnsealError, Vault};
use crate::workers;

/// Erased from memory when dropped, and never printed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets {
    pub password: Option<Zeroizing<String>>,
    pub config: Option<Zeroizing<String>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

#[derive(Debug, Clone)]
pub struct InUse {
    pub id: ProxyId,
    pub scheme: Scheme,
    /// Host of the proxy, or of the server of a tunnel.
    pub host: Host,
    pub port: u16,
    pub username: Option<String>,
    sealed_secrets: Vec<u8>,
}

impl InUse {
    /// Opens the secrets, for the worker that they were sealed to.
    pub fn open(&self, opener: &Opener) -> Result<Secrets, NotSealedForUs> {
        opener.open(&self.sealed_secrets)
    }
}

/// Locked until the transaction ends.
#[derive(Debug)]
pub struct LockedProxy {
    pub(super) id: ProxyId,
    pub(super) scheme: Scheme,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) username: Option<String>,
    sealed_password: Option<Vec<u8>>,
    sealed_config: Option<Vec<u8>>,
}

impl LockedProxy {
    /// A proxy without secrets needs no vault.
    pub fn open(&self, vault: Option<&Vault>) -> Result<Secrets, UnsealError> {
        let opened = |part, sealed: &Option<Vec<u8>>| match sealed {
            Some(sealed) => open(vault.ok_or(UnsealError)?, self.id, part, sealed).map(Some),
            None => Ok(None),
        };
        Ok(Secrets {
            password: opened(Part::Password, &self.sealed_password)?,
            config: opened(Part::Config, &self.sealed_config)?,
        })
    }
}

/// Locks the proxy against changes until the transaction ends.
pub async fn hold(conn: &mut PgConnection, account: AccountId, id: ProxyId) -> sqlx::Result<Option<LockedProxy>> {
    sqlx::query_as!(
        LockedProxy,
        r#"select id, scheme as "scheme: _", host, port, username, sealed_password, sealed_config
           from proxies where id = $1 and account_id = $2 and lost_at is null for share"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

/// This transaction created the session on `worker`.
pub async fn hand_over(
    conn: &mut PgConnection,
    session: SessionId,
    worker: WorkerId,
    proxy: &LockedProxy,
    secrets: &Secrets,
) -> sqlx::Result<()> {
    let public_key = workers::public_key(&mut *conn, worker).await?;
    let sealed = sealing::seal(secrets, &public_key).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query!(
        "insert into session_proxies (session_id, scheme, host, port, username, sealed_secrets)
         values ($1, $2, $3, $4, $5, $6)",
        session as _,
        proxy.scheme as _,
        proxy.host,
        proxy.port,
        proxy.username,
        sealed,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// `None` when the session connects directly. An error for a session that has ended or does not exist, so that its
/// traffic is never sent without the proxy.
pub async fn of_session(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<InUse>> {
    let row = sqlx::query!(
        r#"select s.proxy_id, p.scheme as "scheme?: Scheme", p.host as "host?", p.port as "port?", p.username,
                  p.sealed_secrets as "sealed_secrets?"
           from sessions s left join session_proxies p on p.session_id = s.id where s.id = $1"#,
        session as _,
    )
    .fetch_one(conn)
    .await?;
    let Some(id) = row.proxy_id else { return Ok(None) };
    let (Some(scheme), Some(host), Some(port), Some(sealed_secrets)) =
        (row.scheme, row.host, row.port, row.sealed_secrets)
    else {
        return Err(sqlx::Error::RowNotFound);
    };
    proxy_of(id, scheme, &host, port, row.username, sealed_secrets).map(Some)
}

pub(super) fn proxy_of(
    id: ProxyId,
    scheme: Scheme,
    host: &str,
    port: i32,
    username: Option<String>,
    sealed_secrets: Vec<u8>,
) -> sqlx::Result<InUse> {
    let host = Host::parse(host).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let port = u16::try_from(port).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(InUse { id, scheme, host, port, username, sealed_secrets })
}
