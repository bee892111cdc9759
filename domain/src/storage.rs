//! Size of every table beside its bound (contract: staff 28).

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
