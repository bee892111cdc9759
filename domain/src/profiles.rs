//! Profiles (contract: profiles): what sessions begin with, and leave behind.
//!
//! Here are their rows. What a profile holds is a store, which crate `kitfleet-profiles` writes and reads, and which is never
//! changed: a profile and its snapshots refer to stores, under the lock of the profile's row, and whoever refers to one no
//! longer says that it may be removed.

pub mod snapshots;
pub mod sources;
pub mod stores;

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::accounts;
use crate::area::{Area, Bound, ScheduledJob, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, ProfileId, SessionId, SnapshotId, StoreId};
use crate::limits::Limits;
use crate::timestamp::Timestamp;
use crate::validation::{self, Invalid};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("profiles", "purged when they were in the recycle bin for long enough"),
        ("profile_snapshots", "purged with their profiles"),
        ("profile_stores", "removed when nobody refers to them"),
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
    chains: &[SWEEP_RETENTION],
    losses: &[|conn, account, _| Box::pin(delete_all(conn, account))],
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

/// Purpose for which the vault seals profiles' keys.
pub const KEY_PURPOSE: &str = "profiles";

/// Purges profiles that were in the recycle bin for long enough, removes what nobody's profile holds any more, and deletes what
/// has reached its term of everything else.
pub const SWEEP_RETENTION: ScheduledJob = ScheduledJob { name: "sweep_retention", period: 60 };

/// A profile, as customers see it.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its id.
    pub id: ProfileId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What its owner calls it.
    pub name: String,
    /// The device that its sessions are.
    pub archetype: String,
    /// The size of what it holds, sealed.
    pub size_bytes: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its row last changed.
    pub updated_at: Timestamp,
    /// When a session last had it.
    pub last_used_at: Option<Timestamp>,
    /// When it was put into the recycle bin.
    pub deleted_at: Option<Timestamp>,
}

/// What a profile is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileName(String);

impl ProfileName {
    const MAX_CHARS: usize = 120;

    /// # Errors
    /// On field `name`, when it does not have 1 to 120 characters or holds one that does not show.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        validation::name(text, Self::MAX_CHARS).map(Self)
    }

    /// The name of what was made of one of this name: the same with a word behind it, and cut to leave room for that.
    #[must_use]
    pub fn of_another(name: &str, word: &str) -> Self {
        let suffix = format!(" ({word})");
        let room = Self::MAX_CHARS.saturating_sub(suffix.chars().count());
        let cut: String = name.chars().take(room).collect();
        Self(format!("{}{suffix}", cut.trim_end()))
    }

    /// As its owner wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A profile to be.
#[derive(Debug)]
pub struct NewProfile<'a> {
    /// Its id, which its key and its store are bound to.
    pub id: ProfileId,
    /// What it will be called.
    pub name: &'a ProfileName,
    /// The device that its sessions will be.
    pub archetype: &'a str,
    /// What its stores are sealed with, sealed.
    pub sealed_key: &'a [u8],
    /// What it holds from the start.
    pub content: Option<Content>,
    /// What it is made of.
    pub origin: Origin,
}

/// A store, and how large it is.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// The store.
    pub store: StoreId,
    /// Its size, sealed.
    pub size_bytes: i64,
}

/// What a profile is made of.
#[derive(Debug)]
pub enum Origin {
    /// Nothing.
    New,
    /// Another one.
    Clone(ProfileId),
    /// What another one held once.
    Snapshot(SnapshotId),
    /// A document, and what that says it was written of.
    Document {
        /// Which profile, if it says so.
        profile: Option<String>,
        /// Whose, if it says so.
        account: Option<String>,
    },
}

