//! Saved proxies (contract: proxies), which customers provide.
//!
//! Secrets are sealed before they reach the database, only with the deployment's own key. A session gets a copy
//! (`in_use`) that is sealed to the one worker that owns its browser, so no worker needs the deployment's key, and a
//! later change of the proxy does not affect the session.

pub mod checks;
mod in_use;
mod input;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, AgentSessionId, ProxyId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use strum::VariantArray as _;
use zeroize::Zeroizing;

use crate::accounts;
use crate::area::{Area, Bound, Purge, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::vault::{UnsealError, Vault};

pub use self::in_use::{InUse, LockedProxy, Secrets, hand_over, hold, of_session};
pub use self::input::{Change, Checks, Endpoint, Proxy, ProxyInput};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("session_proxies", "removed when their sessions end"),
        ("proxy_checks", "at most one for each account, while a request waits for it"),
    ],
    purges: &[Purge::new("proxy_secrets", "proxies", |conn, terms, limit| {
        Box::pin(purge_lost(conn, terms.deleted_account_secrets, limit))
    })
    .counting(|conn, terms| Box::pin(count_lost(conn, terms.deleted_account_secrets)))],
    actions: &["proxy.created", "proxy.updated", "proxy.deleted"],
    on_account_delete: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
    bounds: &[
        ("proxies", Bound::Account("`limits.proxies` (50)")),
        ("session_proxies", Bound::Account("1 for each live session")),
        ("proxy_checks", Bound::Account("1")),
    ],
    sealed: &[Sealed {
        kind: "proxies",
        table: "proxies",
        id: "id",
        part: None,
        purpose: PURPOSE,
        has_shared_key: false,
        columns: &[
            ("sealed_password", |row| owner(ProxyId::from(row.id), Part::Password)),
            ("sealed_config", |row| owner(ProxyId::from(row.id), Part::Config)),
        ],
    }],
    ..Area::named("proxies")
};

/// Purpose for which the vault derives the sealing key.
const PURPOSE: &str = "proxies";

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Scheme {
    /// RFC 1928, with the user name and password of RFC 1929.
    Socks5,
    /// CONNECT (RFC 9110, section 9.3.6), with Basic credentials.
    Http,
    Wireguard,
    Openvpn,
}

impl Scheme {
    pub const ALL: &'static [Self] = Self::VARIANTS;
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The endpoint comes from a configuration and not from a host and a port.
    #[must_use]
    pub fn is_tunnel(self) -> bool {
        matches!(self, Self::Wireguard | Self::Openvpn)
    }

    /// 0 for a protocol without a configuration (contract: proxies 4).
    #[must_use]
    pub fn max_config_bytes(self) -> usize {
        match self {
            Self::Socks5 | Self::Http => 0,
            Self::Wireguard => 16 * 1024,
            Self::Openvpn => 64 * 1024,
        }
    }
}

