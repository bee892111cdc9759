//! Whose turn it is at something that takes much of a process: of an account there are few at once, and whoever comes further waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::account_share;
use crate::ids::AccountId;

/// The turns of this process.
#[derive(Debug)]
pub struct AccountSemaphore {
    all: Arc<Semaphore>,
    of_account: usize,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

/// It is somebody's turn for as long as this is there.
#[derive(Debug)]
pub struct AccountPermit {
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Its turn has not come in time.
#[derive(Debug, thiserror::Error)]
#[error("too many of these requests are running; wait for one to end")]
pub struct AcquireTimeout;

impl AccountSemaphore {
    /// So many at once, in this process and of an account.
    #[must_use]
    pub fn new(of_all: usize, of_account: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(of_all)), of_account, accounts: Mutex::default() }
    }

    /// Waits for the account's turn, for as long as whoever takes it has `patience`.
    ///
    /// # Errors
    /// When it does not come in time.
    pub async fn take(&self, account: AccountId, patience: Duration) -> Result<AccountPermit, AcquireTimeout> {
        self.take_many(account, 1, patience).await
    }

    /// The same for so many turns at once: for no more than all that an account may have.
    ///
    /// # Errors
    /// When they do not come in time.
    pub async fn take_many(
        &self,
        account: AccountId,
        count: usize,
        patience: Duration,
    ) -> Result<AccountPermit, AcquireTimeout> {
        let count = u32::try_from(count.min(self.of_account)).unwrap_or(u32::MAX);
        let taken = async {
            let of_account = self.of(account).acquire_many_owned(count).await.map_err(|_| AcquireTimeout)?;
            let of_all = Arc::clone(&self.all).acquire_many_owned(count).await.map_err(|_| AcquireTimeout)?;
            Ok(AccountPermit { _of_account: of_account, _of_all: of_all })
        };
        account_share::release();
        timeout(patience, taken).await.map_err(|_| AcquireTimeout)?
    }

    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waits or has a turn refers to the semaphore too.
        accounts.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(accounts.entry(account).or_insert_with(|| Arc::new(Semaphore::new(self.of_account))))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn patience_is_the_takers() {
        let turns = AccountSemaphore::new(1, 1);
        let account = AccountId::generate();
        let first = turns.take(account, Duration::ZERO).await.expect("a turn");
        turns.take(account, Duration::from_millis(1)).await.expect_err("it is somebody's turn");
        let waiting = turns.take(account, Duration::from_hours(1));
        let (second, ()) = tokio::join!(waiting, async { drop(first) });
        second.expect("the next turn");
    }

    #[test]
    fn many_turns_are_taken_at_once_and_no_more_than_an_account_may_have() {
        let turns = AccountSemaphore::new(5, 3);
        let (greedy, other) = (AccountId::generate(), AccountId::generate());
        let take = |account, count| turns.take_many(account, count, Duration::from_secs(1)).now_or_never();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _inside = runtime.enter();
        let all_of_an_account = take(greedy, 100).expect("at once").expect("turns");
        assert!(take(greedy, 1).is_none());
        assert!(take(other, 3).is_none(), "two are left");
        drop(all_of_an_account);
        assert!(take(other, 3).is_some());
    }

    #[test]
    fn whoever_has_few_turns_waits_and_keeps_nobody_else() {
        let turns = AccountSemaphore::new(3, 2);
        let (greedy, other) = (AccountId::generate(), AccountId::generate());
        let take = |account| turns.take(account, Duration::from_secs(1)).now_or_never().and_then(Result::ok);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _inside = runtime.enter();
        let (first, second) = (take(greedy).expect("a turn"), take(greedy).expect("another"));
        assert!(take(greedy).is_none());
        let third = take(other).expect("a turn of somebody else's");
        assert!(take(AccountId::generate()).is_none(), "a process has so many");
        drop(first);
        assert!(take(greedy).is_some());
        drop((second, third));
        take(other).expect("a turn");
        assert_eq!(turns.accounts.lock().expect("the accounts").len(), 1, "who has none is forgotten");
    }
}
