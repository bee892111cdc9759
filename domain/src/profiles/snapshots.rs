//! Snapshots: what a profile held at one moment. They share the profile's store, and so cost nothing until that is replaced.
//! A profile in the recycle bin hides its snapshots.

use sqlx::PgConnection;

use super::{ChangeError, StoredProfile, TooManyBytes, hold, release, require_bytes};
use crate::accounts;
use crate::ids::{AccountId, ProfileId, SnapshotId};
use crate::limits::Limits;
use crate::timestamp::Timestamp;

/// A snapshot, as customers see it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// Of which profile.
    pub profile_id: ProfileId,
    /// Its owner's words.
    pub label: Option<String>,
    /// The size of what it holds, sealed.
    pub size_bytes: i64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Why there is no new snapshot.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The account has no such profile, or the database failed.
    #[error(transparent)]
    Profile(#[from] ChangeError),
    /// The profile has as many as it may have.
    #[error("the profile has {current} snapshots; the limit is {limit}")]
    CapReached {
        /// Now.
        current: i64,
        /// Allowed.
        limit: i64,
    },
    /// What the account's profiles hold is as much as it may be.
    #[error(transparent)]
    Bytes(#[from] TooManyBytes),
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Profile(error.into())
    }
}

/// Remembers what a profile holds now. It costs nothing yet, and what the profile holds next then costs all of its bytes: there
/// has to be room for some.
///
/// # Errors
/// When the account has no such profile, or as much as it may have, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    profile: ProfileId,
    label: Option<&str>,
    limits: &Limits,
) -> Result<Snapshot, CreateError> {
    // Those who add to what the account keeps count each other; this comes before the profile's lock, as everywhere.
    accounts::lock(&mut *conn, account).await?.ok_or(ChangeError::NoProfile)?;
    hold(&mut *conn, account, profile).await?;
    let current = sqlx::query_scalar!(
        r#"select count(*) as "count!" from profile_snapshots where profile_id = $1"#,
        profile as _
    )
    .fetch_one(&mut *conn)
    .await?;
    let limit = i64::from(limits.snapshots_per_profile);
    if current >= limit {
        return Err(CreateError::CapReached { current, limit });
    }
    require_bytes(&mut *conn, account, 1, limits).await??;
    let snapshot = sqlx::query_as!(
        Snapshot,
        "insert into profile_snapshots (id, profile_id, account_id, store_id, label, size_bytes)
         select $1, id, account_id, store_id, $3, size_bytes from profiles where id = $2
         returning id, profile_id, label, size_bytes, created_at",
        SnapshotId::generate() as _,
        profile as _,
        label,
    );
    Ok(snapshot.fetch_one(conn).await?)
}

/// The profile's snapshots, newest first, at most `limit`, beginning behind `after`.
///
/// # Errors
/// When the database fails.
pub async fn list(
    conn: &mut PgConnection,
    profile: ProfileId,
    after: Option<SnapshotId>,
    limit: i64,
) -> sqlx::Result<Vec<Snapshot>> {
    sqlx::query_as!(
        Snapshot,
        "select id, profile_id, label, size_bytes, created_at from profile_snapshots
         where profile_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3",
        profile as _,
        after as _,
        limit,
    )
    .fetch_all(conn)
    .await
}

/// The profile that a snapshot of the account's is of, with what it held then instead of what it holds now.
///
/// # Errors
/// When the database fails.
pub async fn find_kept(
    conn: &mut PgConnection,
    account: AccountId,
    id: SnapshotId,
) -> sqlx::Result<Option<StoredProfile>> {
    let row = sqlx::query!(
        "select profile_id, store_id from profile_snapshots where id = $1 and account_id = $2",
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let kept = super::find_kept(conn, account, row.profile_id).await?;
    Ok(kept.map(|kept| StoredProfile { store: row.store_id, ..kept }))
}

/// Forgets a snapshot.
///
/// # Errors
/// When the account has no such snapshot, or the database fails.
pub async fn delete(conn: &mut PgConnection, account: AccountId, id: SnapshotId) -> Result<(), ChangeError> {
    let profile = sqlx::query_scalar!(
        "select profile_id from profile_snapshots where id = $1 and account_id = $2",
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(ChangeError::NoProfile)?;
    hold(&mut *conn, account, profile).await?;
    let store = sqlx::query_scalar!("delete from profile_snapshots where id = $1 returning store_id", id as _)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(ChangeError::NoProfile)?;
    if let Some(store) = store {
        release(conn, store).await?;
    }
    Ok(())
}
