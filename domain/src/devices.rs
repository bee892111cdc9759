//! Credentials for desktop apps (contract: devices). The app shows a code, a signed-in user enters the code, and the
//! app fetches its key.
//!
//! The key is created when the user agrees, but its secret is generated when the app fetches it, so only the app knows
//! it. Until then the key has a discarded secret and an expiry.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, DeviceAuthorizationId};
use kitfleet_types::limits::Limits;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use sqlx::PgConnection;
use subtle::ConstantTimeEq;

use crate::accounts::AccountStatus;
use crate::api_keys::{self, ApiKey, KeyKind, MintError, NewKey, Scopes, Secret};
use crate::area::{Area, Bound, Purge};
use crate::audit::{Actor, Origin};
use crate::crockford;
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("tokens", "device_authorizations", |conn, _, limit| Box::pin(purge_expired(conn, limit)))],
    bounds: &[("device_authorizations", Bound::Term("a day after it expired"))],
    ..Area::named("devices")
};

/// 40 bits, valid for minutes.
const USER_CODE_CHARS: usize = 8;
/// Name of the key of an app without a label.
const UNNAMED: &str = "Desktop app";

#[derive(Debug)]
pub struct NewDevice {
    state: String,
    client_label: Option<String>,
}

impl NewDevice {
    pub fn parse(state: &str, client_label: Option<&str>, limits: &Limits) -> Result<Self, Invalid> {
        let client_label = client_label.map(str::trim).filter(|label| !label.is_empty());
        let mut rules = Rules::default();
        rules.length(state, limits.device_state_min_chars, limits.device_state_max_chars, "state");
        if let Some(label) = client_label {
            rules.length(label, 1, limits.device_label_chars, "client_label");
            let is_printable = !label.contains(char::is_control);
            rules.require(is_printable, "client_label", "must not contain control characters");
        }
        rules.check()?;
        Ok(Self { state: state.to_owned(), client_label: client_label.map(str::to_owned) })
    }
}

#[derive(Debug)]
pub struct Initiated {
    /// The app fetches its key with it.
    pub code: Token,
    pub user_code: String,
}

pub async fn initiate(
    conn: &mut PgConnection,
    new: &NewDevice,
    origin: &Origin,
    ttl: Duration,
) -> sqlx::Result<Initiated> {
    let code = Token::generate();
    loop {
        let user_code = crockford::random(USER_CODE_CHARS);
        let inserted = sqlx::query!(
            "insert into device_authorizations (id, code_hash, user_code, state, client_label, ip_address, expires_at)
             values ($1, $2, $3, $4, $5, $6, now() + $7) on conflict (user_code) where status = 'pending' do nothing",
            DeviceAuthorizationId::generate() as _,
            code.hash(),
            user_code,
            new.state,
            new.client_label,
            origin.ip_address,
            ttl as _,
        )
        .execute(&mut *conn)
        .await?;
        if inserted.rows_affected() == 1 {
            return Ok(Initiated { code, user_code: crockford::shown(&user_code) });
        }
    }
}

#[derive(Debug)]
pub struct PendingDevice {
    /// The approval must repeat it.
    pub state: String,
    pub client_label: Option<String>,
    pub ip_address: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Accepts the code in any spelling.
pub async fn find_waiting(conn: &mut PgConnection, user_code: &str) -> sqlx::Result<Option<PendingDevice>> {
    sqlx::query_as!(
        PendingDevice,
        "select state, client_label, ip_address, created_at, expires_at from device_authorizations
         where user_code = $1 and status = 'pending' and expires_at > now()",
        crockford::normalized(user_code),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("no device waits for this code")]
    NoDevice,
    #[error("the state does not match the state of the device's request")]
    OtherState,
    #[error(transparent)]
    Mint(#[from] MintError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The app must fetch the key within `held_for`. Returns the name that the app sent.
pub async fn bind(
    conn: &mut PgConnection,
    (account, actor): (AccountId, &Actor),
    user_code: &str,
    state: &str,
    scopes: &Scopes,
    held_for: Duration,
) -> Result<Option<String>, BindError> {
    let row = sqlx::query!(
        r#"select id, state, client_label, now() + $2 as "held_until!" from device_authorizations
           where user_code = $1 and status = 'pending' and expires_at > now() for update"#,
        crockford::normalized(user_code),
        held_for as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(BindError::NoDevice)?;
    if !bool::from(row.state.as_bytes().ct_eq(state.as_bytes())) {
        return Err(BindError::OtherState);
    }
    let name = row.client_label.as_deref().unwrap_or(UNNAMED);
    let new = NewKey { name, scopes, kind: KeyKind::Device, expires_at: Some(row.held_until) };
    let (ApiKey { id: key, .. }, _discarded) = api_keys::mint(&mut *conn, account, actor, new).await?;
    sqlx::query!(
        "update device_authorizations set status = 'bound', api_key_id = $2, expires_at = $3 where id = $1",
        row.id as _,
        key as _,
        row.held_until as _,
    )
    .execute(conn)
    .await?;
    Ok(row.client_label)
}

#[derive(Debug)]
pub enum Exchange {
    Pending,
    /// The key is returned once.
    Bound {
        key: Secret,
        account: AccountId,
    },
    /// The request expired or was already completed.
    Expired,
}

pub async fn exchange(conn: &mut PgConnection, code: &str, state: &str) -> sqlx::Result<Exchange> {
    let row = sqlx::query!(
        "select id, state, status, api_key_id from device_authorizations
         where code_hash = $1 and expires_at > now() for update",
        tokens::hash(code),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row.filter(|row| row.state.as_bytes().ct_eq(state.as_bytes()).into()) else {
        return Ok(Exchange::Expired);
    };
    let key = match (row.status.as_str(), row.api_key_id) {
        ("pending", _) => return Ok(Exchange::Pending),
        ("bound", Some(key)) => key,
        _ => return Ok(Exchange::Expired),
    };
    let owner = sqlx::query!(
        r#"select a.id, a.tier as "tier: Tier", a.status as "status: AccountStatus"
           from api_keys k join accounts a on a.id = k.account_id
           where k.id = $1 and k.revoked_at is null
             and not exists(select from api_keys s where s.rotated_from = k.id) for update of k"#,
        key as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(owner) = owner.filter(|owner| owner.status == AccountStatus::Active) else { return Ok(Exchange::Expired) };
    sqlx::query!("update device_authorizations set status = 'exchanged' where id = $1", row.id as _)
        .execute(&mut *conn)
        .await?;
    let secret = api_keys::hand_over(conn, key, owner.tier).await?;
    Ok(Exchange::Bound { key: secret, account: owner.id })
}

/// An expired row is kept for a day (contract: retention 7), in which the app receives the reason for the refusal.
async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from device_authorizations where id in (
             select id from device_authorizations where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
