//! Accounts and their tiers (contract: accounts).

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::{OwnLimits, Tier};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{self, Invalid};
use serde::Serialize;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound};
use crate::audit::{self, Actor, Entry, Origin};
use crate::email_addresses::EmailAddress;
use crate::networks::Network;

pub(crate) const AREA: Area = Area {
    kept: &[("accounts", "the audit log refers to them, and an account that is deleted stays so")],
    actions: &["account.email_verified", "account.limits_changed", "subscription.tier_changed"],
    mails: &["tier_changed"],
    bounds: &[("accounts", Bound::Operator("one for each sign-up; a deleted account keeps its row without its data"))],
    ..Area::named("accounts")
};

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum AccountStatus {
    Active,
    Suspended,
    Deleted,
}

impl AccountStatus {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Account {
    pub id: AccountId,
    pub email: String,
    pub name: String,
    pub status: AccountStatus,
    pub tier: Tier,
    /// Time the account owner verified the e-mail address.
    pub email_verified_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub concurrent_sessions_limit: Option<i32>,
    pub profiles_limit: Option<i32>,
}

impl Account {
    #[must_use]
    pub fn own_limits(&self) -> OwnLimits {
        OwnLimits::of_columns(self.concurrent_sessions_limit, self.profiles_limit)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitChange {
    #[default]
    Unchanged,
    Cleared,
    Own(u32),
}

impl LimitChange {
    fn apply(self, before: Option<u32>) -> Option<u32> {
        match self {
            Self::Unchanged => before,
            Self::Cleared => None,
            Self::Own(limit) => Some(limit),
        }
    }
}

/// Changes of an account's limits (contract: limits 11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitChanges {
    pub concurrent_sessions: LimitChange,
    pub profiles: LimitChange,
}

impl LimitChanges {
    pub const CLEARED: Self = Self { concurrent_sessions: LimitChange::Cleared, profiles: LimitChange::Cleared };

    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Logs and pages show it, so it contains no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName(String);

impl AccountName {
    pub(crate) const MAX_CHARS: usize = 120;

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        validation::name(text, Self::MAX_CHARS).map(Self)
    }
}

pub struct NewAccount {
    pub email: String,
    pub name: String,
    /// PHC string of [`NewPassword::hash`](crate::passwords::NewPassword::hash). Without it, the account cannot log in
    /// with a password.
    pub password_hash: Option<String>,
    pub tier: Tier,
    pub verified: bool,
    /// `None` when the account was not created by a sign-up.
    pub signup_network: Option<Network>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("an account with this e-mail address already exists")]
    EmailTaken,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Inserts the row of an account. [`crate::sign_ups`] creates the rows that belong to it.
pub(crate) async fn create(conn: &mut PgConnection, new: NewAccount) -> Result<AccountId, CreateError> {
    let name = AccountName::parse(&new.name)?;
    let email = EmailAddress::parse(&new.email)?;
    let id = AccountId::generate();
    sqlx::query!(
        "insert into accounts (id, email, email_key, name, password_hash, tier, email_verified_at, signup_network)
         values ($1, $2, $3, $4, $5, $6, case when $7 then now() end, $8)",
        id as _,
        email.as_str(),
        email.key(),
        name.0,
        new.password_hash,
        new.tier as _,
        new.verified,
        new.signup_network as _,
    )
    .execute(conn)
    .await
    .map_err(|error| match error.as_database_error().and_then(|e| e.constraint()) {
        Some("accounts_email_key") => CreateError::EmailTaken,
        _ => error.into(),
    })?;
    Ok(id)
}

pub async fn find(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<Account>> {
    sqlx::query_as!(
        Account,
        r#"select id, email, name, status as "status: _", tier as "tier: _", email_verified_at, created_at,
                  concurrent_sessions_limit, profiles_limit
           from accounts where id = $1"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Returns true when the account was created from this network within the given time.
pub async fn was_signed_up_from(
    conn: &mut PgConnection,
    id: AccountId,
    network: &str,
    within: Duration,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select created_at > now() - make_interval(secs => $3) and signup_network is not distinct from $2 as "signed_up!"
           from accounts where id = $1"#,
        id as _,
        network,
        within.as_secs_f64(),
    )
    .fetch_one(conn)
    .await
}

#[derive(Debug)]
pub struct Filter<'a> {
    pub email: Option<&'a EmailAddress>,
    pub tier: Option<Tier>,
    pub status: Option<AccountStatus>,
    pub before: Option<AccountId>,
    pub limit: i64,
}

pub async fn list(conn: &mut PgConnection, filter: &Filter<'_>) -> sqlx::Result<Vec<Account>> {
    sqlx::query_as!(
        Account,
        r#"select id, email, name, status as "status: _", tier as "tier: _", email_verified_at, created_at,
                  concurrent_sessions_limit, profiles_limit
           from accounts
           where ($1::text is null or email_key = $1) and ($2::text is null or tier = $2) and ($3::text is null or status = $3)
             and id < $4
           order by id desc limit $5"#,
        filter.email.map(EmailAddress::key),
        filter.tier.map(Tier::name),
        filter.status.map(AccountStatus::name),
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        filter.limit,
    )
    .fetch_all(conn)
    .await
}

/// Locks the row until the transaction ends.
pub async fn lock_status(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<AccountStatus>> {
    sqlx::query_scalar!(
        r#"select status as "status: AccountStatus" from accounts where id = $1 for no key update"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// The oldest account belongs to the owner of a local installation.
pub async fn first(conn: &mut PgConnection) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!("select id from accounts order by id limit 1").fetch_optional(conn).await
}

/// Writes `subscription.tier_changed`. Live sessions continue (contract: accounts 5). Records `giver`, which alone can
/// revoke the tier later. Returns the previous tier.
pub async fn set_tier(
    conn: &mut PgConnection,
    id: AccountId,
    tier: Tier,
    giver: Option<&str>,
) -> sqlx::Result<Option<Tier>> {
    let before = sqlx::query_scalar!(
        r#"with before as (select tier from accounts where id = $1 and status <> 'deleted' for no key update)
           update accounts set tier = $2, tier_given_by = $3, updated_at = now() from before where id = $1
           returning before.tier as "tier: Tier""#,
        id as _,
        tier as _,
        giver,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(before) = before
        && before != tier
    {
        let payload = serde_json::json!({"from": before, "to": tier});
        audit::record(conn, id, &Actor::System, Entry { action: "subscription.tier_changed", target: None, payload })
            .await?;
    }
    Ok(before)
}

/// The party that set the tier and can revoke it.
pub async fn tier_giver(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<String>> {
    let giver = sqlx::query_scalar!("select tier_given_by from accounts where id = $1", id as _);
    Ok(giver.fetch_optional(conn).await?.flatten())
}

/// `None` when the account does not exist or is deleted.
pub async fn set_suspended(conn: &mut PgConnection, id: AccountId, suspended: bool) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(
        "update accounts set status = case when $2 then 'suspended' else 'active' end, updated_at = now()
         where id = $1 and status <> 'deleted' returning id",
        id as _,
        suspended,
    )
    .fetch_optional(conn)
    .await
}

/// Locks the row in shared mode until the transaction ends. The deletion, the suspension and a password reset of the
/// account wait for it. A transaction that also locks other rows of the account locks this row first, as those do.
/// `None` when the account is deleted.
pub async fn hold(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<LockedAccount>> {
    sqlx::query_as!(
        LockedAccount,
        r#"select status as "status: _", tier as "tier: _", password_hash,
                  exists(select from mfa_factors f where f.account_id = a.id and f.enrolled_at is not null) as "mfa_enrolled!"
           from accounts a where id = $1 and status <> 'deleted' for share"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Locks the row exclusively until the transaction ends, so that only one transaction at a time counts the account's
/// objects and creates another. `None` when the account is deleted.
pub async fn lock(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<Tier>> {
    sqlx::query_scalar!(
        r#"select tier as "tier: Tier" from accounts where id = $1 and status <> 'deleted' for no key update"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// As [`lock`], with the account's own limits.
pub async fn lock_limits(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<(Tier, OwnLimits)>> {
    let locked = sqlx::query!(
        r#"select tier as "tier: Tier", concurrent_sessions_limit, profiles_limit
           from accounts where id = $1 and status <> 'deleted' for no key update"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(locked.map(|row| (row.tier, OwnLimits::of_columns(row.concurrent_sessions_limit, row.profiles_limit))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitsChanged {
    pub from: OwnLimits,
    pub to: OwnLimits,
}

/// Writes `account.limits_changed` if a limit differs. Sessions and profiles above a lower limit remain. `None` when
/// the account does not exist or is deleted. `conn` must be in a transaction.
pub async fn change_limits(
    conn: &mut PgConnection,
    id: AccountId,
    changes: LimitChanges,
) -> sqlx::Result<Option<LimitsChanged>> {
    let Some((_, from)) = lock_limits(&mut *conn, id).await? else { return Ok(None) };
    let to = OwnLimits {
        concurrent_sessions: changes.concurrent_sessions.apply(from.concurrent_sessions),
        profiles: changes.profiles.apply(from.profiles),
    };
    let limits = LimitsChanged { from, to };
    if from == to {
        return Ok(Some(limits));
    }
    let column = |limit: Option<u32>| limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX));
    sqlx::query!(
        "update accounts set concurrent_sessions_limit = $2, profiles_limit = $3, updated_at = now() where id = $1",
        id as _,
        column(to.concurrent_sessions),
        column(to.profiles),
    )
    .execute(&mut *conn)
    .await?;
    let payload = serde_json::json!(limits);
    let entry = Entry { action: "account.limits_changed", target: Some(id.to_string()), payload };
    audit::record(conn, id, &Actor::System, entry).await?;
    Ok(Some(limits))
}

pub struct LockedAccount {
    pub status: AccountStatus,
    pub tier: Tier,
    pub password_hash: Option<String>,
    pub mfa_enrolled: bool,
}

pub struct Login {
    pub id: AccountId,
    pub password_hash: Option<String>,
    pub status: AccountStatus,
    pub verified: bool,
}

/// Returns the account with this e-mail address, unless it is deleted.
pub async fn find_login(conn: &mut PgConnection, email: &EmailAddress) -> sqlx::Result<Option<Login>> {
    sqlx::query_as!(
        Login,
        r#"select id, password_hash, status as "status: _", email_verified_at is not null as "verified!"
           from accounts where email_key = $1 and status <> 'deleted'"#,
        email.key(),
    )
    .fetch_optional(conn)
    .await
}

/// Returns true and writes `account.email_verified` if the address was not verified before.
pub async fn verify_email(conn: &mut PgConnection, id: AccountId, origin: &Origin) -> sqlx::Result<bool> {
    let verified = sqlx::query!(
        "update accounts set email_verified_at = now(), updated_at = now()
         where id = $1 and email_verified_at is null and status <> 'deleted'",
        id as _,
    )
    .execute(&mut *conn)
    .await?;
    if verified.rows_affected() == 0 {
        return Ok(false);
    }
    let payload = origin.issued(serde_json::json!({}));
    let entry = Entry { action: "account.email_verified", target: Some(id.to_string()), payload };
    audit::record(conn, id, &Actor::person(id, origin), entry).await?;
    Ok(true)
}

/// Locks the row against other changes. `None` without a password, and for an account that is not active.
pub(crate) async fn lock_password(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<String>> {
    let hash = sqlx::query_scalar!(
        "select password_hash from accounts where id = $1 and status = 'active' for no key update",
        id as _,
    );
    Ok(hash.fetch_optional(conn).await?.flatten())
}

/// Locks the row against other changes. `None` for an account that is not active.
pub(crate) async fn lock_email(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select email from accounts where id = $1 and status = 'active' for no key update", id as _)
        .fetch_optional(conn)
        .await
}

/// The address counts as verified. Returns false when another account has it.
pub(crate) async fn set_email(conn: &mut PgConnection, id: AccountId, email: &EmailAddress) -> sqlx::Result<bool> {
    let changed = sqlx::query!(
        "update accounts set email = $2, email_key = $3, email_verified_at = now(), updated_at = now() where id = $1",
        id as _,
        email.as_str(),
        email.key(),
    )
    .execute(conn)
    .await;
    match changed {
        Err(error) if error.as_database_error().and_then(|e| e.constraint()) == Some("accounts_email_key") => Ok(false),
        changed => changed.map(|_| true),
    }
}

pub(crate) async fn set_password(conn: &mut PgConnection, id: AccountId, password_hash: &str) -> sqlx::Result<()> {
    sqlx::query!("update accounts set password_hash = $2, updated_at = now() where id = $1", id as _, password_hash,)
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn remove_password(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<()> {
    sqlx::query!("update accounts set password_hash = null, updated_at = now() where id = $1", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Changes the name of the account owner. Returns false when the account is deleted.
pub async fn rename(conn: &mut PgConnection, id: AccountId, name: &AccountName) -> sqlx::Result<bool> {
    let renamed = sqlx::query!(
        "update accounts set name = $2, updated_at = now() where id = $1 and status <> 'deleted'",
        id as _,
        name.0,
    )
    .execute(conn)
    .await?;
    Ok(renamed.rows_affected() == 1)
}

/// Frees the e-mail address and removes the password. The caller deletes the account's other data in the same
/// transaction, in which the row stays locked. Returns false when the account was already deleted.
pub async fn delete(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<bool> {
    let deleted = sqlx::query!(
        "update accounts set status = 'deleted', password_hash = null, updated_at = now()
         where id = $1 and status <> 'deleted'",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(deleted.rows_affected() == 1)
}
