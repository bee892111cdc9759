//! What an area says of itself, in one place: which tables are its own and what becomes of their rows, what it tells others, and
//! what is done for it by the clock and at an account's end.
//!
//! Each area has an [`Area`] beside its code, and [`crate::areas`] lists them. What is collected there holds for an area that comes
//! without anybody else being told of it.

use futures_util::future::BoxFuture;
use sqlx::PgConnection;

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
    pub chains: &'static [Chain],
    /// What an account that is deleted loses of it.
    pub losses: &'static [Loss],
    /// What such an account loses when its sessions have ended, because it hears of that.
    pub last_losses: &'static [Loss],
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
pub type Loss = for<'a> fn(&'a mut PgConnection, AccountId, &'a Actor) -> BoxFuture<'a, sqlx::Result<()>>;

/// What some worker does again and again. How, the crate of workers knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// As operators and metrics name it.
    pub name: &'static str,
    /// Seconds between its ticks.
    pub period: i32,
}