impl Origin {
    fn entry(&self, new: &NewProfile<'_>) -> Entry {
        let mut payload = json!({"name": new.name.as_str(), "archetype": new.archetype});
        let mut action = "profile.created";
        match self {
            Self::New => {}
            // The contract spells this one's prefix out (contract: profiles 6).
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

/// Why there is no new profile.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The account has as many as its own limit, or that of its tier, allows, those in the recycle bin among them.
    #[error("the account has {current} profiles, including those in the recycle bin; the limit is {limit}")]
    CapReached {
        /// Now.
        current: i64,
        /// Allowed.
        limit: i64,
    },
    /// What the account's profiles hold is as much as it may be.
    #[error(transparent)]
    Bytes(#[from] TooManyBytes),
    /// The account is gone.
    #[error("there is no such account")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// What the profiles and snapshots of an account hold, sealed, is as much as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account's profiles and snapshots store {current} bytes; the limit is {limit}")]
pub struct TooManyBytes {
    /// Now.
    pub current: i64,
    /// Allowed.
    pub limit: i64,
}

/// Whether what the account's profiles hold may grow by so many bytes. Its caller has locked the account.
pub(crate) async fn require_bytes(
    conn: &mut PgConnection,
    account: AccountId,
    more: i64,
    limits: &Limits,
) -> sqlx::Result<Result<(), TooManyBytes>> {
    let current = stores::bytes_of(conn, account).await?;
    let limit = i64::try_from(limits.profile_bytes_per_account).unwrap_or(i64::MAX);
    // What does not grow is nobody's to refuse.
    let fits = more <= 0 || current.saturating_add(more) <= limit;
    Ok(if fits { Ok(()) } else { Err(TooManyBytes { current, limit }) })
}

/// Whether the account may have another profile. Its row is locked until the transaction ends, so that all who make one
/// count each other.
///
/// # Errors
/// When it may not, or the database fails.
pub async fn require_room(conn: &mut PgConnection, account: AccountId, limits: &Limits) -> Result<(), CreateError> {
    let (tier, own) = accounts::lock_limits(&mut *conn, account).await?.ok_or(CreateError::NoAccount)?;
    let current =
        sqlx::query_scalar!(r#"select count(*) as "count!" from profiles where account_id = $1"#, account as _)
            .fetch_one(conn)
            .await?;
    let limit = i64::from(limits.profiles_of(tier, own));
    if current < limit { Ok(()) } else { Err(CreateError::CapReached { current, limit }) }
}

/// The same of one that holds something from the start: there has to be room for some of it.
///
/// # Errors
/// As [`require_room`].
pub async fn require_room_for_content(
    conn: &mut PgConnection,
    account: AccountId,
    limits: &Limits,
) -> Result<(), CreateError> {
    require_room(&mut *conn, account, limits).await?;
    Ok(require_bytes(conn, account, 1, limits).await??)
}

/// Makes a profile, and writes `profile.created` or `profile.imported`.
///
/// # Errors
/// When the account may not have another, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    new: &NewProfile<'_>,
    limits: &Limits,
    actor: &Actor,
) -> Result<Profile, CreateError> {
    require_room(&mut *conn, account, limits).await?;
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

/// The account's profile of this id, unless it is in the recycle bin.
///
/// # Errors
/// When the database fails.
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

/// Which profiles to list.
#[derive(Debug, Default)]
pub struct Filter {
    /// Those in the recycle bin instead of those that are not.
    pub deleted: bool,
    /// Only those before this one, in the list's order.
    pub after: Option<ProfileId>,
}

/// The account's profiles, newest first, at most `limit`.
///
/// # Errors
/// When the database fails.
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

/// Gives a profile another name. `None` when the account has no such profile.
///
/// # Errors
/// When the database fails.
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

/// Why a profile stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The account has no such profile, or has it in the recycle bin.
    #[error("there is no such profile")]
    NoProfile,
    /// A live session has it.
    #[error("the session {0} uses the profile")]
    InUse(SessionId),
    /// It is not in the recycle bin.
    #[error("the profile is not in the recycle bin")]
    NotDeleted,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// A profile whose row is locked until the transaction ends.
struct LockedProfile {
    name: String,
    archetype: String,
}

/// Locks the row of a profile that is not in the recycle bin.
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

/// The same of one that no live session has.
async fn hold_unused(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> Result<LockedProfile, ChangeError> {
    let held = hold(&mut *conn, account, id).await?;
    let session = sqlx::query_scalar!("select id from sessions where profile_id = $1 and live", id as _,)
        .fetch_optional(conn)
        .await?;
    session.map_or(Ok(held), |session| Err(ChangeError::InUse(session)))
}

/// Locks the row of a profile that is in the recycle bin. Answers its name.
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

/// Puts a profile into the recycle bin, and writes `profile.deleted`.
///
/// # Errors
/// When there is none, a live session has it, or the database fails.
pub async fn delete(
    conn: &mut PgConnection,
    account: AccountId,
    id: ProfileId,
    actor: &Actor,
) -> Result<(), ChangeError> {
    let LockedProfile { name, .. } = hold_unused(&mut *conn, account, id).await?;
    sqlx::query!("update profiles set deleted_at = now(), updated_at = now() where id = $1", id as _)
        .execute(&mut *conn)
        .await?;
    Ok(record(conn, account, actor, "profile.deleted", id, json!({"name": name})).await?)
}

/// Puts all profiles of an account that is deleted into the recycle bin, from which nobody can take them any more.
///
/// # Errors
/// When the database fails.
async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    // In the order of their ids, as whoever changes many profiles does: two of them wait for each other, not both.
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

/// Takes a profile out of the recycle bin, and writes `profile.restored`.
///
/// # Errors
/// When there is none, it is not there, or the database fails.
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

/// Ends a profile in the recycle bin for good, with its snapshots, and writes `profile.purged`. Their stores are removed
/// soon.
///
/// # Errors
/// When there is none, it is not there, or the database fails.
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

/// Removes the rows of a profile, which its caller has locked, and of its snapshots. Answers how many snapshots it had.
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

/// How long profiles stay in the recycle bin (contract: retention 2, 3).
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Those that their owner may take out again.
    pub deleted: Duration,
    /// Those of accounts that are deleted: what they hold is secrets, and nobody may.
    pub of_deleted_accounts: Duration,
}

/// A profile that was in the recycle bin for long enough.
#[derive(Debug)]
pub struct ExpiredProfile {
    /// Which.
    pub profile: ProfileId,
    /// How many snapshots it has.
    pub snapshots: i64,
}

/// Profiles that were in the recycle bin for long enough, at most `limit`, beginning behind `after`.
///
/// # Errors
/// When the database fails.
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

/// Ends a profile that is due ([`due_for_purge`]), as [`purge`] does, but with nobody to tell of. Answers how many snapshots
/// it had; `None` when it is not due any more, or somebody does something with it.
///
/// # Errors
/// When the database fails.
pub async fn purge_due(conn: &mut PgConnection, retention: Retention, id: ProfileId) -> sqlx::Result<Option<u64>> {
    // Its owner may have taken it out of the recycle bin meanwhile, and put it there once more.
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

/// A profile that a session has taken.
#[derive(Debug)]
pub struct LeasedProfile {
    /// What it is called.
    pub name: String,
    /// The device that it is for.
    pub archetype: String,
    /// How many sessions have had it, with this one.
    pub generation: i64,
}

/// Gives a profile to a session that is being made in this transaction. Its row is locked meanwhile, so that of any number
/// of sessions one gets it.
///
/// # Errors
/// When there is none, a live session has it, or the database fails.
pub async fn take(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> Result<LeasedProfile, ChangeError> {
    let LockedProfile { name, archetype } = hold_unused(&mut *conn, account, id).await?;
    let generation = sqlx::query_scalar!(
        "update profiles set generation = generation + 1, last_used_at = now() where id = $1 returning generation",
        id as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(LeasedProfile { name, archetype, generation })
}

/// A profile with what it takes to read what it holds.
#[derive(Debug)]
pub struct StoredProfile {
    /// The profile.
    pub profile: Profile,
    /// What its stores are sealed with, sealed.
    pub sealed_key: Vec<u8>,
    /// What it holds, if anything was kept yet.
    pub store: Option<StoreId>,
    /// When that was so.
    pub read_at: Timestamp,
}

/// The account's profile of this id with what it holds, unless it is in the recycle bin.
///
/// # Errors
/// When the database fails.
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

/// Whether a worker that lives still keeps what the last session of the account's profile left.
///
/// # Errors
/// When the database fails.
pub async fn is_being_kept(conn: &mut PgConnection, account: AccountId, id: ProfileId) -> sqlx::Result<bool> {
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

/// Says of a store that it may be removed, unless somebody refers to it. Its caller has locked the row of its profile, or has
/// not got one.
///
/// # Errors
/// When the database fails.
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

/// Writes `profile.exported`.
///
/// # Errors
/// When the database fails.
pub async fn note_export(conn: &mut PgConnection, exported: &Profile, actor: &Actor) -> sqlx::Result<()> {
    let Profile { id, account_id: account, .. } = *exported;
    let payload = json!({"source_profile_id": id, "source_account_id": account});
    record(conn, account, actor, "profile.exported", id, payload).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_copy_is_a_name() {
        assert_eq!(ProfileName::of_another("Shop", "copy").as_str(), "Shop (copy)");
        for length in 110..=120 {
            let name = ProfileName::of_another(&"ü".repeat(length), "restored");
            assert_eq!(ProfileName::parse(name.as_str()), Ok(name));
        }
    }

    #[test]
    fn a_name_has_a_length_and_shows() {
        for good in ["x", "  Zürich, first\u{a0}run ", &"ü".repeat(120)] {
            assert!(ProfileName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "   ", "a\nb", "a\u{7}", &"ü".repeat(121)] {
            assert!(ProfileName::parse(bad).is_err(), "{bad}");
        }
    }
}
