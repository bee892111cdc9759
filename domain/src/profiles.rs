//! Profiles (contract: profiles): the browser state that a session starts with and saves at its end.
//!
//! The content of a profile is an immutable store, which the crate `kitfleet-profiles` writes and reads. A profile and
//! its snapshots refer to stores. A reference is changed under the lock of the profile's row, and the code that removes
//! one marks the store as removable.

pub mod snapshots;
pub mod sources;
pub mod stores;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, ProfileId, SessionId, SnapshotId, StoreId};
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{self, Invalid};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::accounts;
use crate::area::{Area, Bound, ScheduledJob, Sealed};
use crate::audit::{self, Actor, Entry};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("profiles", "purged after their time in the recycle bin"),
        ("profile_snapshots", "purged with their profiles"),
        ("profile_stores", "removed when they have no reference"),
        ("profile_store_chunks", "purged with their stores"),
    ],
    actions: &[
        "profile.created",
        "profile.deleted",
        "profile.restored",
        "profile.purged",
        "profile.exported",
        "profile.imported",
    ],
    scheduled_jobs: &[SWEEP_RETENTION],
    on_account_delete: &[|conn, account, _| Box::pin(delete_all(conn, account))],
    bounds: &[
        ("profiles", Bound::Account("`limits.profiles` by tier, including the recycle bin")),
        ("profile_snapshots", Bound::Account("`limits.snapshots_per_profile` (50) of each profile")),
        ("profile_stores", Bound::Account("`limits.profile_bytes_per_account` (16 GiB)")),
        ("profile_store_chunks", Bound::Account("`limits.profile_bytes_per_account` (16 GiB)")),
    ],
    sealed: &[Sealed {
        kind: "profile_keys",
        table: "profiles",
        id: "id",
        part: None,
        purpose: KEY_PURPOSE,
        has_shared_key: true,
        columns: &[("sealed_key", |row| ProfileId::from(row.id).to_string())],
    }],
    ..Area::named("profiles")
};

pub const KEY_PURPOSE: &str = "profiles";

/// Purges profiles and stores, and all other rows past their retention term.
pub const SWEEP_RETENTION: ScheduledJob = ScheduledJob { name: "sweep_retention", period: 60 };

#[derive(Debug, Clone)]
pub struct Profile {
    pub id: ProfileId,
    pub account_id: AccountId,
    pub name: String,
    pub archetype: String,
    /// Size of the sealed state.
    pub size_bytes: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileName(String);

impl ProfileName {
    const MAX_CHARS: usize = 120;

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        validation::name(text, Self::MAX_CHARS).map(Self)
    }

