//! Accounts and their tiers (interface, "Account facts" and "Limits").

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::SaltString;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, Version};
use serde::Serialize;
use sqlx::PgConnection;

use crate::audit::{self, Actor, Entry};
use crate::emails::EmailAddress;
use crate::ids::AccountId;
use crate::timestamp::Timestamp;
use crate::validation::{Invalid, Rules};

/// What an account pays for. It sets how many sessions may live at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
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
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::SoloManual,
        Self::TeamManual,
        Self::AgencyManual,
        Self::ApiStarter,
        Self::ApiBuilder,
        Self::ApiScale,
        Self::Enterprise,
    ];

    /// Whether API keys work (interface, "Authentication" 2).
    #[must_use]
    pub fn has_api_access(self) -> bool {
        self != Self::Free
    }

    /// As the interface spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::SoloManual => "solo_manual",
            Self::TeamManual => "team_manual",
            Self::AgencyManual => "agency_manual",
            Self::ApiStarter => "api_starter",
            Self::ApiBuilder => "api_builder",
            Self::ApiScale => "api_scale",
            Self::Enterprise => "enterprise",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|tier| tier.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|tier| tier.name()).collect();
            format!("no tier {text:?}; one of {}", names.join(", "))
        })
    }
}

/// Whether an account may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum AccountStatus {
    /// It may.
    Active,
    /// Staff stopped it.
    Suspended,
    /// Gone for good.
    Deleted,
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
}

/// An account to be.
#[derive(Debug)]
pub struct NewAccount {
    /// Where its mail goes.
    pub email: String,
    /// What its owner is called.
    pub name: String,
    /// A PHC string of [`hash_password`]; without one nobody can log in.
    pub password_hash: Option<String>,
    /// What it pays for.
    pub tier: Tier,
    /// Whether the address counts as proven.
    pub verified: bool,
}

/// Why there is no new account.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The address has an account.
    #[error("the e-mail address already has an account")]
    EmailTaken,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// # Errors
/// When a field breaks a rule, or the address has an account.
pub async fn create(conn: &mut PgConnection, new: NewAccount) -> Result<AccountId, CreateError> {
    let mut rules = Rules::default();
    rules.length(new.name.trim(), 1, 120, "name");
    rules.require(!new.name.contains(char::is_control), "name", "must not contain control characters");
    rules.check()?;
    let email = EmailAddress::parse(&new.email)?;
    let id = AccountId::generate();
    sqlx::query!(
        "insert into accounts (id, email, email_key, name, password_hash, tier, email_verified_at)
         values ($1, $2, $3, $4, $5, $6, case when $7 then now() end)",
        id as _,
        email.as_str(),
        email.key(),
        new.name.trim(),
        new.password_hash,
        new.tier as _,
        new.verified,
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
        r#"select id, email, name, status as "status: _", tier as "tier: _", email_verified_at, created_at
           from accounts where id = $1"#,
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

/// Moves an account to another tier and writes `subscription.tier_changed`. Live sessions stay (decisions D13). Answers
/// the tier before, or `None` when there is no such account.
///
/// # Errors
/// When the database fails.
pub async fn set_tier(conn: &mut PgConnection, id: AccountId, tier: Tier) -> sqlx::Result<Option<Tier>> {
    let before = sqlx::query_scalar!(
        r#"with before as (select tier from accounts where id = $1 for no key update)
           update accounts set tier = $2, updated_at = now() from before where id = $1
           returning before.tier as "tier: Tier""#,
        id as _,
        tier as _,
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

/// argon2id at 19 MiB, two passes, one lane, as a PHC string. It takes tens of milliseconds of a core: call it where
/// that hurts nobody.
///
/// # Errors
/// When the password has fewer than 12 characters (interface, "Authentication" 10).
///
/// # Panics
/// Never: the parameters are constants that argon2 accepts.
pub fn hash_password(password: &str) -> Result<String, Invalid> {
    let mut rules = Rules::default();
    rules.require(password.chars().count() >= 12, "password", "must have at least 12 characters");
    rules.check()?;
    let params = Params::new(19 * 1024, 2, 1, None).expect("the parameters are within argon2's bounds");
    let salt = SaltString::encode_b64(&rand::random::<[u8; 16]>()).expect("16 bytes are a salt's recommended length");
    let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password(password.as_bytes(), &salt);
    Ok(hash.expect("argon2 fails on bad parameters only").to_string())
}
