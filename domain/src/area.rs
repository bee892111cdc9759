//! What an area says of itself, in one place: which tables are its own and what becomes of their rows, what it tells others, and
//! what is done for it by the clock and at an account's end.
//!
//! Each area has an [`Area`] beside its code, and [`crate::areas`] lists them. What is collected there holds for an area that comes
//! without anybody else being told of it.

use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::Actor;
use crate::ids::AccountId;
use crate::retention::Terms;

/// An area. No other writes its tables.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    /// Its module's name.
    pub name: &'static str,
    /// Its tables that have no term, and why (contract: retention 1).
    pub kept: &'static [(&'static str, &'static str)],
    /// Its other tables, and what of them is deleted when.
    pub purges: &'static [Purge],
    /// The bound of each of its tables (contract: limits 8). `docs/quotas.md` has the same.
    pub bounds: &'static [(&'static str, Bound)],
    /// What it writes into the audit log (contract: audit-log 11).
    pub actions: &'static [&'static str],
    /// What it tells webhook endpoints ([`crate::events::EventType`]).
    pub events: &'static [&'static str],
    /// What it has mailed ([`crate::emails::Template`]).
    pub mails: &'static [&'static str],
    /// What a worker does for it by the clock.
    pub chains: &'static [ScheduledJob],
    /// What an account that is deleted loses of it.
    pub losses: &'static [OnAccountDelete],
    /// What such an account loses when its sessions have ended, because it hears of that.
    pub last_losses: &'static [OnAccountDelete],
    /// Its columns that the vault seals. A rotation of the deployment's key reseals these and no others.
    pub sealed: &'static [Sealed],
}

impl Area {
    /// An area that has nothing yet.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            kept: &[],
            purges: &[],
            bounds: &[],
            actions: &[],
            events: &[],
            mails: &[],
            chains: &[],
            losses: &[],
            last_losses: &[],
            sealed: &[],
        }
    }

    /// The tables that it alone writes.
    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        let purged = self.purges.iter().map(|purge| purge.table);
        purged.chain(self.kept.iter().map(|(table, _)| *table))
    }
}

/// What keeps a table from growing without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The number of rows, or of bytes, that one account can have.
    Account(&'static str),
    /// The term after which each row is deleted.
    Term(&'static str),
    /// No customer makes its rows, or only one for each account.
    Operator(&'static str),
}

/// What is deleted of a table when it has reached its term.
#[derive(Debug, Clone, Copy)]
pub struct Purge {
    /// What metrics and operators call all that is purged along with it.
    pub arm: &'static str,
    /// The table.
    pub table: &'static str,
    /// How.
    pub purge: PurgeRows,
    /// How many rows are left that have reached their term, where somebody wants to know it.
    pub left: Option<CountRows>,
}

impl Purge {
    /// What `purge` deletes of `table`, as a part of `arm`.
    #[must_use]
    pub const fn new(arm: &'static str, table: &'static str, purge: PurgeRows) -> Self {
        Self { arm, table, purge, left: None }
    }

    /// The same, whose rows that have reached their term are counted by `left`.
    #[must_use]
    pub const fn counting(self, left: CountRows) -> Self {
        Self { left: Some(left), ..self }
    }
}

/// Deletes rows that have reached their term, up to a number. Answers how many: none when there is nothing to do, or somebody
/// else does it.
pub type PurgeRows = for<'a> fn(&'a mut PgConnection, &'a Terms, i64) -> BoxFuture<'a, sqlx::Result<u64>>;

/// Counts rows that have reached their term.
pub type CountRows = for<'a> fn(&'a mut PgConnection, &'a Terms) -> BoxFuture<'a, sqlx::Result<u64>>;

/// Takes from an account that is being deleted what it loses, in the transaction of that; the account's row is locked. The actor
/// is who deletes it.
pub type OnAccountDelete = for<'a> fn(&'a mut PgConnection, AccountId, &'a Actor) -> BoxFuture<'a, sqlx::Result<()>>;

/// What some worker does again and again. How, the crate of workers knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledJob {
    /// As operators and metrics name it.
    pub name: &'static str,
    /// Seconds between its ticks.
    pub period: i32,
}

/// Sealed columns of one table.
#[derive(Debug, Clone, Copy)]
pub struct Sealed {
    /// Kind of secret, as `kitfleet key rotate-sealing` reports it.
    pub kind: &'static str,
    /// The table.
    pub table: &'static str,
    /// Column of the primary key that is a UUID.
    pub id: &'static str,
    /// Second column of the primary key, a text, where the key has two.
    pub part: Option<&'static str>,
    /// Purpose that the vault derives a key for.
    pub purpose: &'static str,
    /// Whether a key in `server_secrets` seals them where the deployment has none of its own ([`crate::database::vault`]).
    pub has_shared_key: bool,
    /// The columns, each with the owner that its secrets are bound to.
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
