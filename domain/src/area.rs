//! Declaration of an area.
//!
//! Code that works on all areas reads the list in [`crate::areas`], so a new area needs no change elsewhere.

use futures_util::future::BoxFuture;
use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::Actor;
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
    pub mails: &'static [&'static str],
    pub metrics: &'static [&'static dyn MetricDeclaration],
    /// Jobs that workers run for the area at fixed intervals.
    pub scheduled_jobs: &'static [ScheduledJob],
    /// Functions that delete the area's data of an account that is being deleted.
    pub on_account_delete: &'static [OnAccountDelete],
    /// Run after the account's sessions have ended, because the data serves to report their end.
    pub on_account_delete_last: &'static [OnAccountDelete],
    /// A rotation of the deployment's key reseals these columns and no others.
    pub sealed: &'static [Sealed],
}

impl Area {
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
            scheduled_jobs: &[],
            on_account_delete: &[],
            on_account_delete_last: &[],
            sealed: &[],
        }
    }

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

/// Purges with the same name run together.
#[derive(Debug, Clone, Copy)]
pub struct Purge {
    pub arm: &'static str,
    pub table: &'static str,
    pub purge: PurgeRows,
    /// Function that counts the remaining rows past their term, for tables whose backlog is reported.
    pub left: Option<CountRows>,
}

impl Purge {
    #[must_use]
    pub const fn new(arm: &'static str, table: &'static str, purge: PurgeRows) -> Self {
        Self { arm, table, purge, left: None }
    }

    #[must_use]
    pub const fn counting(self, left: CountRows) -> Self {
        Self { left: Some(left), ..self }
    }
}

/// Returns the number of deleted rows, which is 0 when no row is due or another process deletes them.
pub type PurgeRows = for<'a> fn(&'a mut PgConnection, &'a Terms, i64) -> BoxFuture<'a, sqlx::Result<u64>>;

pub type CountRows = for<'a> fn(&'a mut PgConnection, &'a Terms) -> BoxFuture<'a, sqlx::Result<u64>>;

/// Runs in the transaction that deletes the account, whose row is locked. The actor is the one that deletes the
/// account.
pub type OnAccountDelete = for<'a> fn(&'a mut PgConnection, AccountId, &'a Actor) -> BoxFuture<'a, sqlx::Result<()>>;

/// The worker crate implements it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledJob {
    pub name: &'static str,
    pub period: i32,
}

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
    /// Without a key of the deployment, a key in `server_secrets` seals the columns ([`crate::database::vault`]).
    pub has_shared_key: bool,
    /// Columns, each with the owner its secrets are bound to.
    pub columns: &'static [(&'static str, SecretOwner)],
}

#[derive(Debug, Clone)]
pub struct RowKey {
    pub id: Uuid,
    pub part: Option<String>,
}

/// Returns the owner that the vault binds a row's secret to.
pub type SecretOwner = fn(&RowKey) -> String;
