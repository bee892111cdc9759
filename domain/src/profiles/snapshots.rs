//! A snapshot shares the store of its profile, so it uses no space until the profile's content is replaced. The
//! snapshots of a profile in the recycle bin are hidden.

use kitfleet_types::ids::{AccountId, ProfileId, SnapshotId};
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;

use super::{ChangeError, StoredProfile, TooManyBytes, hold, release, require_bytes};
use crate::accounts;

#[derive(Debug, Clone)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub profile_id: ProfileId,
    pub label: Option<String>,
    pub size_bytes: i64,
    pub created_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Profile(#[from] ChangeError),
    #[error("the profile has {current} snapshots; the limit is {limit}")]
    CapReached { current: i64, limit: i64 },
    #[error(transparent)]
    Bytes(#[from] TooManyBytes),
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Profile(error.into())
    }
}

/// The snapshot uses no space yet, but the next content of the profile then needs space for all its bytes: the account
/// must have room for at least one byte.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    profile: ProfileId,
    label: Option<&str>,
    limits: &Limits,
) -> Result<Snapshot, CreateError> {
    // The lock on the account makes concurrent additions count each other. As everywhere, it is taken before the lock
    // on the profile.
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
