//! API keys and scopes (interface, "Authentication"; decisions D4 and D13 "Scopes").

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use crate::accounts::{AccountStatus, Tier};
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, ApiKeyId};
use crate::timestamp::Timestamp;
use crate::validation::{FieldError, Invalid, Rules};

/// A right a credential can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every `read:*`.
    Read,
    /// Every `write:*`.
    Write,
    /// Everything.
    AccountOwner,
    /// The audit log.
    ReadAudit,
    /// Listing and reading sessions.
    ReadSessions,
    /// Creating, driving and destroying sessions.
    WriteSessions,
    /// Listing and reading profiles.
    ReadProfiles,
    /// Creating, changing and deleting profiles.
    WriteProfiles,
    /// Reading webhook endpoints and deliveries.
    ReadWebhooks,
    /// The usage routes.
    ReadUsage,
    /// Reading agent sessions and recipes.
    ReadAgents,
    /// Driving agent sessions, making and deleting recipes.
    WriteAgents,
    /// A legacy name of `account_owner`; minted by staff only.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::Write,
        Self::AccountOwner,
        Self::ReadAudit,
        Self::ReadSessions,
        Self::WriteSessions,
        Self::ReadProfiles,
        Self::WriteProfiles,
        Self::ReadWebhooks,
        Self::ReadUsage,
        Self::ReadAgents,
        Self::WriteAgents,
        Self::Admin,
    ];

    /// As the interface spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::AccountOwner => "account_owner",
            Self::ReadAudit => "read:audit",
            Self::ReadSessions => "read:sessions",
            Self::WriteSessions => "write:sessions",
            Self::ReadProfiles => "read:profiles",
            Self::WriteProfiles => "write:profiles",
            Self::ReadWebhooks => "read:webhooks",
            Self::ReadUsage => "read:usage",
            Self::ReadAgents => "read:agents",
            Self::WriteAgents => "write:agents",
            Self::Admin => "admin",
        }
    }

    /// Whether a credential with this scope may do what `needed` asks for.
    #[must_use]
    pub fn satisfies(self, needed: Self) -> bool {
        match self {
            Self::AccountOwner | Self::Admin => true,
            Self::Read => needed.name().starts_with("read"),
            Self::Write => needed.name().starts_with("write"),
            granular => granular == needed,
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| format!("no scope {text:?}"))
    }
}

/// The rights of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// # Errors
    /// On field `scopes`, when it is empty or names an unknown one.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, Invalid> {
        if names.is_empty() {
            return Err(Invalid::field("scopes", "must not be empty"));
        }
        let mut scopes = Vec::new();
        let mut errors = Vec::new();
        for (i, name) in names.iter().enumerate() {
            match name.as_ref().parse::<Scope>() {
                Ok(scope) if scopes.contains(&scope) => {}
                Ok(scope) => scopes.push(scope),
                Err(message) => errors.push(FieldError { field: format!("scopes.{i}"), message }),
            }
        }
        if errors.is_empty() { Ok(Self(scopes)) } else { Err(Invalid(errors)) }
    }

    /// What a customer may give: `admin` is minted by staff only (decisions D4).
    ///
    /// # Errors
    /// On field `scopes`, when it is empty or names an unknown one; on one of its items, when that is `admin`.
    pub fn parse_of_customer<S: AsRef<str>>(names: &[S]) -> Result<Self, Invalid> {
        let scopes = Self::parse(names)?;
        let staffs = names.iter().enumerate().filter(|(_, name)| name.as_ref() == Scope::Admin.name());
        let message = "is minted by staff only";
        let errors: Vec<_> =
            staffs.map(|(i, _)| FieldError { field: format!("scopes.{i}"), message: message.to_owned() }).collect();
        if errors.is_empty() { Ok(scopes) } else { Err(Invalid(errors)) }
    }

    /// As a row has them.
    pub(crate) fn stored(names: &[String]) -> Self {
        Self(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether any of them satisfies `needed`.
    #[must_use]
    pub fn satisfy(&self, needed: Scope) -> bool {
        self.0.iter().any(|scope| scope.satisfies(needed))
    }

    /// Whether they satisfy all of `others`: nobody gives away more than they have (decisions D4).
    #[must_use]
    pub fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.satisfy(*scope))
    }

    /// As the interface spells them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|scope| scope.name().to_owned()).collect()
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|scope| scope.name()))
    }
}

