//! Snapshots: what a profile held at one moment. They share the profile's store, and so cost nothing until that is replaced.
//! A profile in the recycle bin hides its snapshots.

use sqlx::PgConnection;

use super::{ChangeError, Kept, hold, release};
use crate::ids::{AccountId, ProfileId, SnapshotId};
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

/// Remembers what a profile holds now.
///
/// # Errors
/// When the account has no such profile, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    profile: ProfileId,
    label: Option<&str>,
) -> Result<Snapshot, ChangeError> {
    hold(&mut *conn, account, profile).await?;
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
pub async fn find_kept(conn: &mut PgConnection, account: AccountId, id: SnapshotId) -> sqlx::Result<Option<Kept>> {
    let row = sqlx::query!(
        "select profile_id, store_id from profile_snapshots where id = $1 and account_id = $2",
        id as _,
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let kept = super::find_kept(conn, account, row.profile_id).await?;
    Ok(kept.map(|kept| Kept { store: row.store_id, ..kept }))
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
