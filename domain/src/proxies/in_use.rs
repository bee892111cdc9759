//! What a session leaves through: a copy of a saved proxy, whose secrets are sealed to the one worker that has its browser.
//!
//! The copy is made with the session and forgotten when that ends, by a trigger, whatever ends it.

use std::fmt;

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use url::Host;
use zeroize::Zeroizing;

use super::{Part, Scheme, open};
use crate::ids::{AccountId, ProxyId, SessionId, WorkerId};
use crate::sealing::{self, NotSealedForUs, Opener};
use crate::vault::{UnsealError, Vault};
use crate::workers;

/// What of a proxy is secret. It is forgotten with its last owner, and nowhere printed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets {
    /// What proves who asks.
    pub password: Option<Zeroizing<String>>,
    /// What a tunnel is told, and who it is.
    pub config: Option<Zeroizing<String>>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// A proxy that something leaves through: a session, or whoever looks whether it works.
#[derive(Debug, Clone)]
pub struct InUse {
    /// Which it was.
    pub id: ProxyId,
    /// What it speaks.
    pub scheme: Scheme,
    /// Where it is; of a tunnel, where its server is.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Who it is told that asks.
    pub username: Option<String>,
    sealed_secrets: Vec<u8>,
}

impl InUse {
    /// Its secrets, for the worker that they were sealed to.
    ///
    /// # Errors
    /// When that is another one.
    pub fn open(&self, opener: &Opener) -> Result<Secrets, NotSealedForUs> {
        opener.open(&self.sealed_secrets)
    }
}

/// A proxy's row, which stays as it is until the transaction ends.
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
    /// Its secrets. One that has none needs no vault.
    ///
    /// # Errors
    /// When they were sealed with a key that this process does not have.
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

/// The account's proxy of this id, which nobody changes or deletes until the transaction ends.
///
/// # Errors
/// When the database fails.
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

/// Writes what a session leaves through that was made in this transaction on `worker`.
///
/// # Errors
/// When the database fails.
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

/// What a live session leaves through; `None` when that is no proxy. It never answers `None` of a session that has one: of one that
/// has ended, or is not there, it is an error, so that nobody takes it for one that leaves directly.
///
/// # Errors
/// When the session has ended, or the database fails.
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

/// A row's proxy.
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