#[derive(Debug, Clone)]
pub struct SavedProxy {
    pub id: ProxyId,
    pub label: String,
    pub scheme: Scheme,
    /// As [`url::Host`] writes it.
    pub host: String,
    pub port: i32,
    pub username: Option<String>,
    pub has_password: bool,
    pub has_config: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum Part {
    Password,
    Config,
}

fn owner(id: ProxyId, part: Part) -> String {
    let part: &str = part.into();
    format!("{id} {part}")
}

fn seal(vault: &Vault, id: ProxyId, part: Part, secret: &str) -> Vec<u8> {
    vault.seal(PURPOSE, &owner(id, part), secret.as_bytes())
}

fn open(vault: &Vault, id: ProxyId, part: Part, sealed: &[u8]) -> Result<Zeroizing<String>, UnsealError> {
    let opened = vault.open(PURPOSE, &owner(id, part), sealed)?;
    String::from_utf8(opened).map(Zeroizing::new).map_err(|_| UnsealError)
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the account has {current} saved proxies; the limit is {limit}")]
    TooMany { current: i64, limit: i64 },
    #[error("there is no such account")]
    NoAccount,
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `proxy.created`. The account's row is locked, so that concurrent calls count each other's proxies.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    new: &Proxy,
    vault: &Vault,
    limit: u32,
    actor: &Actor,
) -> Result<SavedProxy, CreateError> {
    accounts::lock(&mut *conn, account).await?.ok_or(CreateError::NoAccount)?;
    let current =
        sqlx::query_scalar!(r#"select count(*) as "count!" from proxies where account_id = $1"#, account as _)
            .fetch_one(&mut *conn)
            .await?;
    let limit = i64::from(limit);
    if current >= limit {
        return Err(CreateError::TooMany { current, limit });
    }
    let id = ProxyId::generate();
    let sealed = |part, secret: &Change| secret.sent().map(|secret| seal(vault, id, part, secret));
    let at = new.at.as_ref().ok_or_else(|| Invalid::field("config", "is required"))?;
    let saved = sqlx::query_as!(
        SavedProxy,
        r#"insert into proxies (id, account_id, label, scheme, host, port, username, sealed_password, sealed_config)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
           returning id, label, scheme as "scheme: _", host, port, username, sealed_password is not null as "has_password!",
                     sealed_config is not null as "has_config!", created_at, updated_at"#,
        id as _,
        account as _,
        new.label,
        new.scheme as _,
        at.host.to_string(),
        i32::from(at.port),
        new.username,
        sealed(Part::Password, &new.password),
        sealed(Part::Config, &new.config),
    )
    .fetch_one(&mut *conn)
    .await?;
    audit::record(conn, account, actor, entry("proxy.created", &saved)).await?;
    Ok(saved)
}

/// The entry contains no secrets (contract: proxies 9).
fn entry(action: &'static str, proxy: &SavedProxy) -> Entry {
    let payload = json!({"proxy_id": proxy.id, "label": proxy.label, "scheme": proxy.scheme.name()});
    Entry { action, target: Some(proxy.id.to_string()), payload }
}

pub async fn list(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<SavedProxy>> {
    sqlx::query_as!(
        SavedProxy,
        r#"select id, label, scheme as "scheme: _", host, port, username, sealed_password is not null as "has_password!",
                  sealed_config is not null as "has_config!", created_at, updated_at
           from proxies where account_id = $1 order by id desc"#,
        account as _,
    )
    .fetch_all(conn)
    .await
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: ProxyId) -> sqlx::Result<Option<SavedProxy>> {
    sqlx::query_as!(
        SavedProxy,
        r#"select id, label, scheme as "scheme: _", host, port, username, sealed_password is not null as "has_password!",
                  sealed_config is not null as "has_config!", created_at, updated_at
           from proxies where id = $1 and account_id = $2"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no such saved proxy")]
    NoProxy,
    #[error("the agent session {0} uses the proxy")]
    InUse(AgentSessionId),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `proxy.updated`. A secret that the request does not contain is kept, unless the endpoint changes: a caller
/// who can change it could have the stored password sent there (contract: proxies 6). Sessions that use the proxy are
/// not affected.
pub async fn replace(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProxyId,
    new: &Proxy,
    vault: &Vault,
    actor: &Actor,
) -> Result<SavedProxy, ChangeError> {
    let kept = sqlx::query!(
        "select host, port, username, sealed_password, sealed_config from proxies where id = $1 and account_id = $2 for update",
        id as _,
        account as _,
    );
    let kept = kept.fetch_optional(&mut *conn).await?.ok_or(ChangeError::NoProxy)?;
    let (host, port) = match &new.at {
        Some(at) => (at.host.to_string(), i32::from(at.port)),
        None => (kept.host.clone(), kept.port),
    };
    // A stored configuration that can no longer be opened counts as different from any that is sent.
    let stays = new.config.sent().is_none_or(|config| {
        let sealed = kept.sealed_config.as_deref();
        sealed.is_some_and(|sealed| open(vault, id, Part::Config, sealed).is_ok_and(|kept| *kept == config))
    });
    let moves = !stays || (&host, port) != (&kept.host, kept.port);
    let keeps_password = kept.sealed_password.is_some() && matches!(new.password, Change::Keep);
    if moves && keeps_password {
        let message =
            "must be sent again or set to null: the stored password was for another host, port or configuration";
        return Err(Invalid::field("password", message).into());
    }
    let has_password = keeps_password || new.password.sent().is_some();
    let username = new.username.clone().or_else(|| kept.username.filter(|_| has_password));
    if has_password && username.is_none() {
        return Err(Invalid::field("username", "is required with a password").into());
    }
    let sealed = |part, change: &Change, kept: Option<Vec<u8>>| match change {
        Change::Keep => kept,
        Change::Remove => None,
        Change::Set(secret) => Some(seal(vault, id, part, secret)),
    };
    let saved = sqlx::query_as!(
        SavedProxy,
        r#"update proxies set label = $2, host = $3, port = $4, username = $5, sealed_password = $6, sealed_config = $7,
                              updated_at = now()
           where id = $1
           returning id, label, scheme as "scheme: _", host, port, username, sealed_password is not null as "has_password!",
                     sealed_config is not null as "has_config!", created_at, updated_at"#,
        id as _,
        new.label,
        host,
        port,
        username,
        sealed(Part::Password, &new.password, kept.sealed_password),
        sealed(Part::Config, &new.config, kept.sealed_config),
    )
    .fetch_one(&mut *conn)
    .await?;
    audit::record(conn, account, actor, entry("proxy.updated", &saved)).await?;
    Ok(saved)
}

/// Writes `proxy.deleted`.
pub async fn delete(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProxyId,
    actor: &Actor,
) -> Result<(), ChangeError> {
    // A transaction that creates a session with this proxy has locked its row, or waits for this lock.
    sqlx::query!("select from proxies where id = $1 and account_id = $2 for update", id as _, account as _)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(ChangeError::NoProxy)?;
    if let Some(user) = user_of(&mut *conn, id).await? {
        return Err(ChangeError::InUse(user));
    }
    let deleted = sqlx::query_as!(
        SavedProxy,
        r#"delete from proxies where id = $1
           returning id, label, scheme as "scheme: _", host, port, username, sealed_password is not null as "has_password!",
                     sealed_config is not null as "has_config!", created_at, updated_at"#,
        id as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    Ok(audit::record(conn, account, actor, entry("proxy.deleted", &deleted)).await?)
}

async fn user_of(conn: &mut PgConnection, id: ProxyId) -> sqlx::Result<Option<AgentSessionId>> {
    sqlx::query_scalar!(
        "select a.id from sessions s join agent_sessions a on a.session_id = s.id where s.proxy_id = $1 and s.live limit 1",
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Returns a live agent session that would lose its packets: a WireGuard server sends all packets to the client that
/// last used a key.
pub async fn session_with_same_key(
    conn: &mut PgConnection,
    proxy: &LockedProxy,
) -> sqlx::Result<Option<AgentSessionId>> {
    match proxy.scheme {
        Scheme::Wireguard => user_of(conn, proxy.id).await,
        Scheme::Socks5 | Scheme::Http | Scheme::Openvpn => Ok(None),
    }
}

/// The account is being deleted.
async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from proxy_checks where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("update proxies set lost_at = now() where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// Deletes proxies whose accounts were deleted longer ago than `age`. Returns the number of deleted proxies.
async fn purge_lost(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from proxies where id = any(array(
             select id from proxies where lost_at < now() - make_interval(secs => $1)
             order by lost_at limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn count_lost(conn: &mut PgConnection, age: Duration) -> sqlx::Result<u64> {
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from proxies where lost_at < now() - make_interval(secs => $1)"#,
        age.as_secs_f64(),
    );
    Ok(count.fetch_one(conn).await?.unsigned_abs())
}