/// A whole API key: `svc_live_`, 32 random bytes in hexadecimal, and their CRC-32, so that a secret scanner can tell a
/// key from a look-alike without asking us. Only its hash is stored.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    const PREFIX: &str = "svc_live_";

    fn generate() -> Self {
        let body = hex(&rand::random::<[u8; 32]>());
        Self(format!("{}{body}{}", Self::PREFIX, checksum(&body)))
    }

    /// A key of the right form, or nothing: a mistyped one need not reach the database.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (body, sum) = text.strip_prefix(Self::PREFIX)?.split_at_checked(64)?;
        (checksum(body) == sum).then(|| Self(text.to_owned()))
    }

    /// The key itself, for the one time it is shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("svc_live_…")
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc32fast::hash(body.as_bytes()))
}

/// Mints a key for `account` and writes `api_key.minted`.
///
/// # Errors
/// When the name does not have 1 to 120 characters, or the database fails.
pub async fn mint(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    name: &str,
    scopes: &Scopes,
) -> Result<(ApiKeyId, Secret), MintError> {
    let mut rules = Rules::default();
    rules.length(name.trim(), 1, 120, "name");
    rules.check()?;
    let (id, secret) = (ApiKeyId::generate(), Secret::generate());
    let creator = match actor {
        Actor::Customer { account, .. } => Some(*account),
        Actor::System => None,
    };
    let inserted = sqlx::query!(
        "insert into api_keys (id, account_id, name, scopes, key_prefix, key_hash, created_by_account_id)
         select $1, id, $3, $4, $5, $6, $7 from accounts where id = $2",
        id as _,
        account as _,
        name.trim(),
        &scopes.names(),
        &secret.reveal()[..12],
        secret.hash(),
        creator as _,
    )
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(MintError::NoAccount);
    }
    let payload = serde_json::json!({"name": name.trim(), "scopes": scopes});
    let entry = Entry { action: "api_key.minted", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok((id, secret))
}

/// Why there is no new key.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Nobody to give it to.
    #[error("there is no such account")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// What a key that exists says of its bearer.
#[derive(Debug, Clone)]
pub struct KeyRecord {
    /// The key.
    pub id: ApiKeyId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What it may do.
    pub scopes: Scopes,
    /// When it stopped working for good.
    pub revoked_at: Option<Timestamp>,
    /// Whether its time is over.
    pub expired: bool,
    /// Whether its account may act.
    pub account_status: AccountStatus,
    /// What its account pays for.
    pub tier: Tier,
}

/// # Errors
/// When the database fails.
pub async fn find_by_secret(conn: &mut PgConnection, secret: &Secret) -> sqlx::Result<Option<KeyRecord>> {
    let row = sqlx::query!(
        r#"select k.id, k.account_id, k.scopes, k.revoked_at, k.expires_at <= now() as expired,
                  a.status as "status: AccountStatus", a.tier as "tier: Tier"
           from api_keys k join accounts a on a.id = k.account_id where k.key_hash = $1"#,
        secret.hash(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| KeyRecord {
        id: row.id,
        account_id: row.account_id,
        scopes: Scopes::stored(&row.scopes),
        revoked_at: row.revoked_at,
        expired: row.expired.unwrap_or(false),
        account_status: row.status,
        tier: row.tier,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_carries_a_checksum() {
        let secret = Secret::generate();
        assert!(Secret::parse(secret.reveal()).is_some());
        let mistyped = secret.reveal().replacen(|c: char| c.is_ascii_digit(), "g", 1);
        assert!(Secret::parse(&mistyped).is_none());
        assert!(Secret::parse("svc_live_").is_none());
        assert!(Secret::parse("svc_live_ü").is_none());
    }

    #[test]
    fn broad_scopes_satisfy_their_granular_ones_and_no_others() {
        let scopes = |names: &[&str]| Scopes::parse(names).expect("known scopes");
        assert!(scopes(&["read"]).satisfy(Scope::ReadSessions));
        assert!(!scopes(&["read"]).satisfy(Scope::WriteSessions));
        assert!(!scopes(&["write"]).satisfy(Scope::ReadSessions));
        assert!(scopes(&["write"]).satisfy(Scope::WriteSessions));
        assert!(!scopes(&["read:sessions"]).satisfy(Scope::Read));
        assert!(scopes(&["account_owner"]).satisfy(Scope::WriteSessions));
        assert!(scopes(&["admin"]).satisfy(Scope::AccountOwner));
        assert!(!scopes(&["write"]).satisfy(Scope::AccountOwner));
    }
}
