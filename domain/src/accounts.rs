//! Accounts and their tiers (contract: accounts).

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound};
use crate::audit::{self, Actor, Entry, Origin};
use crate::email_addresses::EmailAddress;
use crate::ids::AccountId;
use crate::networks::Network;
use crate::timestamp::Timestamp;
use crate::validation::{self, Invalid};

pub(crate) const AREA: Area = Area {
    kept: &[("accounts", "the audit log refers to them, and an account that is deleted stays so")],
    actions: &["account.email_verified", "account.limits_changed", "subscription.tier_changed"],
    mails: &["tier_changed"],
    bounds: &[("accounts", Bound::Operator("one for each sign-up; a deleted account keeps its row without its data"))],
    ..Area::named("accounts")
};

/// What an account pays for. It sets how many sessions may live at once.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    sqlx::Type,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Tier {
    /// Tries it out; no API access.
    Free,
    /// One person at the dashboard.
    SoloManual,
    /// A few people at the dashboard.
    TeamManual,
    /// Many people at the dashboard.
    AgencyManual,
    /// Programs, a few sessions.
    ApiStarter,
    /// Programs, some sessions.
    ApiBuilder,
    /// Programs, many sessions.
    ApiScale,
    /// The most.
    Enterprise,
}

impl Tier {
    /// From the smallest to the largest.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Whether API keys work (contract: authorization 4).
    #[must_use]
    pub fn has_api_access(self) -> bool {
        self != Self::Free
    }

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let tier = Self::ALL.iter().copied().find(|tier| tier.name() == text);
        tier.ok_or_else(|| format!("no tier {text:?}; one of {}", Self::NAMES.join(", ")))
    }
}

/// Whether an account may act.
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
    /// It may.
    Active,
    /// Staff stopped it.
    Suspended,
    /// Gone for good.
    Deleted,
}

impl AccountStatus {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The one that the contract spells so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

/// An account.
#[derive(Debug, Clone, Serialize)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Where its mail goes.
    pub email: String,
    /// What its owner is called.
    pub name: String,
    /// Whether it may act.
    pub status: AccountStatus,
    /// What it pays for.
    pub tier: Tier,
    /// When the address was proven.
    pub email_verified_at: Option<Timestamp>,
    /// When it signed up.
    pub created_at: Timestamp,
    /// Live sessions at once, where the account has a limit of its own.
    pub concurrent_sessions_limit: Option<i32>,
    /// Profiles, where the account has a limit of its own.
    pub profiles_limit: Option<i32>,
}

impl Account {
    /// The limits of its own.
    #[must_use]
    pub fn own_limits(&self) -> OwnLimits {
        OwnLimits::of_columns(self.concurrent_sessions_limit, self.profiles_limit)
    }
}

/// Limits of one account that replace those of its tier. `None` where the tier decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OwnLimits {
    /// Live sessions at once.
    pub concurrent_sessions: Option<u32>,
    /// Profiles.
    pub profiles: Option<u32>,
}

impl OwnLimits {
    fn of_columns(concurrent_sessions: Option<i32>, profiles: Option<i32>) -> Self {
        let limit = |column: Option<i32>| column.and_then(|limit| u32::try_from(limit).ok());
        Self { concurrent_sessions: limit(concurrent_sessions), profiles: limit(profiles) }
    }
}

/// A change of one of an account's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitChange {
    /// It stays as it is.
    #[default]
    Unchanged,
    /// The tier decides again.
    Cleared,
    /// The account has a limit of its own.
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
    /// Of live sessions at once.
    pub concurrent_sessions: LimitChange,
    /// Of profiles.
    pub profiles: LimitChange,
}

impl LimitChanges {
    /// All limits are those of the tier again.
    pub const CLEARED: Self = Self { concurrent_sessions: LimitChange::Cleared, profiles: LimitChange::Cleared };

    /// Whether every limit stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What an account's owner is called. It stands in logs and on pages, so that it holds no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName(String);

impl AccountName {
    pub(crate) const MAX_CHARS: usize = 120;

    /// # Errors
    /// On field `name`, when it does not have 1 to 120 characters or holds one that does not show.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        validation::name(text, Self::MAX_CHARS).map(Self)
    }
}

/// An account to be.
pub struct NewAccount {
    /// Where its mail goes.
    pub email: String,
    /// What its owner is called.
    pub name: String,
    /// A PHC string of [`NewPassword::hash`](crate::passwords::NewPassword::hash); without one nobody can log in with it.
    pub password_hash: Option<String>,
    /// What it pays for.
    pub tier: Tier,
    /// Whether the address counts as proven.
    pub verified: bool,
    /// The network of the signup; `None` of an account that nobody signed up for.
    pub signup_network: Option<Network>,
}

/// Why there is no new account.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The address has an account.
    #[error("an account with this e-mail address already exists")]
    EmailTaken,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Makes an account's row ([`crate::sign_ups`] makes all of it).
