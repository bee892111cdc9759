//! Profiles (interface, "Profiles and launch"; decisions D8).

pub mod keeping;
pub mod stores;

use sqlx::PgConnection;

use crate::ids::StoreId;

/// Says of a store of a profile, whose row its caller has locked, that it may be removed, unless somebody refers to it.
async fn release(conn: &mut PgConnection, store: StoreId) -> sqlx::Result<()> {
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
