//! Limits the bytes of large responses in progress, for each account and for the process (contract: limits 9).
//!
//! A response counts from before its rows are read until its last bytes are passed to the connection. Memory beyond the
//! body, such as sealed rows, is proportional to the body.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::limits::Limits;

use crate::account_semaphore::{AccountPermit, AccountSemaphore, AcquireTimeout};

/// There can be one such response for each request.
pub const UNCOUNTED: u64 = 64 * 1024;
const PIECE: u64 = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct AnswerBudget(AccountSemaphore);

/// Dropping it releases the bytes.
#[derive(Debug, Default)]
pub struct Reservation {
    _permit: Option<AccountPermit>,
}

impl AnswerBudget {
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let pieces = |bytes: u64| usize::try_from(bytes / PIECE).unwrap_or(usize::MAX >> 8).max(1);
        let of_account = pieces(limits.answer_bytes_per_account.min(limits.answer_bytes));
        Self(AccountSemaphore::new(pieces(limits.answer_bytes), of_account))
    }

    /// A response of at most 64 KiB needs no reservation. One that exceeds the account's budget is sent when the
    /// account has no other in progress.
    ///
    /// Returns an error if the bytes do not become free within 10 s.
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
        self.0.take_many(account, pieces, patience).await.map(|permit| Reservation { _permit: Some(permit) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: limits 9.
    #[tokio::test]
    async fn response_waits_while_the_budget_is_used_up() {
        const MIB: u64 = 1024 * 1024;
        let limits = Limits { answer_bytes: 3 * MIB, answer_bytes_per_account: 2 * MIB, ..Limits::default() };
        let budget = AnswerBudget::new(&limits);
        let (one, other) = (AccountId::generate(), AccountId::generate());
        let reserve = |account, bytes| budget.reserve_within(Duration::from_millis(1), account, bytes);
        let first = reserve(one, 100 * MIB).await.expect("a larger response takes the whole budget");
        reserve(one, UNCOUNTED).await.expect("a small one");
        reserve(one, UNCOUNTED + 1).await.expect_err("the account's budget is used up");
        let second = reserve(other, MIB).await.expect("another account's");
        reserve(AccountId::generate(), MIB).await.expect_err("the budget of the process is used up");
        drop((first, second));
        reserve(one, 2 * MIB).await.expect("the released bytes");
    }
}