///
/// # Errors
/// When a field breaks a rule, or the address has an account.
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

/// # Errors
/// When the database fails.
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

/// Whether the account was signed up for from this network, within this time.
///
/// # Errors
/// When the database fails, or there is no such account.
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

/// Which accounts to list.
#[derive(Debug)]
pub struct Filter<'a> {
    /// Only those with this address.
    pub email: Option<&'a EmailAddress>,
    /// Only those on this tier.
    pub tier: Option<Tier>,
    /// Only those that stand so.
    pub status: Option<AccountStatus>,
    /// Only those that are older than this one.
    pub before: Option<AccountId>,
    /// At most so many.
    pub limit: i64,
}

/// Accounts, the newest first.
///
/// # Errors
/// When the database fails.
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

/// Where an account stands, which no other transaction changes until this one ends. `None` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn lock_status(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<AccountStatus>> {
    sqlx::query_scalar!(
        r#"select status as "status: AccountStatus" from accounts where id = $1 for no key update"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// The oldest account, which a local installation's owner has.
///
/// # Errors
/// When the database fails.
pub async fn first(conn: &mut PgConnection) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!("select id from accounts order by id limit 1").fetch_optional(conn).await
}

/// Moves an account to another tier and writes `subscription.tier_changed`. Live sessions stay (contract: accounts 5). The tier is
/// from then on that of the giver, who may take it back. Answers the tier before, or `None` when there is no such account.
///
/// # Errors
/// When the database fails.
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

/// Who gave an account its tier, if it is somebody who may take it back.
///
/// # Errors
/// When the database fails.
pub async fn tier_giver(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<String>> {
    let giver = sqlx::query_scalar!("select tier_given_by from accounts where id = $1", id as _);
    Ok(giver.fetch_optional(conn).await?.flatten())
}

/// Stops an active account from acting, or lets a suspended one act again. `None` when there is no such account, or it is
/// deleted.
///
/// # Errors
/// When the database fails.
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

/// Holds an account's row until the transaction ends: its deletion, its suspension and the reset of its password wait.
/// Whoever needs rows of the account as well takes this one first, as those do. `None` when it is deleted.
///
/// # Errors
/// When the database fails.
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

/// Locks an account's row until the transaction ends against others who do: whoever counts what an account has, and then
/// makes another. Answers what it pays for; `None` when it is deleted.
///
/// # Errors
/// When the database fails.
pub async fn lock(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<Option<Tier>> {
    sqlx::query_scalar!(
        r#"select tier as "tier: Tier" from accounts where id = $1 and status <> 'deleted' for no key update"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// As [`lock`], with the limits of the account's own.
///
/// # Errors
/// When the database fails.
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

/// The limits of an account's own, before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitsChanged {
    /// Before it.
    pub from: OwnLimits,
    /// After it.
    pub to: OwnLimits,
}

/// Changes the limits of an account's own and writes `account.limits_changed`, unless they are so already. What the account has beyond a
/// lower limit stays. `None` when there is no such account, or it is deleted. `conn` is in a transaction.
///
/// # Errors
/// When the database fails.
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

/// What is so of an account for as long as it is held.
pub struct LockedAccount {
    /// Whether it may act.
    pub status: AccountStatus,
    /// What it pays for.
    pub tier: Tier,
    /// Its password's hash.
    pub password_hash: Option<String>,
    /// Whether it has a second factor.
    pub mfa_enrolled: bool,
}

/// What a login needs to know of an account.
pub struct Login {
    /// The account.
    pub id: AccountId,
    /// Its password's hash.
    pub password_hash: Option<String>,
    /// Whether it may act.
    pub status: AccountStatus,
    /// Whether its address was proven.
    pub verified: bool,
}

/// The account of this address, unless it is deleted.
///
/// # Errors
/// When the database fails.
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

/// Notes that the account's address was proven. `true` when it was not before; then `account.email_verified` is written.
///
/// # Errors
/// When the database fails.
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

/// Gives the account another password.
///
/// # Errors
/// When the database fails.
pub(crate) async fn set_password(conn: &mut PgConnection, id: AccountId, password_hash: &str) -> sqlx::Result<()> {
    sqlx::query!("update accounts set password_hash = $2, updated_at = now() where id = $1", id as _, password_hash,)
        .execute(conn)
        .await?;
    Ok(())
}

/// Takes the account's password away.
///
/// # Errors
/// When the database fails.
pub(crate) async fn remove_password(conn: &mut PgConnection, id: AccountId) -> sqlx::Result<()> {
    sqlx::query!("update accounts set password_hash = null, updated_at = now() where id = $1", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Gives the account's owner another name. `false` when the account is deleted.
///
/// # Errors
/// When the database fails.
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

/// Marks the account as deleted, which gives its address back, and forgets its password. What else it loses is its caller's
/// to take, in the same transaction: the account's row stays locked. `false` when it was deleted before.
///
/// # Errors
/// When the database fails.
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
