//! Reseals all secrets with the deployment's current key, after which earlier keys can be removed.
//!
//! Each batch is a separate transaction, and the first bytes of a secret show which key sealed it, so the next run
//! continues an interrupted one.

use std::time::Duration;

use serde::Serialize;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::area::{RowKey, Sealed, SecretOwner};
use crate::vault::Vault;
use crate::{areas, database};

const BATCH_ROWS: i64 = 500;
/// A larger secret is a batch of its own.
const BATCH_BYTES: i64 = 16 * 1024 * 1024;
/// Passes over a column, for rows that other transactions have locked.
const PASSES: u32 = 10;
const PAUSE_BETWEEN_PASSES: Duration = Duration::from_secs(1);
const NAMED_UNREADABLE: usize = 20;

#[derive(Debug, Clone, Serialize)]
pub struct ResealedKind {
    /// See [`Sealed::kind`].
    pub kind: &'static str,
    /// Secrets that this run sealed with the current key.
    pub resealed: u64,
    /// Secrets that the current key had sealed before this run.
    pub already: u64,
    /// They are not changed.
    pub unreadable: u64,
    /// Their rows remained locked by other transactions.
    pub locked: u64,
    /// Owners of the unreadable secrets, at most 20.
    pub unreadable_ids: Vec<String>,
}

/// Calls `progress` after each batch.
///
/// After an error, batches committed before remain.
pub async fn reseal_all(
    conn: &mut PgConnection,
    configured: &Vault,
    mut progress: impl FnMut(&ResealedKind),
) -> sqlx::Result<Vec<ResealedKind>> {
    let mut kinds = Vec::new();
    for sealed in areas::sealed() {
        let vault = if sealed.has_shared_key {
            database::vault(&mut *conn, sealed.purpose, Some(configured)).await?
        } else {
            configured.clone()
        };
        let mut counts = ResealedKind {
            kind: sealed.kind,
            resealed: 0,
            already: 0,
            unreadable: 0,
            locked: 0,
            unreadable_ids: Vec::new(),
        };
        for &(name, owner) in sealed.columns {
            Column { sealed, name, owner, vault: &vault }.reseal(conn, &mut counts, &mut progress).await?;
        }
        kinds.push(counts);
    }
    Ok(kinds)
}

struct Column<'a> {
    sealed: &'static Sealed,
    name: &'static str,
    owner: SecretOwner,
    vault: &'a Vault,
}

struct Batch {
    resealed: u64,
    unreadable: Vec<String>,
    last: RowKey,
}

