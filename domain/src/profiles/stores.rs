//! Rows of stores, of their bytes where the database keeps those, and of the keys that seal them.
//!
//! A store is sealed for one profile, and only that and its snapshots refer to it, under the lock of the profile's row. Its own
//! row is there before its bytes are, and stays until they are gone, so that none are ever forgotten.

use futures_util::{Stream, TryStreamExt as _};
use sqlx::PgConnection;

use super::Content;
use crate::accounts;
use crate::ids::{AccountId, ProfileId, StoreId};
use crate::limits::Limits;

/// Writes the row of a store that is about to be written. It may be removed in an hour, unless somebody refers to it by then.
///
/// # Errors
/// When the database fails.
pub async fn begin(conn: &mut PgConnection, id: StoreId, profile: ProfileId) -> sqlx::Result<()> {
    sqlx::query!("insert into profile_stores (id, profile_id) values ($1, $2)", id as _, profile as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// All of a store's bytes are where they are kept. `false` when it took so long that it was removed.
///
/// # Errors
/// When the database fails.
pub async fn finish(conn: &mut PgConnection, id: StoreId, size_bytes: i64) -> sqlx::Result<bool> {
    let finished = sqlx::query!(
        "update profile_stores set size_bytes = $2, removable_at = now() + interval '1 hour' where id = $1",
        id as _,
        size_bytes,
    )
    .execute(conn)
    .await?;
    Ok(finished.rows_affected() == 1)
}

/// Keeps a store for whoever refers to it in this transaction. `false` when it was removed, and nobody can.
///
/// # Errors
/// When the database fails.
pub async fn keep(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<bool> {
    let kept =
        sqlx::query!("update profile_stores set removable_at = null where id = $1", id as _).execute(conn).await?;
    Ok(kept.rows_affected() == 1)
}

/// Bytes of all stores, sealed, that the account's profiles and their snapshots refer to.
///
/// # Errors
/// When the database fails.
pub async fn bytes_of(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select coalesce(sum(s.size_bytes), 0)::bigint as "bytes!"
           from profile_stores s join profiles p on p.id = s.profile_id
           where p.account_id = $1 and s.removable_at is null"#,
        account as _,
    )
    .fetch_one(conn)
    .await
}

/// Bytes of a store, sealed, that no snapshot refers to: the room that there is when its profile does not either.
///
/// # Errors
/// When the database fails.
pub async fn bytes_of_profile_alone(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<i64> {
    let bytes = sqlx::query_scalar!(
        "select size_bytes from profile_stores
         where id = $1 and not exists (select from profile_snapshots where store_id = $1)",
        id as _,
    );
    Ok(bytes.fetch_optional(conn).await?.unwrap_or_default())
}

/// Keeps a store from being removed until the transaction ends, however long nothing else happens in that: the bytes may come
/// from elsewhere, as fast as somebody takes them. `false` when it was removed.
///
/// # Errors
/// When the database fails.
pub async fn hold(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<bool> {
    let held = sqlx::query_scalar!(
        "select set_config('idle_in_transaction_session_timeout', '0', true) from profile_stores where id = $1 for key share",
        id as _,
    );
    Ok(held.fetch_optional(conn).await?.is_some())
}

/// Writes some of a store's bytes.
///
/// # Errors
/// When the database fails.
pub async fn write_chunk(conn: &mut PgConnection, id: StoreId, place: i32, bytes: &[u8]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into profile_store_chunks (store_id, place, bytes) values ($1, $2, $3)",
        id as _,
        place,
        bytes,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A store's bytes, as fast as they are taken.
pub fn chunks(conn: &mut PgConnection, id: StoreId) -> impl Stream<Item = sqlx::Result<Vec<u8>>> + Send {
    sqlx::query!("select bytes from profile_store_chunks where store_id = $1 order by place", id as _)
        .fetch(conn)
        .map_ok(|row| row.bytes)
}

/// A store that may be removed and whose row is locked until the transaction ends: the one that could be for the longest
/// time, of those that nobody else removes or reads.
///
/// # Errors
/// When the database fails.
pub async fn take_removable(conn: &mut PgConnection) -> sqlx::Result<Option<StoreId>> {
    sqlx::query_scalar!(
        "select id from profile_stores where removable_at <= now()
         order by removable_at limit 1 for update skip locked",
    )
    .fetch_optional(conn)
    .await
}

/// The same of one store, if it may be removed now.
///
/// # Errors
/// When the database fails.
pub async fn take_if_removable(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<Option<StoreId>> {
    sqlx::query_scalar!(
        "select id from profile_stores where id = $1 and removable_at <= now() for update skip locked",
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Removes the row of a store, and its bytes where the database keeps those.
///
/// # Errors
/// When somebody refers to it, or the database fails.
pub async fn delete(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<()> {
    sqlx::query!("delete from profile_stores where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// Has a store that cannot be removed now tried again in some minutes, so that others come first.
///
/// # Errors
/// When the database fails.
pub async fn postpone_removal(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<()> {
    sqlx::query!(
        "update profile_stores set removable_at = now() + interval '5 minutes' where id = $1 and removable_at is not null",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// What became of a new store that was to be what a profile holds.
#[derive(Debug)]
pub enum Replaced {
    /// It is now.
    Now {
        /// What the profile held before, which nobody needs any more, unless a snapshot does.
        before: Option<StoreId>,
    },
    /// It was already.
    Before,
    /// A session that came later was faster, or the profile was purged. Nobody needs the store.
    Superseded,
    /// The account's profiles hold as much as they may. Nobody needs the store.
    NoRoom,
    /// It took so long that it was removed.
    Removed,
}

/// Makes a store what a profile holds, on behalf of the session that had the profile as the one of this `generation`.
///
/// # Errors
/// When the database fails.
pub async fn replace(
    conn: &mut PgConnection,
    account: AccountId,
    profile: ProfileId,
    generation: i64,
    Content { store, size_bytes }: Content,
    limits: &Limits,
) -> sqlx::Result<Replaced> {
    // Those who add to what the account keeps count each other. Nobody counts for one that is deleted.
    accounts::lock(&mut *conn, account).await?;
    let held = sqlx::query!("select store_id, stored_generation from profiles where id = $1 for update", profile as _,)
        .fetch_optional(&mut *conn)
        .await?;
    let before = match held {
        Some(held) if held.store_id == Some(store) => return Ok(Replaced::Before),
        Some(held) if held.stored_generation < generation => held.store_id,
        _ => {
            super::release(conn, store).await?;
            return Ok(Replaced::Superseded);
        }
    };
    let freed = match before {
        Some(before) => bytes_of_profile_alone(&mut *conn, before).await?,
        None => 0,
    };
    if super::require_bytes(&mut *conn, account, size_bytes - freed, limits).await?.is_err() {
        super::release(conn, store).await?;
        return Ok(Replaced::NoRoom);
    }
    if !keep(&mut *conn, store).await? {
        return Ok(Replaced::Removed);
    }
    sqlx::query!(
        "update profiles set store_id = $2, size_bytes = $3, stored_generation = $4, updated_at = now() where id = $1",
        profile as _,
        store as _,
        size_bytes,
        generation,
    )
    .execute(&mut *conn)
    .await?;
    if let Some(before) = before {
        super::release(conn, before).await?;
    }
    Ok(Replaced::Now { before })
}

/// A profile's key, sealed with one of the deployment's.
#[derive(Debug)]
pub struct SealedKey {
    /// Whose it is.
    pub profile: ProfileId,
    /// The key.
    pub sealed: Vec<u8>,
}

/// The keys of profiles, those in the recycle bin too, at most `limit`, beginning behind `after`.
///
/// # Errors
/// When the database fails.
pub async fn sealed_keys(
    conn: &mut PgConnection,
    after: Option<ProfileId>,
    limit: i64,
) -> sqlx::Result<Vec<SealedKey>> {
    sqlx::query_as!(
        SealedKey,
        "select id as profile, sealed_key as sealed from profiles
         where $1::uuid is null or id > $1 order by id limit $2",
        after as _,
        limit,
    )
    .fetch_all(conn)
    .await
}

/// The same key, sealed anew.
///
/// # Errors
/// When the database fails.
pub async fn reseal_key(conn: &mut PgConnection, profile: ProfileId, sealed: &[u8]) -> sqlx::Result<()> {
    sqlx::query!("update profiles set sealed_key = $2 where id = $1", profile as _, sealed).execute(conn).await?;
    Ok(())
}
