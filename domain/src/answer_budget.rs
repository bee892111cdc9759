//! Bytes of large answers that are under way at once, of an account and of a process (contract: limits 9).
//!
//! An answer is counted from before its rows are read until its last bytes are handed to the connection. What an answer takes beyond its own
//! bytes while it is made, such as sealed rows beside the opened ones, is in proportion to them.

use std::time::Duration;

use crate::account_semaphore::{AccountPermit, AccountSemaphore, AcquireTimeout};
use crate::ids::AccountId;
use crate::limits::Limits;

/// Bytes of an answer that is not counted: there may be as many of them as there are requests.
pub const UNCOUNTED: u64 = 64 * 1024;
/// Bytes are counted in pieces of this size.
const PIECE: u64 = 64 * 1024;
/// How long an answer waits until others have gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts the bytes of large answers.
#[derive(Debug)]
pub struct AnswerBudget(AccountSemaphore);

/// Bytes that are reserved for one answer, for as long as this is there.
#[derive(Debug, Default)]
pub struct Reservation {
    _turn: Option<AccountPermit>,
}

impl AnswerBudget {
    /// As much as these limits say.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let pieces = |bytes: u64| usize::try_from(bytes / PIECE).unwrap_or(usize::MAX >> 8).max(1);
        let of_account = pieces(limits.answer_bytes_per_account.min(limits.answer_bytes));
        Self(AccountSemaphore::new(pieces(limits.answer_bytes), of_account))
    }

    /// Reserves so many bytes for an answer to the account, of which a small one needs none. An answer that is larger than all that an
    /// account may have is sent when the account has no other under way.
    ///
    /// # Errors
    /// When too many bytes are under way for ten seconds.
    pub async fn reserve(&self, account: AccountId, bytes: u64) -> Result<Reservation, AcquireTimeout> {
        self.reserve_within(PATIENCE, account, bytes).await
    }

    async fn reserve_within(
        &self,
        patience: Duration,
        account: AccountId,
        bytes: u64,
    ) -> Result<Reservation, AcquireTimeout> {
        if bytes <= UNCOUNTED {
            return Ok(Reservation::default());
        }
        let pieces = usize::try_from(bytes.div_ceil(PIECE)).unwrap_or(usize::MAX);
        self.0.take_many(account, pieces, patience).await.map(|turn| Reservation { _turn: Some(turn) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: limits 9.
    #[tokio::test]
    async fn answers_wait_for_the_bytes_of_others() {
        const MIB: u64 = 1024 * 1024;
        let limits = Limits { answer_bytes: 3 * MIB, answer_bytes_per_account: 2 * MIB, ..Limits::default() };
        let budget = AnswerBudget::new(&limits);
        let (one, other) = (AccountId::generate(), AccountId::generate());
        let reserve = |account, bytes| budget.reserve_within(Duration::from_millis(1), account, bytes);
        let first = reserve(one, 100 * MIB).await.expect("more than there is counts as all");
        reserve(one, UNCOUNTED).await.expect("a small one");
        reserve(one, UNCOUNTED + 1).await.expect_err("the account has as much as it may");
        let second = reserve(other, MIB).await.expect("another account's");
        reserve(AccountId::generate(), MIB).await.expect_err("the process has as much as it may");
        drop((first, second));
        reserve(one, 2 * MIB).await.expect("the bytes of others");
    }
}
