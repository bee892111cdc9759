//! API keys and scopes (contract: api-keys; authorization 6).

mod secret;

use std::str::FromStr;
use std::time::Duration;

use kitfleet_types::ids::{AccountId, ApiKeyId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{FieldError, Invalid, Rules};
use serde::{Serialize, Serializer};
use serde_json::json;
use sqlx::PgConnection;
use strum::VariantArray as _;

pub use self::secret::Secret;
use crate::accounts::{self, AccountStatus};
use crate::area::{Area, Bound};
use crate::audit::{self, Actor, Entry};
use crate::events::{self, EventType};
use crate::roles::{self, Role};

pub(crate) const AREA: Area = Area {
    kept: &[("api_keys", "the audit log refers to them")],
    actions: &["api_key.minted", "api_key.updated", "api_key.rotated", "api_key.revoked"],
    on_account_delete: &[|conn, account, actor| Box::pin(revoke_all(conn, account, actor))],
    bounds: &[(
        "api_keys",
        Bound::Account(
            "`limits.api_keys` (1,000) that work; `limits.audited_changes_per_hour` (1,000) new ones an hour",
        ),
    )],
    ..Area::named("api_keys")
};

const NAME_CHARS: usize = 120;

/// Maximum number of entries in a list of scopes, above the number of scopes.
pub const MAX_SCOPES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Scope {
    /// Every `read:*` scope.
    Read,
    /// Every `write:*` scope.
    Write,
    AccountOwner,
    #[strum(serialize = "read:audit")]
    ReadAudit,
    #[strum(serialize = "read:sessions")]
    ReadSessions,
    #[strum(serialize = "write:sessions")]
    WriteSessions,
    #[strum(serialize = "read:profiles")]
    ReadProfiles,
    #[strum(serialize = "write:profiles")]
    WriteProfiles,
    #[strum(serialize = "read:webhooks")]
    ReadWebhooks,
    #[strum(serialize = "read:usage")]
    ReadUsage,
    #[strum(serialize = "read:agents")]
    ReadAgents,
    #[strum(serialize = "write:agents")]
    WriteAgents,
    /// Legacy name of `account_owner`; only staff can grant it.
    Admin,
}

impl Scope {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// A credential with this scope has the right `needed`.
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
        Self::ALL.iter().copied().find(|scope| scope.name() == text).ok_or_else(|| format!("unknown scope {text:?}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, Invalid> {
        if names.is_empty() {
            return Err(Invalid::field("scopes", "must not be empty"));
        }
        if names.len() > MAX_SCOPES {
            return Err(Invalid::field("scopes", format!("must have at most {MAX_SCOPES} entries")));
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

    /// `granted_by` must have each of the scopes.
    pub fn grantable<S: AsRef<str>>(names: &[S], granted_by: &Self) -> Result<Self, Invalid> {
        let scopes = Self::parse(names)?;
        let mut rules = Rules::default();
        for (i, name) in names.iter().enumerate() {
            let field = format!("scopes.{i}");
            let Ok(scope) = name.as_ref().parse::<Scope>() else { continue };
            rules.require(scope != Scope::Admin, &field, "can be granted by staff only");
            rules.require(
                granted_by.satisfy(scope),
                &field,
                "is not a scope of the caller's credential, so the caller cannot grant it",
            );
        }
        rules.check()?;
        Ok(scopes)
    }

    /// Ignores names that another version of this program may have written.
    pub(crate) fn stored(names: &[String]) -> Self {
        Self(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    #[must_use]
    pub fn account_owner() -> Self {
        Self(vec![Scope::AccountOwner])
    }

    /// One of the scopes satisfies `needed`.
    #[must_use]
    pub fn satisfy(&self, needed: Scope) -> bool {
        self.0.iter().any(|scope| scope.satisfies(needed))
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum KeyKind {
    /// Does not work on the free tier.
    Customer,
    /// Works for some routes on the free tier.
    Device,
}

#[derive(Debug, Clone, Serialize)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub account_id: AccountId,
    pub name: String,
    pub scopes: Vec<String>,
    /// First characters of the secret.
    pub key_prefix: String,
    /// `None` when staff did.
    pub created_by_account_id: Option<AccountId>,
    pub created_at: Timestamp,
    /// Accurate to about a minute.
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug)]
pub struct NewKey<'a> {
    pub name: &'a str,
    pub scopes: &'a Scopes,
    pub kind: KeyKind,
    pub expires_at: Option<Timestamp>,
}

impl<'a> NewKey<'a> {
    #[must_use]
    pub fn customer(name: &'a str, scopes: &'a Scopes) -> Self {
        Self { name, scopes, kind: KeyKind::Customer, expires_at: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MintError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the account does not exist")]
    NoAccount,
    #[error("this operation requires the role admin in the owner's team")]
    NotAdmin,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum KeyLimitError {
    #[error("the account has {0} active API keys, the maximum; revoke a key first")]
    Full(u32),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Takes no lock, so keys created at the same time are not counted: this limit need not be exact.
pub async fn require_below_limit(conn: &mut PgConnection, account: AccountId, max: u32) -> Result<(), KeyLimitError> {
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from api_keys
           where account_id = $1 and revoked_at is null and coalesce(expires_at > now(), true)"#,
        account as _,
    )
    .fetch_one(conn)
    .await?;
    if count < i64::from(max) { Ok(()) } else { Err(KeyLimitError::Full(max)) }
}

/// Returns the name trimmed.
pub fn check_name(name: &str) -> Result<&str, Invalid> {
    let name = name.trim();
    let mut rules = Rules::default();
    rules.length(name, 1, NAME_CHARS, "name");
    rules.require(!name.contains(char::is_control), "name", "must not contain control characters");
    rules.check()?;
    Ok(name)
}

/// Writes `api_key.minted`. Locks the account's row, so that a deletion of the account finds the key, and the
/// membership of a team member who creates the key.
pub async fn mint(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    new: NewKey<'_>,
) -> Result<(ApiKey, Secret), MintError> {
    let name = check_name(new.name)?;
    let held = accounts::hold(&mut *conn, account).await?.ok_or(MintError::NoAccount)?;
    let maker = lock_creator(&mut *conn, account, actor).await?.ok_or(MintError::NotAdmin)?;
    let past =
        sqlx::query_scalar!(r#"select coalesce($1::timestamptz <= now(), false) as "past!""#, new.expires_at as _)
            .fetch_one(&mut *conn)
            .await?;
    if past {
        return Err(Invalid::field("expires_at", "must be in the future").into());
    }
    let secret = Secret::generate(new.kind, held.tier);
    let key = insert(&mut *conn, account, maker, &NewKey { name, ..new }, &secret, None).await?;
    let payload = json!({"name": name, "scopes": new.scopes});
    let entry = Entry { action: "api_key.minted", target: Some(key.id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok((key, secret))
}

/// A member who leaves the account's team loses the keys they created.
#[derive(Debug, Clone, Copy)]
enum KeyMaker {
    Account(AccountId),
    Staff,
}

/// Locks the team membership until the transaction ends. `None`: neither the account owner nor an admin of the team.
async fn lock_creator(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<Option<KeyMaker>> {
    let Some(maker) = actor.account() else { return Ok(Some(KeyMaker::Staff)) };
    let may = maker == account || roles::hold(conn, account, maker).await? == Some(Role::Admin);
    Ok(may.then_some(KeyMaker::Account(maker)))
}

/// A member who rotates a key becomes the creator of the new one. If the owner rotates a member's key, that member
/// remains the creator, so that the key does not outlive the membership.
async fn lock_creator_of_successor(
    conn: &mut PgConnection,
    account: AccountId,
    key: ApiKeyId,
    actor: &Actor,
) -> Result<KeyMaker, RotateError> {
    let rotating = lock_creator(&mut *conn, account, actor).await?.ok_or(RotateError::NotAdmin)?;
    if !matches!(rotating, KeyMaker::Account(rotating) if rotating == account) {
        return Ok(rotating);
    }
    let made_by = sqlx::query_scalar!(
        "select created_by_account_id from api_keys where id = $1 and account_id = $2",
        key as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    match made_by.flatten() {
        Some(member) if member != account => {
            roles::hold(conn, account, member).await?.ok_or(RotateError::Worthless)?;
            Ok(KeyMaker::Account(member))
        }
        _ => Ok(rotating),
    }
}

async fn insert(
    conn: &mut PgConnection,
    account: AccountId,
    maker: KeyMaker,
    new: &NewKey<'_>,
    secret: &Secret,
    rotated_from: Option<ApiKeyId>,
) -> sqlx::Result<ApiKey> {
    let creator = match maker {
        KeyMaker::Account(account) => Some(account),
        KeyMaker::Staff => None,
    };
    sqlx::query_as!(
        ApiKey,
        "insert into api_keys
            (id, account_id, name, scopes, kind, key_prefix, key_hash, created_by_account_id, expires_at, rotated_from)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         returning id, account_id, name, scopes, key_prefix, created_by_account_id, created_at, last_used_at, expires_at, revoked_at",
        ApiKeyId::generate() as _,
        account as _,
        new.name,
        &new.scopes.names(),
        new.kind as _,
        secret.shown_prefix(),
        secret.hash(),
        creator as _,
        new.expires_at as _,
        rotated_from as _,
    )
    .fetch_one(conn)
    .await
}

/// Gives a device's key a secret, shown for the first time, and removes its expiry.
pub(crate) async fn hand_over(conn: &mut PgConnection, id: ApiKeyId, tier: Tier) -> sqlx::Result<Secret> {
    let secret = Secret::generate(KeyKind::Device, tier);
    sqlx::query!(
        "update api_keys set key_hash = $2, key_prefix = $3, expires_at = null where id = $1",
        id as _,
        secret.hash(),
        secret.shown_prefix(),
    )
    .execute(conn)
    .await?;
    Ok(secret)
}

pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    after: Option<ApiKeyId>,
    limit: i64,
) -> sqlx::Result<Vec<ApiKey>> {
    sqlx::query_as!(
        ApiKey,
        "select id, account_id, name, scopes, key_prefix, created_by_account_id, created_at, last_used_at, expires_at, revoked_at
         from api_keys where account_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3",
        account as _,
        after as _,
        limit,
    )
    .fetch_all(conn)
    .await
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: ApiKeyId) -> sqlx::Result<Option<ApiKey>> {
    sqlx::query_as!(
        ApiKey,
        "select id, account_id, name, scopes, key_prefix, created_by_account_id, created_at, last_used_at, expires_at, revoked_at
         from api_keys where account_id = $1 and id = $2",
        account as _,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error("the key does not exist")]
    NoKey,
    /// The key was revoked or has expired.
    #[error("the key was revoked or has expired")]
    Worthless,
    #[error("the key was already rotated")]
    RotatedBefore,
    #[error("this operation requires the role admin in the owner's team")]
    NotAdmin,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `api_key.rotated`. The old key works for `grace` and then expires.
pub async fn rotate(
    conn: &mut PgConnection,
    account: AccountId,
    id: ApiKeyId,
    actor: &Actor,
    grace: Duration,
) -> Result<(ApiKey, Secret), RotateError> {
    let held = accounts::hold(&mut *conn, account).await?.ok_or(RotateError::NoKey)?;
    let maker = lock_creator_of_successor(&mut *conn, account, id, actor).await?;
    let old = sqlx::query!(
        r#"select k.name, k.scopes, k.kind as "kind: KeyKind", k.expires_at,
                  k.revoked_at is not null or coalesce(k.expires_at <= now(), false) as "worthless!",
                  exists(select from api_keys s where s.rotated_from = k.id) as "rotated!"
           from api_keys k where k.id = $1 and k.account_id = $2 for update"#,
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(RotateError::NoKey)?;
    if old.worthless {
        return Err(RotateError::Worthless);
    }
    if old.rotated {
        return Err(RotateError::RotatedBefore);
    }
    let scopes = Scopes::stored(&old.scopes);
    let new = NewKey { name: &old.name, scopes: &scopes, kind: old.kind, expires_at: old.expires_at };
    let secret = Secret::generate(old.kind, held.tier);
    let key = match insert(&mut *conn, account, maker, &new, &secret, Some(id)).await {
        Err(error) if error.as_database_error().and_then(|e| e.constraint()) == Some("api_keys_rotated_from_key") => {
            return Err(RotateError::RotatedBefore);
        }
        inserted => inserted?,
    };
    let grace_expires_at = sqlx::query_scalar!(
        r#"update api_keys set expires_at = least(coalesce(expires_at, 'infinity'), now() + $2) where id = $1
           returning expires_at as "expires_at!""#,
        id as _,
        grace as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    let payload = json!({"name": old.name, "new_api_key_id": key.id, "grace_expires_at": grace_expires_at});
    let entry = Entry { action: "api_key.rotated", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok((key, secret))
}

/// Changes the name, and writes `api_key.updated`.
pub async fn rename(
    conn: &mut PgConnection,
    account: AccountId,
    id: ApiKeyId,
    name: &str,
    actor: &Actor,
) -> sqlx::Result<Option<ApiKey>> {
    let previous = sqlx::query_scalar!(
        "select name from api_keys where id = $1 and account_id = $2 for no key update",
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(previous) = previous else { return Ok(None) };
    let key = sqlx::query_as!(
        ApiKey,
        "update api_keys set name = $2 where id = $1
         returning id, account_id, name, scopes, key_prefix, created_by_account_id, created_at, last_used_at, expires_at, revoked_at",
        id as _,
        name,
    )
    .fetch_one(&mut *conn)
    .await?;
    let payload = json!({"previous_name": previous, "name": key.name});
    let entry = Entry { action: "api_key.updated", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(Some(key))
}

/// Writes `api_key.revoked` to the audit log and the events. A second call changes nothing.
pub async fn revoke(conn: &mut PgConnection, account: AccountId, id: ApiKeyId, actor: &Actor) -> sqlx::Result<bool> {
    let revoked = sqlx::query!(
        r#"update api_keys set revoked_at = now() where id = $1 and account_id = $2 and revoked_at is null
           returning name, revoked_at as "revoked_at!""#,
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(revoked) = revoked else {
        return sqlx::query_scalar!(
            r#"select exists(select from api_keys where id = $1 and account_id = $2) as "exists!""#,
            id as _,
            account as _,
        )
        .fetch_one(conn)
        .await;
    };
    record_revoked(conn, account, actor, id, &revoked.name, revoked.revoked_at).await?;
    Ok(true)
}

/// As [`revoke`], for any account.
pub async fn revoke_any(conn: &mut PgConnection, id: ApiKeyId, actor: &Actor) -> sqlx::Result<bool> {
    let owner = sqlx::query_scalar!("select account_id from api_keys where id = $1", id as _);
    let Some(owner) = owner.fetch_optional(&mut *conn).await? else { return Ok(false) };
    revoke(conn, owner, id, actor).await
}

pub async fn revoke_all(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    let revoked = sqlx::query!(
        r#"update api_keys set revoked_at = now() where account_id = $1 and revoked_at is null
           returning id, name, revoked_at as "revoked_at!""#,
        account as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    for key in revoked {
        record_revoked(&mut *conn, account, actor, key.id, &key.name, key.revoked_at).await?;
    }
    Ok(())
}

/// Writes the events; the caller writes the audit log.
pub(crate) async fn revoke_made_by(
    conn: &mut PgConnection,
    account: AccountId,
    maker: AccountId,
) -> sqlx::Result<Vec<ApiKeyId>> {
    let mut revoked = sqlx::query!(
        r#"update api_keys set revoked_at = now()
           where account_id = $1 and created_by_account_id = $2 and created_by_account_id <> account_id
             and revoked_at is null and coalesce(expires_at > now(), true)
           returning id, name, revoked_at as "revoked_at!""#,
        account as _,
        maker as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    revoked.sort_by_key(|key| key.id);
    for key in &revoked {
        publish_revoked(&mut *conn, account, key.id, &key.name, key.revoked_at).await?;
    }
    Ok(revoked.into_iter().map(|key| key.id).collect())
}

async fn record_revoked(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    id: ApiKeyId,
    name: &str,
    revoked_at: Timestamp,
) -> sqlx::Result<()> {
    publish_revoked(&mut *conn, account, id, name, revoked_at).await?;
    let entry = Entry { action: "api_key.revoked", target: Some(id.to_string()), payload: json!({"name": name}) };
    audit::record(conn, account, actor, entry).await
}

async fn publish_revoked(
    conn: &mut PgConnection,
    account: AccountId,
    id: ApiKeyId,
    name: &str,
    revoked_at: Timestamp,
) -> sqlx::Result<()> {
    let event = json!({"api_key_id": id, "name": name, "revoked_at": revoked_at});
    events::record(conn, account, EventType::ApiKeyRevoked, event).await?;
    Ok(())
}

#[derive(Debug, Clone)]
pub struct KeyRecord {
    pub id: ApiKeyId,
    pub account_id: AccountId,
    pub maker: Option<roles::TeamMaker>,
    pub kind: KeyKind,
    pub scopes: Scopes,
    /// Also true when its creator left the team.
    pub revoked: bool,
    pub expired: bool,
    /// State of the account, or of the key's creator when only that account is not active.
    pub account_status: AccountStatus,
    pub tier: Tier,
}

/// Returns the key with this secret and the team role of its creator.
pub async fn find_by_secret(conn: &mut PgConnection, secret: &Secret) -> sqlx::Result<Option<KeyRecord>> {
    let row = sqlx::query!(
        r#"select k.id, k.account_id, k.kind as "kind: KeyKind", k.scopes,
                  k.revoked_at is not null or (maker.id is not null and m.id is null) as "revoked!",
                  coalesce(k.expires_at <= now(), false) as "expired!",
                  case a.status when 'active' then coalesce(maker.status, 'active') else a.status end as "status!: AccountStatus",
                  a.tier as "tier: Tier", m.member_account_id as "member?: AccountId", m.role as "role?: Role"
           from api_keys k
               join accounts a on a.id = k.account_id
               left join accounts maker on maker.id = k.created_by_account_id and maker.id <> k.account_id
               left join team_members m on m.owner_account_id = k.account_id and m.member_account_id = maker.id
           where k.key_hash = $1"#,
        secret.hash(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| KeyRecord {
        id: row.id,
        account_id: row.account_id,
        maker: row.member.zip(row.role).map(|(account, role)| roles::TeamMaker { account, role }),
        kind: row.kind,
        scopes: Scopes::stored(&row.scopes),
        revoked: row.revoked,
        expired: row.expired,
        account_status: row.status,
        tier: row.tier,
    }))
}

pub async fn touch(conn: &mut PgConnection, ids: &[ApiKeyId]) -> sqlx::Result<()> {
    let ids: Vec<_> = ids.iter().map(ApiKeyId::as_uuid).collect();
    // Skip rows locked by other transactions: those keys are in use anyway, and waiting could end in a deadlock.
    sqlx::query!(
        "update api_keys t set last_used_at = now()
         from (select id from api_keys where id = any($1) for no key update skip locked) free where t.id = free.id",
        &ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
