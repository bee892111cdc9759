//! Size of every table, and of the stored data of accounts, beside their bounds (contract: staff 28).

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use sqlx::PgConnection;

use crate::area::Bound;
use crate::areas;

#[derive(Debug)]
pub struct TableSize {
    pub table: String,
    /// With its indexes.
    pub bytes: i64,
    /// The database's estimate.
    pub rows: i64,
    /// `None` for tables of libraries.
    pub bound: Option<Bound>,
}

/// The largest first.
pub async fn tables(conn: &mut PgConnection) -> sqlx::Result<Vec<TableSize>> {
    let rows = sqlx::query!(
        r#"select case n.nspname when 'public' then '' else n.nspname || '.' end || c.relname as "table!",
                  pg_total_relation_size(c.oid) as "bytes!", greatest(c.reltuples, 0)::bigint as "rows!"
           from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where c.relkind = 'r' and n.nspname in ('public', 'apalis') order by 2 desc, 1"#
    )
    .fetch_all(conn)
    .await?;
    let bound_of = |table: &str| areas::bounds().find(|(bounded, _)| *bounded == table).map(|(_, bound)| bound);
    Ok(rows
        .into_iter()
        .map(|row| TableSize { bound: bound_of(&row.table), table: row.table, bytes: row.bytes, rows: row.rows })
        .collect())
}

#[derive(Debug)]
pub struct AccountStorage {
    pub id: AccountId,
    pub email: String,
    pub tier: Tier,
    pub profiles: i64,
    pub profile_bytes: i64,
    pub recordings: i64,
    pub recording_bytes: i64,
}

/// The accounts that store the most.
pub async fn by_account(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<AccountStorage>> {
    sqlx::query_as!(
        AccountStorage,
        r#"with stored as (
               select p.account_id, s.profile_id, s.size_bytes, 0::bigint as recordings, 0::bigint as recording_bytes
               from profile_stores s join profiles p on p.id = s.profile_id where s.removable_at is null
               union all
               select account_id, null, 0, 1, bytes from recordings where removable_at is null
           ), totals as (
               select account_id, count(distinct profile_id) as profiles, sum(size_bytes)::bigint as profile_bytes,
                      sum(recordings)::bigint as recordings, sum(recording_bytes)::bigint as recording_bytes
               from stored group by account_id
           )
           select a.id, a.email, a.tier as "tier: Tier", t.profiles as "profiles!", t.profile_bytes as "profile_bytes!",
                  t.recordings as "recordings!", t.recording_bytes as "recording_bytes!"
           from totals t join accounts a on a.id = t.account_id
           order by t.profile_bytes + t.recording_bytes desc, a.id limit $1"#,
        limit,
    )
    .fetch_all(conn)
    .await
}
