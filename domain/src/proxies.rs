//! Saved proxies (contract: proxies): the ways out that customers bring.
//!
//! Passwords and configurations are sealed before the database sees them, under the deployment's own key and no other. A session
//! that leaves through a proxy gets a copy (`in_use`), sealed to the one worker that has its browser, so that no worker needs
//! the deployment's key, and a proxy that is changed changes no session.

pub mod checks;
mod in_use;
mod input;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use strum::VariantArray as _;
use zeroize::Zeroizing;

use crate::accounts;
use crate::area::{Area, Bound, Purge, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, AgentSessionId, ProxyId};
use crate::timestamp::Timestamp;
use crate::validation::Invalid;
use crate::vault::{UnsealError, Vault};

pub use self::in_use::{InUse, LockedProxy, Secrets, hand_over, hold, of_session};
pub use self::input::{Change, Checks, Endpoint, Proxy, ProxyInput};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("session_proxies", "removed when their sessions end"),
        ("proxy_checks", "one an account, while somebody waits"),
    ],
    purges: &[Purge::new("proxy_secrets", "proxies", |conn, terms, limit| {
        Box::pin(purge_lost(conn, terms.deleted_account_secrets, limit))
    })
    .counting(|conn, terms| Box::pin(count_lost(conn, terms.deleted_account_secrets)))],
    actions: &["proxy.created", "proxy.updated", "proxy.deleted"],
    losses: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
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

/// What the vault is told the secrets are for.
const PURPOSE: &str = "proxies";

/// What a proxy speaks.
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
    /// A `WireGuard` tunnel.
    Wireguard,
    /// An `OpenVPN` tunnel.
    Openvpn,
}

impl Scheme {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;
    /// As the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract, the audit log and the database spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether a configuration says where it is, and not a host and a port.
    #[must_use]
    pub fn is_tunnel(self) -> bool {
        matches!(self, Self::Wireguard | Self::Openvpn)
    }

    /// Bytes of its configuration, at most (contract: proxies 4). 0 where it has none.
    #[must_use]
    pub fn most_config_bytes(self) -> usize {
        match self {
            Self::Socks5 | Self::Http => 0,
            Self::Wireguard => 16 * 1024,
            Self::Openvpn => 64 * 1024,
        }
    }
}

/// A saved proxy, as customers see it: without its secrets.
#[derive(Debug, Clone)]
pub struct SavedProxy {
    /// Its id.
    pub id: ProxyId,
    /// What its owner calls it.
    pub label: String,
    /// What it speaks.
    pub scheme: Scheme,
    /// A name or an address, as [`url::Host`] spells it.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// Who it is told that asks.
    pub username: Option<String>,
    /// Whether a password is kept.
    pub has_password: bool,
    /// Whether a configuration is kept.
    pub has_config: bool,
    /// When it was saved.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What of a proxy is secret, each for one column of its row.
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

/// Why there is no new proxy.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The account has as many as it may have.
    #[error("the account has {current} saved proxies; the limit is {limit}")]
    TooMany {
        /// Now.
        current: i64,
        /// Allowed.
        limit: i64,
    },
    /// The account is gone.
    #[error("there is no such account")]
    NoAccount,
    /// It would break a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Saves a proxy, and writes `proxy.created`. The account's row is locked meanwhile, so that those that are saved at once count
/// each other; it may have `limit`.
///
/// # Errors
/// When it has as many as it may have, or the database fails.
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

/// A row of the audit log: what it is, and nothing of its secrets (contract: proxies 9).
fn entry(action: &'static str, proxy: &SavedProxy) -> Entry {
    let payload = json!({"proxy_id": proxy.id, "label": proxy.label, "scheme": proxy.scheme.name()});
    Entry { action, target: Some(proxy.id.to_string()), payload }
}

/// The account's proxies, newest first.
///
/// # Errors
/// When the database fails.
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

/// The account's proxy of this id.
///
/// # Errors
/// When the database fails.
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

/// Why a proxy stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The account has no such proxy.
    #[error("there is no such saved proxy")]
    NoProxy,
    /// A live session leaves through it.
    #[error("the agent session {0} uses the proxy")]
    InUse(AgentSessionId),
    /// It would break a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Replaces what is said of a proxy, and writes `proxy.updated`. A secret that the new one does not mention is kept, unless the proxy
/// then is elsewhere: whoever may change where it is could otherwise have the password sent there (contract: proxies 6). Sessions
/// that leave through it are not touched.
///
/// # Errors
/// When there is none, the change would break a rule, or the database fails.
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
    // A configuration that cannot be opened any more is another one than whatever is sent.
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

/// Forgets a proxy that no live session leaves through, and writes `proxy.deleted`.
///
/// # Errors
/// When there is none, a live session leaves through it, or the database fails.
pub async fn delete(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProxyId,
    actor: &Actor,
) -> Result<(), ChangeError> {
    // Whoever makes a session that is to leave through it has locked its row, or waits for this.
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

/// A live agent session that leaves through the proxy.
async fn user_of(conn: &mut PgConnection, id: ProxyId) -> sqlx::Result<Option<AgentSessionId>> {
    sqlx::query_scalar!(
        "select a.id from sessions s join agent_sessions a on a.session_id = s.id where s.proxy_id = $1 and s.live limit 1",
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Whom somebody else would take the packets from who leaves through this proxy as well: a WireGuard server sends everything to
/// whoever was heard of last with a key.
///
/// # Errors
/// When the database fails.
pub async fn would_rob(conn: &mut PgConnection, proxy: &LockedProxy) -> sqlx::Result<Option<AgentSessionId>> {
    match proxy.scheme {
        Scheme::Wireguard => user_of(conn, proxy.id).await,
        Scheme::Socks5 | Scheme::Http | Scheme::Openvpn => Ok(None),
    }
}

/// Nobody can use the proxies of an account that is being deleted any more.
async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from proxy_checks where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("update proxies set lost_at = now() where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// Deletes proxies whose accounts were deleted longer ago than `age`. Answers how many.
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

/// How many of those proxies there are.
async fn count_lost(conn: &mut PgConnection, age: Duration) -> sqlx::Result<u64> {
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from proxies where lost_at < now() - make_interval(secs => $1)"#,
        age.as_secs_f64(),
    );
    Ok(count.fetch_one(conn).await?.unsigned_abs())
}