impl Column<'_> {
    async fn reseal(
        &self,
        conn: &mut PgConnection,
        counts: &mut ResealedKind,
        progress: &mut impl FnMut(&ResealedKind),
    ) -> sqlx::Result<()> {
        counts.already += self.count(&mut *conn, "=").await?;
        for pass in 1..=PASSES {
            let (mut after, mut unreadable, mut named) = (self.first_key(), 0, Vec::new());
            while let Some(batch) = self.reseal_batch(&mut *conn, &after).await? {
                after = batch.last;
                counts.resealed += batch.resealed;
                unreadable += u64::try_from(batch.unreadable.len()).unwrap_or(u64::MAX);
                named.extend(batch.unreadable);
                named.truncate(NAMED_UNREADABLE);
                progress(counts);
            }
            let locked = self.count(&mut *conn, "<>").await?.saturating_sub(unreadable);
            if locked == 0 || pass == PASSES {
                counts.unreadable += unreadable;
                counts.locked += locked;
                counts.unreadable_ids.extend(named);
                counts.unreadable_ids.truncate(NAMED_UNREADABLE);
                return Ok(());
            }
            tokio::time::sleep(PAUSE_BETWEEN_PASSES).await;
        }
        Ok(())
    }

    fn first_key(&self) -> RowKey {
        RowKey { id: Uuid::nil(), part: self.sealed.part.map(|_| String::new()) }
    }

    async fn count(&self, conn: &mut PgConnection, comparison: &str) -> sqlx::Result<u64> {
        let (Self { name, .. }, Sealed { table, .. }) = (self, self.sealed);
        let select = format!("select count(*) from {table} where substr({name}, 1, 4) {comparison} $1");
        let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(select)).bind(self.vault.present_key_id());
        Ok(u64::try_from(count.fetch_one(conn).await?).unwrap_or_default())
    }

    /// `None` when the only remaining rows are locked by other transactions.
    ///
    /// Locked rows are skipped, so that this transaction and another cannot wait for each other. The row lock prevents
    /// a concurrent change from being overwritten.
    async fn reseal_batch(&self, conn: &mut PgConnection, after: &RowKey) -> sqlx::Result<Option<Batch>> {
        let mut tx = conn.begin().await?;
        let rows = self.lock_batch(&mut tx, after).await?;
        let Some((id, part, _)) = rows.last() else { return Ok(None) };
        let last = RowKey { id: *id, part: part.clone() };
        let (mut ids, mut parts, mut resealed, mut unreadable) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, part, secret) in rows {
            let key = RowKey { id, part };
            let owner = (self.owner)(&key);
            match self.vault.reseal(self.sealed.purpose, &owner, &secret) {
                Ok(secret) => {
                    ids.push(key.id);
                    parts.push(key.part);
                    resealed.push(secret);
                }
                Err(_) => unreadable.push(owner),
            }
        }
        let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        self.update(&mut tx, ids, parts, resealed).await?;
        tx.commit().await?;
        Ok(Some(Batch { resealed: count, unreadable, last }))
    }

    async fn lock_batch(
        &self,
        conn: &mut PgConnection,
        after: &RowKey,
    ) -> sqlx::Result<Vec<(Uuid, Option<String>, Vec<u8>)>> {
        let (Self { name, .. }, Sealed { table, id, part, .. }) = (self, self.sealed);
        let (selected, after_key, order) = match part {
            Some(part) => (format!("{part} as part"), format!("({id}, {part}) > ($2, $5)"), format!("{id}, {part}")),
            None => ("null::text as part".to_owned(), format!("{id} > $2"), (*id).to_owned()),
        };
        let select = format!(
            "select id, part, secret from (
                 select id, part, secret,
                        sum(octet_length(secret)) over (order by id, part) - octet_length(secret) as bytes_before
                 from (select {id} as id, {selected}, {name} as secret from {table}
                       where substr({name}, 1, 4) <> $1 and {after_key}
                       order by {order} limit $3 for no key update skip locked) batch
             ) summed where bytes_before < $4 order by id, part"
        );
        let select = sqlx::query_as(AssertSqlSafe(select))
            .bind(self.vault.present_key_id())
            .bind(after.id)
            .bind(BATCH_ROWS)
            .bind(BATCH_BYTES);
        match &after.part {
            Some(part) => select.bind(part.clone()).fetch_all(conn).await,
            None => select.fetch_all(conn).await,
        }
    }

    async fn update(
        &self,
        conn: &mut PgConnection,
        ids: Vec<Uuid>,
        parts: Vec<Option<String>>,
        secrets: Vec<Vec<u8>>,
    ) -> sqlx::Result<()> {
        let (Self { name, .. }, Sealed { table, id, part, .. }) = (self, self.sealed);
        let is_part = part.map(|part| format!("and sealed.{part} = batch.part")).unwrap_or_default();
        let update = format!(
            "update {table} as sealed set {name} = batch.secret
             from unnest($1::uuid[], $2::text[], $3::bytea[]) as batch (id, part, secret)
             where sealed.{id} = batch.id {is_part}"
        );
        sqlx::query(AssertSqlSafe(update)).bind(ids).bind(parts).bind(secrets).execute(conn).await?;
        Ok(())
    }
}