    /// The name with a word in parentheses, truncated to the maximum length.
    #[must_use]
    pub fn of_another(name: &str, word: &str) -> Self {
        let suffix = format!(" ({word})");
        let room = Self::MAX_CHARS.saturating_sub(suffix.chars().count());
        let cut: String = name.chars().take(room).collect();
        Self(format!("{}{suffix}", cut.trim_end()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug)]
pub struct NewProfile<'a> {
    /// The profile's key and store are bound to it.
    pub id: ProfileId,
    pub name: &'a ProfileName,
    pub archetype: &'a str,
    pub sealed_key: &'a [u8],
    pub content: Option<Content>,
    pub origin: Origin,
}

#[derive(Debug, Clone, Copy)]
pub struct Content {
    pub store: StoreId,
    pub size_bytes: i64,
}

#[derive(Debug)]
pub enum Origin {
    New,
    Clone(ProfileId),
    Snapshot(SnapshotId),
    /// Ids that the document contains, if it does.
    Document {
        profile: Option<String>,
        account: Option<String>,
    },
}

impl Origin {
    fn entry(&self, new: &NewProfile<'_>) -> Entry {
        let mut payload = json!({"name": new.name.as_str(), "archetype": new.archetype});
        let mut action = "profile.created";
        match self {
            Self::New => {}
            // The contract defines another prefix for this id (contract: profiles 6).
            Self::Clone(id) => payload["cloned_from"] = format!("profile_{}", id.as_uuid()).into(),
            Self::Snapshot(id) => payload["restored_from_snapshot"] = id.to_string().into(),
            Self::Document { profile, account } => {
                action = "profile.imported";
                payload = json!({"source_profile_id": profile, "source_account_id": account});
            }
        }
        Entry { action, target: Some(new.id.to_string()), payload }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Counts the recycle bin.
    #[error("the account has {current} profiles, including those in the recycle bin; the limit is {limit}")]
    CapReached { current: i64, limit: i64 },
    #[error(transparent)]
    Bytes(#[from] TooManyBytes),
    #[error("there is no such account")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The profiles and snapshots together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account's profiles and snapshots store {current} bytes; the limit is {limit}")]
pub struct TooManyBytes {
    pub current: i64,
    pub limit: i64,
}

/// The caller must hold the lock on the account.
pub(crate) async fn require_bytes(
    conn: &mut PgConnection,
    account: AccountId,
    more: i64,
    limits: &Limits,
) -> sqlx::Result<Result<(), TooManyBytes>> {
    let current = stores::bytes_of(conn, account).await?;
    let limit = i64::try_from(limits.profile_bytes_per_account).unwrap_or(i64::MAX);
    // A change that does not grow is never refused.
    let fits = more <= 0 || current.saturating_add(more) <= limit;
    Ok(if fits { Ok(()) } else { Err(TooManyBytes { current, limit }) })
}

/// The account's row is locked until the transaction ends, so that concurrent calls count each other's profiles.
pub async fn require_below_limit(
    conn: &mut PgConnection,
    account: AccountId,
    limits: &Limits,
) -> Result<(), CreateError> {
    let (tier, own) = accounts::lock_limits(&mut *conn, account).await?.ok_or(CreateError::NoAccount)?;
    let current =
        sqlx::query_scalar!(r#"select count(*) as "count!" from profiles where account_id = $1"#, account as _)
            .fetch_one(conn)
            .await?;
    let limit = i64::from(limits.profiles_of(tier, own));
    if current < limit { Ok(()) } else { Err(CreateError::CapReached { current, limit }) }
}

/// There must also be room for at least one byte.
pub async fn require_space(conn: &mut PgConnection, account: AccountId, limits: &Limits) -> Result<(), CreateError> {
    require_below_limit(&mut *conn, account, limits).await?;
    Ok(require_bytes(conn, account, 1, limits).await??)
}

/// Writes `profile.created` or `profile.imported`.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    new: &NewProfile<'_>,
    limits: &Limits,
    actor: &Actor,
) -> Result<Profile, CreateError> {
    require_below_limit(&mut *conn, account, limits).await?;
    if let Some(content) = new.content {
        require_bytes(&mut *conn, account, content.size_bytes, limits).await??;
        if !stores::keep(&mut *conn, content.store).await? {
            return Err(sqlx::Error::RowNotFound.into());
        }
    }
    let profile = sqlx::query_as!(
        Profile,
        "insert into profiles (id, account_id, name, archetype, sealed_key, store_id, size_bytes)
         values ($1, $2, $3, $4, $5, $6, $7)
         returning id, account_id, name, archetype, size_bytes, created_at, updated_at, last_used_at, deleted_at",
        new.id as _,
        account as _,
        new.name.as_str(),
        new.archetype,
        new.sealed_key,
        new.content.map(|content| content.store) as _,
        new.content.map_or(0, |content| content.size_bytes),
    )
    .fetch_one(&mut *conn)
    .await?;
    audit::record(conn, account, actor, new.origin.entry(new)).await?;
    Ok(profile)
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> sqlx::Result<Option<Profile>> {
    sqlx::query_as!(
        Profile,
        "select id, account_id, name, archetype, size_bytes, created_at, updated_at, last_used_at, deleted_at
         from profiles where id = $1 and account_id = $2 and deleted_at is null",
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Default)]
pub struct Filter {
    pub deleted: bool,
    pub after: Option<ProfileId>,
}

pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    filter: Filter,
    limit: i64,
) -> sqlx::Result<Vec<Profile>> {
    sqlx::query_as!(
        Profile,
        "select id, account_id, name, archetype, size_bytes, created_at, updated_at, last_used_at, deleted_at
         from profiles
         where account_id = $1 and (deleted_at is not null) = $2 and ($3::uuid is null or id < $3)
         order by id desc limit $4",
        account as _,
        filter.deleted,
        filter.after as _,
        limit,
    )
    .fetch_all(conn)
    .await
}

pub async fn rename(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
    name: &ProfileName,
) -> sqlx::Result<Option<Profile>> {
    sqlx::query_as!(
        Profile,
        "update profiles set name = $3, updated_at = now() where id = $1 and account_id = $2 and deleted_at is null
         returning id, account_id, name, archetype, size_bytes, created_at, updated_at, last_used_at, deleted_at",
        id as _,
        account as _,
        name.as_str(),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no such profile")]
    NoProfile,
    #[error("the session {0} uses the profile")]
    InUse(SessionId),
    #[error("the profile is not in the recycle bin")]
    NotDeleted,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

struct LockedProfile {
    name: String,
    archetype: String,
}

async fn hold(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> Result<LockedProfile, ChangeError> {
    let held = sqlx::query_as!(
        LockedProfile,
        "select name, archetype from profiles where id = $1 and account_id = $2 and deleted_at is null for update",
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    held.ok_or(ChangeError::NoProfile)
}

async fn lock_unleased(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
) -> Result<LockedProfile, ChangeError> {
    let held = hold(&mut *conn, account, id).await?;
    let session = sqlx::query_scalar!("select id from sessions where profile_id = $1 and live", id as _,)
        .fetch_optional(conn)
        .await?;
    session.map_or(Ok(held), |session| Err(ChangeError::InUse(session)))
}

async fn hold_deleted(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> Result<String, ChangeError> {
    let held = sqlx::query!(
        r#"select name, deleted_at is not null as "deleted!" from profiles where id = $1 and account_id = $2 for update"#,
        id as _,
        account as _,
    )
    .fetch_optional(conn)
    .await?
    .ok_or(ChangeError::NoProfile)?;
    if held.deleted { Ok(held.name) } else { Err(ChangeError::NotDeleted) }
}

async fn record(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    action: &'static str,
    id: ProfileId,
    payload: Value,
) -> sqlx::Result<()> {
    audit::record(conn, account, actor, Entry { action, target: Some(id.to_string()), payload }).await
}

/// Writes `profile.deleted`.
pub async fn delete(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
    actor: &Actor,
) -> Result<(), ChangeError> {
    let LockedProfile { name, .. } = lock_unleased(&mut *conn, account, id).await?;
    sqlx::query!("update profiles set deleted_at = now(), updated_at = now() where id = $1", id as _)
        .execute(&mut *conn)
        .await?;
    Ok(record(conn, account, actor, "profile.deleted", id, json!({"name": name})).await?)
}

async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    // In the order of ids, as everywhere, so that two such transactions cannot deadlock.
    sqlx::query!(
        "with held as (
             select id from profiles where account_id = $1 and deleted_at is null order by id for update
         )
         update profiles p set deleted_at = now(), updated_at = now() from held where p.id = held.id",
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes `profile.restored`.
pub async fn restore(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
    actor: &Actor,
) -> Result<Profile, ChangeError> {
    let name = hold_deleted(&mut *conn, account, id).await?;
    sqlx::query!("update profiles set deleted_at = null, updated_at = now() where id = $1", id as _)
        .execute(&mut *conn)
        .await?;
    record(&mut *conn, account, actor, "profile.restored", id, json!({"name": name})).await?;
    find(conn, account, id).await?.ok_or(ChangeError::NoProfile)
}

/// Writes `profile.purged`. The stores are removed soon after.
pub async fn purge(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
    actor: &Actor,
) -> Result<(), ChangeError> {
    let name = hold_deleted(&mut *conn, account, id).await?;
    remove(&mut *conn, id).await?;
    Ok(record(conn, account, actor, "profile.purged", id, json!({"name": name})).await?)
}

/// The caller has locked the profile. Returns the number of snapshots.
async fn remove(conn: &mut PgConnection, id: ProfileId) -> sqlx::Result<u64> {
    let snapshots =
        sqlx::query!("delete from profile_snapshots where profile_id = $1", id as _).execute(&mut *conn).await?;
    sqlx::query!("delete from profiles where id = $1", id as _).execute(&mut *conn).await?;
    sqlx::query!(
        "update profile_stores set removable_at = now() where profile_id = $1 and removable_at is null",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(snapshots.rows_affected())
}

/// Time profiles stay in the recycle bin (contract: retention 2, 3).
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub deleted: Duration,
    /// They contain secrets and cannot be restored.
    pub of_deleted_accounts: Duration,
}

#[derive(Debug)]
pub struct ExpiredProfile {
    pub profile: ProfileId,
    pub snapshots: i64,
}

/// Lists profiles whose time in the recycle bin is over, after the given one, at most `limit`.
pub async fn due_for_purge(
    conn: &mut PgConnection,
    retention: Retention,
    after: Option<ProfileId>,
    limit: i64,
) -> sqlx::Result<Vec<ExpiredProfile>> {
    sqlx::query_as!(
        ExpiredProfile,
        r#"select p.id as "profile: ProfileId",
                  (select count(*) from profile_snapshots s where s.profile_id = p.id) as "snapshots!"
         from profiles p join accounts a on a.id = p.account_id
         where p.deleted_at is not null and ($3::uuid is null or p.id > $3)
           and p.deleted_at <= now() - case when a.status = 'deleted' then make_interval(secs => $1)
                                            else make_interval(secs => $2) end
         order by p.id limit $4"#,
        retention.of_deleted_accounts.as_secs_f64(),
        retention.deleted.as_secs_f64(),
        after as _,
        limit,
    )
    .fetch_all(conn)
    .await
}

/// As [`purge`], but without an audit entry. Returns the number of snapshots, or `None` when the profile is no longer
/// due or its row is locked.
pub async fn purge_due(conn: &mut PgConnection, retention: Retention, id: ProfileId) -> sqlx::Result<Option<u64>> {
    // The account owner may have restored the profile and deleted it again in the meantime.
    let held = sqlx::query_scalar!(
        "select p.id from profiles p join accounts a on a.id = p.account_id
         where p.id = $3
           and p.deleted_at <= now() - case when a.status = 'deleted' then make_interval(secs => $1)
                                            else make_interval(secs => $2) end
         for update of p skip locked",
        retention.of_deleted_accounts.as_secs_f64(),
        retention.deleted.as_secs_f64(),
        id as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    match held {
        Some(id) => remove(conn, id).await.map(Some),
        None => Ok(None),
    }
}

#[derive(Debug)]
pub struct LeasedProfile {
    pub name: String,
    pub archetype: String,
    /// Sessions that have used the profile, including this one.
    pub generation: i64,
}

/// The profile's row is locked, so that only one of several sessions gets it.
pub async fn take(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> Result<LeasedProfile, ChangeError> {
    let LockedProfile { name, archetype } = lock_unleased(&mut *conn, account, id).await?;
    let generation = sqlx::query_scalar!(
        "update profiles set generation = generation + 1, last_used_at = now() where id = $1 returning generation",
        id as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(LeasedProfile { name, archetype, generation })
}

#[derive(Debug)]
pub struct StoredProfile {
    pub profile: Profile,
    pub sealed_key: Vec<u8>,
    pub store: Option<StoreId>,
    pub read_at: Timestamp,
}

pub async fn find_kept(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
) -> sqlx::Result<Option<StoredProfile>> {
    let Some(profile) = find(&mut *conn, account, id).await? else { return Ok(None) };
    let row = sqlx::query!(
        r#"select sealed_key, store_id, now() as "read_at!: Timestamp" from profiles where id = $1"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| StoredProfile { profile, sealed_key: row.sealed_key, store: row.store_id, read_at: row.read_at }))
}

/// A live worker is still saving the state of the profile's last session.
pub async fn is_being_saved(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists(select from sessions s join workers w on w.id = s.worker_id
                         where s.profile_id = $1 and s.account_id = $2 and s.profile_in_hand
                           and not s.live
                           and w.status in ('active', 'draining')) as "kept!""#,
        id as _,
        account as _,
    )
    .fetch_one(conn)
    .await
}

/// Does nothing if the store is referenced. The caller must hold the lock on the row of its profile, or the profile
/// must not exist.
pub async fn release(conn: &mut PgConnection, store: StoreId) -> sqlx::Result<()> {
    sqlx::query!(
        "update profile_stores set removable_at = now()
         where id = $1 and not exists (select from profiles where store_id = $1)
           and not exists (select from profile_snapshots where store_id = $1)",
        store as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn note_export(conn: &mut PgConnection, exported: &Profile, actor: &Actor) -> sqlx::Result<()> {
    let Profile { id, account_id: account, .. } = *exported;
    let payload = json!({"source_profile_id": id, "source_account_id": account});
    record(conn, account, actor, "profile.exported", id, payload).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_copy_is_valid() {
        assert_eq!(ProfileName::of_another("Shop", "copy").as_str(), "Shop (copy)");
        for length in 110..=120 {
            let name = ProfileName::of_another(&"ü".repeat(length), "restored");
            assert_eq!(ProfileName::parse(name.as_str()), Ok(name));
        }
    }

    #[test]
    fn name_has_limited_length_and_no_invisible_characters() {
        for good in ["x", "  Zürich, first\u{a0}run ", &"ü".repeat(120)] {
            assert!(ProfileName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "   ", "a\nb", "a\u{7}", &"ü".repeat(121)] {
            assert!(ProfileName::parse(bad).is_err(), "{bad}");
        }
    }
}
