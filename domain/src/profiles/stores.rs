//! Rows of stores, their bytes if they are kept in the database, and the keys that seal them.
//!
//! Only one profile and its snapshots refer to a store, under the lock of the profile's row. The row of a store is
//! inserted before its bytes are written and deleted after they are removed, so that no bytes are left without a row.

use futures_util::{Stream, TryStreamExt as _};
use kitfleet_types::ids::{AccountId, ProfileId, StoreId};
use kitfleet_types::limits::Limits;
use sqlx::PgConnection;

use super::Content;
use crate::accounts;

/// Without a reference, the store is removed after an hour.
pub async fn begin(conn: &mut PgConnection, id: StoreId, profile: ProfileId) -> sqlx::Result<()> {
    sqlx::query!("insert into profile_stores (id, profile_id) values ($1, $2)", id as _, profile as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns false when writing took so long that the store was removed.
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

/// Keeps a store for a reference added in this transaction. Returns false when the store was removed.
pub async fn keep(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<bool> {
    let kept =
        sqlx::query!("update profile_stores set removable_at = null where id = $1", id as _).execute(conn).await?;
    Ok(kept.rows_affected() == 1)
}

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

/// Bytes that become free when the profile no longer refers to the store: 0 if a snapshot does.
pub async fn bytes_of_profile_alone(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<i64> {
    let bytes = sqlx::query_scalar!(
        "select size_bytes from profile_stores
         where id = $1 and not exists (select from profile_snapshots where store_id = $1)",
        id as _,
    );
    Ok(bytes.fetch_optional(conn).await?.unwrap_or_default())
}

/// Keeps a store until the transaction ends, and turns off the timeout of idle transactions: reading takes as long as
/// the client takes to receive the bytes. Returns false when the store was removed.
pub async fn hold(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<bool> {
    let held = sqlx::query_scalar!(
        "select set_config('idle_in_transaction_session_timeout', '0', true) from profile_stores where id = $1 for key share",
        id as _,
    );
    Ok(held.fetch_optional(conn).await?.is_some())
}

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

/// Streams a store's bytes, as fast as they are read.
pub fn chunks(conn: &mut PgConnection, id: StoreId) -> impl Stream<Item = sqlx::Result<Vec<u8>>> + Send {
    sqlx::query!("select bytes from profile_store_chunks where store_id = $1 order by place", id as _)
        .fetch(conn)
        .map_ok(|row| row.bytes)
}

/// The store that has been removable for longest; its row is locked until the transaction ends. Skips stores that
/// another transaction is removing or reading.
pub async fn take_removable(conn: &mut PgConnection) -> sqlx::Result<Option<StoreId>> {
    sqlx::query_scalar!(
        "select id from profile_stores where removable_at <= now()
         order by removable_at limit 1 for update skip locked",
    )
    .fetch_optional(conn)
    .await
}

pub async fn take_if_removable(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<Option<StoreId>> {
    sqlx::query_scalar!(
        "select id from profile_stores where id = $1 and removable_at <= now() for update skip locked",
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Deletes the row of a store, with its bytes if they are kept in the database.
pub async fn delete(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<()> {
    sqlx::query!("delete from profile_stores where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// Postpones the removal of a store by 5 min after a failure, so that other stores come first.
pub async fn postpone_removal(conn: &mut PgConnection, id: StoreId) -> sqlx::Result<()> {
    sqlx::query!(
        "update profile_stores set removable_at = now() + interval '5 minutes' where id = $1 and removable_at is not null",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug)]
pub enum Replaced {
    Now {
        /// No longer needed unless a snapshot refers to it.
        before: Option<StoreId>,
    },
    Before,
    /// A later session saved first, or the profile was purged. The new store is not needed.
    Superseded,
    /// The new store is not needed.
    NoRoom,
    Removed,
}

/// Makes a store the content of a profile, for the session that leased the profile as this `generation`.
pub async fn replace(
    conn: &mut PgConnection,
    account: AccountId,
    profile: ProfileId,
    generation: i64,
    Content { store, size_bytes }: Content,
    limits: &Limits,
) -> sqlx::Result<Replaced> {
    // The lock on the account makes concurrent additions count each other. A deleted account needs no lock.
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

#[derive(Debug)]
pub struct SealedKey {
    pub profile: ProfileId,
    pub sealed: Vec<u8>,
}

/// Includes the recycle bin.
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

/// The same key, sealed with another.
pub async fn reseal_key(conn: &mut PgConnection, profile: ProfileId, sealed: &[u8]) -> sqlx::Result<()> {
    sqlx::query!("update profiles set sealed_key = $2 where id = $1", profile as _, sealed).execute(conn).await?;
    Ok(())
}
