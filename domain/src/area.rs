//! Declaration of an area: its tables and the retention of their rows, the mails it sends, its metrics and scheduled
//! jobs, and the data it deletes with an account.
//!
//! Each area has an [`Area`] beside its code, and [`crate::areas`] lists them. Code that works on all areas reads that
//! list, so a new area needs no change elsewhere.

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::Actor;
use crate::ids::AccountId;
use crate::metrics::MetricDeclaration;
use crate::retention::Terms;

/// An area of the domain. Only its code writes its tables.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    pub name: &'static str,
    /// Tables without a retention term, each with the reason (contract: retention 1).
    pub kept: &'static [(&'static str, &'static str)],
    pub purges: &'static [Purge],
    /// Bound of each table's size (contract: limits 8). `docs/quotas.md` has the same list.
    pub bounds: &'static [(&'static str, Bound)],
    /// Actions the area writes to the audit log (contract: audit-log 11).
    pub actions: &'static [&'static str],
    /// Mails the area sends ([`crate::emails::Template`]).
    pub mails: &'static [&'static str],
    /// Metrics that the area's code emits.
    pub metrics: &'static [&'static dyn MetricDeclaration],
    /// Jobs that workers run for the area at fixed intervals.
    pub chains: &'static [ScheduledJob],
    /// Functions that delete the area's data of an account that is being deleted.
    pub losses: &'static [OnAccountDelete],
    /// Functions that delete data which must remain until the account's sessions have ended, because it serves to
    /// report their end.
    pub last_losses: &'static [OnAccountDelete],
    /// Columns sealed by the vault. A rotation of the deployment's key reseals these and no others.
    pub sealed: &'static [Sealed],
}

impl Area {
    /// Creates an area without tables, mails, metrics or jobs.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            kept: &[],
            purges: &[],
            bounds: &[],
            actions: &[],
            mails: &[],
            metrics: &[],
            chains: &[],
            losses: &[],
            last_losses: &[],
            sealed: &[],
        }
    }

    /// Returns the tables that only this area writes.
    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        let purged = self.purges.iter().map(|purge| purge.table);
        purged.chain(self.kept.iter().map(|(table, _)| *table))
    }
}

/// Limit that keeps a table from growing indefinitely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Number of rows or bytes that one account can have.
    Account(&'static str),
    /// Term after which each row is deleted.
    Term(&'static str),
    /// The rows are not created by customers, or there is one for each account.
    Operator(&'static str),
}

/// Purge of the rows of a table that have passed their term.
#[derive(Debug, Clone, Copy)]
pub struct Purge {
    /// Name in metrics and for operators. Purges with the same name run together.
    pub arm: &'static str,
    pub table: &'static str,
    pub purge: PurgeRows,
    /// Function that counts the remaining rows past their term, for tables whose backlog is reported.
    pub left: Option<CountRows>,
}

impl Purge {
    /// Creates a purge of `table` in the group `arm`.
    #[must_use]
    pub const fn new(arm: &'static str, table: &'static str, purge: PurgeRows) -> Self {
        Self { arm, table, purge, left: None }
    }

    /// Adds a function that counts the remaining rows past their term.
    #[must_use]
    pub const fn counting(self, left: CountRows) -> Self {
        Self { left: Some(left), ..self }
    }
}

/// Deletes rows past their term, up to a limit. Returns the number of deleted rows, which is 0 when no row is due or
/// another process deletes them.
pub type PurgeRows = for<'a> fn(&'a mut PgConnection, &'a Terms, i64) -> BoxFuture<'a, sqlx::Result<u64>>;

/// Counts rows past their term.
pub type CountRows = for<'a> fn(&'a mut PgConnection, &'a Terms) -> BoxFuture<'a, sqlx::Result<u64>>;

/// Deletes data of an account in the transaction that deletes the account, whose row is locked. The actor is the one
/// that deletes the account.
pub type OnAccountDelete = for<'a> fn(&'a mut PgConnection, AccountId, &'a Actor) -> BoxFuture<'a, sqlx::Result<()>>;

/// Job that one of the workers runs at a fixed interval. The worker crate implements it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledJob {
    pub name: &'static str,
    /// Interval between runs, in seconds.
    pub period: i32,
}

/// Sealed columns of one table.
#[derive(Debug, Clone, Copy)]
pub struct Sealed {
    /// Kind of secret, as `kitfleet key rotate-sealing` reports it.
    pub kind: &'static str,
    pub table: &'static str,
    /// Column of the primary key that is a UUID.
    pub id: &'static str,
    /// Second column of the primary key, of type text, when the key has two columns.
    pub part: Option<&'static str>,
    /// Purpose that the vault derives a key for.
    pub purpose: &'static str,
    /// True when a key in `server_secrets` seals the columns if the deployment has no key of its own
    /// ([`crate::database::vault`]).
    pub has_shared_key: bool,
    /// Columns, each with the owner its secrets are bound to.
    pub columns: &'static [(&'static str, SecretOwner)],
}

/// Primary key of a row with a sealed column.
#[derive(Debug, Clone)]
pub struct RowKey {
    /// Value of [`Sealed::id`].
    pub id: Uuid,
    /// Value of [`Sealed::part`].
    pub part: Option<String>,
}

/// Returns the owner that the vault binds a row's secret to.
pub type SecretOwner = fn(&RowKey) -> String;
